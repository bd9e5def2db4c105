/*
 * Reads a ledger file without changing it: used by a running daemon, left behind by one, or a copy.
 * Called by verify_file.c, journal_file.c and restore_file.c in milligpuctl, and by kept_policy.c
 * and owner.c in milligpud before it opens its ledger. Nothing is written and no file is created.
 * quiet_close() fails if the data that were read may belong to different moments.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

/*
 * Does a daemon have the lock? Takes the lock for an instant: a daemon that starts in this instant
 * fails to lock the ledger, and has to be started again.
 */
static bool is_held(const char *path)
{
    CLEANUP(xfreep) char *name = file_beside(path, ".lock");
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    must(name != NULL);
    if (fd < 0)
        return false;
    const bool held = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    (void)close(fd); /* releases the lock */
    return held;
}

/* Sizes and modification times suffice: each write changes one of them. */
static struct mark mark_of(const struct quiet_file *file)
{
    const char *path = file->path;
    CLEANUP(xfreep) char *wal = file_beside(path, "-wal");
    struct mark mark = {.held = !file->locked && is_held(path)};
    struct stat st;

    must(wal != NULL);
    if (stat(path, &st) == 0) {
        mark.bytes = (long long)st.st_size;
        mark.at = st.st_mtim;
    }
    if (stat(wal, &st) == 0) {
        mark.wal_bytes = (long long)st.st_size;
        mark.wal_at = st.st_mtim;
    }
    return mark;
}

static bool same_mark(const struct mark *a, const struct mark *b)
{
    must(a->bytes >= 0 && b->bytes >= 0);
    return a->held == b->held && a->bytes == b->bytes && a->wal_bytes == b->wal_bytes &&
           a->at.tv_sec == b->at.tv_sec && a->at.tv_nsec == b->at.tv_nsec &&
           a->wal_at.tv_sec == b->wal_at.tv_sec && a->wal_at.tv_nsec == b->wal_at.tv_nsec;
}

static enum way way_of(const struct mark *mark)
{
    must(mark->wal_bytes >= 0);
    if (mark->held)
        return WAY_BESIDE;
    return mark->wal_bytes > 0 ? WAY_LOG : WAY_STILL;
}

/* Checks that the file exists, is regular and not empty, and has a ledger's header. */
static int look_at_file(const char *path, struct err *err)
{
    struct stat st;

    must(path != NULL);
    if (stat(path, &st) < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s: %m", path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID, "%s: a folder; the ledger is a file in one", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "%s: not a regular file; the ledger is one", path);
    if (st.st_size == 0)
        return err_set(err, ERR_INVALID, "%s: the file is empty; it contains no ledger", path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %m", path);
    const int failed = file_check_head(fd, path, err);
    (void)close(fd); /* read-only */
    return failed;
}

static int quiet_identify(const struct quiet_file *file, int64_t *out_version, struct err *err)
{
    bool blank = false;

    must(file->db != NULL);
    const int failed = schema_identify(file->db, &store_schema, &blank, out_version, err);
    if (failed != 0)
        return failed;
    if (blank)
        return err_set(err, ERR_INVALID, "%s: the database is empty; it contains no ledger",
                       file->path);
    return 0;
}

static int quiet_begin(struct quiet_file *file, int64_t *out_version, struct err *err)
{
    static const enum db_mode modes[] = {
        [WAY_BESIDE] = DB_BESIDE, [WAY_STILL] = DB_STILL, [WAY_LOG] = DB_LOG};

    must(file->path != NULL && file->db == NULL);
    int failed = look_at_file(file->path, err);
    file->before = mark_of(file);
    file->way = way_of(&file->before);
    must((size_t)file->way < ARRAY_LEN(modes));
    if (failed == 0 && file->way == WAY_LOG)
        failed = ledger_id_compare(file->path, err);
    if (failed == 0)
        failed = db_open(file->path, modes[file->way], &file->db, err);
    if (failed == 0)
        failed = quiet_identify(file, out_version, err);
    /* One read transaction: all reads see the same moment, also while a daemon writes. */
    if (failed == 0)
        failed = db_exec(file->db, "BEGIN", err);
    return failed;
}

int quiet_open(const char *path, struct quiet_file *out, int64_t *out_version, struct err *err)
{
    *out = (struct quiet_file){.path = path};
    return quiet_begin(out, out_version, err);
}

int quiet_open_locked(const char *path, struct quiet_file *out, int64_t *out_version,
                      struct err *err)
{
    *out = (struct quiet_file){.path = path, .locked = true};
    return quiet_begin(out, out_version, err);
}

int quiet_close(struct quiet_file *file, struct err *err)
{
    const struct mark after = mark_of(file);

    must(file->path != NULL);
    db_close(file->db);
    file->db = NULL;
    /* Without locks, pages of two moments may have been read. */
    if (file->way != WAY_BESIDE && !same_mark(&file->before, &after))
        return err_set(err, ERR_BUSY, "%s: it was written to while it was read; try again",
                       file->path);
    return 0;
}
