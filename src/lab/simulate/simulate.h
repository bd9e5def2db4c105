/*
 * simulate - the simulated cluster, one run, and its output, for the command simulate.
 *
 *   nodes, or a cluster --\                           /-- placements, curve, plot
 *                          >-- world --> one run ---<
 *   arrivals, or a         /  (read once)  for each  \-- result --> tables, JSON
 *   manifest -------------/                 policy
 *
 * A pod goes through the code that answers kube-scheduler: filter_ask() on a snapshot chooses the
 * node, and a RESERVE of the ledger chooses the GPUs, after kube-scheduler's own filter for CPU and
 * memory. A pod that fits nowhere on arrival is dropped. With --learn, the workload of the policies
 * consists of the pods that have arrived so far.
 *
 * One thread.
 */
#ifndef MILLIGPU_LAB_SIMULATE_H
#define MILLIGPU_LAB_SIMULATE_H

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
    SIMULATE_ROUNDS = 1000, /* default number of rounds of a manifest's pods */
    SIMULATE_EVENTS_MAX = 100000000,
    SIMULATE_LATENCY_STEPS = 16, /* histogram buckets for each doubling */
    SIMULATE_LATENCIES = 64 * SIMULATE_LATENCY_STEPS,
    SIMULATE_LAST = 1000, /* decisions at the end, when the cluster is nearly full */
};

/* Defaults of milligpud's settings. */
#define SIMULATE_RESOURCE       "nvidia.com/vgpu"
#define SIMULATE_WHOLE_RESOURCE "nvidia.com/gpu"
/* Namespace of pods whose file has none. */
#define SIMULATE_NAMESPACE "simulate"

/* --- what is read --- */

struct world_node {
    const char *name;
    uint32_t hash;    /* text_hash() of the name */
    struct host host; /* CPU and memory available for arriving pods */
    const struct inventory *inventory;
    enum vouch vouch; /* verdict on its agent */
};

/* Pods with the same request. */
struct world_shape {
    struct request request; /* with no want, or one */
    struct want want;
    uint32_t count;        /* number of arrivals */
    const char *text;      /* for people */
    const char *namespace; /* for the rules of policies */
};

struct world_pod {
    struct text name;
    uint32_t shape;
};

struct world {
    struct arena arena;
    uint32_t n_nodes;
    size_t node_capacity;
    struct world_node *node;
    uint32_t n_shapes;
    size_t shape_capacity;
    struct world_shape *shape;
    uint32_t n_pods;
    size_t pod_capacity;
    struct world_pod *pod;
    char *names;        /* file content that the pods' names point into; owned */
    uint64_t n_gpus;    /* number on all nodes */
    uint64_t gpu_milli; /* total of all nodes */
    bool is_cluster;    /* read from a cluster file */
    uint32_t n_held;
    size_t held_capacity;
    struct pod *
        *held; /* pods bound at the beginning, in the order in which the ledger takes them */
    struct map node_by_name;
    struct map shape_by_key;
    uint32_t rounds;        /* arrivals of each pod of a manifest; 0 for arrivals from CSV (once) */
    struct map seen_models; /* model lists of the arrivals */
    uint32_t impossible;    /* model lists that no node has */
    uint32_t wrong;         /* invalid objects of a manifest, which are left out */
};

/* Both read CSV. warnings: output for models that pods request and no node has. */
int world_read_nodes(struct world *world, const char *file, struct err *err) MUST_USE;
int world_read_arrivals(struct world *world, const char *file, FILE *warnings,
                        struct err *err) MUST_USE;
/*
 * Reads the output of `kubectl get nodes,pods -A -o json`, also as YAML. warnings: output for
 * parts that are not considered, or NULL.
 */
int world_read_cluster(struct world *world, const char *file, FILE *warnings,
                       struct err *err) MUST_USE;
/*
 * Reads the pods of a manifest, which arrive repeatedly: a shape for each workload. rounds: their
 * limit, or 0 for the default.
 */
int world_read_manifest(struct world *world, const char *file, uint32_t rounds, FILE *warnings,
                        struct err *err) MUST_USE;
/* Adds a node with a new name. The facts and their texts live at least as long as world->arena. */
struct world_node *world_take_node(struct world *world, const struct node_facts *facts);
void world_init(struct world *world);
void world_done(struct world *world);

static inline uint64_t shape_milli(const struct world_shape *shape)
{
    return (uint64_t)shape->want.parts * shape->want.milli;
}

/* Like world_workload(), for a manifest; its workloads with the same request are one class. */
struct workload *world_manifest_workload(const struct world *world, uint32_t *dropped) MUST_USE;
/* The shapes of all arrivals as a workload; dropped: number of rare shapes that are left out. */
struct workload *world_workload(const struct world *world, uint32_t *dropped) MUST_USE;

/* --- one run --- */

