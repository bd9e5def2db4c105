#include <stdio.h>

#include "milligpu/core/rank/policy.h"

#include "core/ledger/ledger_internal.h"
#include "support/core_fixture.h"
#include "support/test.h"

static enum verdict adopt_annotated(struct core_fixture *core, const char *uid, const char *node,
                                    const char *note, const char *words)
{
    struct pod *pod = core_pod(core, uid, node);
    core_note(core, pod, note);
    return core_adopt(core, pod, words);
}

static const struct allocation_facts *held(const struct core_fixture *core, const char *uid)
{
    const struct allocation *allocation = ledger_find(core->ledger, text_of(uid));
    assert_non_null(allocation);
    return &allocation->facts;
}

/* Amounts that cannot be read count as 1 together, and all as at most what the node has. */
CORE_TEST(adopt__adds_up_refused_amounts)
{
    static const struct core_gpu two[] = {{.index = 0}, {.index = 1}};
    static const struct core_gpu tiny = {.milli = 1};
    static const struct {
        const char *node;
        const char *amount[4];   /* of a container each */
        uint32_t unplaced_milli; /* 0: the pod holds nothing */
    } row[] = {
        {"n1", {"1500", "nonsense", "-4"}, 1501},
        {"n1", {"9223372036854775807", "nonsense", "-4"}, 2000},
        {"tiny", {"9223372036854775807", "nonsense", "-4"}, 1},
        {"unknown", {"1e99", "nonsense", "-4"}, 64000},
        {"unknown", {"1", "nonsense", NULL, "1500"}, 1502},
        {"unknown", {"1"}, 1},
        {"unknown", {"-1e99", NULL, "-4"}, 0},
        {"unknown", {"0", NULL, "-4"}, 0},
    };
    (void)core_node(core, "n1", two, 2);
    (void)core_node(core, "tiny", &tiny, 1);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct pod_container container[ARRAY_LEN(row[i].amount)];
        const char *uid = arena_printf(&core->arena, "pod-%zu", i);
        struct pod *pod = core_pod(core, uid, row[i].node);
        for (uint32_t k = 0; k < ARRAY_LEN(container); k++)
            container[k] = (struct pod_container){.name = arena_printf(&core->arena, "c%u", k),
                                                  .amount = row[i].amount[k]};
        pod->ours = true;
        pod->n_containers = ARRAY_LEN(container);
        pod->container = container;
        assert_int_equal(core_adopt(core, pod, NULL),
                         row[i].unplaced_milli > 0 ? VERDICT_OK : VERDICT_SAME);
        if (row[i].unplaced_milli == 0)
            continue;
        assert_int_equal(held(core, uid)->unplaced_milli, row[i].unplaced_milli);
        assert_true(held(core, uid)->presumed);
    }
}

CORE_TEST(adopt__does_not_presume_whole_gpus)
{
    struct pod_container container = {.name = "c0", .amount = "0"};
    struct pod *pod = core_pod(core, "a", "n1");
    pod->ours = true;
    pod->n_containers = 1;
    pod->container = &container;
    pod->whole_gpus = 2;
    assert_int_equal(core_adopt(core, pod, NULL), VERDICT_OK);
    assert_int_equal(held(core, "a")->held_gpus, 2);
    assert_int_equal(held(core, "a")->unplaced_milli, 0);
    assert_false(held(core, "a")->presumed);
}

/* The arrays end with the last want and line; the sanitizer reports a read past them. */
CORE_TEST(adopt__reads_no_want_or_line_past_the_last)
{
    const struct core_gpu gpu = {.id = "GPU-a", .mib = 1000};
    struct want want = {.container = "c0", .milli = 300, .parts = 1};
    const struct request nothing = {.want = &want};
    const struct request request = {.n_wants = 1, .want = &want};
    struct pod_share line = {.container = "c0", .gpu = "GPU-a", .milli = 300, .mib = 300};
    struct pod *pod = core_pod(core, "a", "n1");
    struct command command = {.kind = COMMAND_ADOPT,
                              .uid = "a",
                              .namespace = "default",
                              .name = "a",
                              .node = "n1",
                              .pod = pod,
                              .request = &nothing};
    pod->annotation = NOTE_OK;
    pod->share = &line;
    assert_int_equal(core_node(core, "n1", &gpu, 1), VERDICT_OK);
    assert_int_equal(core_do(core, &command), VERDICT_SAME); /* the request is empty */

    pod->n_shares = 1;
    command.request = &request;
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_false(held(core, "a")->presumed);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    line.mib = 1001;
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_true(held(core, "a")->presumed);
    assert_true(held(core, "a")->annotation_differs);
    command.uid = pod->uid = "b";
    want.milli = 1000; /* fits nowhere */
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 1300);
}

