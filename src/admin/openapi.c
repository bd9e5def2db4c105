/*
 * Makes /openapi.json from the router's tables (routes.def) and schemas.json. Called by the router
 * in an admin thread; the bytes are the same for every call.
 */
#include <ctype.h>
#include <string.h>

#include "milligpu/base/problem.h"

#include "api_internal.h"
#include "milligpu_version.h"

/* src/admin/schemas.json, converted to C by the build. */
extern const char admin_schemas_json[];

static void put_raw(struct json_writer *json, const char *key, const char *literal)
{
    must(literal[0] != '\0');
    json_write_key(json, key);
    json_write_raw(json, text_of(literal));
}

static void put_ref(struct json_writer *json, const char *key, const char *schema)
{
    CLEANUP(strbuf_done) struct strbuf where;

    must(schema[0] != '\0');
    strbuf_init(&where);
    strbuf_printf(&where, "#/components/schemas/%s", schema);
    json_write_key(json, key);
    json_write_object(json);
    json_write_member(json, "$ref", where.data);
    json_write_object_end(json);
}

/* --- parameters --- */

static void openapi_put_place(struct json_writer *json, struct text name)
{
    must(name.len > 0);
    json_write_object(json);
    json_write_key(json, "name");
    json_write_text(json, name);
    json_write_member(json, "in", "path");
    json_write_key(json, "required");
    json_write_bool(json, true);
    json_write_member(json, "description", api_place_help(name));
    put_raw(json, "schema", api_place_schema(name));
    json_write_object_end(json);
}

static void put_parameter(struct json_writer *json, const struct api_route *route,
                          enum api_parameter parameter)
{
    must((size_t)parameter < PARAMETERS);
    json_write_object(json);
    json_write_member(json, "name", api_parameter_name(parameter));
    json_write_member(json, "in", "query");
    json_write_member(json, "description", api_parameter_help(route, parameter));
    put_raw(json, "schema", api_parameter_schema(route, parameter));
    json_write_object_end(json);
}

/* Path parameters come first, in the order of the path; OpenAPI requires all of them. */
static void put_parameters(struct json_writer *json, const struct api_route *route)
{
    struct text rest = text_of(route->path);
    struct text piece;

    must(route->path[0] == '/');
    json_write_key(json, "parameters");
    json_write_array(json);
    while (text_cut(&rest, '/', &piece))
        if (text_starts(piece, "{"))
            openapi_put_place(json, (struct text){piece.at + 1, piece.len - 2});
    for (int i = 0; i < PARAMETERS; i++)
        if (api_lists(route->parameters, text_of(api_parameter_name((enum api_parameter)i))))
            put_parameter(json, route, (enum api_parameter)i);
    if (api_answer(route, 304) != NULL)
        json_write_raw(json, text_of("{\"name\":\"If-None-Match\",\"in\":\"header\","
                                     "\"description\":\"ETags of earlier answers: 304 if one of "
                                     "them is that of now\",\"schema\":{\"type\":\"string\"}}"));
    json_write_array_end(json);
}

/* --- one operation --- */

static void put_content(struct json_writer *json, const struct api_route *route)
{
    const bool literal = strcmp(route->type, "application/json") == 0;
    const bool text = strncmp(route->type, "text/", strlen("text/")) == 0;
    const struct api_answer *other;

    must(route->schema[0] == '\0' || literal);
    json_write_key(json, "content");
    json_write_object(json);
    json_write_key(json, route->type);
    json_write_object(json);
    if (route->schema[0] != '\0')
        put_ref(json, "schema", route->schema);
    else if (literal)
        put_raw(json, "schema", "{\"type\":\"object\"}");
    else if (strcmp(route->type, "text/event-stream") == 0) /* endless, so not a string */
        put_raw(json, "schema",
                "{\"type\":\"string\",\"format\":\"binary\",\"description\":\"a stream of "
                "server-sent events; the data of each is an object of x-event\",\"x-event\":"
                "{\"$ref\":\"#/components/schemas/Event\"}}");
    else
        put_raw(json, "schema",
                text ? "{\"type\":\"string\"}" : "{\"type\":\"string\",\"format\":\"binary\"}");
    json_write_object_end(json);
    for (size_t i = 0; (other = api_answer_at(route, i)) != NULL; i++)
        if (other->status == route->status)
            put_raw(json, other->type, "{\"schema\":{\"type\":\"string\"}}");
    json_write_object_end(json);
}

static void put_problem(struct json_writer *json)
{
    json_write_key(json, "content");
    json_write_object(json);
    json_write_key(json, PROBLEM_TYPE);
    json_write_object(json);
    put_ref(json, "schema", "Problem");
    json_write_object_end(json);
    json_write_object_end(json);
}

