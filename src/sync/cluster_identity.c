/*
 * Identifies the cluster, and for a ledger without an owner detects whether another milligpud
 * granted here before. Runs on the informer thread before the informer: until it is done, nothing
 * is listed and the writer does nothing. One request is in flight at a time; it is retried every
 * second without limit, unless the ledger belongs to another cluster. cluster_identity_ask() is for
 * the main thread, before it opens a ledger.
 */
#include "milligpu/sync/cluster_identity.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/kube/kube.h"
#include "milligpu/run/log.h"
#include "milligpu/wire/kube/wire_kube.h"

enum { TIMEOUT_MS = 10000, ASK_MS = 5000, RETRY_MS = 1000, ANSWER_MAX = 1 << 20 };

/*
 * The upper half of the id: the informer uses 1, 2, 4 and 6 and above, rights.c 5; key_publisher.c
 * also uses 3, with another lower half.
 */
static const uint64_t request_id = (uint64_t)3 << 32;

/* The API server refuses to delete kube-system, so its uid lives as long as the cluster. */
static const char kube_system[] = "/api/v1/namespaces/kube-system";

struct cluster_identity {
    struct app *app;
    const struct kube_ops *ops;
    bool flying;              /* a request is in flight */
    bool creates_wake_object; /* the ledger is new: the next request creates the object */
    bool done;
    bool refused; /* the ledger belongs to another cluster; final, with err */
    struct err err;
    int64_t due_ms; /* earliest time of the next request, monotonic */
    int status;
    struct strbuf answer;
};

static int read_uid(const struct strbuf *answer, char out[UID_BYTES_MAX + 1], struct err *err)
{
    struct arena arena;
    struct object_meta meta;

    arena_init(&arena);
    int failed = meta_decode((struct text){answer->data, answer->len}, &arena, &meta, err);
    if (failed == 0 && (meta.uid[0] == '\0' || strlen(meta.uid) > UID_BYTES_MAX))
        failed = err_set(err, ERR_INVALID, "namespace kube-system has no usable uid");
    if (failed == 0)
        (void)snprintf(out, UID_BYTES_MAX + 1, "%s", meta.uid);
    arena_done(&arena);
    return failed;
}

static int ask_once(const struct kube_ops *ops, struct strbuf *answer,
                    char out_uid[UID_BYTES_MAX + 1], struct err *err)
{
    const struct kube_request request = {
        .id = request_id, .method = "GET", .path = kube_system, .timeout_ms = ASK_MS};
    struct err why;

    const int status = kube_fetch(ops, &request, answer, &why);
    if (status == 401)
        return err_set(err, ERR_UNAUTHORIZED,
                       "HTTP 401: give milligpud credentials that the API server accepts");
    if (status == 403)
        return err_set(err, ERR_FORBIDDEN,
                       "HTTP 403: allow milligpud to get the namespace kube-system");
    if (status == 200 && read_uid(answer, out_uid, &why) == 0)
        return 0;
    if (status >= 0 && status != 200)
        (void)err_set(&why, ERR_UNAVAILABLE, "HTTP %d: %.100s", status, answer->data);
    return err_set(err, ERR_UNAVAILABLE, "%s; start milligpud again when the API server answers",
                   why.text);
}

int cluster_identity_ask(const struct kube_ops *ops, char out_uid[UID_BYTES_MAX + 1],
                         struct err *err)
{
    struct strbuf answer;

    must(ops->start != NULL);
    strbuf_init(&answer);
    const int failed = ask_once(ops, &answer, out_uid, err);
    strbuf_done(&answer);
    return failed != 0 ? err_wrap(err, "GET %s%s", ops->name(ops->ctx), kube_system) : 0;
}

struct cluster_identity *cluster_identity_new(struct app *app, const struct kube_ops *ops)
{
    struct cluster_identity *identity = xcalloc(1, sizeof *identity);

    must(app->store != NULL && ops->start != NULL);
    identity->app = app;
    identity->ops = ops;
    strbuf_init(&identity->answer);
    return identity;
}

void cluster_identity_free(struct cluster_identity *identity)
{
    if (identity == NULL)
        return;
    if (identity->flying)
        identity->ops->cancel(identity->ops->ctx, request_id);
    strbuf_done(&identity->answer);
    xfree(identity);
}

bool cluster_identity_done(const struct cluster_identity *identity)
{
    return identity->done;
}

bool cluster_identity_refused(const struct cluster_identity *identity, struct err *out_err)
{
    if (identity->refused)
        *out_err = identity->err;
    return identity->refused;
}

static void try_later(struct cluster_identity *identity, int64_t now_ms, const char *why)
{
    must(why != NULL);

    identity->flying = false;
    identity->due_ms = now_ms + RETRY_MS;
    atomic_store(&identity->app->watch.api_error_ms, now_ms);
    log_write(LOG_WARN,
              identity->creates_wake_object ? "the wake-up object cannot be created yet"
                                            : "the cluster cannot be identified yet",
              log_str("server", identity->app->instance.server), log_str("error", why));
}

static int ask_for_uid(struct cluster_identity *identity, struct err *err)
{
    const struct kube_request request = {
        .id = request_id, .method = "GET", .path = kube_system, .timeout_ms = TIMEOUT_MS};
    return identity->ops->start(identity->ops->ctx, &request, err);
}