CORE_TEST(adopt__makes_a_missing_gpu_as_annotated)
{
    static const uint32_t index[][2] = {{3, 3}, {65535, 65535}, {65536, 0}};
    char uid[2] = "a";
    for (size_t i = 0; i < ARRAY_LEN(index); i++, uid[0]++) {
        struct pod *pod = core_pod(core, uid, "n1");
        core_note(core, pod, "c0 GPU-gone 300 24576");
        pod->share[0].index = index[i][0];
        assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
        const struct gpu *gpu = core_gpu(core, "n1", "GPU-gone");
        assert_int_equal(gpu->index, index[i][1]);
        assert_int_equal(gpu->flags, GPU_ABSENT | GPU_DUPLICATE);
        assert_int_equal(gpu->milli, GPU_MILLI);
        assert_int_equal(gpu->numa, -1);
        assert_string_equal(gpu->model->text, "");
        assert_int_equal(core_step(core, COMMAND_RELEASE, uid), VERDICT_OK);
    }
}

CORE_TEST(adopt__believes_an_annotation_only_if_there_is_room)
{
    const struct core_gpu gpu[] = {{.id = "GPU-a", .index = 0, .mib = 1000},
                                   {.id = "GPU-b", .index = 1, .mib = 1000}};
    static const struct {
        const char *annotation;
        const char *words;
        bool believed;
    } line[] = {
        {"c0 GPU-a 400 600", "400", true},
        {"c0 GPU-a 500 401", "500", false},
        {"c0 GPU-a 601 1", "601", false},
        {"c0 GPU-b 100 1,c0 GPU-a 100 401", "100x2", false}, /* the second does not fit */
        {"c0 GPU-a 600 400", "600", true},                   /* the rest of the GPU */
        {"c0 GPU-b 400 1000", "400", true},
        {"c0 GPU-b 100 1", "100", false}, /* no memory is left */
        {"c0 GPU-b 100 0", "100", true},
    };
    (void)core_node(core, "n1", gpu, 2);
    char uid[2] = "a";
    for (size_t i = 0; i < ARRAY_LEN(line); i++, uid[0]++) {
        assert_int_equal(adopt_annotated(core, uid, "n1", line[i].annotation, line[i].words),
                         VERDICT_OK);
        assert_int_equal(held(core, uid)->presumed, !line[i].believed);
        assert_int_equal(held(core, uid)->annotation_differs, !line[i].believed);
        if (!line[i].believed)
            assert_int_equal(core_step(core, COMMAND_RELEASE, uid), VERDICT_OK);
    }
}

CORE_TEST(adopt__takes_the_scheduled_time_or_now)
{
    struct pod *pod = core_pod(core, "a", "n1");
    pod->scheduled_ms = 1;
    assert_int_equal(core_adopt(core, pod, "300"), VERDICT_OK);
    assert_int_equal(held(core, "a")->bound_ms, 1);
    assert_int_equal(core_adopt(core, core_pod(core, "b", "n1"), "300"), VERDICT_OK);
    assert_int_equal(held(core, "b")->bound_ms, core->now_ms);
}

