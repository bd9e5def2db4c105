#include <stdio.h>
#include <string.h>

#include "milligpu/core/ledger/reconcile.h"

#include "support/core_fixture.h"
#include "support/test.h"

static const struct core_gpu two_a100[] = {{.id = "GPU-a", .index = 0, .mib = 81920},
                                           {.id = "GPU-b", .index = 1, .mib = 81920}};

struct sighting {
    const char *kind;
    unsigned count;
    struct drift last;
};

static void look(void *user, const struct drift *drift)
{
    struct sighting *sighting = user;
    assert_non_null(drift->node);
    assert_true(strlen(drift->text) > 0);
    if (strcmp(drift->kind, sighting->kind) != 0)
        return;
    sighting->count++;
    sighting->last = *drift;
}

static struct sighting see(const struct core_fixture *core, const char *node, const char *kind)
{
    struct sighting sighting = {.kind = kind};
    drift_of(ledger_node(core->ledger, text_of(node)), &sighting, look);
    return sighting;
}

static void nothing(void *user, const struct drift *drift)
{
    (void)user;
    fail_msg("%s: %s", drift->kind, drift->text);
}

static void show(struct core_fixture *core, const struct inventory *inventory, enum vouch vouch)
{
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory, .vouch = vouch};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
}

CORE_TEST(drift__has_adopted_for_a_pod_without_a_believed_annotation)
{
    (void)core_node(core, "n1", two_a100, 2);
    struct pod *pod = core_pod(core, "a", "n1");
    pod->scheduled_ms = 4711;
    core_note(core, pod, "c0 GPU-a 300 24576");
    (void)core_adopt(core, pod, "300");
    drift_of(ledger_node(core->ledger, TEXT("n1")), NULL, nothing);
    pod = core_pod(core, "b", "n1");
    pod->scheduled_ms = 1;
    (void)core_adopt(core, pod, "300");
    struct sighting adopted = see(core, "n1", "adopted");
    assert_int_equal(adopted.count, 1);
    assert_int_equal(adopted.last.since_ms, 1);
    assert_string_equal(adopted.last.allocation->facts.uid, "b");
    assert_int_equal(see(core, "n1", "annotation").count, 0);
}

/* Exact to the ms; no other kind ages, and a clock that is behind ages no drift. */
CORE_TEST(drift__is_information_for_an_adopted_pod_after_a_day)
{
    const int64_t day_ms = INT64_C(86400000);
    (void)core_node(core, "n1", two_a100, 2);
    struct drift drift = {
        .kind = "adopted", .since_ms = 5000, .node = ledger_node(core->ledger, TEXT("n1"))};

    assert_string_equal(drift_severity(&drift, 5000 + day_ms - 1), "warning");
    assert_string_equal(drift_severity(&drift, 5000 + day_ms), "information");
    assert_false(drift_is_information(&drift, 5000 + day_ms - 1));
    assert_true(drift_is_information(&drift, 5000 + day_ms));
    assert_true(drift_is_information(&drift, 5000 + 9 * day_ms));
    assert_false(drift_is_information(&drift, 5000));
    assert_false(drift_is_information(&drift, 4000));
    for (size_t kind = 0; kind < DRIFT_KIND_COUNT; kind++) {
        drift.kind = drift_kind_name(kind);
        assert_int_equal(drift_is_information(&drift, 5000 + day_ms),
                         strcmp(drift.kind, "adopted") == 0);
    }
}

TEST(drift_kind__is_found_by_its_whole_name)
{
    for (size_t kind = 0; kind < DRIFT_KIND_COUNT; kind++) {
        assert_int_equal(drift_kind_find(text_of(drift_kind_name(kind))), kind);
        assert_true(strlen(drift_kind_help(kind)) > strlen(drift_kind_name(kind)));
    }
    assert_int_equal(drift_kind_find(TEXT("adopt")), DRIFT_KIND_COUNT);
    assert_int_equal(drift_kind_find(TEXT("")), DRIFT_KIND_COUNT);
    assert_string_equal(drift_kind_name(0), "adopted");
    assert_string_equal(drift_kind_name(DRIFT_KIND_COUNT - 1), "node_gone");
}

