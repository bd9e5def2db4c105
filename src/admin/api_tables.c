/*
 * The tables of routes.def, for the router, the description and the tests. Constant and readable by
 * any thread.
 */
#include <string.h>

#include "api_internal.h"

static const struct api_route routes[] = {
#define ROUTE(handler, method, path, parameters, status, type, schema, summary)                    \
    {#handler, method, path, parameters, status, type, schema, summary, handler},
#include "routes.def"
};

static const struct {
    const char *name;
    const char *schema;
    const char *help;
} parameters[] = {
#define PARAMETER(name, schema, help) {#name, schema, help},
#include "routes.def"
};

static const struct narrower {
    const char *route;
    const char *name;
    const char *schema;
    const char *help;
} narrower[] = {
#define NARROWER(handler, name, schema, help) {#handler, #name, schema, help},
#include "routes.def"
};

static const struct {
    const char *name;
    const char *schema;
    const char *help;
} places[] = {
#define PLACE(name, schema, help) {#name, schema, help},
#include "routes.def"
};

static const struct api_answer answers[] = {
#define ANSWER(handler, status, type, text) {#handler, status, type, text},
#include "routes.def"
};

static_assert(ARRAY_LEN(parameters) == PARAMETERS, "one row for each");

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

/* The narrower schema of the parameter for this route; NULL if none. */
static const struct narrower *narrower_of(const struct api_route *route,
                                          enum api_parameter parameter)
{
    must((size_t)parameter < PARAMETERS);
    for (size_t i = 0; i < ARRAY_LEN(narrower); i++)
        if (strcmp(narrower[i].route, route->name) == 0 &&
            strcmp(narrower[i].name, parameters[parameter].name) == 0)
            return &narrower[i];
    return NULL;
}

const char *api_parameter_schema(const struct api_route *route, enum api_parameter parameter)
{
    const struct narrower *row = narrower_of(route, parameter);
    return row != NULL ? row->schema : parameters[parameter].schema;
}

const char *api_parameter_help(const struct api_route *route, enum api_parameter parameter)
{
    const struct narrower *row = narrower_of(route, parameter);
    return row != NULL ? row->help : parameters[parameter].help;
}

/* Aborts if a placeholder of a path has no PLACE: it would be an undocumented parameter. */
static size_t place_of(struct text name)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (text_is(name, places[i].name))
            return i;
    must_not_reach("routes.def has a PLACE for every brace");
}

const char *api_place_schema(struct text name)
{
    return places[place_of(name)].schema;
}

const char *api_place_help(struct text name)
{
    return places[place_of(name)].help;
}

const struct api_answer *api_answer_at(const struct api_route *route, size_t at)
{
    must(route->name[0] != '\0');
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        if (strcmp(answers[i].route, route->name) == 0 && at-- == 0)
            return &answers[i];
    return NULL;
}

const struct api_answer *api_answer(const struct api_route *route, int status)
{
    const struct api_answer *answer;

    must(status >= 300);
    for (size_t i = 0; (answer = api_answer_at(route, i)) != NULL; i++)
        if (answer->status == status)
            return answer;
    return NULL;
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
