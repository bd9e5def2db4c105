/*
 * bench_bind - how many binds per second reach the disk, with a given number of them outstanding.
 *
 * The writer with the real store on a file (WAL, synchronous=FULL), outbox and informer, each in
 * its own thread as in the daemon. The API server is the fake API server in this process, so the
 * figures include its work. A bind is two commands for the ledger: the reservation before the
 * Binding is sent, and its confirmation.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "milligpu/base/alloc.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/kube/kube.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/informer.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/writer/writer.h"

#include "cluster.h"
#include "measure.h"
#include "slow_disk.h"
#include "webhook_fixture.h"

enum {
    NODES = 500,
    OUTSTANDING_MAX = 64,
    SECONDS_MAX = 8, /* per load; a slow disk gets fewer binds */
    SYNCS = 300,
    STEP_MS = 50,
};

struct bench_daemon {
    struct webhook_fixture fixture;
    struct fake_apiserver *fake;
    struct store *store;
    struct kube_ops watch_ops;
    struct kube_ops call_ops;
    struct store_ops real_store;
    pthread_t thread[3];
    atomic_bool stop;
    atomic_uint commits;
    sem_t answers;
    uint32_t next_pod;
};

/* --- the real store, with its commits counted --- */

static int count_begin(void *ctx, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    return daemon->real_store.begin(daemon->real_store.ctx, err);
}

static enum store_outcome count_write(void *ctx, const struct command *command,
                                      const struct change *change, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    return daemon->real_store.write(daemon->real_store.ctx, command, change, err);
}

static int count_commit(void *ctx, struct err *err)
{
    struct bench_daemon *daemon = ctx;

    atomic_fetch_add(&daemon->commits, 1);
    return daemon->real_store.commit(daemon->real_store.ctx, err);
}

static void count_rollback(void *ctx)
{
    struct bench_daemon *daemon = ctx;
    daemon->real_store.rollback(daemon->real_store.ctx);
}

static int count_maintain(void *ctx, int64_t now_ms, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    return daemon->real_store.maintain(daemon->real_store.ctx, now_ms, err);
}

static int count_learn(void *ctx, const struct tally *tally, int64_t until_ms, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    return daemon->real_store.learn(daemon->real_store.ctx, tally, until_ms, err);
}

static int count_measure(void *ctx, const struct store_chunk *chunk, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    return daemon->real_store.measure(daemon->real_store.ctx, chunk, err);
}

static int count_keep_policy(void *ctx, const struct store_policy *policy, struct err *err)
{
    struct bench_daemon *daemon = ctx;
    return daemon->real_store.keep_policy(daemon->real_store.ctx, policy, err);
}

static int count_remember(void *ctx, const struct agents *agents, size_t max, size_t *out_count,
                          struct err *err)
{
    struct bench_daemon *daemon = ctx;
    return daemon->real_store.remember(daemon->real_store.ctx, agents, max, out_count, err);
}

/* --- the threads of the daemon --- */

static int64_t now_of(const struct bench_daemon *daemon)
{
    return daemon->fixture.app.clock.now_ms(daemon->fixture.app.clock.ctx);
}

static void *writer_main(void *user)
{
    struct bench_daemon *daemon = user;

    while (!atomic_load(&daemon->stop))
        (void)writer_step(daemon->fixture.parts.writer, STEP_MS);
    return NULL;
}

static void watched(void *user, const struct kube_answer *answer)
{
    struct bench_daemon *daemon = user;
    informer_answer(daemon->fixture.parts.informer, now_of(daemon), answer);
}

static void *informer_main(void *user)
{
    struct bench_daemon *daemon = user;

    while (!atomic_load(&daemon->stop)) {
        const int64_t wait = informer_step(daemon->fixture.parts.informer, now_of(daemon));
        daemon->watch_ops.poll(daemon->watch_ops.ctx, wait < STEP_MS ? wait : STEP_MS, daemon,
                               watched);
    }
    return NULL;
}

