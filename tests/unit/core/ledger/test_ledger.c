#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/ledger/reconcile.h"

#include "core/ledger/ledger_internal.h"
#include "support/core_fixture.h"
#include "support/placements.h"
#include "support/test.h"
#include "support/valid.h"
#include "support/walk.h"

static const struct core_gpu two_a100[] = {{.id = "GPU-a", .index = 0, .mib = 81920},
                                           {.id = "GPU-b", .index = 1, .mib = 81920}};
static const struct core_gpu two_counted[] = {{.index = 0, .mib = 81920},
                                              {.index = 1, .mib = 81920}};

CORE_TEST(life__keeps_the_time_of_each_step)
{
    const struct command terminating = {
        .kind = COMMAND_TERMINATING, .uid = "a", .terminating_ms = 777};
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core_reserve(core, "a", "n1", "300"), VERDICT_OK);
    assert_int_equal(ledger_find(core->ledger, TEXT("a"))->facts.reserved_ms, core->now_ms);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    assert_int_equal(ledger_find(core->ledger, TEXT("a"))->facts.bound_ms, core->now_ms);
    assert_int_equal(core_do(core, &terminating), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    const struct allocation_facts *released = &core->done[core->n_done - 1].after->facts;
    assert_int_equal(released->state, STATE_RELEASED);
    assert_int_equal(released->released_ms, core->now_ms);
    assert_int_equal(released->terminating_ms, 777);
}

/* As in the database: neither a bound nor a released one is in doubt. */
CORE_TEST(doubt__ends_with_the_reservation)
{
    static const enum command_kind end[] = {COMMAND_CONFIRM, COMMAND_RELEASE};
    (void)core_node(core, "n1", two_a100, 2);
    for (size_t i = 0; i < ARRAY_LEN(end); i++) {
        (void)core_reserve(core, i == 0 ? "a" : "b", "n1", "300");
        assert_int_equal(core_step(core, COMMAND_DOUBT, i == 0 ? "a" : "b"), VERDICT_OK);
        assert_true(core->done[core->n_done - 1].after->facts.in_doubt);
        assert_int_equal(core_step(core, end[i], i == 0 ? "a" : "b"), VERDICT_OK);
        assert_false(core->done[core->n_done - 1].after->facts.in_doubt);
    }
}

CORE_TEST(same__returns_the_allocation_that_is_there)
{
    struct change change;
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_step(core, COMMAND_CONFIRM, "a");
    const struct command confirm = {.kind = COMMAND_CONFIRM, .at_ms = 1, .uid = "a"};
    assert_int_equal(ledger_decide(core->ledger, &confirm, &change), VERDICT_SAME);
    assert_ptr_equal(change.held, ledger_find(core->ledger, TEXT("a")));
    const struct command judged_again = {
        .kind = COMMAND_VERSION, .uid = "a", .version = 5, .request = core_request(core, "300")};
    assert_int_equal(ledger_decide(core->ledger, &judged_again, &change), VERDICT_SAME);
    assert_ptr_equal(change.held, ledger_find(core->ledger, TEXT("a")));
}

CORE_TEST(journal_entry__changes_nothing)
{
    (void)core_node(core, "n1", two_a100, 2);
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    const struct command entry[] = {
        {.kind = COMMAND_CLOCK, .at_ms = 5, .clock_from_ms = 9},
        {.kind = COMMAND_POLICY, .at_ms = 5},
        {.kind = COMMAND_OVER, .at_ms = 5, .uid = "a", .container = "c0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(entry); i++) {
        assert_int_equal(core_do(core, &entry[i]), VERDICT_OK);
        assert_null(core->done[core->n_done - 1].node_after);
        assert_false(change_gives_room(&core->done[core->n_done - 1]));
    }
    CLEANUP(xfreep) char *after = core_dump(core->ledger);
    assert_string_equal(before, after);
}

static enum verdict go(struct core_fixture *core, const char *node)
{
    const struct command command = {.kind = COMMAND_NODE_GONE, .node = node};
    return core_do(core, &command);
}

/* As the writer does after every change. */
static void heal(struct core_fixture *core)
{
    const struct node *node;
    for (int i = 0; (node = ledger_stale_duplicate(core->ledger)) != NULL; i++) {
        const struct command again = {.kind = COMMAND_NODE, .node = node->name->text};
        assert_int_equal(core_do(core, &again), VERDICT_OK);
        assert_true(i < 100);
    }
}

static enum verdict node_of(struct core_fixture *core, const char *name, const char *uid,
                            const struct core_gpu *gpu, uint32_t gpus)
{
    const struct command command = {.kind = COMMAND_NODE,
                                    .inventory = core_inventory(core, name, uid, gpu, gpus)};
    const enum verdict verdict = core_do(core, &command);
    heal(core);
    return verdict;
}

/* The search runs after every change, so it is limited to ids whose owner changed. */
CORE_TEST(duplicates__are_searched_only_among_changed_ids)
{
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core->ledger->n_undecided, 0);
    (void)core_node(core, "n2", two_a100, 2);
    assert_int_equal(core->ledger->n_undecided, 2);
    heal(core);
    assert_int_equal(core->ledger->n_undecided, 0);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_step(core, COMMAND_RELEASE, "a");
    assert_int_equal(core->ledger->n_undecided, 0);
    (void)go(core, "n1");
    assert_int_equal(core->ledger->n_undecided, 2);
    assert_non_null(ledger_stale_duplicate(core->ledger));
    assert_int_not_equal(core->ledger->n_undecided, 0); /* remains until it is healed */
    heal(core);
    assert_int_equal(core->ledger->n_undecided, 0);
    assert_int_equal(core->ledger->duplicate_nodes.count, 0);
}

