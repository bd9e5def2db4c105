#include <stdio.h>
#include <string.h>

#include "ctl/table.h"
#include "support/scoped.h"
#include "support/test.h"

static struct arena arena;
static struct strbuf printed;

static const struct table_column columns[] = {
    {"NAME", 0}, {"FREE", COLUMN_RIGHT}, {"UID", COLUMN_WIDE}, {"AGE", COLUMN_RIGHT}};

static char *stream_text;
static size_t stream_bytes;

static void begin_table(struct table *table, struct screen *screen, const struct table_column *of,
                        size_t n_columns)
{
    screen->out = open_memstream(&stream_text, &stream_bytes);
    screen->now_ms = 1767323045000; /* 2026-01-02T03:04:05Z */
    assert_non_null(screen->out);
    table_init(table, screen, &arena, of, n_columns);
}

/* Prints the table into printed. */
static int end_table(struct table *table, struct screen *screen, struct err *err)
{
    const int status = table_print(table, err);
    assert_int_equal(fclose(screen->out), 0);
    strbuf_reset(&printed);
    strbuf_str(&printed, stream_text);
    free(stream_text);
    return status;
}

static int print(struct screen *screen, struct err *err)
{
    CLEANUP(table_done) struct table table;

    begin_table(&table, screen, columns, ARRAY_LEN(columns));
    table_text(&table, "beta");
    table_number(&table, 1000);
    table_text(&table, "u1");
    table_age(&table, "2026-01-02T03:03:00Z");
    table_text(&table, "alpha");
    table_number(&table, 90);
    table_text(&table, "");
    table_age(&table, "2026-01-01T03:04:05.000Z");
    table_text(&table, "gamma");
    table_number(&table, 1000);
    table_text(&table, "u3");
    table_age(&table, "");
    return end_table(&table, screen, err);
}

static int begin(void **state __attribute__((unused)))
{
    arena_init(&arena);
    strbuf_init(&printed);
    return 0;
}

static int end(void **state __attribute__((unused)))
{
    arena_done(&arena);
    strbuf_done(&printed);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

static void prints(struct screen *screen, const char *expected)
{
    struct err err;
    assert_int_equal(print(screen, &err), 0);
    assert_string_equal(printed.data, expected);
}

static void has(const char *text)
{
    if (strstr(printed.data, text) == NULL)
        fail_msg("no \"%s\" in\n%s", text, printed.data);
}

FIXTURE_TEST(table__has_name_first_and_age_last)
{
    struct screen screen = {.headers = true};
    prints(&screen, "NAME   FREE  AGE\n"
                    "beta   1000  65s\n"
                    "alpha    90  24h\n"
                    "gamma  1000    -\n");
}

FIXTURE_TEST(table__has_wide_columns_and_optional_headers)
{
    struct screen screen = {.wide = true};
    prints(&screen, "beta   1000  u1   65s\n"
                    "alpha    90  -    24h\n"
                    "gamma  1000  u3     -\n");
}

FIXTURE_TEST(table__sorts_by_any_column_and_is_stable)
{
    static const struct {
        const char *by;
        const char *order;
    } cases[] = {
        {"name", "alpha beta gamma "}, {"-NAME", "gamma beta alpha "},
        {"FREE", "alpha beta gamma "}, {"-free", "beta gamma alpha "},
        {"AGE", "beta alpha gamma "},
    };
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct screen screen = {.sort_by = cases[i].by};
        char order[64] = "";
        assert_int_equal(print(&screen, &err), 0);
        for (const char *at = printed.data; *at != '\0'; at = strchr(at, '\n') + 1)
            (void)snprintf(order + strlen(order), sizeof order - strlen(order), "%.*s ",
                           (int)strcspn(at, " "), at);
        assert_string_equal(order, cases[i].order);
    }
}

FIXTURE_TEST(table__names_the_columns_for_an_unknown_one)
{
    struct screen screen = {.sort_by = "COLOUR"};
    struct err err;
    assert_true(print(&screen, &err) < 0);
    assert_non_null(strstr(err.text, "COLOUR"));
    assert_non_null(strstr(err.text, "NAME, FREE, UID, AGE"));
    assert_string_equal(printed.data, "");
}

FIXTURE_TEST(table__escapes_control_characters)
{
    CLEANUP(table_done) struct table table;
    static const struct table_column one[] = {{"NAME", 0}};
    struct screen screen = {.headers = false};
    struct err err;
    begin_table(&table, &screen, one, 1);
    table_text(&table, "a\033[31mb");
    assert_int_equal(end_table(&table, &screen, &err), 0);
    assert_null(strchr(printed.data, '\033'));
}

