/*
 * Handles pod events and lists from the informer, called by writer.c. A bound pod that requests
 * GPUs, in any amount, has an allocation afterwards; only evidence releases one: the pod has ended,
 * is gone, is bound elsewhere, or is unbound in a later version than any Binding named. Absence and
 * the order of pods are known only at the end of a list (writer_end_list()). If that batch is lost,
 * the list is kept for the next try.
 */
#include <stdlib.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/sign/keyring.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"
#include "milligpu/writer/writer.h"

#include "writer/writer_internal.h"

/* A verification takes 0.1 ms, so it is done once, and only for pods without a row. */
static enum pod_proof proof_of(const struct writer *writer, const struct pod *pod)
{
    const struct signed_facts what = {text_of(pod->uid), text_of(pod->node),
                                      text_of(pod->note_text), SIGNED_ALLOCATION};

    if (pod->proof != PROOF_UNKNOWN)
        return pod->proof;
    if (pod->annotation != NOTE_OK || pod->signed_by == 0 || writer->app->keyring == NULL)
        return PROOF_UNSIGNED;
    return keyring_has_signed(writer->app->keyring, text_of(pod->signature), &what)
               ? PROOF_SIGNED
               : PROOF_UNSIGNED;
}

bool writer_reconcile(struct writer *writer, const struct pod *pod)
{
    must(pod->uid[0] != '\0');
    must(!writer->batch.lost);

    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, pod->uid);
    struct command command[RECONCILE_MAX];

    CLEANUP(arena_done) struct arena arena;
    arena_init(&arena);
    const struct request *request = writer_request_of(writer, pod, record, &arena);
    const size_t count = reconcile_pod(writer->ledger, pod, request, writer->wall_ms, command);
    struct pod proven = *pod;
    for (size_t i = 0; i < count; i++) {
        if (command[i].kind != COMMAND_ADOPT)
            continue;
        proven.proof = proof_of(writer, pod);
        command[i].pod = &proven;
    }
    if (!writer_run_all(writer, command, count))
        return false;
    /* For an adopted pod without a place, place_the_unplaced() needs the whole pod later. */
    const struct allocation *held = ledger_find(writer->ledger, text_of(pod->uid));
    if (held != NULL && record != NULL && pod_record_seen(record) == NULL &&
        reconcile_lacks(held, request))
        pod_cache_remember(writer->app->pod_cache, pod);
    return true;
}

static bool writer_pod_gone(struct writer *writer, const char *uid)
{
    must(uid[0] != '\0');

    struct command command[RECONCILE_MAX];

    const size_t count = reconcile_gone(writer->ledger, uid, writer->wall_ms, command);
    return writer_run_all(writer, command, count);
}

/*
 * Handles the event only if the pod cache accepts its version. The order at the end matters: first
 * the pod is reconciled, then a remaining reservation may be void.
 */
bool writer_handle_pod(struct writer *writer, const struct pod *pod)
{
    must(pod->uid[0] != '\0');
    writer->new_ledger.granted_before |= pod->annotation != NOTE_NONE && pod->node[0] != '\0';
    if (pod_ended(pod)) {
        pod_cache_remove(writer->app->pod_cache, pod->uid);
        waiting_pods_resolved(writer->app->waiting_pods, text_of(pod->uid));
        return writer_agent_gone(writer, pod->node, pod->uid) && writer_reconcile(writer, pod);
    }
    const bool is_new = writer_is_new_pod(writer, pod);
    if (!pod_cache_put(writer->app->pod_cache, pod, &writer->app->rules.request_rules,
                       writer->pod_list.epoch))
        return true; /* outdated */
    if (is_new)
        writer_learn(writer, pod);
    if (!writer_see_agent(writer, pod))
        return false;
    /* Most pods of a cluster end here: only the pod cache stores them, with CPU and memory. */
    if (!pod->ours && pod->whole_gpus == 0 &&
        ledger_find(writer->ledger, text_of(pod->uid)) == NULL)
        return true;
    if (pod->node[0] != '\0')
        waiting_pods_resolved(writer->app->waiting_pods, text_of(pod->uid));
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, pod->uid);
    must(record != NULL);
    writer_advise(writer, pod);
    return writer_reconcile(writer, pod) && writer_release_void(writer, record);
}

/* The journal distinguishes "ended" pods from "gone" ones. */
bool writer_handle_pod_deleted(struct writer *writer, const struct pod *pod)
{
    must(pod->uid[0] != '\0');

    pod_cache_remove(writer->app->pod_cache, pod->uid);
    waiting_pods_resolved(writer->app->waiting_pods, text_of(pod->uid));
    if (!writer_agent_gone(writer, pod->node, pod->uid))
        return false;
    return pod_ended(pod) ? writer_reconcile(writer, pod) : writer_pod_gone(writer, pod->uid);
}

