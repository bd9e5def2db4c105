/*
 * reflector - the state machine behind reflector.h. The informer has two, for nodes and pods, and
 * calls reflector_step() and reflector_answer() in its thread; the sink's functions run in them.
 * At most one request is in flight: a page of the list or the watch. A page is decoded while the
 * server makes the next one: it waits in body until that is requested. Every failure sets due_ms,
 * and reflector_step() retries then. Invariants: a list is open only in PHASE_LIST, and in
 * PHASE_WATCH rv is not older than any object that the sink got. In order: failures, requests,
 * pages, the watch, answers, steps.
 */
#include "milligpu/kube/reflector.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/limits.h"
#include "milligpu/base/random.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/wire/kube/kube_protobuf.h"
#include "milligpu/wire/kube/wire_kube.h"

enum {
    BACKOFF_FIRST_MS = 800,
    BACKOFF_MAX_MS = 30 * 1000,
    RETRY_AFTER_MAX_S = 60,     /* limit of Retry-After, because no events arrive meanwhile */
    HEALTHY_MS = 2 * 60 * 1000, /* time without a failure after which the backoff restarts */
    AT_ONCE_MS = 1000,          /* a watch that ends sooner without an event is a failure */
    OVERTIME_MS = 30 * 1000,    /* delay after timeoutSeconds until the client ends a watch */
    ANSWER_MS = 30 * 1000,      /* timeout of the first bytes of a watch */
    PAGE_TRIES = 5,
    PAGE_BYTES_MAX = BODY_BYTES_MAX,
    STATUS_BYTES_MAX = 64 * 1024, /* limit of an answer that is not 200 */
    RV_BYTES_MAX = 128,
    CONTINUE_MAX = 64 * 1024,
    IDLE_STEP_MS = 60 * 1000,
    BACKOFF_DOUBLINGS = 6,
    BODY_KEEP_BYTES = 256 * 1024,
};

enum phase { PHASE_LIST, PHASE_WATCH };

struct reflector {
    struct reflector_rules rules;
    char *path;
    char *selector; /* NULL if none */
    struct kube_ops ops;
    struct reflector_sink sink;

    enum phase phase; /* phase of the request in flight, or else of the next */
    bool in_flight;
    bool list_open;      /* list_begin was called, list_end not yet */
    bool page_waits;     /* body is a whole page; it is decoded when the next one is requested */
    bool bad_line;       /* the last watch ended with a line that is no event */
    bool has_first;      /* the watch in flight has sent a byte */
    bool framed;         /* and is of frames (kube_protobuf.h), not of lines */
    bool gone;           /* 410 was received, and no event since */
    uint32_t ids;        /* number of request ids used */
    uint32_t page;       /* items per page; halved after a page that was too large, then doubled */
    uint32_t page_tries; /* failures of the current page */
    uint32_t failures;   /* consecutive failures, for the backoff */
    uint64_t id;         /* id of the request in flight */
    uint64_t random;
    /* All times are monotonic, passed in by the caller. */
    int64_t due_ms;     /* earliest time of the next request */
    int64_t started_ms; /* start of the request in flight */
    int64_t last_byte_ms;
    int64_t end_ms;    /* latest end of the watch in flight */
    int64_t failed_ms; /* time of the last failure */
    bool failed_ever;
    uint64_t watch_events; /* number of events of the watch in flight */
    int status;
    int64_t retry_after_s;
    char rv[RV_BYTES_MAX];      /* last seen resourceVersion; "" before the first list */
    char list_rv[RV_BYTES_MAX]; /* of the open list; "" before its first page is decoded */
    struct strbuf next;         /* continue token; empty for the first page */
    struct strbuf body;         /* a page, as it came and then as JSON; or an incomplete event */
    struct strbuf json;         /* the frame that is handled, as a line */
    struct arena arena;
    struct reflector_stats stats;
};

/* ---- small things ---- */

static int64_t random_below(struct reflector *r, int64_t bound)
{
    must(bound >= 0);
    return bound == 0 ? 0 : (int64_t)(random_next(&r->random) % (uint64_t)bound);
}

static void reflector_trouble(struct reflector *r, const struct err *err, const char *then)
{
    struct err trouble;

    must(err->code != ERR_NONE);
    if (r->sink.trouble == NULL)
        return;
    (void)err_set(&trouble, err->code, "%s %s: %s; %s", r->phase == PHASE_LIST ? "list" : "watch",
                  r->path, err->text, then);
    r->sink.trouble(r->sink.user, &trouble);
}

