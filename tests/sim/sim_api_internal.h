/*
 * sim_api_internal - what the parts of sim_api share.
 *
 *   start() -> call --arrive_ms--> effect at the fake API server --> parcels, each with its time
 *              call, a watch ------> lines as they happen --> parcels, in order
 *   a parcel whose time has come --> ready list of its handle --> poll()
 *
 * sim_api.c: requests and what goes wrong with them; sim_api_stream.c: watches; sim_api_calls.c:
 * calls, parcels, and the agenda, a heap of all calls by the time of their next event. Times are
 * virtual; SIM_NEVER is none.
 *
 * Invariants:
 *   1. A call without a listener (handle NULL) has no parcels: it exists only for an effect that is
 *      still to come.
 *   2. The parcels of a call are due in their order.
 *   3. An open watch has been given everything up to the fake API server's version, as parcels.
 */
#ifndef MILLIGPU_TESTS_SIM_API_INTERNAL_H
#define MILLIGPU_TESTS_SIM_API_INTERNAL_H

#include "milligpu/base/arena.h"
#include "milligpu/kube/kube.h"

#include "sim_api.h"

#define SIM_NEVER INT64_MAX

/* The resources that can be listed and watched. */
struct sim_resource {
    const char *plural;
    const char *kind;
    const char *api_version;
    const char *all; /* the path of the whole collection */
    unsigned bit;
};

/* One call of deliver, on its way. */
struct parcel {
    struct parcel *next;
    uint64_t id;
    int64_t due_ms;
    enum kube_piece piece;
    int status;
    int64_t retry_after_s;
    bool unsent;
    enum err_code trouble; /* of a FAILED */
    const char *why;
    const struct sim_resource *told; /* its news is complete up to version; or NULL */
    uint64_t version;
    size_t len;
    char bytes[];
};

struct parcels {
    struct parcel *first;
    struct parcel *last;
};

struct handle {
    struct handle *next;
    struct sim_api *api;
    bool gone; /* the process that had it */
    struct parcels ready;
    struct parcel *given; /* inside deliver now */
    unsigned watched;     /* bits of the resources for which a watch was ever requested */
};

struct stream {
    const struct sim_resource *resource;
    bool open;
    bool whole;       /* of all namespaces: what it delivers is the whole resource */
    bool bookmarks;   /* are wanted */
    bool silent;      /* half open */
    bool cut;         /* the next line is */
    bool torn;        /* lines come in pieces */
    uint64_t asked;   /* resourceVersion after which it was to begin */
    uint64_t version; /* everything up to this version was put on its way */
    int64_t held_ms;  /* no line arrives earlier */
    int64_t bookmark_ms;
    int64_t end_ms;
    int64_t fault_ms;
};

struct call {
    struct call *next;
    struct call *prev;
    struct handle *handle; /* NULL: nobody listens any more */
    uint64_t id;
    uint64_t serial; /* in the order of start() */
    const char *method;
    const char *path;
    struct text body;
    enum sim_fault fault; /* SIM_FAULTS: none */
    int64_t arrive_ms;    /* SIM_NEVER: it has taken effect */
    bool later;           /* an effect more than a minute late, even after faults end */
    int64_t deadline_ms;
    int64_t silence_ms; /* 0: does not matter */
    int64_t heard_ms;
    int64_t last_ms; /* when the last parcel so far is due */
    int status;
    int64_t retry_after_s;
    struct parcels way;
    bool over; /* its last parcel is on its way */
    bool watch;
    struct stream stream;
    size_t agenda_at;
    int64_t due_ms; /* the agenda's sort key */
    char bytes[];   /* method, path, body */
};

struct sim_api {
    struct sim_api_rules rules;
    uint64_t random;
    int64_t now_ms;
    int64_t away_ms; /* an outage until then */
    uint64_t serial;
    uint64_t version; /* the fake API server's version when the watches were last served */
    bool stepping;
    bool woken;
    struct handle *handles;
    struct call *requests; /* oldest first, like the watches */
    struct call *requests_end;
    struct call *watches;
    struct call *watches_end;
    struct call **agenda;
    size_t agenda_count;
    size_t agenda_capacity;
    struct arena arena;
    struct strbuf answer; /* of the current request */
    struct strbuf lines;  /* of the current watch */
    struct strbuf path;
    uint64_t met[SIM_FAULTS];
    int64_t felt_ms; /* when a caller last timed out */
};

/* ---- sim_api_calls.c ---- */

/* 0 <= result < bound */
int64_t sim_below(struct sim_api *api, int64_t bound);
bool sim_chance(struct sim_api *api, uint32_t per_mille);
/* The way there or back, in a good network. */
int64_t sim_way_ms(struct sim_api *api);
/* Does nothing if nobody is there to receive it. */
void sim_meet(struct sim_api *api, const struct call *call, enum sim_fault fault);

struct call *sim_call_new(struct sim_api *api, struct handle *handle,
                          const struct kube_request *request);
/*
 * After any change: it is freed if nothing more will come of it, otherwise it gets its place in the
 * agenda.
 */
void sim_call_finish(struct sim_api *api, struct call *call);
/* Nobody listens any more. Does not update the agenda. */
void sim_call_deafen(struct call *call);
void sim_call_free(struct sim_api *api, struct call *call);
/* Delivers due parcels to the handle; a last parcel ends the call for its client. */
void sim_call_hand_over(struct sim_api *api, struct call *call);

/* Put on its way; due at due_ms, or right after the parcel before it. */
struct parcel *sim_send(struct call *call, enum kube_piece piece, struct text data, int64_t due_ms);
/* DATA in one piece or in many; returns the last one. */
struct parcel *sim_send_bytes(struct sim_api *api, struct call *call, struct text data,
                              int64_t due_ms, bool torn);
void sim_send_failure(struct call *call, enum err_code code, const char *why, int64_t due_ms);
/* Due now, in place of everything still on its way. */
void sim_fail(struct sim_api *api, struct call *call, enum err_code code, const char *why,
              bool unsent);
void sim_parcels_add(struct parcels *list, struct parcel *parcel);
struct parcel *sim_parcels_take(struct parcels *list); /* the first, or NULL */
void sim_parcels_drop(struct parcels *list);

/* ---- sim_api.c ---- */

/* The value of a query parameter, up to the '&' behind it; NULL: there is none. */
const char *sim_parameter(const char *path, const char *name);
/* NULL: none of them. */
const struct sim_resource *sim_resource_of(const char *path);
bool sim_is_whole(const struct sim_resource *resource, const char *path);
/* A whole answer: head, body, end. */
void sim_reply(struct sim_api *api, struct call *call, int status, struct text body);

/* ---- sim_api_stream.c ---- */

void sim_stream_begin(struct sim_api *api, struct call *call);
void sim_stream_step(struct sim_api *api, struct call *call);
/* An object below path was written: tell the watches. */
void sim_stream_spread(struct sim_api *api, const char *path);
/* Releases what faults hold back. */
void sim_stream_release(struct sim_api *api, struct call *call);
/* When its next fault comes, at the current rate of faults. */
void sim_stream_plan_fault(struct sim_api *api, struct call *call);
/* Everything was delivered, and it goes on. */
bool sim_stream_is_idle(const struct call *call);
int64_t sim_stream_due(const struct call *call);

#endif