struct simulate_options {
    uint32_t seed;          /* of random numbers, and of the node order unless a document has one */
    uint32_t churn_percent; /* 0 for no churn: no pod ends */
    uint32_t events;        /* number of events with churn */
    bool learn;             /* the workload consists of the pods that have arrived so far */
    FILE *placements;       /* NULL if not requested */
    bool curve;             /* record levels */
    FILE *progress;         /* NULL if not requested */
};

/* Arrivals at the same load: arrived milli in percent of the GPU capacity, rounded. */
struct simulate_level {
    uint64_t percent;
    uint64_t count;
    uint64_t milli; /* sum of the allocation after each arrival */
};

/* Counts are of arrivals; with churn, only in the second half of the events. */
struct simulate_result {
    const struct policy_choice *policy;
    uint32_t arrived;
    uint32_t refused;
    uint32_t multi_arrived; /* arrivals of pods of several GPUs */
    uint32_t multi_refused;
    uint64_t arrived_milli;
    uint64_t refused_milli;
    uint64_t held_milli;      /* allocated before the first arrival */
    uint64_t allocated_milli; /* at the end, including held_milli */
    uint64_t stranded_milli;  /* at the end: idle, but no pod of the workload fits */
    bool multi_was_refused;
    uint64_t first_multi_milli; /* arrived milli at the first refusal of a pod of several GPUs */
    uint32_t *shape_arrived;    /* for each shape of the world */
    uint32_t *shape_refused;
    uint64_t decisions;
    uint64_t decision_ns;            /* CPU time of all decisions */
    uint32_t *latency;               /* histogram of decision times */
    uint32_t last_ns[SIMULATE_LAST]; /* ring buffer of the last decision times */
    /* first refusal, for pods of a manifest; in arena */
    uint32_t fitted_before;
    uint32_t first_shape;
    struct arena arena;
    struct node_reasons reasons;
    const char *never; /* reason why the pod does not fit in an empty cluster either, or "" */
    size_t n_levels;   /* 0 if no curve is requested */
    size_t level_capacity;
    struct simulate_level *level; /* ascending */
};

/* Fills an empty ledger with the nodes and bound pods. Returns the milli that the pods hold. */
uint64_t simulate_fill(struct ledger *ledger, const struct world *world,
                       struct arena *arena) MUST_USE;
/* The milli that are not held on GPUs that the node shows. */
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
    const struct host *left; /* free CPU and memory of each node */
    const struct world_shape *shape;
    const struct filter_question *question;
    const struct filter_answer *answer;
};
/* Sets the reasons and `never` of the result; counts each node once. */
void simulate_explain(const struct simulate_refusal *refusal, struct simulate_result *out);

/* Counts the time of one decision. */
void simulate_count_ns(struct simulate_result *result, int64_t ns);
/* The 99th percentile of decision times in ns, accurate to a sixteenth. */
uint64_t simulate_p99(const struct simulate_result *result);
/* The mean time of the last SIMULATE_LAST decisions (or of all, if fewer) in ns. */
uint64_t simulate_last_mean(const struct simulate_result *result);

/* --- what is shown --- */

/* part in percent of whole, rounded to four decimals: "95.4132"; "0.0000" for whole 0 */
enum { SIMULATE_PERCENT_BYTES = 32 };
void simulate_percent(uint64_t part, uint64_t whole, char out[SIMULATE_PERCENT_BYTES]);

/* The same in ten-thousandths of a percent: 954132. */
uint64_t simulate_ten_thousandths(uint64_t part, uint64_t whole) MUST_USE;

struct simulate_report {
    const struct world *world;
    int64_t at_ms; /* UTC time that decides which rules of policies hold */
    const struct simulate_options *options;
    const struct workload *workload;
    uint32_t dropped;
    size_t n_results;
    struct simulate_result *result;
};
/* Writes a line of CSV for each level of each policy. stdio keeps write errors. */
void simulate_write_curve(FILE *out, const struct simulate_report *report);
/* Writes the curves as SVG, deterministically. stdio keeps write errors. */
void simulate_write_plot(FILE *out, const struct simulate_report *report);
/* Each sets a number in an object; digits can have a decimal point. */
void simulate_set_int(struct arena *arena, struct document *object, const char *key,
                      uint64_t number);
void simulate_set_digits(struct arena *arena, struct document *object, const char *key,
                         const char *digits);
void simulate_set_percent(struct arena *arena, struct document *object, const char *key,
                          uint64_t part, uint64_t whole);
/* Rounds a percentage to two decimals. */
void simulate_short_percent(struct text percent, char out[SIMULATE_PERCENT_BYTES]);
void simulate_add_percent(struct table *table, const struct document *item, const char *key);
/* number of shapes in the list of those refused most often */
enum { SIMULATE_WORST = 10 };
int simulate_show_rounds(struct ctl *ctl, const struct simulate_report *report) MUST_USE;
int simulate_show(struct ctl *ctl, const struct simulate_report *report) MUST_USE;

#endif