/* Frees the memory after a large page. */
static void drop_bytes(struct strbuf *bytes)
{
    if (bytes->capacity <= BODY_KEEP_BYTES) {
        strbuf_reset(bytes);
        return;
    }
    strbuf_done(bytes);
    strbuf_init(bytes);
}

static void drop_body(struct reflector *r)
{
    must(!r->page_waits);
    drop_bytes(&r->body);
}

/* Makes JSON of the bytes in body, if they are protobuf; they stay if that fails. */
static int body_to_json(struct reflector *r, size_t bytes_max, struct err *err)
{
    const struct text body = {r->body.data, r->body.len};
    struct strbuf json;

    if (!kube_protobuf_is(body))
        return 0;
    strbuf_init(&json);
    const int rc = kube_protobuf_object(body, bytes_max, &json, err);
    if (rc < 0) {
        strbuf_done(&json);
        return rc;
    }
    strbuf_done(&r->body);
    r->body = json;
    return 0;
}

/* Refuses a version that is too long: a truncated one would be another version. */
static bool reflector_remember(char rv[RV_BYTES_MAX], const char *from)
{
    must(from != NULL);
    const size_t len = strlen(from);

    if (len == 0 || len >= RV_BYTES_MAX)
        return false;
    memcpy(rv, from, len + 1);
    return true;
}

/* True if a is a smaller number than b; false unless both are decimal. */
static bool reflector_is_older(const char *a, const char *b)
{
    const uint64_t first = version_number(a);
    const uint64_t second = version_number(b);

    return first != 0 && second != 0 && first < second;
}

/* ---- failing ---- */

/* Cancels the request in flight; bytes that libcurl has already read are not delivered. */
static void reflector_stop(struct reflector *r)
{
    if (r->in_flight)
        r->ops.cancel(r->ops.ctx, r->id);
    r->in_flight = false;
}

/*
 * Backoff: 800 ms, doubled with each failure, at most 30 s, jittered by up to half, because many
 * clients lose an API server at the same moment. A longer Retry-After counts instead.
 */
static void wait_after_failure(struct reflector *r, int64_t now_ms)
{
    if (r->failed_ever && now_ms - r->failed_ms >= HEALTHY_MS)
        r->failures = 0;
    const uint32_t doublings =
        r->failures < BACKOFF_DOUBLINGS ? r->failures : (uint32_t)BACKOFF_DOUBLINGS;
    int64_t wait_ms = (int64_t)BACKOFF_FIRST_MS << doublings;
    wait_ms += random_below(r, wait_ms / 2);
    if (wait_ms > BACKOFF_MAX_MS)
        wait_ms = BACKOFF_MAX_MS - random_below(r, BACKOFF_MAX_MS / 4);
    const int64_t requested_s =
        r->retry_after_s < RETRY_AFTER_MAX_S ? r->retry_after_s : RETRY_AFTER_MAX_S;
    if (requested_s * 1000 > wait_ms)
        wait_ms = requested_s * 1000;
    must(wait_ms > 0);
    r->failures++;
    r->failed_ms = now_ms;
    r->failed_ever = true;
    r->stats.failures++;
    r->due_ms = now_ms + wait_ms;
}

/*
 * Restarts from the first page. list_failed() marks the sink's open list as incomplete.
 */
static void begin_again(struct reflector *r)
{
    reflector_stop(r);
    r->phase = PHASE_LIST;
    r->page_tries = 0;
    r->bad_line = false;
    strbuf_reset(&r->next);
    drop_body(r);
    if (!r->list_open)
        return;
    r->list_open = false;
    r->sink.list_failed(r->sink.user);
}

static void reflector_relist(struct reflector *r, int64_t now_ms, const struct err *err)
{
    reflector_trouble(r, err, "listing again");
    begin_again(r);
    wait_after_failure(r, now_ms);
}

/*
 * A 410 comes from a working server, so earlier failures do not delay the list; until it is
 * complete, events are missed.
 */
static void relist_gone(struct reflector *r, int64_t now_ms, const struct err *err)
{
    if (!r->gone)
        r->failures = 0;
    r->gone = true;
    reflector_relist(r, now_ms, err);
}

