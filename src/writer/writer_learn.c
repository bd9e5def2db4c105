/*
 * The policy of the ledger, and what it learns of the workload (tally.h): each pod that asks for a
 * share counts once, when the watch shows it for the first time, whatever becomes of it. Webhook
 * calls teach nothing. Pods are counted under every policy, so that one that needs to know them
 * does not begin cold. Called by writer.c and writer_pods.c.
 */
#include "milligpu/metric.h"

#include "writer/writer_internal.h"

/* A new ledger orders by binpack. */
static void set_outlook(struct writer *writer)
{
    must(!writer->batch.open);
    if (writer->policy == POLICY_BINPACK)
        return;
    struct workload *workload =
        policy_needs_workload(writer->policy) ? tally_workload(writer->tally) : NULL;
    struct outlook *outlook = outlook_new(writer->policy, 0, workload);
    ledger_set_outlook(writer->ledger, outlook);
    outlook_unref(outlook);
    workload_unref(workload);
}

void writer_begin_to_learn(struct writer *writer)
{
    must(writer->tally == NULL);
    must(policy_of_name(text_of(writer->app->settings->policy), &writer->policy));
    writer->tally = tally_new();
    set_outlook(writer);
}

bool writer_is_new_pod(const struct writer *writer, const struct pod *pod)
{
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, pod->uid);

    return record == NULL || record->epoch == 0;
}

void writer_learn(struct writer *writer, const struct pod *pod)
{
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, pod->uid);

    must(record != NULL);
    /* For some of so many pods that their requests have no room in the cache, nothing is known. */
    if (record->verdict != REQUEST_OK || record->request == NULL || record->request->wants == 0)
        return;
    tally_count(writer->tally, record->request);
    metric_add(M_WORKLOAD_PODS, NULL, 1);
    metric_set(M_WORKLOAD_CLASSES, NULL, tally_classes(writer->tally));
}

void writer_use_what_was_learned(struct writer *writer)
{
    must(writer->tally != NULL);
    if (!policy_needs_workload(writer->policy) || !tally_is_due(writer->tally))
        return;
    set_outlook(writer);
    batch_publish(writer->app, writer->ledger);
}
