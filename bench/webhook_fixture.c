#include "webhook_fixture.h"

#include "milligpu/alloc.h"
#include "milligpu/hints.h"
#include "milligpu/kube.h"
#include "milligpu/log.h"
#include "milligpu/message.h"
#include "milligpu/outbox.h"
#include "milligpu/pod_cache.h"

#include "cluster.h"

void webhook_fixture_init(struct webhook_fixture *fixture)
{
    struct app *app = &fixture->app;

    log_set(LOG_ERROR, false);
    *fixture = (struct webhook_fixture){.settings = {.resource = cluster_wire.resource,
                                                     .whole_resource = cluster_wire.whole_resource,
                                                     .base_path = "/scheduler",
                                                     .shortlist = 16,
                                                     .refusal_names = 100,
                                                     .min_milli = 1,
                                                     .step_milli = 1,
                                                     .http_timeout_ms = 30000,
                                                     .inventory_from_labels = true,
                                                     .events = true,
                                                     .wake = "off",
                                                     .namespace = "milligpu"}};
    app->settings = &fixture->settings;
    app->request_rules = cluster_requests;
    app->inventory_rules = cluster_inventory;
    app->wire_rules = cluster_wire;
    clock_real(&app->clock);
    app->queue = queue_new(QUEUE_MAX);
    app->view = view_new();
    app->pod_cache = pod_cache_new();
    app->hints = hints_new();
    fixture->webhooks = webhooks_new(app);
    atomic_store(&app->identified, true);
    atomic_store(&app->nodes_synced, true);
    atomic_store(&app->pods_synced, true);
}

void webhook_fixture_outbox(struct webhook_fixture *fixture, const struct kube_ops *ops, void *user,
                            void (*result)(void *user, struct message *take_message))
{
    const struct outbox_rules rules = {.ops = ops,
                                       .wire = &fixture->app.wire_rules,
                                       .wake = fixture->settings.wake,
                                       .namespace = fixture->settings.namespace,
                                       .instance = "bench",
                                       .resource = cluster_wire.resource,
                                       .user = user,
                                       .result = result};

    fixture->app.outbox = outbox_new(&rules);
}

void webhook_fixture_done(struct webhook_fixture *fixture)
{
    struct app *app = &fixture->app;

    webhooks_free(fixture->webhooks);
    queue_free(app->queue);
    hints_free(app->hints);
    pod_cache_free(app->pod_cache);
    view_free(app->view);
}

void webhook_fixture_ask(struct webhook_fixture *fixture, struct http_call *call, struct text body)
{
    call->status = 0;
    call->body = body;
    call->began_ns = clock_ns();
    webhooks_handle(fixture->webhooks, call);
    must(call->status == 200);
}
