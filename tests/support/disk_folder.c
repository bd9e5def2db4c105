/*
 * The folder's part of the disk: operations on names that the store does itself, not through
 * SQLite.
 *
 * These replace libc's functions in a program that uses the disk. The real folder is changed, too,
 * since the store's lock and its look at the header are there; what fails there fails here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sqlite3.h>

#include "support/disk_plate.h"

static bool joined;

void disk_folder_join(void)
{
    joined = true;
}

static int touch(enum disk_kind kind)
{
    const int rc = disk_touch(kind);
    if (rc != SQLITE_OK)
        errno = rc == SQLITE_FULL ? ENOSPC : EIO;
    return rc == SQLITE_OK ? 0 : -1;
}

static bool has(const char *name)
{
    return joined && plate_find(name) != NULL;
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    const bool ours = has(from);
    if (ours && (flags & RENAME_NOREPLACE) != 0 && has(to)) {
        errno = EEXIST;
        return -1;
    }
    if (ours && touch(DISK_RENAME) < 0)
        return -1;
    const long rc = syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
    /* The log exists on the simulated disk only. */
    if (!ours || (rc < 0 && errno != ENOENT))
        return (int)rc;
    must(plate_rename(from, to));
    return 0;
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *name)
{
    const bool ours = has(name);
    if (ours && touch(DISK_DELETE) < 0)
        return -1;
    const long rc = syscall(SYS_unlinkat, AT_FDCWD, name, 0);
    if (!ours || (rc < 0 && errno != ENOENT))
        return (int)rc;
    must(plate_delete(name));
    return 0;
}

int fsync(int fd)
{
    char link[64];
    char name[4096];
    struct stat st;

    if (!joined || fstat(fd, &st) < 0)
        return (int)syscall(SYS_fsync, fd);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t got = readlink(link, name, sizeof name - 1);
    name[got > 0 ? got : 0] = '\0';
    struct plate_file *file = plate_find(name);
    if (file == NULL && !S_ISDIR(st.st_mode))
        return (int)syscall(SYS_fsync, fd);
    const int failed = touch(DISK_SYNC);
    if (file != NULL && failed == 0)
        plate_sync(file);
    else if (file != NULL)
        plate_sync_failed(file);
    else if (failed == 0)
        plate_sync_names();
    return failed;
}
