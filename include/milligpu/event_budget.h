/*
 * event_budget - how many Events may be sent.
 *
 * Each Event is a write to etcd, and one cause (a node pool without its driver, a Job of a thousand
 * pods) makes many at once. Each kind of Event has a budget of its own, so that no kind, and no
 * tenant, keeps another from being told.
 *
 * Pure; one thread.
 */
#ifndef MILLIGPU_EVENT_BUDGET_H
#define MILLIGPU_EVENT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

enum { EVENTS_PER_MINUTE = 30 };

struct event_budget {
    int64_t minute_ms; /* monotonic start of the minute in which sent counts */
    uint32_t sent;
};

/* Takes one Event out of the budget; false: this minute's are spent. */
bool event_budget_take(struct event_budget *budget, int64_t now_ms);
/* The same with another size of the budget. */
bool event_budget_take_of(struct event_budget *budget, int64_t now_ms, uint32_t per_minute);

#endif
