/*
 * A pod or a node with a uid and a name exists: one with an unreadable field keeps its shares, and
 * never counts as deleted.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"

#include "support/count_of.h"
#include "support/hostile.h"
#include "support/logged.h"
#include "support/metric_sum.h"
#include "support/test.h"
#include "support_fixture.h"

#define UNREADABLE "\"milligpu.io/gpu-count\":\"\\u0000\""

static void hide(struct app_fixture *fixture, const char *pod)
{
    fixture_annotate(fixture, pod, UNREADABLE);
}

static void grant_and_hide(struct app_fixture *fixture, const char *node)
{
    fixture_show_pod(fixture, "a", "800");
    assert_string_equal(fixture_bind(fixture, "a", node), "");
    fixture_run(fixture);
    hide(fixture, "a");
}

static void assert_share_kept(struct app_fixture *fixture)
{
    assert_int_equal(fixture_taken(fixture, "n1"), 800);
    fixture_show_pod(fixture, "b", "800");
    assert_says(fixture_bind(fixture, "b", "n1"), "no GPU with 800 milli free");
    assert_string_equal(fixture_bind(fixture, "b", "n2"), "");
    assert_int_equal(fixture_taken(fixture, "n1"), 800);
}

static void list_again(struct app_fixture *fixture)
{
    fake_apiserver_compact(fixture->app.fake);
    fixture_pass(fixture, 10000);
    assert_true(fixture->pod_lists >= 2);
}

static void lose_ledger(struct app_fixture *fixture)
{
    fixture_lose_ledger(fixture);
    fixture_pass(fixture, 100000);
}

TEST(unreadable_pod__keeps_its_share)
{
    void (*const over[])(struct app_fixture *) = {fixture_restart_and_run, list_again, lose_ledger};

    for (size_t i = 0; i < ARRAY_LEN(over); i++) {
        struct app_fixture *fixture = fixture_new(fixture_two_nodes);
        grant_and_hide(fixture, "n1");
        over[i](fixture);
        assert_true(app_ready(&fixture->app, NULL));
        assert_share_kept(fixture);
        fixture_free(fixture);
    }
}

APP_TEST(unreadable_pod__frees_its_share_when_it_ends)
{
    grant_and_hide(fixture, "n1");
    fixture_terminate_pod(fixture, "a");
    assert_taken(fixture, "n1", 800); /* a deletion timestamp frees nothing */
    fixture_end_pod(fixture, "a");
    assert_taken(fixture, "n1", 0);
    fixture_delete_pod(fixture, "a");
    grant_and_hide(fixture, "n1");
    fixture_delete_pod(fixture, "a");
    assert_taken(fixture, "n1", 0);
}

APP_TEST(unreadable_pod__closes_its_node_when_it_is_unknown)
{
    fixture_pod_of(fixture, "x", "\"nvidia.com/vgpu\":\"200\"", UNREADABLE, "n1");
    fixture_show_pod(fixture, "b", "100");
    assert_says(fixture_bind(fixture, "b", "n1"), "unplaced: no GPU with 100 milli free");
    fixture_delete_pod(fixture, "x");
    fixture_run(fixture);
    assert_string_equal(fixture_bind(fixture, "b", "n1"), "");
}

APP_TEST(unreadable_pod__closes_no_node_when_it_asks_for_nothing)
{
    fixture_pod_of(fixture, "x", "\"cpu\":\"1\"", UNREADABLE, "n1");
    fixture_grant(fixture, "b", "1000", "n1");
}

/* The text stays the same while the pod does; otherwise its condition would wake it for ever. */
APP_TEST(unreadable_pod__is_refused_with_the_field)
{
    static const char why[] = "the pod cannot be read: metadata.annotations[";
    char first[1024];

    fixture_pod_of(fixture, "b", "\"nvidia.com/vgpu\":\"300\"", UNREADABLE, NULL);
    assert_says(fixture_bind(fixture, "b", "n1"), why); /* fetched by GET */
    fixture_run(fixture);
    assert_says(fixture_bind(fixture, "b", "n1"), why);
    (void)snprintf(first, sizeof first, "%s", fixture_filter(fixture, "b", "n1 n2"));
    assert_says(first, "the pod cannot be read: metadata.annotations[");
    fixture_annotate(fixture, "b", "\"example.com/longer\":\"longer\"");
    fixture_run(fixture);
    assert_string_equal(fixture_filter(fixture, "b", "n1 n2"), first);
    assert_int_equal(fixture->bindings, 0);

    fixture_annotate(fixture, "b", "\"milligpu.io/gpu-count\":\"1\"");
    fixture_run(fixture);
    assert_string_equal(fixture_bind(fixture, "b", "n1"), "");
}

