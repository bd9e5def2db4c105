#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "app/message.h"
#include "app/outbox.h"
#include "store/store_internal.h"
#include "support_rig.h"

static void a_bind_ends_on_the_api_server_and_in_the_ledger(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_non_null(strstr(rig_filter(rig, "a", "n1 n2"), "\"n1\""));
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    assert_string_equal(rig_where(rig, "a"), "n1");
    assert_int_equal(rig_taken(rig, "n1"), 300);
    assert_int_equal(rig_reserved(rig, "n1"), 0);
    assert_int_equal(rig->bindings, 1);
}

static void a_pod_that_the_watch_has_not_shown_is_fetched(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    struct rig_call *call = rig_bind_begin(rig, "a", "n1"); /* the watch has not run since */
    rig_run(rig);
    assert_string_equal(rig_error(call), "");
    assert_string_equal(rig_where(rig, "a"), "n1");
}

static void two_pods_that_saw_the_same_hole_cannot_both_get_it(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "600");
    rig_pod(rig, "b", "600");
    rig_run(rig);
    struct rig_call *a = rig_bind_begin(rig, "a", "n1");
    struct rig_call *b = rig_bind_begin(rig, "b", "n1");
    rig_run(rig);
    assert_string_equal(rig_error(a), "");
    assert_string_equal(rig_error(b), "room: no GPU with 600 milli free");
    assert_int_equal(rig_taken(rig, "n1"), 600);
    assert_string_equal(rig_where(rig, "b"), "");
}

static void binds_that_come_together_are_one_commit(void **state)
{
    struct rig *rig = *state;
    static const char *const names[] = {"a", "b", "c", "d"};

    for (size_t i = 0; i < 4; i++)
        rig_pod(rig, names[i], "200");
    rig_run(rig);
    const uint32_t before = rig->commits;
    for (size_t i = 0; i < 4; i++)
        (void)rig_bind_begin(rig, names[i], "n1");
    (void)writer_step(rig->writer, 0);
    assert_int_equal(rig->commits, before + 1);
    assert_int_equal(rig_reserved(rig, "n1"), 800);
}

static void the_same_bind_twice_at_once_is_one_binding_and_two_successes(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    struct rig_call *first = rig_bind_begin(rig, "a", "n1");
    struct rig_call *second = rig_bind_begin(rig, "a", "n1");
    struct rig_call *elsewhere = rig_bind_begin(rig, "a", "n2");
    rig_run(rig);
    assert_string_equal(rig_error(first), "");
    assert_string_equal(rig_error(second), "");
    assert_non_null(strstr(rig_error(elsewhere), "n1"));
    assert_int_equal(rig->bindings, 1);
}

static void nothing_is_sent_and_nothing_is_kept_when_the_commit_fails(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    rig->disk_full = true;
    assert_non_null(strstr(rig_bind(rig, "a", "n1"), "disk is full"));
    assert_int_equal(rig->bindings, 0);
    assert_int_equal(rig_taken(rig, "n1"), 0);
    assert_false(app_ready(&rig->app, NULL));
    assert_non_null(strstr(rig_filter(rig, "a", "n1"), "cannot be written"));
}

static void a_disk_that_heals_needs_no_restart(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    rig->disk_full = true;
    (void)rig_bind(rig, "a", "n1");
    rig_pass(rig, 3000);
    assert_false(app_ready(&rig->app, NULL));
    rig->disk_full = false;
    rig_pass(rig, 3000);
    assert_true(app_ready(&rig->app, NULL));
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
}

static void what_the_cluster_told_while_the_disk_was_full_is_not_forgotten(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    rig->disk_full = true;
    rig_delete_pod(rig, "a");
    rig_bound_pod(rig, "b", "400", "n2");
    rig_pass(rig, 2000);
    assert_int_equal(rig_taken(rig, "n1"), 300);
    assert_int_equal(rig_taken(rig, "n2"), 0);
    rig->disk_full = false;
    rig_pass(rig, 2000);
    assert_int_equal(rig_taken(rig, "n1"), 0);
    assert_int_equal(rig_taken(rig, "n2"), 400);
}

static void news_that_follows_a_lost_batch_waits_behind_it(void **state)
{
    struct rig *rig = *state;

    rig->disk_full = true;
    rig_bound_pod(rig, "x", "500", "n2");
    rig_run(rig); /* lost, and to be tried again later */
    rig_delete_pod(rig, "x");
    rig_run(rig); /* earlier than later */
    rig->disk_full = false;
    rig_pass(rig, 5000);
    assert_int_equal(rig_taken(rig, "n2"), 0);
    assert_int_equal(rig_allocations(rig), 0);
}

/* More news than one batch takes: what is tried again is the oldest, and stays in front. */
static void a_lost_batch_is_tried_again_before_the_news_behind_it(void **state)
{
    struct rig *rig = *state;
    char name[16];

    rig->disk_full = true;
    rig_bound_pod(rig, "x", "500", "n2");
    for (int i = 0; i < BATCH_MAX + 40; i++) {
        (void)snprintf(name, sizeof name, "plain-%u", (unsigned)i % 1000);
        rig_bound_pod(rig, name, "10", "n3");
    }
    rig_delete_pod(rig, "x");
    rig_pass(rig, 3000); /* in two batches: the first of them is tried, and lost, again and again */
    rig->disk_full = false;
    rig_pass(rig, 5000);
    assert_int_equal(rig_taken(rig, "n2"), 0);
}

