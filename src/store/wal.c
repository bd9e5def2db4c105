/*
 * The write-ahead log as bytes; sqlite.org/fileformat2.html, 4, says what they mean.  Everything
 * goes through SQLite's own functions for files, so that its locks stand and a test can put a disk
 * of its own below.
 */
#include <string.h>

#include <sqlite3.h>

#include "milligpu/alloc.h"

#include "store/store_internal.h"

enum {
    PIECE_BYTES = 64 << 10,
    LOG_HEAD_BYTES = 32,
    PAGE_BYTES_MIN = 512,
    PAGE_BYTES_MAX = 64 << 10,
    LOG_MAGIC = 0x377f0682, /* or, where sums are made of big-endian words, one more */
    LOG_FORMAT = 3007000,
};

/* What is done to an open log; returns SQLite's code. */
typedef int log_work(sqlite3_file *file, void *user);

static int with_file(sqlite3_vfs *vfs, const char *log, log_work *work, void *user)
{
    int there = 0;

    must(log != NULL);
    int rc = vfs->xAccess(vfs, log, SQLITE_ACCESS_EXISTS, &there);
    if (rc != SQLITE_OK || there == 0)
        return rc;
    sqlite3_file *file = xcalloc(1, (size_t)vfs->szOsFile);
    rc = vfs->xOpen(vfs, log, file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL, NULL);
    if (rc == SQLITE_OK)
        rc = work(file, user);
    if (file->pMethods != NULL) {
        const int closed = file->pMethods->xClose(file);
        rc = rc == SQLITE_OK ? closed : rc;
    }
    xfree(file);
    return rc;
}

/* If there is no log, there is nothing to do. */
static int with_log(const char *path, log_work *work, void *user, const char *doing,
                    struct err *err)
{
    struct strbuf log;

    must(path[0] == '/');
    strbuf_init(&log);
    strbuf_printf(&log, "%s-wal", path);
    /* SQLite's own functions for files want a name that SQLite made. */
    sqlite3_filename name = sqlite3_create_filename(path, "", log.data, 0, NULL);
    must(name != NULL); /* else out of memory */
    const int rc = with_file(sqlite3_vfs_find(NULL), sqlite3_filename_wal(name), work, user);
    sqlite3_free_filename(name);
    const int failed = rc == SQLITE_OK
                           ? 0
                           : err_set(err, ERR_IO, "%s: the log cannot be %s: %s (SQLite %d)",
                                     log.data, doing, sqlite3_errstr(rc), rc);
    strbuf_done(&log);
    return failed;
}

static int rewrite(sqlite3_file *file, void *user)
{
    CLEANUP(xfreep) char *piece = xmalloc(PIECE_BYTES);
    sqlite3_int64 size = 0;

    must(user == NULL);
    int rc = file->pMethods->xFileSize(file, &size);
    for (sqlite3_int64 at = 0; at < size && rc == SQLITE_OK; at += PIECE_BYTES) {
        const int bytes = size - at < PIECE_BYTES ? (int)(size - at) : PIECE_BYTES;
        rc = file->pMethods->xRead(file, piece, bytes, at);
        if (rc == SQLITE_OK)
            rc = file->pMethods->xWrite(file, piece, bytes, at);
    }
    return rc == SQLITE_OK ? file->pMethods->xSync(file, SQLITE_SYNC_FULL) : rc;
}

int log_rewrite(const char *path, struct err *err)
{
    must(path != NULL);
    return with_log(path, rewrite, NULL, "written anew", err);
}

