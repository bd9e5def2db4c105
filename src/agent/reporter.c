/*
 * The thread that patches the agent's Node. Started and stopped by agent_run().
 */
#include "agent/reporter.h"

#include <pthread.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/annotations.h"
#include "milligpu/clock.h"
#include "milligpu/json.h"
#include "milligpu/log.h"
#include "milligpu/mps.h"
#include "milligpu/wire_kube.h"

#include "agent/agent_counts.h"
#include "milligpu_version.h"

enum {
    LOOK_MS = 1000,
    PATCH_MS = 4000, /* reporter_stop() waits for it */
    AGAIN_MS = 1000,
    AGAIN_MAX_MS = 60 * 1000,
    ANYWAY_MS = 10 * 60 * 1000,
};

static const char GPUS[] = "milligpu.io/gpus";

struct reporter {
    struct reporter_rules rules;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;           /* under the lock, like the next one */
    struct strbuf agent; /* the value of the annotation; empty: not known yet */
    /* the thread's own */
    struct strbuf sent; /* the patch that the API server took last */
    int64_t sent_ms;
    int64_t wait_ms;  /* after a failure */
    int64_t label_ms; /* when the label is read next */
    bool label_lost;  /* it could not be read, and the log says so */
    bool label_odd;   /* it is neither on nor off, and the log says so */
};

int reporter_patch(const struct kube_ops *ops, const char *node, struct text body,
                   int64_t timeout_ms, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;
    CLEANUP(strbuf_done) struct strbuf answer;

    strbuf_init(&path);
    strbuf_init(&answer);
    /* The name was checked when the settings were read, and needs no escapes. */
    strbuf_printf(&path, "/api/v1/nodes/%s", node);
    const struct kube_request request = {.id = 1,
                                         .method = "PATCH",
                                         .path = path.data,
                                         .content_type = "application/merge-patch+json",
                                         .body = body,
                                         .timeout_ms = timeout_ms};
    const int status = kube_fetch(ops, &request, &answer, err);
    if (status < 0)
        return status;
    if (status >= 200 && status < 300)
        return 0;
    const int rc =
        err_set(err, ERR_UNAVAILABLE, "the API server answers %d: %.300s", status, answer.data);
    return status == 404 ? status : rc;
}

void reporter_remove(struct strbuf *out)
{
    static const struct annotation_change gone[] = {{.key = ANNOTATION_AGENT}, {.key = GPUS}};

    annotations_patch(out, gone, ARRAY_LEN(gone));
}

/* The object that reporter_agent() wrote, and what changes while the agent is connected. */
static void write_driver(const struct reporter *reporter, struct strbuf *out)
{
    struct reporter_driver driver = {.gpus = 0};
    struct json_writer json;

    if (reporter->rules.driver == NULL)
        return;
    reporter->rules.driver(reporter->rules.user, &driver);
    must(driver.named <= driver.gpus && (driver.kind != NULL) == (driver.named > 0));
    if (driver.version[0] != '\0') {
        strbuf_str(out, ",\"driver\":");
        json_writer_init(&json, out);
        json_write_str(&json, driver.version);
    }
    if (driver.gpus > 0)
        strbuf_printf(out, ",\"cdi\":{\"gpus\":%u,\"named\":%u", driver.gpus, driver.named);
    if (driver.kind != NULL)
        strbuf_printf(out, ",\"kind\":\"%s\"", driver.kind);
    strbuf_str(out, driver.gpus > 0 ? "}" : "");
}

static void write_agent(const struct reporter *reporter, struct text agent, struct strbuf *out)
{
    uint32_t up;
    uint32_t all;

    must(text_ends(agent, "}"));
    strbuf_text(out, (struct text){agent.at, agent.len - 1});
    write_driver(reporter, out);
    if (reporter->rules.mps != NULL && reporter->rules.mps(reporter->rules.user, &up, &all))
        strbuf_printf(out, ",\"mps\":{\"gpus\":%u,\"up\":%u}", (unsigned)all, (unsigned)up);
    strbuf_char(out, '}');
}

