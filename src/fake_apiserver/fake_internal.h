/*
 * fake_internal - types and functions shared by the files of the fake API server.
 *
 *   file --fake_file--> documents \
 *   request --fake_rest--> document --fake_shelf_put--> object (immutable, counted) --> event log
 *
 * An object is stored as its JSON; a write parses, changes and stores a new one. So a page of a
 * list, a watch event and the present state can share it.
 *
 * Invariants (under the lock):
 *   1. A shelf is sorted by (namespace, name).
 *   2. Every write has its own, growing resourceVersion.
 *   3. The log holds the writes after compacted, oldest first.
 */
#ifndef MILLIGPU_FAKE_APISERVER_FAKE_INTERNAL_H
#define MILLIGPU_FAKE_APISERVER_FAKE_INTERNAL_H

#include "milligpu/document/document.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/run/mutex.h"

enum resource_id { RES_NODES, RES_PODS, RES_CAPACITIES, RES_CONFIGMAPS, RES_EVENTS, RESOURCES };

struct resource {
    enum resource_id id;
    const char *prefix; /* "/api/v1" */
    const char *group_version;
    const char *plural;
    const char *kind;
    bool namespaced;
    bool status;     /* has a /status subresource */
    bool watched;    /* writes are logged */
    size_t kept_max; /* limit beyond which the oldest are dropped; 0: no limit */
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
    struct object *before; /* NULL for a creation */
    struct object *after;  /* for a deletion: the last state, with the version of the deletion */
};

enum { SNAPSHOTS_MAX = 8 };

/* Objects of the later pages of a list. */
struct list_snapshot {
    uint64_t id; /* 0 if free */
    uint64_t rv;
    struct shelf items;
};

struct fake_apiserver {
    struct mutex lock; /* guards everything below */
    /* signaled by every logged write, and by wake() of any ops */
    struct condvar news;
    char *name;
    uint64_t seed;
    /* number of uids generated; the next one is computed from it and seed */
    uint64_t uids;
    uint64_t rv;
    uint64_t compacted; /* watches from earlier versions get 410 */
    uint64_t n_snapshots;
    struct shelf shelf[RESOURCES];
    struct log_entry *log; /* a ring of FAKE_EVENTS_MAX */
    size_t log_first;
    size_t log_count;
    /* by list id, modulo SNAPSHOTS_MAX */
    struct list_snapshot snapshot[SNAPSHOTS_MAX];
    struct fake_apiserver_counts counts;
    int64_t (*wall_ms)(void *ctx);
    void *wall_ctx;
};

enum { TERMS_MAX = 8 };

enum field { FIELD_NAME, FIELD_NAMESPACE, FIELD_NODE, FIELD_PHASE, FIELD_SCHEDULER, FIELD_CORDON };

struct selector {
    unsigned n_terms;
    /* field and value must be equal, or must differ */
    struct term {
        enum field field;
        bool equal;
        const char *value;
    } term[TERMS_MAX];
};

enum verb { VERB_GET, VERB_POST, VERB_PATCH, VERB_DELETE, VERB_OTHER };

/* A parsed request; its strings live in the arena. */
struct ask {
    struct fake_apiserver *fake;
    struct arena *arena;
    struct strbuf *out;
    struct text body;
    enum verb verb;
    const struct resource *resource;
    const char *path;      /* without the query */
    const char *namespace; /* "": all namespaces, or a cluster-scoped resource */
    const char *name;      /* "": the collection */
    const char *sub;       /* "", "status", "binding" */
    struct selector selector;
    bool watch;
    bool bookmarks;
    int64_t limit;     /* items per page; 0: no limit */
    int64_t timeout_s; /* timeout of a watch; 0: not given */
    int64_t grace_s;   /* -1: not given */
    const char *rv;
    const char *continue_token;
};

/* fake_store.c */
const struct resource *fake_resource(enum resource_id id);
struct object *fake_shelf_find(struct fake_apiserver *fake, enum resource_id id,
                               const char *namespace, const char *name);
/* Sets the document's version and stores it in place of the old object. */
struct object *fake_shelf_put(struct fake_apiserver *fake, enum resource_id id,
                              struct document *document, struct arena *arena);
/* Same, for many new objects at once, in any order. */
void fake_shelf_fill(struct fake_apiserver *fake, enum resource_id id, struct document *const *docs,
                     size_t count, struct arena *arena);
/* Removes the object. Returns its last state, valid until the next write; NULL if not logged. */
struct object *fake_shelf_take(struct fake_apiserver *fake, enum resource_id id,
                               struct object *object, struct arena *arena);
const char *fake_uid(struct fake_apiserver *fake, struct arena *arena);
const char *fake_time(struct fake_apiserver *fake, struct arena *arena);
void fake_object_unref(struct object *object);
void fake_log_compact(struct fake_apiserver *fake, size_t left);
bool fake_selects(const struct selector *selector, const struct object *object);
void fake_snapshot_drop(struct list_snapshot *snapshot);

/* fake_status.c: replaces the answer by a Status; returns code. */
int fake_answer_status(struct ask *in, int code, const char *reason, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* fake_rest.c: both return an HTTP status; fake_ask_parse() returns 0 to continue. */
int fake_ask_parse(struct ask *in, const char *method, const char *path);
int fake_ask_answer(struct ask *in);

/* fake_watch.c */
struct watching {
    uint64_t rv; /* version up to which events were delivered */
    bool begun;
};
int fake_answer_list(struct ask *in);
/* Appends new events; false if the watch ends with an ERROR event, also appended. */
bool fake_watch_collect(const struct ask *in, struct watching *at, struct strbuf *out);
void fake_watch_bookmark(const struct ask *in, struct watching *at, struct strbuf *out);

/* fake_pod.c */
/*
 * Admission of a new pod: checks it and fills in defaults. Returns 0, or an HTTP status with the
 * reason in err.
 */
int fake_pod_admit(struct arena *arena, struct document *pod, struct err *err);
/* Sets missing requests to the limits; also for pods of a file. strict: checks the amounts. */
int fake_pod_fill_requests(struct arena *arena, struct document *pod, bool strict, struct err *err);
int fake_answer_binding(struct ask *in);
bool fake_name_valid(const char *name);
/* Checks the types of metadata and its maps. */
int fake_check_metadata(const struct document *object, struct err *err) MUST_USE;

#endif
