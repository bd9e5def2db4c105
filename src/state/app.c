#include "milligpu/app.h"

#include "milligpu/metric.h"

const char *app_grace_why(const struct app *app)
{
    return atomic_load(&app->grace.restored_ledger)
               ? "the ledger is a restored backup: nothing is granted while a Binding that it does "
                 "not know may be on its way (grace_period_s)"
               : "the ledger is new, and a milligpud granted here before: nothing is granted while "
                 "a Binding of it may be on its way (grace_period_s)";
}

const char *app_pods_why(const struct app *app)
{
    return atomic_load(&app->grace.grace_ends_ms) != 0 ? app_grace_why(app)
                                                       : "the list of pods is not complete yet";
}

const char *app_room_why(const struct app *app)
{
    return store_room(app->store) == ROOM_DISK
               ? "the disk of the ledger is full: nothing is granted until it has room again"
               : "the ledger has reached its limit (ledger_max_bytes): nothing is granted until "
                 "there is room in it again";
}

bool app_ready(const struct app *app, const char **out_why)
{
    const char *why = NULL;

    /*
     * What a start waits for comes first, in the order in which it ends; what can break later
     * follows.
     */
    if (!atomic_load(&app->identified))
        why = "the API server has not been reached yet";
    else if (!atomic_load(&app->watch.nodes_synced))
        why = "the list of nodes is not complete yet";
    else if (!atomic_load(&app->watch.pods_synced))
        why = app_pods_why(app);
    else if (atomic_load(&app->health.disk_broken))
        why = "the ledger cannot be written";
    else if (store_room(app->store) != ROOM_ENOUGH)
        why = app_room_why(app);
    else if (atomic_load(&app->health.safe_mode))
        why = safe_mode_why(app);
    if (out_why != NULL)
        *out_why = why;
    return why == NULL;
}

void app_count_refusal(enum reason reason)
{
    must(reason != REASON_NONE && reason < REASONS);
    metric_add(M_REFUSALS, LABEL_VALUES(reason_name(reason)), 1);
}
