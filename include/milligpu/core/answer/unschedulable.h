/*
 * unschedulable - why a request is not placed, by reason, with the numbers of one snapshot.
 *
 *   every node --> reason --> count and totals by reason
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

/* Totals over GPUs of the requested models. */
struct moment {
    uint64_t gpus;
    uint64_t open; /* GPUs with free milli */
    uint64_t free_milli;
    /* Maxima of the free milli and the free MiB of one GPU, possibly of different GPUs. */
    uint32_t piece_milli;
    uint32_t piece_mib;
    uint64_t closed[REASONS];
    uint64_t unusable[UNUSABLES]; /* on nodes that kube-scheduler may not use */
};

/* Adds the GPUs of a room. GPUs of other models are excluded: the pod cannot use their room. */
void moment_add(struct moment *moment, const struct room *room, enum unusable unusable,
                const struct request *request);
/* "largest free piece 220 milli, 640 milli free on 4 of 8 GPUs, 1 cordoned" */
void moment_format(struct strbuf *out, const struct moment *moment);

/*
 * Nodes that fit by their GPUs and that the pod may not use for this reason. Taints are grouped by
 * key; those beyond UNSCHEDULABLE_BARS_MAX are counted in one group without a key.
 */
enum { UNSCHEDULABLE_BARS_MAX = 16, UNSCHEDULABLE_NAMES_MAX = 3 };
struct unschedulable_bar {
    enum unusable why;
    const char *taint; /* key, valid as long as the snapshot; NULL: no taint, or other keys */
    uint32_t nodes;
    uint32_t n_names;
    const struct atom *name[UNSCHEDULABLE_NAMES_MAX]; /* the first nodes */
};

/* Idle hosts that a rule reserves for other pods. */
struct unschedulable_reserved {
    uint32_t nodes;
    struct moment moment;
};

enum { UNSCHEDULABLE_TEXT_MAX = 512 };

struct unschedulable {
    /*
     * REASON_NONE: it fits, and the pod may use the node. Together with the bars, the sum is all
     * nodes.
     */
    uint32_t nodes[REASONS];
    uint32_t n_bars;
    struct unschedulable_bar bar[UNSCHEDULABLE_BARS_MAX + UNUSABLES]; /* most nodes first */
    uint32_t rule_nodes[RULES_MAX]; /* nodes with REASON_RULE, by index into the rulebook */
    struct unschedulable_reserved
        reserved[RULES_MAX];       /* nodes with REASON_RESERVE, by index into the rulebook */
    struct moment moment[REASONS]; /* by reason, without reserved[] */
    /* Fits on no node of the cluster, even if every node were empty and open. */
    bool never;
    char never_text[UNSCHEDULABLE_TEXT_MAX]; /* reason; empty unless never */
};

/* The pod's request and its node demands; demands NULL: unknown. */
struct unschedulable_question {
    const struct request *request;
    const struct node_demands *demands;
};

void unschedulable_of(const struct snapshot *snapshot,
                      const struct unschedulable_question *question, struct arena *arena,
                      struct unschedulable *out);

/* Number of nodes that fit by their GPUs and that the pod may not use. */
uint32_t unschedulable_barred(const struct unschedulable *unschedulable);

/* The distinct GPU models of the cluster, ordered by name. */
enum { CLUSTER_MODELS_MAX = 64 };
struct cluster_models {
    uint32_t count; /* at most the first CLUSTER_MODELS_MAX found */
    const struct atom *model[CLUSTER_MODELS_MAX];
};

/* Walks over all GPUs. */
void cluster_models(const struct snapshot *snapshot, struct cluster_models *out);

/*
 * Writes a text if the cluster has no GPU of a requested model: "no node has a GPU of model T5; the
 * nearest are T4, A10, L4". Otherwise empty. Compares at most the first 64 models. Walks over all
 * GPUs.
 */
void unschedulable_missing_model(const struct snapshot *snapshot, const struct request *request,
                                 char *out, size_t bytes);

/*
 * A line for each field of a policy rule that matches no node of the cluster
 * (rule_add_unmatched()); none if no node is known. Walks over all GPUs for each rule.
 */
void cluster_unmatched_rules(const struct snapshot *snapshot, struct strbuf *out);

/* Do current numbers explain this reason? Not if it depends on the kind of node. */
bool unschedulable_has_moment(enum reason why);
/*
 * The sentence for one reason: the refusal's if it names what is missing, else which part is
 * closed.
 */
void unschedulable_reason_text(const struct policy_context *context, const struct request *request,
                               struct cause cause, char out[REASON_BYTES_MAX]);

#endif