/* The log as SQLite reads it: frame by frame, as long as salts and sums hold. */
struct walk {
    sqlite3_file *file;
    unsigned char head[LOG_HEAD_BYTES];
    unsigned char *frame; /* head and page */
    int page_bytes;
    uint32_t sum[2];
    int64_t next;  /* where the next frame begins */
    int64_t first; /* where the first frame after the last commit begins */
};

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t little_endian(const unsigned char *at)
{
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static void add_to_sum(struct walk *walk, const unsigned char *at, int bytes)
{
    const bool big = big_endian(walk->head) != LOG_MAGIC;

    must(bytes % 8 == 0);
    for (int i = 0; i < bytes; i += 8) {
        const uint32_t one = big ? big_endian(at + i) : little_endian(at + i);
        const uint32_t two = big ? big_endian(at + i + 4) : little_endian(at + i + 4);
        walk->sum[0] += one + walk->sum[1];
        walk->sum[1] += two + walk->sum[0];
    }
}

static bool sum_is(const struct walk *walk, const unsigned char *at)
{
    return walk->sum[0] == big_endian(at) && walk->sum[1] == big_endian(at + 4);
}

/* False: nothing of it counts. */
static bool judge_head(struct walk *walk)
{
    const uint32_t page_bytes = big_endian(walk->head + 8);

    must(walk->sum[0] == 0 && walk->sum[1] == 0);
    if ((big_endian(walk->head) & ~1u) != LOG_MAGIC || big_endian(walk->head + 4) != LOG_FORMAT)
        return false;
    if (page_bytes < PAGE_BYTES_MIN || page_bytes > PAGE_BYTES_MAX ||
        (page_bytes & (page_bytes - 1)) != 0)
        return false;
    walk->page_bytes = (int)page_bytes;
    add_to_sum(walk, walk->head, 24);
    return sum_is(walk, walk->head + 24);
}

/* False: here the log ends. */
static bool judge_frame(struct walk *walk)
{
    const unsigned char *frame = walk->frame;

    must(walk->page_bytes >= PAGE_BYTES_MIN);
    if (big_endian(frame) == 0 || memcmp(frame + 8, walk->head + 16, 8) != 0)
        return false;
    add_to_sum(walk, frame, 8);
    add_to_sum(walk, frame + LOG_FRAME_HEAD_BYTES, walk->page_bytes);
    return sum_is(walk, frame + 16);
}

static int walk_frames(struct walk *walk, int64_t size, struct log_cut *cut)
{
    const int bytes = LOG_FRAME_HEAD_BYTES + walk->page_bytes;
    CLEANUP(xfreep) unsigned char *frame = xmalloc((size_t)bytes);

    must(cut->at == 0);
    walk->frame = frame;
    walk->next = walk->first = LOG_HEAD_BYTES;
    while (size - walk->next >= bytes) {
        const int rc = walk->file->pMethods->xRead(walk->file, frame, bytes, walk->next);
        if (rc != SQLITE_OK)
            return rc;
        if (!judge_frame(walk))
            break;
        walk->next += bytes;
        if (big_endian(frame + 4) != 0) { /* the database's size: a commit */
            cut->at = walk->first;
            walk->first = walk->next;
        }
    }
    return SQLITE_OK;
}

static int find_last(sqlite3_file *file, struct log_cut *cut)
{
    struct walk walk = {.file = file};
    sqlite3_int64 size = 0;

    must(cut->at == 0);
    int rc = file->pMethods->xFileSize(file, &size);
    if (rc != SQLITE_OK || size < LOG_HEAD_BYTES)
        return rc;
    rc = file->pMethods->xRead(file, walk.head, LOG_HEAD_BYTES, 0);
    if (rc != SQLITE_OK || !judge_head(&walk))
        return rc;
    return walk_frames(&walk, size, cut);
}

static int write_head(sqlite3_file *file, const struct log_cut *cut, const unsigned char *head)
{
    must(cut->at >= LOG_HEAD_BYTES);
    const int rc = file->pMethods->xWrite(file, head, LOG_FRAME_HEAD_BYTES, cut->at);
    return rc == SQLITE_OK ? file->pMethods->xSync(file, SQLITE_SYNC_FULL) : rc;
}

static const unsigned char no_head[LOG_FRAME_HEAD_BYTES];

static int take_off(sqlite3_file *file, void *user)
{
    struct log_cut *cut = user;

    must(cut != NULL);
    int rc = find_last(file, cut);
    if (rc != SQLITE_OK || cut->at == 0)
        return rc;
    rc = file->pMethods->xRead(file, cut->head, LOG_FRAME_HEAD_BYTES, cut->at);
    return rc == SQLITE_OK ? write_head(file, cut, no_head) : rc;
}

int log_take_off(const char *path, struct log_cut *out, struct err *err)
{
    must(out != NULL);
    memset(out, 0, sizeof *out);
    return with_log(path, take_off, out, "cut", err);
}

/* Nobody wrote there since: what is gone of the head was taken off by us, be it by half. */
static bool is_taken_off(const unsigned char *now, const unsigned char *before)
{
    must(now != before);
    for (size_t i = 0; i < LOG_FRAME_HEAD_BYTES; i++)
        if (now[i] != 0 && now[i] != before[i])
            return false;
    return true;
}

static int put_back(sqlite3_file *file, void *user)
{
    const struct log_cut *cut = user;
    unsigned char now[LOG_FRAME_HEAD_BYTES];

    must(cut->at != 0);
    const int rc = file->pMethods->xRead(file, now, LOG_FRAME_HEAD_BYTES, cut->at);
    if (rc != SQLITE_OK || !is_taken_off(now, cut->head))
        return rc;
    return write_head(file, cut, cut->head);
}

int log_put_back(const char *path, const struct log_cut *cut, struct err *err)
{
    struct log_cut copy = *cut;

    must(cut->at != 0);
    return with_log(path, put_back, &copy, "mended", err);
}
