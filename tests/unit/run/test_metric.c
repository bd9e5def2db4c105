#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"

#include "support/document.h"
#include "support/metric_rows.h"
#include "support/test.h"

static struct strbuf page;

static void expose(void)
{
    strbuf_reset(&page);
    metric_expose(&page, milligpud_metrics, METRIC_PLAIN);
}

static int set_up(void **state)
{
    (void)state;
    strbuf_init(&page);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    strbuf_done(&page);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, set_up, tear_down)

/* The number after a line's name and labels; the line must be there exactly once. */
static long long value_of(const char *series)
{
    char start[300];
    (void)snprintf(start, sizeof start, "\n%s ", series);
    const char *line = strstr(page.data, start);
    if (line == NULL)
        fail_msg("no %s in:\n%s", series, page.data);
    assert_null(strstr(line + 1, start));
    return strtoll(line + strlen(start), NULL, 10);
}

FIXTURE_TEST(metric__without_labels_is_exposed_from_the_start)
{
    expose();
    assert_int_equal(value_of("milligpu_commit_failures_total"), 0);
    assert_int_equal(value_of("milligpu_ready"), 0);
    assert_int_equal(value_of("milligpu_commit_seconds_count"), 0);
    assert_non_null(strstr(page.data, "# TYPE milligpu_commit_seconds histogram\n"));
    assert_non_null(strstr(page.data, "# TYPE milligpu_ready gauge\n"));
    assert_non_null(strstr(page.data, "# TYPE milligpu_commit_failures_total counter\n"));
    assert_null(strstr(page.data, "milligpu_wake_ups_total"));
}

FIXTURE_TEST(metric__adds_to_counters_and_sets_gauges)
{
    metric_add(M_COMMIT_FAILURES, NULL, 2);
    metric_add(M_COMMIT_FAILURES, NULL, 3);
    metric_add(M_WAKE_UPS, LABEL_VALUES("ok"), 1);
    metric_add(M_WAKE_UPS, LABEL_VALUES("failed"), 7);
    metric_set(M_QUEUE_DEPTH, NULL, 9);
    metric_set(M_QUEUE_DEPTH, NULL, -4);
    expose();
    assert_int_equal(value_of("milligpu_commit_failures_total"), 5);
    assert_int_equal(value_of("milligpu_wake_ups_total{outcome=\"ok\"}"), 1);
    assert_int_equal(value_of("milligpu_wake_ups_total{outcome=\"failed\"}"), 7);
    assert_int_equal(value_of("milligpu_queue_depth"), -4);
}

FIXTURE_TEST(histogram__of_seconds_is_cumulative)
{
    metric_observe_ns(M_WEBHOOK_SECONDS, LABEL_VALUES("filter"), 0);
    metric_observe_ns(M_WEBHOOK_SECONDS, LABEL_VALUES("filter"), 50000); /* bounds are inclusive */
    metric_observe_ns(M_WEBHOOK_SECONDS, LABEL_VALUES("filter"), 50001);
    metric_observe_ns(M_WEBHOOK_SECONDS, LABEL_VALUES("filter"), 1500000000);
    metric_observe_ns(M_WEBHOOK_SECONDS, LABEL_VALUES("filter"), 11000000000);
    expose();
    assert_int_equal(value_of("milligpu_webhook_seconds_bucket{verb=\"filter\",le=\"5e-05\"}"), 2);
    assert_int_equal(value_of("milligpu_webhook_seconds_bucket{verb=\"filter\",le=\"0.0001\"}"), 3);
    assert_int_equal(value_of("milligpu_webhook_seconds_bucket{verb=\"filter\",le=\"1\"}"), 3);
    assert_int_equal(value_of("milligpu_webhook_seconds_bucket{verb=\"filter\",le=\"2.5\"}"), 4);
    assert_int_equal(value_of("milligpu_webhook_seconds_bucket{verb=\"filter\",le=\"10\"}"), 4);
    assert_int_equal(value_of("milligpu_webhook_seconds_bucket{verb=\"filter\",le=\"+Inf\"}"), 5);
    assert_int_equal(value_of("milligpu_webhook_seconds_count{verb=\"filter\"}"), 5);
    assert_non_null(
        strstr(page.data, "\nmilligpu_webhook_seconds_sum{verb=\"filter\"} 12.500100001\n"));
}

