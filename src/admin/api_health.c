/*
 * Handlers of the probe routes: /livez and /readyz in the form of kube-apiserver's, and /metrics.
 * Called by the router in an admin thread or the probe thread. Probes only read atomics, so
 * they answer whatever else is stuck.
 */
#include <string.h>

#include "milligpu/command_trace.h"
#include "milligpu/http.h"

#include "admin/api_internal.h"

/*
 * The conditions of app_ready() and shutdown, one by one, so that `curl /readyz` shows which one
 * fails. A text here names no pod: whoever reaches the port can read it.
 */
size_t api_checks(const struct app *app, struct api_check check[API_CHECKS_MAX])
{
    const struct api_check all[] = {
        {"api-server", atomic_load(&app->identified), "the API server has not been reached yet"},
        {"nodes", atomic_load(&app->watch.nodes_synced), "the list of nodes is not complete yet"},
        {"pods", atomic_load(&app->watch.pods_synced), app_pods_why(app)},
        {"ledger", !atomic_load(&app->health.disk_broken), "the ledger cannot be written"},
        {"ledger-size", store_room(app->store) == ROOM_ENOUGH, app_room_why(app)},
        {"consistency", !atomic_load(&app->health.safe_mode), safe_mode_why(app)},
        {"shutdown", !atomic_load(&app->draining), "the process is stopping"},
    };
    static_assert(ARRAY_LEN(all) <= API_CHECKS_MAX, "the caller has room");

    memcpy(check, all, sizeof all);
    return ARRAY_LEN(all);
}

static void api_health_put_check(struct strbuf *out, const struct api_check *check)
{
    must(check->name[0] != '\0');
    if (check->good)
        strbuf_printf(out, "[+]%s ok\n", check->name);
    else
        strbuf_printf(out, "[-]%s failed: %s\n", check->name, check->why);
}

/* Liveness depends on nothing: a restart because the API server is away would make things worse. */
void api_livez(struct api_call *call)
{
    must(call->status == 200);
    if (call->value[PARAMETER_verbose] != NULL)
        strbuf_str(&call->body, "[+]ping ok\nlivez check passed\n");
    else
        strbuf_str(&call->body, "ok");
}

/*
 * Each condition is an atomic of its own and may change between the two readings below; 200 is
 * given only if both find nothing. On a 503 kubelet takes the pod out of its Services and restarts
 * nothing.
 */
void api_readyz(struct api_call *call)
{
    struct api_check check[API_CHECKS_MAX];
    const size_t checks = api_checks(call->app, check);
    const char *why = NULL;
    bool ready = app_ready(call->app, &why);
    bool named = false;

    must(checks > 0);
    for (size_t i = 0; i < checks; i++) {
        api_health_put_check(&call->body, &check[i]);
        named = named || !check[i].good;
    }
    /* app_ready() saw what the list did not: say that instead of failing without a reason. */
    if (!ready && !named)
        api_health_put_check(&call->body, &(struct api_check){"grants", false, why});
    ready = ready && !named;
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
