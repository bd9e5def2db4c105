/*
 * Finds pods whose scheduler does not call milligpud. Called by pod and doctor in admin threads.
 * Known schedulers are those that have called since the start; before the first call, no pod is
 * reported.
 */
#include "api_unserved.h"

#include <string.h>

#include "milligpu/waiting/waiting_pods.h"

static bool is_served(const struct api_call *call, const char *scheduler)
{
    must(scheduler != NULL);
    return schedulers_serves(waiting_pods_schedulers(call->app->waiting_pods), scheduler);
}

const char *api_unserved_why(struct api_call *call, const struct pod_record *record)
{
    const struct settings *settings = atomic_load(&call->app->settings);
    size_t count;

    if (!record->ours || !pod_record_asks(record) || record->context == NULL)
        return NULL;
    const char *scheduler = pod_record_is_bound(record)
                                ? record->context->scheduling.scheduler
                                : unbound_scheduler(&record->context->scheduling);
    const char *served = api_served_names(call->app, &call->arena, &count);
    if (scheduler == NULL || count == 0 || is_served(call, scheduler))
        return NULL;
    return arena_printf(&call->arena,
                        "%s/%s asks for %s and names scheduler %s, which has not asked milligpud "
                        "since its start; milligpud serves %s: set spec.schedulerName%s%s and "
                        "create it again",
                        pod_record_namespace(record), pod_record_name(record), settings->resource,
                        scheduler, served, count == 1 ? ": " : " to one of these",
                        count == 1 ? served : "");
}

static void add_unserved(struct unserved *out, struct unserved_pod pod)
{
    must(pod.scheduler != NULL);
    must(out->alarms <= out->count);
    out->pod[out->count++] = pod;
    if (!pod.is_alarm)
        return;
    out->pod[out->count - 1] = out->pod[out->alarms];
    out->pod[out->alarms++] = pod;
}

/* True if the pod's GPUs are a guess or not known. */
static bool is_adopted(const struct allocation *allocation)
{
    must(allocation != NULL);
    return allocation->facts.presumed || allocation->facts.unplaced_milli > 0;
}

/*
 * Any tenant can name an unknown scheduler, or make a pod that fits on no node. A pod is an alarm
 * only if a scheduler tries it and counts our resource itself, or if its scheduler is the default.
 */
static void find_unbound(struct api_call *call, const struct unbound_pods *unbound,
                         struct unserved *out)
{
    const int64_t wall_ms = call->app->clock.wall_ms(call->app->clock.ctx);

    for (size_t i = 0; i < unbound->count; i++) {
        const struct unbound_pod *pod = &unbound->pod[i];
        const char *scheduler = unbound_scheduler(&pod->scheduling);
        struct unasked unasked;
        if (wall_ms - pod->created_ms < ASKED_LATE_MS || is_served(call, scheduler))
            continue;
        api_unasked(call->app, &pod->scheduling, &unasked);
        add_unserved(out, (struct unserved_pod){
                              .namespace = pod->namespace,
                              .name = pod->name,
                              .scheduler = scheduler,
                              .is_alarm = !unasked.is_explained &&
                                          (unasked.has_condition ||
                                           strcmp(scheduler, SCHEDULER_DEFAULT) == 0),
                          });
    }
}

static void find_bound(struct api_call *call, const struct node *node, struct unserved *out)
{
    const int64_t wall_ms = call->app->clock.wall_ms(call->app->clock.ctx);

    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation_facts *facts = &node->allocation[i]->facts;
        if (!is_adopted(node->allocation[i]))
            continue;
        const char *scheduler =
            pod_cache_scheduler(call->app->pod_cache, text_of(facts->uid), &call->arena);
        if (scheduler == NULL || is_served(call, scheduler))
            continue;
        add_unserved(out, (struct unserved_pod){
                              .namespace = facts->namespace,
                              .name = facts->name,
                              .scheduler = scheduler,
                              .node = node->name->text,
                              .is_alarm = wall_ms - facts->bound_ms < DRIFT_ADOPTED_MS,
                          });
    }
}

static size_t count_adopted(const struct snapshot *snapshot)
{
    const struct node *node;
    size_t count = 0;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_allocations; i++)
            count += is_adopted(node->allocation[i]);
    return count;
}

void api_unserved(struct api_call *call, const struct snapshot *snapshot,
                  const struct unbound_pods *unbound, struct unserved *out)
{
    const struct node *node;
    size_t served;

    *out = (struct unserved){.served = api_served_names(call->app, &call->arena, &served)};
    if (served == 0)
        return;
    const size_t most = unbound->count + count_adopted(snapshot);
    out->pod = arena_array(&call->arena, most, sizeof *out->pod);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        find_bound(call, node, out);
    find_unbound(call, unbound, out);
    must(out->alarms <= out->count && out->count <= most);
}
