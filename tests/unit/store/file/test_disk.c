/*
 * The fake disk itself: reads, locks, and the bytes left by a power cut.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"

#include "support/disk.h"
#include "support/test.h"

static const char name[] = "/nowhere/disk.db";
static const char log_name[] = "/nowhere/disk.db-wal";

static void close_it(sqlite3 *db)
{
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static sqlite3 *open_it(void)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(name, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA synchronous=FULL", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static int try(sqlite3 *db, const char *sql)
{
    const int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    assert_true(rc == SQLITE_OK || sqlite3_errcode(db) == rc);
    return rc;
}

static void must_do(sqlite3 *db, const char *sql)
{
    if (try(db, sql) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static int ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int number = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        number = sqlite3_column_int(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return number;
}

static sqlite3 *open_wal(void)
{
    sqlite3 *db = open_it();
    must_do(db, "PRAGMA journal_mode=WAL; CREATE TABLE t (x)");
    return db;
}

/* Only the store syncs its folder, so tests without a store do it here. */
static void sync_folder(void)
{
    FILE *folder = fopen("/", "r");
    assert_non_null(folder);
    assert_int_equal(fsync(fileno(folder)), 0);
    (void)fclose(folder);
}

static int count(void)
{
    sqlite3 *db = open_it();
    const int rows = ask(db, "SELECT count(*) FROM t");
    assert_int_equal(ask(db, "SELECT count(*) FROM pragma_integrity_check"
                             " WHERE integrity_check = 'ok'"),
                     1);
    close_it(db);
    return rows;
}

static int fresh(void **state)
{
    (void)state;
    disk_install();
    disk_clear();
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, fresh, NULL)

FIXTURE_TEST(fake_disk__shares_a_log_between_connections)
{
    sqlite3 *a = open_wal();
    sqlite3 *b = open_it();
    must_do(a, "INSERT INTO t VALUES (1)");
    assert_int_equal(ask(b, "SELECT count(*) FROM t"), 1);
    must_do(b, "BEGIN; SELECT * FROM t");
    must_do(a, "INSERT INTO t VALUES (2)");
    assert_int_equal(ask(b, "SELECT count(*) FROM t"), 1); /* its snapshot */
    must_do(b, "COMMIT");
    assert_int_equal(ask(b, "SELECT count(*) FROM t"), 2);
    must_do(b, "INSERT INTO t VALUES (3)");
    assert_int_equal(ask(a, "SELECT count(*) FROM t"), 3);
    close_it(a);
    struct text log;
    assert_true(disk_file(log_name, &log));
    close_it(b);
    assert_false(disk_file(log_name, &log)); /* the last close checkpoints it */
    assert_int_equal(count(), 3);
}

FIXTURE_TEST(fake_disk__lets_one_writer_write_a_log)
{
    sqlite3 *a = open_wal();
    sqlite3 *b = open_it();
    must_do(a, "BEGIN IMMEDIATE");
    assert_int_equal(try(b, "BEGIN IMMEDIATE"), SQLITE_BUSY);
    must_do(b, "BEGIN; SELECT * FROM t");
    must_do(a, "INSERT INTO t VALUES (1); COMMIT");
    assert_int_equal(try(b, "INSERT INTO t VALUES (2)"), SQLITE_BUSY); /* an old snapshot */
    must_do(b, "ROLLBACK");
    must_do(b, "INSERT INTO t VALUES (2)");
    must_do(b, "BEGIN; SELECT * FROM t");
    must_do(a, "INSERT INTO t VALUES (3)");
    assert_int_equal(ask(a, "PRAGMA wal_checkpoint(RESTART)"), 1); /* b blocks it */
    must_do(b, "COMMIT");
    assert_int_equal(ask(a, "PRAGMA wal_checkpoint(RESTART)"), 0);
    close_it(a);
    close_it(b);
}

FIXTURE_TEST(fake_disk__makes_a_writer_without_a_log_wait_for_readers)
{
    sqlite3 *a = open_it();
    sqlite3 *b = open_it();
    sqlite3 *c = open_it();
    must_do(a, "PRAGMA journal_mode=DELETE; CREATE TABLE t (x)");
    must_do(b, "BEGIN; SELECT * FROM t");
    must_do(a, "BEGIN; INSERT INTO t VALUES (1)");
    assert_int_equal(try(c, "BEGIN IMMEDIATE"), SQLITE_BUSY); /* only one may hold RESERVED */
    assert_int_equal(ask(c, "SELECT count(*) FROM t"), 0);
    assert_int_equal(try(a, "COMMIT"), SQLITE_BUSY);        /* PENDING: b reads */
    assert_int_equal(ask(c, "SELECT count(*) FROM t"), -1); /* no new readers */
    must_do(b, "COMMIT");
    must_do(a, "COMMIT");
    assert_int_equal(ask(c, "SELECT count(*) FROM t"), 1);
    close_it(a);
    close_it(b);
    close_it(c);
}

