/*
 * The router of REST: route, body, query, handler, answer; a failure in any step replaces the
 * answer by a problem document (RFC 9457). daemon.c calls api_handle() in the two admin threads and
 * api_handle_probe() in the probe thread, many calls at a time; calls share only the constant
 * tables. Handlers read snapshots and tables with a lock of their own, never the ledger, so no
 * operator delays a grant.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/http/http.h"

#include "api_internal.h"

enum { LIMIT_DEFAULT = 500 };

/* --- the path --- */

/*
 * A placeholder in braces matches one segment that is not empty; its text goes into call, unless
 * that is NULL. A template that fails late leaves texts in call->place; the next one overwrites
 * them.
 */
static bool api_matches(struct api_call *call, const char *template, const char *path)
{
    struct text want = text_of(template);
    struct text have = text_of(path);
    struct text form;
    struct text piece;
    size_t count = 0;

    must(template[0] == '/');
    for (;;) {
        const bool more = text_cut(&want, '/', &form);
        if (text_cut(&have, '/', &piece) != more)
            return false;
        if (!more)
            return true;
        if (!text_starts(form, "{")) {
            if (!text_eq(form, piece))
                return false;
            continue;
        }
        must(count < API_PLACES_MAX);
        if (piece.len == 0)
            return false;
        if (call != NULL)
            call->segment[count++] = arena_copy(&call->arena, piece);
    }
}

