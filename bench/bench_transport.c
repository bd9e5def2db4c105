/*
 * bench_transport - what a small POST costs the thread that sends it: by libcurl (kube_curl_new()),
 * and by frames on a connection of ours (kube_calls_new()).
 *
 * nghttpd of Debian's nghttp2-server, in a process of its own, speaks HTTP/2 over TLS, as
 * kube-apiserver does, and answers with what it got. N calls of the size of a Binding are in flight
 * at any time. A figure is the CPU time of the thread for a call, system calls included; the two
 * ways take turns.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/base.h"
#include "milligpu/kube/kube.h"

#include "measure.h"
#include "support/certificate.h"
#include "support/nghttpd.h"

enum { BODY_BYTES = 700, TOKEN_BYTES = 900, STREAMS = 250, ROUNDS = 5, CALL_MS = 20000 };

struct way {
    const char *name;
    int (*make)(struct kube_config *config, struct kube_ops *out, struct err *err);
    struct kube_ops ops;
    struct series cpu;
    struct series latency;
};

struct run {
    struct way *way;
    const char *body;
    uint32_t left; /* not started */
    uint32_t open;
    uint64_t id;
    int64_t begun_ns[1024]; /* by id modulo */
};

/* A kubeconfig, with a token of the size that a service account has. */
static struct kube_config *configuration(const char *folder, unsigned port)
{
    char path[4200], token[TOKEN_BYTES + 1];
    struct kube_config *config;
    struct err err;

    memset(token, 'x', TOKEN_BYTES);
    token[TOKEN_BYTES] = '\0';
    (void)snprintf(path, sizeof path, "%s/config", folder);
    FILE *file = fopen(path, "w");
    must(file != NULL);
    (void)fprintf(file,
                  "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
                  "clusters: [{name: x, cluster: {server: \"https://127.0.0.1:%u\","
                  " certificate-authority: ca.crt}}]\nusers: [{name: x, user: {token: %s}}]\n",
                  port, token);
    must(fclose(file) == 0);
    must(kube_config_load(path, NULL, &config, &err) == 0);
    return config;
}

/* ---- calls ---- */

static void begin_one(struct run *run)
{
    const struct kube_request request = {
        .id = ++run->id,
        .method = "POST",
        .path = "/api/v1/namespaces/team-a/pods/train-0123456789/binding",
        .content_type = "application/json",
        .body = text_of(run->body),
        .timeout_ms = CALL_MS};
    struct err err;

    must(run->way->ops.start(run->way->ops.ctx, &request, &err) == 0);
    run->begun_ns[request.id % ARRAY_LEN(run->begun_ns)] = wall_ns();
    run->left--;
    run->open++;
}

static void take(void *user, const struct kube_answer *answer)
{
    struct run *run = user;

    must(answer->piece != KUBE_FAILED);
    must(answer->piece != KUBE_DATA || answer->status == 200);
    if (answer->piece != KUBE_DONE)
        return;
    series_add(&run->way->latency,
               wall_ns() - run->begun_ns[answer->id % ARRAY_LEN(run->begun_ns)]);
    run->open--;
    if (run->left > 0)
        begin_one(run);
}

static void calls(struct run *run, uint32_t outstanding, uint32_t n_calls)
{
    run->left = n_calls;
    for (uint32_t i = 0; i < outstanding; i++)
        begin_one(run);
    while (run->open > 0)
        run->way->ops.poll(run->way->ops.ctx, CALL_MS, run, take);
}

static void compare(struct kube_config *config, const char *body, uint32_t outstanding,
                    uint32_t n_calls)
{
    struct way way[] = {{.name = "libcurl", .make = kube_curl_new},
                        {.name = "frames", .make = kube_calls_new}};
    struct run run[ARRAY_LEN(way)];
    char name[96];
    struct err err;

    for (size_t i = 0; i < ARRAY_LEN(way); i++) {
        must(way[i].make(config, &way[i].ops, &err) == 0);
        series_init(&way[i].cpu);
        series_init(&way[i].latency);
        run[i] = (struct run){.way = &way[i], .body = body};
        calls(&run[i], outstanding, outstanding); /* connects */
    }
    for (unsigned round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < ARRAY_LEN(way); i++) {
            const int64_t before_ns = cpu_ns();
            calls(&run[i], outstanding, n_calls);
            series_add(&way[i].cpu, (cpu_ns() - before_ns) / n_calls);
        }
    for (size_t i = 0; i < ARRAY_LEN(way); i++) {
        (void)snprintf(name, sizeof name, "transport.%u_outstanding.%s.cpu", outstanding,
                       way[i].name);
        series_say(&way[i].cpu, name);
        (void)snprintf(name, sizeof name, "transport.%u_outstanding.%s.latency", outstanding,
                       way[i].name);
        series_say(&way[i].latency, name);
        series_done(&way[i].cpu);
        series_done(&way[i].latency);
        way[i].ops.free(way[i].ops.ctx);
    }
}

int main(int argc, char **argv)
{
    static const uint32_t outstanding[] = {1, 16, 100};
    struct options options;
    char folder[4096], body[BODY_BYTES + 1];
    struct nghttpd server;

    if (!options_read(argc, argv, &options))
        return 2;
    (void)signal(SIGPIPE, SIG_IGN);
    folder_make(options.folder, folder, sizeof folder);
    if (!certificate_make(folder, "ca", NULL) || !certificate_make(folder, "server", "ca") ||
        !nghttpd_start(&server, folder, folder, STREAMS)) {
        (void)fputs("transport: needs nghttpd (nghttp2-server) and openssl\n", stderr);
        folder_drop(folder);
        return 0;
    }
    struct kube_config *config = configuration(folder, server.port);
    memset(body, 'b', BODY_BYTES);
    body[BODY_BYTES] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(outstanding); i++)
        compare(config, body, outstanding[i], options.quick ? 2000 : 20000);
    kube_config_free(config);
    nghttpd_kill(&server);
    folder_drop(folder);
    return 0;
}
