/*
 * key_file - the file of a private key: PKCS#8 as PEM, for nobody else to read.
 */
#ifndef MILLIGPU_SIGN_KEY_FILE_H
#define MILLIGPU_SIGN_KEY_FILE_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

/* No key needs as much. */
enum { KEY_FILE_BYTES_MAX = 16 * 1024 };

/* Appends what is in it; ERR_NOT_FOUND if there is none. The error names the file. */
int key_file_read(const char *file, struct strbuf *out, struct err *err) MUST_USE;

/* Makes a key and writes it; a file that another process made meanwhile stays, and is good. */
int key_file_make(const char *file, struct err *err) MUST_USE;

/*
 * Replaces the one by the other, on disk before this returns. *moved: that has happened, but for
 * the disk, which is asked again the next time.
 */
int key_file_move(const char *from, const char *to, bool *moved, struct err *err) MUST_USE;

#endif
