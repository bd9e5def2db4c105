/*
 * Rows and columns for people, drawn by libsmartcols, which aligns, wraps and colors. Called by
 * commands that show tables, in the only thread. Cells are collected row by row and printed by
 * table_print(), because sorting and column widths need all of them. Texts come from
 * document_shown(), so cells contain no terminal escape sequences. Ages and bars are at the end.
 */
#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <libsmartcols/libsmartcols.h>

#include "milligpu/base/alloc.h"
#include "milligpu/wire/kube/wire_kube.h"

void table_init(struct table *table, const struct screen *screen, struct arena *arena,
                const struct table_column *column, size_t columns)
{
    must(columns > 0);
    must(screen->out != NULL);
    *table =
        (struct table){.screen = screen, .column = column, .n_columns = columns, .arena = arena};
}

void table_done(struct table *table)
{
    must(table->n_cells <= table->capacity);
    xfree(table->cell);
    *table = (struct table){0};
}

/* --- cells --- */

/* The pointer is valid only until the next cell, because the array is reallocated. */
static struct cell *add_cell(struct table *table, const char *text)
{
    table->cell = xgrow(table->cell, table->n_cells, &table->capacity, sizeof *table->cell);
    struct cell *cell = &table->cell[table->n_cells++];
    *cell = (struct cell){.text = text[0] != '\0' ? text : "-"};
    return cell;
}

void table_text(struct table *table, const char *text)
{
    must(table->n_columns > 0);
    (void)add_cell(table, arena_copy(table->arena, text_of(text)));
}

void table_printf(struct table *table, const char *fmt, ...)
{
    char text[512];
    va_list args;

    must(fmt != NULL);
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* truncated if too long */
    va_end(args);
    table_text(table, text);
}

static void add_number(struct table *table, const char *mark, int64_t number)
{
    struct cell *cell =
        add_cell(table, arena_printf(table->arena, "%s%lld", mark, (long long)number));

    must(cell->text[0] != '\0');
    cell->number = number;
    cell->numeric = true;
}

void table_number(struct table *table, int64_t number)
{
    must(table->n_columns > 0);
    add_number(table, "", number);
}

void table_known(struct table *table, const struct document *object, const char *field)
{
    if (document_get(object, field) != NULL)
        table_number(table, document_int(object, field));
    else
        table_text(table, "");
}

void table_measured(struct table *table, const struct document *object)
{
    if (document_get(object, "measuredMilli") != NULL)
        add_number(table, document_true(object, "scaled") ? "~" : "",
                   document_int(object, "measuredMilli"));
    else
        table_text(table, "");
}

void table_measured_sum(struct table *table, const struct document *objects)
{
    bool known = false;
    bool scaled = false;
    int64_t sum = 0;

    document_each (object, objects) {
        if (document_get(object, "measuredMilli") == NULL)
            continue;
        known = true;
        scaled = scaled || document_true(object, "scaled");
        sum += document_int(object, "measuredMilli");
    }
    if (known)
        add_number(table, scaled ? "~" : "", sum);
    else
        table_text(table, "");
}

/* Sorts by the age in ms, not by its text; an unknown age comes last. */
void table_age(struct table *table, const char *rfc3339)
{
    char age[AGE_BYTES];
    int64_t at_ms = 0;

    age_of(table->screen, rfc3339, age);
    struct cell *cell = add_cell(table, arena_copy(table->arena, text_of(age)));
    must(cell->text[0] != '\0');
    cell->numeric = true;
    cell->number = time_parse(text_of(rfc3339), &at_ms) ? table->screen->now_ms - at_ms : INT64_MAX;
}

void table_color(struct table *table, const char *color)
{
    must(table->n_cells > 0);
    table->cell[table->n_cells - 1].color = color;
}

/* --- order --- */

struct order {
    size_t column;
    bool descending;
};

/*
 * Ignores case, since headings are upper case and people type lower case. Columns that are not
 * shown count, too.
 */
