/*
 * Writes our public key into the ConfigMap of all keys. Runs on the informer's thread, beside lists
 * and watches, with one request in flight at a time. Nothing waits for it: a pod that is bound
 * before its node's agent knows the key starts a little later. In order: facts, requests, answers,
 * the step.
 */
#include "milligpu/key_publisher.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/annotations.h"
#include "milligpu/log.h"
#include "milligpu/metric.h"
#include "milligpu/signing.h"
#include "milligpu/wire_kube.h"

enum {
    TIMEOUT_MS = 10000,
    RETRY_MS = 1000, /* the first pause after a failure; doubles */
    RETRY_MAX_MS = 60000,
    AGAIN_MS = 10 * 60 * 1000, /* after a success; a patch that changes nothing costs no write */
    ANSWER_MAX = 64 * 1024,
};

/* Upper half 3 was cluster_identity.c's, whose only request is over by now; its id ends in 0. */
static const uint64_t id_base = (uint64_t)3 << 32;

struct key_publisher {
    struct app *app;
    struct kube_ops ops;
    pthread_mutex_t lock; /* guards facts */
    struct key_facts facts;
    bool creates; /* the ConfigMap is missing */
    bool in_flight;
    uint64_t id; /* of the request in flight */
    uint32_t ids;
    int status;
    uint32_t failures; /* since the last success */
    int64_t due_ms;
    struct strbuf answer;
};

const char *keys_namespace(const struct app *app)
{
    const struct settings *settings = atomic_load(&app->settings);

    must(settings != NULL);
    return settings->keys_namespace[0] != '\0' ? settings->keys_namespace : app->wake_namespace;
}

struct key_publisher *key_publisher_new(struct app *app, const struct kube_ops *ops)
{
    struct key_publisher *publisher = xcalloc(1, sizeof *publisher);

    must(app->signing_key != NULL && ops->start != NULL);
    must(keys_namespace(app)[0] != '\0');
    publisher->app = app;
    publisher->ops = *ops;
    publisher->facts.id = signing_key_id(app->signing_key);
    must(pthread_mutex_init(&publisher->lock, NULL) == 0);
    strbuf_init(&publisher->answer);
    return publisher;
}

void key_publisher_free(struct key_publisher *publisher)
{
    if (publisher == NULL)
        return;
    if (publisher->in_flight)
        publisher->ops.cancel(publisher->ops.ctx, publisher->id);
    must(pthread_mutex_destroy(&publisher->lock) == 0);
    strbuf_done(&publisher->answer);
    xfree(publisher);
}

static void publisher_lock(struct key_publisher *publisher)
{
    must(pthread_mutex_lock(&publisher->lock) == 0);
}

static void publisher_unlock(struct key_publisher *publisher)
{
    must(pthread_mutex_unlock(&publisher->lock) == 0);
}

void key_publisher_facts(struct key_publisher *publisher, struct key_facts *out)
{
    publisher_lock(publisher);
    *out = publisher->facts;
    publisher_unlock(publisher);
}

/* An error is logged when it begins or changes, not at each try. */
static void publish_failed(struct key_publisher *publisher, int64_t now_ms, const char *why)
{
    char error[sizeof publisher->facts.error];
    int64_t pause_ms = RETRY_MS;

    must(why[0] != '\0' && !publisher->in_flight);
    for (uint32_t i = 0; i < publisher->failures && pause_ms < RETRY_MAX_MS; i++)
        pause_ms *= 2;
    publisher->failures++;
    publisher->due_ms = now_ms + (pause_ms < RETRY_MAX_MS ? pause_ms : RETRY_MAX_MS);
    text_clip(text_of(why), error, sizeof error);
    publisher_lock(publisher);
    const bool news = strcmp(publisher->facts.error, error) != 0;
    memcpy(publisher->facts.error, error, sizeof error);
    publisher_unlock(publisher);
    if (news)
        log_write(LOG_WARN, "the signing key cannot be published, so agents do not know it",
                  log_str("namespace", keys_namespace(publisher->app)), log_str("error", error));
}

