/*
 * Any number of pods, each asking as much as a pod can, no two of them alike: what is remembered of
 * them is bounded in bytes, and pods that are not remembered are served all the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/admin/api.h"
#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"
#include "milligpu/selfcheck/metrics_page.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/request_classes.h"
#include "milligpu/waiting/waiting_pods.h"

#include "support/test.h"
#include "support_fixture.h"

enum { NAME_BYTES = 64, MODELS_BYTES = 8192, MIB = 1024 * 1024 };

static const struct request_rules rules = {
    .resource = "nvidia.com/vgpu", .min_milli = 1, .step_milli = 1};

struct greedy {
    struct pod_container container[CONTAINERS_MAX];
    char name[CONTAINERS_MAX][NAME_BYTES];
    char models[MODELS_BYTES];
    char uid[40];
    struct pod pod;
};

/*
 * 128 containers with names of 63 bytes, 32 models of 128; the number makes each request different.
 */
static struct greedy *greedy_new(unsigned number)
{
    struct greedy *greedy = xcalloc(1, sizeof *greedy);
    size_t used = 0;

    for (unsigned i = 0; i < MODELS_MAX; i++)
        used += (size_t)snprintf(greedy->models + used, sizeof greedy->models - used, "%s%0*u*",
                                 i > 0 ? "," : "", MODEL_BYTES_MAX - 1, i + number * MODELS_MAX);
    for (unsigned i = 0; i < CONTAINERS_MAX; i++) {
        (void)snprintf(greedy->name[i], NAME_BYTES, "c%0*u", NAME_BYTES - 2, i);
        greedy->container[i] = (struct pod_container){.name = greedy->name[i], .amount = "1"};
    }
    (void)snprintf(greedy->uid, sizeof greedy->uid, "%08x-0000-4000-8000-00000000f00d", number);
    greedy->pod = (struct pod){.uid = greedy->uid,
                               .namespace = "tenant",
                               .name = greedy->uid,
                               .node = "",
                               .resource_version = "1",
                               .ours = true,
                               .n_containers = CONTAINERS_MAX,
                               .container = greedy->container,
                               .model = greedy->models};
    return greedy;
}

static void refused(struct waiting_pods *waiting_pods, const struct pod *pod)
{
    CLEANUP(arena_done) struct arena arena;
    struct request request;
    struct refusal refusal;

    arena_init(&arena);
    assert_int_equal(request_parse(pod, &rules, &arena, &request, &refusal), REQUEST_OK);
    request_refuse(&request, REASON_MODEL, &refusal);
    const struct asking_pod asking_pod = {.uid = pod->uid,
                                          .namespace = pod->namespace,
                                          .name = pod->name,
                                          .request = &request,
                                          .wall_ms = 1};
    waiting_pods_refused(waiting_pods, &asking_pod, REASON_MODEL, refusal.text);
}

/* This many pods of a tenant wait: the watch has shown them, and kube-scheduler has asked. */
static void add_waiting(struct app_fixture *fixture, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct greedy *greedy = greedy_new(i);
        (void)pod_cache_put(fixture->app.pod_cache, &greedy->pod, &rules, 1);
        refused(fixture->app.waiting_pods, &greedy->pod);
        xfree(greedy);
    }
}

static void remove_waiting(struct app_fixture *fixture, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct greedy *greedy = greedy_new(i);
        pod_cache_remove(fixture->app.pod_cache, greedy->uid);
        waiting_pods_resolved(fixture->app.waiting_pods, text_of(greedy->uid));
        xfree(greedy);
    }
}

