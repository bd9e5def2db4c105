/*
 * Wakes kube-scheduler when freed room, a change of tolerations or elapsed time may help a waiting
 * pod. Called by writer.c once the batch is on disk and published; the outbox sends the wake-up.
 */
#include "milligpu/base/alloc.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"
#include "milligpu/writer/writer.h"

#include "writer_internal.h"

/*
 * Returns the nodes on which this batch freed room, in their present state (a later change may have
 * taken the room again); the caller frees the array.
 */
static const struct node **wake_roomier(const struct writer *writer, size_t *out_count)
{
    const struct node **node = xcalloc(writer->batch.n_changes + 1, sizeof *node);

    *out_count = 0;
    for (size_t i = 0; i < writer->batch.n_changes; i++) {
        const struct change *change = writer->batch.change[i];
        if (!change_gives_room(change) || change->node_after == NULL)
            continue;
        const struct node *now = ledger_node(writer->ledger, atom_text(change->node_after->name));
        if (now != NULL && (*out_count == 0 || node[*out_count - 1] != now))
            node[(*out_count)++] = now;
    }
    must(*out_count <= writer->batch.n_changes);
    return node;
}

void writer_wake(struct writer *writer, const struct atom *node)
{
    must(writer->app->outbox != NULL);
    outbox_wake(writer->app->outbox, waiting_pods_count(writer->app->waiting_pods),
                node != NULL ? node->text : NULL);
}

/*
 * Returns true if a rule has more idle hosts than at the last check. One more than its reserve
 * opens all idle hosts, so a pod that fits on no node of this batch may fit there.
 */
static bool more_are_idle(struct writer *writer)
{
    const struct policy_context *context = ledger_policy_context(writer->ledger);
    bool more = false;

    must(context != NULL);
    for (uint32_t i = 0; context->rulebook != NULL && i < context->rulebook->n_rules; i++) {
        more = more || context->idle[i] > writer->wake.idle[i];
        writer->wake.idle[i] = context->idle[i];
    }
    return more;
}

void writer_check_taints(struct writer *writer)
{
    const struct tolerations *tolerations = pod_cache_tolerations(writer->app->pod_cache);
    const uint64_t version = tolerations_version(tolerations);

    must(!writer->batch.open && writer->batch.n_changes == 0);
    if (version == writer->wake.tolerations_version)
        return;
    writer->wake.tolerations_version = version;
    if (ledger_set_tolerations(writer->ledger, tolerations) == 0)
        return;
    batch_publish(writer->app, writer->ledger);
    if (more_are_idle(writer) && waiting_pods_count(writer->app->waiting_pods) > 0)
        writer_wake(writer, writer_some_node(writer));
}

void writer_wake_if_it_helps(struct writer *writer)
{
    must(!writer->batch.open);

    size_t count;
    const struct node **node = wake_roomier(writer, &count);

    /*
     * The room is already published, so a refusal that is recorded after this check is evaluated
     * again (docs/why/004).
     */
    if (count > 0)
        app_yield(writer->app, YIELD_AFTER_PUBLISH);
    const bool opens = more_are_idle(writer) && waiting_pods_count(writer->app->waiting_pods) > 0;
    if (opens ||
        waiting_pods_would_fit(writer->app->waiting_pods, ledger_policy_context(writer->ledger),
                               writer_now_ms(writer), node, count))
        writer_wake(writer, count > 0 ? node[0]->name : writer_some_node(writer));
    xfree(node);
}

const struct atom *writer_some_node(const struct writer *writer)
{
    size_t at = 0;
    const struct node *node = ledger_next_node(writer->ledger, &at);

    must(node == NULL || node->name != NULL);
    return node != NULL ? node->name : NULL;
}

void writer_wake_for_the_late(struct writer *writer)
{
    const struct atom *node;

    must(!writer->batch.open);
    if (waiting_pods_mark_late(writer->app->waiting_pods, writer_now_ms(writer),
                               view_capacity_generation(writer->app->view), &node))
        writer_wake(writer, node != NULL ? node : writer_some_node(writer));
    atom_unref(node);
}
