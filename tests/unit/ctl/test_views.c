/* Views of recorded answers: those of views.txt, and those that need more than a text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"

#include "support/scoped.h"
#include "support/shown.h"
#include "support/test.h"

static struct shown shown;

typedef int view_show(struct ctl *ctl, const struct document *value);

/* Shows a recorded answer as the command `words` would; width: of a terminal, 0 without one. */
static int show_in(size_t width, const char *words, view_show *view, const char *json)
{
    shown_begin(&shown, words);
    shown.ctl.screen.terminal = width > 0;
    shown.ctl.screen.width = width;
    const int status = view(&shown.ctl, answer(&shown, json));
    shown_end(&shown);
    return status;
}

static int show(const char *words, view_show *view, const char *json)
{
    return show_in(0, words, view, json);
}

static int forget(void **state __attribute__((unused)))
{
    shown_free(&shown);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, NULL, forget)

/* --- views.txt; its top describes the language --- */

struct view_table {
    struct strbuf json[2]; /* the answers; the second one may be empty */
    struct strbuf expected;
    char expects; /* kind of expected: '|' the whole output, '=' whole lines of it, 0 nothing */
    bool of_err;
    size_t second; /* the answer that is being read */
    int status;
    int expected_status;
    int line;
    unsigned commands;
};

static struct view_table table;

static int show_top_of_table(struct ctl *ctl, const struct document *value)
{
    const bool has_second = table.json[1].len > 0;
    return show_top(ctl, value, has_second ? answer(&shown, table.json[1].data) : NULL);
}

static view_show *view_of(struct text words)
{
    static const struct {
        const char *words;
        view_show *view;
    } row[] = {{"top", show_top_of_table}, {"nodes", show_nodes},
               {"node", show_node},        {"allocations", show_allocations},
               {"pod", show_pod},          {"waiting", show_waiting},
               {"history", show_history},  {"usage --since", show_usage_past},
               {"usage", show_usage},      {"drift", show_drift},
               {"summary", show_summary},  {"defrag", show_defrag},
               {"policy", show_policy},    {"keys", show_keys},
               {"doctor", show_doctor}};
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const size_t len = strlen(row[i].words);
        if (text_starts(words, row[i].words) && (words.len == len || words.at[len] == ' '))
            return row[i].view;
    }
    fail_msg("views.txt:%d: no such command", table.line);
    return NULL;
}

/* Compares the lines that were expected together. */
static void check_lines(void)
{
    if (table.expects == 0)
        return;
    const char *found = table.of_err ? shown.err : shown.out;
    const char *at = strstr(found, table.expected.data);
    const bool is_so = table.expects == '|' ? strcmp(found, table.expected.data) == 0
                                            : at != NULL && (at == found || at[-1] == '\n');
    if (!is_so)
        fail_msg("views.txt:%d: not\n%s\nbut\n%s", table.line - 1, table.expected.data, found);
    strbuf_reset(&table.expected);
    table.expects = 0;
}

static void expect(bool of_err, char kind, struct text text)
{
    const char *found = of_err ? shown.err : shown.out;
    char words[256];

    if (kind != table.expects || of_err != table.of_err)
        check_lines();
    table.of_err = of_err;
    if (kind == '|' || kind == '=') {
        table.expects = kind;
        strbuf_text(&table.expected, text);
        strbuf_char(&table.expected, '\n');
        return;
    }
    text_clip(text, words, sizeof words);
    const bool is_so = kind == '-'   ? found[0] == '\0'
                       : kind == '~' ? strstr(found, words) != NULL
                                     : kind == '!' && strstr(found, words) == NULL;
    if (!is_so)
        fail_msg("views.txt:%d: %c%s, but\n%s", table.line, kind, words, found);
}

static void end_command(void)
{
    check_lines();
    if (table.status != table.expected_status)
        fail_msg("views.txt:%d: the command before has status %d", table.line, table.status);
    table.expected_status = table.status = CTL_FINE;
}

static void begin_command(struct text words, bool on_terminal)
{
    char line[128];

    end_command();
    text_clip(words, line, sizeof line);
    if (table.commands++ > 0)
        shown_free(&shown);
    table.status = show_in(on_terminal ? 80 : 0, line, view_of(words), table.json[0].data);
    table.second = ARRAY_LEN(table.json);
}

/* A line of an answer: the first one of the next case after a command. */
static void add_answer(struct text line)
{
    if (table.second == ARRAY_LEN(table.json)) {
        end_command();
        strbuf_reset(&table.json[0]);
        strbuf_reset(&table.json[1]);
        table.second = 0;
    }
    strbuf_text(&table.json[table.second], line);
}

