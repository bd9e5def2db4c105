/*
 * bench_transport - what a small POST costs the thread that sends it: by libcurl (kube_curl_new()),
 * and by frames on a connection of ours (kube_calls_new()).
 *
 * nghttpd of Debian's nghttp2-server, in a process of its own, speaks HTTP/2 over TLS, as
 * kube-apiserver does, and answers with what it got. N calls of the size of a Binding are in flight
 * at any time. A figure is the CPU time of the thread for a call, system calls included; the two
 * ways take turns.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/base.h"
#include "milligpu/kube/kube.h"

#include "measure.h"

enum { BODY_BYTES = 700, TOKEN_BYTES = 900, ROUNDS = 5, CALL_MS = 20000, START_MS = 10000 };

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

/* ---- the server ---- */

/* Runs a program without a shell, and does not wait. */
static pid_t start_program(const char *const *args)
{
    union {
        const char *const *given;
        char *const *wanted;
    } argv = {args};
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    char *const env[] = {path, NULL};
    posix_spawn_file_actions_t files;
    pid_t pid;

    must(posix_spawn_file_actions_init(&files) == 0);
    must(posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0) == 0);
    must(posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0) == 0);
    if (posix_spawnp(&pid, args[0], &files, NULL, argv.wanted, env) != 0)
        pid = -1;
    must(posix_spawn_file_actions_destroy(&files) == 0);
    return pid;
}

static bool make_certificate(const char *key, const char *crt)
{
    const char *const args[] = {"openssl",
                                "req",
                                "-x509",
                                "-newkey",
                                "ec",
                                "-pkeyopt",
                                "ec_paramgen_curve:prime256v1",
                                "-nodes",
                                "-keyout",
                                key,
                                "-out",
                                crt,
                                "-days",
                                "2",
                                "-subj",
                                "/CN=bench",
                                "-addext",
                                "subjectAltName=IP:127.0.0.1",
                                NULL};
    int status = -1;
    const pid_t pid = start_program(args);

    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static unsigned free_port(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    must(bind(fd, (struct sockaddr *)&here, sizeof here) == 0);
    must(getsockname(fd, (struct sockaddr *)&here, &len) == 0);
    must(close(fd) == 0);
    return ntohs(here.sin_port);
}

static bool answers(unsigned port)
{
    const struct sockaddr_in there = {.sin_family = AF_INET,
                                      .sin_addr = {htonl(INADDR_LOOPBACK)},
                                      .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool connected = connect(fd, (const struct sockaddr *)&there, sizeof there) == 0;

    must(close(fd) == 0);
    return connected;
}

static pid_t start_server(const char *folder, unsigned port, const char *key, const char *crt)
{
    const struct timespec pause = {0, 10 * 1000 * 1000};
    char number[16], root[4200];

    (void)snprintf(number, sizeof number, "%u", port);
    (void)snprintf(root, sizeof root, "--htdocs=%s", folder);
    const char *const args[] = {"nghttpd",
                                "--address=127.0.0.1",
                                "--echo-upload",
                                "--max-concurrent-streams=250",
                                root,
                                number,
                                key,
                                crt,
                                NULL};
    const pid_t pid = start_program(args);
    const int64_t until_ns = wall_ns() + START_MS * INT64_C(1000000);
    while (pid > 0 && !answers(port)) {
        must(wall_ns() < until_ns);
        (void)nanosleep(&pause, NULL);
    }
    return pid;
}

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
                  " certificate-authority: bench.crt}}]\nusers: [{name: x, user: {token: %s}}]\n",
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
    char folder[4096], key[4200], crt[4200], body[BODY_BYTES + 1];
    int status;

    if (!options_read(argc, argv, &options))
        return 2;
    (void)signal(SIGPIPE, SIG_IGN);
    folder_make(options.folder, folder, sizeof folder);
    (void)snprintf(key, sizeof key, "%s/bench.key", folder);
    (void)snprintf(crt, sizeof crt, "%s/bench.crt", folder);
    const unsigned port = free_port();
    const pid_t server = make_certificate(key, crt) ? start_server(folder, port, key, crt) : -1;
    if (server < 0) {
        (void)fputs("transport: needs nghttpd (nghttp2-server) and openssl\n", stderr);
        folder_drop(folder);
        return 0;
    }
    struct kube_config *config = configuration(folder, port);
    memset(body, 'b', BODY_BYTES);
    body[BODY_BYTES] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(outstanding); i++)
        compare(config, body, outstanding[i], options.quick ? 2000 : 20000);
    kube_config_free(config);
    must(kill(server, SIGKILL) == 0);
    must(waitpid(server, &status, 0) == server);
    folder_drop(folder);
    return 0;
}
