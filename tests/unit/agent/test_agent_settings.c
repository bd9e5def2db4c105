/* agent_settings - flags and variables of milligpu-node, and which runtimes it serves. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/agent.h"

#include "agent/agent_counts.h"
#include "agent/agent_metrics.h"
#include "support/document.h"

static struct agent_settings got;
static enum agent_action action;
static struct err err;

static int load(char *const *argv, char *const *envp)
{
    int argc = 0;
    while (argv[argc] != NULL)
        argc++;
    return agent_settings_load(argc, argv, envp, &got, &action, &err);
}

static char *text(const char *literal)
{
    return (char *)(uintptr_t)literal; /* argv is not const, and nobody writes to it */
}

static void refused(char *const *argv, char *const *envp, const char *words)
{
    assert_true(load(argv, envp) < 0);
    if (strstr(err.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

static void flags_win_over_variables_and_these_over_defaults(void **state)
{
    (void)state;
    char *env[] = {text("HOME=/"), text("MILLIGPU_NODE_NODE=of-env"),
                   text("MILLIGPU_NODE_QUIET_S=5"), NULL};
    char *argv[] = {text("milligpu-node"), text("--node"), text("of-flag"),
                    text("--nri-socket=/x=y"), NULL};
    assert_int_equal(load(argv, env), 0);
    assert_string_equal(got.node, "of-flag");
    assert_string_equal(got.nri_socket, "/x=y");
    assert_int_equal(got.quiet_s, 5);
    assert_int_equal(got.inventory_s, 10);
    assert_string_equal(got.cdi_dirs, "/etc/cdi,/var/run/cdi");
    assert_int_equal(action, AGENT_RUN);
}

static void anything_wrong_is_named(void **state)
{
    (void)state;
    char *none[] = {NULL};
    char *const wrong[][5] = {
        {text("x"), NULL},
        {text("x"), text("--node=n"), text("--nodes=1"), NULL},
        {text("x"), text("--node"), NULL},
        {text("x"), text("stray"), NULL},
        {text("x"), text("--node=n"), text("--quiet-s=0"), NULL},
        {text("x"), text("--node=n"), text("--quiet-s=1x"), NULL},
        {text("x"), text("--node=n"), text("--foreign-gpus=maybe"), NULL},
        {text("x"), text("--node=n"), text("--state-dir="), NULL},
        {text("x"), text("--node_=n"), NULL},
        {text("x"), text("--node=a/../b"), NULL},
    };
    static const char *const words[] = {"--node is not set",
                                        "--nodes is no flag",
                                        "--node needs a value",
                                        "stray is no flag",
                                        "--quiet-s: \"0\" is no number from 1 to 604800",
                                        "\"1x\" is no number",
                                        "\"maybe\" is none of: refuse allow",
                                        "--state-dir is not set",
                                        "--node_ is no flag",
                                        "\"a/../b\" is no name of a Node"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        refused(wrong[i], none, words[i]);
    char *argv[] = {text("x"), text("--node=n"), NULL};
    char *unknown[] = {text("MILLIGPU_NODE_NODES=1"), NULL};
    char *small[] = {text("MILLIGPU_NODE_quiet_s=1"), NULL};
    refused(argv, unknown, "MILLIGPU_NODE_NODES is no setting");
    refused(argv, small, "MILLIGPU_NODE_quiet_s is no setting");
}

static void help_needs_no_settings_and_names_all(void **state)
{
    (void)state;
    char *none[] = {NULL};
    char *argv[] = {text("x"), text("--help"), NULL};
    struct strbuf out;

    assert_int_equal(load(argv, none), 0);
    assert_int_equal(action, AGENT_HELP);
    strbuf_init(&out);
    agent_settings_help(&out);
    assert_non_null(strstr(out.data, "--nri-socket TEXT"));
    assert_non_null(strstr(out.data, "--uninstall"));
    assert_non_null(strstr(out.data, "--release-driver"));
    assert_non_null(strstr(out.data, "--take-driver"));
    strbuf_reset(&out);
    agent_settings_print(&out, &got);
    assert_non_null(strstr(out.data, "quiet_s: 600\n"));
    assert_non_null(strstr(out.data, "nri_socket: \"/var/run/nri/nri.sock\"\n"));
    strbuf_done(&out);
}

/* Of no version is said what is true of another: only some of them drop the GPUs of plugins. */
static void a_runtime_that_is_too_old_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *version;
        bool served;
        bool closed;
    } runtime[] = {
        {"containerd", "v1.6.36", false, false}, {"containerd", "v1.7.29", false, false},
        {"containerd", "v1.7.30", false, false}, {"containerd", "v2.0.5", false, false},
        {"containerd", "v2.1.6", true, false},   {"containerd", "v2.2.0-rc.1", true, true},
        {"containerd", "2.3.7", true, true},     {"containerd", "v3.0.0", true, true},
        {"containerd", "", false, false},        {"containerd", "v2", false, false},
        {"containerd", "vx.y", false, false},    {"cri-o", "1.34.0", true, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(runtime); i++) {
        bool closed = false;
        const int rc = agent_runtime_check(text_of(runtime[i].name), text_of(runtime[i].version),
                                           &closed, &err);
        assert_int_equal(rc == 0, runtime[i].served);
        if (rc == 0)
            assert_int_equal(closed, runtime[i].closed);
    }
    assert_int_equal(agent_runtime_check(TEXT("containerd"), TEXT("v1.7.35"), &(bool){false}, &err),
                     -1);
    assert_string_equal(err.text, "containerd v1.7.35 is too old: milligpu-node needs 2.1, better "
                                  "2.2 or later");
}

/* docs/NODE_REFERENCE.md, from the tables. */
static void reference(struct strbuf *out)
{
    strbuf_str(out, "# milligpu-node: flags and metrics\n\nGenerated from "
                    "`include/milligpu/agent_settings.def`, `src/agent/agent_counts.h` and "
                    "`src/agent/agent_metrics.h`; "
                    "[NODE.md](NODE.md) explains the agent.\n\n## Flags\n\nEach flag is also a "
                    "variable: `--nri-socket` is `MILLIGPU_NODE_NRI_SOCKET`. Flags win.\n\n");
    agent_settings_markdown(out);
    strbuf_str(out, "\n## Metrics\n\n");
    agent_counts_markdown(out);
    strbuf_str(out, "\nOf each GPU, where NVML tells, and of each container's GPU, where "
                    "`--container-metrics` is on; what is not known has no sample:\n\n");
    agent_metrics_markdown(out);
}

static void the_reference_is_what_the_tables_say(void **state)
{
    (void)state;
    document_equals("docs/NODE_REFERENCE.md", reference);
}

static void the_manual_is_what_the_table_says(void **state)
{
    (void)state;
    document_equals("docs/man/milligpu-node.8", agent_settings_man);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_win_over_variables_and_these_over_defaults),
        cmocka_unit_test(anything_wrong_is_named),
        cmocka_unit_test(help_needs_no_settings_and_names_all),
        cmocka_unit_test(a_runtime_that_is_too_old_is_refused),
        cmocka_unit_test(the_reference_is_what_the_tables_say),
        cmocka_unit_test(the_manual_is_what_the_table_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
