#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/node_filter.h"
#include "milligpu/core/facts/tolerations.h"

#include "support/test.h"

static const char gpu[] = "nvidia.com/gpu";
static const struct taint gpu_taint = {gpu, "present", EFFECT_NO_SCHEDULE};
static const struct taint evicting = {"dedicated", "a", EFFECT_NO_EXECUTE};
static const struct taint soft = {"soft", "", EFFECT_PREFER_NO_SCHEDULE};
static const struct taint odd = {"odd", "", EFFECT_OTHER};
static const struct taint leaving = {"karpenter.sh/disrupted", "", EFFECT_NO_SCHEDULE};
static const struct taint not_ready = {"node.kubernetes.io/not-ready", "", EFFECT_NO_EXECUTE};

TEST(taint_effect__is_known_by_its_word)
{
    assert_int_equal(taint_effect_of(TEXT("")), EFFECT_ANY);
    assert_int_equal(taint_effect_of(TEXT("NoSchedule")), EFFECT_NO_SCHEDULE);
    assert_int_equal(taint_effect_of(TEXT("PreferNoSchedule")), EFFECT_PREFER_NO_SCHEDULE);
    assert_int_equal(taint_effect_of(TEXT("NoExecute")), EFFECT_NO_EXECUTE);
    assert_int_equal(taint_effect_of(TEXT("noschedule")), EFFECT_OTHER);
    assert_int_equal(toleration_operator_of(TEXT("")), TOLERATE_EQUAL);
    assert_int_equal(toleration_operator_of(TEXT("Equal")), TOLERATE_EQUAL);
    assert_int_equal(toleration_operator_of(TEXT("Exists")), TOLERATE_EXISTS);
    assert_int_equal(toleration_operator_of(TEXT("Gt")), TOLERATE_GT);
    assert_int_equal(toleration_operator_of(TEXT("Lt")), TOLERATE_LT);
    assert_int_equal(toleration_operator_of(TEXT("exists")), TOLERATE_OTHER);
    assert_true(taint_is_hard(&gpu_taint));
    assert_true(taint_is_hard(&evicting));
    assert_false(taint_is_hard(&soft));
    assert_false(taint_is_hard(&odd));
}

TEST(unusable__has_a_unique_name_and_a_help)
{
    for (enum unusable why = USABLE; why < UNUSABLES; why++) {
        assert_true(unusable_name(why)[0] != '\0');
        assert_true(unusable_help(why)[0] != '\0');
        for (enum unusable other = USABLE; other < why; other++)
            assert_string_not_equal(unusable_name(why), unusable_name(other));
    }
    assert_string_equal(unusable_name(UNUSABLE_CORDONED), "cordoned");
    assert_string_equal(unusable_help(UNUSABLE_TAINTED), "a taint that is not tolerated");
}

static bool covers(const char *key, const char *value, enum toleration_operator op,
                   enum taint_effect effect, const struct taint *taint)
{
    const struct toleration toleration = {key, value, op, effect};
    return toleration_covers(&toleration, taint);
}

TEST(toleration__covers_as_in_kube_scheduler)
{
    /* Key and effect have to be the same, or empty. */
    assert_true(covers(gpu, "present", TOLERATE_EQUAL, EFFECT_NO_SCHEDULE, &gpu_taint));
    assert_true(covers(gpu, "present", TOLERATE_EQUAL, EFFECT_ANY, &gpu_taint));
    assert_false(covers(gpu, "present", TOLERATE_EQUAL, EFFECT_NO_EXECUTE, &gpu_taint));
    assert_false(covers("nvidia.com/gp", "present", TOLERATE_EQUAL, EFFECT_ANY, &gpu_taint));
    assert_false(covers(gpu, "", TOLERATE_EQUAL, EFFECT_ANY, &gpu_taint));
    assert_true(covers("", "present", TOLERATE_EQUAL, EFFECT_ANY, &gpu_taint));
    /* Exists does not look at the value, and without a key covers everything. */
    assert_true(covers(gpu, "", TOLERATE_EXISTS, EFFECT_ANY, &gpu_taint));
    assert_true(covers("", "", TOLERATE_EXISTS, EFFECT_ANY, &gpu_taint));
    assert_true(covers("", "", TOLERATE_EXISTS, EFFECT_NO_EXECUTE, &evicting));
    assert_false(covers("", "", TOLERATE_EXISTS, EFFECT_NO_EXECUTE, &gpu_taint));
    assert_false(covers("other", "", TOLERATE_EXISTS, EFFECT_ANY, &gpu_taint));
    /* Unknown operators and effects match nothing. */
    assert_false(covers(gpu, "present", TOLERATE_OTHER, EFFECT_ANY, &gpu_taint));
    assert_false(covers("odd", "", TOLERATE_EXISTS, EFFECT_OTHER, &odd));
    assert_true(covers("odd", "", TOLERATE_EXISTS, EFFECT_ANY, &odd));
}

