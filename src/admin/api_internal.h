/*
 * api_internal - what the files of the admin port share.
 *
 *   api_handle: find the route, read its parameters -> handler(call) fills status, type, body ->
 *   answer
 *
 * Handlers never use the connection: they fill call->body and return, so that a snapshot is
 * released before the answer is sent. They may block on the disk (history, backup): the admin
 * listener has threads of its own, and no granting code waits for them.
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

/* Most braces in one path: namespace and name. */
enum { API_PLACES_MAX = 2 };

struct api_call;

struct api_route {
    const char *name; /* of the handler */
    const char *method;
    const char *path;
    const char *parameters; /* names separated by blanks */
    int status;
    const char *type;
    const char *schema;
    const char *summary;
    void (*handler)(struct api_call *call);
};

const struct api_route *api_route(size_t at); /* NULL after the last */
/* The arguments of a POST are in its body; all others are in path and query. */
bool api_route_takes_body(const struct api_route *route);
/* Is name one of the words of list? */
bool api_lists(const char *list, struct text name);

const char *api_parameter_name(enum api_parameter parameter);
/* As this route takes it. */
const char *api_parameter_schema(const struct api_route *route, enum api_parameter parameter);
const char *api_parameter_help(const struct api_route *route, enum api_parameter parameter);
const char *api_place_schema(struct text name);
const char *api_place_help(struct text name);

/* An answer of a route besides the one for success. */
struct api_answer {
    const char *route; /* name of its handler */
    int status;
    const char *type; /* empty: the answer has no body */
    const char *text;
};
/* That of this route with this status; NULL: there is none. */
const struct api_answer *api_answer(const struct api_route *route, int status);
/* The one at this place of the route's answers; NULL after the last. */
const struct api_answer *api_answer_at(const struct api_route *route, size_t at);

struct api_call {
    struct app *app;
    struct http_call *http;
    const struct api_route *route;
    struct arena arena;
    /* the segments that match the braces of the path, in order */
    const char *place[API_PLACES_MAX];
    const char *value[PARAMETERS]; /* of the query; NULL: absent */
    uint32_t limit;
    /* key of the last item on the previous page; NULL: from the start */
    const char *after;
    int status;
    const char *type;
    struct strbuf body;
    const char *etag;    /* NULL: the answer has none */
    int64_t measured_ms; /* UTC: the moment by which what agents reported is judged */
    bool is_streaming;   /* it is answered by a stream already */
    int file;            /* if not negative, the content of this file is the answer */
};

/* Replaces the answer by a problem. The body so far is dropped. */
void api_fail(struct api_call *call, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
void api_fail_err(struct api_call *call, const struct err *err);

/* Does the value match its schema? If not, the answer is 400, with the name and what is right. */
bool api_schema_check(struct api_call *call, struct text name, const char *schema,
                      const char *value);
/* RFC 3339, also with a blank for the '+' that was not escaped. */
bool api_time_read(const char *value, int64_t *out_ms) MUST_USE;

/* What this header Accept wants of the metrics; NULL: there is none. */
enum metric_format api_accept_metrics(const char *accept);

/*
 * Gives the answer its ETag. more: what the answer shows that does not follow the snapshot, without
 * quotes; or "".
 */
void api_tag(struct api_call *call, uint64_t generation, const char *more);
/*
 * What the agent of a node reported, as this answer shows it; release measured->is. With a tag,
 * api_tag_measured() comes first, and takes the place of api_tag().
 */
void api_tag_measured(struct api_call *call, uint64_t generation);
struct admin_measured api_measured(struct api_call *call, const struct node *node) MUST_USE;
/* Sets the headers about caching, and makes the answer 304 if the client has it already. */
void api_etag_answer(struct api_call *call);

/* NULL and a problem before the ledger is loaded. Release it with snapshot_unref(). */
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
    bool overflow; /* there are more than can be remembered */
    /* Writes members about the whole list; NULL: there are none. */
    void (*about)(struct json_writer *json, const void *user);
    const void *user;
};
/* Items up to call->after are skipped. */
void api_list_add(struct api_call *call, struct api_list *list, const char *key, const void *what,
                  const void *where);
/* Sorts, writes the page into the body, and frees the list. */
void api_list_write(struct api_call *call, struct api_list *list,
                    void (*encode)(struct json_writer *json, const struct api_item *item));
/* Writes the member "continue"; key NULL: there is no further page. */
void api_continue(struct json_writer *json, const char *key);
/* False: not a token of this server. *out lives in arena. */
bool api_token_read(const char *token, struct arena *arena, const char **out);

/* --- filters of lists --- */

/* The parameter model, as a request that names nothing but models; in the call's arena. */
struct model_filter {
    bool given;
    struct request models;
};
/* False and a problem if it cannot be read. */
bool api_model_filter(struct api_call *call, struct model_filter *out) MUST_USE;
bool api_model_taken(const struct model_filter *filter, const struct atom *model);
bool api_is_wanted(const char *filter, const char *value); /* filter NULL: all are */

struct drift_counts {
    uint32_t warnings;
    uint32_t information; /* drift_is_information() now */
    uint32_t warnings_of[DRIFT_KIND_COUNT];
    uint32_t information_of[DRIFT_KIND_COUNT];
};
void api_drift_count(const struct app *app, const struct snapshot *snapshot,
                     struct drift_counts *out);
/* "30 over, 2 absent"; nothing if there is none. */
void api_drift_put_kinds(struct strbuf *out, const uint32_t of[DRIFT_KIND_COUNT]);

/* The newest allocation of a pod in the history; 0 rows if it never held anything. */
int api_history_last(struct api_call *call, const char *namespace, const char *name,
                     struct history_row row[GPUS_PER_NODE_MAX], size_t *out_rows,
                     struct err *err) MUST_USE;
void api_allocations_released(struct api_call *call);

#define ROUTE(handler, method, path, parameters, status, type, schema, summary)                    \
    void handler(struct api_call *call);
#include "routes.def"

#endif
