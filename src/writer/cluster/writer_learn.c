/*
 * Learns the workload (tally.h): each pod that requests a share counts once, at its first event,
 * whatever its fate. Webhook calls do not count. Pods are counted under every policy, so that a
 * policy that needs the workload starts warm, and because fragments (fragment.h) are shown under
 * each. Called by writer.c and writer_pods.c.
 *
 * The tally is stored from time to time, not with each batch: after a kill some pods are counted
 * twice or not at all, which hardly changes an order.
 */
#include <inttypes.h>

#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"

#include "writer/writer_internal.h"

enum { STORE_LEARNED_MS = 60000 };

void writer_begin_to_learn(struct writer *writer)
{
    must(writer->learning.tally == NULL);
    writer->learning.tally = tally_new();
    writer_set_policy_context(writer);
}

/* Starts without the stored workload if it is unreadable: it only orders placements. */
void writer_load_learned(struct writer *writer)
{
    struct tally *tally = NULL;
    struct err err;

    must(!writer->batch.open);
    if (store_learned(writer->app->store, &tally, &writer->learning.learned_until_ms, &err) < 0)
        log_write(LOG_WARN, "learning the workload from scratch", log_str("error", err.text));
    if (tally == NULL)
        return;
    tally_free(writer->learning.tally);
    writer->learning.tally = tally;
    writer->learning.learned_ms = writer->learning.learned_until_ms;
    writer->learning.stored_pods = tally_pods(tally);
    writer_set_policy_context(writer);
}

bool writer_is_new_pod(const struct writer *writer, const struct pod *pod)
{
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, pod->uid);

    return record == NULL || record->epoch == 0;
}

/* Returns true for a pod of the first list that an earlier process has counted. */
static bool counted_before(const struct writer *writer, const struct pod *pod)
{
    return writer->learning.stored_pods > 0 && !atomic_load(&writer->app->watch.pods_synced) &&
           pod->created_ms <= writer->learning.learned_until_ms;
}

void writer_learn(struct writer *writer, const struct pod *pod)
{
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, pod->uid);

    must(record != NULL);
    const struct request *request = pod_record_request(record);
    /* The request may be missing because the pod cache had no room. */
    if (record->verdict != REQUEST_OK || request == NULL || request->n_wants == 0 ||
        counted_before(writer, pod))
        return;
    tally_count(writer->learning.tally, request);
    if (pod->created_ms > writer->learning.learned_ms)
        writer->learning.learned_ms = pod->created_ms;
    metric_add(M_WORKLOAD_PODS, NULL, 1);
}

void writer_use_what_was_learned(struct writer *writer)
{
    must(writer->learning.tally != NULL);
    if (!tally_is_due(writer->learning.tally))
        return;
    writer_set_policy_context(writer);
    batch_publish(writer->app, writer->ledger);
}

/* Not during the first list: learned_ms would cover older pods that were not counted yet. */
void writer_store_learned(struct writer *writer)
{
    const struct store_ops *ops = &writer->app->store_ops;
    const uint64_t pods = tally_pods(writer->learning.tally);
    struct err err;

    must(!writer->batch.open);
    if (pods == writer->learning.stored_pods || !atomic_load(&writer->app->watch.pods_synced) ||
        atomic_load(&writer->app->health.safe_mode) || !atomic_load(&writer->app->identified))
        return;
    writer->learning.store_learned_ms = writer_now_ms(writer) + STORE_LEARNED_MS;
    if (ops->learn(ops->ctx, writer->learning.tally, writer->learning.learned_ms, &err) < 0) {
        log_write(LOG_WARN, "could not store the learned workload", log_str("error", err.text));
        return;
    }
    writer->learning.stored_pods = pods;
}

void writer_store_learned_now_and_then(struct writer *writer)
{
    if (writer_now_ms(writer) >= writer->learning.store_learned_ms)
        writer_store_learned(writer);
}
