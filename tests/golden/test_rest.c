/*
 * docs/REST.md matches the tables that it is generated from. UPDATE=1 in the environment rewrites
 * it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/document/document.h"

#include "admin/api_internal.h"
#include "support/document.h"
#include "support/test.h"

extern const char admin_schemas_json[];

/* --- REST.md --- */

static const char rest_head[] =
    "# REST API\n"
    "\n"
    "<!-- Written by UPDATE=1 build/dev/tests/golden.rest; do not edit. -->\n"
    "\n"
    "This page is generated from `src/admin/routes.def` and `src/admin/schemas.json`. The\n"
    "same description for machines is at `/openapi.json`.\n"
    "\n"
    "The admin port (`--admin-listen`, 127.0.0.1:8911) serves all routes; the probe port\n"
    "(`--probe-listen`) serves `/livez`, `/readyz` and `/metrics` only. There is no login:\n"
    "the admin port listens on loopback only, and `kubectl port-forward` makes it reachable\n"
    "for you.\n"
    "\n"
    "- Amounts are thousandths of a GPU (`...Milli`) and MiB. Times are RFC 3339 in UTC; an\n"
    "  unknown time is left out.\n"
    "- A list is `{\"items\": [...], \"continue\": \"...\"}`. To get the next page, pass\n"
    "  `continue` back unchanged; on the last page it is absent. Items that come or go\n"
    "  between two pages do not shift the others.\n"
    "- An error is `application/problem+json`; its `detail` names what is wrong and says\n"
    "  what would be right. A parameter that is unknown, given twice or not as its schema\n"
    "  says is 400, and so is a NUL byte (`%00`) anywhere in the path or the query. Besides\n"
    "  what a route lists, any request may meet 403, 405, 408, 413, 500 or 503.\n"
    "  What is no request of HTTP/1.1, or one that asks for more of HTTP than there is here,\n"
    "  meets 400, 414, 417, 431, 501 or 505, of which some are a short page of HTML.\n"
    "- A path has no slash at its end: `/api/v1/nodes/` is 404, and the `detail` names the\n"
    "  right path. (Not a redirect: curl would show nothing, and report success.)\n"
    "- An answer with an `ETag` can be asked for again with `If-None-Match`: 304 without a\n"
    "  body if nothing has changed. The tag changes with each change of the ledger that is\n"
    "  published, and with each start of milligpud.\n"
    "- A stream (`/api/v1/events`) begins with the event `start`, whose `id` is the number\n"
    "  after which it follows. Then comes one event for each entry of the ledger's journal:\n"
    "  `id` is its number, `event` the kind of the command, and `data` an object with `seq`,\n"
    "  `at`, `command` and `result` (allocation and node as they are afterwards, where they\n"
    "  changed). The lists show a change before its event is sent. After a break, pass the last\n"
    "  `id` as `since` or `Last-Event-ID`. If retention has dropped what comes after it, the\n"
    "  answer is 410, or the stream ends with the event `reset` (also where the file of the\n"
    "  ledger is damaged): list again and follow from now. A comment comes every 15 s. A\n"
    "  client that takes nothing for 30 s is ended.\n"
    "- `HEAD` is served wherever `GET` is.\n"
    "- Requests from web pages are refused with 403: those with an `Origin` header, and\n"
    "  those whose `Host` is neither a loopback name (`localhost`, `127.0.0.1`, `[::1]`)\n"
    "  nor in `admin_hosts`.\n"
    "- Only a `POST` has a body: `application/json` (otherwise 415) of at most 4 MiB. Any\n"
    "  other body is refused unread with 413. If the bodies of all requests fill their\n"
    "  memory, the answer is 503 with `Retry-After`.\n"
    "\n"
    "## Routes\n"
    "\n"
    "| | | |\n"
    "|---|---|---|\n";

static void put_link(struct strbuf *out, const char *schema)
{
    strbuf_printf(out, "[%s](#", schema);
    for (const char *at = schema; *at != '\0'; at++)
        strbuf_char(out, (char)(*at >= 'A' && *at <= 'Z' ? *at + 32 : *at));
    strbuf_char(out, ')');
}

static void put_routes(struct strbuf *out)
{
    const struct api_route *route;

    for (size_t i = 0; (route = api_route(i)) != NULL; i++)
        strbuf_printf(out, "| %s | `%s` | %s |\n", route->method, route->path, route->summary);
}

/* The schema in words; a number has its bounds, and an enum its help. */
static void put_right(struct strbuf *out, const char *schema)
{
    struct arena arena;
    struct document *document;
    struct err err;

    arena_init(&arena);
    if (document_parse_json(text_of(schema), "schema", &arena, &document, &err) < 0)
        fail_msg("%s", err.text);
    if (document_str(document, "description")[0] != '\0')
        strbuf_printf(out, "; %s", document_str(document, "description"));
    if (document_get(document, "maximum") != NULL)
        strbuf_printf(out, "; %lld to %lld", (long long)document_int(document, "minimum"),
                      (long long)document_int(document, "maximum"));
    const char *before = "; ";
    document_each (word, document_get(document, "enum")) {
        strbuf_printf(out, "%s`%s`", before, word->text.at);
        before = ", ";
    }
    strbuf_char(out, '\n');
    arena_done(&arena);
}

