#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "lab/cluster/csv.h"
#include "support/test.h"

static char file[] = "/tmp/milligpu-csv-XXXXXX";

static int set_up(void **state __attribute__((unused)))
{
    const int fd = mkstemp(file);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state __attribute__((unused)))
{
    return unlink(file);
}

static void write_bytes(const char *bytes, size_t count)
{
    FILE *out = fopen(file, "we");

    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, count, out), count);
    assert_int_equal(fclose(out), 0);
}

/* The two columns b and a of a file with further ones. */
struct reader {
    struct csv csv;
    size_t at[2];
};

static int open_text(struct reader *reader, struct text text, struct err *err)
{
    static const char *const names[] = {"b", "a"};

    write_bytes(text.at, text.len);
    assert_int_equal(csv_open(&reader->csv, file, err), 0);
    return csv_header(&reader->csv, names, 2, reader->at, err);
}

static void expect_record(struct reader *reader, const char *a, const char *b)
{
    struct err err = {0};

    if (csv_next(&reader->csv, &err) != 1)
        fail_msg("no record \"%s\": %s", a, err.text);
    const struct text of_a = reader->csv.field[reader->at[1]].text;
    const struct text of_b = reader->csv.field[reader->at[0]].text;
    if (!text_is(of_a, a) || !text_is(of_b, b))
        fail_msg("\"%.*s\" \"%.*s\" instead of \"%s\" \"%s\"", TEXT_ARG(of_a), TEXT_ARG(of_b), a,
                 b);
}

static void expect_end(struct reader *reader)
{
    struct err err;

    assert_int_equal(csv_next(&reader->csv, &err), 0);
    csv_close(&reader->csv);
}

TEST(csv__finds_columns_by_name)
{
    struct reader reader;
    struct err err;

    assert_int_equal(open_text(&reader, TEXT("a,x,b\n1,2,3\n,,\n"), &err), 0);
    expect_record(&reader, "1", "3");
    expect_record(&reader, "", "");
    expect_end(&reader);
    assert_int_equal(open_text(&reader, TEXT("b,a\n1,2"), &err), 0);
    expect_record(&reader, "2", "1");
    expect_end(&reader);
}

TEST(csv__skips_byte_order_mark_line_ends_and_last_empty_lines)
{
    struct reader reader;
    struct err err;

    assert_int_equal(open_text(&reader,
                               TEXT("\xef\xbb\xbf"
                                    "a,b\r\n1,2\r\n3,4\n\r\n\n"),
                               &err),
                     0);
    expect_record(&reader, "1", "2");
    expect_record(&reader, "3", "4");
    expect_end(&reader);
}

TEST(csv__reads_commas_quotes_and_lines_in_quotes)
{
    struct reader reader;
    struct err err;

    assert_int_equal(
        open_text(&reader, TEXT("\"a\",b\n\"1,2\",\"say \"\"x\"\"\"\n\"\",\"two\nlines\"\r\n5,6\n"),
                  &err),
        0);
    expect_record(&reader, "1,2", "say \"x\"");
    expect_record(&reader, "", "two\nlines");
    expect_record(&reader, "5", "6");
    assert_int_equal(reader.csv.field[0].line, 5);
    expect_end(&reader);
}

TEST(csv__reports_the_place_of_an_error)
{
    static const struct {
        struct text text;
        const char *says;
    } row[] = {
        {TEXT(""), ":1:1: the file is empty: it begins with a header; write b,a, in any order"},
        {TEXT("\n\n"), ":1:1: the file is empty"},
        {TEXT("a,c\n"), ":1:1: the header has no column b; write b,a, in any order"},
        {TEXT("a,b,a\n"), ":1:5: a second column a: each is there once; write b,a"},
        {TEXT("a,b\n1,2,3\n"), ":2:5: 3 fields, but the header has 2"},
        {TEXT("a,b\n1,2\n3\n"), ":3:1: 1 fields, but the header has 2"},
        {TEXT("a,b\n\n1,2\n"), ":2:1: 1 fields, but the header has 2"},
        {TEXT("a,b\n1,\"2\n"), ":2:3: the quote that begins here never ends"},
        {TEXT("a,b\n\"1\"x,2\n"), ":2:4: text after a closing quote"},
        {TEXT("a,b\n1\"x,2\n"), ":2:2: a quote inside a field"},
        {TEXT("a,b\n1\r,2\n"), ":2:2: a carriage return inside a line"},
        {TEXT("a,b\n1,2\0\n"), ":2:4: a NUL byte"},
        {TEXT("a,b\n1,\"2\0\"\n"), ":2:5: a NUL byte"},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct reader reader = {0};
        struct err err = {0};
        int status = open_text(&reader, row[i].text, &err);
        while (status == 0 || status == 1) {
            status = csv_next(&reader.csv, &err);
            if (status == 0)
                break;
        }
        csv_close(&reader.csv);
        if (status == 0)
            fail_msg("row %zu is not refused", i);
        assert_int_equal(strncmp(err.text, file, strlen(file)), 0);
        if (strncmp(err.text + strlen(file), row[i].says, strlen(row[i].says)) != 0)
            fail_msg("row %zu: %s", i, err.text);
    }
}

