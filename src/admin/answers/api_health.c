/*
 * Handlers of the probe routes: /livez and /readyz in the form of kube-apiserver's, and /metrics.
 * Called by the router in an admin thread or the probe thread. Probes only read atomics, so they
 * answer even if other threads are stuck.
 */
#include "milligpu/http/http.h"
#include "milligpu/spine/command_trace.h"

#include "admin/api_internal.h"

static void put_need(struct strbuf *out, const struct app_need *need)
{
    must(need->name[0] != '\0');
    if (need->is_met)
        strbuf_printf(out, "[+]%s ok\n", need->name);
    else
        strbuf_printf(out, "[-]%s failed: %s\n", need->name, need->why);
}

/* Liveness depends on nothing: a restart while the API server is down would only do harm. */
void api_livez(struct api_call *call)
{
    must(call->status == 200);
    if (call->value[PARAMETER_verbose] != NULL)
        strbuf_str(&call->body, "[+]ping ok\nlivez check passed\n");
    else
        strbuf_str(&call->body, "ok");
}

/*
 * The conditions of app_ready() and shutdown, one by one, so that `curl /readyz` shows which one
 * fails. On a 503 kubelet removes the pod from its Services without a restart.
 */
void api_readyz(struct api_call *call)
{
    const struct app *app = call->app;
    struct app_need need[APP_NEEDS + 1];
    bool ready = true;

    app_needs(app, need);
    need[APP_NEEDS] =
        (struct app_need){"shutdown", !atomic_load(&app->draining), "the process is stopping"};
    for (size_t i = 0; i < ARRAY_LEN(need); i++) {
        put_need(&call->body, &need[i]);
        ready = ready && need[i].is_met;
    }
    if (!ready)
        call->status = 503;
    if (ready && call->value[PARAMETER_verbose] == NULL) {
        strbuf_reset(&call->body);
        strbuf_str(&call->body, "ok");
        return;
    }
    strbuf_printf(&call->body, "readyz check %s\n", ready ? "passed" : "failed");
}

void api_commands(struct api_call *call)
{
    must(call->body.len == 0);
    if (call->app->command_trace != NULL)
        command_trace_write(call->app->command_trace, &call->body);
    call->type = "application/x-ndjson";
}

static void put_page(struct api_call *call,
                     void (*page)(struct app *app, struct strbuf *out, enum metric_format format))
{
    const enum metric_format format = api_accept_metrics(http_header(call->http, "Accept"));

    must(call->body.len == 0);
    page(call->app, &call->body, format);
    call->type = format == METRIC_OPEN
                     ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                     : "text/plain; version=0.0.4; charset=utf-8";
    http_set_header(call->http, "Vary", "Accept");
}

void api_metrics(struct api_call *call)
{
    put_page(call, metrics_page);
}

void api_metrics_nodes(struct api_call *call)
{
    put_page(call, nodes_page);
}