static void put_parameters(struct strbuf *out, const struct api_route *route)
{
    struct text rest = text_of(route->path);
    struct text piece;

    while (text_cut(&rest, '/', &piece)) {
        if (!text_starts(piece, "{"))
            continue;
        const struct text name = {piece.at + 1, piece.len - 2};
        strbuf_printf(out, "- `{%.*s}`: %s", TEXT_ARG(name), api_place_help(name));
        put_right(out, api_place_schema(name));
    }
    for (int i = 0; i < PARAMETERS; i++) {
        const enum api_parameter parameter = (enum api_parameter)i;
        const char *name = api_parameter_name(parameter);
        if (!api_lists(route->parameters, text_of(name)))
            continue;
        strbuf_printf(out, "- `?%s=`: %s", name, api_parameter_help(route, parameter));
        put_right(out, api_parameter_schema(route, parameter));
    }
}

static void put_answers(struct strbuf *out, const struct api_route *route)
{
    const struct api_answer *answer;

    for (size_t i = 0; (answer = api_answer_at(route, i)) != NULL; i++)
        strbuf_printf(out, "%s- %d: %s.\n", i == 0 ? "\nBesides:\n\n" : "", answer->status,
                      answer->text);
}

static void put_route(struct strbuf *out, const struct api_route *route)
{
    strbuf_printf(out, "\n### %s %s\n\n%s.\n\n", route->method, route->path, route->summary);
    const size_t before = out->len;
    put_parameters(out, route);
    if (api_route_takes_body(route)) {
        strbuf_str(out, "The body is a ");
        put_link(out, "NewPod");
        strbuf_str(out, ".\n");
    }
    strbuf_printf(out, "%sAnswers %d, `%s`", out->len > before ? "\n" : "", route->status,
                  route->type);
    if (route->schema[0] != '\0') {
        strbuf_str(out, ": ");
        put_link(out, route->schema);
    }
    strbuf_str(out, api_answer(route, 304) != NULL ? ", with an `ETag`.\n" : ".\n");
    put_answers(out, route);
}

static void put_type(struct strbuf *out, const struct document *schema)
{
    const char *ref = document_str(schema, "$ref");
    const char *type = document_str(schema, "type");
    const struct document *words = document_get(schema, "enum");

    if (ref[0] != '\0') {
        put_link(out, strrchr(ref, '/') + 1);
    } else if (strcmp(type, "array") == 0) {
        strbuf_str(out, "list of ");
        put_type(out, document_get(schema, "items"));
    } else if (words != NULL) {
        for (const struct document *word = words->first; word != NULL; word = word->next)
            strbuf_printf(out, "%s`%s`", word != words->first ? ", " : "", word->text.at);
    } else if (strcmp(document_str(schema, "format"), "date-time") == 0) {
        strbuf_str(out, "time");
    } else if (strcmp(type, "object") == 0 && document_get(schema, "properties") != NULL) {
        const struct document *properties = document_get(schema, "properties");
        for (const struct document *member = properties->first; member != NULL;
             member = member->next)
            strbuf_printf(out, "%s`%.*s`", member != properties->first ? ", " : "",
                          TEXT_ARG(member->key));
    } else {
        strbuf_str(out, type);
    }
}

static bool is_required(const struct document *schema, struct text name)
{
    const struct document *required = document_get(schema, "required");

    for (const struct document *word = required != NULL ? required->first : NULL; word != NULL;
         word = word->next)
        if (text_eq(word->text, name))
            return true;
    return false;
}

static void put_schema(struct strbuf *out, const struct document *schema)
{
    const struct document *properties = document_get(schema, "properties");

    strbuf_printf(out, "\n### %.*s\n\n%s.\n", TEXT_ARG(schema->key),
                  document_str(schema, "description"));
    if (properties == NULL)
        return;
    strbuf_str(out, "\n| member | | |\n|---|---|---|\n");
    for (const struct document *member = properties->first; member != NULL; member = member->next) {
        strbuf_printf(out, "| `%.*s`%s | ", TEXT_ARG(member->key),
                      is_required(schema, member->key) ? "" : " (not always)");
        put_type(out, member);
        strbuf_printf(out, " | %s |\n", document_str(member, "description"));
    }
}

static void make_remaining(struct strbuf *out)
{
    const struct api_route *route;
    struct arena arena;
    struct document *schemas;
    struct err err;

    strbuf_str(out, rest_head);
    put_routes(out);
    for (size_t i = 0; (route = api_route(i)) != NULL; i++)
        put_route(out, route);
    strbuf_str(out, "\n## Shapes\n");
    arena_init(&arena);
    if (document_parse_json(text_of(admin_schemas_json), "schemas.json", &arena, &schemas, &err) <
        0)
        fail_msg("%s", err.text);
    for (const struct document *schema = schemas->first; schema != NULL; schema = schema->next)
        put_schema(out, schema);
    arena_done(&arena);
}

TEST(rest__is_documented)
{
    document_equals("docs/REST.md", make_remaining);
}