/*
 * Retries the same page, or the watch from the last version. A page that keeps failing may have a
 * bad continue token, so after five tries the list restarts.
 */
static void reflector_again(struct reflector *r, int64_t now_ms, const struct err *err)
{
    if (r->phase == PHASE_LIST && ++r->page_tries >= PAGE_TRIES && r->list_open) {
        reflector_relist(r, now_ms, err);
        return;
    }
    reflector_trouble(r, err, "trying again");
    reflector_stop(r);
    drop_body(r);
    wait_after_failure(r, now_ms);
}

/* ---- asking ---- */

/* URL-encodes a continue token or version: opaque, may contain '=' and '+'. */
static void add_encoded(struct strbuf *out, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";

    for (; *text != '\0'; text++)
        if (strchr(plain, *text) != NULL)
            strbuf_char(out, *text);
        else
            strbuf_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
}

/*
 * Without resourceVersion the first page is at least as new as the request: voiding a reservation
 * depends on it (docs/why/012).
 */
static void list_path(struct reflector *r, struct strbuf *out)
{
    strbuf_printf(out, "%s?limit=%u", r->path, r->page);
    if (r->selector != NULL)
        strbuf_printf(out, "&%s", r->selector);
    if (r->next.len > 0) {
        strbuf_str(out, "&continue=");
        add_encoded(out, r->next.data);
    }
}

/* timeoutSeconds makes the server end the watch; with 0 the server would choose the length. */
static void watch_path(struct reflector *r, int64_t length_ms, struct strbuf *out)
{
    must(r->rv[0] != '\0');
    strbuf_printf(out, "%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%lld&resourceVersion=",
                  r->path, (long long)(length_ms / 1000 > 0 ? length_ms / 1000 : 1));
    add_encoded(out, r->rv);
    if (r->selector != NULL)
        strbuf_printf(out, "&%s", r->selector);
}

static void request_list(struct reflector *r, struct kube_request *request, struct strbuf *path)
{
    list_path(r, path);
    request->timeout_ms = r->rules.list_timeout_ms;
    if (r->next.len == 0)
        r->stats.lists++;
}

static void request_watch(struct reflector *r, int64_t now_ms, struct kube_request *request,
                          struct strbuf *path)
{
    /* Between half of watch_ms and all of it, so that watches do not end together. */
    const int64_t half_ms = r->rules.watch_ms / 2;
    const int64_t length_ms = half_ms + random_below(r, half_ms + 1);

    watch_path(r, length_ms, path);
    /* A fallback for look_at_clock(). */
    request->silence_ms = r->rules.silence_ms + OVERTIME_MS;
    r->end_ms = now_ms + length_ms + OVERTIME_MS;
    r->watch_events = 0;
    r->has_first = false;
    r->stats.watches++;
}

/* Starts the next request. False: it cannot be started; err is set. */
static bool reflector_ask(struct reflector *r, int64_t now_ms, struct err *err)
{
    struct kube_request request = {.method = "GET", .body = TEXT(""), .takes_protobuf = true};
    struct strbuf path;

    must(!r->in_flight);
    strbuf_init(&path);
    if (r->phase == PHASE_LIST)
        request_list(r, &request, &path);
    else
        request_watch(r, now_ms, &request, &path);
    request.path = path.data;
    request.id = r->rules.id_base + r->ids++;
    if (!r->page_waits)
        drop_body(r);
    r->id = request.id;
    r->status = 0;
    r->retry_after_s = 0;
    r->started_ms = now_ms;
    r->last_byte_ms = now_ms;
    r->in_flight = r->ops.start(r->ops.ctx, &request, err) == 0;
    strbuf_done(&path);
    return r->in_flight;
}

/* Deadline of a watch: its first bytes are due within ANSWER_MS, later ones within silence_ms. */
static int64_t watch_until(const struct reflector *r)
{
    must(r->in_flight && r->phase == PHASE_WATCH);
    const int64_t silent_ms =
        r->last_byte_ms + (r->status == 200 ? r->rules.silence_ms : ANSWER_MS);

    return silent_ms < r->end_ms ? silent_ms : r->end_ms;
}

/*
 * A silent watch is no error: an API server may send nothing for hours (1.31 does; 1.36 sends a
 * bookmark every minute). But it may also be dead. So the watch is ended and requested again from
 * the same version, without a log line. This probes the same resource, permissions and path, and is
 * answered at once; with HTTP/1.1 it also uses a new connection. Only a missing answer is an error.
 */