CORE_TEST(undecided_id__is_queued_once)
{
    (void)core_node(core, "n1", two_a100, 2);
    for (uint32_t i = 0; i < 5; i++) {
        (void)core_node(core, "n2", two_a100, 2);
        (void)core_node(core, "n2", NULL, 0);
    }
    assert_int_equal(core->ledger->n_undecided, 2);
}

CORE_TEST(duplicate_owners__leave_one_by_one)
{
    enum { DUPLICATE_OWNERS = 64 };
    char name[16];
    (void)core_node(core, "owner", two_a100, 1);
    for (uint32_t i = 0; i < DUPLICATE_OWNERS; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        (void)core_node(core, name, two_a100, 1);
    }
    for (uint32_t i = 0; i < DUPLICATE_OWNERS; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        assert_int_equal(go(core, name), VERDICT_OK);
    }
    assert_int_equal(core->ledger->duplicate_nodes.count, 0);
}

/* A map that keeps keys beside values needs twice the memory. */
CORE_TEST(ledger__has_the_uid_of_an_allocation_once)
{
    (void)core_node(core, "n", &(struct core_gpu){.id = "g"}, 1);
    assert_int_equal(core_reserve(core, "u", "n", "100"), VERDICT_OK);
    assert_non_null(core->ledger->live.now.pair);
    assert_null(core->ledger->live.now.key);
    assert_non_null(core->ledger->open.now.pair);
    assert_null(core->ledger->open.now.key);
}

CORE_TEST(ledger_settle__ends_the_growth_of_each_table)
{
    struct ledger *ledger = core->ledger;
    struct map *const maps[] = {&ledger->slots, &ledger->live, &ledger->open};
    char name[16];

    for (uint32_t i = 0; i < 13; i++) { /* one more than 16 slots hold */
        (void)snprintf(name, sizeof name, "n%u", i);
        (void)core_node(core, name, &(struct core_gpu){.id = name}, 1);
        assert_int_equal(core_reserve(core, name, name, "100"), VERDICT_OK);
    }
    for (size_t i = 0; i < ARRAY_LEN(maps); i++)
        assert_non_null(maps[i]->old.pair);
    ledger_settle(ledger, 1);
    for (size_t i = 0; i < ARRAY_LEN(maps); i++)
        assert_non_null(maps[i]->old.pair);
    ledger_settle(ledger, SIZE_MAX);
    for (size_t i = 0; i < ARRAY_LEN(maps); i++)
        assert_null(maps[i]->old.pair);
    for (uint32_t i = 0; i < 13; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        assert_non_null(ledger_node(ledger, text_of(name)));
        assert_non_null(ledger_find(ledger, text_of(name)));
    }
}

CORE_TEST(claims__are_at_most_the_gpus_of_a_node)
{
    for (int i = 0; i < 200; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "GPU-%03d", i);
        const struct core_gpu gpu = {.id = id};
        (void)node_of(core, "n1", "u1", &gpu, 1);
    }
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->n_owned_ids, GPUS_PER_NODE_MAX);
    assert_int_equal(core->ledger->n_owners, GPUS_PER_NODE_MAX + 1);
    (void)go(core, "n1");
    assert_int_equal(core->ledger->n_owners, 0);
}

CORE_TEST(owner__is_the_node_with_the_uuid)
{
    assert_int_equal(core_node(core, "n1", two_a100, 2), VERDICT_OK);
    assert_ptr_equal(ledger_owner(core->ledger, TEXT("GPU-b")),
                     ledger_node(core->ledger, TEXT("n1")));
    assert_null(ledger_owner(core->ledger, TEXT("GPU-z")));
}

CORE_TEST(next_open__visits_reservations_only)
{
    size_t at = 0;
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    (void)core_reserve(core, "b", "n1", "300");
    (void)core_step(core, COMMAND_CONFIRM, "b");
    assert_ptr_equal(ledger_next_open(core->ledger, &at), ledger_find(core->ledger, TEXT("a")));
    assert_null(ledger_next_open(core->ledger, &at));
}

/* Version 1 reserves; later ones are judged again. */
static enum verdict judge(struct core_fixture *core, uint64_t version,
                          const struct request *request)
{
    const struct command command = {.kind = version == 1 ? COMMAND_RESERVE : COMMAND_VERSION,
                                    .at_ms = core->now_ms,
                                    .uid = "a",
                                    .namespace = "default",
                                    .name = "a",
                                    .node = "n1",
                                    .version = version,
                                    .request = request};
    return core_do(core, &command);
}