APP_TEST(waiting_tables__take_less_than_32_mib_when_full)
{
    add_waiting(fixture, WAITING_MAX);
    const struct waiting_pods_bytes waiting_pods = waiting_pods_bytes(fixture->app.waiting_pods);
    const struct pod_cache_bytes pods = pod_cache_bytes(fixture->app.pod_cache);
    assert_int_equal(waiting_pods_count(fixture->app.waiting_pods), WAITING_MAX);
    assert_true(waiting_pods.request_classes > 0 &&
                waiting_pods.request_classes <= REQUEST_CLASSES_BYTES_MAX);
    assert_true(waiting_pods.waiting_pods > 0 &&
                waiting_pods.waiting_pods <= WAITING_PODS_BYTES_MAX);
    assert_true(pods.requests > 0 && pods.requests <= REQUEST_CLASSES_BYTES_MAX);
    /* A record of the pod cache takes less than 512 bytes besides its request. */
    assert_true(waiting_pods.request_classes + waiting_pods.waiting_pods + pods.requests +
                    WAITING_MAX * (size_t)512 <
                32 * MIB);
    remove_waiting(fixture, WAITING_MAX);
    assert_int_equal(waiting_pods_bytes(fixture->app.waiting_pods).request_classes, 0);
    assert_int_equal(waiting_pods_bytes(fixture->app.waiting_pods).waiting_pods, 0);
    assert_int_equal(pod_cache_bytes(fixture->app.pod_cache).requests, 0);
}

APP_TEST(waiting_tables__store_equal_requests_once)
{
    struct greedy *greedy = greedy_new(7);

    refused(fixture->app.waiting_pods, &greedy->pod);
    (void)pod_cache_put(fixture->app.pod_cache, &greedy->pod, &rules, 1);
    const size_t request_classes = waiting_pods_bytes(fixture->app.waiting_pods).request_classes;
    const size_t requests = pod_cache_bytes(fixture->app.pod_cache).requests;
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(greedy->uid, sizeof greedy->uid, "copy-%u", i);
        for (unsigned k = 0; k < CONTAINERS_MAX; k++)
            greedy->name[k][0] = i % 2 == 0 ? 'c' : 'd'; /* names do not matter */
        refused(fixture->app.waiting_pods, &greedy->pod);
        greedy->name[0][0] = 'c';
        for (unsigned k = 0; k < CONTAINERS_MAX; k++)
            greedy->name[k][0] = 'c';
        (void)pod_cache_put(fixture->app.pod_cache, &greedy->pod, &rules, 1);
    }
    assert_int_equal(waiting_pods_bytes(fixture->app.waiting_pods).request_classes,
                     request_classes);
    assert_int_equal(pod_cache_bytes(fixture->app.pod_cache).requests, requests);
    xfree(greedy);
}

/* Binding needs the names of the containers. */
APP_TEST(pod_cache__keeps_the_container_names_of_equal_requests)
{
    struct pod_container container = {.name = "one", .amount = "300"};
    struct pod pod = {.uid = "u1",
                      .namespace = "default",
                      .name = "first",
                      .node = "",
                      .resource_version = "1",
                      .ours = true,
                      .n_containers = 1,
                      .container = &container};

    (void)pod_cache_put(fixture->app.pod_cache, &pod, &rules, 1);
    pod.uid = "u2";
    pod.name = "second";
    container.name = "two";
    (void)pod_cache_put(fixture->app.pod_cache, &pod, &rules, 1);
    const struct pod_record *one = pod_cache_find(fixture->app.pod_cache, "u1");
    const struct pod_record *two = pod_cache_find(fixture->app.pod_cache, "u2");
    assert_string_equal(pod_record_request(one)->want[0].container, "one");
    assert_string_equal(pod_record_request(two)->want[0].container, "two");
    pod_cache_remove(fixture->app.pod_cache, "u1");
    pod_cache_remove(fixture->app.pod_cache, "u2");
}

enum { ENOUGH = 1000 }; /* enough to fill the part of the tables for large requests */

