/*
 * waiting_pods - filter's memory between calls.
 *
 * Three locks: waiting pods, cached answers, schedulers. Tables bounded in entries and in bytes.
 *
 *   waiting pod  a pod that asked and is not bound, as long as it lives:
 *
 *               refused --fits--> offered --a second without a bind--> late
 *                  ^  waits for room \                                /   waits for room, and for
 *                  \------------------ asks again -------------------/    a longer list
 *
 *                An offer's best place counts as taken in the ranking of others until the pod has a
 *                reservation, for at most two seconds.
 *
 *   answer       the bytes of a refusal, sent again while nothing that matters has changed
 *
 * If a list was shorter than the set of fitting nodes and no bind followed, another plugin refused
 * those nodes, so the next list is four times longer. If a bind followed and failed, no plugin
 * refused the list, and nothing changes. In a large cluster kube-scheduler asks about a sample of
 * the nodes, usually a different one each time; the same sample may come again if it asked about
 * another pod in between. Even a list of all nodes in the question counts as too short until
 * SAMPLES_COVER times the number of existing nodes have been offered.
 *
 * The table changes the order and the length of answers, never whether a node fits.
 *
 * No lost wake-up: filter records the refusal and then reads the capacity generation again; the
 * writer publishes and then checks the waiting pods. The later of the two sees the other's write.
 * If the table of waiting pods or of their requests is full, any freed capacity wakes the pods that
 * could not be recorded.
 */
#ifndef MILLIGPU_WAITING_PODS_H
#define MILLIGPU_WAITING_PODS_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/answer/filter.h"
#include "milligpu/waiting/request_classes.h"
#include "milligpu/waiting/schedulers.h"

enum {
    WAITING_MAX = 16384,
    SHORTLIST_LIVE_MS = 2000,
    /* timeout for the bind: after it, another plugin has refused the list */
    SHORTLIST_LATE_MS = 1000,
    SHORTLIST_GROWTH = 4,
    /* minimum number of fitting nodes of which kube-scheduler evaluates only a sample */
    SAMPLE_MIN = 100,
    SAMPLES_COVER = 3,
    OFFERS_MAX = 1024,
    ANSWERS_MAX = 64, /* distinct refused questions */
    /* distinct requests tried when capacity is freed */
    REQUEST_CLASSES_TRIED_MAX = 64,
    /* search steps for all of these requests together: some milliseconds of the writer's time */
    WAKE_STEPS_MAX = 1 << 20,
    SILENT_MAX_MS = 600000, /* kube-scheduler retries every pod within 330 s */
    RESOLVED_MAX = 2048,    /* bound or deleted pods that are remembered */
    SLICE_MAX = 256,        /* waiting pods examined before the lock is released */
    /* an entry takes 600 bytes, or 900 with the longest names */
    WAITING_PODS_BYTES_MAX = 16 * 1024 * 1024,
    REFUSAL_BYTES_MAX = 64 * 1024, /* of one answer; a longer one is not cached */
    REFUSALS_BYTES_MAX = 2 * 1024 * 1024,
};

static_assert(WAITING_MAX % SLICE_MAX == 0, "slices come out even");

/* The watch's report of a pod; called under the lock. */
enum watched_pod { WATCHED_POD_UNKNOWN, WATCHED_POD_UNBOUND, WATCHED_POD_BOUND };
typedef enum watched_pod waiting_pods_look(void *user, struct text uid);

struct waiting_pods;

struct waiting_pods *waiting_pods_new(void) MUST_USE;
void waiting_pods_free(struct waiting_pods *waiting_pods);

/*
 * Sets the function that identifies bound pods, which are then not remembered: an autoscaler that
 * considers removing a node asks about its pods. look NULL: none. Call before threads start, or
 * with NULL after they have ended.
 */
void waiting_pods_set_look(struct waiting_pods *waiting_pods, void *user, waiting_pods_look *look);
/* The table of schedulers; has a lock of its own. Valid while hints lives. */
struct schedulers *waiting_pods_schedulers(const struct waiting_pods *waiting_pods);