TEST(csv__bounds_sizes)
{
    char *text = xmalloc(2 * CSV_FIELD_BYTES_MAX);
    struct reader reader;
    struct err err;

    memset(text, 'x', 2 * CSV_FIELD_BYTES_MAX);
    memcpy(text, "a,b\n", 4);
    assert_int_equal(open_text(&reader, (struct text){text, 4 + CSV_FIELD_BYTES_MAX + 1}, &err), 0);
    assert_true(csv_next(&reader.csv, &err) < 0);
    assert_non_null(strstr(err.text, ":2:1: a field of more than 4096 bytes"));
    csv_close(&reader.csv);
    memset(text, ',', CSV_FIELDS_MAX);
    assert_true(open_text(&reader, (struct text){text, CSV_FIELDS_MAX}, &err) < 0);
    assert_non_null(strstr(err.text, ":1:65: more than 64 fields in a line"));
    csv_close(&reader.csv);
    xfree(text);
}

TEST(csv_number__is_whole_and_in_range)
{
    static const struct csv_range range = {"count", 1, 4000000000};
    static const struct {
        const char *text;
        uint32_t number; /* 0: refused */
    } row[] = {
        {"1", 1},  {"007", 7}, {"4000000000", 4000000000},  {"0", 0},          {"-1", 0},
        {"+1", 0}, {"1.5", 0}, {"4000000001", 0},           {"4294967297", 0}, {"x", 0},
        {"", 0},   {" 1", 0},  {"18446744073709551617", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char text[64];
        char says[128];
        struct reader reader;
        struct err err = {0};
        uint32_t number = 0;
        (void)snprintf(text, sizeof text, "b,a\nx,%s\n", row[i].text);
        assert_int_equal(open_text(&reader, text_of(text), &err), 0);
        assert_int_equal(csv_next(&reader.csv, &err), 1);
        const int status = csv_number(&reader.csv, reader.at[1], &range, &number, &err);
        csv_close(&reader.csv);
        assert_int_equal(status == 0, row[i].number > 0);
        assert_int_equal(number, row[i].number);
        (void)snprintf(says, sizeof says,
                       ":2:3: count is \"%s\": write a whole number from 1 to 4000000000",
                       row[i].text);
        if (status < 0)
            assert_string_equal(err.text + strlen(file), says);
    }
}

static uint32_t csv_random(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525U + 1013904223U;
    return (*state >> 8) % below;
}

/* Whatever the bytes are: every field lies in the file, and every record has all its fields. */
TEST(csv__reads_or_refuses_random_bytes)
{
    static const char letters[] = "ab,,\"\"\r\n\n1\0";
    uint32_t random = 7;
    uint32_t records = 0;
    uint32_t refused = 0;

    for (int round = 0; round < 400; round++) {
        char text[64] = "a,b\n";
        struct reader reader;
        struct err err;
        const size_t length = 4 + csv_random(&random, sizeof text - 4);
        for (size_t i = 4; i < length; i++)
            text[i] = letters[csv_random(&random, sizeof letters - 1)];
        assert_int_equal(open_text(&reader, (struct text){text, length}, &err), 0);
        const struct csv *csv = &reader.csv;
        int status;
        while ((status = csv_next(&reader.csv, &err)) > 0) {
            assert_int_equal(csv->n_fields, 2);
            for (size_t i = 0; i < csv->n_fields; i++) {
                assert_true(csv->field[i].text.at >= csv->bytes);
                assert_true(csv->field[i].text.at + csv->field[i].text.len <= csv->end);
                assert_true(csv->field[i].line > 1 && csv->field[i].line <= csv->line);
                assert_true(csv->field[i].column >= 1 && csv->field[i].column <= length);
            }
            records++;
        }
        refused += status < 0;
        csv_close(&reader.csv);
    }
    assert_true(records > 20);
    assert_true(refused > 100);
}

TEST(csv__names_a_file_that_cannot_be_read)
{
    struct csv csv;
    struct err err;

    assert_true(csv_open(&csv, "/nonexistent/nodes.csv", &err) < 0);
    assert_non_null(strstr(err.text, "/nonexistent/nodes.csv"));
}

TEST_GROUP(set_up, tear_down)
