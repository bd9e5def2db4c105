#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/ledger/reconcile.h"

#include "bin/command_table.h"
#include "support/count_of.h"
#include "support/document.h"
#include "support/scoped.h"
#include "support/shown.h"
#include "support/test.h"
#include "support_document.h"

static struct shown shown;

static int parse(const char *words, struct err *err)
{
    struct ctl_options options;
    char copy[256];
    char *argv[16] = {(char[]){"milligpuctl"}};
    int argc = 1;
    char *save = NULL;

    (void)snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    const int status = options_parse(&milligpuctl_commands, argc, argv, &options, err);
    if (status == 0)
        options_done(&options);
    return status;
}

TEST(options__stand_anywhere)
{
    static const char *const forms[] = {
        "-n research allocations --node n1",    "allocations -n research --node=n1",
        "allocations -nresearch --node n1",     "--namespace research --node n1 allocations",
        "allocations -n=research --node n1 --",
    };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        shown_begin(&shown, forms[i]);
        assert_string_equal(shown.ctl.options.command->name, "allocations");
        assert_string_equal(shown.ctl.options.given[OPTION_namespace], "research");
        assert_string_equal(shown.ctl.options.given[OPTION_node], "n1");
        assert_int_equal(shown.ctl.options.n_arguments, 0);
        shown_end(&shown);
        shown_free(&shown);
    }
}

/* The option has this value, NULL: it is not given. */
static void gives(const char *words, size_t option, const char *value)
{
    shown_begin(&shown, words);
    const char *given = shown.ctl.options.given[option];
    assert_int_equal(given == NULL, value == NULL);
    assert_string_equal(given != NULL ? given : "", value != NULL ? value : "");
    shown_end(&shown);
    shown_free(&shown);
}

TEST(options__belong_to_the_command_before_them)
{
    gives("doctor --nodes", OPTION_node_checks, "");
    gives("doctor --nodes", OPTION_nodes, NULL);
    gives("simulate --nodes some.csv", OPTION_nodes, "some.csv");
    gives("simulate --nodes some.csv", OPTION_node_checks, NULL);
    gives("convert --from kai", OPTION_from_peer, "kai");
    gives("convert --from kai", OPTION_from, NULL);
    gives("--nodes some.csv simulate", OPTION_nodes, "some.csv");
}

TEST(options__end_after_two_dashes)
{
    shown_begin(&shown, "play - -- -n --x");
    assert_int_equal(shown.ctl.options.n_arguments, 3);
    assert_string_equal(shown.ctl.options.argument[0], "-");
    assert_string_equal(shown.ctl.options.argument[1], "-n");
    assert_string_equal(shown.ctl.options.argument[2], "--x");
    shown_end(&shown);
    shown_free(&shown);
}

TEST(options__report_an_error_with_a_correction)
{
    static const struct {
        const char *words;
        const char *says;
    } bad[] = {
        {"tpo", "did you mean top?"},
        {"alloc", "did you mean allocations?"},
        {"docter", "did you mean doctor?"},
        {"xyzzy", "--help"},
        {"top x", "top takes no arguments, but got x"},
        {"node", "node wants NODE"},
        {"node a b", "node takes NODE and nothing more, but got b"},
        {"pod", "pod wants POD"},
        {"play", "play wants FILE..."},
        {"top --at 1h", "top knows no --at"},
        {"summary -n x", "summary knows no --namespace"},
        {"top --nodez", "unknown option --nodez"},
        {"top -x", "unknown option -x"},
        {"top --watch=yes", "--watch is a switch"},
        {"top --node", "--node wants NODE"},
        {"top --node=", "--node wants NODE"},
        {"backup f --forc", "unknown option --forc"},
        {"doctor --nodes=all", "--nodes is a switch"},
        {"simulate --nodes", "--nodes wants FILE"},
        {"top --nodes x", "top knows no --nodes"},
        {"doctor --sort-by X", "doctor knows no --sort-by"},
    };
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(parse(bad[i].words, &err), -ERR_INVALID);
        if (strstr(err.text, bad[i].says) == NULL)
            fail_msg("%s: %s", bad[i].words, err.text);
    }
}

TEST(usage_error__has_status_two)
{
    static const char *const wrong[] = {
        "",
        "nonsense",
        "top --bars=sometimes",
        "nodes -o xml",
        "allocations --state gone",
        "allocations -n a -A",
        "history x --at tomorrow",
        "history x --gpu --pod",
        "pod a/b/c",
        "pod /x",
        "pod a/b -n c",
        "defrag",
        "defrag --moves 3",
        "defrag --plan --moves 0",
        "defrag --plan --moves 101",
        "defrag --plan --moves 3x",
        "defrag --plan --min-gain -1",
        "defrag --plan --min-gain 1000001",
        "defrag --plan --min-gain 99999999999999999999",
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        const int status = run_program(&shown, wrong[i]);
        if (status != CTL_USAGE || shown.out_bytes != 0 || shown.err_bytes == 0)
            fail_msg("%s: status %d, says %s%s", wrong[i], status, shown.out, shown.err);
        shown_free(&shown);
    }
}

