/*
 * The router of REST: finds the route of a call, checks its parameters, runs its handler and sends
 * the answer. daemon.c calls api_handle() in the two admin threads and api_handle_probe() in the
 * probe thread, many calls at a time; nothing here is shared between calls but the constant tables.
 * A handler reads snapshots and tables with a lock of their own, never the ledger, so no operator
 * delays a grant. Each call goes through the same steps: route, body, query, handler, answer. A
 * failure in any step replaces the answer by one problem document (RFC 9457).
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/http.h"
#include "milligpu/problem.h"

#include "admin/api_internal.h"

enum { LIMIT_DEFAULT = 500, LIMIT_MAX = 1000 };

static const struct api_route routes[] = {
#define ROUTE(handler, method, path, parameters, status, type, schema, summary)                    \
    {#handler, method, path, parameters, status, type, schema, summary, handler},
#include "admin/routes.def"
};

static const struct {
    const char *name;
    const char *schema;
    const char *help;
} parameters[] = {
#define PARAMETER(name, schema, help) {#name, schema, help},
#include "admin/routes.def"
};

static const struct {
    const char *name;
    const char *help;
} places[] = {
#define PLACE(name, help) {#name, help},
#include "admin/routes.def"
};

static_assert(ARRAY_LEN(parameters) == PARAMETERS, "one row for each");

/* --- the tables --- */

const struct api_route *api_route(size_t at)
{
    return at < ARRAY_LEN(routes) ? &routes[at] : NULL;
}

bool api_route_takes_body(const struct api_route *route)
{
    must(route->method[0] != '\0');
    return strcmp(route->method, "POST") == 0;
}

const char *api_parameter_name(enum api_parameter parameter)
{
    must((size_t)parameter < PARAMETERS);
    return parameters[parameter].name;
}

const char *api_parameter_schema(enum api_parameter parameter)
{
    must((size_t)parameter < PARAMETERS);
    return parameters[parameter].schema;
}

const char *api_parameter_help(enum api_parameter parameter)
{
    must((size_t)parameter < PARAMETERS);
    return parameters[parameter].help;
}

/* A brace of a path without a PLACE would be an undocumented parameter, so it ends the program. */
const char *api_place_help(struct text name)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (text_is(name, places[i].name))
            return places[i].help;
    must_not_reach("routes.def has a PLACE for every brace");
}

bool api_lists(const char *list, struct text name)
{
    struct text rest = text_of(list);
    struct text word;

    must(list != NULL);
    while (text_cut(&rest, ' ', &word))
        if (text_eq(word, name))
            return true;
    return false;
}

/* --- answering --- */

/* Drops the body so far, so that half an answer is never sent before the problem document. */
void api_fail(struct api_call *call, int status, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list args;

    must(status >= 400);
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* truncation is fine */
    va_end(args);
    strbuf_reset(&call->body);
    problem_encode(&call->body, status, NULL, text);
    call->status = status;
    call->type = PROBLEM_TYPE;
}

void api_fail_err(struct api_call *call, const struct err *err)
{
    must(err->code != ERR_NONE);
    api_fail(call, err_status(err->code), "%s", err->text);
}

/* The daemon publishes a snapshot before it opens its listeners, so only tests meet NULL. */
const struct snapshot *api_snapshot(struct api_call *call)
{
    const struct snapshot *snapshot = view_take(call->app->view);

    must(call->status < 400);
    if (snapshot == NULL)
        api_fail(call, 503, "the ledger is not loaded yet");
    return snapshot;
}

/* --- the path --- */

