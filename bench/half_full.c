#include "half_full.h"

#include "milligpu/sync/pod_cache.h"

#include "cluster.h"

static void fill_pods(struct app *app, const struct ledger *ledger)
{
    const struct allocation *allocation;
    struct strbuf json;
    struct arena arena;
    struct err err;

    strbuf_init(&json);
    arena_init(&arena);
    for (size_t at = 0; (allocation = ledger_next(ledger, &at)) != NULL;) {
        struct pod pod;

        strbuf_reset(&json);
        arena_reset(&arena);
        cluster_bound_json(&json, allocation,
                           ledger_node(ledger, atom_text(allocation->facts.node)));
        must(pod_decode((struct text){json.data, json.len}, &cluster_wire, &arena, &pod, &err) ==
             0);
        pod_cache_put(app->pod_cache, &pod, &cluster_requests, 1);
    }
    arena_done(&arena);
    strbuf_done(&json);
}

uint32_t half_full(struct app *app, uint32_t nodes)
{
    struct err err;

    must(app->store_ops.begin(app->store_ops.ctx, &err) == 0);
    cluster_write_to(&app->store_ops);
    struct ledger *ledger = cluster_ledger(nodes);
    const uint32_t pods = cluster_fill_half(ledger, nodes);
    cluster_write_to(NULL);
    must(app->store_ops.commit(app->store_ops.ctx, &err) == 0);
    fill_pods(app, ledger);
    ledger_free(ledger);
    return pods;
}