TEST(client__reports_an_absent_server_in_one_sentence)
{
    /* Port 1 of loopback: no server listens there. */
    program_says("nodes --server 127.0.0.1:1", CTL_NO, NULL,
                 "cannot reach milligpud at 127.0.0.1:1");
    assert_int_equal(run_program(&shown, "nodes --server 127.0.0.1:1"), CTL_NO);
    assert_ptr_equal(strchr(shown.err, '\n'), shown.err + shown.err_bytes - 1);
    shown_free(&shown);
    program_says("doctor --server 127.0.0.1:1", CTL_NO, "FAILED   daemon", NULL);
    program_says("doctor --server 127.0.0.1:1", CTL_NO, "do: start milligpud", NULL);
}

TEST(port_file__is_named_when_invalid)
{
    program_says("nodes --port-file /nonexistent/ports", CTL_NO, NULL, "/nonexistent/ports");
    program_says("nodes --port-file /dev/null", CTL_NO, NULL, "admin ADDRESS");
}

TEST(help__needs_no_server)
{
    static const char *const commands[] = {
        "top",     "nodes",       "node",        "allocations",  "pod",
        "waiting", "history",     "summary",     "drift",        "doctor",
        "backup",  "diagnostics", "play",        "check-config", "verify",
        "cordon",  "uncordon",    "usage",       "defrag",       "check-policy",
        "policy",  "keys",        "replace-key", "revoke-key",   "convert",
    };
    char words[64];
    assert_int_equal(run_program(&shown, "--version"), CTL_FINE);
    assert_int_equal(strncmp(shown.out, "milligpuctl 0.", strlen("milligpuctl 0.")), 0);
    shown_free(&shown);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        (void)snprintf(words, sizeof words, "%s --help", commands[i]);
        program_says(words, CTL_FINE, commands[i], NULL);
        program_says(words, CTL_FINE, "--server ADDRESS", NULL);
        program_says("help", CTL_FINE, commands[i], NULL);
    }
}

TEST(help__fits_eighty_columns)
{
    assert_int_equal(run_program(&shown, "help play"), CTL_FINE);
    for (const char *at = shown.out; *at != '\0';) {
        const size_t length = strcspn(at, "\n");
        if (length > 80)
            fail_msg("%.*s", (int)length, at);
        at += length + (at[length] == '\n');
    }
    shown_free(&shown);
}

/* The words of --kind, for completion, and the help are those of the daemon. */
TEST(drift_kinds__are_words_of_their_option)
{
    SCOPED_STRBUF(words);
    SCOPED_STRBUF(help);
    const struct option *option = option_info(OPTION_kind);

    for (size_t kind = 0; kind < DRIFT_KIND_COUNT; kind++) {
        strbuf_printf(&words, "%s%s", kind > 0 ? " " : "", drift_kind_name(kind));
        strbuf_printf(&help, "%s%s", kind > 0 ? ", " : "", drift_kind_name(kind));
    }
    assert_string_equal(option->words, words.data);
    assert_non_null(strstr(option->help, help.data));
}

/* The test e2e.output writes docs/output, and compares. */
static void read_example(struct strbuf *out, const char *command)
{
    const char *source = getenv("MILLIGPU_SOURCE_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    char path[4096];
    char bytes[4096];
    size_t count;

    (void)snprintf(path, sizeof path, "%s/docs/output/%s.txt", source != NULL ? source : ".",
                   command);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        fail_msg("%s: no example of this command", path);
    while ((count = fread(bytes, 1, sizeof bytes, file)) > 0)
        strbuf_add(out, bytes, count);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(out->data[out->len - 1], '\n');
}

static void write_markdown(struct strbuf *out)
{
    options_markdown(out, read_example);
}

/* An option stands once: in a table at the top, or with its only command. */
TEST(documents__have_each_option_once)
{
    SCOPED_STRBUF(page);
    SCOPED_STRBUF(manual);

    write_markdown(&page);
    options_man(&manual);
    for (size_t id = 0; id < OPTIONS; id++) {
        char row[128];
        (void)snprintf(row, sizeof row, "--%s%s%s` | ", option_info(id)->name,
                       option_info(id)->argument[0] != '\0' ? " " : "", option_info(id)->argument);
        assert_int_equal(count_of(page.data, row), 1);
    }
    assert_int_equal(count_of(page.data, "\n```\n$ milligpuctl top\n"), 1);
    assert_int_equal(count_of(manual.data, "\\-\\-sort\\-by \\fICOLUMN"), 1);
}

TEST(documents__equal_their_tables)
{
    document_equals("docs/CLI.md", write_markdown);
    document_equals("docs/man/milligpuctl.1", options_man);
}