CORE_TEST(version__is_refused_if_the_topology_is_not_met)
{
    static const struct core_gpu gpu[] = {
        {.id = "GPU-a", .index = 0, .socket = 1, .peers = 1 << 1 | 1 << 5},
        {.id = "GPU-b", .index = 1, .socket = 2, .peers = 1 << 0},
        {.id = "GPU-c", .index = 2, .socket = 2},
        {.id = "GPU-d", .index = 3},
        {.id = "GPU-e", .index = 4},
        {.id = "GPU-f", .index = 5, .socket = 1, .peers = 1 << 0},
        {.id = "GPU-g", .index = 6, .socket = 1},
    };
    static const struct {
        const char *words;
        uint32_t gpus[3]; /* the only GPUs with room */
        bool nvlink;
        bool numa;
    } row[] = {
        {"700x2", {0, 1, 1}, true, false},
        {"700x2", {1, 2, 2}, false, true},
        {"700x2", {3, 4, 4}, false, false}, /* an unknown NUMA node is none */
        {"700x2", {5, 6, 6}, false, true},
        {"700", {3, 3, 3}, true, true},
        {"700+700", {0, 2, 2}, true, true}, /* each container by itself */
        {"700x3", {0, 5, 6}, false, true},
        {"700x3", {0, 1, 5}, false, false}, /* the first is linked with both, and these are not */
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct core_gpu shown[ARRAY_LEN(gpu)];
        memcpy(shown, gpu, sizeof gpu);
        for (uint32_t k = 0; k < ARRAY_LEN(gpu); k++)
            shown[k].sick = k != row[i].gpus[0] && k != row[i].gpus[1] && k != row[i].gpus[2];
        (void)core_node(core, "n1", shown, ARRAY_LEN(shown));
        struct request *request = core_request(core, row[i].words);
        assert_int_equal(judge(core, 1, request), VERDICT_OK);
        request->topology = TOPOLOGY_NVLINK;
        assert_int_equal(judge(core, 2, request), row[i].nvlink ? VERDICT_OK : VERDICT_REFUSED);
        request->topology = TOPOLOGY_NUMA;
        assert_int_equal(judge(core, 3, request), row[i].numa ? VERDICT_OK : VERDICT_REFUSED);
        request->topology = TOPOLOGY_ANY;
        assert_int_equal(judge(core, 4, request), VERDICT_OK);
        assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    }
}

/* Its place is behind the last bit of a set of links. */
CORE_TEST(absent_gpu__has_no_links)
{
    struct core_gpu gpu[GPUS_PER_NODE_MAX];
    static char name[GPUS_PER_NODE_MAX + 1][16];
    for (uint32_t i = 0; i < ARRAY_LEN(gpu); i++) {
        (void)snprintf(name[i], sizeof name[i], "GPU-%02u", i);
        gpu[i] = (struct core_gpu){.id = name[i], .index = i, .sick = i > 1};
    }
    gpu[0].peers = 1 << 1;
    gpu[1].peers = 1 << 0;
    (void)core_node(core, "n1", gpu, ARRAY_LEN(gpu));
    struct request *request = core_request(core, "700x2");
    assert_int_equal(judge(core, 1, request), VERDICT_OK);
    request->topology = TOPOLOGY_NVLINK;
    assert_int_equal(judge(core, 2, request), VERDICT_OK);
    gpu[1].id = "GPU-new";
    (void)core_node(core, "n1", gpu, ARRAY_LEN(gpu));
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->n_gpus, ARRAY_LEN(gpu) + 1);
    assert_int_equal(judge(core, 3, request), VERDICT_REFUSED);
}

/* When the owner leaves, only one of the many nodes with its UUID is visited. */
CORE_TEST(next_owner__is_found_without_a_search_of_all_nodes)
{
    enum { NODES = 100 };
    char name[32];
    for (uint32_t i = 0; i < NODES; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        (void)core_node(core, name, two_a100, 1);
    }
    for (uint32_t i = 0; i + 1 < NODES; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        heal(core);
        assert_int_equal(core->ledger->n_undecided, 0);
        assert_int_equal(go(core, name), VERDICT_OK);
        assert_int_equal(core->ledger->n_undecided, 1);
        (void)snprintf(name, sizeof name, "n%u", i + 1);
        assert_string_equal(ledger_stale_duplicate(core->ledger)->name->text, name);
    }
}

/* A freed place is reused without a search of the others. */
CORE_TEST(free_place__is_reused_without_a_search)
{
    enum { NODES = BOOK_NODES + 5 };
    char name[32];
    for (uint32_t i = 0; i < NODES; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        core_show_quickly(core, name, two_a100, 0);
    }
    const uint64_t indexed = core->ledger->indexed;
    for (uint32_t i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "n%u", i * 7);
        const struct command gone = {.kind = COMMAND_NODE_GONE, .node = name};
        assert_int_equal(core_do_quickly(core, &gone), VERDICT_OK);
        assert_int_equal(core->ledger->n_free_slots, 1);
        const struct snapshot *without = ledger_publish(core->ledger, NULL, 0);
        assert_null(snapshot_node(without, text_of(name)));
        core_show_quickly(core, name, two_a100, 0);
        const struct snapshot *with = ledger_publish(core->ledger, NULL, 0);
        assert_null(snapshot_node(without, text_of(name)));
        assert_non_null(snapshot_node(with, text_of(name)));
        snapshot_unref(without);
        snapshot_unref(with);
        assert_int_equal(core->ledger->places, NODES);
    }
    ledger_assert_valid(core->ledger);
    assert_int_equal(core->ledger->indexed - indexed, 100); /* one entry per node added */
}

