/* reporter - the annotations of the agent's Node: written once, and again when they vanish. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"

#include "agent/reporter.h"
#include "support/logged.h"
#include "support/patience.h"
#include "support/scoped.h"
#include "support/test.h"
#include "unit/agent/support.h"

#define NODE "/api/v1/nodes/n1"
#define HAS  "\"milligpu.io/agent\":\"{\\\"v\\\":1,"

static const char INVENTORY[] = "[{\"uuid\":\"GPU-a\"}]";

struct site {
    struct fake_apiserver *fake;
    struct kube_ops ops; /* the reporter's */
    struct reporter *reporter;
    pthread_mutex_t lock; /* guards the following */
    bool knows;           /* the driver reports GPUs */
    bool deaf;            /* the answers never show a written annotation, whatever the server has */
    uint32_t looks;
    uint32_t writes;
    uint64_t id;          /* of a request that is answered with less than the server has */
    const char *pod;      /* the agent's; NULL: it has none */
    const char *boot;     /* of its machine */
    char bodies[8][4096]; /* the first writes, in their order */
    uint32_t seen;        /* calls of see() */
    char node_boot[64];   /* of the last one */
    char upgrade[64];
    const char *leaving;
    bool reported;
    uint32_t reported_at; /* the number of writes by then */
};

static void locked(struct site *site)
{
    assert_int_equal(pthread_mutex_lock(&site->lock), 0);
}

static void unlocked(struct site *site)
{
    assert_int_equal(pthread_mutex_unlock(&site->lock), 0);
}

static bool write_inventory(void *user, struct strbuf *out)
{
    struct site *site = user;
    locked(site);
    const bool knows = site->knows;
    unlocked(site);
    if (knows)
        strbuf_str(out, INVENTORY);
    return knows;
}

/* --- between the reporter and the API server: counts, and may answer for it --- */

static int start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct site *site = ctx;
    assert_string_equal(request->method, "PATCH");
    assert_string_equal(request->path, NODE);
    assert_string_equal(request->content_type, "application/merge-patch+json");
    locked(site);
    const bool is_look = text_is(request->body, "{}");
    site->looks += is_look;
    if (!is_look && site->writes < ARRAY_LEN(site->bodies))
        text_clip(request->body, site->bodies[site->writes], sizeof site->bodies[0]);
    site->writes += !is_look;
    site->id = site->deaf ? request->id : 0;
    unlocked(site);
    return site->id != 0 ? 0 : site->ops.start(site->ops.ctx, request, err);
}

static void poll_it(void *ctx, int64_t wait_ms, void *user,
                    void (*deliver)(void *user, const struct kube_answer *answer))
{
    struct site *site = ctx;
    if (site->id == 0) {
        site->ops.poll(site->ops.ctx, wait_ms, user, deliver);
        return;
    }
    struct kube_answer answer = {.id = site->id, .piece = KUBE_HEAD, .status = 200};
    deliver(user, &answer);
    answer.piece = KUBE_DATA;
    answer.data = TEXT("{\"kind\":\"Node\",\"metadata\":{\"annotations\":null}}");
    deliver(user, &answer);
    answer.piece = KUBE_DONE;
    deliver(user, &answer);
}

static void cancel(void *ctx, uint64_t id)
{
    struct site *site = ctx;
    if (site->id == 0)
        site->ops.cancel(site->ops.ctx, id);
}

static int set_up(void **state)
{
    static const char nodes[] =
        "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\","
        "\"annotations\":{\"other\":\"1\"}}}";
    struct site *site = test_calloc(1, sizeof *site);
    struct err err;
    log_set(LOG_ERROR, false);
    assert_int_equal(pthread_mutex_init(&site->lock, NULL), 0);
    site->knows = true;
    site->fake = fake_apiserver_new("test");
    assert_int_equal(fake_apiserver_load_text(site->fake, "nodes", TEXT(nodes), &err), 0);
    fake_apiserver_ops(site->fake, &site->ops);
    *state = site;
    return 0;
}

static int tear_down(void **state)
{
    struct site *site = *state;
    reporter_stop(site->reporter);
    site->ops.free(site->ops.ctx);
    fake_apiserver_free(site->fake);
    assert_int_equal(pthread_mutex_destroy(&site->lock), 0);
    test_free(site);
    return 0;
}

#define SITE_TEST(name) TEST_WITH(name, struct site *site, set_up, tear_down)

