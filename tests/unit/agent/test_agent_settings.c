/* agent_settings - flags and variables of milligpu-node, and which runtimes it serves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/agent/agent.h"
#include "milligpu/run/metric.h"

#include "support/agent_settings_document.h"
#include "support/document.h"
#include "support/metric_rows.h"
#include "support/scoped.h"
#include "support/test.h"
#include "unit/agent/support.h"

static char file[] = "/tmp/milligpu-node-settings-XXXXXX";
static struct settings_set *set;
static enum agent_action action;
static struct err err;

/* The words of a text that are separated by blanks, and NULL; FILE is the settings file. */
static char **split(const char *words, char *bytes, size_t size, char **word)
{
    size_t count = 0;
    assert_true(snprintf(bytes, size, "%s", words) < (int)size);
    for (char *at = bytes; *at != '\0'; count++) {
        word[count] = at;
        at += strcspn(at, " ");
        if (*at == ' ')
            *at++ = '\0';
        if (strcmp(word[count], "FILE") == 0)
            word[count] = file;
    }
    word[count] = NULL;
    return word;
}

/* Runs `milligpu-node words` with these variables. */
static int load(const char *words, const char *variables)
{
    static char bytes[2][512];
    static char *word[2][16];
    char line[512];
    int argc = 0;
    (void)snprintf(line, sizeof line, "milligpu-node %s", words);
    char **argv = split(line, bytes[0], sizeof bytes[0], word[0]);
    while (argv[argc] != NULL)
        argc++;
    settings_free(set);
    set = NULL;
    return agent_settings_load(argc, argv, split(variables, bytes[1], sizeof bytes[1], word[1]),
                               &set, &action, &err);
}

static const struct agent_settings *of_agent(void)
{
    return settings_values(set);
}

static void refused(const char *words, const char *variables, const char *says)
{
    assert_true(load(words, variables) < 0);
    assert_says(err.text, says);
}

TEST(settings__order_flags_variables_defaults)
{
    assert_int_equal(load("--node of-flag --nri-socket=/x=y",
                          "HOME=/ MILLIGPU_NODE_NODE=of-env MILLIGPU_NODE_QUIET_S=5"),
                     0);
    const struct agent_settings *got = of_agent();
    assert_string_equal(got->node, "of-flag");
    assert_string_equal(got->nri_socket, "/x=y");
    assert_int_equal(got->quiet_s, 5);
    assert_int_equal(got->inventory_s, 10);
    assert_string_equal(got->cdi_dirs, "/etc/cdi,/var/run/cdi");
    assert_int_equal(action, AGENT_RUN);
}

