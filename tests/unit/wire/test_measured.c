/* Reports are kept for shares that are bound, and for no others. */
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/wire/usage/measured.h"

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

/* A node with two GPUs; each of these pods has 300 milli of the first. */
static const struct node *node_with_pods(struct core_fixture *core, const char *pods)
{
    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    for (; *pods != '\0'; pods++)
        bind(core, arena_printf(&core->arena, "%c", *pods), "300");
    return node_of(core);
}

static const struct allocation *pod_of(const struct node *node, const char *uid)
{
    for (uint32_t i = 0; i < node->n_allocations; i++)
        if (strcmp(node->allocation[i]->facts.uid, uid) == 0)
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
    const struct share *share = &allocation->facts.share[0];

    one->gpu = (struct usage_gpu){atom_text(share->gpu), milli, 100, 200, false};
    one->container = (struct usage_container){text_of(share->container), 1, &one->gpu, over};
    one->pod = (struct usage_pod){text_of(allocation->facts.uid), 1, &one->container};
    one->report = (struct usage_report){TEXT("n1"), 1, 300, 1, &one->pod};
    return &one->report;
}

static const struct measured *merge(const struct measured *take_before, const struct node *node,
                                    const struct usage_report *report, int64_t now_ms,
                                    struct seen *seen)
{
    const struct measured_how how = {.now_ms = now_ms, .user = seen, .fact = see};
    uint32_t unknown = 0;
    const struct measured *after = measured_merge(take_before, node, report, &how, &unknown);

    assert_int_equal(unknown, 0);
    measured_unref(take_before);
    return after;
}

CORE_TEST(measured__has_a_bound_share)
{
    struct seen seen = {0};
    struct one one;

    const struct node *node = node_with_pods(core, "a");
    const struct allocation *a = pod_of(node, "a");
    const struct measured *is = merge(NULL, node, about(&one, a, 120, USAGE_OVER_NOT), T0, &seen);
    const struct measured_share *share = measured_find(is, node, a, &a->facts.share[0]);
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

CORE_TEST(measured__drops_a_share_that_is_not_bound)
{
    const struct measured_how how = {.now_ms = T0};
    uint32_t unknown = 0;
    struct one one;

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    assert_int_equal(core_reserve(core, "r", "n1", "300"), VERDICT_OK);
    const struct node *node = node_of(core);
    const struct measured *is = measured_merge(
        NULL, node, about(&one, pod_of(node, "r"), 1, USAGE_OVER_NOT), &how, &unknown);
    assert_int_equal(unknown, 1);
    assert_int_equal(is->n_shares, 0);
    measured_unref(is);
    assert_null(measured_find(NULL, node, pod_of(node, "r"), pod_of(node, "r")->facts.share));
}

CORE_TEST(measured__keeps_an_entry_without_news_until_its_pod_goes)
{
    struct seen seen = {0};
    struct one one;

    const struct node *node = node_with_pods(core, "ab");
    const struct measured *is =
        merge(NULL, node, about(&one, pod_of(node, "a"), 120, USAGE_OVER_NOT), T0, &seen);
    is = merge(is, node, about(&one, pod_of(node, "b"), 5, USAGE_OVER_NOT), T0 + 1, &seen);
    assert_int_equal(is->n_shares, 2);
    const struct allocation *a = pod_of(node, "a");
    assert_int_equal(measured_find(is, node, a, a->facts.share)->at_ms, T0);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    node = node_of(core);
    is = merge(is, node, about(&one, pod_of(node, "b"), 5, USAGE_OVER_NOT), T0 + 2, &seen);
    assert_int_equal(is->n_shares, 1);
    measured_unref(is);
}

CORE_TEST(idle_time__restarts_with_any_use_or_gap)
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
        {T0 + 50 * MINUTE + 1, 0, T0 + 50 * MINUTE + 1}, /* a gap */
        {T0 + 55 * MINUTE, 500, 0},
    };
    const struct measured *is = NULL;
    struct seen seen = {0};
    struct one one;

    const struct node *node = node_with_pods(core, "a");
    const struct allocation *a = pod_of(node, "a");
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        is = merge(is, node, about(&one, a, steps[i].milli, USAGE_OVER_NOT), steps[i].at_ms, &seen);
        assert_int_equal(measured_find(is, node, a, a->facts.share)->idle_since_ms,
                         steps[i].since_ms);
    }
    measured_unref(is);
}