static void look_at_clock(struct reflector *r, int64_t now_ms)
{
    struct err err;

    must(r->in_flight);
    if (r->phase != PHASE_WATCH || now_ms < watch_until(r))
        return;
    if (r->status == 200) {
        reflector_stop(r);
        r->due_ms = now_ms;
        return;
    }
    (void)err_set(&err, ERR_TIMEOUT, "not answered for %lld s",
                  (long long)(now_ms - r->started_ms) / 1000);
    reflector_again(r, now_ms, &err);
}

/* ---- a page of the list ---- */

struct listing {
    struct reflector *reflector;
    int64_t now_ms;
};

/* The sink does not see the end of an object beyond the limit: list_item() refuses it. */
static size_t begin_list_item(void *user, struct text rest)
{
    struct listing *listing = user;
    struct reflector *r = listing->reflector;

    must(r->list_open);
    const size_t bytes = r->sink.listed_first(r->sink.user, text_first(rest, EVENT_BYTES_MAX));
    if (bytes > 0)
        r->stats.last_seen_ms = listing->now_ms;
    return bytes;
}

/* The same limit as for an event, so that a watch can deliver every object that a list accepts. */
static int list_item(void *user, struct text object, struct err *err)
{
    struct listing *listing = user;
    struct reflector *r = listing->reflector;

    must(r->list_open);
    if (object.len > EVENT_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE, "an object of %zu bytes, more than %d", object.len,
                       EVENT_BYTES_MAX);
    r->stats.last_seen_ms = listing->now_ms;
    return r->sink.listed(r->sink.user, object, err);
}

/*
 * The watch begins at the version of the list, so no event between the two is missed. All fields
 * are set before list_end(), which may call reflector_stats().
 */
static void list_is_complete(struct reflector *r, int64_t now_ms)
{
    must(r->list_open && r->list_rv[0] != '\0');
    memcpy(r->rv, r->list_rv, sizeof r->rv);
    r->list_open = false;
    r->phase = PHASE_WATCH;
    r->bad_line = false;
    r->stats.synced = true;
    r->stats.last_seen_ms = now_ms;
    r->due_ms = now_ms;
    r->sink.list_end(r->sink.user, r->list_rv);
}

/* Sets the page that is requested next; its number of items grows again after a large one. */
static void next_page(struct reflector *r, const char *continue_token, int64_t now_ms)
{
    r->page_tries = 0;
    r->page = r->page < r->rules.page / 2 ? r->page * 2 : r->rules.page;
    r->due_ms = now_ms;
    strbuf_reset(&r->next);
    strbuf_str(&r->next, continue_token);
}

/*
 * A list is one snapshot, with the version of its first page. Every page has a version, so an
 * answer without one (such as {} from a proxy) is no page: as a last page, it would make all
 * objects of the missing pages look deleted.
 */
static int check_page(struct reflector *r, const struct list_page *page, struct err *err)
{
    const bool first = r->list_rv[0] == '\0';
    char version[RV_BYTES_MAX];

    if (!reflector_remember(first ? r->list_rv : version, page->resource_version))
        return err_set(err, ERR_INVALID, "metadata.resourceVersion: expected 1 to %d bytes",
                       RV_BYTES_MAX - 1);
    if (strlen(page->continue_token) > CONTINUE_MAX)
        return err_set(err, ERR_TOO_LARGE, "metadata.continue: more than %d bytes", CONTINUE_MAX);
    return 0;
}

/*
 * Decodes straight into the sink: if a page fails in the middle, the sink has a part of it, and
 * list_failed() reports that the list will not end. False: the list begins again.
 */
static bool decode_page(struct reflector *r, int64_t now_ms)
{
    struct listing listing = {r, now_ms};
    const struct list_items items = {
        .user = &listing,
        .begin = r->sink.listed_first != NULL ? begin_list_item : NULL,
        .item = list_item,
    };
    const bool ahead = r->page_waits; /* next has the token already */
    struct list_page page = {"", ""};
    struct err err;

    must(r->list_open);
    r->page_waits = false;
    arena_reset(&r->arena);
    int rc =
        list_decode_items((struct text){r->body.data, r->body.len}, &r->arena, &items, &page, &err);
    if (rc == 0)
        rc = check_page(r, &page, &err);
    drop_body(r);
    if (rc < 0) {
        reflector_relist(r, now_ms, &err);
        return false;
    }
    must(!ahead || strcmp(r->next.data, page.continue_token) == 0); /* a key comes once */
    if (!ahead)
        next_page(r, page.continue_token, now_ms);
    if (r->next.len == 0)
        list_is_complete(r, now_ms);
    return true;
}

