/*
 * Runs SQLite's own checks of the file in a second thread, over a connection of its own, while the
 * opening reads the tables on the main thread: each takes about half of the start. Called by
 * schema_prepare.c, which hears the verdict before the opening ends, and before anything is
 * written. The reading of a damaged file need not end by itself: a verdict ends it.
 */
#include "store/store_internal.h"

/* Operations of SQLite between two looks at the verdict: some microseconds. */
enum { OPERATIONS_PER_LOOK = 10000 };

static int is_over(void *user)
{
    const struct check_beside *beside = user;
    return atomic_load(&beside->found) ? 1 : 0;
}

static void *check_beside_main(void *user)
{
    struct check_beside *beside = user;
    sqlite3 *db = NULL;

    int failed = db_open(db_name(beside->db), DB_READ, &db, &beside->err);
    if (failed == 0)
        failed = check_file(db, false, &beside->err);
    db_close(db);
    must(failed <= 0);
    beside->failed = failed;
    atomic_store(&beside->found, failed != 0);
    return NULL;
}

/* Without a second thread the checks run here. */
int check_beside_begin(struct check_beside *beside, sqlite3 *db, struct err *err)
{
    beside->db = db;
    beside->failed = 0;
    atomic_init(&beside->found, false);
    beside->runs = pthread_create(&beside->thread, NULL, check_beside_main, beside) == 0;
    if (!beside->runs)
        return check_file(db, false, err);
    sqlite3_progress_handler(db, OPERATIONS_PER_LOOK, is_over, beside);
    return 0;
}

int check_beside_end(struct check_beside *beside, int failed, struct err *err)
{
    must(failed <= 0);
    if (!beside->runs)
        return failed;
    must(pthread_join(beside->thread, NULL) == 0);
    beside->runs = false;
    sqlite3_progress_handler(beside->db, 0, NULL, NULL);
    if (beside->failed == 0)
        return failed;
    *err = beside->err;
    return beside->failed;
}
