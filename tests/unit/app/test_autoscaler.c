/*
 * A cluster autoscaler asks filter about waiting pods, to simulate. It sends whole Nodes: of a node
 * group that it could enlarge, or, when it would like to remove a node, of nodes that exist. It is
 * answered, and nothing is remembered of it.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

#include "support/metric_sum.h"
#include "support/test.h"
#include "support_fixture.h"

#define NODE_OF(name)                                                                              \
    "{\"metadata\":{\"name\":\"" name "\",\"labels\":{\"nvidia.com/gpu.product\":\"A100\"}},"      \
    "\"status\":{\"capacity\":{\"nvidia.com/vgpu\":\"1000\"},"                                     \
    "\"allocatable\":{\"nvidia.com/vgpu\":\"1000\"}}}"

/* The answer names the nodes that fit. */
static const char *ask_with_nodes(struct app_fixture *fixture, const char *verb, const char *pod,
                                  const char *nodes)
{
    CLEANUP(strbuf_done) struct strbuf body;

    strbuf_init(&body);
    strbuf_str(&body, "{\"Pod\":");
    CLEANUP(strbuf_done) struct strbuf object;
    strbuf_init(&object);
    fixture_object(fixture, pod, &object);
    strbuf_str(&body, object.data);
    strbuf_printf(&body, ",\"NodeNames\":null,\"Nodes\":{\"items\":[%s]}}", nodes);
    const char *answer = fixture_ask(fixture, verb, body.data);
    return answer;
}

static const char *simulate(struct app_fixture *fixture, const char *pod, const char *nodes)
{
    return ask_with_nodes(fixture, "/scheduler/filter", pod, nodes);
}

struct pod_verdict {
    bool known;
    uint64_t asks;
    uint32_t offered;
    enum reason reason;
    int64_t last_ms;
};

static struct pod_verdict verdict_of(struct app_fixture *fixture, const char *pod)
{
    struct pod_record *record = pod_cache_copy(fixture->app.pod_cache, "default", pod);
    CLEANUP(arena_done) struct arena arena;
    struct waiting waiting = {.n_asks = 0};

    arena_init(&arena);
    assert_non_null(record);
    const bool known = waiting_pods_find(fixture->app.waiting_pods, text_of(pod_record_uid(record)),
                                         &arena, &waiting);
    const struct pod_verdict verdict = {known, waiting.n_asks, waiting.offered, waiting.reason,
                                        waiting.last_ms};
    pod_record_free(record);
    return verdict;
}

static void assert_refused_once(struct app_fixture *fixture, const char *pod)
{
    const struct pod_verdict verdict = verdict_of(fixture, pod);

    assert_true(verdict.known);
    assert_int_equal(verdict.asks, 1);
    assert_int_equal(verdict.offered, 0);
    assert_int_equal(verdict.reason, REASON_ROOM);
}

#define FILTERS(outcome) metric_sum(M_WEBHOOK_REQUESTS, "verb=\"filter\",outcome=\"" outcome "\"")

/* Both GPUs are full, and filter refused "a". */
static void let_one_wait(struct app_fixture *fixture)
{
    fixture_bound_pod(fixture, "on-1", "1000", "n1");
    fixture_bound_pod(fixture, "on-2", "1000", "n2");
    fixture_show_pod(fixture, "a", "300");
    assert_says(fixture_filter(fixture, "a", "n1 n2"), "\"NodeNames\":[]");
    assert_refused_once(fixture, "a");
}

APP_TEST(scale_up__leaves_the_verdict_alone)
{
    let_one_wait(fixture);
    const int64_t before = FILTERS("simulated");
    const int64_t passed = FILTERS("ok");
    assert_says(simulate(fixture, "a", NODE_OF("template")), "\"NodeNames\":[\"template\"]");
    assert_refused_once(fixture, "a");
    assert_int_equal(FILTERS("simulated"), before + 1);
    assert_int_equal(FILTERS("ok"), passed);
    assert_int_equal(waiting_pods_count(fixture->app.waiting_pods), 1);
}

/* It names nodes that exist, about a pod that waits and one that runs there. */
APP_TEST(scale_down__leaves_the_verdict_alone)
{
    let_one_wait(fixture);
    const int64_t refused = metric_sum(M_REFUSALS, "reason=\"room\"");
    (void)simulate(fixture, "a", NODE_OF("n1") "," NODE_OF("n2"));
    assert_refused_once(fixture, "a");
    assert_int_equal(metric_sum(M_REFUSALS, "reason=\"room\""), refused);
    (void)simulate(fixture, "on-1", NODE_OF("n2"));
    assert_false(verdict_of(fixture, "on-1").known);
    assert_int_equal(waiting_pods_count(fixture->app.waiting_pods), 1);
}

/* An answer to a simulation is no offer, so no wake-up follows. */
APP_TEST(simulation__stands_for_no_offer)
{
    fixture_pod(fixture, "a", "300");
    fixture_show_pod(fixture, "b", "300");
    (void)fixture_filter(fixture, "b", "n1 n2");
    (void)simulate(fixture, "a", NODE_OF("n1") "," NODE_OF("n2"));
    assert_false(verdict_of(fixture, "a").known);
    assert_says(simulate(fixture, "a", NODE_OF("template")), "\"NodeNames\":[\"template\"]");
    assert_false(verdict_of(fixture, "a").known);
    fixture_pass(fixture, 1500);
    assert_false(verdict_of(fixture, "a").known);
}

/* A scheduler with nodeCacheCapable: false sends whole Nodes itself, and waits like any other. */
APP_TEST(whole_nodes__count_when_the_scheduler_sends_no_names)
{
    fixture_bound_pod(fixture, "on-1", "1000", "n1");
    fixture_bound_pod(fixture, "on-2", "1000", "n2");
    fixture_show_pod(fixture, "a", "300");
    (void)simulate(fixture, "a", NODE_OF("n1") "," NODE_OF("n2"));
    assert_refused_once(fixture, "a");
    /* Here an autoscaler is known by nodes that do not exist. */
    (void)simulate(fixture, "a", NODE_OF("template"));
    assert_refused_once(fixture, "a");
    (void)simulate(fixture, "a", NODE_OF("n1") "," NODE_OF("n2"));
    assert_int_equal(verdict_of(fixture, "a").asks, 2);
    /* And by pods that are bound. */
    (void)simulate(fixture, "on-1", NODE_OF("n2"));
    assert_false(verdict_of(fixture, "on-1").known);
}

/* kube-scheduler may know a new node before our watch does. */
APP_TEST(template__refusal_is_remembered_as_the_first_question)
{
    fixture_pod(fixture, "a", "1000");
    fixture_annotate(fixture, "a", "\"milligpu.io/gpu-model\":\"H100\"");
    fixture_run(fixture);
    (void)simulate(fixture, "a", NODE_OF("new"));
    assert_true(verdict_of(fixture, "a").known);
    assert_int_equal(waiting_pods_count(fixture->app.waiting_pods), 1);
}

APP_TEST(whole_nodes__count_again_after_prioritize_with_whole_nodes)
{
    let_one_wait(fixture);
    (void)ask_with_nodes(fixture, "/scheduler/prioritize", "a", NODE_OF("n1"));
    fixture_pass(fixture, 1000);
    (void)ask_with_nodes(fixture, "/scheduler/prioritize", "a", NODE_OF("n1"));
    (void)simulate(fixture, "a", NODE_OF("n1"));
    assert_int_equal(verdict_of(fixture, "a").asks, 2);
}
