#include "support/disk.h"

#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"

#include "support/disk_plate.h"

enum { PATH_BYTES = 512, SECTOR_BYTES = 4096, PIECE_BYTES = 1024 };

/*
 * The address sanitizer asks for it: what is freed stays guarded until 8 MiB more are freed. With
 * its usual 256 MiB no cache holds what the next allocation touches, which is a quarter of the time
 * of a test that opens a ledger a thousand times.
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8:thread_local_quarantine_size_kb=256";
}

/* One open handle of a file. */
struct handle {
    sqlite3_file base;
    struct plate_file *file;
    int level;
    bool is_log;
    bool sync_folder; /* with the next sync, because its name is new */
    bool shm;
    unsigned shm_shared; /* slots, as bits */
    unsigned shm_exclusive;
};

static bool installed;
static uint64_t changes;
static uint64_t writes;
static uint64_t cut_in; /* 0: no cut planned */
static bool cut;
static unsigned fail_kinds;
static uint64_t fail_in; /* 0: nothing fails */
static int fail_rc;
static bool fail_lasting;
static uint64_t failed;
static uint64_t random_state;

static int code_of(enum disk_kind kind)
{
    switch (kind) {
    case DISK_WRITE:
        return SQLITE_IOERR_WRITE;
    case DISK_SYNC:
        return SQLITE_IOERR_FSYNC;
    case DISK_TRUNCATE:
        return SQLITE_IOERR_TRUNCATE;
    case DISK_OPEN:
        return SQLITE_CANTOPEN;
    case DISK_DELETE:
        return SQLITE_IOERR_DELETE;
    case DISK_READ:
        return SQLITE_IOERR_READ;
    default:
        return SQLITE_IOERR;
    }
}

int disk_touch(enum disk_kind kind)
{
    const bool changing = (kind & DISK_CHANGES) != 0;
    if (changing && !cut && cut_in > 0 && --cut_in == 0)
        cut = true;
    if (cut)
        return code_of(kind);
    changes += changing;
    if (fail_in == 0 || (fail_kinds & kind) == 0)
        return SQLITE_OK;
    if (fail_in > 1) {
        fail_in--;
        return SQLITE_OK;
    }
    if (!fail_lasting)
        fail_in = 0;
    failed++;
    return fail_rc == SQLITE_IOERR ? code_of(kind) : fail_rc;
}

/* Temporary files are nobody's durable state. */
static int touch(const struct handle *handle, enum disk_kind kind)
{
    return handle->file->nameless ? SQLITE_OK : disk_touch(kind);
}

static struct handle *handle_of(sqlite3_file *base)
{
    return (struct handle *)base;
}

static int file_read(sqlite3_file *base, void *to, int n, sqlite3_int64 at)
{
    const struct handle *handle = handle_of(base);
    const struct plate_bytes *now = &handle->file->now;
    const size_t want = (size_t)n;

    const int rc = touch(handle, DISK_READ);
    if (rc != SQLITE_OK)
        return rc;
    const size_t from = (size_t)at < now->len ? (size_t)at : now->len;
    const size_t got = now->len - from < want ? now->len - from : want;
    if (got > 0)
        memcpy(to, now->at + from, got);
    if (got == want)
        return SQLITE_OK;
    memset((char *)to + got, 0, want - got);
    return SQLITE_IOERR_SHORT_READ;
}

static int write_piece(const struct handle *handle, struct text bytes, sqlite3_int64 at)
{
    const int rc = touch(handle, DISK_WRITE);
    if (cut && rc != SQLITE_OK)
        return rc;
    if (rc != SQLITE_OK)
        bytes.len /= 2;
    plate_write(handle->file, (size_t)at, bytes);
    return rc;
}

/*
 * The kernel may write in any order what the store writes to the log at once (log_vfs.c), and a
 * disk keeps any part of it. SQLite itself never writes more than a page at once.
 */