CORE_TEST(mixed__counts_all_pods_and_has_the_time_of_the_last)
{
    static const int64_t scheduled_ms[] = {20, 40, 30};
    (void)core_node(core, "n1", two_a100, 2);
    for (size_t i = 0; i < ARRAY_LEN(scheduled_ms); i++) {
        struct pod *pod = core_pod(core, (char[]){(char)('a' + i), '\0'}, "n1");
        pod->scheduled_ms = scheduled_ms[i];
        pod->whole_gpus = i == 0 ? 2 : 0;
        (void)core_adopt(core, pod, i == 0 ? NULL : "300");
    }
    struct sighting mixed = see(core, "n1", "mixed");
    assert_string_equal(mixed.last.text,
                        "2 pods with shares beside 2 whole GPUs of another resource");
    assert_int_equal(mixed.last.since_ms, 40);
}

CORE_TEST(drift__has_unusable_nodes_but_no_excluded_ones)
{
    static const struct {
        enum inventory_problem problem;
        const char *kind; /* NULL: no drift; another system shares the GPUs */
    } out[] = {
        {PROBLEM_MIG, NULL},
        {PROBLEM_SHARING, NULL},
        {PROBLEM_VIRTUAL_MACHINES, NULL},
        {PROBLEM_NO_SOURCE, NULL},
        {PROBLEM_ANNOTATION, "unreadable"},
        {PROBLEM_AMOUNT, "unreadable"},
        {PROBLEM_LIMIT, "unreadable"},
        {PROBLEM_FOREIGN_UNITS, "foreign_units"},
    };
    for (size_t i = 0; i < ARRAY_LEN(out); i++) {
        struct inventory *inventory = core_inventory(core, "n1", "u", NULL, 0);
        inventory->problem = out[i].problem;
        memcpy(inventory->problem_text, "why not", sizeof "why not");
        show(core, inventory, VOUCH_NONE);
        if (out[i].kind == NULL) {
            drift_of(ledger_node(core->ledger, TEXT("n1")), NULL, nothing);
            continue;
        }
        struct sighting sighting = see(core, "n1", out[i].kind);
        assert_int_equal(sighting.count, 1);
        assert_string_equal(sighting.last.text, "why not");
        assert_int_equal(sighting.last.since_ms, core->now_ms);
    }
}

static void check(struct core_fixture *core, enum vouch vouch, int64_t at_ms)
{
    const struct command command = {
        .kind = COMMAND_NODE, .at_ms = at_ms, .node = "n1", .has_vouch = true, .vouch = vouch};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
}

CORE_TEST(not_vouched__is_drift_unless_the_agent_leaves_on_request)
{
    assert_int_equal(core_node(core, "n1", two_a100, 2), VERDICT_OK);
    for (int i = VOUCH_GOOD; i < VOUCHES; i++) {
        const enum vouch vouch = (enum vouch)i;
        check(core, vouch, 5000 + i);
        const struct sighting sighting = see(core, "n1", "not_vouched");
        assert_int_equal(sighting.count, vouch > VOUCH_LEAVING);
        if (vouch <= VOUCH_LEAVING)
            continue;
        /* the time of this reason, not of the node */
        assert_int_equal(sighting.last.since_ms, 5000 + i);
        assert_null(sighting.last.gpu);
        assert_non_null(strstr(sighting.last.text, "no new shares: "));
        assert_string_equal(sighting.last.text + strlen("no new shares: "), vouch_help(vouch));
    }
}

CORE_TEST(not_vouched__needs_gpus_of_the_node)
{
    static const enum inventory_problem problems[] = {PROBLEM_MIG, PROBLEM_NO_SOURCE, PROBLEM_NONE};

    for (size_t i = 0; i < ARRAY_LEN(problems); i++) {
        struct inventory *inventory = core_inventory(core, "n1", "u", NULL, 0);
        inventory->problem = problems[i];
        show(core, inventory, VOUCH_NO_AGENT);
        drift_of(ledger_node(core->ledger, TEXT("n1")), NULL, nothing);
    }
}

/* A node built without a Node object: with one pod, or with a problem. */
static struct sighting see_built(struct core_fixture *core, const struct allocation_facts *pod,
                                 const char *problem_text, const char *kind)
{
    struct names *names = ledger_names(core->ledger);
    struct sighting sighting = {.kind = kind};
    const struct allocation *allocation = pod != NULL ? allocation_new(pod) : NULL;
    const struct node_build build = {
        .name = names_intern(names, TEXT("n1")),
        .uid = names_intern(names, TEXT("u")),
        .problem = problem_text != NULL ? PROBLEM_LIMIT : PROBLEM_NONE,
        .problem_text = names_intern(names, text_of(problem_text)),
        .n_allocations = pod != NULL ? 1 : 0,
        .allocation = &allocation,
    };
    struct node *node = node_new(&build);
    drift_of(node, &sighting, look);
    node_unref(node);
    allocation_unref(allocation);
    assert_int_equal(sighting.count, 1);
    return sighting;
}