FIXTURE_TEST(histogram__of_counts_is_cumulative)
{
    metric_observe(M_COMMIT_BATCH, NULL, 0);
    metric_observe(M_COMMIT_BATCH, NULL, 1);
    metric_observe(M_COMMIT_BATCH, NULL, 3);
    metric_observe(M_COMMIT_BATCH, NULL, 100000);
    expose();
    assert_int_equal(value_of("milligpu_commit_batch_bucket{le=\"1\"}"), 2);
    assert_int_equal(value_of("milligpu_commit_batch_bucket{le=\"2\"}"), 2);
    assert_int_equal(value_of("milligpu_commit_batch_bucket{le=\"4\"}"), 3);
    assert_int_equal(value_of("milligpu_commit_batch_bucket{le=\"512\"}"), 3);
    assert_int_equal(value_of("milligpu_commit_batch_bucket{le=\"+Inf\"}"), 4);
    assert_int_equal(value_of("milligpu_commit_batch_sum"), 100004);
    assert_int_equal(value_of("milligpu_commit_batch_count"), 4);
}

FIXTURE_TEST(metric_sample__is_escaped_for_prometheus)
{
    strbuf_reset(&page);
    metric_head(&page, M_FREE, METRIC_PLAIN);
    metric_sample(&page, M_FREE, LABEL_VALUES("A100"), 700);
    metric_sample(&page, M_FREE, LABEL_VALUES("a\"b\\c\nd\te\x01"), UINT64_MAX);
    metric_sample(&page, M_FREE, LABEL_VALUES("\xff\xc3\xa4"), 0);
    metric_sample(&page, M_GPU_ECC, LABEL_VALUES("", "a,b"), 1);
    metric_sample_milli(&page, M_PROCESS_START, NULL, 12034);
    assert_string_equal(page.data,
                        "# HELP milligpu_free_milli Milli-GPU that new shares can take.\n"
                        "# TYPE milligpu_free_milli gauge\n"
                        "milligpu_free_milli{model=\"A100\"} 700\n"
                        "milligpu_free_milli{model=\"a\\\"b\\\\c\\\\nd\\\\te\\\\u0001\"} "
                        "18446744073709551615\n"
                        "milligpu_free_milli{model=\"\xef\xbf\xbd\xc3\xa4\"} 0\n"
                        "milligpu_node_gpu_ecc_errors_total{gpu=\"\",kind=\"a,b\"} 1\n"
                        "process_start_time_seconds 12.034\n");
}

FIXTURE_TEST(openmetrics__drops_total_in_the_head_of_a_counter)
{
    strbuf_reset(&page);
    metric_head(&page, M_PROCESS_CPU, METRIC_OPEN);
    metric_head(&page, M_READY, METRIC_OPEN);
    metric_end(&page, METRIC_OPEN);
    assert_non_null(strstr(page.data, "# TYPE process_cpu_seconds counter\n"
                                      "# UNIT process_cpu_seconds seconds\n"));
    assert_non_null(strstr(page.data, "# TYPE milligpu_ready gauge\n# EOF\n"));
    assert_null(strstr(page.data, "_total"));
    strbuf_reset(&page);
    metric_add(M_COMMIT_FAILURES, NULL, 1);
    metric_expose(&page, milligpud_metrics, METRIC_OPEN);
    assert_non_null(strstr(page.data, "# TYPE milligpu_commit_failures counter\n"
                                      "milligpu_commit_failures_total "));
    assert_non_null(strstr(page.data, "milligpu_commit_batch_bucket{le=\"1.0\"} "));
    assert_non_null(strstr(page.data, "milligpu_commit_seconds_bucket{le=\"10.0\"} "));
    assert_non_null(strstr(page.data, "milligpu_commit_seconds_bucket{le=\"5e-05\"} "));
}

FIXTURE_TEST(kernel_metric__is_not_exposed_as_zero)
{
    expose();
    assert_null(strstr(page.data, "process_"));
}

static void sum_up(void *user, const char *labels, int64_t value)
{
    int64_t *sum = user;
    assert_non_null(strstr(labels, "outcome="));
    *sum += value;
}

