/*
 * Checkpoints the log; folds journal entries and drops history older than retention_days. Called by
 * the writer between batches (store_ops.maintain), so it must be cheap when nothing is due and
 * bounded otherwise. A failure is logged and retried later.
 */
#include "store/store_internal.h"

/*
 * A checkpoint that waits for readers delays binds, so it waits at most 100 ms, once a second.
 * BUSY_MS is the timeout that db_open() sets.
 */
enum { CHECKPOINT_WAIT_MS = 100, BUSY_MS = 2000, HARD_PAUSE_MS = 1000 };
/* A smaller part of the pages that make a checkpoint due is worth no pass beside the writer. */
enum { PASS_PART = 64 };
static const int64_t day_ms = INT64_C(24) * 60 * 60 * 1000;

static int maintain_run_checkpoint(struct store *store, int mode, struct err *err)
{
    int pages = 0;
    int copied = 0;

    const int rc = sqlite3_wal_checkpoint_v2(store->db, NULL, mode, &pages, &copied);
    /* A reader or another process holds a lock: retry next time. */
    if (rc == SQLITE_BUSY)
        return 0;
    if (rc != SQLITE_OK)
        return db_fail(store->db, rc, err, "checkpoint");
    must(copied <= pages);
    /* Incomplete: the log cannot be reset while a reader needs its end. */
    if (copied < pages)
        return 0;
    store->wal_pages = 0; /* the next batch overwrites the log from its beginning */
    return ledger_id_note(store, err);
}

int maintain_take_in_log(struct store *store, struct err *err)
{
    must(!store->in_batch);
    return store->memory ? 0 : maintain_run_checkpoint(store, SQLITE_CHECKPOINT_PASSIVE, err);
}

/*
 * The log can begin anew only when all of it is copied, but the writer goes on writing during a
 * pass. So each pass copies what came during the one before, while that is at most half as much;
 * the writer copies the rest. *out_waits: a pass runs or begins, so there is nothing else to do.
 * From wal_hard on none begins, and the writer waits for the disk.
 */
static int maintain_beside(struct store *store, bool *out_waits, struct err *err)
{
    const int due = store->limits.wal_soft;

    must(store->wal_pages >= due);
    *out_waits = store->checkpointer != NULL && checkpointer_is_busy(store->checkpointer);
    if (store->checkpointer == NULL || *out_waits)
        return 0;
    const int failed = checkpointer_take_failure(store->checkpointer, err);
    if (failed != 0) {
        store->asked_pages = store->pass_pages = 0;
        return failed;
    }
    const int pages = store->wal_pages - store->asked_pages;
    if (pages < due / PASS_PART || (store->asked_pages > 0 && pages > store->pass_pages / 2) ||
        store->wal_pages >= store->limits.wal_hard)
        return 0;
    store->asked_pages = store->wal_pages;
    store->pass_pages = pages;
    checkpointer_begin(store->checkpointer);
    *out_waits = true;
    return 0;
}

/*
 * PASSIVE copies without waiting, but readers can keep it from completing, so the log grows. From
 * wal_hard on RESTART waits for readers; beyond wal_max no batch begins.
 */
int maintain_checkpoint(struct store *store, int64_t now_ms, struct err *err)
{
    must(!store->in_batch);
    if (store->memory || store->wal_pages < store->limits.wal_soft) {
        store->asked_pages = store->pass_pages = 0; /* the log has begun anew */
        return 0;
    }
    bool waits = false;
    int failed = maintain_beside(store, &waits, err);
    if (failed != 0 || waits)
        return failed;
    failed = maintain_run_checkpoint(store, SQLITE_CHECKPOINT_PASSIVE, err);
    /* Negative after the wall clock was set back: counts as long ago. */
    const int64_t since = now_ms - store->hard_ms;
    if (failed != 0 || store->wal_pages < store->limits.wal_hard ||
        (since >= 0 && since < HARD_PAUSE_MS))
        return failed;

    /* A slow reader has let the log grow: wait for it, with a short timeout. */
    store->hard_ms = now_ms;
    (void)sqlite3_busy_timeout(store->db, CHECKPOINT_WAIT_MS);
    failed = maintain_run_checkpoint(store, SQLITE_CHECKPOINT_RESTART, err);
    (void)sqlite3_busy_timeout(store->db, BUSY_MS);
    return failed;
}

static int with_number(struct store *store, enum statement statement, int64_t number,
                       int *out_changed, struct err *err)
{
    must(number > 0);
    struct bind bind = bind_start(store->stmt[statement]);
    bind_number(&bind, number);
    return bind_run(&bind, out_changed, err);
}

/* The numbers of objects that one round of retention removed. */
struct round {
    int old;              /* journal entries that are old by their own time */
    struct folded folded; /* includes entries from the future between them */
    int dropped;          /* rows of the history */
    int packs;            /* packs of the history */
    int hours;            /* rows of measured usage */
};

/*
 * Finds the old entries in order of seq, up to the first one that is not old (also if the clock was
 * set back). Skips entries from the future (the clock was ahead): later entries decide.
 */