CORE_TEST(over_memory__is_news_once)
{
    static const struct {
        enum usage_over over;
        uint32_t news;
    } steps[] = {{USAGE_OVER_NOT, 0},    {USAGE_OVER_SEEN, 1}, {USAGE_OVER_SEEN, 1},
                 {USAGE_OVER_KILLED, 2}, {USAGE_OVER_SEEN, 2}, {USAGE_OVER_NOT, 2},
                 {USAGE_OVER_SEEN, 3}};
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

CORE_TEST(gpu_sum__adds_known_shares)
{
    struct measured_sum sum;
    struct seen seen = {0};
    struct one one;

    const struct node *node = node_with_pods(core, "ab");
    const struct allocation *a = pod_of(node, "a");
    const struct gpu *gpu = node_gpu(node, atom_text(a->facts.share[0].gpu));
    measured_sum(NULL, node, gpu, T0, &sum);
    assert_int_equal(sum.shares, 0);
    assert_int_equal(sum.milli, USAGE_UNKNOWN);
    const struct measured *is = merge(NULL, node, about(&one, a, 0, USAGE_OVER_NOT), T0, &seen);
    measured_sum(is, node, gpu, T0, &sum);
    assert_int_equal(sum.shares, 1);
    assert_int_equal(sum.milli, 0);
    assert_int_equal(sum.idle_since_ms, 0); /* b is unknown */
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

CORE_TEST(gpu_sum__is_unknown_with_an_unknown_share)
{
    static const char *const names[] = {"a", "b", "c"};
    const struct measured *is = NULL;
    struct measured_sum sum;
    struct seen seen = {0};
    struct one one;

    const struct node *node = node_with_pods(core, "abc");
    const struct gpu *gpu = node_gpu(node, atom_text(pod_of(node, "a")->facts.share[0].gpu));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) { /* a client of MPS among others */
        is = merge(is, node,
                   about(&one, pod_of(node, names[i]), i == 1 ? USAGE_UNKNOWN : 7, USAGE_OVER_NOT),
                   T0, &seen);
        measured_sum(is, node, gpu, T0, &sum);
        assert_int_equal(sum.shares, i + 1);
        assert_int_equal(sum.milli, i == 0 ? 7 : USAGE_UNKNOWN);
        assert_int_equal(sum.mib, (i + 1) * 100);
    }
    is = merge(is, node, about(&one, pod_of(node, "b"), 7, USAGE_OVER_NOT), T0 + 1, &seen);
    measured_sum(is, node, gpu, T0 + 1, &sum);
    assert_int_equal(sum.milli, 21);
    measured_unref(is);
}

static const struct measured *merge_scaled(const struct measured *take_before,
                                           const struct node *node, const char *uid, int32_t milli,
                                           bool scaled, int64_t now_ms)
{
    struct seen seen = {0};
    struct one one;

    (void)about(&one, pod_of(node, uid), milli, USAGE_OVER_NOT);
    one.gpu.is_scaled = scaled;
    return merge(take_before, node, &one.report, now_ms, &seen);
}

/* The sum has the scaled amount in it as long as it is fresh. */
CORE_TEST(gpu_sum__is_scaled_while_one_of_its_shares_is)
{
    static const struct {
        const char *uid;
        int64_t at_ms;
        int32_t milli;
        bool scaled;
        bool gpu_scaled;
    } steps[] = {
        {"a", T0, 300, false, false},
        {"b", T0, 538, true, true},
        {"a", T0 + 1, 461, true, true},
        {"b", T0 + 1, 538, false, true},
        {"b", T0 + 1, USAGE_UNKNOWN, false, false}, /* then the sum is not known, either */
        {"b", T0 + 1, 10, false, true},
        {"b", T0 + 1 + MEASURED_FRESH_MS, 10, false, true},
        {"b", T0 + 2 + MEASURED_FRESH_MS, 10, false, false}, /* that of a is too old */
        {"a", T0 + 2 + MEASURED_FRESH_MS, 300, false, false},
    };
    const struct measured *is = NULL;
    struct measured_sum sum;

    const struct node *node = node_with_pods(core, "ab");
    const struct gpu *gpu = node_gpu(node, atom_text(pod_of(node, "a")->facts.share[0].gpu));
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        const struct allocation *pod = pod_of(node, steps[i].uid);
        is = merge_scaled(is, node, steps[i].uid, steps[i].milli, steps[i].scaled, steps[i].at_ms);
        assert_int_equal(measured_find(is, node, pod, pod->facts.share)->is_scaled,
                         steps[i].scaled);
        measured_sum(is, node, gpu, steps[i].at_ms, &sum);
        assert_int_equal(sum.is_scaled, steps[i].gpu_scaled);
        assert_true(!sum.is_scaled || sum.milli != USAGE_UNKNOWN);
    }
    measured_sum(is, node, node_gpu(node, TEXT("GPU-b")), T0, &sum);
    assert_false(sum.is_scaled);
    measured_unref(is);
}

