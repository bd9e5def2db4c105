#include <ctype.h>
#include <string.h>

#include "api_inside.h"
#include "milligpu_version.h"

/* src/app/schemas.json, made into C by the build. */
extern const char app_schemas_json[];

static void put(struct jw *jw, const char *key, const char *value)
{
    must(value != NULL);
    jw_key(jw, key);
    jw_str(jw, value);
}

static void put_raw(struct jw *jw, const char *key, const char *json)
{
    must(json[0] != '\0');
    jw_key(jw, key);
    jw_raw(jw, text_of(json));
}

static void put_ref(struct jw *jw, const char *key, const char *schema)
{
    CLEANUP(strbuf_done) struct strbuf where;

    must(schema[0] != '\0');
    strbuf_init(&where);
    strbuf_printf(&where, "#/components/schemas/%s", schema);
    jw_key(jw, key);
    jw_object(jw);
    put(jw, "$ref", where.data);
    jw_object_end(jw);
}

/* --- parameters --- */

static void put_place(struct jw *jw, struct text name)
{
    must(name.len > 0);
    jw_object(jw);
    jw_key(jw, "name");
    jw_text(jw, name);
    put(jw, "in", "path");
    jw_key(jw, "required");
    jw_bool(jw, true);
    put(jw, "description", api_place_help(name));
    put_raw(jw, "schema", "{\"type\":\"string\"}");
    jw_object_end(jw);
}

static void put_parameter(struct jw *jw, enum api_parameter parameter)
{
    must((size_t)parameter < PARAMETERS);
    jw_object(jw);
    put(jw, "name", api_parameter_name(parameter));
    put(jw, "in", "query");
    put(jw, "description", api_parameter_help(parameter));
    put_raw(jw, "schema", api_parameter_schema(parameter));
    jw_object_end(jw);
}

static void put_parameters(struct jw *jw, const struct api_route *route)
{
    struct text rest = text_of(route->path);
    struct text piece;

    must(route->path[0] == '/');
    jw_key(jw, "parameters");
    jw_array(jw);
    while (text_cut(&rest, '/', &piece))
        if (text_starts(piece, "{"))
            put_place(jw, (struct text){piece.at + 1, piece.len - 2});
    for (int i = 0; i < PARAMETERS; i++)
        if (api_lists(route->parameters, text_of(api_parameter_name((enum api_parameter)i))))
            put_parameter(jw, (enum api_parameter)i);
    jw_array_end(jw);
}

/* --- one operation --- */

static void put_content(struct jw *jw, const struct api_route *route)
{
    const bool json = strcmp(route->type, "application/json") == 0;
    const bool text = strcmp(route->type, "text/plain") == 0;

    must(route->schema[0] == '\0' || json);
    jw_key(jw, "content");
    jw_object(jw);
    jw_key(jw, route->type);
    jw_object(jw);
    if (route->schema[0] != '\0')
        put_ref(jw, "schema", route->schema);
    else if (json)
        put_raw(jw, "schema", "{\"type\":\"object\"}");
    else
        put_raw(jw, "schema",
                text ? "{\"type\":\"string\"}" : "{\"type\":\"string\",\"format\":\"binary\"}");
    jw_object_end(jw);
    jw_object_end(jw);
}

static void put_problem(struct jw *jw)
{
    jw_key(jw, "default");
    jw_object(jw);
    put(jw, "description", "It went wrong");
    jw_key(jw, "content");
    jw_object(jw);
    jw_key(jw, "application/problem+json");
    jw_object(jw);
    put_ref(jw, "schema", "Problem");
    jw_object_end(jw);
    jw_object_end(jw);
    jw_object_end(jw);
}

static void put_responses(struct jw *jw, const struct api_route *route)
{
    char status[4] = {(char)('0' + route->status / 100), (char)('0' + route->status / 10 % 10),
                      (char)('0' + route->status % 10), '\0'};

    must(route->status >= 200 && route->status < 300);
    jw_key(jw, "responses");
    jw_object(jw);
    jw_key(jw, status);
    jw_object(jw);
    put(jw, "description", route->summary);
    put_content(jw, route);
    jw_object_end(jw);
    put_problem(jw);
    jw_object_end(jw);
}

static void put_operation(struct jw *jw, const struct api_route *route)
{
    char method[16];
    size_t at = 0;

    must(strlen(route->method) < sizeof method);
    for (; route->method[at] != '\0'; at++)
        method[at] = (char)tolower((unsigned char)route->method[at]);
    method[at] = '\0';
    jw_key(jw, method);
    jw_object(jw);
    must(strncmp(route->name, "api_", strlen("api_")) == 0);
    put(jw, "operationId", route->name + strlen("api_"));
    put(jw, "summary", route->summary);
    put_parameters(jw, route);
    if (api_route_takes_body(route)) {
        jw_key(jw, "requestBody");
        jw_object(jw);
        jw_key(jw, "required");
        jw_bool(jw, true);
        put_raw(jw, "content",
                "{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/Object\"}}}");
        jw_object_end(jw);
    }
    put_responses(jw, route);
    jw_object_end(jw);
}

/* --- the whole --- */

static void put_paths(struct jw *jw)
{
    const struct api_route *route;

    jw_key(jw, "paths");
    jw_object(jw);
    for (size_t i = 0; (route = api_route(i)) != NULL; i++) {
        const struct api_route *before = i > 0 ? api_route(i - 1) : NULL;
        if (before != NULL && strcmp(before->path, route->path) == 0)
            continue; /* methods of one path stand side by side in routes.def */
        jw_key(jw, route->path);
        jw_object(jw);
        const struct api_route *same = route;
        for (size_t k = i; same != NULL && strcmp(same->path, route->path) == 0;) {
            put_operation(jw, same);
            same = api_route(++k);
        }
        jw_object_end(jw);
    }
    jw_object_end(jw);
    must(api_route(0) != NULL);
}

void api_openapi(struct api_call *call)
{
    struct jw jw;

    must(call->status == 200);
    jw_init(&jw, &call->body);
    jw_object(&jw);
    put(&jw, "openapi", "3.0.3");
    jw_key(&jw, "info");
    jw_object(&jw);
    put(&jw, "title", "milligpu, for operators");
    put(&jw, "description",
        "For tools, not for pages in browsers: a request with an Origin is refused (403), so is a "
        "Host that is no name of loopback or of admin_hosts (403), a body that is not "
        "application/json (415), and a body where no requestBody is told (413).");
    put(&jw, "version", MILLIGPU_VERSION);
    jw_object_end(&jw);
    put_paths(&jw);
    jw_key(&jw, "components");
    jw_object(&jw);
    put_raw(&jw, "schemas", app_schemas_json);
    jw_object_end(&jw);
    jw_object_end(&jw);
}
