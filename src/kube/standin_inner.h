/*
 * standin_inner - what the parts of the stand-in share.
 *
 *   file --standin_file--> docs \
 *   request --standin_rest--> doc --shelf_put--> object (immutable, counted) --> event log
 *
 * Objects are kept as their JSON; a write parses, changes and stores a new one.  So a page of a
 * list, a watch event and the present may share it.
 *
 * Invariants (under the lock):
 *   1. A shelf is sorted by (namespace, name).
 *   2. Every write has a resourceVersion of its own, and they grow.
 *   3. The log holds the writes after compacted, oldest first.
 */
#ifndef MILLIGPU_KUBE_STANDIN_INNER_H
#define MILLIGPU_KUBE_STANDIN_INNER_H

#include <pthread.h>

#include "milligpu/standin.h"

#include "kube/doc.h"

enum resource_id { RES_NODES, RES_PODS, RES_CAPACITIES, RES_EVENTS, RESOURCES };

struct resource {
    enum resource_id id;
    const char *prefix; /* "/api/v1" */
    const char *group_version;
    const char *plural;
    const char *kind;
    bool namespaced;
    bool status;     /* has /status */
    bool watched;    /* its writes are logged */
    size_t kept_max; /* the oldest go; 0: all are kept */
};

struct object {
    unsigned refs;
    uint64_t rv;
    struct text text;
    const char *namespace;
    const char *name;
    const char *uid;
    const char *node;
    const char *phase;
    const char *scheduler;
    bool unschedulable;
    char bytes[];
};

struct shelf {
    struct object **item;
    size_t count;
    size_t capacity;
};

struct log_entry {
    enum resource_id resource;
    bool deleted;
    struct object *before; /* NULL: it is new */
    struct object *after;  /* of a deletion: the last state, with the version of the deletion */
};

enum { SNAPSHOTS_MAX = 8 };

/* What the later pages of a list are cut from. */
struct snapshot {
    uint64_t id; /* 0: free */
    uint64_t rv;
    struct shelf items;
};

struct standin {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t news;
    char *name;
    uint64_t seed;
    uint64_t uids;
    uint64_t rv;
    uint64_t compacted; /* watches from before get 410 */
    uint64_t snapshots;
    struct shelf shelf[RESOURCES];
    struct log_entry *log; /* a ring of STANDIN_EVENTS_MAX */
    size_t log_first;
    size_t log_count;
    struct snapshot snapshot[SNAPSHOTS_MAX];
    struct standin_counts counts;
    int64_t (*wall_ms)(void *ctx);
    void *wall_ctx;
};

enum { TERMS_MAX = 8 };

enum field { FIELD_NAME, FIELD_NAMESPACE, FIELD_NODE, FIELD_PHASE, FIELD_SCHEDULER, FIELD_CORDON };

struct selector {
    unsigned terms;
    struct term {
        enum field field;
        bool equal;
        const char *value;
    } term[TERMS_MAX];
};

enum verb { VERB_GET, VERB_POST, VERB_PATCH, VERB_DELETE, VERB_OTHER };

/* A request, taken apart; strings live in the arena. */
struct ask {
    struct standin *standin;
    struct arena *arena;
    struct strbuf *out;
    struct text body;
    enum verb verb;
    const struct resource *resource;
    const char *path;      /* without query */
    const char *namespace; /* "": all, or it has none */
    const char *name;      /* "": the collection */
    const char *sub;       /* "", "status", "binding" */
    struct selector selector;
    bool watch;
    bool bookmarks;
    int64_t limit;
    int64_t timeout_s;
    int64_t grace_s; /* -1: not said */
    const char *rv;
    const char *continue_token;
};

/* standin_store.c */
const struct resource *standin_resource(enum resource_id id);
struct object *standin_shelf_find(struct standin *standin, enum resource_id id,
                                  const char *namespace, const char *name);
/* Gives doc its version, stores it in the place of the old one. */
struct object *standin_shelf_put(struct standin *standin, enum resource_id id, struct doc *doc,
                                 struct arena *arena);
/* The same for many at once, in any order. */
void standin_shelf_fill(struct standin *standin, enum resource_id id, struct doc *const *docs,
                        size_t count, struct arena *arena);
/* Returns the last state; valid until the next write. */
struct object *standin_shelf_take(struct standin *standin, enum resource_id id,
                                  struct object *object, struct arena *arena);
const char *standin_uid(struct standin *standin, struct arena *arena);
const char *standin_time(struct standin *standin, struct arena *arena);
void standin_object_unref(struct object *object);
void standin_log_compact(struct standin *standin, size_t left);
bool standin_selects(const struct selector *selector, const struct object *object);
void standin_snapshot_drop(struct snapshot *snapshot);

/* standin_rest.c: both return an HTTP status; 0 from standin_ask_parse: go on. */
int standin_ask_parse(struct ask *in, const char *method, const char *path);
int standin_ask_answer(struct ask *in);
int standin_answer_status(struct ask *in, int code, const char *reason, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* standin_watch.c */
struct watching {
    uint64_t rv; /* what was given last */
    bool begun;
};
int standin_answer_list(struct ask *in);
/* Appends what came since; false if the watch ends with an ERROR that was appended. */
bool standin_watch_collect(const struct ask *in, struct watching *at, struct strbuf *out);
void standin_watch_bookmark(const struct ask *in, struct watching *at, struct strbuf *out);

/* standin_pod.c */
/*
 * What the API server does to a new pod, or why it refuses: an HTTP status and the reason in err;
 * else 0.
 */
int standin_pod_admit(struct arena *arena, struct doc *pod, struct err *err);
/* limits become requests; also for pods of a file. */
int standin_pod_fill_requests(struct arena *arena, struct doc *pod, bool strict, struct err *err);
void standin_pod_set_scheduled(struct arena *arena, struct doc *pod, const char *now);
int standin_answer_binding(struct ask *in);
bool standin_name_valid(const char *name);
/* metadata and its maps have the right types. */
int standin_check_metadata(const struct doc *object, struct err *err) MUST_USE;

#endif
