/*
 * bench_http - the real milligpud over loopback: CPU per call, binds per second, memory. The policy
 * is the one that is shipped.
 *
 *   standalone   1,000 nodes in a cluster file, ledger in memory
 *   cluster      15,000 nodes (--quick: 3,000) and as many pods as make them half full, listed and
 *                watched over HTTP from the fake API server of the tests, with allocations that
 *                milligpud's key has signed; ledger on disk: its memory is realistic
 *
 * CPU is that of all threads of the daemon, user and system. The clients are threads of this
 * process and use part of the machine.
 *
 * A kube-scheduler binds a pod within milliseconds after its filter. So each connection asks about
 * one pod, and after each question, a bind to a node that does not exist ends the offer: it takes
 * no place, and the next list is not longer. What as many of these binds take by themselves is
 * subtracted.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/sign/signing.h"

#include "client.h"
#include "cluster.h"
#include "measure.h"
#include "support/fake_api.h"

enum {
    WINDOWS = 16,
    CONNECTIONS_MAX = 16,
    PATH_BYTES = 4096,
    START_SECONDS = 120,
    STANDALONE_NODES = 1000,
    CLUSTER_NODES = 15000,
    CLUSTER_NODES_QUICK = 3000,
    WAITING_MILLI = 25,
    QUIET_MS = 500,
    QUIET_LOOKS_MAX = 60,
    BLOCKS = 9,
    SLEEP_SECONDS = 10,
    SLEEP_SECONDS_QUICK = 2,
    LEAST_AMOUNT = 201, /* of the questions that are asked for the first time */
    AMOUNTS = 390,
};

struct server {
    const char *name; /* "standalone", "cluster" */
    uint32_t nodes;
    pid_t pid;
    unsigned webhook;
    unsigned admin;
    char folder[PATH_BYTES];
    uint32_t next_pod;
    uint32_t pods;  /* unbound pods that the benchmark asks about and binds */
    uint32_t roomy; /* nodes with a quarter of each GPU free, to bind the pods to */
    uint32_t *room;
    uint32_t next_amount;   /* of the next question that was not asked before */
    uint32_t sleep_seconds; /* how long it is watched while nothing happens */
};

static void say_of(const struct server *server, const char *what, double value, const char *unit)
{
    char name[128];

    (void)snprintf(name, sizeof name, "http.%s.%u_nodes.%s", server->name, server->nodes, what);
    say(name, value, unit);
}

/* --- the daemon --- */

static void path_of(const struct server *server, const char *file, char out[PATH_BYTES])
{
    must(snprintf(out, PATH_BYTES, "%s/%s", server->folder, file) < PATH_BYTES);
}

static void write_file(const struct server *server, const char *file, struct text bytes)
{
    char path[PATH_BYTES];

    path_of(server, file, path);
    FILE *out = fopen(path, "we");
    must(out != NULL);
    must(fwrite(bytes.at, 1, bytes.len, out) == bytes.len);
    must(fclose(out) == 0);
}

static pid_t spawn(const struct server *server, const char *const *argv)
{
    char log[PATH_BYTES];

    path_of(server, "log", log);
    const pid_t pid = fork();
    must(pid >= 0);
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a benchmark that fails leaves no daemon behind */
    const int fd = open(log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0)
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static bool read_ports(struct server *server)
{
    char path[PATH_BYTES];

    path_of(server, "ports", path);
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return false;
    /* NOLINTBEGIN(cert-err34-c): the daemon writes ports */
    const int got =
        fscanf(in, "webhook 127.0.0.1:%u admin 127.0.0.1:%u", &server->webhook, &server->admin);
    /* NOLINTEND(cert-err34-c) */
    must(fclose(in) == 0);
    return got == 2;
}

/* Does path answer 200, and not with this text? */
static bool answers_without(const struct server *server, const char *path, const char *text)
{
    struct client client;
    struct text body;

    if (!client_open(&client, server->admin))
        return false;
    const int status = client_ask(&client, path, TEXT(""), &body);
    const bool found = text != NULL && memmem(body.at, body.len, text, strlen(text)) != NULL;
    client_close(&client);
    return status == 200 && !found;
}

static bool is_ready(const struct server *server)
{
    return answers_without(server, "/readyz", NULL);
}

/* The first verification in the background has ended. */
static bool has_verified(const struct server *server)
{
    return answers_without(server, "/metrics", "\nmilligpu_verification_timestamp_seconds 0\n");
}

static void pause_ms(int64_t ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&pause, NULL);
}

