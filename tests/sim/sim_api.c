#include "sim_api.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/kube/kube.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "sim_api_internal.h"

enum {
    SLOW_MS = 1000, /* at least */
    SLOW_MORE_MS = 9000,
    LATE_MS = 60 * 1000,
    LATER_MS = 10 * 60 * 1000, /* later than that: when nobody expects it any more */
    LATEST_MS = 6 * 3600 * 1000,
    RETRY_AFTER_MAX_S = 3,
};

/* ---- reading a path ---- */

const char *sim_parameter(const char *path, const char *name)
{
    const size_t len = strlen(name);
    const char *at = strchr(path, '?');

    for (; at != NULL; at = strchr(at + 1, '&'))
        if (strncmp(at + 1, name, len) == 0 && at[1 + len] == '=')
            return at + 1 + len + 1;
    return NULL;
}

/* /api/v1[/namespaces/NS]/PLURAL..., the same under /apis/GROUP/VERSION: the plural. */
static struct text plural_of(const char *path)
{
    struct text rest = {path, strcspn(path, "?")};
    struct text part = TEXT("");

    (void)text_cut(&rest, '/', &part); /* before the first slash: nothing */
    const unsigned skip = text_cut(&rest, '/', &part) && text_is(part, "apis") ? 2 : 1;
    for (unsigned i = 0; i < skip; i++)
        (void)text_cut(&rest, '/', &part); /* a plural that is missing is none of ours */
    if (!text_cut(&rest, '/', &part))
        return TEXT("");
    if (text_is(part, "namespaces") && text_cut(&rest, '/', &part))
        (void)text_cut(&rest, '/', &part);
    return part;
}

const struct sim_resource *sim_resource_of(const char *path)
{
    static const struct sim_resource known[] = {
        {"pods", "Pod", "v1", "/api/v1/pods", 1},
        {"nodes", "Node", "v1", "/api/v1/nodes", 2},
        {"csistoragecapacities", "CSIStorageCapacity", "storage.k8s.io/v1",
         "/apis/storage.k8s.io/v1/csistoragecapacities", 4},
    };
    const struct text plural = plural_of(path);

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (text_is(plural, known[i].plural))
            return &known[i];
    return NULL;
}

bool sim_is_whole(const struct sim_resource *resource, const char *path)
{
    return text_is((struct text){path, strcspn(path, "?")}, resource->all);
}

static bool is_get(const struct call *call)
{
    return strcmp(call->method, "GET") == 0;
}

static bool is_later_page(const struct call *call)
{
    return is_get(call) && sim_parameter(call->path, "continue") != NULL;
}

/* ---- answers ---- */

static int no_item(void *user, struct text bytes, struct err *err)
{
    (void)user;
    (void)bytes;
    (void)err;
    must_not_reach("a head has no items");
}

/*
 * The last page of a list proves that everything up to its version was delivered. Earlier pages
 * prove nothing yet, because an object may be on a page that is still to come.
 */
static void note_list(struct sim_api *api, const struct call *call, struct text body,
                      struct parcel *last)
{
    const struct sim_resource *resource = call->stream.resource;
    struct list_page page;
    struct err err;

    if (!is_get(call) || resource == NULL || !sim_is_whole(resource, call->path))
        return;
    arena_reset(&api->arena);
    const char *items = memmem(body.at, body.len, "\"items\":[", 9);
    must(items != NULL);
    /* The head alone: the items do not matter, and there are many. */
    strbuf_reset(&api->path);
    strbuf_add(&api->path, body.at, (size_t)(items - body.at));
    strbuf_str(&api->path, "\"items\":[]}");
    must(list_decode((struct text){api->path.data, api->path.len}, &api->arena, NULL, no_item,
                     &page, &err) == 0);
    if (page.continue_token[0] != '\0')
        return;
    last->told = resource;
    last->version = strtoull(page.resource_version, NULL, 10);
}

