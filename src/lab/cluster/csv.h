/*
 * csv - a file of comma-separated values with a header, read strictly.
 *
 * Quotes as in RFC 4180; lines end in LF or CRLF; a byte-order mark at the beginning is skipped,
 * and so are empty lines at the end. Columns are found by their names in the header, in any order.
 * An error says FILE:LINE:COLUMN, what is wrong there, and what would be right; COLUMN counts
 * bytes.
 *
 * The whole file is in memory, and fields point into it, so they live until csv_close().
 */
#ifndef MILLIGPU_CTL_CSV_H
#define MILLIGPU_CTL_CSV_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

enum {
    CSV_FILE_BYTES_MAX = 1 << 30,
    CSV_FIELD_BYTES_MAX = 4096,
    CSV_FIELDS_MAX = 64,
};

struct csv_field {
    struct text text; /* without quotes */
    uint32_t line;    /* from 1 */
    uint32_t column;  /* from 1 */
};

struct csv {
    const char *file;
    char *bytes; /* owned */
    char *at;    /* what follows the present record */
    char *end;
    char *line_start; /* of the line that contains at */
    uint32_t line;    /* of at */
    size_t columns;   /* of the header; 0: it is not read yet */
    size_t fields;    /* of the present record */
    struct csv_field field[CSV_FIELDS_MAX];
};

/* file is borrowed, for errors. */
int csv_open(struct csv *csv, const char *file, struct err *err) MUST_USE;
void csv_close(struct csv *csv);

/*
 * Reads the header, and finds these columns: at[i] is the place of name[i]. Other columns are
 * ignored. Call it once, first.
 */
int csv_header(struct csv *csv, const char *const *name, size_t names, size_t *at,
               struct err *err) MUST_USE;

/* Reads the next record, which has as many fields as the header. 1: there is one; 0: the end. */
int csv_next(struct csv *csv, struct err *err) MUST_USE;

/* The error at a field of the present record. */
int csv_wrong(const struct csv *csv, size_t field, struct err *err, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* A whole number from least to most; name: of the column, for the error. */
struct csv_range {
    const char *name;
    uint32_t least;
    uint32_t most;
};
int csv_number(const struct csv *csv, size_t field, const struct csv_range *range, uint32_t *out,
               struct err *err) MUST_USE;

#endif
