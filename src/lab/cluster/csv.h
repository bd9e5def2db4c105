/*
 * csv - a file of comma-separated values with a header, read strictly.
 *
 * Quotes as in RFC 4180; lines end in LF or CRLF; a byte-order mark and empty lines at the end are
 * skipped. Columns are found by their names in the header, in any order. An error has
 * FILE:LINE:COLUMN, the cause and valid values; COLUMN counts bytes.
 *
 * The whole file is in memory, and fields point into it, so they live until csv_close(). Pure,
 * except for csv_open(), which reads the file.
 */
#ifndef MILLIGPU_LAB_CSV_H
#define MILLIGPU_LAB_CSV_H

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
    char *at;    /* the byte after the present record */
    char *end;
    char *line_start; /* beginning of the line that contains at */
    uint32_t line;    /* line number of at, from 1 */
    size_t columns;   /* number in the header; 0 until it is read */
    size_t n_fields;  /* number in the present record */
    struct csv_field field[CSV_FIELDS_MAX];
};

/* file: borrowed, for errors. */
int csv_open(struct csv *csv, const char *file, struct err *err) MUST_USE;
void csv_close(struct csv *csv);

/*
 * Reads the header and finds these columns: at[i] is the index of name[i]. Ignores other columns.
 * Called once, first.
 */
int csv_header(struct csv *csv, const char *const *name, size_t names, size_t *at,
               struct err *err) MUST_USE;

/* Reads the next record: 1, or 0 at the end. A wrong number of fields is an error. */
int csv_next(struct csv *csv, struct err *err) MUST_USE;

/* Sets an error at a field of the present record. */
int csv_wrong(const struct csv *csv, size_t field, struct err *err, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* The range of a whole number; name: the column, for the error. */
struct csv_range {
    const char *name;
    uint32_t least;
    uint32_t most;
};
int csv_number(const struct csv *csv, size_t field, const struct csv_range *range, uint32_t *out,
               struct err *err) MUST_USE;

#endif