static void show_log(const struct server *server)
{
    char path[PATH_BYTES];
    char text[4096];

    path_of(server, "log", path);
    FILE *in = fopen(path, "re");
    const size_t got = in != NULL ? fread(text, 1, sizeof text, in) : 0;
    (void)fwrite(text, 1, got, stderr);
}

static void say_memory(const struct server *server, const char *when)
{
    char what[64];

    (void)snprintf(what, sizeof what, "%s.rss", when);
    say_of(server, what, (double)process_kib(server->pid, "VmRSS") / 1024, "MiB");
    (void)snprintf(what, sizeof what, "%s.rss_peak", when);
    say_of(server, what, (double)process_kib(server->pid, "VmHWM") / 1024, "MiB");
}

/* Half a second with hardly any CPU, and nothing of the start is left to do. */
static bool is_quiet(const struct server *server)
{
    const int64_t before = process_cpu_ns(server->pid);

    pause_ms(QUIET_MS);
    return has_verified(server) &&
           process_cpu_ns(server->pid) - before < (int64_t)QUIET_MS * 1000000 / 20;
}

static void say_sleep(const struct server *server, const char *when)
{
    const int64_t wakeups = process_wakeups(server->pid);
    const int64_t cpu = process_cpu_ns(server->pid);
    const double seconds = server->sleep_seconds;
    char what[64];

    pause_ms((int64_t)server->sleep_seconds * 1000);
    (void)snprintf(what, sizeof what, "%s.wakeups", when);
    say_of(server, what, (double)(process_wakeups(server->pid) - wakeups) / seconds, "/s");
    (void)snprintf(what, sizeof what, "%s.sleeping_cpu", when);
    say_of(server, what, (double)(process_cpu_ns(server->pid) - cpu) / 1e7 / seconds, "%");
}

/* How the daemon is started: with which cluster, and whether the ledger is a file. */
struct start {
    const char *daemon;
    const char *flag;
    const char *file;
    bool on_disk;
};

/* No grace period: it is a wait by design, and no earlier daemon has Bindings in flight. */
static void server_start(struct server *server, const struct start *how, const char *when)
{
    char ports[PATH_BYTES];
    char ledger[PATH_BYTES];
    char source[PATH_BYTES];
    char what[64];

    path_of(server, "ports", ports);
    path_of(server, "ledger.db", ledger);
    path_of(server, how->file, source);
    const char *const argv[] = {how->daemon,   how->flag,
                                source,        "--webhook-listen",
                                "127.0.0.1:0", "--admin-listen",
                                "127.0.0.1:0", "--port-file",
                                ports,         "--log-level",
                                "warn",        "--http-timeout-ms",
                                "30000",       "--grace-period-s",
                                "0",           "--wake",
                                "off",         how->on_disk ? "--ledger" : NULL,
                                ledger,        NULL};
    if (unlink(ports) != 0)
        must(errno == ENOENT);
    const int64_t begun = wall_ns();
    server->pid = spawn(server, argv);
    while (!read_ports(server) || !is_ready(server)) {
        const bool alive = waitpid(server->pid, NULL, WNOHANG) == 0;
        if (!alive || wall_ns() - begun > (int64_t)START_SECONDS * 1000000000)
            show_log(server);
        must(alive && wall_ns() - begun < (int64_t)START_SECONDS * 1000000000);
        pause_ms(20);
    }
    (void)snprintf(what, sizeof what, "%s.ready_after", when);
    say_of(server, what, (double)(wall_ns() - begun) / 1e6, "ms");
    (void)snprintf(what, sizeof what, "%s.ready_cpu", when);
    say_of(server, what, (double)process_cpu_ns(server->pid) / 1e6, "ms");
    for (int i = 0; i < QUIET_LOOKS_MAX && !is_quiet(server); i++)
        continue;
    (void)snprintf(what, sizeof what, "%s.quiet_cpu", when);
    say_of(server, what, (double)process_cpu_ns(server->pid) / 1e6, "ms");
    say_memory(server, when);
    say_sleep(server, when);
}

