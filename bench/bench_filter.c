/*
 * bench_filter - what one filter call costs, without sockets: decode, ask, encode.
 *
 * CPU time of the calling thread. The window of node names moves from call to call, as
 * kube-scheduler's does, so the nodes are not warm in the caches.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "milligpu/base/alloc.h"
#include "milligpu/waiting/waiting_pods.h"
#include "milligpu/webhook/score_caches.h"
#include "milligpu/wire/extender/wire_extender.h"

#include "cluster.h"
#include "measure.h"
#include "webhook_fixture.h"
#include "writer/batch.h"

enum { WINDOWS = 32, UIDS = 64, OFFERS = 600, WARM_UP = WINDOWS, KINDS = 790 };

struct scene {
    struct webhook_fixture fixture;
    struct ledger *ledger;
    uint32_t nodes;
    uint32_t names;
    uint32_t calls;
    bool full;
    bool cold; /* each call meets a score cache that knows nothing */
    char prefix[64];
};

/* One question; its uid and window depend on the number. */
static void question(const struct scene *scene, uint32_t number, const char *amount,
                     struct strbuf *out)
{
    char uid[40];

    (void)snprintf(uid, sizeof uid, "%08x-0000-4000-8000-00000000a5ed", number % UIDS);
    const struct cluster_question question = {
        .uid = uid,
        .amount = amount,
        .nodes = scene->nodes,
        .first = (uint32_t)((uint64_t)(number % WINDOWS) * scene->nodes / WINDOWS),
        .names = scene->names,
    };
    strbuf_reset(out);
    cluster_question_json(out, &question);
}

static struct text bytes_of(const struct strbuf *buf)
{
    return (struct text){buf->data, buf->len};
}

static bool fits(const struct http_call *call)
{
    return strstr(call->answer.data, "\"NodeNames\":[\"") != NULL;
}

static enum watched_pod look(void *user, struct text uid)
{
    return text_is(uid, user) ? WATCHED_POD_BOUND : WATCHED_POD_UNBOUND;
}

/* The pod was bound. Its uid is used again, so this does not end its entry for good. */
static void pod_was_bound(struct scene *scene, uint32_t number)
{
    char uid[40];

    (void)snprintf(uid, sizeof uid, "%08x-0000-4000-8000-00000000a5ed", number % UIDS);
    waiting_pods_listed(scene->fixture.app.waiting_pods, 0, uid, look);
}

static enum watched_pod look_bound(void *user, struct text uid)
{
    (void)user;
    (void)uid;
    return WATCHED_POD_BOUND;
}

/* All pods that were asked about are bound, so that no place is on offer. */
static void all_were_bound(struct scene *scene)
{
    static struct offer offer[OFFERS_MAX];
    const struct app *app = &scene->fixture.app;

    waiting_pods_listed(app->waiting_pods, 0, NULL, look_bound);
    must(waiting_pods_offers(app->waiting_pods, TEXT(""), app->clock.now_ms(app->clock.ctx),
                             offer) == 0);
}

/* As after a start: nothing is remembered. */
static void forget(struct scene *scene)
{
    score_caches_free(scene->fixture.app.score_caches);
    scene->fixture.app.score_caches = score_caches_new(SCORE_CACHES_MAX);
}

static void report(const struct scene *scene, struct series *series, const char *what)
{
    char name[128];

    (void)snprintf(name, sizeof name, "%s.%s", scene->prefix, what);
    series_say(series, name);
    series_done(series);
}

/* Made beforehand, so that making them does not fill the caches between two calls. */
static void make_windows(const struct scene *scene, struct strbuf window[WINDOWS])
{
    for (uint32_t i = 0; i < WINDOWS; i++) {
        strbuf_init(&window[i]);
        question(scene, i, "300", &window[i]);
    }
}

static void drop_windows(struct strbuf window[WINDOWS])
{
    for (uint32_t i = 0; i < WINDOWS; i++)
        strbuf_done(&window[i]);
}

static void measure_calls(struct scene *scene, const char *path, const char *what)
{
    struct series series;
    struct strbuf window[WINDOWS];
    struct http_call call;

    series_init(&series);
    make_windows(scene, window);
    http_call_init(&call, path);
    for (uint32_t i = 0; i < scene->calls + WARM_UP; i++) {
        if (scene->cold)
            forget(scene);
        const int64_t begun = cpu_ns();
        webhook_fixture_ask(&scene->fixture, &call, bytes_of(&window[i % WINDOWS]));
        if (i >= WARM_UP)
            series_add(&series, cpu_ns() - begun);
        must(strstr(path, "filter") == NULL || fits(&call));
        pod_was_bound(scene, i % WINDOWS);
    }
    report(scene, &series, what);
    http_call_done(&call);
    drop_windows(window);
}