TEST(settings__name_each_error)
{
    static const char *const wrong[][2] = {
        {"", "--node is not set"},
        {"--node=n --nodes=1", "--nodes is no flag"},
        {"--node", "--node needs a value"},
        {"stray", "stray is no flag"},
        {"--node=n --quiet-s=0", "--quiet-s: \"0\" is no number from 1 to 604800"},
        {"--node=n --quiet-s=1x", "\"1x\" is no number"},
        {"--node=n --foreign-gpus=maybe", "\"maybe\" is none of: refuse allow"},
        {"--node=n --state-dir=", "--state-dir is not set"},
        {"--node_=n", "--node_ is no flag"},
        {"--node=a/../b", "\"a/../b\" is no name of a Node"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        refused(wrong[i][0], "", wrong[i][1]);
    refused("--node=n", "MILLIGPU_NODE_NODES=1", "MILLIGPU_NODE_NODES is no setting");
    refused("--node=n", "MILLIGPU_NODE_quiet_s=1", "MILLIGPU_NODE_quiet_s is no setting");
    refused("--node=n", "MILLIGPU_NODE_SERVICE_HOST=10.0.0.1",
            "MILLIGPU_NODE_SERVICE_HOST is no setting");
}

TEST(settings__accept_a_former_flag)
{
    assert_int_equal(load("--node=n --clear-fault GPU-a", ""), 0);
    assert_int_equal(action, AGENT_CLEAR_FAULT);
    assert_string_equal(of_agent()->gpu, "GPU-a");
    assert_null(settings_renamed(set));
    assert_int_equal(load("--node=n --clear-fault", ""), 0); /* without its argument */
    assert_int_equal(action, AGENT_CLEAR_FAULT);
    assert_string_equal(of_agent()->gpu, "");
    assert_int_equal(load("--help --clear-fault GPU-1", ""), 0);
    assert_int_equal(action, AGENT_HELP);
    assert_int_equal(load("--node=n --forgive GPU-b --quiet-s=3", ""), 0);
    assert_int_equal(action, AGENT_CLEAR_FAULT);
    assert_string_equal(of_agent()->gpu, "GPU-b");
    assert_int_equal(of_agent()->quiet_s, 3);
    assert_non_null(settings_renamed(set));
    assert_string_equal(settings_renamed(set)->former, "--forgive");
    assert_string_equal(settings_renamed(set)->flag, "--clear-fault");
}

TEST(help__needs_no_settings_and_names_all)
{
    SCOPED_STRBUF(out);

    assert_int_equal(load("--help", ""), 0);
    assert_int_equal(action, AGENT_HELP);
    agent_settings_help(&out);
    assert_non_null(strstr(out.data, "--nri-socket TEXT"));
    assert_non_null(strstr(out.data, "--uninstall"));
    assert_non_null(strstr(out.data, "--release-driver"));
    assert_non_null(strstr(out.data, "--take-driver"));
    assert_non_null(strstr(out.data, "--config TEXT"));
    assert_non_null(strstr(out.data, "--check-config"));
    assert_non_null(strstr(out.data, "--clear-fault GPU"));
    assert_null(strstr(out.data, "--forgive"));
    strbuf_reset(&out);
    assert_int_equal(load("--print-config", ""), 0);
    settings_print(&out, set);
    assert_non_null(strstr(out.data, "quiet_s: 600\n"));
    assert_non_null(strstr(out.data, "nri_socket: \"/var/run/nri/nri.sock\"\n"));
}

static void write_file(const char *bytes)
{
    file_put("/tmp", file + strlen("/tmp/"), bytes);
}

TEST(settings_file__is_below_variables_and_flags)
{
    char variable[100];
    SCOPED_STRBUF(out);

    write_file("# of this node\nnode: of-file\ninventory_s: 4\nquiet_s: 4\nmeter_s: 4\nmps: off\n"
               "nvml: \"\"\n");
    assert_int_equal(load("--config FILE --meter-s=7 --check-config",
                          "MILLIGPU_NODE_QUIET_S=5 MILLIGPU_NODE_METER_S=6"),
                     0);
    const struct agent_settings *got = of_agent();
    assert_int_equal(action, AGENT_CHECK);
    assert_string_equal(got->node, "of-file");
    assert_string_equal(got->nvml, "");
    assert_string_equal(got->mps, "off");
    assert_int_equal(got->inventory_s, 4);
    assert_int_equal(got->quiet_s, 5);
    assert_int_equal(got->meter_s, 7);
    assert_int_equal(
        load("--config FILE --print-config", "MILLIGPU_NODE_QUIET_S=5 MILLIGPU_NODE_METER_S=6"), 0);
    settings_print(&out, set);
    assert_non_null(strstr(out.data, "\nquiet_s: 5 # MILLIGPU_NODE_QUIET_S\n"));
    assert_non_null(strstr(out.data, "\ninventory_s: 4 # /tmp/milligpu-node-settings-"));
    assert_int_equal(strncmp(out.data, "node: ", 6), 0); /* not config */
    write_file(out.data);
    (void)snprintf(variable, sizeof variable, "MILLIGPU_NODE_CONFIG=%s", file);
    assert_int_equal(load("--check-config", variable), 0);
    assert_int_equal(of_agent()->quiet_s, 5);
    assert_string_equal(of_agent()->node, "of-file");
}

TEST(settings_file__names_line_and_setting_of_an_error)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"node: n\ncolour: 1\n", ":2: no setting is called \"colour\" (see --help)"},
        {"nod: n\n", ":1: no setting is called \"nod\"; did you mean node?"},
        {"node: n\nquiet_s: 0\n", ":2: quiet_s: \"0\" is not a whole number from 1 to 604800 (s)"},
        {"node: n\nmps: maybe\n", ":2: mps: \"maybe\" is not one of: off on label"},
        {"node: n\nmeter_s: [1]\n", ":2: meter_s: a list where one value should be"},
        {"node: n\nnode: m\n", ":2: node is set a second time, first in line 1"},
        {"config: x\n", ":1: config: a settings file cannot name another"},
        {"node: \"n\n", ":2: not YAML: "},
        {"- node\n", ":1: not a mapping"},
        {"\nnode: a/../b\n", ":2: node: \"a/../b\" is no name of a Node"},
        {"node: n\nmps_dir: run\n", ":2: mps_dir: \"run\" does not begin with /"},
        {"node: n\nmps_shm: shm\n", ":2: mps_shm: \"shm\" does not begin with /"},
        {"node: n\nmps: on\nnvml: \"\"\n", ":2: mps: needs NVML, which tells"},
        {"node: \"\"\n", "--node is not set"},
    };

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        write_file(wrong[i].text);
        refused("--config FILE", "", wrong[i].says);
        if (wrong[i].says[0] == ':')
            assert_ptr_equal(strstr(err.text, file), err.text);
    }
    refused("--config=/nowhere/node.yaml", "", "/nowhere/node.yaml: No such file or directory");
}