static void server_end(const struct server *server)
{
    int status = 0;

    must(kill(server->pid, SIGTERM) == 0);
    must(waitpid(server->pid, &status, 0) == server->pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        show_log(server);
    must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void server_stop(struct server *server)
{
    server_end(server);
    xfree(server->room);
    folder_drop(server->folder);
}

/* --- the cluster --- */

static void pod_words(uint32_t pod, char name[32], char uid[40])
{
    (void)snprintf(name, 32, "waiting-%06u", pod);
    (void)snprintf(uid, 40, "%08x-0000-4000-8000-000000000003", pod);
}

static void add_waiting(struct strbuf *out, uint32_t pods)
{
    char name[32];
    char uid[40];
    char amount[16];

    (void)snprintf(amount, sizeof amount, "%d", WAITING_MILLI);
    for (uint32_t i = 0; i < pods; i++) {
        pod_words(i, name, uid);
        strbuf_char(out, ',');
        cluster_pod_json(
            out, &(struct cluster_pod){.name = name, .uid = uid, .node = "", .amount = amount});
    }
}

static bool is_roomy(const struct node *node)
{
    for (uint32_t i = 0; i < node->n_gpus; i++)
        if (gpu_free(&node->gpu[i]) < GPU_MILLI / 4)
            return false;
    return true;
}

static void find_roomy(struct server *server, const struct ledger *ledger)
{
    char name[NODE_NAME_BYTES];

    server->room = xcalloc(server->nodes, sizeof *server->room);
    for (uint32_t i = 0; i < server->nodes; i++) {
        cluster_node_name(i, name);
        if (is_roomy(ledger_node(ledger, text_of(name))))
            server->room[server->roomy++] = i;
    }
    must((uint64_t)server->roomy * NODE_GPUS * (GPU_MILLI / 4 / WAITING_MILLI) >= server->pods);
}

/* A cluster that is half full, and pods that wait to be bound. */
static void cluster_json(struct server *server, struct strbuf *out)
{
    struct ledger *ledger = cluster_ledger(server->nodes);

    say_of(server, "bound_pods", cluster_fill_half(ledger, server->nodes), "pods");
    strbuf_init(out);
    strbuf_str(out, "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[");
    for (uint32_t i = 0; i < server->nodes; i++) {
        strbuf_str(out, i > 0 ? "," : "");
        cluster_node_json(out, i);
    }
    cluster_pods_json(out, ledger);
    add_waiting(out, server->pods);
    find_roomy(server, ledger);
    strbuf_str(out, "]}");
    ledger_free(ledger);
}

/* --- clients --- */

/* What filter is asked. */
struct questions {
    uint32_t names;
    bool cold; /* each amount is asked for the first time */
};

/* One client: calls requests one after the other, each timed by itself. */
struct load {
    const struct server *server;
    enum { LOAD_FILTER, LOAD_END, LOAD_BIND } kind;
    const struct questions *questions; /* of filter */
    uint32_t first; /* the pod that filter is asked about, or the first to bind */
    uint32_t calls;
    struct series series;
    pthread_t thread;
    struct strbuf *body; /* of each call, or WINDOWS of them, in turn */
    uint32_t bodies;
    uint32_t asked;
};

/* Made beforehand: the clients share the machine with the daemon. */
static void make_bodies(struct load *load)
{
    const struct questions *questions = load->questions;
    const uint32_t nodes = load->server->nodes;
    char name[32];
    char uid[40];
    char amount[16];

    pod_words(load->first, name, uid);
    load->bodies = questions->cold ? load->calls * BLOCKS : WINDOWS;
    load->body = xcalloc(load->bodies, sizeof *load->body);
    for (uint32_t i = 0; i < load->bodies; i++) {
        (void)snprintf(amount, sizeof amount, "%u",
                       questions->cold ? load->server->next_amount + i : 300);
        const struct cluster_question question = {.uid = uid,
                                                  .amount = amount,
                                                  .nodes = nodes,
                                                  .first = (load->first + i) % WINDOWS *
                                                           (nodes / WINDOWS),
                                                  .names = questions->names};
        strbuf_init(&load->body[i]);
        cluster_question_json(&load->body[i], &question);
    }
}

static void drop_bodies(struct load *load)
{
    for (uint32_t i = 0; i < load->bodies; i++)
        strbuf_done(&load->body[i]);
    xfree(load->body);
}

static void ask_filter(struct load *load, struct client *client)
{
    const struct strbuf *body = &load->body[load->asked++ % load->bodies];
    struct text answer;

    must(client_ask(client, "/scheduler/filter", (struct text){body->data, body->len}, &answer) ==
         200);
    must(text_starts(answer, "{"));
    must(memmem(answer.at, answer.len, "\"Error\":\"\"", 10) != NULL);
}

/* True: bound. */
static bool ask_bind(struct client *client, uint32_t pod, const char *node, struct text *answer)
{
    char name[32];
    char uid[40];
    char body[256];

    pod_words(pod, name, uid);
    const int len = snprintf(body, sizeof body,
                             "{\"PodName\":\"%s\",\"PodNamespace\":\"default\",\"PodUID\":\"%s\","
                             "\"Node\":\"%s\"}",
                             name, uid, node);
    must(client_ask(client, "/scheduler/bind", (struct text){body, (size_t)len}, answer) == 200);
    return memmem(answer->at, answer->len, "\"Error\":\"\"", 10) != NULL;
}

static void bind_next(const struct load *load, struct client *client, uint32_t i)
{
    const uint32_t pod = load->first + i;
    char node[NODE_NAME_BYTES];
    struct text answer;

    cluster_node_name(load->server->room[pod % load->server->roomy], node);
    const bool bound = ask_bind(client, pod, node, &answer);
    if (!bound)
        (void)fprintf(stderr, "%.*s\n", TEXT_ARG(answer));
    must(bound);
}

static void end_offer(const struct load *load, struct client *client)
{
    struct text answer;

    must(!ask_bind(client, load->first, "nowhere", &answer));
}

static void *run_load(void *user)
{
    struct load *load = user;
    struct client client;

    must(client_open(&client, load->server->webhook));
    for (uint32_t i = 0; i < load->calls; i++) {
        const int64_t begun = wall_ns();
        if (load->kind == LOAD_FILTER)
            ask_filter(load, &client);
        else if (load->kind == LOAD_BIND)
            bind_next(load, &client, i);
        series_add(&load->series, wall_ns() - begun);
        if (load->kind != LOAD_BIND)
            end_offer(load, &client);
    }
    client_close(&client);
    return NULL;
}

/* What a call takes: time of all clients together, and CPU of the daemon. */
struct spent {
    double wall_ns;
    double cpu_ns;
};

/* The next calls of each client. */
static struct spent run_loads(const struct server *server, struct load *load, uint32_t connections)
{
    const int64_t cpu = process_cpu_ns(server->pid);
    const int64_t begun = wall_ns();

    for (uint32_t i = 0; i < connections; i++)
        must(pthread_create(&load[i].thread, NULL, run_load, &load[i]) == 0);
    for (uint32_t i = 0; i < connections; i++)
        must(pthread_join(load[i].thread, NULL) == 0);
    const double calls = (double)load[0].calls * connections;
    return (struct spent){(double)(wall_ns() - begun) / calls,
                          (double)(process_cpu_ns(server->pid) - cpu) / calls};
}

/* As many of the binds that end offers, without questions. */
static struct spent run_ends(const struct server *server, const struct load *of,
                             uint32_t connections)
{
    struct load load[CONNECTIONS_MAX];

    for (uint32_t i = 0; i < connections; i++)
        load[i] = (struct load){
            .server = server, .kind = LOAD_END, .first = of[i].first, .calls = of[i].calls};
    const struct spent spent = run_loads(server, load, connections);
    for (uint32_t i = 0; i < connections; i++)
        series_done(&load[i].series);
    return spent;
}

/* Frees the series of the loads. */
static void say_load(const struct server *server, const char *what, struct load *load,
                     uint32_t connections, struct spent spent)
{
    struct series all;
    char name[128];

    series_init(&all);
    for (uint32_t i = 0; i < connections; i++) {
        for (size_t k = 0; k < load[i].series.count; k++)
            series_add(&all, load[i].series.ns[k]);
        series_done(&load[i].series);
    }
    (void)snprintf(name, sizeof name, "%s.%u_connections.rate", what, connections);
    say_of(server, name, 1e9 / spent.wall_ns, "calls/s");
    (void)snprintf(name, sizeof name, "%s.%u_connections.server_cpu", what, connections);
    say_of(server, name, spent.cpu_ns / 1000, "us");
    (void)snprintf(name, sizeof name, "http.%s.%u_nodes.%s.%u_connections.latency", server->name,
                   server->nodes, what, connections);
    series_say(&all, name);
    series_done(&all);
}

/* calls in total, divided among the connections. */
static void measure_bind(struct server *server, uint32_t connections, uint32_t calls)
{
    struct load load[CONNECTIONS_MAX];

    for (uint32_t i = 0; i < connections; i++) {
        load[i] = (struct load){.server = server,
                                .kind = LOAD_BIND,
                                .first = server->next_pod,
                                .calls = calls / connections};
        server->next_pod += load[i].calls;
    }
    must(server->next_pod <= server->pods);
    const struct spent spent = run_loads(server, load, connections);
    say_load(server, "bind", load, connections, spent);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double value[BLOCKS])
{
    qsort(value, BLOCKS, sizeof value[0], by_size);
    return value[BLOCKS / 2];
}

/*
 * calls in total, divided among connections and blocks. The figures are the medians of the blocks,
 * each beside its own binds, so that other work on the machine matters less.
 */
static void measure_questions(struct server *server, const char *what,
                              const struct questions *questions, uint32_t connections,
                              uint32_t calls)
{
    struct load load[CONNECTIONS_MAX];
    double wall_ns[BLOCKS];
    double cpu_ns[BLOCKS];

    must(connections <= CONNECTIONS_MAX && calls >= connections * BLOCKS);
    for (uint32_t i = 0; i < connections; i++) {
        load[i] = (struct load){.server = server,
                                .kind = LOAD_FILTER,
                                .questions = questions,
                                .first = i,
                                .calls = calls / connections / BLOCKS};
        make_bodies(&load[i]);
    }
    for (uint32_t block = 0; block < BLOCKS; block++) {
        const struct spent ends = run_ends(server, load, connections);
        const struct spent spent = run_loads(server, load, connections);
        wall_ns[block] = spent.wall_ns - ends.wall_ns;
        cpu_ns[block] = spent.cpu_ns - ends.cpu_ns;
    }
    say_load(server, what, load, connections, (struct spent){median(wall_ns), median(cpu_ns)});
    for (uint32_t i = 0; i < connections; i++)
        drop_bodies(&load[i]);
}

static void measure_filter(struct server *server, uint32_t names, uint32_t calls)
{
    const struct questions questions = {.names = names};
    char what[32];

    (void)snprintf(what, sizeof what, "filter.%u_names", names);
    measure_questions(server, what, &questions, 1, calls);
    measure_questions(server, what, &questions, CONNECTIONS_MAX, calls);
}

static void measure_cold(struct server *server, uint32_t names, uint32_t calls)
{
    const struct questions questions = {.names = names, .cold = true};
    char what[32];

    must(server->next_amount + calls <= LEAST_AMOUNT + 2 * AMOUNTS);
    (void)snprintf(what, sizeof what, "filter_cold.%u_names", names);
    measure_questions(server, what, &questions, 1, calls);
    server->next_amount += calls;
}

static void measure_server(struct server *server, const struct options *options)
{
    const uint32_t scale = options->quick ? 1 : 5;
    const uint32_t most = server->nodes < 5000 ? server->nodes : 5000;

    server->next_amount = LEAST_AMOUNT;
    server->next_pod = CONNECTIONS_MAX; /* filter is asked about those before */
    measure_filter(server, 500, 800 * scale);
    measure_filter(server, most, 160 * scale);
    const uint32_t amounts = options->quick ? AMOUNTS / 5 : AMOUNTS;
    measure_cold(server, 500, amounts);
    measure_cold(server, most, amounts);
    measure_bind(server, 1, server->pods / 4);
    measure_bind(server, CONNECTIONS_MAX, server->pods / 2);
    say_memory(server, "worked");
}

static void measure_standalone(const struct options *options)
{
    struct server server = {.name = "standalone",
                            .nodes = STANDALONE_NODES,
                            .pods = options->quick ? 640 : 3200,
                            .sleep_seconds = options->quick ? SLEEP_SECONDS_QUICK : SLEEP_SECONDS};
    struct strbuf json;

    folder_make(options->folder, server.folder, sizeof server.folder);
    cluster_json(&server, &json);
    write_file(&server, "cluster.json", (struct text){json.data, json.len});
    strbuf_done(&json);
    server_start(&server, &(struct start){options->daemon, "--standalone", "cluster.json", false},
                 "started");
    measure_server(&server, options);
    server_stop(&server);
}

/* The fake API server records the line of each request and has room for 4096 of them. */
static void measure_cluster(const struct options *options)
{
    struct server server = {.name = "cluster",
                            .nodes = options->quick ? CLUSTER_NODES_QUICK : CLUSTER_NODES,
                            .pods = options->quick ? 640 : 3200,
                            .sleep_seconds = options->quick ? SLEEP_SECONDS_QUICK : SLEEP_SECONDS};
    struct fake_apiserver *fake = fake_apiserver_new("bench");
    struct signing_key *key = NULL;
    char key_file[PATH_BYTES];
    struct strbuf text;
    struct err err;

    folder_make(options->folder, server.folder, sizeof server.folder);
    path_of(&server, "ledger.db.key", key_file);
    must(signing_key_open(key_file, &key, &err) == 0);
    cluster_sign_with(key);
    cluster_json(&server, &text);
    cluster_sign_with(NULL);
    signing_key_free(key);
    if (fake_apiserver_load_text(fake, "bench", (struct text){text.data, text.len}, &err) < 0)
        (void)fprintf(stderr, "%s\n", err.text);
    struct fake_api *api = fake_api_new(fake, NULL);
    strbuf_reset(&text);
    strbuf_printf(&text,
                  "apiVersion: v1\nkind: Config\ncurrent-context: bench\n"
                  "clusters:\n- name: bench\n  cluster: {server: \"%s\"}\n"
                  "users:\n- name: bench\n  user: {}\n"
                  "contexts:\n- name: bench\n  context: {cluster: bench, user: bench}\n",
                  fake_api_url(api));
    write_file(&server, "kubeconfig", (struct text){text.data, text.len});
    strbuf_done(&text);
    const struct start how = {options->daemon, "--kubeconfig", "kubeconfig", true};
    server_start(&server, &how, "rebuilt"); /* no ledger yet: all state comes from the pods */
    server_end(&server);
    server_start(&server, &how, "restarted");
    measure_server(&server, options);
    server_stop(&server);
    fake_api_free(api);
    fake_apiserver_free(fake);
}

int main(int argc, char **argv)
{
    struct options options;

    if (!options_read(argc, argv, &options))
        return 2;
    must(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    measure_standalone(&options);
    measure_cluster(&options);
    return 0;
}
