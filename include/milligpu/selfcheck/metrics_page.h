/*
 * metrics_page - writes the pages /metrics and /metrics/nodes.
 *
 * Counters are updated at their events (metric.h); gauges are set here, for each request. Any
 * thread; locks are held only for copies.
 */
#ifndef MILLIGPU_METRICS_PAGE_H
#define MILLIGPU_METRICS_PAGE_H

#include "milligpu/run/metric.h"
#include "milligpu/spine/app.h"
#include "milligpu/wire/admin/wire_admin.h"

void metrics_page(struct app *app, struct strbuf *out, enum metric_format format);

/*
 * Held, free and closed milli of each node with GPUs. A page of its own, because it has several
 * series per node.
 */
void nodes_page(struct app *app, struct strbuf *out, enum metric_format format);

/* Amounts by GPU model, sorted by name. */
struct model_amounts {
    const struct atom *model;
    struct admin_amounts amounts;
    uint32_t sick; /* number of GPUs with gpu_reported_unhealthy() */
};
struct amounts_by_model {
    struct model_amounts *model;
    size_t count;
    size_t capacity;
};
/* The caller frees out->model with xfree(). */
void amounts_by_model(const struct snapshot *snapshot, struct amounts_by_model *out);

#endif