TEST(settings__name_the_flag_of_a_rule_between_settings)
{
    refused("--node=n --mps-dir=run", "", "--mps-dir: \"run\" does not begin with /");
    refused("--node=n --mps=on --nvml=", "", "--mps: needs NVML, which tells the GPUs of the node");
    refused("", "MILLIGPU_NODE_NODE=A", "--node: \"A\" is no name of a Node");
}

TEST(settings__refuse_what_exceeds_a_limit)
{
    char socket[sizeof "--node=n --nri-socket=" + 108] = "--node=n --nri-socket=";

    memset(socket + strlen(socket), 'x', 107);
    assert_int_equal(load(socket, ""), 0);
    socket[strlen(socket)] = 'x';
    refused(socket, "", "--nri-socket: a socket's path has at most 107 bytes");
    char folder[sizeof "--node=n --state-dir=" + 401] = "--node=n --state-dir=";
    memset(folder + strlen(folder), 'x', 400);
    assert_int_equal(load(folder, ""), 0);
    folder[strlen(folder)] = 'x';
    refused(folder, "", "--state-dir: this folder's path has at most 400 bytes");
    assert_int_equal(load("--node=n --cdi-dirs=/a,/b,/c,/d", ""), 0);
    refused("--node=n --cdi-dirs=/a,/b,/c,/d,", "", "--cdi-dirs: more than 4 folders");
}

/* Versions differ: only some of them drop the GPUs of plugins. */
TEST(runtime_check__refuses_old_runtimes)
{
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
    strbuf_str(out,
               "# milligpu-node: flags and metrics\n\nGenerated from "
               "`include/milligpu/agent/agent_settings.def` and "
               "`include/milligpu/run/node_metrics.def`; "
               "[NODE.md](NODE.md) explains the agent.\n\n## Flags\n\nEach flag is also a "
               "variable: `--nri-socket` is `MILLIGPU_NODE_NRI_SOCKET`. Flags win.\n\n"
               "Each but `--config` is also a key of the YAML file that `--config` names "
               "(`nri_socket`), which variables and flags beat. `milligpu-node --check-config` "
               "reports errors with file and line; `--print-config` prints the effective "
               "settings and their sources, as such a file.\n\n");
    agent_settings_markdown(out);
    strbuf_str(out, "\n## Metrics\n\n");
    metric_rows(out, node_metrics.begin, M_GPU_MEMORY_TOTAL);
    strbuf_str(out, "\nOf each GPU, where NVML tells, and of each container's GPU, where "
                    "`--container-metrics` is on; what is not known has no sample:\n\n");
    metric_rows(out, M_GPU_MEMORY_TOTAL, node_metrics.end);
}

TEST(node_reference__is_generated_from_the_tables)
{
    document_equals("docs/NODE_REFERENCE.md", reference);
}

TEST(node_manual__is_generated_from_the_table)
{
    document_equals("docs/man/milligpu-node.8", agent_settings_man);
}

static int make_file(void **state __attribute__((unused)))
{
    const int fd = mkstemp(file);
    must(fd >= 0);
    return close(fd);
}

static int drop_file(void **state __attribute__((unused)))
{
    settings_free(set);
    return unlink(file);
}

TEST_GROUP(make_file, drop_file)
