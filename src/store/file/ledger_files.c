/*
 * Path, folder, lock and header of the ledger's file, and moving it aside. Called by store.c and
 * schema_prepare.c at start, by migrate.c for a free name, and by quiet_file.c in milligpuctl. The
 * order matters: file_find() resolves the path, file_lock() locks out other daemons, and
 * file_prepare() checks the header before SQLite opens the file. Nothing here changes the content
 * of a ledger.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/run/clock.h"

#include "store/store_internal.h"

static const char sqlite_magic[16] = "SQLite format 3";

static void file_close_fd(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* nothing was written through it */
}

/*
 * Filesystems on which locks and shared memory do not work; NULL: none of them. FUSE is allowed,
 * because it may be a local disk (containers in virtual machines).
 */
static const char *network_name(long type)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } kinds[] = {
        {NFS_SUPER_MAGIC, "NFS"},     {SMB_SUPER_MAGIC, "SMB"}, {0xff534d42u, "CIFS"},
        {0xfe534d42u, "SMB2"},        {V9FS_MAGIC, "9p"},       {0x00c36400u, "CephFS"},
        {AFS_SUPER_MAGIC, "AFS"},     {0x6b414653u, "AFS"},     {CODA_SUPER_MAGIC, "Coda"},
        {OCFS2_SUPER_MAGIC, "OCFS2"}, {0x01161970u, "GFS2"},    {0x0bd00bd0u, "Lustre"},
        {0x47504653u, "GPFS"},        {0x19830326u, "BeeGFS"},  {0x786f4256u, "VirtualBox folders"},
    };
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].magic == (uint32_t)type)
            return kinds[i].name;
    return NULL;
}

/* The folder must be writable: SQLite creates log and shared memory there, and we the lock. */
static int check_folder(const char *folder, struct err *err)
{
    must(folder[0] != '\0');
    struct stat st;
    struct statfs fs;

    if (stat(folder, &st) < 0)
        return err_set(err, ERR_IO, "%s: %m; the ledger's folder must be there", folder);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_IO, "%s: not a folder; the ledger needs one", folder);
    if (access(folder, W_OK | X_OK) < 0)
        return err_set(err, ERR_IO, "%s: %m; the ledger's log and lock are made in this folder",
                       folder);
    if (statfs(folder, &fs) < 0)
        return err_set(err, ERR_IO, "%s: %m", folder);
    const char *network = network_name((long)fs.f_type);
    if (network != NULL)
        return err_set(err, ERR_INVALID,
                       "%s: on a network filesystem (%s), where locks do not hold; "
                       "put the ledger on a local disk or a block volume",
                       folder, network);
    return 0;
}

int file_find(const char *path, char **out_path, struct err *err)
{
    must(path != NULL);
    if (path[0] == '\0')
        return err_set(err, ERR_INVALID, "the ledger's file name is empty");

    /* Without resolving a link the lock would be beside the link, unseen through other paths. */
    char *real = realpath(path, NULL);
    if (real == NULL && errno != ENOENT)
        return err_set(err, ERR_IO, "%s: %m", path);

    /* Without a file (first start), only the folder is resolved, below. */
    CLEANUP(xfreep) char *copy = xstrdup(real != NULL ? real : path);
    free(real);
    char *slash = strrchr(copy, '/');
    const char *name = slash != NULL ? slash + 1 : copy;
    if (name[0] == '\0')
        return err_set(err, ERR_INVALID, "%s: a folder; the ledger is a file", path);
    if (slash != NULL)
        *slash = '\0';
    const char *folder = slash == NULL ? "." : copy[0] == '\0' ? "/" : copy;
    const int failed = check_folder(folder, err);
    if (failed != 0)
        return failed;

    real = realpath(folder, NULL);
    if (real == NULL)
        return err_set(err, ERR_IO, "%s: %m", folder);
    struct strbuf full;
    strbuf_init(&full);
    strbuf_printf(&full, "%s%s%s", real, strcmp(real, "/") == 0 ? "" : "/", name);
    free(real);
    *out_path = strbuf_steal(&full);
    must((*out_path)[0] == '/');
    return 0;
}

/* The process id of the holder, for a message. Takes digits only, because it is untrusted. */
static void read_holder(int fd, char *out, size_t bytes)
{
    must(bytes > 1);
    const ssize_t got = pread(fd, out, bytes - 1, 0);
    out[got > 0 ? got : 0] = '\0';
    out[strspn(out, "0123456789")] = '\0';
}

/*
 * A flock ends with the process, even after kill -9. The lock file is never removed: a daemon that
 * has already opened it would then lock a file that others do not see.
 */
int file_lock(const char *path, int *out_fd, struct err *err)
{
    char text[128];
    struct strbuf name;

    strbuf_init(&name);
    strbuf_printf(&name, "%s.lock", path);
    /* NOFOLLOW: the process id must not overwrite the target of a link. */
    const int fd = open(name.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    strbuf_done(&name);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s.lock: %m", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        const int why = errno;
        read_holder(fd, text, sizeof text);
        (void)close(fd);
        errno = why;
        if (why != EWOULDBLOCK)
            return err_set(err, ERR_IO, "%s.lock: %m", path);
        return err_set(err, ERR_BUSY,
                       "%s: another milligpud (process %s) uses this ledger; only one may", path,
                       text[0] != '\0' ? text : "unknown");
    }
    const int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    must(length > 0 && (size_t)length < sizeof text);
    /* For people only: an error does not matter. */
    if (ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, text, (size_t)length, 0);
    *out_fd = fd;
    return 0;
}

