/*
 * table - rows and columns for people: NAME first, AGE last, nothing but text in the cells.
 *
 * Cells are added one after another; a row is full when every column has one. A number sorts as a
 * number, an age as a time. Printed by libsmartcols: without a terminal nothing is cut, wrapped or
 * coloured.
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

#include "milligpu/arena.h"
#include "milligpu/doc.h"
#include "milligpu/err.h"
#include "milligpu/strbuf.h"

enum { COLUMN_RIGHT = 1, COLUMN_WIDE = 2, COLUMN_WRAP = 4 };

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
};

void table_init(struct table *table, const struct screen *screen, struct arena *arena,
                const struct table_column *column, size_t columns);
void table_done(struct table *table);

void table_text(struct table *table, const char *text);
void table_printf(struct table *table, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_number(struct table *table, int64_t number);
/* Blank if the object has no such field. */
void table_known(struct table *table, const struct doc *object, const char *field);
void table_age(struct table *table, const char *rfc3339); /* "": unknown */
void table_color(struct table *table, const char *color); /* of the last cell */

/* Fails when screen->sort_by is no column. */
int table_print(struct table *table, struct err *err) MUST_USE;

/* As kubectl writes them: 45s, 5m10s, 3h, 2d. */
enum { AGE_BYTES = 32 };
void age_format(int64_t ms, char out[AGE_BYTES]);
/* The age of an RFC 3339 time; "-" if it is none. */
void age_of(const struct screen *screen, const char *rfc3339, char out[AGE_BYTES]);

/* width cells for used, reserved and free parts of total; nothing that is used looks free. */
void bar_format(struct strbuf *out, const struct screen *screen, uint32_t width, int64_t used,
                int64_t reserved, int64_t total);

#endif