static void one_write_that_fails_in_a_list_releases_nobody(void **state)
{
    struct rig *rig = *state;
    const struct rig_fault once = {.point = RIG_WRITE, .nth = 1};
    char name[16];

    rig_pod(rig, "a", "700");
    rig_pod(rig, "b", "700");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    assert_string_equal(rig_bind(rig, "b", "n2"), "");
    for (int i = 0; i < BATCH_MAX; i++) { /* the list's end is in another batch */
        (void)snprintf(name, sizeof name, "p%d", i);
        rig_pod(rig, name, "1");
    }
    rig_run(rig);
    rig_terminate_pod(rig, "a"); /* what the list has to write, before it comes to b */
    fake_apiserver_compact(rig->app.fake);
    rig_break(rig, &once);
    for (int i = 0; i < 40; i++) {
        rig_run(rig);
        assert_int_equal(rig_taken(rig, "n2"), 700);
        rig->now_ms += 100;
    }
    assert_int_equal(rig->struck, 1);
    assert_true(app_ready(&rig->app, NULL));
    assert_int_equal(rig_allocations(rig), 2);
}

static void readiness_returns_when_all_that_was_kept_is_written(void **state)
{
    struct rig *rig = *state;
    const struct rig_fault once = {.point = RIG_COMMIT, .nth = 1};

    rig_pod(rig, "a", "300");
    rig_run(rig);
    rig_bound_pod(rig, "x", "500", "n2");
    rig_break(rig, &once);
    rig_run(rig);
    assert_false(app_ready(&rig->app, NULL));
    assert_string_equal(rig_bind(rig, "a", "n1"),
                        "milligpu is not ready: the ledger cannot be written");
    rig_pass(rig, 1500);
    assert_true(app_ready(&rig->app, NULL));
    assert_int_equal(rig_taken(rig, "n2"), 500);
}

static void a_contradiction_of_the_database_stops_granting(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_pod(rig, "b", "300");
    rig_run(rig);
    rig->contradict = true;
    struct rig_call *a = rig_bind_begin(rig, "a", "n1");
    struct rig_call *b = rig_bind_begin(rig, "b", "n1");
    rig_run(rig);
    assert_non_null(strstr(rig_error(a), "safe mode"));
    assert_non_null(strstr(rig_error(b), "safe mode"));
    assert_true(atomic_load(&rig->app.safe_mode));
    assert_non_null(strstr(rig_filter(rig, "a", "n1"), "safe mode"));
}

static void a_lost_answer_is_never_granted_twice(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "700");
    rig_run(rig);
    rig->lose_answers = true;
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    rig_pass(rig, 1000);
    rig->lose_answers = false;
    rig_pass(rig, 4000);
    assert_string_equal(rig_error(call), "");
    assert_int_equal(rig_taken(rig, "n1"), 700);
    assert_int_equal(rig_allocations(rig), 1);
}

static void a_binding_without_any_answer_stays_in_doubt_on_its_node(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "700");
    rig_run(rig);
    rig->lose_requests = true;
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    rig_pass(rig, 5000);
    assert_non_null(strstr(rig_error(call), "in doubt"));
    assert_int_equal(rig_reserved(rig, "n1"), 700);
    /* Asked again, filter names the reserved node alone; another node is an error. */
    const char *answer = rig_filter(rig, "a", "n1 n2");
    assert_non_null(strstr(answer, "\"n1\""));
    assert_null(strstr(answer, "\"n2\""));
    assert_non_null(strstr(rig_filter(rig, "a", "n2"), "reservation on node n1"));
    rig->lose_requests = false;
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    assert_string_equal(rig_where(rig, "a"), "n1");
    assert_int_equal(rig_taken(rig, "n1"), 700);
}

static void a_second_bind_that_cannot_be_sent_takes_no_doubt_away(void **state)
{
    struct rig *rig = *state;
    const struct rig_fault fault = {
        .point = RIG_REQUEST, .nth = 1, .lasting = true, .trouble = RIG_UNSENT};

    rig_pod(rig, "a", "700");
    rig_run(rig);
    rig->lose_requests = true;
    (void)rig_bind_begin(rig, "a", "n1");
    rig_pass(rig, 5000);
    /* The first Binding may still land; that the second was never sent says nothing of it. */
    rig_break(rig, &fault);
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    rig_pass(rig, 5000);
    assert_non_null(strstr(rig_error(call), "in doubt"));
    assert_int_equal(rig_reserved(rig, "n1"), 700);
    rig_heal(rig);
}

static void a_pod_that_ends_gives_its_share_back_and_wakes_who_waits(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "800");
    rig_pod(rig, "b", "800");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    assert_non_null(strstr(rig_filter(rig, "b", "n1"), "no GPU with 800 milli free"));
    rig_pass(rig, 1000);
    const uint32_t wake_ups = rig->wake_ups;
    rig_end_pod(rig, "a");
    rig_pass(rig, 1000);
    assert_int_equal(rig_taken(rig, "n1"), 0);
    assert_int_equal(rig->wake_ups, wake_ups + 1);
    assert_non_null(strstr(rig_filter(rig, "b", "n1"), "\"NodeNames\":[\"n1\"]"));
}

static void the_wake_up_object_is_silent_where_the_room_helps_nobody(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_pod(rig, "b", "2000");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    (void)rig_filter(rig, "b", "n1 n2");
    rig_pass(rig, 1000);
    const uint32_t wake_ups = rig->wake_ups;
    rig_delete_pod(rig, "a");
    rig_pass(rig, 1000);
    assert_int_equal(rig->wake_ups, wake_ups);
}

