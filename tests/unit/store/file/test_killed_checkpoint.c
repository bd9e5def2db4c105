/*
 * Checkpoints of a real file. milligpud is killed before each write of one, after retention has
 * freed pages that the journal uses again: the file alone is then a mix of two moments, whose
 * newest journal entry may be an old one; with its log it is a ledger of ours, and is never taken
 * for another one. And passes of the checkpointer run while the writer goes on.
 */
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store_internal.h"
#include "support/patience.h"
#include "support/points.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

enum { DUE = 64, DIED = 7, DONE = 8, DAYS_MS = 3 * 86400000 };

static sqlite3_vfs *disk;
static sqlite3_vfs deadly_vfs;
static sqlite3_io_methods file_methods;
static int (*write_to_disk)(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at);
static atomic_int writes_left; /* 0: any number */

static int deadly_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    if (atomic_load(&writes_left) > 0 && atomic_fetch_sub(&writes_left, 1) == 1)
        _exit(DIED);
    return write_to_disk(file, bytes, count, at);
}

/* Only the file of the ledger: the log is written before, and is no part of a checkpoint. */
static int deadly_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    const int rc = disk->xOpen(disk, name, file, flags, out);

    must(vfs == &deadly_vfs);
    if (rc != SQLITE_OK || (flags & SQLITE_OPEN_MAIN_DB) == 0)
        return rc;
    if (write_to_disk == NULL) { /* at the first open no pass runs yet that reads these */
        file_methods = *file->pMethods;
        write_to_disk = file_methods.xWrite;
        file_methods.xWrite = deadly_write;
    }
    file->pMethods = &file_methods;
    return rc;
}

static void write_batches(struct shelf *shelf, int batches)
{
    struct core_fixture *core = &shelf->core;

    for (int i = 0; i < 10 * batches; i++) {
        assert_int_equal(core_reserve(core, "a", "n1", "50"), VERDICT_OK);
        assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
        if (i % 10 == 9)
            shelf_save(shelf);
    }
}

static bool is_busy(const struct shelf *shelf)
{
    return shelf->store->checkpointer != NULL && checkpointer_is_busy(shelf->store->checkpointer);
}

static void maintain_and_await(struct shelf *shelf, int64_t now_ms)
{
    int64_t until_ms = 0;

    shelf_maintain(shelf, now_ms);
    while (is_busy(shelf) && patience_left(&until_ms))
        continue;
    must(!is_busy(shelf));
}

static void write_and_die(struct shelf *shelf, uint64_t point)
{
    struct core_fixture *core = &shelf->core;

    shelf_open(shelf);
    shelf->store->limits.wal_soft = DUE;
    shelf->store->limits.fold = 400;
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    write_batches(shelf, 15);
    core->now_ms += DAYS_MS;
    write_batches(shelf, 15);
    for (int i = 0; i < 20; i++)
        maintain_and_await(shelf, core->now_ms);
    must(shelf->store->wal_pages < DUE);
    write_batches(shelf, 12);
    atomic_store(&writes_left, (int)point);
    for (int i = 0; i < 3; i++)
        maintain_and_await(shelf, core->now_ms + 10);
    _exit(DONE);
}

/* Returns false if the checkpoint has fewer writes. */
static bool is_ours_after(uint64_t point, bool beside)
{
    static struct shelf shelf;
    struct err err = {0};
    int status = 0;

    shelf_init(&shelf);
    shelf.rules.checkpoints_beside = beside;
    shelf.rules.retention_days = 1;
    const pid_t child = fork();
    if (child == 0)
        write_and_die(&shelf, point);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    const int how = WEXITSTATUS(status);
    assert_true(how == DIED || how == DONE);
    shelf.rules.checkpoints_beside = false; /* this process has one thread, and forks again */
    if (shelf_try(&shelf, &err) < 0)
        fail_msg("killed before write %d: %s", (int)point, err.text);
    assert_int_equal(store_verify(shelf.store, &err), 0);
    shelf_done(&shelf);
    return how == DIED;
}

static void is_ours_after_each(bool beside)
{
    uint64_t points = 0;
    for (uint64_t n = 1; is_ours_after(n, beside); n = point_after(n))
        points++;
    assert_true(points > 4);
}

TEST(killed_checkpoint__of_the_writer_leaves_a_ledger_of_ours)
{
    is_ours_after_each(false);
}

TEST(killed_checkpoint__beside_the_writer_leaves_a_ledger_of_ours)
{
    is_ours_after_each(true);
}

/* Passes beside a writer that does not wait for them, with steps that write nothing. */
TEST(checkpointer__loses_nothing_beside_a_writer_that_goes_on)
{
    static struct shelf shelf;
    uint32_t passes = 0;

    shelf_init(&shelf);
    shelf.rules.checkpoints_beside = true;
    shelf_open(&shelf);
    shelf.store->limits.wal_soft = DUE;
    (void)core_node(&shelf.core, "n1", two_a100, 2);
    shelf_save(&shelf);
    for (int i = 0; i < 400 || (passes <= 10 && i < 20000); i++) {
        write_batches(&shelf, 1);
        core_forget_undo(&shelf.core);
        shelf.written = 0;
        for (int steps = i % 7 == 0 ? 3 : 1; steps > 0; steps--) {
            const bool was_passing = shelf.store->is_passing;
            const int copied = shelf.store->copied_pages;
            shelf_maintain(&shelf, shelf.core.now_ms);
            /* one may begin in the step that hears of the end of another */
            passes +=
                shelf.store->is_passing && (!was_passing || shelf.store->copied_pages != copied);
        }
        if (i % 100 == 0)
            shelf_sound(&shelf);
    }
    assert_true(passes > 10);
    shelf_turn(&shelf);
    shelf_sound(&shelf);
    shelf_done(&shelf);
}

static int use_deadly_disk(void **state)
{
    (void)state;
    disk = sqlite3_vfs_find(NULL);
    deadly_vfs = *disk;
    deadly_vfs.zName = "deadly";
    deadly_vfs.xOpen = deadly_open;
    deadly_vfs.pNext = NULL;
    return sqlite3_vfs_register(&deadly_vfs, 1);
}

TEST_GROUP(use_deadly_disk, NULL)
