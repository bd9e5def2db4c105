/*
 * event_budget - rate limits for Events, and for journal entries that agents cause.
 *
 * Each Event is a write to etcd, and one cause (a node pool without its driver, a Job of a thousand
 * pods) makes many at once. Each kind of Event has a budget of its own, so that no kind, and no
 * tenant, uses up the budget of another. In a budget shared by many nodes each node has a limit, so
 * that no malicious agent uses up the budget of others.
 *
 * Pure; one thread.
 */
#ifndef MILLIGPU_EVENT_BUDGET_H
#define MILLIGPU_EVENT_BUDGET_H

#include "milligpu/base/arena.h"
#include "milligpu/base/map.h"

enum { EVENTS_PER_MINUTE = 30 };

struct event_budget {
    int64_t minute_ms; /* monotonic start of the current minute */
    uint32_t sent;     /* in the current minute */
};

struct node_budget {
    uint32_t per_node; /* limit per minute of one node */
    uint32_t total_per_minute;
    struct event_budget total;
    /* uint32_t amount used in the current minute, by node: at most total_per_minute entries */
    struct map taken;
    struct arena arena; /* contents of taken */
};

void node_budget_init(struct node_budget *budget, uint32_t per_node, uint32_t total_per_minute);
void node_budget_done(struct node_budget *budget);
/* False: the limit of this node or of all nodes is reached for this minute. */
bool node_budget_take(struct node_budget *budget, struct text node, int64_t now_ms);

/* Takes one Event out of the budget; false: the limit is reached for this minute. */
bool event_budget_take(struct event_budget *budget, int64_t now_ms);

#endif
