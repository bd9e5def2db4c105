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
/* This part of the pages that make a checkpoint due is left to the writer, not to a pass. */
enum { OWN_PART = 16 };
static const int64_t day_ms = INT64_C(24) * 60 * 60 * 1000;

static int maintain_run_checkpoint(struct store *store, int mode, struct err *err)
{
    must(!store->is_passing);
    const struct pass pass = checkpoint_run(store->path, store->db, mode, false, err);
    store->copied_pages = pass.copied;
    store->has_lost_sync = pass.has_lost_sync;
    if (pass.is_busy)
        return 0; /* retry next time */
    /* Incomplete: the log cannot be reset while a reader needs its end. */
    if (pass.failed != 0 || pass.copied < pass.pages)
        return pass.failed;
    store->wal_pages = 0; /* the next batch overwrites the log from its beginning */
    return ledger_id_note(store, err);
}

int maintain_take_in_log(struct store *store, struct err *err)
{
    must(!store->in_batch);
    return store->memory ? 0 : maintain_run_checkpoint(store, SQLITE_CHECKPOINT_PASSIVE, err);
}

/* Takes the result of a pass that has ended. From wal_hard on the writer waits for its end. */
static int maintain_hear(struct store *store, struct err *err)
{
    if (!store->is_passing)
        return 0;
    if (store->wal_pages >= store->limits.wal_hard)
        checkpointer_await(store->checkpointer);
    if (checkpointer_is_busy(store->checkpointer))
        return 0;
    const struct pass pass = checkpointer_take(store->checkpointer, err);
    must(pass.failed <= 0);
    store->is_passing = false;
    store->copied_pages = pass.copied;
    store->has_lost_sync = pass.has_lost_sync;
    return pass.failed;
}

/*
 * The log can begin anew only when all of it is copied, but the writer goes on writing during a
 * pass. So each pass copies what came during the one before, until that is little, or the log is
 * long. Returns false if the writer copies the rest now.
 */
static bool maintain_begin_pass(struct store *store)
{
    const int due = store->limits.wal_soft;

    must(store->wal_pages >= due && !store->is_passing);
    if (store->checkpointer == NULL || store->wal_pages >= store->limits.wal_hard ||
        store->wal_pages - store->copied_pages <= due / OWN_PART)
        return false;
    must(store->wal_pages > store->copied_pages); /* see checkpointer.c */
    store->is_passing = true;
    checkpointer_begin(store->checkpointer);
    return true;
}

/*
 * PASSIVE copies without waiting, but readers can keep it from completing, so the log grows. From
 * wal_hard on RESTART waits for readers; beyond wal_max no batch begins.
 */
int maintain_checkpoint(struct store *store, int64_t now_ms, struct err *err)
{
    must(!store->in_batch);
    int failed = maintain_hear(store, err);
    if (failed != 0 || store->memory || store->is_passing)
        return failed;
    if (store->wal_pages < store->limits.wal_soft) {
        store->copied_pages = 0; /* the log has begun anew, or will with the next batch */
        return 0;
    }
    if (store->has_lost_sync)
        return err_set(
            err, ERR_IO,
            "%s: a sync of the file failed, so its log is kept, and grows until milligpud "
            "is started again while no other program has the file open",
            store->path);
    if (maintain_begin_pass(store))
        return 0;
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
