/*
 * backtest - the recorded past of a ledger, replayed under other policies.
 *
 *   ledger file --> past --> the recorded result -------------\
 *                  (read       one run for each policy -------> table, list, JSON, CSV
 *                   once)
 *
 * Allocations at the beginning and adopted pods keep their recorded places. Every other pod goes
 * through the code that answers kube-scheduler, as in simulate.h: on arrival, and if it fits
 * nowhere, again whenever room becomes free, in the order of arrival. A waiting pod does not block
 * later ones. A placed pod runs as long as it ran in the past.
 *
 * Not in the journal, and therefore not considered: CPU and memory, labels, taints and affinity,
 * and pods that were never placed.
 *
 * One thread.
 */
#ifndef MILLIGPU_LAB_BACKTEST_H
#define MILLIGPU_LAB_BACKTEST_H

#include "milligpu/store/past/journal_file.h"

#include "lab/simulate/simulate.h"

enum {
    BACKTEST_PODS_MAX = 1000000,
    BACKTEST_AT_ONCE_MS = 5000, /* shorter waits count as none: creation times are whole seconds */
    BACKTEST_LISTED = 10,       /* pods in the list of differences */
};
static_assert((int)BACKTEST_PODS_MAX <= (int)WORKLOAD_COUNT_MAX, "its pods are a workload");

/* --- what is read --- */

enum past_role {
    PAST_HELD,    /* already placed at the beginning */
    PAST_ARRIVED, /* placed by milligpud */
    PAST_ADOPTED, /* bound by others */
};

/* Times are on the clock of struct past. */
struct past_pod {
    const char *name; /* NAMESPACE/NAME */
    enum past_role role;
    bool created_known; /* false: the creation is not recorded, so it arrives when it is placed */
    bool bound;
    bool dropped;       /* never ran, because its Binding failed */
    uint32_t shape;     /* index in world.shape; UINT32_MAX if not recorded */
    uint32_t milli;     /* including whole GPUs of the other resource */
    int64_t arrived_ms; /* not before the beginning */
    int64_t began_ms;
    int64_t ended_ms;                     /* INT64_MAX if still running when the ledger was read */
    uint64_t seq;                         /* number of its first journal entry */
    const struct allocation_facts *facts; /* recorded place */
};

enum past_kind { PAST_NODE, PAST_NODE_GONE, PAST_ARRIVES, PAST_BOUND, PAST_ENDS };

struct past_event {
    int64_t at_ms;
    uint64_t seq;
    enum past_kind kind;
    uint32_t pod;
    const struct inventory *inventory; /* for PAST_NODE */
    const char *node;                  /* for PAST_NODE_GONE */
    uint64_t capacity_milli;           /* of all nodes after a PAST_NODE or PAST_NODE_GONE */
};

/*
 * Times are on the clock of the newest entry: at each recorded step of the wall clock, earlier
 * times are shifted by that step. Time never goes back.
 */
struct past {
    struct arena arena;
    struct names *names; /* atoms of facts and builds */
    struct world world;  /* has only shapes */
    int64_t from_ms;
    int64_t to_ms;
    uint32_t n_nodes; /* number at the beginning; node is sorted by name */
    struct node_build *node;
    uint64_t capacity_milli; /* at the beginning */
    uint32_t n_pods;
    size_t pod_capacity;
    struct past_pod *pod; /* pods placed at the beginning, then others in the order of placement */
    uint32_t n_events;
    size_t event_capacity;
    struct past_event *event; /* sorted by time */
    /* numbers of pods, for the output */
    uint32_t held;
    uint32_t arrived;
    uint32_t adopted;
    uint32_t dropped;
    uint32_t unknown_arrivals; /* arrived pods without a recorded creation */
    int64_t set_ms;            /* sum of recorded clock steps */
    uint32_t unknown_ends;     /* arrived pods that still ran when the ledger was read */
};

struct past_span {
    int64_t from_ms; /* INT64_MIN for the oldest entry */
    int64_t to_ms;   /* INT64_MAX for the newest entry */
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
/* Reads the request of a command; false if it is absent or impossible for a pod. */
bool past_read_request(struct past *past, const struct document *command,
                       const struct allocation_facts *granted, struct request *out);
/* The milli of a pod, including whole GPUs of the other resource (limited to those of a node). */
uint32_t past_milli(const struct allocation *allocation);
/* The inventory that the Node object of this node would have. */
const struct inventory *past_inventory(struct past *past, const struct node_build *node) MUST_USE;
/* The milli of the node that can be granted. */
uint64_t past_capacity(const struct node_build *node);
/* Fills an empty ledger, which has its own names, with the state at the beginning. */
int past_restore(const struct past *past, struct ledger *ledger, struct err *err) MUST_USE;
enum { PAST_UID_BYTES = 24 };
/* A unique uid for this pod of the past. */
void past_uid(uint32_t pod, char out[PAST_UID_BYTES]);

/* --- one run --- */

/* An amount over time: milli x milliseconds. */
__extension__ typedef unsigned __int128 backtest_area;

struct backtest_placement {
    const char *node; /* NULL if never placed */
    const char *gpus; /* indexes, separated by | */
};

struct backtest_result {
    bool recorded; /* the recorded past instead of a policy */
    const struct policy_choice *policy;
    uint32_t at_once; /* arrived pods that were placed without a wait */
    uint32_t waited;
    uint32_t never;   /* pods that were never placed */
    uint64_t wait_ms; /* sum of waits; of pods that were never placed, to the end */
    backtest_area granted;
    backtest_area capacity;
    uint64_t peak;                        /* highest allocation, in ten-thousandths of a percent */
    uint32_t displaced;                   /* pods whose node was removed while they ran */
    int64_t *wait;                        /* for each pod of the past, in ms; < 0: never placed */
    struct backtest_placement *placement; /* for each pod; NULL if not requested */
    struct arena arena;
};

struct backtest_options {
    uint32_t seed;
    bool learn; /* the workload consists of the pods that have arrived so far */
    bool placements;
};

int backtest_run(const struct past *past, const struct policy_choice *policy,
                 const struct workload *workload, const struct backtest_options *options,
                 struct backtest_result *out, struct err *err) MUST_USE;
/* The result of the recorded past. */
void backtest_record(const struct past *past, struct backtest_result *out);
void backtest_result_done(struct backtest_result *result);

/* Present grants and capacity, which backtest_measure() integrates over time into the result. */
struct backtest_meter {
    int64_t now_ms;
    uint64_t granted_milli;
    uint64_t capacity_milli;
};
void backtest_measure(struct backtest_meter *meter, int64_t at_ms, struct backtest_result *out);
/* Counts the pod and its wait; the wait of a pod that was never placed (< 0) lasts to the end. */
void backtest_count(const struct past *past, uint32_t pod, int64_t placed_ms,
                    struct backtest_result *out);

/* --- what is shown --- */

struct backtest_report {
    const char *file;
    const struct past *past;
    const struct backtest_options *options;
    const struct workload *workload;
    uint32_t dropped; /* shapes left out of the workload */
    size_t n_results; /* number of results; the recorded one is the first */
    struct backtest_result *result;
};
int backtest_show(struct ctl *ctl, const struct backtest_report *report) MUST_USE;
/* Both write one line for each pod that arrived; stdio keeps write errors. */
void backtest_write_waits(FILE *out, const struct backtest_report *report);
void backtest_write_placements(FILE *out, const struct past *past,
                               const struct backtest_result *result);

/* The whole back-test; unwanted output files are NULL. */
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
