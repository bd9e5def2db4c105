/*
 * Handlers for nodes: summary, nodes, one node. Called by the router in an admin thread.
 * Each answer comes from one snapshot, so sums and parts agree.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/selfcheck/metrics_page.h"
#include "milligpu/waiting/waiting_pods.h"

#include "admin/api_internal.h"
#include "milligpu_version.h"

/* --- summary --- */

enum { NODE_WORDS_MAX = 16 };

struct node_totals {
    struct admin_amounts amounts;
    uint64_t held_gpus;
    uint64_t unplaced_milli;
    uint32_t reserved;
    uint32_t bound;
    struct drift_counts drift;
    uint32_t nodes[NODE_WORDS_MAX]; /* numbers of nodes, by admin_node_shown() */
};

static size_t place_of_word(const char *word)
{
    size_t at = 0;

    while (admin_node_word(at) != NULL && strcmp(admin_node_word(at), word) != 0)
        at++;
    must(admin_node_word(at) != NULL && at < NODE_WORDS_MAX);
    return at;
}

/* Recomputed in one pass over all GPUs and allocations at each call, so sums cannot drift. */
static void api_nodes_sum_up(const struct snapshot *snapshot, struct node_totals *out)
{
    CLEANUP(fragments_freep) struct fragments *fragments = fragments_new_for(snapshot);
    uint32_t fragment[GPUS_PER_NODE_MAX];
    const struct node *node;

    *out = (struct node_totals){.bound = 0};
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;) {
        fragments_of_node(fragments, node, fragment);
        for (uint32_t i = 0; i < node->n_gpus; i++)
            admin_amounts_add(&out->amounts, node, &node->gpu[i], fragment_at(fragment, i));
        out->held_gpus += node->held_gpus;
        out->unplaced_milli += node->unplaced_milli;
        out->nodes[place_of_word(admin_node_shown(node))]++;
        for (uint32_t i = 0; i < node->n_allocations; i++) {
            const bool open = node->allocation[i]->facts.state == STATE_RESERVED;
            out->reserved += open;
            out->bound += !open;
        }
    }
    must(out->reserved + out->bound == snapshot->allocations);
}

static void api_nodes_put_models(struct json_writer *json, const struct snapshot *snapshot)
{
    struct amounts_by_model models;

    amounts_by_model(snapshot, &models);
    json_write_key(json, "models");
    json_write_array(json);
    for (size_t i = 0; i < models.count; i++) {
        must(models.model[i].amounts.gpus > 0);
        json_write_object(json);
        json_write_key(json, "model");
        json_write_text(json, atom_text(models.model[i].model));
        json_write_key(json, "gpus");
        json_write_u64(json, models.model[i].amounts.gpus);
        admin_amounts(json, &models.model[i].amounts);
        admin_closed(json, &models.model[i].amounts);
        json_write_object_end(json);
    }
    json_write_array_end(json);
    xfree(models.model);
}

static void put_node_states(struct json_writer *json, const struct node_totals *totals)
{
    const char *word;

    json_write_key(json, "nodeStates");
    json_write_array(json);
    for (size_t i = 0; (word = admin_node_word(i)) != NULL; i++) {
        must(i < NODE_WORDS_MAX);
        json_write_object(json);
        json_write_key(json, "state");
        json_write_str(json, word);
        json_write_key(json, "nodes");
        json_write_u64(json, totals->nodes[i]);
        json_write_object_end(json);
    }
    json_write_array_end(json);
}

/* Writes the summary's amounts of milli and their holders. */
static void put_totals(struct json_writer *json, const struct node_totals *totals)
{
    json_write_key(json, "gpus");
    json_write_u64(json, totals->amounts.gpus);
    admin_amounts(json, &totals->amounts);
    admin_closed(json, &totals->amounts);
    json_write_key(json, "heldGpus");
    json_write_u64(json, totals->held_gpus);
    json_write_key(json, "unplacedMilli");
    json_write_u64(json, totals->unplaced_milli);
    json_write_key(json, "allocations");
    json_write_object(json);
    json_write_key(json, "reserved");
    json_write_u64(json, totals->reserved);
    json_write_key(json, "bound");
    json_write_u64(json, totals->bound);
    json_write_object_end(json);
}

/* State in the summary besides the snapshot; read once, because the ETag contains it, too. */
struct summary_facts {
    bool claimed;
    bool ready;
    bool safe_mode;
    size_t waiting;
};

/* ready is false while draining, as on /readyz, although binds in flight still complete. */
static struct summary_facts summary_facts_of(const struct app *app)
{
    must(app->waiting_pods != NULL);
    return (struct summary_facts){
        .claimed = atomic_load(&app->identified),
        .ready = app_ready(app, NULL) && !atomic_load(&app->draining),
        .safe_mode = atomic_load(&app->health.safe_mode),
        .waiting = waiting_pods_count(app->waiting_pods),
    };
}

