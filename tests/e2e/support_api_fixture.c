#include "support_api_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "milligpu/base/alloc.h"
#include "milligpu/daemon/assembly.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/http/http.h"
#include "milligpu/kube/kube.h"
#include "milligpu/run/log.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

#include "support/patience.h"
#include "support/rules.h"

static const char *const nodes[] = {
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\",\"labels\":{"
    "\"nvidia.com/gpu.product\":\"A100\",\"nvidia.com/gpu.memory\":\"81920\"}},"
    "\"status\":{\"allocatable\":{\"nvidia.com/vgpu\":\"2000\"}}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n2\",\"annotations\":{"
    "\"milligpu.io/gpus\":\"[{\\\"uuid\\\":\\\"GPU-5f\\\",\\\"index\\\":0,\\\"milli\\\":1000,"
    "\\\"mib\\\":81920,\\\"model\\\":\\\"A100\\\"}]\"}},"
    "\"status\":{\"allocatable\":{\"nvidia.com/vgpu\":\"1000\"}}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n3\",\"labels\":{"
    "\"nvidia.com/gpu.product\":\"T4\",\"nvidia.com/gpu.memory\":\"16384\"}},"
    "\"status\":{\"allocatable\":{\"nvidia.com/vgpu\":\"500\"}}}",
};

static void admin_call(void *user, struct http_call *call)
{
    struct api_fixture *fixture = user;
    api_handle(&fixture->app, call);
}

static void probe_call(void *user, struct http_call *call)
{
    struct api_fixture *fixture = user;
    api_handle_probe(&fixture->app, call);
}

static void scheduler_call(void *user, struct http_call *call)
{
    struct api_fixture *fixture = user;
    webhooks_handle(fixture->parts.webhooks, call);
}

static bool takes_body(void *user, const char *method, const char *path)
{
    const struct api_fixture *fixture = user;
    return api_takes_body(method, path) ||
           webhooks_takes_body(fixture->parts.webhooks, method, path);
}

static struct http_server *listen_on(struct api_fixture *fixture, const char *name,
                                     void (*handler)(void *user, struct http_call *call))
{
    const struct http_rules rules = {.name = name,
                                     .listen = "127.0.0.1:0",
                                     .threads = 1,
                                     .strangers = 16,
                                     .strangers_each = 16,
                                     .takes_body = handler != probe_call ? takes_body : NULL,
                                     .body_bytes_max = 1 << 20,
                                     .bodies_bytes_max = 1 << 24,
                                     .first_ms = 5000,
                                     .idle_ms = 5000,
                                     .request_ms = 5000,
                                     .user = fixture,
                                     .handler = handler};
    struct http_server *http = NULL;
    struct err err;

    if (http_start(&rules, &http, &err) < 0)
        (void)fprintf(stderr, "%s: %s\n", name, err.text);
    must(http != NULL);
    return http;
}

static void fill_settings(struct api_fixture *fixture)
{
    char program[] = "milligpud";
    char flag[] = "--namespace=wakes";
    char policy[] = "--policy=binpack";
    char *argv[] = {program, flag, policy, NULL};
    char *envp[] = {NULL};
    enum settings_action action;
    struct err err;

    must(settings_load(3, argv, envp, &fixture->set, &action, &err) == 0);
    fixture->settings = *settings_get(fixture->set);
    fixture->app.set = fixture->set;
}

static void open_ledger(struct api_fixture *fixture)
{
    struct err err;

    (void)snprintf(fixture->folder, sizeof fixture->folder, "/tmp/milligpu-fixture-XXXXXX");
    must(mkdtemp(fixture->folder) != NULL);
    (void)snprintf(fixture->ledger, sizeof fixture->ledger, "%s/ledger.db", fixture->folder);
    const struct store_rules rules = {.path = fixture->ledger};
    must(store_open(&rules, &fixture->app.store, &err) == 0);
    must(store_set_cluster(fixture->app.store, "0b8f", &err) == 0);
    (void)snprintf(fixture->app.instance.cluster, sizeof fixture->app.instance.cluster, "0b8f");
}

static void make_parts(struct api_fixture *fixture)
{
    struct app *app = &fixture->app;
    struct err err;

    struct rulebook *bare = bare_rulebook(fixture->settings.policy);
    struct app_edges edges = {.store = app->store,
                              .rulebook = bare,
                              .fake = app->fake,
                              .watch = &fixture->watch_ops,
                              .calls = &fixture->call_ops,
                              .server = "standalone",
                              .wake_namespace = "wakes",
                              .instance = "fixture"};

    clock_real(&edges.clock);
    app_open(app, &fixture->settings, &edges, &fixture->parts);
    rulebook_unref(bare);
    must(writer_load(fixture->parts.writer, &err) == 0);
}

