#include <sqlite3.h>

#include "milligpu/alloc.h"

#include "store/store_inside.h"

enum { PIECE_BYTES = 64 << 10 };

static int rewrite_pieces(sqlite3_file *file, char *piece)
{
    sqlite3_int64 size = 0;

    must(file->pMethods != NULL);
    int rc = file->pMethods->xFileSize(file, &size);
    for (sqlite3_int64 at = 0; at < size && rc == SQLITE_OK; at += PIECE_BYTES) {
        const int bytes = size - at < PIECE_BYTES ? (int)(size - at) : PIECE_BYTES;
        rc = file->pMethods->xRead(file, piece, bytes, at);
        if (rc == SQLITE_OK)
            rc = file->pMethods->xWrite(file, piece, bytes, at);
    }
    return rc == SQLITE_OK ? file->pMethods->xSync(file, SQLITE_SYNC_FULL) : rc;
}

static int rewrite_log(sqlite3_vfs *vfs, const char *log)
{
    int there = 0;

    must(log != NULL);
    int rc = vfs->xAccess(vfs, log, SQLITE_ACCESS_EXISTS, &there);
    if (rc != SQLITE_OK || there == 0)
        return rc;
    CLEANUP(xfreep) char *piece = xmalloc(PIECE_BYTES);
    sqlite3_file *file = xcalloc(1, (size_t)vfs->szOsFile);
    rc = vfs->xOpen(vfs, log, file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL, NULL);
    if (rc == SQLITE_OK)
        rc = rewrite_pieces(file, piece);
    if (file->pMethods != NULL) {
        const int closed = file->pMethods->xClose(file);
        rc = rc == SQLITE_OK ? closed : rc;
    }
    xfree(file);
    return rc;
}

int file_rewrite_log(const char *path, struct err *err)
{
    struct strbuf log;

    must(path[0] == '/');
    strbuf_init(&log);
    strbuf_printf(&log, "%s-wal", path);
    /* SQLite's own functions for files want a name that SQLite made. */
    sqlite3_filename name = sqlite3_create_filename(path, "", log.data, 0, NULL);
    must(name != NULL); /* else out of memory */
    const int rc = rewrite_log(sqlite3_vfs_find(NULL), sqlite3_filename_wal(name));
    sqlite3_free_filename(name);
    const int failed =
        rc == SQLITE_OK ? 0
                        : err_set(err, ERR_IO, "%s: the log cannot be written anew: %s (SQLite %d)",
                                  log.data, sqlite3_errstr(rc), rc);
    strbuf_done(&log);
    return failed;
}
