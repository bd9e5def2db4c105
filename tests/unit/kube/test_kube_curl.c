#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "kube/config.h"
#include "support/fake_api.h"
#include "support/patience.h"
#include "support/scoped.h"
#include "support/test.h"

/* A fake API server, served over loopback, and a client of it. */
struct fixture {
    struct fake_apiserver *fake;
    struct fake_api *api;
    struct kube_config *config;
    struct kube_ops ops;
    struct strbuf text;
    struct strbuf pieces; /* a letter for each: H D E(nd) F */
    int status;
    int64_t retry_after_s;
    bool unsent;
    struct err err;
    unsigned ended;
    uint64_t cancel_id; /* cancelled at its first data */
    char folder[64];
};

static int64_t clock_now_ms(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void connect_to(struct fixture *fixture, const char *url, const char *user)
{
    struct strbuf text;

    strbuf_init(&text);
    strbuf_printf(
        &text,
        "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
        "clusters: [{name: x, cluster: {server: \"%s\"}}]\nusers: [{name: x, user: {%s}}]\n",
        url, user);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/config", fixture->folder);
    const int rc = kube_config_parse((struct text){text.data, text.len}, path, NULL,
                                     &fixture->config, &fixture->err);
    if (rc < 0)
        fail_msg("%s\n%s", fixture->err.text, text.data);
    strbuf_done(&text);
    assert_int_equal(kube_curl_new(fixture->config, &fixture->ops, &fixture->err), 0);
}

static void disconnect(struct fixture *fixture)
{
    fixture->ops.free(fixture->ops.ctx);
    kube_config_free(fixture->config);
}

static int set_up(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(fixture->folder, sizeof fixture->folder, "/tmp/milligpu-curl-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    strbuf_init(&fixture->text);
    strbuf_init(&fixture->pieces);
    fixture->fake = fake_apiserver_new("fake");
    fixture->api = fake_api_new(fixture->fake, NULL);
    connect_to(fixture, fake_api_url(fixture->api), "token: t1");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char path[128];

    disconnect(fixture);
    fake_api_free(fixture->api);
    fake_apiserver_free(fixture->fake);
    strbuf_done(&fixture->text);
    strbuf_done(&fixture->pieces);
    (void)snprintf(path, sizeof path, "%s/token", fixture->folder);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/ca", fixture->folder);
    (void)unlink(path);
    assert_int_equal(rmdir(fixture->folder), 0);
    xfree(fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up, tear_down)

static void take(void *user, const struct kube_answer *answer)
{
    struct fixture *fixture = user;

    strbuf_char(&fixture->pieces, "HDEF"[answer->piece]);
    fixture->status = answer->status;
    fixture->retry_after_s = answer->retry_after_s;
    if (answer->piece == KUBE_DATA)
        strbuf_text(&fixture->text, answer->data);
    if (answer->piece == KUBE_DATA && fixture->cancel_id == answer->id)
        fixture->ops.cancel(fixture->ops.ctx, answer->id);
    if (answer->piece == KUBE_FAILED) {
        fixture->unsent = answer->unsent;
        fixture->err = *answer->err;
    }
    fixture->ended += answer->piece == KUBE_DONE || answer->piece == KUBE_FAILED;
}

static void begin(struct fixture *fixture, const struct kube_request *request)
{
    if (fixture->ops.start(fixture->ops.ctx, request, &fixture->err) != 0)
        fail_msg("%s", fixture->err.text);
}

static void poll_until(struct fixture *fixture, unsigned ended)
{
    const int64_t until_ms = clock_now_ms() + PATIENCE_MS;
    while (fixture->ended < ended && clock_now_ms() < until_ms)
        fixture->ops.poll(fixture->ops.ctx, 100, fixture, take);
    assert_int_equal(fixture->ended, ended);
}

static void forget(struct fixture *fixture)
{
    strbuf_reset(&fixture->text);
    strbuf_reset(&fixture->pieces);
    fixture->ended = 0;
    fixture->status = 0;
    fixture->unsent = false;
}

/* Returns the status. */
static int ask(struct fixture *fixture, const char *method, const char *path, const char *body)
{
    const struct kube_request request = {.id = 1,
                                         .method = method,
                                         .path = path,
                                         .content_type =
                                             body[0] != '\0' ? "application/json" : NULL,
                                         .body = text_of(body),
                                         .timeout_ms = PATIENCE_MS};
    forget(fixture);
    begin(fixture, &request);
    poll_until(fixture, 1);
    return fixture->status;
}

static int get_version(struct fixture *fixture)
{
    return ask(fixture, "GET", "/version", "");
}

static void begin_get(struct fixture *fixture, uint64_t id, const char *path, int64_t timeout_ms)
{
    const struct kube_request request = {
        .id = id, .method = "GET", .path = path, .timeout_ms = timeout_ms};
    begin(fixture, &request);
}

static const char a_pod[] =
    "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"containers\":[{\"name\":\"c\"}]}}";

#define PODS       "/api/v1/namespaces/default/pods"
#define FAULT(...) fake_api_fault(fixture->api, &(struct fault){__VA_ARGS__})

/* ---- plain requests ---- */

FIXTURE_TEST(requests__are_answered_on_one_connection)
{
    assert_string_equal(fixture->ops.name(fixture->ops.ctx), fake_api_url(fixture->api));
    assert_int_equal(ask(fixture, "POST", PODS, a_pod), 201);
    assert_non_null(strstr(fixture->text.data, "\"uid\""));
    assert_int_equal(ask(fixture, "PATCH", PODS "/a", "{\"metadata\":{\"labels\":{\"l\":\"v\"}}}"),
                     200);
    assert_int_equal(
        ask(fixture, "GET", "/api/v1/pods?limit=500&fieldSelector=status.phase%21%3DFailed", ""),
        200);
    assert_non_null(strstr(fixture->text.data, "\"l\":\"v\""));
    assert_int_equal(ask(fixture, "DELETE", PODS "/a", ""), 200);
    assert_int_equal(ask(fixture, "GET", PODS "/a", ""), 404);
    assert_int_equal(fixture->pieces.data[0], 'H');
    assert_int_equal(fixture->pieces.data[fixture->pieces.len - 1], 'E');
    assert_int_equal(fake_api_connections(fixture->api), 1);
    assert_int_equal(fake_api_seen(fixture->api, "Authorization: Bearer t1"), 5);
}

FIXTURE_TEST(requests__take_json_unless_they_say_otherwise)
{
    struct kube_request request = {
        .id = 1, .method = "GET", .path = "/version", .header = "X: y", .timeout_ms = PATIENCE_MS};

    for (int i = 0; i < 3; i++) { /* the second handle is the first one's, used again */
        forget(fixture);
        request.takes_protobuf = i == 1;
        begin(fixture, &request);
        poll_until(fixture, 1);
        assert_int_equal(fixture->status, 200);
    }
    assert_int_equal(fake_api_seen(fixture->api, "Accept: application/json"), 2);
    assert_int_equal(fake_api_seen(fixture->api, "Accept: application/vnd.kubernetes.protobuf, "
                                                 "application/json"),
                     1);
}

FIXTURE_TEST(fetch__returns_one_answer)
{
    const struct kube_request request = {
        .id = 9, .method = "GET", .path = "/version", .body = TEXT(""), .timeout_ms = 5000};

    assert_int_equal(kube_fetch(&fixture->ops, &request, &fixture->text, &fixture->err), 200);
    assert_non_null(strstr(fixture->text.data, "gitVersion"));
    FAULT(.match = "GET /version", .kind = FAULT_REFUSE, .times = 9);
    assert_true(kube_fetch(&fixture->ops, &request, &fixture->text, &fixture->err) < 0);
}

FIXTURE_TEST(requests__run_at_once)
{
    forget(fixture);
    for (uint64_t id = 1; id <= 20; id++)
        begin_get(fixture, id, "/version", 10000);
    poll_until(fixture, 20);
    assert_true(fake_api_connections(fixture->api) > 1);
}

FIXTURE_TEST(watch__delivers_events_as_they_happen)
{
    struct strbuf out;

    begin_get(fixture, 1, "/api/v1/pods?watch=1&resourceVersion=1", 0);
    const int64_t until_ms = clock_now_ms() + PATIENCE_MS;
    while (fixture->status == 0 && clock_now_ms() < until_ms)
        fixture->ops.poll(fixture->ops.ctx, 100, fixture, take);
    assert_int_equal(fixture->status, 200);
    assert_string_equal(fixture->pieces.data, "H");
    strbuf_init(&out);
    assert_int_equal(fake_apiserver_request(fixture->fake, "POST", PODS, text_of(a_pod), &out),
                     201);
    strbuf_done(&out);
    while (strchr(fixture->text.data, '\n') == NULL && clock_now_ms() < until_ms)
        fixture->ops.poll(fixture->ops.ctx, 100, fixture, take);
    assert_non_null(strstr(fixture->text.data, "{\"type\":\"ADDED\""));
    /* Other requests do not wait for it. */
    begin_get(fixture, 2, "/version", 10000);
    poll_until(fixture, 1);
}

FIXTURE_TEST(cancel__within_an_answer_is_its_end)
{
    FAULT(.match = "/version", .kind = FAULT_DRIP, .times = 1, .number = 5);
    fixture->cancel_id = 1;
    begin_get(fixture, 1, "/version", 10000);
    const int64_t until_ms = clock_now_ms() + PATIENCE_MS;
    while (fixture->text.len == 0 && clock_now_ms() < until_ms)
        fixture->ops.poll(fixture->ops.ctx, 100, fixture, take);
    for (int i = 0; i < 5; i++)
        fixture->ops.poll(fixture->ops.ctx, 20, fixture, take);
    assert_string_equal(fixture->pieces.data, "HD");
    /* The id is free again. */
    fixture->cancel_id = 0;
    assert_int_equal(get_version(fixture), 200);
    fixture->ops.cancel(fixture->ops.ctx, 1);
    fixture->ops.cancel(fixture->ops.ctx, 77);
}

FIXTURE_TEST(wake__ends_a_poll)
{
    const int64_t begin_ms = clock_now_ms();

    fixture->ops.wake(fixture->ops.ctx);
    fixture->ops.poll(fixture->ops.ctx, PATIENCE_MS, fixture, take);
    assert_true(clock_now_ms() - begin_ms < PATIENCE_MS / 2);
}

FIXTURE_TEST(wake__ends_one_poll_however_often_it_is_called)
{
    for (int i = 0; i < 3; i++)
        fixture->ops.wake(fixture->ops.ctx);
    fixture->ops.poll(fixture->ops.ctx, PATIENCE_MS, fixture, take);
    const int64_t begin_ms = clock_now_ms();
    fixture->ops.poll(fixture->ops.ctx, 50, fixture, take);
    assert_true(clock_now_ms() - begin_ms >= 49); /* the clock counts whole ms */
}

static void pause_ms(int64_t ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&pause, NULL);
}

static void *wake_when_it_sleeps(void *arg)
{
    const struct fixture *fixture = arg;

    pause_ms(20);
    fixture->ops.wake(fixture->ops.ctx);
    return NULL;
}

FIXTURE_TEST(wake__ends_the_sleep_of_another_thread)
{
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        const int64_t begin_ms = clock_now_ms();

        assert_int_equal(pthread_create(&thread, NULL, wake_when_it_sleeps, fixture), 0);
        fixture->ops.poll(fixture->ops.ctx, PATIENCE_MS, fixture, take);
        assert_true(clock_now_ms() - begin_ms < PATIENCE_MS / 2);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

FIXTURE_TEST(answers_and_deadlines__come_while_every_poll_is_woken)
{
    const int64_t until_ms = clock_now_ms() + PATIENCE_MS;

    FAULT(.match = "/version", .kind = FAULT_SILENT, .times = 1);
    begin_get(fixture, 1, "/version", 300);
    while (fixture->ended < 1 && clock_now_ms() < until_ms) {
        fixture->ops.wake(fixture->ops.ctx);
        fixture->ops.poll(fixture->ops.ctx, PATIENCE_MS, fixture, take);
    }
    assert_string_equal(fixture->pieces.data, "F");
    begin_get(fixture, 2, "/version", PATIENCE_MS);
    while (fixture->ended < 2 && clock_now_ms() < until_ms) {
        fixture->ops.wake(fixture->ops.ctx);
        fixture->ops.poll(fixture->ops.ctx, PATIENCE_MS, fixture, take);
    }
    assert_int_equal(fixture->status, 200);
}

static unsigned pieces_of(const struct fixture *fixture, char kind)
{
    unsigned count = 0;
    for (size_t i = 0; i < fixture->pieces.len; i++)
        count += fixture->pieces.data[i] == kind;
    return count;
}

/* Polls until there are so many pieces of a kind, and then until nothing comes. */
static void poll_for(struct fixture *fixture, char kind, unsigned least)
{
    const int64_t until_ms = clock_now_ms() + PATIENCE_MS;

    while (pieces_of(fixture, kind) < least && clock_now_ms() < until_ms)
        fixture->ops.poll(fixture->ops.ctx, 10, fixture, take);
    for (int i = 0; i < 3; i++)
        fixture->ops.poll(fixture->ops.ctx, 10, fixture, take);
    assert_true(pieces_of(fixture, kind) >= least);
}

/* Begins watches with these ids. */
static void begin_watches(struct fixture *fixture, uint64_t first, uint64_t last)
{
    for (uint64_t id = first; id <= last; id++)
        begin_get(fixture, id, "/api/v1/pods?watch=1&resourceVersion=1", 0);
    poll_for(fixture, 'H', (unsigned)(last - first + 1));
}

/* Bytes of a watch show that the server is there, so that a deadline cuts no connection. */
static void shows_life(struct fixture *fixture)
{
    const unsigned events = pieces_of(fixture, 'D');
    SCOPED_STRBUF(out);

    pause_ms(2);
    assert_int_equal(fake_apiserver_request(fixture->fake, "POST", PODS, text_of(a_pod), &out),
                     201);
    poll_for(fixture, 'D', events + 1);
}

/* A thread that was busy until after a deadline is woken, and the server has sent nothing. */
static void wake_after(struct fixture *fixture, int64_t ms)
{
    const unsigned ended = fixture->ended;

    pause_ms(ms);
    fixture->ops.wake(fixture->ops.ctx);
    fixture->ops.poll(fixture->ops.ctx, PATIENCE_MS, fixture, take);
    if (fixture->ended == ended) /* the wake-up came first */
        poll_until(fixture, ended + 1);
}

FIXTURE_TEST(answer__after_a_deadline_that_a_wake_up_saw_is_nobodys)
{
    FAULT(.match = "/version", .kind = FAULT_SLOW, .times = 1, .number = 400);
    begin_get(fixture, 1, "/version", 200);
    begin_watches(fixture, 2, 2);
    shows_life(fixture);
    wake_after(fixture, 250);
    pause_ms(300);
    for (int i = 0; i < 5; i++)
        fixture->ops.poll(fixture->ops.ctx, 10, fixture, take);
    assert_int_equal(fixture->ended, 1);
    begin_get(fixture, 1, "/version", PATIENCE_MS);
    poll_until(fixture, 2);
}

/* Tries whether a call that fails unsent arrives. False: it was sent in time. */
static bool fails_unsent(struct fixture *fixture)
{
    static const char other[] = "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"containers\":"
                                "[{\"name\":\"c\"}]}}";
    const struct kube_request post = {.id = 100,
                                      .method = "POST",
                                      .path = PODS,
                                      .content_type = "application/json",
                                      .body = text_of(other),
                                      .timeout_ms = 200};

    forget(fixture);
    begin_watches(fixture, 1, 15);
    FAULT(.match = "/version", .kind = FAULT_SLOW, .times = 1, .number = 1000);
    begin_get(fixture, 16, "/version", PATIENCE_MS);
    begin(fixture, &post); /* waits for the connection of another call */
    shows_life(fixture);
    wake_after(fixture, 250);
    const bool unsent = fixture->unsent;
    pause_ms(800); /* the next poll finds a connection that has become free */
    poll_until(fixture, 2);
    for (int i = 0; i < 5; i++)
        fixture->ops.poll(fixture->ops.ctx, 20, fixture, take);
    for (uint64_t id = 1; id <= 15; id++)
        fixture->ops.cancel(fixture->ops.ctx, id);
    fixture->ops.poll(fixture->ops.ctx, 0, fixture, take);
    return unsent;
}

FIXTURE_TEST(unsent_call__is_never_sent_after_its_deadline)
{
    bool unsent = false;

    for (int i = 0; i < 5 && !unsent; i++) {
        (void)ask(fixture, "DELETE", PODS "/a", "");
        (void)ask(fixture, "DELETE", PODS "/b", "");
        unsent = fails_unsent(fixture);
    }
    assert_true(unsent);
    assert_int_equal(ask(fixture, "GET", PODS "/b", ""), 404);
}

FIXTURE_TEST(start__refuses_a_path_with_a_blank)
{
    const struct kube_request request = {.id = 1, .method = "GET", .path = "/a b"};

    assert_true(fixture->ops.start(fixture->ops.ctx, &request, &fixture->err) < 0);
    assert_int_equal(fixture->err.code, ERR_INVALID);
}

/* ---- failures ---- */

FIXTURE_TEST(slow_answer__is_whole)
{
    FAULT(.match = "/version", .kind = FAULT_DRIP, .times = 1, .number = 2);
    assert_int_equal(get_version(fixture), 200);
    assert_int_equal(fixture->text.data[fixture->text.len - 1], '}');
    assert_true(fixture->pieces.len > 10);
}

FIXTURE_TEST(slow_answer__does_not_outlive_the_timeout)
{
    FAULT(.match = "/version", .kind = FAULT_DRIP, .times = 1, .number = 100);
    begin(fixture,
          &(struct kube_request){
              .id = 1, .method = "GET", .path = "/version", .timeout_ms = 400, .silence_ms = 5000});
    poll_until(fixture, 1);
    assert_int_equal(fixture->err.code, ERR_TIMEOUT);
    assert_false(fixture->unsent);
}

FIXTURE_TEST(cut_body__is_a_failure)
{
    FAULT(.match = "/version", .kind = FAULT_TRUNCATE, .times = 1, .number = 10);
    (void)get_version(fixture);
    assert_int_equal(fixture->pieces.data[fixture->pieces.len - 1], 'F');
    assert_int_equal(fixture->err.code, ERR_IO);
    assert_false(fixture->unsent);
}

FIXTURE_TEST(cut_chunk__is_a_failure)
{
    FAULT(.match = "?watch", .kind = FAULT_TRUNCATE, .times = 1, .number = 0);
    (void)ask(fixture, "GET", "/api/v1/pods?watch=1&resourceVersion=1", "");
    assert_int_equal(fixture->pieces.data[fixture->pieces.len - 1], 'F');
    assert_false(fixture->unsent);
}

FIXTURE_TEST(half_open__is_noticed_by_its_silence)
{
    FAULT(.match = "/version", .kind = FAULT_HALF_OPEN, .times = 1, .number = 5);
    const int64_t begin_ms = clock_now_ms();
    begin(fixture,
          &(struct kube_request){.id = 1, .method = "GET", .path = "/version", .silence_ms = 300});
    poll_until(fixture, 1);
    assert_true(clock_now_ms() - begin_ms >= 300);
    assert_string_equal(fixture->pieces.data, "HDF");
    assert_int_equal(fixture->err.code, ERR_TIMEOUT);
    assert_non_null(strstr(fixture->err.text, "not a byte for"));
    assert_false(fixture->unsent);
}

FIXTURE_TEST(lost_answer__is_not_reported_unsent)
{
    (void)ask(fixture, "POST", PODS, a_pod);
    /* curl retries by itself on a kept connection: each of its attempts must fail. */
    FAULT(.match = "/binding", .kind = FAULT_LOSE, .times = 5);
    (void)ask(fixture, "POST", PODS "/a/binding",
              "{\"metadata\":{\"name\":\"a\"},\"target\":{\"name\":\"n\"}}");
    assert_int_equal(fixture->pieces.data[0], 'F');
    assert_false(fixture->unsent);
    (void)ask(fixture, "GET", PODS "/a", "");
    assert_non_null(strstr(fixture->text.data, "\"nodeName\":\"n\""));
}

FIXTURE_TEST(silent_server__is_not_reported_unsent)
{
    (void)ask(fixture, "POST", PODS, a_pod);
    FAULT(.match = "/binding", .kind = FAULT_SILENT, .times = 1);
    forget(fixture);
    begin(fixture, &(struct kube_request){
                       .id = 1,
                       .method = "POST",
                       .path = PODS "/a/binding",
                       .content_type = "application/json",
                       .body = TEXT("{\"metadata\":{\"name\":\"a\"},\"target\":{\"name\":\"n\"}}"),
                       .timeout_ms = 300});
    poll_until(fixture, 1);
    assert_int_equal(fixture->err.code, ERR_TIMEOUT);
    assert_false(fixture->unsent);
    fake_api_release(fixture->api);
}

FIXTURE_TEST(refused_connection__is_reported_unsent)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;
    char url[64];

    /* Bound but not listening: no other program can take that port meanwhile. */
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &len), 0);
    disconnect(fixture);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u", ntohs(here.sin_port));
    connect_to(fixture, url, "token: t1");
    (void)ask(fixture, "POST", PODS, a_pod);
    assert_string_equal(fixture->pieces.data, "F");
    assert_int_equal(fixture->err.code, ERR_UNAVAILABLE);
    assert_true(fixture->unsent);
    (void)close(fd);
}

