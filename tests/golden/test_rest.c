/*
 * docs/REST.md matches the tables that it is generated from. UPDATE=1 in the environment rewrites
 * it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/doc.h"

#include "admin/api_internal.h"
#include "support/document.h"

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
    "- An error is `application/problem+json`; its `detail` says what would be right. An\n"
    "  unknown parameter is an error.\n"
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

static void put_parameters(struct strbuf *out, const struct api_route *route)
{
    struct text rest = text_of(route->path);
    struct text piece;

    while (text_cut(&rest, '/', &piece)) {
        if (!text_starts(piece, "{"))
            continue;
        const struct text name = {piece.at + 1, piece.len - 2};
        strbuf_printf(out, "- `{%.*s}`: %s\n", TEXT_ARG(name), api_place_help(name));
    }
    for (int i = 0; i < PARAMETERS; i++) {
        const enum api_parameter parameter = (enum api_parameter)i;
        const char *name = api_parameter_name(parameter);
        if (api_lists(route->parameters, text_of(name)))
            strbuf_printf(out, "- `?%s=`: %s\n", name, api_parameter_help(parameter));
    }
}

static void put_route(struct strbuf *out, const struct api_route *route)
{
    strbuf_printf(out, "\n### %s %s\n\n%s.\n\n", route->method, route->path, route->summary);
    const size_t before = out->len;
    put_parameters(out, route);
    strbuf_printf(out, "%sAnswers %d, `%s`", out->len > before ? "\n" : "", route->status,
                  route->type);
    if (route->schema[0] != '\0') {
        strbuf_str(out, ": ");
        put_link(out, route->schema);
    }
    strbuf_str(out, ".\n");
}

static void put_type(struct strbuf *out, const struct doc *schema)
{
    const char *ref = doc_str(schema, "$ref");
    const char *type = doc_str(schema, "type");
    const struct doc *words = doc_get(schema, "enum");

    if (ref[0] != '\0') {
        put_link(out, strrchr(ref, '/') + 1);
    } else if (strcmp(type, "array") == 0) {
        strbuf_str(out, "list of ");
        put_type(out, doc_get(schema, "items"));
    } else if (words != NULL) {
        for (const struct doc *word = words->first; word != NULL; word = word->next)
            strbuf_printf(out, "%s`%s`", word != words->first ? ", " : "", word->text.at);
    } else if (strcmp(doc_str(schema, "format"), "date-time") == 0) {
        strbuf_str(out, "time");
    } else if (strcmp(type, "object") == 0 && doc_get(schema, "properties") != NULL) {
        const struct doc *properties = doc_get(schema, "properties");
        for (const struct doc *member = properties->first; member != NULL; member = member->next)
            strbuf_printf(out, "%s`%.*s`", member != properties->first ? ", " : "",
                          TEXT_ARG(member->key));
    } else {
        strbuf_str(out, type);
    }
}

static bool is_required(const struct doc *schema, struct text name)
{
    const struct doc *required = doc_get(schema, "required");

    for (const struct doc *word = required != NULL ? required->first : NULL; word != NULL;
         word = word->next)
        if (text_eq(word->text, name))
            return true;
    return false;
}

static void put_schema(struct strbuf *out, const struct doc *schema)
{
    const struct doc *properties = doc_get(schema, "properties");

    strbuf_printf(out, "\n### %.*s\n\n%s.\n", TEXT_ARG(schema->key),
                  doc_str(schema, "description"));
    if (properties == NULL)
        return;
    strbuf_str(out, "\n| member | | |\n|---|---|---|\n");
    for (const struct doc *member = properties->first; member != NULL; member = member->next) {
        strbuf_printf(out, "| `%.*s`%s | ", TEXT_ARG(member->key),
                      is_required(schema, member->key) ? "" : " (not always)");
        put_type(out, member);
        strbuf_printf(out, " | %s |\n", doc_str(member, "description"));
    }
}

static void make_rest(struct strbuf *out)
{
    const struct api_route *route;
    struct arena arena;
    struct doc *schemas;
    struct err err;

    strbuf_str(out, rest_head);
    put_routes(out);
    for (size_t i = 0; (route = api_route(i)) != NULL; i++)
        put_route(out, route);
    strbuf_str(out, "\n## Shapes\n");
    arena_init(&arena);
    if (doc_parse_json(text_of(admin_schemas_json), "schemas.json", &arena, &schemas, &err) < 0)
        fail_msg("%s", err.text);
    for (const struct doc *schema = schemas->first; schema != NULL; schema = schema->next)
        put_schema(out, schema);
    arena_done(&arena);
}

static void rest_is_documented(void **state)
{
    (void)state;
    document_equals("docs/REST.md", make_rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rest_is_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