/* OFFERS pods were offered nodes within the last two seconds and are not bound yet. */
static void make_offers(struct scene *scene)
{
    struct strbuf body;
    struct http_call call;
    char uid[40];
    const uint32_t names = 16;

    strbuf_init(&body);
    http_call_init(&call, "/scheduler/filter");
    for (uint32_t i = 0; i < OFFERS; i++) {
        (void)snprintf(uid, sizeof uid, "%08x-0000-4000-8000-0000000905e5", i);
        const struct cluster_question question = {
            .uid = uid, .amount = "300", .nodes = scene->nodes, .first = i * names, .names = names};
        strbuf_reset(&body);
        cluster_question_json(&body, &question);
        webhook_fixture_ask(&scene->fixture, &call, bytes_of(&body));
    }
    http_call_done(&call);
    strbuf_done(&body);
}

static void measure_offers(struct scene *scene)
{
    struct series series;
    struct strbuf window[WINDOWS];
    struct http_call call;

    series_init(&series);
    make_windows(scene, window);
    http_call_init(&call, "/scheduler/filter");
    const int64_t offer_until = wall_ns() + (int64_t)SHORTLIST_LIVE_MS * 1000000;
    make_offers(scene);
    for (uint32_t i = 0; i < scene->calls && wall_ns() < offer_until; i++) {
        const int64_t begun = cpu_ns();
        webhook_fixture_ask(&scene->fixture, &call, bytes_of(&window[i % WINDOWS]));
        series_add(&series, cpu_ns() - begun);
        pod_was_bound(scene, i % WINDOWS);
    }
    report(scene, &series, "fits_600_tentative");
    all_were_bound(scene);
    http_call_done(&call);
    drop_windows(window);
}

/* Every question is a new one: another amount or another window. */
static void measure_refusals(struct scene *scene, bool again)
{
    struct series series;
    struct strbuf body;
    struct http_call call;
    char amount[16];

    series_init(&series);
    strbuf_init(&body);
    http_call_init(&call, "/scheduler/filter");
    for (uint32_t i = 0; i < scene->calls; i++) {
        (void)snprintf(amount, sizeof amount, "%u", 201 + i % KINDS);
        question(scene, i, amount, &body);
        if (again)
            webhook_fixture_ask(&scene->fixture, &call, bytes_of(&body));
        const int64_t begun = cpu_ns();
        webhook_fixture_ask(&scene->fixture, &call, bytes_of(&body));
        series_add(&series, cpu_ns() - begun);
        must(!fits(&call));
    }
    report(scene, &series, again ? "refused_again" : "refused");
    http_call_done(&call);
    strbuf_done(&body);
}

/* Where the time goes: the same bodies, only decoded. */
static void decode(struct text body, struct arena *arena)
{
    struct extender_args args;
    struct err err;

    must(extender_args_decode(body, &cluster_wire, NULL, arena, &args, &err) == 0);
    arena_reset(arena);
}

/*
 * References to compare the figures with, from the same minute on the same machine: the same
 * bodies, searched for quotes with memchr, and read by jansson.
 */
static void reference_memchr(struct text body, struct arena *arena)
{
    const char *at = body.at;
    size_t found = 0;

    (void)arena;
    for (; (at = memchr(at, '"', body.len - (size_t)(at - body.at))) != NULL; at++)
        found++;
    must(found > 0);
}

static void reference_jansson(struct text body, struct arena *arena)
{
    json_t *value = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, NULL);

    (void)arena;
    must(value != NULL);
    json_decref(value);
}

static void measure_reading(struct scene *scene, const char *what,
                            void (*read)(struct text body, struct arena *arena))
{
    struct series series;
    struct strbuf window[WINDOWS];
    struct arena arena;

    series_init(&series);
    make_windows(scene, window);
    arena_init(&arena);
    for (uint32_t i = 0; i < scene->calls; i++) {
        const int64_t begun = cpu_ns();
        read(bytes_of(&window[i % WINDOWS]), &arena);
        series_add(&series, cpu_ns() - begun);
    }
    report(scene, &series, what);
    arena_done(&arena);
    drop_windows(window);
}

static void measure_all_reading(struct scene *scene)
{
    measure_reading(scene, "decode_alone", decode);
    measure_reading(scene, "reference.memchr", reference_memchr);
    measure_reading(scene, "reference.jansson", reference_jansson);
}

static void scene_open(struct scene *scene, uint32_t nodes, bool full)
{
    *scene = (struct scene){.nodes = nodes, .full = full, .ledger = cluster_ledger(nodes)};
    if (full)
        cluster_fill_up(scene->ledger, nodes);
    else
        (void)cluster_fill_half(scene->ledger, nodes);
    webhook_fixture_init(&scene->fixture, NULL);
    cluster_set_policy(scene->ledger, CLUSTER_SHIPPED);
    batch_publish(&scene->fixture.app, scene->ledger);
}