static void a_deletion_timestamp_alone_frees_nothing(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    rig_terminate_pod(rig, "a");
    rig_run(rig);
    assert_int_equal(rig_taken(rig, "n1"), 300);
}

static void a_pod_bound_behind_our_back_is_adopted(void **state)
{
    struct rig *rig = *state;

    rig_bound_pod(rig, "x", "400", "n1");
    rig_run(rig);
    assert_int_equal(rig_taken(rig, "n1"), 400);
    rig_delete_pod(rig, "x");
    rig_run(rig);
    assert_int_equal(rig_taken(rig, "n1"), 0);
}

/* It is on no GPU that is known, and the node takes no shares meanwhile. */
static void a_pod_bound_to_a_node_without_gpus_is_placed_when_the_node_shows_some(void **state)
{
    struct rig *rig = *state;

    rig_node(rig, "n3", "0");
    rig_bound_pod(rig, "x", "700", "n3");
    rig_bound_pod(rig, "y", "2000", "n3");
    rig_run(rig);
    assert_int_equal(rig_allocations(rig), 2);
    assert_int_equal(rig_taken(rig, "n3"), 0);

    rig_node(rig, "n3", "1000"); /* of y's two there is one */
    rig_run(rig);
    assert_int_equal(rig_taken(rig, "n3"), 1700);
    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_string_not_equal(rig_bind(rig, "a", "n3"), "");

    rig_node(rig, "n3", "3000");
    rig_run(rig);
    assert_int_equal(rig_allocations(rig), 2);
    assert_int_equal(rig_taken(rig, "n3"), 2700);
    assert_string_equal(rig_bind(rig, "a", "n3"), "");
}

static void after_410_a_new_list_releases_what_is_gone_and_adopts_what_is_new(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    rig_run(rig);
    /* Both changes and their events are compacted away before the watch could tell. */
    rig_delete_pod(rig, "a");
    rig_bound_pod(rig, "x", "500", "n2");
    fake_apiserver_compact(rig->app.fake);
    rig_pass(rig, 10000);
    assert_int_equal(rig_taken(rig, "n1"), 0);
    assert_int_equal(rig_taken(rig, "n2"), 500);
}

/* Writer and outbox alone: the watch shows nothing. */
static void api(struct rig *rig, const char *method, const char *path, const char *body,
                struct strbuf *out)
{
    strbuf_reset(out);
    assert_true(fake_apiserver_request(rig->app.fake, method, path, text_of(body), out) < 300);
}

/* Of all pods, as a list would be. */
static uint64_t version_now(struct rig *rig)
{
    struct strbuf list;
    unsigned long long version = 0;

    strbuf_init(&list);
    api(rig, "GET", "/api/v1/pods?limit=1", "", &list);
    const char *at = strstr(list.data, "\"resourceVersion\":\"");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"resourceVersion\":\"%llu\"", &version), 1);
    strbuf_done(&list);
    return version;
}

/* Pod a, of 300, on n1; no list or watch has told of it. */
static void bind_by_get(struct rig *rig)
{
    rig_pod(rig, "a", "300");
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    rig_run_deaf(rig);
    assert_string_equal(rig_error(call), "");
}

/* What a lost batch kept is tried again. */
static void heal_deaf(struct rig *rig)
{
    assert_true(atomic_load(&rig->app.disk_broken));
    rig->disk_full = false;
    rig->now_ms += 2000;
    rig_run_deaf(rig);
}

/* pod: of POD_LISTED, as the API server has it; version: of PODS_END. */
static void tell(struct rig *rig, enum message_kind kind, const char *pod, uint64_t version)
{
    struct message *message = message_new(kind);
    struct strbuf object;
    struct err err;
    char path[128];

    message->version = version;
    strbuf_init(&object);
    if (pod != NULL) {
        (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s", pod);
        api(rig, "GET", path, "", &object);
        const struct text kept = {
            arena_copy(&message->arena, (struct text){object.data, object.len}), object.len};
        assert_int_equal(
            pod_decode(kept, &rig->app.wire_rules, &message->arena, &message->pod, &err), 0);
    }
    strbuf_done(&object);
    assert_true(queue_put(rig->app.queue, message));
}

static void tell_empty_list(struct rig *rig, uint64_t version)
{
    tell(rig, MESSAGE_PODS_BEGIN, NULL, 0);
    tell(rig, MESSAGE_PODS_END, NULL, version);
    rig_run_deaf(rig);
}

static void a_list_older_than_a_fetched_pod_takes_nothing_from_it(void **state)
{
    struct rig *rig = *state;

    bind_by_get(rig);
    /* A list comes in whose snapshot the API server took before the pod was created. */
    tell_empty_list(rig, 0);
    assert_int_equal(rig_taken(rig, "n1"), 300);
}

static void a_get_brings_nobody_back_whom_the_watch_has_shown_to_be_gone(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    struct rig_call *call = rig_bind_begin(rig, "a", "n1"); /* so it is asked for */
    tell(rig, MESSAGE_POD, "a", 0);
    tell(rig, MESSAGE_POD_DELETED, "a", 0); /* the GET was answered before */
    rig_run_deaf(rig);
    assert_non_null(strstr(rig_error(call), "unknown_pod"));
    assert_int_equal(pod_cache_count(rig->app.pod_cache), 0);
    assert_int_equal(rig_taken(rig, "n1"), 0);
}

static void a_list_that_is_tried_again_spares_whom_it_spared(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "b", "200");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "b", "n2"), "");
    rig_run(rig);
    const uint64_t before_a = version_now(rig);
    bind_by_get(rig);
    rig->disk_full = true;
    tell_empty_list(rig, before_a); /* and b has gone */
    heal_deaf(rig);
    assert_int_equal(rig_taken(rig, "n1"), 300);
    assert_int_equal(rig_taken(rig, "n2"), 0);
}