/* HEAD is handled as GET; the listener leaves out the body. */
static bool api_takes(const struct api_route *route, const char *method)
{
    must(method != NULL);
    return strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* Called before the body is read, when no api_call exists yet: hence api_matches() with NULL. */
bool api_takes_body(const char *method, const char *path)
{
    const struct api_route *route;

    must(path[0] == '/');
    for (size_t i = 0; (route = api_route(i)) != NULL; i++)
        if (api_route_takes_body(route) && api_takes(route, method) &&
            api_matches(NULL, route->path, path))
            return true;
    return false;
}

/*
 * The probe port is open to other machines (kubelet, Prometheus), so it serves only these routes.
 * None of them names a pod.
 */
static bool on_probe(const struct api_route *route)
{
    must(route->handler != NULL);
    return route->handler == api_livez || route->handler == api_readyz ||
           route->handler == api_metrics || route->handler == api_metrics_nodes;
}

static bool is_route(const char *path, bool probe)
{
    const struct api_route *route;

    must(path[0] == '/');
    for (size_t i = 0; (route = api_route(i)) != NULL; i++)
        if ((!probe || on_probe(route)) && api_matches(NULL, route->path, path))
            return true;
    return false;
}

/*
 * A path with a trailing slash is refused with the right path instead of a redirect: without -L,
 * curl would exit with success and no output.
 */
static void no_route(struct api_call *call, const char *path, bool probe)
{
    size_t len = strlen(path);

    must(path[0] == '/');
    while (len > 1 && path[len - 1] == '/')
        len--;
    const char *bare = arena_copy(&call->arena, (struct text){path, len});
    if (is_route(bare, probe))
        api_fail(call, 404, "nothing is at %.200s: it is %.200s, without a slash at the end", path,
                 bare);
    else if (probe)
        api_fail(call, 404,
                 "nothing is at %.200s: this port has /livez, /readyz, /metrics and /metrics/nodes",
                 path);
    else
        api_fail(call, 404, "nothing is at %.200s: see /openapi.json for the paths", path);
}

/* RFC 9110 requires the header Allow in every 405. */
static void no_method(struct api_call *call, const char *method, const char *allow)
{
    must(allow[0] != '\0');
    http_set_header(call->http, "Allow", allow);
    api_fail(call, 405, "%.20s is not answered here, only %s", method, allow);
}

/*
 * Also collects the methods of all routes with this path, so that a wrong method gets 405 with the
 * valid ones, and only an unknown path gets 404.
 */
static bool find_route(struct api_call *call, bool probe)
{
    const char *method = http_method(call->http);
    const char *path = http_path(call->http);
    const struct api_route *route;
    char allow[64] = "";

    must(call->route == NULL);
    for (size_t i = 0; (route = api_route(i)) != NULL; i++) {
        if ((probe && !on_probe(route)) || !api_matches(call, route->path, path))
            continue;
        if (api_takes(route, method)) {
            call->route = route;
            return true;
        }
        const size_t used = strlen(allow);
        (void)snprintf(allow + used, sizeof allow - used, "%s%s%s", used > 0 ? ", " : "",
                       route->method, strcmp(route->method, "GET") == 0 ? ", HEAD" : "");
    }
    if (allow[0] != '\0')
        no_method(call, method, allow);
    else
        no_route(call, path, probe);
    return false;
}

/* --- the query --- */

static enum api_parameter parameter_of(const char *name)
{
    int found = PARAMETERS;

    must(name != NULL);
    for (int i = 0; i < PARAMETERS; i++)
        if (strcmp(api_parameter_name((enum api_parameter)i), name) == 0)
            found = i;
    return (enum api_parameter)found;
}

static void known_here(const struct api_route *route, char *out, size_t bytes)
{
    struct text rest = text_of(route->parameters);
    struct text word;
    size_t used = 0;

    must(bytes > 0);
    out[0] = '\0';
    while (text_cut(&rest, ' ', &word) && used < bytes)
        used += (size_t)snprintf(out + used, bytes - used, "%s%.*s", used > 0 ? ", " : "",
                                 TEXT_ARG(word));
}

/*
 * Called for each name in the query. An unknown or repeated parameter is an error: if ignored, a
 * filter with a typing error would list everything.
 */
static void take_parameter(void *user, const char *name, const char *value)
{
    struct api_call *call = user;
    const enum api_parameter parameter = parameter_of(name);
    char known[200];

    must(name != NULL && value != NULL);
    if (call->status >= 400)
        return; /* report the first error only */
    if (parameter == PARAMETERS || !api_lists(call->route->parameters, text_of(name))) {
        known_here(call->route, known, sizeof known);
        if (known[0] != '\0')
            api_fail(call, 400, "unknown parameter %.60s: this takes %s", name, known);
        else
            api_fail(call, 400, "unknown parameter %.60s: this takes none", name);
        return;
    }
    if (call->value[parameter] != NULL)
        api_fail(call, 400, "parameter %s is given twice", name);
    else if (api_schema_check(call, text_of(name), api_parameter_schema(call->route, parameter),
                              value))
        call->value[parameter] = arena_copy(&call->arena, text_of(value));
}

/* Reads limit and continue, whose schemas have been checked. */
static void read_page(struct api_call *call)
{
    const char *limit = call->value[PARAMETER_limit];
    const char *token = call->value[PARAMETER_continue];

    must(call->after == NULL);
    call->limit = LIMIT_DEFAULT;
    if (limit != NULL)
        call->limit = (uint32_t)strtoul(limit, NULL, 10);
    if (token != NULL)
        must(api_token_read(token, &call->arena, &call->after));
    must(call->limit > 0);
}

/* A name that Kubernetes does not allow is a typing error (400), not a deleted object (404). */
static void check_places(struct api_call *call)
{
    struct text rest = text_of(call->route->path);
    struct text piece;
    size_t count = 0;

    while (call->status < 400 && text_cut(&rest, '/', &piece)) {
        if (!text_starts(piece, "{"))
            continue;
        const struct text name = {piece.at + 1, piece.len - 2};
        must(call->segment[count] != NULL);
        (void)api_schema_check(call, name, api_place_schema(name), call->segment[count]);
        count++;
    }
}

static void read_query(struct api_call *call)
{
    must(call->route != NULL);
    check_places(call);
    if (call->status < 400)
        http_query_each(call->http, call, take_parameter);
    if (call->status < 400)
        read_page(call);
}

/* --- entry --- */

/*
 * Handles one call. The arena and the body live until the answer is queued; a handler releases its
 * snapshot before it returns, so a slow client keeps no old nodes alive.
 */
static void api_serve(struct app *app, struct http_call *http, bool probe)
{
    struct api_call call = {.app = app, .http = http, .file = -1};

    must(app != NULL && http != NULL);
    arena_init(&call.arena);
    strbuf_init(&call.body);
    if (find_route(&call, probe) && http_body_unread(http)) {
        api_fail(&call, 413, "%s %.200s takes no body", call.route->method, call.route->path);
    } else if (call.route != NULL) {
        call.status = call.route->status;
        call.type = call.route->type;
        read_query(&call);
        if (call.status < 400)
            call.route->handler(&call);
    }
    must(call.status >= 200);
    if (!call.is_streaming)
        api_etag_answer(&call);
    if (call.is_streaming)
        must(call.body.len == 0);
    else if (call.file >= 0)
        http_answer_file(http, call.status, call.type, call.file);
    else
        http_answer(http, call.status, call.type, &call.body);
    strbuf_done(&call.body);
    arena_done(&call.arena);
}

void api_handle(struct app *app, struct http_call *call)
{
    api_serve(app, call, false);
}

void api_handle_probe(struct app *app, struct http_call *call)
{
    api_serve(app, call, true);
}
