/*
 * node_filter - which nodes kube-scheduler's own filter plugins leave for a pod, GPUs apart:
 * NodeUnschedulable, TaintToleration and NodeAffinity.
 *
 *   Node: spec.unschedulable, taints, condition Ready --> struct node_taints, in memory only
 *   Pod: tolerations, nodeSelector, required affinity --> struct node_demands
 *
 * kube-scheduler decides, so filter and bind do not ask here. Asked are views of room, the reserve
 * of a policy (rulebook.h) and the answer to why a pod waits: room on a node that nobody can use is
 * not free.
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
 * Why kube-scheduler may not use a node. If several reasons apply, the first of the table counts.
 * For a pod, a taint counts that the pod does not tolerate. For sums and the reserve, LEAVING,
 * CORDONED and NOT_READY count whoever tolerates them: DaemonSets tolerate a cordon, and a node
 * that is about to be deleted is no room. TAINTED counts there if no known pod tolerates the taint
 * (tolerations.h). AFFINITY and UNKNOWN depend on a pod.
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
 * The taints that mean more than "tainted", by who sets them. Only those with the effect NoSchedule
 * or NoExecute count.
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

/* EFFECT_OTHER: a word that is not known; as in kube-scheduler, such a taint keeps nobody away. */
enum taint_effect {
    EFFECT_ANY, /* of a toleration: the field is empty */
    EFFECT_NO_SCHEDULE,
    EFFECT_PREFER_NO_SCHEDULE,
    EFFECT_NO_EXECUTE,
    EFFECT_OTHER,
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
    bool not_ready;     /* it has a condition Ready, and that is not True */
    bool unreadable;    /* a taint cannot be read, or they take more than TAINTS_BYTES_MAX */
    uint32_t taints;
    const struct taint *taint;
};

enum { TAINTS_BYTES_MAX = 16 * 1024 };

/* Immutable and reference-counted: the versions of a node share it. */
struct taints {
    atomic_uint refs;
    struct node_taints facts;
};

/* A copy with one reference. NULL if they say nothing. */
const struct taints *taints_new(const struct node_taints *from) MUST_USE;
const struct taints *taints_ref(const struct taints *taints); /* NULL is fine */
void taints_unref(const struct taints *taints);               /* NULL is fine */
bool taints_eq(const struct taints *a, const struct taints *b);

/* --- pods --- */

enum toleration_operator {
    TOLERATE_EQUAL, /* also if the field is empty */
    TOLERATE_EXISTS,
    TOLERATE_GT, /* the taint's value is a greater integer */
    TOLERATE_LT,
    TOLERATE_OTHER, /* a word that is not known tolerates nothing */
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
    RULE_OTHER, /* a word that is not known matches nothing */
};

enum node_rule_operator node_rule_operator_of(struct text word);

/* A requirement of matchExpressions (a label) or of matchFields (metadata.name). */
struct node_rule {
    const char *key;
    enum node_rule_operator op;
    uint32_t values;
    const char *const *value;
};

/* have NULL: the node has no such label or field. */
bool node_rule_holds(const struct node_rule *rule, const struct text *have);

/* All of its rules hold; a term without rules matches no node. */
struct node_term {
    uint32_t expressions;
    const struct node_rule *expression;
    uint32_t fields;
    const struct node_rule *field;
};

/* A pod's demands of its node. */
struct node_demands {
    bool unreadable; /* some of it cannot be read */
    uint32_t tolerations;
    const struct toleration *toleration;
    uint32_t selectors; /* of nodeSelector: key and value, no glob */
    const struct label *selector;
    bool affine; /* node affinity is required: one of the terms has to match */
    uint32_t terms;
    const struct node_term *term;
};

/* A copy with all its strings, which needs only the arena. */
const struct node_demands *node_demands_keep(const struct node_demands *demands,
                                             struct arena *arena) MUST_USE;

/* Does one of the tolerations cover the taint? */
bool node_demands_tolerate(const struct node_demands *demands, const struct taint *taint);

/* Bytes that are equal exactly for demands that are equal. */
void node_demands_key(const struct node_demands *demands, struct strbuf *out);

/* --- judging --- */

/* A node's labels: sets *out, or returns false if there is none of this key. */
struct label_view {
    const void *ctx;
    bool (*find)(const void *ctx, const char *key, struct text *out);
};

bool node_demands_match(const struct node_demands *demands, const char *node,
                        const struct label_view *labels);

/* Is the effect one that keeps pods away? */
static inline bool taint_is_hard(const struct taint *taint)
{
    return taint->effect == EFFECT_NO_SCHEDULE || taint->effect == EFFECT_NO_EXECUTE;
}

struct unusable_cause {
    enum unusable why;
    const struct taint *taint; /* LEAVING to TAINTED; else NULL. Lives as long as the taints. */
};

/* Of the same taints. */
static inline bool unusable_eq(const struct unusable_cause *a, const struct unusable_cause *b)
{
    return a->why == b->why && a->taint == b->taint;
}

/* For a pod with these tolerations. taints NULL: the Node says nothing. */
struct unusable_cause taints_bar(const struct node_taints *taints,
                                 const struct node_demands *demands);

struct tolerations; /* tolerations.h */

/* For sums and the reserve. known: what pods tolerate; NULL: nothing. */
struct unusable_cause taints_close(const struct node_taints *taints,
                                   const struct tolerations *known);

#endif