FIXTURE_TEST(metric_each__visits_the_series_of_a_metric)
{
    int64_t sum = 0;
    metric_add(M_EVENTS, LABEL_VALUES("ok"), 40);
    metric_add(M_EVENTS, LABEL_VALUES("dropped"), 2);
    metric_each(M_EVENTS, &sum, sum_up);
    assert_int_equal(sum, 42);
    metric_each(M_DRIFT, &sum, sum_up);
    assert_int_equal(sum, 42);
}

static void expose_node(void)
{
    strbuf_reset(&page);
    metric_expose(&page, node_metrics, METRIC_PLAIN);
}

/* The last value of the table is the first to be touched. */
FIXTURE_TEST(metric__values_are_exposed_in_the_order_of_the_table)
{
    metric_set(COUNT_MPS_DOWN, NULL, 3);
    metric_add(COUNT_REFUSED, NULL, 2);
    metric_add(COUNT_REFUSED, NULL, 1);
    metric_add(COUNT_OVERLAPS, NULL, 1);
    expose_node();
    assert_non_null(strstr(page.data, "\n# TYPE milligpu_node_mps_daemons gauge\n"
                                      "milligpu_node_mps_daemons{state=\"up\"} 0\n"
                                      "milligpu_node_mps_daemons{state=\"fault\"} 0\n"
                                      "milligpu_node_mps_daemons{state=\"down\"} 3\n# HELP"));
    assert_non_null(strstr(page.data, "\n# TYPE milligpu_node_validations_total counter\n"
                                      "milligpu_node_validations_total{outcome=\"ok\"} 0\n"
                                      "milligpu_node_validations_total{outcome=\"refused\"} 0\n"
                                      "# HELP"));
    assert_int_equal(metric_value(COUNT_REFUSED), 3);
    assert_int_equal(metric_value(COUNT_GPUS), 0);
    assert_int_equal(metric_value(COUNT_MPS_DOWN), 3);
    assert_int_equal(metric_value(COUNT_OVERLAPS), 1);
    assert_int_equal(metric_value(COUNT_STRANGERS), 0);
}

FIXTURE_TEST(metric_expose__writes_the_metrics_of_one_program)
{
    expose_node();
    assert_non_null(strstr(page.data, "milligpu_node_connected 0\n"));
    assert_null(strstr(page.data, "milligpu_ready"));
    assert_null(strstr(page.data, "milligpu_node_gpu_")); /* no sample, no head */
    expose();
    assert_non_null(strstr(page.data, "milligpu_ready 0\n"));
    assert_null(strstr(page.data, "milligpu_node_"));
}

enum { THREADS = 4, EACH = 20000 };

static atomic_bool done;

static void *count(void *arg)
{
    char labels[40];

    for (int i = 0; i < EACH; i++) {
        (void)snprintf(labels, sizeof labels, "r%d", i % 7);
        metric_add(M_REFUSALS, LABEL_VALUES(labels), 1);
        metric_add(i % 2 == 0 ? COUNT_REPORTED : COUNT_UNREPORTED, NULL, 1);
        metric_observe_ns(M_WEBHOOK_SECONDS, LABEL_VALUES("bind"), i * 1000);
    }
    return arg;
}

static void *scrape(void *arg)
{
    struct strbuf out;

    strbuf_init(&out);
    while (!atomic_load(&done)) {
        strbuf_reset(&out);
        metric_expose(&out, milligpud_metrics, METRIC_PLAIN);
        /* Buckets never decrease, at any moment. */
        const char *at = strstr(out.data, "_bucket{verb=\"bind\"");
        unsigned long long last = 0;
        for (; at != NULL; at = strstr(at + 1, "_bucket{verb=\"bind\"")) {
            const unsigned long long now = strtoull(strstr(at, "} ") + 2, NULL, 10);
            must(now >= last);
            last = now;
        }
    }
    strbuf_done(&out);
    return arg;
}

