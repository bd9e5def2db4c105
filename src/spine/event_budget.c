/*
 * Rate limits per minute, which begins with the first Event after the previous one. Called by
 * drift_watch.c, writer_advice.c and, with a limit for each node, by reports.c.
 */
#include "milligpu/spine/event_budget.h"

#include "milligpu/base/base.h"

enum { MINUTE_MS = 60000 };

/* event_budget_take() with another limit. */
static bool event_budget_take_of(struct event_budget *budget, int64_t now_ms, uint32_t per_minute)
{
    must(now_ms >= budget->minute_ms);

    if (now_ms - budget->minute_ms >= MINUTE_MS)
        *budget = (struct event_budget){.minute_ms = now_ms};
    if (budget->sent >= per_minute)
        return false;
    budget->sent++;
    must(budget->sent <= per_minute);
    return true;
}

bool event_budget_take(struct event_budget *budget, int64_t now_ms)
{
    return event_budget_take_of(budget, now_ms, EVENTS_PER_MINUTE);
}

void node_budget_init(struct node_budget *budget, uint32_t per_node, uint32_t total_per_minute)
{
    must(per_node > 0 && per_node <= total_per_minute);
    *budget = (struct node_budget){.per_node = per_node, .total_per_minute = total_per_minute};
    map_init(&budget->taken);
    arena_init(&budget->arena);
}

void node_budget_done(struct node_budget *budget)
{
    map_done(&budget->taken);
    arena_done(&budget->arena);
}

/* Called for each new minute, so the entries of one minute are the limit of the table. */
static void node_budget_forget(struct node_budget *budget)
{
    map_done(&budget->taken);
    map_init(&budget->taken);
    arena_reset(&budget->arena);
}

static uint32_t *node_budget_add(struct node_budget *budget, struct text node)
{
    uint32_t *taken = arena_alloc(&budget->arena, sizeof *taken);

    *taken = 0;
    must(map_put(&budget->taken, (struct text){arena_copy(&budget->arena, node), node.len},
                 taken) == NULL);
    return taken;
}

bool node_budget_take(struct node_budget *budget, struct text node, int64_t now_ms)
{
    uint32_t *taken = NULL;

    must(node.len > 0);
    if (now_ms - budget->total.minute_ms >= MINUTE_MS)
        node_budget_forget(budget);
    else
        taken = map_find(&budget->taken, node);
    if (taken != NULL && *taken >= budget->per_node)
        return false;
    if (!event_budget_take_of(&budget->total, now_ms, budget->total_per_minute))
        return false;
    if (taken == NULL)
        taken = node_budget_add(budget, node);
    ++*taken;
    must(budget->taken.count <= budget->total.sent);
    return true;
}