CORE_TEST(share__keeps_the_node_uid_of_its_grant)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    (void)node_of(core, "n1", "second", two_a100, 2);
    assert_string_equal(ledger_node(core->ledger, TEXT("n1"))->uid->text, "second");
    const struct allocation *a = ledger_find(core->ledger, TEXT("a"));
    assert_string_equal(a->facts.node_uid->text, "node-uid");
}

CORE_TEST(annotations__add_at_most_64_gpus)
{
    char uid[32];
    char note[64];
    (void)core_node(core, "n1", two_a100, 2);
    for (int i = 0; i < 80; i++) {
        (void)snprintf(uid, sizeof uid, "pod-%d", i);
        (void)snprintf(note, sizeof note, "c0 GPU-forged-%d 100 1", i);
        struct pod *pod = core_pod(core, uid, "n1");
        core_note(core, pod, note);
        assert_int_equal(core_adopt(core, pod, "100"), VERDICT_OK);
    }
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->n_gpus, GPUS_PER_NODE_MAX);
}

CORE_TEST(node__may_keep_more_gpus_than_it_may_show)
{
    char id[2][GPUS_PER_NODE_MAX][32];
    struct core_gpu gpu[2][GPUS_PER_NODE_MAX] = {{{0}}};
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        for (int set = 0; set < 2; set++) {
            (void)snprintf(id[set][i], sizeof id[set][i], "GPU-%d-%u", set, i);
            gpu[set][i] = (struct core_gpu){.id = id[set][i], .index = i};
        }
    assert_int_equal(core_node(core, "n1", gpu[0], GPUS_PER_NODE_MAX), VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "n1", "64000"), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", gpu[1], GPUS_PER_NODE_MAX), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->n_gpus, 2 * GPUS_PER_NODE_MAX);
    assert_int_equal(core_reserve(core, "b", "n1", "64000"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "c", "n1", "1"), VERDICT_REFUSED);
    struct pod *pod = core_pod(core, "d", "n1");
    core_note(core, pod, "c0 GPU-forged 100 1"); /* otherwise GPUs would grow without limit */
    assert_int_equal(core_adopt(core, pod, "100"), VERDICT_OK);
    assert_true(ledger_find(core->ledger, TEXT("d"))->facts.presumed);
}

/* n1 while it holds a pod with 300 milli and this much memory; the caller gets a reference. */
static const struct node *node_holding(struct core_fixture *core, uint32_t mib)
{
    char note[32];
    struct pod *pod = core_pod(core, "a", "n1");
    (void)snprintf(note, sizeof note, "c0 GPU-a 300 %u", mib);
    core_note(core, pod, note);
    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_mib, mib);
    const struct node *node = node_ref(ledger_node(core->ledger, TEXT("n1")));
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    return node;
}

CORE_TEST(room__is_given_by_memory_alone)
{
    const struct core_gpu gpu = {.id = "GPU-a", .mib = 1000};
    static const struct {
        uint32_t from;
        uint32_t to;
        bool gives;
    } line[] = {{500, 400, true},   {400, 500, false},   {1000, 999, true},
                {999, 1000, false}, {1000, 1000, false}, {400, 400, false}};
    (void)core_node(core, "n1", &gpu, 1);
    for (size_t i = 0; i < ARRAY_LEN(line); i++) {
        struct change change = {.kind = COMMAND_NODE,
                                .verdict = VERDICT_OK,
                                .node_before = node_holding(core, line[i].from),
                                .node_after = node_holding(core, line[i].to)};
        assert_int_equal(change_gives_room(&change), line[i].gives);
        change_done(&change);
    }
}

