/*
 * wire_admin - what operators read over REST, as JSON.
 *
 * One encoder per shape; src/admin/schemas.json describes the same shapes for machines, and a test
 * checks answers against it. Amounts are thousandths and MiB, times RFC 3339 in UTC with
 * milliseconds; an unknown time is left out.
 *
 * Only capacity that new shares can take counts as free: what is left on a closed GPU or node does
 * not.
 *
 * Pure.
 */
#ifndef MILLIGPU_WIRE_ADMIN_H
#define MILLIGPU_WIRE_ADMIN_H

#include "milligpu/core/answer/defrag.h"
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/core/node/account.h"
#include "milligpu/core/rank/fragment.h"
#include "milligpu/core/rank/policy.h"
#include "milligpu/wire/json/json.h"
#include "milligpu/wire/usage/measured.h"

/* Sums over GPUs. In capacity_milli, an absent GPU does not count with its size. */
struct admin_amounts {
    uint32_t gpus;
    uint64_t capacity_milli;
    uint64_t total_milli; /* the sum of the parts */
    uint64_t beyond_milli;
    uint64_t part_milli[ACCOUNT_PARTS];
    uint32_t largest_free_milli;
    uint64_t fragment_milli; /* of what is free */
};
/* fragment_milli: of this GPU (fragment.h) */
void admin_amounts_add(struct admin_amounts *amounts, const struct node *node,
                       const struct gpu *gpu, uint32_t fragment_milli);
/* The members capacityMilli ... closedMilli, inside an object that is open. */
void admin_amounts(struct json_writer *json, const struct admin_amounts *amounts);
/* The member closed: each closed part by its name. */
void admin_closed(struct json_writer *json, const struct admin_amounts *amounts);
/* Two members, why kube-scheduler may not use a node; none if it may. */
void admin_unusable(struct json_writer *json, const char *key, const char *text_key,
                    const struct unusable_cause *cause);

/* What a new share can take on this GPU now. */
uint32_t admin_gpu_free(const struct node *node, const struct gpu *gpu);
const char *admin_gpu_state(const struct gpu *gpu);
const char *admin_node_state(const struct node *node);
/* The same, and "cordoned" for a node that is ok and of which every GPU is cordoned. */
const char *admin_node_shown(const struct node *node);
/* Every word of admin_node_shown(), in the order of a table; NULL behind the last one. */
const char *admin_node_word(size_t at);

/*
 * Is a node in the state that this word names? A word of a node is what admin_node_shown() says, a
 * word of a GPU means that at least one GPU is in that state; open: the node and at least one GPU
 * are ok; closed: it is not open.
 */
bool admin_node_is(const struct node *node, const char *word);
/* Every word that it knows; NULL behind the last one. */
const char *admin_node_filter(size_t at);

/* What the node's agent reported; is NULL: nothing. Parameters of this type may be NULL, too. */
struct admin_measured {
    const struct measured *measured;
    int64_t now_ms; /* UTC: what is too old by then is left out, with the time that it is of */
};

/* fragments may be NULL. pods: at each GPU, lists who holds how much of it. */
void admin_node(struct json_writer *json, const struct node *node, struct fragments *fragments,
                const struct admin_measured *measured, bool pods);

/* node: where it is, for the indexes of its GPUs. */
void admin_allocation(struct json_writer *json, const struct allocation *allocation,
                      const struct node *node, const struct admin_measured *measured);

/* What pods hold now: of one namespace and model, or in total. */
struct admin_usage {
    uint64_t pods;
    uint64_t gpus; /* each once */
    uint64_t bound_milli;
    uint64_t reserved_milli;
    uint64_t mib;
    uint64_t held_gpus;
    uint64_t unplaced_milli;
};
/* The members pods ... unplacedMilli, inside an object that is open. */
void admin_usage(struct json_writer *json, const struct admin_usage *usage);

/* The members learned ... shapes, inside an object that is open. */
void admin_defrag(struct json_writer *json, const struct defrag_plan *plan);

void admin_drift(struct json_writer *json, const struct drift *drift, int64_t now_ms);

/* The text when the tables that remember requests are full. */
#define ADMIN_UNCLASSED "not remembered: too many pods wait that ask for too many different things"

struct admin_waiting {
    const char *uid;
    const char *namespace;
    const char *name;
    const struct request *request; /* NULL: the request itself is refused, or unclassed */
    bool unclassed;                /* the request was not remembered */
    const char *by;     /* who keeps it waiting: milligpu, gate, kube-scheduler, nobody */
    const char *reason; /* one word */
    const char *text;
    const char *condition; /* what kube-scheduler wrote on the pod; NULL: absent */
    uint32_t offered;      /* nodes in the last shortlist; 0: it was refused */
    uint32_t fitting;
    int64_t since_ms;
    int64_t last_ms; /* 0: nobody has asked */
    uint64_t n_asks;
};
void admin_waiting(struct json_writer *json, const struct admin_waiting *waiting);
/* The same as a part of the view of one pod. */
void admin_waiting_brief(struct json_writer *json, const struct admin_waiting *waiting);

struct admin_policy {
    const struct policy_context *context; /* with a rulebook */
    int64_t now_ms;                       /* UTC */
    const char *failed; /* why the document could not be read again; NULL: it could */
    int64_t failed_ms;  /* UTC, the first time */
};
void admin_policy(struct json_writer *json, const struct admin_policy *policy);

void admin_history(struct json_writer *json, const struct history_row *row);
/*
 * The charges of one allocation that has ended, as an Allocation; containers are no longer
 * distinguished.
 */
void admin_released(struct json_writer *json, const struct history_row *row, size_t rows);

#endif