static int find_column(const struct table *table, struct order *out, struct err *err)
{
    const char *wanted = table->screen->sort_by;
    struct strbuf names;

    out->descending = wanted[0] == '-';
    wanted += out->descending ? 1 : 0;
    strbuf_init(&names);
    for (size_t i = 0; i < table->n_columns; i++) {
        if (strcasecmp(table->column[i].name, wanted) == 0) {
            out->column = i;
            strbuf_done(&names);
            return 0;
        }
        strbuf_printf(&names, "%s%s", i > 0 ? ", " : "", table->column[i].name);
    }
    must(names.len > 0);
    const int status =
        err_set(err, ERR_INVALID, "--sort-by: unknown column %.60s; the columns are %.300s", wanted,
                names.data);
    strbuf_done(&names);
    return status;
}

struct sorted {
    const struct cell *row;
    const struct order *order;
    size_t position;
};

/* Compares texts if one of the cells has no number (such as "-"). */
static int compare_cells(const struct cell *a, const struct cell *b)
{
    must(a->text != NULL && b->text != NULL);
    if (a->numeric && b->numeric)
        return (a->number > b->number) - (a->number < b->number);
    return strcmp(a->text, b->text);
}

/* qsort() is not stable, so the row number is the last criterion, also in descending order. */
static int table_by_order(const void *a, const void *b)
{
    const struct sorted *left = a;
    const struct sorted *right = b;
    const struct order *order = left->order;

    must(order == right->order);
    const int found = compare_cells(&left->row[order->column], &right->row[order->column]);
    if (found != 0)
        return order->descending ? -found : found;
    return left->position < right->position ? -1 : 1; /* equal rows keep their order */
}

/* Checks the order even without rows, so that a script with an invalid --sort-by always fails. */
static int table_sort(const struct table *table, struct sorted *row, size_t rows, struct err *err)
{
    /* borrowed by the rows until qsort() returns */
    struct order order = {0};

    for (size_t i = 0; i < rows; i++)
        row[i] = (struct sorted){&table->cell[i * table->n_columns], &order, i};
    if (table->screen->sort_by == NULL)
        return 0;
    const int status = find_column(table, &order, err);
    if (status == 0 && rows > 1)
        qsort(row, rows, sizeof *row, table_by_order);
    return status;
}

/* --- lines of a cell --- */

enum { WIDER_THAN_ANY = 1 << 16 };

static bool wraps(const struct table *table, size_t column)
{
    return table->screen->terminal && (table->column[column].flags & COLUMN_WRAP) != 0;
}

static const char *wrap_text(struct arena *arena, const char *whole, size_t width)
{
    CLEANUP(strbuf_done) struct strbuf lines;
    struct text rest = text_of(whole);

    strbuf_init(&lines);
    while (rest.len > 0) {
        const size_t bytes = text_line_bytes(rest, width);
        must(bytes > 0);
        if (lines.len > 0)
            strbuf_char(&lines, '\n');
        strbuf_text(&lines, text_first(rest, bytes));
        rest = text_trim((struct text){rest.at + bytes, rest.len - bytes});
    }
    return arena_copy(arena, (struct text){lines.data, lines.len});
}

/*
 * Breaks the texts of wrapped columns between words, so that the row fits the terminal. Narrow
 * columns come first, so that their spare width goes to the others.
 */
static void wrap_cells(const struct table *table)
{
    size_t left = table->screen->width;
    size_t wrapped = 0;

    for (size_t i = 0; i < table->n_columns; i++) {
        if (!table_shows(table, i))
            continue;
        const size_t used = SEPARATOR + (wraps(table, i) ? 0 : table_width_of(table, i));
        left -= used < left ? used : left;
        wrapped += wraps(table, i) ? 1 : 0;
    }
    for (size_t i = 0; i < table->n_columns && wrapped > 0; i++) {
        if (!table_shows(table, i) || !wraps(table, i))
            continue;
        const size_t natural = table_width_of(table, i);
        size_t width = left / wrapped--;
        width = width < table->wrap_min ? table->wrap_min : width;
        must(natural > 0);
        left -= natural < width ? (natural < left ? natural : left) : (width < left ? width : left);
        for (size_t at = i; at < table->n_cells; at += table->n_columns)
            table->cell[at].text = wrap_text(table->arena, table->cell[at].text, width);
    }
}

/* --- printing --- */