static void send_answer(struct sim_api *api, struct call *call, struct text body, int64_t due_ms)
{
    (void)sim_send(call, KUBE_HEAD, TEXT(""), due_ms);
    if (body.len > 0)
        (void)sim_send_bytes(api, call, body, due_ms, call->fault == SIM_CHUNKS);
    struct parcel *last = sim_send(call, KUBE_DONE, TEXT(""), due_ms);
    if (call->status == 200)
        note_list(api, call, body, last);
}

void sim_reply(struct sim_api *api, struct call *call, int status, struct text body)
{
    if (call->handle == NULL)
        return;
    call->status = status;
    send_answer(api, call, body, api->now_ms + sim_way_ms(api));
}

static const char *reason_of(int status)
{
    switch (status) {
    case 401:
        return "Unauthorized";
    case 410:
        return "Expired";
    case 429:
        return "TooManyRequests";
    case 503:
        return "ServiceUnavailable";
    case 504:
        return "Timeout";
    default:
        return "InternalError";
    }
}

static void reply_error(struct sim_api *api, struct call *call, int status)
{
    char body[256];

    must(status >= 400);
    const int len = snprintf(body, sizeof body,
                             "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
                             "\"status\":\"Failure\",\"message\":\"simulated: %s\","
                             "\"reason\":\"%s\",\"code\":%d}",
                             reason_of(status), reason_of(status), status);
    must(len > 0 && (size_t)len < sizeof body);
    sim_reply(api, call, status, (struct text){body, (size_t)len});
}

/* ---- a request arrives ---- */

/* One of these, so that nothing happens at the API server. */
static bool is_prevented(struct sim_api *api, struct call *call)
{
    static const int broken[] = {500, 503, 504};

    switch ((int)call->fault) {
    case SIM_OUTAGE:
    case SIM_REFUSED:
        sim_meet(api, call, call->fault);
        sim_fail(api, call, ERR_UNAVAILABLE, "connection refused", true);
        return true;
    case SIM_LOST_REQUEST:
        sim_meet(api, call, SIM_LOST_REQUEST);
        return true;
    case SIM_ERROR_BEFORE:
        sim_meet(api, call, SIM_ERROR_BEFORE);
        reply_error(api, call, broken[sim_below(api, ARRAY_LEN(broken))]);
        return true;
    case SIM_THROTTLED:
        sim_meet(api, call, SIM_THROTTLED);
        call->retry_after_s = sim_below(api, RETRY_AFTER_MAX_S + 1); /* 0: not given */
        reply_error(api, call, 429);
        return true;
    case SIM_UNAUTHORIZED:
        sim_meet(api, call, SIM_UNAUTHORIZED);
        reply_error(api, call, 401);
        return true;
    case SIM_GONE_HTTP:
    case SIM_GONE_CONTINUE:
        sim_meet(api, call, call->fault);
        reply_error(api, call, 410);
        return true;
    case SIM_WATCH_SILENT:
        sim_meet(api, call, SIM_WATCH_SILENT);
        call->stream.silent = true;
        return true;
    default:
        return false;
    }
}

static void reply_broken(struct sim_api *api, struct call *call, struct text body)
{
    const int64_t due_ms = api->now_ms + sim_way_ms(api);

    sim_meet(api, call, SIM_BROKEN_ANSWER);
    (void)sim_send(call, KUBE_HEAD, TEXT(""), due_ms);
    if (body.len > 1)
        (void)sim_send_bytes(api, call, (struct text){body.at, body.len / 2}, due_ms, false);
    sim_send_failure(call, ERR_IO, "connection reset in the body", due_ms);
}

