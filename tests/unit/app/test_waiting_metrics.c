/* The metrics of waiting pods: how many, for how long, and whether the free milli would do. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/selfcheck/metrics_page.h"
#include "milligpu/waiting/waiting_pods.h"

#include "support/test.h"
#include "support_fixture.h"

enum { MINUTE_MS = 60000 };

/* The value of a series of the page, as a number. */
static long long shown(struct app_fixture *fixture, const char *series)
{
    CLEANUP(strbuf_done) struct strbuf text;
    char line[128];
    long long value = -1;

    strbuf_init(&text);
    metrics_page(&fixture->app, &text, METRIC_PLAIN);
    (void)snprintf(line, sizeof line, "\n%s ", series);
    const char *at = strstr(text.data, line);
    if (at == NULL)
        fail_msg("no %s in\n%s", series, text.data);
    assert_int_equal(sscanf(at + strlen(line), "%lld", &value), 1);
    return value;
}

static void refuse(struct app_fixture *fixture, const char *pod, const char *milli)
{
    fixture_show_pod(fixture, pod, milli);
    assert_null(strstr(fixture_filter(fixture, pod, "n1 n2"), "\"NodeNames\":[\"n"));
}

static void bind(struct app_fixture *fixture, const char *pod, const char *milli, const char *node)
{
    fixture_show_pod(fixture, pod, milli);
    assert_string_equal(fixture_bind(fixture, pod, node), "");
}

/* 600 and 600 of two GPUs are held: 800 are free together, and 400 in one piece. */
APP_TEST(waiting_metrics__count_pods_by_reason_and_the_longest_wait)
{
    assert_int_equal(shown(fixture, "milligpu_waiting_pods{reason=\"room\"}"), 0);
    assert_int_equal(shown(fixture, "milligpu_waiting_oldest_seconds{reason=\"room\"}"), 0);
    assert_int_equal(shown(fixture, "milligpu_waiting_pods{reason=\"offered\"}"), 0);
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 0);
    bind(fixture, "a", "600", "n1");
    bind(fixture, "b", "600", "n2");
    refuse(fixture, "whole", "1000");
    fixture_pass(fixture, MINUTE_MS);
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 0);
    refuse(fixture, "scattered", "700");
    fixture_pass(fixture, MINUTE_MS);
    refuse(fixture, "later", "500");
    refuse(fixture, "nonsense", "1500");
    assert_int_equal(shown(fixture, "milligpu_waiting_pods{reason=\"room\"}"), 3);
    assert_int_equal(shown(fixture, "milligpu_waiting_oldest_seconds{reason=\"room\"}"), 120);
    assert_int_equal(shown(fixture, "milligpu_waiting_pods{reason=\"amount\"}"), 1);
    assert_int_equal(shown(fixture, "milligpu_waiting_oldest_seconds{reason=\"amount\"}"), 0);
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 60);
    fixture_delete_pod(fixture, "scattered");
    fixture_pass(fixture, MINUTE_MS);
    assert_int_equal(shown(fixture, "milligpu_waiting_pods{reason=\"room\"}"), 2);
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 60);
    assert_true(shown(fixture, "milligpu_table_bytes{table=\"wishes\"}") > 0);
    fixture_delete_pod(fixture, "whole");
    fixture_delete_pod(fixture, "later");
    fixture_delete_pod(fixture, "nonsense");
    fixture_run(fixture);
    assert_int_equal(shown(fixture, "milligpu_waiting_pods{reason=\"room\"}"), 0);
    assert_int_equal(shown(fixture, "milligpu_table_bytes{table=\"wishes\"}"), 0);
}

/* 800 are free in all: exactly as much as is asked for, and then a thousandth less. */
APP_TEST(waiting_metrics__compare_the_sum_exactly)
{
    bind(fixture, "a", "600", "n1");
    bind(fixture, "b", "600", "n2");
    refuse(fixture, "c", "800");
    fixture_pass(fixture, MINUTE_MS);
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 60);
    bind(fixture, "d", "1", "n1");
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 0);
}

