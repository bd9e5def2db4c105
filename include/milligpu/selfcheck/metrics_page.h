/*
 * metrics_page - the content of /metrics and of /metrics/nodes.
 *
 * Counters are updated where things happen (metric.h); gauges are set here, when the page is
 * requested. Any thread; it waits for no lock longer than a copy takes.
 */
#ifndef MILLIGPU_METRICS_PAGE_H
#define MILLIGPU_METRICS_PAGE_H

#include "milligpu/run/metric.h"
#include "milligpu/spine/app.h"
#include "milligpu/wire/admin/wire_admin.h"

void metrics_page(struct app *app, struct strbuf *out, enum metric_format format);

/*
 * Held, free and closed milli of each node: as many series as nodes, so it is a page of its
 * own. Nodes without GPUs are left out.
 */
void nodes_page(struct app *app, struct strbuf *out, enum metric_format format);

/* Amounts by GPU model, in the order of their names. */
struct model_amounts {
    const struct atom *model;
    struct admin_amounts amounts;
    uint32_t sick; /* GPUs, by gpu_reported_unhealthy() */
};
struct amounts_by_model {
    struct model_amounts *model;
    size_t count;
    size_t capacity;
};
/* Free out->model with xfree(). */
void amounts_by_model(const struct snapshot *snapshot, struct amounts_by_model *out);

#endif