/*
 * Without a terminal, nothing is cut or wrapped, so that scripts get whole values. The caller knows
 * whether there is a terminal, so detection by libsmartcols is switched off.
 */
static struct libscols_table *make_scols(const struct table *table)
{
    const struct screen *screen = table->screen;
    struct libscols_table *made = scols_new_table();

    must(made != NULL);
    /* this and the next calls fail only without a table */
    (void)scols_table_set_stream(made, screen->out);
    (void)scols_table_set_column_separator(made, "  ");
    (void)scols_table_enable_noheadings(made, !screen->headers);
    (void)scols_table_enable_colors(made, screen->colors);
    (void)scols_table_set_termforce(made, screen->terminal ? SCOLS_TERMFORCE_ALWAYS
                                                           : SCOLS_TERMFORCE_NEVER);
    /* wrap_cells() has wrapped texts: libsmartcols would break them within words */
    if (screen->terminal)
        (void)scols_table_set_termwidth(made, WIDER_THAN_ANY);
    for (size_t i = 0; i < table->n_columns; i++) {
        int flags = (table->column[i].flags & COLUMN_RIGHT) != 0 ? SCOLS_FL_RIGHT : 0;
        if (!table_shows(table, i))
            continue;
        struct libscols_column *column = scols_table_new_column(
            made, table->column[i].name, 0, wraps(table, i) ? flags | SCOLS_FL_WRAP : flags);
        must(column != NULL);
        if (!wraps(table, i))
            continue;
        (void)scols_column_set_safechars(column, "\n");
        (void)scols_column_set_wrapfunc(column, scols_wrapnl_chunksize, scols_wrapnl_nextchunk,
                                        NULL);
    }
    return made;
}

static void add_row(const struct table *table, struct libscols_table *made, const struct cell *row)
{
    struct libscols_line *line = scols_table_new_line(made, NULL);
    size_t at = 0;

    must(line != NULL);
    for (size_t i = 0; i < table->n_columns; i++) {
        if (!table_shows(table, i))
            continue;
        /* fails only if out of memory */
        (void)scols_line_set_data(line, at, row[i].text);
        if (row[i].color != NULL)
            (void)scols_cell_set_color(scols_line_get_cell(line, at), row[i].color);
        at++;
    }
}

/* The number of lines of the row: of its longest wrapped cell. */
static size_t lines_of(const struct table *table, const struct cell *row)
{
    size_t most = 1;

    for (size_t i = 0; i < table->n_columns; i++) {
        size_t lines = 1;
        for (const char *at = row[i].text; table_shows(table, i) && *at != '\0'; at++)
            lines += *at == '\n';
        most = lines > most ? lines : most;
    }
    must(most >= 1);
    return most;
}

/* The number of rows that fit into lines_max lines; all rows for 0, which means no limit. */
static size_t rows_that_fit(const struct table *table, const struct sorted *row, size_t rows,
                            size_t lines_max)
{
    size_t lines = 0;

    for (size_t i = 0; i < rows && lines_max > 0; i++) {
        lines += lines_of(table, row[i].row);
        if (lines > lines_max)
            return i;
    }
    return rows;
}

/* Names the columns without room, and how to see them. */
static void say_no_room(const struct table *table)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    for (size_t i = 0; i < table->n_columns; i++)
        if ((table->no_room & (UINT32_C(1) << i)) != 0)
            strbuf_printf(&text, "%s%s", text.len > 0 ? ", " : "", table->column[i].name);
    if (text.len == 0 || !table->screen->headers || table->rows_only)
        return;
    strbuf_printf(&text, ": no room for %s in %zu columns; -o wide shows everything",
                  table->no_room & (table->no_room - 1) ? "them" : "it", table->screen->width);
    text_fill(table->screen, text.data, 0, 0);
}

/* An empty table prints no headings. */
static void print_rows(struct table *table, const struct sorted *row, size_t rows)
{
    struct libscols_table *made = make_scols(table);

    for (size_t i = 0; i < rows; i++)
        add_row(table, made, row[i].row);
    if (rows > 0)
        /* errors such as a closed pipe are detected when the stream is flushed */
        (void)scols_print_table(made);
    scols_unref_table(made);
}