static void draw_wrapped(size_t width, bool terminal)
{
    static const struct table_column of[] = {
        {"NODES", COLUMN_RIGHT}, {"WHY NOT", COLUMN_WRAP}, {"NOW", COLUMN_WRAP}, {"AGE", 0}};
    struct screen screen = {.headers = true, .terminal = terminal, .width = width};
    CLEANUP(table_done) struct table table;
    struct err err;

    begin_table(&table, &screen, of, ARRAY_LEN(of));
    table_number(&table, 12);
    table_text(&table, "no GPU with 300 milli free");
    table_text(&table, "largest free piece 0 milli, 0 milli free on 0 of 12 GPUs");
    table_text(&table, "5s");
    table_number(&table, 1);
    table_text(&table, "no GPUs");
    table_text(&table, "");
    table_text(&table, "7s");
    assert_int_equal(end_table(&table, &screen, &err), 0);
}

/* Trailing spaces do not matter to a reader. */
static void assert_lines(const char *want)
{
    struct text have = {printed.data, printed.len};
    struct text rest = text_of(want);
    struct text line;
    struct text expected;

    while (have.len > 0) {
        assert_true(text_cut(&have, '\n', &line));
        while (line.len > 0 && line.at[line.len - 1] == ' ')
            line.len--;
        if (!text_cut(&rest, '\n', &expected) || !text_eq(line, expected))
            fail_msg("got %s", printed.data);
    }
    assert_int_equal(rest.len, 0);
}

FIXTURE_TEST(table__wraps_long_texts_between_words)
{
    draw_wrapped(80, true);
    assert_lines("NODES  WHY NOT                     NOW                                  AGE\n"
                 "   12  no GPU with 300 milli free  largest free piece 0 milli, 0 milli  5s\n"
                 "                                   free on 0 of 12 GPUs\n"
                 "    1  no GPUs                     -                                    7s\n");
    draw_wrapped(20, true);
    assert_lines("NODES  WHY NOT                NOW                       AGE\n"
                 "   12  no GPU with 300 milli  largest free piece 0      5s\n"
                 "       free                   milli, 0 milli free on 0\n"
                 "                              of 12 GPUs\n"
                 "    1  no GPUs                -                         7s\n");
    draw_wrapped(300, true);
    has("milli free  largest free piece 0 milli, 0 milli free on 0 of");
    draw_wrapped(20, false);
    has("milli free  largest free piece 0 milli, 0 milli free on");
}

FIXTURE_TEST(table__breaks_a_word_longer_than_its_column)
{
    static const struct table_column of[] = {{"WHAT", COLUMN_WRAP}};
    struct screen screen = {.terminal = true, .width = 30};
    CLEANUP(table_done) struct table table;
    struct err err;

    begin_table(&table, &screen, of, ARRAY_LEN(of));
    table_text(&table, "see GPU-0123456789-0123456789-0123456789 there");
    assert_int_equal(end_table(&table, &screen, &err), 0);
    assert_lines("see\nGPU-0123456789-0123456789-01\n23456789 there\n");
}

/* --- tables that fit their terminal --- */

static const struct table_column fleet[] = {
    {"NODE", COLUMN_CUT | COLUMN_LABEL},       {"ID", COLUMN_ID},
    {"MODEL", COLUMN_MODEL | COLUMN_SPARE(2)}, {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT | COLUMN_ZERO},  {"MEASURED", COLUMN_RIGHT | COLUMN_BLANK},
    {"PODS", COLUMN_RIGHT | COLUMN_SPARE(1)},  {"REASON", COLUMN_NOTE},
};

struct fleet_row {
    const char *node;
    const char *id;
    const char *model;
    int64_t reserved;
    const char *measured;
    const char *reason;
};

static const struct fleet_row two_nodes[] = {
    {"gpu-node-aaaaaaaa-001", "GPU-11111111-2222-3333-4444-555555555555", "NVIDIA-A100", 0, "", ""},
    {"gpu-node-aaaaaaaa-002", "GPU-aaaaaaaa-2222-3333-4444-555555555555", "Tesla-T4", 0, "",
     "XID 79"},
};

static struct table_run {
    size_t lines_max;
    bool rows_only;
    size_t left_out;
} drawn;