/* After an outage they stand in the queue one behind the other. */
static void two_lists_in_a_row_both_count(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    tell(rig, MESSAGE_PODS_BEGIN, NULL, 0);
    tell(rig, MESSAGE_POD_LISTED, "a", 0);
    tell(rig, MESSAGE_PODS_END, NULL, 1000000);
    tell(rig, MESSAGE_PODS_BEGIN, NULL, 0); /* and a is gone */
    rig_run_deaf(rig);
    tell(rig, MESSAGE_PODS_END, NULL, 1000000);
    rig_run_deaf(rig);
    assert_int_equal(rig_taken(rig, "n1"), 0);
}

static void the_end_of_a_list_that_was_lost_is_not_taken_for_the_next_ones(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    rig_bound_pod(rig, "b", "200", "n2"); /* which only the list tells of */
    tell(rig, MESSAGE_PODS_BEGIN, NULL, 0);
    tell(rig, MESSAGE_POD_LISTED, "a", 0);
    rig_run_deaf(rig);
    rig->disk_full = true;
    tell(rig, MESSAGE_POD_LISTED, "b", 0);
    tell(rig, MESSAGE_PODS_END, NULL, 1000000);
    tell(rig, MESSAGE_PODS_BEGIN, NULL, 0);
    rig_run_deaf(rig);
    heal_deaf(rig);
    assert_int_equal(rig_taken(rig, "n1"), 300);
    assert_int_equal(rig_taken(rig, "n2"), 200);
}

/* It ended after the GET and before the list, so no watch will ever tell of it. */
static void a_list_newer_than_a_fetched_pod_that_lacks_it_releases_it(void **state)
{
    struct rig *rig = *state;

    bind_by_get(rig);
    tell_empty_list(rig, 1000000);
    assert_int_equal(rig_taken(rig, "n1"), 0);
}

static void an_old_list_says_nothing_however_often_it_comes(void **state)
{
    struct rig *rig = *state;

    bind_by_get(rig);
    tell_empty_list(rig, 1);
    assert_int_equal(rig_taken(rig, "n1"), 300);
    tell_empty_list(rig, 1);
    assert_int_equal(rig_taken(rig, "n1"), 300);
    tell_empty_list(rig, 1000000);
    assert_int_equal(rig_taken(rig, "n1"), 0);
}

/* The uid of the one reservation that is open. */
static const char *open_uid(struct rig *rig)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(rig->app.view);
    const struct node *node;
    assert_int_equal(snapshot->opens, 1);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->allocations; i++)
            if (node->allocation[i]->is.state == STATE_RESERVED)
                return node->allocation[i]->is.uid;
    return NULL;
}

static void a_list_without_the_pod_of_a_binding_on_its_way_releases_it(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    rig->lose_answers = true;
    (void)rig_bind_begin(rig, "a", "n1");
    rig_run_deaf(rig);
    assert_int_equal(rig_taken(rig, "n1"), 300);
    /* Bound, ended, and both events compacted away before the answer comes. */
    rig_delete_pod(rig, "a");
    tell(rig, MESSAGE_PODS_BEGIN, NULL, 0);
    tell(rig, MESSAGE_PODS_END, NULL, 1000000);
    struct message *outcome = message_new(MESSAGE_OUTCOME);
    outcome->uid = arena_copy(&outcome->arena, text_of(open_uid(rig)));
    outcome->outcome = OUTCOME_BOUND;
    assert_true(queue_put(rig->app.queue, outcome));
    (void)writer_step(rig->writer, 0);
    assert_int_equal(rig_taken(rig, "n1"), 0);
}

static void a_node_that_shrinks_below_its_use_grants_nothing_more(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "800");
    rig_pod(rig, "b", "100");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    rig_node(rig, "n1", "500");
    rig_run(rig);
    assert_non_null(strstr(rig_filter(rig, "b", "n1"), "FailedAndUnresolvableNodes\":{\"n1\""));
    assert_int_equal(rig_taken(rig, "n1"), 800);
}

static void a_node_that_goes_keeps_its_pods_until_they_go_too(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "800");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    rig_delete_node(rig, "n1");
    rig_run(rig);
    assert_int_equal(rig_taken(rig, "n1"), 800);
    rig_node(rig, "n1", "1000");
    rig_run(rig);
    assert_int_equal(rig_taken(rig, "n1"), 800);
    rig_delete_pod(rig, "a");
    rig_run(rig);
    assert_int_equal(rig_taken(rig, "n1"), 0);
}

static void pods_that_ask_nothing_or_0_are_told_apart(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "zero", "0");
    rig_run(rig);
    assert_non_null(strstr(rig_filter(rig, "zero", "n1 n2"), "\"NodeNames\":[\"n1\",\"n2\"]"));
    assert_string_equal(rig_bind(rig, "zero", "n2"), "");
    assert_string_equal(rig_where(rig, "zero"), "n2");
    assert_int_equal(rig_allocations(rig), 0);
}