/* Decodes the page that waits, if any does. False: the list begins again. */
static bool decode_waiting(struct reflector *r, int64_t now_ms)
{
    must(!r->page_waits || r->phase == PHASE_LIST);
    return !r->page_waits || decode_page(r, now_ms);
}

/*
 * Requests the same page with half the items, at once: the server works, and a few objects of
 * maximum size must not delay the list.
 */
static void page_is_too_large(struct reflector *r, int64_t now_ms)
{
    must(r->phase == PHASE_LIST && r->page > 0);
    struct err err;

    (void)err_set(&err, ERR_TOO_LARGE, "%u items are more than %d bytes", r->page, PAGE_BYTES_MAX);
    if (r->page == 1) {
        reflector_relist(r, now_ms, &err);
        return;
    }
    reflector_trouble(r, &err, "asking for fewer");
    reflector_stop(r);
    drop_body(r);
    r->page /= 2;
    r->due_ms = now_ms;
}

/* A page waits until the next one is requested; the last is decoded at once. */
static void page_came(struct reflector *r, int64_t now_ms)
{
    struct err err;

    must(!r->in_flight && !r->page_waits);
    if (!r->list_open) {
        r->list_open = true;
        r->list_rv[0] = '\0';
        /* The time of the request for the first page, not of its answer. */
        r->stats.asked_ms = r->started_ms;
        r->sink.list_begin(r->sink.user);
    }
    if (body_to_json(r, PAGE_BYTES_MAX, &err) < 0) {
        if (err.code == ERR_TOO_LARGE)
            page_is_too_large(r, now_ms);
        else
            reflector_relist(r, now_ms, &err);
        return;
    }
    arena_reset(&r->arena);
    const char *token = list_continue((struct text){r->body.data, r->body.len}, &r->arena);
    if (token[0] == '\0' || strlen(token) > CONTINUE_MAX) {
        (void)decode_page(r, now_ms);
        return;
    }
    next_page(r, token, now_ms);
    r->page_waits = true;
}

/*
 * Collects whole pages, so that a page that breaks off can be retried without passing an object to
 * the sink twice.
 */
static void list_bytes(struct reflector *r, struct text data, int64_t now_ms)
{
    if (r->body.len + data.len > PAGE_BYTES_MAX)
        page_is_too_large(r, now_ms);
    else
        strbuf_text(&r->body, data);
}

/* ---- a watch ---- */

/* API servers report it by code, or by either reason. */
static bool says_gone(const struct status *status)
{
    must(status->reason != NULL);
    return status->code == 410 || strcmp(status->reason, "Expired") == 0 ||
           strcmp(status->reason, "Gone") == 0;
}

/*
 * An ERROR event ends the watch. Only 410 means that events are lost; after others the watch
 * restarts from the same version.
 */
static void watch_error(struct reflector *r, const struct status *status, int64_t now_ms)
{
    struct err err;

    r->retry_after_s = status->retry_after_s;
    (void)err_set(&err, says_gone(status) ? ERR_GONE : ERR_UNAVAILABLE, "%d %s: %s", status->code,
                  status->reason, status->message);
    if (says_gone(status))
        relist_gone(r, now_ms, &err);
    else
        reflector_again(r, now_ms, &err);
}

/*
 * Handles a line that is no event: once it may be a broken connection; twice, the server sends it.
 */
static void watch_nonsense(struct reflector *r, struct err *err, int64_t now_ms)
{
    if (r->bad_line) {
        reflector_relist(r, now_ms, err);
        return;
    }
    r->bad_line = true;
    reflector_again(r, now_ms, err);
}

/* A bookmark only advances the version, so that it stays ahead of etcd's compaction. */
static int give_event(struct reflector *r, const struct watch_event *event, struct err *err)
{
    must(!r->list_open);
    if (event->type == WATCH_BOOKMARK)
        return 0;
    return (event->type == WATCH_DELETED ? r->sink.deleted : r->sink.changed)(r->sink.user,
                                                                              event->object, err);
}