/*
 * Braces match one segment that is not empty, and its text goes into call, unless that is NULL. A
 * path that fails late leaves texts in call->place; the template that matches in the end starts at
 * 0 again and overwrites them.
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
            call->place[count++] = arena_copy(&call->arena, piece);
    }
}

/* HEAD is a GET whose body the listener leaves out. */
static bool api_takes(const struct api_route *route, const char *method)
{
    must(method != NULL);
    return strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/*
 * The listener asks before it reads a body, when no api_call exists yet: hence api_matches() with
 * NULL.
 */
bool api_takes_body(const char *method, const char *path)
{
    must(path[0] == '/');
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (api_route_takes_body(&routes[i]) && api_takes(&routes[i], method) &&
            api_matches(NULL, routes[i].path, path))
            return true;
    return false;
}

/*
 * kubelet and Prometheus reach the probe port from other machines, so it shows nothing but these
 * three.
 */
static bool on_probe(const struct api_route *route)
{
    must(route >= routes && route < routes + ARRAY_LEN(routes));
    return route->handler == api_livez || route->handler == api_readyz ||
           route->handler == api_metrics;
}

/* RFC 9110 demands the header Allow in every 405. */
static void no_method(struct api_call *call, const char *method, const char *allow)
{
    must(allow[0] != '\0');
    http_set_header(call->http, "Allow", allow);
    api_fail(call, 405, "%.20s is not answered here, only %s", method, allow);
}

/*
 * Collects the methods of every route with this path on the way, so that a wrong method gets 405
 * with the right ones, and only an unknown path gets 404.
 */
static bool find_route(struct api_call *call, bool probe)
{
    const char *method = http_method(call->http);
    const char *path = http_path(call->http);
    char allow[64] = "";

    must(call->route == NULL);
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        const struct api_route *route = &routes[i];
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
    else if (probe)
        api_fail(call, 404, "nothing is at %.200s: this port has /livez, /readyz and /metrics",
                 path);
    else
        api_fail(call, 404, "nothing is at %.200s: see /openapi.json for what there is", path);
    return false;
}

/* --- the query --- */

static enum api_parameter parameter_of(const char *name)
{
    int found = PARAMETERS;

    must(name != NULL);
    for (int i = 0; i < PARAMETERS; i++)
        if (strcmp(parameters[i].name, name) == 0)
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
 * Called for each name in the query. An unknown or repeated parameter is refused rather than
 * ignored: a filter with a typing error would otherwise list everything.
 */
static void take_parameter(void *user, const char *name, const char *value)
{
    struct api_call *call = user;
    const enum api_parameter parameter = parameter_of(name);
    char known[200];

    must(name != NULL && value != NULL);
    if (call->status >= 400)
        return; /* one complaint is enough */
    if (parameter == PARAMETERS || !api_lists(call->route->parameters, text_of(name))) {
        known_here(call->route, known, sizeof known);
        if (known[0] != '\0')
            api_fail(call, 400, "unknown parameter %.60s: this takes %s", name, known);
        else
            api_fail(call, 400, "unknown parameter %.60s: this takes none", name);
        return;
    }
    if (call->value[parameter] != NULL) {
        api_fail(call, 400, "parameter %s is given twice", name);
        return;
    }
    call->value[parameter] = arena_copy(&call->arena, text_of(value));
}

static void read_limit(struct api_call *call)
{
    const char *text = call->value[PARAMETER_limit];
    uint32_t limit = 0;

    call->limit = LIMIT_DEFAULT;
    if (text == NULL)
        return;
    /* Stops at the first value above the maximum, so that no number of digits overflows. */
    for (size_t i = 0; text[i] >= '0' && text[i] <= '9' && limit <= LIMIT_MAX; i++)
        limit = limit * 10 + (uint32_t)(text[i] - '0');
    must(limit <= LIMIT_MAX * 10 + 9);
    if (strspn(text, "0123456789") != strlen(text) || limit < 1 || limit > LIMIT_MAX)
        api_fail(call, 400, "limit is %.40s: it is a whole number from 1 to %d", text, LIMIT_MAX);
    else
        call->limit = limit;
}

static void read_continue(struct api_call *call)
{
    const char *token = call->value[PARAMETER_continue];

    must(call->after == NULL);
    if (token != NULL && !api_token_read(token, &call->arena, &call->after))
        api_fail(call, 400, "continue is %.60s: give back what the last answer said, as it was",
                 token);
}

static void read_query(struct api_call *call)
{
    must(call->route != NULL);
    http_query_each(call->http, call, take_parameter);
    if (call->status < 400)
        read_limit(call);
    if (call->status < 400)
        read_continue(call);
}

/* --- entry --- */

/*
 * One call from beginning to end. The arena and the body live until the answer is queued; a handler
 * releases its snapshot before it returns, so a slow client holds no old nodes alive.
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
    /* An old answer must not be reused: the truth may have changed. */
    http_set_header(http, "Cache-Control", "no-store");
    if (call.file >= 0)
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
