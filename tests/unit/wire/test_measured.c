/* What a report says is kept for the shares that are there, and nothing else is. */
#include "milligpu/alloc.h"
#include "milligpu/measured.h"
#include "milligpu/rulebook.h"

#include "support.h"
#include "support/core_fixture.h"

enum { T0 = 1000000, MINUTE = 60000 };

static const struct core_gpu two[] = {{.id = "GPU-a", .index = 0, .mib = 81920},
                                      {.id = "GPU-b", .index = 1, .mib = 81920}};

struct seen {
    uint32_t facts;
    uint32_t news;
    enum usage_over over;
};

static void see(void *user, const struct measured_fact *fact)
{
    struct seen *seen = user;

    seen->facts++;
    if (fact->new_over != USAGE_OVER_NOT) {
        seen->news++;
        seen->over = fact->new_over;
    }
}

static const struct node *node_of(const struct core_fixture *core)
{
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    assert_non_null(node);
    return node;
}

static void bind(struct core_fixture *core, const char *uid, const char *words)
{
    assert_int_equal(core_reserve(core, uid, "n1", words), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, uid), VERDICT_OK);
}

static const struct allocation *pod_of(const struct node *node, const char *uid)
{
    for (uint32_t i = 0; i < node->allocations; i++)
        if (strcmp(node->allocation[i]->is.uid, uid) == 0)
            return node->allocation[i];
    fail_msg("no pod %s", uid);
    return NULL;
}

/* A report about the first share of one pod. */
struct one {
    struct usage_gpu gpu;
    struct usage_container container;
    struct usage_pod pod;
    struct usage_report report;
};

static const struct usage_report *about(struct one *one, const struct allocation *allocation,
                                        int32_t milli, enum usage_over over)
{
    const struct share *share = &allocation->is.share[0];

    one->gpu = (struct usage_gpu){atom_text(share->gpu), milli, 100, 200};
    one->container = (struct usage_container){text_of(share->container), 1, &one->gpu, over};
    one->pod = (struct usage_pod){text_of(allocation->is.uid), 1, &one->container};
    one->report = (struct usage_report){TEXT("n1"), 1, 300, 1, &one->pod};
    return &one->report;
}

static const struct measured *merge(const struct measured *take_before, const struct node *node,
                                    const struct usage_report *report, int64_t now_ms,
                                    struct seen *seen)
{
    const struct measured_how how = {now_ms, seen, see};
    uint32_t unknown = 0;
    const struct measured *after = measured_merge(take_before, node, report, &how, &unknown);

    assert_int_equal(unknown, 0);
    measured_unref(take_before);
    return after;
}

static void a_bound_share_is_measured(void **state)
{
    struct core_fixture *core = *state;
    struct seen seen = {0};
    struct one one;

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    bind(core, "a", "300");
    const struct node *node = node_of(core);
    const struct allocation *a = pod_of(node, "a");
    const struct measured *is = merge(NULL, node, about(&one, a, 120, USAGE_OVER_NOT), T0, &seen);
    const struct measured_share *share = measured_find(is, node, a, &a->is.share[0]);
    assert_non_null(share);
    assert_int_equal(share->milli, 120);
    assert_int_equal(share->mib, 100);
    assert_int_equal(share->peak_mib, 200);
    assert_int_equal(share->at_ms, T0);
    assert_int_equal(share->idle_since_ms, 0);
    assert_int_equal(seen.facts, 1);
    assert_int_equal(seen.news, 0);
    assert_true(measured_is_fresh(share, T0 + MEASURED_FRESH_MS));
    assert_false(measured_is_fresh(share, T0 + MEASURED_FRESH_MS + 1));
    measured_unref(is);
}

static void what_is_not_bound_here_is_dropped(void **state)
{
    struct core_fixture *core = *state;
    const struct measured_how how = {.now_ms = T0};
    uint32_t unknown = 0;
    struct one one;

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    assert_int_equal(core_reserve(core, "r", "n1", "300"), VERDICT_OK);
    const struct node *node = node_of(core);
    const struct measured *is = measured_merge(
        NULL, node, about(&one, pod_of(node, "r"), 1, USAGE_OVER_NOT), &how, &unknown);
    assert_int_equal(unknown, 1);
    assert_int_equal(is->shares, 0);
    measured_unref(is);
    assert_null(measured_find(NULL, node, pod_of(node, "r"), pod_of(node, "r")->is.share));
}

static void an_entry_stays_without_news_and_goes_with_its_pod(void **state)
{
    struct core_fixture *core = *state;
    struct seen seen = {0};
    struct one one;

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    bind(core, "a", "300");
    bind(core, "b", "300");
    const struct node *node = node_of(core);
    const struct measured *is =
        merge(NULL, node, about(&one, pod_of(node, "a"), 120, USAGE_OVER_NOT), T0, &seen);
    is = merge(is, node, about(&one, pod_of(node, "b"), 5, USAGE_OVER_NOT), T0 + 1, &seen);
    assert_int_equal(is->shares, 2);
    const struct allocation *a = pod_of(node, "a");
    assert_int_equal(measured_find(is, node, a, a->is.share)->at_ms, T0);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    node = node_of(core);
    is = merge(is, node, about(&one, pod_of(node, "b"), 5, USAGE_OVER_NOT), T0 + 2, &seen);
    assert_int_equal(is->shares, 1);
    measured_unref(is);
}