/* It holds no share, but it is in one place only. */
static void a_pod_that_asks_0_is_not_said_to_be_where_it_is_not(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "zero", "0");
    rig_run(rig);
    struct rig_call *here = rig_bind_begin(rig, "zero", "n1");
    struct rig_call *there = rig_bind_begin(rig, "zero", "n2");
    rig_run(rig);
    assert_string_equal(rig_error(here), "");
    assert_non_null(strstr(rig_error(there), "elsewhere: the pod is being bound to node n1"));
}

static void binds_for_who_is_not_there_are_refused(void **state)
{
    struct rig *rig = *state;

    assert_non_null(strstr(rig_bind(rig, "nobody", "n1"), "unknown_pod"));
    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_non_null(strstr(rig_bind(rig, "a", "nowhere"), "unknown_node"));
}

static void a_wall_clock_that_steps_back_changes_no_decision(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    rig->wall_ms -= 3600000;
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    assert_int_equal(rig_taken(rig, "n1"), 300);
}

static void count_row(void *user, const struct store_history_row *row)
{
    assert_true(row->uid[0] != '\0');
    ++*(unsigned *)user;
}

static unsigned history_of(struct rig *rig)
{
    const struct store_history_query all = {0};
    unsigned rows = 0;
    struct err err;
    assert_int_equal(store_history(rig->app.store, &all, &rows, count_row, &err), 0);
    return rows;
}

static uint64_t journal_of(struct rig *rig)
{
    struct store_facts facts;
    struct err err;
    assert_int_equal(store_facts(rig->app.store, &facts, &err), 0);
    return facts.journal_rows;
}

/* A pod that held a share and ended, with a history of 30 days. */
static void make_history(struct rig *rig)
{
    store_retain(rig->app.store, 30);
    rig_pod(rig, "past", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "past", "n1"), "");
    rig_end_pod(rig, "past");
    rig_pass(rig, 2000);
    assert_int_equal(history_of(rig), 1);
}

static void go_on(struct rig *rig, int64_t ms)
{
    rig->now_ms += ms;
    rig->wall_ms += ms;
    rig_run(rig);
}

static void a_wall_clock_a_year_ahead_for_two_seconds_erases_no_history(void **state)
{
    struct rig *rig = *state;
    const int64_t ahead_ms = INT64_C(400) * 24 * 3600000;

    make_history(rig);
    const uint64_t entries = journal_of(rig);
    rig->wall_ms += ahead_ms;
    rig_pass(rig, 2000);
    rig->wall_ms -= ahead_ms;
    rig_pass(rig, 2000);
    assert_int_equal(history_of(rig), 1);
    assert_int_equal(journal_of(rig), entries + 2); /* a step ahead, and a step back */
    go_on(rig, 2 * 3600000);
    go_on(rig, 61000);
    assert_int_equal(history_of(rig), 1);
    assert_int_equal(journal_of(rig), entries + 2);
}

static void what_the_wall_clock_says_for_an_hour_is_so(void **state)
{
    struct rig *rig = *state;

    make_history(rig);
    rig->wall_ms += INT64_C(400) * 24 * 3600000;
    go_on(rig, 500);
    go_on(rig, 3599500);
    assert_int_equal(history_of(rig), 1);
    go_on(rig, 61000);
    go_on(rig, 61000);
    assert_int_equal(history_of(rig), 0);
}

static void a_wrong_wall_clock_at_a_start_erases_no_history(void **state)
{
    struct rig *rig = *state;

    make_history(rig);
    const uint64_t entries = journal_of(rig);
    rig->wall_ms += INT64_C(400) * 24 * 3600000;
    rig_restart(rig);
    store_retain(rig->app.store, 30);
    go_on(rig, 61000);
    assert_int_equal(history_of(rig), 1);
    assert_int_equal(journal_of(rig), entries + 1);
    /* Its entries say the wrong time, too: the next start is no wiser by them. */
    go_on(rig, 1800000);
    rig_restart(rig);
    store_retain(rig->app.store, 30);
    go_on(rig, 1000);
    go_on(rig, 61000);
    assert_int_equal(history_of(rig), 1);
    go_on(rig, 1800000);
    go_on(rig, 61000);
    assert_int_equal(history_of(rig), 1);
    go_on(rig, 1800000);
    go_on(rig, 61000);
    assert_int_equal(history_of(rig), 0);
}

static void a_step_that_could_not_be_written_is_written_when_the_disk_is_well(void **state)
{
    struct rig *rig = *state;

    make_history(rig);
    const uint64_t entries = journal_of(rig);
    rig->disk_full = true;
    rig->wall_ms += INT64_C(400) * 24 * 3600000;
    go_on(rig, 500);
    rig->disk_full = false;
    rig_pass(rig, 3000);
    assert_true(journal_of(rig) > entries);
    rig_restart(rig);
    store_retain(rig->app.store, 30);
    go_on(rig, 1000);
    go_on(rig, 61000);
    assert_int_equal(history_of(rig), 1);
}

/* Half a day more is a step that is believed; it must not count as the hour that was to go by. */
static void a_wrong_clock_that_steps_again_before_a_start_erases_no_history(void **state)
{
    struct rig *rig = *state;

    make_history(rig);
    rig->wall_ms += INT64_C(400) * 24 * 3600000;
    go_on(rig, 61000);
    rig->wall_ms += INT64_C(12) * 3600000;
    go_on(rig, 1000);
    rig_restart(rig);
    store_retain(rig->app.store, 30);
    go_on(rig, 1000);
    go_on(rig, 61000);
    assert_int_equal(history_of(rig), 1);
}