FIXTURE_TEST(power_cut__loses_unsynced_bytes)
{
    sqlite3 *db = open_wal();
    sync_folder();
    must_do(db, "INSERT INTO t VALUES (1)");
    must_do(db, "PRAGMA synchronous=OFF; INSERT INTO t VALUES (2)");
    disk_cut();
    close_it(db);
    disk_restart(DISK_KEEPS_ALL, 0); /* the process died: the kernel still has it */
    db = open_it();
    assert_int_equal(ask(db, "SELECT count(*) FROM t"), 2);
    disk_cut();
    close_it(db);
    disk_restart(DISK_KEEPS_NONE, 0); /* and loses it later */
    assert_int_equal(count(), 1);
}

FIXTURE_TEST(power_cut__loses_a_name_until_its_folder_is_synced)
{
    struct text bytes;
    for (int synced = 0; synced < 2; synced++) {
        disk_clear();
        sqlite3 *db = open_it();
        must_do(db, "PRAGMA journal_mode=MEMORY; CREATE TABLE t (x)");
        if (synced != 0)
            sync_folder();
        close_it(db);
        disk_restart(DISK_KEEPS_NONE, 0);
        assert_int_equal(disk_file(name, &bytes), synced);
    }
}

FIXTURE_TEST(power_cut__keeps_a_rename_whole_or_not)
{
    static const char other[] = "/nowhere/other.db";
    struct text bytes;
    int moved = 0;
    for (uint64_t seed = 0; seed < 16; seed++) {
        disk_clear();
        disk_put(name, TEXT("one"));
        disk_put(other, TEXT("two"));
        assert_int_equal(rename(name, other), 0);
        disk_restart(DISK_KEEPS_SOME, seed);
        assert_true(disk_file(other, &bytes));
        const bool there = disk_file(name, &bytes);
        assert_true(disk_file(other, &bytes));
        assert_true(text_is(bytes, there ? "two" : "one"));
        moved += !there;
    }
    assert_in_range(moved, 1, 15);
}

/* Inserts until the disk is cut. Returns how many inserts were acknowledged. */
static int insert_until_cut(sqlite3 *db)
{
    int rows = 0;
    while (try(db, "INSERT INTO t VALUES (hex(zeroblob(3000)))") == SQLITE_OK) {
        rows++;
        assert_true(rows < 100);
    }
    return rows;
}

FIXTURE_TEST(power_cut__keeps_each_acknowledged_row)
{
    for (uint64_t n = 1; n < 60; n++) {
        disk_clear();
        sqlite3 *db = open_wal();
        sync_folder();
        const uint64_t before = disk_changes();
        disk_cut_before(n);
        const int rows = insert_until_cut(db);
        assert_true(disk_is_cut());
        assert_int_equal(disk_changes() - before, n - 1);
        assert_int_equal(ask(db, "SELECT 1 FROM t"), -1);
        close_it(db);
        assert_int_equal(disk_changes() - before, n - 1);
        disk_restart(DISK_KEEPS_SOME, n);
        assert_in_range(count(), rows, rows + 1);
    }
}

/* All bytes of both files after a cut and a restart with this seed. */
static char *image(uint64_t seed)
{
    struct strbuf all;
    struct text bytes;
    disk_clear();
    sqlite3 *db = open_wal();
    sync_folder();
    disk_cut_before(18);
    (void)insert_until_cut(db);
    close_it(db);
    disk_restart(DISK_KEEPS_SOME, seed);
    strbuf_init(&all);
    static const char *const names[] = {name, log_name};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!disk_file(names[i], &bytes))
            continue;
        strbuf_printf(&all, "%s %zu\n", names[i], bytes.len);
        for (size_t at = 0; at < bytes.len; at++)
            strbuf_printf(&all, "%02x", (unsigned char)bytes.at[at]);
    }
    return strbuf_steal(&all);
}

FIXTURE_TEST(power_cut__leaves_the_same_bytes_for_the_same_seed)
{
    int differ = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        CLEANUP(xfreep) char *one = image(seed);
        CLEANUP(xfreep) char *again = image(seed);
        CLEANUP(xfreep) char *other = image(seed + 100);
        assert_string_equal(one, again);
        differ += strcmp(one, other) != 0;
    }
    assert_true(differ > 0);
}