/* Its request was read and its Binding is on its way; then the tenant makes it unreadable. */
APP_TEST(unreadable_pod__is_seen_bound_when_its_binding_landed)
{
    fixture_show_pod(fixture, "a", "300");
    fixture->lose_answers = true;
    (void)fixture_bind_begin(fixture, "a", "n1");
    fixture_pass(fixture, 1000);
    assert_string_equal(fixture_where(fixture, "a"), "n1");
    hide(fixture, "a");
    fixture->lose_answers = false;
    fixture_pass(fixture, 100000);
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_reserved(fixture, "n1"), 0);
}

/* A pod on n1 with this schedulerName (or none) and these containers. */
static void post_on_n1(struct app_fixture *fixture, const char *scheduler,
                       const struct strbuf *containers)
{
    CLEANUP(strbuf_done) struct strbuf body;

    strbuf_init(&body);
    strbuf_printf(&body,
                  "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"schedulerName\":\"%s\","
                  "\"nodeName\":\"n1\",\"containers\":[%s]}}",
                  scheduler, containers->data);
    fixture_api(fixture, "POST", "/api/v1/namespaces/default/pods", body.data);
}

static void add_container(struct strbuf *out, const char *name, const char *milli)
{
    strbuf_printf(out,
                  "%s{\"name\":\"%s\",\"resources\":{\"limits\":{\"nvidia.com/vgpu\":\"%s\"}}}",
                  out->len > 0 ? "," : "", name, milli);
}

APP_TEST(pod__may_have_a_long_scheduler_name_and_many_containers)
{
    enum { MANY = 600 };
    CLEANUP(strbuf_done) struct strbuf containers;
    char scheduler[301];

    strbuf_init(&containers);
    for (int i = 0; i < MANY; i++)
        strbuf_printf(&containers, "%s{\"name\":\"c%d\"}", i > 0 ? "," : "", i);
    add_container(&containers, "last", "700");
    memset(scheduler, 's', sizeof scheduler - 1);
    scheduler[sizeof scheduler - 1] = '\0';
    post_on_n1(fixture, scheduler, &containers);
    assert_taken(fixture, "n1", 700);
}

APP_TEST(pod__closes_its_node_when_too_many_containers_ask)
{
    CLEANUP(strbuf_done) struct strbuf containers;
    char name[16];

    strbuf_init(&containers);
    for (int i = 0; i <= CONTAINERS_MAX; i++) {
        (void)snprintf(name, sizeof name, "c%d", i);
        add_container(&containers, name, "1");
    }
    post_on_n1(fixture, "", &containers);
    fixture_show_pod(fixture, "b", "100");
    assert_says(fixture_bind(fixture, "b", "n1"), "unplaced");
}

/* --- nodes --- */

APP_TEST(unreadable_node__keeps_its_gpus_and_grants_nothing)
{
    fixture_pod(fixture, "b", "100");
    fixture_grant(fixture, "a", "300", "n1");
    fixture_annotate_node(fixture, "n1", "\"milligpu.io/gpus\":\"[]\\u0000\"");
    for (int restarts = 0; restarts < 2; restarts++) {
        assert_taken(fixture, "n1", 300);
        assert_true(app_ready(&fixture->app, NULL));
        assert_says(fixture_bind(fixture, "b", "n1"), "no GPU with 100 milli free");
        CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
        const struct node *node = snapshot_node(snapshot, TEXT("n1"));
        assert_false(node->gone);
        assert_int_equal(node->n_gpus, 1);
        assert_int_equal(node->gpu[0].flags & GPU_ABSENT, 0);
        fixture_restart(fixture);
    }
    fixture_annotate_node(fixture, "n1", "\"milligpu.io/gpus\":null");
    fixture_run(fixture);
    assert_string_equal(fixture_bind(fixture, "b", "n1"), "");
    assert_int_equal(fixture_taken(fixture, "n1"), 400);
}

APP_TEST(unreadable_cordon__closes_the_node)
{
    fixture_annotate_node(fixture, "n1", "\"milligpu.io/cordon\":\"\\u0000\"");
    fixture_show_pod(fixture, "b", "100");
    assert_says(fixture_bind(fixture, "b", "n1"), "cordoned: no GPU with 100 milli free");
    assert_string_equal(fixture_bind(fixture, "b", "n2"), "");
}

