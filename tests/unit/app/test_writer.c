#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"

#include "store/store_internal.h"
#include "support/other_thread.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "support_fixture.h"

APP_TEST(bind__ends_on_the_api_server_and_in_the_ledger)
{
    fixture_show_pod(fixture, "a", "300");
    assert_says(fixture_filter(fixture, "a", "n1 n2"), "\"n1\"");
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    assert_string_equal(fixture_where(fixture, "a"), "n1");
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_reserved(fixture, "n1"), 0);
    assert_int_equal(fixture->bindings, 1);
}

APP_TEST(bind__fetches_a_pod_that_the_watch_has_not_shown)
{
    fixture_pod(fixture, "a", "300");
    struct fixture_call *call =
        fixture_bind_begin(fixture, "a", "n1"); /* not shown by the watch yet */
    fixture_run(fixture);
    assert_string_equal(fixture_error(call), "");
    assert_string_equal(fixture_where(fixture, "a"), "n1");
}

APP_TEST(bind__gives_the_last_room_to_one_of_two_pods)
{
    fixture_pod(fixture, "a", "600");
    fixture_show_pod(fixture, "b", "600");
    struct fixture_call *a = fixture_bind_begin(fixture, "a", "n1");
    struct fixture_call *b = fixture_bind_begin(fixture, "b", "n1");
    fixture_run(fixture);
    assert_string_equal(fixture_error(a), "");
    assert_string_equal(fixture_error(b), "room: no GPU with 600 milli free");
    assert_int_equal(fixture_taken(fixture, "n1"), 600);
    assert_string_equal(fixture_where(fixture, "b"), "");
}

APP_TEST(bind__commits_once_for_a_batch)
{
    for (int i = 0; i < 4; i++)
        fixture_pod(fixture, fixture_name("p", i), "200");
    fixture_run(fixture);
    const uint32_t before = fixture->commits;
    for (int i = 0; i < 4; i++)
        (void)fixture_bind_begin(fixture, fixture_name("p", i), "n1");
    (void)writer_step(fixture->parts.writer, 0);
    assert_int_equal(fixture->commits, before + 1);
    assert_int_equal(fixture_reserved(fixture, "n1"), 800);
}

APP_TEST(bind__sends_one_binding_for_two_calls)
{
    fixture_show_pod(fixture, "a", "300");
    struct fixture_call *first = fixture_bind_begin(fixture, "a", "n1");
    struct fixture_call *second = fixture_bind_begin(fixture, "a", "n1");
    struct fixture_call *elsewhere = fixture_bind_begin(fixture, "a", "n2");
    fixture_run(fixture);
    assert_string_equal(fixture_error(first), "");
    assert_string_equal(fixture_error(second), "");
    assert_says(fixture_error(elsewhere), "n1");
    assert_int_equal(fixture->bindings, 1);
}

APP_TEST(bind__sends_and_keeps_nothing_when_the_commit_fails)
{
    fixture_show_pod(fixture, "a", "300");
    fixture->disk_full = true;
    assert_says(fixture_bind(fixture, "a", "n1"), "disk is full");
    assert_int_equal(fixture->bindings, 0);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
    assert_false(app_ready(&fixture->app, NULL));
    assert_says(fixture_filter(fixture, "a", "n1"), "cannot be written");
    fixture_pass(fixture, 3000);
    assert_false(app_ready(&fixture->app, NULL));
    fixture->disk_full = false; /* no restart is needed */
    fixture_pass(fixture, 3000);
    assert_true(app_ready(&fixture->app, NULL));
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
}

APP_TEST(lost_batch__is_written_when_the_disk_works_again)
{
    fixture_grant(fixture, "a", "300", "n1");
    fixture->disk_full = true;
    fixture_delete_pod(fixture, "a");
    fixture_bound_pod(fixture, "b", "400", "n2");
    fixture_pass(fixture, 2000);
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_taken(fixture, "n2"), 0);
    fixture->disk_full = false;
    fixture_pass(fixture, 2000);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
    assert_int_equal(fixture_taken(fixture, "n2"), 400);
}

APP_TEST(lost_batch__comes_before_later_events)
{
    fixture->disk_full = true;
    fixture_bound_pod(fixture, "x", "500", "n2");
    fixture_run(fixture); /* lost, to be tried again later */
    fixture_delete_pod(fixture, "x");
    fixture_run(fixture); /* before that retry */
    fixture->disk_full = false;
    fixture_pass(fixture, 5000);
    assert_int_equal(fixture_taken(fixture, "n2"), 0);
    assert_int_equal(fixture_allocations(fixture), 0);
}

/* More messages than one batch takes: those tried again are the oldest, and stay in front. */
APP_TEST(lost_batch__comes_before_later_events_beyond_one_batch)
{
    fixture->disk_full = true;
    fixture_bound_pod(fixture, "x", "500", "n2");
    for (int i = 0; i < BATCH_MAX + 40; i++)
        fixture_bound_pod(fixture, fixture_name("plain-", i % 1000), "10", "n3");
    fixture_delete_pod(fixture, "x");
    fixture_pass(fixture, 3000); /* two batches: the first is tried and lost, again and again */
    fixture->disk_full = false;
    fixture_pass(fixture, 5000);
    assert_int_equal(fixture_taken(fixture, "n2"), 0);
}