CORE_TEST(drift__has_time_0_if_the_time_is_not_known)
{
    const struct allocation_facts pod = {
        .uid = "a",
        .namespace = "default",
        .name = "a",
        .node = names_intern(ledger_names(core->ledger), TEXT("n1")),
        .node_uid = names_intern(ledger_names(core->ledger), TEXT("u")),
        .state = STATE_BOUND,
        .origin = ORIGIN_ADOPTED,
        .held_gpus = 1,
        .unplaced_milli = 1,
    };
    assert_int_equal(see_built(core, &pod, NULL, "unplaced").last.since_ms, 0);
    assert_int_equal(see_built(core, &pod, NULL, "mixed").last.since_ms, 0);
}

CORE_TEST(problem_text__is_clipped_or_else_the_name_of_the_problem)
{
    char text[REASON_BYTES_MAX + 1] = {0};
    memset(text, '?', sizeof text - 1);
    struct sighting limit = see_built(core, NULL, text, "unreadable");
    assert_int_equal(strlen(limit.last.text), REASON_BYTES_MAX - 1);
    assert_string_equal(limit.last.text + REASON_BYTES_MAX - 4, "...");
    assert_string_equal(see_built(core, NULL, "?", "unreadable").last.text, "?");
    assert_string_equal(see_built(core, NULL, "", "unreadable").last.text, "limit");
}

/* A node with usable GPUs; text is the part of its annotation without a meaning. */
static void show_with_text(struct core_fixture *core, const char *text)
{
    struct inventory *inventory = core_inventory(core, "n1", "u", two_a100, 2);
    (void)snprintf(inventory->problem_text, sizeof inventory->problem_text, "%s", text);
    show(core, inventory, VOUCH_NONE);
}

CORE_TEST(node_annotation__is_drift_while_the_text_is_there)
{
    show_with_text(core, "");
    const int64_t before_ms = core->now_ms;
    show_with_text(core, "\"1\" names no GPU");
    struct sighting sighting = see(core, "n1", "node_annotation");
    assert_int_equal(sighting.count, 1);
    assert_string_equal(sighting.last.text, "\"1\" names no GPU");
    assert_true(sighting.last.since_ms > before_ms);
    const int64_t since_ms = sighting.last.since_ms;
    static const char *const other[] = {"?", "!"}; /* the drift keeps its time */
    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        show_with_text(core, other[i]);
        sighting = see(core, "n1", "node_annotation");
        assert_string_equal(sighting.last.text, other[i]);
        assert_int_equal(sighting.last.since_ms, since_ms);
    }
    show_with_text(core, "");
    drift_of(ledger_node(core->ledger, TEXT("n1")), NULL, nothing);
}

CORE_TEST(unhealthy__names_the_pod_and_the_reason)
{
    struct core_gpu gpu[] = {two_a100[0], two_a100[1]};
    (void)core_node(core, "n1", gpu, 2);
    (void)core_reserve(core, "a", "n1", "1000");
    (void)core_reserve(core, "b", "n1", "300");
    (void)core_reserve(core, "c", "n1", "200+i1000");
    gpu[0].sick = true;
    gpu[0].ill = "XID 79, since 2026-11-24T20:01:02Z";
    gpu[1].ill = "nobody asks why it is well";
    (void)core_node(core, "n1", gpu, 2);
    struct sighting sick = see(core, "n1", "unhealthy");
    assert_int_equal(sick.count, 1);
    assert_string_equal(sick.last.allocation->facts.uid, "a");
    assert_string_equal(sick.last.text,
                        "its GPU GPU-a is unhealthy: XID 79, since 2026-11-24T20:01:02Z");
    assert_int_equal(sick.last.since_ms, ledger_node(core->ledger, TEXT("n1"))->since_ms);
    gpu[0].ill = NULL;
    gpu[1].sick = true;
    (void)core_node(core, "n1", gpu, 2);
    sick = see(core, "n1", "unhealthy");
    assert_int_equal(sick.count, 2); /* a and b; c has no share */
    assert_string_equal(sick.last.text, "its GPU GPU-b is unhealthy: nobody asks why it is well");
    gpu[1].ill = NULL;
    (void)core_node(core, "n1", gpu, 2);
    sick = see(core, "n1", "unhealthy");
    assert_string_equal(sick.last.text, "its GPU GPU-b is unhealthy");
    (void)core_node(core, "n1", gpu, 0);
    assert_int_equal(see(core, "n1", "unhealthy").count, 0); /* they are absent */
    assert_int_equal(see(core, "n1", "absent").last.since_ms, core->now_ms);
}