/* Stores the version of an event. False: it began a list or another watch instead. */
static bool note_event(struct reflector *r, const char *version, int64_t now_ms)
{
    struct err err;

    /* etcd was restored from a backup, or another cluster answers. */
    if (reflector_is_older(version, r->rv)) {
        (void)err_set(&err, ERR_GONE, "resourceVersion went back from %s to %s", r->rv, version);
        reflector_relist(r, now_ms, &err);
        return false;
    }
    if (!reflector_remember(r->rv, version)) {
        (void)err_set(&err, ERR_INVALID, "object.metadata.resourceVersion: expected 1 to %d bytes",
                      RV_BYTES_MAX - 1);
        watch_nonsense(r, &err, now_ms);
        return false;
    }
    r->bad_line = false;
    r->gone = false;
    r->watch_events++;
    r->stats.events++;
    r->stats.last_seen_ms = now_ms;
    return true;
}

/*
 * Stores the version before the sink sees the event; if the sink rejects the event, a new list
 * follows.
 */
static void watch_line(struct reflector *r, struct text line, int64_t now_ms)
{
    struct watch_event event = {.resource_version = ""};
    struct err err;

    must(r->phase == PHASE_WATCH && r->in_flight);
    arena_reset(&r->arena);
    if (r->sink.repeats != NULL &&
        r->sink.repeats(r->sink.user, line, &r->arena, &event.resource_version)) {
        (void)note_event(r, event.resource_version, now_ms);
        return;
    }
    if (watch_decode(line, &r->arena, &event, &err) < 0) {
        watch_nonsense(r, &err, now_ms);
        return;
    }
    if (event.type == WATCH_ERROR) {
        watch_error(r, &event.status, now_ms);
        return;
    }
    /* The event's object cannot be identified: only a list shows the current state. */
    if (note_event(r, event.resource_version, now_ms) && give_event(r, &event, &err) < 0)
        reflector_relist(r, now_ms, &err);
}

/* An empty line is neither an event nor an error. */
static bool is_blank_line(struct text line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.at[i] != '\r' && line.at[i] != ' ')
            return false;
    return true;
}

static void event_is_too_large(struct reflector *r, int64_t now_ms)
{
    struct err err;

    (void)err_set(&err, ERR_TOO_LARGE, "an event of more than %d bytes", EVENT_BYTES_MAX);
    reflector_relist(r, now_ms, &err);
}

/* Reads whole lines in place; copies only incomplete ones. */
static void watch_lines(struct reflector *r, struct text data, int64_t now_ms)
{
    const uint64_t id = r->id;

    /* An event may end this watch; the rest is then ignored. */
    while (data.len > 0 && r->in_flight && r->id == id) {
        const char *end = memchr(data.at, '\n', data.len);
        const size_t len = end != NULL ? (size_t)(end - data.at) : data.len;
        if (r->body.len + len > EVENT_BYTES_MAX) {
            event_is_too_large(r, now_ms);
            return;
        }
        struct text line = {data.at, len};
        if (r->body.len > 0 || end == NULL) {
            strbuf_text(&r->body, line);
            line = (struct text){r->body.data, r->body.len};
        }
        if (end == NULL)
            return;
        data.at += len + 1;
        data.len -= len + 1;
        if (!is_blank_line(line))
            watch_line(r, line, now_ms);
        drop_body(r);
    }
}

static void watch_frame(struct reflector *r, struct text frame, int64_t now_ms)
{
    struct err err;

    must(r->framed && r->json.len == 0);
    const int rc = kube_protobuf_event(frame, EVENT_BYTES_MAX, &r->json, &err);
    if (rc == 0)
        watch_line(r, (struct text){r->json.data, r->json.len}, now_ms);
    else if (err.code == ERR_TOO_LARGE)
        event_is_too_large(r, now_ms);
    else
        watch_nonsense(r, &err, now_ms);
    drop_bytes(&r->json);
}

/* Returns the number of bytes until the frame in body is whole; 0: it is. */
static size_t frame_missing(const struct reflector *r)
{
    if (r->body.len < KUBE_FRAME_HEAD)
        return KUBE_FRAME_HEAD - r->body.len;
    const size_t bytes = KUBE_FRAME_HEAD + kube_protobuf_frame(r->body.data);
    must(r->body.len <= bytes);
    return bytes - r->body.len;
}