/* Node n9 with a label of four GPUs and nothing in its status, where we advertise. */
static void advertise_four(struct rig *rig)
{
    struct strbuf out;

    rig->app.inventory_rules.advertise = true;
    strbuf_init(&out);
    api(rig, "POST", "/api/v1/nodes",
        "{\"metadata\":{\"name\":\"n9\",\"labels\":{\"nvidia.com/gpu.count\":\"4\"}},"
        "\"status\":{\"capacity\":{\"cpu\":\"8\"}}}",
        &out);
    strbuf_done(&out);
    rig_run(rig);
}

static void shows_capacity(struct rig *rig, const char *milli)
{
    struct strbuf out;
    char expected[64];

    strbuf_init(&out);
    api(rig, "GET", "/api/v1/nodes/n9", "", &out);
    (void)snprintf(expected, sizeof expected, "\"nvidia.com/vgpu\":\"%s\"", milli);
    if (strstr(out.data, expected) == NULL)
        fail_msg("no %s in %s", expected, out.data);
    strbuf_done(&out);
}

static void advertised_capacity_is_written_and_written_again_when_it_is_dropped(void **state)
{
    struct rig *rig = *state;
    struct strbuf out;

    advertise_four(rig);
    shows_capacity(rig, "4000");
    strbuf_init(&out);
    rig_pod(rig, "a", "4000");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n9"), "");
    api(rig, "PATCH", "/api/v1/nodes/n9/status",
        "{\"status\":{\"capacity\":{\"nvidia.com/vgpu\":null}}}", &out);
    api(rig, "GET", "/api/v1/nodes/n9", "", &out);
    assert_null(strstr(out.data, "nvidia.com/vgpu\":\"4000"));
    strbuf_done(&out);
    rig_run(rig);
    shows_capacity(rig, "4000");
}

static void label_and_capacity(struct rig *rig, const char *count, const char *milli)
{
    struct strbuf out;
    char body[160];

    strbuf_init(&out);
    (void)snprintf(body, sizeof body,
                   "{\"metadata\":{\"labels\":{\"nvidia.com/gpu.count\":\"%s\"}}}", count);
    api(rig, "PATCH", "/api/v1/nodes/n9", body, &out);
    (void)snprintf(body, sizeof body, "{\"status\":{\"capacity\":{\"nvidia.com/vgpu\":%s}}}",
                   milli);
    api(rig, "PATCH", "/api/v1/nodes/n9/status", body, &out);
    rig_run(rig);
    strbuf_done(&out);
}

