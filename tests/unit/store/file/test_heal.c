/*
 * The n-th operation of one kind fails, for every n until the scenario runs clean: first once, then
 * until the disk is repaired. Batches are whole or absent, acknowledged batches stay,
 * and after the repair the same open ledger works on.
 */
#include <stdio.h>

#include <sqlite3.h>

#include "store/store_internal.h"
#include "support/disk.h"
#include "support/points.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

enum { BATCHES = 2, N_MAX = 2000 };

struct fault {
    unsigned kinds;
    int rc;
    bool lasting;
};

static void play(struct core_fixture *core, int batch)
{
    static const struct core_gpu one_a100[] = {{.id = "GPU-a", .index = 0, .mib = 81920}};
    char uid[16];
    if (batch == 0)
        (void)core_node(core, "n1", one_a100, 1);
    (void)snprintf(uid, sizeof uid, "p%d", batch);
    (void)core_reserve(core, uid, "n1", "50");
    (void)core_step(core, COMMAND_CONFIRM, uid);
    if (batch == 1)
        (void)core_step(core, COMMAND_RELEASE, "p0");
}

/* True if the batch was acknowledged. */
static bool one_batch(struct shelf *shelf, int batch)
{
    struct err err;
    if (shelf->ops.begin(shelf->ops.ctx, &err) < 0)
        return false;
    play(&shelf->core, batch);
    const enum store_outcome outcome = shelf_write(shelf, &err);
    assert_int_not_equal(outcome, STORE_REFUSED);
    if (outcome == STORE_FAILED || shelf->ops.commit(shelf->ops.ctx, &err) < 0) {
        shelf_take_back(shelf);
        return false;
    }
    core_forget_undo(&shelf->core);
    shelf->written = 0;
    return true;
}

static void limit(struct shelf *shelf)
{
    shelf->store->limits.wal_soft = 8;
    store_retain(shelf->store, 1);
}

static int maintain(struct shelf *shelf, struct err *err)
{
    return shelf->ops.maintain(shelf->ops.ctx, 86400000 + shelf->core.now_ms / 2, err);
}

/* A failing disk is not a corrupt ledger, which would be moved aside. */
static void not_corrupt(int failed)
{
    assert_int_not_equal(failed, -(int)ERR_CORRUPT);
    assert_int_not_equal(failed, -(int)ERR_FOREIGN);
}

/* Returns how many batches were not acknowledged. The n-th operation need not occur. */
static int live(struct shelf *shelf)
{
    int missed = 0;
    struct err err;

    const int failed = shelf_try(shelf, &err);
    not_corrupt(failed);
    if (failed < 0)
        return BATCHES;
    limit(shelf);
    for (int i = 0; i < BATCHES; i++) {
        missed += !one_batch(shelf, i);
        not_corrupt(maintain(shelf, &err));
        /* Uses another connection, as the daemon's readers do. */
        not_corrupt(store_replay_check(shelf->store, &err));
    }
    return missed;
}

/* The disk works again: whatever happened to it, this ledger must work, too. */
static void go_on(struct shelf *shelf)
{
    struct err err;
    if (shelf->store == NULL) {
        shelf_open(shelf);
        limit(shelf);
    }
    if (ledger_node(shelf->core.ledger, text_of("n1")) == NULL)
        assert_true(one_batch(shelf, 0));
    assert_true(one_batch(shelf, BATCHES));
    if (maintain(shelf, &err) < 0)
        fail_msg("%s", err.text);
    shelf_turn(shelf);
}

/* The file of a new ledger; test_faults.c covers failures while it is made. */
static void new_ledger(struct strbuf *out)
{
    static struct shelf shelf;
    struct text bytes;
    shelf_init(&shelf);
    shelf_open(&shelf);
    shelf_close(&shelf);
    assert_true(disk_file(shelf.path, &bytes));
    strbuf_init(out);
    strbuf_text(out, bytes);
    shelf_done(&shelf);
    disk_clear();
}