/* The effect is done; what will the client hear of it? */
static void answer(struct sim_api *api, struct call *call, int status)
{
    const struct text body = {api->answer.data, api->answer.len};
    int64_t due_ms = api->now_ms + sim_way_ms(api);

    must(call->handle != NULL);
    call->status = status;
    if (status == 410 && is_later_page(call))
        sim_meet(api, call, SIM_GONE_CONTINUE);
    if (call->fault == SIM_LOST_ANSWER) {
        sim_meet(api, call, SIM_LOST_ANSWER);
        return;
    }
    if (call->fault == SIM_BROKEN_ANSWER) {
        reply_broken(api, call, body);
        return;
    }
    if (call->fault == SIM_ERROR_AFTER && status < 300) {
        sim_meet(api, call, SIM_ERROR_AFTER);
        const bool internal = sim_chance(api, 500);
        reply_error(api, call, internal ? 500 : 504);
        return;
    }
    if (call->fault == SIM_SLOW) {
        sim_meet(api, call, SIM_SLOW);
        due_ms += SLOW_MS + sim_below(api, SLOW_MORE_MS);
    }
    send_answer(api, call, body, due_ms);
}

static void tell_effect(struct sim_api *api, const struct sim_effect *effect)
{
    must(effect->status >= 200);
    if (api->rules.effect != NULL)
        api->rules.effect(api->rules.user, effect);
    sim_stream_spread(api, effect->path);
}

static void arrive(struct sim_api *api, struct call *call)
{
    call->arrive_ms = SIM_NEVER;
    if (is_prevented(api, call))
        return;
    if (call->watch) {
        sim_stream_begin(api, call);
        return;
    }
    const int status =
        fake_apiserver_request(api->rules.fake, call->method, call->path, call->body, &api->answer);
    const struct sim_effect effect = {.method = call->method,
                                      .path = call->path,
                                      .body = call->body,
                                      .status = status,
                                      .answer = {api->answer.data, api->answer.len},
                                      .ours = true};
    tell_effect(api, &effect);
    if (call->handle != NULL)
        answer(api, call, status);
    else if (call->fault == SIM_LATE_EFFECT)
        api->met[SIM_LATE_EFFECT]++;
}

/* ---- time ---- */

static void expire(struct sim_api *api, struct call *call)
{
    if (call->handle == NULL)
        return;
    const bool late = call->deadline_ms <= api->now_ms;
    const bool silent = call->silence_ms > 0 && api->now_ms - call->heard_ms >= call->silence_ms;
    if (!late && !silent)
        return;
    api->felt_ms = api->now_ms;
    sim_fail(api, call, ERR_TIMEOUT,
             late ? "no complete answer in time" : "not a byte for too long", false);
}

static void step(struct sim_api *api, struct call *call)
{
    if (call->arrive_ms <= api->now_ms)
        arrive(api, call);
    sim_stream_step(api, call);
    sim_call_hand_over(api, call);
    expire(api, call); /* what came in this very millisecond came in time */
    sim_call_hand_over(api, call);
    sim_call_finish(api, call);
}

void sim_api_now(struct sim_api *api, int64_t now_ms)
{
    must(now_ms >= api->now_ms && !api->stepping);
    api->stepping = true;
    while (api->agenda_count > 0 && api->agenda[0]->due_ms <= now_ms) {
        if (api->agenda[0]->due_ms > api->now_ms)
            api->now_ms = api->agenda[0]->due_ms;
        step(api, api->agenda[0]);
    }
    api->now_ms = now_ms;
    api->stepping = false;
}

int64_t sim_api_next(const struct sim_api *api)
{
    return api->agenda_count > 0 ? api->agenda[0]->due_ms : SIM_NEVER;
}

bool sim_api_woken(const struct sim_api *api)
{
    return api->woken;
}

void sim_api_awake(struct sim_api *api)
{
    api->woken = false;
}

bool sim_api_quiet(const struct sim_api *api)
{
    unsigned told = 0;

    for (const struct call *call = api->requests; call != NULL; call = call->next)
        if (call->handle != NULL || !call->later)
            return false;
    for (const struct call *call = api->watches; call != NULL; call = call->next) {
        if (!sim_stream_is_idle(call))
            return false;
        told |= call->stream.resource->bit;
    }
    for (const struct handle *handle = api->handles; handle != NULL; handle = handle->next)
        if (handle->ready.first != NULL || (handle->watched & ~told) != 0)
            return false;
    return true;
}

/* ---- what can go wrong with a request ---- */