APP_TEST(waiting_metrics__count_only_models_the_pod_takes_as_room)
{
    fixture_pod_of(fixture, "h", "\"nvidia.com/vgpu\":\"100\"",
                   "\"milligpu.io/gpu-model\":\"H100\"", NULL);
    fixture_run(fixture);
    (void)fixture_filter(fixture, "h", "n1 n2");
    fixture_pass(fixture, MINUTE_MS);
    assert_int_equal(shown(fixture, "milligpu_waiting_pods{reason=\"model\"}"), 1);
    assert_int_equal(shown(fixture, "milligpu_waiting_oldest_seconds{reason=\"model\"}"), 60);
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 0);
}

/* There is room in one piece, and no bind comes: another plugin refuses the nodes. */
APP_TEST(waiting_metrics__count_an_offer_without_a_bind)
{
    fixture_show_pod(fixture, "a", "300");
    (void)fixture_filter(fixture, "a", "n1 n2");
    assert_int_equal(shown(fixture, "milligpu_waiting_pods{reason=\"offered\"}"), 0);
    fixture_pass(fixture, MINUTE_MS);
    assert_int_equal(shown(fixture, "milligpu_waiting_pods{reason=\"offered\"}"), 1);
    assert_int_equal(shown(fixture, "milligpu_waiting_oldest_seconds{reason=\"offered\"}"), 60);
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 60);
}

static void wait_for_whole_gpus(struct app_fixture *fixture, const char *pod, const char *limits)
{
    fixture_pod_of(fixture, pod, limits, NULL, NULL);
    fixture_run(fixture);
    (void)fixture_filter(fixture, pod, "n1 n2");
    fixture_pass(fixture, MINUTE_MS);
}

/* 2000 are free: 500 and two whole GPUs of the other resource are more, 500 and one are less. */
APP_TEST(waiting_metrics__add_whole_gpus_to_the_sum)
{
    wait_for_whole_gpus(fixture, "w", "\"nvidia.com/vgpu\":\"500\",\"nvidia.com/gpu\":\"2\"");
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 0);
    wait_for_whole_gpus(fixture, "v", "\"nvidia.com/vgpu\":\"500\",\"nvidia.com/gpu\":\"1\"");
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 60);
}

enum { GREEDY_MODELS = 32, GREEDY_PODS = 4096 }; /* times one model: all comparisons of a scrape */

static void wait_greedily(struct app_fixture *fixture, uint32_t models, int number, int64_t wall_ms)
{
    static const char *names[GREEDY_MODELS];
    struct want want = {.container = "c", .kind = CONTAINER_APP, .parts = 1, .milli = 300};
    const struct request request = {
        .n_wants = 1, .want = &want, .n_models = models, .model = names};
    char uid[32];

    for (uint32_t i = 0; i < GREEDY_MODELS; i++)
        names[i] = "another";
    (void)snprintf(uid, sizeof uid, "u%d", number);
    const struct asking_pod asking_pod = {.uid = uid,
                                          .namespace = "tenant",
                                          .name = uid,
                                          .request = &request,
                                          .now_ms = fixture->now_ms,
                                          .wall_ms = wall_ms};
    waiting_pods_refused(fixture->app.waiting_pods, &asking_pod, REASON_ROOM, "no room");
}

/* Texts of tenants make no scrape expensive: from then on, no pod is said to have room. */
APP_TEST(waiting_metrics__compare_models_within_a_budget)
{
    for (int i = 0; i < GREEDY_PODS; i++)
        wait_greedily(fixture, GREEDY_MODELS, i, fixture->wall_ms);
    wait_greedily(fixture, 0, GREEDY_PODS, fixture->wall_ms - MINUTE_MS);
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 60);
    wait_greedily(fixture, 1, GREEDY_PODS + 1, fixture->wall_ms - 2 * MINUTE_MS);
    wait_greedily(fixture, 0, GREEDY_PODS + 2, fixture->wall_ms - 3 * MINUTE_MS);
    assert_int_equal(shown(fixture, "milligpu_waiting_pods{reason=\"room\"}"), GREEDY_PODS + 3);
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 60);
}

APP_TEST(waiting_metrics__show_no_negative_wait)
{
    bind(fixture, "a", "600", "n1");
    bind(fixture, "b", "600", "n2");
    refuse(fixture, "c", "500");
    fixture->wall_ms -= MINUTE_MS;
    assert_int_equal(shown(fixture, "milligpu_waiting_oldest_seconds{reason=\"room\"}"), 0);
    assert_int_equal(shown(fixture, "milligpu_waiting_with_room_seconds"), 0);
}