static void scene_close(struct scene *scene)
{
    webhook_fixture_done(&scene->fixture);
    ledger_free(scene->ledger); /* last: the snapshot's names belong to the ledger */
}

static void ask_for(struct scene *scene, uint32_t names, uint32_t calls)
{
    scene->names = names < scene->nodes ? names : scene->nodes;
    scene->calls = calls;
    (void)snprintf(scene->prefix, sizeof scene->prefix, "filter.%u_nodes.%u_names", scene->nodes,
                   scene->names);
}

static void measure_half_full(uint32_t nodes, uint32_t scale)
{
    struct scene scene;

    scene_open(&scene, nodes, false);
    ask_for(&scene, 500, 200 * scale);
    measure_calls(&scene, "/scheduler/filter", "fits");
    measure_offers(&scene);
    measure_all_reading(&scene);
    ask_for(&scene, 5000, 40 * scale);
    measure_calls(&scene, "/scheduler/filter", "fits");
    measure_all_reading(&scene);
    ask_for(&scene, 16, 400 * scale);
    measure_calls(&scene, "/scheduler/prioritize", "prioritize");
    scene_close(&scene);
}

/* Warm: each node was judged for this request before. */
static void measure_policy(struct scene *scene, uint32_t policy, uint32_t scale)
{
    const char *name = cluster_policy_name(policy);
    char what[64];

    cluster_set_policy(scene->ledger, policy);
    batch_publish(&scene->fixture.app, scene->ledger);
    for (int cold = 0; cold < 2; cold++) {
        scene->cold = cold == 1;
        ask_for(scene, 500, WINDOWS * 2 * scale);
        (void)snprintf(what, sizeof what, "%s.fits_%s", name, cold ? "cold" : "warm");
        measure_calls(scene, "/scheduler/filter", what);
        ask_for(scene, scene->nodes, WINDOWS * scale);
        measure_calls(scene, "/scheduler/filter", what);
        ask_for(scene, 16, WINDOWS * 2 * scale);
        (void)snprintf(what, sizeof what, "%s.prioritize_%s", name, cold ? "cold" : "warm");
        measure_calls(scene, "/scheduler/prioritize", what);
    }
    scene->cold = false;
}

static void measure_policies(uint32_t nodes, uint32_t scale)
{
    static const uint32_t policies[] = {CLUSTER_SHIPPED, POLICY_BINPACK, POLICY_FGD,
                                        POLICY_ROLLOUT};
    struct scene scene;

    scene_open(&scene, nodes, false);
    for (size_t i = 0; i < ARRAY_LEN(policies); i++)
        measure_policy(&scene, policies[i], scale);
    scene_close(&scene);
}

/* Memory of a score cache after this many different requests. */
static void measure_score_cache(uint32_t nodes, uint32_t requests)
{
    struct scene scene;
    struct strbuf body;
    struct http_call call;
    char amount[16];
    char name[64];

    strbuf_init(&body);
    scene_open(&scene, nodes, false);
    cluster_set_policy(scene.ledger, CLUSTER_SHIPPED);
    batch_publish(&scene.fixture.app, scene.ledger);
    ask_for(&scene, nodes, 1);
    http_call_init(&call, "/scheduler/filter");
    for (uint32_t i = 0; i < requests; i++) {
        (void)snprintf(amount, sizeof amount, "%u", 201 + i % KINDS);
        question(&scene, i, amount, &body);
        webhook_fixture_ask(&scene.fixture, &call, bytes_of(&body));
    }
    (void)snprintf(name, sizeof name, "filter.%u_nodes.judge_of_%u_requests", nodes, requests);
    say(name, (double)score_caches_bytes(scene.fixture.app.score_caches) / (1 << 20), "MiB");
    http_call_done(&call);
    scene_close(&scene);
    strbuf_done(&body);
}

static void measure_full(uint32_t nodes, uint32_t scale)
{
    struct scene scene;

    scene_open(&scene, nodes, true);
    ask_for(&scene, 500, 200 * scale);
    measure_refusals(&scene, false);
    measure_refusals(&scene, true);
    ask_for(&scene, 5000, 40 * scale);
    measure_refusals(&scene, false);
    measure_refusals(&scene, true);
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    static const uint32_t nodes[] = {1000, 15000};
    struct options options;

    if (!options_read(argc, argv, &options))
        return 2;
    const uint32_t scale = options.quick ? 1 : 10;
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        measure_half_full(nodes[i], scale);
        measure_full(nodes[i], scale);
        measure_policies(nodes[i], scale);
        measure_score_cache(nodes[i], 100);
    }
    measure_score_cache(1213, 100);
    return 0;
}