static enum sim_fault choose_fault(struct sim_api *api, const struct call *call)
{
    static const enum sim_fault of_read[] = {SIM_SLOW,          SIM_LOST_REQUEST, SIM_LOST_ANSWER,
                                             SIM_BROKEN_ANSWER, SIM_REFUSED,      SIM_ERROR_BEFORE,
                                             SIM_THROTTLED,     SIM_UNAUTHORIZED, SIM_CHUNKS,
                                             SIM_GONE_CONTINUE /* last: only for a later page */};
    static const enum sim_fault of_write[] = {SIM_SLOW,         SIM_LATE_EFFECT, SIM_LOST_REQUEST,
                                              SIM_LOST_ANSWER,  SIM_REFUSED,     SIM_BROKEN_ANSWER,
                                              SIM_ERROR_BEFORE, SIM_ERROR_AFTER, SIM_THROTTLED,
                                              SIM_UNAUTHORIZED, SIM_CHUNKS};
    static const enum sim_fault of_watch[] = {SIM_SLOW,      SIM_REFUSED,      SIM_ERROR_BEFORE,
                                              SIM_THROTTLED, SIM_UNAUTHORIZED, SIM_GONE_HTTP,
                                              SIM_REPEAT,    SIM_CHUNKS,       SIM_WATCH_SILENT};
    const enum sim_fault *choice = of_write;
    size_t choices = ARRAY_LEN(of_write);

    if (call->watch) {
        choice = of_watch;
        choices = ARRAY_LEN(of_watch) - (call->silence_ms == 0 ? 1 : 0);
    } else if (is_get(call)) {
        choice = of_read;
        choices = ARRAY_LEN(of_read) - (is_later_page(call) ? 0 : 1);
    }
    const enum sim_fault fault = choice[sim_below(api, (int64_t)choices)];
    const bool waits_for_ever =
        fault == SIM_LATE_EFFECT || fault == SIM_LOST_REQUEST || fault == SIM_LOST_ANSWER;
    return waits_for_ever && call->deadline_ms == SIM_NEVER ? SIM_SLOW : fault;
}

/* The API server promises nothing: a minute, or hours. */
static int64_t late_ms(struct sim_api *api, const struct call *call)
{
    return call->later ? LATER_MS + sim_below(api, LATEST_MS) : sim_below(api, LATE_MS);
}

static int ops_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct handle *handle = ctx;
    struct sim_api *api = handle->api;

    if (handle->gone)
        return err_set(err, ERR_UNAVAILABLE, "the process that had this handle is gone");
    must((request->content_type != NULL) == (request->body.len > 0));
    struct call *call = sim_call_new(api, handle, request);
    call->arrive_ms = api->now_ms + sim_way_ms(api);
    if (api->now_ms < api->away_ms)
        call->fault = SIM_OUTAGE;
    else if (sim_chance(api, api->rules.faults_per_mille))
        call->fault = choose_fault(api, call);
    if (call->fault == SIM_LATE_EFFECT) {
        call->later = sim_chance(api, 250);
        call->arrive_ms = call->deadline_ms + 1 + late_ms(api, call);
    }
    sim_call_finish(api, call);
    if (api->rules.sent != NULL)
        api->rules.sent(api->rules.user, call->method, call->path);
    return 0;
}

/* ---- the other functions of kube_ops ---- */

static void forget_ready(struct handle *handle, uint64_t id)
{
    struct parcels kept = {NULL, NULL};
    struct parcel *parcel;

    while ((parcel = sim_parcels_take(&handle->ready)) != NULL) {
        if (parcel->id == id)
            xfree(parcel);
        else
            sim_parcels_add(&kept, parcel);
    }
    handle->ready = kept;
}

static struct call *find(struct call *first, const struct handle *handle, uint64_t id)
{
    struct call *call = first;

    while (call != NULL && (call->handle != handle || call->id != id))
        call = call->next;
    return call;
}