APP_TEST(waiting_tables__have_room_for_small_requests_beside_large_ones)
{
    struct waiting waiting;
    CLEANUP(arena_done) struct arena arena;

    add_waiting(fixture, ENOUGH);
    fixture_show_pod(fixture, "a", "300");
    struct pod_record *record = pod_cache_copy(fixture->app.pod_cache, "default", "a");
    assert_non_null(pod_record_request(record));
    (void)fixture_filter(fixture, "a", "");
    struct pod_container container = {.name = "c", .amount = "300"};
    const struct pod pod = {.uid = "small",
                            .namespace = "default",
                            .name = "small",
                            .node = "",
                            .resource_version = "1",
                            .ours = true,
                            .n_containers = 1,
                            .container = &container};
    refused(fixture->app.waiting_pods, &pod);
    arena_init(&arena);
    assert_true(waiting_pods_hold(fixture->app.waiting_pods, TEXT("small"), &arena, &waiting));
    assert_non_null(waiting.request);
    assert_false(waiting.unclassed);
    waiting_pods_let_go(fixture->app.waiting_pods, &waiting);
    pod_record_free(record);
}

static bool asked_in_vain(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, TEXT("n1"));

    return waiting_pods_would_fit(fixture->app.waiting_pods, NULL, fixture->now_ms, &node, 1);
}

