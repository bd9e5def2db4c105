/*
 * Writes /metrics/nodes: held, free and closed milli of each node. A page of its own, because it
 * grows with the cluster: 1.7 MB with 15,000 nodes, while /metrics has 24 KB. Called by the router
 * on any thread. Costs one pass over all GPUs of the snapshot.
 */
#include "milligpu/core/node/account.h"
#include "milligpu/selfcheck/metrics_page.h"

/* Series of one metric must be contiguous, so each metric has its own text. */
struct node_series {
    struct strbuf allocated;
    struct strbuf free;
    struct strbuf closed;
};

static void add_series(struct node_series *series, const struct node *node)
{
    const char *name = node->name->text;
    uint64_t milli[ACCOUNT_PARTS] = {0};

    must(node->n_gpus > 0);
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        struct gpu_account account;
        gpu_account(node, &node->gpu[i], &account);
        for (size_t part = 0; part < ACCOUNT_PARTS; part++)
            milli[part] += account.milli[part];
    }
    metric_sample(&series->allocated, M_NODE_ALLOCATED, LABEL_VALUES(name),
                  milli[ACCOUNT_USED] + milli[ACCOUNT_RESERVED]);
    metric_sample(&series->free, M_NODE_FREE, LABEL_VALUES(name), milli[ACCOUNT_FREE]);
    for (uint32_t part = ACCOUNT_HELD; part < ACCOUNT_PARTS; part++)
        if (milli[part] > 0)
            metric_sample(&series->closed, M_NODE_CLOSED, LABEL_VALUES(account_name(part), name),
                          milli[part]);
}

static void put_series(struct strbuf *out, enum metric_id id, enum metric_format format,
                       struct strbuf *take_series)
{
    metric_head(out, id, format);
    strbuf_text(out, (struct text){take_series->data, take_series->len});
    strbuf_done(take_series);
}

void nodes_page(struct app *app, struct strbuf *out, enum metric_format format)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(app->view);
    struct node_series series;
    const struct node *node;

    must(out->len == 0);
    strbuf_init(&series.allocated);
    strbuf_init(&series.free);
    strbuf_init(&series.closed);
    for (uint32_t at = 0; snapshot != NULL && (node = snapshot_next(snapshot, &at)) != NULL;)
        if (node->n_gpus > 0)
            add_series(&series, node);
    put_series(out, M_NODE_ALLOCATED, format, &series.allocated);
    put_series(out, M_NODE_FREE, format, &series.free);
    put_series(out, M_NODE_CLOSED, format, &series.closed);
    metric_end(out, format);
}
