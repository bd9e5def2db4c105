/*
 * simulate - what the parts of the command simulate share.
 *
 *   nodes, or a cluster --\                           /-- placements, curve, plot
 *                          >-- world --> one run ---<
 *   arrivals, or a         /  (read once)  for each  \-- result --> tables, JSON
 *   manifest -------------/                 policy
 *
 * A pod goes through the code that answers kube-scheduler: filter_ask() on a snapshot chooses the
 * node, and a RESERVE of the ledger chooses the GPUs. kube-scheduler's own filter for CPU and
 * memory comes first: only nodes with enough of both are asked about. A pod that fits nowhere when
 * it arrives is gone. With --learn the policies know of the workload what has arrived so far.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_SIMULATE_H
#define MILLIGPU_CTL_SIMULATE_H

#include <stdio.h>

#include "milligpu/base/arena.h"
#include "milligpu/base/err.h"
#include "milligpu/base/map.h"
#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/rank/policy.h"

#include "ctl/policies.h"
#include "lab/cluster/reasons.h"

struct ctl;
struct document;
struct filter_answer;
struct filter_question;
struct ledger;
struct node;
struct snapshot;
struct table;

enum {
    SIMULATE_AMOUNT_MAX = 1000000000, /* CPU in milli, memory in MiB */
    SIMULATE_ARRIVALS_MAX = 10000000,
    SIMULATE_ROUNDS = 1000, /* of a manifest's pods, if nothing else is said */
    SIMULATE_EVENTS_MAX = 100000000,
    SIMULATE_LATENCY_STEPS = 16, /* of each doubling */
    SIMULATE_LATENCIES = 64 * SIMULATE_LATENCY_STEPS,
    SIMULATE_LAST = 1000, /* decisions: those in a cluster that is nearly full */
};

/* As milligpud has them if no setting says otherwise. */
#define SIMULATE_RESOURCE       "nvidia.com/vgpu"
#define SIMULATE_WHOLE_RESOURCE "nvidia.com/gpu"
/* Of pods whose file does not say one. */
#define SIMULATE_NAMESPACE "simulate"

/* --- what is read --- */

struct world_node {
    const char *name;
    uint32_t hash;    /* text_hash() of the name */
    struct host host; /* what is there for the pods that arrive */
    const struct inventory *inventory;
    enum vouch vouch; /* does its agent vouch for it? */
};

/* Pods that ask for the same. */
struct world_shape {
    struct request request; /* of no want, or of one */
    struct want want;
    uint32_t count;        /* of arrivals */
    const char *text;      /* for people */
    const char *namespace; /* for the rules of policies */
};

struct world_pod {
    struct text name;
    uint32_t shape;
};

struct world {
    struct arena arena;
    uint32_t nodes;
    size_t node_capacity;
    struct world_node *node;
    uint32_t shapes;
    size_t shape_capacity;
    struct world_shape *shape;
    uint32_t pods;
    size_t pod_capacity;
    struct world_pod *pod;
    char *names;        /* the file that the pods' names point into */
    uint64_t gpus;      /* of all nodes */
    uint64_t gpu_milli; /* of all nodes */
    bool is_cluster;    /* read from a cluster file */
    uint32_t n_held;
    size_t held_capacity;
    struct pod **held; /* pods that are bound already, in the order in which they are counted */
    struct map node_by_name;
    struct map shape_by_key;
    uint32_t rounds; /* how often the pods of a manifest come; 0: arrivals, which come once */
    struct map seen_models; /* model lists of the arrivals */
    uint32_t impossible;    /* model lists that no node has */
    uint32_t wrong;         /* objects of a manifest that are left out: they cannot be read */
};

/* CSV. warnings: where to say that no node has a model that pods ask for. */
int world_read_nodes(struct world *world, const char *file, struct err *err) MUST_USE;
int world_read_arrivals(struct world *world, const char *file, FILE *warnings,
                        struct err *err) MUST_USE;
/*
 * What `kubectl get nodes,pods -A -o json` prints, or the same as YAML. warnings: where to say what
 * is not looked at; NULL: nowhere.
 */
int world_read_cluster(struct world *world, const char *file, FILE *warnings,
                       struct err *err) MUST_USE;
/*
 * The pods of a manifest, which arrive again and again: a shape for each of its workloads. rounds:
 * at most; 0: as many as are usual.
 */
int world_read_manifest(struct world *world, const char *file, uint32_t rounds, FILE *warnings,
                        struct err *err) MUST_USE;
/* One more node, whose name is new. The facts and their texts live in world->arena, or longer. */
struct world_node *world_take_node(struct world *world, const struct node_facts *facts);
void world_init(struct world *world);
void world_done(struct world *world);

static inline uint64_t shape_milli(const struct world_shape *shape)
{
    return (uint64_t)shape->want.parts * shape->want.milli;
}

/* The same for the pods of a manifest, where workloads that ask for the same are one class. */
struct workload *world_manifest_workload(const struct world *world, uint32_t *dropped) MUST_USE;
/* Shapes of all arrivals as a workload; dropped: how many shapes are left out, as too rare. */
struct workload *world_workload(const struct world *world, uint32_t *dropped) MUST_USE;

/* --- one run --- */

