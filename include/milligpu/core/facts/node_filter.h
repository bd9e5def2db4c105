/*
 * node_filter - kube-scheduler's NodeUnschedulable, TaintToleration and NodeAffinity, re-evaluated.
 *
 *   Node: spec.unschedulable, taints, condition Ready --> struct node_taints, in memory only
 *   Pod: tolerations, nodeSelector, required affinity --> struct node_demands
 *
 * kube-scheduler enforces these filters itself, so filter and bind do not use this file. Views of
 * room, the reserve of a policy (rulebook.h) and explanations of waiting pods do: room on a node
 * that no pod can use is not free.
 *
 * Pure.
 */
#ifndef MILLIGPU_NODE_FILTER_H
#define MILLIGPU_NODE_FILTER_H

#include <stdatomic.h>

#include "milligpu/base/arena.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/facts/labels.h"

/*
 * Why kube-scheduler does not use a node. If several reasons apply, the first in the table counts.
 * For a pod, only taints count that it does not tolerate. For sums and the reserve, LEAVING,
 * CORDONED and NOT_READY always count: DaemonSets tolerate a cordon, and a node that is about to be
 * deleted has no room; TAINTED counts if no known pod tolerates the taint (tolerations.h). AFFINITY
 * and UNKNOWN occur for pods only.
 */
#define UNUSABLE_TABLE(X)                                                                          \
    X(USABLE, "usable", "kube-scheduler may use it")                                               \
    X(UNUSABLE_LEAVING, "leaving", "about to be deleted, as a taint says")                         \
    X(UNUSABLE_CORDONED, "cordoned", "unschedulable, by kubectl cordon or drain")                  \
    X(UNUSABLE_NOT_READY, "not_ready", "its kubelet is not Ready, or a taint says so")             \
    X(UNUSABLE_TAINTED, "tainted", "a taint that is not tolerated")                                \
    X(UNUSABLE_UNREADABLE, "taints_unreadable", "its taints cannot be read")                       \
    X(UNUSABLE_AFFINITY, "affinity", "nodeSelector or required node affinity does not match")      \
    X(UNUSABLE_UNKNOWN, "unknown", "what the pod tolerates and selects is not known")

enum unusable {
#define X(code, word, help) code,
    UNUSABLE_TABLE(X)
#undef X
        UNUSABLES
};

/*
 * The taints with a meaning beyond "tainted", by the component that sets them. Only the effects
 * NoSchedule and NoExecute count.
 */
#define WELL_KNOWN_TAINTS(X)                                                                       \
    /* cluster-autoscaler */                                                                       \
    X("ToBeDeletedByClusterAutoscaler", UNUSABLE_LEAVING)                                          \
    /* Karpenter, and before version 1 */                                                          \
    X("karpenter.sh/disrupted", UNUSABLE_LEAVING)                                                  \
    X("karpenter.sh/disruption", UNUSABLE_LEAVING)                                                 \
    /* GKE, and the termination handler of AWS */                                                  \
    X("cloud.google.com/impending-node-termination", UNUSABLE_LEAVING)                             \
    X("aws-node-termination-handler/spot-itn", UNUSABLE_LEAVING)                                   \
    X("aws-node-termination-handler/asg-lifecycle-termination", UNUSABLE_LEAVING)                  \
    /* the node controller and kubelet */                                                          \
    X("node.kubernetes.io/unschedulable", UNUSABLE_CORDONED)                                       \
    X("node.kubernetes.io/not-ready", UNUSABLE_NOT_READY)                                          \
    X("node.kubernetes.io/unreachable", UNUSABLE_NOT_READY)                                        \
    X("node.kubernetes.io/network-unavailable", UNUSABLE_NOT_READY)                                \
    X("node.kubernetes.io/out-of-service", UNUSABLE_NOT_READY)                                     \
    /* cloud controllers */                                                                        \
    X("node.cloudprovider.kubernetes.io/uninitialized", UNUSABLE_NOT_READY)                        \
    X("node.cloudprovider.kubernetes.io/shutdown", UNUSABLE_NOT_READY)

const char *unusable_name(enum unusable why);
const char *unusable_help(enum unusable why);

/* --- nodes --- */

enum taint_effect {
    EFFECT_ANY, /* only of a toleration: the field is empty */
    EFFECT_NO_SCHEDULE,
    EFFECT_PREFER_NO_SCHEDULE,
    EFFECT_NO_EXECUTE,
    EFFECT_OTHER, /* an unknown word: repels no pod, as in kube-scheduler */
};

enum taint_effect taint_effect_of(struct text word);