/* --- idle times over a restart --- */

enum { KEPT = MEASURED_KEPT_MS };

/* The listener: its last report, their number, and whether it refuses any. */
struct idle_seen {
    uint32_t reported;
    int64_t since_ms;
    bool full;
};

static bool see_idle(void *user, const struct measured_idle *idle)
{
    struct idle_seen *seen = user;

    assert_string_equal(idle->allocation->facts.uid, "a");
    assert_ptr_equal(idle->share, idle->allocation->facts.share);
    if (seen->full)
        return false;
    seen->reported++;
    seen->since_ms = idle->since_ms;
    return true;
}

static const struct measured *merge_idle(const struct measured *take_before,
                                         const struct node *node, int32_t milli, int64_t now_ms,
                                         struct idle_seen *seen)
{
    const struct measured_how how = {.now_ms = now_ms, .user = seen, .idle = see_idle};
    const struct usage_report nothing = {.node = TEXT("n1"), .number = 1, .seconds = 300};
    const struct allocation *a = pod_of(node, "a");
    uint32_t unknown = 0;
    struct one one;
    const struct measured *after = measured_merge(
        take_before, node, milli == INT32_MAX ? &nothing : about(&one, a, milli, USAGE_OVER_NOT),
        &how, &unknown);

    measured_unref(take_before);
    return after;
}

static const struct measured_share *share_of(const struct measured *is, const struct node *node)
{
    const struct allocation *a = pod_of(node, "a");
    const struct measured_share *share = measured_find(is, node, a, a->facts.share);

    assert_non_null(share);
    return share;
}

