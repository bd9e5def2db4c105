/*
 * Collects unbound pods that request shares, and finds why a scheduler has not asked about one of
 * them. Called by waiting, pod and doctor in admin threads. The watch shows each pod's PodScheduled
 * condition; kube-scheduler writes it and calls no extender if its own filters leave no node.
 */
#include "api_unbound.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/condition.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

/* Runs under the pod cache's lock, which the writer needs: only copies; api_unbound() filters. */
static void note_unbound(void *user, const struct pod_record *record)
{
    struct unbound_pods *out = user;
    struct arena *arena = out->arena;

    must(!pod_record_is_bound(record) && pod_record_asks(record));
    if (!record->ours || pod_record_terminating_ms(record) != 0)
        return;
    if (out->count == UNBOUND_MAX) {
        out->overflow = true;
        return;
    }
    struct unbound_pod *pod = &out->pod[out->count++];
    *pod =
        (struct unbound_pod){.uid = arena_copy(arena, text_of(pod_record_uid(record))),
                             .namespace = arena_copy(arena, text_of(pod_record_namespace(record))),
                             .name = arena_copy(arena, text_of(pod_record_name(record))),
                             .created_ms = record->created_ms};
    if (record->context != NULL)
        pod->scheduling = pod_scheduling_keep(&record->context->scheduling, arena);
}

/* The table is in the arena, because it is too large for a thread's stack. */
void api_unbound(struct api_call *call, const struct snapshot *snapshot, struct unbound_pods *out)
{
    size_t kept = 0;

    *out = (struct unbound_pods){
        .arena = &call->arena,
        .pod = arena_array(&call->arena, UNBOUND_MAX, sizeof(struct unbound_pod))};
    pod_cache_each_unbound(call->app->pod_cache, out, note_unbound);
    for (size_t i = 0; i < out->count; i++)
        /* Skips pods with a reservation: their Binding is in progress. */
        if (snapshot_open(snapshot, text_of(out->pod[i].uid)) == NULL)
            out->pod[kept++] = out->pod[i];
    out->count = kept;
    must(out->count <= UNBOUND_MAX);
}

const char *unbound_scheduler(const struct pod_scheduling *scheduling)
{
    return scheduling->scheduler != NULL ? scheduling->scheduler : SCHEDULER_DEFAULT;
}

const char *api_served_names(const struct app *app, struct arena *arena, size_t *count)
{
    enum { CLIPPED_BYTES = 300 };
    CLEANUP(strbuf_done) struct strbuf names;
    const char *name[SCHEDULERS_MAX];
    char clipped[CLIPPED_BYTES];

    must(app->waiting_pods != NULL);
    strbuf_init(&names);
    *count = schedulers_served(waiting_pods_schedulers(app->waiting_pods), arena, name);
    for (size_t i = 0; i < *count; i++)
        strbuf_printf(&names, "%s%s", i > 0 ? ", " : "", name[i]);
    text_clip((struct text){names.data, names.len}, clipped, sizeof clipped);
    return arena_copy(arena, text_of(clipped));
}

/* For a pod without a condition: its scheduler does not exist or has not tried the pod yet. */
static void say_unasked(const struct app *app, const struct pod_scheduling *scheduling,
                        struct unasked *out)
{
    struct arena arena;
    const char *name = unbound_scheduler(scheduling);
    size_t count;

    out->by = UNASKED_BY_NOBODY;
    out->word = out->can_serve ? "unasked" : "scheduler";
    arena_init(&arena);
    const char *served = api_served_names(app, &arena, &count);
    if (app->fake != NULL && !out->can_serve)
        (void)snprintf(out->text, sizeof out->text,
                       "milligpud is standalone, so no scheduler is there: milligpuctl play "
                       "schedules the pods of a manifest");
    else if (out->can_serve)
        (void)snprintf(out->text, sizeof out->text, "%s has not asked about it yet", name);
    else if (count == 0)
        (void)snprintf(out->text, sizeof out->text,
                       "no scheduler named %s has asked about any pod since milligpud started",
                       name);
    else
        (void)snprintf(out->text, sizeof out->text,
                       "no scheduler named %s has asked about any pod since milligpud started; "
                       "those that do: %s",
                       name, served);
    arena_done(&arena);
}

void api_unasked(const struct app *app, const struct pod_scheduling *scheduling,
                 struct unasked *out)
{
    const struct settings *settings = atomic_load(&app->settings);
    const struct condition condition =
        condition_read(scheduling->reason, scheduling->message, settings->resource);

    *out = (struct unasked){
        .can_serve = schedulers_serves(waiting_pods_schedulers(app->waiting_pods),
                                       unbound_scheduler(scheduling)),
        .is_explained = condition.is_explained,
        .has_condition = condition.kind != CONDITION_NONE,
    };
    /* The condition can name gates for a moment after their removal. */
    const bool was_gated =
        scheduling->reason != NULL && strcmp(scheduling->reason, "SchedulingGated") == 0;
    if (scheduling->gates != NULL) {
        out->by = UNASKED_BY_GATE;
        out->word = "gated";
        out->is_explained = true;
        (void)snprintf(out->text, sizeof out->text,
                       "no scheduler looks at it before its scheduling gates are removed: %s",
                       scheduling->gates);
    } else if (condition.kind == CONDITION_NONE || was_gated) {
        out->has_condition = false;
        out->is_explained = false;
        say_unasked(app, scheduling, out);
    } else {
        out->by = UNASKED_BY_SCHEDULER;
        out->word = condition_word(condition.kind);
        (void)snprintf(out->text, sizeof out->text,
                       condition.is_explained && condition.kind != CONDITION_OTHER
                           ? "%s finds no node by its own filters (%s), so it has not asked"
                           : "%s has not asked since milligpud started, and refuses the pod (%s)",
                       unbound_scheduler(scheduling), out->word);
    }
}