struct simulate_options {
    uint32_t seed; /* of what is drawn, and of the node order where no document gives one */
    uint32_t churn_percent; /* 0: nothing ends */
    uint32_t events;        /* with churn */
    bool learn;             /* the workload is what has arrived so far */
    FILE *placements;       /* NULL: not wanted */
    bool curve;             /* is it wanted? */
    FILE *progress;         /* NULL: not wanted */
};

/* The arrivals at which so many percent of the GPU capacity had arrived, rounded. */
struct simulate_level {
    uint64_t percent;
    uint64_t count;
    uint64_t milli; /* what was allocated after each of them, in total */
};

/* Numbers of arrivals; with churn, of the second half of the events. */
struct simulate_result {
    const struct policy_choice *policy;
    uint32_t arrived;
    uint32_t refused;
    uint32_t multi_arrived; /* pods of several GPUs */
    uint32_t multi_refused;
    uint64_t arrived_milli;
    uint64_t refused_milli;
    uint64_t held_milli;      /* before the first pod arrived */
    uint64_t allocated_milli; /* at the end, with these */
    uint64_t stranded_milli;  /* at the end: idle where no pod of the workload fits */
    bool multi_was_refused;
    uint64_t first_multi_milli; /* arrived milli at the first such refusal */
    uint32_t *shape_arrived;    /* for each shape of the world */
    uint32_t *shape_refused;
    uint64_t decisions;
    uint64_t decision_ns;            /* of all decisions */
    uint32_t *latency;               /* how many decisions took how long */
    uint32_t last_ns[SIMULATE_LAST]; /* of the last decisions, in a ring */
    /* the first refusal, with the pods of a manifest; lives in arena */
    uint32_t fitted_before;
    uint32_t first_shape;
    struct arena arena;
    struct node_reasons reasons;
    const char *never; /* why no node could serve it even if it were empty, or "" */
    size_t levels;     /* 0 if no curve is wanted */
    size_t level_capacity;
    struct simulate_level *level; /* ascending */
};

/* Gives an empty ledger the nodes and the pods that are bound; what these hold, in milli. */
uint64_t simulate_fill(struct ledger *ledger, const struct world *world,
                       struct arena *arena) MUST_USE;
/* What nobody holds of the GPUs that the node shows. */
uint64_t simulate_node_idle(const struct node *node);
void simulate_run(const struct world *world, const struct policy_choice *policy,
                  const struct workload *workload, const struct simulate_options *options,
                  struct simulate_result *out);
void simulate_result_done(struct simulate_result *result);
/* The idle milli on GPUs on which no class of the workload fits. */
uint64_t simulate_stranded(const struct snapshot *snapshot,
                           const struct workload *workload) MUST_USE;

struct simulate_refusal {
    const struct world *world;
    const struct host *left; /* of each node */
    const struct world_shape *shape;
    const struct filter_question *question;
    const struct filter_answer *answer;
};
/* Why no node took the pod: each node is counted once. */
void simulate_explain(const struct simulate_refusal *refusal, struct simulate_result *out);

/* How long one decision took. */
void simulate_count_ns(struct simulate_result *result, int64_t ns);
/* At least this many ns for one decision in a hundred; accurate to a sixteenth. */
uint64_t simulate_p99(const struct simulate_result *result);
/* The mean of the last SIMULATE_LAST decisions, or of all if there are fewer. */
uint64_t simulate_last_mean(const struct simulate_result *result);

/* --- what is shown --- */

/* part of whole in percent, rounded to four digits behind the point: "95.4132". of 0: "0.0000" */
enum { SIMULATE_PERCENT_BYTES = 32 };
void simulate_percent(uint64_t part, uint64_t whole, char out[SIMULATE_PERCENT_BYTES]);

/* The same as a number: 954132. */
uint64_t simulate_ten_thousandths(uint64_t part, uint64_t whole) MUST_USE;

struct simulate_report {
    const struct world *world;
    int64_t at_ms; /* at which the rules of policies hold or do not */
    const struct simulate_options *options;
    const struct workload *workload;
    uint32_t dropped;
    size_t results;
    struct simulate_result *result;
};
/* One line for each level of each policy. Write errors are kept by stdio, as in the next one. */
void simulate_write_curve(FILE *out, const struct simulate_report *report);
/* The curves as a picture. The same report makes the same bytes. */
void simulate_write_plot(FILE *out, const struct simulate_report *report);
/* Numbers of a document, and of a table's row: with a point, as they are written. */
void simulate_set_int(struct arena *arena, struct document *object, const char *key,
                      uint64_t number);
void simulate_set_digits(struct arena *arena, struct document *object, const char *key,
                         const char *digits);
void simulate_set_percent(struct arena *arena, struct document *object, const char *key,
                          uint64_t part, uint64_t whole);
/* Two digits behind the point. */
void simulate_short_percent(struct text percent, char out[SIMULATE_PERCENT_BYTES]);
void simulate_add_percent(struct table *table, const struct document *item, const char *key);
/* Shapes that were refused most often. */
enum { SIMULATE_WORST = 10 };
int simulate_show_rounds(struct ctl *ctl, const struct simulate_report *report) MUST_USE;
int simulate_show(struct ctl *ctl, const struct simulate_report *report) MUST_USE;

#endif
