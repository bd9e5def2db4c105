/*
 * The ballast: a file of a few MiB beside the ledger, which reserves disk blocks. When the disk is
 * full the file is removed, so that releases can still be written; it must exist again before
 * grants resume. Called by disk_space.c in the writer, and at the opening of a ledger.
 *
 * Best effort: on copy-on-write filesystems (Btrfs, ZFS) a removed file may free its blocks late,
 * or not at all while a snapshot references them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

enum { BALLAST_BYTES_MAX = 16 * 1024 * 1024, VOLUME_PARTS = 8 };

bool volume_look(const char *path, struct volume *out)
{
    CLEANUP(xfreep) char *folder = xstrdup(path);
    char *slash = strrchr(folder, '/');
    struct statvfs fs;

    must(path[0] != '\0');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    if (statvfs(slash != NULL ? folder : ".", &fs) < 0)
        return false;
    out->bytes = (int64_t)(fs.f_blocks * fs.f_frsize);
    out->free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize);
    return out->bytes > 0; /* some filesystems report no size */
}

/* Has the file all its blocks? A copy of the folder may be sparse. */
static bool is_whole(const char *name, int64_t bytes)
{
    struct stat st;

    must(bytes > 0);
    return lstat(name, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == bytes &&
           st.st_blocks * 512 >= bytes;
}

static int ballast_fill(const char *name, int64_t bytes)
{
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    must(bytes > 0);
    if (fd < 0)
        return errno;
    const int failed = posix_fallocate(fd, 0, bytes);
    if (close(fd) < 0 && failed == 0)
        return errno;
    return failed;
}

int ballast_make(const char *path)
{
    CLEANUP(xfreep) char *name = file_beside(path, ".ballast");
    struct volume volume;

    if (!volume_look(path, &volume))
        return ENOTSUP;
    const int64_t part = volume.bytes / VOLUME_PARTS;
    const int64_t bytes = part < BALLAST_BYTES_MAX ? part : BALLAST_BYTES_MAX;
    if (bytes == 0)
        return ENOTSUP;
    if (is_whole(name, bytes))
        return 0;
    (void)unlink(name); /* another size, or sparse; rarely exists */
    /* Requires twice the space: a ballast that fills the disk is removed at the next write. */
    if (volume.free_bytes < 2 * bytes)
        return ENOSPC;
    const int failed = ballast_fill(name, bytes);
    if (failed != 0)
        (void)unlink(name); /* incomplete */
    return failed;
}

void ballast_drop(const char *path)
{
    CLEANUP(xfreep) char *name = file_beside(path, ".ballast");

    (void)unlink(name); /* may be missing */
}
