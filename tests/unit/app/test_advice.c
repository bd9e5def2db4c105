/* Events about requests that are probably a mistake: which pods get one, and how often. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/spine/event_budget.h"
#include "milligpu/sync/pod_cache.h"

#include "support/metric_sum.h"
#include "support/test.h"
#include "support_fixture.h"

#define MILLI(amount) "\"nvidia.com/vgpu\":\"" amount "\""

/* All Events of the cluster, as JSON. */
static const char *events(struct app_fixture *fixture)
{
    static char text[1 << 20];
    CLEANUP(strbuf_done) struct strbuf out;

    strbuf_init(&out);
    fixture_get(fixture, "/apis/events.k8s.io/v1/namespaces/default/events", &out);
    assert_true(out.len < sizeof text);
    (void)snprintf(text, sizeof text, "%s", out.data);
    return text;
}

static size_t count(struct app_fixture *fixture, const char *words)
{
    size_t found = 0;

    fixture_run(fixture);
    for (const char *at = events(fixture); (at = strstr(at, words)) != NULL; at++)
        found++;
    return found;
}

/* Events that reached the API server since the program started, whether they were new or not. */
static int64_t sent(void)
{
    return metric_sum(M_EVENTS, "") - metric_sum(M_EVENTS, "failed") -
           metric_sum(M_EVENTS, "dropped");
}

APP_TEST(advice__reports_a_tiny_amount_in_one_event_although_it_is_placed)
{
    fixture_grant(fixture, "p", "1", "n1");
    assert_int_equal(count(fixture, "\"reason\":\"GPURequestAdvice\""), 1);
    assert_says(events(fixture), "\"action\":\"tiny\"");
    assert_says(events(fixture), "\"type\":\"Warning\"");
    assert_says(events(fixture),
                "container c: nvidia.com/vgpu: 1 is 1 thousandth of a GPU; 1000 is one "
                "whole GPU; did you mean 1000?");
    assert_says(events(fixture), "\"kind\":\"Pod\"");
    assert_says(events(fixture), "\"name\":\"p\"");
}

APP_TEST(advice__reports_a_refused_amount_with_its_reason)
{
    fixture->app.rules.request_rules.min_milli = 100;
    fixture_pod(fixture, "p", "2");
    assert_int_equal(count(fixture, "\"action\":\"minimum\""), 1);
    assert_says(events(fixture), "did you mean 2000?");
    assert_says(fixture_filter(fixture, "p", "n1 n2"), "did you mean 2000?");
}

APP_TEST(advice__reports_a_misspelled_annotation_beside_the_amount)
{
    fixture_pod_of(fixture, "p", MILLI("1"), "\"milligpu.io/gpu_model\":\"A100\"", NULL);
    assert_int_equal(count(fixture, "\"reason\":\"GPURequestAdvice\""), 2);
    assert_int_equal(count(fixture, "\"action\":\"annotation\""), 1);
    assert_says(events(fixture), "annotation milligpu.io/gpu_model has no effect; did "
                                 "you mean milligpu.io/gpu-model?");
}

APP_TEST(advice__reports_an_annotation_that_becomes_wrong_later)
{
    fixture_pod(fixture, "p", "300");
    assert_int_equal(count(fixture, "GPURequestAdvice"), 0);
    fixture_annotate(fixture, "p", "\"milligpu.io/memory\":\"16Gi\"");
    assert_int_equal(count(fixture, "GPURequestAdvice"), 1);
}

APP_TEST(advice__skips_correct_unrelated_and_bound_pods)
{
    const char *odd = "\"milligpu.io/gpu_model\":\"A100\"";

    fixture_pod_of(fixture, "right", MILLI("300"), "\"milligpu.io/gpu-model\":\"A100\"", NULL);
    fixture_pod_of(fixture, "other", "\"cpu\":\"1\"", odd, NULL);
    fixture_pod_of(fixture, "zero", MILLI("0"), odd, NULL);
    fixture_pod_of(fixture, "whole", "\"nvidia.com/gpu\":\"1\"", odd, NULL);
    fixture_pod_of(fixture, "runs", MILLI("1"), odd, "n1");
    assert_int_equal(count(fixture, "GPURequestAdvice"), 0);
}

APP_TEST(advice__names_the_nearest_model_when_no_node_has_it)
{
    fixture_pod_of(fixture, "p", MILLI("300"), "\"milligpu.io/gpu-model\":\"A10O\"", NULL);
    assert_int_equal(count(fixture, "\"action\":\"model\""), 1);
    assert_says(events(fixture), "no node has a GPU of model A10O; the nearest is A100");
    /* kube-scheduler's answer depends on the request alone. */
    assert_null(strstr(fixture_filter(fixture, "p", "n1 n2"), "nearest"));
    fixture_annotate(fixture, "p", "\"x\":\"1\"");
    assert_int_equal(count(fixture, "GPURequestAdvice"), 1);
}

