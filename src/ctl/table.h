/*
 * table - rows and columns for people: NAME first, AGE last, nothing but text in the cells.
 *
 * Cells are added one after another; a row is full when every column has one. A number sorts as a
 * number, an age as a time. Printed by libsmartcols. On a terminal, a table fits its width: columns
 * without values are left out, UUIDs are shortened, long texts wrapped. Without a terminal, and
 * with -o wide, every column and every letter is there, so scripts see the same columns always.
 *
 * Invariants:
 *   1. A row is complete before the next one begins and before anything is printed.
 *   2. An empty text is shown as "-", so that columns can be counted by a script.
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

/* All but the first three take effect on a terminal only, and not with -o wide. */
enum {
    COLUMN_RIGHT = 1,
    COLUMN_WIDE = 2,
    COLUMN_WRAP = 4,
    COLUMN_BLANK = 8,  /* left out where no row has a value */
    COLUMN_ZERO = 16,  /* left out where every value is 0 or missing */
    COLUMN_ID = 32,    /* UUIDs are shortened */
    COLUMN_MODEL = 64, /* names of GPU models, shortened if the table is too wide */
    COLUMN_CUT = 128,  /* texts lose their middle if the table is still too wide */
    COLUMN_SPARE_SHIFT = 8,
    COLUMN_NOTE = 1 << 12,  /* written below the table, each text once with its rows */
    COLUMN_LABEL = 1 << 13, /* a part of the name of a row in a note */
};
/* Left out if the table is too wide; the column with the highest rank (1 to 15) goes first. */
#define COLUMN_SPARE(rank) ((unsigned)(rank) << COLUMN_SPARE_SHIFT)
enum { TABLE_COLUMNS_MAX = 32 };

struct table_column {
    const char *name;
    unsigned flags;
};

/* Where and how something is shown. */
struct screen {
    FILE *out;
    bool terminal;
    bool colors;
    bool bars;
    bool utf8;
    bool headers;
    bool wide;
    size_t width;        /* of the terminal */
    size_t rows;         /* of the terminal; 0: not known */
    const char *sort_by; /* a column's name, "-" before it: largest first; NULL: as it comes */
    /* UTC; ages are counted from here */
    int64_t now_ms;
};

struct cell {
    const char *text;
    const char *color; /* a name of libsmartcols, or NULL */
    int64_t number;
    bool numeric;
};

struct table {
    const struct screen *screen;
    const struct table_column *column;
    size_t columns;
    struct arena *arena;
    struct cell *cell; /* columns a row */
    size_t cells;
    size_t capacity;
    size_t lines_max; /* of rows that are printed, if not 0 */
    bool rows_only;   /* no notes, and no word on columns without room */
    size_t left_out;  /* rows that table_print() did not print for lack of lines */
    uint32_t omitted; /* a bit for each column that is never shown */
    uint32_t hidden;  /* a bit for each column; set by table_fit() */
    size_t wrap_min;  /* WRAP_MIN or WRAP_LEAST */
    uint32_t no_room; /* those of hidden for which the terminal is too narrow */
};

void table_init(struct table *table, const struct screen *screen, struct arena *arena,
                const struct table_column *column, size_t columns);
void table_done(struct table *table);

void table_text(struct table *table, const char *text);
void table_printf(struct table *table, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_number(struct table *table, int64_t number);
/* Blank if the object has no such field. */
void table_known(struct table *table, const struct document *object, const char *field);
/*
 * Milli measured by agents: of one object, or the sum of all in a list that have it. "~" in
 * front says that one of these amounts was scaled; the cell sorts as a number all the same. Blank
 * if there is none.
 */
void table_measured(struct table *table, const struct document *object);
void table_measured_sum(struct table *table, const struct document *objects);
void table_age(struct table *table, const char *rfc3339); /* "": unknown */
void table_color(struct table *table, const char *color); /* of the last cell */

/* Fails when screen->sort_by is no column. */
int table_print(struct table *table, struct err *err) MUST_USE;

/* Makes the table fit a terminal as far as it can: sets hidden, shortens and cuts texts. */
void table_fit(struct table *table);
bool table_shows(const struct table *table, size_t column);
/* The width of the longest cell or the heading, in cells of a terminal. */
size_t table_width_of(const struct table *table, size_t column);
/* Columns of a terminal that the text takes: one for each character. */
size_t text_columns(struct text text);
/* The bytes of its first line: up to a space, or else as many characters as fit. */
size_t text_line_bytes(struct text text, size_t width);
/* A column that is wrapped is not narrower, or not than the second if that makes the table fit. */
enum { WRAP_MIN = 24, WRAP_LEAST = 16, SEPARATOR = 2 };

bool table_has_notes(const struct table *table);
/* Appends the notes, in at most so many lines if that is not 0; returns the number of lines. */
size_t table_notes(const struct table *table, size_t lines_max, struct strbuf *out);

/*
 * Writes a line that is already begun up to column `from`; on a terminal, it is broken between
 * words, and lines after the first begin at column `indent`.
 */
void text_fill(const struct screen *screen, const char *text, size_t from, size_t indent);
void text_fill_into(struct strbuf *out, const struct screen *screen, const char *text, size_t from,
                    size_t indent);

/* As kubectl writes them: 45s, 5m10s, 3h, 2d. */
enum { AGE_BYTES = 32 };
void age_format(int64_t ms, char out[AGE_BYTES]);
/* The age of an RFC 3339 time; "-" if it is none. */
void age_of(const struct screen *screen, const char *rfc3339, char out[AGE_BYTES]);

/* width cells for used, reserved and free parts of total; nothing that is used looks free. */
void bar_format(struct strbuf *out, const struct screen *screen, uint32_t width, int64_t used,
                int64_t reserved, int64_t total);

#endif
