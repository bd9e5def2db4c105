/*
 * The fake API server as a whole: lock, clock, kube_ops. Created by daemon.c for --standalone, and
 * by tests. One lock guards everything; each ops handle belongs to one thread, and its calls need
 * no lock. Invariant: the lock is not held while answers are delivered, because the receiver may
 * send new requests. In order: creation and single requests, then the ops: poll() serves every call
 * once, and then waits for a write, wake() or its timeout.
 */
#include "milligpu/fake_apiserver/fake_apiserver.h"

#include <string.h>
#include <time.h>

#include "milligpu/base/alloc.h"

#include "fake_internal.h"

enum {
    BOOKMARK_MS = 60 * 1000,
    WATCH_MS = 30 * 60 * 1000, /* if the request has no timeoutSeconds */
    WAIT_MAX_MS = 60 * 60 * 1000,
};

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    must(clock_gettime(clock, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t apiserver_real_wall_ms(void *ctx)
{
    (void)ctx;
    return clock_ms(CLOCK_REALTIME);
}

/* FNV-1a, because text_hash() differs between runs. */
static uint64_t seed_of(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3U;
    return hash;
}

struct fake_apiserver *fake_apiserver_new(const char *name)
{
    struct fake_apiserver *fake = xcalloc(1, sizeof *fake);

    mutex_init(&fake->lock);
    condvar_init(&fake->news);
    fake->name = xstrdup(name);
    fake->seed = seed_of(name);
    fake->rv = 1;
    fake->compacted = 1;
    fake->wall_ms = apiserver_real_wall_ms;
    fake->log = xcalloc(FAKE_EVENTS_MAX, sizeof *fake->log);
    return fake;
}

/*
 * The ops must be freed before. Log and snapshots are freed first, so that each object has only the
 * reference of its shelf.
 */
void fake_apiserver_free(struct fake_apiserver *fake)
{
    if (fake == NULL)
        return;
    fake_log_compact(fake, 0);
    for (size_t i = 0; i < SNAPSHOTS_MAX; i++)
        fake_snapshot_drop(&fake->snapshot[i]);
    for (size_t id = 0; id < RESOURCES; id++) {
        for (size_t i = 0; i < fake->shelf[id].count; i++) {
            must(fake->shelf[id].item[i]->refs == 1);
            fake_object_unref(fake->shelf[id].item[i]);
        }
        xfree(fake->shelf[id].item);
    }
    xfree(fake->log);
    xfree(fake->name);
    condvar_done(&fake->news);
    mutex_done(&fake->lock);
    xfree(fake);
}

void fake_apiserver_counts(struct fake_apiserver *fake, struct fake_apiserver_counts *out)
{
    mutex_lock(&fake->lock);
    *out = fake->counts;
    mutex_unlock(&fake->lock);
}

void fake_apiserver_set_clock(struct fake_apiserver *fake, int64_t (*wall_ms)(void *ctx), void *ctx)
{
    must(wall_ms != NULL);
    mutex_lock(&fake->lock);
    fake->wall_ms = wall_ms;
    fake->wall_ctx = ctx;
    mutex_unlock(&fake->lock);
}

uint64_t fake_apiserver_version(struct fake_apiserver *fake)
{
    mutex_lock(&fake->lock);
    const uint64_t version = fake->rv;
    mutex_unlock(&fake->lock);
    must(version > 0);
    return version;
}

/* Only before any write: versions in the log must be contiguous. */
void fake_apiserver_set_version(struct fake_apiserver *fake, uint64_t version)
{
    must(version > 0);
    mutex_lock(&fake->lock);
    must(fake->rv <= version && fake->compacted == fake->rv);
    fake->rv = fake->compacted = version;
    mutex_unlock(&fake->lock);
}

/* Like etcd's compaction, also invalidates the later pages of lists. */
void fake_apiserver_compact(struct fake_apiserver *fake)
{
    mutex_lock(&fake->lock);
    fake_log_compact(fake, 0);
    fake->compacted = fake->rv;
    for (size_t i = 0; i < SNAPSHOTS_MAX; i++)
        fake_snapshot_drop(&fake->snapshot[i]);
    must(fake->log_count == 0);
    mutex_unlock(&fake->lock);
}

/*
 * Any thread: REST of a standalone daemon, tests, and answer_whole(). Holds the lock for the whole
 * request, so a list of 100,000 pods delays watches.
 */
int fake_apiserver_request(struct fake_apiserver *fake, const char *method, const char *path,
                           struct text body, struct strbuf *out)
{
    struct arena arena;

    strbuf_reset(out);
    arena_init(&arena);
    mutex_lock(&fake->lock);
    struct ask ask = {.fake = fake, .arena = &arena, .out = out, .body = body};
    int status = fake_ask_parse(&ask, method, path);
    if (status == 0)
        status = fake_ask_answer(&ask);
    mutex_unlock(&fake->lock);
    arena_done(&arena);
    must(status >= 200);
    return status;
}

/* ---- kube_ops ---- */

struct fake_call {
    struct fake_call *next; /* in order of start */
    uint64_t id;
    bool ended;
    bool headed;
    char *method;
    char *path;
    struct strbuf body;

    /* For a watch; ask and arena live as long as the call. */
    bool watching;
    struct arena arena;
    struct ask ask;
    struct watching at;
    int64_t end_ms;      /* end of the watch, monotonic */
    int64_t bookmark_ms; /* time of the next bookmark, monotonic */
};

struct fake_handle {
    struct fake_apiserver *fake;
    struct fake_call *calls;
    bool woken;       /* guarded by the lock of the fake API server */
    uint64_t seen_rv; /* version up to which all watches were served */
    /* number of pieces so far: poll() returns when it has grown */
    uint64_t delivered;
    void *user;
    /* NULL outside poll() */
    void (*deliver)(void *user, const struct kube_answer *answer);
};

/*
 * Delivers a piece, without the lock. The receiver may start and cancel calls; ended ones are freed
 * after the round.
 */
static void apiserver_give(struct fake_handle *handle, struct fake_call *call,
                           enum kube_piece piece, int status, struct text data)
{
    const struct kube_answer answer = {
        .id = call->id, .piece = piece, .status = status, .data = data};

    if (call->ended)
        return; /* cancelled by an earlier callback */
    must(handle->deliver != NULL);
    if (piece == KUBE_DONE)
        call->ended = true;
    handle->delivered++;
    handle->deliver(handle->user, &answer);
}

/* Delivers a complete answer, for requests other than watches and for refused watches. */
static void answer_whole(struct fake_handle *handle, struct fake_call *call)
{
    must(handle->fake != NULL);
    struct strbuf out;

    strbuf_init(&out);
    const int status = fake_apiserver_request(handle->fake, call->method, call->path,
                                              (struct text){call->body.data, call->body.len}, &out);
    apiserver_give(handle, call, KUBE_HEAD, status, TEXT(""));
    if (out.len > 0)
        apiserver_give(handle, call, KUBE_DATA, status, (struct text){out.data, out.len});
    apiserver_give(handle, call, KUBE_DONE, status, TEXT(""));
    strbuf_done(&out);
}

/*
 * Returns false if the request is no watch or is refused; answer_whole() then answers. Parsing
 * needs no lock.
 */
static bool begin_watch(struct fake_handle *handle, struct fake_call *call)
{
    struct fake_apiserver *fake = handle->fake;
    struct strbuf out;

    must(!call->watching);
    if (strcmp(call->method, "GET") != 0 || strstr(call->path, "watch=") == NULL)
        return false;
    strbuf_init(&out);
    call->ask = (struct ask){.fake = fake, .arena = &call->arena, .out = &out};
    const int status = fake_ask_parse(&call->ask, call->method, call->path);
    call->ask.out = NULL;
    strbuf_done(&out);
    if (status != 0 || !call->ask.watch || call->ask.resource == NULL || call->ask.name[0] != '\0')
        return false;
    const int64_t now_ms = clock_ms(CLOCK_MONOTONIC);
    call->end_ms = now_ms + (call->ask.timeout_s > 0 && call->ask.timeout_s < WATCH_MS / 1000
                                 ? call->ask.timeout_s * 1000
                                 : WATCH_MS);
    call->bookmark_ms = call->ask.bookmarks ? now_ms + BOOKMARK_MS : INT64_MAX;
    call->watching = true;
    return true;
}

/*
 * Collects under the lock and delivers without it, because the receiver may send new requests. Like
 * a real API server, sends a last bookmark before the watch ends.
 */
static void serve_watch(struct fake_handle *handle, struct fake_call *call)
{
    struct fake_apiserver *fake = handle->fake;
    const int64_t now_ms = clock_ms(CLOCK_MONOTONIC);
    struct strbuf out;

    must(call->watching);
    strbuf_init(&out);
    mutex_lock(&fake->lock);
    const bool more = fake_watch_collect(&call->ask, &call->at, &out);
    if (more && (now_ms >= call->bookmark_ms || (now_ms >= call->end_ms && call->ask.bookmarks))) {
        fake_watch_bookmark(&call->ask, &call->at, &out);
        call->bookmark_ms = now_ms + BOOKMARK_MS;
    }
    mutex_unlock(&fake->lock);
    if (!call->headed)
        apiserver_give(handle, call, KUBE_HEAD, 200, TEXT(""));
    call->headed = true;
    if (out.len > 0)
        apiserver_give(handle, call, KUBE_DATA, 200, (struct text){out.data, out.len});
    if (!more || now_ms >= call->end_ms)
        apiserver_give(handle, call, KUBE_DONE, 200, TEXT(""));
    strbuf_done(&out);
}

static void apiserver_call_free(struct fake_call *call)
{
    must(call->id != 0);
    strbuf_done(&call->body);
    arena_done(&call->arena);
    xfree(call->method);
    xfree(call->path);
    xfree(call);
}

/* Called at the end of a round or outside poll(), because it changes the list of calls. */
static void free_ended(struct fake_handle *handle)
{
    for (struct fake_call **at = &handle->calls; *at != NULL;) {
        struct fake_call *call = *at;
        if (!call->ended) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        apiserver_call_free(call);
    }
}

/* Serves each call once. Calls started by callbacks are appended and served in the same round. */
static void apiserver_serve(struct fake_handle *handle)
{
    /* Read before serving, so that later writes cause another round. */
    mutex_lock(&handle->fake->lock);
    handle->seen_rv = handle->fake->rv;
    mutex_unlock(&handle->fake->lock);
    for (struct fake_call *call = handle->calls; call != NULL; call = call->next) {
        if (call->ended)
            continue;
        if (call->watching || begin_watch(handle, call))
            serve_watch(handle, call);
        else
            answer_whole(handle, call);
    }
    free_ended(handle);
}

/* After a round only watches are left; all other calls have been answered. */
static int64_t next_deadline(const struct fake_handle *handle, int64_t deadline_ms)
{
    for (const struct fake_call *call = handle->calls; call != NULL; call = call->next) {
        must(call->watching && !call->ended);
        if (call->end_ms < deadline_ms)
            deadline_ms = call->end_ms;
        if (call->bookmark_ms < deadline_ms)
            deadline_ms = call->bookmark_ms;
    }
    return deadline_ms;
}

/*
 * Waits for a write, wake() or until_ms. Returns true after wake(). Waits use the monotonic clock,
 * so that a step of the wall clock neither ends nor prolongs them.
 */
static bool wait_for_news(struct fake_handle *handle, int64_t until_ms)
{
    struct fake_apiserver *fake = handle->fake;
    const struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};

    must(until_ms >= 0);
    mutex_lock(&fake->lock);
    while (!handle->woken && fake->rv == handle->seen_rv &&
           condvar_wait_until(&fake->news, &fake->lock, &until))
        ;
    const bool woken = handle->woken;
    handle->woken = false;
    mutex_unlock(&fake->lock);
    return woken;
}

/* Returns after a delivery, wake() or the timeout. */
static void ops_poll(void *ctx, int64_t wait_ms, void *user,
                     void (*deliver)(void *user, const struct kube_answer *answer))
{
    struct fake_handle *handle = ctx;
    const int64_t wait = wait_ms < 0 ? 0 : wait_ms > WAIT_MAX_MS ? WAIT_MAX_MS : wait_ms;
    const int64_t end_ms = clock_ms(CLOCK_MONOTONIC) + wait;
    const uint64_t before = handle->delivered;

    must(handle->deliver == NULL);
    handle->user = user;
    handle->deliver = deliver;
    apiserver_serve(handle);
    while (handle->delivered == before && clock_ms(CLOCK_MONOTONIC) < end_ms) {
        if (wait_for_news(handle, next_deadline(handle, end_ms)))
            break;
        apiserver_serve(handle);
    }
    handle->deliver = NULL;
}

/* Only queues the call, because it may run inside a callback. Linear in the few calls. */
static int ops_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct fake_handle *handle = ctx;
    struct fake_call **end = &handle->calls;

    (void)err; /* never fails */
    must(request->id != 0 && request->path[0] == '/');
    for (; *end != NULL; end = &(*end)->next)
        must((*end)->id != request->id || (*end)->ended);
    struct fake_call *call = xcalloc(1, sizeof *call);
    call->id = request->id;
    call->method = xstrdup(request->method);
    call->path = xstrdup(request->path);
    strbuf_init(&call->body);
    strbuf_text(&call->body, request->body);
    arena_init(&call->arena);
    *end = call;
    return 0;
}

