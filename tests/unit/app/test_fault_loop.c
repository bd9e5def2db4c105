/*
 * One scenario, repeated: in run n the n-th call of one function fails, until no call is left that
 * could fail. Whatever fails, the state is right afterwards.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/sync/outbox.h"

#include "support/core_fixture.h"
#include "support/points.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "support/valid.h"
#include "support_fixture.h"

enum { CALLS_MAX = 4000 };

/* Names the run, so that one that went wrong can be found. */
static char which[128];

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s: " #condition, which);                                                    \
    } while (0)

#define CHECK_TEXT(text, wanted)                                                                   \
    do {                                                                                           \
        if (strcmp(text, wanted) != 0)                                                             \
            fail_msg("%s: \"%s\" is not \"%s\"", which, text, wanted);                             \
    } while (0)

/* --- while it runs --- */

static void no_gpu_is_given_twice(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_gpus; i++)
            CHECK(node->gpu[i].used_milli + node->gpu[i].reserved_milli <= node->gpu[i].milli);
}

/* The state of the pod's allocation on the node in the snapshot; -1 if it has none. */
static int state_of(struct app_fixture *fixture, const char *pod, const char *node)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *home = snapshot_node(snapshot, text_of(node));
    int state = -1;

    for (uint32_t i = 0; home != NULL && i < home->n_allocations; i++)
        if (strcmp(home->allocation[i]->facts.name, pod) == 0)
            state = (int)home->allocation[i]->facts.state;
    return state;
}

static void an_error_says_what_happened(const char *error)
{
    static const char *const known[] = {
        "room: ",        "elsewhere: ", "changed: ",    "unknown_pod: ",
        "unknown_node:", "not ready: ", "in doubt: ",   "the ledger cannot be written: ",
        "milligpu is",   "no_gpu: ",    "not allowed:", "unbound: ",
    };
    bool said = false;

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        said = said || strncmp(error, known[i], strlen(known[i])) == 0;
    if (!said)
        fail_msg("%s: what does \"%s\" say?", which, error);
}

/* A success is true at the moment it is answered; the pod may end later. */
static void answers_are_true(struct app_fixture *fixture, size_t from)
{
    for (size_t i = from; i < fixture->call_count; i++) {
        struct fixture_call *call = fixture->calls[i];
        if (call->pod[0] == '\0' || call->http.status == 0 || call->cut)
            continue;
        const char *error = fixture_error(call);
        if (error[0] != '\0') {
            an_error_says_what_happened(error);
            continue;
        }
        const char *where = fixture_where(fixture, call->pod);
        CHECK(where != NULL);
        CHECK_TEXT(where, call->node);
        CHECK(state_of(fixture, call->pod, call->node) >= 0);
    }
}

static void look(struct app_fixture *fixture, size_t from)
{
    fixture_run(fixture);
    no_gpu_is_given_twice(fixture);
    answers_are_true(fixture, from);
    CHECK(!fixture_disk_broken(fixture) || !app_ready(&fixture->app, NULL));
}

/* --- the scenario --- */

static void bind(struct app_fixture *fixture, const char *pod, const char *node)
{
    const size_t from = fixture->call_count;

    (void)fixture_bind_begin(fixture, pod, node);
    look(fixture, from);
}

static void two_for_one_gpu(struct app_fixture *fixture)
{
    const size_t from = fixture->call_count;

    (void)fixture_bind_begin(fixture, "a", "n1");
    (void)fixture_bind_begin(fixture, "b", "n1"); /* one too many */
    (void)fixture_bind_begin(fixture, "a", "n1"); /* once more, while the first is on its way */
    look(fixture, from);
}

static void before_the_restart(struct app_fixture *fixture)
{
    fixture_node(fixture, "n1", "1000");
    fixture_node(fixture, "n2", "1000");
    fixture_node(fixture, "n3", "1000");
    look(fixture, fixture->call_count);
    fixture_pod(fixture, "a", "600");
    fixture_pod(fixture, "b", "600");
    fixture_pod(fixture, "c", "300");
    look(fixture, fixture->call_count);
    (void)fixture_filter(fixture, "a", "n1 n2");
    two_for_one_gpu(fixture);
    fixture_pass(fixture, 1000);
    bind(fixture, "c", "n1");
    bind(fixture, "a", "n2"); /* elsewhere */
    fixture_bound_pod(fixture, "x", "400", "n3");
    fixture_node(fixture, "n2", "2000");
    look(fixture, fixture->call_count);
    fixture_end_pod(fixture, "c");
    fixture_pod(fixture, "d", "500");
    bind(fixture, "d", "n2"); /* perhaps before the watch has shown it */
}

