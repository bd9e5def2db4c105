/*
 * The n-th write, sync or truncation fails, for every n until the scenario runs clean: first once,
 * then every time from there on. Whatever happens, the disk holds whole batches, among them every
 * acknowledged one.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/disk.h"
#include "support/points.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

enum { BATCHES = 4, CHANGES = DISK_WRITE | DISK_SYNC | DISK_TRUNCATE };

static void play(struct core_fixture *core, int batch)
{
    char uid[16];
    if (batch == 0)
        (void)core_node(core, "n1", two_a100, 2);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(uid, sizeof uid, "p%d-%d", batch, i);
        (void)core_reserve(core, uid, "n1", "50");
        if (i != 1)
            (void)core_step(core, COMMAND_CONFIRM, uid);
    }
    (void)snprintf(uid, sizeof uid, "p%d-0", batch);
    if (batch % 2 == 1)
        (void)core_step(core, COMMAND_RELEASE, uid);
}

/* Returns 0, or a negative number if its COMMIT failed, so that the batch may still appear. */
static int one_batch(struct shelf *shelf, int batch, int *acknowledged)
{
    struct err err;

    if (shelf->ops.begin(shelf->ops.ctx, &err) < 0)
        return 0;
    play(&shelf->core, batch);
    const enum store_outcome outcome = shelf_write(shelf, &err);
    /* A healthy database never contradicts the ledger, however the disk fails. */
    assert_int_not_equal(outcome, STORE_REFUSED);
    if (outcome == STORE_FAILED) {
        shelf_take_back(shelf);
        return 0;
    }
    if (shelf->ops.commit(shelf->ops.ctx, &err) < 0)
        return -1;
    core_forget_undo(&shelf->core);
    shelf->written = 0;
    (*acknowledged)++;
    return 0;
}

/* Loads the file as it is; true if it matches dump. */
static bool holds(struct shelf *shelf, const char *dump)
{
    struct err err;
    struct ledger *ledger = ledger_new();
    if (store_load(shelf->store, ledger, &err) < 0)
        fail_msg("%s", err.text);
    CLEANUP(xfreep) char *is = core_dump(ledger);
    ledger_free(ledger);
    return strcmp(is, dump) == 0;
}

/* Which tally: its pods and its time. */
static bool learn(struct shelf *shelf, int nth)
{
    const struct workload_class class = {.parts = 1, .milli = 100, .count = (uint32_t)nth};
    const struct tally_rows rows = {.pods = (uint64_t)nth, .n_classes = 1, .class = &class};
    struct tally *tally = NULL;
    struct err err;

    assert_int_equal(tally_restore(&rows, &tally, &err), 0);
    const int failed = shelf->ops.learn(shelf->ops.ctx, tally, nth, &err);
    tally_free(tally);
    return failed == 0;
}

/* 0: nothing is stored. */
static int learned(struct shelf *shelf)
{
    struct tally *tally = NULL;
    int64_t until_ms = 0;
    struct err err;

    if (store_learned(shelf->store, &tally, &until_ms, &err) < 0)
        fail_msg("%s", err.text);
    if (tally == NULL)
        return 0;
    assert_int_equal(tally_classes(tally), 1);
    assert_int_equal(tally_class(tally, 0)->count, until_ms);
    assert_int_equal(tally_pods(tally), until_ms);
    tally_free(tally);
    return (int)until_ms;
}

static const struct agents_rules agents_rules = {.key = {"", 0}, .value = {"", 0}};

/* Two nodes whose Node objects have the nth uid. */
static bool remember(struct shelf *shelf, int nth)
{
    struct agents *agents = agents_new(&agents_rules);
    char uid[16];
    size_t count = 0;
    struct err err;

    (void)snprintf(uid, sizeof uid, "u%d", nth);
    for (int i = 0; i < 2; i++) {
        const struct node_facts node = {
            .name = i == 0 ? "a" : "b", .uid = uid, .agent = true, .has_gpus = true, .n_gpus = 1};
        (void)!agents_see_node(agents, &node);
    }
    const int failed = shelf->ops.remember(shelf->ops.ctx, agents, 2, &count, &err);
    assert_int_equal(count, failed == 0 ? 2 : 0);
    agents_free(agents);
    return failed == 0;
}

/* Which uid both nodes have; 0: nothing is stored. */
static int remembered(struct shelf *shelf)
{
    struct agents *agents = agents_new(&agents_rules);
    int nth = 0;
    struct err err;

    if (store_agents(shelf->store, agents, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 1; i <= BATCHES; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof uid, "u%d", i);
        const bool has_a = agents_lost_gpus(agents, &(struct node_facts){.name = "a", .uid = uid});
        const bool has_b = agents_lost_gpus(agents, &(struct node_facts){.name = "b", .uid = uid});
        assert_int_equal(has_a, has_b);
        nth = has_a ? i : nth;
    }
    assert_int_equal(agents_count(agents), nth > 0 ? 2 : 0);
    assert_int_equal(agents_seen(agents), nth > 0);
    agents_free(agents);
    return nth;
}

