#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"

#include "api_inside.h"
#include "milligpu_version.h"

/* --- summary --- */

struct totals {
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

uint32_t api_drift_count(const struct snapshot *snapshot)
{
    const struct node *node;
    uint32_t count = 0;

    must(snapshot != NULL);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        drift_of(node, &count, count_drift);
    return count;
}

static void sum_up(const struct snapshot *snapshot, struct totals *out)
{
    const struct node *node;

    *out = (struct totals){.drift = api_drift_count(snapshot)};
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

static void put_models(struct jw *jw, const struct snapshot *snapshot)
{
    struct api_models models;

    api_models(snapshot, &models);
    jw_key(jw, "models");
    jw_array(jw);
    for (size_t i = 0; i < models.count; i++) {
        must(models.model[i].amounts.gpus > 0);
        jw_object(jw);
        jw_key(jw, "model");
        jw_text(jw, atom_text(models.model[i].model));
        jw_key(jw, "gpus");
        jw_u64(jw, models.model[i].amounts.gpus);
        admin_amounts(jw, &models.model[i].amounts);
        jw_object_end(jw);
    }
    jw_array_end(jw);
    xfree(models.model);
}

static void put_daemon(struct jw *jw, const struct app *app, const struct snapshot *snapshot)
{
    const bool claimed = atomic_load(&app->claimed);

    jw_key(jw, "version");
    jw_str(jw, MILLIGPU_VERSION);
    jw_key(jw, "cluster"); /* written before the flag is set, and never again */
    jw_str(jw, claimed ? app->cluster : "");
    jw_key(jw, "mode");
    jw_str(jw, app->standin != NULL ? "standalone" : "cluster");
    jw_key(jw, "ready");
    jw_bool(jw, app_ready(app, NULL) && !atomic_load(&app->draining));
    jw_key(jw, "safeMode");
    jw_bool(jw, atomic_load(&app->safe_mode));
    jw_key(jw, "generation");
    jw_u64(jw, snapshot->generation);
    must(snapshot->nodes <= snapshot->slots);
}

void api_summary(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    struct totals totals;
    struct jw jw;

    if (snapshot == NULL)
        return;
    must(call->body.len == 0);
    sum_up(snapshot, &totals);
    jw_init(&jw, &call->body);
    jw_object(&jw);
    put_daemon(&jw, call->app, snapshot);
    jw_key(&jw, "nodes");
    jw_u64(&jw, snapshot->nodes);
    jw_key(&jw, "gpus");
    jw_u64(&jw, totals.amounts.gpus);
    admin_amounts(&jw, &totals.amounts);
    jw_key(&jw, "allocations");
    jw_object(&jw);
    jw_key(&jw, "reserved");
    jw_u64(&jw, totals.reserved);
    jw_key(&jw, "bound");
    jw_u64(&jw, totals.bound);
    jw_object_end(&jw);
    jw_key(&jw, "waitingPods");
    jw_u64(&jw, hints_waiting(call->app->hints));
    jw_key(&jw, "drift");
    jw_u64(&jw, totals.drift);
    put_models(&jw, snapshot);
    jw_object_end(&jw);
}

/* --- nodes --- */

static void encode_node(struct jw *jw, const struct api_item *item)
{
    must(item->what != NULL);
    admin_node(jw, item->what, false);
}

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
    struct jw jw;

    if (snapshot == NULL)
        return;
    must(call->place[0] != NULL);
    const struct node *node = snapshot_node(snapshot, text_of(call->place[0]));
    if (node == NULL) {
        api_fail(call, 404, "the ledger does not know a node %.253s", call->place[0]);
        return;
    }
    jw_init(&jw, &call->body);
    admin_node(&jw, node, true);
}

/* --- drift --- */

struct drifting {
    struct api_call *call;
    struct api_list list;
};

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

static void encode_drift(struct jw *jw, const struct api_item *item)
{
    must(item->what != NULL);
    admin_drift(jw, item->what);
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
