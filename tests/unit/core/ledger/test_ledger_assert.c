#include <stdio.h>
#include <string.h>

#include "core/ledger/ledger_internal.h"
#include "support/aborts.h"
#include "support/core_fixture.h"
#include "support/rules.h"
#include "support/test.h"
#include "support/valid.h"

/* n1: GPU-a with reserved pod a, GPU-b with bound pod b; n2, n4: no pods; n3: GPU-a again. */
static int set_up(void **state)
{
    static struct core_fixture core;
    static const struct core_gpu two[] = {{.id = "GPU-a", .index = 0, .mib = 1000},
                                          {.id = "GPU-b", .index = 1, .mib = 1000}};
    static const struct core_gpu counted[] = {{.index = 0, .mib = 1000}};
    static const struct core_gpu spare[] = {{.id = "GPU-x", .index = 0, .mib = 1000},
                                            {.id = "GPU-y", .index = 1, .mib = 1000}};
    core_init(&core);
    (void)core_node(&core, "n1", two, 2);
    (void)core_node(&core, "n2", counted, 1);
    (void)core_node(&core, "n3", two, 1);
    (void)core_node(&core, "n4", spare, 2);
    (void)core_reserve(&core, "a", "n1", "300");
    (void)core_reserve(&core, "b", "n1", "1000");
    (void)core_step(&core, COMMAND_CONFIRM, "b");
    *state = &core;
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct core_fixture *core, set_up, core_tear_down)

