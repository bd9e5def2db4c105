/* The device plugin of a node without an agent: what it does not offer takes no new shares. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "support/gfd_labels.h"
#include "support/test.h"
#include "support_fixture.h"

static void make_node(struct app_fixture *fixture, const char *name, const char *whole)
{
    CLEANUP(strbuf_done) struct strbuf body;

    strbuf_init(&body);
    strbuf_printf(&body, "{\"metadata\":{\"name\":\"%s\",\"labels\":{", name);
    gfd_labels(&body, 2, "NVIDIA-A100-SXM4-80GB", 81920, NULL);
    strbuf_printf(&body, "}},\"status\":{\"capacity\":{%s},\"allocatable\":{%s}}}", whole, whole);
    fixture_api(fixture, "POST", "/api/v1/nodes", body.data);
}

/* As kubelet writes it. */
static void offers(struct app_fixture *fixture, const char *capacity, const char *allocatable)
{
    char body[256];

    (void)snprintf(body, sizeof body,
                   "{\"status\":{\"capacity\":{\"nvidia.com/gpu\":%s},"
                   "\"allocatable\":{\"nvidia.com/gpu\":%s}}}",
                   capacity, allocatable);
    fixture_api(fixture, "PATCH", "/api/v1/nodes/gpu/status", body);
}

static int set_up(void **state)
{
    static const char *const no_nodes[] = {NULL};
    struct app_fixture *fixture = fixture_new(no_nodes);

    make_node(fixture, "gpu", "\"nvidia.com/gpu\":\"2\"");
    fixture_run(fixture);
    *state = fixture;
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct app_fixture *fixture, set_up, fixture_tear_down)

static void no_event_tells_of_it(struct app_fixture *fixture)
{
    CLEANUP(strbuf_done) struct strbuf out;

    strbuf_init(&out);
    fixture_get(fixture, "/apis/events.k8s.io/v1/namespaces/default/events", &out);
    assert_says(out.data, "\"items\":[]");
}

FIXTURE_TEST(plugin__closes_the_node_until_it_returns_and_then_wakes)
{
    fixture_pod(fixture, "b", "300");
    fixture_grant(fixture, "a", "300", "gpu");
    offers(fixture, "\"2\"", "\"0\"");
    fixture_run(fixture);
    assert_says(fixture_filter(fixture, "b", "gpu"), "no GPU with 300 milli free");
    assert_says(fixture_bind(fixture, "b", "gpu"), "plugin");
    offers(fixture, "\"0\"", "\"0\""); /* kubelet forgets the plugin after five minutes */
    assert_false(fixture_fits(fixture, "b", "gpu"));
    assert_string_equal(fixture_where(fixture, "a"), "gpu");
    assert_int_equal(fixture_taken(fixture, "gpu"), 300);
    fixture_pass(fixture, 5000);
    no_event_tells_of_it(fixture);
    offers(fixture, "\"2\"", "\"1\"");
    assert_woken(fixture, 2000, 1);
    assert_string_equal(fixture_bind(fixture, "b", "gpu"), "");
}

FIXTURE_TEST(plugin__is_replaced_by_an_agent_that_names_the_gpus)
{
    fixture_pod(fixture, "b", "300");
    offers(fixture, "\"2\"", "\"0\"");
    assert_false(fixture_fits(fixture, "b", "gpu"));
    fixture_pass(fixture, 5000);
    fixture_annotate_node(fixture, "gpu",
                          "\"milligpu.io/agent\":\"{}\",\"milligpu.io/gpus\":\"[{\\\"uuid\\\":"
                          "\\\"GPU-a\\\",\\\"index\\\":0,\\\"mib\\\":81920}]\"");
    assert_woken(fixture, 2000, 1);
    assert_true(fixture_fits(fixture, "b", "gpu"));
}

/* A restart forgets the plugins that were seen; the setting says that one belongs there. */
FIXTURE_TEST(plugin__closes_the_node_after_a_restart_if_expected)
{
    static const enum plugin_rule rule[] = {PLUGIN_AUTO, PLUGIN_EXPECT, PLUGIN_IGNORE};
    static const char *const word[] = {"auto", "expect", "ignore"};

    fixture_pod(fixture, "b", "300");
    offers(fixture, "\"0\"", "\"0\"");
    assert_false(fixture_fits(fixture, "b", "gpu"));
    for (size_t i = 0; i < ARRAY_LEN(rule); i++) {
        fixture->settings.plugin = word[i];
        fixture_restart(fixture);
        fixture_run_until_idle(fixture);
        assert_int_equal(fixture->app.rules.inventory_rules.plugin, rule[i]);
        assert_int_equal(fixture_fits(fixture, "b", "gpu"), rule[i] != PLUGIN_EXPECT);
    }
    offers(fixture, "\"2\"", "\"0\"");
    assert_true(fixture_fits(fixture, "b", "gpu"));
}

FIXTURE_TEST(plugin__is_not_needed_on_a_node_without_one)
{
    fixture_delete_node(fixture, "gpu");
    fixture_run(fixture);
    make_node(fixture, "gpu", "\"cpu\":\"8\"");
    fixture_show_pod(fixture, "b", "300");
    assert_true(fixture_fits(fixture, "b", "gpu"));
    offers(fixture, "\"0\"", "\"0\""); /* of another plugin's past, before we came */
    assert_true(fixture_fits(fixture, "b", "gpu"));
    offers(fixture, "null", "null");
    assert_true(fixture_fits(fixture, "b", "gpu"));
}
