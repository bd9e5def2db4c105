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
 * Adds a regular file of mode 0600: the whole of content, from its beginning. name has at most 99
 * bytes, content at most 8 GiB.
 */
int tar_add(FILE *tar, const char *name, FILE *content, int64_t at_s, struct err *err) MUST_USE;
/* The two empty blocks after the last file. */
int tar_end(FILE *tar, struct err *err) MUST_USE;

#endif