static void draw_fleet(const struct screen *how, const struct fleet_row *row, size_t rows)
{
    CLEANUP(table_done) struct table table;
    struct screen screen = *how;
    struct err err;

    begin_table(&table, &screen, fleet, ARRAY_LEN(fleet));
    table.lines_max = drawn.lines_max;
    table.rows_only = drawn.rows_only;
    for (size_t i = 0; i < rows; i++) {
        table_text(&table, row[i].node);
        table_text(&table, row[i].id);
        table_text(&table, row[i].model);
        table_number(&table, 100);
        table_number(&table, row[i].reserved);
        table_text(&table, row[i].measured);
        table_number(&table, 2);
        table_text(&table, row[i].reason);
    }
    assert_int_equal(end_table(&table, &screen, &err), 0);
    drawn.left_out = table.left_out;
}

FIXTURE_TEST(terminal_table__shows_informative_columns)
{
    const struct screen screen = {.headers = true, .terminal = true, .width = 80};

    draw_fleet(&screen, two_nodes, 2);
    assert_lines("NODE                   ID            MODEL        USED  PODS\n"
                 "gpu-node-aaaaaaaa-001  GPU-11111111  NVIDIA-A100   100     2\n"
                 "gpu-node-aaaaaaaa-002  GPU-aaaaaaaa  Tesla-T4      100     2\n"
                 "\n"
                 "gpu-node-aaaaaaaa-002: XID 79\n");
}

/* One value is enough; 0 is one where COLUMN_ZERO is not said. */
FIXTURE_TEST(terminal_table__keeps_a_column_with_one_value)
{
    const struct screen screen = {.headers = true, .terminal = true, .width = 99};
    struct fleet_row row[] = {two_nodes[0], two_nodes[1]};

    row[1].reserved = 7;
    row[0].measured = "0";
    draw_fleet(&screen, row, 2);
    has("RESERVED  MEASURED");
    has("  0         0     2");
    has("  7         -     2");
}

FIXTURE_TEST(wide_table__has_every_column_and_letter)
{
    const struct screen ways[] = {{.headers = true, .width = 20},
                                  {.headers = true, .terminal = true, .wide = true, .width = 20}};

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        draw_fleet(&ways[i], two_nodes, 2);
        assert_lines(
            "NODE                   ID                                        MODEL        "
            "USED  RESERVED  MEASURED  PODS  REASON\n"
            "gpu-node-aaaaaaaa-001  GPU-11111111-2222-3333-4444-555555555555  NVIDIA-A100  "
            " 100         0         -     2  -\n"
            "gpu-node-aaaaaaaa-002  GPU-aaaaaaaa-2222-3333-4444-555555555555  Tesla-T4     "
            " 100         0         -     2  XID 79\n");
    }
}

/* First the vendor, then spare columns by rank, then the middle of names. */
FIXTURE_TEST(narrow_table__drops_the_least_needed_columns)
{
    struct screen screen = {.headers = true, .terminal = true, .width = 59};

    draw_fleet(&screen, two_nodes, 2); /* one less than is needed */
    has("GPU-11111111  A100       100     2");
    screen.width = 56;
    draw_fleet(&screen, two_nodes, 2); /* one less than is needed with short models */
    assert_lines("NODE                   ID            USED  PODS\n"
                 "gpu-node-aaaaaaaa-001  GPU-11111111   100     2\n"
                 "gpu-node-aaaaaaaa-002  GPU-aaaaaaaa   100     2\n"
                 "MODEL: no room for it in 56 columns; -o wide shows\n"
                 "everything\n"
                 "\n"
                 "gpu-node-aaaaaaaa-002: XID 79\n");
    screen.width = 38;
    draw_fleet(&screen, two_nodes, 2);
    has("NODE                ID            USED\n");
    has("gpu-node-~aaaa-001  GPU-11111111   100\n");
    has("\ngpu-node-aaaaaaaa-002: XID 79\n");
    screen.width = 28; /* the last that can be done: the name has 8 columns */
    draw_fleet(&screen, two_nodes, 2);
    has("gpu-~001  GPU-11111111   100\n");
}

FIXTURE_TEST(terminal_table__keeps_ids_distinct)
{
    const struct screen screen = {.headers = true, .terminal = true, .width = 200};
    struct fleet_row row[] = {two_nodes[0], two_nodes[1], two_nodes[0]};

    draw_fleet(&screen, row, 3); /* one id twice */
    has("GPU-11111111  ");
    row[1].id = "GPU-11111111-2222-3333-4444-555555555556";
    draw_fleet(&screen, row, 3);
    has("GPU-11111111-2222-3333-4444-555555555556  ");
    row[1].id = "GPU-1111111g-2222-3333-4444-555555555555"; /* no UUID */
    draw_fleet(&screen, row, 3);
    has(row[1].id);
    row[1].id = "n/gpu-0";
    draw_fleet(&screen, row, 3);
    has("n/gpu-0 ");
    has("GPU-11111111  ");
}