static void after_the_restart(struct app_fixture *fixture)
{
    look(fixture, fixture->call_count);
    bind(fixture, "b", "n2");
    fixture_bound_pod(fixture, "y", "200", "n3");
    fixture_delete_pod(fixture, "x");
    look(fixture, fixture->call_count);
    fixture_bound_pod(fixture, "w", "100", "n3"); /* not for long */
    look(fixture, fixture->call_count);
    fixture_delete_pod(fixture, "w");
    look(fixture, fixture->call_count);
    fixture_pod(fixture, "e", "700");
    look(fixture, fixture->call_count);
    (void)fixture_filter(fixture, "e", "n1"); /* waits for a to go: a pod to wake */
    fixture_terminate_pod(fixture, "a");      /* an unbound pod is gone at once */
    look(fixture, fixture->call_count);
    if (fixture_where(fixture, "a") != NULL)
        fixture_delete_pod(fixture, "a");
    look(fixture, fixture->call_count);
    bind(fixture, "e", "n1"); /* there is room only because a has gone */
    fixture_pass(fixture, 5000);
    look(fixture, fixture->call_count);
}

/* --- once everything is idle --- */

static void nobody_waits_for_an_answer(struct app_fixture *fixture)
{
    struct writer_tables tables;

    writer_tables(fixture->parts.writer, &tables);
    CHECK(tables.inflight == 0 && tables.n_kept == 0 && tables.n_put_off == 0);
    CHECK(outbox_open(fixture->app.outbox) == 0);
    for (size_t i = 0; i < fixture->call_count; i++)
        CHECK(fixture->calls[i]->http.status == 200 || fixture->calls[i]->cut);
}

static void disk_and_memory_agree(struct app_fixture *fixture)
{
    struct ledger *ledger = ledger_new();
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    struct err err;

    CHECK(store_verify(fixture->app.store, &err) == 0);
    CHECK(store_load(fixture->app.store, ledger, &err) == 0);
    ledger_assert_valid(ledger);
    char *on_disk = core_dump(ledger);
    char *in_memory = core_dump_snapshot(snapshot);
    CHECK_TEXT(on_disk, in_memory);
    xfree(on_disk);
    xfree(in_memory);
    ledger_free(ledger);
}

static bool is_noted(const struct node *node, const struct allocation *allocation,
                     const struct pod *pod)
{
    CLEANUP(strbuf_done) struct strbuf note;

    strbuf_init(&note);
    note_value(&note, allocation, node);
    const bool same = pod->annotation != NOTE_NONE && strcmp(pod->note_text, note.data) == 0;
    return same || allocation->facts.presumed;
}

/* How many allocations the pod must have, 0 or 1; checks that it has it. */
static size_t pod_has_what_it_shows(struct app_fixture *fixture, const char *name)
{
    char path[128];
    CLEANUP(arena_done) struct arena arena;
    CLEANUP(strbuf_done) struct strbuf out;
    struct pod pod;
    struct err err;
    size_t wanted = 0;

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s", name);
    strbuf_init(&out);
    arena_init(&arena);
    const int status = fake_apiserver_request(fixture->app.fake, "GET", path, TEXT(""), &out);
    CHECK(status == 200 || status == 404);
    if (status == 200) {
        CHECK(pod_decode((struct text){out.data, out.len}, &fixture->app.rules.wire_rules, &arena,
                         &pod, &err) == 0);
        wanted = pod.node[0] != '\0' && !pod_ended(&pod) ? 1 : 0;
    }
    if (wanted > 0) {
        const struct snapshot *snapshot = view_take(fixture->app.view);
        const struct node *node = snapshot_node(snapshot, text_of(pod.node));
        CHECK(node != NULL);
        const struct allocation *held = node_allocation(node, text_of(pod.uid));
        CHECK(held != NULL);
        CHECK(held->facts.state == STATE_BOUND);
        CHECK(is_noted(node, held, &pod));
        snapshot_unref(snapshot);
    }
    return wanted;
}

static void nothing_is_lost_or_leaked(struct app_fixture *fixture)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "w", "x", "y", "z"};
    size_t wanted = 0;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        wanted += pod_has_what_it_shows(fixture, names[i]);
    CHECK(fixture_allocations(fixture) == wanted);
}

static void the_world_is_right(struct app_fixture *fixture)
{
    CHECK(app_ready(&fixture->app, NULL));
    fixture_pod(fixture, "z", "100");
    CHECK_TEXT(fixture_bind(fixture, "z", "n2"), "");
    no_gpu_is_given_twice(fixture);
    nobody_waits_for_an_answer(fixture);
    disk_and_memory_agree(fixture);
    nothing_is_lost_or_leaked(fixture);
}

/* --- the loop --- */

static const char *point_name(enum fixture_point point)
{
    static const char *const names[] = {
        [POINT_NOWHERE] = "nowhere", [POINT_BEGIN] = "begin",       [POINT_WRITE] = "write",
        [POINT_COMMIT] = "commit",   [POINT_MAINTAIN] = "maintain", [POINT_LEARN] = "learn",
        [POINT_MEASURE] = "measure", [POINT_KEEP_POLICY] = "keep",  [POINT_REMEMBER] = "remember",
        [POINT_REQUEST] = "request"};

    return names[point];
}