CORE_TEST(unhealthy__names_one_gpu_of_a_pod)
{
    struct core_gpu gpu[] = {two_a100[0], two_a100[1]};
    (void)core_node(core, "n1", gpu, 2);
    (void)core_reserve(core, "a", "n1", "600x2");
    gpu[1].sick = true;
    (void)core_node(core, "n1", gpu, 2);
    assert_string_equal(see(core, "n1", "unhealthy").last.text, "its GPU GPU-b is unhealthy");
    gpu[0].sick = true;
    (void)core_node(core, "n1", gpu, 2);
    const struct sighting sick = see(core, "n1", "unhealthy");
    assert_int_equal(sick.count, 1);
    assert_string_equal(sick.last.text, "its GPU GPU-a is unhealthy");
    /* The pod has shares of both GPUs: either one is mixed since that pod. */
    gpu[1].held = "process";
    (void)core_node(core, "n1", gpu, 2);
    assert_int_equal(see(core, "n1", "mixed").last.since_ms,
                     ledger_find(core->ledger, TEXT("a"))->facts.reserved_ms);
}

CORE_TEST(gpu_note__changes_the_node_by_itself)
{
    struct core_gpu gpu[] = {two_a100[0], two_a100[1]};
    gpu[0].sick = true;
    gpu[0].ill = "XID 79";
    gpu[0].held = "process";
    gpu[1].held = "pod:a";
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_SAME);
    gpu[0].ill = NULL;
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    gpu[0].ill = "XID 48";
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    gpu[1].held = "pod:b";
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_SAME);
}

/* Pods with whole GPUs or a share of this GPU count; pods on other GPUs do not. */
CORE_TEST(mixed__of_a_gpu_has_the_time_of_the_last_pod_there)
{
    struct core_gpu gpu[] = {two_a100[0], two_a100[1]};
    (void)core_node(core, "n1", gpu, 2);
    (void)core_reserve(core, "a", "n1", "900");
    (void)core_reserve(core, "b", "n1", "100");
    (void)core_reserve(core, "c", "n1", "500");
    gpu[0].held = "process";
    gpu[1].held = NULL;
    (void)core_node(core, "n1", gpu, 2);
    const struct allocation *b = ledger_find(core->ledger, TEXT("b"));
    struct sighting mixed = see(core, "n1", "mixed");
    assert_int_equal(mixed.count, 1);
    assert_string_equal(mixed.last.gpu->id->text, "GPU-a");
    assert_string_equal(mixed.last.text, "2 pods have shares of a GPU that process holds whole");
    assert_true(b->facts.reserved_ms > 0);
    assert_int_equal(mixed.last.since_ms, b->facts.reserved_ms);
    (void)core_step(core, COMMAND_RELEASE, "b");
    mixed = see(core, "n1", "mixed");
    assert_string_equal(mixed.last.text, "1 pod has shares of a GPU that process holds whole");
    assert_int_equal(mixed.last.since_ms, ledger_find(core->ledger, TEXT("a"))->facts.reserved_ms);
    struct pod *whole = core_pod(core, "w", "n1");
    whole->ours = false;
    whole->whole_gpus = 1;
    (void)core_adopt(core, whole, NULL);
    gpu[0].held = "pod:w";
    (void)core_node(core, "n1", gpu, 2);
    mixed = see(core, "n1", "mixed");
    assert_int_equal(mixed.count, 1);
    assert_int_equal(mixed.last.since_ms, ledger_find(core->ledger, TEXT("w"))->facts.bound_ms);
    assert_string_equal(mixed.last.text, "1 pod has shares of a GPU that pod:w holds whole");
}

CORE_TEST(duplicate_gpu__is_drift_of_both_nodes)
{
    (void)core_node(core, "n1", two_a100, 1);
    (void)core_node(core, "n2", two_a100, 1);
    assert_int_equal(see(core, "n2", "duplicate_gpu").count, 1);
    /* The first node has drift, too, and stays in use. */
    const struct node *first = ledger_stale_duplicate(core->ledger);
    assert_non_null(first);
    const struct command again = {.kind = COMMAND_NODE, .node = first->name->text};
    const int64_t since_ms = first->since_ms;
    assert_int_equal(core_do(core, &again), VERDICT_OK);
    assert_null(ledger_stale_duplicate(core->ledger));
    assert_int_equal(see(core, "n1", "duplicate_gpu").count, 1);
    assert_int_equal(ledger_node(core->ledger, TEXT("n1"))->since_ms, since_ms);
    assert_int_equal(core_reserve(core, "on-first", "n1", "100"), VERDICT_OK);
}
