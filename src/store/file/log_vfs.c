/*
 * A VFS for the writer's connection that gathers the writes of the write-ahead log. SQLite writes
 * the header and the page of each frame apart, and a COMMIT of one bind has some 18 frames of 1
 * KiB, each behind the one before: 36 system calls become one. Called by db.c. All other files are
 * those of the VFS below, which is SQLite's default one.
 *
 * Gathered bytes are written before anything else happens to the file. A COMMIT is visible to
 * readers, and acknowledged, only after a sync (synchronous=FULL), so nobody sees or promises what
 * is still here. A write that fails does so in the call that writes the gathered bytes, at the
 * latest in that sync: SQLite then abandons the COMMIT as for a failed write of its own.
 */
#include <pthread.h>
#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"

#include "store/db.h"

enum { GATHER_BYTES = 64 << 10 };

/* SQLite aligns the memory of a file to 8 bytes. */
struct gathering_log {
    sqlite3_file is; /* first: what SQLite sees */
    sqlite3_int64 at;
    int bytes;    /* gathered, to be written at `at` */
    char *buffer; /* owned; NULL before the first write */
    _Alignas(sqlite3_int64) char below[];
};

static struct gathering_log *log_of(sqlite3_file *file)
{
    must(file != NULL);
    return (struct gathering_log *)(void *)file;
}

/* The file of the VFS below. */
static sqlite3_file *below_of(struct gathering_log *log)
{
    return (sqlite3_file *)(void *)log->below;
}

/* After a failure the bytes are gone: SQLite writes them again, if at all. */
static int gathering_log_flush(struct gathering_log *log)
{
    sqlite3_file *below = below_of(log);
    const int bytes = log->bytes;

    must(bytes >= 0 && bytes <= GATHER_BYTES);
    log->bytes = 0;
    return bytes > 0 ? below->pMethods->xWrite(below, log->buffer, bytes, log->at) : SQLITE_OK;
}

static int gathering_log_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    struct gathering_log *log = log_of(file);

    must(count > 0 && count <= GATHER_BYTES); /* a page at most */
    if (at != log->at + log->bytes || count > GATHER_BYTES - log->bytes) {
        const int rc = gathering_log_flush(log);
        if (rc != SQLITE_OK)
            return rc;
        log->at = at;
    }
    if (log->buffer == NULL)
        log->buffer = xmalloc(GATHER_BYTES);
    memcpy(log->buffer + log->bytes, bytes, (size_t)count);
    log->bytes += count;
    return SQLITE_OK;
}

/*
 * A read within a transaction: SQLite abandons the transaction after an I/O error, but after a full
 * disk it may abandon only the statement, without the gathered bytes of those before it.
 */
static int gathering_log_read(sqlite3_file *file, void *out, int count, sqlite3_int64 at)
{
    struct gathering_log *log = log_of(file);
    const int rc = gathering_log_flush(log);

    must(count > 0 && at >= 0);
    return rc == SQLITE_OK ? below_of(log)->pMethods->xRead(below_of(log), out, count, at)
                           : SQLITE_IOERR_WRITE;
}

static int gathering_log_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct gathering_log *log = log_of(file);
    const int rc = gathering_log_flush(log);

    must(size >= 0);
    return rc == SQLITE_OK ? below_of(log)->pMethods->xTruncate(below_of(log), size) : rc;
}

static int gathering_log_sync(sqlite3_file *file, int flags)
{
    struct gathering_log *log = log_of(file);
    const int rc = gathering_log_flush(log);

    must(log->bytes == 0);
    return rc == SQLITE_OK ? below_of(log)->pMethods->xSync(below_of(log), flags) : rc;
}

static int gathering_log_size(sqlite3_file *file, sqlite3_int64 *out)
{
    struct gathering_log *log = log_of(file);
    const int rc = gathering_log_flush(log);

    must(log->bytes == 0);
    return rc == SQLITE_OK ? below_of(log)->pMethods->xFileSize(below_of(log), out) : rc;
}

static int gathering_log_close(sqlite3_file *file)
{
    struct gathering_log *log = log_of(file);
    const int rc = gathering_log_flush(log);
    const int closed = below_of(log)->pMethods->xClose(below_of(log));

    must(log->bytes == 0);
    xfree(log->buffer);
    return rc == SQLITE_OK ? closed : rc;
}

static int gathering_log_control(sqlite3_file *file, int what, void *argument)
{
    sqlite3_file *below = below_of(log_of(file));

    must(below->pMethods != NULL);
    return below->pMethods->xFileControl(below, what, argument);
}

static int gathering_log_sector(sqlite3_file *file)
{
    sqlite3_file *below = below_of(log_of(file));

    return below->pMethods->xSectorSize(below);
}

static int gathering_log_device(sqlite3_file *file)
{
    sqlite3_file *below = below_of(log_of(file));

    return below->pMethods->xDeviceCharacteristics(below);
}

/* SQLite locks the database, never its log: there are no functions for locks. */
static const sqlite3_io_methods log_methods = {
    .iVersion = 1,
    .xClose = gathering_log_close,
    .xRead = gathering_log_read,
    .xWrite = gathering_log_write,
    .xTruncate = gathering_log_truncate,
    .xSync = gathering_log_sync,
    .xFileSize = gathering_log_size,
    .xFileControl = gathering_log_control,
    .xSectorSize = gathering_log_sector,
    .xDeviceCharacteristics = gathering_log_device,
};

static sqlite3_vfs *below_vfs;
static sqlite3_vfs gathering_vfs;

static int log_vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    must(vfs == &gathering_vfs);
    if ((flags & SQLITE_OPEN_WAL) == 0)
        return below_vfs->xOpen(below_vfs, name, file, flags, out);

    struct gathering_log *log = log_of(file);
    *log = (struct gathering_log){.bytes = 0};
    const int rc = below_vfs->xOpen(below_vfs, name, below_of(log), flags, out);
    /* As the VFS below: xClose is called if there are methods, even after a failure. */
    if (below_of(log)->pMethods != NULL)
        log->is.pMethods = &log_methods;
    return rc;
}

/* The other functions of the VFS below are called with a copy of it, which differs in its name. */
static void log_vfs_register(void)
{
    below_vfs = sqlite3_vfs_find(NULL);
    must(below_vfs != NULL);
    gathering_vfs = *below_vfs;
    gathering_vfs.zName = "gathering";
    gathering_vfs.szOsFile += (int)sizeof(struct gathering_log);
    gathering_vfs.xOpen = log_vfs_open;
    gathering_vfs.pNext = NULL;
    must(sqlite3_vfs_register(&gathering_vfs, 0) == SQLITE_OK);
}

const char *log_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    must(pthread_once(&once, log_vfs_register) == 0);
    must(gathering_vfs.zName != NULL);
    return gathering_vfs.zName;
}