static void see(void *user, const struct reporter_node *node)
{
    struct site *site = user;
    locked(site);
    site->seen++;
    (void)snprintf(site->node_boot, sizeof site->node_boot, "%s", node->boot);
    (void)snprintf(site->upgrade, sizeof site->upgrade, "%s", node->upgrade);
    assert_true(node->is_reported || !site->reported); /* it stays */
    if (node->is_reported && !site->reported)
        site->reported_at = site->writes;
    site->reported = node->is_reported;
    unlocked(site);
}

static const char *explain_leaving(void *user)
{
    struct site *site = user;
    locked(site);
    const char *word = site->leaving;
    unlocked(site);
    return word;
}

static void begins(struct site *site, int64_t look_every_ms)
{
    static struct kube_ops between;
    struct err err;
    between = (struct kube_ops){.ctx = site, .start = start, .cancel = cancel, .poll = poll_it};
    const struct reporter_rules rules = {.node = "n1",
                                         .pod = site->pod != NULL ? site->pod : "",
                                         .boot = site->boot != NULL ? site->boot : "",
                                         .ops = &between,
                                         .user = site,
                                         .seen = see,
                                         .leaving = explain_leaving,
                                         .gpus = write_inventory,
                                         .look_every_ms = look_every_ms};
    assert_int_equal(reporter_start(&rules, &site->reporter, &err), 0);
    reporter_agent(site->reporter, "containerd v2.3.7", true, NRI_VALIDATOR_ON);
}

static void set_flag(struct site *site, bool *flag, bool value)
{
    locked(site);
    *flag = value;
    unlocked(site);
}

static void set_leaving(struct site *site, const char *word)
{
    locked(site);
    site->leaving = word;
    unlocked(site);
}

static uint32_t count(struct site *site, const uint32_t *what)
{
    locked(site);
    const uint32_t is = *what;
    unlocked(site);
    return is;
}

static bool node_shows(struct site *site, const char *words)
{
    SCOPED_STRBUF(node);
    assert_int_equal(fake_apiserver_request(site->fake, "GET", NODE, TEXT(""), &node), 200);
    const bool shows = strstr(node.data, words) != NULL;
    return shows;
}

static void await_node(struct site *site, const char *words)
{
    bool shows = false;
    for (int64_t until_ms = 0; !shows && patience_left(&until_ms);)
        shows = node_shows(site, words);
    if (!shows)
        fail_msg("the Node does not show %s", words);
}

static void await_count(struct site *site, const uint32_t *what, uint32_t least)
{
    for (int64_t until_ms = 0; count(site, what) < least && patience_left(&until_ms);)
        ;
    assert_true(count(site, what) >= least);
}

static void somebody_changes(struct site *site, const char *annotations)
{
    SCOPED_STRBUF(out);
    SCOPED_STRBUF(body);
    strbuf_printf(&body, "{\"metadata\":{\"annotations\":{%s}}}", annotations);
    assert_int_equal(
        fake_apiserver_request(site->fake, "PATCH", NODE, (struct text){body.data, body.len}, &out),
        200);
}

SITE_TEST(reporter__restores_changed_annotations)
{
    begins(site, 10);
    await_node(site, HAS);
    await_node(site, "GPU-a");
    await_count(site, &site->looks, 1);
    assert_int_equal(count(site, &site->writes), 1);
    somebody_changes(site, "\"milligpu.io/gpus\":null");
    await_node(site, "GPU-a");
    assert_int_equal(count(site, &site->writes), 2);
    somebody_changes(site, "\"milligpu.io/agent\":null");
    await_node(site, HAS);
    assert_int_equal(count(site, &site->writes), 3);
    somebody_changes(site, "\"milligpu.io/gpus\":\"[]\"");
    await_node(site, "GPU-a");
    assert_int_equal(count(site, &site->writes), 4);
    somebody_changes(site, "\"other\":\"2\""); /* is none of its business */
    await_count(site, &site->looks, count(site, &site->looks) + 2);
    assert_int_equal(count(site, &site->writes), 4);
    assert_true(node_shows(site, "\"other\":\"2\""));
}

/* Without a driver there is no inventory, and that of the Node stays. */
SITE_TEST(reporter__leaves_unknown_inventory_alone)
{
    site->knows = false;
    begins(site, 10);
    await_node(site, HAS);
    somebody_changes(site, "\"milligpu.io/gpus\":\"[1]\"");
    await_count(site, &site->looks, 2);
    assert_int_equal(count(site, &site->writes), 1);
    assert_true(node_shows(site, "[1]"));
}

