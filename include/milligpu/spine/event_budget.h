/*
 * event_budget - how many Events may be sent, and journal entries made for others.
 *
 * Each Event is a write to etcd, and one cause (a node pool without its driver, a Job of a thousand
 * pods) makes many at once. Each kind of Event has a budget of its own, so that no kind, and no
 * tenant, keeps another from being told. Where many nodes share a budget, each has a part of it, so
 * that an agent that lies silences no other.
 *
 * Pure; one thread.
 */
#ifndef MILLIGPU_EVENT_BUDGET_H
#define MILLIGPU_EVENT_BUDGET_H

#include "milligpu/base/arena.h"
#include "milligpu/base/map.h"

enum { EVENTS_PER_MINUTE = 30 };

struct event_budget {
    int64_t minute_ms; /* monotonic start of the minute in which sent counts */
    uint32_t sent;
};

/* Of one minute: the nodes that took from it, so at most total_per_minute entries. */
struct node_budget {
    uint32_t per_node;
    uint32_t total_per_minute;
    struct event_budget total;
    struct map taken; /* uint32_t, by node */
    struct arena arena;
};

void node_budget_init(struct node_budget *budget, uint32_t per_node, uint32_t total_per_minute);
void node_budget_done(struct node_budget *budget);
/* False: this node's part of this minute is spent, or the whole minute. */
bool node_budget_take(struct node_budget *budget, struct text node, int64_t now_ms);

/* Takes one Event out of the budget; false: this minute's are spent. */
bool event_budget_take(struct event_budget *budget, int64_t now_ms);

#endif