FIXTURE_TEST(unknown_host__is_reported_unsent)
{
    disconnect(fixture);
    connect_to(fixture, "http://no-such-host.invalid", "token: t1");
    (void)ask(fixture, "POST", PODS, a_pod);
    assert_true(fixture->unsent);
}

FIXTURE_TEST(dead_connection__is_replaced)
{
    (void)get_version(fixture);
    FAULT(.match = "/version", .kind = FAULT_REFUSE, .times = 1);
    assert_int_equal(get_version(fixture), 200);
    assert_int_equal(fake_api_connections(fixture->api), 2);
}

FIXTURE_TEST(status__and_retry_after_come_through)
{
    FAULT(.match = "/version", .kind = FAULT_STATUS, .times = 1, .number = 429, .text = "slow down",
          .retry_after_s = 7);
    assert_int_equal(get_version(fixture), 429);
    assert_int_equal(fixture->retry_after_s, 7);
    assert_string_equal(fixture->text.data, "slow down");
    FAULT(.match = "/version", .kind = FAULT_STATUS, .times = 1, .number = 503, .text = "");
    assert_int_equal(get_version(fixture), 503);
    assert_int_equal(fixture->retry_after_s, 0);
    assert_string_equal(fixture->pieces.data, "HE");
    FAULT(.match = "/version", .kind = FAULT_STATUS, .times = 1, .number = 307, .text = "");
    assert_int_equal(get_version(fixture), 307);
}

