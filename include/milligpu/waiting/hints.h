/*
 * hints - what filter remembers between calls. Two locks; tables bounded in entries and in bytes.
 *
 *   waiting pod     a pod that asked and is not bound, as long as it lives:
 *
 *               refused --fits--> offered --a second without a bind--> late
 *                  ^  waits for room \                                /   waits for room, and for
 *                  \------------------ asks again -------------------/    a longer list
 *
 *             An offer's best place counts as taken in the ranking of others for two seconds.
 *   answer    the bytes of a refusal, sent again while nothing that matters has changed
 *
 * If a list was shorter than the set of fitting nodes and no bind followed, another plugin refused
 * those nodes, so the next list is four times longer. If a bind followed and failed, no plugin
 * refused the list, and nothing changes. In a large cluster kube-scheduler asks about a part of the
 * nodes, mostly a different one each time; where another pod is asked about in between, the same
 * part may come again. Until SAMPLES_COVER times as many nodes have been offered as exist, even a
 * list of all nodes in the question counts as too short.
 *
 * Hints change the order and the length of answers, never whether a node fits.
 *
 * No lost wake-up: filter records the refusal and then reads the capacity generation again; the
 * writer publishes and then checks the waiting pods. Whichever comes second sees the other's write.
 * If the table of waiting pods or of their requests is full, a pod that could not be recorded is
 * woken by any capacity that comes free.
 */
#ifndef MILLIGPU_HINTS_H
#define MILLIGPU_HINTS_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/answer/filter.h"
#include "milligpu/waiting/request_classes.h"
#include "milligpu/waiting/schedulers.h"

enum {
    WAITING_MAX = 16384,
    SHORTLIST_LIVE_MS = 2000,
    /* no bind for this long: another plugin has refused the list */
    SHORTLIST_LATE_MS = 1000,
    SHORTLIST_GROWTH = 4,
    /* with more fitting nodes kube-scheduler may evaluate only some of them, with fewer never */
    SAMPLE_MIN = 100,
    SAMPLES_COVER = 3,
    OFFERS_MAX = 1024,
    ANSWERS_MAX = 64, /* distinct refused questions */
    /* distinct requests that are tried when capacity comes free */
    REQUEST_CLASSES_TRIED_MAX = 64,
    /* search steps for all of these: some milliseconds of the writer's time */
    WAKE_STEPS_MAX = 1 << 20,
    UNHEARD_MAX_MS = 600000, /* kube-scheduler retries every pod within 330 s */
    RESOLVED_MAX = 2048,     /* how many pods that were bound or deleted are remembered */
    SLICE_MAX = 256,         /* waiting pods examined before the lock is released */
    /* an entry takes 600 bytes, or 900 with the longest names */
    WAITING_PODS_BYTES_MAX = 16 * 1024 * 1024,
    REFUSAL_BYTES_MAX = 64 * 1024, /* a longer question is not remembered */
    REFUSALS_BYTES_MAX = 2 * 1024 * 1024,
};

static_assert(WAITING_MAX % SLICE_MAX == 0, "slices come out even");

/* The watch's report of a pod; called under the lock. */
enum hints_pod { HINTS_POD_UNKNOWN, HINTS_POD_UNBOUND, HINTS_POD_BOUND };
typedef enum hints_pod hints_look(void *user, struct text uid);

struct hints;

struct hints *hints_new(void) MUST_USE;
void hints_free(struct hints *hints);

/*
 * From now on a pod that the watch reports as bound is not remembered: an autoscaler that would
 * like to remove a node asks about the pods on it. look NULL: no more. Before there are threads.
 */
void hints_look_with(struct hints *hints, void *user, hints_look *look);
/* Which schedulers ask; with a lock of its own. */
struct schedulers *hints_schedulers(const struct hints *hints);

/* The pod that asks, and its request. Everything is borrowed for the call. */
struct asking_pod {
    const char *uid;
    const char *namespace;
    const char *name;
    const struct request *request; /* NULL: the request itself is refused */
    int64_t now_ms;                /* monotonic */
    int64_t wall_ms;               /* UTC */
    bool again;                    /* the same question, evaluated again */
};

/* The maximum length of this pod's next list; 0: no limit. */
uint32_t hints_shortlist(struct hints *hints, struct text uid, uint32_t shortlist);
/* The offers to consider when this pod is ranked. */
uint32_t hints_offers(struct hints *hints, struct text uid, int64_t now_ms,
                      struct offer offer[OFFERS_MAX]);

/* A list that filter returns. */
struct shortlist {
    uint32_t nodes; /* of the cluster */
    /* nodes in the question; a single one means preemption, which uses no list */
    uint32_t names;
    uint32_t fitting;             /* how many of those fit */
    uint32_t listed;              /* how many of those are on the list */
    uint64_t capacity_generation; /* of the snapshot */
    const struct candidate *best; /* NULL: its node was built for this question */
};
void hints_shortlisted(struct hints *hints, const struct asking_pod *asking_pod,
                       const struct shortlist *offered);
void hints_refused(struct hints *hints, const struct asking_pod *asking_pod, enum reason reason,
                   const char *text);

