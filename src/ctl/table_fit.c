/*
 * Makes a table fit its terminal. Called by table_print() with all rows, in the only thread. Always
 * leaves out columns without values and shortens UUIDs; then, while the table is too wide, shortens
 * names of models, leaves out spare columns, and finally cuts the middle of the longest texts. Does
 * nothing without a terminal and with -o wide.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "milligpu/base/map.h"

#include "table.h"

enum {
    CUT_EASY = 14,     /* least width of a cut text in the first pass */
    CUT_MIN = 8,       /* least width of a cut text */
    UUID_BYTES = 36,   /* 8-4-4-4-12 hexadecimal digits */
    UUID_KEPT = 8,     /* digits of the first group, which is kept */
    SPARE_MASK = 0x0f, /* ranks of COLUMN_SPARE() */
};

static const char vendor[] = "NVIDIA-";

bool table_shows(const struct table *table, size_t column)
{
    must(column < table->n_columns);
    if (((table->hidden | table->omitted) & (UINT32_C(1) << column)) != 0)
        return false;
    return table->screen->wide || (table->column[column].flags & COLUMN_WIDE) == 0;
}

size_t table_width_of(const struct table *table, size_t column)
{
    size_t width = text_columns(text_of(table->column[column].name));

    must(column < table->n_columns);
    for (size_t i = column; i < table->n_cells; i += table->n_columns) {
        const size_t cell = text_columns(text_of(table->cell[i].text));
        width = cell > width ? cell : width;
    }
    return width;
}

static bool has_flag(const struct table *table, size_t column, unsigned flag)
{
    must(flag != 0);
    return (table->column[column].flags & flag) != 0;
}

bool table_has_notes(const struct table *table)
{
    bool found = false;

    must(table->n_columns > 0);
    for (size_t i = 0; i < table->n_columns; i++)
        found = found || has_flag(table, i, COLUMN_NOTE);
    return found && table->screen->terminal && !table->screen->wide;
}

static void hide(struct table *table, size_t column)
{
    must(column < table->n_columns);
    table->hidden |= UINT32_C(1) << column;
}

/* --- columns without values --- */

static bool is_empty(const struct table *table, size_t column, bool zero_too)
{
    for (size_t i = column; i < table->n_cells; i += table->n_columns) {
        const struct cell *cell = &table->cell[i];
        if (strcmp(cell->text, "-") != 0 && !(zero_too && cell->numeric && cell->number == 0))
            return false;
    }
    return true;
}

static void hide_empty(struct table *table)
{
    must(table->n_columns <= TABLE_COLUMNS_MAX);
    for (size_t i = 0; i < table->n_columns; i++) {
        if (has_flag(table, i, COLUMN_NOTE))
            hide(table, i);
        const bool zero = has_flag(table, i, COLUMN_ZERO);
        if ((zero || has_flag(table, i, COLUMN_BLANK)) && is_empty(table, i, zero))
            hide(table, i);
    }
}

/* --- shorter texts --- */

/* The length up to the end of the first group of the UUID that ends the text; 0 if none. */
static size_t uuid_prefix(struct text text)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

    static_assert(sizeof form == UUID_BYTES + 1, "8-4-4-4-12");
    if (text.len < UUID_BYTES)
        return 0;
    const size_t begin = text.len - UUID_BYTES;
    for (size_t i = 0; i < UUID_BYTES; i++) {
        const char c = text.at[begin + i];
        const bool digit =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (form[i] == '-' ? c != '-' : !digit)
            return 0;
    }
    return begin + UUID_KEPT;
}

/* False if two UUIDs have the same first group and would become the same text. */
static bool are_distinct(const struct table *table, size_t column)
{
    struct map seen; /* whole text, by its prefix */
    bool distinct = true;

    must(column < table->n_columns);
    map_init(&seen);
    for (size_t i = column; distinct && i < table->n_cells; i += table->n_columns) {
        const char *text = table->cell[i].text;
        const size_t kept = uuid_prefix(text_of(text));
        if (kept == 0)
            continue;
        const char *other = map_put(&seen, (struct text){text, kept}, (void *)(uintptr_t)text);
        distinct = other == NULL || strcmp(other, text) == 0;
    }
    map_done(&seen);
    return distinct;
}

static void shorten_ids(const struct table *table)
{
    must(table->screen->terminal);
    for (size_t column = 0; column < table->n_columns; column++) {
        if (!has_flag(table, column, COLUMN_ID) || !are_distinct(table, column))
            continue;
        for (size_t i = column; i < table->n_cells; i += table->n_columns) {
            const struct text text = text_of(table->cell[i].text);
            const size_t kept = uuid_prefix(text);
            if (kept > 0)
                table->cell[i].text = arena_copy(table->arena, text_first(text, kept));
        }
    }
}

/* Removes the vendor's name; options for models accept the rest, too. */
static void shorten_models(const struct table *table)
{
    must(sizeof vendor > 1);
    for (size_t column = 0; column < table->n_columns; column++)
        for (size_t i = column; has_flag(table, column, COLUMN_MODEL) && i < table->n_cells;
             i += table->n_columns) {
            const char *text = table->cell[i].text;
            if (text_starts(text_of(text), vendor) && text[strlen(vendor)] != '\0')
                table->cell[i].text = text + strlen(vendor);
        }
}

