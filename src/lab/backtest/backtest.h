/*
 * backtest - the past that a ledger recorded, played again under other policies.
 *
 *   ledger file --> past --> recorded: what came of it then --\
 *                  (read       one run for each policy -------> table, list, JSON, CSV
 *                   once)
 *
 * What stands at the beginning stands where it stood, and what others bound goes where they bound
 * it. Every other pod goes through the code that answers kube-scheduler, as in simulate.h: when it
 * arrives, and if it fits nowhere, again whenever room comes free, in the order of arrival. A pod
 * that waits does not hold up those behind it. It then runs as long as it ran.
 *
 * What the journal of a ledger does not tell is not known here: CPU and memory, labels, taints and
 * affinity, and pods that never got a place.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_BACKTEST_H
#define MILLIGPU_CTL_BACKTEST_H

#include "milligpu/store/past/journal_file.h"

#include "lab/simulate/simulate.h"

enum {
    BACKTEST_PODS_MAX = 1000000,
    BACKTEST_AT_ONCE_MS = 5000, /* a shorter wait is none: creation times have whole seconds */
    BACKTEST_LISTED = 10,       /* pods in the list of differences */
};
static_assert((int)BACKTEST_PODS_MAX <= (int)WORKLOAD_COUNT_MAX, "its pods are a workload");

/* --- what is read --- */

enum past_role {
    PAST_HELD,    /* stands at the beginning */
    PAST_ARRIVED, /* milligpud chose its place */
    PAST_ADOPTED, /* others bound it */
};

struct past_pod {
    const char *name; /* NAMESPACE/NAME */
    enum past_role role;
    bool created_known; /* else it arrives when it got its place */
    bool bound;
    bool dropped;       /* never ran: its Binding failed */
    uint32_t shape;     /* of the world; UINT32_MAX: none is recorded */
    uint32_t milli;     /* whole GPUs of the other resource, too */
    int64_t arrived_ms; /* times are on one clock, see below; not before the beginning */
    int64_t began_ms;
    int64_t ended_ms;                     /* INT64_MAX: it still ran when the ledger was read */
    uint64_t seq;                         /* of the journal entry with which it began */
    const struct allocation_facts *facts; /* where it was */
};

enum past_kind { PAST_NODE, PAST_NODE_GONE, PAST_ARRIVES, PAST_BOUND, PAST_ENDS };

struct past_event {
    int64_t at_ms;
    uint64_t seq;
    enum past_kind kind;
    uint32_t pod;
    const struct inventory *inventory; /* NODE */
    const char *node;                  /* NODE_GONE */
    uint64_t capacity_milli;           /* NODE, NODE_GONE: of all nodes from now on */
};

/*
 * Times are those of the newest entry's clock: where the journal says that the wall clock was set,
 * the times before are moved by as much, and time never goes back.
 */
struct past {
    struct arena arena;
    struct names *names; /* of the facts and builds */
    struct world world;  /* its shapes */
    int64_t from_ms;
    int64_t to_ms;
    uint32_t nodes; /* at the beginning, ascending by name */
    struct node_build *node;
    uint64_t capacity_milli; /* at the beginning */
    uint32_t pods;
    size_t pod_capacity;
    struct past_pod *pod; /* those that stand at the beginning first, then as they began */
    uint32_t events;
    size_t event_capacity;
    struct past_event *event; /* in order of time */
    /* for people */
    uint32_t held;
    uint32_t arrived;
    uint32_t adopted;
    uint32_t dropped;
    uint32_t unknown_arrivals; /* of arrived: when they were created is not recorded */
    int64_t set_ms;            /* by how much the journal says that the clock was set */
    uint32_t unknown_ends;     /* of arrived: they still ran when the ledger was read */
};

struct past_span {
    int64_t from_ms; /* INT64_MIN: from the oldest entry */
    int64_t to_ms;   /* INT64_MAX: to the newest */
};

int past_read(struct past *past, const char *file, const struct past_span *span,
              struct err *err) MUST_USE;
void past_init(struct past *past);
void past_done(struct past *past);