static int file_write(sqlite3_file *base, const void *from, int n, sqlite3_int64 at)
{
    const struct handle *handle = handle_of(base);
    int rc = SQLITE_OK;

    writes++;
    for (size_t done = 0, len = (size_t)n; done < len && rc == SQLITE_OK;) {
        const size_t rest = len - done;
        const size_t to_edge = PIECE_BYTES - (size_t)at % PIECE_BYTES;
        const size_t piece = handle->is_log && rest > to_edge ? to_edge : rest;
        rc = write_piece(handle, (struct text){(const char *)from + done, piece}, at);
        done += piece;
        at += (sqlite3_int64)piece;
    }
    return rc;
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 len)
{
    const struct handle *handle = handle_of(base);
    const int rc = touch(handle, DISK_TRUNCATE);
    if (rc == SQLITE_OK)
        plate_truncate(handle->file, (size_t)len);
    return rc;
}

static int file_sync(sqlite3_file *base, int flags)
{
    struct handle *handle = handle_of(base);
    (void)flags;
    const int rc = touch(handle, DISK_SYNC);
    if (rc != SQLITE_OK) {
        if (!cut)
            plate_sync_failed(handle->file);
        return rc;
    }
    plate_sync(handle->file);
    if (handle->sync_folder)
        plate_sync_names();
    handle->sync_folder = false;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *out)
{
    const struct handle *handle = handle_of(base);
    if (cut)
        return SQLITE_IOERR_FSTAT;
    *out = (sqlite3_int64)handle->file->now.len;
    return SQLITE_OK;
}

static bool held_by_another(const void *holder, const struct handle *handle)
{
    return holder != NULL && holder != handle;
}

static int lock_shared(struct handle *handle)
{
    struct plate_file *file = handle->file;
    if (held_by_another(file->pending, handle) || held_by_another(file->exclusive, handle))
        return SQLITE_BUSY;
    file->shared++;
    handle->level = SQLITE_LOCK_SHARED;
    return SQLITE_OK;
}

static int lock_reserved(struct handle *handle)
{
    struct plate_file *file = handle->file;
    if (held_by_another(file->reserved, handle) || held_by_another(file->pending, handle))
        return SQLITE_BUSY;
    file->reserved = handle;
    handle->level = SQLITE_LOCK_RESERVED;
    return SQLITE_OK;
}

/* A writer that waits for readers keeps PENDING, so that no new ones come. */
static int lock_exclusive(struct handle *handle)
{
    struct plate_file *file = handle->file;
    if (held_by_another(file->reserved, handle) || held_by_another(file->pending, handle))
        return SQLITE_BUSY;
    file->pending = handle;
    handle->level = SQLITE_LOCK_PENDING;
    if (file->shared > 1)
        return SQLITE_BUSY;
    file->exclusive = handle;
    handle->level = SQLITE_LOCK_EXCLUSIVE;
    return SQLITE_OK;
}

static int file_lock_it(sqlite3_file *base, int level)
{
    struct handle *handle = handle_of(base);
    if (handle->level >= level)
        return SQLITE_OK;
    if (cut)
        return SQLITE_IOERR_LOCK;
    if (level == SQLITE_LOCK_SHARED)
        return lock_shared(handle);
    must(handle->level >= SQLITE_LOCK_SHARED);
    return level == SQLITE_LOCK_RESERVED ? lock_reserved(handle) : lock_exclusive(handle);
}

static int file_unlock(sqlite3_file *base, int level)
{
    struct handle *handle = handle_of(base);
    struct plate_file *file = handle->file;

    must(level == SQLITE_LOCK_NONE || level == SQLITE_LOCK_SHARED);
    if (handle->level <= level)
        return SQLITE_OK;
    if (file->reserved == handle)
        file->reserved = NULL;
    if (file->pending == handle)
        file->pending = NULL;
    if (file->exclusive == handle)
        file->exclusive = NULL;
    if (level == SQLITE_LOCK_NONE) {
        must(file->shared > 0);
        file->shared--;
    }
    handle->level = level;
    return SQLITE_OK;
}

static int file_reserved(sqlite3_file *base, int *out)
{
    *out = handle_of(base)->file->reserved != NULL;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *base, int what, void *with)
{
    (void)base;
    (void)what;
    (void)with;
    return SQLITE_NOTFOUND;
}

/* Both as SQLite's own VFS reports on Linux. */
static int file_sector(sqlite3_file *base)
{
    (void)base;
    return SECTOR_BYTES;
}

