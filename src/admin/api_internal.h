/*
 * api_internal - routes, calls, lists and filters, shared by the files of the admin port.
 *
 *   api_handle: find the route, read its parameters -> handler(call) fills status, type, body ->
 *   answer
 *
 * Handlers never use the connection: they fill call->body and return, so a snapshot is released
 * before the answer is sent. They can block on the disk (history, backup): the admin listener has
 * threads of its own, and no granting code waits for them.
 */
#ifndef MILLIGPU_ADMIN_API_INTERNAL_H
#define MILLIGPU_ADMIN_API_INTERNAL_H

#include "milligpu/admin/api.h"
#include "milligpu/selfcheck/metrics_page.h"
#include "milligpu/wire/admin/wire_admin.h"

enum api_parameter {
#define PARAMETER(name, schema, help) PARAMETER_##name,
#include "routes.def"
    PARAMETERS
};

/* Limit of placeholders in one path: namespace and name. */
enum { API_PLACES_MAX = 2 };

struct api_call;

struct api_route {
    const char *name; /* of the handler */
    const char *method;
    const char *path;
    const char *parameters; /* names, separated by blanks */
    int status;
    const char *type;
    const char *schema;
    const char *summary;
    void (*handler)(struct api_call *call);
};

const struct api_route *api_route(size_t at); /* NULL after the last */
/* True for POST: its arguments are in the body, those of other methods in path and query. */
bool api_route_takes_body(const struct api_route *route);
/* True if name is one of the words of list, which are separated by blanks. */
bool api_lists(const char *list, struct text name);

const char *api_parameter_name(enum api_parameter parameter);
/* Schema and help of the parameter for this route, which can narrow them (NARROWER). */
const char *api_parameter_schema(const struct api_route *route, enum api_parameter parameter);
const char *api_parameter_help(const struct api_route *route, enum api_parameter parameter);
const char *api_place_schema(struct text name);
const char *api_place_help(struct text name);

/* An answer of a route besides the one for success. */
struct api_answer {
    const char *route; /* name of its handler */
    int status;
    const char *type; /* empty if the answer has no body */
    const char *text;
};
/* The answer of this route with this status; NULL if none. */
const struct api_answer *api_answer(const struct api_route *route, int status);
/* The answer at this index among those of the route; NULL after the last. */
const struct api_answer *api_answer_at(const struct api_route *route, size_t at);

struct api_call {
    struct app *app;
    struct http_call *http;
    const struct api_route *route;
    struct arena arena;
    /* segments that match the placeholders of the path, in order */
    const char *segment[API_PLACES_MAX];
    const char *value[PARAMETERS]; /* of the query; NULL if absent */
    uint32_t limit;
    /* key of the last item on the previous page; NULL for the first page */
    const char *after;
    int status;
    const char *type;
    struct strbuf body;
    const char *etag;    /* NULL if the answer has none */
    int64_t measured_ms; /* UTC time from which the age of agents' reports counts; 0: not set */
    bool is_streaming;   /* a stream answers the call */
    int file;            /* descriptor whose content is the answer; negative: body is */
};

/* Replaces the answer, with the body so far, by a problem document. */
void api_fail(struct api_call *call, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
void api_fail_err(struct api_call *call, const struct err *err);

/* True if the value matches its schema; otherwise the answer is 400, with name and valid values. */
bool api_schema_check(struct api_call *call, struct text name, const char *schema,
                      const char *value);
/* Reads RFC 3339, also with a blank instead of '+' (not escaped in a URL). */
bool api_time_read(const char *value, int64_t *out_ms) MUST_USE;

/* The format of the metrics that the Accept header prefers; NULL if there is no header. */
enum metric_format api_accept_metrics(const char *accept);

/* Sets the ETag. more: stands for content that is not in the snapshot, without quotes; or "". */
void api_tag(struct api_call *call, uint64_t generation, const char *more);
/* api_tag() for an answer that shows agents' reports; to be called before api_measured(). */
void api_tag_measured(struct api_call *call, uint64_t generation);
/* The last report of the agent of a node. The caller calls measured_unref() on `measured`. */
struct admin_measured api_measured(struct api_call *call, const struct node *node) MUST_USE;
/* Sets the caching headers; the answer becomes 304 if the client has it already. */
void api_etag_answer(struct api_call *call);

/* NULL and a problem before the ledger is loaded. Released with snapshot_unref(). */
const struct snapshot *api_snapshot(struct api_call *call) MUST_USE;

/*
 * A list ordered by key. A page continues after the last key of the previous one, so additions and
 * deletions in between shift nothing.
 */
struct api_item {
    const char *key; /* in the call's arena */
    const void *what;
    const void *where;
};
struct api_list {
    struct api_item *item;
    size_t count;
    size_t capacity;
    bool overflow; /* items beyond the limit were dropped */
    /* Writes members about the whole list; NULL if there are none. */
    void (*about)(struct json_writer *json, const void *user);
    const void *user;
};
/* Skips items up to call->after. */
void api_list_add(struct api_call *call, struct api_list *list, const char *key, const void *what,
                  const void *where);
/* Sorts, writes the page into the body, and frees the list. */
void api_list_write(struct api_call *call, struct api_list *list,
                    void (*encode)(struct json_writer *json, const struct api_item *item));
/* Writes the member "continue"; nothing for key NULL, which means the last page. */
void api_continue(struct json_writer *json, const char *key);
/* False if the token is not one of this server. *out lives in arena. */
bool api_token_read(const char *token, struct arena *arena, const char **out);

/* --- filters of lists --- */

/* The parameter `model`, as a request that names only models; in the call's arena. */
struct model_filter {
    bool given;
    struct request models;
};
/* False and a problem if the parameter is invalid. */
bool api_model_filter(struct api_call *call, struct model_filter *out) MUST_USE;
bool api_model_taken(const struct model_filter *filter, const struct atom *model);
bool api_is_wanted(const char *filter, const char *value); /* filter NULL: all are */

struct drift_counts {
    uint32_t warnings;
    uint32_t information; /* drift for which drift_is_information() holds now */
    uint32_t warnings_of[DRIFT_KIND_COUNT];
    uint32_t information_of[DRIFT_KIND_COUNT];
};
void api_drift_count(const struct app *app, const struct snapshot *snapshot,
                     struct drift_counts *out);
/* Appends "30 over, 2 absent"; nothing if all counts are 0. */
void api_drift_put_kinds(struct strbuf *out, const uint32_t count[DRIFT_KIND_COUNT]);

/* The rows of the newest allocation of a pod in the history; 0 rows if it never had one. */
int api_history_last(struct api_call *call, const char *namespace, const char *name,
                     struct history_row row[GPUS_PER_NODE_MAX], size_t *out_rows,
                     struct err *err) MUST_USE;
void api_allocations_released(struct api_call *call);

#define ROUTE(handler, method, path, parameters, status, type, schema, summary)                    \
    void handler(struct api_call *call);
#include "routes.def"

#endif