/* Returns how many operations of these kinds the scenario has. */
static int loop(struct fault fault, struct text ledger)
{
    for (int n = 1;; n = (int)point_after((uint64_t)n)) {
        static struct shelf shelf;
        shelf_init(&shelf);
        disk_put(shelf.path, ledger);
        disk_fail(fault.kinds, (uint64_t)n, fault.rc, fault.lasting);
        const int missed = live(&shelf);
        const uint64_t failed = disk_failed();
        disk_fail(0, 0, SQLITE_OK, false);
        assert_true(failed > 0 || missed == 0);
        go_on(&shelf);
        shelf_done(&shelf);
        disk_clear();
        if (failed == 0)
            return n - 1;
        assert_true(n < N_MAX);
    }
}

static void loops(unsigned kinds, int rc, int least)
{
    struct strbuf ledger;
    new_ledger(&ledger);
    const struct text bytes = {ledger.data, ledger.len};
    for (int lasting = 0; lasting < 2; lasting++)
        assert_true(loop((struct fault){kinds, rc, lasting != 0}, bytes) >= least);
    strbuf_done(&ledger);
}

TEST(failed_write__costs_its_batch_only)
{
    loops(DISK_WRITE, SQLITE_IOERR, 30);
}

TEST(full_disk__goes_on_when_there_is_room)
{
    loops(DISK_WRITE, SQLITE_FULL, 30);
}

TEST(failed_sync__costs_its_batch_only)
{
    loops(DISK_SYNC, SQLITE_IOERR, 4);
}

TEST(failed_truncation_or_deletion__costs_nothing_else)
{
    loops(DISK_TRUNCATE | DISK_DELETE | DISK_RENAME, SQLITE_IOERR, 1);
}

TEST(failed_open__works_later)
{
    loops(DISK_OPEN, SQLITE_IOERR, 6);
}

TEST(failed_read__costs_its_batch_only)
{
    loops(DISK_READ, SQLITE_IOERR, 20);
}

static void power_goes(struct shelf *shelf, enum disk_loss loss)
{
    disk_cut();
    shelf_close(shelf);
    disk_restart(loss, 1);
}

/*
 * After a failed sync, the kernel treats the data as written. A restart reads it from the page
 * cache, finds the failed commit and builds on it; then the power fails.
 */
SHELF_TEST(unsynced_commit__is_written_anew_before_the_next)
{
    int64_t count;
    struct err err;

    assert_true(one_batch(shelf, 0));
    disk_fail(DISK_SYNC, 1, SQLITE_IOERR, true);
    assert_false(one_batch(shelf, 1));
    power_goes(shelf, DISK_KEEPS_ALL); /* only the process died */
    shelf_open(shelf);
    assert_true(one_batch(shelf, BATCHES));
    power_goes(shelf, DISK_KEEPS_NONE);
    shelf_open(shelf);
    assert_int_equal(db_number(shelf->store->db,
                               "SELECT count(*) FROM allocation WHERE uid IN ('p0', 'p2')", &count,
                               &err),
                     0);
    assert_int_equal(count, 2);
}

/* Another program may be writing to it at this moment. */
SHELF_TEST_BETWEEN(foreign_database__keeps_its_log, shelf_set_up_closed, shelf_tear_down)
{
    sqlite3 *theirs;
    struct err err;

    assert_int_equal(sqlite3_open(shelf->path, &theirs), SQLITE_OK);
    assert_int_equal(sqlite3_exec(theirs,
                                  "PRAGMA journal_mode=WAL; CREATE TABLE t (x);"
                                  "INSERT INTO t VALUES (1)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    const uint64_t before = disk_changes();
    assert_int_equal(shelf_try(shelf, &err), -(int)ERR_FOREIGN);
    assert_int_equal(disk_changes(), before);
    assert_int_equal(sqlite3_close(theirs), SQLITE_OK);
}

static int install(void **state)
{
    (void)state;
    disk_install();
    return 0;
}

TEST_GROUP(install, NULL)