/* --- states of the journal: JSON back into facts, in the arena, with atoms of names --- */

int past_read_node(struct past *past, const struct document *state, struct node_build *out,
                   struct err *err) MUST_USE;
int past_read_allocation(struct past *past, const struct document *state,
                         struct allocation_facts *out, struct err *err) MUST_USE;
/* What a command asked for. False: it does not say, or nothing that any pod can ask for. */
bool past_read_request(struct past *past, const struct document *command,
                       const struct allocation_facts *granted, struct request *out);
/* What a pod holds, in whole GPUs of the other resource (as many as a node has), too. */
uint32_t past_milli(const struct allocation *allocation);
/* The same node as a Node object shows it. */
const struct inventory *past_inventory(struct past *past, const struct node_build *node) MUST_USE;
/* What is there to be granted. */
uint64_t past_capacity(const struct node_build *node);
/* Into an empty ledger, which has names of its own. */
int past_restore(const struct past *past, struct ledger *ledger, struct err *err) MUST_USE;
enum { PAST_UID_BYTES = 24 };
/* A uid that no other pod of the past has. */
void past_uid(uint32_t pod, char out[PAST_UID_BYTES]);

/* --- one run --- */

/* An amount over time: milli x milliseconds. */
__extension__ typedef unsigned __int128 backtest_area;

struct backtest_placement {
    const char *node; /* NULL: never placed */
    const char *gpus; /* indexes, with | between them */
};

struct backtest_result {
    bool recorded; /* as it was; else of policy */
    const struct policy_choice *policy;
    uint32_t at_once; /* of the pods that arrived */
    uint32_t waited;
    uint32_t never;   /* did not get a place to the end */
    uint64_t wait_ms; /* of those that waited, and of those that never got a place, to the end */
    backtest_area granted;
    backtest_area capacity;
    uint64_t peak;                        /* ten-thousandths of a percent */
    uint32_t displaced;                   /* pods on nodes that went away under them */
    int64_t *wait;                        /* of each pod of the past, in ms; < 0: never placed */
    struct backtest_placement *placement; /* of each pod; NULL: not wanted */
    struct arena arena;
};

struct backtest_options {
    uint32_t seed;
    bool learn; /* the workload is what has arrived so far */
    bool placements;
};

int backtest_run(const struct past *past, const struct policy_choice *policy,
                 const struct workload *workload, const struct backtest_options *options,
                 struct backtest_result *out, struct err *err) MUST_USE;
/* What came of it then. */
void backtest_record(const struct past *past, struct backtest_result *out);
void backtest_result_done(struct backtest_result *result);

/* What is granted now, and what could be. Measuring adds both to the result, up to a time. */
struct backtest_meter {
    int64_t now_ms;
    uint64_t granted_milli;
    uint64_t capacity_milli;
};
void backtest_measure(struct backtest_meter *meter, int64_t at_ms, struct backtest_result *out);
/* Counts the pod, and what it waited: to the end, if it was never placed. */
void backtest_count(const struct past *past, uint32_t pod, int64_t placed_ms,
                    struct backtest_result *out);

/* --- what is shown --- */

struct backtest_report {
    const char *file;
    const struct past *past;
    const struct backtest_options *options;
    const struct workload *workload;
    uint32_t dropped; /* shapes */
    size_t results;   /* the recorded one first */
    struct backtest_result *result;
};
int backtest_show(struct ctl *ctl, const struct backtest_report *report) MUST_USE;
/* Write errors are kept by stdio, as in the next one. One line for each pod that arrived. */
void backtest_write_waits(FILE *out, const struct backtest_report *report);
void backtest_write_placements(FILE *out, const struct past *past,
                               const struct backtest_result *result);

/* All of it. Files of which none is wanted are NULL. */
struct backtest_call {
    const char *file;
    struct past_span span;
    const struct policy_choices *policies;
    struct backtest_options options;
    FILE *placements;
    FILE *csv;
};
int backtest(struct ctl *ctl, const struct backtest_call *call) MUST_USE;

#endif