static bool all_zero(const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/*
 * FOREIGN: not a SQLite header; such a file is never changed, whatever on_corrupt is. CORRUPT: a
 * header that was zeroed or truncated, as after a disk crash.
 */
static int check_head(const char *path, const char *head, size_t got, struct err *err)
{
    must(got <= sizeof sqlite_magic);
    if (got == 0)
        return 0;
    if (got == sizeof sqlite_magic && memcmp(head, sqlite_magic, got) == 0)
        return 0;
    if (all_zero(head, got) || (got < sizeof sqlite_magic && memcmp(head, sqlite_magic, got) == 0))
        return err_set(err, ERR_CORRUPT, "%s: the ledger is corrupt: its header is lost", path);
    return err_set(err, ERR_FOREIGN,
                   "%s: not a milligpu ledger, nor any SQLite database; name another file", path);
}

int file_check_head(int fd, const char *path, struct err *err)
{
    char head[sizeof sqlite_magic];

    must(fd >= 0);
    const ssize_t got = pread(fd, head, sizeof head, 0);
    if (got < 0)
        return err_set(err, ERR_IO, "%s: %m", path);
    must((size_t)got <= sizeof head);
    return check_head(path, head, (size_t)got, err);
}

int file_prepare(const char *path, struct err *err)
{
    struct stat st;

    /* Before SQLite opens the file: close() drops all POSIX locks of the process on it. */
    CLEANUP(file_close_fd) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EISDIR)
        return err_set(err, ERR_INVALID, "%s: a folder; the ledger is a file", path);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %m", path);
    if (fstat(fd, &st) < 0)
        return err_set(err, ERR_IO, "%s: %m", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "%s: not a regular file; the ledger is one", path);
    return file_check_head(fd, path, err);
}

/* Makes the creation or renaming of the file survive a power loss. */
int file_sync_folder(const char *path, struct err *err)
{
    CLEANUP(xfreep) char *folder = xstrdup(path);
    char *slash = strrchr(folder, '/');

    must(slash != NULL); /* file_find() made it absolute */
    slash[slash == folder] = '\0';
    CLEANUP(file_close_fd) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return err_set(err, ERR_IO, "%s: %m", folder);
    return 0;
}

char *file_beside(const char *path, const char *suffix)
{
    struct strbuf name;

    must(path[0] != '\0');
    strbuf_init(&name);
    strbuf_printf(&name, "%s%s", path, suffix);
    return strbuf_steal(&name);
}

int64_t file_bytes(const char *path, const char *suffix)
{
    CLEANUP(xfreep) char *name = file_beside(path, suffix);
    struct stat st;

    const int rc = stat(name, &st);
    must(rc < 0 || st.st_size >= 0);
    return rc < 0 ? 0 : (int64_t)st.st_size;
}

/* For names and for meta.created_ms only; no decision depends on it. */
int64_t file_wall_ms(void)
{
    struct clock_ops clock;
    clock_real(&clock);
    return clock.wall_ms(clock.ctx);
}

char *file_free_name(const char *path, const char *word)
{
    struct strbuf name;
    struct tm utc;
    char stamp[32];
    const time_t now = (time_t)(file_wall_ms() / 1000);

    must(word[0] != '\0');
    must(gmtime_r(&now, &utc) != NULL);
    must(strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc) > 0);
    strbuf_init(&name);
    strbuf_printf(&name, "%s.%s-%s", path, word, stamp);
    const size_t bare = name.len;
    /* No race: we hold the ledger's lock, so nobody else creates such names. */
    for (unsigned n = 2; access(name.data, F_OK) == 0; n++) {
        strbuf_cut(&name, bare, name.len - bare);
        strbuf_printf(&name, ".%u", n);
    }
    return strbuf_steal(&name);
}

static int rename_one(const char *from, const char *to, const char *suffix, struct err *err)
{
    must(from[0] == '/');
    struct strbuf old, new;

    strbuf_init(&old);
    strbuf_init(&new);
    strbuf_printf(&old, "%s%s", from, suffix);
    strbuf_printf(&new, "%s%s", to, suffix);
    int failed = 0;
    /* Side files may be missing; so may the ledger, if only its log is left. */
    if (rename(old.data, new.data) < 0 && errno != ENOENT)
        failed = err_set(err, ERR_IO, "%s: move to %s: %m", old.data, new.data);
    strbuf_done(&old);
    strbuf_done(&new);
    return failed;
}

int file_move_aside(const char *path, const char *word, char **out_name, struct err *err)
{
    static const char *const suffixes[] = {".id", "-wal", "-shm", "-journal", ""};
    CLEANUP(xfreep) char *name = file_free_name(path, word);

    must(path[0] == '/');
    /* The file last: a log without its file is harmless, a new file beside an old log is not. */
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        const int failed = rename_one(path, name, suffixes[i], err);
        if (failed != 0)
            return failed;
    }
    const int failed = file_sync_folder(path, err);
    if (failed == 0)
        *out_name = STEAL(name);
    return failed;
}
