/*
 * The log is copied by a thread beside the writer. The disk here is one in memory (support/disk.h),
 * which one thread uses at a time: a test waits for the end of a pass before it goes on, or holds
 * the pass at a gate. Crash tests kill milligpud while both write.
 */
#include <semaphore.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/disk.h"
#include "support/patience.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

enum { DUE = 64 };

/*
 * A VFS around the disk that stops another thread than the test's once, before an operation.
 */
enum gate {
    GATE_OPEN,
    GATE_BEGIN,
    GATE_MIDDLE
}; /* the lock of a checkpoint; its sync of the log */

static struct {
    sqlite3_vfs *disk;
    sqlite3_vfs vfs;
    sqlite3_io_methods file;
    sqlite3_io_methods log;
    int (*sync)(sqlite3_file *file, int flags);
    int (*shm_lock)(sqlite3_file *file, int at, int count, int flags);
    pthread_t test;
    _Atomic(enum gate) closed;
    sem_t reached;
    sem_t opens;
} gates;

static void pass_gate(enum gate gate)
{
    enum gate closed = gate;

    if (pthread_equal(pthread_self(), gates.test) ||
        !atomic_compare_exchange_strong(&gates.closed, &closed, GATE_OPEN))
        return;
    must(sem_post(&gates.reached) == 0);
    must(sem_wait(&gates.opens) == 0);
}

static int log_sync(sqlite3_file *file, int flags)
{
    pass_gate(GATE_MIDDLE);
    return gates.sync(file, flags);
}

static int file_shm_lock(sqlite3_file *file, int at, int count, int flags)
{
    static const int checkpoint_lock = 1;

    if (at == checkpoint_lock && flags == (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE))
        pass_gate(GATE_BEGIN);
    return gates.shm_lock(file, at, count, flags);
}

static int gates_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    const int rc = gates.disk->xOpen(gates.disk, name, file, flags, out);

    must(vfs == &gates.vfs);
    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_WAL) != 0)
        file->pMethods = &gates.log;
    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB) != 0)
        file->pMethods = &gates.file;
    return rc;
}

/* The methods are those of the disk's files, which are all alike. */
static void learn_methods(void)
{
    sqlite3_file *file = xcalloc(1, (size_t)gates.disk->szOsFile);

    must(gates.disk->xOpen(gates.disk, NULL, file, SQLITE_OPEN_CREATE, NULL) == SQLITE_OK);
    gates.file = gates.log = *file->pMethods;
    gates.sync = gates.log.xSync;
    gates.log.xSync = log_sync;
    gates.shm_lock = gates.file.xShmLock;
    gates.file.xShmLock = file_shm_lock;
    must(file->pMethods->xClose(file) == SQLITE_OK);
    xfree(file);
}

/* The next pass stops there; the test goes on when it has. */
static void maintain_up_to(struct shelf *shelf, enum gate gate)
{
    atomic_store(&gates.closed, gate);
    shelf_maintain(shelf, 1);
    must(sem_wait(&gates.reached) == 0);
}

static void open_gate(void)
{
    must(sem_post(&gates.opens) == 0);
}

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

/* Passes follow each other, beside a writer that goes on, until little is left. */
TEST(checkpointer__copies_again_what_came_meanwhile)
{
    static struct shelf shelf;
    shelf_with_node(&shelf);
    write_pages(&shelf, DUE);
    for (int i = 0; i < 3; i++) {
        shelf_maintain(&shelf, i);
        assert_true(shelf.store->is_passing);
        await_pass(&shelf);
        assert_int_equal(entries_in_file(&shelf), shelf.store->seq_stable);
        write_pages(&shelf, shelf.store->wal_pages + DUE / 2);
    }
    shelf_maintain(&shelf, 3);
    await_pass(&shelf);
    shelf_maintain(&shelf, 4);
    assert_false(is_busy(&shelf));
    assert_int_equal(shelf.store->wal_pages, 0);
    write_pages(&shelf, 1); /* from the beginning of the log */
    assert_true(shelf.store->wal_pages < DUE);
    shelf_done(&shelf);
    disk_clear();
}

