/*
 * bench_crowd - as many pods wait as are remembered, each asking for as much as a pod can, and no
 * two alike: 128 containers, 32 models.
 *
 * Measures the memory of the tables by the allocator's count, and the wall-clock time of a filter
 * while another thread keeps requesting GET /waiting.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/admin/api.h"
#include "milligpu/base/alloc.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

#include "cluster.h"
#include "measure.h"
#include "webhook_fixture.h"

enum { NODES = 1000, NAMES = 100, WARM_UP = 20, NAME_BYTES = 64, MODELS_BYTES = 4096 };

struct greedy {
    struct pod_container container[CONTAINERS_MAX];
    char name[CONTAINERS_MAX][NAME_BYTES];
    char models[MODELS_BYTES];
    char uid[40];
    char pod_name[64];
    struct pod pod;
};

/* The number is in the first model, so that no two requests are equal. */
static void greedy_fill(struct greedy *greedy, uint32_t number)
{
    int used = snprintf(greedy->models, sizeof greedy->models, "only-%06u*", number);

    for (int i = 1; i < MODELS_MAX; i++)
        used += snprintf(greedy->models + used, sizeof greedy->models - (size_t)used,
                         ",a-model-with-a-long-name-that-nobody-has-%02d-of-32-*", i);
    must((size_t)used < sizeof greedy->models);
    for (int i = 0; i < CONTAINERS_MAX; i++) {
        (void)snprintf(greedy->name[i], NAME_BYTES, "a-container-of-many-%03d", i);
        greedy->container[i] = (struct pod_container){.name = greedy->name[i], .amount = "1"};
    }
    (void)snprintf(greedy->uid, sizeof greedy->uid, "%08x-0000-4000-8000-0000000c0d00", number);
    (void)snprintf(greedy->pod_name, sizeof greedy->pod_name, "greedy-%06u", number);
    greedy->pod = (struct pod){.uid = greedy->uid,
                               .namespace = "tenant",
                               .name = greedy->pod_name,
                               .node = "",
                               .resource_version = "1",
                               .ours = true,
                               .n_containers = CONTAINERS_MAX,
                               .container = greedy->container,
                               .model = greedy->models};
}

static void ask(struct webhook_fixture *fixture, const struct greedy *greedy)
{
    struct arena arena;
    struct request request;
    struct refusal refusal;

    arena_init(&arena);
    must(request_parse(&greedy->pod, &cluster_requests, &arena, &request, &refusal) == REQUEST_OK);
    const struct asking_pod asking_pod = {.uid = greedy->uid,
                                          .namespace = "tenant",
                                          .name = greedy->pod_name,
                                          .request = &request,
                                          .now_ms =
                                              fixture->app.clock.now_ms(fixture->app.clock.ctx),
                                          .wall_ms = 1};
    request_refuse(&request, REASON_MODEL, &refusal);
    waiting_pods_refused(fixture->app.waiting_pods, &asking_pod, REASON_MODEL, refusal.text);
    arena_done(&arena);
}

static double heap_mib(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd) / (1024 * 1024);
}

static void say_of(uint32_t pods, const char *name, double value, const char *unit)
{
    char full[80];

    (void)snprintf(full, sizeof full, "crowd.%u_pods.%s", pods, name);
    say(full, value, unit);
}

/* The watch delivers all the pods, and all are refused. */
static void crowd(struct webhook_fixture *fixture, uint32_t pods)
{
    struct greedy *greedy = xcalloc(1, sizeof *greedy);
    const double before = heap_mib();

    for (uint32_t i = 0; i < pods; i++) {
        greedy_fill(greedy, i);
        pod_cache_put(fixture->app.pod_cache, &greedy->pod, &cluster_requests, 1);
    }
    const double between = heap_mib();
    for (uint32_t i = 0; i < pods; i++) {
        greedy_fill(greedy, i);
        ask(fixture, greedy);
    }
    say_of(pods, "table_of_pods", between - before, "MiB");
    say_of(pods, "table_of_askers", heap_mib() - between, "MiB");
    xfree(greedy);
    must(waiting_pods_count(fixture->app.waiting_pods) == pods);
}

struct reader {
    struct webhook_fixture *fixture;
    atomic_bool stop;
    uint32_t pages;
};

static void *read_pages(void *user)
{
    struct reader *reader = user;
    struct http_call call;

    http_call_init(&call, "/api/v1/waiting");
    call.method = "GET";
    while (!atomic_load(&reader->stop)) {
        call.status = 0;
        strbuf_reset(&call.answer);
        api_handle(&reader->fixture->app, &call);
        must(call.status == 200);
        reader->pages++;
    }
    http_call_done(&call);
    return NULL;
}

static void measure_filter(struct webhook_fixture *fixture, uint32_t calls, const char *name)
{
    struct series series;
    struct strbuf body;
    struct http_call call;
    char longest[128];
    const struct cluster_question question = {.uid = "11111111-0000-4000-8000-00000000a5ed",
                                              .amount = "300",
                                              .nodes = NODES,
                                              .names = NAMES};

    series_init(&series);
    strbuf_init(&body);
    cluster_question_json(&body, &question);
    http_call_init(&call, "/scheduler/filter");
    for (uint32_t i = 0; i < calls + WARM_UP; i++) {
        const int64_t begun = wall_ns();
        strbuf_reset(&call.answer);
        webhook_fixture_ask(fixture, &call, (struct text){body.data, body.len});
        if (i >= WARM_UP)
            series_add(&series, wall_ns() - begun);
        waiting_pods_resolved(fixture->app.waiting_pods, text_of(question.uid));
    }
    series_say(&series, name);
    (void)snprintf(longest, sizeof longest, "%s.longest", name);
    say(longest, (double)series.ns[series.count - 1] / 1e6, "ms"); /* series_say() sorted them */
    series_done(&series);
    http_call_done(&call);
    strbuf_done(&body);
}

static void measure_beside(struct webhook_fixture *fixture, uint32_t pods, uint32_t calls)
{
    struct reader reader = {.fixture = fixture};
    pthread_t thread;
    char name[80];

    (void)snprintf(name, sizeof name, "crowd.%u_pods.filter_alone", pods);
    measure_filter(fixture, calls, name);
    must(pthread_create(&thread, NULL, read_pages, &reader) == 0);
    (void)snprintf(name, sizeof name, "crowd.%u_pods.filter_beside_get_waiting", pods);
    measure_filter(fixture, calls, name);
    atomic_store(&reader.stop, true);
    must(pthread_join(thread, NULL) == 0);
    say_of(pods, "pages_meanwhile", reader.pages, "pages");
}

int main(int argc, char **argv)
{
    struct options options;
    struct webhook_fixture fixture;

    if (!options_read(argc, argv, &options))
        return 2;
    webhook_fixture_init(&fixture, NULL);
    struct ledger *ledger = cluster_ledger(NODES);
    view_publish(fixture.app.view, ledger_publish(ledger, NULL, 0));
    const double before = (double)process_kib(getpid(), "VmRSS") / 1024;
    const uint32_t pods = options.quick ? WAITING_MAX / 16 : WAITING_MAX;
    crowd(&fixture, pods);
    say_of(pods, "rss", (double)process_kib(getpid(), "VmRSS") / 1024 - before, "MiB");
    measure_beside(&fixture, pods, options.quick ? 200 : 20000);
    ledger_free(ledger);
    webhook_fixture_done(&fixture);
    return 0;
}