TEST(toleration__compares_numbers)
{
    static const struct taint sla = {"sla", "950", EFFECT_NO_SCHEDULE};
    static const struct taint text = {"sla", "high", EFFECT_NO_SCHEDULE};

    assert_true(covers("sla", "949", TOLERATE_GT, EFFECT_ANY, &sla));
    assert_false(covers("sla", "950", TOLERATE_GT, EFFECT_ANY, &sla));
    assert_false(covers("sla", "951", TOLERATE_GT, EFFECT_ANY, &sla));
    assert_true(covers("sla", "951", TOLERATE_LT, EFFECT_ANY, &sla));
    assert_false(covers("sla", "950", TOLERATE_LT, EFFECT_ANY, &sla));
    assert_false(covers("sla", "949", TOLERATE_LT, EFFECT_ANY, &sla));
    assert_false(covers("sla", "0", TOLERATE_GT, EFFECT_ANY, &text));
    assert_false(covers("sla", "zero", TOLERATE_GT, EFFECT_ANY, &sla));
    assert_false(covers("other", "949", TOLERATE_GT, EFFECT_ANY, &sla));
}

/* The reason for a pod with this toleration; NULL: none. */
static struct unusable_cause bar_of(const struct node_taints *taints,
                                    const struct toleration *toleration)
{
    const struct node_demands demands = {.n_tolerations = toleration != NULL,
                                         .toleration = toleration};
    return taints_bar(taints, &demands);
}

TEST(taints_bar__needs_a_toleration_for_each_taint)
{
    static const struct toleration any = {"", "", TOLERATE_EXISTS, EFFECT_ANY};
    static const struct toleration cordon = {"node.kubernetes.io/unschedulable", "",
                                             TOLERATE_EXISTS, EFFECT_NO_SCHEDULE};
    static const struct toleration ready = {"node.kubernetes.io/not-ready", "", TOLERATE_EXISTS,
                                            EFFECT_NO_EXECUTE};
    const struct node_taints tainted = {.n_taints = 1, .taint = &gpu_taint};
    const struct node_taints cordoned = {.unschedulable = true};
    const struct node_taints away = {.not_ready = true};
    const struct node_taints ignored = {.n_taints = 2, .taint = (struct taint[]){soft, odd}};
    const struct node_taints garbled = {.unreadable = true, .n_taints = 1, .taint = &gpu_taint};

    assert_int_equal(bar_of(NULL, NULL).why, USABLE);
    assert_int_equal(bar_of(&ignored, NULL).why, USABLE);
    assert_int_equal(bar_of(&tainted, NULL).why, UNUSABLE_TAINTED);
    assert_ptr_equal(bar_of(&tainted, NULL).taint, &gpu_taint);
    assert_int_equal(bar_of(&tainted, &any).why, USABLE);
    assert_null(bar_of(&tainted, &any).taint);
    const struct toleration second[] = {cordon, any};
    const struct node_demands both = {.n_tolerations = 2, .toleration = second};
    assert_int_equal(taints_bar(&tainted, &both).why, USABLE);
    assert_int_equal(bar_of(&tainted, &cordon).why, UNUSABLE_TAINTED);
    assert_int_equal(bar_of(&cordoned, NULL).why, UNUSABLE_CORDONED);
    assert_string_equal(bar_of(&cordoned, NULL).taint->key, "node.kubernetes.io/unschedulable");
    assert_int_equal(bar_of(&cordoned, &cordon).why, USABLE);
    /* DaemonSets tolerate NoExecute only; a Node that is not Ready has NoSchedule, too. */
    assert_int_equal(bar_of(&away, NULL).why, UNUSABLE_NOT_READY);
    assert_int_equal(bar_of(&away, &ready).why, UNUSABLE_NOT_READY);
    assert_int_equal(bar_of(&away, &any).why, USABLE);
    /* An unreadable taint may be untolerated. */
    assert_int_equal(bar_of(&garbled, NULL).why, UNUSABLE_TAINTED);
    assert_int_equal(bar_of(&garbled, &any).why, UNUSABLE_UNREADABLE);
    assert_null(bar_of(&garbled, &any).taint);
}

