#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "core/ledger/ledger_internal.h"
#include "support/core_fixture.h"
#include "support/rules.h"
#include "support/test.h"
#include "support/valid.h"

static const struct atom *atom(struct core_fixture *core, const char *name)
{
    return names_intern(ledger_names(core->ledger), text_of(name));
}

static struct gpu row_of_gpu(struct core_fixture *core, const char *id, uint16_t index,
                             uint16_t flags)
{
    return (struct gpu){.id = atom(core, id),
                        .model = atom(core, ""),
                        .milli = GPU_MILLI,
                        .numa = -1,
                        .index = index,
                        .flags = flags};
}

static int restore_node(struct core_fixture *core, const char *name, const struct gpu *gpu,
                        uint32_t gpus, struct err *err)
{
    const struct node_build build = {.name = atom(core, name),
                                     .uid = atom(core, ""),
                                     .problem_text = atom(core, ""),
                                     .n_gpus = gpus,
                                     .gpu = gpu};
    return ledger_restore_node(core->ledger, &build, err);
}

/* Restores a bound pod of n1 with these shares. */
static int restore_pod(struct core_fixture *core, const char *uid, const struct share *share,
                       uint32_t shares, struct err *err)
{
    const struct allocation_facts facts = {.uid = uid,
                                           .namespace = "default",
                                           .name = "pod",
                                           .node = atom(core, "n1"),
                                           .node_uid = atom(core, ""),
                                           .state = STATE_BOUND,
                                           .origin = ORIGIN_ADOPTED,
                                           .n_shares = shares,
                                           .share = share};
    return ledger_restore(core->ledger, &facts, err);
}

CORE_TEST(take__moves_a_ledger_with_its_names)
{
    struct ledger *empty = ledger_new();
    struct err err;

    (void)core_node(core, "n1", NULL, 0);
    const size_t names = names_count(ledger_names(core->ledger));
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    ledger_take(empty, STEAL(core->ledger));
    core->ledger = empty;
    CLEANUP(xfreep) char *after = core_dump(core->ledger);
    assert_string_equal(after, before);
    assert_int_equal(names_count(ledger_names(core->ledger)), names);
    assert_null(ledger_policy_context(core->ledger));
    assert_int_equal(ledger_check(core->ledger, &err), 0);
}

/* A host with two free GPUs is idle by the policy of the ledger that takes it. */
CORE_TEST(take__keeps_the_policy_and_counts_for_it)
{
    static const struct rule keeps[] = {{.min_milli = 1}, {.reserve = 1}};
    struct ledger *empty = ledger_new();
    struct err err;
    struct rulebook *book = rulebook_with(POLICY_BINPACK, "book", keeps, 2);
    struct policy_context *context = policy_context_of_rulebook(book, 3, NULL);
    const struct gpu gpu[] = {row_of_gpu(core, "GPU-a", 0, 0), row_of_gpu(core, "GPU-b", 1, 0)};
    const struct node_build build = {.name = atom(core, "n1"),
                                     .uid = atom(core, ""),
                                     .problem_text = atom(core, ""),
                                     .rules = one_rule(1),
                                     .n_gpus = 2,
                                     .gpu = gpu};

    assert_int_equal(ledger_restore_node(core->ledger, &build, &err), 0);
    ledger_set_policy_context(empty, context);
    assert_true(empty->room_came);
    ledger_take(empty, STEAL(core->ledger));
    core->ledger = empty;
    assert_true(empty->room_came);
    assert_ptr_equal(ledger_policy_context(empty)->rulebook, book);
    assert_int_equal(ledger_policy_context(empty)->idle[0], 0);
    assert_int_equal(ledger_policy_context(empty)->idle[1], 1);
    assert_int_equal(ledger_check(empty, &err), 0);
    policy_context_unref(context);
    rulebook_unref(book);
}