/* A file of the fake disk, past SQLite's pager. close_file() it. */
static sqlite3_file *open_file(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_file *file = xcalloc(1, (size_t)vfs->szOsFile);
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_MAIN_DB;

    assert_int_equal(vfs->xOpen(vfs, name, file, flags, NULL), SQLITE_OK);
    return file;
}

static void close_file(sqlite3_file *file)
{
    assert_int_equal(file->pMethods->xClose(file), SQLITE_OK);
    xfree(file);
}

FIXTURE_TEST(power_cut__tears_a_write_at_sectors)
{
    char old[8 * 512];
    char new[8 * 512];
    struct text bytes;
    int torn = 0;
    memset(old, 'o', sizeof old);
    memset(new, 'n', sizeof new);
    for (uint64_t seed = 0; seed < 32; seed++) {
        disk_clear();
        disk_put(name, (struct text){old, sizeof old});
        sqlite3_file *file = open_file();
        assert_int_equal(file->pMethods->xWrite(file, new, 7 * 512, 100), SQLITE_OK);
        close_file(file);
        disk_restart(DISK_KEEPS_SOME, seed);
        assert_true(disk_file(name, &bytes));
        assert_int_equal(bytes.len, sizeof old);
        bool has_old = false;
        bool has_new = false;
        for (size_t i = 0; i < sizeof old; i++) {
            const bool inside = i >= 100 && i < 100 + 7 * 512;
            assert_true(bytes.at[i] == 'o' || (inside && bytes.at[i] == 'n'));
            if (inside && i % 512 != 0 && i != 100)
                assert_int_equal(bytes.at[i], bytes.at[i - 1]);
            has_old |= inside && bytes.at[i] == 'o';
            has_new |= bytes.at[i] == 'n';
        }
        torn += has_old && has_new;
    }
    assert_in_range(torn, 1, 31);
}

FIXTURE_TEST(fake_disk__fails_the_nth_operation_once_or_for_good)
{
    sqlite3 *db = open_wal();
    disk_fail(DISK_SYNC, 2, SQLITE_IOERR, false);
    must_do(db, "INSERT INTO t VALUES (1)");
    assert_int_equal(disk_failed(), 0);
    assert_int_equal(try(db, "INSERT INTO t VALUES (2)"), SQLITE_IOERR);
    assert_int_equal(sqlite3_extended_errcode(db), SQLITE_IOERR_FSYNC);
    assert_int_equal(disk_failed(), 1);
    must_do(db, "INSERT INTO t VALUES (3)");
    disk_fail(DISK_WRITE, 1, SQLITE_FULL, true);
    assert_int_equal(disk_failed(), 0);
    assert_int_equal(try(db, "INSERT INTO t VALUES (4)"), SQLITE_FULL);
    assert_int_equal(try(db, "INSERT INTO t VALUES (5)"), SQLITE_FULL);
    assert_int_equal(disk_failed(), 2);
    disk_fail(0, 0, SQLITE_OK, false);
    must_do(db, "INSERT INTO t VALUES (6)");
    close_it(db);
    disk_fail(DISK_READ, 1, SQLITE_IOERR, true);
    sqlite3 *blind = NULL;
    assert_int_equal(sqlite3_open(name, &blind), SQLITE_IOERR);
    assert_int_equal(ask(blind, "SELECT count(*) FROM t"), -1);
    close_it(blind);
    disk_fail(DISK_OPEN, 1, SQLITE_IOERR, false);
    assert_int_equal(sqlite3_open(name, &blind), SQLITE_CANTOPEN);
    close_it(blind);
    assert_int_equal(count(), 3);
}

FIXTURE_TEST(fake_disk__does_not_keep_a_failed_sync_with_the_next)
{
    struct text bytes;
    disk_put(name, TEXT("...."));
    sqlite3_file *file = open_file();
    assert_int_equal(file->pMethods->xWrite(file, "a", 1, 0), SQLITE_OK);
    disk_fail(DISK_SYNC, 1, SQLITE_IOERR, false);
    assert_int_equal(file->pMethods->xSync(file, SQLITE_SYNC_NORMAL), SQLITE_IOERR_FSYNC);
    assert_int_equal(file->pMethods->xWrite(file, "b", 1, 1), SQLITE_OK);
    assert_int_equal(file->pMethods->xSync(file, SQLITE_SYNC_NORMAL), SQLITE_OK);
    assert_true(disk_file(name, &bytes) && text_is(bytes, "ab.."));
    close_file(file);
    disk_restart(DISK_KEEPS_NONE, 0);
    assert_true(disk_file(name, &bytes) && text_is(bytes, ".b.."));
}
