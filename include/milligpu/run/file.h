/*
 * file - reads and writes whole files. Any thread.
 */
#ifndef MILLIGPU_FILE_H
#define MILLIGPU_FILE_H

#include <stddef.h>

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

/*
 * *out is the content, NUL-terminated and owned by the caller (xfree). Returns ERR_NOT_FOUND,
 * ERR_IO, or ERR_TOO_LARGE above max bytes; the error text names the file.
 */
int file_read(const char *file, size_t max, char **out, size_t *out_len, struct err *err) MUST_USE;

/* Writes all bytes, also after short writes; false with errno set. */
bool file_write(int fd, struct text bytes) MUST_USE;

/*
 * Replaces a file atomically (write to "FILE.next" and rename), mode 0644: a reader sees the old
 * content or the new. The error text names the file.
 */
int file_replace(const char *file, struct text content, struct err *err) MUST_USE;

/* Creates missing parent folders of file, mode 0755. The error text names the folder. */
int file_make_above(const char *file, struct err *err) MUST_USE;

#endif