struct api_fixture *api_fixture_new(void)
{
    struct api_fixture *fixture = xcalloc(1, sizeof *fixture);
    struct app *app = &fixture->app;

    log_set(LOG_ERROR, false);
    arena_init(&fixture->arena);
    fill_settings(fixture);
    open_ledger(fixture);
    app->fake = fake_apiserver_new("fixture");
    fake_apiserver_ops(app->fake, &fixture->watch_ops);
    fake_apiserver_ops(app->fake, &fixture->call_ops);
    make_parts(fixture);
    atomic_store(&app->identified, true);
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
        api_fixture_tell(fixture, "POST", "/api/v1/nodes", nodes[i]);
    api_fixture_run(fixture);
    must(app_ready(app, NULL));
    fixture->admin = listen_on(fixture, "admin", admin_call);
    fixture->probe = listen_on(fixture, "probe", probe_call);
    fixture->scheduler = listen_on(fixture, "webhook", scheduler_call);
    return fixture;
}

static void drop_folder(const struct api_fixture *fixture)
{
    static const char *const endings[] = {"", "-wal", "-shm", ".lock", ".id"};

    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        char file[160];
        (void)snprintf(file, sizeof file, "%s%s", fixture->ledger, endings[i]);
        (void)unlink(file);
    }
    must(rmdir(fixture->folder) == 0); /* nothing else was left behind */
}

void api_fixture_free(struct api_fixture *fixture)
{
    struct app *app = &fixture->app;

    http_stop(fixture->admin);
    http_stop(fixture->probe);
    http_stop(fixture->scheduler);
    app_close(app, &fixture->parts);
    fixture->watch_ops.free(fixture->watch_ops.ctx);
    fixture->call_ops.free(fixture->call_ops.ctx);
    fake_apiserver_free(app->fake);
    store_close(app->store);
    settings_free(fixture->set);
    drop_folder(fixture);
    arena_done(&fixture->arena);
    xfree(fixture);
}

/* --- steps --- */

static int64_t now_of(const struct api_fixture *fixture)
{
    return fixture->app.clock.now_ms(fixture->app.clock.ctx);
}

static void to_informer(void *user, const struct kube_answer *answer)
{
    struct api_fixture *fixture = user;
    informer_answer(fixture->parts.informer, now_of(fixture), answer);
}

static void to_outbox(void *user, const struct kube_answer *answer)
{
    struct api_fixture *fixture = user;
    outbox_answer(fixture->app.outbox, now_of(fixture), answer);
}

static bool is_put_off(const struct api_fixture *fixture)
{
    struct writer_tables tables;

    writer_tables(fixture->parts.writer, &tables);
    return tables.n_put_off > 0;
}

/* Messages that the writer has put off are handled by themselves a moment later. */
void api_fixture_run(struct api_fixture *fixture)
{
    const struct clock_ops *clock = &fixture->app.clock;
    int quiet = 0;

    for (int i = 0; (i < 1000 && quiet < 4) || is_put_off(fixture); i++) {
        (void)informer_step(fixture->parts.informer, now_of(fixture));
        fixture->watch_ops.poll(fixture->watch_ops.ctx, 0, fixture, to_informer);
        const size_t took = writer_step(fixture->parts.writer, 0);
        (void)outbox_step(fixture->app.outbox, now_of(fixture), clock->wall_ms(clock->ctx));
        fixture->call_ops.poll(fixture->call_ops.ctx, 0, fixture, to_outbox);
        quiet = took == 0 ? quiet + 1 : 0;
    }
}

/* --- the cluster --- */

void api_fixture_tell(struct api_fixture *fixture, const char *method, const char *path,
                      const char *body)
{
    struct strbuf out;

    strbuf_init(&out);
    const int status = fake_apiserver_request(fixture->app.fake, method, path, text_of(body), &out);
    if (status >= 300)
        (void)fprintf(stderr, "%s %s: %d %s\n", method, path, status, out.data);
    must(status < 300);
    strbuf_done(&out);
}

