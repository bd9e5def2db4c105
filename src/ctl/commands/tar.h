/*
 * tar - writes an archive in the format ustar (POSIX.1-1988), readable by every tar.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_TAR_H
#define MILLIGPU_CTL_TAR_H

#include <stdint.h>
#include <stdio.h>

#include "milligpu/base/err.h"

/*
 * Adds a regular file of mode 0600 with the whole content from its beginning. name: at most 99
 * bytes; content: at most 8 GiB; at_s: UTC time of modification.
 */
int tar_add(FILE *tar, const char *name, FILE *content, int64_t at_s, struct err *err) MUST_USE;
/* Writes the two empty blocks after the last file. */
int tar_end(FILE *tar, struct err *err) MUST_USE;

#endif
