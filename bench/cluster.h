/*
 * cluster - the cluster that everything is measured on: the same in every run.
 *
 * Nodes of 8 A100-80GB with UUIDs in the annotation, as the node side writes it. Pods of 200 to
 * 4000 milli, placed one by one on the tightest GPU of a node, until half of all milli is held.
 */
#ifndef MILLIGPU_BENCH_CLUSTER_H
#define MILLIGPU_BENCH_CLUSTER_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/rank/policy.h"
#include "milligpu/store/store.h"
#include "milligpu/wire/kube/wire_kube.h"

enum { NODE_GPUS = 8, NODE_NAME_BYTES = 48 };

extern const struct wire_rules cluster_wire;
extern const struct request_rules cluster_requests;
extern const struct inventory_rules cluster_inventory;

void cluster_node_name(uint32_t node, char out[NODE_NAME_BYTES]);

/* A Node object of some 3 KiB, like a kubelet's except for its images. */
void cluster_node_json(struct strbuf *out, uint32_t node);

/* A Pod object of some 2 KiB. note NULL: no annotations; node "": not bound. */
struct cluster_pod {
    const char *name;
    const char *uid;
    const char *node;
    const char *amount;
    struct text annotations; /* a JSON object; empty: none */
};
void cluster_pod_json(struct strbuf *out, const struct cluster_pod *pod);

/* The body of filter and prioritize: names names from first on, wrapping around after the last. */
struct cluster_question {
    const char *uid;
    const char *amount;
    uint32_t nodes; /* in the cluster */
    uint32_t first;
    uint32_t names;
};
void cluster_question_json(struct strbuf *out, const struct cluster_question *question);

/* From now on, write each change to this store too; NULL: stop. Call within an open batch. */
void cluster_write_to(const struct store_ops *ops);

/* An open ledger that belongs to the cluster "bench"; path may be ":memory:". As store_rules. */
struct store *cluster_store(const char *path, bool checkpoints_beside) MUST_USE;
/* Nodes 0 .. nodes-1, without pods. */
struct ledger *cluster_ledger(uint32_t nodes) MUST_USE;
/* Add bound pods until half of all milli is held; returns how many. */
uint32_t cluster_fill_half(struct ledger *ledger, uint32_t nodes);
/* Add one pod per node, with 800 milli of each GPU: any request for more than 200 is refused. */
void cluster_fill_up(struct ledger *ledger, uint32_t nodes);

/*
 * The ledger's policy from now on: one of policy_kind.h, or the document that is shipped. One that
 * judges nodes knows a workload of 100 classes: parts of a GPU, whole GPUs, and pods of 2, 4 and 8
 * GPUs, with 1 to 64 cores, a few of them of one model; and what the document expects.
 */
enum { CLUSTER_SHIPPED = POLICIES };
void cluster_set_policy(struct ledger *ledger, uint32_t policy);
/* The shipped document is called by the default of the setting "policy": "mixed". */
const char *cluster_policy_name(uint32_t policy);
struct rulebook *cluster_shipped(void) MUST_USE;

/*
 * Signs the allocations of bound pods from now on, as milligpud does; NULL ends that. The key is
 * borrowed.
 */
struct signing_key;
void cluster_sign_with(const struct signing_key *key);
/* A bound pod, as the API server shows it. */
void cluster_bound_json(struct strbuf *out, const struct allocation *allocation,
                        const struct node *node);
/* The pods of a ledger, as `kubectl get pods -A -o json` shows them, a comma before each. */
void cluster_pods_json(struct strbuf *out, const struct ledger *ledger);

#endif
