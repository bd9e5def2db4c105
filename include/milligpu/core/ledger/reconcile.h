/*
 * reconcile - turns the state in the API server into commands that close the gap.
 *
 * The API server is authoritative for pods, the ledger for reservations in flight. A ledger row
 * always wins over an annotation. After the commands are applied, a second call gives none (I7).
 */
#ifndef MILLIGPU_RECONCILE_H
#define MILLIGPU_RECONCILE_H

#include "milligpu/core/ledger/ledger.h"

enum { RECONCILE_MAX = 4 };

/*
 * Commands for the current state of one pod. request is NULL if it requests nothing of ours, or
 * something invalid. Fills command[] (borrowing from pod) and returns their number; apply each
 * before the next is decided. An unbound pod changes nothing here: its Binding may be in flight, or
 * the event is old.
 */
size_t reconcile_pod(const struct ledger *ledger, const struct pod *pod,
                     const struct request *request, int64_t now_ms,
                     struct command command[RECONCILE_MAX]) MUST_USE;

/*
 * Commands for a pod seen unbound in this version while no Binding for it is being sent. If all
 * Bindings of the reservation named earlier versions, none can take effect any more, and the
 * reservation is released. The same or an older version proves nothing, and a reservation without a
 * version (of an older ledger) is not released here.
 */
size_t reconcile_unbound(const struct ledger *ledger, const char *uid, uint64_t version,
                         int64_t now_ms, struct command command[RECONCILE_MAX]) MUST_USE;

/*
 * Commands for a pod that a complete list, requested after the row became bound, shows unbound. A
 * Binding is never taken back, so the API server's past was replaced (etcd was restored). The row
 * keeps its charge and is marked until the pod is bound, has ended, or is gone. Versions prove
 * nothing here, because they repeat.
 */
size_t reconcile_listed_unbound(const struct ledger *ledger, const struct pod *pod, int64_t now_ms,
                                struct command command[RECONCILE_MAX]) MUST_USE;

/* The answer of filter and bind for such a pod, with the node of its row. */
#define LISTED_UNBOUND                                                                             \
    "unbound: the ledger has the pod bound to node %.100s, the API server lists it unbound (etcd " \
    "was restored?); its share stays charged: delete the pod"

/* Commands for a pod that no longer exists. */
size_t reconcile_gone(const struct ledger *ledger, const char *uid, int64_t now_ms,
                      struct command command[RECONCILE_MAX]) MUST_USE;

/*
 * Was the pod adopted with fewer parts than requested, because its node had no more GPUs? Then keep
 * the whole pod: reconcile_pod() gives it more when the node has more.
 */
bool reconcile_lacks(const struct allocation *row, const struct request *request);

/*
 * The order in which the pods of a list are handled: pods with a row, then with a usable
 * annotation, then the rest; within each by PodScheduled time, then uid. For sorting pointers to
 * pods.
 */
int reconcile_order(const struct ledger *ledger, const struct pod *a, const struct pod *b);

/* A disagreement between cluster and ledger. */
struct drift {
    const char *kind; /* one of DRIFT_KINDS */
    const struct node *node;
    const struct gpu *gpu;               /* NULL: drift of the node or the pod */
    const struct allocation *allocation; /* NULL: drift of the node or the GPU */
    int64_t since_ms;
    char text[REASON_BYTES_MAX];
};

/*
 * Drift without need for action: a pod bound by others more than DRIFT_ADOPTED_MS ago. Pods older
 * than milligpu would otherwise hide all other drift while they live.
 */
enum { DRIFT_ADOPTED_MS = 24 * 60 * 60 * 1000 };
bool drift_is_information(const struct drift *drift, int64_t now_ms);
/* "information" or "warning" */
const char *drift_severity(const struct drift *drift, int64_t now_ms);

/* Index into DRIFT_KINDS; DRIFT_KIND_COUNT: no such kind. */
size_t drift_kind_find(struct text word);
const char *drift_kind_name(size_t kind);
const char *drift_kind_help(size_t kind);

/* Calls emit for each drift of one node. Drift depends on the snapshot only. */
void drift_of(const struct node *node, void *user,
              void (*emit)(void *user, const struct drift *drift));

#define DRIFT_KINDS(X)                                                                             \
    X("adopted", "bound without us; which GPUs it uses is a guess (presumed)")                     \
    X("over", "a GPU is charged beyond its size")                                                  \
    X("absent", "a charged GPU is missing from its node")                                          \
    X("unhealthy", "a pod has a share of a GPU that is not healthy")                               \
    X("mixed", "shares and whole GPUs of another resource on one node, or on one GPU")             \
    X("unplaced", "a pod's share is on no GPU that is known")                                      \
    X("foreign_units", "the node counts the resource in other units")                              \
    X("unreadable", "what the node says of its GPUs cannot be used")                               \
    X("plugin", "the device plugin offers fewer GPUs than the node has")                           \
    X("not_vouched", "the agent of a node does not vouch for its GPUs, which take no new shares")  \
    X("node_annotation", "a cordon that names no GPU, or a health that is no known word")          \
    X("annotation", "a pod's annotation differs from the ledger")                                  \
    X("unbound", "a pod that was bound is listed unbound: etcd was restored; delete the pod")      \
    X("duplicate_gpu", "one UUID on two nodes")                                                    \
    X("unsure_gpu", "a GPU that pods may hold by an index, which has moved since")                 \
    X("node_gone", "the node is gone, its pods are not")

enum { DRIFT_KIND_COUNT = 16 };

#endif