APP_TEST(lost_batch__of_a_list_releases_no_pod)
{
    fixture_grant(fixture, "a", "700", "n1");
    fixture_grant(fixture, "b", "700", "n2");
    for (int i = 0; i < BATCH_MAX; i++) /* the list's end is in another batch */
        fixture_pod(fixture, fixture_name("p", i), "1");
    fixture_run(fixture);
    fixture_terminate_pod(fixture, "a"); /* the list must write this before it gets to b */
    fake_apiserver_compact(fixture->app.fake);
    fixture_break_store(fixture, POINT_WRITE, false);
    for (int i = 0; i < 40; i++) {
        assert_taken(fixture, "n2", 700);
        fixture->now_ms += 100;
    }
    assert_int_equal(fixture->struck, 1);
    assert_true(app_ready(&fixture->app, NULL));
    assert_int_equal(fixture_allocations(fixture), 2);
}

APP_TEST(readiness__returns_when_the_lost_batch_is_written)
{
    fixture_show_pod(fixture, "a", "300");
    fixture_bound_pod(fixture, "x", "500", "n2");
    fixture_break_store(fixture, POINT_COMMIT, false);
    fixture_run(fixture);
    assert_false(app_ready(&fixture->app, NULL));
    assert_string_equal(fixture_bind(fixture, "a", "n1"),
                        "milligpu is not ready: the ledger cannot be written");
    fixture_pass(fixture, 1500);
    assert_true(app_ready(&fixture->app, NULL));
    assert_int_equal(fixture_taken(fixture, "n2"), 500);
}

APP_TEST(ended_pod__frees_its_share_and_wakes_waiting_pods)
{
    fixture_pod(fixture, "b", "800");
    fixture_grant(fixture, "a", "800", "n1");
    assert_says(fixture_filter(fixture, "b", "n1"), "no GPU with 800 milli free");
    fixture_terminate_pod(fixture, "a");
    fixture_pass(fixture, 1000);
    assert_int_equal(fixture_taken(fixture, "n1"), 800); /* a deletion timestamp frees nothing */
    fixture_end_pod(fixture, "a");
    assert_woken(fixture, 1000, 1);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
    assert_says(fixture_filter(fixture, "b", "n1"), "\"NodeNames\":[\"n1\"]");
}

/* The pod is on no known GPU, and the node accepts no shares meanwhile. */
APP_TEST(adopted_pod__is_placed_when_its_node_shows_gpus)
{
    fixture_node(fixture, "n3", "0");
    fixture_bound_pod(fixture, "x", "700", "n3");
    fixture_bound_pod(fixture, "y", "2000", "n3");
    fixture_run(fixture);
    assert_int_equal(fixture_allocations(fixture), 2);
    assert_int_equal(fixture_taken(fixture, "n3"), 0);

    fixture_node(fixture, "n3", "1000"); /* one of the two that y asks for */
    assert_taken(fixture, "n3", 1700);
    fixture_show_pod(fixture, "a", "300");
    assert_string_not_equal(fixture_bind(fixture, "a", "n3"), "");

    fixture_node(fixture, "n3", "3000");
    fixture_run(fixture);
    assert_int_equal(fixture_allocations(fixture), 2);
    assert_int_equal(fixture_taken(fixture, "n3"), 2700);
    assert_string_equal(fixture_bind(fixture, "a", "n3"), "");
}

APP_TEST(list__releases_and_adopts_after_410)
{
    fixture_grant(fixture, "a", "300", "n1");
    /* Both changes and their events are compacted away before the watch could report them. */
    fixture_delete_pod(fixture, "a");
    fixture_bound_pod(fixture, "x", "500", "n2");
    fake_apiserver_compact(fixture->app.fake);
    fixture_pass(fixture, 10000);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
    assert_int_equal(fixture_taken(fixture, "n2"), 500);
}

/* --- only the writer and the outbox run: the watch shows nothing --- */

/* The version that a list of all pods would have. */
static uint64_t version_now(struct app_fixture *fixture)
{
    CLEANUP(strbuf_done) struct strbuf list;
    unsigned long long version = 0;

    strbuf_init(&list);
    fixture_get(fixture, "/api/v1/pods?limit=1", &list);
    const char *at = strstr(list.data, "\"resourceVersion\":\"");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"resourceVersion\":\"%llu\"", &version), 1);
    return version;
}

/* Binds pod a, which asks 300, to n1, although no list or watch has shown it. */
static void bind_by_get(struct app_fixture *fixture)
{
    fixture_pod(fixture, "a", "300");
    struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    fixture_run_deaf(fixture);
    assert_string_equal(fixture_error(call), "");
}

/* As another scheduler does. */
static void bind_pod_a(struct app_fixture *fixture, const char *node)
{
    char body[256];

    (void)snprintf(body, sizeof body,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"a\"},"
                   "\"target\":{\"kind\":\"Node\",\"name\":\"%s\"}}",
                   node);
    fixture_api(fixture, "POST", "/api/v1/namespaces/default/pods/a/binding", body);
}