static void called(void *user, const struct kube_answer *answer)
{
    struct bench_daemon *daemon = user;
    outbox_answer(daemon->fixture.app.outbox, now_of(daemon), answer);
}

static void *outbox_main(void *user)
{
    struct bench_daemon *daemon = user;
    struct app *app = &daemon->fixture.app;

    while (!atomic_load(&daemon->stop)) {
        const int64_t wait =
            outbox_step(app->outbox, now_of(daemon), app->clock.wall_ms(app->clock.ctx));
        daemon->call_ops.poll(daemon->call_ops.ctx, wait < STEP_MS ? wait : STEP_MS, daemon,
                              called);
    }
    return NULL;
}

/* --- set-up and tear-down --- */

static void pod_words(uint32_t pod, char name[32], char uid[40])
{
    (void)snprintf(name, 32, "inference-%06u", pod);
    (void)snprintf(uid, 40, "%08x-0000-4000-8000-000000000002", pod);
}

static void load_cluster(struct fake_apiserver *fake, uint32_t pods)
{
    struct strbuf list;
    struct err err;

    strbuf_init(&list);
    strbuf_str(&list, "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[");
    for (uint32_t i = 0; i < NODES; i++) {
        strbuf_str(&list, i > 0 ? "," : "");
        cluster_node_json(&list, i);
    }
    for (uint32_t i = 0; i < pods; i++) {
        char name[32];
        char uid[40];
        pod_words(i, name, uid);
        strbuf_str(&list, ",");
        cluster_pod_json(
            &list, &(struct cluster_pod){.name = name, .uid = uid, .node = "", .amount = "100"});
    }
    strbuf_str(&list, "]}");
    if (fake_apiserver_load_text(fake, "bench", (struct text){list.data, list.len}, &err) < 0)
        (void)fprintf(stderr, "%s\n", err.text);
    strbuf_done(&list);
}

static void open_ledger(struct bench_daemon *daemon, const char *folder)
{
    char path[4096];

    must((size_t)snprintf(path, sizeof path, "%s/ledger.db", folder) < sizeof path);
    daemon->store = cluster_store(path, true);
    store_ops(daemon->store, &daemon->real_store);
}

static void make_parts(struct bench_daemon *daemon)
{
    struct app *app = &daemon->fixture.app;
    struct err err;

    fake_apiserver_ops(daemon->fake, &daemon->watch_ops);
    fake_apiserver_ops(daemon->fake, &daemon->call_ops);
    const struct app_edges edges = {.store = daemon->store,
                                    .store_ops = {.ctx = daemon,
                                                  .begin = count_begin,
                                                  .write = count_write,
                                                  .commit = count_commit,
                                                  .rollback = count_rollback,
                                                  .maintain = count_maintain,
                                                  .learn = count_learn,
                                                  .measure = count_measure,
                                                  .keep_policy = count_keep_policy,
                                                  .remember = count_remember},
                                    .fake = daemon->fake,
                                    .watch = &daemon->watch_ops,
                                    .calls = &daemon->call_ops};
    webhook_fixture_init(&daemon->fixture, &edges);
    atomic_store(&app->watch.nodes_synced, false);
    atomic_store(&app->watch.pods_synced, false);
    must(writer_load(daemon->fixture.parts.writer, &err) == 0);
}

static void pause_ms(int64_t ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&pause, NULL);
}

static void bench_daemon_start(struct bench_daemon *daemon, const char *folder, uint32_t pods)
{
    static void *(*const run[])(void *user) = {writer_main, informer_main, outbox_main};
    struct app *app = &daemon->fixture.app;

    *daemon = (struct bench_daemon){.next_pod = 0};
    daemon->fake = fake_apiserver_new("bench");
    load_cluster(daemon->fake, pods);
    open_ledger(daemon, folder);
    make_parts(daemon);
    must(sem_init(&daemon->answers, 0, 0) == 0);
    for (size_t i = 0; i < ARRAY_LEN(run); i++)
        must(pthread_create(&daemon->thread[i], NULL, run[i], daemon) == 0);
    while (!app_ready(app, NULL) || pod_cache_count(app->pod_cache) < pods)
        pause_ms(5);
}

