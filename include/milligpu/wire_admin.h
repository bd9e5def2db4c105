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

#include "milligpu/json.h"
#include "milligpu/node.h"
#include "milligpu/reconcile.h"

/* Sums over GPUs. An absent GPU counts with its charges, but not with its size. */
struct admin_amounts {
    uint32_t gpus;
    uint64_t capacity_milli;
    uint64_t used_milli;
    uint64_t reserved_milli;
    uint64_t free_milli;
    uint32_t largest_free_milli;
};
void admin_amounts_add(struct admin_amounts *amounts, const struct node *node,
                       const struct gpu *gpu);
/* The members capacityMilli ... largestFreeMilli, inside an object that is open. */
void admin_amounts(struct json_writer *json, const struct admin_amounts *amounts);

/* What a new share can take on this GPU now. */
uint32_t admin_gpu_free(const struct node *node, const struct gpu *gpu);
const char *admin_gpu_state(const struct gpu *gpu);
const char *admin_node_state(const struct node *node);

/* pods: at each GPU, lists who holds how much of it. */
void admin_node(struct json_writer *json, const struct node *node, bool pods);

/* node: where it is, for the indexes of its GPUs. */
void admin_allocation(struct json_writer *json, const struct allocation *allocation,
                      const struct node *node);

void admin_drift(struct json_writer *json, const struct drift *drift);

/* The text when the tables that remember requests are full. */
#define ADMIN_WISHLESS "not remembered: too many pods wait that ask for too many different things"

struct admin_waiting {
    const char *uid;
    const char *namespace;
    const char *name;
    const struct request *request; /* NULL: the request itself is refused, or wishless */
    bool wishless;                 /* the request was not remembered */
    const char *text;
    uint32_t offered; /* nodes in the last shortlist; 0: it was refused */
    uint32_t fitting;
    int64_t since_ms;
    int64_t last_ms;
    uint64_t asks;
};
void admin_waiting(struct json_writer *json, const struct admin_waiting *waiting);
/* The same as a part of the view of one pod. */
void admin_waiting_brief(struct json_writer *json, const struct admin_waiting *waiting);

void admin_history(struct json_writer *json, const struct history_row *row);
/*
 * The charges of one allocation that has ended, as an Allocation; containers are no longer
 * distinguished.
 */
void admin_released(struct json_writer *json, const struct history_row *row, size_t rows);

#endif
