/*
 * Copies a ledger to a new file: page by page through SQLite, or byte by byte if the file is too
 * damaged for that. Called over a connection of its own by admin threads and the verifier thread,
 * and by migrate.c at start. A copy is complete, checked and synced before it gets its final name.
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
    /* In one step, because a reader of a write-ahead log does not block writers. */
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
    /* Checked first: a copy that fills the disk would stop the ledger. */
    if (failed == 0)
        failed =
            space_for_copy(sqlite3_db_filename(to, "main"), bytes, "a copy of the ledger", err);
    if (failed == 0)
        failed = backup_pages(from, to, err);
    if (failed != 0)
        return failed;
    /*
     * Changes the copied header from WAL, which needs a log and shared memory beside the file, to
     * DELETE, so that the copy is a single file.
     */
    failed = db_sentence(to, "PRAGMA journal_mode=DELETE", mode, sizeof mode, err);
    if (failed == 0 && strcmp(mode, "delete") != 0)
        failed = err_set(err, ERR_IO, "backup: SQLite keeps a log beside the copy (%s)", mode);
    return failed;
}

/* For files and folders: on Linux a read-only descriptor is enough for fsync(). */
static int sync_file(const char *file, struct err *err)
{
    must(file[0] != '\0');
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %m", file);
    const int failed = fsync(fd) < 0 ? err_set(err, ERR_IO, "%s: %m", file) : 0;
    (void)close(fd); /* already synced */
    return failed;
}

/* A new name survives power loss only after its folder is synced. */
static int sync_folder_of(const char *file, struct err *err)
{
    CLEANUP(xfreep) char *folder = xstrdup(file);
    char *slash = strrchr(folder, '/');

    if (slash == NULL)
        return sync_file(".", err);
    /* For "/name" the slash stays: the root folder. */
    slash[slash == folder] = '\0';
    must(folder[0] != '\0');
    return sync_file(folder, err);
}

/* Never replaces an existing file, not even one created during the copy. */
static int put_in_place(const char *from, const char *to, struct err *err)
{
    must(strcmp(from, to) != 0);
    int rc = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    /* A filesystem without RENAME_NOREPLACE: check first, with a race against other processes. */
    if (rc < 0 && (errno == EINVAL || errno == ENOSYS)) {
        errno = EEXIST;
        if (access(to, F_OK) < 0)
            rc = rename(from, to);
    }
    if (rc < 0 && errno == EEXIST)
        return err_set(err, ERR_CONFLICT, "%s: already exists; name a new file", to);
    return rc < 0 ? err_set(err, ERR_IO, "%s: %m", to) : sync_folder_of(to, err);
}

/* Closes the copy before it returns, because SQLite uses the side files until then. */
static int backup_into(sqlite3 *db, const char *part, struct err *err)
{
    CLEANUP(db_closep) sqlite3 *copy = NULL;

    must(part[0] != '\0');
    int failed = db_open(part, DB_CREATE, &copy, err);
    if (failed == 0)
        failed = copy_pages(db, copy, err);
    if (failed == 0)
        failed = ledger_id_stamp_copy(copy, err);
    /* A copy that cannot be used must be found now, not when it is needed. */
    if (failed == 0)
        failed = check_file(copy, false, err);
    return failed;
}

/* Removes side files, which SQLite leaves if closing failed; fails if the log is not empty. */
static int drop_side_files(const char *part, struct err *err)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    int failed = 0;

    must(part[0] != '\0');
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        struct strbuf name;
        struct stat st;
        strbuf_init(&name);
        strbuf_printf(&name, "%s%s", part, suffixes[i]);
        if (i == 0 && stat(name.data, &st) == 0 && st.st_size > 0)
            failed =
                err_set(err, ERR_IO, "backup: SQLite left a part of the copy in %s", name.data);
        (void)unlink(name.data); /* rarely exists */
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
    /* The caller keeps this open: close() would drop SQLite's POSIX locks on the same file. */
    *out_fd = open(from, O_RDONLY | O_CLOEXEC);
    if (*out_fd < 0)
        return err_set(err, ERR_IO, "%s: %m", from);
    const int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %m", to);
    int failed = backup_pour(*out_fd, fd, to, err);
    if (failed == 0 && fsync(fd) < 0)
        failed = err_set(err, ERR_IO, "%s: %m", to);
    (void)close(fd); /* already synced */
    return failed;
}

/*
 * Writes under a temporary name, checks, syncs and renames, so that a file with the final name is
 * complete. At the next start stale_copies.c removes the leftovers of a killed process.
 */
int backup_to(sqlite3 *db, const char *file, struct err *err)
{
    struct strbuf part;

    must(db != NULL);
    if (file[0] == '\0' || file[strlen(file) - 1] == '/')
        return err_set(err, ERR_INVALID, "backup: \"%s\" is not a file name", file);
    if (access(file, F_OK) == 0)
        return err_set(err, ERR_CONFLICT, "%s: already exists; name a new file", file);

    strbuf_init(&part);
    strbuf_printf(&part, "%s.part-XXXXXX", file);
    const int fd = mkostemp(part.data, O_CLOEXEC); /* creates it with mode 0600 */
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
        (void)unlink(part.data); /* may have been renamed already */
    strbuf_done(&part);
    return failed;
}