/* The GPUs behind it move up: each is compared with itself, and not with what was at its index. */
CORE_TEST(room__is_not_given_by_a_gpu_that_goes)
{
    const struct core_gpu gpu[] = {
        {.id = "GPU-a"}, {.id = "GPU-b", .index = 1}, {.id = "GPU-c", .index = 2}};
    (void)core_node(core, "n1", gpu, 3);
    struct pod *pod = core_pod(core, "a", "n1");
    core_note(core, pod, "c0 GPU-b 600 1");
    assert_int_equal(core_adopt(core, pod, "600"), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", &gpu[1], 2), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->n_gpus, 2);
    assert_false(change_gives_room(&core->done[core->n_done - 1]));
    assert_int_equal(core_node(core, "n1", gpu, 3), VERDICT_OK);
    assert_true(change_gives_room(&core->done[core->n_done - 1]));
}

CORE_TEST(change_done__releases_what_the_change_holds)
{
    struct change change;
    (void)core_node(core, "n1", two_a100, 2);
    const struct command gone = {.kind = COMMAND_NODE_GONE, .at_ms = 1, .node = "n1"};
    assert_int_equal(ledger_decide(core->ledger, &gone, &change), VERDICT_OK);
    assert_non_null(change.node_before);
    change_done(&change);
    assert_null(change.node_before);
    assert_int_equal(change.kind, COMMAND_NODE_GONE);
    assert_int_equal(change.verdict, VERDICT_OK);
    change_done(&change);
    ledger_free(NULL); /* freeing no ledger is allowed */
}

CORE_TEST(command_and_verdict__each_have_a_name)
{
    assert_string_equal(command_name(COMMAND_NODE_GONE), "node_gone");
    assert_string_equal(verdict_name(VERDICT_ELSEWHERE), "elsewhere");
    for (int i = 0; i < COMMANDS; i++)
        assert_true(strlen(command_name((enum command_kind)i)) > 2);
    for (int i = 0; i <= VERDICT_REFUSED; i++)
        assert_true(strlen(verdict_name((enum verdict)i)) > 1);
}

CORE_TEST(node_gone__clears_the_problem)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    struct inventory *broken = core_inventory(core, "n1", "node-uid", NULL, 0);
    broken->problem = PROBLEM_MIG;
    (void)snprintf(broken->problem_text, sizeof broken->problem_text, "MIG is on");
    const struct command command = {.kind = COMMAND_NODE, .inventory = broken};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->problem, PROBLEM_MIG);
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    assert_int_equal(node->source, SOURCE_NONE);
    assert_int_equal(node->problem, PROBLEM_NONE);
    assert_string_equal(node->problem_text->text, "");
}

CORE_TEST(ledger__refuses_more_than_the_most_nodes)
{
    struct names *names = ledger_names(core->ledger);
    const struct atom *empty = names_intern(names, TEXT(""));
    struct node_build build = {.uid = empty, .problem_text = empty};
    struct change change;
    struct err err;
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%u", i);
        build.name = names_intern(names, text_of(name));
        assert_int_equal(ledger_restore_node(core->ledger, &build, &err), 0);
    }
    build.name = names_intern(names, TEXT("more"));
    assert_int_equal(ledger_restore_node(core->ledger, &build, &err), -ERR_CORRUPT);
    assert_non_null(strstr(err.text, "one more than"));

    struct command command = {.kind = COMMAND_NODE,
                              .at_ms = 1,
                              .inventory = core_inventory(core, "more", "uid", two_a100, 2)};
    assert_int_equal(ledger_decide(core->ledger, &command, &change), VERDICT_REFUSED);
    assert_int_equal(change.reason, REASON_LIMIT);
    struct command adopt = {.kind = COMMAND_ADOPT,
                            .at_ms = 1,
                            .uid = "a",
                            .namespace = "default",
                            .name = "a",
                            .node = "more",
                            .request = core_request(core, "300"),
                            .pod = core_pod(core, "a", "more")};
    assert_int_equal(ledger_decide(core->ledger, &adopt, &change), VERDICT_REFUSED);
    assert_int_equal(change.reason, REASON_LIMIT);

    /* Existing nodes are served as before. */
    command.inventory = core_inventory(core, "n7", "uid", two_a100, 2);
    assert_int_equal(ledger_decide(core->ledger, &command, &change), VERDICT_OK);
    change_done(&change);
    adopt.node = "n8";
    adopt.pod = core_pod(core, "a", "n8");
    assert_int_equal(ledger_decide(core->ledger, &adopt, &change), VERDICT_OK);
    change_done(&change);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    assert_int_equal(snapshot->nodes, NODES_MAX);
    assert_non_null(snapshot_node(snapshot, TEXT("n65535")));
    snapshot_unref(snapshot);
}

