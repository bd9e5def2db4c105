/*
 * Writes /metrics: counters are updated at their events, gauges are set here for each request.
 * Called by the router and by the diagnostics on any thread, also concurrently. Costs one pass over
 * all GPUs of the snapshot.
 */
#include "milligpu/selfcheck/metrics_page.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/spine/policy_reload.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/usage/usage_table.h"
#include "milligpu/waiting/waiting_pods.h"
#include "milligpu/webhook/score_caches.h"

#include "milligpu_version.h"
#include "namespace_metrics.h"
#include "process_metrics.h"
#include "waiting_metrics.h"

/* A cluster has few models, so a linear search is enough. */
static struct model_amounts *metrics_page_model_of(struct amounts_by_model *models,
                                                   const struct atom *model)
{
    must(model != NULL); /* interned: equal names are the same atom */
    for (size_t i = 0; i < models->count; i++)
        if (models->model[i].model == model)
            return &models->model[i];
    models->model = xgrow(models->model, models->count, &models->capacity, sizeof *models->model);
    models->model[models->count] = (struct model_amounts){.model = model};
    return &models->model[models->count++];
}

static int metrics_page_by_name(const void *a, const void *b)
{
    const struct model_amounts *left = a;
    const struct model_amounts *right = b;
    return strcmp(left->model->text, right->model->text);
}

/* Sorts by name, so that two scrapes of the same state have the same bytes. */
void amounts_by_model(const struct snapshot *snapshot, struct amounts_by_model *out)
{
    CLEANUP(fragments_freep) struct fragments *fragments = fragments_new_for(snapshot);
    uint32_t fragment[GPUS_PER_NODE_MAX];
    const struct node *node;

    must(snapshot != NULL);
    *out = (struct amounts_by_model){0};
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;) {
        fragments_of_node(fragments, node, fragment);
        for (uint32_t i = 0; i < node->n_gpus; i++) {
            struct model_amounts *model = metrics_page_model_of(out, node->gpu[i].model);
            admin_amounts_add(&model->amounts, node, &node->gpu[i], fragment_at(fragment, i));
            model->sick += gpu_reported_unhealthy(&node->gpu[i]);
        }
    }
    if (out->count > 0)
        qsort(out->model, out->count, sizeof *out->model, metrics_page_by_name);
}

/* In Prometheus an empty label value equals a missing label. */
static const char *model_label(const struct model_amounts *model)
{
    return model->model->len > 0 ? model->model->text : "unknown";
}

static void put_sample(struct strbuf *out, enum metric_id id, const struct model_amounts *model,
                       uint64_t number)
{
    metric_sample(out, id, LABEL_VALUES(model_label(model)), number);
}

/* Writes all reasons, even with 0 milli: a series that comes and goes is hard to query. */
static void put_closed(struct strbuf *out, const struct model_amounts *model)
{
    for (uint32_t part = ACCOUNT_HELD; part < ACCOUNT_PARTS; part++)
        metric_sample(out, M_CLOSED, LABEL_VALUES(account_name(part), model_label(model)),
                      model->amounts.part_milli[part]);
}

/* The labels are an open set, so the series are built again for each scrape. */
static void metrics_page_put_models(struct strbuf *out, const struct amounts_by_model *models,
                                    enum metric_format format)
{
    const struct model_amounts *end = models->model + models->count;

    must(models->count == 0 || models->model != NULL);
    metric_head(out, M_ALLOCATED, format);
    for (const struct model_amounts *at = models->model; at < end; at++)
        put_sample(out, M_ALLOCATED, at,
                   at->amounts.part_milli[ACCOUNT_USED] + at->amounts.part_milli[ACCOUNT_RESERVED]);
    metric_head(out, M_FREE, format);
    for (const struct model_amounts *at = models->model; at < end; at++)
        put_sample(out, M_FREE, at, at->amounts.part_milli[ACCOUNT_FREE]);
    metric_head(out, M_TOTAL, format);
    for (const struct model_amounts *at = models->model; at < end; at++)
        put_sample(out, M_TOTAL, at, at->amounts.total_milli);
    metric_head(out, M_CLOSED, format);
    for (const struct model_amounts *at = models->model; at < end; at++)
        put_closed(out, at);
    metric_head(out, M_UNHEALTHY_GPUS, format);
    for (const struct model_amounts *at = models->model; at < end; at++)
        put_sample(out, M_UNHEALTHY_GPUS, at, at->sick);
    metric_head(out, M_FRAGMENT, format);
    for (const struct model_amounts *at = models->model; at < end; at++)
        put_sample(out, M_FRAGMENT, at, at->amounts.fragment_milli);
    metric_head(out, M_LARGEST_FREE, format);
    for (const struct model_amounts *at = models->model; at < end; at++)
        put_sample(out, M_LARGEST_FREE, at, at->amounts.largest_free_milli);
    must(out->len > 0);
}