CORE_TEST(idle_listener__is_called_once_for_a_long_time_and_at_its_end)
{
    enum { NOTHING = INT32_MAX }; /* the report does not name it */
    static const struct {
        int64_t at_ms;
        int32_t milli;
        uint32_t reported;
        int64_t since_ms;
        int64_t reported_since_ms;
    } steps[] = {
        {T0, 0, 0, T0, 0},
        {T0 + 15 * MINUTE, 0, 0, T0, 0},
        {T0 + 30 * MINUTE, 0, 0, T0, 0},
        {T0 + 45 * MINUTE, 0, 0, T0, 0},
        {T0 + KEPT - 1, 0, 0, T0, 0},
        {T0 + KEPT, 0, 1, T0, T0},
        {T0 + KEPT + 1, 9, 1, T0, T0},
        {T0 + KEPT + 2, 10, 2, 0, 0},
        {T0 + KEPT + 3, 10, 2, 0, 0},
        {T0 + KEPT + 4, 0, 2, T0 + KEPT + 4, 0},
        {T0 + KEPT + 15 * MINUTE, 0, 2, T0 + KEPT + 4, 0},
        {T0 + KEPT + 30 * MINUTE, 0, 2, T0 + KEPT + 4, 0},
        {T0 + KEPT + 45 * MINUTE, 0, 2, T0 + KEPT + 4, 0},
        {T0 + 2 * KEPT, 0, 2, T0 + KEPT + 4, 0},
        {T0 + 2 * KEPT + 4, 0, 3, T0 + KEPT + 4, T0 + KEPT + 4},
        {T0 + 2 * KEPT + 4 + 15 * MINUTE, NOTHING, 3, T0 + KEPT + 4, T0 + KEPT + 4},
        {T0 + 2 * KEPT + 5 + 15 * MINUTE, NOTHING, 4, 0, 0}, /* a gap */
        {T0 + 2 * KEPT + 6 + 15 * MINUTE, NOTHING, 4, 0, 0},
        {T0 + 2 * KEPT + 7 + 15 * MINUTE, 0, 4, T0 + 2 * KEPT + 7 + 15 * MINUTE, 0},
    };
    const struct node *node = node_with_pods(core, "a");
    const struct measured *is = NULL;
    struct idle_seen seen = {0};

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        is = merge_idle(is, node, steps[i].milli, steps[i].at_ms, &seen);
        assert_int_equal(share_of(is, node)->idle_since_ms, steps[i].since_ms);
        assert_int_equal(seen.reported, steps[i].reported);
        assert_int_equal(seen.since_ms, steps[i].reported_since_ms);
        assert_int_equal(measured_keeps(is), steps[i].reported % 2);
    }
    measured_unref(is);
}

/* A reported idle time stays until its end is reported: no other begins before that. */
CORE_TEST(idle_listener__without_room_is_called_again)
{
    const struct node *node = node_with_pods(core, "a");
    struct idle_seen seen = {.full = true};
    const struct measured *is = merge_idle(NULL, node, 0, T0, &seen);

    for (int64_t at_ms = 15 * MINUTE; at_ms <= KEPT; at_ms += 15 * MINUTE)
        is = merge_idle(is, node, 0, T0 + at_ms, &seen);
    assert_false(measured_keeps(is));
    assert_int_equal(share_of(is, node)->idle_since_ms, T0);
    seen.full = false;
    is = merge_idle(is, node, 0, T0 + KEPT + 1, &seen);
    assert_true(measured_keeps(is));
    assert_int_equal(seen.since_ms, T0);
    seen.full = true;
    is = merge_idle(is, node, 500, T0 + KEPT + 2, &seen);
    is = merge_idle(is, node, 0, T0 + KEPT + 3, &seen);
    assert_int_equal(share_of(is, node)->idle_since_ms, 0);
    assert_true(measured_keeps(is));
    seen.full = false;
    is = merge_idle(is, node, 0, T0 + KEPT + 4, &seen);
    assert_int_equal(share_of(is, node)->idle_since_ms, T0 + KEPT + 4);
    assert_int_equal(seen.reported, 2);
    assert_false(measured_keeps(is));
    measured_unref(is);
}

CORE_TEST(idle_time__is_never_before_binding_or_in_the_future)
{
    struct idle_seen seen = {0};

    core->now_ms = T0;
    const struct node *node = node_with_pods(core, "a");
    const int64_t bound_ms = pod_of(node, "a")->facts.bound_ms;
    const struct measured *is = merge_idle(NULL, node, 0, bound_ms - 1, &seen);
    assert_int_equal(share_of(is, node)->idle_since_ms, 0);
    is = merge_idle(is, node, 0, bound_ms, &seen);
    assert_int_equal(share_of(is, node)->idle_since_ms, bound_ms);
    is = merge_idle(is, node, 0, bound_ms + 2 * KEPT,
                    &seen); /* forward: the time between is unknown */
    assert_int_equal(share_of(is, node)->idle_since_ms, bound_ms + 2 * KEPT);
    is = merge_idle(is, node, 0, bound_ms + KEPT, &seen); /* back: not in the future */
    assert_int_equal(share_of(is, node)->idle_since_ms, bound_ms + KEPT);
    is = merge_idle(is, node, 0, bound_ms - 1, &seen);
    assert_int_equal(share_of(is, node)->idle_since_ms, 0);
    assert_int_equal(seen.reported, 0);
    measured_unref(is);
}

