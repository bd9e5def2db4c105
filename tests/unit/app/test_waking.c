/*
 * Waiting pods and their wake-ups in the whole application, with a scheduler that retries every
 * pod.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

#include "support/test.h"
#include "support_fixture.h"

enum { MANY = 20, NAMES_BYTES = 16 * MANY };

/* Twenty nodes, of which the first answer names two. */
static const char *widen(struct app_fixture *fixture)
{
    static char names[NAMES_BYTES];
    size_t used = 0;

    for (int i = 1; i <= MANY; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        if (i > 2)
            fixture_node(fixture, name, "1000");
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 1 ? " " : "", name);
    }
    fixture->settings.shortlist = 2;
    fixture_show_pod(fixture, "a", "300");
    return names;
}

/* How many names an answer of filter passes on. */
static int passed(const char *answer)
{
    const char *at = strstr(answer, "\"NodeNames\":[");
    int count = 0;

    assert_non_null(at);
    for (; *at != '\0' && *at != ']'; at++)
        count += at[0] == '"' && at[1] == 'n';
    return count;
}

/* The text under which the pod stands in the table of waiting pods; "" if it does not. */
static const char *waits_because(struct app_fixture *fixture, const char *pod)
{
    static char text[256];
    CLEANUP(strbuf_done) struct strbuf object;
    struct waiting waiting = {.text = ""};
    CLEANUP(arena_done) struct arena arena;

    arena_init(&arena);
    strbuf_init(&object);
    fixture_object(fixture, pod, &object);
    const char *uid = strstr(object.data, "\"uid\":\"");
    assert_non_null(uid);
    uid += strlen("\"uid\":\"");
    (void)waiting_pods_find(fixture->app.waiting_pods, (struct text){uid, strcspn(uid, "\"")},
                            &arena, &waiting);
    (void)snprintf(text, sizeof text, "%s", waiting.text);
    return text;
}

/* --- lists that led to no bind --- */

APP_TEST(shortlist__does_not_grow_after_a_refused_bind)
{
    const char *names = widen(fixture);

    assert_int_equal(passed(fixture_filter(fixture, "a", names)), 2);
    fixture->disk_full = true;
    assert_string_not_equal(fixture_bind(fixture, "a", "n1"), "");
    fixture->disk_full = false;
    fixture_pass(fixture, 5000);
    assert_int_equal(passed(fixture_filter(fixture, "a", names)), 2);
    assert_int_equal(passed(fixture_filter(fixture, "a", names)), 8);
}