/* The check finds each stray write to the ledger in memory, and names it. */
CORE_TEST(check__names_each_wrong_word_in_memory)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", two_counted, 2);
    (void)core_node(core, "n3", two_a100, 1); /* a duplicate */
    (void)core_reserve(core, "a", "n1", "300+400");
    (void)core_reserve(core, "b", "n1", "1000");
    (void)core_step(core, COMMAND_CONFIRM, "b");
    struct node *node = (struct node *)(uintptr_t)ledger_node(core->ledger, TEXT("n1"));
    struct allocation *a = (struct allocation *)(uintptr_t)node->allocation[0];
    struct allocation *b = (struct allocation *)(uintptr_t)node->allocation[1];
    struct gpu *gpu = &node->gpu[0];
    struct share *share = (struct share *)(uintptr_t)&a->facts.share[0];
    struct share *alone = (struct share *)(uintptr_t)&b->facts.share[0];
    struct charge *charge = (struct charge *)(share + a->facts.n_shares);
    assert_true(a->n_charges < a->facts.n_shares);
    uint16_t order = 9, absent = GPU_ABSENT, duplicate = GPU_DUPLICATE, over = GPU_OVER;
    uint32_t small = 7, none = 0; /* for counts: a larger one would read past the memory */
    uint32_t large = 1001;
    bool yes = true;
    char uid = 'c';
    enum allocation_state released = STATE_RELEASED, bound = STATE_BOUND;
    enum allocation_origin observed = ORIGIN_ADOPTED;
    const struct atom *other = ledger_node(core->ledger, TEXT("n2"))->name;

    const struct {
        void *at;
        const void *put;
        size_t bytes;
        const char *says;
    } wrong[] = {
        {&gpu->used_milli, &small, sizeof small, "used milli"},
        {&gpu->reserved_milli, &small, sizeof small, "reserved milli"},
        {&gpu->used_mib, &small, sizeof small, "used MiB"},
        {&gpu->charges, &order, sizeof order, "count the pods"},
        {&gpu->flags, &over, sizeof over, "beyond its size"},
        {&gpu->flags, &duplicate, sizeof duplicate, "free milli"},
        {&gpu->flags, &absent, sizeof absent, "wrong place"},
        {&gpu->id, &node->gpu[1].id, sizeof gpu->id, "does not have"},
        {&node->gone, &yes, sizeof yes, "its node is gone"},
        {&node->held_gpus, &small, sizeof small, "held GPUs"},
        {&node->unplaced_milli, &small, sizeof small, "unplaced milli"},
        {&node->free_milli, &small, sizeof small, "free milli"},
        {&node->name, &other, sizeof other, "another node"},
        {&charge->milli, &small, sizeof small, "what its shares come to"},
        {&charge->mib, &small, sizeof small, "what its shares come to"},
        {&alone->milli, &large, sizeof large, "used milli"},
        {&alone->mib, &small, sizeof small, "used MiB"},
        {&a->n_charges, &none, sizeof none, "pod"},
        {&share->milli, &large, sizeof large, "what its shares come to"},
        {&share->order, &order, sizeof order, "order of their lives"},
        {&a->facts.node, &other, sizeof other, "another node"},
        {(char *)(uintptr_t)a->facts.uid, &uid, 1, "wrong place, or twice"},
        {&a->facts.state, &bound, sizeof bound, "used milli"},
        {&b->facts.state, &released, sizeof released, "released"},
        {&b->facts.in_doubt, &yes, sizeof yes, "doubt"},
        {&a->facts.origin, &observed, sizeof observed, "granted"},
        {&gpu->milli, &large, sizeof large, "free milli"},
    };
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        char kept[16];
        assert_true(wrong[i].bytes <= sizeof kept);
        memcpy(kept, wrong[i].at, wrong[i].bytes);
        memcpy(wrong[i].at, wrong[i].put, wrong[i].bytes);
        const int found = ledger_check(core->ledger, &err);
        memcpy(wrong[i].at, kept, wrong[i].bytes);
        assert_int_equal(found, -ERR_CORRUPT);
        assert_non_null(strstr(err.text, wrong[i].says));
        assert_non_null(strstr(err.text, "node n"));
    }
    assert_int_equal(ledger_check(core->ledger, &err), 0);
}

/* The writer checks a few nodes at a time. */
CORE_TEST(check_some__reaches_every_node)
{
    char name[16];
    struct err err;
    for (int i = 0; i < 150; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        (void)core_node(core, name, two_counted, 2);
    }
    const uint32_t places = ledger_places(core->ledger);
    assert_true(places >= 150);
    size_t at = 0;
    const struct node *node;
    while ((node = ledger_next_node(core->ledger, &at)) != NULL) {
        ((struct node *)(uintptr_t)node)->free_milli--;
        uint32_t found = 0;
        for (uint32_t from = 0; from < places; from += 50)
            found += ledger_check_some(core->ledger, from, 50, &err) < 0;
        ((struct node *)(uintptr_t)node)->free_milli++;
        assert_int_equal(found, 1);
        assert_non_null(strstr(err.text, node->name->text));
    }
    assert_int_equal(ledger_check(core->ledger, &err), 0);
}

/* ---- the random walk */

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(seed >> 33) % below;
}

