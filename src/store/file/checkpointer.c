/*
 * Copies the log into the file in a thread of its own, over a connection of its own, so that no
 * bind waits for the disk meanwhile. Called by maintain.c, which begins a pass when one is due, and
 * copies the rest by itself: SQLite begins the log anew only if all of it is copied, and under load
 * the writer goes on writing during a pass.
 *
 * A pass does what a PASSIVE checkpoint of the writer does: it syncs the log, writes the pages of
 * committed frames to the file and syncs that. SQLite's locks allow it beside a writer. The file
 * alone may then be a mix of two moments, as after an interrupted checkpoint; with its log it is
 * not.
 */
#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

struct checkpointer {
    const char *path; /* borrowed from the store */
    pthread_t thread;
    struct mutex lock; /* guards everything below */
    struct condvar changed;
    bool is_busy; /* a pass is asked for or runs */
    bool is_ending;
    int failed; /* by the last pass; negative: err says how */
    struct err err;
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

/* BUSY: the writer runs a checkpoint. */
static int checkpointer_copy(const char *path, sqlite3 **db, struct err *err)
{
    const int failed = *db == NULL ? checkpointer_open(path, db, err) : 0;

    must((*db != NULL) || failed != 0);
    if (failed != 0)
        return failed;
    const int rc = sqlite3_wal_checkpoint_v2(*db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return rc == SQLITE_OK || rc == SQLITE_BUSY ? 0 : db_fail(*db, rc, err, "checkpoint");
}

/* After a failure the next pass opens the file again. */
static void *checkpointer_main(void *user)
{
    struct checkpointer *checkpointer = user;
    sqlite3 *db = NULL;
    struct err err;

    must(checkpointer != NULL);
    mutex_lock(&checkpointer->lock);
    for (;;) {
        while (!checkpointer->is_busy && !checkpointer->is_ending)
            condvar_wait(&checkpointer->changed, &checkpointer->lock);
        if (!checkpointer->is_busy)
            break;
        mutex_unlock(&checkpointer->lock);
        const int failed = checkpointer_copy(checkpointer->path, &db, &err);
        if (failed != 0) {
            db_close(db);
            db = NULL;
        }
        mutex_lock(&checkpointer->lock);
        checkpointer->failed = failed;
        checkpointer->err = err;
        checkpointer->is_busy = false;
    }
    mutex_unlock(&checkpointer->lock);
    db_close(db);
    return NULL;
}

struct checkpointer *checkpointer_new(const char *path)
{
    struct checkpointer *checkpointer = xcalloc(1, sizeof *checkpointer);

    must(path[0] == '/');
    checkpointer->path = path;
    mutex_init(&checkpointer->lock);
    condvar_init(&checkpointer->changed);
    if (pthread_create(&checkpointer->thread, NULL, checkpointer_main, checkpointer) == 0)
        return checkpointer;
    condvar_done(&checkpointer->changed);
    mutex_done(&checkpointer->lock);
    xfree(checkpointer);
    return NULL;
}

void checkpointer_free(struct checkpointer *checkpointer)
{
    if (checkpointer == NULL)
        return;
    mutex_lock(&checkpointer->lock);
    must(!checkpointer->is_ending);
    checkpointer->is_ending = true;
    condvar_signal(&checkpointer->changed);
    mutex_unlock(&checkpointer->lock);
    must(pthread_join(checkpointer->thread, NULL) == 0);
    condvar_done(&checkpointer->changed);
    mutex_done(&checkpointer->lock);
    xfree(checkpointer);
}

bool checkpointer_is_busy(struct checkpointer *checkpointer)
{
    must(checkpointer != NULL);
    mutex_lock(&checkpointer->lock);
    const bool is_busy = checkpointer->is_busy;
    mutex_unlock(&checkpointer->lock);
    return is_busy;
}

int checkpointer_take_failure(struct checkpointer *checkpointer, struct err *err)
{
    mutex_lock(&checkpointer->lock);
    must(!checkpointer->is_busy);
    const int failed = checkpointer->failed;
    if (failed != 0)
        *err = checkpointer->err;
    checkpointer->failed = 0;
    mutex_unlock(&checkpointer->lock);
    return failed;
}

void checkpointer_begin(struct checkpointer *checkpointer)
{
    mutex_lock(&checkpointer->lock);
    must(!checkpointer->is_busy);
    checkpointer->is_busy = true;
    condvar_signal(&checkpointer->changed);
    mutex_unlock(&checkpointer->lock);
}
