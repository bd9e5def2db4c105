#include "support_disk.h"

#include <string.h>

#include <sqlite3.h>

#include "milligpu/base.h"

struct disk_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
};

static sqlite3_vfs *real_vfs;
static int countdown;
static int failure;
static bool stays;
static int failed;

void disk_fail(int n, int rc, bool lasting)
{
    countdown = n;
    failure = rc;
    stays = lasting;
    failed = 0;
}

int disk_failed(void)
{
    return failed;
}

static int touch(void)
{
    if (countdown == 0)
        return SQLITE_OK;
    if (countdown > 1) {
        countdown--;
        return SQLITE_OK;
    }
    if (!stays)
        countdown = 0;
    failed++;
    return failure;
}

static sqlite3_file *real(sqlite3_file *file)
{
    return ((struct disk_file *)file)->real;
}

static int f_close(sqlite3_file *f)
{
    return real(f)->pMethods->xClose(real(f));
}

static int f_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
    return real(f)->pMethods->xRead(real(f), to, n, at);
}

static int f_write(sqlite3_file *f, const void *from, int n, sqlite3_int64 at)
{
    const int rc = touch();
    if (rc == SQLITE_OK)
        return real(f)->pMethods->xWrite(real(f), from, n, at);
    /* Half of it got there. */
    (void)real(f)->pMethods->xWrite(real(f), from, n / 2, at);
    return rc == SQLITE_IOERR ? SQLITE_IOERR_WRITE : rc;
}

static int f_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    const int rc = touch();
    return rc == SQLITE_OK ? real(f)->pMethods->xTruncate(real(f), size) : rc;
}

static int f_sync(sqlite3_file *f, int flags)
{
    const int rc = touch();
    if (rc == SQLITE_OK)
        return real(f)->pMethods->xSync(real(f), flags);
    return rc == SQLITE_IOERR ? SQLITE_IOERR_FSYNC : rc;
}

static int f_size(sqlite3_file *f, sqlite3_int64 *out)
{
    return real(f)->pMethods->xFileSize(real(f), out);
}

static int f_lock(sqlite3_file *f, int level)
{
    return real(f)->pMethods->xLock(real(f), level);
}

static int f_unlock(sqlite3_file *f, int level)
{
    return real(f)->pMethods->xUnlock(real(f), level);
}

static int f_reserved(sqlite3_file *f, int *out)
{
    return real(f)->pMethods->xCheckReservedLock(real(f), out);
}

static int f_control(sqlite3_file *f, int what, void *with)
{
    return real(f)->pMethods->xFileControl(real(f), what, with);
}

static int f_sector(sqlite3_file *f)
{
    return real(f)->pMethods->xSectorSize(real(f));
}

static int f_traits(sqlite3_file *f)
{
    return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static int f_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
    return real(f)->pMethods->xShmMap(real(f), page, size, extend, out);
}

static int f_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return real(f)->pMethods->xShmLock(real(f), at, n, flags);
}

static void f_shm_barrier(sqlite3_file *f)
{
    real(f)->pMethods->xShmBarrier(real(f));
}

static int f_shm_unmap(sqlite3_file *f, int drop)
{
    return real(f)->pMethods->xShmUnmap(real(f), drop);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = f_close,
    .xRead = f_read,
    .xWrite = f_write,
    .xTruncate = f_truncate,
    .xSync = f_sync,
    .xFileSize = f_size,
    .xLock = f_lock,
    .xUnlock = f_unlock,
    .xCheckReservedLock = f_reserved,
    .xFileControl = f_control,
    .xSectorSize = f_sector,
    .xDeviceCharacteristics = f_traits,
    .xShmMap = f_shm_map,
    .xShmLock = f_shm_lock,
    .xShmBarrier = f_shm_barrier,
    .xShmUnmap = f_shm_unmap,
};

static int v_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct disk_file *file = (struct disk_file *)f;
    (void)vfs;
    file->real = (sqlite3_file *)(file + 1);
    file->base.pMethods = NULL;
    const int rc = real_vfs->xOpen(real_vfs, name, file->real, flags, out);
    if (rc == SQLITE_OK)
        file->base.pMethods = &methods;
    return rc;
}

void disk_install(void)
{
    static sqlite3_vfs vfs;
    if (real_vfs != NULL)
        return;
    real_vfs = sqlite3_vfs_find(NULL);
    must(real_vfs != NULL);
    vfs = *real_vfs;
    vfs.zName = "failing-disk";
    vfs.szOsFile = (int)sizeof(struct disk_file) + real_vfs->szOsFile;
    vfs.xOpen = v_open;
    vfs.pNext = NULL;
    must(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
}
