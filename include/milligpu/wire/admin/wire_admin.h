/*
 * wire_admin - JSON encoders for the REST API that operators use.
 *
 * One encoder per shape; src/admin/schemas.json describes the same shapes for machines, and a test
 * checks answers against it. Amounts are thousandths and MiB, times RFC 3339 in UTC with
 * milliseconds; an unknown time is left out.
 *
 * Only capacity that new shares can take counts as free; room on a closed GPU or node does not.
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

/* Sums over GPUs. */
struct admin_amounts {
    uint32_t gpus;
    uint64_t capacity_milli; /* sum of sizes, without absent GPUs */
    uint64_t total_milli;    /* sum of the parts */
    uint64_t beyond_milli;   /* charges above the size (account.h) */
    uint64_t part_milli[ACCOUNT_PARTS];
    uint32_t largest_free_milli;
    uint64_t fragment_milli; /* part of the free milli */
};
/* Adds one GPU; fragment_milli is its fragment (fragment.h). */
void admin_amounts_add(struct admin_amounts *amounts, const struct node *node,
                       const struct gpu *gpu, uint32_t fragment_milli);
/* Writes the members capacityMilli ... closedMilli into an open object. */
void admin_amounts(struct json_writer *json, const struct admin_amounts *amounts);
/* Writes the member "closed": milli of each closed part, by name. */
void admin_closed(struct json_writer *json, const struct admin_amounts *amounts);
/* Writes two members, why kube-scheduler may not use a node; nothing if it may. */
void admin_unusable(struct json_writer *json, const char *key, const char *text_key,
                    const struct unusable_cause *cause);

/* Milli that new shares can take on this GPU now. */
uint32_t admin_gpu_free(const struct node *node, const struct gpu *gpu);
const char *admin_gpu_state(const struct gpu *gpu);
const char *admin_node_state(const struct node *node);
/* Like admin_node_state(), but "cordoned" for an ok node whose present GPUs are all cordoned. */
const char *admin_node_shown(const struct node *node);
/* The words of admin_node_shown() by index, in the order of a table; NULL at the end. */
const char *admin_node_word(size_t at);

/*
 * True if the node matches a filter word: a word of admin_node_shown(); a GPU state, if at least
 * one GPU is in it; "open", if the node and at least one GPU are ok; or "closed", if it is not
 * open.
 */
bool admin_node_is(const struct node *node, const char *word);
/* The filter words by index; NULL at the end. */
const char *admin_node_filter(size_t at);

/* Reported usage of one node. Parameters of this type may be NULL. */
struct admin_measured {
    const struct measured *measured; /* borrowed; NULL if nothing was reported */
    int64_t now_ms;                  /* UTC; amounts that are too old by then are left out */
};

/* fragments may be NULL. With pods, each GPU lists its holders and their amounts. */
void admin_node(struct json_writer *json, const struct node *node, struct fragments *fragments,
                const struct admin_measured *measured, bool pods);

/* node is the allocation's node; it supplies the GPU indexes. */
void admin_allocation(struct json_writer *json, const struct allocation *allocation,
                      const struct node *node, const struct admin_measured *measured);

/* Current holdings of pods: by namespace and model, or in total. */
struct admin_usage {
    uint64_t pods;
    uint64_t gpus; /* distinct GPUs */
    uint64_t bound_milli;
    uint64_t reserved_milli;
    uint64_t mib;
    uint64_t held_gpus;
    uint64_t unplaced_milli;
};
/* Writes the members pods ... unplacedMilli into an open object. */
void admin_usage(struct json_writer *json, const struct admin_usage *usage);

/* Writes the members learned ... shapes into an open object. */
void admin_defrag(struct json_writer *json, const struct defrag_plan *plan);

void admin_drift(struct json_writer *json, const struct drift *drift, int64_t now_ms);

/* Shown for a pod whose request found the table of request classes full. */
#define ADMIN_UNCLASSED "not remembered: too many pods wait that ask for too many different things"

struct admin_waiting {
    const char *uid;
    const char *namespace;
    const char *name;
    const struct request *request; /* borrowed; NULL if the request is invalid or unclassed */
    bool unclassed;                /* the table of request classes had no room for it */
    const char *by;                /* blocker: "milligpu", "gate", "kube-scheduler", "nobody" */
    const char *reason;            /* one word */
    const char *text;
    const char *condition; /* text of PodScheduled, from kube-scheduler; NULL if absent */
    uint32_t offered;      /* nodes in the last shortlist; 0 if the pod was refused */
    uint32_t fitting;
    int64_t since_ms;
    int64_t last_ms; /* time of the last filter call; 0 if none */
    uint64_t n_asks;
};
void admin_waiting(struct json_writer *json, const struct admin_waiting *waiting);
/* The short form, as part of the view of one pod. */
void admin_waiting_brief(struct json_writer *json, const struct admin_waiting *waiting);

struct admin_policy {
    const struct policy_context *context; /* has a rulebook */
    int64_t now_ms;                       /* UTC */
    const char *failed;                   /* error of the last reload; NULL if it succeeded */
    int64_t failed_ms;                    /* UTC time of the first failed reload */
};
void admin_policy(struct json_writer *json, const struct admin_policy *policy);

void admin_history(struct json_writer *json, const struct history_row *row);
/*
 * Writes the charges of one ended allocation as an Allocation, without containers: the history does
 * not store them.
 */
void admin_released(struct json_writer *json, const struct history_row *row, size_t rows);

#endif
