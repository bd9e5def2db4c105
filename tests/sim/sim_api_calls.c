#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/random.h"
#include "milligpu/kube/kube.h"

#include "sim_api_internal.h"

enum {
    WAY_MS_MAX = 5,
    PIECES_MIN = 16,  /* bytes of a truncated answer, at least approximately */
    PIECE_BYTES = 16, /* small answers are split into pieces of at most this */
    PIECE_GAP_MS = 3,
};

/* ---- chance ---- */

int64_t sim_below(struct sim_api *api, int64_t bound)
{
    must(bound > 0);
    return (int64_t)(random_next(&api->random) % (uint64_t)bound);
}

bool sim_chance(struct sim_api *api, uint32_t per_mille)
{
    return per_mille > 0 && sim_below(api, 1000) < per_mille;
}

int64_t sim_way_ms(struct sim_api *api)
{
    return 1 + sim_below(api, WAY_MS_MAX);
}

void sim_meet(struct sim_api *api, const struct call *call, enum sim_fault fault)
{
    must(fault < SIM_FAULTS);
    if (call->handle != NULL)
        api->met[fault]++;
}

/* ---- the agenda ---- */

/* A total order, so that every run visits calls in the same one. */
static bool comes_before(const struct call *a, const struct call *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->serial < b->serial;
}

static void agenda_set(struct sim_api *api, size_t at, struct call *call)
{
    api->agenda[at] = call;
    call->agenda_at = at;
}

/* The time of the call at this place has changed: sift it up or down. */
static void agenda_sort(struct sim_api *api, size_t at)
{
    struct call *call = api->agenda[at];

    for (; at > 0 && comes_before(call, api->agenda[(at - 1) / 2]); at = (at - 1) / 2)
        agenda_set(api, at, api->agenda[(at - 1) / 2]);
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < api->agenda_count &&
            comes_before(api->agenda[child + 1], api->agenda[child]))
            child++;
        if (child >= api->agenda_count || !comes_before(api->agenda[child], call))
            break;
        agenda_set(api, at, api->agenda[child]);
        at = child;
    }
    agenda_set(api, at, call);
}

static void agenda_add(struct sim_api *api, struct call *call)
{
    api->agenda =
        xgrow(api->agenda, api->agenda_count, &api->agenda_capacity, sizeof(struct call *));
    agenda_set(api, api->agenda_count++, call);
    agenda_sort(api, call->agenda_at);
}

static void agenda_remove(struct sim_api *api, const struct call *call)
{
    const size_t at = call->agenda_at;

    must(at < api->agenda_count && api->agenda[at] == call);
    struct call *last = api->agenda[--api->agenda_count];
    if (last == call)
        return;
    agenda_set(api, at, last);
    agenda_sort(api, at);
}

/* ---- parcels ---- */

void sim_parcels_add(struct parcels *list, struct parcel *parcel)
{
    must(parcel->next == NULL);
    if (list->last != NULL)
        list->last->next = parcel;
    else
        list->first = parcel;
    list->last = parcel;
}

struct parcel *sim_parcels_take(struct parcels *list)
{
    struct parcel *parcel = list->first;

    if (parcel == NULL)
        return NULL;
    list->first = parcel->next;
    if (list->first == NULL)
        list->last = NULL;
    parcel->next = NULL;
    return parcel;
}

void sim_parcels_drop(struct parcels *list)
{
    struct parcel *parcel;

    while ((parcel = sim_parcels_take(list)) != NULL)
        xfree(parcel);
}

struct parcel *sim_send(struct call *call, enum kube_piece piece, struct text data, int64_t due_ms)
{
    struct parcel *parcel = xmalloc(sizeof *parcel + data.len);

    must(call->handle != NULL && !call->over);
    if (due_ms > call->last_ms)
        call->last_ms = due_ms;
    *parcel = (struct parcel){.id = call->id,
                              .due_ms = call->last_ms,
                              .piece = piece,
                              .status = call->status,
                              .retry_after_s = call->retry_after_s,
                              .len = data.len};
    if (data.len > 0)
        memcpy(parcel->bytes, data.at, data.len);
    call->over = piece == KUBE_DONE || piece == KUBE_FAILED;
    sim_parcels_add(&call->way, parcel);
    return parcel;
}

struct parcel *sim_send_bytes(struct sim_api *api, struct call *call, struct text data,
                              int64_t due_ms, bool torn)
{
    const size_t share = data.len / PIECES_MIN;
    const size_t most = share > PIECE_BYTES ? share : PIECE_BYTES;
    struct parcel *last = NULL;

    must(data.len > 0);
    if (!torn)
        return sim_send(call, KUBE_DATA, data, due_ms);
    while (data.len > 0) {
        const size_t drawn = 1 + (size_t)sim_below(api, (int64_t)most);
        const size_t len = drawn < data.len ? drawn : data.len;
        last = sim_send(call, KUBE_DATA, (struct text){data.at, len}, due_ms);
        due_ms = last->due_ms + sim_below(api, PIECE_GAP_MS);
        data.at += len;
        data.len -= len;
    }
    sim_meet(api, call, SIM_CHUNKS);
    return last;
}