static void ops_cancel(void *ctx, uint64_t id)
{
    struct handle *handle = ctx;

    forget_ready(handle, id);
    struct call *call = find(handle->api->watches, handle, id);
    if (call == NULL)
        call = find(handle->api->requests, handle, id);
    if (call == NULL)
        return;
    sim_call_deafen(call);
    sim_call_finish(handle->api, call);
}

static void give(struct handle *handle, const struct parcel *parcel, void *user,
                 void (*deliver)(void *user, const struct kube_answer *answer))
{
    struct kube_answer answer = {.id = parcel->id,
                                 .piece = parcel->piece,
                                 .status = parcel->status,
                                 .retry_after_s = parcel->retry_after_s,
                                 .data = {parcel->bytes, parcel->len},
                                 .unsent = parcel->unsent};
    struct err err;

    if (parcel->piece == KUBE_FAILED) {
        (void)err_set(&err, parcel->trouble, "simulated: %s", parcel->why);
        answer.err = &err;
    }
    deliver(user, &answer);
    /* If this was the last answer to a process that is gone, the observer is not called. */
    if (parcel->told != NULL && !handle->gone && handle->api->rules.told != NULL)
        handle->api->rules.told(handle->api->rules.user, parcel->told->plural, parcel->version);
}

static void ops_poll(void *ctx, int64_t wait_ms, void *user,
                     void (*deliver)(void *user, const struct kube_answer *answer))
{
    struct handle *handle = ctx;

    (void)wait_ms;
    while ((handle->given = sim_parcels_take(&handle->ready)) != NULL) {
        give(handle, handle->given, user, deliver);
        xfree(handle->given);
    }
}

static void ops_wake(void *ctx)
{
    const struct handle *handle = ctx;

    handle->api->woken = true;
}

static const char *ops_name(void *ctx)
{
    (void)ctx;
    return "simulated";
}

/* Its requests have no listener now; some of them never left the machine. */
static void abandon(struct handle *handle)
{
    struct sim_api *api = handle->api;
    struct call *lists[] = {api->requests, api->watches};

    must(!api->stepping);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        for (struct call *call = lists[i], *next; call != NULL; call = next) {
            next = call->next;
            if (call->handle != handle)
                continue;
            if (call->fault != SIM_LATE_EFFECT && sim_chance(api, 500))
                call->arrive_ms = SIM_NEVER;
            sim_call_deafen(call);
            sim_call_finish(api, call);
        }
    }
    sim_parcels_drop(&handle->ready);
    handle->gone = true;
}

static void handle_free(struct handle *handle)
{
    struct handle **at = &handle->api->handles;

    while (*at != handle)
        at = &(*at)->next;
    *at = handle->next;
    xfree(handle->given); /* a process may die inside deliver */
    xfree(handle);
}

static void ops_free(void *ctx)
{
    struct handle *handle = ctx;

    if (!handle->gone)
        abandon(handle);
    handle_free(handle);
}

static void make_ops(struct sim_api *api, struct kube_ops *out)
{
    struct handle *handle = xcalloc(1, sizeof *handle);

    handle->api = api;
    handle->next = api->handles;
    api->handles = handle;
    *out = (struct kube_ops){.ctx = handle,
                             .start = ops_start,
                             .cancel = ops_cancel,
                             .poll = ops_poll,
                             .wake = ops_wake,
                             .name = ops_name,
                             .free = ops_free};
}

void sim_api_ops(struct sim_api *api, struct kube_ops *watch, struct kube_ops *calls)
{
    make_ops(api, watch);
    make_ops(api, calls);
}

void sim_api_gone(struct sim_api *api)
{
    for (struct handle *handle = api->handles; handle != NULL; handle = handle->next)
        if (!handle->gone)
            abandon(handle);
}

struct sim_api *sim_api_new(const struct sim_api_rules *rules)
{
    struct sim_api *api = xcalloc(1, sizeof *api);

    must(rules->fake != NULL && rules->faults_per_mille <= 1000);
    api->rules = *rules;
    api->random = rules->seed;
    api->version = fake_apiserver_version(rules->fake);
    arena_init(&api->arena);
    strbuf_init(&api->answer);
    strbuf_init(&api->lines);
    strbuf_init(&api->path);
    return api;
}