static void assert_found(const struct core_fixture *core, const char *says)
{
    struct err err;
    assert_int_equal(ledger_check(core->ledger, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, says);
}

/* A stray write is found; once it is put right, the check passes again. */
static void assert_found_at(const struct core_fixture *core, const void *at, const void *put,
                            size_t bytes, const char *says)
{
    char kept[16];
    struct err err;
    void *here = (void *)(uintptr_t)at;
    assert_true(bytes <= sizeof kept);
    memcpy(kept, here, bytes);
    memcpy(here, put, bytes);
    assert_found(core, says);
    memcpy(here, kept, bytes);
    assert_int_equal(ledger_check(core->ledger, &err), 0);
}

/* n4 is the only host with two free GPUs. */
FIXTURE_TEST(check__counts_idle_hosts)
{
    static const struct rule keeps[] = {{.min_milli = 1}, {.reserve = 1}};
    const uint32_t two = 2, one = 1;
    struct err err;
    struct rulebook *book = rulebook_with(POLICY_BINPACK, "book", keeps, 2);
    struct policy_context *context = policy_context_of_rulebook(book, 3, NULL);
    core_forget_undo(core);
    ledger_set_policy_context(core->ledger, context);
    const struct policy_context *now = ledger_policy_context(core->ledger);
    assert_int_equal(ledger_check(core->ledger, &err), 0);
    assert_int_equal(now->idle[1], 1);
    assert_found_at(core, &now->idle[1], &two, sizeof two,
                    "the ledger counts 2 idle hosts of rule 2 where there are 1");
    assert_found_at(core, &now->idle[0], &one, sizeof one,
                    "the ledger counts 1 idle hosts of rule 1 where there are 0");
    policy_context_unref(context);
    rulebook_unref(book);
}

FIXTURE_TEST(check__accepts_a_ledger_without_nodes)
{
    struct err err;
    struct ledger *ledger = ledger_new();
    assert_int_equal(ledger_places(ledger), 0);
    assert_int_equal(ledger_check(ledger, &err), 0);
    ledger_free(ledger);
}

FIXTURE_TEST(check__names_a_wrong_gpu)
{
    const uint32_t none = 0, large = 1001;
    const struct gpu *a = core_gpu(core, "n1", "GPU-a");
    const struct gpu *b = core_gpu(core, "n1", "GPU-b");
    const struct gpu *again = core_gpu(core, "n3", "GPU-a");
    const struct gpu *x = core_gpu(core, "n4", "GPU-x");
    const struct gpu *y = core_gpu(core, "n4", "GPU-y");
    const struct atom *z = names_intern(ledger_names(core->ledger), TEXT("GPU-z"));
    static const char owners[] = "the table of owners has another node for it, or none";
    static const char lost[] = "it is not found by its name";
    static const char size[] = "its size is not 1 to 1000 milli";
    const struct {
        const void *at;
        const void *put;
        size_t bytes;
        const char *where;
        const char *says;
    } wrong[] = {
        {&again->milli, &none, sizeof none, "node n3: GPU GPU-a: ", size},
        {&again->milli, &large, sizeof large, "node n3: GPU GPU-a: ", size},
        {&b->alias_number, &a->alias_number, sizeof a->alias_number, "node n1: GPU GPU-b: ", lost},
        {&b->id->text[4], "a", 1, "node n1: GPU GPU-a: ", lost},
        {&x->id, &z, sizeof z, "node n4: GPU GPU-z: ", owners},
        {&y->id, &z, sizeof z, "node n4: GPU GPU-z: ", owners},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        char says[128];
        (void)snprintf(says, sizeof says, "%s%s", wrong[i].where, wrong[i].says);
        assert_found_at(core, wrong[i].at, wrong[i].put, wrong[i].bytes, says);
    }
}

FIXTURE_TEST(check__names_a_node_or_pod_that_is_not_found)
{
    struct err err;
    struct map *open = &core->ledger->open;
    const struct node *n2 = ledger_node(core->ledger, TEXT("n2"));
    const struct node *n3 = ledger_node(core->ledger, TEXT("n3"));
    assert_found_at(core, &n2->name, &n3->name, sizeof n2->name,
                    "node n3: it is not found by its name");
    assert_found_at(core, ledger_find(core->ledger, TEXT("b"))->facts.uid, "c", 1,
                    "node n1: pod c: the table of live allocations has another for it, or none");

    static const bool unbound = true;
    assert_found_at(core, &ledger_find(core->ledger, TEXT("a"))->facts.listed_unbound, &unbound,
                    sizeof unbound, "node n1: pod a: it is listed unbound, and not bound");

    const struct node *n1 = ledger_node(core->ledger, TEXT("n1"));
    assert_found_at(core, &n1->names, &n2->names, sizeof n1->names,
                    "node n1: it does not hold its names");

    void *a = map_take(open, TEXT("a"));
    assert_found(core, "node n1: pod a: the table of reservations is wrong about it");
    assert_null(map_put(open, TEXT("a"), a));
    assert_int_equal(ledger_check(core->ledger, &err), 0);
}

FIXTURE_TEST(check__counts_free_places)
{
    const size_t one = 1;
    assert_int_equal(core->ledger->places, 4);
    assert_found_at(core, &core->ledger->n_free_slots, &one, sizeof one,
                    "the ledger counts 1 free places where there are 0");
}

FIXTURE_TEST(check__compares_each_count)
{
    struct ledger *ledger = core->ledger;
    const size_t five = 5, three = 3, two = 2;
    const uint32_t none = 0;
    assert_found_at(core, &ledger->slots.count, &five, sizeof five,
                    "the ledger counts 5 nodes where there are 4");
    assert_found_at(core, &ledger->live.count, &three, sizeof three,
                    "the ledger counts 3 allocations where there are 2");
    assert_found_at(core, &ledger->open.count, &two, sizeof two,
                    "the ledger counts 2 reservations where there are 1");
    assert_found_at(core, &ledger->n_owners, &five, sizeof five,
                    "the ledger counts 5 GPUs with an owner where there are 4");
    assert_found_at(core, &ledger->duplicates, &none, sizeof none,
                    "the ledger counts 0 duplicate GPUs where there are 1");
    const struct core_gpu moment = {.id = "GPU-m"};
    (void)core_node(core, "n5", &moment, 1);
    (void)core_node(core, "n5", NULL, 0);
    const struct node *n5 = ledger_node(ledger, TEXT("n5"));
    assert_int_equal(n5->n_owned_ids, 1);
    const struct atom *other = names_intern(ledger_names(ledger), TEXT("GPU-q"));
    assert_found_at(core, &n5->owned_id[0], &other, sizeof other,
                    "node n5: claim GPU-q: the table of owners has another node for it, or none");
}

FIXTURE_TEST(check__names_a_wrong_claim)
{
    struct ledger *ledger = core->ledger;
    static const struct core_gpu three[] = {
        {.id = "GPU-m"}, {.id = "GPU-n", .index = 1}, {.id = "GPU-o", .index = 2}};
    static const struct core_gpu two[] = {{.id = "GPU-r"}, {.id = "GPU-s", .index = 1}};
    static const struct core_gpu one = {.id = "GPU-t"};
    const bool gone = true;
    (void)core_node(core, "n5", three, 3);
    (void)core_node(core, "n5", NULL, 0);
    (void)core_node(core, "n6", two, 2);
    (void)core_node(core, "n6", &two[1], 1);
    (void)core_node(core, "n7", &one, 1);
    (void)core_node(core, "n7", NULL, 0);
    const struct node *n5 = ledger_node(ledger, TEXT("n5"));
    const struct node *n6 = ledger_node(ledger, TEXT("n6"));
    const struct node *n7 = ledger_node(ledger, TEXT("n7"));
    const struct atom *between = names_intern(ledger_names(ledger), TEXT("GPU-nn"));
    assert_int_equal(n5->n_owned_ids, 3);
    assert_int_equal(n6->n_owned_ids, 1);
    assert_int_equal(n7->n_owned_ids, 1);
    assert_found_at(core, &n5->owned_id[0], &n5->owned_id[1], sizeof between,
                    "node n5: what it claims stands in the wrong place, or twice");
    assert_found_at(core, &n5->owned_id[1], &between, sizeof between,
                    "node n5: claim GPU-nn: the table of owners has another node for it, or none");
    assert_found_at(core, &n6->owned_id[0], &n6->gpu[0].id, sizeof between,
                    "node n6: it claims a GPU that it has");
    assert_found_at(core, &n7->gone, &gone, sizeof gone, "node n7: it is gone, and claims a GPU");
}

FIXTURE_TEST(check__finds_a_node_missing_among_duplicates)
{
    struct ledger *ledger = core->ledger;
    struct err err;
    const size_t one = 1;
    static const struct core_gpu again = {.id = "GPU-a"};
    (void)core_node(core, "n8", &again, 1);
    const struct duplicate_nodes *duplicate_nodes =
        map_find(&ledger->duplicate_nodes, TEXT("GPU-a"));
    assert_int_equal(duplicate_nodes->count, 2);
    assert_found_at(core, &duplicate_nodes->count, &one, sizeof one,
                    "node n8: GPU GPU-a: the table of duplicate nodes does not have it");
    void *taken = map_take(&ledger->duplicate_nodes, TEXT("GPU-a"));
    assert_found(core, "node n3: GPU GPU-a: the table of duplicate nodes does not have it");
    assert_null(map_put(&ledger->duplicate_nodes, TEXT("GPU-a"), taken));
    assert_int_equal(ledger_check(ledger, &err), 0);
}

/* The loop ends when one is in the first slot of the table. */
FIXTURE_TEST(check__counts_every_duplicate_owner)
{
    struct ledger *ledger = core->ledger;
    size_t at = 0;
    for (uint32_t i = 0; at != 1 && i < 1000; i++) {
        char name[2][16];
        char id[16];
        (void)snprintf(id, sizeof id, "GPU-%u", i);
        const struct core_gpu gpu = {.id = id};
        for (uint32_t k = 0; k < 2; k++) {
            (void)snprintf(name[k], sizeof name[k], "m%u-%u", i, k);
            (void)core_node(core, name[k], &gpu, 1);
        }
        at = 0;
        assert_non_null(map_next(&ledger->duplicate_nodes, &at));
    }
    assert_int_equal(at, 1);
    ledger_assert_valid(ledger);
}

FIXTURE_TEST(check_some__skips_free_places)
{
    struct err err;
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n2"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_int_equal(ledger_check_some(core->ledger, 0, 100, &err), 0);
}

static void assert_valid(void *ledger)
{
    ledger_assert_valid(ledger);
}

FIXTURE_TEST(assert_valid__aborts_on_a_wrong_ledger)
{
    ledger_assert_valid(core->ledger);
    core->ledger->duplicates++;
    assert_true(aborts(assert_valid, core->ledger));
    core->ledger->duplicates--;
}