static int64_t shown_overflow(struct app_fixture *fixture)
{
    CLEANUP(strbuf_done) struct strbuf text;
    long long value = -1;

    strbuf_init(&text);
    metrics_page(&fixture->app, &text, METRIC_PLAIN);
    const char *line = strstr(text.data, "\nmilligpu_waiting_overflow ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "\nmilligpu_waiting_overflow %lld", &value), 1);
    return value;
}

/* No node has the add_waiting's models, so none of its pods fits. */
APP_TEST(unclassed_pods__are_woken_by_any_room_while_they_wait)
{
    add_waiting(fixture, 10);
    assert_false(waiting_pods_overflowed(fixture->app.waiting_pods, fixture->now_ms));
    assert_false(asked_in_vain(fixture));
    assert_int_equal(shown_overflow(fixture), 0);
    add_waiting(fixture, ENOUGH);
    assert_true(waiting_pods_overflowed(fixture->app.waiting_pods, fixture->now_ms));
    assert_true(asked_in_vain(fixture));
    assert_int_equal(shown_overflow(fixture), 1);
    remove_waiting(fixture, ENOUGH);
    assert_false(waiting_pods_overflowed(fixture->app.waiting_pods, fixture->now_ms));
}

static const char *waiting_page(struct app_fixture *fixture, struct http_call *call,
                                const char *query)
{
    http_call_init(call, "/api/v1/waiting");
    call->method = "GET";
    call->query = query;
    api_handle(&fixture->app, call);
    assert_int_equal(call->status, 200);
    return call->answer.data;
}

APP_TEST(waiting_list__marks_pods_whose_request_is_not_remembered)
{
    struct http_call call;

    add_waiting(fixture, 10);
    const char *few = waiting_page(fixture, &call, "limit=1000");
    assert_null(strstr(few, "\"overflow\""));
    assert_null(strstr(few, "not remembered"));
    http_call_done(&call);
    add_waiting(fixture, ENOUGH);
    const char *many = waiting_page(fixture, &call, "limit=1000");
    assert_says(many, "\"overflow\":true");
    assert_says(many, "not remembered: too many pods wait");
    assert_null(strstr(many, "\"continue\""));
    http_call_done(&call);
    assert_says(waiting_page(fixture, &call, "limit=999"), "\"continue\"");
    http_call_done(&call);
}

/* "*" and others: 32 globs, the first of which matches anything. */
static void large_pod_of(struct app_fixture *fixture, const char *name, unsigned milli,
                         const char *node)
{
    char limits[64];
    char models[1200] = "\"milligpu.io/gpu-model\":\"*";
    size_t used = strlen(models);

    for (unsigned i = 1; i < MODELS_MAX; i++)
        used +=
            (size_t)snprintf(models + used, sizeof models - used, ",a-long-name-of-a-model-%u", i);
    (void)snprintf(models + used, sizeof models - used, "\"");
    (void)snprintf(limits, sizeof limits, "\"nvidia.com/vgpu\":\"%u\"", milli);
    fixture_pod_of(fixture, name, limits, models, node);
}

static void large_pod(struct app_fixture *fixture, const char *name, const char *node)
{
    large_pod_of(fixture, name, 300, node);
}

static const struct pod_record *known(struct app_fixture *fixture, const char *name)
{
    struct pod_record *copy = pod_cache_copy(fixture->app.pod_cache, "default", name);

    assert_non_null(copy);
    const struct pod_record *record = pod_cache_find(fixture->app.pod_cache, pod_record_uid(copy));
    pod_record_free(copy);
    return record;
}

/* The greedy ones leave less room than one of them takes; then as many large ones as still fit. */
static void fill_requests(struct app_fixture *fixture)
{
    int i = 0;

    add_waiting(fixture, ENOUGH);
    do {
        assert_true(++i < 100);
        /* Equal requests would be stored once. */
        large_pod_of(fixture, fixture_name("filler-", i), (unsigned)i, NULL);
        fixture_run(fixture);
    } while (pod_record_request(known(fixture, fixture_name("filler-", i))) != NULL);
}

APP_TEST(unremembered_request__is_fetched_at_bind)
{
    fill_requests(fixture);
    large_pod(fixture, "a", NULL);
    fixture_run(fixture);
    assert_int_equal(known(fixture, "a")->verdict, REQUEST_OK);
    assert_null(pod_record_request(known(fixture, "a")));
    assert_says(fixture_filter(fixture, "a", "n1 n2"), "n1");
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    fixture_run(fixture);
    assert_string_equal(fixture_where(fixture, "a"), "n1");
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    large_pod(fixture, "b", NULL);
    fixture_run(fixture);
    /* A version that the watch has not shown yet. */
    fixture_annotate(fixture, "b", "\"milligpu.io/gpu-memory\":\"1Ki\"");
    assert_string_equal(fixture_bind(fixture, "b", "n2"), "");
    assert_taken(fixture, "n2", 300);
    fixture_restart_and_run(fixture);
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
}

APP_TEST(unremembered_request__of_a_bound_pod_holds_its_share)
{
    fill_requests(fixture);
    large_pod(fixture, "x", "n2");
    fixture_run(fixture);
    assert_null(pod_record_request(known(fixture, "x")));
    assert_int_equal(fixture_taken(fixture, "n2"), 300);
    fixture_annotate(fixture, "x", "\"other\":\"thing\"");
    assert_taken(fixture, "n2", 300);
    fixture_delete_pod(fixture, "x");
    assert_taken(fixture, "n2", 0);
}

static void remember_long(struct app_fixture *fixture, unsigned number, size_t bytes)
{
    char *text = xmalloc(bytes + 1);
    char uid[32];

    memset(text, 'x', bytes);
    text[bytes] = '\0';
    (void)snprintf(uid, sizeof uid, "long-%u", number);
    const struct pod pod = {.uid = uid,
                            .namespace = "tenant",
                            .name = uid,
                            .node = "elsewhere",
                            .resource_version = "9000000",
                            .unreadable = text};
    (void)pod_cache_put(fixture->app.pod_cache, &pod, &rules, 1);
    pod_cache_remember(fixture->app.pod_cache, &pod);
    xfree(text);
}

/* Pods that found no GPU, with texts so long that nothing more can be remembered. */
static void fill_remembered(struct app_fixture *fixture)
{
    size_t seen;
    unsigned i = 0;

    for (size_t bytes = 200000; bytes > 0; bytes /= 2)
        do {
            seen = pod_cache_bytes(fixture->app.pod_cache).seen;
            remember_long(fixture, i++, bytes);
        } while (pod_cache_bytes(fixture->app.pod_cache).seen > seen);
    assert_true(seen > REMEMBERED_BYTES_MAX / 2);
}

APP_TEST(unremembered_pod__is_placed_by_another_list)
{
    fill_remembered(fixture);
    fixture_node_with(fixture, "n3", "");
    large_pod(fixture, "x", "n3");
    fixture_run(fixture);
    assert_true(known(fixture, "x")->is_unstored);
    const uint32_t lists = fixture->pod_lists;
    fixture_node_with(fixture, "n3", "GPU-1");
    fixture_run(fixture);
    assert_int_equal(fixture->pod_lists, lists + 1);
    assert_int_equal(fixture_taken(fixture, "n3"), 300);
    assert_false(atomic_load(&fixture->app.watch.list_again));
}

/* kubelet's, with nothing else. */
static void heartbeat(struct app_fixture *fixture, const char *node, uint32_t number)
{
    char path[64];
    char body[160];

    (void)snprintf(path, sizeof path, "/api/v1/nodes/%s/status", node);
    (void)snprintf(body, sizeof body,
                   "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\","
                   "\"lastHeartbeatTime\":\"2026-11-21T01:%02u:00Z\"}]}}",
                   number);
    fixture_api(fixture, "PATCH", path, body);
}

/* A list may find room for the pod, so each event of its node asks for one. */
APP_TEST(unremembered_pod__makes_heartbeats_of_its_node_count)
{
    fill_remembered(fixture);
    fixture_node_with(fixture, "n3", "");
    large_pod(fixture, "x", "n3");
    fixture_run(fixture);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t lists = fixture->pod_lists;
        heartbeat(fixture, "n3", i);
        fixture_pass(fixture, 61000);
        assert_int_equal(fixture->pod_lists, lists + 1);
    }
}

