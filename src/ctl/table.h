/*
 * table - rows and columns for people: NAME first, AGE last, only text in the cells.
 *
 * Cells are added one after another; a row is complete when every column has one. Numbers sort as
 * numbers, ages as times. Printed by libsmartcols. On a terminal, a table fits its width: columns
 * without values are left out, UUIDs shortened, long texts wrapped. Without a terminal, and with
 * -o wide, all columns and texts are complete, so that scripts always get the same columns.
 *
 * Invariants:
 *   1. A row is complete before the next one begins and before anything is printed.
 *   2. An empty text is shown as "-", so that scripts can count columns.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_TABLE_H
#define MILLIGPU_CTL_TABLE_H

#include <stdio.h>

#include "milligpu/base/arena.h"
#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/document/document.h"

/* All flags but the first three apply only on a terminal, and not with -o wide. */
enum {
    COLUMN_RIGHT = 1,
    COLUMN_WIDE = 2,
    COLUMN_WRAP = 4,
    COLUMN_BLANK = 8,  /* left out if no row has a value */
    COLUMN_ZERO = 16,  /* left out if every value is 0 or missing */
    COLUMN_ID = 32,    /* UUIDs, which are shortened */
    COLUMN_MODEL = 64, /* GPU models, which are shortened if the table is too wide */
    COLUMN_CUT = 128,  /* texts whose middle is cut if the table is still too wide */
    COLUMN_SPARE_SHIFT = 8,
    COLUMN_NOTE = 1 << 12,  /* written below the table, each text once with its rows */
    COLUMN_LABEL = 1 << 13, /* part of the name of a row in notes */
};
/* Left out if the table is too wide; the column with the highest rank (1 to 15) goes first. */
#define COLUMN_SPARE(rank) ((unsigned)(rank) << COLUMN_SPARE_SHIFT)
enum { TABLE_COLUMNS_MAX = 32 };

struct table_column {
    const char *name;
    unsigned flags;
};

/* The output stream and its properties. */
struct screen {
    FILE *out;
    bool terminal;
    bool colors;
    bool bars;
    bool utf8;
    bool headers;
    bool wide;
    size_t width;        /* of the terminal, in columns */
    size_t rows;         /* of the terminal; 0 if unknown */
    const char *sort_by; /* column name, with "-" in front for descending; NULL for input order */
    int64_t now_ms;      /* UTC; the end of ages */
};

struct cell {
    const char *text;
    const char *color; /* name in libsmartcols, or NULL */
    int64_t number;
    bool numeric;
};

struct table {
    const struct screen *screen;
    const struct table_column *column;
    size_t n_columns;
    struct arena *arena;
    struct cell *cell; /* owned; row by row */
    size_t n_cells;
    size_t capacity;
    size_t lines_max; /* limit of lines for rows; 0 for none */
    bool rows_only;   /* prints neither notes nor the hint about hidden columns */
    size_t left_out;  /* rows that table_print() left out because of lines_max */
    uint32_t omitted; /* bit set of columns that are never shown */
    uint32_t hidden;  /* bit set of columns that table_fit() hides */
    size_t wrap_min;  /* WRAP_MIN or WRAP_LEAST */
    uint32_t no_room; /* subset of hidden: columns that the terminal is too narrow for */
};

void table_init(struct table *table, const struct screen *screen, struct arena *arena,
                const struct table_column *column, size_t columns);
void table_done(struct table *table);

void table_text(struct table *table, const char *text);
void table_printf(struct table *table, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_number(struct table *table, int64_t number);
/* The number in the field; blank if the object has none. */
void table_known(struct table *table, const struct document *object, const char *field);
/*
 * Milli measured by agents: of one object, or the sum of a list; blank if none. "~" in front means
 * that an amount was scaled; the cell still sorts as a number.
 */
void table_measured(struct table *table, const struct document *object);
void table_measured_sum(struct table *table, const struct document *objects);
void table_age(struct table *table, const char *rfc3339); /* "" if unknown */
void table_color(struct table *table, const char *color); /* colors the last cell */

/* Fails if screen->sort_by names no column. */
int table_print(struct table *table, struct err *err) MUST_USE;

/* Makes the table fit the terminal as far as possible: sets hidden, shortens and cuts texts. */
void table_fit(struct table *table);
bool table_shows(const struct table *table, size_t column);
/* The width of the longest cell or the heading, in columns of a terminal. */
size_t table_width_of(const struct table *table, size_t column);
/* The width of the text in columns of a terminal: one for each character. */
size_t text_columns(struct text text);
/* The bytes of the text's first line: up to a space, or else as many characters as fit. */
size_t text_line_bytes(struct text text, size_t width);
/*
 * WRAP_MIN: the least width of a wrapped column; WRAP_LEAST: the one used if it makes the table
 * fit.
 */
enum { WRAP_MIN = 24, WRAP_LEAST = 16, SEPARATOR = 2 };

bool table_has_notes(const struct table *table);
/* Appends the notes, in at most lines_max lines (0 for no limit); returns the number of lines. */
size_t table_notes(const struct table *table, size_t lines_max, struct strbuf *out);

/*
 * Writes the rest of a line from column `from`; on a terminal, broken between words, with further
 * lines indented to column `indent`.
 */
void text_fill(const struct screen *screen, const char *text, size_t from, size_t indent);
void text_fill_into(struct strbuf *out, const struct screen *screen, const char *text, size_t from,
                    size_t indent);

/* Ages as kubectl writes them: 45s, 5m10s, 3h, 2d. */
enum { AGE_BYTES = 32 };
void age_format(int64_t ms, char out[AGE_BYTES]);
/* The age of an RFC 3339 time; "-" if invalid. */
void age_of(const struct screen *screen, const char *rfc3339, char out[AGE_BYTES]);

/*
 * Draws used, reserved and free parts of total in width columns; parts are rounded up, so that used
 * amounts never look free.
 */
void bar_format(struct strbuf *out, const struct screen *screen, uint32_t width, int64_t used,
                int64_t reserved, int64_t total);

#endif
