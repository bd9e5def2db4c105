#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/kube/kube.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "sim_api_internal.h"

enum {
    BOOKMARK_MS = 55 * 1000, /* at least; and up to a fifth more */
    BOOKMARK_MORE_MS = 10 * 1000,
    WATCH_S = 30 * 60, /* if the request has no timeoutSeconds; and up to twice that */
    HELD_MS = 500,     /* at least; under faults */
    HELD_MORE_MS = 8 * 1000,
    EARLY_MAX = 24, /* versions that a watch may begin too early */
};

static const char error_line[] = "{\"type\":\"ERROR\"";

/* ---- lines ---- */

static void end_cleanly(struct sim_api *api, struct call *call)
{
    (void)sim_send(call, KUBE_DONE, TEXT(""), api->now_ms + sim_way_ms(api));
}

/* The connection breaks inside the line; some proxies turn that into a clean end. */
static void send_cut(struct sim_api *api, struct call *call, struct text line, int64_t due_ms)
{
    must(line.len > 2);
    const size_t len = 1 + (size_t)sim_below(api, (int64_t)line.len - 2);

    sim_meet(api, call, SIM_WATCH_CUT);
    (void)sim_send(call, KUBE_DATA, (struct text){line.at, len}, due_ms);
    if (sim_chance(api, 500))
        (void)sim_send(call, KUBE_DONE, TEXT(""), due_ms);
    else
        sim_send_failure(call, ERR_IO, "connection reset in the middle of an event", due_ms);
}

/* version 0: it is no news of the resource. */
static void send_line(struct sim_api *api, struct call *call, struct text line, uint64_t version)
{
    struct stream *stream = &call->stream;
    int64_t due_ms = api->now_ms + sim_way_ms(api);

    must(stream->open && !stream->silent && line.at[line.len - 1] == '\n');
    if (stream->held_ms > due_ms) {
        sim_meet(api, call, SIM_WATCH_DELAY);
        due_ms = stream->held_ms;
    }
    if (stream->cut) {
        send_cut(api, call, line, due_ms);
        return;
    }
    struct parcel *last = sim_send_bytes(api, call, line, due_ms, stream->torn);
    if (stream->whole && version > 0) {
        last->told = stream->resource;
        last->version = version;
    }
}

static void send_gone(struct sim_api *api, struct call *call)
{
    static const char line[] =
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
        "\"status\":\"Failure\",\"message\":\"too old resource version\",\"reason\":\"Expired\","
        "\"code\":410}}\n";

    send_line(api, call, TEXT(line), 0);
    if (call->over)
        return; /* truncation is fine */
    sim_meet(api, call, SIM_GONE_EVENT);
    end_cleanly(api, call);
}

static void send_bookmark(struct sim_api *api, struct call *call)
{
    const struct sim_resource *resource = call->stream.resource;
    char line[256];

    const int len =
        snprintf(line, sizeof line,
                 "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"%s\",\"apiVersion\":\"%s\","
                 "\"metadata\":{\"resourceVersion\":\"%llu\",\"creationTimestamp\":null}}}\n",
                 resource->kind, resource->api_version, (unsigned long long)call->stream.version);
    must(len > 0 && (size_t)len < sizeof line);
    send_line(api, call, (struct text){line, (size_t)len}, call->stream.version);
    if (!call->over)
        sim_meet(api, call, SIM_BOOKMARK);
}