/* A peer chooses some labels, such as the status of its answers: they must not end the process. */
FIXTURE_TEST(metric__counts_labels_beyond_the_limit_as_other)
{
    for (int code = 0; code < 1000; code++) {
        char labels[64];
        (void)snprintf(labels, sizeof labels, "%d", code);
        metric_add(M_API_REQUESTS, LABEL_VALUES("made_up", labels), 1);
    }
    metric_add(M_API_REQUESTS, LABEL_VALUES("made_up", "7"), 1);
    expose();
    const long long other = value_of("milligpu_api_requests_total{call=\"other\",code=\"other\"}");
    const char *line = page.data;
    long long sum = 0;
    int series = 0;
    while ((line = strstr(line, "\nmilligpu_api_requests_total{")) != NULL) {
        line = strchr(line, '}') + 1;
        sum += strtoll(line, NULL, 10);
        series++;
    }
    assert_int_equal(series, METRIC_SERIES_MAX);
    assert_int_equal(sum, 1001);
    assert_int_equal(other, 1000 - (METRIC_SERIES_MAX - 1));
    assert_int_equal(value_of("milligpu_api_requests_total{call=\"made_up\",code=\"7\"}"), 2);
}

FIXTURE_TEST(metric__loses_no_count_while_others_read)
{
    pthread_t thread[THREADS];
    pthread_t reader;
    long long sum = 0;
    assert_int_equal(pthread_create(&reader, NULL, scrape, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, count, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    atomic_store(&done, true);
    assert_int_equal(pthread_join(reader, NULL), 0);
    expose();
    for (int i = 0; i < 7; i++) {
        char series[80];
        (void)snprintf(series, sizeof series, "milligpu_refusals_total{reason=\"r%d\"}", i);
        sum += value_of(series);
    }
    assert_int_equal(sum, THREADS * EACH);
    assert_int_equal(metric_value(COUNT_REPORTED), THREADS * EACH / 2);
    assert_int_equal(metric_value(COUNT_UNREPORTED), THREADS * EACH / 2);
    assert_int_equal(value_of("milligpu_webhook_seconds_count{verb=\"bind\"}"), THREADS * EACH);
}

static bool ends_in(const char *name, const char *end)
{
    const size_t len = strlen(end);
    return strlen(name) > len && strcmp(name + strlen(name) - len, end) == 0;
}

FIXTURE_TEST(metric_name__follows_the_rules_of_prometheus)
{
    const struct metric_info *metric = NULL;
    for (int id = 0; id < METRICS; id++) {
        const struct metric_info *info = metric_info((enum metric_id)id);
        if (info->name == NULL) { /* a value, of a metric that has one label */
            assert_non_null(metric);
            assert_true(metric->labels[0] != '\0' && strchr(metric->labels, ',') == NULL);
            assert_true(metric->type == METRIC_COUNTER || metric->type == METRIC_GAUGE);
            continue;
        }
        metric = info;
        const bool kernel =
            info->type == METRIC_KERNEL_COUNTER || info->type == METRIC_KERNEL_GAUGE;
        const char *prefix = kernel ? "process_" : "milligpu_";
        assert_int_equal(strncmp(info->name, prefix, strlen(prefix)), 0);
        assert_int_equal(strspn(info->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(info->name));
        assert_int_equal(ends_in(info->name, "_total"),
                         info->type == METRIC_COUNTER || info->type == METRIC_KERNEL_COUNTER);
        if (info->type == METRIC_TIMING)
            assert_true(ends_in(info->name, "_seconds"));
        assert_null(strpbrk(info->help, "\n\\\"")); /* OpenMetrics wants these escaped */
        assert_true(ends_in(info->help, "."));
        for (int other = 0; other < id; other++)
            if (metric_info((enum metric_id)other)->name != NULL)
                assert_string_not_equal(info->name, metric_info((enum metric_id)other)->name);
    }
}

static void write_document(struct strbuf *out)
{
    strbuf_str(
        out,
        "# Metrics of milligpud\n\n"
        "<!-- Written by UPDATE=1 build/dev/tests/unit.run.metric; do not edit. -->\n\n"
        "`GET /metrics` on the admin and the probe listener: Prometheus' text format 0.0.4, or\n"
        "OpenMetrics 1.0.0 for a client whose `Accept` names `application/openmetrics-text`. No\n"
        "label ever holds the name of a pod.\n\n"
        "`GET /metrics/nodes` has the series of single nodes. There are as many as the\n"
        "cluster has nodes, so it is a page of its own: scrape it less often, or only where you\n"
        "need it.\n\n");
    metric_rows(out, milligpud_metrics.begin, milligpud_metrics.end);
}

FIXTURE_TEST(metrics_document__equals_its_table)
{
    document_equals("docs/METRICS.md", write_document);
}