/* --- too wide --- */

static size_t needed_width(const struct table *table)
{
    size_t sum = 0;

    for (size_t i = 0; i < table->n_columns; i++) {
        if (!table_shows(table, i))
            continue;
        const size_t width = table_width_of(table, i);
        const bool wraps = has_flag(table, i, COLUMN_WRAP) && width > table->wrap_min;
        sum += (wraps ? table->wrap_min : width) + (sum > 0 ? SEPARATOR : 0);
    }
    return sum;
}

static unsigned spare_rank(const struct table *table, size_t column)
{
    return (table->column[column].flags >> COLUMN_SPARE_SHIFT) & SPARE_MASK;
}

/* The column of --sort-by is never hidden. */
static bool is_sorted_by(const struct table *table, size_t column)
{
    const char *wanted = table->screen->sort_by;

    if (wanted == NULL)
        return false;
    return strcasecmp(table->column[column].name, wanted + (wanted[0] == '-' ? 1 : 0)) == 0;
}

static bool hide_spare(struct table *table)
{
    size_t found = table->n_columns;
    unsigned most = 0;

    for (size_t i = 0; i < table->n_columns; i++)
        if (table_shows(table, i) && spare_rank(table, i) > most && !is_sorted_by(table, i)) {
            most = spare_rank(table, i);
            found = i;
        }
    if (found == table->n_columns)
        return false;
    hide(table, found);
    table->no_room |= UINT32_C(1) << found;
    return true;
}

/* The number of bytes at the start of the text that take so many columns. */
static size_t bytes_of_columns(struct text text, size_t columns)
{
    size_t at = 0;

    for (size_t count = 0; at < text.len; at++)
        if (((unsigned char)text.at[at] & 0xc0) != 0x80 && count++ == columns)
            break;
    must(at <= text.len);
    return at;
}

/* Keeps beginning and end, since names of machines and pods differ at either. */
static const char *cut_middle(const struct table *table, const char *whole, size_t width)
{
    const struct text text = text_of(whole);
    const size_t all = text_columns(text);

    must(width >= CUT_MIN);
    if (all <= width)
        return whole;
    const size_t front = bytes_of_columns(text, width / 2);
    const size_t back = bytes_of_columns(text, all - (width - width / 2 - 1));
    must(front < back && back < text.len);
    return arena_printf(table->arena, "%.*s%s%s", (int)front, whole,
                        table->screen->utf8 ? "…" : "~", whole + back);
}

/* The index of the widest column to cut (`columns` if none), its width, and that of the next. */
static size_t find_widest(const struct table *table, size_t least, size_t *width, size_t *next)
{
    size_t found = table->n_columns;

    *width = least;
    *next = least;
    for (size_t i = 0; i < table->n_columns; i++) {
        if (!table_shows(table, i) || !has_flag(table, i, COLUMN_CUT))
            continue;
        const size_t own = table_width_of(table, i);
        if (own > *width) {
            *next = *width;
            *width = own;
            found = i;
        } else if (own > *next) {
            *next = own;
        }
    }
    must(*next <= *width);
    return found;
}

/* Cuts it to the width of the next one, so that columns shrink evenly. False if none can be cut. */
static bool cut_widest(const struct table *table, size_t least, size_t excess)
{
    size_t widest;
    size_t next;

    must(excess > 0);
    const size_t found = find_widest(table, least, &widest, &next);
    if (found == table->n_columns)
        return false;
    const size_t step = widest - next < 1 ? 1 : widest - next;
    const size_t width = widest - (step < excess ? step : excess);
    for (size_t i = found; i < table->n_cells; i += table->n_columns)
        table->cell[i].text = cut_middle(table, table->cell[i].text, width);
    return table_width_of(table, found) < widest;
}

/* Uses WRAP_LEAST, which is hard to read, only if that makes the table fit. */
static void narrow_wrapped(struct table *table)
{
    const size_t width = table->screen->width;

    must(table->wrap_min == WRAP_MIN);
    if (needed_width(table) <= width)
        return;
    table->wrap_min = WRAP_LEAST;
    if (needed_width(table) > width)
        table->wrap_min = WRAP_MIN;
}

static void cut_texts(const struct table *table, size_t least)
{
    const size_t width = table->screen->width;

    must(least >= CUT_MIN);
    for (size_t needed = needed_width(table); needed > width; needed = needed_width(table))
        if (!cut_widest(table, least, needed - width))
            break;
}

void table_fit(struct table *table)
{
    const size_t width = table->screen->width;

    must(table->n_columns <= TABLE_COLUMNS_MAX);
    table->hidden = 0;
    table->no_room = 0;
    table->wrap_min = WRAP_MIN;
    if (!table->screen->terminal || table->screen->wide || table->n_cells == 0)
        return;
    hide_empty(table);
    shorten_ids(table);
    if (needed_width(table) > width)
        shorten_models(table);
    while (needed_width(table) > width && hide_spare(table))
        continue;
    narrow_wrapped(table);
    cut_texts(table, CUT_EASY);
    cut_texts(table, CUT_MIN);
}