void sim_send_failure(struct call *call, enum err_code code, const char *why, int64_t due_ms)
{
    struct parcel *parcel = sim_send(call, KUBE_FAILED, TEXT(""), due_ms);

    must(code != ERR_NONE);
    parcel->trouble = code;
    parcel->why = why;
}

void sim_fail(struct sim_api *api, struct call *call, enum err_code code, const char *why,
              bool unsent)
{
    if (call->handle == NULL)
        return;
    sim_parcels_drop(&call->way);
    call->over = false;
    call->last_ms = api->now_ms;
    sim_send_failure(call, code, why, api->now_ms);
    call->way.last->unsent = unsent;
}

/* ---- calls ---- */

struct call *sim_call_new(struct sim_api *api, struct handle *handle,
                          const struct kube_request *request)
{
    const size_t method = strlen(request->method) + 1;
    const size_t path = strlen(request->path) + 1;
    struct call *call = xcalloc(1, sizeof *call + method + path + request->body.len);

    must(request->id != 0 && request->path[0] == '/');
    call->handle = handle;
    call->id = request->id;
    call->serial = api->serial++;
    call->method = memcpy(call->bytes, request->method, method);
    call->path = memcpy(call->bytes + method, request->path, path);
    call->body = (struct text){call->bytes + method + path, request->body.len};
    if (request->body.len > 0)
        memcpy(call->bytes + method + path, request->body.at, request->body.len);
    call->fault = SIM_FAULTS;
    call->arrive_ms = SIM_NEVER;
    call->deadline_ms = request->timeout_ms > 0 ? api->now_ms + request->timeout_ms : SIM_NEVER;
    call->silence_ms = request->silence_ms;
    call->heard_ms = api->now_ms;
    call->stream.resource = sim_resource_of(call->path);
    const char *watch = sim_parameter(call->path, "watch");
    call->watch = strcmp(call->method, "GET") == 0 && watch != NULL && *watch != '0' &&
                  *watch != 'f' && call->stream.resource != NULL;
    if (call->watch)
        handle->watched |= call->stream.resource->bit;
    struct call **end = call->watch ? &api->watches_end : &api->requests_end;
    call->prev = *end;
    *end = call;
    if (call->prev != NULL)
        call->prev->next = call;
    else
        *(call->watch ? &api->watches : &api->requests) = call;
    call->due_ms = SIM_NEVER;
    agenda_add(api, call);
    return call;
}

void sim_call_free(struct sim_api *api, struct call *call)
{
    agenda_remove(api, call);
    *(call->prev != NULL ? &call->prev->next
      : call->watch      ? &api->watches
                         : &api->requests) = call->next;
    *(call->next != NULL ? &call->next->prev
      : call->watch      ? &api->watches_end
                         : &api->requests_end) = call->prev;
    sim_parcels_drop(&call->way);
    xfree(call);
}

void sim_call_deafen(struct call *call)
{
    call->handle = NULL;
    sim_parcels_drop(&call->way);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The time of its next event. */
static int64_t next_look(const struct call *call)
{
    int64_t at = call->arrive_ms;

    if (call->handle == NULL)
        return at;
    if (call->way.first != NULL)
        at = earlier(at, call->way.first->due_ms);
    at = earlier(at, call->deadline_ms);
    if (call->silence_ms > 0)
        at = earlier(at, call->heard_ms + call->silence_ms);
    return earlier(at, sim_stream_due(call));
}

void sim_call_finish(struct sim_api *api, struct call *call)
{
    /* A watch changes nothing: without a listener it can be dropped. */
    if (call->handle == NULL && (call->arrive_ms == SIM_NEVER || call->watch)) {
        sim_call_free(api, call);
        return;
    }
    call->due_ms = next_look(call);
    agenda_sort(api, call->agenda_at);
}

void sim_call_hand_over(struct sim_api *api, struct call *call)
{
    while (call->way.first != NULL && call->way.first->due_ms <= api->now_ms) {
        struct parcel *parcel = sim_parcels_take(&call->way);
        const bool last = parcel->piece == KUBE_DONE || parcel->piece == KUBE_FAILED;
        call->heard_ms = parcel->due_ms;
        sim_parcels_add(&call->handle->ready, parcel);
        if (last) {
            must(call->way.first == NULL);
            call->handle = NULL;
        }
    }
}
