#include "webhook_fixture.h"

#include "milligpu/base/alloc.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/run/log.h"

#include "cluster.h"

/* Sets what the caller left out. */
static void fill_edges(struct webhook_fixture *fixture, struct app_edges *edges)
{
    if (edges->clock.now_ms == NULL)
        clock_real(&edges->clock);
    if (edges->store == NULL) {
        fixture->store = cluster_store(":memory:", false);
        edges->store = fixture->store;
    }
    if (edges->calls == NULL) {
        fixture->fake = fake_apiserver_new("bench");
        fake_apiserver_ops(fixture->fake, &fixture->watch_ops);
        fake_apiserver_ops(fixture->fake, &fixture->call_ops);
        edges->fake = fixture->fake;
        edges->watch = &fixture->watch_ops;
        edges->calls = &fixture->call_ops;
    }
    edges->server = "bench";
    edges->wake_namespace = fixture->settings.namespace;
    edges->instance = "bench";
}

void webhook_fixture_init(struct webhook_fixture *fixture, const struct app_edges *edges)
{
    struct app_edges all = edges != NULL ? *edges : (struct app_edges){.store = NULL};
    struct app *app = &fixture->app;

    log_set(LOG_ERROR, false);
    *fixture = (struct webhook_fixture){.settings = {.resource = cluster_wire.resource,
                                                     .whole_resource = cluster_wire.whole_resource,
                                                     .base_path = "/scheduler",
                                                     .policy = cluster_policy_name(CLUSTER_SHIPPED),
                                                     .shortlist = 16,
                                                     .refusal_names = 100,
                                                     .min_milli = 1,
                                                     .step_milli = 1,
                                                     .http_timeout_ms = 30000,
                                                     .inventory_from_labels = true,
                                                     .plugin = "auto",
                                                     .events = true,
                                                     .require_agent = "where-selected",
                                                     .agent_nodes = "",
                                                     .agents = "pods",
                                                     .agent_label = "a=b",
                                                     .keys_namespace = "",
                                                     .wake = "off",
                                                     .namespace = "milligpu"}};
    struct rulebook *shipped = cluster_shipped();
    all.rulebook = shipped;
    fill_edges(fixture, &all);
    app_open(app, &fixture->settings, &all, &fixture->parts);
    rulebook_unref(shipped);
    atomic_store(&app->identified, true);
    atomic_store(&app->watch.nodes_synced, true);
    atomic_store(&app->watch.pods_synced, true);
}

void webhook_fixture_done(struct webhook_fixture *fixture)
{
    app_close(&fixture->app, &fixture->parts);
    if (fixture->fake != NULL) {
        fixture->watch_ops.free(fixture->watch_ops.ctx);
        fixture->call_ops.free(fixture->call_ops.ctx);
    }
    fake_apiserver_free(fixture->fake);
    store_close(fixture->store);
}

void webhook_fixture_ask(struct webhook_fixture *fixture, struct http_call *call, struct text body)
{
    call->status = 0;
    call->body = body;
    call->began_ns = clock_ns();
    webhooks_handle(fixture->parts.webhooks, call);
    must(call->status == 200);
}
