/*
 * Reads CSV for the command simulate. Records are parsed in place (a quoted field is moved over its
 * quotes), so a file of a million lines needs no more memory than its own size.
 */
#include "csv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"

enum { CSV_SHOWN_MAX = 96 };

static int csv_wrong_at(const struct csv *csv, const char *at, struct err *err, const char *what)
{
    must(at >= csv->line_start);
    return err_set(err, ERR_INVALID, "%.200s:%u:%zu: %s", csv->file, csv->line,
                   (size_t)(at - csv->line_start) + 1, what);
}

int csv_wrong(const struct csv *csv, size_t field, struct err *err, const char *fmt, ...)
{
    char what[ERR_TEXT_MAX];
    va_list arguments;

    must(field < csv->n_fields);
    va_start(arguments, fmt);
    (void)vsnprintf(what, sizeof what, fmt, arguments); /* truncated if too long */
    va_end(arguments);
    return err_set(err, ERR_INVALID, "%.200s:%u:%u: %.300s", csv->file, csv->field[field].line,
                   csv->field[field].column, what);
}

int csv_open(struct csv *csv, const char *file, struct err *err)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t bytes;

    must(file != NULL);
    *csv = (struct csv){.file = file, .line = 1};
    if (file_read(file, CSV_FILE_BYTES_MAX, &csv->bytes, &bytes, err) < 0)
        return err_same(err);
    csv->at = csv->bytes;
    csv->end = csv->bytes + bytes;
    if (bytes >= strlen(mark) && memcmp(csv->at, mark, strlen(mark)) == 0)
        csv->at += strlen(mark);
    csv->line_start = csv->at;
    return 0;
}

void csv_close(struct csv *csv)
{
    xfree(csv->bytes);
    *csv = (struct csv){0};
}

/* --- one record --- */

/* True at LF or CRLF. */
static bool csv_at_line_end(const struct csv *csv)
{
    return csv->at == csv->end || csv->at[0] == '\n' ||
           (csv->at[0] == '\r' && csv->at + 1 < csv->end && csv->at[1] == '\n');
}

static void csv_skip_line_end(struct csv *csv)
{
    must(csv_at_line_end(csv));
    if (csv->at == csv->end)
        return;
    csv->at += csv->at[0] == '\r' ? 2 : 1;
    csv->line++;
    csv->line_start = csv->at;
}

static int csv_plain_field(struct csv *csv, struct csv_field *out, struct err *err)
{
    char *const start = csv->at;

    for (; !csv_at_line_end(csv) && csv->at[0] != ','; csv->at++) {
        if (csv->at[0] == '\0')
            return csv_wrong_at(csv, csv->at, err, "a NUL byte: this is no text");
        if (csv->at[0] == '\r')
            return csv_wrong_at(csv, csv->at, err,
                                "a carriage return inside a line: lines end in LF or CRLF");
        if (csv->at[0] == '"')
            return csv_wrong_at(csv, csv->at, err,
                                "a quote inside a field: write the whole field in quotes, and "
                                "each quote in it twice");
    }
    out->text = (struct text){start, (size_t)(csv->at - start)};
    return 0;
}

/* Moves the text over the first quote, and over one of each two quotes inside. */
static int csv_quoted_field(struct csv *csv, struct csv_field *out, struct err *err)
{
    char *const start = csv->at;
    const struct csv opened = *csv;
    char *to = start;

    must(start[0] == '"');
    for (csv->at++; csv->at < csv->end; csv->at++) {
        if (csv->at[0] == '\0')
            return csv_wrong_at(csv, csv->at, err, "a NUL byte: this is no text");
        if (csv->at[0] == '"') {
            if (csv->at + 1 == csv->end || csv->at[1] != '"')
                break;
            csv->at++;
        } else if (csv->at[0] == '\n') {
            csv->line++;
            csv->line_start = csv->at + 1;
        }
        *to++ = csv->at[0];
    }
    if (csv->at == csv->end)
        return csv_wrong_at(&opened, start, err, "the quote that begins here never ends");
    csv->at++;
    if (!csv_at_line_end(csv) && csv->at[0] != ',')
        return csv_wrong_at(csv, csv->at, err,
                            "text after a closing quote: write , or end the line");
    out->text = (struct text){start, (size_t)(to - start)};
    return 0;
}