/* Where it is lower when kubelet starts again, kubelet ends pods until the sum is no more. */
static void advertised_capacity_is_never_below_what_runs_there(void **state)
{
    struct rig *rig = *state;
    struct strbuf out;

    advertise_four(rig);
    rig_pod(rig, "a", "2000");
    rig_pod(rig, "b", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n9"), "");
    assert_string_equal(rig_bind(rig, "b", "n9"), "");
    label_and_capacity(rig, "1", "\"4000\"");
    shows_capacity(rig, "2300");
    /* kubelet has dropped it: without an amount it admits all, with a small one it ends them */
    label_and_capacity(rig, "1", "null");
    shows_capacity(rig, "2300");
    rig_end_pod(rig, "a");
    rig_run(rig);
    strbuf_init(&out);
    api(rig, "PATCH", "/api/v1/nodes/n9", "{\"metadata\":{\"labels\":{\"seen\":\"again\"}}}", &out);
    rig_run(rig);
    shows_capacity(rig, "1000");
    strbuf_done(&out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

/* --- a new ledger --- */

static void lose_ledger_beside_a_grant(struct rig *rig)
{
    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    rig->app.grace_ms = 90000;
    rig_lose_ledger(rig);
    rig_run(rig);
}

static void a_new_ledger_beside_grants_waits_for_what_may_be_on_its_way(void **state)
{
    struct rig *rig = *state;
    const char *why = NULL;

    rig_pod(rig, "b", "300");
    lose_ledger_beside_a_grant(rig);
    assert_int_equal(rig_taken(rig, "n1"), 300); /* what is known is counted meanwhile */
    assert_false(app_ready(&rig->app, &why));
    assert_non_null(strstr(why, "the ledger is new"));
    assert_non_null(strstr(rig_filter(rig, "b", "n1 n2"), "the ledger is new"));

    rig_pass(rig, 89000);
    assert_false(app_ready(&rig->app, NULL));
    rig_bound_pod(rig, "late", "700", "n1"); /* granted by the one before, and shown just now */
    rig_pass(rig, 3000);
    assert_true(app_ready(&rig->app, NULL));
    assert_int_equal(rig_taken(rig, "n1"), 1000);
    assert_string_equal(rig_bind(rig, "b", "n2"), "");
}

/* Only a list that began after the wait has all that landed within it: a watch may be behind. */
static void the_wait_of_a_new_ledger_ends_with_a_list(void **state)
{
    struct rig *rig = *state;

    lose_ledger_beside_a_grant(rig);
    rig_pass(rig, 89000);
    rig->pod_lists = 0;
    rig_pass(rig, 3000);
    assert_int_equal(rig->pod_lists, 1);
    assert_true(app_ready(&rig->app, NULL));
    rig_pass(rig, 100000);
    assert_int_equal(rig->pod_lists, 1);
}

/* It shows the pods as they were when it began. */
static void a_list_on_its_way_when_the_wait_ends_does_not_end_it(void **state)
{
    struct rig *rig = *state;

    lose_ledger_beside_a_grant(rig);
    rig_pass(rig, 85000);
    rig->list_takes_ms = 10000;
    rig->pod_lists = 0;
    rig_pod(rig, "c", "100");
    fake_apiserver_compact(rig->app.fake);
    rig_pass(rig, 3000);
    assert_int_equal(rig->pod_lists, 1); /* on its way until the wait is over */
    rig_bound_pod(rig, "late", "700", "n1");
    rig->list_takes_ms = 0;
    const bool ready = rig_pass_until_ready(rig, 15000);
    assert_true(ready);
    /* At once: a moment later a watch would have told of it, and until then it could be granted. */
    assert_int_equal(rig_taken(rig, "n1"), 1000);
}

static void who_ends_within_the_wait_waits_again(void **state)
{
    struct rig *rig = *state;
    bool nobodys = false;
    struct err err;

    lose_ledger_beside_a_grant(rig);
    rig_pass(rig, 60000);
    rig_restart(rig);
    rig_run(rig);
    assert_int_equal(store_whose(rig->app.store, "cluster", &nobodys, &err), 0);
    assert_true(nobodys);
    rig_pass(rig, 60000);
    assert_false(app_ready(&rig->app, NULL));
    rig_pass(rig, 32000);
    assert_true(app_ready(&rig->app, NULL));
    assert_int_equal(store_whose(rig->app.store, "cluster", &nobodys, &err), 0);
    assert_false(nobodys);
}

/* The pods that it granted to are gone, but one whose Binding is on its way would not be seen. */
static void a_new_ledger_waits_where_another_milligpud_created_the_wake_up_object(void **state)
{
    struct rig *rig = *state;

    rig->app.grace_ms = 90000;
    atomic_store(&rig->app.wake_object_existed, true);
    rig_lose_ledger(rig);
    rig_pass(rig, 89000);
    assert_false(app_ready(&rig->app, NULL));
    rig_bound_pod(rig, "late", "700", "n1");
    rig_pass(rig, 3000);
    assert_true(app_ready(&rig->app, NULL));
    assert_int_equal(rig_taken(rig, "n1"), 700);
}

static void a_ledger_that_cannot_be_claimed_grants_nothing(void **state)
{
    struct rig *rig = *state;
    struct err err;

    rig_pod(rig, "a", "300");
    rig_lose_ledger(rig);
    assert_int_equal(db_exec(rig->app.store->db,
                             "CREATE TEMP TRIGGER no BEFORE UPDATE OF cluster ON main.meta"
                             " BEGIN SELECT RAISE(ABORT, 'no'); END",
                             &err),
                     0);
    rig_pass(rig, 3000);
    assert_false(app_ready(&rig->app, NULL));
    assert_int_equal(db_exec(rig->app.store->db, "DROP TRIGGER temp.no", &err), 0);
    rig_pass(rig, 3000);
    assert_true(app_ready(&rig->app, NULL));
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
}

static void a_new_ledger_in_a_new_cluster_is_ready_at_once(void **state)
{
    struct rig *rig = *state;

    rig_bound_pod(rig, "by-hand", "300", "n1"); /* without an annotation: nobody granted it */
    rig_pod(rig, "a", "300");
    rig_run(rig);
    rig->app.grace_ms = 90000;
    rig_lose_ledger(rig);
    rig_run(rig);
    assert_true(app_ready(&rig->app, NULL));
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
}

/* z-honest was there first; in a list a-copier comes first. */
static void show_a_copier(struct rig *rig)
{
    rig_node_with(rig, "z-honest", "GPU-1 GPU-2");
    rig_pass(rig, 5000);
    rig_node_with(rig, "a-copier", "GPU-1 GPU-2");
    rig_run(rig);
}

static void assert_honest_goes_on(struct rig *rig, const char *on_copier, const char *on_honest)
{
    rig_pod(rig, on_copier, "1000");
    rig_pod(rig, on_honest, "100");
    rig_run(rig);
    assert_string_not_equal(rig_bind(rig, on_copier, "a-copier"), "");
    assert_string_equal(rig_bind(rig, on_honest, "z-honest"), "");
}

static void who_showed_a_uuid_first_goes_on(void **state)
{
    struct rig *rig = *state;

    show_a_copier(rig);
    assert_honest_goes_on(rig, "c1", "h1");
    rig_restart(rig);
    rig_run(rig);
    assert_honest_goes_on(rig, "c2", "h2");
    rig_end_pod(rig, "h1");
    rig_end_pod(rig, "h2");
    rig_run(rig);
    rig_node_with(rig, "z-honest", ""); /* it shows none for a moment, over a restart */
    rig_run(rig);
    rig_restart(rig);
    rig_run(rig);
    rig_pod(rig, "c3", "100");
    assert_string_not_equal(rig_bind(rig, "c3", "a-copier"), "");
    rig_node_with(rig, "z-honest", "GPU-1 GPU-2");
    rig_run(rig);
    assert_honest_goes_on(rig, "c4", "h4");
}

static void where_a_ledger_begins_anew_the_older_node_goes_on(void **state)
{
    struct rig *rig = *state;

    show_a_copier(rig);
    rig_lose_ledger(rig);
    rig_run(rig);
    assert_honest_goes_on(rig, "c1", "h1");
    rig_lose_ledger(rig); /* also where its pods are known by their annotations only */
    rig_run(rig);
    assert_honest_goes_on(rig, "c2", "h2");
    rig_end_pod(rig, "h1");
    rig_end_pod(rig, "h2");
    rig_run(rig);
    rig_delete_node(rig, "z-honest");
    rig_run(rig);
    rig_node_with(rig, "z-honest", "GPU-1 GPU-2"); /* gone it was, and nobody held it there */
    rig_run(rig);
    rig_pod(rig, "c3", "100");
    rig_pod(rig, "h3", "100");
    assert_string_equal(rig_bind(rig, "c3", "a-copier"), "");
    assert_string_not_equal(rig_bind(rig, "h3", "z-honest"), "");
}

/* Whoever granted before took a GPU for the copier's own while nothing was known of the other. */
static void where_a_ledger_begins_anew_who_holds_a_gpu_goes_on(void **state)
{
    struct rig *rig = *state;

    show_a_copier(rig);
    rig_node_with(rig, "z-honest", "");
    rig_lose_ledger(rig);
    rig_run(rig);
    rig_pod(rig, "c1", "100");
    assert_string_equal(rig_bind(rig, "c1", "a-copier"), "");
    rig_node_with(rig, "z-honest", "GPU-1 GPU-2");
    rig_lose_ledger(rig);
    rig_run(rig);
    rig_pod(rig, "h1", "1000");
    rig_pod(rig, "h2", "100");
    rig_pod(rig, "c2", "100");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "h1", "z-honest"), ""); /* the one that nobody holds */
    assert_string_not_equal(rig_bind(rig, "h2", "z-honest"), "");
    assert_string_equal(rig_bind(rig, "c2", "a-copier"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_bind_ends_on_the_api_server_and_in_the_ledger),
        TEST(who_showed_a_uuid_first_goes_on),
        TEST(where_a_ledger_begins_anew_the_older_node_goes_on),
        TEST(where_a_ledger_begins_anew_who_holds_a_gpu_goes_on),
        TEST(a_pod_that_the_watch_has_not_shown_is_fetched),
        TEST(two_pods_that_saw_the_same_hole_cannot_both_get_it),
        TEST(binds_that_come_together_are_one_commit),
        TEST(the_same_bind_twice_at_once_is_one_binding_and_two_successes),
        TEST(nothing_is_sent_and_nothing_is_kept_when_the_commit_fails),
        TEST(a_disk_that_heals_needs_no_restart),
        TEST(what_the_cluster_told_while_the_disk_was_full_is_not_forgotten),
        TEST(news_that_follows_a_lost_batch_waits_behind_it),
        TEST(a_lost_batch_is_tried_again_before_the_news_behind_it),
        TEST(one_write_that_fails_in_a_list_releases_nobody),
        TEST(readiness_returns_when_all_that_was_kept_is_written),
        TEST(a_contradiction_of_the_database_stops_granting),
        TEST(a_lost_answer_is_never_granted_twice),
        TEST(a_binding_without_any_answer_stays_in_doubt_on_its_node),
        TEST(a_second_bind_that_cannot_be_sent_takes_no_doubt_away),
        TEST(a_pod_that_ends_gives_its_share_back_and_wakes_who_waits),
        TEST(the_wake_up_object_is_silent_where_the_room_helps_nobody),
        TEST(a_deletion_timestamp_alone_frees_nothing),
        TEST(a_pod_bound_behind_our_back_is_adopted),
        TEST(after_410_a_new_list_releases_what_is_gone_and_adopts_what_is_new),
        TEST(a_pod_bound_to_a_node_without_gpus_is_placed_when_the_node_shows_some),
        TEST(a_get_brings_nobody_back_whom_the_watch_has_shown_to_be_gone),
        TEST(a_list_older_than_a_fetched_pod_takes_nothing_from_it),
        TEST(a_list_that_is_tried_again_spares_whom_it_spared),
        TEST(a_list_newer_than_a_fetched_pod_that_lacks_it_releases_it),
        TEST(an_old_list_says_nothing_however_often_it_comes),
        TEST(two_lists_in_a_row_both_count),
        TEST(the_end_of_a_list_that_was_lost_is_not_taken_for_the_next_ones),
        TEST(a_list_without_the_pod_of_a_binding_on_its_way_releases_it),
        TEST(a_node_that_shrinks_below_its_use_grants_nothing_more),
        TEST(a_node_that_goes_keeps_its_pods_until_they_go_too),
        TEST(pods_that_ask_nothing_or_0_are_told_apart),
        TEST(a_pod_that_asks_0_is_not_said_to_be_where_it_is_not),
        TEST(binds_for_who_is_not_there_are_refused),
        TEST(a_wall_clock_that_steps_back_changes_no_decision),
        TEST(a_wall_clock_a_year_ahead_for_two_seconds_erases_no_history),
        TEST(what_the_wall_clock_says_for_an_hour_is_so),
        TEST(a_wrong_wall_clock_at_a_start_erases_no_history),
        TEST(a_step_that_could_not_be_written_is_written_when_the_disk_is_well),
        TEST(a_wrong_clock_that_steps_again_before_a_start_erases_no_history),
        TEST(advertised_capacity_is_written_and_written_again_when_it_is_dropped),
        TEST(advertised_capacity_is_never_below_what_runs_there),
        TEST(a_new_ledger_beside_grants_waits_for_what_may_be_on_its_way),
        TEST(the_wait_of_a_new_ledger_ends_with_a_list),
        TEST(a_list_on_its_way_when_the_wait_ends_does_not_end_it),
        TEST(who_ends_within_the_wait_waits_again),
        TEST(a_new_ledger_waits_where_another_milligpud_created_the_wake_up_object),
        TEST(a_ledger_that_cannot_be_claimed_grants_nothing),
        TEST(a_new_ledger_in_a_new_cluster_is_ready_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
