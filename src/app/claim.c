#include "claim.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/log.h"
#include "milligpu/wire_kube.h"

enum { TIMEOUT_MS = 10000, RETRY_MS = 1000, ANSWER_MAX = 1 << 20 };

static const uint64_t request_id = (uint64_t)3 << 32;

struct claim {
    struct app *app;
    const struct kube_ops *ops;
    bool flying;
    bool creates_wake_object; /* the ledger is new: is this the first milligpud? */
    bool done;
    bool refused;
    struct err err;
    int64_t due_ms;
    int status;
    struct strbuf answer;
};

struct claim *claim_new(struct app *app, const struct kube_ops *ops)
{
    struct claim *claim = xcalloc(1, sizeof *claim);

    must(app->store != NULL && ops->start != NULL);
    claim->app = app;
    claim->ops = ops;
    strbuf_init(&claim->answer);
    return claim;
}

void claim_free(struct claim *claim)
{
    if (claim == NULL)
        return;
    if (claim->flying)
        claim->ops->cancel(claim->ops->ctx, request_id);
    strbuf_done(&claim->answer);
    xfree(claim);
}

bool claim_done(const struct claim *claim)
{
    return claim->done;
}

bool claim_refused(const struct claim *claim, struct err *out_err)
{
    must(out_err != NULL);

    if (claim->refused)
        *out_err = claim->err;
    return claim->refused;
}

static void try_later(struct claim *claim, int64_t now_ms, const char *why)
{
    must(why != NULL);

    claim->flying = false;
    claim->due_ms = now_ms + RETRY_MS;
    atomic_store(&claim->app->api_error_ms, now_ms);
    log_write(LOG_WARN,
              claim->creates_wake_object ? "the wake-up object cannot be created yet"
                                         : "the cluster cannot be identified yet",
              log_str("server", claim->app->server), log_str("error", why));
}

static int ask_for_uid(struct claim *claim, struct err *err)
{
    const struct kube_request request = {.id = request_id,
                                         .method = "GET",
                                         .path = "/api/v1/namespaces/kube-system",
                                         .timeout_ms = TIMEOUT_MS};
    return claim->ops->start(claim->ops->ctx, &request, err);
}

static int create_wake_object(struct claim *claim, struct err *err)
{
    must(claim->app->wake_namespace[0] != '\0');

    struct arena arena;
    struct strbuf body;

    arena_init(&arena);
    strbuf_init(&body);
    wake_object_encode(&body, claim->app->wake_namespace);
    const struct kube_request request = {.id = request_id,
                                         .method = "POST",
                                         .path =
                                             wake_objects_path(&arena, claim->app->wake_namespace),
                                         .content_type = "application/json",
                                         .body = {body.data, body.len},
                                         .timeout_ms = TIMEOUT_MS};
    const int failed = claim->ops->start(claim->ops->ctx, &request, err);
    strbuf_done(&body);
    arena_done(&arena);
    return failed;
}

int64_t claim_step(struct claim *claim, int64_t now_ms)
{
    must(now_ms >= 0);

    struct err err;

    if (claim->done || claim->refused || claim->flying)
        return TIMEOUT_MS;
    if (now_ms < claim->due_ms)
        return claim->due_ms - now_ms;
    strbuf_reset(&claim->answer);
    claim->flying = true;
    if ((claim->creates_wake_object ? create_wake_object(claim, &err) : ask_for_uid(claim, &err)) <
        0)
        try_later(claim, now_ms, err.text);
    return TIMEOUT_MS;
}

/* Another cluster's ledger stays that; a disk may heal. */
static void not_claimed(struct claim *claim, int64_t now_ms)
{
    must(claim->err.code != ERR_NONE);

    claim->refused = claim->err.code == ERR_FOREIGN;
    if (claim->refused)
        return;
    atomic_store(&claim->app->disk_broken, true);
    try_later(claim, now_ms, claim->err.text);
}

static void known(struct claim *claim)
{
    must(!claim->done && claim->app->cluster[0] != '\0');

    claim->done = true;
    atomic_store(&claim->app->claimed, true);
}

static void refused_with_status(struct claim *claim, int64_t now_ms)
{
    char text[300];

    must(claim->flying);
    (void)snprintf(text, sizeof text, "HTTP %d: %.200s", claim->status, claim->answer.data);
    try_later(claim, now_ms, text);
}

static void learned(struct claim *claim, int64_t now_ms)
{
    must(!claim->done && claim->status == 200);
    struct app *app = claim->app;
    struct arena arena;
    struct object_meta meta;
    struct err err;
    bool nobodys = false;

    arena_init(&arena);
    if (meta_decode((struct text){claim->answer.data, claim->answer.len}, &arena, &meta, &err) <
        0) {
        try_later(claim, now_ms, err.text);
    } else if (strlen(meta.uid) == 0 || strlen(meta.uid) > UID_BYTES_MAX) {
        try_later(claim, now_ms, "namespace kube-system has no usable uid");
    } else if (store_whose(app->store, meta.uid, &nobodys, &claim->err) < 0) {
        not_claimed(claim, now_ms);
    } else {
        (void)snprintf(app->cluster, sizeof app->cluster, "%s", meta.uid);
        if (nobodys)
            claim->creates_wake_object = true;
        else
            known(claim);
    }
    claim->flying = false;
    arena_done(&arena);
}

/*
 * The milligpud that creates the wake-up object is the first of this cluster; one that finds it, or
 * may not know, assumes an earlier one.  After a lost answer it is asked again, and then it exists.
 */
static void wake_object_answered(struct claim *claim, int64_t now_ms)
{
    const int status = claim->status;
    const bool may_not = status == 403 || status == 404;

    must(claim->creates_wake_object && !claim->done);
    if (status != 201 && status != 409 && !may_not) {
        refused_with_status(claim, now_ms);
        return;
    }
    if (may_not)
        log_write(
            LOG_WARN,
            "the wake-up object cannot be created, so whether a milligpud granted in this cluster "
            "before is not known",
            log_str("namespace", claim->app->wake_namespace), log_i64("status", status));
    claim->flying = false;
    atomic_store(&claim->app->wake_object_existed, status != 201);
    atomic_store(&claim->app->new_ledger, true);
    known(claim);
}

void claim_answer(struct claim *claim, int64_t now_ms, const struct kube_answer *answer)
{
    must(answer->id != 0);

    if (answer->id != request_id || !claim->flying)
        return;
    switch (answer->piece) {
    case KUBE_HEAD:
        claim->status = answer->status;
        return;
    case KUBE_DATA:
        if (claim->answer.len + answer->data.len <= ANSWER_MAX)
            strbuf_text(&claim->answer, answer->data);
        return;
    case KUBE_DONE:
        if (claim->creates_wake_object)
            wake_object_answered(claim, now_ms);
        else if (claim->status == 200)
            learned(claim, now_ms);
        else
            refused_with_status(claim, now_ms);
        return;
    case KUBE_FAILED:
        try_later(claim, now_ms, answer->err->text);
        return;
    }
    must_not_reach("every piece is listed");
}