int table_print(struct table *table, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf notes;
    const size_t rows = table->n_cells / table->n_columns;

    must(table->n_cells % table->n_columns == 0);
    strbuf_init(&notes);
    struct sorted *row = xcalloc(rows + 1, sizeof *row);
    const int status = table_sort(table, row, rows, err);
    if (status == 0) {
        const size_t most = table->lines_max;
        const size_t lines =
            table->rows_only ? 0 : table_notes(table, most > 0 ? most / 3 + 1 : 0, &notes);
        table_fit(table);
        wrap_cells(table);
        const size_t shown = rows_that_fit(table, row, rows,
                                           most > lines + 1 ? most - lines
                                           : most > 0       ? 1
                                                            : 0);
        table->left_out = rows - shown;
        print_rows(table, row, shown);
        say_no_room(table);
        if (lines > 0)
            (void)fprintf(table->screen->out, "\n%s", notes.data); /* checked in ctl_finish() */
    }
    xfree(row);
    return status;
}

/* --- ages and bars --- */

static const int64_t minute_s = 60;
static const int64_t hour_s = 3600;
static const int64_t day_s = 86400;
static const int64_t year_s = 31536000;

/* Two units if the larger one is small, as in kubectl. */
static void two_units(int64_t s, int64_t large, int64_t small, const char *names,
                      char out[AGE_BYTES])
{
    const int64_t rest = s % large / small;

    must(large > small);
    if (rest == 0)
        (void)snprintf(out, AGE_BYTES, "%lld%c", (long long)(s / large), names[0]);
    else
        (void)snprintf(out, AGE_BYTES, "%lld%c%lld%c", (long long)(s / large), names[0],
                       (long long)rest, names[1]);
}

/*
 * The thresholds are those of kubectl's HumanDuration, up to eight years, so that ages look the
 * same.
 */
void age_format(int64_t ms, char out[AGE_BYTES])
{
    /* negative if the clocks of two machines differ */
    const int64_t s = ms > 0 ? ms / 1000 : 0;

    must(out != NULL);
    if (s < 2 * minute_s)
        (void)snprintf(out, AGE_BYTES, "%llds", (long long)s);
    else if (s < 10 * minute_s)
        two_units(s, minute_s, 1, "ms", out);
    else if (s < 3 * hour_s)
        (void)snprintf(out, AGE_BYTES, "%lldm", (long long)(s / minute_s));
    else if (s < 8 * hour_s)
        two_units(s, hour_s, minute_s, "hm", out);
    else if (s < 2 * day_s)
        (void)snprintf(out, AGE_BYTES, "%lldh", (long long)(s / hour_s));
    else if (s < 8 * day_s)
        two_units(s, day_s, hour_s, "dh", out);
    else if (s < 2 * year_s)
        (void)snprintf(out, AGE_BYTES, "%lldd", (long long)(s / day_s));
    else
        two_units(s, year_s, day_s, "yd", out);
}

void age_of(const struct screen *screen, const char *rfc3339, char out[AGE_BYTES])
{
    int64_t at_ms;

    must(rfc3339 != NULL);
    if (time_parse(text_of(rfc3339), &at_ms))
        age_format(screen->now_ms - at_ms, out);
    else
        (void)snprintf(out, AGE_BYTES, "-");
}

/* Rounds up, so that used amounts never look free. */
static uint32_t table_part(uint32_t width, int64_t amount, int64_t total)
{
    must(total > 0);
    if (amount <= 0)
        return 0;
    if (amount >= total)
        return width;
    return (uint32_t)((amount * width + total - 1) / total);
}

void bar_format(struct strbuf *out, const struct screen *screen, uint32_t width, int64_t used,
                int64_t reserved, int64_t total)
{
    const char *full = screen->utf8 ? "█" : "#";
    const char *half = screen->utf8 ? "▒" : "+";
    const char *none = screen->utf8 ? "░" : ".";
    const int64_t whole = total > 0 ? total : 1;

    must(width > 0);
    const uint32_t a = table_part(width, used, whole);
    const uint32_t b = table_part(width, used + reserved, whole);
    for (uint32_t i = 0; i < width; i++)
        strbuf_str(out, i < a ? full : i < b ? half : none);
}
