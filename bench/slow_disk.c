/*
 * A VFS around SQLite's default one. Each open file remembers where its last write ended, so a sync
 * pays for what was written over that file handle, as the writer and the checkpointer have each
 * their own.
 */
#include "slow_disk.h"

#include <stdatomic.h>
#include <time.h>

#include <sqlite3.h>

enum { BLOCK_BYTES = 4096 };

struct slow_file {
    sqlite3_io_methods methods; /* those below, but for two */
    const sqlite3_io_methods *below;
    sqlite3_int64 end;
    int64_t places;
};

static sqlite3_vfs *fast;
static sqlite3_vfs slow;
static atomic_bool disk_is_slow;

/* The file of the VFS below is first, as that VFS expects; the memory lies behind it. */
static struct slow_file *memory_of(sqlite3_file *file)
{
    return (struct slow_file *)(void *)((char *)file + (fast->szOsFile + 15) / 16 * 16);
}

static int slow_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    struct slow_file *memory = memory_of(file);

    if (at != memory->end && at / BLOCK_BYTES != memory->end / BLOCK_BYTES)
        memory->places++;
    memory->end = at + count;
    return memory->below->xWrite(file, bytes, count, at);
}

static int slow_sync(sqlite3_file *file, int flags)
{
    struct slow_file *memory = memory_of(file);
    const int64_t us = SLOW_SYNC_US + SLOW_PLACE_US * (memory->places > 0 ? memory->places - 1 : 0);
    const struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    memory->places = 0;
    if (atomic_load(&disk_is_slow))
        (void)nanosleep(&pause, NULL);
    return memory->below->xSync(file, flags);
}

static int slow_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    const int rc = fast->xOpen(fast, name, file, flags, out);
    struct slow_file *memory = memory_of(file);

    must(vfs == &slow);
    if (rc != SQLITE_OK)
        return rc;
    *memory = (struct slow_file){.methods = *file->pMethods, .below = file->pMethods};
    memory->methods.xWrite = slow_write;
    memory->methods.xSync = slow_sync;
    file->pMethods = &memory->methods;
    return rc;
}

void slow_disk_install(void)
{
    fast = sqlite3_vfs_find(NULL);
    must(fast != NULL);
    slow = *fast;
    slow.zName = "slow";
    slow.szOsFile = (fast->szOsFile + 15) / 16 * 16 + (int)sizeof(struct slow_file);
    slow.xOpen = slow_open;
    slow.pNext = NULL;
    must(sqlite3_vfs_register(&slow, 1) == SQLITE_OK);
}

void slow_disk_set(bool is_slow)
{
    atomic_store(&disk_is_slow, is_slow);
}
