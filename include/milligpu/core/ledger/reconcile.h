/*
 * reconcile - turns what the API server shows into commands that close the gap.
 *
 * The API server is the truth about pods; the ledger is the truth about reservations in flight. A
 * ledger row always wins over an annotation. After the commands are applied, asking again gives
 * none (I7).
 */
#ifndef MILLIGPU_RECONCILE_H
#define MILLIGPU_RECONCILE_H

#include "milligpu/core/ledger/ledger.h"

enum { RECONCILE_MAX = 4 };

/*
 * Handles one pod as it is now. request is NULL if it asks for nothing of ours, or for something
 * that is not allowed. Fills command[] (borrowing from pod) and returns their number; apply each
 * before the next is decided. A pod that is shown unbound changes nothing here: its Binding may be
 * on its way, or the event is old.
 */
size_t reconcile_pod(const struct ledger *ledger, const struct pod *pod,
                     const struct request *request, int64_t now_ms,
                     struct command command[RECONCILE_MAX]) MUST_USE;

/*
 * The pod was seen unbound in this version, and no Binding of it is being sent. If all Bindings of
 * the reservation named earlier versions, none of them can take effect any more: the reservation is
 * void. The same version or an older one proves nothing, and a reservation without a version (of an
 * older ledger) does not end this way.
 */
size_t reconcile_unbound(const struct ledger *ledger, const char *uid, uint64_t version,
                         int64_t now_ms, struct command command[RECONCILE_MAX]) MUST_USE;

/*
 * A complete list shows the pod unbound, requested after its row became bound: no Binding is
 * ever taken back, so the API server's past was replaced (etcd was restored). The row keeps its
 * charge, and is marked until the pod is shown bound, has ended, or is gone. Versions prove nothing
 * here, because they repeat.
 */
size_t reconcile_listed_unbound(const struct ledger *ledger, const struct pod *pod, int64_t now_ms,
                                struct command command[RECONCILE_MAX]) MUST_USE;

/* The answer of filter and bind for such a pod; names the node of its row. */
#define LISTED_UNBOUND                                                                             \
    "unbound: the ledger has the pod bound to node %.100s, the API server lists it unbound (etcd " \
    "was restored?); its share stays charged: delete the pod"

/* The pod does not exist (any more). */
size_t reconcile_gone(const struct ledger *ledger, const char *uid, int64_t now_ms,
                      struct command command[RECONCILE_MAX]) MUST_USE;

/*
 * Was the pod adopted with fewer parts than it asks for, because its node had no more GPUs? Then
 * the whole pod is worth keeping: reconcile_pod() gives it more when the node has more.
 */
bool reconcile_lacks(const struct allocation *row, const struct request *request);

/*
 * The order in which the pods of a list are handled: those with a row, then those with a usable
 * annotation, then the rest; within each by PodScheduled time, then uid. For sorting pointers to
 * pods.
 */
int reconcile_order(const struct ledger *ledger, const struct pod *a, const struct pod *b);

/* One disagreement that a person should look at. */
struct drift {
    const char *kind; /* one of DRIFT_KINDS */
    const struct node *node;
    const struct gpu *gpu;               /* NULL: the node, or the pod */
    const struct allocation *allocation; /* NULL: the node, or the GPU */
    int64_t since_ms;
    char text[REASON_BYTES_MAX];
};

/*
 * Of interest, but nothing that a person should look at: a pod that others bound long before. Those
 * that ran before milligpu came would else hide all other drift as long as they live.
 */
enum { DRIFT_ADOPTED_MS = 24 * 60 * 60 * 1000 };
bool drift_is_information(const struct drift *drift, int64_t now_ms);
/* "information" or "warning" */
const char *drift_severity(const struct drift *drift, int64_t now_ms);

/* The place in DRIFT_KINDS; DRIFT_KIND_COUNT: no kind. */
size_t drift_kind_find(struct text word);
const char *drift_kind_name(size_t kind);
const char *drift_kind_help(size_t kind);

/* Emits every drift of one node. All drift is a function of the snapshot. */
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