static void watch_frames(struct reflector *r, struct text data, int64_t now_ms)
{
    const uint64_t id = r->id;

    while (data.len > 0 && r->in_flight && r->id == id) {
        const struct text part = text_first(data, frame_missing(r));
        strbuf_text(&r->body, part);
        data.at += part.len;
        data.len -= part.len;
        if (r->body.len < KUBE_FRAME_HEAD)
            return;
        const size_t missing = frame_missing(r);
        if (missing > EVENT_BYTES_MAX) {
            event_is_too_large(r, now_ms);
        } else if (missing == 0) {
            watch_frame(
                r, (struct text){r->body.data + KUBE_FRAME_HEAD, r->body.len - KUBE_FRAME_HEAD},
                now_ms);
            drop_body(r);
        }
    }
}

/*
 * The first byte of a frame is small, since its length is limited, and that of a line is a brace or
 * a blank.
 */
static void watch_bytes(struct reflector *r, struct text data, int64_t now_ms)
{
    enum { FIRST_MAX = EVENT_BYTES_MAX >> 24 };
    static_assert(FIRST_MAX < '\t', "a frame could begin as a line");

    if (data.len == 0)
        return;
    if (!r->has_first) {
        r->has_first = true;
        r->framed = (uint8_t)data.at[0] <= FIRST_MAX;
    }
    (r->framed ? watch_frames : watch_lines)(r, data, now_ms);
}

/*
 * The normal end after timeoutSeconds is no failure. A watch that ends at once is one, because an
 * immediate retry would be a busy loop.
 */
static void watch_ended(struct reflector *r, int64_t now_ms)
{
    struct err err;

    must(!r->in_flight);
    drop_body(r); /* an incomplete event is sent again */
    if (r->watch_events > 0 || now_ms - r->started_ms >= AT_ONCE_MS) {
        r->due_ms = now_ms;
        return;
    }
    (void)err_set(&err, ERR_UNAVAILABLE, "ended at once without an event");
    reflector_again(r, now_ms, &err);
}

/* ---- answers ---- */

/* The inverse of err_status(), for the error passed to the sink's trouble(). */
static enum err_code code_of_status(int status)
{
    must(status != 200);
    for (enum err_code code = ERR_INVALID; code < ERR_CODES; code++)
        if (err_status(code) == status)
            return code;
    return status >= 500 ? ERR_UNAVAILABLE : ERR_INVALID;
}

/*
 * Handles a status other than 200. After 410 and permanent errors the list restarts; temporary ones
 * are retried.
 */
static void reflector_refused(struct reflector *r, int64_t now_ms)
{
    struct status status;
    struct err err;

    must(r->status != 200);
    /* If it cannot be converted, its first bytes are shown. */
    (void)!body_to_json(r, STATUS_BYTES_MAX, &err);
    arena_reset(&r->arena);
    status_decode((struct text){r->body.data, r->body.len}, &r->arena, &status);
    if (status.retry_after_s > r->retry_after_s)
        r->retry_after_s = status.retry_after_s;
    (void)err_set(&err, code_of_status(r->status), "%d %s: %s", r->status, status.reason,
                  status.message);
    drop_body(r);
    const bool gone = r->status == 410 || says_gone(&status);
    /* An API server that has just started denies all requests for some milliseconds. */
    const bool denied = r->status == 401 || r->status == 403;
    const bool passing = r->status == 429 || r->status >= 500 || denied;
    if (gone)
        relist_gone(r, now_ms, &err);
    else if (!passing)
        reflector_relist(r, now_ms, &err);
    else
        reflector_again(r, now_ms, &err);
}

static void on_data(struct reflector *r, struct text data, int64_t now_ms)
{
    r->last_byte_ms = now_ms;
    if (r->status != 200) {
        /* A Status is short; the rest of a long error page is ignored. */
        strbuf_text(&r->body, text_first(data, STATUS_BYTES_MAX - r->body.len));
    } else if (r->phase == PHASE_LIST) {
        list_bytes(r, data, now_ms);
    } else {
        watch_bytes(r, data, now_ms);
    }
}

static void on_done(struct reflector *r, int64_t now_ms)
{
    r->in_flight = false;
    if (r->status != 200)
        reflector_refused(r, now_ms);
    else if (r->phase == PHASE_LIST)
        page_came(r, now_ms);
    else
        watch_ended(r, now_ms);
}

