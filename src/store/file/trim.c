/*
 * Retention by bytes: trims the ledger near its limit, regardless of age. Called by maintenance in
 * the writer, between batches; each transaction trims one piece. In this order:
 *
 *   1. fold the oldest entries of the journal, while it takes more than a quarter of the limit
 *   2. pack rows of the history: this makes room and loses nothing that history shows
 *   3. drop the oldest history of the namespace that has most of it
 *   4. fold the rest of the journal, oldest first
 *   5. drop the oldest hourly sums
 *
 * Live rows are never dropped. Nothing here depends on the wall clock, so it also runs while the
 * clock is not trusted.
 */
#include "store/store_internal.h"

/* The result of trimming one piece. */
struct trim_piece {
    struct folded folded;
    int packed; /* packed rows of the history; nothing is lost */
    int rows;   /* dropped rows of the history or of hourly sums */
};

/* Finds the oldest entries that make a piece. *out_upto: the newest of them; 0: no entries. */
static int trim_find_entries(struct store *store, int64_t *out_upto, struct err *err)
{
    sqlite3_stmt *stmt = store->stmt[ST_JOURNAL_OLDEST];
    struct bind bind = bind_start(stmt);
    int64_t bytes = 0;
    int more = 0;

    *out_upto = 0;
    bind_number(&bind, store->limits.fold);
    must(bind.rc == SQLITE_OK);
    while (bytes < store->limits.piece && (more = db_step(stmt, err)) > 0) {
        struct row row = row_start(stmt);
        *out_upto = row_number(&row, 1, INT64_MAX);
        bytes += row_number(&row, 0, INT32_MAX);
        more = row_check(&row, "journal", err);
        if (more < 0)
            break;
    }
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return more < 0 ? more : 0;
}

static int trim_journal(struct store *store, struct trim_piece *out, struct err *err)
{
    int64_t upto = 0;

    const int failed = trim_find_entries(store, &upto, err);
    if (failed != 0 || upto == 0)
        return failed;
    return maintain_fold(store, upto, &out->folded, err);
}

static int trim_hours(struct store *store, int *out_rows, struct err *err)
{
    struct bind bind = bind_start(store->stmt[ST_MEASURED_DROP]);

    bind_number(&bind, INT64_MAX); /* any age */
    bind_number(&bind, store->limits.fold);
    return bind_run(&bind, out_rows, err);
}

static bool trim_did(const struct trim_piece *piece)
{
    must(piece->packed >= 0 && piece->rows >= 0);
    return piece->folded.rows > 0 || piece->packed > 0 || piece->rows > 0;
}

static int trim_piece(struct store *store, struct trim_piece *out, struct err *err)
{
    const bool is_long = atomic_load(&store->journal_bytes) > store->limits.max_bytes / 4;
    int failed = 0;

    must(sqlite3_get_autocommit(store->db) == 0);

    if (is_long)
        failed = trim_journal(store, out, err);
    if (failed == 0 && !trim_did(out))
        failed = packs_add(store, &out->packed, err);
    if (failed == 0 && !trim_did(out))
        failed = past_trim(store, &out->rows, err);
    if (failed == 0 && !trim_did(out))
        failed = trim_journal(store, out, err);
    if (failed == 0 && !trim_did(out))
        failed = trim_hours(store, &out->rows, err);
    return failed;
}

static int trim_once(struct store *store, struct trim_piece *out, struct err *err)
{
    int failed = db_run(store->stmt[ST_BEGIN], err);

    *out = (struct trim_piece){.rows = 0};
    if (failed == 0)
        failed = trim_piece(store, out, err);
    if (failed == 0)
        failed = db_run(store->stmt[ST_COMMIT], err);
    if (failed != 0) {
        db_rollback(store->db);
        return err_wrap(err, "retention by bytes");
    }
    maintain_folded(store, &out->folded);
    return 0;
}

static void trim_note(struct store *store, int64_t now_ms)
{
    must(!store->in_batch);
    if (atomic_exchange(&store->trimmed_ms, now_ms) == 0)
        store_notice(store,
                     "%s: it comes near its limit of %lld MiB: the oldest history goes, however "
                     "young (ledger_max_bytes)",
                     store->path, (long long)(store->limits.max_bytes >> 20));
}

int trim_to_limit(struct store *store, int64_t now_ms, struct err *err)
{
    /* More rounds while grants are stopped, because no bind waits for the writer. */
    const int rounds = store_space(store) == SPACE_LIMIT ? 32 : 4;
    struct trim_piece piece = {.rows = 1}; /* of the previous round; not empty before the first */
    int failed = 0;

    must(!store->in_batch);
    for (int i = 0; failed == 0 && trim_did(&piece) && i < rounds && space_is_short(store); i++) {
        /* A reader holds the log: trimming would only make it longer. */
        if (store->wal_pages >= store->limits.wal_hard)
            return 0;
        failed = trim_once(store, &piece, err);
        /* Packing alone loses nothing, so it is not noted. */
        if (failed == 0 && piece.folded.rows + piece.rows > 0)
            trim_note(store, now_ms);
        if (failed == 0)
            failed = space_look(store, err);
    }
    return failed;
}
