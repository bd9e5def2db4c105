/*
 * Copies a ledger to a new file: page by page through SQLite, or, if the file is too damaged for
 * that, byte by byte. Called over a connection of its own by admin threads and the verifier thread,
 * and by migrate.c at start. A copy gets its final name only when it is complete, checked and on
 * disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

int backup_pages(sqlite3 *from, sqlite3 *to, struct err *err)
{
    must(from != to);
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    if (backup == NULL)
        return db_fail(to, sqlite3_errcode(to), err, "backup");
    /* In one step: a reader of a write-ahead log does not block writers. */
    const int stepped = sqlite3_backup_step(backup, -1);
    const int rc = sqlite3_backup_finish(backup);
    if (rc != SQLITE_OK)
        return db_fail(to, rc, err, "backup");
    must(stepped != SQLITE_OK);
    return stepped != SQLITE_DONE ? db_fail(to, stepped, err, "backup") : 0;
}

static int copy_pages(sqlite3 *from, sqlite3 *to, struct err *err)
{
    char mode[16];
    int64_t bytes = 0;

    must(from != to);
    int failed = db_bytes(from, &bytes, err);
    /* Refused before it begins: a copy that fills the disk would take the ledger's room. */
    if (failed == 0)
        failed =
            space_for_copy(sqlite3_db_filename(to, "main"), bytes, "a copy of the ledger", err);
    if (failed == 0)
        failed = backup_pages(from, to, err);
    if (failed != 0)
        return failed;
    /*
     * The header that was copied says WAL: as it is, the copy would need a log and shared memory
     * beside it. In mode DELETE it is one file, complete by itself.
     */
    failed = db_sentence(to, "PRAGMA journal_mode=DELETE", mode, sizeof mode, err);
    if (failed == 0 && strcmp(mode, "delete") != 0)
        failed = err_set(err, ERR_IO, "backup: SQLite keeps a log beside the copy (%s)", mode);
    return failed;
}

/* For folders, too: a descriptor that only reads is enough for fsync() on Linux. */
static int sync_file(const char *file, struct err *err)
{
    must(file[0] != '\0');
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %m", file);
    const int failed = fsync(fd) < 0 ? err_set(err, ERR_IO, "%s: %m", file) : 0;
    (void)close(fd); /* synced already, so closing has nothing to report */
    return failed;
}

/* A new name survives power loss only when its folder is synced. */
static int sync_folder_of(const char *file, struct err *err)
{
    CLEANUP(xfreep) char *folder = xstrdup(file);
    char *slash = strrchr(folder, '/');

    if (slash == NULL)
        return sync_file(".", err);
    /* In "/name" the slash itself stays: the folder is the root. */
    slash[slash == folder] = '\0';
    must(folder[0] != '\0');
    return sync_file(folder, err);
}

/* Never replaces an existing file, not even one created while we copied. */
static int put_in_place(const char *from, const char *to, struct err *err)
{
    must(strcmp(from, to) != 0);
    int rc = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    /*
     * This file system cannot refuse to replace: look first. In between another process may still
     * create the file.
     */
    if (rc < 0 && (errno == EINVAL || errno == ENOSYS)) {
        errno = EEXIST;
        if (access(to, F_OK) < 0)
            rc = rename(from, to);
    }
    if (rc < 0 && errno == EEXIST)
        return err_set(err, ERR_CONFLICT, "%s: is there already; name a new file", to);
    return rc < 0 ? err_set(err, ERR_IO, "%s: %m", to) : sync_folder_of(to, err);
}

/* Returns with the copy closed: before that its side files are SQLite's. */
static int backup_into(sqlite3 *db, const char *part, struct err *err)
{
    CLEANUP(db_closep) sqlite3 *copy = NULL;

    must(part[0] != '\0');
    int failed = db_open(part, DB_CREATE, &copy, err);
    if (failed == 0)
        failed = copy_pages(db, copy, err);
    if (failed == 0)
        failed = ledger_id_stamp_copy(copy, err);
    /* Better to learn now that a copy is unusable than when it is needed. */
    if (failed == 0)
        failed = check_file(copy, false, err);
    return failed;
}

/* SQLite leaves its side files behind if closing failed; empty ones have no content to lose. */
static int drop_side_files(const char *part, struct err *err)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    int failed = 0;

    must(part[0] != '\0');
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        struct strbuf name;
        struct stat is;
        strbuf_init(&name);
        strbuf_printf(&name, "%s%s", part, suffixes[i]);
        if (i == 0 && stat(name.data, &is) == 0 && is.st_size > 0)
            failed =
                err_set(err, ERR_IO, "backup: SQLite left a part of the copy in %s", name.data);
        (void)unlink(name.data); /* it rarely exists */
        strbuf_done(&name);
    }
    return failed;
}

static int backup_pour(int from, int to, const char *name, struct err *err)
{
    char bytes[1 << 16];
    ssize_t got;

    must(from != to);
    for (off_t at = 0; (got = pread(from, bytes, sizeof bytes, at)) > 0; at += got)
        for (ssize_t put = 0; put < got;) {
            const ssize_t wrote = write(to, bytes + put, (size_t)(got - put));
            if (wrote <= 0)
                return err_set(err, ERR_IO, "%s: %m", name);
            put += wrote;
        }
    return got < 0 ? err_set(err, ERR_IO, "%s: %m", name) : 0;
}

int backup_bytes(const char *from, const char *to, int *out_fd, struct err *err)
{
    must(*out_fd < 0);
    /* The caller keeps this open: close() would drop the locks that SQLite has on the same file. */
    *out_fd = open(from, O_RDONLY | O_CLOEXEC);
    if (*out_fd < 0)
        return err_set(err, ERR_IO, "%s: %m", from);
    const int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %m", to);
    int failed = backup_pour(*out_fd, fd, to, err);
    if (failed == 0 && fsync(fd) < 0)
        failed = err_set(err, ERR_IO, "%s: %m", to);
    (void)close(fd); /* synced already, so closing has nothing to report */
    return failed;
}

/*
 * A temporary name first, then check, sync, rename: whoever finds the final name finds a complete
 * copy. stale_copies.c removes at the next start what a kill leaves behind.
 */
int backup_to(sqlite3 *db, const char *file, struct err *err)
{
    struct strbuf part;

    must(db != NULL);
    if (file[0] == '\0' || file[strlen(file) - 1] == '/')
        return err_set(err, ERR_INVALID, "backup: \"%s\" is not a file name", file);
    if (access(file, F_OK) == 0)
        return err_set(err, ERR_CONFLICT, "%s: is there already; name a new file", file);

    strbuf_init(&part);
    strbuf_printf(&part, "%s.part-XXXXXX", file);
    const int fd = mkostemp(part.data, O_CLOEXEC); /* created by us: mode 0600 */
    int failed = fd < 0 ? err_set(err, ERR_IO, "%s: %m", part.data) : 0;
    if (fd >= 0)
        (void)close(fd); /* SQLite opens it by name */
    if (failed == 0)
        failed = backup_into(db, part.data, err);
    struct err side;
    if (fd >= 0 && drop_side_files(part.data, &side) != 0 && failed == 0) {
        *err = side;
        failed = -(int)side.code;
    }
    if (failed == 0)
        failed = sync_file(part.data, err);
    if (failed == 0)
        failed = put_in_place(part.data, file, err);
    if (failed != 0 && fd >= 0)
        (void)unlink(part.data); /* it may have been renamed already */
    strbuf_done(&part);
    return failed;
}