static void bench_daemon_stop(struct bench_daemon *daemon)
{
    atomic_store(&daemon->stop, true);
    for (size_t i = 0; i < ARRAY_LEN(daemon->thread); i++)
        must(pthread_join(daemon->thread[i], NULL) == 0);
    webhook_fixture_done(&daemon->fixture);
    daemon->watch_ops.free(daemon->watch_ops.ctx);
    daemon->call_ops.free(daemon->call_ops.ctx);
    fake_apiserver_free(daemon->fake);
    store_close(daemon->store);
    must(sem_destroy(&daemon->answers) == 0);
}

/* --- the load --- */

struct bind {
    struct http_call call;
    struct strbuf body;
    atomic_bool answered;
    bool busy;
    int64_t end_ns;
};

static void bind_answered(struct http_call *call)
{
    struct bench_daemon *daemon = call->user;
    struct bind *bind = (struct bind *)call; /* call is its first member */

    bind->end_ns = wall_ns();
    atomic_store(&bind->answered, true);
    must(sem_post(&daemon->answers) == 0);
}

static void begin(struct bench_daemon *daemon, struct bind *bind)
{
    char name[32];
    char uid[40];
    char node[NODE_NAME_BYTES];
    const uint32_t pod = daemon->next_pod++;

    pod_words(pod, name, uid);
    cluster_node_name(pod * 7 % NODES, node);
    strbuf_reset(&bind->body);
    strbuf_printf(&bind->body,
                  "{\"PodName\":\"%s\",\"PodNamespace\":\"default\",\"PodUID\":\"%s\","
                  "\"Node\":\"%s\"}",
                  name, uid, node);
    bind->busy = true;
    bind->call.status = 0;
    bind->call.began_ns = wall_ns();
    bind->call.body = (struct text){bind->body.data, bind->body.len};
    webhooks_handle(daemon->fixture.parts.webhooks, &bind->call);
}

/* Collect the answered binds; returns how many. */
static uint32_t collect(struct bind *bind, uint32_t count, struct series *series)
{
    uint32_t collected = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (!bind[i].busy || !atomic_load(&bind[i].answered))
            continue;
        if (strstr(bind[i].call.answer.data, "\"Error\":\"\"") == NULL)
            (void)fprintf(stderr, "%s\n", bind[i].call.answer.data);
        must(strstr(bind[i].call.answer.data, "\"Error\":\"\"") != NULL);
        series_add(series, bind[i].end_ns - bind[i].call.began_ns);
        bind[i].busy = false;
        atomic_store(&bind[i].answered, false);
        collected++;
    }
    return collected;
}

static void drive(struct bench_daemon *daemon, struct bind *bind, uint32_t outstanding,
                  uint32_t binds, struct series *series)
{
    const int64_t until = wall_ns() + (int64_t)SECONDS_MAX * 1000000000;
    uint32_t begun = 0;
    uint32_t done = 0;

    while (done < begun || (begun < binds && wall_ns() < until)) {
        for (uint32_t i = 0; i < outstanding && begun < binds && wall_ns() < until; i++)
            if (!bind[i].busy) {
                begin(daemon, &bind[i]);
                begun++;
            }
        if (done < begun)
            must(sem_wait(&daemon->answers) == 0);
        done += collect(bind, outstanding, series);
        while (sem_trywait(&daemon->answers) == 0)
            continue; /* collected already, or by the next call */
        done += collect(bind, outstanding, series);
    }
}

static int64_t thread_cpu_ns(pthread_t thread)
{
    clockid_t clock;
    struct timespec spent;

    must(pthread_getcpuclockid(thread, &clock) == 0);
    must(clock_gettime(clock, &spent) == 0);
    return (int64_t)spent.tv_sec * 1000000000 + spent.tv_nsec;
}