/* A node used for whole GPUs grants no shares, yet the pod already runs there. */
CORE_TEST(adopt__takes_the_least_overused_then_the_least_used_gpu)
{
    static const struct {
        uint32_t milli[2];
        uint32_t taken[2];
        const char *words;
        uint32_t used[2];
    } line[] = {
        {{1000, 1000}, {300, 200}, "100", {300, 300}},
        {{1000, 1000}, {200, 300}, "100", {300, 300}},
        {{1000, 1000}, {200, 200}, "100", {300, 200}}, /* of equals, the first */
        {{1000, 500}, {800, 301}, "200", {1000, 301}}, /* over by 0, not by 1 */
        {{1000, 500}, {700, 300}, "400", {1100, 300}}, /* over by 100, not by 200 */
        {{1000, 500}, {900, 300}, "400", {900, 700}},  /* over by 200, not by 300 */
    };
    for (size_t i = 0; i < ARRAY_LEN(line); i++) {
        char node[8];
        char id[2][32];
        (void)snprintf(node, sizeof node, "n%zu", i);
        struct core_gpu gpu[2] = {{.index = 0, .milli = line[i].milli[0]},
                                  {.index = 1, .milli = line[i].milli[1]}};
        (void)core_node(core, node, gpu, 2);
        for (uint32_t k = 0; k < 2; k++) {
            char uid[32];
            char note[64];
            char words[16];
            (void)snprintf(id[k], sizeof id[k], "%s/gpu-%u", node, k);
            (void)snprintf(uid, sizeof uid, "%s-%u", node, k);
            (void)snprintf(words, sizeof words, "%u", line[i].taken[k]);
            (void)snprintf(note, sizeof note, "c0 %s %s 1", id[k], words);
            (void)adopt_annotated(core, uid, node, note, words);
        }
        char uid[2][16];
        (void)snprintf(uid[0], sizeof uid[0], "%s-whole", node);
        (void)snprintf(uid[1], sizeof uid[1], "%s-pod", node);
        struct pod *whole = core_pod(core, uid[0], node);
        whole->whole_gpus = 1;
        assert_int_equal(core_adopt(core, whole, NULL), VERDICT_OK);
        struct pod *pod = core_pod(core, uid[1], node);
        assert_int_equal(core_adopt(core, pod, line[i].words), VERDICT_OK);
        for (uint32_t k = 0; k < 2; k++)
            assert_int_equal(core_gpu(core, node, id[k])->used_milli, line[i].used[k]);
    }
}

/*
 * Raised shares
 */

static const struct core_gpu large[] = {{.id = "GPU-a", .index = 0, .mib = 81920}};

/* Shares are raised, or not; rule lives as long as the ledger. */
static void decide_by(struct core_fixture *core, bool raise, const struct rule *rule,
                      rule_set holding)
{
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "raise");
    book->raise = raise;
    book->n_rules = rule != NULL ? 1 : 0;
    book->rule = rule;
    core_obey(core, book, holding, NULL);
}

static void set_raise(struct core_fixture *core, bool raise)
{
    decide_by(core, raise, NULL, 0);
}

static enum verdict adopt_demanding(struct core_fixture *core, const char *uid, const char *note)
{
    struct pod *pod = core_pod(core, uid, "n1");
    pod->memory = "16Gi";
    if (note != NULL)
        core_note(core, pod, note);
    return core_adopt(core, pod, "100");
}

static void assert_share(const struct core_fixture *core, const char *uid, uint32_t milli,
                         uint32_t asked, uint32_t mib)
{
    assert_int_equal(held(core, uid)->n_shares, 1);
    assert_int_equal(held(core, uid)->share[0].milli, milli);
    assert_int_equal(held(core, uid)->share[0].asked, asked);
    assert_int_equal(held(core, uid)->share[0].mib, mib);
}

CORE_TEST(raise__charges_the_milli_that_the_memory_needs)
{
    struct request *request = core_request(core, "100");
    request->memory_mib = 16384;
    assert_int_equal(core_node(core, "n1", large, 1), VERDICT_OK);
    assert_int_equal(core_reserve_for(core, "a", "n1", request), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_MEMORY);
    set_raise(core, true);
    assert_int_equal(core_reserve_for(core, "a", "n1", request), VERDICT_OK);
    assert_share(core, "a", 200, 100, 16384);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->reserved_milli, 200);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_mib, 16384);
    /* The pod still asks for 100. */
    struct command again = {.kind = COMMAND_VERSION, .uid = "a", .request = request};
    set_raise(core, false);
    const struct allocation *was = ledger_find(core->ledger, TEXT("a"));
    assert_int_equal(was->facts.version, 0);
    again.version = 5;
    assert_int_equal(core_do(core, &again), VERDICT_SAME); /* the reservation has no version */
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    assert_share(core, "a", 200, 100, 16384);
    request->memory_mib = 0;
    assert_int_equal(core_reserve_for(core, "b", "n1", request), VERDICT_OK);
    assert_share(core, "b", 100, 100, 8192);
}