/* A bind was requested: whatever its outcome, no other plugin refused the list. */
void hints_binding(struct hints *hints, struct text uid);
/* The pod has a reservation, so there is nothing to choose. */
void hints_fits(struct hints *hints, struct text uid);
/* The pod is bound or gone, permanently. */
void hints_resolved(struct hints *hints, struct text uid);

/*
 * Answers to refused questions, keyed by what they depend on: request, names and capacity. A full
 * cluster receives the same few questions again and again; the answer has the same bytes until the
 * capacity changes.
 */
struct refusal_key {
    const struct request *request;
    uint64_t names; /* digest, in the order of the names */
    uint64_t capacity_generation;
};
bool hints_answer_find(struct hints *hints, const struct refusal_key *key, struct strbuf *out,
                       struct cause *out_cause);
void hints_answer_keep(struct hints *hints, const struct refusal_key *key, struct text bytes,
                       struct cause cause);

/* --- which pods to wake --- */

/* Pods that were refused, and pods whose offer is late. */
size_t hints_waiting(struct hints *hints);
/* More pods wait than can be remembered, now or recently, or a request could not be stored. */
bool hints_overflow(struct hints *hints, int64_t now_ms);
/*
 * Does any waiting pod fit on one of these nodes, by the rules of this policy context? True when in
 * doubt: too many or too expensive distinct requests, or more waiting pods than can be remembered.
 * The searches run without the lock.
 */
bool hints_would_fit(struct hints *hints, const struct policy_context *context, int64_t now_ms,
                     const struct node *const *node, size_t nodes);
/*
 * Offers that have become late: true if kube-scheduler should be woken for one of them, because its
 * list did not contain all fitting nodes, or capacity came free after it. *out_node is then the
 * best place of one of them, a reference; NULL if that is not known.
 */
bool hints_late(struct hints *hints, int64_t now_ms, uint64_t capacity_generation,
                const struct atom **out_node);
/* ms until hints_late() has an offer to look at; 0: now. INT64_MAX: it has none. */
int64_t hints_late_in_ms(struct hints *hints, int64_t now_ms);

/* --- entries follow the life of their pods --- */

/*
 * Examines the next few entries: removes bound pods, and pods that are unknown although they asked
 * long ago.
 */
void hints_maintain(struct hints *hints, int64_t now_ms, void *user, hints_look *look);
/*
 * A list that was requested at this time is complete: removes pods that asked earlier and are not
 * in it.
 */
void hints_listed(struct hints *hints, int64_t asked_ms, void *user, hints_look *look);

/* --- for people --- */

struct waiting {
    const char *uid;
    const char *namespace;
    const char *name;
    /*
     * without container names and host; NULL: the request itself is refused, it was not stored
     * (unclassed), or hints_find() filled this
     */
    const struct request *request;
    bool unclassed;             /* there was no room to store the request */
    struct request_class *held; /* a reference to the request; NULL: none */
    const char *text;
    enum reason reason; /* NONE: it was offered nodes, see the next two */
    uint32_t offered;
    uint32_t fitting;
    int64_t since_ms; /* UTC */
    int64_t last_ms;  /* UTC */
    uint64_t n_asks;
};

/*
 * Lists the pods that hints_waiting() counts, a few per call: *place starts at 0; false at the end.
 * The lock is released in between: a pod that waits throughout is listed once, any other may be
 * missing or listed twice. The results are in arena; a key is "namespace/name/uid".
 */
struct waiting_names {
    size_t count;
    const char *uid[SLICE_MAX];
    const char *key[SLICE_MAX];
};
bool hints_names(struct hints *hints, size_t *place, struct arena *arena,
                 struct waiting_names *out);
/*
 * One waiting pod with its request, to be released with hints_let_go(); false: it no longer waits.
 */
bool hints_hold(struct hints *hints, struct text uid, struct arena *arena, struct waiting *out);
void hints_let_go(struct hints *hints, struct waiting *waiting);

/*
 * Visits the pods that hints_waiting() counts, without the lock while visit() runs. A pod that
 * waits throughout is visited once, any other may be missing or visited twice.
 */
struct waiting_brief {
    enum reason reason; /* NONE: it was offered nodes */
    int64_t since_ms;   /* UTC */
    /* borrowed for the call; NULL: the request itself is refused, or it was not stored */
    const struct request *request;
};
void hints_visit(struct hints *hints, void *user,
                 void (*visit)(void *user, const struct waiting_brief *is));

/* Was it refused or offered nodes, and no bind is in progress? */
bool hints_has_verdict(struct hints *hints, struct text uid);
/* Has this pod asked before, whatever the result? */
bool hints_has_asked(struct hints *hints, struct text uid);
/*
 * Pods that were refused or offered nodes (late or not) and have no bind in progress; without
 * requests.
 */
bool hints_find(struct hints *hints, struct text uid, struct arena *arena, struct waiting *out);

/* What the tables occupy in addition to their fixed size. */
struct hints_bytes {
    size_t waiting_pods;
    size_t request_classes;
    size_t refusals;
};
struct hints_bytes hints_bytes(struct hints *hints);

#endif