static const char *const walk_node[] = {"n1", "n2", "n3"};
static const char *const walk_uid[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
static const char *const walk_gpu[] = {"GPU-a", "GPU-b", "GPU-c", "GPU-d", "n1/gpu-0", "n2/gpu-1"};
static const char *const walk_words[] = {"300",      "500",       "1000",      "2000",   "200x2",
                                         "400+i700", "s300+i600", "100+200x2", "1000+1", "100x3"};

static const char *const walk_holder[] = {"pod:a", "pod:b", "pod:z", "env:c", "process"};

static bool walk_holds; /* GPUs are held whole */

static struct inventory *walk_inventory(struct core_fixture *core)
{
    struct core_gpu gpu[3] = {{0}};
    const uint32_t node = draw(ARRAY_LEN(walk_node));
    const uint32_t gpus = draw(4);
    const uint32_t counted = draw(3);
    const uint32_t first = draw(4);
    for (uint32_t i = 0; i < gpus; i++) {
        const uint32_t half = draw(4);
        const uint32_t memory = draw(3);
        const uint32_t trouble = draw(8);
        const uint32_t holder = walk_holds ? draw(32) : 32;
        gpu[i].id = counted == 0 ? NULL : walk_gpu[(first + i) % 4];
        gpu[i].index = i;
        gpu[i].milli = half == 0 ? 500 : 1000;
        gpu[i].mib = memory * 8192;
        gpu[i].sick = trouble == 0;
        gpu[i].cordoned = trouble == 1;
        if (counted != 0 && holder < ARRAY_LEN(walk_holder))
            gpu[i].held = walk_holder[holder];
    }
    const uint32_t uid = draw(8);
    struct inventory *inventory =
        core_inventory(core, walk_node[node], uid == 0 ? "second" : "first", gpu, gpus);
    if (gpus == 0)
        inventory->problem = PROBLEM_MIG;
    return inventory;
}

static struct pod *walk_pod(struct core_fixture *core, const char *uid, const char *node)
{
    struct pod *pod = core_pod(core, uid, node);
    char note[256];
    const uint32_t kind = draw(4);
    const uint32_t gpu = draw(ARRAY_LEN(walk_gpu));
    const uint32_t other = draw(ARRAY_LEN(walk_gpu));
    const uint32_t whole = draw(10);
    pod->whole_gpus = whole == 0 ? 1 : 0;
    if (kind == 0)
        return pod;
    (void)snprintf(note, sizeof note,
                   kind == 1 ? "c0 %s 300 1024" : "c0 %s 200 1024,c0 %s 200 1024", walk_gpu[gpu],
                   walk_gpu[other]);
    core_note(core, pod, note);
    for (uint32_t i = 0; i < pod->n_shares; i++)
        pod->share[i].index = draw(3);
    return pod;
}

static struct command walk_command(struct core_fixture *core)
{
    static const enum command_kind weighted[] = {
        COMMAND_RESERVE, COMMAND_RESERVE,     COMMAND_RESERVE, COMMAND_CONFIRM, COMMAND_CONFIRM,
        COMMAND_DOUBT,   COMMAND_RELEASE,     COMMAND_RELEASE, COMMAND_RELEASE, COMMAND_ADOPT,
        COMMAND_ADOPT,   COMMAND_TERMINATING, COMMAND_NOTE,    COMMAND_NODE,    COMMAND_NODE,
        COMMAND_NODE,    COMMAND_NODE_GONE,   COMMAND_CLOCK,   COMMAND_VERSION, COMMAND_VERSION,
        COMMAND_POLICY};
    const uint32_t kind = draw(ARRAY_LEN(weighted));
    const uint32_t uid = draw(ARRAY_LEN(walk_uid));
    const uint32_t node = draw(ARRAY_LEN(walk_node) + 1);
    const uint32_t words = draw(ARRAY_LEN(walk_words));
    const uint32_t odd = draw(8);
    struct command command = {.kind = weighted[kind],
                              .uid = walk_uid[uid],
                              .namespace = "default",
                              .name = walk_uid[uid]};
    const char *name = node < ARRAY_LEN(walk_node) ? walk_node[node] : "n4";

    if (command.kind == COMMAND_RESERVE || command.kind == COMMAND_ADOPT ||
        command.kind == COMMAND_NODE_GONE)
        command.node = name;
    if (command.kind == COMMAND_RESERVE || command.kind == COMMAND_VERSION) {
        /* A later version of a pod mostly asks for what the pod asked for before. */
        static uint32_t asked[ARRAY_LEN(walk_uid)];
        if (command.kind == COMMAND_RESERVE)
            asked[uid] = words;
        struct request *request =
            core_request(core, odd == 0 ? NULL : walk_words[odd % 2 == 1 ? asked[uid] : words]);
        request->whole = odd < 2 ? 1 : 0;
        command.request = request;
        command.version = 1 + odd;
    }
    if (command.kind == COMMAND_ADOPT) {
        command.request = odd == 0 ? NULL : core_request(core, walk_words[words]);
        command.pod = walk_pod(core, command.uid, name);
    }
    if (command.kind == COMMAND_NODE && odd == 0)
        command.node = name;
    else if (command.kind == COMMAND_NODE)
        command.inventory = walk_inventory(core);
    command.terminating_ms = odd;
    command.differs = odd % 2 == 0;
    return command;
}

struct memory {
    const struct snapshot *snapshot;
    char *dump;
};

static void forget(struct memory *memory)
{
    snapshot_unref(memory->snapshot);
    xfree(memory->dump);
    *memory = (struct memory){0};
}

/* A snapshot stays what the ledger was when it was published. */
static void remember(struct core_fixture *core, struct memory *memory)
{
    if (memory->snapshot != NULL) {
        CLEANUP(xfreep) char *now = core_dump_snapshot(memory->snapshot);
        assert_string_equal(now, memory->dump);
        forget(memory);
    }
    memory->snapshot = ledger_publish(core->ledger, NULL, 0);
    memory->dump = core_dump_snapshot(memory->snapshot);
    CLEANUP(xfreep) char *live = core_dump(core->ledger);
    assert_string_equal(live, memory->dump);
}

static void walk_undo(struct core_fixture *core)
{
    /* Apply up to three commands and undo them: nothing may remain of them. */
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    const size_t dones = core->n_done;
    const uint32_t steps = 1 + draw(3);
    for (uint32_t i = 0; i < steps; i++) {
        const struct command command = walk_command(core);
        (void)core_do(core, &command);
    }
    while (core->n_done > dones)
        core_undo(core);
    CLEANUP(xfreep) char *after = core_dump(core->ledger);
    assert_string_equal(before, after);
}

static void walk_copy(struct core_fixture *core)
{
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    struct ledger *copy = core_copy(core->ledger);
    CLEANUP(xfreep) char *after = core_dump(copy);
    assert_string_equal(before, after);
    ledger_free(copy);
}

static bool walk_fits(const struct node *node, const struct request *request)
{
    struct room room;
    struct placement placement;

    if (node == NULL || node->gone)
        return false;
    room_of(node, &room);
    return place_search(&room, request, &placement) == REASON_NONE;
}

/* A change after which a refused request fits must give room, or no pod is retried. */
static uint32_t walk_room(struct core_fixture *core, const struct change *change, int turn)
{
    const struct request *words = core_request(core, walk_words[turn % (int)ARRAY_LEN(walk_words)]);
    struct request request = *words;
    static const char *models[] = {"A100*"};

    request.whole = (uint32_t)(turn / 10 % 3);
    request.memory_mib = (uint32_t)(turn / 30 % 3) * 2048;
    request.n_models = (uint32_t)(turn / 90 % 2);
    request.model = models;
    if (request.whole > 0 && turn % 4 == 0)
        request.n_wants = 0;
    if (walk_fits(change->node_before, &request) || !walk_fits(change->node_after, &request))
        return 0;
    assert_true(change_gives_room(change));
    return 1;
}

static void walk_far(struct core_fixture *core, int usual, int least)
{
    const char *given = getenv("LEDGER_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    seed = given != NULL ? strtoull(given, NULL, 10) : 42;
    print_message("LEDGER_SEED=%llu\n", (unsigned long long)seed);

    uint32_t met[COMMANDS][VERDICT_REFUSED + 1] = {{0}};
    uint32_t reason[REASONS] = {0};
    struct memory memory[4] = {{0}};
    uint32_t woken = 0;
    for (int i = 0; i < walk_steps(usual, least); i++) {
        const struct command command = walk_command(core);
        const enum verdict verdict = core_do(core, &command);
        met[command.kind][verdict]++;
        reason[core->reason]++;
        if (verdict == VERDICT_OK && command.kind < COMMAND_CLOCK &&
            command.kind != COMMAND_RELEASE) {
            struct command again = command;
            const enum verdict twice = core_do(core, &again);
            assert_int_equal(twice, command.kind == COMMAND_NODE_GONE &&
                                            ledger_node(core->ledger, text_of(command.node)) == NULL
                                        ? VERDICT_UNKNOWN
                                        : VERDICT_SAME);
        }
        const uint32_t chance = draw(256);
        if (chance < 12)
            walk_undo(core);
        else if (chance < 16)
            remember(core, &memory[chance - 12]);
        else if (chance == 16)
            walk_copy(core);
        const struct node *stale = ledger_stale_duplicate(core->ledger);
        if (stale != NULL) {
            const struct command owned_id = {.kind = COMMAND_NODE, .node = stale->name->text};
            assert_int_equal(core_do(core, &owned_id), VERDICT_OK);
        }
        for (size_t done = 0; done < core->n_done; done++)
            woken += walk_room(core, &core->done[done], i);
        core_forget_undo(core);
        if (i % 64 == 0)
            arena_reset(&core->arena);
    }
    for (size_t i = 0; i < ARRAY_LEN(memory); i++)
        forget(&memory[i]);

    /* A walk that never meets a verdict proves little. */
    assert_true(woken > 100);
    for (int kind = 0; kind < COMMAND_OVER; kind++) /* COMMAND_OVER changes nothing */
        assert_true(met[kind][VERDICT_OK] > 0);
    for (int kind = 0; kind < COMMAND_CLOCK; kind++)
        assert_true(kind == COMMAND_RELEASE || met[kind][VERDICT_SAME] > 0);
    for (int kind = 0; kind < COMMAND_CLOCK; kind++)
        assert_true(kind == COMMAND_RESERVE || kind == COMMAND_ADOPT ||
                    met[kind][VERDICT_UNKNOWN] > 0);
    assert_true(met[COMMAND_RESERVE][VERDICT_ELSEWHERE] > 0);
    assert_true(met[COMMAND_ADOPT][VERDICT_ELSEWHERE] > 0);
    assert_true(met[COMMAND_RESERVE][VERDICT_REFUSED] > 0);
    static const enum reason expected[] = {
        REASON_UNKNOWN_NODE, REASON_NO_GPU, REASON_SMALL,     REASON_FEW,      REASON_MIXED,
        REASON_UNPLACED,     REASON_ABSENT, REASON_UNHEALTHY, REASON_CORDONED, REASON_ROOM};
    for (size_t i = 0; i < ARRAY_LEN(expected); i++)
        assert_true(reason[expected[i]] > 0);
    assert_true((reason[REASON_HELD] > 0) == walk_holds);
}

CORE_TEST(ledger__stays_valid_on_a_random_walk)
{
    walk_far(core, 200000, 12000);
}

CORE_TEST(ledger__stays_valid_on_a_walk_with_gpus_held_whole)
{
    walk_holds = true;
    walk_far(core, 30000, 12000);
    walk_holds = false;
}
