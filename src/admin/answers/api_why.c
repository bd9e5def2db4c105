/*
 * Explains why a pod is not bound, besides the reasons of nodes: its scheduler with the condition
 * that it wrote, and the older pod of its owner that holds the room. Called for GET /api/v1/pods in
 * an admin thread.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/core/answer/filter.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

#include "api_unbound.h"

static void why_put_bool(struct json_writer *json, const char *key, bool value)
{
    json_write_key(json, key);
    json_write_bool(json, value);
}

/* --- its scheduler --- */

static void put_condition(struct json_writer *json, struct arena *arena,
                          const struct pod_scheduling *scheduling)
{
    const char *message = scheduling->message != NULL ? scheduling->message : "";
    char at[TIME_TEXT_BYTES];

    if (scheduling->gates != NULL)
        json_write_member(json, "gates", scheduling->gates);
    if (scheduling->reason == NULL)
        return;
    json_write_member(json, "condition",
                      arena_printf(arena, "%s%s%s", scheduling->reason,
                                   scheduling->reason[0] != '\0' && message[0] != '\0' ? ": " : "",
                                   message));
    if (scheduling->since_ms == 0)
        return;
    time_format(scheduling->since_ms, at);
    json_write_member(json, "since", at);
}

void api_why_put_scheduling(struct json_writer *json, struct api_call *call,
                            const struct pod_record *record)
{
    static const struct pod_scheduling nothing = {.scheduler = NULL};
    const struct pod_scheduling *scheduling =
        record->context != NULL ? &record->context->scheduling : &nothing;
    const bool asked =
        waiting_pods_has_asked(call->app->waiting_pods, text_of(pod_record_uid(record)));
    struct unasked *unasked = arena_alloc(&call->arena, sizeof *unasked);

    must(!pod_record_is_bound(record));
    api_unasked(call->app, scheduling, unasked);
    json_write_key(json, "scheduling");
    json_write_object(json);
    json_write_member(json, "scheduler", unbound_scheduler(scheduling));
    why_put_bool(json, "serves", unasked->can_serve);
    why_put_bool(json, "asked", asked);
    if (!asked) {
        json_write_member(json, "by", unasked->by);
        json_write_member(json, "reason", unasked->word);
        json_write_member(json, "text", unasked->text);
    }
    put_condition(json, &call->arena, scheduling);
    json_write_object_end(json);
}

/* --- its predecessor --- */

/* Limit of predecessors on one node: older pods of the same owner. */
enum { PREDECESSORS_MAX = 64 };

struct predecessors {
    const struct node *node;
    uint32_t count;
    const struct allocation *allocation[PREDECESSORS_MAX];
    struct text uid[PREDECESSORS_MAX];
    bool terminating[PREDECESSORS_MAX];
};

static void find_on_node(struct api_call *call, const struct node *node,
                         const struct pod_record *record, struct predecessors *out)
{
    must(record->context != NULL);
    out->node = node;
    out->count = 0;
    for (uint32_t i = 0; i < node->n_allocations && out->count < PREDECESSORS_MAX; i++) {
        const struct allocation *allocation = node->allocation[i];
        const struct text uid = text_of(allocation->facts.uid);
        if (strcmp(allocation->facts.namespace, pod_record_namespace(record)) != 0)
            continue;
        const struct pod_predecessor predecessor =
            pod_cache_predecessor(call->app->pod_cache, uid, &record->context->owner);
        if (!predecessor.exists)
            continue;
        out->allocation[out->count] = allocation;
        out->uid[out->count] = uid;
        out->terminating[out->count++] = predecessor.terminating;
    }
}

/* Index of a predecessor whose end is enough, or 0 if all have to end; -1 if that is too little. */
static int who_is_enough(const struct snapshot *snapshot, const struct request *request,
                         const struct predecessors *found)
{
    for (uint32_t i = 0; i < found->count; i++)
        if (preempt_ask(snapshot->context, found->node, request, NULL, &found->uid[i], 1) ==
            REASON_NONE)
            return (int)i;
    if (found->count > 1 && preempt_ask(snapshot->context, found->node, request, NULL, found->uid,
                                        found->count) == REASON_NONE)
        return 0;
    return -1;
}

/* The change that makes the old pod end before the new one is made. */
static const char *advice_for(const char *kind, bool terminating)
{
    if (terminating)
        return "it is being deleted, and frees its share when it has ended";
    if (strcmp(kind, "Deployment") == 0)
        return "set maxSurge: 0 and maxUnavailable: 1 in spec.strategy.rollingUpdate, or "
               "spec.strategy.type: Recreate";
    if (strcmp(kind, "Rollout") == 0)
        return "set maxSurge: 0 and maxUnavailable: 1 in spec.strategy.canary";
    if (strcmp(kind, "DaemonSet") == 0)
        return "set maxSurge: 0 and maxUnavailable: 1 in spec.updateStrategy.rollingUpdate";
    return "let its controller end the old pod before it makes the new one, or delete it";
}

static void put_predecessor(struct json_writer *json, struct arena *arena,
                            const struct pod_owner *owner, const struct predecessors *found,
                            uint32_t at)
{
    const struct allocation *allocation = found->allocation[at];
    const uint32_t milli = allocation_milli(allocation);

    must(at < found->count);
    json_write_key(json, "predecessor");
    json_write_object(json);
    json_write_member(json, "namespace", allocation->facts.namespace);
    json_write_member(json, "name", allocation->facts.name);
    json_write_member(json, "node", found->node->name->text);
    json_write_key(json, "milli");
    json_write_u64(json, milli);
    json_write_member(json, "owner", arena_printf(arena, "%s %s", owner->kind, owner->name));
    why_put_bool(json, "terminating", found->terminating[at]);
    json_write_member(
        json, "text",
        arena_printf(arena,
                     "the older pod %s of the same %s holds %u milli on node %s, where this "
                     "one fits once it is gone: %s",
                     allocation->facts.name, owner->kind, milli, found->node->name->text,
                     advice_for(owner->kind, found->terminating[at])));
    json_write_object_end(json);
}

void api_why_put_predecessor(struct json_writer *json, struct api_call *call,
                             const struct snapshot *snapshot, const struct pod_record *record,
                             const struct request *request)
{
    const struct node *node;

    must(!pod_record_is_bound(record));
    if (record->verdict != REQUEST_OK || record->context == NULL ||
        record->context->owner.kind == NULL)
        return;
    struct predecessors *found = arena_alloc(&call->arena, sizeof *found);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;) {
        const enum unusable bar = node_bar(node, pod_record_demands(record)).why;
        if (bar != USABLE && bar != UNUSABLE_UNKNOWN)
            continue; /* kube-scheduler would not place the pod there */
        find_on_node(call, node, record, found);
        const int enough = who_is_enough(snapshot, request, found);
        if (enough < 0)
            continue;
        put_predecessor(json, &call->arena, &record->context->owner, found, (uint32_t)enough);
        return;
    }
}