/* The watch shows it before the Binding's time is over. */
APP_TEST(bind__fails_when_another_scheduler_bound_the_pod)
{
    fixture_show_pod(fixture, "a", "300");
    fixture->lose_requests = true;
    struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    fixture_run(fixture);
    bind_pod_a(fixture, "n2");
    fixture_pass(fixture, 5000);
    assert_string_equal(fixture_error(call), "changed: the pod is bound to node n2 already");
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
    assert_int_equal(fixture_taken(fixture, "n2"), 300);
}

/* The lost batch is tried again once the disk works. */
static void heal_deaf(struct app_fixture *fixture)
{
    assert_true(atomic_load(&fixture->app.health.disk_broken));
    fixture->disk_full = false;
    fixture->now_ms += 2000;
    fixture_run_deaf(fixture);
}

/* pod: for a message about one; version: for PODS_END. */
static void queue_message(struct app_fixture *fixture, enum message_kind kind,
                          const struct strbuf *pod, uint64_t version, int64_t asked_ms)
{
    struct message *message = message_new(kind);
    struct err err;

    message->asked_ms = asked_ms;
    if (kind == MESSAGE_PODS_END)
        message->pods_end.version = version;
    if (pod != NULL) {
        const struct text kept = {arena_copy(&message->arena, (struct text){pod->data, pod->len}),
                                  pod->len};
        assert_int_equal(
            pod_decode(kept, &fixture->app.rules.wire_rules, &message->arena, &message->pod, &err),
            0);
    }
    assert_true(queue_put(fixture->app.queue, message));
}

/* The pod as the API server has it. */
static void show(struct app_fixture *fixture, enum message_kind kind, const char *pod)
{
    CLEANUP(strbuf_done) struct strbuf object;

    strbuf_init(&object);
    fixture_object(fixture, pod, &object);
    queue_message(fixture, kind, &object, 0, 0);
}

static void begin_list(struct app_fixture *fixture)
{
    queue_message(fixture, MESSAGE_PODS_BEGIN, NULL, 0, 0);
}

static void end_list(struct app_fixture *fixture, uint64_t version)
{
    queue_message(fixture, MESSAGE_PODS_END, NULL, version, 0);
}

static void show_empty_list(struct app_fixture *fixture, uint64_t version)
{
    begin_list(fixture);
    end_list(fixture, version);
    fixture_run_deaf(fixture);
}

APP_TEST(fetched_pod__stays_deleted_when_the_watch_showed_its_end)
{
    fixture_pod(fixture, "a", "300");
    struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1"); /* so it is fetched */
    show(fixture, MESSAGE_POD, "a");
    show(fixture, MESSAGE_POD_DELETED, "a"); /* the GET was answered before this */
    fixture_run_deaf(fixture);
    assert_says(fixture_error(call), "unknown_pod");
    assert_int_equal(pod_cache_count(fixture->app.pod_cache), 0);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
}

APP_TEST(lost_list__spares_the_same_pods_again)
{
    fixture_grant(fixture, "b", "200", "n2");
    const uint64_t before_a = version_now(fixture);
    bind_by_get(fixture);
    fixture->disk_full = true;
    show_empty_list(fixture, before_a); /* and b is gone */
    heal_deaf(fixture);
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_taken(fixture, "n2"), 0);
}

/* After an outage two lists may stand in the queue one behind the other. */
APP_TEST(list__counts_behind_another_list)
{
    fixture_grant(fixture, "a", "300", "n1");
    begin_list(fixture);
    show(fixture, MESSAGE_POD_LISTED, "a");
    end_list(fixture, 1000000);
    begin_list(fixture); /* without a, which is gone */
    fixture_run_deaf(fixture);
    end_list(fixture, 1000000);
    fixture_run_deaf(fixture);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
}

APP_TEST(lost_list__does_not_end_the_next_one)
{
    fixture_grant(fixture, "a", "300", "n1");
    fixture_bound_pod(fixture, "b", "200", "n2"); /* only the list shows it */
    begin_list(fixture);
    show(fixture, MESSAGE_POD_LISTED, "a");
    fixture_run_deaf(fixture);
    fixture->disk_full = true;
    show(fixture, MESSAGE_POD_LISTED, "b");
    end_list(fixture, 1000000);
    begin_list(fixture);
    fixture_run_deaf(fixture);
    heal_deaf(fixture);
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_taken(fixture, "n2"), 200);
}

/* The pod may have ended after the GET and before a later list: then no watch will report it. */
APP_TEST(old_list__releases_no_fetched_pod)
{
    static const uint64_t old[] = {0, 1, 1};

    bind_by_get(fixture);
    for (size_t i = 0; i < ARRAY_LEN(old); i++) {
        show_empty_list(fixture, old[i]);
        assert_int_equal(fixture_taken(fixture, "n1"), 300);
    }
    show_empty_list(fixture, 1000000);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
}

/* The uid of the only open reservation. */
static const char *open_uid(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node;
    assert_int_equal(snapshot->n_opens, 1);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_allocations; i++)
            if (node->allocation[i]->facts.state == STATE_RESERVED)
                return node->allocation[i]->facts.uid;
    return NULL;
}

