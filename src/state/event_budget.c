#include "milligpu/event_budget.h"

#include "milligpu/base.h"

/*
 * A budget for each whole minute since the first Event. Called by drift_watch.c,
 * writer_advice.c and reports.c.
 */
enum { MINUTE_MS = 60000 };

bool event_budget_take(struct event_budget *budget, int64_t now_ms)
{
    must(now_ms >= budget->minute_ms);

    if (now_ms - budget->minute_ms >= MINUTE_MS)
        *budget = (struct event_budget){.minute_ms = now_ms};
    if (budget->sent >= EVENTS_PER_MINUTE)
        return false;
    budget->sent++;
    must(budget->sent <= EVENTS_PER_MINUTE);
    return true;
}