SITE_TEST(reporter__sends_nothing_between_two_looks)
{
    const struct timespec wait = {1, 200000000}; /* a turn of the reporter, and more */
    begins(site, 3600000);
    await_node(site, HAS);
    (void)nanosleep(&wait, NULL);
    assert_int_equal(count(site, &site->writes), 1);
    assert_int_equal(count(site, &site->looks), 0);
    assert_true(node_shows(site, "GPU-a"));
    set_flag(site, &site->knows, false); /* a change is written, look or not */
    await_count(site, &site->writes, 2);
}

/* A controller that removes each patch at once must not be fought without a pause. */
SITE_TEST(reporter__backs_off_when_the_node_never_shows_its_patch)
{
    const int64_t before = metric_value(COUNT_UNPATCHED);
    const int64_t patched = metric_value(COUNT_PATCHED);
    const struct timespec wait = {0, 500000000};
    const int64_t begin_ms = clock_ms();
    site->deaf = true;
    begins(site, 10);
    await_count(site, &site->writes, 2);
    (void)nanosleep(&wait, NULL);
    const uint32_t writes = count(site, &site->writes);
    const int64_t ms = clock_ms() - begin_ms;
    /* A second after the first, and then after two, four, ... more. */
    assert_true(writes <= 2U + (ms >= 3000) + (ms >= 7000) + (ms >= 15000 ? 10U : 0U));
    assert_true(ms >= 1000);
    assert_int_equal(count(site, &site->looks), 0);
    assert_true(metric_value(COUNT_UNPATCHED) >= before + 1);
    assert_int_equal(metric_value(COUNT_PATCHED), patched);
    set_flag(site, &site->deaf, false);
    await_node(site, HAS);
    await_count(site, &site->looks, 1); /* and then it is looked at again */
    assert_int_equal(metric_value(COUNT_PATCHED), patched + 1);
}

static bool was_reported(struct site *site)
{
    locked(site);
    const bool is = site->reported;
    unlocked(site);
    return is;
}

static void await_reported(struct site *site)
{
    for (int64_t until_ms = 0; !was_reported(site);)
        assert_true(patience_left(&until_ms));
}

static void has_pod(const struct site *site, uint32_t write, const char *node)
{
    char words[200];
    (void)snprintf(words, sizeof words,
                   "\\\"pod\\\":{\\\"uid\\\":\\\"pod-uid\\\",\\\"node\\\":\\\"%s\\\","
                   "\\\"boot\\\":\\\"boot-id\\\"}}",
                   node);
    if (strstr(site->bodies[write], words) == NULL)
        fail_msg("%s does not have %s", site->bodies[write], words);
}

static void load_node(struct site *site, const char *uid)
{
    char node[300];
    struct err err;
    (void)snprintf(node, sizeof node,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\","
                   "\"uid\":\"%s\"},\"status\":{\"nodeInfo\":{\"bootID\":\"boot-id\"}}}",
                   uid);
    struct strbuf out;
    strbuf_init(&out);
    assert_int_equal(fake_apiserver_request(site->fake, "DELETE", NODE, TEXT(""), &out), 200);
    strbuf_done(&out);
    assert_int_equal(fake_apiserver_load_text(site->fake, "nodes", text_of(node), &err), 0);
}

/* In a pod that knows its boot, on the Node node-1; until the Node shows all of it. */
static void begins_in_pod(struct site *site, int64_t look_every_ms)
{
    load_node(site, "node-1");
    site->pod = "pod-uid";
    site->boot = "boot-id";
    begins(site, look_every_ms);
    await_reported(site);
}

/* The first patch cannot have the Node's uid, and the next one follows at once. */
SITE_TEST(reporter__names_pod_and_node_in_the_second_patch)
{
    begins_in_pod(site, 3600000);
    assert_int_equal(count(site, &site->writes), 2);
    assert_int_equal(count(site, &site->reported_at), 2);
    assert_int_equal(count(site, &site->looks), 0);
    assert_null(strstr(site->bodies[0], "\\\"pod\\\""));
    has_pod(site, 1, "node-1");
    assert_string_equal(site->node_boot, "boot-id");
}

SITE_TEST(reporter__names_a_recreated_node_anew)
{
    begins_in_pod(site, 10);
    load_node(site, "node-2");
    await_node(site, "node-2\\\",");
    assert_int_equal(count(site, &site->writes), 3);
    has_pod(site, 2, "node-2");
    await_count(site, &site->looks, count(site, &site->looks) + 2);
    assert_int_equal(count(site, &site->writes), 3);
    assert_true(was_reported(site));
}