/*
 * A pass that begins late copies more than there was when it was asked for. If a second one began
 * then, with nothing to copy, the writer could begin the log anew beside it, and SQLite would take
 * frames of the new log for copied (checkpointer.c).
 */
TEST(checkpointer__begins_no_pass_if_everything_is_copied)
{
    static struct shelf shelf;
    shelf_with_node(&shelf);
    write_pages(&shelf, DUE);
    maintain_up_to(&shelf, GATE_BEGIN);
    write_pages(&shelf, shelf.store->wal_pages + DUE / 4); /* as much as a second pass would copy */
    shelf_maintain(&shelf, 2);                             /* the pass has not begun */
    open_gate();
    await_pass(&shelf);
    shelf_maintain(&shelf, 3);
    assert_false(shelf.store->is_passing);
    assert_int_equal(shelf.store->wal_pages, 0);
    write_pages(&shelf, DUE);
    shelf_save_and_turn(&shelf);
    shelf_sound(&shelf);
    shelf_done(&shelf);
    disk_clear();
}

/* A pass in the middle, and as much written since. */
static void hold_a_pass(struct shelf *shelf)
{
    shelf_with_node(shelf);
    write_pages(shelf, DUE);
    maintain_up_to(shelf, GATE_MIDDLE);
    write_pages(shelf, 2 * DUE);
}

/* The log cannot begin anew before the reader is done. */
static void read_on(struct shelf *shelf, struct reader *reader)
{
    struct err err;

    assert_int_equal(reader_open(shelf->store, reader, &err), 0);
    assert_int_equal(db_exec(reader->db, "BEGIN; SELECT * FROM node", &err), 0);
}

static void lose_power(struct shelf *shelf)
{
    disk_cut();
    shelf_close(shelf);
    disk_restart(DISK_KEEPS_NONE, 1);
    shelf_open(shelf);
    shelf_same(shelf);
    shelf_sound(shelf);
    shelf_done(shelf);
    disk_clear();
}

/* A pass syncs what it has copied while the writer went on; that counts as copied. */
TEST(checkpointer__syncs_the_file_although_the_writer_goes_on)
{
    static struct shelf shelf;
    struct err err;
    hold_a_pass(&shelf);
    open_gate();
    await_pass(&shelf);
    /* The writer copies the rest. It has to sync all that no pass has, so it may try again. */
    shelf.store->limits.wal_hard = 2 * DUE;
    disk_fail(DISK_SYNC, 2, SQLITE_IOERR, false); /* of the file, after that of the log */
    assert_int_equal(shelf.ops.maintain(shelf.ops.ctx, 2, &err), -(int)ERR_IO);
    assert_int_equal(disk_failed(), 1);
    shelf_maintain(&shelf, 3);
    assert_int_equal(shelf.store->wal_pages, 0);
    write_pages(&shelf, DUE / 2); /* over the beginning of the log */
    lose_power(&shelf);
}

/*
 * A checkpoint that a reader keeps from its end says that it was busy, but counts as copied what it
 * has written. One of its syncs is that of the file.
 */
TEST(checkpointer__syncs_what_a_busy_checkpoint_has_copied)
{
    static struct shelf shelf;
    struct reader reader;
    struct pass pass = {.copied = 0};
    struct err err;
    shelf_with_node(&shelf);
    write_pages(&shelf, DUE);
    read_on(&shelf, &reader);
    write_pages(&shelf, 2 * DUE);
    for (uint64_t n = 1; n < 9 && !pass.has_lost_sync; n++) {
        assert_false(pass.is_busy);
        disk_fail(DISK_SYNC, n, SQLITE_IOERR, false);
        pass = checkpoint_run(shelf.path, shelf.store->db, SQLITE_CHECKPOINT_RESTART, false, &err);
    }
    assert_true(pass.has_lost_sync);
    assert_int_equal(pass.failed, -(int)ERR_IO);
    disk_fail(0, 0, SQLITE_OK, false);
    reader_done(&reader);
    shelf.store->has_lost_sync = true;
    lose_power(&shelf);
}