CORE_TEST(restore__limits_the_length_of_names_and_uids)
{
    struct err err;
    char text[NAME_BYTES_MAX + 2];
    memset(text, 'n', sizeof text);
    text[NAME_BYTES_MAX + 1] = '\0';
    assert_int_equal(restore_node(core, text, NULL, 0, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "node: a name of 254 bytes, not 1 to 253");
    text[NAME_BYTES_MAX] = '\0';
    assert_int_equal(restore_node(core, text, NULL, 0, &err), 0);

    const struct gpu gpu = row_of_gpu(core, "GPU-a", 0, 0);
    const struct share share = {.container = "c0", .gpu = gpu.id, .milli = 300};
    assert_int_equal(restore_node(core, "n1", &gpu, 1, &err), 0);
    text[UID_BYTES_MAX + 1] = '\0';
    assert_int_equal(restore_pod(core, text, &share, 1, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "allocation: a uid of 129 bytes, not 1 to 128");
    assert_int_equal(restore_pod(core, "", &share, 1, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "allocation: a uid of 0 bytes, not 1 to 128");
    text[UID_BYTES_MAX] = '\0';
    assert_int_equal(restore_pod(core, text, &share, 1, &err), 0);
}

CORE_TEST(restore__checks_the_first_and_the_last_gpu_and_share)
{
    struct err err;
    struct gpu gpu[] = {row_of_gpu(core, "GPU-a", 0, 0), row_of_gpu(core, "GPU-b", 1, 0),
                        row_of_gpu(core, "GPU-b", 2, 0)};
    assert_int_equal(restore_node(core, "n1", gpu, 3, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "node n1: GPU GPU-b is there twice");
    gpu[2].id = gpu[0].id;
    assert_int_equal(restore_node(core, "n1", gpu, 3, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "node n1: GPU GPU-a is there twice");
    assert_int_equal(restore_node(core, "n1", gpu, 2, &err), 0);
    struct share share[] = {{.container = "c0", .gpu = gpu[0].id, .milli = 1000},
                            {.container = "c1", .gpu = gpu[1].id, .milli = 1000}};
    for (size_t i = 0; i < 2; i++) {
        share[i].milli = 1001;
        assert_int_equal(restore_pod(core, "a", share, 2, &err), -ERR_CORRUPT);
        assert_string_equal(err.text, "allocation a: a share of 1001 milli");
        share[i].milli = 1000;
    }
    assert_int_equal(restore_pod(core, "a", share, 2, &err), 0);
}

CORE_TEST(restore__accepts_an_absent_gpu_before_a_present_one)
{
    struct err err;
    const struct gpu gpu[] = {row_of_gpu(core, "GPU-a", 0, GPU_ABSENT),
                              row_of_gpu(core, "GPU-b", 1, 0)};
    assert_int_equal(restore_node(core, "n1", gpu, 2, &err), 0);
    assert_null(core_gpu(core, "n1", "GPU-a")); /* no pod holds it yet */
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->flags, 0);
    const struct share share = {.container = "c0", .gpu = gpu[0].id, .milli = 300};
    assert_int_equal(restore_pod(core, "a", &share, 1, &err), 0);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, GPU_ABSENT);
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->flags, 0);
}

/* Each node has two absent GPUs, of which the last goes by two names; n3 has none. */
CORE_TEST(restore__finds_the_absent_gpus_of_each_node)
{
    static const char *const gone[][3] = {{"n0", "GPU-a", "GPU-b"},
                                          {"n1", "GPU-c", "GPU-d"},
                                          {"n2", "GPU-e", "GPU-f"},
                                          {"n4", "GPU-g", "GPU-h"}};
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
        if (i == 3)
            assert_int_equal(restore_node(core, "n3", NULL, 0, &err), 0);
        struct gpu gpu[] = {row_of_gpu(core, gone[i][1], 7, GPU_ABSENT),
                            row_of_gpu(core, gone[i][2], 8, GPU_ABSENT)};
        char alias[8];
        (void)snprintf(alias, sizeof alias, "A-%s", gone[i][0]);
        gpu[1].alias = atom(core, alias);
        gpu[1].mib = 1000 + (uint32_t)i;
        assert_int_equal(restore_node(core, gone[i][0], gpu, 2, &err), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
        char alias[8];
        (void)snprintf(alias, sizeof alias, "A-%s", gone[i][0]);
        const struct share share[] = {
            {.container = "c0", .gpu = atom(core, gone[i][1]), .milli = 100},
            {.container = "c0", .gpu = atom(core, alias), .milli = 200}};
        struct allocation_facts facts = {.uid = gone[i][0],
                                         .namespace = "default",
                                         .name = "pod",
                                         .node = atom(core, gone[i][0]),
                                         .node_uid = atom(core, ""),
                                         .state = STATE_BOUND,
                                         .n_shares = 2,
                                         .share = share};
        assert_int_equal(ledger_restore(core->ledger, &facts, &err), 0);
        assert_int_equal(core_gpu(core, gone[i][0], gone[i][1])->index, 7);
        assert_int_equal(core_gpu(core, gone[i][0], gone[i][2])->mib, 1000 + i);
        assert_int_equal(core_gpu(core, gone[i][0], gone[i][2])->used_milli, 200);
    }
    struct share other = {.container = "c0", .gpu = atom(core, "GPU-a"), .milli = 1};
    assert_int_equal(restore_pod(core, "x", &other, 1, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "allocation x: GPU GPU-a is not of node n1");
    other.gpu = atom(core, "GPU-e");
    assert_int_equal(restore_pod(core, "x", &other, 1, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "allocation x: GPU GPU-e is not of node n1");
    ledger_assert_valid(core->ledger);
}

/* A second pod on a node that has all its GPUs: nothing is drafted, and since_ms stays. */
/* More GPUs than a draft has room for without memory of its own, which it gives back. */
CORE_TEST(restore__finds_the_absent_gpus_of_a_pod_that_holds_many)
{
    enum { MANY = DRAFT_GPUS_FEW + 1 };
    struct gpu gpu[MANY];
    struct share share[MANY];
    char id[16];
    struct err err;

    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof id, "GPU-%02u", i);
        gpu[i] = row_of_gpu(core, id, (uint16_t)i, GPU_ABSENT);
        share[i] = (struct share){.container = "c0", .gpu = gpu[i].id, .milli = 300};
    }
    assert_int_equal(restore_node(core, "n1", gpu, MANY, &err), 0);
    assert_int_equal(restore_pod(core, "a", share, MANY, &err), 0);
    assert_int_equal(ledger_check(core->ledger, &err), 0);
    assert_int_equal(ledger_node(core->ledger, text_of("n1"))->n_gpus, MANY);
}

CORE_TEST(restore__adds_pods_to_a_node)
{
    struct err err;
    const struct gpu gpu[] = {row_of_gpu(core, "GPU-a", 0, 0), row_of_gpu(core, "GPU-b", 1, 0)};
    const struct node_build build = {.name = atom(core, "n1"),
                                     .uid = atom(core, "u"),
                                     .problem_text = atom(core, ""),
                                     .since_ms = 7,
                                     .n_gpus = 2,
                                     .gpu = gpu};
    const struct share share[] = {{.container = "c0", .gpu = gpu[0].id, .milli = 300},
                                  {.container = "c0", .gpu = gpu[1].id, .milli = 400}};
    assert_int_equal(ledger_restore_node(core->ledger, &build, &err), 0);
    core->ledger->room_came = false;
    assert_int_equal(restore_pod(core, "b", share, 2, &err), 0);
    assert_int_equal(restore_pod(core, "a", &share[1], 1, &err), 0);
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    assert_int_equal(node->n_allocations, 2);
    assert_int_equal(node->since_ms, 7);
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->used_milli, 800);
    assert_false(core->ledger->room_came);
    assert_int_equal(core->ledger->grants, 0);
    ledger_assert_valid(core->ledger);
}

/* The row of an absent GPU has the owner: its node, or none. */
CORE_TEST(restore__keeps_the_owner_of_an_absent_gpu)
{
    struct err err;
    const struct gpu gpu[] = {row_of_gpu(core, "GPU-a", 0, GPU_ABSENT),
                              row_of_gpu(core, "GPU-z", 1, GPU_ABSENT | GPU_DUPLICATE)};
    const struct core_gpu both[] = {{.id = "GPU-a", .index = 0, .mib = 1000},
                                    {.id = "GPU-z", .index = 1, .mib = 1000}};
    assert_int_equal(restore_node(core, "n1", gpu, 2, &err), 0);
    for (size_t i = 0; i < 2; i++) {
        const struct share share = {.container = "c0", .gpu = gpu[i].id, .milli = 300};
        assert_int_equal(restore_pod(core, i == 0 ? "a" : "z", &share, 1, &err), 0);
    }
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->flags, GPU_ABSENT);
    assert_int_equal(core_gpu(core, "n1", "GPU-z")->flags, GPU_ABSENT | GPU_DUPLICATE);
    (void)core_node(core, "n2", both, 2);
    assert_int_equal(core_gpu(core, "n2", "GPU-a")->flags, GPU_DUPLICATE);
    assert_int_equal(core_gpu(core, "n2", "GPU-z")->flags, 0);
}