APP_TEST(advice__looks_for_models_a_few_times_each_minute)
{
    for (int i = 0; i < EVENTS_PER_MINUTE; i++)
        fixture_pod_of(fixture, fixture_name("p", i), MILLI("300"),
                       "\"milligpu.io/gpu-model\":\"A100\"", NULL);
    fixture_pod_of(fixture, "last", MILLI("300"), "\"milligpu.io/gpu-model\":\"A10O\"", NULL);
    assert_int_equal(count(fixture, "GPURequestAdvice"), 0);
    fixture_pass(fixture, 61000);
    fixture_annotate(fixture, "p0", "\"x\":\"1\""); /* p0 was looked at already */
    fixture_annotate(fixture, "last", "\"x\":\"1\"");
    assert_int_equal(count(fixture, "\"action\":\"model\""), 1);
}

APP_TEST(advice__misses_no_model_before_all_nodes_are_listed)
{
    fixture_pod_of(fixture, "p", MILLI("300"), "\"milligpu.io/gpu-model\":\"A100\"", NULL);
    fixture_restart(fixture);
    fixture_pass(fixture, 5000);
    assert_int_equal(count(fixture, "GPURequestAdvice"), 0);
}

APP_TEST(advice__sends_each_event_once_across_lists_and_restarts)
{
    const int64_t before = sent();

    fixture_show_pod(fixture, "p", "1");
    for (int i = 0; i < 5; i++) {
        fixture_annotate(fixture, "p", i % 2 == 0 ? "\"x\":\"1\"" : "\"x\":null");
        fake_apiserver_compact(fixture->app.fake); /* the watch ends, and lists again */
        fixture_pass(fixture, 5000);
    }
    assert_true(fixture->pod_lists > 1);
    assert_int_equal(sent() - before, 1);
    assert_int_equal(count(fixture, "GPURequestAdvice"), 1);
    /* Another process does not know; the API server does. */
    fixture_restart(fixture);
    fixture_pass(fixture, 5000);
    assert_int_equal(sent() - before, 2);
    assert_int_equal(count(fixture, "GPURequestAdvice"), 1);
    /* The same name is another pod. */
    fixture_delete_pod(fixture, "p");
    fixture_run(fixture);
    fixture_pod(fixture, "p", "1");
    assert_int_equal(count(fixture, "GPURequestAdvice"), 2);
}

APP_TEST(advice__sends_a_few_events_each_minute)
{
    for (int i = 0; i < 2 * EVENTS_PER_MINUTE + 4; i++)
        fixture_pod(fixture, fixture_name("p", i), "1");
    fixture_pod(fixture, "last", "1");
    assert_int_equal(count(fixture, "GPURequestAdvice"), EVENTS_PER_MINUTE);
    fixture_pass(fixture, 61000);
    fixture_annotate(fixture, "last", "\"x\":\"1\""); /* a pod that was passed over */
    assert_int_equal(count(fixture, "GPURequestAdvice"), EVENTS_PER_MINUTE + 1);
}

APP_TEST(advice__sends_nothing_until_events_are_enabled)
{
    fixture->settings.events = false;
    fixture_pod(fixture, "p", "1");
    assert_int_equal(count(fixture, "GPURequestAdvice"), 0);
    fixture->settings.events = true;
    fixture_annotate(fixture, "p", "\"x\":\"1\"");
    assert_int_equal(count(fixture, "GPURequestAdvice"), 1);
}

TEST(event_budget__is_refilled_each_minute)
{
    struct event_budget budget = {0};

    for (int64_t minute = 0; minute < 3; minute++) {
        for (int i = 0; i < EVENTS_PER_MINUTE; i++)
            assert_true(event_budget_take(&budget, minute * 60000 + i));
        assert_false(event_budget_take(&budget, minute * 60000 + 59999));
    }
}

TEST(node_budget__limits_each_node_and_all_together)
{
    struct node_budget budget;

    node_budget_init(&budget, 2, 5);
    for (int64_t minute = 0; minute < 3; minute++) {
        const int64_t now_ms = minute * 60000;
        assert_true(node_budget_take(&budget, TEXT("liar"), now_ms));
        assert_true(node_budget_take(&budget, TEXT("liar"), now_ms));
        for (int i = 0; i < 100; i++)
            assert_false(node_budget_take(&budget, TEXT("liar"), now_ms + 59999));
        assert_true(node_budget_take(&budget, TEXT("n1"), now_ms + 59999));
        assert_true(node_budget_take(&budget, TEXT("n2"), now_ms + 59999));
        assert_true(node_budget_take(&budget, TEXT("n3"), now_ms + 59999));
        assert_false(node_budget_take(&budget, TEXT("n4"), now_ms + 59999)); /* of all */
        assert_int_equal(budget.taken.count, 4);
    }
    node_budget_done(&budget);
}