/* Independent of the setting wake: the object also marks the cluster for a later milligpud. */
static int cluster_identity_create_wake_object(struct cluster_identity *identity, struct err *err)
{
    must(identity->app->instance.wake_namespace[0] != '\0');

    struct arena arena;
    struct strbuf body;

    arena_init(&arena);
    strbuf_init(&body);
    wake_object_encode(&body, identity->app->instance.wake_namespace);
    const struct kube_request request = {
        .id = request_id,
        .method = "POST",
        .path = wake_objects_path(&arena, identity->app->instance.wake_namespace),
        .content_type = "application/json",
        .body = {body.data, body.len},
        .timeout_ms = TIMEOUT_MS};
    const int failed = identity->ops->start(identity->ops->ctx, &request, err);
    strbuf_done(&body);
    arena_done(&arena);
    return failed;
}

int64_t cluster_identity_step(struct cluster_identity *identity, int64_t now_ms)
{
    must(now_ms >= 0);

    struct err err;

    if (identity->done || identity->refused || identity->flying)
        return TIMEOUT_MS;
    if (now_ms < identity->due_ms)
        return identity->due_ms - now_ms;
    strbuf_reset(&identity->answer);
    identity->flying = true;
    if ((identity->creates_wake_object ? cluster_identity_create_wake_object(identity, &err)
                                       : ask_for_uid(identity, &err)) < 0)
        try_later(identity, now_ms, err.text);
    return TIMEOUT_MS;
}

/* Another cluster's ledger is final; a disk error is retried. */
static void cluster_identity_failed(struct cluster_identity *identity, int64_t now_ms)
{
    must(identity->err.code != ERR_NONE);

    identity->refused = identity->err.code == ERR_FOREIGN;
    if (identity->refused)
        return;
    atomic_store(&identity->app->health.disk_broken, true);
    try_later(identity, now_ms, identity->err.text);
}

/* The writer waits for this flag, so its inputs about a new ledger are set before. */
static void cluster_identity_known(struct cluster_identity *identity)
{
    must(!identity->done && identity->app->instance.cluster[0] != '\0');

    identity->done = true;
    atomic_store(&identity->app->identified, true);
}

/*
 * A restored ledger waits like a new one in a cluster with grants: grants since the backup are
 * unknown, and one of their Bindings may still be in flight.
 */
static void cluster_identity_is_restored(struct cluster_identity *identity)
{
    must(!identity->done);
    atomic_store(&identity->app->grace.wake_object_existed, true);
    atomic_store(&identity->app->grace.restored_ledger, true);
    atomic_store(&identity->app->grace.new_ledger, true);
}

static void refused_with_status(struct cluster_identity *identity, int64_t now_ms)
{
    char text[300];

    must(identity->flying);
    (void)snprintf(text, sizeof text, "HTTP %d: %.200s", identity->status, identity->answer.data);
    try_later(identity, now_ms, text);
}

/* The writer does not run yet, so this thread may read through the store's own connection. */
static void cluster_identity_learned(struct cluster_identity *identity, int64_t now_ms)
{
    must(!identity->done && identity->status == 200);
    struct app *app = identity->app;
    char uid[UID_BYTES_MAX + 1];
    struct err err;
    enum store_owner owner = OWNER_NOBODY;

    if (read_uid(&identity->answer, uid, &err) < 0) {
        try_later(identity, now_ms, err.text);
    } else if (store_whose(app->store, uid, &owner, &identity->err) < 0) {
        cluster_identity_failed(identity, now_ms);
    } else {
        (void)snprintf(app->instance.cluster, sizeof app->instance.cluster, "%s", uid);
        if (owner == OWNER_THIS_BY_COPY)
            cluster_identity_is_restored(identity);
        if (owner == OWNER_NOBODY)
            identity->creates_wake_object = true;
        else
            cluster_identity_known(identity);
    }
    identity->flying = false;
}

/*
 * The milligpud that creates the wake-up object is the first of this cluster; if the object exists,
 * or the permission is missing, it assumes an earlier one. So does a retry after a lost answer.
 */
static void wake_object_answered(struct cluster_identity *identity, int64_t now_ms)
{
    const int status = identity->status;
    const bool may_not = status == 403 || status == 404;

    must(identity->creates_wake_object && !identity->done);
    if (status != 201 && status != 409 && !may_not) {
        refused_with_status(identity, now_ms);
        return;
    }
    if (may_not)
        log_write(
            LOG_WARN,
            "the wake-up object cannot be created, so it is not known whether another milligpud "
            "granted in this cluster before",
            log_str("namespace", identity->app->instance.wake_namespace),
            log_i64("status", status));
    identity->flying = false;
    atomic_store(&identity->app->grace.wake_object_existed, status != 201);
    atomic_store(&identity->app->grace.new_ledger, true);
    cluster_identity_known(identity);
}

void cluster_identity_answer(struct cluster_identity *identity, int64_t now_ms,
                             const struct kube_answer *answer)
{
    must(answer->id != 0);

    if (answer->id != request_id || !identity->flying)
        return;
    switch (answer->piece) {
    case KUBE_HEAD:
        identity->status = answer->status;
        return;
    case KUBE_DATA:
        /*
         * Limits memory; no namespace is nearly as large. Truncated at the end, because a gap could
         * change the meaning of the rest.
         */
        strbuf_text(&identity->answer, text_first(answer->data, ANSWER_MAX - identity->answer.len));
        return;
    case KUBE_DONE:
        if (identity->creates_wake_object)
            wake_object_answered(identity, now_ms);
        else if (identity->status == 200)
            cluster_identity_learned(identity, now_ms);
        else
            refused_with_status(identity, now_ms);
        return;
    case KUBE_FAILED:
        try_later(identity, now_ms, answer->err->text);
        return;
    }
    must_not_reach("every piece is listed");
}
