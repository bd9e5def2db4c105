#include "support_client.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "milligpu/run/clock.h"
#include "milligpu/run/metric.h"

#include "kube/config.h"
#include "support/certificate.h"
#include "support/patience.h"

enum { TURN_MS = 100 };

static const int64_t patience_ns = PATIENCE_S * INT64_C(1000000000);

const char *client_at(const struct client *client, const char *name)
{
    static char path[2][128];
    static unsigned turn;
    char *out = path[turn++ % 2];

    (void)snprintf(out, sizeof path[0], "%s/%s", client->folder, name);
    return out;
}

void client_init(struct client *client)
{
    *client = (struct client){.by_frames = client->by_frames,
                              .path = client->path,
                              .user = client->user,
                              .folder = "/tmp/milligpu-client-XXXXXX"};
    (void)signal(SIGPIPE, SIG_IGN);
    assert_non_null(mkdtemp(client->folder));
    assert_true(certificate_make(client->folder, "ca", NULL));
    assert_true(certificate_make(client->folder, "server", "ca"));
    certificate_tidy(client->folder);
    strbuf_init(&client->text);
}

void client_connect(struct client *client, unsigned port)
{
    struct strbuf text;
    struct err err;

    strbuf_init(&text);
    strbuf_printf(&text,
                  "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
                  "clusters: [{name: x, cluster: {server: \"https://127.0.0.1:%u%s\","
                  " certificate-authority: ca.crt}}]\nusers: [{name: x, user: {%s}}]\n",
                  port, client->path != NULL ? client->path : "",
                  client->user != NULL ? client->user : "token: t");
    if (kube_config_parse((struct text){text.data, text.len}, client_at(client, "config"), NULL,
                          &client->config, &err) < 0)
        fail_msg("%s", err.text);
    strbuf_done(&text);
    assert_int_equal(client->by_frames ? kube_calls_new(client->config, &client->ops, &err)
                                       : kube_curl_new(client->config, &client->ops, &err),
                     0);
}

static void take(void *user, const struct kube_answer *answer)
{
    struct client *client = user;

    client->status = answer->status;
    client->retry_after_s = answer->retry_after_s;
    client->heads += answer->piece == KUBE_HEAD;
    if (answer->piece == KUBE_DATA)
        strbuf_text(&client->text, answer->data);
    client->done += answer->piece == KUBE_DONE;
    client->failed += answer->piece == KUBE_FAILED;
    client->unsent += answer->piece == KUBE_FAILED && answer->unsent;
}

static void client_start(struct client *client, const struct kube_request *request)
{
    struct err err;

    if (client->ops.start(client->ops.ctx, request, &err) != 0)
        fail_msg("%s", err.text);
    client->begun++;
}

void client_ask(struct client *client, uint64_t id, const char *body, int64_t timeout_ms)
{
    client_begin(client, id, body, timeout_ms);
    client_until(client, client->begun);
}

void client_begin(struct client *client, uint64_t id, const char *body, int64_t timeout_ms)
{
    const bool post = body[0] != '\0';
    const struct kube_request request = {.id = id,
                                         .method = post ? "POST" : "GET",
                                         .path = "/version",
                                         .content_type = post ? "application/json" : NULL,
                                         .body = text_of(body),
                                         .timeout_ms = timeout_ms};
    client_start(client, &request);
}

void client_get(struct client *client, uint64_t id, const char *path, int64_t timeout_ms)
{
    const struct kube_request request = {
        .id = id, .method = "GET", .path = path, .timeout_ms = timeout_ms};
    client_start(client, &request);
}

void client_poll(struct client *client, int wait_ms)
{
    client->ops.poll(client->ops.ctx, wait_ms, client, take);
}

void client_until(struct client *client, unsigned ended)
{
    const int64_t until_ns = clock_ns() + patience_ns;

    while (client->done + client->failed < ended && clock_ns() < until_ns)
        client_poll(client, TURN_MS);
    assert_int_equal(client->done + client->failed, ended);
}

void client_close(struct client *client)
{
    client->ops.free(client->ops.ctx);
    kube_config_free(client->config);
    strbuf_done(&client->text);
}

static void sum_up(void *user, const char *labels, int64_t value)
{
    (void)labels;
    *(int64_t *)user += value;
}

int64_t client_sockets(void)
{
    int64_t sum = 0;

    metric_each(M_API_CONNECTIONS, &sum, sum_up);
    return sum;
}

void client_remove(struct client *client)
{
    static const char *const name[] = {"ca.crt", "ca.key", "server.crt", "server.key", NULL};

    for (size_t i = 0; name[i] != NULL; i++)
        (void)unlink(client_at(client, name[i]));
    assert_int_equal(rmdir(client->folder), 0);
}