void writer_drop_list(struct writer *writer)
{
    must(writer->pod_list.listing || writer->pod_list.n_listed == 0);
    arena_done(&writer->pod_list.list);
    arena_init(&writer->pod_list.list);
    writer->pod_list.n_listed = 0;
    writer->pod_list.listing = false;
}

/* Drops an unfinished list. The new epoch marks the pods of this list. */
void writer_begin_list(struct writer *writer, int64_t asked_ms)
{
    must(writer->pod_list.epoch < UINT64_MAX);

    writer_drop_list(writer);
    writer->pod_list.listed_ms = asked_ms;
    writer->pod_list.listing = true;
    writer->pod_list.epoch++;
    writer_forget_bound(writer);
}

/*
 * Copies the pod into the arena of the list, which lives until the end of the list is on disk.
 */
static void keep_listed(struct writer *writer, const struct pod *pod)
{
    must(writer->pod_list.listing);

    writer->pod_list.listed = xgrow(writer->pod_list.listed, writer->pod_list.n_listed,
                                    &writer->pod_list.listed_capacity, sizeof(void *));
    struct pod *kept = pod_keep(pod, &writer->pod_list.list);
    kept->proof = proof_of(writer, pod); /* for reconcile_order() */
    writer->pod_list.listed[writer->pod_list.n_listed++] = kept;
}

/*
 * Returns true for bound pods unknown to the ledger: they wait for the end of the list, because the
 * order in which they are accepted or adopted matters. After a restart with the old ledger there
 * are none.
 */
static bool waits_for_order(const struct writer *writer, const struct pod *pod)
{
    return !pod_ended(pod) && pod->node[0] != '\0' && (pod->ours || pod->whole_gpus > 0) &&
           ledger_find(writer->ledger, text_of(pod->uid)) == NULL;
}

/* Returns true if the listed pod is unbound but its row is bound. */
static bool is_disputed(const struct writer *writer, const struct pod *pod)
{
    const struct allocation *held = ledger_find(writer->ledger, text_of(pod->uid));

    return held != NULL && held->facts.state == STATE_BOUND && pod->node[0] == '\0' &&
           !pod_ended(pod);
}

bool writer_handle_listed(struct writer *writer, const struct pod *pod)
{
    must(pod->uid[0] != '\0');

    if (!waits_for_order(writer, pod) && !is_disputed(writer, pod))
        return writer_handle_pod(writer, pod);
    keep_listed(writer, pod);
    return true;
}

static int pods_by_order(const void *a, const void *b, void *ledger)
{
    must(a != NULL && b != NULL && ledger != NULL);

    const struct pod *const *left = a;
    const struct pod *const *right = b;

    return reconcile_order(ledger, *left, *right);
}

/* For pod_cache_remove_stale(): handles a pod that is gone without an event. */
static void pod_swept(void *user, const struct pod_record *record)
{
    must(pod_record_uid(record)[0] != '\0');

    struct writer *writer = user;

    waiting_pods_resolved(writer->app->waiting_pods, text_of(pod_record_uid(record)));
    if (agents_pod_gone(writer->vouching.agents, text_of(pod_record_node(record)),
                        text_of(pod_record_uid(record))))
        writer->vouching.agents_unsure = true; /* nodes are re-evaluated after the sweep */
}

enum watched_pod writer_pod_state(void *user, struct text uid)
{
    const struct writer *writer = user;

    switch (pod_cache_look(writer->app->pod_cache, uid)) {
    case PODS_UNKNOWN:
        return WATCHED_POD_UNKNOWN;
    case PODS_UNBOUND:
        return WATCHED_POD_UNBOUND;
    case PODS_BOUND:
        return WATCHED_POD_BOUND;
    }
    must_not_reach("every state is listed");
}

/*
 * Releases allocations whose pod is missing from the list, even with a Binding in flight: no event
 * will report the pod. A list older than the evaluated version proves nothing about it.
 */
static bool release_orphans(struct writer *writer, uint64_t list_version)
{
    must(!writer->batch.lost);

    const struct allocation *allocation;
    const char **orphan = NULL;
    size_t orphans = 0;
    size_t capacity = 0;
    bool whole = true;

    for (size_t at = 0; (allocation = ledger_next(writer->ledger, &at)) != NULL;) {
        if (pod_cache_find(writer->app->pod_cache, allocation->facts.uid) != NULL ||
            allocation->facts.version > list_version)
            continue;
        orphan = xgrow(orphan, orphans, &capacity, sizeof *orphan);
        orphan[orphans++] = xstrdup(allocation->facts.uid);
    }
    for (size_t i = 0; i < orphans; i++) {
        char *uid = (char *)(uintptr_t)orphan[i];
        whole = whole && writer_pod_gone(writer, uid);
        xfree(uid);
    }
    xfree(orphan);
    return whole;
}

