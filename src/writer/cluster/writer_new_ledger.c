#include "milligpu/base/map.h"
#include "milligpu/run/log.h"
#include "milligpu/writer/writer.h"

#include "writer/writer_internal.h"

enum {
    RETRY_MS = 250, /* pause between tries to claim the ledger */
};

bool writer_begins_empty(const struct writer *writer)
{
    must(writer->app != NULL);
    return atomic_load(&writer->app->grace.new_ledger) &&
           !atomic_load(&writer->app->grace.restored_ledger);
}

void writer_pods_are_in(struct writer *writer)
{
    struct app *app = writer->app;

    must(writer->pod_list.pods_ended);
    /*
     * Three cases: the ledger already has its owner; there was no earlier milligpud, or the grace
     * period is over; the grace period begins. Only its begin is logged; its end does not change.
     */
    if (!atomic_load(&app->grace.new_ledger)) {
        atomic_store(&app->watch.pods_synced, true);
    } else if (app->grace.grace_ms == 0 || writer->pod_list.after_grace ||
               (!writer->new_ledger.granted_before &&
                !atomic_load(&app->grace.wake_object_existed))) {
        writer->new_ledger.can_claim = true;
    } else if (atomic_exchange(&app->grace.grace_ends_ms,
                               writer->new_ledger.start_ms + app->grace.grace_ms) == 0) {
        log_write(LOG_WARN, app_grace_why(app), log_i64("ms", app->grace.grace_ms));
    }
}

void writer_own_ledger(struct writer *writer)
{
    struct app *app = writer->app;
    struct err err;

    must(!writer->batch.open);
    if (!writer->new_ledger.can_claim || writer_now_ms(writer) < writer->new_ledger.claim_retry_ms)
        return;
    if (atomic_load(&app->health.safe_mode))
        return; /* the file stays unchanged for analysis */
    if (store_set_cluster(app->store, app->instance.cluster, &err) < 0) {
        log_write(LOG_ERROR, "the ledger cannot be claimed", log_str("error", err.text));
        atomic_store(&app->health.disk_broken, true);
        writer->new_ledger.claim_retry_ms = writer_now_ms(writer) + RETRY_MS;
        return;
    }
    /* Only give_way() on a new ledger needs the ages. pods_synced comes last: it makes us ready. */
    writer->new_ledger.can_claim = false;
    writer_done_seen(&writer->node_list.ages);
    map_init(&writer->node_list.ages);
    atomic_store(&app->grace.new_ledger, false);
    atomic_store(&app->grace.restored_ledger, false);
    atomic_store(&app->grace.grace_ends_ms, 0);
    atomic_store(&app->watch.pods_synced, true);
}