FIXTURE_TEST(terminal_table__keeps_the_sorted_column)
{
    const struct screen screen = {
        .headers = true, .terminal = true, .width = 50, .sort_by = "-model"};

    draw_fleet(&screen, two_nodes, 2);
    has("Tesla-T4");
    has("PODS: no room for it in 50 columns");
}

FIXTURE_TEST(terminal_table__merges_a_repeated_reason_into_a_note)
{
    const struct screen screen = {.headers = true, .terminal = true, .width = 60};
    struct fleet_row row[] = {two_nodes[0], two_nodes[0], two_nodes[0], two_nodes[0], two_nodes[1]};
    static const char *const names[] = {"a", "b", "c", "d"};

    for (size_t i = 0; i < 4; i++) {
        row[i].node = names[i];
        row[i].reason = i < 3 ? "labels say MIG" : "";
    }
    draw_fleet(&screen, row, 5);
    has("\na, b, c: labels say MIG\ngpu-node-aaaaaaaa-002: XID 79\n");
    row[3].reason = "labels say MIG";
    draw_fleet(&screen, row, 5);
    has("\na, b, c and 1 more: labels say MIG\n");
}

FIXTURE_TEST(watch_table__fits_the_rows_of_the_terminal)
{
    const struct screen screen = {.headers = true, .terminal = true, .width = 80};
    struct fleet_row row[20];
    static char name[20][8];

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        row[i] = two_nodes[i % 2];
        (void)snprintf(name[i], sizeof name[i], "n%zu", i);
        row[i].node = name[i];
        row[i].reason = name[i];
    }
    for (size_t most = 9; most < 40; most += 3) {
        size_t lines = 0;
        drawn = (struct table_run){.lines_max = most};
        draw_fleet(&screen, row, ARRAY_LEN(row));
        for (const char *at = printed.data; *at != '\0'; at++)
            lines += *at == '\n';
        assert_in_range(lines, most > 27 ? 2 : most, most + 2); /* headings, a blank line */
        assert_int_equal(drawn.left_out == 0, strstr(printed.data, "n19 ") != NULL);
    }
    drawn = (struct table_run){.lines_max = 5, .rows_only = true};
    draw_fleet(&screen, row, ARRAY_LEN(row));
    assert_int_equal(drawn.left_out, 15);
    assert_null(strstr(printed.data, "n0: n0"));
    drawn = (struct table_run){0};
}

FIXTURE_TEST(sentence__wraps_only_on_a_terminal)
{
    struct screen screen = {.terminal = true, .width = 40};
    SCOPED_STRBUF(out);

    text_fill_into(&out, &screen, "one two three four five six seven eight nine", 4, 2);
    assert_string_equal(out.data, "one two three four five six seven\n  eight nine\n");
    strbuf_reset(&out);
    screen.terminal = false;
    text_fill_into(&out, &screen, "one two three four five six seven eight nine", 4, 2);
    assert_string_equal(out.data, "one two three four five six seven eight nine\n");
}

FIXTURE_TEST(age__is_written_like_kubectl)
{
    static const struct {
        int64_t s;
        const char *text;
    } ages[] = {
        {-5, "0s"},       {0, "0s"},      {119, "119s"},    {120, "2m"},
        {310, "5m10s"},   {600, "10m"},   {10799, "179m"},  {10800, "3h"},
        {11160, "3h6m"},  {28800, "8h"},  {172799, "47h"},  {172800, "2d"},
        {176400, "2d1h"}, {691200, "8d"}, {63072000, "2y"}, {63158400, "2y1d"},
    };
    char age[AGE_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(ages); i++) {
        age_format(ages[i].s * 1000, age);
        assert_string_equal(age, ages[i].text);
    }
}

static void assert_bar(int64_t used, int64_t reserved, int64_t total, const char *want)
{
    SCOPED_STRBUF(bar);
    const struct screen screen = {0};
    bar_format(&bar, &screen, 10, used, reserved, total);
    assert_string_equal(bar.data, want);
}

FIXTURE_TEST(bar__never_hides_used_amounts)
{
    assert_bar(0, 0, 1000, "..........");
    assert_bar(1, 0, 1000, "#.........");
    assert_bar(500, 0, 1000, "#####.....");
    assert_bar(300, 300, 1000, "###+++....");
    assert_bar(1000, 0, 1000, "##########");
    assert_bar(1500, 0, 1000, "##########");
    assert_bar(901, 0, 1000, "##########");
    assert_bar(250, 0, 500, "#####.....");
    assert_bar(0, 0, 0, "..........");
    assert_bar(300, 0, 0, "##########");
}