struct taint {
    const char *key;
    const char *value;
    enum taint_effect effect;
};

/* The taints and the readiness of a Node. Borrowed, unless it is in a struct taints. */
struct node_taints {
    bool unschedulable; /* spec.unschedulable */
    bool not_ready;     /* its condition Ready is present and not True */
    bool unreadable;    /* a taint cannot be read, or all exceed TAINTS_BYTES_MAX */
    uint32_t n_taints;
    const struct taint *taint;
};

enum { TAINTS_BYTES_MAX = 16 * 1024 };

/* Immutable and reference-counted; shared by the versions of a node. */
struct taints {
    atomic_uint refs;
    struct node_taints facts;
};

/* Returns a copy with one reference; NULL if no field is set. */
const struct taints *taints_new(const struct node_taints *from) MUST_USE;
const struct taints *taints_ref(const struct taints *taints); /* NULL is fine */
void taints_unref(const struct taints *taints);               /* NULL is fine */
bool taints_eq(const struct taints *a, const struct taints *b);

/* --- pods --- */

enum toleration_operator {
    TOLERATE_EQUAL, /* also for an empty field */
    TOLERATE_EXISTS,
    TOLERATE_GT, /* the taint's value is a greater integer */
    TOLERATE_LT,
    TOLERATE_OTHER, /* an unknown word: tolerates nothing */
};

enum toleration_operator toleration_operator_of(struct text word);

struct toleration {
    const char *key; /* "": any */
    const char *value;
    enum toleration_operator op;
    enum taint_effect effect;
};

bool toleration_covers(const struct toleration *toleration, const struct taint *taint);

enum node_rule_operator {
    RULE_IN,
    RULE_NOT_IN,
    RULE_EXISTS,
    RULE_NOT_EXISTS,
    RULE_GT,
    RULE_LT,
    RULE_OTHER, /* an unknown word: matches nothing */
};

enum node_rule_operator node_rule_operator_of(struct text word);

/* A requirement of matchExpressions (a label) or of matchFields (metadata.name). */
struct node_rule {
    const char *key;
    enum node_rule_operator op;
    uint32_t n_values;
    const char *const *value;
};

/* have: value of the label or field; NULL: the node has none. */
bool node_rule_holds(const struct node_rule *rule, const struct text *have);

/* A conjunction of rules; a term without rules matches no node. */
struct node_term {
    uint32_t n_expressions;
    const struct node_rule *expression;
    uint32_t n_fields;
    const struct node_rule *field;
};

/* A pod's demands on its node. */
struct node_demands {
    bool unreadable; /* some demand cannot be read */
    uint32_t n_tolerations;
    const struct toleration *toleration;
    uint32_t n_selectors; /* nodeSelector: keys and values, no globs */
    const struct label *selector;
    bool affine; /* has required node affinity: one of the terms must match */
    uint32_t n_terms;
    const struct node_term *term;
};

/* Returns a deep copy in arena. */
const struct node_demands *node_demands_keep(const struct node_demands *demands,
                                             struct arena *arena) MUST_USE;

/* Does any of its tolerations cover the taint? */
bool node_demands_tolerate(const struct node_demands *demands, const struct taint *taint);

/* Appends a key: equal for equal demands, and only for these. */
void node_demands_key(const struct node_demands *demands, struct strbuf *out);

/* --- judging --- */

/* Access to a node's labels; find() sets *out, or returns false if the key is missing. */
struct label_view {
    const void *ctx;
    bool (*find)(const void *ctx, const char *key, struct text *out);
};

bool node_demands_match(const struct node_demands *demands, const char *node,
                        const struct label_view *labels);

/* Does the taint repel pods that do not tolerate it? */
static inline bool taint_is_hard(const struct taint *taint)
{
    return taint->effect == EFFECT_NO_SCHEDULE || taint->effect == EFFECT_NO_EXECUTE;
}

struct unusable_cause {
    enum unusable why;
    const struct taint *taint; /* borrowed from the taints; NULL unless LEAVING .. TAINTED */
};

/* Both causes must be of the same taints. */
static inline bool unusable_eq(const struct unusable_cause *a, const struct unusable_cause *b)
{
    return a->why == b->why && a->taint == b->taint;
}

/* The cause for a pod with these tolerations. taints NULL: none. */
struct unusable_cause taints_bar(const struct node_taints *taints,
                                 const struct node_demands *demands);

struct tolerations; /* tolerations.h */

/* The cause for sums and the reserve. known: the tolerations of pods; NULL: none. */
struct unusable_cause taints_close(const struct node_taints *taints,
                                   const struct tolerations *known);

#endif