void sim_api_free(struct sim_api *api)
{
    if (api == NULL)
        return;
    sim_api_gone(api);
    while (api->handles != NULL)
        handle_free(api->handles);
    while (api->requests != NULL) /* late effects that nobody waited for */
        sim_call_free(api, api->requests);
    must(api->watches == NULL && api->agenda_count == 0);
    xfree(api->agenda);
    arena_done(&api->arena);
    strbuf_done(&api->answer);
    strbuf_done(&api->lines);
    strbuf_done(&api->path);
    xfree(api);
}

/* ---- what the driver does to the network ---- */

/* A request that is lost already stays lost: its client waits until it times out. */
static void release(struct sim_api *api, struct call *call)
{
    const int64_t soon_ms = api->now_ms + 1;

    if (call->later)
        call->arrive_ms = api->now_ms + late_ms(api, call);
    else if (call->arrive_ms != SIM_NEVER && call->arrive_ms > soon_ms)
        call->arrive_ms = soon_ms;
    if (call->fault != SIM_LATE_EFFECT)
        call->fault = SIM_FAULTS;
    for (struct parcel *parcel = call->way.first; parcel != NULL; parcel = parcel->next)
        if (parcel->due_ms > soon_ms)
            parcel->due_ms = soon_ms;
    if (call->last_ms > soon_ms)
        call->last_ms = soon_ms;
    if (call->watch)
        sim_stream_release(api, call);
}

void sim_api_faults(struct sim_api *api, uint32_t per_mille)
{
    struct call *lists[] = {api->requests, api->watches};

    must(per_mille <= 1000 && !api->stepping);
    api->rules.faults_per_mille = per_mille;
    if (per_mille == 0)
        api->away_ms = 0;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        for (struct call *call = lists[i], *next; call != NULL; call = next) {
            next = call->next;
            if (per_mille == 0)
                release(api, call);
            if (call->watch)
                sim_stream_plan_fault(api, call);
            sim_call_finish(api, call);
        }
    }
}

void sim_api_late_within(struct sim_api *api, int64_t ms)
{
    must(ms > 0 && !api->stepping);
    for (struct call *call = api->requests; call != NULL; call = call->next) {
        if (call->arrive_ms == SIM_NEVER || call->arrive_ms <= api->now_ms + ms)
            continue;
        call->arrive_ms = api->now_ms + 1 + sim_below(api, ms);
        call->later = false;
        sim_call_finish(api, call);
    }
}

void sim_api_outage(struct sim_api *api, int64_t until_ms)
{
    struct call *lists[] = {api->requests, api->watches};

    must(!api->stepping);
    if (until_ms <= api->now_ms)
        return;
    api->away_ms = until_ms;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        for (struct call *call = lists[i], *next; call != NULL; call = next) {
            next = call->next;
            /* An effect on its way may have arrived just before; a late one is inside already. */
            if (call->fault != SIM_LATE_EFFECT && sim_chance(api, 500))
                call->arrive_ms = SIM_NEVER;
            sim_meet(api, call, SIM_OUTAGE);
            sim_fail(api, call, ERR_IO, "connection reset", false);
            sim_call_finish(api, call);
        }
    }
}

void sim_api_compact(struct sim_api *api)
{
    fake_apiserver_compact(api->rules.fake);
}

int sim_api_request(struct sim_api *api, const char *method, const char *path, const char *body,
                    struct strbuf *out)
{
    const struct text sent = text_of(body);
    const int status = fake_apiserver_request(api->rules.fake, method, path, sent, out);
    const struct sim_effect effect = {.method = method,
                                      .path = path,
                                      .body = sent,
                                      .status = status,
                                      .answer = {out->data, out->len},
                                      .ours = false};

    tell_effect(api, &effect);
    return status;
}

const uint64_t *sim_api_met(const struct sim_api *api)
{
    return api->met;
}

int64_t sim_api_felt_ms(const struct sim_api *api)
{
    return api->felt_ms;
}