/* Returns when the Node shows the agent's own again, which the server has after it is counted. */
static void annotates(struct site *site, const char *annotation)
{
    const uint32_t writes = count(site, &site->writes);
    somebody_changes(site, annotation);
    await_count(site, &site->writes, writes + 1);
    await_node(site, "pod-uid");
}

static void copies(void *user)
{
    annotates(user, "\"milligpu.io/agent\":\"{\\\"v\\\":1,\\\"pod\\\":{\\\"uid\\\":\\\"p9\\\","
                    "\\\"node\\\":\\\"node-9\\\",\\\"boot\\\":\\\"b\\\"}}\"");
}

static void copies_own(void *user)
{
    annotates(user, "\"milligpu.io/agent\":\"{\\\"pod\\\":{\\\"node\\\":\\\"node-1\\\"}}\"");
}

static void breaks(void *user)
{
    annotates(user, "\"milligpu.io/agent\":\"{\\\"pod\\\":{\\\"node\\\":[]}}\"");
}

SITE_TEST(reporter__logs_that_annotations_were_copied)
{
    static const char COPIED[] = "the annotations of another Node were copied onto that of this "
                                 "agent, which writes its own again: leave milligpu.io/... out of "
                                 "manifests of Nodes";
    static const char CHANGED[] = "were removed or changed: they are written again";
    begins_in_pod(site, 10);
    assert_says(logged(LOG_WARN, copies, site), COPIED);
    has_pod(site, 2, "node-1");
    assert_says(logged(LOG_WARN, copies_own, site), CHANGED);
    assert_says(logged(LOG_WARN, breaks, site), CHANGED);
}

/* Neither a pod without a boot id, nor an agent outside of a pod says half of it. */
SITE_TEST(reporter__omits_the_pod_without_pod_or_boot)
{
    load_node(site, "node-1");
    site->boot = "boot-id";
    begins(site, 10);
    await_reported(site); /* it says all that it has to say */
    await_count(site, &site->looks, 2);
    assert_int_equal(count(site, &site->writes), 1);
    assert_null(strstr(site->bodies[0], "\\\"pod\\\""));
    load_node(site, "node-2"); /* without annotations */
    await_node(site, HAS);
    assert_int_equal(count(site, &site->writes), 2);
}

SITE_TEST(reporter__stays_unreported_without_a_boot_id)
{
    load_node(site, "node-1");
    site->pod = "pod-uid";
    begins(site, 10);
    await_count(site, &site->looks, 2);
    assert_int_equal(count(site, &site->writes), 1);
    assert_false(was_reported(site));
    assert_null(strstr(site->bodies[0], "\\\"pod\\\""));
}

/* An API server that is away takes nothing back. */
SITE_TEST(reporter__stays_reported_while_the_server_is_away)
{
    begins(site, 10);
    await_reported(site);
    set_flag(site, &site->deaf, true);
    await_count(site, &site->seen, count(site, &site->seen) + 2);
    assert_true(was_reported(site));
}

SITE_TEST(reporter__shows_that_the_driver_is_released)
{
    begins_in_pod(site, 3600000);
    set_leaving(site, "driver-upgrade");
    await_node(site, "\\\"leaving\\\":\\\"driver-upgrade\\\",\\\"pod\\\":{");
    set_leaving(site, NULL);
    await_count(site, &site->writes, 4);
    await_node(site, HAS);
    for (int64_t until_ms = 0; node_shows(site, "leaving");)
        assert_true(patience_left(&until_ms));
}

/* An hour is the time between two looks; while the label says that an upgrade goes on, 5 s. */
SITE_TEST(reporter__looks_soon_during_a_driver_upgrade)
{
    struct strbuf out;
    strbuf_init(&out);
    assert_int_equal(
        fake_apiserver_request(
            site->fake, "PATCH", NODE,
            TEXT("{\"metadata\":{\"labels\":{\"a\":\"b\",\"nvidia.com/gpu-driver-upgrade-state\":"
                 "\"cordon-required\"}}}"),
            &out),
        200);
    strbuf_done(&out);
    begins(site, 3600000);
    await_reported(site);
    locked(site);
    assert_string_equal(site->upgrade, "cordon-required");
    assert_string_equal(site->node_boot, "");
    unlocked(site);
    await_count(site, &site->looks, 1);
}