/* The pod in a filter call, and its request. Everything is borrowed for the call. */
struct asking_pod {
    const char *uid;
    const char *namespace;
    const char *name;
    const struct request *request; /* NULL: the request itself is refused */
    int64_t now_ms;                /* monotonic */
    int64_t wall_ms;               /* UTC */
    bool again;                    /* the same call, evaluated again */
};

/* The maximum length of this pod's next list; 0: no limit. */
uint32_t waiting_pods_shortlist(struct waiting_pods *waiting_pods, struct text uid,
                                uint32_t shortlist);
/*
 * Copies the offers of other pods, for ranking this pod. Returns the count. Call it before the
 * snapshot is taken: an offer that ends in between is then counted, beside its reservation, instead
 * of missed.
 */
uint32_t waiting_pods_offers(struct waiting_pods *waiting_pods, struct text uid, int64_t now_ms,
                             struct offer offer[OFFERS_MAX]);

/* A list that filter returns. */
struct shortlist {
    uint32_t nodes; /* number of nodes of the cluster */
    /* number of nodes in the question; 1 means preemption, which uses no list */
    uint32_t names;
    uint32_t fitting;             /* number of nodes in the question that fit */
    uint32_t listed;              /* number of fitting nodes on the list */
    uint64_t capacity_generation; /* that of the snapshot */
    const struct candidate *best; /* borrowed; NULL: its node was built for this question */
};
void waiting_pods_shortlisted(struct waiting_pods *waiting_pods,
                              const struct asking_pod *asking_pod, const struct shortlist *offered);
void waiting_pods_refused(struct waiting_pods *waiting_pods, const struct asking_pod *asking_pod,
                          enum reason reason, const char *text);

/* Notes a bind call: whatever its outcome, no other plugin refused the list. */
void waiting_pods_binding(struct waiting_pods *waiting_pods, struct text uid);
/*
 * Notes that the pod has a reservation, so it does not wait, and its offer ends. Call it after the
 * publication of the reservation, so that its place counts as taken all the time.
 */
void waiting_pods_fits(struct waiting_pods *waiting_pods, struct text uid);
/* Notes that the pod is bound or deleted, permanently. */
void waiting_pods_resolved(struct waiting_pods *waiting_pods, struct text uid);

/*
 * Cached refusals, keyed by everything that they depend on: request, node names and capacity. A
 * full cluster receives the same few questions again and again; the answer has the same bytes until
 * the capacity changes.
 */
struct refusal_key {
    const struct request *request; /* borrowed */
    uint64_t names;                /* digest of the node names, in their order */
    uint64_t capacity_generation;
};
bool waiting_pods_find_refusal(struct waiting_pods *waiting_pods, const struct refusal_key *key,
                               struct strbuf *out, struct cause *out_cause);
void waiting_pods_keep_refusal(struct waiting_pods *waiting_pods, const struct refusal_key *key,
                               struct text bytes, struct cause cause);

/* --- which pods to wake --- */

/* Number of pods that were refused or whose offer is late. */
size_t waiting_pods_count(struct waiting_pods *waiting_pods);
/* A table was full recently: a waiting pod or its request could not be stored. */
bool waiting_pods_overflowed(struct waiting_pods *waiting_pods, int64_t now_ms);
/*
 * Does any waiting pod fit on one of these nodes, by the rules of this policy context? Also true
 * for too many or too expensive distinct requests, and after an overflow. The searches run without
 * the lock.
 */
bool waiting_pods_would_fit(struct waiting_pods *waiting_pods, const struct policy_context *context,
                            int64_t now_ms, const struct node *const *node, size_t nodes);
/*
 * Marks offers that have become late. True: wake kube-scheduler, because the list of one of them
 * did not contain all fitting nodes, or capacity was freed after it. *out_node: a reference to the
 * name of the best node of one of these offers; NULL: not known.
 */
bool waiting_pods_mark_late(struct waiting_pods *waiting_pods, int64_t now_ms,
                            uint64_t capacity_generation, const struct atom **out_node);