static void put_status(struct json_writer *json, int status)
{
    const char digits[4] = {(char)('0' + status / 100), (char)('0' + status / 10 % 10),
                            (char)('0' + status % 10), '\0'};

    must(status >= 200 && status < 600);
    json_write_key_text(json, text_of(digits));
    json_write_object(json);
}

/* An empty type means no body. */
static void put_answer(struct json_writer *json, const struct api_answer *answer)
{
    put_status(json, answer->status);
    json_write_member(json, "description", answer->text);
    if (strcmp(answer->type, PROBLEM_TYPE) == 0)
        put_problem(json);
    else if (answer->type[0] != '\0')
        put_raw(json, "content", "{\"text/plain\":{\"schema\":{\"type\":\"string\"}}}");
    json_write_object_end(json);
}

/*
 * Every route has 400, for invalid parameters. Failures that any request can meet, such as a
 * stopping listener, are under "default".
 */
static void put_responses(struct json_writer *json, const struct api_route *route)
{
    const struct api_answer refused = {.status = 400,
                                       .type = PROBLEM_TYPE,
                                       .text = "A parameter is wrong, unknown or given twice; the "
                                               "text names it"};
    const struct api_answer *answer;

    must(route->status >= 200 && route->status < 300);
    json_write_key(json, "responses");
    json_write_object(json);
    put_status(json, route->status);
    json_write_member(json, "description", route->summary);
    if (api_answer(route, 304) != NULL)
        put_raw(json, "headers",
                "{\"ETag\":{\"description\":\"changes whenever the answer does\","
                "\"schema\":{\"type\":\"string\"}}}");
    put_content(json, route);
    json_write_object_end(json);
    if (api_answer(route, 400) == NULL)
        put_answer(json, &refused);
    for (size_t i = 0; (answer = api_answer_at(route, i)) != NULL; i++)
        if (answer->status != route->status)
            put_answer(json, answer);
    json_write_key(json, "default");
    json_write_object(json);
    json_write_member(json, "description", "It went wrong");
    put_problem(json);
    json_write_object_end(json);
    json_write_object_end(json);
}

/*
 * Methods are lower case in OpenAPI. operationId becomes a function name in generated clients, so
 * renaming a handler breaks them.
 */
static void put_operation(struct json_writer *json, const struct api_route *route)
{
    char method[16];
    size_t at = 0;

    must(strlen(route->method) < sizeof method);
    for (; route->method[at] != '\0'; at++)
        method[at] = (char)tolower((unsigned char)route->method[at]);
    method[at] = '\0';
    json_write_key(json, method);
    json_write_object(json);
    must(strncmp(route->name, "api_", strlen("api_")) == 0);
    json_write_member(json, "operationId", route->name + strlen("api_"));
    json_write_member(json, "summary", route->summary);
    put_parameters(json, route);
    if (api_route_takes_body(route)) {
        json_write_key(json, "requestBody");
        json_write_object(json);
        json_write_key(json, "required");
        json_write_bool(json, true);
        put_raw(json, "content",
                "{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/NewPod\"}}}");
        json_write_object_end(json);
    }
    put_responses(json, route);
    json_write_object_end(json);
}

/* --- the whole --- */

/* Writes the routes of one path together: a path is one object with a member for each method. */
static void put_paths(struct json_writer *json)
{
    const struct api_route *route;

    json_write_key(json, "paths");
    json_write_object(json);
    for (size_t i = 0; (route = api_route(i)) != NULL; i++) {
        const struct api_route *before = i > 0 ? api_route(i - 1) : NULL;
        if (before != NULL && strcmp(before->path, route->path) == 0)
            continue; /* methods of one path are adjacent in routes.def */
        json_write_key(json, route->path);
        json_write_object(json);
        const struct api_route *same = route;
        for (size_t k = i; same != NULL && strcmp(same->path, route->path) == 0;) {
            put_operation(json, same);
            same = api_route(++k);
        }
        json_write_object_end(json);
    }
    json_write_object_end(json);
    must(api_route(0) != NULL);
}

void api_openapi(struct api_call *call)
{
    struct json_writer json;

    must(call->status == 200);
    json_writer_init(&json, &call->body);
    json_write_object(&json);
    json_write_member(&json, "openapi", "3.0.3");
    json_write_key(&json, "info");
    json_write_object(&json);
    json_write_member(&json, "title", "milligpu, for operators");
    json_write_member(
        &json, "description",
        "For tools, not for web pages: a request with an Origin header is refused (403), and so is "
        "one whose Host is neither a loopback name nor in admin_hosts (403), whose body is not "
        "application/json (415), or that has a body where no requestBody is listed (413).");
    json_write_member(&json, "version", MILLIGPU_VERSION);
    json_write_object_end(&json);
    put_paths(&json);
    json_write_key(&json, "components");
    json_write_object(&json);
    put_raw(&json, "schemas", admin_schemas_json);
    json_write_object_end(&json);
    json_write_object_end(&json);
}