/* Makes other nodes give up UUIDs of GPUs that pods hold on this node. */
static bool keep_what_is_held(struct writer *writer, const struct node *node)
{
    bool whole = true;

    for (uint32_t i = 0; i < node->n_gpus && whole; i++) {
        const struct gpu *gpu = &node->gpu[i];
        /* A GPU that the node does not show is known only from an annotation. */
        if ((gpu->flags & (GPU_DUPLICATE | GPU_ABSENT)) != GPU_DUPLICATE || gpu->charges == 0)
            continue;
        const struct node *owner = ledger_owner(writer->ledger, atom_text(gpu->id));
        if (owner == NULL)
            continue;
        must(owner != node);
        struct gpu_facts held = {.id = gpu->id->text};
        const struct inventory first_owner = {.n_gpus = 1, .gpu = &held};
        const struct command command = {.kind = COMMAND_NODE,
                                        .at_ms = writer->wall_ms,
                                        .node = owner->name->text,
                                        .first_owner = &first_owner};
        whole = writer_run(writer, &command);
    }
    return whole;
}

/*
 * If two nodes show one UUID to a new ledger, the older node keeps it, as in give_way(), unless
 * pods hold it on the other one, which then was the owner for an earlier milligpud.
 */
static bool holders_go_on(struct writer *writer)
{
    const struct node *node;
    bool whole = true;

    must(!writer->batch.lost);
    if (!writer_begins_empty(writer))
        return true;
    for (size_t at = 0; whole && (node = ledger_next_node(writer->ledger, &at)) != NULL;)
        whole = keep_what_is_held(writer, node);
    return whole && writer_heal_duplicates(writer);
}

/* Removes a bound pod's record after a restore of etcd; else new events would seem outdated. */
static void forget_future(struct writer *writer, const struct pod *pod)
{
    const struct pod_record *record = pod_cache_find(writer->app->pod_cache, pod->uid);

    must(pod->node[0] == '\0');
    if (record != NULL && pod_record_is_bound(record))
        pod_cache_remove(writer->app->pod_cache, pod->uid);
}

/*
 * Handles a pod whose Binding was lost by a restore of etcd. An event or a list older than the
 * Binding looks the same, and versions repeat after a restore, so the evidence is a complete list
 * requested after the row became bound. Rows bound at the start precede any list.
 */
static bool mark_unbound(struct writer *writer, const struct pod *pod)
{
    struct command command[RECONCILE_MAX];

    must(!writer->batch.lost);
    if (!is_disputed(writer, pod) || writer_bound_lately(writer, pod->uid))
        return true;
    forget_future(writer, pod);
    const size_t count = reconcile_listed_unbound(writer->ledger, pod, writer->wall_ms, command);
    return writer_run_all(writer, command, count);
}

bool writer_end_list(struct writer *writer, const struct pod_list_end *end)
{
    must(writer->pod_list.listing || writer->pod_list.n_listed == 0);

    /* A list that failed and was dropped proves nothing. */
    if (!writer->pod_list.listing)
        return true;
    /*
     * Pods with grants of ours come before pods without, signed ones first, so that no guess takes
     * a GPU that a grant names.
     */
    if (writer->pod_list.n_listed > 0)
        qsort_r(writer->pod_list.listed, writer->pod_list.n_listed, sizeof(void *), pods_by_order,
                writer->ledger);
    for (size_t i = 0; i < writer->pod_list.n_listed; i++)
        if (!mark_unbound(writer, writer->pod_list.listed[i]) ||
            !writer_handle_pod(writer, writer->pod_list.listed[i]))
            return false;
    /* First remove pods missing from the list; orphans are then unknown to the pod cache. */
    pod_cache_remove_stale(writer->app->pod_cache,
                           (struct pod_cache_list){writer->pod_list.epoch, end->version}, writer,
                           pod_swept);
    waiting_pods_listed(writer->app->waiting_pods, writer->pod_list.listed_ms, writer,
                        writer_pod_state);
    if (!writer_check_unsure_agents(writer) || !release_orphans(writer, end->version) ||
        !holders_go_on(writer))
        return false;
    writer->pod_list.pods_ended = true;
    writer->pod_list.after_grace = end->after_grace;
    return true;
}
