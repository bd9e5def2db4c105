/*
 * Rewrites the bytes of the write-ahead log at start. Called by schema_prepare.c. Uses SQLite's
 * VFS, so that its locks hold and a test can replace the disk.
 */
#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

enum { PIECE_BYTES = 64 << 10 };

/* Works on an open log; returns SQLite's code. */
typedef int log_work(sqlite3_file *file, void *user);

static int with_file(sqlite3_vfs *vfs, const char *log, log_work *work, void *user)
{
    int there = 0;

    must(log != NULL);
    int rc = vfs->xAccess(vfs, log, SQLITE_ACCESS_EXISTS, &there);
    if (rc != SQLITE_OK || there == 0)
        return rc;
    sqlite3_file *file = xcalloc(1, (size_t)vfs->szOsFile);
    rc = vfs->xOpen(vfs, log, file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL, NULL);
    if (rc == SQLITE_OK)
        rc = work(file, user);
    /* xClose is required if xOpen has set the methods, even if it failed. */
    if (file->pMethods != NULL) {
        const int closed = file->pMethods->xClose(file);
        rc = rc == SQLITE_OK ? closed : rc;
    }
    xfree(file);
    return rc;
}

/* Does nothing without a log. */
static int with_log(const char *path, log_work *work, void *user, const char *doing,
                    struct err *err)
{
    struct strbuf log;

    must(path[0] == '/');
    strbuf_init(&log);
    strbuf_printf(&log, "%s-wal", path);
    /* The VFS requires a name made by SQLite. */
    sqlite3_filename name = sqlite3_create_filename(path, "", log.data, 0, NULL);
    must(name != NULL); /* otherwise out of memory */
    const int rc = with_file(sqlite3_vfs_find(NULL), sqlite3_filename_wal(name), work, user);
    sqlite3_free_filename(name);
    const int failed = rc == SQLITE_OK
                           ? 0
                           : err_set(err, ERR_IO, "%s: the log cannot be %s: %s (SQLite %d)",
                                     log.data, doing, sqlite3_errstr(rc), rc);
    strbuf_done(&log);
    return failed;
}

/* Writes the same bytes at the same offsets, then syncs once: the content does not change. */
static int wal_rewrite(sqlite3_file *file, void *user)
{
    CLEANUP(xfreep) char *piece = xmalloc(PIECE_BYTES);
    sqlite3_int64 size = 0;

    must(user == NULL);
    int rc = file->pMethods->xFileSize(file, &size);
    for (sqlite3_int64 at = 0; at < size && rc == SQLITE_OK; at += PIECE_BYTES) {
        const int bytes = size - at < PIECE_BYTES ? (int)(size - at) : PIECE_BYTES;
        rc = file->pMethods->xRead(file, piece, bytes, at);
        if (rc == SQLITE_OK)
            rc = file->pMethods->xWrite(file, piece, bytes, at);
    }
    return rc == SQLITE_OK ? file->pMethods->xSync(file, SQLITE_SYNC_FULL) : rc;
}

int log_rewrite(const char *path, struct err *err)
{
    must(path != NULL);
    return with_log(path, wal_rewrite, NULL, "written anew", err);
}
