/*
 * Handlers for nodes: summary, nodes, one node, drift. Called by the router in an admin thread.
 * Each answer comes from one snapshot, so its sums agree with its parts.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/hints.h"
#include "milligpu/metrics_page.h"

#include "admin/api_internal.h"
#include "milligpu_version.h"

/* --- summary --- */

struct node_totals {
    struct admin_amounts amounts;
    uint32_t reserved;
    uint32_t bound;
    uint32_t drift;
};

static void count_drift(void *user, const struct drift *drift)
{
    uint32_t *count = user;

    must(drift->node != NULL);
    (*count)++;
}

/*
 * Drift is stored nowhere: it is computed from the snapshot, so it can be neither stale nor lost.
 * The cost is one pass over all nodes, for each summary and each doctor.
 */
uint32_t api_drift_count(const struct snapshot *snapshot)
{
    const struct node *node;
    uint32_t count = 0;

    must(snapshot != NULL);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        drift_of(node, &count, count_drift);
    return count;
}

/* One pass over all GPUs and allocations; nothing is kept between calls, so sums cannot drift. */
static void api_nodes_sum_up(const struct snapshot *snapshot, struct node_totals *out)
{
    const struct node *node;

    *out = (struct node_totals){.drift = api_drift_count(snapshot)};
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;) {
        for (uint32_t i = 0; i < node->gpus; i++)
            admin_amounts_add(&out->amounts, node, &node->gpu[i]);
        for (uint32_t i = 0; i < node->allocations; i++) {
            const bool open = node->allocation[i]->is.state == STATE_RESERVED;
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
        json_write_object_end(json);
    }
    json_write_array_end(json);
    xfree(models.model);
}

/* ready is false while draining, as on /readyz, although binds in flight still end. */
static void put_daemon(struct json_writer *json, const struct app *app,
                       const struct snapshot *snapshot)
{
    const bool claimed = atomic_load(&app->identified);

    json_write_key(json, "version");
    json_write_str(json, MILLIGPU_VERSION);
    /* written before the flag is set, and not afterwards */
    json_write_key(json, "cluster");
    json_write_str(json, claimed ? app->cluster : "");
    json_write_key(json, "mode");
    json_write_str(json, app->fake != NULL ? "standalone" : "cluster");
    json_write_key(json, "ready");
    json_write_bool(json, app_ready(app, NULL) && !atomic_load(&app->draining));
    json_write_key(json, "safeMode");
    json_write_bool(json, atomic_load(&app->safe_mode));
    json_write_key(json, "generation");
    json_write_u64(json, snapshot->generation);
    must(snapshot->nodes <= snapshot->slots);
}

void api_summary(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    struct node_totals totals;
    struct json_writer json;

    if (snapshot == NULL)
        return;
    must(call->body.len == 0);
    api_nodes_sum_up(snapshot, &totals);
    json_writer_init(&json, &call->body);
    json_write_object(&json);
    put_daemon(&json, call->app, snapshot);
    json_write_key(&json, "nodes");
    json_write_u64(&json, snapshot->nodes);
    json_write_key(&json, "gpus");
    json_write_u64(&json, totals.amounts.gpus);
    admin_amounts(&json, &totals.amounts);
    json_write_key(&json, "allocations");
    json_write_object(&json);
    json_write_key(&json, "reserved");
    json_write_u64(&json, totals.reserved);
    json_write_key(&json, "bound");
    json_write_u64(&json, totals.bound);
    json_write_object_end(&json);
    json_write_key(&json, "waitingPods");
    json_write_u64(&json, hints_waiting(call->app->hints));
    json_write_key(&json, "drift");
    json_write_u64(&json, totals.drift);
    api_nodes_put_models(&json, snapshot);
    json_write_object_end(&json);
}

/* --- nodes --- */

static void encode_node(struct json_writer *json, const struct api_item *item)
{
    must(item->what != NULL);
    admin_node(json, item->what, false);
}

/*
 * The list borrows nodes and names from the snapshot, which therefore lives until the list is
 * written.
 */
void api_nodes(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    struct api_list list = {0};
    const struct node *node;

    if (snapshot == NULL)
        return;
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        api_list_add(call, &list, node->name->text, node, NULL);
    must(list.count <= snapshot->nodes);
    api_list_write(call, &list, encode_node);
}

void api_node(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    struct json_writer json;

    if (snapshot == NULL)
        return;
    must(call->place[0] != NULL);
    const struct node *node = snapshot_node(snapshot, text_of(call->place[0]));
    if (node == NULL) {
        api_fail(call, 404, "the ledger does not know a node %.253s", call->place[0]);
        return;
    }
    json_writer_init(&json, &call->body);
    admin_node(&json, node, true);
}

/* --- drift --- */

struct drifting {
    struct api_call *call;
    struct api_list list;
};

/*
 * The record is valid only during the call of drift_of(), so it is copied. The key makes one order
 * of it and is distinct: node, kind, then the GPU or the pod, of which there is at most one.
 */
static void add_drift(void *user, const struct drift *drift)
{
    struct drifting *drifting = user;
    struct arena *arena = &drifting->call->arena;
    const char *gpu = drift->gpu != NULL ? drift->gpu->id->text : "";
    const char *pod = drift->allocation != NULL ? drift->allocation->is.uid : "";
    struct drift *copy = arena_alloc(arena, sizeof *copy);

    must(drift->gpu == NULL || drift->allocation == NULL);
    *copy = *drift;
    const char *key =
        arena_printf(arena, "%s\n%s\n%s%s", drift->node->name->text, drift->kind, gpu, pod);
    api_list_add(drifting->call, &drifting->list, key, copy, NULL);
}

static void encode_drift(struct json_writer *json, const struct api_item *item)
{
    must(item->what != NULL);
    admin_drift(json, item->what);
}

void api_drift(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    struct drifting drifting = {.call = call};
    const struct node *node;

    if (snapshot == NULL)
        return;
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        drift_of(node, &drifting, add_drift);
    must(call->status == 200);
    api_list_write(call, &drifting.list, encode_drift);
}