static void idle_is_what_each_report_since_says(void **state)
{
    static const struct {
        int64_t at_ms;
        int32_t milli;
        int64_t since_ms;
    } steps[] = {
        {T0, MEASURED_IDLE_MILLI, 0},
        {T0 + 5 * MINUTE, MEASURED_IDLE_MILLI - 1, T0 + 5 * MINUTE},
        {T0 + 10 * MINUTE, 0, T0 + 5 * MINUTE},
        {T0 + 15 * MINUTE, USAGE_UNKNOWN, 0},
        {T0 + 20 * MINUTE, 0, T0 + 20 * MINUTE},
        {T0 + 35 * MINUTE, 0, T0 + 20 * MINUTE},
        {T0 + 50 * MINUTE + 1, 0, T0 + 50 * MINUTE + 1}, /* a gap: nobody knows */
        {T0 + 55 * MINUTE, 500, 0},
    };
    struct core_fixture *core = *state;
    const struct measured *is = NULL;
    struct seen seen = {0};
    struct one one;

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    bind(core, "a", "300");
    const struct node *node = node_of(core);
    const struct allocation *a = pod_of(node, "a");
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        is = merge(is, node, about(&one, a, steps[i].milli, USAGE_OVER_NOT), steps[i].at_ms, &seen);
        assert_int_equal(measured_find(is, node, a, a->is.share)->idle_since_ms, steps[i].since_ms);
    }
    measured_unref(is);
}

static void more_than_its_share_is_news_once(void **state)
{
    static const struct {
        enum usage_over over;
        uint32_t news;
    } steps[] = {{USAGE_OVER_NOT, 0},    {USAGE_OVER_SEEN, 1}, {USAGE_OVER_SEEN, 1},
                 {USAGE_OVER_KILLED, 2}, {USAGE_OVER_SEEN, 2}, {USAGE_OVER_NOT, 2},
                 {USAGE_OVER_SEEN, 3}};
    struct core_fixture *core = *state;
    const struct measured *is = NULL;
    struct seen seen = {0};
    struct one one;

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    bind(core, "a", "2000"); /* two GPUs, one container */
    const struct node *node = node_of(core);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        is = merge(is, node, about(&one, pod_of(node, "a"), 1, steps[i].over), T0 + (int64_t)i,
                   &seen);
        assert_int_equal(seen.news, steps[i].news);
    }
    assert_int_equal(seen.over, USAGE_OVER_SEEN);
    measured_unref(is);
}

static void a_gpu_is_the_sum_of_what_is_known(void **state)
{
    struct core_fixture *core = *state;
    struct measured_sum sum;
    struct seen seen = {0};
    struct one one;

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    bind(core, "a", "300");
    bind(core, "b", "300");
    const struct node *node = node_of(core);
    const struct allocation *a = pod_of(node, "a");
    const struct gpu *gpu = node_gpu(node, atom_text(a->is.share[0].gpu));
    measured_sum(NULL, node, gpu, T0, &sum);
    assert_int_equal(sum.shares, 0);
    assert_int_equal(sum.milli, USAGE_UNKNOWN);
    const struct measured *is = merge(NULL, node, about(&one, a, 0, USAGE_OVER_NOT), T0, &seen);
    measured_sum(is, node, gpu, T0, &sum);
    assert_int_equal(sum.shares, 1);
    assert_int_equal(sum.milli, 0);
    assert_int_equal(sum.idle_since_ms, 0); /* of b nobody knows */
    is = merge(is, node, about(&one, pod_of(node, "b"), 5, USAGE_OVER_NOT), T0 + 9, &seen);
    measured_sum(is, node, gpu, T0 + 9, &sum);
    assert_int_equal(sum.shares, 2);
    assert_int_equal(sum.milli, 5);
    assert_int_equal(sum.mib, 200);
    assert_int_equal(sum.at_ms, T0);
    assert_int_equal(sum.idle_since_ms, T0 + 9);
    measured_sum(is, node, gpu, T0 + 9 + MEASURED_FRESH_MS, &sum);
    assert_int_equal(sum.shares, 1);
    assert_int_equal(sum.milli, 5);
    measured_unref(is);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_bound_share_is_measured, core_set_up, core_tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_bound_here_is_dropped, core_set_up,
                                        core_tear_down),
        cmocka_unit_test_setup_teardown(an_entry_stays_without_news_and_goes_with_its_pod,
                                        core_set_up, core_tear_down),
        cmocka_unit_test_setup_teardown(idle_is_what_each_report_since_says, core_set_up,
                                        core_tear_down),
        cmocka_unit_test_setup_teardown(more_than_its_share_is_news_once, core_set_up,
                                        core_tear_down),
        cmocka_unit_test_setup_teardown(a_gpu_is_the_sum_of_what_is_known, core_set_up,
                                        core_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