/* ---- credentials ---- */

static void put(struct fixture *fixture, const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", fixture->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void use_token_file(struct fixture *fixture)
{
    disconnect(fixture);
    put(fixture, "token", "first");
    connect_to(fixture, fake_api_url(fixture->api), "tokenFile: token");
}

FIXTURE_TEST(rotated_token__is_read_after_a_401_without_the_caller)
{
    use_token_file(fixture);
    fake_api_token(fixture->api, "first");
    assert_int_equal(get_version(fixture), 200);
    fake_api_token(fixture->api, "second");
    put(fixture, "token", "second\n");
    assert_int_equal(get_version(fixture), 200);
    assert_non_null(strstr(fixture->text.data, "gitVersion"));
    assert_null(strstr(fixture->text.data, "Unauthorized"));
    assert_int_equal(fake_api_seen(fixture->api, "GET /version"), 3);
}

FIXTURE_TEST(second_401__is_the_answer)
{
    use_token_file(fixture);
    fake_api_token(fixture->api, "other");
    assert_int_equal(get_version(fixture), 401);
    assert_non_null(strstr(fixture->text.data, "Unauthorized"));
    assert_int_equal(fake_api_seen(fixture->api, "GET /version"), 2);
}

FIXTURE_TEST(fixed_token__gets_its_401_at_once)
{
    fake_api_token(fixture->api, "other");
    assert_int_equal(get_version(fixture), 401);
    assert_int_equal(fake_api_seen(fixture->api, "GET /version"), 1);
}

FIXTURE_TEST(missing_credentials__are_an_unsent_failure)
{
    disconnect(fixture);
    connect_to(fixture, fake_api_url(fixture->api), "tokenFile: token");
    (void)get_version(fixture);
    assert_string_equal(fixture->pieces.data, "F");
    assert_true(fixture->unsent);
    assert_non_null(strstr(fixture->err.text, "/token: No such file"));
    put(fixture, "token", "t");
    assert_int_equal(get_version(fixture), 200);
}
