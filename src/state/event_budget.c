#include "milligpu/event_budget.h"

#include "milligpu/base.h"

/*
 * A budget for each whole minute since the first Event. Called by drift_watch.c,
 * writer_advice.c and reports.c.
 */
enum { MINUTE_MS = 60000 };

bool event_budget_take_of(struct event_budget *budget, int64_t now_ms, uint32_t per_minute)
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