/* node: the one with the stale duplicate; NULL: there is none. */
static void assert_stale_after_restart(const struct core_fixture *core, const char *node)
{
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    struct ledger *copy = core_copy(core->ledger);
    CLEANUP(xfreep) char *after = core_dump(copy);
    assert_string_equal(before, after);
    const struct node *stale = ledger_stale_duplicate(copy);
    assert_int_equal(stale != NULL, node != NULL);
    if (stale != NULL && node != NULL)
        assert_string_equal(stale->name->text, node);
    ledger_free(copy);
}

/* The process ended after the owner left, so the next owner is found after the restart. */
CORE_TEST(restore__finds_a_stale_duplicate_again)
{
    const struct core_gpu gpu = {.id = "GPU-a", .mib = 1000};
    (void)core_node(core, "n1", &gpu, 1);
    (void)core_node(core, "n2", &gpu, 1);
    struct pod *pod = core_pod(core, "a", "n2");
    core_note(core, pod, "c0 GPU-a 300 300");
    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
    (void)core_node(core, "n1", NULL, 0);
    assert_stale_after_restart(core, NULL); /* n1 owns it, shown or not */
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n2", "GPU-a")->flags, GPU_DUPLICATE);
    assert_stale_after_restart(core, "n2");

    (void)core_node(core, "n1", &gpu, 1);   /* not yet claimed, so n1 is the first again */
    assert_stale_after_restart(core, "n1"); /* n1 is not marked as contested yet */
    (void)core_node(core, "n2", NULL, 0);
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n2", "GPU-a")->flags, GPU_ABSENT | GPU_DUPLICATE);
    assert_stale_after_restart(core, NULL); /* no node shows it: there is nothing to grant */
}

