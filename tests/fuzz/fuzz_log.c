/*
 * Any bytes as the log beside a good database, against SQLite's own reading of it.
 *
 * Input: a byte that says how, and the rest: 0, the log itself; else changes of a good one, each
 * two bytes of place, one of length, the bytes to write there, a length of 0 cuts it off; and with
 * 2 its sums are made right again, so that what is wrong lies behind them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/alloc.h"

#include "store/store_internal.h"
#include "support_ledger.h"

enum { BYTES_MAX = 32768, HEAD = 32, PAGE = 512, FRAME = LOG_FRAME_HEAD_BYTES + PAGE };

static char file[BYTES_MAX];
static size_t file_len;
static char good[BYTES_MAX];
static size_t good_len;

static const char *beside(const char *suffix)
{
    static char name[128];
    static char path[96];
    if (path[0] == '\0')
        (void)snprintf(path, sizeof path, "%s", ledger_path());
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    return name;
}

static size_t get(const char *name, char *out)
{
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t got = read(fd, out, BYTES_MAX);
    must(got >= 0 && got < BYTES_MAX && close(fd) == 0);
    return (size_t)got;
}

static void put(const char *name, const char *bytes, size_t len)
{
    const int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && close(fd) == 0);
}

/* Some commits of one and more pages, two of them in the file already. */
static void make(void)
{
    sqlite3 *db = NULL;
    (void)unlink(beside(""));
    must(sqlite3_open(beside(""), &db) == SQLITE_OK);
    must(sqlite3_exec(db,
                      "PRAGMA page_size=512; PRAGMA journal_mode=WAL; CREATE TABLE t (a);"
                      "PRAGMA wal_checkpoint(RESTART); INSERT INTO t VALUES (zeroblob(900));"
                      "INSERT INTO t VALUES ('one'); UPDATE t SET a = 'two' WHERE a = 'one'",
                      NULL, NULL, NULL) == SQLITE_OK);
    file_len = get(beside(""), file);
    good_len = get(beside("-wal"), good);
    must(file_len > 0 && good_len > HEAD + 3 * (size_t)FRAME && good_len % FRAME == HEAD % FRAME);
    must(sqlite3_close(db) == SQLITE_OK);
}

static uint32_t word(const char *at, bool big)
{
    uint32_t one;
    memcpy(&one, at, sizeof one);
    return big ? __builtin_bswap32(one) : one;
}

static void put_big(char *at, uint32_t one)
{
    one = __builtin_bswap32(one);
    memcpy(at, &one, sizeof one);
}

static void sum(uint32_t sums[2], const char *at, size_t len, bool big)
{
    for (size_t i = 0; i + 8 <= len; i += 8) {
        sums[0] += word(at + i, big) + sums[1];
        sums[1] += word(at + i + 4, big) + sums[0];
    }
}

static void mend_sums(char *log, size_t len)
{
    uint32_t sums[2] = {0, 0};
    if (len < HEAD)
        return;
    const bool big = (log[3] & 1) != 0;
    sum(sums, log, HEAD - 8, big);
    put_big(log + HEAD - 8, sums[0]);
    put_big(log + HEAD - 4, sums[1]);
    for (size_t at = HEAD; at + FRAME <= len; at += FRAME) {
        sum(sums, log + at, 8, big);
        sum(sums, log + at + LOG_FRAME_HEAD_BYTES, PAGE, big);
        put_big(log + at + 16, sums[0]);
        put_big(log + at + 20, sums[1]);
    }
}

static size_t make_log(struct pieces pieces, char *out)
{
    const uint8_t how = pieces_byte(&pieces) % 3;
    if (how == 0) {
        const struct text raw = pieces_rest(&pieces);
        const size_t len = raw.len < BYTES_MAX ? raw.len : BYTES_MAX - 1;
        memcpy(out, raw.at, len);
        return len;
    }
    memcpy(out, good, good_len);
    const size_t len = pieces_change(&pieces, 2, out, good_len);
    if (how == 2)
        mend_sums(out, len);
    return len;
}

/* How many frames SQLite takes from the log: its index says so (walformat.html, 2.1). */
static uint32_t frames_of(const char *log, size_t len)
{
    static char index[BYTES_MAX + 1];
    sqlite3 *db = NULL;
    put(beside(""), file, file_len);
    put(beside("-wal"), log, len);
    (void)unlink(beside("-shm"));
    must(sqlite3_open(beside(""), &db) == SQLITE_OK);
    must(sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK);
    (void)sqlite3_exec(db, "SELECT * FROM t", NULL, NULL, NULL); /* the pages may be anything */
    const int fd = open(beside("-shm"), O_RDONLY | O_CLOEXEC);
    uint32_t frames = 0;
    if (fd >= 0) {
        const ssize_t got = read(fd, index, 20);
        must(close(fd) == 0);
        if (got == 20)
            memcpy(&frames, index + 16, sizeof frames);
    }
    must(sqlite3_close(db) == SQLITE_OK);
    return frames;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char log[BYTES_MAX];
    static char after[BYTES_MAX];
    struct log_cut cut;
    struct err err;

    if (good_len == 0)
        make();
    const size_t len = make_log(pieces_of(data, size), log);
    const uint32_t frames = frames_of(log, len);
    put(beside("-wal"), log, len);
    must(log_take_off(beside(""), &cut, &err) == 0);
    must((cut.at != 0) == (frames > 0));
    if (cut.at == 0)
        return 0;
    must(get(beside("-wal"), after) == len);
    const size_t page = (size_t)(uint8_t)log[9] << 16 | (size_t)(uint8_t)log[10] << 8;
    const uint32_t left = frames_of(after, len);
    must(left < frames);
    must(HEAD + left * (LOG_FRAME_HEAD_BYTES + page) == (size_t)cut.at);
    put(beside("-wal"), after, len);
    must(log_put_back(beside(""), &cut, &err) == 0);
    must(get(beside("-wal"), after) == len && memcmp(after, log, len) == 0);
    return 0;
}