static void make_pod(struct api_fixture *fixture, const char *name, const char *resource,
                     const char *amount, const char *node, const char *phase)
{
    char body[1024];

    (void)snprintf(body, sizeof body,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\","
                   "\"namespace\":\"default\"},\"spec\":{%s%s%s\"containers\":[{"
                   "\"name\":\"c\",\"image\":\"none\",\"resources\":{\"limits\":{"
                   "\"%s\":\"%s\"},\"requests\":{\"%s\":\"%s\"}}}]},"
                   "\"status\":{\"phase\":\"%s\"}}",
                   name, node[0] != '\0' ? "\"nodeName\":\"" : "", node,
                   node[0] != '\0' ? "\"," : "", resource, amount, resource, amount, phase);
    api_fixture_tell(fixture, "POST", "/api/v1/namespaces/default/pods", body);
    api_fixture_run(fixture);
}

void api_fixture_pod(struct api_fixture *fixture, const char *name, const char *amount,
                     const char *node)
{
    make_pod(fixture, name, "nvidia.com/vgpu", amount, node, "Pending");
}

void api_fixture_whole_pod(struct api_fixture *fixture, const char *name, const char *gpus,
                           const char *node)
{
    make_pod(fixture, name, "nvidia.com/gpu", gpus, node, "Running");
}

void api_fixture_end(struct api_fixture *fixture, const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s?gracePeriodSeconds=0",
                   name);
    api_fixture_tell(fixture, "DELETE", path, "");
    api_fixture_run(fixture);
}

/* --- HTTP, by hand: tests check the bytes on the wire --- */

static int send_request(const struct http_server *http, const char *method, const char *target,
                        const char *body)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(http_port(http)),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct timeval limit = {.tv_sec = PATIENCE_S};
    struct strbuf text;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0);
    must(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    must(connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    strbuf_init(&text);
    strbuf_printf(&text, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n", method,
                  target);
    if (body != NULL)
        strbuf_printf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                      strlen(body));
    strbuf_printf(&text, "\r\n%s", body != NULL ? body : "");
    must(send(fd, text.data, text.len, MSG_NOSIGNAL) == (ssize_t)text.len);
    strbuf_done(&text);
    return fd;
}

static void header(const struct answer *answer, const char *name, char *out, size_t bytes)
{
    const char *at = strstr(answer->head.data, name);

    must(bytes > 0);
    out[0] = '\0';
    if (at == NULL)
        return;
    at += strlen(name);
    (void)snprintf(out, bytes, "%.*s", (int)strcspn(at, "\r\n"), at);
}

static void split(const struct strbuf *all, struct answer *out)
{
    const char *end = strstr(all->data, "\r\n\r\n");

    must(end != NULL);
    strbuf_init(&out->head);
    strbuf_init(&out->body);
    const struct text head = {all->data, (size_t)(end - all->data)};
    const struct text body = {end + 4, all->len - head.len - 4};
    strbuf_text(&out->head, head);
    strbuf_text(&out->body, body);
    must(sscanf(out->head.data, "HTTP/1.1 %d", &out->status) == 1);
    header(out, "Content-Type: ", out->type, sizeof out->type);
    header(out, "Allow: ", out->allow, sizeof out->allow);
}

static void receive(int fd, struct answer *out)
{
    struct strbuf all;
    char bytes[4096];
    ssize_t got;

    strbuf_init(&all);
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        strbuf_add(&all, bytes, (size_t)got);
    if (got < 0)
        (void)fprintf(stderr, "recv: %m, after %zu bytes: %s\n", all.len, all.data);
    must(got == 0);
    (void)close(fd);
    split(&all, out);
    strbuf_done(&all);
}

void api_fixture_ask(const struct http_server *http, const char *method, const char *target,
                     const char *body, struct answer *out)
{
    receive(send_request(http, method, target, body), out);
}

void answer_done(struct answer *answer)
{
    strbuf_done(&answer->head);
    strbuf_done(&answer->body);
}

/* --- kube-scheduler --- */

void api_fixture_filter(struct api_fixture *fixture, const char *name)
{
    char path[256];
    struct strbuf pod;
    struct strbuf body;
    struct answer answer;

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s", name);
    strbuf_init(&pod);
    strbuf_init(&body);
    must(fake_apiserver_request(fixture->app.fake, "GET", path, (struct text){0}, &pod) == 200);
    strbuf_printf(&body, "{\"Pod\":%s,\"NodeNames\":[\"n1\",\"n2\",\"n3\"]}", pod.data);
    api_fixture_ask(fixture->scheduler, "POST", "/scheduler/filter", body.data, &answer);
    must(answer.status == 200);
    answer_done(&answer);
    strbuf_done(&body);
    strbuf_done(&pod);
}