static void write_patch(struct reporter *reporter, struct text agent, struct strbuf *out)
{
    CLEANUP(strbuf_done) struct strbuf value;
    CLEANUP(strbuf_done) struct strbuf gpus;
    struct annotation_change change[2] = {{.key = ANNOTATION_AGENT}};
    size_t count = 1;

    strbuf_init(&value);
    write_agent(reporter, agent, &value);
    change[0].value = (struct text){value.data, value.len};

    strbuf_init(&gpus);
    if (reporter->rules.gpus != NULL && reporter->rules.gpus(reporter->rules.user, &gpus))
        change[count++] = (struct annotation_change){GPUS, {gpus.data, gpus.len}};
    annotations_patch(out, change, count);
}

static void report(struct reporter *reporter, struct text agent)
{
    CLEANUP(strbuf_done) struct strbuf body;
    const int64_t now_ms = clock_ms();
    struct err err;

    strbuf_init(&body);
    write_patch(reporter, agent, &body);
    const bool same = text_is((struct text){body.data, body.len}, reporter->sent.data);
    const bool waits = reporter->wait_ms > 0 && now_ms < reporter->sent_ms + reporter->wait_ms;
    if (waits || (same && reporter->wait_ms == 0 && now_ms < reporter->sent_ms + ANYWAY_MS))
        return;
    reporter->sent_ms = now_ms;
    if (reporter_patch(reporter->rules.ops, reporter->rules.node,
                       (struct text){body.data, body.len}, PATCH_MS, &err) == 0) {
        agent_count(COUNT_PATCHED);
        if (!same || reporter->wait_ms > 0)
            log_write(LOG_INFO, "node reported", log_i64("bytes", body.len));
        strbuf_reset(&reporter->sent);
        strbuf_add(&reporter->sent, body.data, body.len);
        reporter->wait_ms = 0;
        return;
    }
    agent_count(COUNT_UNPATCHED);
    reporter->wait_ms = reporter->wait_ms == 0 ? AGAIN_MS : 2 * reporter->wait_ms;
    if (reporter->wait_ms > AGAIN_MAX_MS)
        reporter->wait_ms = AGAIN_MAX_MS;
    log_write(LOG_WARN, "the node cannot be reported", log_str("why", err.text),
              log_i64("again_ms", reporter->wait_ms));
}

/* --- the label --- */

static int read_node(const struct reporter *reporter, struct strbuf *answer, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;

    strbuf_init(&path);
    /* From the API server's cache, which costs it least. */
    strbuf_printf(&path, "/api/v1/nodes/%s?resourceVersion=0", reporter->rules.node);
    const struct kube_request request = {
        .id = 1, .method = "GET", .path = path.data, .timeout_ms = PATCH_MS};
    const int status = kube_fetch(reporter->rules.ops, &request, answer, err);
    if (status < 0)
        return status;
    if (status != 200)
        return err_set(err, ERR_UNAVAILABLE, "the API server answers %d: %.300s", status,
                       answer->data);
    return 0;
}

static bool is_on(struct reporter *reporter, const char *value)
{
    const bool on = strcmp(value, "on") == 0;
    const bool odd = !on && strcmp(value, "off") != 0;

    if (odd && !reporter->label_odd)
        log_write(LOG_WARN, "the label " MPS_LABEL " is neither on nor off: it counts as off",
                  log_str("is", value));
    reporter->label_odd = odd;
    return on;
}

static int read_label(struct reporter *reporter, bool *out_on, struct err *err)
{
    static const struct wire_rules rules = {"nvidia.com/vgpu", "nvidia.com/gpu"};
    CLEANUP(strbuf_done) struct strbuf answer;
    CLEANUP(arena_done) struct arena arena;
    struct node_facts node;

    strbuf_init(&answer);
    arena_init(&arena);
    if (read_node(reporter, &answer, err) < 0 ||
        node_decode((struct text){answer.data, answer.len}, &rules, &arena, &node, err) < 0)
        return err_same(err);
    *out_on = false;
    for (uint32_t i = 0; i < node.labels; i++)
        if (strcmp(node.label[i].key, MPS_LABEL) == 0)
            *out_on = is_on(reporter, node.label[i].value);
    return 0;
}

