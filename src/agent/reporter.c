/*
 * Patches the agent's Node, checks that it shows the annotations, and reads its labels, in a thread
 * of its own. Started and stopped by agent_run().
 */
#include "reporter.h"

#include <pthread.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/annotations.h"
#include "milligpu/core/facts/inventory.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"
#include "milligpu/wire/json/json.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "agent/gpu/driver_release.h"
#include "agent/mps/mps.h"
#include "milligpu_version.h"

enum {
    TURN_MS = 1000,  /* maximum interval between turns of the thread */
    PATCH_MS = 4000, /* timeout of a request; reporter_stop() can wait that long */
    AGAIN_MS = 1000,
    AGAIN_MAX_MS = 60 * 1000,
    BOOT_BYTES_MAX = 64,
    LABEL_BYTES_MAX = 64,       /* a label's value of up to 63 bytes, and NUL */
    LOOK_UPGRADE_MS = 5 * 1000, /* maximum of look_every_ms during a driver upgrade */
};

static const char GPUS[] = "milligpu.io/gpus";

struct reporter {
    struct reporter_rules rules;
    pthread_t thread;
    struct mutex lock; /* guards stop and agent */
    struct condvar changed;
    bool stop;
    struct strbuf agent; /* object of reporter_agent(); empty before its first call */
    /* Used by the thread only. Times are monotonic. */
    struct strbuf sent; /* the last patch that the API server accepted */
    int64_t sent_ms;    /* time of the last patch */
    int64_t wait_ms;    /* backoff after a failure; 0 after a success */
    int64_t label_ms;   /* time of the next read of the label */
    bool label_lost;    /* logged that the label cannot be read */
    bool label_odd;     /* logged that the label is neither on nor off */
    /* Identity of the Node in the last answer; "" if unknown. */
    char node_uid[UID_BYTES_MAX + 1];
    char node_boot[BOOT_BYTES_MAX + 1];
    char upgrade[LABEL_BYTES_MAX];

    bool is_new_node; /* the last answer had another uid than the previous one */
    bool is_copied;   /* the last answer had an annotation that was written to another Node */
    bool is_reported; /* as in struct reporter_node */
};

int reporter_patch(const struct kube_ops *ops, const char *node, struct text body,
                   int64_t timeout_ms, struct strbuf *out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;

    strbuf_init(&path);
    /* The settings allow only characters that need no escapes. */
    strbuf_printf(&path, "/api/v1/nodes/%s", node);
    const struct kube_request request = {.id = 1,
                                         .method = "PATCH",
                                         .path = path.data,
                                         .content_type = "application/merge-patch+json",
                                         .body = body,
                                         .timeout_ms = timeout_ms};
    const int status = kube_fetch(ops, &request, out, err);
    if (status < 0)
        return status;
    if (status >= 200 && status < 300)
        return 0;
    const int rc =
        err_set(err, ERR_UNAVAILABLE, "the API server answers %d: %.300s", status, out->data);
    return status == 404 ? status : rc;
}

void reporter_remove(struct strbuf *out)
{
    static const struct annotation_change change[] = {
        {ANNOTATION_AGENT, TEXT("{\"leaving\":\"" AGENT_UNINSTALLED "\"}")}, {.key = GPUS}};

    annotations_patch(out, change, ARRAY_LEN(change));
}

/* Appends the members that can change while the agent is connected. */
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
    if (driver.limits != NULL)
        strbuf_printf(out, ",\"limits\":\"%s\"", driver.limits);
}

static bool knows_pod(const struct reporter *reporter)
{
    return reporter->rules.pod[0] != '\0' && reporter->rules.boot[0] != '\0' &&
           reporter->node_uid[0] != '\0';
}