TEST(taints_bar__gives_the_first_reason_of_the_table)
{
    static const struct toleration to_leaving = {"karpenter.sh/disrupted", "", TOLERATE_EXISTS,
                                                 EFFECT_ANY};
    const struct taint all[] = {gpu_taint, evicting, not_ready, leaving};
    struct node_taints taints = {.unschedulable = true, .n_taints = 4, .taint = all};

    assert_int_equal(bar_of(&taints, NULL).why, UNUSABLE_LEAVING);
    assert_int_equal(bar_of(&taints, &to_leaving).why, UNUSABLE_CORDONED);
    taints.unschedulable = false;
    assert_int_equal(bar_of(&taints, &to_leaving).why, UNUSABLE_NOT_READY);
    taints.n_taints = 2;
    assert_ptr_equal(bar_of(&taints, NULL).taint, &all[0]); /* the first of equals */
}

TEST(taints_bar__knows_the_reasons_of_well_known_taints)
{
    static const struct {
        const char *key;
        enum unusable why;
    } known[] = {
#define X(key, why) {key, why},
        WELL_KNOWN_TAINTS(X)
#undef X
            {"node.kubernetes.io/disk-pressure", UNUSABLE_TAINTED},
    };

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const struct taint taint = {known[i].key, "1", EFFECT_NO_EXECUTE};
        const struct taint mild = {known[i].key, "1", EFFECT_PREFER_NO_SCHEDULE};
        const struct node_taints hard_ones = {.n_taints = 1, .taint = &taint};
        const struct node_taints soft_ones = {.n_taints = 1, .taint = &mild};
        assert_int_equal(bar_of(&hard_ones, NULL).why, known[i].why);
        assert_int_equal(taints_close(&hard_ones, NULL).why, known[i].why);
        assert_int_equal(taints_close(&soft_ones, NULL).why, USABLE);
    }
}

/* A known toleration of everything covers taints, but not cordoned or leaving nodes. */
TEST(taints_close__ignores_tolerated_taints)
{
    static const struct toleration any = {"", "", TOLERATE_EXISTS, EFFECT_ANY};
    struct tolerations *known = tolerations_new();
    struct known_toleration *held = tolerations_add(known, &any);
    const struct node_taints tainted = {.n_taints = 1, .taint = &gpu_taint};
    const struct node_taints cordoned = {.unschedulable = true};
    const struct node_taints away = {.not_ready = true};
    const struct node_taints goes = {.n_taints = 1, .taint = &leaving};
    const struct node_taints garbled = {.unreadable = true};

    assert_int_equal(taints_close(NULL, NULL).why, USABLE);
    assert_int_equal(taints_close(&tainted, NULL).why, UNUSABLE_TAINTED);
    assert_ptr_equal(taints_close(&tainted, NULL).taint, &gpu_taint);
    assert_int_equal(taints_close(&tainted, known).why, USABLE);
    assert_int_equal(taints_close(&cordoned, known).why, UNUSABLE_CORDONED);
    assert_int_equal(taints_close(&away, known).why, UNUSABLE_NOT_READY);
    assert_int_equal(taints_close(&goes, known).why, UNUSABLE_LEAVING);
    assert_int_equal(taints_close(&garbled, known).why, UNUSABLE_UNREADABLE);
    tolerations_drop(known, held);
    assert_int_equal(taints_close(&tainted, known).why, UNUSABLE_TAINTED);
    tolerations_free(known);
}