/* Adds the measured use of one node's shares to the sums by model. */
static void add_measured(const struct measured *measured, const struct node *node, int64_t now_ms,
                         const struct amounts_by_model *models, int64_t *milli)
{
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation *allocation = node->allocation[i];
        for (uint32_t k = 0; k < allocation->facts.n_shares; k++) {
            const struct share *share = &allocation->facts.share[k];
            const struct measured_share *now = measured_find(measured, node, allocation, share);
            if (now == NULL || now->milli <= 0 || !measured_is_fresh(now, now_ms))
                continue;
            const struct gpu *gpu = node_gpu(node, atom_text(share->gpu));
            for (size_t m = 0; m < models->count; m++)
                if (models->model[m].model == gpu->model)
                    milli[m] += now->milli;
        }
    }
}

/* Costs one look-up per node, and one per share of nodes that report. */
static void put_measured(struct strbuf *out, const struct app *app, const struct snapshot *snapshot,
                         const struct amounts_by_model *models, enum metric_format format)
{
    const int64_t now_ms = app->clock.wall_ms(app->clock.ctx);
    CLEANUP(xfreep) int64_t *milli = xcalloc(models->count + 1, sizeof *milli);
    const struct node *node;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;) {
        CLEANUP(measured_unrefp)
        const struct measured *measured =
            usage_table_measured(app->usage_table, atom_text(node->name));
        if (measured != NULL)
            add_measured(measured, node, now_ms, models, milli);
    }
    metric_head(out, M_MEASURED, format);
    for (size_t k = 0; k < models->count; k++)
        put_sample(out, M_MEASURED, &models->model[k], (uint64_t)milli[k]);
}

static void set_usage(const struct app *app)
{
    struct usage_totals totals;

    usage_table_totals(app->usage_table, app->clock.wall_ms(app->clock.ctx), &totals);
    metric_set(M_REPORTING_NODES, NULL, totals.reporting);
    metric_set(M_MEASURED_SHARES, NULL, totals.shares);
}

static void set_age(const struct app *app, const char *resource, int64_t seen_ms)
{
    const int64_t age_ms = app->clock.now_ms(app->clock.ctx) - seen_ms;

    must(seen_ms >= 0);
    if (seen_ms > 0) /* before the first event, milligpu_ready is 0 */
        metric_set(M_WATCH_AGE, LABEL_VALUES(resource), age_ms > 0 ? age_ms / 1000 : 0);
}

/* Sizes of the tables that tenants can fill; each has a limit (docs/why/014). */
static void set_table_bytes(const struct app *app)
{
    const struct waiting_pods_bytes waiting_pods = waiting_pods_bytes(app->waiting_pods);
    const struct pod_cache_bytes pods = pod_cache_bytes(app->pod_cache);

    must(waiting_pods.waiting_pods <= INT64_MAX);
    metric_set(M_TABLE_BYTES, LABEL_VALUES("askers"), (int64_t)waiting_pods.waiting_pods);
    metric_set(M_TABLE_BYTES, LABEL_VALUES("wishes"), (int64_t)waiting_pods.request_classes);
    metric_set(M_TABLE_BYTES, LABEL_VALUES("refusals"), (int64_t)waiting_pods.refusals);
    metric_set(M_TABLE_BYTES, LABEL_VALUES("requests"), (int64_t)pods.requests);
    metric_set(M_TABLE_BYTES, LABEL_VALUES("told"), (int64_t)pods.seen);
    metric_set(M_TABLE_BYTES, LABEL_VALUES("demands"), (int64_t)pods.demands);
    metric_set(M_TABLE_BYTES, LABEL_VALUES("contexts"), (int64_t)pods.contexts);
    metric_set(M_TABLE_BYTES, LABEL_VALUES("names"), (int64_t)atomic_load(&app->names_bytes));
}

