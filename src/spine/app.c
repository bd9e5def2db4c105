/*
 * The conditions under which milligpud grants, with their reasons for people, and the count of
 * refusals. Called by webhooks, probes, metrics, doctor and the writer, on any thread.
 */
#include "milligpu/spine/app.h"

#include <string.h>

#include "milligpu/run/metric.h"

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

const char *app_space_why(const struct app *app)
{
    return store_space(app->store) == SPACE_DISK
               ? "the disk of the ledger is full: nothing is granted until it has room again"
               : "the ledger has reached its limit (ledger_max_bytes): nothing is granted until "
                 "there is room in it again";
}

void app_needs(const struct app *app, struct app_need out[APP_NEEDS])
{
    const struct app_need needs[] = {
        {"api-server", atomic_load(&app->identified), "the API server has not been reached yet"},
        {"nodes", atomic_load(&app->watch.nodes_synced), "the list of nodes is not complete yet"},
        {"pods", atomic_load(&app->watch.pods_synced), app_pods_why(app)},
        {"ledger", !atomic_load(&app->health.disk_broken), "the ledger cannot be written"},
        {"ledger-size", store_space(app->store) == SPACE_ENOUGH, app_space_why(app)},
        {"consistency", !atomic_load(&app->health.safe_mode), safe_mode_why(app)},
    };
    static_assert(ARRAY_LEN(needs) == APP_NEEDS, "the caller has room");

    memcpy(out, needs, sizeof needs);
}

bool app_ready(const struct app *app, const char **out_why)
{
    struct app_need need[APP_NEEDS];
    size_t i = 0;

    app_needs(app, need);
    while (i < APP_NEEDS && need[i].is_met)
        i++;
    if (out_why != NULL)
        *out_why = i < APP_NEEDS ? need[i].why : NULL;
    return i == APP_NEEDS;
}

void app_count_refusal(enum reason reason)
{
    must(reason != REASON_NONE && reason < REASONS);
    metric_add(M_REFUSALS, LABEL_VALUES(reason_name(reason)), 1);
}