static int find_old(struct store *store, int64_t now_ms, int64_t before_ms, int64_t *out_upto,
                    int *out_rows, struct err *err)
{
    sqlite3_stmt *stmt = store->stmt[ST_JOURNAL_OLD];
    struct bind bind = bind_start(stmt);
    int more;

    *out_upto = 0;
    *out_rows = 0;
    bind_number(&bind, now_ms);
    bind_number(&bind, store->limits.fold);
    must(bind.rc == SQLITE_OK);
    while ((more = db_step(stmt, err)) > 0) {
        struct row row = row_start(stmt);
        const int64_t seq = row_number(&row, 1, INT64_MAX);
        const int64_t at = row_number(&row, INT64_MIN, INT64_MAX);
        more = row_check(&row, "journal", err);
        if (more < 0 || at >= before_ms)
            break;
        *out_upto = seq;
        (*out_rows)++;
    }
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return more < 0 ? more : 0;
}

/* The size of the entries up to this one, counted as in a commit. */
static int maintain_measure(struct store *store, int64_t upto, int64_t *out_bytes, struct err *err)
{
    struct bind bind = bind_start(store->stmt[ST_JOURNAL_BYTES]);

    bind_number(&bind, upto);
    must(bind.rc == SQLITE_OK);
    return db_ask(bind.stmt, out_bytes, err);
}

/*
 * In order: puts last states into the baseline, removes ended objects from it, advances
 * meta.folded, then deletes the entries. A trigger refuses to delete entries beyond meta.folded.
 */
int maintain_fold(struct store *store, int64_t upto, struct folded *out, struct err *err)
{
    static const enum statement steps[] = {ST_FOLD_ALLOCATIONS, ST_FOLD_NODES, ST_FOLD_RELEASED,
                                           ST_FOLD_REMOVED,     ST_FOLDED,     ST_JOURNAL_DROP};
    static_assert(ARRAY_LEN(steps) > 0, "the last one says how many entries it dropped");
    must(upto > 0);
    int failed = maintain_measure(store, upto, &out->bytes, err);
    for (size_t i = 0; failed == 0 && i < ARRAY_LEN(steps); i++)
        failed = with_number(store, steps[i], upto, &out->rows, err);
    return failed;
}

void maintain_folded(struct store *store, const struct folded *folded)
{
    must(!store->in_batch);
    atomic_fetch_sub(&store->journal_rows, (uint_fast64_t)folded->rows);
    atomic_fetch_sub(&store->journal_bytes, folded->bytes);
}

/* Deletes up to limits.fold rows older than before_ms with the given statement. */
static int drop_old(struct store *store, enum statement statement, int64_t before_ms,
                    int *out_dropped, struct err *err)
{
    struct bind bind = bind_start(store->stmt[statement]);

    bind_number(&bind, before_ms);
    bind_number(&bind, store->limits.fold);
    const int failed = bind_run(&bind, out_dropped, err);
    must(failed != 0 || *out_dropped <= store->limits.fold);
    return failed;
}

static int maintain_retain(struct store *store, int64_t now_ms, int64_t before_ms,
                           struct round *out, struct err *err)
{
    int64_t upto = 0;

    /* Clears meta.stepped_ms: retention runs only while the clock is trusted. */
    int failed = db_run(store->stmt[ST_BELIEVED], err);
    if (failed == 0)
        failed = find_old(store, now_ms, before_ms, &upto, &out->old, err);
    if (failed == 0 && out->old > 0)
        failed = maintain_fold(store, upto, &out->folded, err);
    if (failed != 0)
        return failed;
    must(out->folded.rows >= out->old);
    failed = drop_old(store, ST_PAST_DROP, before_ms, &out->dropped, err);
    if (failed == 0)
        failed = drop_old(store, ST_PACK_DROP, before_ms, &out->packs, err);
    if (failed == 0)
        failed = drop_old(store, ST_MEASURED_DROP, before_ms, &out->hours, err);
    return failed;
}

int maintain_retention(struct store *store, int64_t now_ms, struct err *err)
{
    const unsigned days = atomic_load(&store->retention_days);
    struct round round = {0};

    must(!store->in_batch);
    /* A longer wait means that the clock was set back: then retention is due. */
    const int64_t wait = store->retain_at_ms - now_ms;
    if (days == 0 || (wait > 0 && wait <= store->limits.retain_ms) ||
        atomic_load(&store->clock_doubted))
        return 0;
    /* Set first: a failure is retried after a pause, not after each batch. */
    store->retain_at_ms = now_ms + store->limits.retain_ms;
    /* One transaction: after a crash an entry is either in the journal or in the baseline (I6). */
    int failed = db_run(store->stmt[ST_BEGIN], err);
    if (failed == 0)
        failed = maintain_retain(store, now_ms, now_ms - (int64_t)days * day_ms, &round, err);
    if (failed == 0)
        failed = db_run(store->stmt[ST_COMMIT], err);
    if (failed != 0) {
        db_rollback(store->db);
        return err_wrap(err, "retention");
    }
    maintain_folded(store, &round.folded);
    store->is_stale = true;
    if (round.old == store->limits.fold || round.dropped == store->limits.fold ||
        round.packs == store->limits.fold || round.hours == store->limits.fold)
        store->retain_at_ms = now_ms; /* more to delete: continue after the next batch */
    return 0;
}
