/*
 * The log is copied by a thread beside the writer. The disk here is one in memory (support/disk.h),
 * which one thread uses at a time: each test waits for the end of a pass before it goes on. Crash
 * tests kill milligpud while both write.
 */
#include <string.h>

#include "store/store_internal.h"
#include "support/disk.h"
#include "support/patience.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

enum { DUE = 64 };

static void open_beside(struct shelf *shelf)
{
    shelf->rules.checkpoints_beside = true;
    shelf_open(shelf);
    assert_non_null(shelf->store->checkpointer);
    shelf->store->limits.wal_soft = DUE;
}

static void shelf_with_node(struct shelf *shelf)
{
    shelf_init(shelf);
    open_beside(shelf);
    (void)core_node(&shelf->core, "n1", two_a100, 2);
    shelf_save(shelf);
}

static bool is_busy(const struct shelf *shelf)
{
    return checkpointer_is_busy(shelf->store->checkpointer);
}

static void await_pass(const struct shelf *shelf)
{
    int64_t until_ms = 0;

    while (is_busy(shelf) && patience_left(&until_ms))
        continue;
    assert_false(is_busy(shelf));
}

/* Batches until the log has at least this many pages. */
static void write_pages(struct shelf *shelf, int pages)
{
    struct core_fixture *core = &shelf->core;

    for (int i = 0; i < 10000 && shelf->store->wal_pages < pages; i++) {
        assert_int_equal(core_reserve(core, "a", "n1", "50"), VERDICT_OK);
        assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
        shelf_save(shelf);
    }
    assert_true(shelf->store->wal_pages >= pages);
}

/* Journal entries in the file without its log. */
static long long entries_in_file(const struct shelf *shelf)
{
    long long number = -1;
    sqlite3 *db = NULL;
    struct err err;

    assert_int_equal(db_open(shelf->path, DB_STILL, &db, &err), 0);
    assert_int_equal(db_number(db, "SELECT count(*) FROM journal", (int64_t *)&number, &err), 0);
    db_close(db);
    return number;
}

TEST(checkpointer__copies_the_log_and_leaves_the_rest_to_the_writer)
{
    static struct shelf shelf;
    shelf_with_node(&shelf);
    write_pages(&shelf, DUE);
    const uint64_t entries = shelf.store->seq_stable;
    assert_true(entries_in_file(&shelf) < (long long)entries);
    shelf_maintain(&shelf, 1); /* begins a pass, and does not wait */
    await_pass(&shelf);
    assert_int_equal(entries_in_file(&shelf), entries);
    assert_true(shelf.store->wal_pages >= DUE); /* the writer has not heard of it */
    shelf_maintain(&shelf, 2);
    assert_int_equal(shelf.store->wal_pages, 0);
    assert_false(is_busy(&shelf));
    shelf_save_and_turn(&shelf);
    shelf_sound(&shelf);
    shelf_done(&shelf);
    disk_clear();
}

/* While the writer goes on, passes follow each other as long as they halve what is left. */
TEST(checkpointer__copies_again_what_came_meanwhile)
{
    static struct shelf shelf;
    shelf_with_node(&shelf);
    write_pages(&shelf, 8 * DUE);
    shelf_maintain(&shelf, 1);
    await_pass(&shelf);
    const int asked = shelf.store->asked_pages;
    assert_int_equal(shelf.store->pass_pages, asked);
    write_pages(&shelf, asked + 2 * DUE);
    shelf_maintain(&shelf, 2);
    await_pass(&shelf);
    assert_in_range(shelf.store->pass_pages, 2 * DUE, 3 * DUE);
    assert_int_equal(entries_in_file(&shelf), shelf.store->seq_stable);
    write_pages(&shelf, shelf.store->asked_pages + 2 * DUE); /* not half as much */
    shelf_maintain(&shelf, 3);
    assert_false(is_busy(&shelf));
    assert_int_equal(shelf.store->wal_pages, 0);
    write_pages(&shelf, 1); /* from the beginning of the log */
    assert_true(shelf.store->wal_pages < DUE);
    shelf_maintain(&shelf, 4);
    assert_int_equal(shelf.store->asked_pages, 0);
    shelf_done(&shelf);
    disk_clear();
}

