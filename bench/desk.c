#include "desk.h"

#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/log.h"

#include "cluster.h"

const char *web_method(const struct web_call *call)
{
    (void)call;
    return "POST";
}

const char *web_path(const struct web_call *call)
{
    return call->path;
}

const char *web_header(struct web_call *call, const char *name)
{
    (void)call;
    return strcmp(name, "Content-Type") == 0 ? "application/json" : NULL;
}

struct text web_body(const struct web_call *call)
{
    return call->body;
}

uint64_t web_id(const struct web_call *call)
{
    (void)call;
    return 1;
}

int64_t web_began_ns(const struct web_call *call)
{
    return call->began_ns;
}

void web_set_header(struct web_call *call, const char *name, const char *value)
{
    (void)call;
    (void)name;
    (void)value;
}

/* Takes the memory, as the real one does. */
void web_answer(struct web_call *call, int status, const char *type, struct strbuf *take_body)
{
    (void)type;
    must(call->status == 0); /* exactly once */
    strbuf_done(&call->answer);
    call->answer = *take_body;
    strbuf_init(take_body);
    call->status = status;
    if (call->answered != NULL)
        call->answered(call);
}

void web_call_init(struct web_call *call, const char *path)
{
    *call = (struct web_call){.path = path};
    strbuf_init(&call->answer);
}

void web_call_done(struct web_call *call)
{
    strbuf_done(&call->answer);
}

void desk_init(struct desk *desk)
{
    struct app *app = &desk->app;

    log_set(LOG_ERROR, false);
    *desk = (struct desk){.settings = {.resource = cluster_wire.resource,
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
    app->settings = &desk->settings;
    app->request_rules = cluster_requests;
    app->inventory_rules = cluster_inventory;
    app->wire_rules = cluster_wire;
    clock_real(&app->clock);
    app->queue = queue_new(QUEUE_MAX);
    app->view = view_new();
    app->pods = pods_new();
    app->hints = hints_new();
    desk->webhooks = webhooks_new(app);
    atomic_store(&app->claimed, true);
    atomic_store(&app->nodes_synced, true);
    atomic_store(&app->pods_synced, true);
}

void desk_done(struct desk *desk)
{
    struct app *app = &desk->app;

    webhooks_free(desk->webhooks);
    queue_free(app->queue);
    hints_free(app->hints);
    pods_free(app->pods);
    view_free(app->view);
}

void desk_ask(struct desk *desk, struct web_call *call, struct text body)
{
    call->status = 0;
    call->body = body;
    call->began_ns = clock_ns();
    webhooks_handle(desk->webhooks, call);
    must(call->status == 200);
}