/* A list that was requested at asked_ms and shows this one object. */
static void show_list_of(struct app_fixture *fixture, const struct strbuf *object, int64_t asked_ms)
{
    queue_message(fixture, MESSAGE_PODS_BEGIN, NULL, 0, asked_ms);
    queue_message(fixture, MESSAGE_POD_LISTED, object, 0, 0);
    end_list(fixture, 1000000);
    fixture_run_deaf(fixture);
}

static void assert_undisputed(struct app_fixture *fixture)
{
    assert_int_equal(fixture_drifts(fixture, "n1", "unbound"), 0);
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
}

static void assert_disputed(struct app_fixture *fixture)
{
    assert_int_equal(fixture_drifts(fixture, "n1", "unbound"), 1);
    const char *error = fixture_bind(fixture, "a", "n1");
    assert_memory_equal(error, "unbound: the ledger has the pod bound to node n1, ", 50);
    assert_says(error, "delete the pod");
    assert_memory_equal(fixture_bind(fixture, "a", "n2"), "unbound: ", 9);
    assert_says(fixture_filter(fixture, "a", "n1 n2"), "\"Error\":\"unbound: ");
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_taken(fixture, "n2"), 0);
}

/* Pod a is bound to n1; before: the object as it was. */
static void bind_a(struct app_fixture *fixture, struct strbuf *before)
{
    fixture_show_pod(fixture, "a", "300");
    strbuf_init(before);
    fixture_object(fixture, "a", before);
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    fixture_run(fixture);
}

/* etcd was restored to a moment before the Binding: the pod cache has a later version. */
APP_TEST(unbound_drift__of_a_bound_pod_in_a_later_list_prevents_a_bind)
{
    CLEANUP(strbuf_done) struct strbuf before;

    bind_a(fixture, &before);
    const int64_t bound_ms = fixture->now_ms;
    fixture_pass(fixture, 1000);
    show_list_of(fixture, &before, bound_ms - 1); /* requested before it was bound */
    assert_undisputed(fixture);
    show_list_of(fixture, &before, bound_ms); /* in the same ms: no evidence */
    assert_undisputed(fixture);
    show_list_of(fixture, &before, bound_ms + 1);
    assert_disputed(fixture);
    show_list_of(fixture, &before, fixture->now_ms);
    assert_disputed(fixture);
    /* The API server's later objects are believed, though their versions repeat. */
    show(fixture, MESSAGE_POD, "a");
    fixture_run_deaf(fixture);
    assert_undisputed(fixture);
}

APP_TEST(unbound_drift__needs_a_complete_list)
{
    CLEANUP(strbuf_done) struct strbuf before;

    bind_a(fixture, &before);
    fixture_pass(fixture, 1000);
    fixture->disk_full = true;
    show_list_of(fixture, &before, fixture->now_ms);
    assert_int_equal(fixture_drifts(fixture, "n1", "unbound"), 0);
    fixture->disk_full = false;
    fixture->now_ms += 2000;
    fixture_run_deaf(fixture);
    assert_disputed(fixture); /* the same list, tried again */
}

/* Every row that is bound at the start was bound before the first list. */
APP_TEST(unbound_drift__is_found_by_the_first_list_after_a_restart)
{
    CLEANUP(strbuf_done) struct strbuf before;

    bind_a(fixture, &before);
    fixture_restart_and_run(fixture);
    assert_undisputed(fixture);
    show_list_of(fixture, &before, fixture->now_ms);
    assert_disputed(fixture);
    show(fixture, MESSAGE_POD_DELETED, "a");
    fixture_run_deaf(fixture);
    assert_int_equal(fixture_drifts(fixture, "n1", "unbound"), 0);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
}

/* The list that adopted the pod is no evidence against itself. */
APP_TEST(unbound_drift__of_an_adopted_pod_in_a_later_list)
{
    CLEANUP(strbuf_done) struct strbuf before;

    fixture_pod(fixture, "a", "300");
    strbuf_init(&before);
    fixture_object(fixture, "a", &before);
    bind_pod_a(fixture, "n1");
    fixture_run(fixture);
    fixture_pass(fixture, 1000);
    assert_undisputed(fixture);
    show_list_of(fixture, &before, fixture->now_ms);
    assert_disputed(fixture);
}

APP_TEST(list__releases_the_pod_of_a_binding_in_flight)
{
    fixture_show_pod(fixture, "a", "300");
    fixture->lose_answers = true;
    (void)fixture_bind_begin(fixture, "a", "n1");
    fixture_run_deaf(fixture);
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    /* Bound, ended, and both events compacted away before the answer comes. */
    fixture_delete_pod(fixture, "a");
    begin_list(fixture);
    end_list(fixture, 1000000);
    struct message *outcome = message_new(MESSAGE_OUTCOME);
    outcome->outcome = (struct binding_outcome){
        .uid = arena_copy(&outcome->arena, text_of(open_uid(fixture))), .result = OUTCOME_BOUND};
    assert_true(queue_put(fixture->app.queue, outcome));
    (void)writer_step(fixture->parts.writer, 0);
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
}

