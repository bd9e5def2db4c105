/*
 * unschedulable - why a request is not placed, once for each reason, with the numbers of one
 * snapshot.
 *
 *   every node --> why not --> count and totals by reason
 *              \-> would it fit if the node were empty? nowhere: it can never fit
 *
 * For people and REST only: texts for kube-scheduler have no such numbers (reason.h).
 *
 * Pure. One search for each distinct room of the cluster, bounded in steps.
 */
#ifndef MILLIGPU_UNSCHEDULABLE_H
#define MILLIGPU_UNSCHEDULABLE_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/node/snapshot.h"
#include "milligpu/core/place/place.h"

/* Totals over GPUs of a model that was asked for. */
struct moment {
    uint64_t gpus;
    uint64_t open; /* GPUs with free milli */
    uint64_t free_milli;
    uint32_t piece_milli; /* the largest free milli of one GPU */
    uint32_t piece_mib;
    uint64_t closed[REASONS];
    uint64_t unusable[UNUSABLES]; /* of nodes that kube-scheduler may not use */
};

/* GPUs of other models are left out: they would promise room that the pod cannot have. */
void moment_add(struct moment *moment, const struct room *room, enum unusable unusable,
                const struct request *request);
/* "largest free piece 220 milli, 640 milli free on 4 of 8 GPUs, 1 cordoned" */
void moment_format(struct strbuf *out, const struct moment *moment);

/*
 * Nodes that fit by their GPUs, and that the pod may not use for this reason. A taint counts by its
 * key; without one, what was beyond UNSCHEDULABLE_BARS_MAX is of any key.
 */
enum { UNSCHEDULABLE_BARS_MAX = 16, UNSCHEDULABLE_NAMES_MAX = 3 };
struct unschedulable_bar {
    enum unusable why;
    const char *taint; /* its key, which lives as long as the snapshot; NULL: no taint */
    uint32_t nodes;
    uint32_t names;
    const struct atom *name[UNSCHEDULABLE_NAMES_MAX]; /* the first of them */
};

/* Idle hosts that a rule keeps from the pod. */
struct unschedulable_reserved {
    uint32_t nodes;
    struct moment moment;
};

enum { UNSCHEDULABLE_TEXT_MAX = 512 };

struct unschedulable {
    /* REASON_NONE: it fits there, and the pod may use it. With the bars, the sum is all nodes. */
    uint32_t nodes[REASONS];
    uint32_t bars;
    struct unschedulable_bar bar[UNSCHEDULABLE_BARS_MAX + UNUSABLES]; /* most nodes first */
    uint32_t rule_nodes[RULES_MAX]; /* those of REASON_RULE, by position in the rulebook */
    struct unschedulable_reserved
        reserved[RULES_MAX];       /* those of REASON_RESERVE, in the same way */
    struct moment moment[REASONS]; /* without these */
    /* It would fit on no node of the cluster, even if that were empty and open. */
    bool never;
    char never_text[UNSCHEDULABLE_TEXT_MAX]; /* why; empty if not never */
};

/* The pod's request and its demands of a node; demands NULL: unknown. */
struct unschedulable_question {
    const struct request *request;
    const struct node_demands *demands;
};

void unschedulable_of(const struct snapshot *snapshot,
                      const struct unschedulable_question *question, struct arena *arena,
                      struct unschedulable *out);

/* Nodes that fit by their GPUs, and that the pod may not use. */
uint32_t unschedulable_barred(const struct unschedulable *unschedulable);

/* The models of the GPUs that the cluster has, each once, in order of their names. */
enum { CLUSTER_MODELS_MAX = 64 };
struct cluster_models {
    uint32_t count; /* of more, the first that were met */
    const struct atom *model[CLUSTER_MODELS_MAX];
};

/* Costs a walk over all GPUs. */
void cluster_models(const struct snapshot *snapshot, struct cluster_models *out);

/*
 * Where no GPU of the cluster is of a model that the request takes: "no node has a GPU of model T5;
 * the nearest are T4, A10, L4". Else empty. At most the first 64 models are compared. Costs a walk
 * over all GPUs.
 */
void unschedulable_missing_model(const struct snapshot *snapshot, const struct request *request,
                                 char *out, size_t bytes);

/*
 * A line for each field of a rule of the policy that matches no node of the cluster
 * (rule_add_unmatched()); none where no node is known. Costs a walk over all GPUs for each rule.
 */
void cluster_unmatched_rules(const struct snapshot *snapshot, struct strbuf *out);

/* Do numbers of the moment explain it? Where the kind of the node is in the way, they do not. */
bool unschedulable_has_moment(enum reason why);
/* The sentence for one reason: the refusal's where that names what lacks, else what is closed. */
void unschedulable_reason_text(const struct policy_context *context, const struct request *request,
                               struct cause cause, char out[REASON_BYTES_MAX]);

#endif
