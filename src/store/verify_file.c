#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/alloc.h"

#include "store/store_internal.h"

/*
 * How to read a file without leaving a trace depends on who else uses it:
 *
 *   a daemon         through its log and its shared memory, like any reader
 *   nobody, no log   as a file that does not change (SQLite's immutable)
 *   nobody, a log    without locks, with the index of the log in our own memory
 *
 * Without a daemon an ordinary open would create a log and shared memory, or checkpoint the log.
 */
enum way { WAY_BESIDE, WAY_STILL, WAY_LOG };

/* What changes when somebody writes. */
struct mark {
    bool held;
    long long bytes;
    long long wal_bytes;
    struct timespec at;
    struct timespec wal_at;
};

static char *verify_file_beside(const char *path, const char *suffix)
{
    struct strbuf name;

    must(path[0] != '\0');
    strbuf_init(&name);
    strbuf_printf(&name, "%s%s", path, suffix);
    return strbuf_steal(&name);
}

/*
 * Held for an instant only: a daemon that starts just then is told that the ledger is locked, and
 * tries again.
 */
static bool is_held(const char *path)
{
    CLEANUP(xfreep) char *name = verify_file_beside(path, ".lock");
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    must(name != NULL);
    if (fd < 0)
        return false;
    const bool held = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    (void)close(fd); /* releases the lock */
    return held;
}

/* Sizes and times are enough: whoever writes a page or a log changes one of them. */
static struct mark mark_of(const char *path)
{
    CLEANUP(xfreep) char *wal = verify_file_beside(path, "-wal");
    struct mark mark = {.held = is_held(path)};
    struct stat is;

    must(wal != NULL);
    if (stat(path, &is) == 0) {
        mark.bytes = (long long)is.st_size;
        mark.at = is.st_mtim;
    }
    if (stat(wal, &is) == 0) {
        mark.wal_bytes = (long long)is.st_size;
        mark.wal_at = is.st_mtim;
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

/* It exists, is a file, and its content may be ours. */
static int look_at_file(const char *path, struct err *err)
{
    struct stat is;

    must(path != NULL);
    if (stat(path, &is) < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s: %m", path);
    if (S_ISDIR(is.st_mode))
        return err_set(err, ERR_INVALID, "%s: a folder; the ledger is a file in one", path);
    if (!S_ISREG(is.st_mode))
        return err_set(err, ERR_INVALID, "%s: not a regular file; the ledger is one", path);
    if (is.st_size == 0)
        return err_set(err, ERR_INVALID, "%s: the file is empty; it contains no ledger", path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %m", path);
    const int failed = file_judge_head(fd, path, err);
    (void)close(fd); /* only read */
    return failed;
}

static int verify_file_identify(sqlite3 *db, const char *path, struct err *err)
{
    bool blank = false;
    int64_t version = 0;

    must(db != NULL);
    const int failed = schema_identify(db, &store_schema, &blank, &version, err);
    if (failed != 0)
        return failed;
    if (blank)
        return err_set(err, ERR_INVALID, "%s: the database is empty; it contains no ledger", path);
    if (version != store_schema.version)
        return err_set(
            err, ERR_INVALID,
            "%s: version %lld of a ledger; this milligpuctl checks version %u: start the "
            "milligpud of this version on it, which copies it and takes it to %u, or "
            "check it with the milligpuctl that came with the older milligpud",
            path, (long long)version, store_schema.version, store_schema.version);
    return 0;
}

/* BEGIN: all checks see one moment, also while a daemon writes. */
static int open_quietly(const char *path, enum way way, sqlite3 **out, struct err *err)
{
    static const enum db_mode modes[] = {
        [WAY_BESIDE] = DB_BESIDE, [WAY_STILL] = DB_STILL, [WAY_LOG] = DB_LOG};

    must((size_t)way < ARRAY_LEN(modes));
    int failed = db_open(path, modes[way], out, err);
    if (failed == 0)
        failed = verify_file_identify(*out, path, err);
    if (failed == 0)
        failed = db_exec(*out, "BEGIN", err);
    return failed;
}

typedef void each_check(void *user, enum store_check check, const char *wrong);

/*
 * CORRUPT and INTERNAL are findings: the next check still runs. Any other code ends the
 * verification.
 */
static int run_checks(sqlite3 *db, void *user, each_check *each, struct err *err)
{
    for (unsigned i = 0; i < STORE_CHECKS; i++) {
        const enum store_check which = (enum store_check)i;
        const int failed = check_one(db, &store_schema, which, err);
        must(failed <= 0);
        if (failed != 0 && err->code != ERR_CORRUPT && err->code != ERR_INTERNAL)
            return failed;
        each(user, which, failed != 0 ? err->text : NULL);
    }
    return 0;
}

int store_verify_file(const char *path, void *user, each_check *each, struct err *err)
{
    CLEANUP(db_closep) sqlite3 *db = NULL;

    must(path != NULL && each != NULL);
    int failed = look_at_file(path, err);
    const struct mark before = mark_of(path);
    const enum way way = way_of(&before);
    if (failed == 0)
        failed = open_quietly(path, way, &db, err);
    /* Too damaged to even say whose it is. */
    if (failed == -(int)ERR_CORRUPT) {
        each(user, CHECK_PAGES, err->text);
        return 0;
    }
    if (failed == 0)
        failed = run_checks(db, user, each, err);
    const struct mark after = mark_of(path);
    /* Without locks nothing else would show that pages of two moments were read. */
    if (failed == 0 && way != WAY_BESIDE && !same_mark(&before, &after))
        failed = err_set(err, ERR_BUSY, "%s: it was written to while it was read; try again", path);
    return failed;
}