/* Leaves the gauges unchanged while the file cannot be read. */
static void set_ledger_bytes(const struct app *app)
{
    struct store_facts facts;
    struct err err;

    must(app->store != NULL);
    if (store_facts(app->store, &facts, &err) < 0)
        return;
    metric_set(M_LEDGER_BYTES, LABEL_VALUES("used"), facts.used_bytes);
    metric_set(M_LEDGER_BYTES, LABEL_VALUES("wal"), facts.wal_bytes);
    metric_set(M_LEDGER_BYTES, LABEL_VALUES("file"), facts.bytes);
    metric_set(M_LEDGER_BYTES, LABEL_VALUES("copies"), facts.copies_bytes);
    if (facts.volume_free_bytes >= 0)
        metric_set(M_LEDGER_BYTES, LABEL_VALUES("volume_free"), facts.volume_free_bytes);
    metric_set(M_LEDGER_MAX, NULL, facts.max_bytes);
    metric_set(M_LEDGER_TRIMMED, NULL, facts.trimmed_ms / 1000);
}

/* milligpu_ready follows /readyz, so draining counts as not ready. */
static void set_gauges(const struct app *app)
{
    must(app->queue != NULL && app->waiting_pods != NULL);
    metric_set(M_QUEUE_DEPTH, NULL, (int64_t)queue_depth(app->queue));
    metric_set(M_WAITING_OVERFLOW, NULL,
               waiting_pods_overflowed(app->waiting_pods, app->clock.now_ms(app->clock.ctx)));
    set_table_bytes(app);
    set_ledger_bytes(app);
    set_usage(app);
    metric_set(M_JUDGE_BYTES, NULL, (int64_t)score_caches_bytes(app->score_caches));
    metric_set(M_READY, NULL, app_ready(app, NULL) && !atomic_load(&app->draining));
    metric_set(M_SAFE_MODE, NULL, atomic_load(&app->health.safe_mode));
    if (atomic_load(&app->health.safe_mode))
        metric_set(M_SAFE_MODE_INFO, LABEL_VALUES(safe_mode_word(app)), 1);
    set_age(app, "nodes", atomic_load(&app->watch.nodes_seen_ms));
    set_age(app, "pods", atomic_load(&app->watch.pods_seen_ms));
    metric_set(M_BUILD_INFO, LABEL_VALUES(MILLIGPU_VERSION, MILLIGPU_COMMIT), 1);
}

/* Names built-in policies only: every path would add a series. */
static const char *policy_label(const struct rulebook *book)
{
    must(book->name[0] != '\0');
    return strpbrk(book->name, "/.") != NULL ? "file" : book->name;
}

static void set_policy(const struct app *app, const struct policy_context *context)
{
    char failed[ERR_TEXT_MAX];
    int64_t since_ms;
    int64_t holding = 0;

    must(context->rulebook != NULL);
    for (uint32_t i = 0; i < context->rulebook->n_rules; i++)
        holding += (context->holding & one_rule(i)) != 0;
    metric_set(M_POLICY_RULES, NULL, context->rulebook->n_rules);
    metric_set(M_POLICY_HOLDING, NULL, holding);
    metric_set(M_POLICY_FAILED, NULL, policy_reload_failed(app->policy_reload, failed, &since_ms));
}

void metrics_page(struct app *app, struct strbuf *out, enum metric_format format)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(app->view);
    struct amounts_by_model models = {0};

    set_gauges(app);
    if (snapshot != NULL) {
        must(snapshot->generation <= INT64_MAX);
        metric_set(M_GENERATION, NULL, (int64_t)snapshot->generation);
        set_policy(app, snapshot->context);
        amounts_by_model(snapshot, &models);
    }
    waiting_metrics_set(app->waiting_pods, app->clock.wall_ms(app->clock.ctx), &models);
    metric_expose(out, milligpud_metrics, format);
    if (snapshot != NULL) {
        metric_head(out, M_POLICY_INFO, format);
        metric_sample(out, M_POLICY_INFO, LABEL_VALUES(policy_label(snapshot->context->rulebook)),
                      1);
    }
    metrics_page_put_models(out, &models, format);
    if (snapshot != NULL)
        namespace_metrics(out, snapshot, format);
    if (snapshot != NULL)
        put_measured(out, app, snapshot, &models, format);
    process_metrics(out, format);
    metric_end(out, format);
    xfree(models.model);
}