static void look_at_label(struct reporter *reporter)
{
    const int64_t now_ms = clock_ms();
    struct err err;
    bool on = false;

    if (reporter->rules.label == NULL || now_ms < reporter->label_ms)
        return;
    reporter->label_ms = now_ms + reporter->rules.label_every_ms;
    if (read_label(reporter, &on, &err) == 0) {
        reporter->label_lost = false;
        reporter->rules.label(reporter->rules.user, on);
        return;
    }
    if (!reporter->label_lost)
        log_write(LOG_WARN, "the label of the node cannot be read: it counts as it was",
                  log_str("why", err.text));
    reporter->label_lost = true;
}

static void *reporter_main(void *user)
{
    struct reporter *reporter = user;
    CLEANUP(strbuf_done) struct strbuf agent;

    strbuf_init(&agent);
    (void)pthread_mutex_lock(&reporter->lock);
    while (!reporter->stop) {
        strbuf_reset(&agent);
        strbuf_add(&agent, reporter->agent.data, reporter->agent.len);
        (void)pthread_mutex_unlock(&reporter->lock);
        look_at_label(reporter);
        if (agent.len > 0)
            report(reporter, (struct text){agent.data, agent.len});
        const struct timespec until = clock_deadline(LOOK_MS);
        (void)pthread_mutex_lock(&reporter->lock);
        if (!reporter->stop)
            (void)pthread_cond_timedwait(&reporter->changed, &reporter->lock, &until);
    }
    (void)pthread_mutex_unlock(&reporter->lock);
    return NULL;
}

int reporter_start(const struct reporter_rules *rules, struct reporter **out, struct err *err)
{
    struct reporter *reporter = xcalloc(1, sizeof *reporter);
    pthread_condattr_t attributes;

    must(rules->node[0] != '\0' && rules->ops != NULL);
    reporter->rules = *rules;
    strbuf_init(&reporter->agent);
    strbuf_init(&reporter->sent);
    must(pthread_condattr_init(&attributes) == 0);
    must(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    must(pthread_mutex_init(&reporter->lock, NULL) == 0);
    must(pthread_cond_init(&reporter->changed, &attributes) == 0);
    (void)pthread_condattr_destroy(&attributes);
    const int rc = pthread_create(&reporter->thread, NULL, reporter_main, reporter);
    if (rc != 0) {
        xfree(reporter);
        return err_set(err, ERR_IO, "no thread for the report: %s", strerrordesc_np(rc));
    }
    *out = reporter;
    return 0;
}

void reporter_stop(struct reporter *reporter)
{
    if (reporter == NULL)
        return;
    (void)pthread_mutex_lock(&reporter->lock);
    reporter->stop = true;
    (void)pthread_cond_signal(&reporter->changed);
    (void)pthread_mutex_unlock(&reporter->lock);
    (void)pthread_join(reporter->thread, NULL);
    strbuf_done(&reporter->agent);
    strbuf_done(&reporter->sent);
    (void)pthread_cond_destroy(&reporter->changed);
    (void)pthread_mutex_destroy(&reporter->lock);
    xfree(reporter);
}

void reporter_agent(struct reporter *reporter, const char *runtime, bool closed,
                    enum nri_validator validator)
{
    struct json_writer json;

    (void)pthread_mutex_lock(&reporter->lock);
    strbuf_reset(&reporter->agent);
    json_writer_init(&json, &reporter->agent);
    json_write_object(&json);
    json_write_key(&json, "v");
    json_write_u64(&json, 1);
    json_write_key(&json, "version");
    json_write_str(&json, MILLIGPU_VERSION);
    json_write_key(&json, "runtime");
    json_write_str(&json, runtime);
    json_write_key(&json, "closed");
    json_write_bool(&json, closed);
    if (validator != NRI_VALIDATOR_UNKNOWN) {
        json_write_key(&json, "validator");
        json_write_bool(&json, validator == NRI_VALIDATOR_ON);
    }
    if (reporter->rules.key != NULL) {
        json_write_key(&json, "key");
        json_write_str(&json, reporter->rules.key);
    }
    json_write_object_end(&json);
    (void)pthread_cond_signal(&reporter->changed);
    (void)pthread_mutex_unlock(&reporter->lock);
}