APP_TEST(shortlist__does_not_grow_after_a_question_about_one_node)
{
    const char *names = widen(fixture);

    assert_int_equal(passed(fixture_filter(fixture, "a", names)), 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(passed(fixture_filter(fixture, "a", "n7")), 1);
    assert_int_equal(passed(fixture_filter(fixture, "a", names)), 8);
}

APP_TEST(shortlist__does_not_grow_while_a_reservation_is_open)
{
    const char *names = widen(fixture);

    assert_int_equal(passed(fixture_filter(fixture, "a", names)), 2);
    assert_int_equal(passed(fixture_filter(fixture, "a", names)), 8);
    fixture->lose_requests = true;
    (void)fixture_bind_begin(fixture, "a", "n3");
    fixture_run(fixture);
    for (int i = 0; i < 3; i++)
        assert_int_equal(passed(fixture_filter(fixture, "a", names)), 1);
}

APP_TEST(shortlist__wakes_and_grows_when_no_bind_follows)
{
    const char *names = widen(fixture);

    fixture_pass(fixture, 5000);
    assert_int_equal(passed(fixture_filter(fixture, "a", names)), 2);
    assert_woken(fixture, 500, 0);
    assert_woken(fixture, 1000, 1);
    assert_woken(fixture, 60000, 0); /* once for each list */
    assert_int_equal(passed(fixture_filter(fixture, "a", names)), 8);
    assert_woken(fixture, 1500, 1);
    assert_int_equal(passed(fixture_filter(fixture, "a", names)), MANY);
    assert_woken(fixture, 5000, 0); /* there is no longer list */
}

APP_TEST(wake__follows_room_that_came_behind_an_offer)
{
    fixture_pod(fixture, "a", "300");
    fixture_grant(fixture, "fills", "900", "n1");
    assert_int_equal(passed(fixture_filter(fixture, "a", "n1 n2")), 1); /* n2: others refuse it */
    fixture_end_pod(fixture, "fills");
    fixture_run(fixture);
    assert_woken(fixture, 2500, 1);
}

/* --- a refusal is recorded, then the capacity is checked again --- */

struct moment {
    struct app_fixture *fixture;
    int left;
};

static struct moment moment;

/* The clock is read just before a refusal is recorded: what if everything else happens then? */
static int64_t wall_in_between(void *ctx)
{
    struct app_fixture *fixture = ctx;

    if (moment.left > 0 && --moment.left == 0) {
        fixture_end_pod(fixture, "a");
        fixture_run(fixture);
    }
    return fixture->wall_ms;
}

/* A new refusal, and one whose bytes were kept since the second question. */
TEST(refusal__is_evaluated_again_when_room_came)
{
    for (int asked_before = 0; asked_before <= 2; asked_before += 2) {
        struct app_fixture *fixture = fixture_new(fixture_two_nodes);
        fixture_pod(fixture, "b", "800");
        fixture_grant(fixture, "a", "800", "n1");
        for (int i = 0; i < asked_before; i++)
            assert_says(fixture_filter(fixture, "b", "n1"), "no GPU with 800 milli free");
        fixture->app.clock.wall_ms = wall_in_between;
        moment = (struct moment){fixture, 1};
        /* The writer looks before the pod is recorded, so there is no wake-up. */
        assert_int_equal(passed(fixture_filter(fixture, "b", "n1")), 1);
        assert_int_equal(moment.left, 0);
        fixture_free(fixture);
    }
}

/* Filter asks about b while a batch has taken capacity that is not on disk yet. */
static int commit_that_fails(void *ctx, struct err *err)
{
    struct app_fixture *fixture = ctx;

    if (moment.left > 0 && --moment.left == 0)
        assert_says(fixture_filter(fixture, "b", "n1"), "no GPU with 800 milli free");
    return fixture->disk_full ? err_set(err, ERR_FULL, "the disk is full")
                              : fixture->real_store.commit(fixture->real_store.ctx, err);
}

APP_TEST(wake__after_lost_reservation)
{
    fixture_pod(fixture, "a", "800");
    fixture_show_pod(fixture, "b", "800");
    fixture_pass(fixture, 2000);
    fixture->app.store_ops.commit = commit_that_fails;
    fixture->disk_full = true;
    moment = (struct moment){fixture, 1};
    assert_says(fixture_bind(fixture, "a", "n1"), "disk is full");
    assert_int_equal(moment.left, 0);
    assert_woken(fixture, 2000, 0); /* nothing would be granted */
    const uint32_t wake_ups = fixture->wake_ups;
    fixture->disk_full = false;
    fixture_pass(fixture, 3000);
    assert_true(fixture->wake_ups > wake_ups);
    assert_int_equal(passed(fixture_filter(fixture, "b", "n1")), 1);
}

APP_TEST(wake__waits_until_the_freed_room_is_written)
{
    fixture_pod(fixture, "b", "800");
    fixture_grant(fixture, "a", "800", "n1");
    assert_says(fixture_filter(fixture, "b", "n1"), "no GPU with 800 milli free");
    fixture_pass(fixture, 2000);
    fixture->disk_full = true;
    fixture_end_pod(fixture, "a");
    assert_woken(fixture, 2000, 0);
    const uint32_t wake_ups = fixture->wake_ups;
    fixture->disk_full = false;
    fixture_pass(fixture, 3000);
    assert_true(fixture->wake_ups > wake_ups);
    assert_int_equal(passed(fixture_filter(fixture, "b", "n1")), 1);
}

APP_TEST(wake__after_failed_binding)
{
    fixture_pod(fixture, "a", "800");
    fixture_show_pod(fixture, "b", "800");
    fixture_pass(fixture, 2000);
    struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    (void)writer_step(fixture->parts.writer, 0); /* reserved, and not yet sent */
    assert_says(fixture_filter(fixture, "b", "n1"), "no GPU with 800 milli free");
    fixture_delete_pod(fixture, "a");
    assert_woken(fixture, 2000, 1);
    assert_string_not_equal(fixture_error(call), "");
}

APP_TEST(wake__after_a_node_grew_or_came)
{
    fixture_show_pod(fixture, "b", "2000");
    assert_says(fixture_filter(fixture, "b", "n1 n2"), "Nodes");
    fixture_pass(fixture, 2000);
    fixture_node(fixture, "n1", "2000");
    assert_woken(fixture, 2000, 1);
    fixture_delete_node(fixture, "n1");
    fixture_run(fixture);
    assert_int_equal(passed(fixture_filter(fixture, "b", "n2")), 0);
    fixture_pass(fixture, 2000);
    fixture_node(fixture, "n3", "2000");
    assert_woken(fixture, 2000, 1);
}

/* --- a wait ends with its pod --- */

APP_TEST(waiting__ends_for_a_pod_deleted_before_its_refusal)
{
    CLEANUP(strbuf_done) struct strbuf object;

    fixture_pod(fixture, "b", "800");
    fixture_grant(fixture, "a", "800", "n1");
    strbuf_init(&object);
    fixture_object(fixture, "b", &object);
    fixture_delete_pod(fixture, "b");
    fixture_run(fixture);
    assert_says(fixture_filter_of(fixture, object.data, "n1"), "no GPU");
    assert_int_equal(waiting_pods_count(fixture->app.waiting_pods), 0);
}

APP_TEST(waiting__ends_by_the_list_for_a_pod_the_watch_never_showed)
{
    fixture_grant(fixture, "a", "800", "n1");
    fixture_pod(fixture, "b", "800"); /* the watch never shows it */
    assert_says(fixture_filter(fixture, "b", "n1"), "no GPU");
    fixture_delete_pod(fixture, "b");
    fake_apiserver_compact(fixture->app.fake);
    fixture->now_ms += 1;
    fixture_pass(fixture, 20000);
    assert_int_equal(waiting_pods_count(fixture->app.waiting_pods), 0);
}

APP_TEST(waiting__ends_in_time_for_an_unknown_uid)
{
    CLEANUP(strbuf_done) struct strbuf object;

    fixture_grant(fixture, "a", "800", "n1");
    strbuf_init(&object);
    strbuf_str(&object,
               "{\"metadata\":{\"name\":\"x\",\"namespace\":\"default\",\"uid\":\"never\"},"
               "\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":"
               "{\"nvidia.com/vgpu\":\"800\"}}}]}}");
    assert_says(fixture_filter_of(fixture, object.data, "n1"), "no GPU");
    assert_int_equal(waiting_pods_count(fixture->app.waiting_pods), 1);
    fixture_pass(fixture, 400000); /* kube-scheduler retries every pod sooner than that */
    assert_int_equal(waiting_pods_count(fixture->app.waiting_pods), 1);
    fixture_pass(fixture, 300000);
    assert_int_equal(waiting_pods_count(fixture->app.waiting_pods), 0);
}

/* --- whole GPUs of the other resource --- */

APP_TEST(wake__whole_gpu_pod_when_the_last_share_is_gone)
{
    fixture_pod(fixture, "a", "300");
    fixture_pod(fixture, "b", "300");
    fixture_pod_of(fixture, "w", "\"nvidia.com/gpu\":\"1\"", NULL, NULL);
    fixture_run(fixture);
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    assert_string_equal(fixture_bind(fixture, "b", "n1"), "");
    assert_says(fixture_filter(fixture, "w", "n1"), "the node's GPUs are shared");
    assert_string_equal(waits_because(fixture, "w"), "the node's GPUs are shared");
    fixture_pass(fixture, 2000);
    fixture_end_pod(fixture, "a");
    assert_woken(fixture, 2000, 0); /* b is still there */
    fixture_end_pod(fixture, "b");
    assert_woken(fixture, 2000, 1);
    assert_int_equal(passed(fixture_filter(fixture, "w", "n1")), 1);
}

/* Shares on a GPU that accepts no more of them still block whole GPUs. */
APP_TEST(wake__whole_gpu_pod_when_last_share_gpu_is_absent)
{
    fixture_pod(fixture, "a", "300");
    fixture_pod_of(fixture, "w", "\"nvidia.com/gpu\":\"1\"", NULL, NULL);
    fixture_run(fixture);
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    fixture_node(fixture, "n1", "0");
    fixture_run(fixture);
    assert_says(fixture_filter(fixture, "w", "n1"), "the node's GPUs are shared");
    fixture_pass(fixture, 2000);
    fixture_end_pod(fixture, "a");
    assert_woken(fixture, 2000, 1);
}

/* --- what else frees capacity --- */

APP_TEST(wake__by_a_node_when_the_daemon_becomes_ready)
{
    struct outbox_stats stats;

    fixture->settings.wake = "node";
    fixture_restart(fixture);
    fixture_pass(fixture, 1000);
    assert_true(app_ready(&fixture->app, NULL));
    outbox_stats(fixture->app.outbox, &stats);
    assert_int_equal(stats.wake_ups + stats.wake_failures, 1);
}

APP_TEST(wake__after_the_last_pod_on_the_former_node_of_a_gpu)
{
    fixture_node_with(fixture, "old", "GPU-1");
    fixture_pod(fixture, "b", "300");
    fixture_grant(fixture, "a", "300", "old");
    fixture_node_with(fixture, "new", "GPU-1"); /* the same card, in another machine */
    fixture_run(fixture);
    fixture_delete_node(fixture, "old");
    fixture_run(fixture);
    assert_says(fixture_filter(fixture, "b", "new"), "no GPU with 300 milli free");
    fixture_pass(fixture, 2000);
    fixture_end_pod(fixture, "a");
    assert_woken(fixture, 2000, 1);
    assert_int_equal(passed(fixture_filter(fixture, "b", "new")), 1);
}

static void say_condition(struct app_fixture *fixture, const char *pod, int number)
{
    char path[256];
    char body[512];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s/status", pod);
    (void)snprintf(body, sizeof body,
                   "{\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
                   "\"reason\":\"Unschedulable\",\"message\":\"%d nodes are available\"}]}}",
                   number);
    fixture_api(fixture, "PATCH", path, body);
}

/* kube-scheduler writes it after each attempt: if that woke it, there would be no end. */
APP_TEST(pod_condition__wakes_no_pod)
{
    struct pod_record *record;

    fixture_bound_pod(fixture, "on-1", "1000", "n1");
    fixture_bound_pod(fixture, "on-2", "1000", "n2");
    fixture_pod(fixture, "a", "300");
    fixture_show_pod(fixture, "unasked", "300");
    (void)fixture_filter(fixture, "a", "n1 n2");
    fixture_pass(fixture, 3000);
    const uint32_t wake_ups = fixture->wake_ups;
    const uint32_t bindings = fixture->bindings;
    for (int i = 0; i < 5; i++) {
        say_condition(fixture, "a", i);
        say_condition(fixture, "unasked", i);
        fixture_pass(fixture, 1000);
    }
    assert_int_equal(fixture->wake_ups, wake_ups);
    assert_int_equal(fixture->bindings, bindings);
    record = pod_cache_copy(fixture->app.pod_cache, "default", "unasked");
    assert_non_null(record->context);
    assert_string_equal(record->context->scheduling.message, "4 nodes are available");
    pod_record_free(record);
}
