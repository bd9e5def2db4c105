/*
 * key_file - the file of a private key: PKCS#8 as PEM, not readable by others.
 */
#ifndef MILLIGPU_SIGN_KEY_FILE_H
#define MILLIGPU_SIGN_KEY_FILE_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

/* Far above the size of any key. */
enum { KEY_FILE_BYTES_MAX = 16 * 1024 };

/* Appends the content; ERR_NOT_FOUND if there is no file. The error names the file. */
int key_file_read(const char *file, struct strbuf *out, struct err *err) MUST_USE;

/* Creates a key file; succeeds, and keeps the file, if another process has created it meanwhile. */
int key_file_make(const char *file, struct err *err) MUST_USE;

/*
 * Renames from to to, synced to disk before this returns. *moved is set after the rename: if the
 * sync fails, the next call only repeats the sync.
 */
int key_file_move(const char *from, const char *to, bool *moved, struct err *err) MUST_USE;

#endif