static const char *trouble_name(const struct fixture_fault *fault)
{
    static const char *const names[] = {"refused", "unsent", "lost", "unheard", "status", "short"};
    return fault->point == POINT_REQUEST ? names[fault->trouble] : "fails";
}

/* Into each pod that it has not bound, kube-scheduler writes why: the evidence that ends doubts. */
static void conditions_are_written(struct app_fixture *fixture)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *node = fixture_where(fixture, names[i]);
        if (node != NULL && node[0] == '\0')
            fixture_annotate(fixture, names[i], "\"example.com/condition\":\"not bound\"");
    }
    fixture_run_until_idle(fixture);
}

/* False if no call was left that could fail. */
static bool run(const struct fixture_fault *fault, const char *ledger)
{
    struct app_fixture *fixture = fixture_new_on(ledger);

    (void)snprintf(which, sizeof which, "%s %u %s %d %s", point_name(fault->point), fault->nth,
                   trouble_name(fault), fault->status, fault->lasting ? "and all after" : "once");
    fixture_break(fixture, fault);
    before_the_restart(fixture);
    fixture_restart(fixture);
    after_the_restart(fixture);
    const bool struck = fixture->struck > 0;
    const bool disk = fixture_disk_broken(fixture);
    fixture_heal(fixture);
    fixture_pass(fixture, 2000);
    CHECK(!disk || app_ready(&fixture->app, NULL));
    fixture_run_until_idle(fixture);
    conditions_are_written(fixture);
    the_world_is_right(fixture);
    fixture_free(fixture);
    return struck;
}

struct points {
    struct fixture_fault fault;
    uint32_t once;    /* distance between calls that fail alone */
    uint32_t lasting; /* distance between calls from which on all fail */
    uint32_t least;   /* with fewer calls the scenario would prove nothing */
};

static void try_points(struct points points)
{
    enum { SAMPLED = 3 };
    const uint32_t step = are_points_sampled() ? SAMPLED : 1;
    struct fixture_fault fault = points.fault;

    for (int i = 0; i < 2; i++) {
        uint32_t runs = 1;
        fault.lasting = i == 1;
        for (fault.nth = 1; run(&fault, ":memory:"); runs++)
            if ((fault.nth += step * (fault.lasting ? points.lasting : points.once)) > CALLS_MAX)
                fail_msg("%s: there is no end of it", which);
        if (fault.nth <= points.least)
            fail_msg("%s: only %u calls could fail", which, fault.nth - 1);
        print_message("%s: %u runs\n", which, runs);
    }
}

TEST(fault_loop__survives_each_failed_call_of_the_store)
{
    static const struct points row[] = {
        {{.point = POINT_BEGIN}, 1, 1, 15},      {{.point = POINT_WRITE}, 1, 1, 20},
        {{.point = POINT_COMMIT}, 1, 1, 15},     {{.point = POINT_MAINTAIN}, 16, 32, 100},
        {{.point = POINT_LEARN}, 1, 1, 1},       /* it is stored once a minute */
        {{.point = POINT_KEEP_POLICY}, 1, 1, 1}, /* once in each process */
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        try_points(row[i]);
}

TEST(fault_loop__survives_each_failed_request)
{
    static const struct {
        enum fixture_trouble trouble;
        int status;
        uint32_t once;
    } row[] = {{POINT_REFUSED, 0, 1},  {POINT_UNSENT, 0, 1},   {POINT_LOST, 0, 1},
               {POINT_UNHEARD, 0, 1},  {POINT_SHORT, 0, 1},    {POINT_STATUS, 500, 1},
               {POINT_STATUS, 403, 3}, {POINT_STATUS, 409, 3}, {POINT_STATUS, 503, 3},
               {POINT_STATUS, 429, 3}, {POINT_STATUS, 404, 3}, {POINT_STATUS, 401, 3}};

    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        try_points((struct points){
            .fault = {.point = POINT_REQUEST, .trouble = row[i].trouble, .status = row[i].status},
            .once = row[i].once,
            .lasting = 7,
            .least = 15});
}

/* The same with a ledger file, which is closed and opened again in the middle. */
TEST(fault_loop__survives_failed_commits_of_a_ledger_file)
{
    char folder[] = "/tmp/milligpu-loop-XXXXXX";
    char path[64];

    assert_non_null(mkdtemp(folder));
    for (uint32_t nth = 5; nth <= 15; nth += 5) {
        const struct fixture_fault fault = {.point = POINT_COMMIT, .nth = nth};
        (void)snprintf(path, sizeof path, "%s/%u.db", folder, nth);
        assert_true(run(&fault, path));
        fixture_remove_ledger(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

#ifdef __SANITIZE_THREAD__
enum { SKIPPED = 77, ONE_THREAD_HAS_NO_RACES = 1 };
#else
enum { SKIPPED = 77, ONE_THREAD_HAS_NO_RACES = 0 };
#endif

static int skip_without_races(void **state)
{
    (void)state;
    if (ONE_THREAD_HAS_NO_RACES)
        exit(SKIPPED);
    return 0;
}

TEST_GROUP(skip_without_races, NULL)
