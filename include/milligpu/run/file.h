/*
 * file - reads and writes whole files. Any thread.
 */
#ifndef MILLIGPU_FILE_H
#define MILLIGPU_FILE_H

#include <stddef.h>

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

/*
 * *out is the content, terminated, and belongs to the caller (xfree). ERR_NOT_FOUND, ERR_IO, or
 * ERR_TOO_LARGE if there are more than max bytes; the error text names the file.
 */
int file_read(const char *file, size_t max, char **out, size_t *out_len, struct err *err) MUST_USE;

/* Writes all of it, however many calls that takes; false: errno says why. */
bool file_write(int fd, struct text bytes) MUST_USE;

/*
 * Replaces a file as a whole, mode 0644: a reader finds the old one or the new one, never a part.
 * The new one is written beside it first, as "FILE.next". The error text names the file.
 */
int file_replace(const char *file, struct text content, struct err *err) MUST_USE;

/* Makes the folders above it that are missing, mode 0755. The error text names the folder. */
int file_make_above(const char *file, struct err *err) MUST_USE;

#endif
