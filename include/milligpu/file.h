/*
 * file - reads whole files into memory. Any thread.
 */
#ifndef MILLIGPU_FILE_H
#define MILLIGPU_FILE_H

#include <stddef.h>

#include "milligpu/err.h"

/*
 * *out is the content, terminated, and belongs to the caller (xfree). ERR_NOT_FOUND, ERR_IO, or
 * ERR_TOO_LARGE if there are more than max bytes; the error text names the file.
 */
int file_read(const char *file, size_t max, char **out, size_t *out_len, struct err *err) MUST_USE;

#endif