/* The kernel may have dropped pages that count as copied: the log has to keep them. */
TEST(checkpointer__copies_nothing_after_a_sync_that_failed)
{
    static struct shelf shelf;
    struct err err;
    hold_a_pass(&shelf);
    disk_fail(DISK_SYNC, 2, SQLITE_IOERR, false);
    open_gate();
    await_pass(&shelf);
    assert_int_equal(shelf.ops.maintain(shelf.ops.ctx, 2, &err), -(int)ERR_IO);
    assert_non_null(strstr(err.text, "checkpoint"));
    const int pages = shelf.store->wal_pages;
    assert_int_equal(shelf.ops.maintain(shelf.ops.ctx, 3, &err), -(int)ERR_IO);
    assert_non_null(strstr(err.text, "until milligpud is started again"));
    write_pages(&shelf, pages + 1);
    assert_int_equal(shelf.ops.maintain(shelf.ops.ctx, 4, &err), -(int)ERR_IO);
    assert_true(shelf.store->wal_pages > pages);
    shelf.store->limits.wal_max = pages;
    assert_int_equal(shelf.ops.begin(shelf.ops.ctx, &err), -(int)ERR_FULL);
    assert_non_null(strstr(err.text, "a sync of the file failed"));
    lose_power(&shelf);
}

static void *open_gate_later(void *shelf)
{
    int64_t until_ms = 0;

    for (int i = 0; i < 10; i++)
        (void)patience_left(&until_ms);
    must(shelf != NULL);
    open_gate();
    return NULL;
}

TEST(checkpointer__is_waited_for_when_the_log_is_long)
{
    static struct shelf shelf;
    pthread_t thread;
    struct err err;
    hold_a_pass(&shelf);
    shelf.store->limits.wal_hard = 2 * DUE;
    assert_int_equal(pthread_create(&thread, NULL, open_gate_later, &shelf), 0);
    /* waits before it uses the disk, which the pass uses now */
    assert_int_equal(maintain_checkpoint(shelf.store, 2, &err), 0);
    assert_false(is_busy(&shelf));
    assert_int_equal(shelf.store->wal_pages, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    shelf_sound(&shelf);
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
    disk_fail(0, 0, SQLITE_OK, false);
    shelf_maintain(&shelf, 3); /* by the writer, which knows what is copied afterwards */
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
    read_on(&shelf, &reader);
    write_pages(&shelf, DUE);
    shelf_maintain(&shelf, 1);
    await_pass(&shelf);
    shelf_maintain(&shelf, 2); /* a second pass, which can copy nothing either */
    await_pass(&shelf);
    assert_true(shelf.store->wal_pages >= DUE);
    int64_t entries = -1;
    assert_int_equal(db_number(reader.db, "SELECT count(*) FROM journal", &entries, &err), 0);
    assert_int_equal(entries, 1);
    reader_done(&reader);
    shelf_maintain(&shelf, 3);
    await_pass(&shelf);
    shelf_maintain(&shelf, 4);
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
    gates.test = pthread_self();
    must(sem_init(&gates.reached, 0, 0) == 0 && sem_init(&gates.opens, 0, 0) == 0);
    gates.disk = sqlite3_vfs_find(NULL);
    learn_methods();
    gates.vfs = *gates.disk;
    gates.vfs.zName = "gates";
    gates.vfs.xOpen = gates_open;
    gates.vfs.pNext = NULL;
    return sqlite3_vfs_register(&gates.vfs, 1);
}

TEST_GROUP(use_fake_disk, NULL)