APP_TEST(node__grants_nothing_when_it_shrinks_below_its_use)
{
    fixture_pod(fixture, "b", "100");
    fixture_grant(fixture, "a", "800", "n1");
    fixture_node(fixture, "n1", "500");
    fixture_run(fixture);
    assert_says(fixture_filter(fixture, "b", "n1"), "FailedAndUnresolvableNodes\":{\"n1\"");
    assert_int_equal(fixture_taken(fixture, "n1"), 800);
}

APP_TEST(deleted_node__keeps_its_pods_until_they_end)
{
    fixture_grant(fixture, "a", "800", "n1");
    fixture_delete_node(fixture, "n1");
    assert_taken(fixture, "n1", 800);
    fixture_node(fixture, "n1", "1000");
    assert_taken(fixture, "n1", 800);
    fixture_delete_pod(fixture, "a");
    assert_taken(fixture, "n1", 0);
}

APP_TEST(zero_request__is_bound_without_an_allocation)
{
    fixture_show_pod(fixture, "zero", "0");
    assert_says(fixture_filter(fixture, "zero", "n1 n2"), "\"NodeNames\":[\"n1\",\"n2\"]");
    assert_string_equal(fixture_bind(fixture, "zero", "n2"), "");
    assert_string_equal(fixture_where(fixture, "zero"), "n2");
    assert_int_equal(fixture_allocations(fixture), 0);
}

/* It holds no share, but it can be in one place only. */
APP_TEST(zero_request__is_bound_to_one_node_only)
{
    fixture_show_pod(fixture, "zero", "0");
    struct fixture_call *here = fixture_bind_begin(fixture, "zero", "n1");
    struct fixture_call *there = fixture_bind_begin(fixture, "zero", "n2");
    fixture_run(fixture);
    assert_string_equal(fixture_error(here), "");
    assert_says(fixture_error(there), "elsewhere: the pod is being bound to node n1");
}

APP_TEST(bind__refuses_an_unknown_pod_and_an_unknown_node)
{
    assert_says(fixture_bind(fixture, "nobody", "n1"), "unknown_pod");
    fixture_show_pod(fixture, "a", "300");
    assert_says(fixture_bind(fixture, "a", "nowhere"), "unknown_node");
}

APP_TEST(wall_clock__changes_no_decision_when_it_steps_back)
{
    fixture_show_pod(fixture, "a", "300");
    fixture->wall_ms -= 3600000;
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
}

static void count_row(void *user, const struct history_row *row)
{
    assert_true(row->uid[0] != '\0');
    ++*(unsigned *)user;
}

static unsigned history_of(struct app_fixture *fixture)
{
    const struct store_history_query all = {0};
    unsigned rows = 0;
    struct err err;
    assert_int_equal(store_history(fixture->app.store, &all, &rows, count_row, &err), 0);
    return rows;
}

static uint64_t journal_of(struct app_fixture *fixture)
{
    struct store_facts facts;
    struct err err;
    assert_int_equal(store_facts(fixture->app.store, &facts, &err), 0);
    return facts.journal_rows;
}

/* A pod that held a share and ended; history is kept for 30 days. */
static void make_history(struct app_fixture *fixture)
{
    store_retain(fixture->app.store, 30);
    fixture_grant(fixture, "past", "300", "n1");
    fixture_end_pod(fixture, "past");
    fixture_pass(fixture, 2000);
    assert_int_equal(history_of(fixture), 1);
}

static void go_on(struct app_fixture *fixture, int64_t ms)
{
    fixture->now_ms += ms;
    fixture->wall_ms += ms;
    fixture_run(fixture);
}

static const int64_t ahead_ms = INT64_C(400) * 24 * 3600000;

/* Then the next housekeeping is done. */
static void restart_with_history(struct app_fixture *fixture)
{
    fixture_restart(fixture);
    store_retain(fixture->app.store, 30);
    go_on(fixture, 1000);
    go_on(fixture, 61000);
}

APP_TEST(wall_clock__erases_no_history_when_wrong_for_two_seconds)
{
    make_history(fixture);
    const uint64_t entries = journal_of(fixture);
    fixture->wall_ms += ahead_ms;
    fixture_pass(fixture, 2000);
    fixture->wall_ms -= ahead_ms;
    fixture_pass(fixture, 2000);
    assert_int_equal(history_of(fixture), 1);
    assert_int_equal(journal_of(fixture), entries + 2); /* a step ahead, and a step back */
    go_on(fixture, 2 * 3600000);
    go_on(fixture, 61000);
    assert_int_equal(history_of(fixture), 1);
    assert_int_equal(journal_of(fixture), entries + 2);
}

APP_TEST(wall_clock__erases_no_history_when_wrong_at_a_start)
{
    make_history(fixture);
    const uint64_t entries = journal_of(fixture);
    fixture->wall_ms += ahead_ms;
    restart_with_history(fixture);
    assert_int_equal(history_of(fixture), 1);
    assert_int_equal(journal_of(fixture), entries + 2); /* the step, and the policy */
    /*
     * Its journal entries have the wrong time, too: the next start cannot learn better from them.
     */
    go_on(fixture, 1800000);
    restart_with_history(fixture);
    assert_int_equal(history_of(fixture), 1);
    go_on(fixture, 1800000);
    go_on(fixture, 61000);
    assert_int_equal(history_of(fixture), 1);
    go_on(fixture, 1800000);
    go_on(fixture, 61000);
    assert_int_equal(history_of(fixture), 0);
}