static void on_failed(struct reflector *r, const struct kube_answer *answer, int64_t now_ms)
{
    struct err err = {ERR_IO, "no answer"};

    if (answer->err != NULL)
        err = *answer->err;
    must(err.code != ERR_NONE);
    r->in_flight = false;
    reflector_again(r, now_ms, &err);
}

bool reflector_answer(struct reflector *r, int64_t now_ms, const struct kube_answer *answer)
{
    must(!r->list_open || r->phase == PHASE_LIST);
    if (answer->id < r->rules.id_base || answer->id - r->rules.id_base > UINT32_MAX)
        return false;
    /* An answer to a stopped request. */
    if (!r->in_flight || answer->id != r->id)
        return true;
    if (!decode_waiting(r, now_ms))
        return true; /* which stopped this request, too */
    switch (answer->piece) {
    case KUBE_HEAD:
        r->status = answer->status;
        r->retry_after_s = answer->retry_after_s;
        r->last_byte_ms = now_ms;
        if (r->status == 200)
            r->stats.last_seen_ms = now_ms;
        break;
    case KUBE_DATA:
        on_data(r, answer->data, now_ms);
        break;
    case KUBE_DONE:
        on_done(r, now_ms);
        break;
    case KUBE_FAILED:
        on_failed(r, answer, now_ms);
        break;
    }
    return true;
}

/* ---- steps ---- */

/* A request that cannot be started counts as failed, after the page before it is decoded. */
static void ask_when_due(struct reflector *r, int64_t now_ms)
{
    struct err err;

    if (r->in_flight || now_ms < r->due_ms)
        return;
    if (!reflector_ask(r, now_ms, &err) && decode_waiting(r, now_ms))
        reflector_again(r, now_ms, &err);
}

/*
 * Checks the clock first, so that a stopped watch is requested again in the same step. A list needs
 * no check, because its request has a timeout. Between the request for a page and the decoding of
 * the page before, the caller polls, which sends the request.
 */
int64_t reflector_step(struct reflector *r, int64_t now_ms)
{
    must(!r->list_open || r->phase == PHASE_LIST);
    if (r->in_flight) {
        look_at_clock(r, now_ms);
        (void)decode_waiting(r, now_ms);
    }
    ask_when_due(r, now_ms);
    if (r->page_waits)
        return 0;
    if (!r->in_flight)
        return r->due_ms > now_ms ? r->due_ms - now_ms : 0;
    if (r->phase != PHASE_WATCH)
        return IDLE_STEP_MS;
    const int64_t left_ms = watch_until(r) - now_ms;
    must(left_ms > 0);
    return left_ms < IDLE_STEP_MS ? left_ms : IDLE_STEP_MS;
}

/* ---- creation and end ---- */

struct reflector *reflector_new(const struct reflector_rules *rules, const struct kube_ops *ops,
                                const struct reflector_sink *sink)
{
    must(rules->page > 0 && rules->id_base > 0 && rules->watch_ms > 0);
    must(sink->list_begin != NULL && sink->listed != NULL && sink->list_end != NULL);
    must(sink->list_failed != NULL && sink->changed != NULL && sink->deleted != NULL);

    struct reflector *r = xcalloc(1, sizeof *r);
    r->rules = *rules;
    r->path = xstrdup(rules->path);
    r->selector = rules->selector != NULL ? xstrdup(rules->selector) : NULL;
    r->rules.path = r->path;
    r->rules.selector = r->selector;
    r->ops = *ops;
    r->sink = *sink;
    r->page = rules->page;
    r->random = rules->seed;
    r->due_ms = INT64_MIN;
    strbuf_init(&r->next);
    strbuf_init(&r->body);
    strbuf_init(&r->json);
    arena_init(&r->arena);
    return r;
}

void reflector_free(struct reflector *r)
{
    if (r == NULL)
        return;
    reflector_stop(r);
    must(!r->in_flight);
    strbuf_done(&r->next);
    strbuf_done(&r->body);
    strbuf_done(&r->json);
    arena_done(&r->arena);
    xfree(r->path);
    xfree(r->selector);
    xfree(r);
}

void reflector_stats(const struct reflector *r, struct reflector_stats *out)
{
    *out = r->stats;
}