/* A waiting Binding is useless until the API server receives it, so no more are made. */
APP_TEST(outbox__refuses_more_bindings_when_its_memory_is_full)
{
    char *large = xmalloc(OUTBOX_BYTES_MAX);

    fixture_show_pod(fixture, "a", "300");
    memset(large, 'x', OUTBOX_BYTES_MAX);
    assert_int_equal(outbox_bytes(fixture->app.outbox), 0);
    const struct outbox_binding binding = {.uid = "u",
                                           .namespace = "tenant",
                                           .name = "large",
                                           .node = "n1",
                                           .body = {large, OUTBOX_BYTES_MAX},
                                           .version = 1,
                                           .deadline_ms = fixture->now_ms + 1000};
    outbox_bind(fixture->app.outbox, &binding);
    assert_true(outbox_bytes(fixture->app.outbox) >= OUTBOX_BYTES_MAX);
    struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    (void)writer_step(fixture->parts.writer, 0);
    assert_says(fixture_error(call), "too many Bindings wait");
    assert_int_equal(fixture_taken(fixture, "n1"), 0);
    fixture_run_until_idle(fixture);
    assert_int_equal(outbox_bytes(fixture->app.outbox), 0);
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    xfree(large);
}

/* kube-scheduler sends whatever a tenant wrote. */
APP_TEST(webhooks__free_the_memory_of_a_large_question)
{
    CLEANUP(strbuf_done) struct strbuf object;

    strbuf_init(&object);
    strbuf_str(&object, "{\"metadata\":{\"name\":\"a\",\"namespace\":\"default\",\"uid\":\"u\","
                        "\"annotations\":{\"milligpu.io/gpu-model\":\"");
    for (unsigned i = 0; i < 100000; i++)
        strbuf_printf(&object, "a-model-with-a-rather-long-name-%u,", i);
    strbuf_str(&object, "\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":"
                        "{\"limits\":{\"nvidia.com/vgpu\":\"300\"}}}]}}");
    fixture_run(fixture);
    assert_says(fixture_filter_of(fixture, object.data, "n1 n2"), "more than 32 models");
    assert_true(webhooks_bytes(fixture->parts.webhooks) < 5 * MIB / 4);
}
