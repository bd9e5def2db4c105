/* The metrics of each namespace and each node: sums, and their bounds. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/selfcheck/metrics_page.h"

#include "selfcheck/namespace_metrics.h"
#include "support/core_fixture.h"
#include "support/test.h"

static const struct core_gpu gpus[] = {{.id = "GPU-1", .mib = 81920},
                                       {.id = "GPU-2", .index = 1, .mib = 81920}};

static void hold(struct core_fixture *core, const char *namespace, const char *uid,
                 const char *node, const char *words)
{
    assert_int_equal(core_reserve_in(core, namespace, uid, node, words), VERDICT_OK);
}

/* The page is exactly this, after its head. */
static void shows_namespaces(const struct core_fixture *core, const char *lines)
{
    CLEANUP(snapshot_unrefp)
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    CLEANUP(strbuf_done) struct strbuf page;

    strbuf_init(&page);
    namespace_metrics(&page, snapshot, METRIC_PLAIN);
    const char *type = strstr(page.data, "# TYPE milligpu_namespace_milli gauge\n");
    assert_non_null(type);
    assert_string_equal(strchr(type, '\n') + 1, lines);
}

CORE_TEST(namespace_metrics__add_up_charges)
{
    shows_namespaces(core, "milligpu_namespace_milli{namespace=\"other\"} 0\n");
    (void)core_node(core, "n1", gpus, 2);
    (void)core_node(core, "n2", (struct core_gpu[]){{.id = "GPU-3", .mib = 81920}}, 1);
    hold(core, "b", "1", "n1", "300");
    hold(core, "b", "2", "n2", "200");
    hold(core, "a", "3", "n1", "600x2");
    hold(core, "c", "4", "n2", "500");
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "2"), VERDICT_OK); /* bound counts, too */
    shows_namespaces(core, "milligpu_namespace_milli{namespace=\"a\"} 1200\n"
                           "milligpu_namespace_milli{namespace=\"b\"} 500\n"
                           "milligpu_namespace_milli{namespace=\"c\"} 500\n"
                           "milligpu_namespace_milli{namespace=\"other\"} 0\n");
}

/* 102 namespaces: those that hold least are one series, and so is a namespace of its name. */
CORE_TEST(namespace_metrics__have_one_series_for_the_rest)
{
    CLEANUP(strbuf_done) struct strbuf lines;
    struct core_gpu many[16];
    char names[NAMESPACES_SHOWN + 2][16];

    for (uint32_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (struct core_gpu){.index = i, .mib = 81920};
    (void)core_node(core, "n1", many, ARRAY_LEN(many));
    hold(core, "other", "most", "n1", "1000");
    strbuf_init(&lines);
    for (int i = 0; i < NAMESPACES_SHOWN + 2; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%03d", i);
        hold(core, names[i], names[i], "n1", i < 2 ? "7" : "20");
    }
    for (int i = 2; i < NAMESPACES_SHOWN + 2; i++)
        strbuf_printf(&lines, "milligpu_namespace_milli{namespace=\"%s\"} 20\n", names[i]);
    strbuf_str(&lines, "milligpu_namespace_milli{namespace=\"other\"} 1014\n");
    shows_namespaces(core, lines.data);
}

static const char no_line[] = "";

/* The samples of the page, without its heads. */
static void shows_nodes(const struct core_fixture *core, const char *lines)
{
    struct app app = {.view = view_new()};
    CLEANUP(strbuf_done) struct strbuf page;
    CLEANUP(strbuf_done) struct strbuf samples;

    view_publish(app.view, ledger_publish(core->ledger, NULL, 0));
    strbuf_init(&page);
    strbuf_init(&samples);
    nodes_page(&app, &page, METRIC_PLAIN);
    for (const char *at = page.data; *at != '\0'; at = strchr(at, '\n') + 1)
        if (*at != '#')
            strbuf_text(&samples, (struct text){at, strcspn(at, "\n") + 1});
    assert_string_equal(samples.len > 0 ? samples.data : no_line, lines);
    view_free(app.view);
}

/* Held, free and closed of each node; what closes nothing has no series. */
CORE_TEST(node_metrics__show_held_free_and_closed)
{
    const struct core_gpu three[] = {{.id = "GPU-4", .mib = 81920, .sick = true},
                                     {.id = "GPU-5", .index = 1, .mib = 81920, .cordoned = true},
                                     {.id = "GPU-6", .index = 2, .mib = 81920}};

    (void)core_node(core, "empty", NULL, 0);
    (void)core_node(core, "n1", gpus, 2);
    (void)core_node(core, "n2", (struct core_gpu[]){{.id = "GPU-4", .mib = 81920}}, 1);
    hold(core, "a", "1", "n1", "300");
    hold(core, "a", "2", "n1", "200");
    hold(core, "a", "3", "n2", "250");
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "2"), VERDICT_OK);
    (void)core_node(core, "n2", three, 3);
    shows_nodes(core, "milligpu_node_allocated_milli{node=\"n1\"} 500\n"
                      "milligpu_node_allocated_milli{node=\"n2\"} 250\n"
                      "milligpu_node_free_milli{node=\"n1\"} 1500\n"
                      "milligpu_node_free_milli{node=\"n2\"} 1000\n"
                      "milligpu_node_closed_milli{reason=\"unhealthy\",node=\"n2\"} 750\n"
                      "milligpu_node_closed_milli{reason=\"cordoned\",node=\"n2\"} 1000\n");
}

CORE_TEST(node_metrics__are_empty_before_the_first_list)
{
    struct app app = {.view = view_new()};
    CLEANUP(strbuf_done) struct strbuf page;

    strbuf_init(&page);
    nodes_page(&app, &page, METRIC_OPEN);
    assert_non_null(strstr(page.data, "# TYPE milligpu_node_free_milli gauge\n"));
    assert_null(strstr(page.data, "\nmilligpu"));
    assert_string_equal(page.data + page.len - strlen("# EOF\n"), "# EOF\n");
    view_free(app.view);
}