static int restore_owned_ids(struct core_fixture *core, const char *name, bool gone,
                             const char *const *owned_ids, struct err *err)
{
    const struct atom *owned_id[GPUS_PER_NODE_MAX + 1];
    const uint16_t flags = gone ? GPU_ABSENT : GPU_DUPLICATE;
    const struct gpu gpu[] = {row_of_gpu(core, "GPU-m", 0, flags),
                              row_of_gpu(core, "GPU-n", 1, flags)};
    struct node_build build = {.name = atom(core, name),
                               .uid = atom(core, ""),
                               .problem_text = atom(core, ""),
                               .gone = gone,
                               .n_gpus = 2,
                               .gpu = gpu,
                               .owned_id = owned_id};
    for (; owned_ids[build.n_owned_ids] != NULL; build.n_owned_ids++)
        owned_id[build.n_owned_ids] = atom(core, owned_ids[build.n_owned_ids]);
    return ledger_restore_node(core->ledger, &build, err);
}

CORE_TEST(restore__refuses_wrong_claims)
{
    struct err err;
    static const struct {
        bool gone;
        const char *owned_ids[4];
        const char *says;
    } wrong[] = {
        {true, {"GPU-x"}, "node n2: it cannot claim GPU GPU-x"},
        {false, {""}, "node n2: it cannot claim GPU "},
        {false, {"n2/gpu-0"}, "node n2: it cannot claim GPU n2/gpu-0"},
        {false, {"GPU-x", "GPU-x"}, "node n2: it claims GPU GPU-x twice"},
        {false, {"GPU-y", "GPU-x"}, "node n2: it claims GPU GPU-x twice"},
        {false, {"GPU-x", "GPU-a"}, "node n2: it claims GPU GPU-a twice"},
        {false, {"GPU-a"}, "node n2: it claims GPU GPU-a, which is another node's"},
        {false, {"GPU-c"}, "node n2: it claims GPU GPU-c, which is another node's"},
        {false, {"GPU-m"}, "node n2: it claims GPU GPU-m, which it has"},
        {false, {"GPU-n"}, "node n2: it claims GPU GPU-n, which it has"},
    };
    const struct gpu gpu = row_of_gpu(core, "GPU-a", 0, 0);
    static const char *const good[] = {"GPU-c", "GPU-d", NULL};
    assert_int_equal(restore_node(core, "n1", &gpu, 1, &err), 0);
    assert_int_equal(restore_owned_ids(core, "n3", false, good, &err), 0);
    assert_int_equal(ledger_node(core->ledger, TEXT("n3"))->n_owned_ids, 2);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(restore_owned_ids(core, "n2", wrong[i].gone, wrong[i].owned_ids, &err),
                         -ERR_CORRUPT);
        assert_string_equal(err.text, wrong[i].says);
    }
    char many[GPUS_PER_NODE_MAX + 1][16];
    const char *names[GPUS_PER_NODE_MAX + 2] = {NULL};
    for (int i = 0; i <= GPUS_PER_NODE_MAX; i++) {
        (void)snprintf(many[i], sizeof many[i], "GPU-%03d", i);
        names[i] = many[i];
    }
    assert_int_equal(restore_owned_ids(core, "n2", false, names, &err), -ERR_CORRUPT);
    assert_string_equal(err.text, "node n2: it claims more than 64 GPUs");
    names[GPUS_PER_NODE_MAX] = NULL;
    assert_int_equal(restore_owned_ids(core, "n2", false, names, &err), 0);
    ledger_assert_valid(core->ledger);
}