static struct command reserve_in_version_1(const char *uid, const struct request *request)
{
    return (struct command){.kind = COMMAND_RESERVE,
                            .uid = uid,
                            .namespace = "default",
                            .name = "pod",
                            .node = "n1",
                            .version = 1,
                            .request = request};
}

CORE_TEST(version__compares_the_milli_asked_for_not_the_raised)
{
    struct request *request = core_request(core, "100");
    struct command command = reserve_in_version_1("a", request);
    request->memory_mib = 16384;
    assert_int_equal(core_node(core, "n1", large, 1), VERDICT_OK);
    set_raise(core, true);
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    command.kind = COMMAND_VERSION;
    command.version = 2;
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    command.version = 3;
    command.request = core_request(core, "200"); /* the raised amount, not the requested one */
    assert_int_equal(core_do(core, &command), VERDICT_REFUSED);
    request->memory_mib = 16385;
    command.request = request;
    assert_int_equal(core_do(core, &command), VERDICT_REFUSED);
}

/* The pod's own charge does not count against it; one charge too many on the GPU does. */
CORE_TEST(version__does_not_count_the_own_charge_of_a_full_gpu)
{
    static const struct core_gpu whole = {.id = "GPU-a"};
    static const struct core_gpu less = {.id = "GPU-a", .milli = 100};
    struct command command = reserve_in_version_1("a", core_request(core, "1"));
    (void)core_node(core, "n1", &whole, 1);
    for (int i = 1; i < CHARGES_PER_GPU_MAX; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof uid, "u%d", i);
        assert_int_equal(core_reserve(core, uid, "n1", "1"), VERDICT_OK);
    }
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->charges, CHARGES_PER_GPU_MAX);
    command.kind = COMMAND_VERSION;
    command.version = 2;
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_int_equal(core_reserve(core, "more", "n1", "1"), VERDICT_REFUSED);

    command.version = 3;
    (void)core_node(core, "n1", &less, 1); /* its pods hold more than that */
    assert_int_equal(core_do(core, &command), VERDICT_REFUSED);
    (void)core_node(core, "n1", &whole, 1);
    assert_int_equal(core_do(core, &command), VERDICT_OK);

    command.version = 4;
    assert_int_equal(adopt_annotated(core, "more", "n1", "c0 GPU-a 1 0 0", "1"), VERDICT_OK);
    assert_int_equal(core_do(core, &command), VERDICT_REFUSED);
}

/* uid reserves in version 1 what 100 and 16 GiB need, and is judged again with this memory. */
static enum verdict judge_memory(struct core_fixture *core, const char *uid, const char *words,
                                 uint32_t memory_mib)
{
    struct request *request = core_request(core, words);
    struct command command = reserve_in_version_1(uid, request);
    request->memory_mib = 16384;
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    command.kind = COMMAND_VERSION;
    command.version = 2;
    request->memory_mib = memory_mib;
    const enum verdict verdict = core_do(core, &command);
    assert_true(verdict == VERDICT_OK || core->reason == REASON_CHANGED);
    assert_int_equal(core_step(core, COMMAND_RELEASE, uid), VERDICT_OK);
    return verdict;
}