static int file_traits(sqlite3_file *base)
{
    (void)base;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int shm_map(sqlite3_file *base, int at, int bytes, int extend, void volatile **out)
{
    struct handle *handle = handle_of(base);
    struct plate_shm *shm = &handle->file->shm;

    *out = NULL;
    if (cut)
        return SQLITE_IOERR_SHMMAP;
    if (!handle->shm)
        shm->users++;
    handle->shm = true;
    while (extend != 0 && shm->n_regions <= (size_t)at) {
        shm->region = xgrow(shm->region, shm->n_regions, &shm->room, sizeof *shm->region);
        shm->region[shm->n_regions++] = xcalloc(1, (size_t)bytes);
    }
    if ((size_t)at < shm->n_regions)
        *out = shm->region[at];
    return SQLITE_OK;
}

static void shm_unlock(struct handle *handle, unsigned slots)
{
    struct plate_shm *shm = &handle->file->shm;
    for (unsigned i = 0; i < SHM_SLOTS; i++) {
        const unsigned bit = slots & (1u << i);
        if ((handle->shm_exclusive & bit) != 0)
            shm->holders[i] = 0;
        else if ((handle->shm_shared & bit) != 0)
            shm->holders[i]--;
    }
    handle->shm_exclusive &= ~slots;
    handle->shm_shared &= ~slots;
}

static bool shm_free_for(const struct handle *handle, unsigned slots, bool shared)
{
    for (unsigned i = 0; i < SHM_SLOTS; i++) {
        const unsigned bit = slots & (1u << i);
        const int holders = handle->file->shm.holders[i];
        const int mine = (handle->shm_shared & bit) != 0 ? 1 : 0;
        if (bit != 0 && (shared ? holders < 0 : holders != mine))
            return false;
    }
    return true;
}

static int shm_lock(sqlite3_file *base, int at, int n, int flags)
{
    struct handle *handle = handle_of(base);
    const unsigned slots = ((1u << n) - 1) << at;
    const bool shared = (flags & SQLITE_SHM_SHARED) != 0;

    must(at >= 0 && n > 0 && at + n <= SHM_SLOTS);
    if ((flags & SQLITE_SHM_UNLOCK) != 0) {
        shm_unlock(handle, slots);
        return SQLITE_OK;
    }
    if (cut)
        return SQLITE_IOERR_SHMLOCK;
    if (!shm_free_for(handle, slots, shared))
        return SQLITE_BUSY;
    for (int i = at; i < at + n; i++) {
        int *holders = &handle->file->shm.holders[i];
        if (!shared)
            *holders = -1;
        else if ((handle->shm_shared & (1u << i)) == 0)
            (*holders)++;
    }
    if (shared)
        handle->shm_shared |= slots;
    else
        handle->shm_exclusive |= slots;
    return SQLITE_OK;
}

static void shm_barrier(sqlite3_file *base)
{
    (void)base;
}

static int shm_unmap(sqlite3_file *base, int drop)
{
    struct handle *handle = handle_of(base);
    (void)drop;
    if (!handle->shm)
        return SQLITE_OK;
    shm_unlock(handle, (1u << SHM_SLOTS) - 1);
    handle->shm = false;
    handle->file->shm.users--;
    return SQLITE_OK;
}

static int file_close(sqlite3_file *base)
{
    struct handle *handle = handle_of(base);
    (void)shm_unmap(base, 0);
    (void)file_unlock(base, SQLITE_LOCK_NONE);
    plate_close(handle->file);
    handle->file = NULL;
    return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock_it,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

static int disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *out)
{
    struct handle *handle = handle_of(base);
    const int new_names = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
    const bool create = (flags & SQLITE_OPEN_CREATE) != 0;
    struct plate_file *file = NULL;

    (void)vfs;
    *handle = (struct handle){.base = {.pMethods = NULL}};
    if (name != NULL) {
        const int rc = disk_touch(DISK_OPEN);
        if (rc != SQLITE_OK)
            return rc;
        file = plate_find(name);
    }
    if (file == NULL && !create)
        return SQLITE_CANTOPEN;
    if (file == NULL)
        file = plate_make(name);
    plate_open(file);
    handle->file = file;
    handle->is_log = (flags & SQLITE_OPEN_WAL) != 0;
    handle->sync_folder = create && (flags & new_names) != 0;
    handle->base.pMethods = &methods;
    if (out != NULL)
        *out = flags;
    return SQLITE_OK;
}

static int disk_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    if (plate_find(name) == NULL)
        return cut ? SQLITE_IOERR_DELETE : SQLITE_IOERR_DELETE_NOENT;
    const int rc = disk_touch(DISK_DELETE);
    if (rc != SQLITE_OK)
        return rc;
    must(plate_delete(name));
    if (sync_folder != 0)
        plate_sync_names();
    return SQLITE_OK;
}