/* Bytes that the process has handed to write() so far: nearly all of them are the ledger's. */
static double written_bytes(void)
{
    unsigned long long bytes = 0;
    char line[128];

    FILE *file = fopen("/proc/self/io", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "wchar: ", 7) == 0)
            bytes = strtoull(line + 7, NULL, 10);
    if (file != NULL)
        (void)fclose(file); /* read-only */
    return (double)bytes;
}

static void say_of(const char *disk, uint32_t outstanding, const char *what, double value,
                   const char *unit)
{
    char name[64];

    (void)snprintf(name, sizeof name, "bind%s.%u_outstanding.%s", disk, outstanding, what);
    say(name, value, unit);
}

static void measure(struct bench_daemon *daemon, const char *disk, uint32_t outstanding,
                    uint32_t binds)
{
    struct bind *bind = xcalloc(outstanding, sizeof *bind);
    struct series series;
    char name[64];

    must(outstanding <= OUTSTANDING_MAX);
    series_init(&series);
    for (uint32_t i = 0; i < outstanding; i++) {
        http_call_init(&bind[i].call, "/scheduler/bind");
        bind[i].call.user = daemon;
        bind[i].call.answered = bind_answered;
        strbuf_init(&bind[i].body);
    }
    const uint32_t commits = atomic_load(&daemon->commits);
    const double written = written_bytes();
    const int64_t cpu = thread_cpu_ns(daemon->thread[0]);
    const int64_t begun = wall_ns();
    drive(daemon, bind, outstanding, binds, &series);
    const double seconds = (double)(wall_ns() - begun) / 1e9;
    const double spent = (double)(thread_cpu_ns(daemon->thread[0]) - cpu);
    const uint32_t committed = atomic_load(&daemon->commits) - commits;
    const double bytes = written_bytes() - written;

    const double count = (double)series.count;
    say_of(disk, outstanding, "rate", count / seconds, "binds/s");
    (void)snprintf(name, sizeof name, "bind%s.%u_outstanding.latency", disk, outstanding);
    series_say(&series, name);
    say_of(disk, outstanding, "commits", committed, "commits");
    say_of(disk, outstanding, "binds_per_commit", count / committed, "binds");
    say_of(disk, outstanding, "writer_cpu_per_bind", spent / count / 1000, "us");
    say_of(disk, outstanding, "written_per_bind", bytes / count, "bytes");
    for (uint32_t i = 0; i < outstanding; i++) {
        http_call_done(&bind[i].call);
        strbuf_done(&bind[i].body);
    }
    series_done(&series);
    xfree(bind);
}

/* A ledger and threads of its own, with all loads one after the other. */
static void measure_disk(const struct options *options, const char *disk, bool is_slow)
{
    static const uint32_t outstanding[] = {1, 16, OUTSTANDING_MAX};
    const uint32_t binds = options->quick ? 500 : 4000;
    struct bench_daemon daemon;
    char folder[4096];

    folder_make(options->folder, folder, sizeof folder);
    bench_daemon_start(&daemon, folder, binds * (uint32_t)ARRAY_LEN(outstanding));
    slow_disk_set(is_slow);
    for (size_t i = 0; i < ARRAY_LEN(outstanding); i++)
        measure(&daemon, disk, outstanding[i], binds);
    slow_disk_set(false);
    bench_daemon_stop(&daemon);
    folder_drop(folder);
}

int main(int argc, char **argv)
{
    struct options options;
    char folder[4096];

    if (!options_read(argc, argv, &options))
        return 2;
    slow_disk_install();
    folder_make(options.folder, folder, sizeof folder);
    say("bind.reference.fdatasync_before", sync_rate(folder, SYNCS), "syncs/s");
    measure_disk(&options, "", false);
    say("bind.reference.fdatasync_after", sync_rate(folder, SYNCS), "syncs/s");
    measure_disk(&options, ".slow_disk", true);
    folder_drop(folder);
    return 0;
}