static struct text behind(struct text line, size_t mark)
{
    return (struct text){line.at + mark, line.len - mark};
}

static void read_line(struct text line)
{
    const bool of_err = text_starts(line, "2>");
    const size_t mark = of_err ? 2 : 1;

    if (text_starts(line, "$ "))
        begin_command(behind(line, 2), false);
    else if (text_starts(line, "tty$ "))
        begin_command(behind(line, 5), true);
    else if ((of_err || text_starts(line, ">")) && line.len > mark)
        expect(of_err, line.at[mark], behind(line, mark + 1));
    else if (text_is(line, "exit 1"))
        table.expected_status = CTL_NO;
    else if (text_is(line, "and"))
        table.second = 1;
    else if (line.len > 0 && line.at[0] != '#')
        add_answer(line);
}

FIXTURE_TEST(views__are_as_views_txt_has_them)
{
    char name[4096];
    char *text;
    size_t len;
    struct text line;
    struct err err;

    (void)snprintf(name, sizeof name, "%s/tests/unit/ctl/views.txt", getenv("MILLIGPU_SOURCE_DIR"));
    assert_int_equal(file_read(name, 1 << 20, &text, &len, &err), 0);
    table = (struct view_table){.second = ARRAY_LEN(table.json)};
    strbuf_init(&table.json[0]);
    strbuf_init(&table.json[1]);
    strbuf_init(&table.expected);
    for (struct text rest = {text, len}; text_cut(&rest, '\n', &line);) {
        table.line++;
        read_line(line);
    }
    end_command();
    assert_true(table.commands > 70);
    strbuf_done(&table.json[0]);
    strbuf_done(&table.json[1]);
    strbuf_done(&table.expected);
    xfree(text);
}

/* --- views that need more than a text --- */

static int show_top_alone(struct ctl *ctl, const struct document *nodes_answer)
{
    return show_top(ctl, nodes_answer, NULL);
}

FIXTURE_TEST(top__has_colours_only_where_allowed)
{
    static const char one_gpu[] =
        "{\"items\":[{\"name\":\"n1\",\"state\":\"ok\",\"gpus\":[{\"id\":\"GPU-1\",\"milli\":1000,"
        "\"usedMilli\":300,\"freeMilli\":700,\"state\":\"ok\"}]}]}";
    shown_begin(&shown, "top --bars=always");
    shown.ctl.screen.colors = true;
    shown.ctl.screen.terminal = true;
    shown.ctl.screen.width = 120;
    assert_int_equal(show_top(&shown.ctl, answer(&shown, one_gpu), NULL), CTL_FINE);
    shown_end(&shown);
    assert_non_null(strchr(shown.out, '\033'));
    shown_free(&shown);
    assert_int_equal(show("top --bars=always", show_top_alone, one_gpu), CTL_FINE);
    assert_null(strchr(shown.out, '\033'));
}

/* n nodes with 8 GPUs each; the last one has a sick GPU. */
static const char *many_nodes(struct strbuf *out, uint32_t count)
{
    strbuf_str(out, "{\"items\":[");
    for (uint32_t i = 0; i < count; i++) {
        strbuf_printf(out,
                      "%s{\"name\":\"n%02u\",\"model\":\"NVIDIA-L4\",\"state\":\"ok\","
                      "\"stateText\":\"\",\"totalMilli\":8000,\"usedMilli\":%u,\"freeMilli\":%u,"
                      "\"closedMilli\":%u,\"gpus\":[",
                      i > 0 ? "," : "", i, i * 100, i + 1 == count ? 6000 : 8000 - i * 100,
                      i + 1 == count ? 2000 - i * 100 : 0);
        for (uint32_t gpu = 0; gpu < 8; gpu++)
            strbuf_printf(
                out, "%s{\"id\":\"g%u\",\"index\":%u,\"milli\":1000,\"state\":\"%s\"%s}",
                gpu > 0 ? "," : "", gpu, gpu, i + 1 == count && gpu < 2 ? "unhealthy" : "ok",
                i + 1 == count && gpu == 1 ? ",\"healthText\":\"XID 79, since noon\"" : "");
        strbuf_str(out, "]}");
    }
    strbuf_str(out, "]}");
    return out->data;
}