CORE_TEST(resumed_idle_time__goes_on_or_begins_anew)
{
    enum { LAST = T0 + 3 * KEPT };
    static const struct {
        int64_t since_ms;
        int64_t reported_ms;
        int64_t now_ms;
        int32_t milli;
        int64_t becomes_ms; /* with the first report */
        uint32_t reported;
    } cases[] = {
        {T0 + KEPT, LAST, LAST + MEASURED_FRESH_MS, 9, T0 + KEPT, 0},
        {T0 + KEPT, LAST, LAST + MEASURED_FRESH_MS + 1, 9, LAST + MEASURED_FRESH_MS + 1, 1},
        {T0 + KEPT, LAST, LAST + 1, 10, 0, 1},
        {T0 + KEPT, LAST, LAST + 1, USAGE_UNKNOWN, 0, 1},
        {T0 + KEPT, 0, LAST, 0, LAST, 1},                      /* no such time */
        {T0 + KEPT, LAST, LAST - KEPT / 2, 0, T0 + KEPT, 0},   /* back, though not so far */
        {T0 + KEPT, LAST, T0 + KEPT - 1, 0, T0 + KEPT - 1, 1}, /* it would be in the future */
        {LAST + 1, LAST, LAST + 9, 0, LAST + 9, 1},            /* later than it was reported */
        {LAST, LAST, LAST + 9, 0, LAST, 1},                    /* too short to be kept */
        {T0 - 1, LAST, LAST + 9, 0, LAST + 9, 1},              /* before it was bound */
    };

    core->now_ms = T0;
    const struct node *node = node_with_pods(core, "a");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct allocation *a = pod_of(node, "a");
        const struct measured_idle idle = {a, a->facts.share, cases[i].since_ms};
        struct idle_seen seen = {.since_ms = -1};
        const struct measured *is =
            measured_resume(node, &idle, 1, cases[i].reported_ms, cases[i].now_ms);
        const struct measured_share *share = share_of(is, node);
        assert_true(share->idle_since_ms <= cases[i].now_ms);
        assert_int_equal(share->milli, USAGE_UNKNOWN);
        assert_int_equal(share->mib, USAGE_UNKNOWN);
        assert_int_equal(share->peak_mib, USAGE_UNKNOWN);
        assert_true(measured_keeps(is));
        is = merge_idle(is, node, cases[i].milli, cases[i].now_ms, &seen);
        assert_int_equal(share_of(is, node)->idle_since_ms, cases[i].becomes_ms);
        assert_int_equal(seen.reported, cases[i].reported);
        assert_int_equal(seen.since_ms, cases[i].reported > 0 ? 0 : -1);
        measured_unref(is);
    }
}

CORE_TEST(measured_without_idle__keeps_the_rest)
{
    const struct node *node = node_with_pods(core, "a");
    const struct allocation *a = pod_of(node, "a");
    const struct measured_idle idle = {a, a->facts.share, T0};
    const struct measured *is = measured_resume(node, &idle, 1, T0 + KEPT, T0 + KEPT);
    const struct measured *after = measured_without_idle(is);

    assert_int_equal(share_of(is, node)->idle_since_ms, T0);
    assert_int_equal(share_of(after, node)->idle_since_ms, 0);
    assert_int_equal(share_of(after, node)->at_ms, T0 + KEPT);
    assert_int_equal(share_of(after, node)->milli, USAGE_UNKNOWN);
    assert_false(measured_keeps(after));
    measured_unref(is);
    measured_unref(after);
}