void api_fixture_bind(struct api_fixture *fixture, const char *name, const char *node)
{
    struct pod_record *record = pod_cache_copy(fixture->app.pod_cache, "default", name);
    char body[512];
    char byte;
    struct answer answer;

    must(record != NULL);
    (void)snprintf(body, sizeof body,
                   "{\"PodName\":\"%s\",\"PodNamespace\":\"default\",\"PodUID\":\"%s\","
                   "\"Node\":\"%s\"}",
                   name, pod_record_uid(record), node);
    pod_record_free(record);
    const int fd = send_request(fixture->scheduler, "POST", "/scheduler/bind", body);
    const int64_t until_ms = now_of(fixture) + PATIENCE_MS;
    while (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 1 && now_of(fixture) < until_ms) {
        api_fixture_run(fixture);
        (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1);
    }
    receive(fd, &answer);
    if (strcmp(answer.body.data, "{\"Error\":\"\"}") != 0)
        (void)fprintf(stderr, "bind %s: %s\n", name, answer.body.data);
    must(answer.status == 200 && strcmp(answer.body.data, "{\"Error\":\"\"}") == 0);
    answer_done(&answer);
    api_fixture_run(fixture);
}

/* --- documents, and cmocka --- */

const struct document *api_fixture_parse(struct api_fixture *fixture, const struct answer *answer)
{
    const struct text bytes = {answer->body.data, answer->body.len};
    struct document *document = NULL;
    struct err err;

    if (document_parse_json(bytes, "answer", &fixture->arena, &document, &err) < 0)
        fail_msg("%s in %s", err.text, answer->body.data);
    return document;
}

const struct document *api_fixture_get(struct api_fixture *fixture, const char *target)
{
    struct answer answer;

    api_fixture_ask(fixture->admin, "GET", target, NULL, &answer);
    if (answer.status != 200)
        fail_msg("GET %s: %d %s", target, answer.status, answer.body.data);
    assert_string_equal(answer.type, "application/json");
    const struct document *document = api_fixture_parse(fixture, &answer);
    answer_done(&answer);
    return document;
}

int64_t number_of(const struct document *object, const char *key)
{
    const struct document *value = document_get(object, key);
    if (value == NULL || value->kind != DOCUMENT_NUMBER)
        fail_msg("no number %s", key);
    return strtoll(value->text.at, NULL, 10);
}

static const struct document *member_at(const struct document *document, const char *path)
{
    while (document != NULL && *path != '\0') {
        char key[64];
        const size_t len = strcspn(path, ".");
        (void)snprintf(key, sizeof key, "%.*s", (int)len, path);
        if (document->kind == DOCUMENT_ARRAY) {
            const struct document *child = document->first;
            for (long at = strtol(key, NULL, 10); at > 0 && child != NULL; at--)
                child = child->next;
            document = child;
        } else {
            document = document_get(document, key);
        }
        path += len + (path[len] == '.');
    }
    return document;
}

void document_shows(const struct document *document, const char *members)
{
    while (*members != '\0') {
        char path[128];
        char wanted[256];
        char shown[256] = "-";
        int used = 0;
        must(sscanf(members, "%127[^=]=%n", path, &used) == 1 && used > 0);
        members += used;
        const char *end = strstr(members, "; ");
        const size_t len = end != NULL ? (size_t)(end - members) : strlen(members);
        (void)snprintf(wanted, sizeof wanted, "%.*s", (int)len, members);
        members += len + (end != NULL ? 2 : 0);
        const struct document *found = member_at(document, path);
        if (found != NULL && found->kind == DOCUMENT_ARRAY)
            (void)snprintf(shown, sizeof shown, "%u", found->count);
        else if (found != NULL && found->kind != DOCUMENT_OBJECT)
            text_clip(found->text, shown, sizeof shown);
        else if (found != NULL)
            (void)snprintf(shown, sizeof shown, "an object");
        if (strcmp(shown, wanted) != 0)
            fail_msg("%s is %s, not %s", path, shown, wanted);
    }
}

const struct document *api_fixture_shows(struct api_fixture *fixture, const char *target,
                                         const char *members)
{
    const struct document *document = api_fixture_get(fixture, target);
    document_shows(document, members);
    return document;
}

int api_fixture_set_up(void **state)
{
    *state = api_fixture_new();
    return 0;
}

int api_fixture_tear_down(void **state)
{
    api_fixture_free(*state);
    return 0;
}