static void put_daemon(struct json_writer *json, const struct app *app,
                       const struct summary_facts *facts, const struct snapshot *snapshot)
{
    json_write_key(json, "version");
    json_write_str(json, MILLIGPU_VERSION);
    /* instance.cluster is written before the flag is set, and constant from then on. */
    json_write_key(json, "cluster");
    json_write_str(json, facts->claimed ? app->instance.cluster : "");
    json_write_key(json, "mode");
    json_write_str(json, app->fake != NULL ? "standalone" : "cluster");
    json_write_key(json, "webhookAddress");
    json_write_str(json, app->instance.webhook_address);
    json_write_key(json, "ready");
    json_write_bool(json, facts->ready);
    json_write_key(json, "safeMode");
    json_write_bool(json, facts->safe_mode);
    json_write_key(json, "generation");
    json_write_u64(json, snapshot->generation);
    json_write_key(json, "policy");
    json_write_str(json, snapshot->context->rulebook->name);
    must(snapshot->nodes <= snapshot->slots);
}

void api_summary(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    const struct summary_facts facts = summary_facts_of(call->app);
    struct node_totals totals;
    struct json_writer json;

    if (snapshot == NULL)
        return;
    must(call->body.len == 0);
    api_nodes_sum_up(snapshot, &totals);
    api_drift_count(call->app, snapshot, &totals.drift);
    api_tag(call, snapshot->generation,
            arena_printf(&call->arena, "-%d%d%d-%zu-%u", facts.claimed, facts.ready,
                         facts.safe_mode, facts.waiting, totals.drift.information));
    json_writer_init(&json, &call->body);
    json_write_object(&json);
    put_daemon(&json, call->app, &facts, snapshot);
    json_write_key(&json, "nodes");
    json_write_u64(&json, snapshot->nodes);
    put_node_states(&json, &totals);
    put_totals(&json, &totals);
    json_write_key(&json, "waitingPods");
    json_write_u64(&json, facts.waiting);
    json_write_key(&json, "drift");
    json_write_u64(&json, totals.drift.warnings);
    json_write_key(&json, "driftInformation");
    json_write_u64(&json, totals.drift.information);
    api_nodes_put_models(&json, snapshot);
    json_write_object_end(&json);
}

/* --- nodes --- */

/* Arguments of the encoder of a node, for one answer. */
struct nodes_answer {
    struct api_call *call;
    struct fragments *fragments; /* cache of this answer */
};

static void encode_node(struct json_writer *json, const struct api_item *item)
{
    const struct nodes_answer *answer = item->where;
    const struct node *node = item->what;

    must(node != NULL && answer != NULL);
    const struct admin_measured measured = api_measured(answer->call, node);
    admin_node(json, node, answer->fragments, &measured, false);
    measured_unref(measured.measured);
}

static bool node_has_model(const struct node *node, const struct model_filter *models)
{
    if (!models->given)
        return true;
    for (uint32_t i = 0; i < node->n_gpus; i++)
        if (api_model_taken(models, node->gpu[i].model))
            return true;
    return false;
}

static bool node_has_namespace(const struct node *node, const char *namespace)
{
    for (uint32_t i = 0; i < node->n_allocations && namespace != NULL; i++)
        if (strcmp(node->allocation[i]->facts.namespace, namespace) == 0)
            return true;
    return namespace == NULL;
}

/* The list borrows from the snapshot, which is therefore released after the list is written. */
void api_nodes(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    const char *state = call->value[PARAMETER_state];
    struct api_list list = {0};
    struct model_filter models;
    const struct node *node;

    if (snapshot == NULL || !api_model_filter(call, &models))
        return;
    CLEANUP(fragments_freep) struct fragments *fragments = fragments_new_for(snapshot);
    const struct nodes_answer answer = {call, fragments};
    api_tag_measured(call, snapshot->generation);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        if (node_has_model(node, &models) && (state == NULL || admin_node_is(node, state)) &&
            node_has_namespace(node, call->value[PARAMETER_namespace]))
            api_list_add(call, &list, node->name->text, node, &answer);
    must(list.count <= snapshot->nodes);
    api_list_write(call, &list, encode_node);
}

void api_node(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    struct json_writer json;

    if (snapshot == NULL)
        return;
    must(call->segment[0] != NULL);
    const struct node *node = snapshot_node(snapshot, text_of(call->segment[0]));
    if (node == NULL) {
        api_fail(call, 404, "the ledger does not know a node %.253s", call->segment[0]);
        return;
    }
    api_tag_measured(call, snapshot->generation);
    CLEANUP(fragments_freep) struct fragments *fragments = fragments_new_for(snapshot);
    const struct admin_measured measured = api_measured(call, node);
    json_writer_init(&json, &call->body);
    admin_node(&json, node, fragments, &measured, true);
    measured_unref(measured.measured);
}