FIXTURE_TEST(top__has_a_line_for_each_node_with_many_gpus)
{
    SCOPED_STRBUF(eight);
    SCOPED_STRBUF(nine);

    (void)many_nodes(&eight, 8); /* 64 GPUs */
    (void)many_nodes(&nine, 9);
    assert_int_equal(show_in(80, "top", show_top_alone, eight.data), CTL_FINE);
    assert_non_null(strstr(shown.out, "NODE  GPU  MODEL"));
    assert_non_null(strstr(shown.out, "\n\nn07/1: XID 79, since noon\n"));
    shown_free(&shown);
    assert_int_equal(show_in(80, "top", show_top_alone, nine.data), CTL_FINE);
    assert_non_null(strstr(shown.out, "NODE  GPUS  MODEL      TOTAL  USED  FREE  CLOSED  STATE\n"
                                      "n00      8  NVIDIA-L4   8000     0  8000       0  ok"));
    assert_non_null(
        strstr(shown.out, "n08      8  NVIDIA-L4   8000   800  6000    1200  unhealthy"));
    assert_non_null(strstr(shown.out, "n08: 2 of 8 GPUs unhealthy: XID 79, since noon\n"));
    shown_free(&shown);
    static const char *const by_gpu[] = {"top --by gpu", "top --node n01", "top --state ok",
                                         "top -n a", "top -o wide"};
    for (size_t i = 0; i < ARRAY_LEN(by_gpu); i++) {
        assert_int_equal(show_in(80, by_gpu[i], show_top_alone, nine.data), CTL_FINE);
        if (strncmp(shown.out, "NODE  GPU  ", strlen("NODE  GPU  ")) != 0)
            fail_msg("%s: %s", by_gpu[i], shown.out);
        shown_free(&shown);
    }
    assert_int_equal(show("top", show_top_alone, nine.data), CTL_FINE); /* no terminal */
    assert_non_null(strstr(shown.out, "NODE  GPU  "));
    shown_free(&shown);
    assert_int_equal(show("top --by node", show_top_alone, eight.data), CTL_FINE);
    assert_non_null(
        strstr(shown.out, "NODE  GPUS  MODEL      TOTAL  USED  RESERVED  MEASURED  FREE"));
}

/* 24 lines: nodes that need a look come first, and the rest is counted. */
FIXTURE_TEST(top__fits_the_rows_of_a_watched_terminal)
{
    SCOPED_STRBUF(many);

    (void)many_nodes(&many, 20);
    shown_begin(&shown, "top --watch");
    shown.ctl.screen.terminal = true;
    shown.ctl.screen.width = 80;
    shown.ctl.screen.rows = 24;
    assert_int_equal(show_top(&shown.ctl, answer(&shown, many.data),
                              answer(&shown, "{\"nodes\":20,\"gpus\":160,\"waitingPods\":1}")),
                     CTL_FINE);
    shown_end(&shown);
    const char *sick = strstr(shown.out, "n19 ");
    const char *first = strstr(shown.out, "n00 ");
    assert_non_null(sick);
    assert_non_null(first);
    assert_true(sick < first);
    assert_non_null(strstr(shown.out, "more nodes; what needs a look comes first"));
    size_t lines = 0;
    for (const char *at = shown.out; *at != '\0'; at++)
        lines += *at == '\n';
    assert_in_range(lines, 12, 23);
}

/* Such text comes from annotations that tenants write and models that nodes show. */
FIXTURE_TEST(views__escape_foreign_text)
{
#define ODD "\\u001b]0;x\\u0007\\u202e\\u009b2J"
    static const char node[] = "{\"name\":\"n" ODD "\",\"model\":\"" ODD "\",\"stateText\":\"" ODD
                               "\",\"gpus\":[{\"id\":\"" ODD "\",\"model\":\"" ODD
                               "\",\"state\":\"" ODD "\"}],\"allocations\":[{\"namespace\":\"" ODD
                               "\",\"name\":\"" ODD "\",\"state\":\"" ODD "\"}]}";
    static const char pod[] = "{\"namespace\":\"d\",\"name\":\"p\",\"request\":\"" ODD
                              "\",\"text\":\"" ODD "\",\"node\":\"" ODD "\",\"reason\":\"" ODD
                              "\",\"waiting\":{\"text\":\"" ODD "\",\"request\":\"" ODD
                              "\"},\"annotation\":\"" ODD "\",\"history\":[{\"why\":\"" ODD "\"}]}";
    static const char list[] =
        "{\"items\":[{\"namespace\":\"" ODD "\",\"name\":\"" ODD "\",\"node\":\"" ODD
        "\",\"text\":\"" ODD "\",\"request\":\"" ODD "\",\"kind\":\"" ODD "\",\"gpu\":\"" ODD
        "\",\"why\":\"" ODD "\",\"state\":\"" ODD "\",\"origin\":\"" ODD "\",\"uid\":\"" ODD
        "\",\"over\":[{\"how\":\"" ODD "\",\"at\":\"" ODD "\"}]}]}";
    static const struct {
        const char *words;
        view_show *view;
        const char *json;
    } row[] = {
        {"node n", show_node, node},
        {"pod p", show_pod, pod},
        {"allocations", show_allocations, list},
        {"waiting", show_waiting, list},
        {"usage", show_usage, list},
        {"usage", show_usage_past, list},
        {"history x", show_history, list},
        {"drift", show_drift, list},
    };
    static const char *const formats[] = {"", " -o wide", " -o name", " -o json", " -o yaml"};

    for (size_t i = 0; i < ARRAY_LEN(row) * ARRAY_LEN(formats); i++) {
        char words[64];
        if (i > 0)
            shown_free(&shown);
        (void)snprintf(words, sizeof words, "%s%s", row[i % ARRAY_LEN(row)].words,
                       formats[i / ARRAY_LEN(row)]);
        (void)show(words, row[i % ARRAY_LEN(row)].view, row[i % ARRAY_LEN(row)].json);
        for (size_t at = 0; at < shown.out_bytes; at++) {
            const unsigned char c = (unsigned char)shown.out[at];
            if ((c < ' ' && c != '\n') || c >= 0x7f)
                fail_msg("%s: byte %02x in %s", words, c, shown.out);
        }
        if (strcasestr(shown.out, "u202e") == NULL && strstr(words, "-o name") == NULL)
            fail_msg("%s shows nothing of it: %s", words, shown.out);
    }
#undef ODD
}

