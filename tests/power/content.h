/*
 * content - which pages a database and its log amount to, by the description of the file format.
 *
 * The log counts up to the last commit frame before the first frame whose salt or checksum is
 * wrong. Two images of the same content are the same to SQLite; most images differ only after that
 * point, or in pages that the log replaces. This is not taken for granted: of the images whose
 * content was seen before, many are opened all the same.
 */
#ifndef MILLIGPU_TESTS_POWER_CONTENT_H
#define MILLIGPU_TESTS_POWER_CONTENT_H

#include "disk_image.h"

/* False: there is a journal or no database, so the image is not comparable with others. */
bool content_hash(const struct disk_image *image, const char *path, uint64_t *out);

#endif
