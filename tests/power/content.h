/*
 * content - which pages a database and its log amount to, by the description of the file format.
 *
 * Of the log counts what is before the first frame whose salt or checksum is wrong, up to the last
 * frame there that ends a commit.  Two images of the same content are the same to SQLite; most
 * images differ only behind that point, or in pages that the log has anew.  That this is so is not
 * taken for granted: of the images of a content that was seen before, many are opened all the same.
 */
#ifndef MILLIGPU_TESTS_POWER_CONTENT_H
#define MILLIGPU_TESTS_POWER_CONTENT_H

#include "disk_image.h"

/* False: there is a journal, or no database; such an image is like no other. */
bool content_hash(const struct disk_image *image, const char *path, uint64_t *out);

#endif