static void published(struct key_publisher *publisher, int64_t now_ms)
{
    must(!publisher->in_flight);
    publisher->failures = 0;
    publisher->due_ms = now_ms + AGAIN_MS;
    publisher_lock(publisher);
    const bool news = !publisher->facts.published || publisher->facts.error[0] != '\0';
    publisher->facts.published = true;
    publisher->facts.error[0] = '\0';
    publisher_unlock(publisher);
    if (news)
        log_write(LOG_INFO, "the signing key is published",
                  log_str("key", signing_key_id(publisher->app->signing_key)),
                  log_str("namespace", keys_namespace(publisher->app)));
}

/* --- requests and answers --- */

static void publish(struct key_publisher *publisher, int64_t now_ms)
{
    const char *namespace = keys_namespace(publisher->app);
    const char *id = signing_key_id(publisher->app->signing_key);
    const char *key = signing_key_public(publisher->app->signing_key);
    struct arena arena;
    struct strbuf body;
    struct err err;

    must(!publisher->in_flight);
    arena_init(&arena);
    strbuf_init(&body);
    const char *path = configmaps_path(&arena, namespace);
    if (publisher->creates)
        keys_encode(&body, namespace, id, key);
    else
        keys_patch(&body, id, key);
    const struct kube_request request = {
        .id = id_base + ++publisher->ids,
        .method = publisher->creates ? "POST" : "PATCH",
        .path = publisher->creates ? path : arena_printf(&arena, "%s/%s", path, KEYS_CONFIGMAP),
        .content_type = publisher->creates ? "application/json" : "application/merge-patch+json",
        .body = {body.data, body.len},
        .timeout_ms = TIMEOUT_MS};
    strbuf_reset(&publisher->answer);
    publisher->status = 0;
    publisher->id = request.id;
    publisher->in_flight = publisher->ops.start(publisher->ops.ctx, &request, &err) == 0;
    if (!publisher->in_flight)
        publish_failed(publisher, now_ms, err.text);
    strbuf_done(&body);
    arena_done(&arena);
}

static void count_publishing(int status)
{
    char labels[64];

    must(status >= 0);
    (void)snprintf(labels, sizeof labels, "call=\"publish_key\",code=\"%d\"", status);
    metric_add(M_API_REQUESTS, labels, 1);
}

/* A ConfigMap that somebody made meanwhile (409) is patched at the next try. */
static void publish_answered(struct key_publisher *publisher, int64_t now_ms)
{
    const bool created = publisher->creates;
    struct arena arena;
    struct status status;
    char why[300];

    must(publisher->in_flight);
    publisher->in_flight = false;
    publisher->creates = false;
    count_publishing(publisher->status);
    if (publisher->status == (created ? 201 : 200)) {
        published(publisher, now_ms);
        return;
    }
    if (publisher->status == 404 && !created) {
        publisher->creates = true;
        publisher->due_ms = now_ms;
        return;
    }
    arena_init(&arena);
    status_decode((struct text){publisher->answer.data, publisher->answer.len}, &arena, &status);
    (void)snprintf(why, sizeof why, "HTTP %d: %.250s", publisher->status, status.message);
    publish_failed(publisher, now_ms, why);
    arena_done(&arena);
}

bool key_publisher_answer(struct key_publisher *publisher, int64_t now_ms,
                          const struct kube_answer *answer)
{
    if (answer->id <= id_base || answer->id - id_base > UINT32_MAX)
        return false;
    if (!publisher->in_flight || answer->id != publisher->id)
        return true;
    switch (answer->piece) {
    case KUBE_HEAD:
        publisher->status = answer->status;
        break;
    case KUBE_DATA:
        strbuf_text(&publisher->answer,
                    text_first(answer->data, ANSWER_MAX - publisher->answer.len));
        break;
    case KUBE_DONE:
        publish_answered(publisher, now_ms);
        break;
    case KUBE_FAILED:
        publisher->in_flight = false;
        publisher->creates = false;
        count_publishing(0);
        publish_failed(publisher, now_ms, answer->err != NULL ? answer->err->text : "no answer");
        break;
    }
    return true;
}

int64_t key_publisher_step(struct key_publisher *publisher, int64_t now_ms)
{
    must(now_ms >= 0);
    if (!publisher->in_flight && now_ms >= publisher->due_ms)
        publish(publisher, now_ms);
    if (publisher->in_flight)
        return TIMEOUT_MS;
    return publisher->due_ms > now_ms ? publisher->due_ms - now_ms : 0;
}