APP_TEST(wall_clock__records_a_step_when_the_disk_works_again)
{
    make_history(fixture);
    const uint64_t entries = journal_of(fixture);
    fixture->disk_full = true;
    fixture->wall_ms += ahead_ms;
    go_on(fixture, 500);
    fixture->disk_full = false;
    fixture_pass(fixture, 3000);
    assert_true(journal_of(fixture) > entries);
    restart_with_history(fixture);
    assert_int_equal(history_of(fixture), 1);
}

/* Half a day more is a step that is believed; it must not count as the hour that has to pass. */
APP_TEST(wall_clock__erases_no_history_when_it_steps_again_before_a_start)
{
    make_history(fixture);
    fixture->wall_ms += ahead_ms;
    go_on(fixture, 61000);
    fixture->wall_ms += INT64_C(12) * 3600000;
    go_on(fixture, 1000);
    restart_with_history(fixture);
    assert_int_equal(history_of(fixture), 1);
}

/* Node n9 with a label of four GPUs and nothing in its status; we advertise. */
static void advertise_four(struct app_fixture *fixture)
{
    fixture->app.rules.inventory_rules.advertise = true;
    fixture_api(fixture, "POST", "/api/v1/nodes",
                "{\"metadata\":{\"name\":\"n9\",\"labels\":{\"nvidia.com/gpu.count\":\"4\"}},"
                "\"status\":{\"capacity\":{\"cpu\":\"8\"}}}");
    fixture_run(fixture);
}

static bool shows_capacity(struct app_fixture *fixture, const char *milli)
{
    CLEANUP(strbuf_done) struct strbuf out;
    char expected[64];

    strbuf_init(&out);
    fixture_get(fixture, "/api/v1/nodes/n9", &out);
    (void)snprintf(expected, sizeof expected, "\"nvidia.com/vgpu\":\"%s\"", milli);
    return strstr(out.data, expected) != NULL;
}

static void set_capacity(struct app_fixture *fixture, const char *milli)
{
    char body[160];

    (void)snprintf(body, sizeof body, "{\"status\":{\"capacity\":{\"nvidia.com/vgpu\":%s}}}",
                   milli);
    fixture_api(fixture, "PATCH", "/api/v1/nodes/n9/status", body);
}

APP_TEST(advertised_capacity__is_written_again_when_it_is_dropped)
{
    advertise_four(fixture);
    assert_true(shows_capacity(fixture, "4000"));
    fixture_grant(fixture, "a", "4000", "n9");
    set_capacity(fixture, "null");
    assert_false(shows_capacity(fixture, "4000"));
    fixture_run(fixture);
    assert_true(shows_capacity(fixture, "4000"));
}

/* If it were lower when kubelet restarts, kubelet would end pods until the rest fits. */
APP_TEST(advertised_capacity__is_never_below_the_running_pods)
{
    advertise_four(fixture);
    fixture_grant(fixture, "a", "2000", "n9");
    fixture_grant(fixture, "b", "300", "n9");
    fixture_label_node(fixture, "n9", "\"nvidia.com/gpu.count\":\"1\"");
    set_capacity(fixture, "\"4000\"");
    fixture_run(fixture);
    assert_true(shows_capacity(fixture, "2300"));
    /* kubelet dropped it: without an amount it admits all pods, with a small one it ends some. */
    set_capacity(fixture, "null");
    fixture_run(fixture);
    assert_true(shows_capacity(fixture, "2300"));
    fixture_end_pod(fixture, "a");
    fixture_run(fixture);
    fixture_label_node(fixture, "n9", "\"seen\":\"again\"");
    fixture_run(fixture);
    assert_true(shows_capacity(fixture, "1000"));
}

/* --- a new ledger --- */

static void lose_ledger_beside_a_grant(struct app_fixture *fixture)
{
    fixture_grant(fixture, "a", "300", "n1");
    fixture->app.grace.grace_ms = 90000;
    fixture_lose_ledger(fixture);
    fixture_run(fixture);
}

APP_TEST(new_ledger__waits_for_bindings_in_flight_and_then_for_a_list)
{
    const char *why = NULL;

    fixture_pod(fixture, "b", "300");
    lose_ledger_beside_a_grant(fixture);
    assert_int_equal(fixture_taken(fixture, "n1"), 300); /* known pods count meanwhile */
    assert_false(app_ready(&fixture->app, &why));
    assert_says(why, "the ledger is new");
    assert_says(fixture_filter(fixture, "b", "n1 n2"), "the ledger is new");

    fixture_pass(fixture, 89000);
    assert_false(app_ready(&fixture->app, NULL));
    /* A Binding of the previous milligpud, shown only now. */
    fixture_bound_pod(fixture, "late", "700", "n1");
    /*
     * Only a list begun after the grace period has all that landed within it: a watch may be
     * behind.
     */
    fixture->pod_lists = 0;
    fixture_pass(fixture, 3000);
    assert_int_equal(fixture->pod_lists, 1);
    assert_true(app_ready(&fixture->app, NULL));
    assert_int_equal(fixture_taken(fixture, "n1"), 1000);
    assert_string_equal(fixture_bind(fixture, "b", "n2"), "");
    fixture_pass(fixture, 100000);
    assert_int_equal(fixture->pod_lists, 1);
}