/* The tenant may edit the demand for memory until the pod is bound. */
CORE_TEST(version__refuses_a_raise_without_a_demand)
{
    assert_int_equal(core_node(core, "n1", large, 1), VERDICT_OK);
    set_raise(core, true);
    assert_int_equal(judge_memory(core, "a", "100", 16384), VERDICT_OK);
    assert_int_equal(judge_memory(core, "a", "100", 16303), VERDICT_OK); /* needs 200 as well */
    assert_int_equal(judge_memory(core, "a", "100", 16302), VERDICT_REFUSED);
    assert_int_equal(judge_memory(core, "a", "100", 16385), VERDICT_REFUSED);
    assert_int_equal(judge_memory(core, "a", "100", 8192), VERDICT_REFUSED);
    assert_int_equal(judge_memory(core, "a", "100", 1), VERDICT_REFUSED);
    assert_int_equal(judge_memory(core, "a", "100", 0), VERDICT_REFUSED);
    /* A charge that was not raised needs no reason. */
    assert_int_equal(judge_memory(core, "a", "200", 0), VERDICT_OK);
    assert_int_equal(judge_memory(core, "a", "300", 16302), VERDICT_OK);
    assert_int_equal(judge_memory(core, "a", "300+100", 16384), VERDICT_OK);
    assert_int_equal(judge_memory(core, "a", "300+100", 0), VERDICT_REFUSED);
    assert_int_equal(judge_memory(core, "a", "100+300", 0), VERDICT_REFUSED);
}

/* The GPU that needs most decides for all smaller shares; all memory of a GPU makes it whole. */
CORE_TEST(version__judges_a_raise_by_the_gpu_that_needs_most)
{
    static const struct {
        uint32_t gpus, mib[2];
        const char *words;
        uint32_t too_little_mib;
    } row[] = {{2, {81920, 40960}, "100x2", 16343},
               {2, {40960, 81920}, "100x2", 16343},
               {1, {16384}, "100", 16367}};
    set_raise(core, true);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const struct core_gpu gpu[] = {{.id = "GPU-a", .index = 0, .mib = row[i].mib[0]},
                                       {.id = "GPU-b", .index = 1, .mib = row[i].mib[1]}};
        assert_int_equal(core_node(core, "n1", gpu, row[i].gpus), VERDICT_OK);
        assert_int_equal(judge_memory(core, "a", row[i].words, 16384), VERDICT_OK);
        assert_int_equal(judge_memory(core, "a", row[i].words, row[i].too_little_mib),
                         VERDICT_REFUSED);
    }
}

CORE_TEST(version__judges_a_raise_by_the_sizes_of_a_rule)
{
    static const char *const other[] = {"other"};
    static const struct rule sizes = {.name = "sizes", .n_sizes = 3, .size = {100, 250, 500}};
    assert_int_equal(core_node(core, "n1", large, 1), VERDICT_OK);
    decide_by(core, true, &sizes, 1);
    assert_int_equal(judge_memory(core, "a", "100", 16384), VERDICT_OK); /* 250 */
    assert_int_equal(judge_memory(core, "a", "100", 8193), VERDICT_OK);  /* and still */
    assert_int_equal(judge_memory(core, "a", "100", 8192), VERDICT_REFUSED);
    assert_int_equal(judge_memory(core, "a", "100", 0), VERDICT_REFUSED);
    /* An inactive rule has no sizes. */
    decide_by(core, true, &sizes, 0);
    assert_int_equal(judge_memory(core, "a", "100", 16384), VERDICT_OK); /* 200 */
    assert_int_equal(judge_memory(core, "a", "100", 16302), VERDICT_REFUSED);
    /* A rule about other namespaces has none, either. */
    static const struct rule elsewhere = {
        .name = "sizes", .n_sizes = 1, .size = {500}, .n_namespaces = 1, .namespace = other};
    decide_by(core, true, &elsewhere, 1);
    assert_int_equal(judge_memory(core, "a", "100", 16384), VERDICT_OK);
}

/* The GPU no longer shows its memory. */
CORE_TEST(version__refuses_a_raise_if_the_memory_is_unknown_now)
{
    static const struct core_gpu unknown[] = {{.id = "GPU-a", .index = 0}};
    struct request *request = core_request(core, "100");
    struct command command = reserve_in_version_1("a", request);
    request->memory_mib = 16384;
    set_raise(core, true);
    assert_int_equal(core_node(core, "n1", large, 1), VERDICT_OK);
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", unknown, 1), VERDICT_OK);
    command.kind = COMMAND_VERSION;
    command.version = 2;
    assert_int_equal(core_do(core, &command), VERDICT_REFUSED);
}

