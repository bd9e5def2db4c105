#include "support/policy_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/draw.h"

/*
 * A cluster and its workload
 */

static const char *const model[] = {"H100", "T4", "A100"};
static const char *const words[SHAPES] = {"250",  "300",   "500", "1000",   "2000",
                                          "4000", "400x2", "810", "300+200"};
static const uint32_t cores[SHAPES] = {1, 0, 4, 8, 12, 20, 3, 2, 1};

const char *cluster_node(struct core_fixture *core, uint32_t node)
{
    return arena_printf(&core->arena, "n-%u", node);
}

void cluster_show_node(struct core_fixture *core, uint32_t node, uint32_t gpus, uint64_t links)
{
    struct core_gpu gpu[GPUS + 1];
    for (uint32_t i = 0; i < gpus; i++) {
        gpu[i] = (struct core_gpu){.index = i, .mib = 16000};
        for (uint32_t k = 0; k < i && links != 0; k++)
            if (draw_below(&links, 2) == 0) {
                gpu[i].peers |= (uint64_t)1 << k;
                gpu[k].peers |= (uint64_t)1 << i;
            }
        gpu[i].socket = links != 0 ? draw_below(&links, 3) : 0;
    }
    struct inventory *inventory =
        core_inventory(core, cluster_node(core, node), "node-uid", gpu, gpus);
    for (uint32_t i = 0; i < gpus; i++)
        inventory->gpu[i].model = model[(node + (node % 5 == 0 ? i : 0)) % ARRAY_LEN(model)];
    const struct command command = {
        .kind = COMMAND_NODE, .node = inventory->node, .inventory = inventory, .at_ms = 1};
    const enum verdict verdict = core_do_quickly(core, &command);
    assert_true(verdict == VERDICT_OK || verdict == VERDICT_SAME);
}

struct host cluster_host(uint32_t cpu_milli)
{
    return (struct host){.cpu_milli = cpu_milli, .memory_mib = 64000};
}

void cluster_show(struct core_fixture *core, bool linked)
{
    for (uint32_t i = 0; i < NODES; i++) {
        const struct host host = cluster_host(8000 * (1 + i % 4));
        cluster_show_node(core, i, 1 + i % GPUS, linked && i % 6 != 0 ? i : 0);
        if (i % 7 != 0)
            assert_true(ledger_set_host(core->ledger, text_of(cluster_node(core, i)), &host));
    }
}

struct request *cluster_shape(struct core_fixture *core, uint32_t i)
{
    static const char *wanted[] = {"H100", "A1*"};
    struct request *request = core_request(core, words[i % SHAPES]);
    request->host = cluster_host(1000 * cores[i % SHAPES]);
    request->host.memory_mib = 100 * cores[i % SHAPES];
    request->n_models = i % 11 == 3 ? 1 + i % 2 : 0;
    request->model = wanted;
    return request;
}

struct workload *cluster_workload(struct core_fixture *core, uint32_t classes)
{
    struct workload_class class[SHAPES];
    for (uint32_t i = 0; i < classes; i++) {
        workload_class_of(cluster_shape(core, i), &class[i]);
        class[i].count = 1 + 5 * i % 7;
    }
    return workload_new(class, classes);
}

void cluster_set_policy(struct core_fixture *core, enum policy_kind kind, uint32_t classes)
{
    struct workload *workload = cluster_workload(core, classes);
    struct policy_context *context = policy_context_new(kind, SEED, workload);
    ledger_set_policy_context(core->ledger, context);
    policy_context_unref(context);
    workload_unref(workload);
}

void cluster_set_levels(struct core_fixture *core, enum policy_kind kind, uint32_t classes)
{
    struct workload *workload = cluster_workload(core, classes);
    struct rulebook *book = rulebook_new(kind, "levels");
    book->seed = SEED;
    book->raise = true;
    book->prices_by = PRICES_KNOWN;
    core_obey(core, book, 0, workload);
    workload_unref(workload);
}

/*
 * A question about all nodes
 */

void cluster_ask(struct asked *asked, struct core_fixture *core, const struct request *request,
                 struct score_cache *cache)
{
    *asked = (struct asked){.snapshot = ledger_publish(core->ledger, NULL, 0)};
    arena_init(&asked->arena);
    for (uint32_t i = 0; i < NODES; i++)
        asked->name[i] = text_of(cluster_node(core, i));
    asked->question = (struct filter_question){.snapshot = asked->snapshot,
                                               .request = request,
                                               .uid = TEXT("asking"),
                                               .n_names = NODES,
                                               .name = asked->name,
                                               .cache = cache};
    filter_ask(&asked->question, &asked->arena, &asked->answer);
}

void cluster_ask_done(struct asked *asked)
{
    snapshot_unref(asked->snapshot);
    arena_done(&asked->arena);
}

void assert_same_answers(const struct filter_answer *a, const struct filter_answer *b)
{
    assert_int_equal(a->verdict, b->verdict);
    assert_int_equal(a->n_candidates, b->n_candidates);
    assert_memory_equal(a->cause, b->cause, NODES * sizeof *a->cause);
    for (uint32_t i = 0; i < a->n_candidates; i++) {
        struct rank one = a->candidate[i].rank;
        struct rank other = b->candidate[i].rank;
        one.steps = 0; /* a remembered search takes none */
        other.steps = 0;
        assert_int_equal(a->candidate[i].name, b->candidate[i].name);
        assert_int_equal(one.exact, other.exact);
        assert_int_equal(one.is_unscored, other.is_unscored);
        assert_int_equal(one.distance, other.distance);
        assert_int_equal(one.price, other.price);
        assert_int_equal(one.raised_milli, other.raised_milli);
        assert_int_equal(one.charge_milli, other.charge_milli);
        assert_int_equal(one.left_milli, other.left_milli);
        assert_int_equal(one.free_milli, other.free_milli);
        assert_int_equal(one.judged, other.judged);
        assert_int_equal(one.work, other.work);
        assert_int_equal(one.order, other.order);
        assert_memory_equal(one.key, other.key, sizeof one.key);
    }
    if (a->n_candidates == 0)
        return;
    const struct placement *one = a->candidate[0].placement;
    const struct placement *other = b->candidate[0].placement;
    assert_int_equal(one->n_parts, other->n_parts);
    assert_memory_equal(one->part, other->part, one->n_parts * sizeof one->part[0]);
}
