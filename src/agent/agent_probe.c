/*
 * Serves /livez, /readyz and /metrics. Started and stopped by agent_run(); the handler runs in the
 * listener's thread and waits for nothing but copies.
 */
#include "agent_probe.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/http/http.h"
#include "milligpu/run/file.h"
#include "milligpu/run/metric.h"

enum {
    CONNECTIONS = 32,
    BODY_BYTES = 1024,
    FIRST_MS = 5000,
    IDLE_MS = 120000,
    REQUEST_MS = 10000,
};

struct agent_probe {
    struct http_server *http;
    struct agent_metrics metrics;
    struct readiness *readiness;
};

static int answer_ready(struct readiness *readiness, struct strbuf *out)
{
    if (!readiness_look(readiness, out))
        return 503;
    strbuf_str(out, "ok\n");
    return 200;
}

static void handle(void *user, struct http_call *call)
{
    const struct agent_probe *probe = user;
    const char *path = http_path(call);
    const char *type = "text/plain; charset=utf-8";
    struct strbuf body;
    int status = 200;

    strbuf_init(&body);
    if (strcmp(http_method(call), "GET") != 0) {
        status = 405;
        http_set_header(call, "Allow", "GET");
        strbuf_str(&body, "only GET\n");
    } else if (strcmp(path, "/livez") == 0) {
        strbuf_str(&body, "ok\n");
    } else if (strcmp(path, "/readyz") == 0) {
        status = answer_ready(probe->readiness, &body);
    } else if (strcmp(path, "/metrics") == 0) {
        type = "text/plain; version=0.0.4; charset=utf-8";
        metric_expose(&body, node_metrics, METRIC_PLAIN);
        agent_metrics_write(&probe->metrics, &body);
    } else {
        status = 404;
        strbuf_str(&body, "here are /livez, /readyz and /metrics\n");
    }
    http_answer(call, status, type, &body);
    strbuf_done(&body);
}

static int write_port(const char *file, const char *listen, uint16_t port, struct err *err)
{
    const char *colon = strrchr(listen, ':');
    CLEANUP(strbuf_done) struct strbuf line;

    must(colon != NULL);
    strbuf_init(&line);
    strbuf_printf(&line, "probe %.*s:%u\n", (int)(colon - listen), listen, (unsigned)port);
    if (file_replace(file, (struct text){line.data, line.len}, err) < 0)
        return err_wrap(err, "--port-file");
    return 0;
}

int agent_probe_start(const char *listen, const char *port_file,
                      const struct agent_metrics *metrics, struct readiness *readiness,
                      struct agent_probe **out, struct err *err)
{
    struct http_rules rules = {.name = "probe",
                               .listen = listen,
                               .threads = 1,
                               .strangers = CONNECTIONS,
                               .strangers_each = CONNECTIONS - CONNECTIONS / 4,
                               .body_bytes_max = BODY_BYTES,
                               .bodies_bytes_max = (size_t)4 * BODY_BYTES,
                               .first_ms = FIRST_MS,
                               .idle_ms = IDLE_MS,
                               .request_ms = REQUEST_MS,
                               .handler = handle};

    *out = NULL;
    if (listen[0] == '\0')
        return 0;
    if (http_address_check(listen, err) < 0)
        return err_wrap(err, "--probe-listen");
    struct agent_probe *probe = xcalloc(1, sizeof *probe);
    probe->metrics = *metrics;
    probe->readiness = readiness;
    rules.user = probe;
    if (http_start(&rules, &probe->http, err) < 0) {
        xfree(probe);
        return err_wrap(err, "--probe-listen");
    }
    *out = probe;
    if (port_file[0] == '\0')
        return 0;
    return write_port(port_file, listen, http_port(probe->http), err);
}

void agent_probe_stop(struct agent_probe *probe)
{
    if (probe == NULL)
        return;
    http_stop(probe->http);
    xfree(probe);
}