/* Such a list shows the pods as they were when it began. */
APP_TEST(new_ledger__does_not_accept_a_list_begun_before_its_wait_ended)
{
    lose_ledger_beside_a_grant(fixture);
    fixture_pass(fixture, 85000);
    fixture->list_takes_ms = 10000;
    fixture->pod_lists = 0;
    fixture_pod(fixture, "c", "100");
    fake_apiserver_compact(fixture->app.fake);
    fixture_pass(fixture, 3000);
    assert_int_equal(fixture->pod_lists, 1); /* it arrives after the grace period */
    fixture_bound_pod(fixture, "late", "700", "n1");
    fixture->list_takes_ms = 0;
    const bool ready = fixture_pass_until_ready(fixture, 15000);
    assert_true(ready);
    /*
     * At once: a moment later a watch would have shown it, but its share could be granted until
     * then.
     */
    assert_int_equal(fixture_taken(fixture, "n1"), 1000);
}

static enum store_owner owner_of(struct app_fixture *fixture)
{
    enum store_owner owner;
    struct err err;

    assert_int_equal(store_whose(fixture->app.store, "cluster", &owner, &err), 0);
    return owner;
}

APP_TEST(new_ledger__waits_again_after_a_restart)
{
    lose_ledger_beside_a_grant(fixture);
    fixture_pass(fixture, 60000);
    fixture_restart_and_run(fixture);
    assert_int_equal(owner_of(fixture), OWNER_NOBODY);
    fixture_pass(fixture, 60000);
    assert_false(app_ready(&fixture->app, NULL));
    fixture_pass(fixture, 32000);
    assert_true(app_ready(&fixture->app, NULL));
    assert_int_equal(owner_of(fixture), OWNER_THIS);
}

/* It knows its pods, but not the Bindings that were sent after it was made. */
APP_TEST(restored_backup__waits_like_a_new_ledger)
{
    const char *why = NULL;
    struct err err;

    fixture_pod(fixture, "b", "300");
    fixture_grant(fixture, "a", "300", "n1");
    assert_int_equal(db_exec(fixture->app.store->db, "UPDATE meta SET is_copy = 1", &err), 0);
    fixture->app.grace.grace_ms = 90000;
    fixture_restart(fixture);
    /* as cluster_identity.c sets them */
    (void)snprintf(fixture->app.instance.cluster, sizeof fixture->app.instance.cluster, "cluster");
    atomic_store(&fixture->app.grace.new_ledger, true);
    atomic_store(&fixture->app.grace.restored_ledger, true);
    atomic_store(&fixture->app.grace.wake_object_existed, true);
    assert_taken(fixture, "n1", 300);
    assert_false(app_ready(&fixture->app, &why));
    assert_says(why, "restored backup");
    assert_says(fixture_filter(fixture, "b", "n1 n2"), "restored backup");
    fixture_pass(fixture, 92000);
    assert_true(app_ready(&fixture->app, NULL));
    assert_string_equal(fixture_bind(fixture, "b", "n1"), "");
    assert_int_equal(owner_of(fixture), OWNER_THIS);
    fixture_restart_and_run(fixture);
    assert_true(app_ready(&fixture->app, NULL));
}

/* The pods it granted to are gone, but one whose Binding is still on its way would not be seen. */
APP_TEST(new_ledger__waits_when_the_wake_up_object_existed)
{
    fixture->app.grace.grace_ms = 90000;
    atomic_store(&fixture->app.grace.wake_object_existed, true);
    fixture_lose_ledger(fixture);
    fixture_pass(fixture, 89000);
    assert_false(app_ready(&fixture->app, NULL));
    fixture_bound_pod(fixture, "late", "700", "n1");
    fixture_pass(fixture, 3000);
    assert_true(app_ready(&fixture->app, NULL));
    assert_int_equal(fixture_taken(fixture, "n1"), 700);
}

APP_TEST(new_ledger__grants_nothing_while_it_cannot_be_claimed)
{
    struct err err;

    fixture_pod(fixture, "a", "300");
    fixture_lose_ledger(fixture);
    assert_int_equal(db_exec(fixture->app.store->db,
                             "CREATE TEMP TRIGGER no BEFORE UPDATE OF cluster ON main.meta"
                             " BEGIN SELECT RAISE(ABORT, 'no'); END",
                             &err),
                     0);
    fixture_pass(fixture, 3000);
    assert_false(app_ready(&fixture->app, NULL));
    assert_int_equal(db_exec(fixture->app.store->db, "DROP TRIGGER temp.no", &err), 0);
    fixture_pass(fixture, 3000);
    assert_true(app_ready(&fixture->app, NULL));
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
}