TEST(taints_copy__is_deep_and_shared)
{
    struct taint two[] = {gpu_taint, evicting};
    struct node_taints from = {.n_taints = 2, .taint = two};
    const struct taints *taints = taints_new(&from);
    const struct taints *same = taints_new(&from);

    assert_null(taints_new(&(struct node_taints){0}));
    assert_ptr_not_equal(taints->facts.taint, two);
    assert_string_equal(taints->facts.taint[1].key, "dedicated");
    assert_string_equal(taints->facts.taint[1].value, "a");
    assert_int_equal(taints->facts.taint[1].effect, EFFECT_NO_EXECUTE);
    assert_false(taints->facts.unreadable);
    assert_ptr_equal(taints_ref(taints), taints);
    taints_unref(taints);
    assert_null(taints_ref(NULL));
    taints_unref(NULL);
    assert_true(taints_eq(taints, same));
    assert_true(taints_eq(taints, taints));
    assert_true(taints_eq(NULL, NULL));
    assert_false(taints_eq(taints, NULL));
    assert_false(taints_eq(NULL, taints));
    taints_unref(same);
    taints_unref(taints);
}

TEST(taints_eq__compares_every_field)
{
    const struct taint one[] = {{"k", "v", EFFECT_NO_SCHEDULE}};
    const struct taint others[] = {{"l", "v", EFFECT_NO_SCHEDULE},
                                   {"k", "w", EFFECT_NO_SCHEDULE},
                                   {"k", "v", EFFECT_NO_EXECUTE}};
    const struct taint two[] = {one[0], one[0]};
    const struct node_taints other[] = {
        {.n_taints = 1, .taint = &others[0]},
        {.n_taints = 1, .taint = &others[1]},
        {.n_taints = 1, .taint = &others[2]},
        {.n_taints = 2, .taint = two},
        {.n_taints = 1, .taint = one, .unschedulable = true},
        {.n_taints = 1, .taint = one, .not_ready = true},
        {.n_taints = 1, .taint = one, .unreadable = true},
    };
    const struct taints *first = taints_new(&(struct node_taints){.n_taints = 1, .taint = one});

    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        const struct taints *second = taints_new(&other[i]);
        assert_false(taints_eq(first, second));
        assert_false(taints_eq(second, first));
        taints_unref(second);
    }
    taints_unref(first);
    const struct taint unlike[] = {one[0], others[0]};
    const struct taints *alike = taints_new(&(struct node_taints){.n_taints = 2, .taint = two});
    const struct taints *last = taints_new(&(struct node_taints){.n_taints = 2, .taint = unlike});
    assert_false(taints_eq(alike, last));
    taints_unref(alike);
    taints_unref(last);
    /* Each of the three flags alone needs a copy. */
    for (size_t i = 4; i < ARRAY_LEN(other); i++) {
        struct node_taints alone = other[i];
        alone.n_taints = 0;
        const struct taints *copy = taints_new(&alone);
        assert_non_null(copy);
        taints_unref(copy);
    }
}

/* A Node object may have a megabyte, and each of its versions would keep a copy. */
TEST(taints_copy__is_unreadable_beyond_its_limit)
{
    enum { EACH = sizeof(struct taint) + 2 };
    char *key = xcalloc(TAINTS_BYTES_MAX + 2, 1);
    const struct taint one[] = {{key, "", EFFECT_PREFER_NO_SCHEDULE}};
    const struct node_taints from = {.n_taints = 1, .taint = one};

    memset(key, 'k', TAINTS_BYTES_MAX - EACH);
    const struct taints *fits = taints_new(&from);
    assert_false(fits->facts.unreadable);
    assert_int_equal(fits->facts.n_taints, 1);
    key[TAINTS_BYTES_MAX - EACH] = 'k';
    const struct taints *beyond = taints_new(&from);
    assert_true(beyond->facts.unreadable);
    assert_int_equal(beyond->facts.n_taints, 0);
    assert_int_equal(taints_close(&beyond->facts, NULL).why, UNUSABLE_UNREADABLE);
    taints_unref(fits);
    taints_unref(beyond);
    xfree(key);
}