FIXTURE_TEST(views__survive_answers_of_another_shape)
{
    static const char *const odd[] = {
        "{}",
        "[]",
        "null",
        "17",
        "{\"items\":17}",
        "{\"items\":[17,null,[],{}]}",
        "{\"items\":[{\"name\":17,\"gpus\":[17,{}],\"charges\":{\"a\":1},\"milli\":\"x\"}]}",
        "{\"checks\":[1],\"gpus\":[1],\"models\":[1],\"allocation\":17,\"waiting\":[],\"nodes\":1}",
        "{\"rules\":[17,{}],\"failed\":17}",
    };
    int (*const views[])(struct ctl *, const struct document *) = {
        show_nodes, show_node,    show_allocations, show_pod,    show_waiting, show_history,
        show_drift, show_summary, show_doctor,      show_defrag, show_policy,  show_keys,
    };
    for (size_t i = 0; i < ARRAY_LEN(odd); i++)
        for (size_t j = 0; j < ARRAY_LEN(views); j++) {
            const int status = show("nodes", views[j], odd[i]);
            assert_true(status == CTL_FINE || (views[j] == show_doctor && status == CTL_NO));
            shown_free(&shown);
            shown_begin(&shown, "nodes");
            shown.ctl.screen.terminal = true;
            shown.ctl.screen.width = 1 + 7 * i; /* narrow ones, too */
            assert_int_equal(views[j](&shown.ctl, answer(&shown, odd[i])), status);
            shown_end(&shown);
            shown_free(&shown);
        }
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        shown_begin(&shown, i % 2 == 0 ? "top --by node --watch" : "top --watch");
        shown.ctl.screen.terminal = true;
        shown.ctl.screen.width = 1 + 9 * i;
        shown.ctl.screen.rows = 1 + 3 * i;
        assert_int_equal(show_top(&shown.ctl, answer(&shown, odd[i]), answer(&shown, "17")),
                         CTL_FINE);
        shown_end(&shown);
        shown_free(&shown);
    }
    shown_begin(&shown, "top");
    assert_int_equal(show_top(&shown.ctl, answer(&shown, odd[6]), answer(&shown, "17")), CTL_FINE);
    shown_end(&shown);
}

FIXTURE_TEST(moment__is_absolute_or_an_age)
{
    static const struct {
        const char *given;
        const char *want;
    } cases[] = {
        {"2026-01-01T14:05:00Z", "2026-01-01T14:05:00Z"},
        {"5s", "2026-01-02T03:04:00.000Z"},
        {"4m", "2026-01-02T03:00:05.000Z"},
        {"3h", "2026-01-02T00:04:05.000Z"},
        {"1d", "2026-01-01T03:04:05.000Z"},
    };
    static const char *const invalid[] = {
        "", "1", "1w", "-1d", "1dd", "12345678901d", "yesterday", "2026-13-01T00:00:00Z"};
    char out[AGE_BYTES + 32];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        at_format(cases[i].given, NOW_MS, out);
        assert_string_equal(out, cases[i].want);
    }
    for (size_t i = 0; i < ARRAY_LEN(invalid); i++) {
        at_format(invalid[i], NOW_MS, out);
        assert_string_equal(out, "");
    }
    shown_begin(&shown, "top");
    shown_end(&shown);
}
