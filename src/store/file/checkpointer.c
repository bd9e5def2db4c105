/*
 * Copies the log into the file in a thread of its own, over a connection of its own, so that no
 * bind waits for the disk meanwhile. Called by maintain.c, which begins a pass when one is due, and
 * copies the rest by itself: SQLite begins the log anew only if all of it is copied, and under load
 * the writer goes on writing during a pass.
 *
 * A pass writes the pages of committed frames to the file, as a PASSIVE checkpoint, and syncs the
 * file. SQLite syncs it only in a checkpoint that reaches the end of the log, but counts what any
 * checkpoint has written as copied, and never writes it again. So checkpoint_run() makes that sync.
 * If it fails, the kernel may have dropped pages that are counted: no further checkpoint is made
 * then, so the log is never overwritten.
 *
 * A pass may begin only while the log has frames that are not copied yet, and nobody else may make
 * a checkpoint before it ends. Else the writer could begin the log anew while the pass runs, and
 * SQLite 3.40, which reads the length of the log before it looks whether anything is to be copied,
 * would count frames of the new log as copied that are not.
 */
#include <limits.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

struct checkpointer {
    const char *path; /* borrowed from the store */
    pthread_t thread;
    struct mutex lock; /* guards everything below */
    struct condvar asked;
    struct condvar ended;
    bool is_busy; /* a pass is asked for or runs */
    bool is_ending;
    struct pass last; /* the result, until it is taken */
    struct err err;   /* if it failed */
};

/* The connection knows the log once it has read the file. */
static int checkpointer_open(const char *path, sqlite3 **out, struct err *err)
{
    int64_t ignored = 0;

    must(*out == NULL);
    int failed = db_open(path, DB_READ, out, err);
    if (failed == 0)
        failed = db_number(*out, "PRAGMA schema_version", &ignored, err);
    return failed;
}

/* The sync that SQLite leaves out of a checkpoint which does not reach the end of the log. */
static int checkpoint_sync(sqlite3 *db)
{
    sqlite3_file *file = NULL;
    const int rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, (void *)&file);

    must(rc == SQLITE_OK && file != NULL);
    return file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
}

struct pass checkpoint_run(const char *path, sqlite3 *db, int mode, bool is_beside, struct err *err)
{
    struct pass pass = {.copied = INT_MAX};

    pass.failed = ledger_id_mark(path, err);
    if (pass.failed != 0)
        return pass;
    int rc = sqlite3_wal_checkpoint_v2(db, NULL, mode, &pass.pages, &pass.copied);
    must(rc != SQLITE_OK || pass.copied <= pass.pages);
    /* BUSY with a count: something was copied, and a reader needs the rest of the log. */
    const bool has_count = (rc == SQLITE_OK || rc == SQLITE_BUSY) && pass.copied >= 0;
    if (has_count && (is_beside || pass.copied < pass.pages || rc == SQLITE_BUSY)) {
        const int synced = checkpoint_sync(db);
        pass.has_lost_sync = synced != SQLITE_OK;
        rc = synced != SQLITE_OK ? synced : rc;
    }
    pass.is_busy = rc == SQLITE_BUSY;
    if (!has_count || pass.has_lost_sync)
        pass.copied = INT_MAX;
    if (rc != SQLITE_OK && !pass.is_busy)
        pass.failed = db_fail(db, rc, err, "checkpoint");
    return pass;
}

static struct pass checkpointer_copy(const char *path, sqlite3 **db, struct err *err)
{
    if (*db == NULL) {
        const int failed = checkpointer_open(path, db, err);
        if (failed != 0)
            return (struct pass){.copied = INT_MAX, .failed = failed};
    }
    must(*db != NULL);
    return checkpoint_run(path, *db, SQLITE_CHECKPOINT_PASSIVE, true, err);
}

/* After a failure the next pass opens the file again. */
static void *checkpointer_main(void *user)
{
    struct checkpointer *checkpointer = user;
    sqlite3 *db = NULL;
    struct err err = {0};

    must(checkpointer != NULL);
    mutex_lock(&checkpointer->lock);
    for (;;) {
        while (!checkpointer->is_busy && !checkpointer->is_ending)
            condvar_wait(&checkpointer->asked, &checkpointer->lock);
        if (!checkpointer->is_busy)
            break;
        mutex_unlock(&checkpointer->lock);
        const struct pass pass = checkpointer_copy(checkpointer->path, &db, &err);
        if (pass.failed != 0) {
            db_close(db);
            db = NULL;
        }
        mutex_lock(&checkpointer->lock);
        checkpointer->last = pass;
        checkpointer->err = err;
        checkpointer->is_busy = false;
        condvar_signal(&checkpointer->ended);
    }
    mutex_unlock(&checkpointer->lock);
    db_close(db);
    return NULL;
}

static void checkpointer_drop(struct checkpointer *checkpointer)
{
    must(!checkpointer->is_busy);
    condvar_done(&checkpointer->ended);
    condvar_done(&checkpointer->asked);
    mutex_done(&checkpointer->lock);
    xfree(checkpointer);
}

struct checkpointer *checkpointer_new(const char *path)
{
    struct checkpointer *checkpointer = xcalloc(1, sizeof *checkpointer);

    must(path[0] == '/');
    checkpointer->path = path;
    mutex_init(&checkpointer->lock);
    condvar_init(&checkpointer->asked);
    condvar_init(&checkpointer->ended);
    if (pthread_create(&checkpointer->thread, NULL, checkpointer_main, checkpointer) == 0)
        return checkpointer;
    checkpointer_drop(checkpointer);
    return NULL;
}

void checkpointer_free(struct checkpointer *checkpointer)
{
    if (checkpointer == NULL)
        return;
    mutex_lock(&checkpointer->lock);
    must(!checkpointer->is_ending);
    checkpointer->is_ending = true;
    condvar_signal(&checkpointer->asked);
    mutex_unlock(&checkpointer->lock);
    must(pthread_join(checkpointer->thread, NULL) == 0);
    checkpointer_drop(checkpointer);
}

bool checkpointer_is_busy(struct checkpointer *checkpointer)
{
    must(checkpointer != NULL);
    mutex_lock(&checkpointer->lock);
    const bool is_busy = checkpointer->is_busy;
    mutex_unlock(&checkpointer->lock);
    return is_busy;
}

void checkpointer_await(struct checkpointer *checkpointer)
{
    must(checkpointer != NULL);
    mutex_lock(&checkpointer->lock);
    while (checkpointer->is_busy)
        condvar_wait(&checkpointer->ended, &checkpointer->lock);
    mutex_unlock(&checkpointer->lock);
}

struct pass checkpointer_take(struct checkpointer *checkpointer, struct err *err)
{
    mutex_lock(&checkpointer->lock);
    must(!checkpointer->is_busy);
    const struct pass pass = checkpointer->last;
    if (pass.failed != 0)
        *err = checkpointer->err;
    mutex_unlock(&checkpointer->lock);
    return pass;
}

void checkpointer_begin(struct checkpointer *checkpointer)
{
    mutex_lock(&checkpointer->lock);
    must(!checkpointer->is_busy);
    checkpointer->is_busy = true;
    condvar_signal(&checkpointer->asked);
    mutex_unlock(&checkpointer->lock);
}