/* An unsigned pod that was counted first takes no room from a granted one. */
CORE_TEST(adopt__charges_a_signed_share_beyond_the_room)
{
    assert_int_equal(core_node(core, "n1", large, 1), VERDICT_OK);
    assert_int_equal(core_adopt(core, core_pod(core, "liar", "n1"), "900"), VERDICT_OK);
    struct pod *pod = core_pod(core, "a", "n1");
    core_note(core, pod, "c0 GPU-a 200 16384 0 100");
    pod->proof = PROOF_SIGNED;
    assert_int_equal(core_adopt(core, pod, "100"), VERDICT_OK);
    assert_share(core, "a", 200, 100, 16384);
    assert_false(held(core, "a")->presumed || held(core, "a")->annotation_differs);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 1100);
    struct pod *other = core_pod(core, "b", "n1");
    core_note(core, other, "c0 GPU-a 100 8192 0");
    other->proof = PROOF_UNSIGNED;
    assert_int_equal(core_adopt(core, other, "100"), VERDICT_OK);
    assert_true(held(core, "b")->presumed);
}

CORE_TEST(adopt__takes_a_raised_share_as_granted)
{
    assert_int_equal(core_node(core, "n1", large, 1), VERDICT_OK);
    assert_int_equal(adopt_demanding(core, "a", "c0 GPU-a 200 16384 0 100"), VERDICT_OK);
    assert_share(core, "a", 200, 100, 16384);
    assert_false(held(core, "a")->presumed || held(core, "a")->annotation_differs);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 200);

    /* A share without a believed annotation is placed as bind would place it now. */
    static const char *const wrong[] = {"c0 GPU-a 200 16384 0 90", "c0 GPU-a 200 16384 0", NULL};
    static const char *const uid[] = {"b", "c", "d"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        set_raise(core, i == 1);
        assert_int_equal(adopt_demanding(core, uid[i], wrong[i]), VERDICT_OK);
        assert_share(core, uid[i], i == 1 ? 200 : 100, 100, i == 1 ? 16384 : 8192);
        assert_true(held(core, uid[i])->presumed);
        assert_int_equal(held(core, uid[i])->annotation_differs, wrong[i] != NULL);
    }
}

CORE_TEST(adopt__differs_if_the_asked_milli_differ)
{
    assert_int_equal(core_node(core, "n1", large, 1), VERDICT_OK);
    struct pod *least = core_pod(core, "b", "n1");
    least->memory = "8Gi";
    core_note(core, least, "c0 GPU-a 100 8192 0 1");
    assert_int_equal(core_adopt(core, least, "1"), VERDICT_OK);
    assert_share(core, "b", 100, 1, 8192);
    assert_false(held(core, "b")->annotation_differs);
    assert_int_equal(adopt_demanding(core, "a", "c0 GPU-a 200 16384 0 100"), VERDICT_OK);
    struct pod *pod = core_pod(core, "a", "n1");
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    core_note(core, pod, "c0 GPU-a 200 16384 0 100");
    assert_false(adopt_differs(node, held(core, "a"), pod));
    pod->share[0].asked = 0;
    assert_true(adopt_differs(node, held(core, "a"), pod));
    pod->share[0].asked = 101;
    assert_true(adopt_differs(node, held(core, "a"), pod));
}

CORE_TEST(adopt__differs_if_any_share_differs)
{
    static const struct core_gpu two[] = {{.id = "GPU-a", .index = 0}, {.id = "GPU-b", .index = 1}};
    static const char *const wrong[] = {"c0 GPU-a 300 2,c0 GPU-b 300 1",
                                        "c0 GPU-a 300 1,c0 GPU-b 300 2"};
    static const char note[] = "c0 GPU-a 300 1,c0 GPU-b 300 1";
    (void)core_node(core, "n1", two, 2);
    assert_int_equal(adopt_annotated(core, "a", "n1", note, "300x2"), VERDICT_OK);
    assert_int_equal(held(core, "a")->n_shares, 2);
    assert_false(held(core, "a")->annotation_differs);
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct pod *pod = core_pod(core, "a", "n1");
        core_note(core, pod, wrong[i]);
        assert_true(adopt_differs(node, held(core, "a"), pod));
    }
}
