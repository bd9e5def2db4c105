/*
 * The log in few writes: what the writer's connection gathers is on the disk when a COMMIT returns,
 * and is seen by the connection itself before. test_faults.c and tests/power have failing writes
 * and power cuts.
 */
#include <sqlite3.h>

#include "store/store_internal.h"
#include "support/disk.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static const char path[] = "/tmp/log";

static void run(sqlite3 *db, const char *sql)
{
    struct err err;

    assert_int_equal(db_exec(db, sql, &err), 0);
}

static int64_t ask(sqlite3 *db, const char *sql)
{
    int64_t number = -1;
    struct err err;

    assert_int_equal(db_number(db, sql, &number, &err), 0);
    return number;
}

static sqlite3 *open_one(enum db_mode mode)
{
    sqlite3 *db = NULL;
    struct err err;

    assert_int_equal(db_open(path, mode, &db, &err), 0);
    return db;
}

static sqlite3 *open_new(void)
{
    disk_clear();
    sqlite3 *db = open_one(DB_CREATE);
    run(db, "PRAGMA page_size=1024; PRAGMA journal_mode=WAL");
    run(db, "CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)");
    return db;
}

static void is_sound(sqlite3 *db)
{
    char sentence[200];
    struct err err;

    assert_int_equal(db_sentence(db, "PRAGMA integrity_check", sentence, sizeof sentence, &err), 0);
    assert_string_equal(sentence, "ok");
}

static const char fill[] =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"
    " INSERT INTO t (b) SELECT zeroblob(900) FROM n";

TEST(log_vfs__writes_the_frames_of_a_commit_at_once)
{
    sqlite3 *db = open_new();
    const uint64_t calls = disk_writes();
    const uint64_t pieces = disk_changes();
    run(db, fill);
    /* some 420 frames of 1,048 bytes, of which SQLite writes the header and the page apart */
    assert_in_range(disk_writes() - calls, 400 * 1048 / 65536, 400 * 1048 / 65536 + 2);
    assert_true(disk_changes() - pieces > 400);
    db_close(db);
}

TEST(log_vfs__has_a_commit_on_the_disk_when_it_returns)
{
    sqlite3 *db = open_new();
    run(db, fill);
    disk_cut();
    db_close(db);
    disk_restart(DISK_KEEPS_NONE, 1);
    db = open_one(DB_CREATE);
    assert_int_equal(ask(db, "SELECT count(*) FROM t"), 400);
    db_close(db);
}

TEST(log_vfs__shows_a_reader_what_was_committed)
{
    sqlite3 *db = open_new();
    sqlite3 *reader = open_one(DB_READ);
    run(db, fill);
    assert_int_equal(ask(reader, "SELECT count(*) FROM t"), 400);
    run(db, "BEGIN");
    run(db, fill);
    assert_int_equal(ask(reader, "SELECT count(*) FROM t"), 400);
    run(db, "COMMIT");
    assert_int_equal(ask(reader, "SELECT count(*) FROM t"), 800);
    db_close(reader);
    db_close(db);
}

/* With a cache of ten pages, most of a transaction is in the log before its COMMIT. */
TEST(log_vfs__gives_back_what_the_cache_had_no_room_for)
{
    sqlite3 *db = open_new();
    run(db, "PRAGMA cache_size=10; PRAGMA cache_spill=10");
    run(db, "BEGIN");
    run(db, fill);
    run(db, "UPDATE t SET b = zeroblob(800) WHERE a % 3 = 0");
    assert_int_equal(ask(db, "SELECT sum(length(b)) FROM t"), 400 * 900 - 133 * 100);
    run(db, "SAVEPOINT one; DELETE FROM t WHERE a > 100; ROLLBACK TO one; RELEASE one");
    run(db, "COMMIT");
    assert_int_equal(ask(db, "SELECT sum(length(b)) FROM t"), 400 * 900 - 133 * 100);
    run(db, "BEGIN; DELETE FROM t; ROLLBACK");
    run(db, "UPDATE t SET b = zeroblob(700)");
    assert_int_equal(ask(db, "SELECT sum(length(b)) FROM t"), 400 * 700);
    run(db, "PRAGMA wal_checkpoint");
    run(db, fill); /* from the beginning of the log again */
    db_close(db);
    db = open_one(DB_CREATE);
    assert_int_equal(ask(db, "SELECT count(*) FROM t"), 800);
    is_sound(db);
    db_close(db);
}

TEST(log_vfs__reports_a_failed_write_and_goes_on)
{
    sqlite3 *db = open_new();
    struct err err;
    for (uint64_t n = 1; n <= 8; n++) {
        disk_fail(DISK_WRITE, 50 * n, n % 2 == 0 ? SQLITE_FULL : SQLITE_IOERR, false);
        assert_true(db_exec(db, fill, &err) < 0);
        assert_int_equal(err.code, n % 2 == 0 ? ERR_FULL : ERR_IO);
        assert_int_equal(disk_failed(), 1);
        db_rollback(db);
        assert_int_equal(ask(db, "SELECT count(*) FROM t"), 0);
    }
    disk_fail(DISK_WRITE, 0, SQLITE_OK, false);
    run(db, fill);
    assert_int_equal(ask(db, "SELECT count(*) FROM t"), 400);
    db_close(db);
}

/*
 * A write fails late, in a statement after the one that caused it. Whatever SQLite abandons then,
 * what it commits is whole.
 */
TEST(log_vfs__loses_a_transaction_whole)
{
    uint64_t met = 1;
    for (uint64_t n = 1; met > 0; n++) {
        sqlite3 *db = open_new();
        struct err err;
        run(db, "CREATE TABLE u (a INTEGER PRIMARY KEY, b BLOB UNIQUE)");
        run(db, "PRAGMA cache_size=10; PRAGMA cache_spill=10; BEGIN");
        run(db, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
                " INSERT INTO u (b) SELECT randomblob(400) FROM n");
        disk_fail(DISK_WRITE, n, SQLITE_FULL, false);
        assert_true((db_exec(db, "INSERT INTO u (b) SELECT randomblob(300) FROM u", &err) == 0) ==
                    (disk_failed() == 0));
        met = disk_failed();
        disk_fail(0, 0, SQLITE_OK, false);
        if (sqlite3_get_autocommit(db) == 0)
            run(db, "COMMIT");
        sqlite3 *reader = open_one(DB_READ);
        const int64_t rows = ask(reader, "SELECT count(*) FROM u");
        assert_true(rows == 0 || rows == 40 || (met == 0 && rows == 80));
        is_sound(reader);
        db_close(reader);
        db_close(db);
    }
}

static int use_fake_disk(void **state)
{
    (void)state;
    disk_install();
    return 0;
}

TEST_GROUP(use_fake_disk, NULL)