APP_TEST(new_ledger__is_ready_at_once_in_a_new_cluster)
{
    fixture_bound_pod(fixture, "by-hand", "300", "n1"); /* no annotation: not granted */
    fixture_show_pod(fixture, "a", "300");
    fixture->app.grace.grace_ms = 90000;
    fixture_lose_ledger(fixture);
    fixture_run(fixture);
    assert_true(app_ready(&fixture->app, NULL));
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
}

/* z-honest showed the UUIDs first; in a list a-copier comes first. */
static void show_a_copier(struct app_fixture *fixture)
{
    fixture_node_with(fixture, "z-honest", "GPU-1 GPU-2");
    fixture_pass(fixture, 5000);
    fixture_node_with(fixture, "a-copier", "GPU-1 GPU-2");
    fixture_run(fixture);
}

static void assert_honest_goes_on(struct app_fixture *fixture, const char *on_copier,
                                  const char *on_honest)
{
    fixture_pod(fixture, on_copier, "1000");
    fixture_show_pod(fixture, on_honest, "100");
    assert_string_not_equal(fixture_bind(fixture, on_copier, "a-copier"), "");
    assert_string_equal(fixture_bind(fixture, on_honest, "z-honest"), "");
}

APP_TEST(gpu_owner__is_the_node_that_showed_the_uuid_first)
{
    show_a_copier(fixture);
    assert_honest_goes_on(fixture, "c1", "h1");
    fixture_restart_and_run(fixture);
    assert_honest_goes_on(fixture, "c2", "h2");
    fixture_end_pod(fixture, "h1");
    fixture_end_pod(fixture, "h2");
    fixture_run(fixture);
    fixture_node_with(fixture, "z-honest", ""); /* it shows none for a moment, across a restart */
    fixture_run(fixture);
    fixture_restart_and_run(fixture);
    fixture_pod(fixture, "c3", "100");
    assert_string_not_equal(fixture_bind(fixture, "c3", "a-copier"), "");
    fixture_node_with(fixture, "z-honest", "GPU-1 GPU-2");
    fixture_run(fixture);
    assert_honest_goes_on(fixture, "c4", "h4");
}

APP_TEST(gpu_owner__is_the_older_node_in_a_new_ledger)
{
    show_a_copier(fixture);
    fixture_lose_ledger(fixture);
    fixture_run(fixture);
    assert_honest_goes_on(fixture, "c1", "h1");
    fixture_lose_ledger(fixture); /* also when only annotations name its pods */
    fixture_run(fixture);
    assert_honest_goes_on(fixture, "c2", "h2");
    fixture_end_pod(fixture, "h1");
    fixture_end_pod(fixture, "h2");
    fixture_run(fixture);
    fixture_delete_node(fixture, "z-honest");
    fixture_run(fixture);
    /* It was gone, and no pod held a GPU there. */
    fixture_node_with(fixture, "z-honest", "GPU-1 GPU-2");
    fixture_run(fixture);
    fixture_pod(fixture, "c3", "100");
    fixture_pod(fixture, "h3", "100");
    assert_string_equal(fixture_bind(fixture, "c3", "a-copier"), "");
    assert_string_not_equal(fixture_bind(fixture, "h3", "z-honest"), "");
}

/*
 * The previous milligpud took a GPU for the copier's own while nothing was known of the other node.
 */
APP_TEST(gpu_owner__is_the_node_with_pods_in_a_new_ledger)
{
    show_a_copier(fixture);
    fixture_node_with(fixture, "z-honest", "");
    fixture_lose_ledger(fixture);
    fixture_run(fixture);
    fixture_pod(fixture, "c1", "100");
    assert_string_equal(fixture_bind(fixture, "c1", "a-copier"), "");
    fixture_node_with(fixture, "z-honest", "GPU-1 GPU-2");
    fixture_lose_ledger(fixture);
    fixture_run(fixture);
    fixture_pod(fixture, "h1", "1000");
    fixture_pod(fixture, "h2", "100");
    fixture_show_pod(fixture, "c2", "100");
    /* The GPU that no pod holds. */
    assert_string_equal(fixture_bind(fixture, "h1", "z-honest"), "");
    assert_string_not_equal(fixture_bind(fixture, "h2", "z-honest"), "");
    assert_string_equal(fixture_bind(fixture, "c2", "a-copier"), "");
}

struct attempt {
    struct writer *writer;
    int call;
};

static void try_call(void *arg)
{
    const struct attempt *attempt = arg;
    struct writer_tables tables;
    struct err err;

    if (attempt->call == 0)
        (void)writer_step(attempt->writer, 0);
    else if (attempt->call == 1)
        writer_end(attempt->writer);
    else if (attempt->call == 2)
        writer_tables(attempt->writer, &tables);
    else
        must(writer_load(attempt->writer, &err) == 0);
}

APP_TEST(writer__aborts_on_use_from_another_thread)
{
    struct attempt attempt = {.writer = fixture->parts.writer};

    (void)writer_step(fixture->parts.writer, 0);
    for (; attempt.call < 4; attempt.call++)
        assert_true(other_thread_aborts(try_call, &attempt));
    (void)writer_step(fixture->parts.writer, 0);
}