/* An empty file does not count, as in SQLite's own VFS. */
static int disk_access(sqlite3_vfs *vfs, const char *name, int what, int *out)
{
    const struct plate_file *file = plate_find(name);
    (void)vfs;
    if (cut)
        return SQLITE_IOERR_ACCESS;
    *out = file != NULL && (what != SQLITE_ACCESS_EXISTS || file->now.len > 0);
    return SQLITE_OK;
}

static int disk_full_name(sqlite3_vfs *vfs, const char *name, int bytes, char *out)
{
    (void)vfs;
    const size_t len = strlen(name);
    if (len >= (size_t)bytes)
        return SQLITE_CANTOPEN;
    memcpy(out, name, len + 1);
    return SQLITE_OK;
}

static int disk_random(sqlite3_vfs *vfs, int bytes, char *out)
{
    (void)vfs;
    for (int i = 0; i < bytes; i++) {
        random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        out[i] = (char)(random_state >> 56);
    }
    return bytes;
}

/* Waiting is pointless: there is one thread. */
static int disk_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return us;
}

static int disk_time(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
    (void)vfs;
    *out = INT64_C(212000000000000); /* milliseconds of the Julian calendar: a day in 2005 */
    return SQLITE_OK;
}

static int disk_day(sqlite3_vfs *vfs, double *out)
{
    sqlite3_int64 ms = 0;
    const int rc = disk_time(vfs, &ms);
    *out = (double)ms / 86400000.0;
    return rc;
}

static int disk_error(sqlite3_vfs *vfs, int bytes, char *out)
{
    (void)vfs;
    if (bytes > 0)
        out[0] = '\0';
    return 0;
}

void disk_install(void)
{
    static sqlite3_vfs vfs = {
        .iVersion = 2,
        .szOsFile = (int)sizeof(struct handle),
        .mxPathname = PATH_BYTES,
        .zName = "milligpu-disk",
        .xOpen = disk_open,
        .xDelete = disk_delete,
        .xAccess = disk_access,
        .xFullPathname = disk_full_name,
        .xRandomness = disk_random,
        .xSleep = disk_sleep,
        .xCurrentTime = disk_day,
        .xCurrentTimeInt64 = disk_time,
        .xGetLastError = disk_error,
    };
    if (installed)
        return;
    installed = true;
    disk_folder_join();
    must(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
    disk_clear();
}

static void heal(void)
{
    cut = false;
    cut_in = 0;
    disk_fail(0, 0, SQLITE_OK, false);
}

void disk_clear(void)
{
    heal();
    plate_clear();
    changes = 0;
    writes = 0;
    random_state = 1;
    sqlite3_randomness(0, NULL); /* makes SQLite's own generator ask for a seed again */
}

void disk_fail(unsigned kinds, uint64_t n, int rc, bool lasting)
{
    fail_kinds = kinds;
    fail_in = n;
    fail_rc = rc;
    fail_lasting = lasting;
    failed = 0;
}

uint64_t disk_failed(void)
{
    return failed;
}

uint64_t disk_changes(void)
{
    return changes;
}

uint64_t disk_writes(void)
{
    return writes;
}

void disk_cut_before(uint64_t n)
{
    cut_in = n;
}

void disk_cut(void)
{
    cut = true;
}

bool disk_is_cut(void)
{
    return cut;
}

void disk_restart(enum disk_loss loss, uint64_t seed)
{
    heal();
    plate_restart(loss, seed);
}

bool disk_file(const char *name, struct text *out)
{
    const struct plate_file *file = plate_find(name);
    if (file == NULL)
        return false;
    *out = (struct text){file->now.at, file->now.len};
    return true;
}

void disk_put(const char *name, struct text bytes)
{
    plate_put(name, bytes);
}

void disk_watch(void *user, void (*event)(void *user, const struct disk_event *event))
{
    plate_watch(user, event);
}