static void write_pod(const struct reporter *reporter, struct strbuf *out)
{
    const struct reporter_rules *rules = &reporter->rules;

    if (!knows_pod(reporter))
        return;
    strbuf_str(out, ",\"pod\":{\"uid\":");
    strbuf_json(out, text_of(rules->pod));
    strbuf_str(out, ",\"node\":");
    strbuf_json(out, text_of(reporter->node_uid));
    strbuf_str(out, ",\"boot\":");
    strbuf_json(out, text_of(rules->boot));
    strbuf_char(out, '}');
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
    const char *leaving =
        reporter->rules.leaving != NULL ? reporter->rules.leaving(reporter->rules.user) : NULL;
    if (leaving != NULL)
        strbuf_printf(out, ",\"leaving\":\"%s\"", leaving);
    write_pod(reporter, out);
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

/* --- what the Node shows --- */

/* Members of a Node, or of a patch; at is NULL for an absent agent or gpus. */
struct shown {
    struct text agent;
    struct text gpus;
    struct text uid;
    struct text boot;
    struct text upgrade;
};

static void read_annotations(struct json_reader *in, struct shown *out)
{
    struct text key;

    json_read_object(in);
    while (json_read_key(in, &key))
        if (text_is(key, ANNOTATION_AGENT))
            (void)json_read_string(in, &out->agent);
        else if (text_is(key, GPUS))
            (void)json_read_string(in, &out->gpus);
        else
            (void)json_read_skip(in);
}

static void read_labels(struct json_reader *in, struct shown *out)
{
    struct text key;

    if (json_read_null(in))
        return;
    json_read_object(in);
    while (json_read_key(in, &key))
        if (text_is(key, DRIVER_UPGRADE_LABEL))
            (void)json_read_string(in, &out->upgrade);
        else
            (void)json_read_skip(in);
}

/* Labels and annotations can be null. */
static void read_metadata(struct json_reader *in, struct shown *out)
{
    struct text key;

    json_read_object(in);
    while (json_read_key(in, &key))
        if (text_is(key, "uid"))
            (void)json_read_string(in, &out->uid);
        else if (text_is(key, "labels"))
            read_labels(in, out);
        else if (!text_is(key, "annotations"))
            (void)json_read_skip(in);
        else if (!json_read_null(in))
            read_annotations(in, out);
}

static void read_node_info(struct json_reader *in, struct shown *out)
{
    struct text key;

    if (json_read_null(in))
        return;
    json_read_object(in);
    while (json_read_key(in, &key))
        if (text_is(key, "bootID"))
            (void)json_read_string(in, &out->boot);
        else
            (void)json_read_skip(in);
}

static void read_status(struct json_reader *in, struct shown *out)
{
    struct text key;

    if (json_read_null(in))
        return;
    json_read_object(in);
    while (json_read_key(in, &key))
        if (text_is(key, "nodeInfo"))
            read_node_info(in, out);
        else
            (void)json_read_skip(in);
}

/* Parses a Node, or a patch of one. */
static int read_shown(struct text object, struct arena *arena, struct shown *out, struct err *err)
{
    struct json_reader in;
    struct text key;

    *out = (struct shown){.uid = TEXT(""), .boot = TEXT(""), .upgrade = TEXT("")};
    json_reader_init(&in, object, "Node", arena, err);
    json_read_object(&in);
    while (json_read_key(&in, &key))
        if (text_is(key, "metadata"))
            read_metadata(&in, out);
        else if (text_is(key, "status"))
            read_status(&in, out);
        else
            (void)json_read_skip(&in);
    return json_reader_finish(&in);
}

/* An annotation that was not written can have any value. */
static bool is_as_written(struct text written, struct text shown)
{
    return written.at == NULL || (shown.at != NULL && text_eq(written, shown));
}

/* Does the value of the annotation name another Node object than this one? */
static bool is_of_other_node(const struct reporter *reporter, struct text agent,
                             struct arena *arena)
{
    struct agent_claim claim;
    const char *key;

    return agent.at != NULL && agent_claim_decode(agent, arena, &key, &claim) &&
           claim.node != NULL && claim.node[0] != '\0' &&
           strcmp(claim.node, reporter->node_uid) != 0;
}

static void report_node(const struct reporter *reporter)
{
    const struct reporter_node node = {.boot = reporter->node_boot,
                                       .upgrade = reporter->upgrade,
                                       .is_reported = reporter->is_reported};

    if (reporter->rules.seen != NULL)
        reporter->rules.seen(reporter->rules.user, &node);
}

/* A uid longer than the API server's counts as absent. */
static void note_node(struct reporter *reporter, const struct shown *shown)
{
    const struct text uid = shown->uid.len <= UID_BYTES_MAX ? shown->uid : TEXT("");

    reporter->is_new_node = !text_is(uid, reporter->node_uid);
    text_clip(uid, reporter->node_uid, sizeof reporter->node_uid);
    text_clip(shown->boot, reporter->node_boot, sizeof reporter->node_boot);
    text_clip(shown->upgrade, reporter->upgrade, sizeof reporter->upgrade);
    report_node(reporter);
}

/*
 * Sends the patch, which can be "{}". *out_shows: the answer has the annotations of written.
 * Negative: no usable answer.
 */
static int patch_and_look(struct reporter *reporter, struct text body, struct text written,
                          bool *out_shows, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf answer;
    CLEANUP(arena_done) struct arena arena;
    struct shown wanted;
    struct shown shown;

    strbuf_init(&answer);
    arena_init(&arena);
    reporter->sent_ms = clock_ms();
    if (reporter_patch(reporter->rules.ops, reporter->rules.node, body, PATCH_MS, &answer, err) !=
        0)
        return -1;
    const int rc = read_shown(written, &arena, &wanted, err);
    must(rc == 0 && wanted.agent.at != NULL); /* annotations_patch() wrote it */
    if (read_shown((struct text){answer.data, answer.len}, &arena, &shown, err) < 0)
        return err_wrap(err, "the answer to the patch");
    note_node(reporter, &shown);
    reporter->is_copied = is_of_other_node(reporter, shown.agent, &arena);
    *out_shows = is_as_written(wanted.agent, shown.agent) && is_as_written(wanted.gpus, shown.gpus);
    return 0;
}

/* --- the report --- */

static void fails(struct reporter *reporter, const char *why)
{
    metric_add(COUNT_UNPATCHED, NULL, 1);
    reporter->wait_ms = reporter->wait_ms == 0 ? AGAIN_MS : 2 * reporter->wait_ms;
    if (reporter->wait_ms > AGAIN_MAX_MS)
        reporter->wait_ms = AGAIN_MAX_MS;
    log_write(LOG_WARN, "the node cannot be reported", log_str("why", why),
              log_i64("again_ms", reporter->wait_ms));
}

static void write_node(struct reporter *reporter, struct text body)
{
    const bool is_whole = reporter->rules.pod[0] == '\0' || knows_pod(reporter);
    struct err err;
    bool shows = false;

    if (patch_and_look(reporter, body, body, &shows, &err) < 0) {
        fails(reporter, err.text);
        return;
    }
    if (!shows) {
        fails(reporter, "the Node does not show what was written: something else changes it");
        return;
    }
    metric_add(COUNT_PATCHED, NULL, 1);
    log_write(LOG_INFO, "node reported", log_i64("bytes", (int64_t)body.len));
    strbuf_reset(&reporter->sent);
    strbuf_add(&reporter->sent, body.at, body.len);
    reporter->wait_ms = 0;
    if (!is_whole || reporter->is_reported)
        return;
    reporter->is_reported = true;
    report_node(reporter);
}

/* True if the Node has a new uid, which "pod" must have, so that another patch is needed. */
static bool needs_more(const struct reporter *reporter)
{
    return reporter->is_new_node && knows_pod(reporter);
}

/* False if the annotations must be written again. */
static bool look_at_node(struct reporter *reporter)
{
    const struct text sent = {reporter->sent.data, reporter->sent.len};
    struct err err;
    bool shows = true;

    if (patch_and_look(reporter, TEXT("{}"), sent, &shows, &err) < 0)
        fails(reporter, err.text);
    else if (!shows && !needs_more(reporter))
        log_plain(
            LOG_WARN,
            reporter->is_copied
                ? "the annotations of another Node were copied onto that of this agent, which "
                  "writes its own again: leave milligpu.io/... out of manifests of Nodes"
                : "the annotations that this agent wrote on its Node were removed or "
                  "changed: they are written again");
    return shows || needs_more(reporter);
}

static int64_t look_every_ms(const struct reporter *reporter)
{
    const int64_t every_ms = reporter->rules.look_every_ms;
    const bool soon = driver_upgrade_goes_on(text_of(reporter->upgrade));

    return soon && every_ms > LOOK_UPGRADE_MS ? LOOK_UPGRADE_MS : every_ms;
}

static void report_once(struct reporter *reporter, struct text agent)
{
    CLEANUP(strbuf_done) struct strbuf body;

    strbuf_init(&body);
    write_patch(reporter, agent, &body);
    const bool same = text_is((struct text){body.data, body.len}, reporter->sent.data);
    const int64_t quiet_ms = reporter->wait_ms > 0 ? reporter->wait_ms
                             : same                ? look_every_ms(reporter)
                                                   : 0;
    if (clock_ms() < reporter->sent_ms + quiet_ms)
        return;
    if (reporter->wait_ms == 0 && same && look_at_node(reporter))
        return;
    write_node(reporter, (struct text){body.data, body.len});
}

/* At most two patches: a Node with a new uid in each answer would be a fake. */
static void report(struct reporter *reporter, struct text agent)
{
    reporter->is_new_node = false;
    report_once(reporter, agent);
    if (!needs_more(reporter))
        return;
    log_write(LOG_INFO, "the Node of this agent", log_str("uid", reporter->node_uid));
    report_once(reporter, agent);
}

/* --- the label --- */

static int read_node(const struct reporter *reporter, struct strbuf *answer, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;

    strbuf_init(&path);
    /* resourceVersion=0: from the API server's cache, the cheapest read. */
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
    static const struct wire_rules rules = {.resource = "nvidia.com/vgpu",
                                            .whole_resource = "nvidia.com/gpu"};
    CLEANUP(strbuf_done) struct strbuf answer;
    CLEANUP(arena_done) struct arena arena;
    struct node_facts node;

    strbuf_init(&answer);
    arena_init(&arena);
    if (read_node(reporter, &answer, err) < 0 ||
        node_decode((struct text){answer.data, answer.len}, &rules, &arena, &node, err) < 0)
        return err_same(err);
    *out_on = false;
    for (uint32_t i = 0; i < node.n_labels; i++)
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
    const int64_t turn_ms =
        reporter->rules.look_every_ms < TURN_MS ? reporter->rules.look_every_ms : TURN_MS;
    CLEANUP(strbuf_done) struct strbuf agent;

    strbuf_init(&agent);
    mutex_lock(&reporter->lock);
    while (!reporter->stop) {
        strbuf_reset(&agent);
        strbuf_add(&agent, reporter->agent.data, reporter->agent.len);
        mutex_unlock(&reporter->lock);
        if (reporter->rules.turn != NULL)
            reporter->rules.turn(reporter->rules.user);
        look_at_label(reporter);
        if (agent.len > 0)
            report(reporter, (struct text){agent.data, agent.len});
        const struct timespec until = clock_deadline(turn_ms);
        mutex_lock(&reporter->lock);
        if (!reporter->stop)
            (void)condvar_wait_until(&reporter->changed, &reporter->lock, &until);
    }
    mutex_unlock(&reporter->lock);
    return NULL;
}

int reporter_start(const struct reporter_rules *rules, struct reporter **out, struct err *err)
{
    struct reporter *reporter = xcalloc(1, sizeof *reporter);

    must(rules->node[0] != '\0' && rules->ops != NULL && rules->look_every_ms > 0);
    must(rules->pod != NULL && rules->boot != NULL);
    reporter->rules = *rules;
    strbuf_init(&reporter->agent);
    strbuf_init(&reporter->sent);
    mutex_init(&reporter->lock);
    condvar_init(&reporter->changed);
    const int rc = pthread_create(&reporter->thread, NULL, reporter_main, reporter);
    if (rc != 0) {
        condvar_done(&reporter->changed);
        mutex_done(&reporter->lock);
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
    mutex_lock(&reporter->lock);
    reporter->stop = true;
    condvar_signal(&reporter->changed);
    mutex_unlock(&reporter->lock);
    (void)pthread_join(reporter->thread, NULL);
    strbuf_done(&reporter->agent);
    strbuf_done(&reporter->sent);
    condvar_done(&reporter->changed);
    mutex_done(&reporter->lock);
    xfree(reporter);
}

void reporter_agent(struct reporter *reporter, const char *runtime, bool closed,
                    enum nri_validator validator)
{
    struct json_writer json;

    mutex_lock(&reporter->lock);
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
    condvar_signal(&reporter->changed);
    mutex_unlock(&reporter->lock);
}
