/*
 * Opens and closes the ledger on disk and runs its batches. The main thread opens and closes; only
 * the writer runs batches and maintenance, through store_ops, over store->db; other threads read
 * over connections of their own (in memory: over store->db, under the mutex). A change that the
 * database refuses is rolled back alone; after any other failure the batch is lost and the caller
 * must call rollback(). In order: opening, the clock, batches, closing, loading, readers.
 */
#include "milligpu/store/store.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "store_internal.h"

static const char *const statements[] = {
#define X(code, sql) [code] = (sql),
    STATEMENT_TABLE(X)
#undef X
};

/* space_open() and space_take_page_bytes() set the others. */
static const struct store_limits usual_limits = {.fold = 500, .retain_ms = 60000};

/* WAL hook: SQLite calls it after each commit. pages: in the log. */
static int count_wal(void *user, sqlite3 *db, const char *name, int pages)
{
    struct store *store = user;

    must(db == store->db);
    must(strcmp(name, "main") == 0);
    store->wal_pages = pages;
    return SQLITE_OK;
}

/* At start: no batch compiles a statement, and a mismatch with the tables fails the opening. */
static int prepare_all(struct store *store, struct err *err)
{
    static_assert(ARRAY_LEN(statements) == STATEMENTS, "each has its text");

    for (size_t i = 0; i < STATEMENTS; i++) {
        const int failed = db_prepare(store->db, statements[i], &store->stmt[i], err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

/* If retention has dropped every entry, numbering continues after the folded ones. */
static const char journal_sql[] =
    "SELECT max(coalesce(max(seq), 0), (SELECT folded FROM meta)), count(*),"
    " coalesce(sum(" JOURNAL_BYTES "), 0) FROM journal";

/* A single pass over the journal, because the start waits for it. */
static int count_journal(struct store *store, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    must(!store->in_batch);
    int more = db_prepare(store->db, journal_sql, &stmt, err);
    if (more == 0)
        more = db_step(stmt, err);
    if (more < 0)
        return more;
    must(more == 1); /* count() always returns a row */
    const int64_t last = sqlite3_column_int64(stmt, 0);
    if (last < 0 || last >= INT64_MAX / 2)
        return err_set(err, ERR_CORRUPT, "%s: the journal counts to %lld, which cannot be",
                       store->path, (long long)last);
    store->seq = (uint64_t)last;
    store->seq_stable = store->seq;
    atomic_store(&store->journal_rows, (uint_fast64_t)sqlite3_column_int64(stmt, 1));
    atomic_store(&store->journal_bytes, sqlite3_column_int64(stmt, 2));
    return 0;
}

/*
 * A failed change leaves a gap, and no id is given twice before the next start. No milligpud ever
 * reaches half of the range: a row with a higher id is damaged, and the history tells of it.
 */
static int find_last_id(struct store *store, struct err *err)
{
    must(!store->in_batch);
    const int failed = db_number(store->db,
                                 "SELECT max(coalesce((SELECT max(id) FROM allocation"
                                 " WHERE id <= 2251799813685247), 0), coalesce((SELECT max(last)"
                                 " FROM pack WHERE last <= 2251799813685247), 0))",
                                 &store->last_id, err);
    static_assert(HISTORY_ID_MAX / 2 == 2251799813685247, "the conditions say so");
    must(failed != 0 || (store->last_id >= 0 && store->last_id <= HISTORY_ID_MAX / 2));
    return failed;
}

static void drop_opened(struct store *store)
{
    ledger_free(STEAL(store->opened));
    must(store->opened == NULL);
}

static void close_db(struct store *store)
{
    drop_opened(store);
    for (size_t i = 0; i < STATEMENTS; i++) {
        (void)sqlite3_finalize(store->stmt[i]); /* repeats an error that was already handled */
        store->stmt[i] = NULL;
    }
    db_close(store->db);
    store->db = NULL;
}

/* A failure (a full disk) does not fail the opening: the next checkpoint notes the id. */
static void note_id(struct store *store)
{
    struct err err;

    must(store->db != NULL);
    if (maintain_take_in_log(store, &err) < 0)
        store_notice(store, "the id of the ledger could not be noted yet: %s", err.text);
}

/* After a failure nothing is open, so start_anew() can call it again. */
static int open_db(struct store *store, struct err *err)
{
    must(store->db == NULL);
    int failed = store->memory ? 0 : file_prepare(store->path, err);
    if (failed == 0 && !store->memory)
        failed = ledger_id_accept(store->path, err);
    if (failed == 0)
        failed = db_open(store->path, DB_CREATE, &store->db, err);
    if (failed == 0) {
        /* After db_open(), whose PRAGMA wal_autocheckpoint removes the hook. */
        (void)sqlite3_wal_hook(store->db, count_wal, store); /* returns the former user data */
        failed = schema_prepare(store, err);
    }
    if (failed == 0)
        failed = space_take_page_bytes(store, err);
    if (failed == 0)
        failed = prepare_all(store, err);
    if (failed == 0)
        failed = count_journal(store, err);
    if (failed == 0)
        failed = find_last_id(store, err);
    if (failed == 0)
        failed = space_look(store, err);
    if (failed != 0)
        close_db(store);
    else
        note_id(store);
    return failed;
}

/* The new ledger is empty: the writer rebuilds it from the pods' annotations (docs/why/009). */
static int start_anew(struct store *store, const struct err *why, struct err *err)
{
    CLEANUP(xfreep) char *name = NULL;

    must(why->code == ERR_CORRUPT);
    int failed = file_move_aside(store->path, "corrupt", &name, err);
    if (failed != 0)
        return failed;
    store_notice(store, "%s; it is kept as %s, and a new ledger begins", why->text, name);
    failed = open_db(store, err);
    return failed;
}

/*
 * Locks before it reads or removes anything, because another daemon may use the files. Confirms the
 * owner of an older ledger before it writes anything.
 */
static int open_all(struct store *store, const struct store_rules *rules, struct err *err)
{
    must(store->path == NULL);
    if (store->memory) {
        store->path = xstrdup(rules->path);
        space_open(store, rules);
        return open_db(store, err);
    }
    int failed = file_find(rules->path, &store->path, err);
    if (failed == 0)
        failed = file_lock(store->path, &store->lock_fd, err);
    if (failed == 0)
        failed = owner_confirm(store, rules, err);
    if (failed != 0)
        return failed;
    store_remove_stale_copies(store);
    space_open(store, rules);
    failed = open_db(store, err);
    if (failed == -(int)ERR_CORRUPT && store->on_corrupt == STORE_MOVE_ASIDE) {
        const struct err why = *err;
        failed = start_anew(store, &why, err);
    }
    if (failed == 0)
        space_first_ballast(store);
    if (failed == 0 && rules->checkpoints_beside)
        store->checkpointer = checkpointer_new(store->path);
    return failed;
}

/* Also for a partly opened store. */
static void store_free(struct store *store)
{
    must(store->checkpointer == NULL);
    close_db(store);
    /* After SQLite has closed the file: close() drops SQLite's POSIX locks on it. */
    for (size_t i = 0; i < ARRAY_LEN(store->raw_fd); i++)
        if (store->raw_fd[i] >= 0)
            (void)close(store->raw_fd[i]); /* read-only */
    if (store->lock_fd >= 0)
        (void)close(store->lock_fd); /* releases the lock; an error loses nothing */
    mutex_done(&store->mutex);
    strbuf_done(&store->command);
    strbuf_done(&store->result);
    xfree(store->path);
    xfree(store);
}

int store_open_as(const struct store_rules *rules, const struct store_schema *schema,
                  struct store **out, struct err *err)
{
    must(rules->path != NULL);
    must(schema->version > 0);

    struct store *store = xcalloc(1, sizeof *store);
    store->schema = schema;
    store->limits = usual_limits;
    store->memory = strcmp(rules->path, ":memory:") == 0;
    store->lock_fd = store->raw_fd[0] = store->raw_fd[1] = -1;
    store->on_corrupt = rules->on_corrupt;
    store->user = rules->user;
    store->notice = rules->notice;
    store->asks_cluster = rules->cluster != NULL;
    store->checks_beside = rules->checks_beside;
    store->hard_ms = INT64_MIN / 2;
    mutex_init(&store->mutex);
    strbuf_init(&store->command);
    strbuf_init(&store->result);
    atomic_init(&store->retention_days, rules->retention_days);
    atomic_init(&store->journal_rows, 0);
    atomic_init(&store->clock_doubted, false);
    atomic_init(&store->space, SPACE_ENOUGH);
    atomic_init(&store->used_bytes, 0);
    atomic_init(&store->journal_bytes, 0);
    atomic_init(&store->trimmed_ms, 0);

    const int failed = open_all(store, rules, err);
    if (failed != 0) {
        store_free(store);
        return failed;
    }
    *out = store;
    return 0;
}

int store_open(const struct store_rules *rules, struct store **out, struct err *err)
{
    return store_open_as(rules, &store_schema, out, err);
}

void store_doubt_clock(struct store *store, bool doubted)
{
    must(store != NULL);
    atomic_store(&store->clock_doubted, doubted);
}

void store_release_memory(struct store *store)
{
    must(sole_thread_enter(&store->writer));
    must(!store->in_batch);
    store_lock(store);
    (void)sqlite3_db_release_memory(store->db); /* always SQLITE_OK */
    store_unlock(store);
}

int store_clock(struct store *store, int64_t *out_last_ms, int64_t *out_stepped_ms, struct err *err)
{
    must(sole_thread_enter(&store->writer));
    must(!store->in_batch);
    store_lock(store);
    int failed = db_number(store->db,
                           "SELECT coalesce((SELECT at FROM journal ORDER BY seq DESC LIMIT 1), 0)",
                           out_last_ms, err);
    if (failed == 0)
        failed = db_number(store->db, "SELECT stepped_ms FROM meta", out_stepped_ms, err);
    store_unlock(store);
    return failed;
}

/* In memory the mutex stays locked until the end of commit or rollback. */
NO_THREAD_SAFETY_ANALYSIS static int store_begin(void *ctx, struct err *err)
{
    struct store *store = ctx;

    must(sole_thread_enter(&store->writer));
    store_lock(store);
    must(!store->in_batch);
    int failed = 0;
    if (store->wal_pages > store->limits.wal_max)
        failed = err_set(err, ERR_FULL,
                         "%s: its log has %d pages, more than %d: %s; no more is written until the "
                         "log is checkpointed",
                         store->path, store->wal_pages, store->limits.wal_max,
                         store->has_lost_sync
                             ? "a sync of the file failed, and only a restart copies the log"
                             : "a program reads the ledger and does not finish");
    if (failed == 0)
        failed = db_run(store->stmt[ST_BEGIN], err);
    if (failed != 0) {
        store_unlock(store);
        return failed;
    }
    drop_opened(store);
    store->in_batch = true;
    return 0;
}

/*
 * Undoes the change; true: the batch goes on. False: the rollback failed, or SQLite has ended the
 * whole transaction by itself (a full disk, an I/O error).
 */
static bool store_take_back(struct store *store)
{
    struct err second;

    must(store->in_batch);
    if (sqlite3_get_autocommit(store->db) != 0)
        return false;
    return db_run(store->stmt[ST_BACK], &second) == 0 &&
           db_run(store->stmt[ST_RELEASE], &second) == 0;
}

/*
 * After a conflict ROLLBACK TO undoes this change only, and RELEASE ends the savepoint. seq grows
 * only for a change that stays.
 */
static enum store_outcome write_one(void *ctx, const struct command *command,
                                    const struct change *change, struct err *err)
{
    struct store *store = ctx;

    must(sole_thread_enter(&store->writer));
    must(store->in_batch);
    int failed = db_run(store->stmt[ST_SAVEPOINT], err);
    if (failed != 0)
        return STORE_FAILED;
    failed = write_change(store, command, change, err);
    if (failed == -(int)ERR_CONFLICT && store_take_back(store))
        return STORE_REFUSED;
    if (failed == 0)
        failed = db_run(store->stmt[ST_RELEASE], err);
    if (failed != 0) {
        space_take_failure(store, failed);
        return STORE_FAILED;
    }
    store->seq++;
    const int64_t bytes = (int64_t)(store->command.len + store->result.len) + JOURNAL_ROW_BYTES;
    store->batch_bytes += bytes;
    space_count(store, bytes);
    return STORE_OK;
}

/* After a failure the batch is still open: rollback() ends it and unlocks. */
NO_THREAD_SAFETY_ANALYSIS static int store_commit(void *ctx, struct err *err)
{
    struct store *store = ctx;

    must(sole_thread_enter(&store->writer));
    must(store->in_batch);
    /* After a full disk SQLite has ended the transaction, and COMMIT would have nothing to do. */
    if (sqlite3_get_autocommit(store->db) != 0)
        return err_set(err, ERR_IO, "%s: the batch was lost before its end", store->path);
    const int failed = db_run(store->stmt[ST_COMMIT], err);
    space_take_failure(store, failed);
    if (failed != 0)
        return failed;
    must(sqlite3_get_autocommit(store->db) != 0);
    atomic_fetch_add(&store->journal_rows, (uint_fast64_t)(store->seq - store->seq_stable));
    store->seq_stable = store->seq;
    atomic_fetch_add(&store->journal_bytes, store->batch_bytes);
    store->is_stale |= store->batch_bytes == 0; /* unseen counts journal entries only */
    store->batch_bytes = 0;
    store->in_batch = false;
    store_unlock(store);
    return 0;
}

NO_THREAD_SAFETY_ANALYSIS static void store_rollback(void *ctx)
{
    must(ctx != NULL);
    struct store *store = ctx;

    if (!store->in_batch)
        return;
    db_rollback(store->db);
    store->seq = store->seq_stable;
    store->batch_bytes = 0;
    store->is_stale = true; /* the bytes that space_count() counted do not exist */
    store->in_batch = false;
    store_unlock(store);
}

static int store_maintain(void *ctx, int64_t now_ms, struct err *err)
{
    must(ctx != NULL);
    struct store *store = ctx;

    must(sole_thread_enter(&store->writer));
    store_lock(store);
    space_keep_ballast(store, now_ms);
    int failed = maintain_retention(store, now_ms, err);
    if (failed == 0 && space_is_due(store))
        failed = space_look(store, err);
    if (failed == 0)
        failed = trim_to_limit(store, now_ms, err);
    space_take_failure(store, failed);
    if (failed == 0)
        failed = maintain_checkpoint(store, now_ms, err);
    space_check(store); /* the log may be shorter now */
    store_unlock(store);
    return failed;
}

/* Ends a batch without journal entries: commits it, or rolls it back after a failure. */
static int store_end(void *ctx, int failed, struct err *err)
{
    struct store *store = ctx;

    must(store->in_batch);
    if (failed == 0)
        failed = store_commit(ctx, err);
    else
        space_take_failure(store, failed);
    if (failed != 0)
        store_rollback(ctx);
    return failed;
}

/* Writes no journal entry: the workload is not part of the present (I6). */
static int store_learn(void *ctx, const struct tally *tally, int64_t until_ms, struct err *err)
{
    must(tally != NULL);
    const int failed = store_begin(ctx, err);
    if (failed != 0)
        return failed;
    return store_end(ctx, learned_write(ctx, tally, until_ms, err), err);
}

/* Writes no journal entry, either. */
static int store_measure(void *ctx, const struct store_chunk *chunk, struct err *err)
{
    int failed = store_begin(ctx, err);
    if (failed != 0)
        return failed;
    failed = measured_write(ctx, chunk->row, chunk->n_rows, err);
    if (failed == 0)
        failed = idle_write(ctx, chunk, err);
    return store_end(ctx, failed, err);
}

/* Writes no journal entry, either. */
static int store_keep_policy(void *ctx, const struct store_policy *policy, struct err *err)
{
    const int failed = store_begin(ctx, err);
    if (failed != 0)
        return failed;
    return store_end(ctx, kept_policy_write(ctx, policy, err), err);
}

/* Writes no journal entry, either. */
static int store_remember(void *ctx, const struct agents *agents, size_t max, size_t *out_count,
                          struct err *err)
{
    size_t count = 0;

    *out_count = 0;
    int failed = store_begin(ctx, err);
    if (failed != 0)
        return failed;
    failed = store_end(ctx, agents_kept_write(ctx, agents, max, &count, err), err);
    if (failed == 0)
        *out_count = count;
    return failed;
}

void store_ops(struct store *store, struct store_ops *out)
{
    must(store != NULL);
    *out = (struct store_ops){.ctx = store,
                              .begin = store_begin,
                              .write = write_one,
                              .commit = store_commit,
                              .rollback = store_rollback,
                              .maintain = store_maintain,
                              .learn = store_learn,
                              .measure = store_measure,
                              .keep_policy = store_keep_policy,
                              .remember = store_remember};
}

static void end_checkpointer(struct store *store)
{
    struct err ignored; /* the writer heard of no failure, and needs to do nothing about it now */

    if (store->is_passing) {
        checkpointer_await(store->checkpointer);
        store->has_lost_sync |= checkpointer_take(store->checkpointer, &ignored).has_lost_sync;
    }
    checkpointer_free(STEAL(store->checkpointer));
    must(store->checkpointer == NULL);
}

void store_close(struct store *store)
{
    struct err ignored;

    must(store == NULL || store->db != NULL);
    if (store == NULL)
        return;
    store_rollback(store);
    end_checkpointer(store);
    /* Checkpoints the log and leaves one file. Best effort: the log is as durable as the file. */
    if (!store->has_lost_sync && (store->memory || ledger_id_mark(store->path, &ignored) == 0))
        (void)sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    store_free(store);
}

int store_load(struct store *store, struct ledger *ledger, struct err *err)
{
    size_t at = 0;
    must(ledger_next_node(ledger, &at) == NULL);
    must(sole_thread_admits(&store->writer));
    if (store->opened != NULL) {
        ledger_take(ledger, STEAL(store->opened));
        return 0;
    }
    store_lock(store);
    const int failed = check_load(store->db, ledger, err);
    store_unlock(store);
    return failed != 0 ? err_wrap(err, "%s", store->path) : 0;
}

int store_backup(struct store *store, const char *file, struct err *err)
{
    struct reader reader;

    must(file != NULL);
    int failed = reader_open(store, &reader, err);
    if (failed != 0)
        return failed;
    failed = backup_to(reader.db, file, err);
    reader_done(&reader);
    return failed;
}

/*
 * For the diagnostics of safe mode, in which nothing is written. Works once per process, because
 * the descriptors stay open until the store closes.
 */
int store_copy_raw(struct store *store, const char *file, struct err *err)
{
    static const char *const suffix[ARRAY_LEN(store->raw_fd)] = {"", "-wal"};
    int failed = 0;

    must(file[0] != '\0');
    if (store->memory)
        return err_set(err, ERR_INVALID, "a ledger in memory has no file");
    if (store->raw_fd[0] >= 0)
        return err_set(err, ERR_CONFLICT, "%s: was copied once already", store->path);
    for (size_t i = 0; failed == 0 && i < ARRAY_LEN(suffix); i++) {
        struct strbuf from, to;
        strbuf_init(&from);
        strbuf_init(&to);
        strbuf_printf(&from, "%s%s", store->path, suffix[i]);
        strbuf_printf(&to, "%s%s", file, suffix[i]);
        failed = backup_bytes(from.data, to.data, &store->raw_fd[i], err);
        strbuf_done(&from);
        strbuf_done(&to);
    }
    return failed;
}

const char *store_path(const struct store *store)
{
    must(store->path != NULL);
    return store->path;
}

int store_facts(struct store *store, struct store_facts *out, struct err *err)
{
    must(store != NULL && out != NULL);
    struct store_facts facts = {
        .path = store->path, .schema = store->schema->version, .volume_free_bytes = -1};
    struct volume volume;
    int failed = 0;

    facts.journal_rows = atomic_load(&store->journal_rows);
    facts.used_bytes = atomic_load(&store->used_bytes);
    facts.max_bytes = store->limits.max_bytes;
    facts.trimmed_ms = atomic_load(&store->trimmed_ms);
    if (store->memory) {
        store_lock(store);
        failed = db_bytes(store->db, &facts.bytes, err);
        store_unlock(store);
    } else {
        facts.bytes = file_bytes(store->path, "");
        facts.wal_bytes = file_bytes(store->path, "-wal");
        facts.copies_bytes = store_copies_bytes(store->path);
        if (volume_look(store->path, &volume))
            facts.volume_free_bytes = volume.free_bytes;
        if (facts.bytes == 0)
            failed =
                err_set(err, ERR_IO, "%s: the ledger's file is gone from its folder", store->path);
    }
    if (failed == 0)
        *out = facts;
    return failed;
}