/*
 * Time in ms until waiting_pods_mark_late() is due, 0 if now; INT64_MAX: no offer can become late.
 */
int64_t waiting_pods_late_in_ms(struct waiting_pods *waiting_pods, int64_t now_ms);

/* --- entries follow the life of their pods --- */

/*
 * Examines the next SLICE_MAX entries: removes bound pods, and unknown pods that asked more than
 * SILENT_MAX_MS ago.
 */
void waiting_pods_maintain(struct waiting_pods *waiting_pods, int64_t now_ms, void *user,
                           waiting_pods_look *look);
/*
 * Called after a complete list of pods that was requested at asked_ms (monotonic): removes bound
 * pods, and pods that asked earlier and are not in the list.
 */
void waiting_pods_listed(struct waiting_pods *waiting_pods, int64_t asked_ms, void *user,
                         waiting_pods_look *look);

/* --- for people --- */

struct waiting {
    const char *uid;
    const char *namespace;
    const char *name;
    /*
     * borrowed from held, without container names and host; NULL: the request itself is refused,
     * it was not stored (unclassed), or waiting_pods_find() filled this struct
     */
    const struct request *request;
    bool unclassed;                      /* the table of requests had no room for the request */
    struct request_class *request_class; /* a reference; NULL: none */
    const char *text;                    /* refusal or state of the offer, for people */
    enum reason reason;                  /* NONE: the pod was offered nodes */
    uint32_t offered;                    /* number of listed nodes; 0: refused */
    uint32_t fitting;                    /* number of fitting nodes; 0: refused */
    int64_t since_ms;                    /* UTC time of the first filter call */
    int64_t last_ms;                     /* UTC time of the last one */
    uint64_t n_asks;                     /* number of filter calls */
};

/*
 * Lists the pods that waiting_pods_count() counts, up to SLICE_MAX per call: *place starts at 0;
 * false at the end. The lock is released between calls: a pod that waits throughout is listed once,
 * any other may be missing or listed twice. The results are in arena; a key is
 * "namespace/name/uid".
 */
struct waiting_names {
    size_t count;
    const char *uid[SLICE_MAX];
    const char *key[SLICE_MAX];
};
bool waiting_pods_names(struct waiting_pods *waiting_pods, size_t *place, struct arena *arena,
                        struct waiting_names *out);
/* A waiting pod with its request, for waiting_pods_let_go(); false: the pod does not wait. */
bool waiting_pods_hold(struct waiting_pods *waiting_pods, struct text uid, struct arena *arena,
                       struct waiting *out);
void waiting_pods_let_go(struct waiting_pods *waiting_pods, struct waiting *waiting);

/*
 * Visits the pods that waiting_pods_count() counts, without the lock while visit() runs. A pod that
 * waits throughout is visited once, any other may be missing or visited twice.
 */
struct waiting_brief {
    enum reason reason; /* NONE: the pod was offered nodes */
    int64_t since_ms;   /* UTC time of the first filter call */
    /* borrowed for the call; NULL: the request itself is refused, or was not stored */
    const struct request *request;
};
void waiting_pods_visit(struct waiting_pods *waiting_pods, void *user,
                        void (*visit)(void *user, const struct waiting_brief *brief));

/* Was the pod refused or offered nodes (late or not), with no bind in progress? */
bool waiting_pods_has_verdict(struct waiting_pods *waiting_pods, struct text uid);
/* Has filter been called for this pod, whatever the result? */
bool waiting_pods_has_asked(struct waiting_pods *waiting_pods, struct text uid);
/* Finds a pod for which waiting_pods_has_verdict() is true; without its request. */
bool waiting_pods_find(struct waiting_pods *waiting_pods, struct text uid, struct arena *arena,
                       struct waiting *out);

/* Size in bytes of each table beyond its fixed size. */
struct waiting_pods_bytes {
    size_t waiting_pods;
    size_t request_classes;
    size_t refusals;
};
struct waiting_pods_bytes waiting_pods_bytes(struct waiting_pods *waiting_pods);

#endif