/* False if nothing failed: the scenario has fewer calls. */
static bool run(struct shelf *shelf, int n, int rc, bool lasting)
{
    int acknowledged = 0;
    int kept = 0;      /* the last tally acknowledged */
    int attempted = 0; /* the last tally tried */
    int noted = 0;     /* the last agents acknowledged */
    struct err err;
    CLEANUP(xfreep) char *maybe = NULL;

    disk_fail(CHANGES, (uint64_t)n, rc, lasting);
    if (shelf_try(shelf, &err) == 0) {
        shelf->store->limits.wal_soft = 12;
        store_retain(shelf->store, 1);
        for (int i = 0; i < BATCHES; i++) {
            if (one_batch(shelf, i, &acknowledged) < 0) {
                maybe = core_dump(shelf->core.ledger);
                shelf_take_back(shelf);
                break;
            }
            (void)shelf->ops.maintain(shelf->ops.ctx, 86400000 + shelf->core.now_ms / 2, &err);
            attempted = i + 1;
            if (learn(shelf, attempted))
                kept = attempted;
            if (remember(shelf, attempted))
                noted = attempted;
        }
        shelf_close(shelf);
    }
    const uint64_t count = disk_failed();
    disk_fail(0, 0, SQLITE_OK, false);

    shelf_open(shelf);
    if (store_verify(shelf->store, &err) < 0)
        fail_msg("%s", err.text);
    CLEANUP(xfreep) char *surely = core_dump(shelf->core.ledger);
    if (!holds(shelf, surely) && (maybe == NULL || !holds(shelf, maybe)))
        fail_msg("failure %d (SQLite %d, %s): another state on disk", n, rc,
                 lasting ? "lasting" : "passing");
    assert_in_range(learned(shelf), kept, attempted);
    assert_in_range(remembered(shelf), noted, attempted);
    shelf_close(shelf);
    assert_true(count > 0 || (acknowledged == BATCHES && kept == BATCHES && noted == BATCHES));
    return count > 0;
}

static int loop(int rc, bool lasting)
{
    for (int n = 1;; n = (int)point_after((uint64_t)n)) {
        static struct shelf shelf;
        shelf_init(&shelf);
        const bool more = run(&shelf, n, rc, lasting);
        shelf_done(&shelf);
        disk_clear();
        if (!more)
            return n;
        assert_true(n < 2000);
    }
}

TEST(io_error__once_costs_a_batch_at_most)
{
    assert_true(loop(SQLITE_IOERR, false) > 50);
}

TEST(io_error__lasting_leaves_whole_batches)
{
    assert_true(loop(SQLITE_IOERR, true) > 50);
}

TEST(full_disk__lasting_leaves_whole_batches)
{
    assert_true(loop(SQLITE_FULL, true) > 50);
}

SHELF_TEST(full_disk__is_reported)
{
    struct err err;
    shelf_begin(shelf);
    play(core, 0);
    assert_int_equal(shelf_write(shelf, &err), STORE_OK);
    disk_fail(CHANGES, 1, SQLITE_FULL, false);
    assert_int_equal(shelf->ops.commit(shelf->ops.ctx, &err), -(int)ERR_FULL);
    assert_non_null(strstr(err.text, "full"));
    shelf_take_back(shelf);
    play(core, 0);
    shelf_save_and_turn(shelf);
    disk_fail(0, 0, SQLITE_OK, false);
}

SHELF_TEST(backup__that_fails_leaves_no_partial_file)
{
    struct err err;
    char copy[128];
    play(core, 0);
    shelf_save(shelf);
    (void)snprintf(copy, sizeof copy, "%s/copy.db", shelf->folder);
    for (int n = 1;; n++) {
        disk_fail(CHANGES, (uint64_t)n, SQLITE_FULL, false);
        const int failed = store_backup(shelf->store, copy, &err);
        const uint64_t hit = disk_failed();
        disk_fail(0, 0, SQLITE_OK, false);
        if (hit == 0) {
            assert_int_equal(failed, 0);
            assert_true(n > 3);
            break;
        }
        /*
         * SQLite ignores one failure at the very end, when the copy is already complete; and the
         * last sync is that of the folder, with the copy in place.
         */
        assert_true(failed == 0 || failed == -(int)ERR_FULL ||
                    strstr(err.text, "No space left") != NULL);
        assert_in_range(shelf_files(shelf, "copy"), failed == 0, 1);
        if (shelf_files(shelf, "copy") == 1) {
            assert_int_equal(shelf_number(copy, "SELECT count(*) FROM allocation"), 3);
            assert_int_equal(unlink(copy), 0);
        }
    }
    assert_int_equal(shelf_files(shelf, "copy"), 1);
}

static int install(void **state)
{
    (void)state;
    disk_install();
    return 0;
}

TEST_GROUP(install, NULL)