static void ops_cancel(void *ctx, uint64_t id)
{
    struct fake_handle *handle = ctx;

    must(id != 0);
    for (struct fake_call *call = handle->calls; call != NULL; call = call->next)
        if (call->id == id)
            call->ended = true;
    if (handle->deliver == NULL) /* otherwise poll() walks the list */
        free_ended(handle);
}

/* The flag stays set until the next wait, so a wake-up just before it is not lost. */
static void ops_wake(void *ctx)
{
    struct fake_handle *handle = ctx;

    mutex_lock(&handle->fake->lock);
    handle->woken = true;
    condvar_broadcast(&handle->fake->news);
    mutex_unlock(&handle->fake->lock);
}

static const char *ops_name(void *ctx)
{
    const struct fake_handle *handle = ctx;
    return handle->fake->name;
}

static void ops_free(void *ctx)
{
    struct fake_handle *handle = ctx;

    must(handle->deliver == NULL);
    for (struct fake_call *call = handle->calls; call != NULL; call = call->next)
        call->ended = true;
    free_ended(handle);
    xfree(handle);
}

void fake_apiserver_ops(struct fake_apiserver *fake, struct kube_ops *out)
{
    struct fake_handle *handle = xcalloc(1, sizeof *handle);

    handle->fake = fake;
    *out = (struct kube_ops){.ctx = handle,
                             .start = ops_start,
                             .cancel = ops_cancel,
                             .poll = ops_poll,
                             .wake = ops_wake,
                             .name = ops_name,
                             .free = ops_free};
}