/* --- anything an API server accepts --- */

enum { ROUNDS = 12, PODS = 10 };

static uint32_t below(void *user, uint32_t bound)
{
    uint64_t *state = user;

    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return bound == 0 ? 0 : (uint32_t)(*state >> 33) % bound;
}

static void send(struct app_fixture *fixture, const char *method, const char *path,
                 const struct strbuf *body)
{
    CLEANUP(strbuf_done) struct strbuf out;

    strbuf_init(&out);
    const int status = fake_apiserver_request(fixture->app.fake, method, path,
                                              (struct text){body->data, body->len}, &out);
    if (status >= 300 && status != 422) /* there may be too many annotations by now */
        fail_msg("%s %s: %d %.200s: %.200s", method, path, status, out.data, body->data);
}

/* p0, p1, ...: every second one is bound to n1, but not by us. */
static void create_pods(struct app_fixture *fixture, const struct hostile_draw *draw)
{
    static const char *const amount[] = {"50"};

    for (int i = 0; i < PODS; i++) {
        CLEANUP(strbuf_done) struct strbuf body;
        const struct hostile_pod pod = {.namespace = "default",
                                        .name = fixture_name("p", i),
                                        .node = i % 2 == 0 ? "n1" : "",
                                        .resource = "nvidia.com/vgpu",
                                        .amount = amount,
                                        .asking = 1};
        strbuf_init(&body);
        hostile_pod(&body, &pod, draw);
        send(fixture, "POST", "/api/v1/namespaces/default/pods", &body);
    }
}

static void edit_pods(struct app_fixture *fixture, const struct hostile_draw *draw)
{
    for (int i = 0; i < PODS; i++) {
        CLEANUP(strbuf_done) struct strbuf body;
        char path[64];
        (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/p%d", i);
        strbuf_init(&body);
        hostile_pod_patch(&body, draw);
        send(fixture, "PATCH", path, &body);
        strbuf_reset(&body);
        if (below(draw->user, 4) == 0) {
            hostile_node_patch(&body, draw);
            send(fixture, "PATCH", "/api/v1/nodes/n2", &body);
        }
    }
}

static void each_bound_one_is_counted(struct app_fixture *fixture)
{
    size_t bound = 0;

    for (int i = 0; i < PODS; i++) {
        const char *node = fixture_where(fixture, fixture_name("p", i));
        bound += node != NULL && node[0] != '\0';
    }
    assert_true(bound >= PODS / 2);
    assert_int_equal(fixture_allocations(fixture), bound);
}

TEST(hostile_pods__are_filtered_bound_and_counted)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        struct app_fixture *fixture = fixture_new(fixture_two_nodes);
        uint64_t chance = round;
        const struct hostile_draw draw = {&chance, below};

        fixture_run(fixture);
        create_pods(fixture, &draw);
        fixture_run(fixture);
        for (int i = 1; i < PODS; i += 2) {
            const char *name = fixture_name("p", i);
            assert_non_null(fixture_filter(fixture, name, "n1 n2"));
            (void)fixture_bind(fixture, name, "n2");
        }
        fixture_run(fixture);
        edit_pods(fixture, &draw);
        fixture_run(fixture);
        each_bound_one_is_counted(fixture);
        fixture_restart_and_run(fixture);
        each_bound_one_is_counted(fixture);
        fake_apiserver_compact(fixture->app.fake);
        fixture_pass(fixture, 10000);
        each_bound_one_is_counted(fixture);
        fixture_lose_ledger(fixture);
        fixture_pass(fixture, 100000);
        each_bound_one_is_counted(fixture);
        fixture_free(fixture);
    }
}

static void annotate_often(void *user)
{
    for (int i = 0; i < 50; i++) {
        fixture_annotate(user, "a", i % 2 == 0 ? "\"note\":\"0\"" : "\"note\":\"1\"");
        fixture_run(user);
    }
}

APP_TEST(unreadable_pod__is_logged_once_and_always_counted)
{
    static const char pods[] = "resource=\"pods\"";

    fixture_show_pod(fixture, "a", "300");
    hide(fixture, "a");
    const int64_t before = metric_sum(M_UNREADABLE, pods);
    const char *text = logged(LOG_WARN, annotate_often, fixture);
    assert_int_equal(count_of(text, "can be read only in part"), 1);
    assert_true(metric_sum(M_UNREADABLE, pods) - before >= 50);
}