TEST(checkpointer__leaves_a_long_log_to_the_writer_which_waits_for_the_disk)
{
    static struct shelf shelf;
    shelf_with_node(&shelf);
    shelf.store->limits.wal_hard = 2 * DUE;
    write_pages(&shelf, 2 * DUE);
    shelf_maintain(&shelf, 1);
    assert_false(is_busy(&shelf));
    assert_int_equal(shelf.store->wal_pages, 0);
    shelf_done(&shelf);
    disk_clear();
}

TEST(checkpointer__says_once_that_the_disk_failed_and_tries_again)
{
    static struct shelf shelf;
    struct err err;
    shelf_with_node(&shelf);
    write_pages(&shelf, DUE);
    disk_fail(DISK_WRITE, 1, SQLITE_FULL, true);
    shelf_maintain(&shelf, 1);
    await_pass(&shelf);
    assert_int_equal(shelf.ops.maintain(shelf.ops.ctx, 2, &err), -(int)ERR_FULL);
    assert_non_null(strstr(err.text, "checkpoint"));
    assert_int_equal(checkpointer_take_failure(shelf.store->checkpointer, &err), 0);
    disk_fail(0, 0, SQLITE_OK, false);
    shelf_maintain(&shelf, 3);
    await_pass(&shelf);
    shelf_maintain(&shelf, 4);
    assert_int_equal(shelf.store->wal_pages, 0);
    shelf_sound(&shelf);
    shelf_done(&shelf);
    disk_clear();
}

/* A reader keeps the log: what it may still read is not overwritten, and nothing is lost. */
TEST(checkpointer__waits_for_no_reader)
{
    static struct shelf shelf;
    struct reader reader;
    struct err err;
    shelf_with_node(&shelf);
    assert_int_equal(reader_open(shelf.store, &reader, &err), 0);
    assert_int_equal(db_exec(reader.db, "BEGIN; SELECT * FROM node", &err), 0);
    write_pages(&shelf, DUE);
    shelf_maintain(&shelf, 1);
    await_pass(&shelf);
    shelf_maintain(&shelf, 2);
    assert_true(shelf.store->wal_pages >= DUE);
    int64_t entries = -1;
    assert_int_equal(db_number(reader.db, "SELECT count(*) FROM journal", &entries, &err), 0);
    assert_int_equal(entries, 1);
    reader_done(&reader);
    shelf_maintain(&shelf, 3);
    assert_int_equal(shelf.store->wal_pages, 0);
    shelf_save_and_turn(&shelf);
    shelf_done(&shelf);
    disk_clear();
}

/* The power fails before each operation of a pass; the log has what was acknowledged. */
TEST(checkpointer__may_be_cut_at_any_point)
{
    bool was_cut = true;
    for (uint64_t n = 1; was_cut && n < 500; n++) {
        static struct shelf shelf;
        shelf_with_node(&shelf);
        write_pages(&shelf, DUE);
        disk_cut_before(n);
        shelf_maintain(&shelf, 1);
        await_pass(&shelf);
        was_cut = disk_is_cut();
        if (!was_cut)
            disk_cut();
        shelf_close(&shelf);
        disk_restart(n % 3 == 0 ? DISK_KEEPS_NONE : DISK_KEEPS_SOME, n);
        open_beside(&shelf);
        shelf_same(&shelf);
        shelf_sound(&shelf);
        shelf_done(&shelf);
        disk_clear();
    }
    assert_false(was_cut);
}

TEST(checkpointer__ends_with_the_store_in_the_middle_of_a_pass)
{
    static struct shelf shelf;
    shelf_with_node(&shelf);
    write_pages(&shelf, 8 * DUE);
    shelf_maintain(&shelf, 1);
    shelf_turn(&shelf);
    shelf_sound(&shelf);
    shelf_done(&shelf);
    disk_clear();
}

static int use_fake_disk(void **state)
{
    (void)state;
    disk_install();
    return 0;
}

TEST_GROUP(use_fake_disk, NULL)
