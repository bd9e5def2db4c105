/*
 * Handler for drift, and its counts for the summary and the doctor. Called in an admin thread.
 * Drift is not stored but computed from the snapshot and the clock, so it is neither stale nor
 * lost; each call costs one pass over all nodes.
 */
#include <string.h>

#include "admin/api_internal.h"

static int64_t drift_now_ms(const struct app *app)
{
    must(app->clock.wall_ms != NULL);
    return app->clock.wall_ms(app->clock.ctx);
}

/* --- counting --- */

struct drift_counting {
    struct drift_counts *counts;
    int64_t now_ms;
};

static void drift_counts_add(struct drift_counts *counts, const struct drift *drift, int64_t now_ms)
{
    const size_t kind = drift_kind_find(text_of(drift->kind));

    must(kind < DRIFT_KIND_COUNT);
    if (drift_is_information(drift, now_ms)) {
        counts->information_of[kind]++;
        counts->information++;
    } else {
        counts->warnings_of[kind]++;
        counts->warnings++;
    }
}

static void count_drift(void *user, const struct drift *drift)
{
    const struct drift_counting *counting = user;

    must(drift->node != NULL);
    drift_counts_add(counting->counts, drift, counting->now_ms);
}

void api_drift_count(const struct app *app, const struct snapshot *snapshot,
                     struct drift_counts *out)
{
    struct drift_counting counting = {out, drift_now_ms(app)};
    const struct node *node;

    must(snapshot != NULL);
    *out = (struct drift_counts){.warnings = 0};
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        drift_of(node, &counting, count_drift);
}

void api_drift_put_kinds(struct strbuf *out, const uint32_t count[DRIFT_KIND_COUNT])
{
    const size_t before = out->len;

    for (size_t kind = 0; kind < DRIFT_KIND_COUNT; kind++)
        if (count[kind] > 0)
            strbuf_printf(out, "%s%u %s", out->len > before ? ", " : "", count[kind],
                          drift_kind_name(kind));
    must(out->len >= before);
}

/* --- the list --- */

struct drifting {
    struct api_call *call;
    struct api_list list;
    struct drift_counts counts;
    int64_t now_ms;
    const char *severity; /* NULL for both */
    bool wanted[DRIFT_KIND_COUNT];
};

/* The schema has been checked, so every word is a kind. */
static void read_kinds(struct drifting *drifting, const char *kinds)
{
    struct text rest = text_of(kinds != NULL ? kinds : "");
    struct text word;

    for (size_t kind = 0; kind < DRIFT_KIND_COUNT; kind++)
        drifting->wanted[kind] = kinds == NULL;
    while (kinds != NULL && text_cut(&rest, ',', &word)) {
        const size_t kind = drift_kind_find(word);
        must(kind < DRIFT_KIND_COUNT);
        drifting->wanted[kind] = true;
    }
}

static bool drift_is_listed(const struct drifting *drifting, const struct drift *drift)
{
    const size_t kind = drift_kind_find(text_of(drift->kind));

    must(kind < DRIFT_KIND_COUNT);
    return drifting->wanted[kind] &&
           api_is_wanted(drifting->severity, drift_severity(drift, drifting->now_ms));
}

/*
 * Copies the record, which is valid only during the call of drift_of(). The key is unique: node,
 * kind, and the GPU or the pod.
 */
static void add_drift(void *user, const struct drift *drift)
{
    struct drifting *drifting = user;
    struct arena *arena = &drifting->call->arena;
    const char *gpu = drift->gpu != NULL ? drift->gpu->id->text : "";
    const char *pod = drift->allocation != NULL ? drift->allocation->facts.uid : "";

    must(drift->gpu == NULL || drift->allocation == NULL);
    drift_counts_add(&drifting->counts, drift, drifting->now_ms);
    if (!drift_is_listed(drifting, drift))
        return;
    struct drift *copy = arena_alloc(arena, sizeof *copy);
    *copy = *drift;
    const char *key =
        arena_printf(arena, "%s\n%s\n%s%s", drift->node->name->text, drift->kind, gpu, pod);
    api_list_add(drifting->call, &drifting->list, key, copy, drifting);
}

static void encode_drift(struct json_writer *json, const struct api_item *item)
{
    const struct drifting *drifting = item->where;

    must(item->what != NULL);
    admin_drift(json, item->what, drifting->now_ms);
}

/* Writes every kind, also with count 0; the same on every page. */
static void encode_counts(struct json_writer *json, const void *user)
{
    const struct drift_counts *counts = user;

    json_write_key(json, "counts");
    json_write_array(json);
    for (size_t kind = 0; kind < DRIFT_KIND_COUNT; kind++) {
        must(counts->warnings_of[kind] <= counts->warnings);
        json_write_object(json);
        json_write_key(json, "kind");
        json_write_str(json, drift_kind_name(kind));
        json_write_key(json, "warnings");
        json_write_u64(json, counts->warnings_of[kind]);
        json_write_key(json, "information");
        json_write_u64(json, counts->information_of[kind]);
        json_write_key(json, "meaning");
        json_write_str(json, drift_kind_help(kind));
        json_write_object_end(json);
    }
    json_write_array_end(json);
}

/* Warnings turn into information by time alone, without a new snapshot: the ETag has the count. */
void api_drift(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    const char *const *value = call->value;
    struct drifting drifting = {
        .call = call, .severity = value[PARAMETER_severity], .now_ms = drift_now_ms(call->app)};
    const struct node *node;

    if (snapshot == NULL)
        return;
    read_kinds(&drifting, value[PARAMETER_kind]);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        if (api_is_wanted(value[PARAMETER_node], node->name->text))
            drift_of(node, &drifting, add_drift);
    must(call->status == 200);
    api_tag(call, snapshot->generation,
            arena_printf(&call->arena, "-%u", drifting.counts.information));
    drifting.list.about = encode_counts;
    drifting.list.user = &drifting.counts;
    api_list_write(call, &drifting.list, encode_drift);
}