static uint64_t number(const char *text)
{
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* An event of the fake API server; false if it is its last. */
static bool send_event(struct sim_api *api, struct call *call, struct text line)
{
    struct watch_event event;
    struct err err;

    arena_reset(&api->arena);
    must(watch_decode((struct text){line.at, line.len - 1}, &api->arena, &event, &err) == 0);
    const uint64_t version = number(event.resource_version);
    send_line(api, call, line, version);
    if (call->over)
        return false;
    if (event.type == WATCH_ERROR) {
        if (event.status.code == 410)
            sim_meet(api, call, SIM_GONE_EVENT);
        end_cleanly(api, call);
        return false;
    }
    if (call->fault == SIM_REPEAT && version <= call->stream.asked) {
        sim_meet(api, call, SIM_REPEAT);
        call->fault = SIM_FAULTS; /* counted */
    }
    return true;
}

static void send_events(struct sim_api *api, struct call *call)
{
    struct text rest = {api->lines.data, api->lines.len};

    while (rest.len > 0) {
        const char *end = memchr(rest.at, '\n', rest.len);
        must(end != NULL);
        const size_t len = (size_t)(end - rest.at) + 1;
        if (!send_event(api, call, (struct text){rest.at, len}))
            return;
        rest.at += len;
        rest.len -= len;
    }
}

/* ---- opening a watch ---- */

/* The last resourceVersion in a query is the one that counts. */
static int ask_since(struct sim_api *api, const struct call *call, uint64_t version)
{
    strbuf_reset(&api->path);
    strbuf_printf(&api->path, "%s&resourceVersion=%llu", call->path, (unsigned long long)version);
    return fake_apiserver_request(api->rules.fake, "GET", api->path.data, TEXT(""), &api->lines);
}

/* A server whose cache goes back that far may begin a little early. */
static bool ask_early(struct sim_api *api, const struct call *call)
{
    const uint64_t asked = call->stream.asked;

    if (call->fault != SIM_REPEAT || asked <= EARLY_MAX)
        return false;
    const uint64_t early = 1 + (uint64_t)sim_below(api, EARLY_MAX);
    const int status = ask_since(api, call, asked - early);
    const struct text lines = {api->lines.data, api->lines.len};
    return status == 200 && !text_starts(lines, error_line);
}

static void open_stream(struct sim_api *api, struct call *call)
{
    struct stream *stream = &call->stream;
    const char *bookmarks = sim_parameter(call->path, "allowWatchBookmarks");
    int64_t length_s = (int64_t)number(sim_parameter(call->path, "timeoutSeconds"));

    must(!stream->open);
    if (length_s == 0)
        length_s = WATCH_S + sim_below(api, WATCH_S);
    stream->open = true;
    stream->whole = sim_is_whole(stream->resource, call->path);
    stream->bookmarks = bookmarks != NULL && (*bookmarks == '1' || *bookmarks == 't');
    stream->version = fake_apiserver_version(api->rules.fake);
    stream->bookmark_ms = api->now_ms + BOOKMARK_MS + sim_below(api, BOOKMARK_MORE_MS);
    stream->end_ms = api->now_ms + length_s * 1000;
    sim_stream_plan_fault(api, call);
    if (call->fault == SIM_SLOW) {
        sim_meet(api, call, SIM_SLOW);
        call->last_ms = api->now_ms + HELD_MS + sim_below(api, HELD_MORE_MS);
    }
    stream->torn = call->fault == SIM_CHUNKS;
}

void sim_stream_begin(struct sim_api *api, struct call *call)
{
    if (call->handle == NULL)
        return;
    call->stream.asked = number(sim_parameter(call->path, "resourceVersion"));
    if (!ask_early(api, call)) {
        const int status =
            fake_apiserver_request(api->rules.fake, "GET", call->path, TEXT(""), &api->lines);
        if (status != 200) {
            sim_reply(api, call, status, (struct text){api->lines.data, api->lines.len});
            return;
        }
    }
    call->status = 200;
    open_stream(api, call);
    (void)sim_send(call, KUBE_HEAD, TEXT(""), api->now_ms + sim_way_ms(api));
    send_events(api, call);
}

/* ---- while it is open ---- */

static bool goes_on(const struct call *call)
{
    return call->handle != NULL && call->stream.open && !call->stream.silent && !call->over;
}

void sim_stream_plan_fault(struct sim_api *api, struct call *call)
{
    const int64_t mean_ms =
        api->rules.faults_per_mille > 0 ? 1000000 / (int64_t)api->rules.faults_per_mille : 0;

    call->stream.fault_ms = mean_ms > 0 ? api->now_ms + 1 + sim_below(api, 2 * mean_ms) : SIM_NEVER;
}

static void inject(struct sim_api *api, struct call *call)
{
    static const enum sim_fault choice[] = {SIM_WATCH_DELAY,  SIM_WATCH_CUT,  SIM_WATCH_END,
                                            SIM_WATCH_SILENT, SIM_GONE_EVENT, SIM_CHUNKS};
    struct stream *stream = &call->stream;
    const enum sim_fault fault = choice[sim_below(api, ARRAY_LEN(choice))];

    must(goes_on(call));
    if (fault == SIM_WATCH_DELAY) {
        stream->held_ms = api->now_ms + HELD_MS + sim_below(api, HELD_MORE_MS);
    } else if (fault == SIM_WATCH_CUT) {
        stream->cut = true;
    } else if (fault == SIM_WATCH_END) {
        sim_meet(api, call, SIM_WATCH_END);
        end_cleanly(api, call);
    } else if (fault == SIM_WATCH_SILENT && call->silence_ms > 0) {
        sim_meet(api, call, SIM_WATCH_SILENT);
        stream->silent = true;
        sim_parcels_drop(&call->way);
    } else if (fault == SIM_GONE_EVENT) {
        send_gone(api, call);
    } else if (fault == SIM_CHUNKS) {
        stream->torn = true;
    }
}

void sim_stream_step(struct sim_api *api, struct call *call)
{
    struct stream *stream = &call->stream;

    if (goes_on(call) && stream->fault_ms <= api->now_ms) {
        sim_stream_plan_fault(api, call);
        inject(api, call);
    }
    if (goes_on(call) && stream->bookmark_ms <= api->now_ms) {
        stream->bookmark_ms = api->now_ms + BOOKMARK_MS + sim_below(api, BOOKMARK_MORE_MS);
        if (stream->bookmarks)
            send_bookmark(api, call);
    }
    if (goes_on(call) && stream->end_ms <= api->now_ms) {
        if (stream->bookmarks)
            send_bookmark(api, call);
        if (!call->over)
            end_cleanly(api, call);
    }
}

void sim_stream_spread(struct sim_api *api, const char *path)
{
    const uint64_t version = fake_apiserver_version(api->rules.fake);
    const struct sim_resource *resource = sim_resource_of(path);

    must(version >= api->version);
    if (version == api->version)
        return;
    api->version = version;
    for (struct call *call = api->watches; call != NULL; call = call->next) {
        if (!goes_on(call))
            continue;
        if (call->stream.resource == resource) {
            must(ask_since(api, call, call->stream.version) == 200);
            send_events(api, call);
            sim_call_finish(api, call); /* it has a listener, so it stays */
        }
        call->stream.version = version;
    }
}

void sim_stream_release(struct sim_api *api, struct call *call)
{
    struct stream *stream = &call->stream;

    must(call->watch);
    if (stream->silent)
        sim_fail(api, call, ERR_IO, "connection reset", false);
    stream->cut = false;
    stream->torn = false;
    stream->held_ms = 0;
}

bool sim_stream_is_idle(const struct call *call)
{
    return goes_on(call) && call->way.first == NULL;
}

int64_t sim_stream_due(const struct call *call)
{
    const struct stream *stream = &call->stream;
    int64_t at = SIM_NEVER;

    if (!goes_on(call))
        return at;
    if (stream->bookmarks)
        at = stream->bookmark_ms;
    if (stream->end_ms < at)
        at = stream->end_ms;
    return stream->fault_ms < at ? stream->fault_ms : at;
}