CORE_TEST(restore__refuses_wrong_allocation_rows)
{
    struct err err;
    const struct gpu gpu = row_of_gpu(core, "GPU-a", 0, 0);
    const struct share one = {.container = "c0", .gpu = gpu.id, .milli = 300, .mib = 1};
    const struct share twice[] = {one, one};
    const struct share empty = {.container = "c0", .gpu = gpu.id};
    const struct share stranger = {.container = "c0", .gpu = atom(core, "GPU-z"), .milli = 1};
    const struct {
        struct allocation_facts facts;
        const char *says;
    } wrong[] = {
        {{.n_shares = 1, .node = atom(core, "n9")}, "n9"},
        {{.n_shares = 1, .state = STATE_RELEASED}, "released"},
        {{.n_shares = 0}, "without a share"},
        {{.n_shares = 1, .unplaced_milli = 1}, "grant"},
        {{.n_shares = 0, .origin = ORIGIN_ADOPTED, .state = STATE_BOUND}, "holds nothing"},
        {{.n_shares = 1, .origin = ORIGIN_ADOPTED}, "not bound"},
        {{.n_shares = 2, .share = twice}, "two shares"},
        {{.n_shares = 1, .share = &empty}, "0 milli"},
        {{.n_shares = 1, .share = &stranger}, "GPU-z"},
    };
    assert_int_equal(restore_node(core, "n1", &gpu, 1, &err), 0);
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct allocation_facts facts = wrong[i].facts;
        facts.uid = "a";
        facts.namespace = "default";
        facts.name = "pod";
        facts.node = facts.node != NULL ? facts.node : atom(core, "n1");
        facts.node_uid = atom(core, "u");
        facts.share = facts.share != NULL ? facts.share : &one;
        assert_int_equal(ledger_restore(core->ledger, &facts, &err), -ERR_CORRUPT);
        assert_non_null(strstr(err.text, wrong[i].says));
        assert_non_null(strstr(err.text, "allocation"));
    }
    CLEANUP(xfreep) char *after = core_dump(core->ledger);
    assert_string_equal(before, after);
    assert_int_equal(restore_pod(core, "a", &one, 1, &err), 0);
    assert_int_equal(restore_pod(core, "a", &one, 1, &err), -ERR_CORRUPT);
    assert_non_null(strstr(err.text, "twice"));
    ledger_assert_valid(core->ledger);
}

CORE_TEST(restore__refuses_wrong_node_rows)
{
    struct err err;
    struct gpu good = row_of_gpu(core, "GPU-q", 0, 0);
    const struct gpu owned = row_of_gpu(core, "GPU-a", 0, 0);
    const struct gpu counted = row_of_gpu(core, "n2/gpu-0", 0, 0);
    struct gpu bad[] = {good, good, row_of_gpu(core, "", 0, 0), good, counted};
    bad[0].milli = 0;
    bad[1].milli = 1001;
    bad[3].alias = good.id;
    bad[4].alias_number = 1;
    good.milli = 500;
    const struct {
        const char *node;
        const struct gpu *gpu;
        const char *says;
    } wrong[] = {
        {"n2", &bad[0], "milli"},         {"n2", &bad[1], "milli"},
        {"n2", &bad[2], "without an id"}, {"n2", &owned, "another node's"},
        {"n1", &good, "twice"},           {"", &good, "name"},
        {"n2", &bad[3], "its own alias"}, {"n2", &bad[4], "its own alias"},
    };
    assert_int_equal(restore_node(core, "n1", &owned, 1, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(restore_node(core, wrong[i].node, wrong[i].gpu, 1, &err), -ERR_CORRUPT);
        assert_non_null(strstr(err.text, wrong[i].says));
    }
    assert_int_equal(restore_node(core, "n2", &good, 1, &err), 0);
    ledger_assert_valid(core->ledger);
}

CORE_TEST(restore__refuses_a_missing_gpu_of_another_node)
{
    struct err err;
    const struct core_gpu shown = {.id = "GPU-a"};
    const struct gpu missing = row_of_gpu(core, "GPU-a", 0, GPU_ABSENT);
    const struct share share = {.container = "c0", .gpu = missing.id, .milli = 300};
    assert_int_equal(restore_node(core, "n1", &missing, 1, &err), 0);
    (void)core_node(core, "n2", &shown, 1);
    assert_int_equal(restore_pod(core, "a", &share, 1, &err), -ERR_CORRUPT);
    assert_non_null(strstr(err.text, "GPU-a is another node's"));
    ledger_assert_valid(core->ledger);
}
