/* Reports are signed, their numbers rise, and what is not taken is sent again. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "milligpu/base/alloc.h"
#include "milligpu/http/http.h"
#include "milligpu/wire/json/json.h"

#include "agent/meter/usage_sender.h"
#include "support/patience.h"
#include "support/scoped.h"
#include "support/test.h"
#include "unit/agent/support.h"

enum { SCRIPT_MAX = 8 };

/* milligpud as a listener that answers by a script, the last of it for ever. */
struct site {
    char folder[64];
    struct http_server *http;
    struct signing_key *key;
    struct kube_config *config;
    struct kube_ops ops;
    struct usage_sender *sender;
    int status[SCRIPT_MAX];
    atomic_uint calls; /* that were answered */
    atomic_uint news;  /* that the sender has not asked for yet */
    atomic_uint taken;
    uint64_t number[SCRIPT_MAX];
    bool good[SCRIPT_MAX];
    char type[64];
    struct err err;
};

static void answer(void *user, struct http_call *call)
{
    struct site *site = user;
    const unsigned at = atomic_load(&site->calls);
    struct usage_report report;
    struct arena arena;
    SCOPED_STRBUF(body);

    arena_init(&arena);
    if (at < SCRIPT_MAX && usage_report_decode(http_body(call), &arena, &report, &site->err) == 0) {
        const struct signed_facts facts = {
            .node = report.node, .bytes = http_body(call), .kind = SIGNED_USAGE};
        site->number[at] = report.number;
        site->good[at] = report.n_pods == 1 && report.seconds == 60 &&
                         strcmp(http_path(call), USAGE_PATH) == 0 &&
                         signature_is_good(text_of(signing_key_public(site->key)),
                                           text_of(http_header(call, USAGE_HEADER)), &facts);
    }
    const int status = site->status[at < SCRIPT_MAX ? at : SCRIPT_MAX - 1];
    arena_done(&arena);
    atomic_fetch_add(&site->calls, 1);
    http_answer(call, status, status == 204 ? NULL : "text/plain", &body);
}

static bool takes_body(void *user, const char *method, const char *path)
{
    (void)user;
    return strcmp(method, "POST") == 0 && path[0] == '/';
}

static bool fill(void *user, struct usage_report *out, struct arena *arena)
{
    (void)user;
    out->seconds = 60;
    out->n_pods = 1;
    out->pod = arena_alloc(arena, sizeof *out->pod);
    out->pod->uid = TEXT("u1");
    return true;
}

static bool urgent(void *user)
{
    struct site *site = user;
    return atomic_exchange(&site->news, 0) > 0;
}

static void taken(void *user)
{
    struct site *site = user;
    (void)atomic_fetch_add(&site->taken, 1);
}

static int set_up(void **state)
{
    struct site *site = xcalloc(1, sizeof *site);
    char file[96];
    char url[64];

    folder_make(site->folder, sizeof site->folder);
    (void)snprintf(file, sizeof file, "%s/report.key", site->folder);
    assert_int_equal(signing_key_open(file, &site->key, &site->err), 0);
    const struct http_rules rules = {.name = "report",
                                     .listen = "127.0.0.1:0",
                                     .threads = 1,
                                     .connections = 16,
                                     .strangers = 16,
                                     .strangers_each = 16,
                                     .has_request_proof = true,
                                     .takes_body = takes_body,
                                     .body_bytes_max = USAGE_BODY_BYTES_MAX,
                                     .bodies_bytes_max = 2 * USAGE_BODY_BYTES_MAX,
                                     .first_ms = 5000,
                                     .idle_ms = 5000,
                                     .request_ms = 5000,
                                     .user = site,
                                     .handler = answer};
    assert_int_equal(http_start(&rules, &site->http, &site->err), 0);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/", (unsigned)http_port(site->http));
    assert_int_equal(kube_config_plain(url, "", &site->config, &site->err), 0);
    assert_int_equal(kube_curl_new(site->config, &site->ops, &site->err), 0);
    *state = site;
    return 0;
}

static int tear_down(void **state)
{
    struct site *site = *state;

    usage_sender_stop(site->sender);
    site->ops.free(site->ops.ctx);
    kube_config_free(site->config);
    http_stop(site->http);
    signing_key_free(site->key);
    folder_remove(site->folder);
    xfree(site);
    return 0;
}

#define SITE_TEST(name) TEST_WITH(name, struct site *site, set_up, tear_down)

/* The first two answers have these statuses, the others 204. */
static void start(struct site *site, int64_t every_ms, int first, int second)
{
    const struct usage_sender_rules rules = {.node = "n1",
                                             .key = site->key,
                                             .ops = &site->ops,
                                             .every_ms = every_ms,
                                             .user = site,
                                             .fill = fill,
                                             .urgent = urgent,
                                             .taken = taken};
    for (size_t i = 0; i < SCRIPT_MAX; i++)
        site->status[i] = i == 0 ? first : i == 1 ? second : 204;
    assert_int_equal(usage_sender_start(&rules, &site->sender, &site->err), 0);
}

static void await(struct site *site, unsigned calls)
{
    int64_t until_ms = 0;

    while (atomic_load(&site->calls) < calls && patience_left(&until_ms))
        continue;
    assert_true(atomic_load(&site->calls) >= calls);
}

SITE_TEST(usage_sender__numbers_reports_in_order)
{
    start(site, 50, 204, 204);
    await(site, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(site->good[i]);
    assert_true(site->number[1] == site->number[0] + 1 && site->number[2] == site->number[1] + 1);
    assert_true(site->number[0] > UINT64_C(1700000000000)); /* the wall clock's */
}

SITE_TEST(usage_sender__sends_news_at_once)
{
    atomic_store(&site->news, 1);
    start(site, INT64_C(86400000), 204, 204);
    await(site, 1);
    atomic_store(&site->news, 1);
    await(site, 2);
    assert_true(site->good[1]);
}

SITE_TEST(usage_sender__repeats_a_report_that_was_not_taken)
{
    start(site, 50, 503, 409);
    await(site, 4);
    assert_int_equal(site->number[1], site->number[0] + 1);
    assert_int_equal(site->number[2],
                     site->number[1] + 1 + 86400000); /* above the number that was taken */
    assert_int_equal(site->number[3], site->number[2] + 1);
    const unsigned took = atomic_load(&site->taken); /* before it counts the calls */
    assert_in_range(took, 1, atomic_load(&site->calls) - 2);
    assert_true(site->good[2]);
}

TEST(usage_sender__checks_its_address)
{
    static const char *const bad[] = {"", "milligpu:8914", "ftp://x", "https://a b", "http://x?y"};
    struct kube_config *config = NULL;
    struct err err;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(kube_config_plain(bad[i], "", &config, &err), -ERR_INVALID);
    assert_non_null(strstr(err.text, "write https://NAME:PORT"));
}