static int csv_read_field(struct csv *csv, struct err *err)
{
    if (csv->n_fields == CSV_FIELDS_MAX)
        return csv_wrong_at(csv, csv->at, err, "more than 64 fields in a line");
    struct csv_field *field = &csv->field[csv->n_fields];
    static_assert(CSV_FIELDS_MAX == 64 && CSV_FIELD_BYTES_MAX == 4096, "as the texts say");

    field->line = csv->line;
    field->column = (uint32_t)(csv->at - csv->line_start) + 1;
    const bool quoted = csv->at < csv->end && csv->at[0] == '"';
    const int status =
        quoted ? csv_quoted_field(csv, field, err) : csv_plain_field(csv, field, err);
    if (status < 0)
        return status;
    csv->n_fields++;
    if (field->text.len > CSV_FIELD_BYTES_MAX)
        return csv_wrong(csv, csv->n_fields - 1, err, "a field of more than 4096 bytes");
    return 0;
}

static int csv_record(struct csv *csv, struct err *err)
{
    csv->n_fields = 0;
    for (;;) {
        if (csv_read_field(csv, err) < 0)
            return err_same(err);
        if (csv_at_line_end(csv))
            break;
        must(csv->at[0] == ',');
        csv->at++;
    }
    csv_skip_line_end(csv);
    return 1;
}

/* True if only line ends follow. Called at the beginning of a line. */
static bool csv_is_at_end(const struct csv *csv)
{
    const char *at = csv->at;

    must(at <= csv->end);
    while (at < csv->end && (*at == '\n' || *at == '\r'))
        at++;
    return at == csv->end;
}

int csv_next(struct csv *csv, struct err *err)
{
    must(csv->columns > 0);
    if (csv_is_at_end(csv))
        return 0;
    const int status = csv_record(csv, err);
    if (status > 0 && csv->n_fields != csv->columns)
        return csv_wrong(csv, csv->n_fields - 1, err, "%zu fields, but the header has %zu",
                         csv->n_fields, csv->columns);
    return status;
}

/* --- the header --- */

static int csv_find_column(const struct csv *csv, const char *name, size_t *at, struct err *err)
{
    size_t found = csv->columns;

    must(name[0] != '\0');
    for (size_t i = 0; i < csv->columns; i++) {
        if (!text_is(csv->field[i].text, name))
            continue;
        if (found < csv->columns)
            return csv_wrong(csv, i, err, "a second column %s: each is there once", name);
        found = i;
    }
    if (found == csv->columns)
        return csv_wrong(csv, 0, err, "the header has no column %s", name);
    *at = found;
    return 0;
}

/* Appends the required columns to an error of the header. */
static int csv_add_columns(const char *const *name, size_t names, struct err *err)
{
    char list[ERR_TEXT_MAX / 2] = "";
    size_t length = 0;

    must(names > 0);
    for (size_t i = 0; i < names && length < sizeof list; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i > 0 ? "," : "",
                                   name[i]);
    const struct err wrong = *err;
    return err_set(err, wrong.code, "%.250s; write %.250s, in any order", wrong.text, list);
}

int csv_header(struct csv *csv, const char *const *name, size_t names, size_t *at, struct err *err)
{
    must(csv->columns == 0);
    must(names <= CSV_FIELDS_MAX);
    if (csv_is_at_end(csv)) {
        (void)err_set(err, ERR_INVALID, "%.200s:1:1: the file is empty: it begins with a header",
                      csv->file);
        return csv_add_columns(name, names, err);
    }
    if (csv_record(csv, err) < 0)
        return err_same(err);
    csv->columns = csv->n_fields;
    for (size_t i = 0; i < names; i++)
        if (csv_find_column(csv, name[i], &at[i], err) < 0)
            return csv_add_columns(name, names, err);
    return 0;
}

/* --- numbers --- */

static bool csv_digits(struct text text, uint64_t *out)
{
    uint64_t number = 0;

    must(out != NULL);
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        if (number <= UINT32_MAX)
            number = 10 * number + (uint64_t)(text.at[i] - '0');
    }
    *out = number;
    return text.len > 0;
}

int csv_number(const struct csv *csv, size_t field, const struct csv_range *range, uint32_t *out,
               struct err *err)
{
    char shown[CSV_SHOWN_MAX];
    uint64_t number = 0;

    must(field < csv->n_fields);
    must(range->least <= range->most);
    if (csv_digits(csv->field[field].text, &number) && number >= range->least &&
        number <= range->most) {
        *out = (uint32_t)number;
        return 0;
    }
    text_clip(csv->field[field].text, shown, sizeof shown);
    return csv_wrong(csv, field, err, "%s is \"%s\": write a whole number from %u to %u",
                     range->name, shown, range->least, range->most);
}
