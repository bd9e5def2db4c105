/*
 * store_internal - what the parts of the store share.
 *
 *   store.c             open, close, batches          reader.c        connections for reading
 *   file.c              the file: folder, lock, moved aside
 *   schema.c            identify, compare             migrate.c       from an older version
 *   schema_prepare.c    create or migrate, check      notice.c        what the opener is told
 *   write.c             one change                    state.c         after-states as JSON
 *   rows.c              rows back into facts          history.c       who held what
 *   verify.c            every check, and replay       verify_file.c   of any ledger file
 *   read_transaction.c  one moment, for the verifier  backup.c        a copy
 *   maintain.c          checkpoints, retention        stale_copies.c  what a killed backup left
 *   disk_space.c              how many bytes it may take    trim.c          retention by bytes
 *   past.c              the history by namespace      ballast.c       room for a full disk
 *   packs.c             older history, packed         pack.c          bytes of a pack
 *   unpack_table.c      a pack as a table
 *   wal.c               the bytes of the write-ahead log
 *   learned.c           the workload that was learned
 *   granted.c           what was granted over time
 *   over_events.c             whose memory was over its share
 *   measured_hours.c    what was measured in each hour
 *   idle_shares.c       since when shares are idle
 *   kept_policy.c       the policy document that decides
 *   agents_kept.c       what is remembered of agents
 *   owner.c             whose ledger it is
 *   quiet_file.c        a file that is not ours       journal_file.c  its journal
 *
 * Connections and threads: store->db belongs to the writer. Any other thread that reads opens a
 * reader, which is a connection of its own. A ledger in memory has only the one connection: there
 * the mutex is held from begin() to commit() or rollback(), and by every reader, so a thread must
 * not read within its own batch.
 */
#ifndef MILLIGPU_STORE_INTERNAL_H
#define MILLIGPU_STORE_INTERNAL_H

#include <stdatomic.h>
#include <time.h>

#include "milligpu/run/mutex.h"
#include "milligpu/run/sole_thread.h"
#include "milligpu/store/store.h"

#include "db.h"

enum { STORE_APPLICATION_ID = 0x6d475055 /* "mGPU" */ };

/* One step forward; from is the version that it starts from. */
struct store_migration {
    uint32_t from;
    const char *sql;
};

struct store_schema {
    uint32_t version;
    const char *sql;
    const struct store_migration *migration; /* ascending, without a gap */
    size_t migrations;
};

/* the real one; tests use others */
extern const struct store_schema store_schema;

struct store_limits {
    int wal_soft;      /* pages in the log from which on a checkpoint is due */
    int wal_hard;      /* from here on the checkpoint waits for readers */
    int wal_max;       /* no batch begins beyond: a reader holds the log, the disk would fill */
    int fold;          /* rows that one round of retention deletes at most */
    int64_t retain_ms; /* between rounds if nothing is left to delete */

    /* Bytes, of pages in use and of the log; see disk_space.c. */
    int64_t max_bytes;
    int64_t trim_at;
    int64_t stop_at;
    int64_t go_at;
    int64_t piece; /* that retention by bytes takes in one transaction, about */
};

enum {
    STORE_PAGE_BYTES = 4096,
    STORE_BYTES_AUTO = 2047 << 20, /* the most that is taken for the limit without being told */
    JOURNAL_ROW_BYTES = 24,        /* of an entry, beside its two texts */
    PAST_NAMES_MAX = 4096,         /* namespaces with a row of their own in past */
};

/* The keys of state_step() and of state_kept(). */
#define STATE_STEP_PATHS                                                                           \
    "'$.uid', '$.namespace', '$.name', '$.node', '$.state', '$.in_doubt', '$.note_differs',"       \
    " '$.reserved_ms', '$.bound_ms', '$.released_ms', '$.terminating_ms', '$.version'"
#define STATE_KEPT_PATHS                                                                           \
    "'$.node_uid', '$.origin', '$.presumed', '$.held_gpus', '$.unplaced_milli', '$.shares'"

#define JOURNAL_BYTES                                                                              \
    "length(CAST(command AS BLOB)) + length(CAST(result AS BLOB)) + 24" /* JOURNAL_ROW_BYTES */

/* The oldest history of a namespace that is not packed: at most so many allocations. */
#define PAST_OLDEST                                                                                \
    " FROM allocation WHERE past_of = ? AND state = 'released' ORDER BY released_ms, id LIMIT ?"

/* The history of each namespace, in rows and in packs. */
#define HISTORY_PARTS                                                                              \
    "(SELECT namespace, n_rows, bytes FROM past UNION ALL SELECT past_of, n_rows, bytes FROM pack)"

#define STATEMENT_TABLE(X)                                                                         \
    X(ST_BEGIN, "BEGIN IMMEDIATE")                                                                 \
    X(ST_COMMIT, "COMMIT")                                                                         \
    X(ST_SAVEPOINT, "SAVEPOINT one")                                                               \
    X(ST_RELEASE, "RELEASE one")                                                                   \
    X(ST_BACK, "ROLLBACK TO one")                                                                  \
    X(ST_NODE_ADD, "INSERT INTO node (uid, source, problem, problem_text, gone, since_ms, name)"   \
                   " VALUES (?, ?, ?, ?, ?, ?, ?)")                                                \
    X(ST_NODE_SET, "UPDATE node SET uid = ?, source = ?, problem = ?, problem_text = ?, gone = ?," \
                   " since_ms = ? WHERE name = ?")                                                 \
    X(ST_NODE_DROP, "DELETE FROM node WHERE name = ?")                                             \
    X(ST_GPU_ADD, "INSERT INTO gpu (alias, model, milli, mib, idx, numa, flags, peers, node, id)"  \
                  " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                                        \
    X(ST_GPU_SET, "UPDATE gpu SET alias = ?, model = ?, milli = ?, mib = ?, idx = ?, numa = ?,"    \
                  " flags = ?, peers = ? WHERE node = ? AND id = ?")                               \
    X(ST_GPU_DROP, "DELETE FROM gpu WHERE node = ? AND id = ?")                                    \
    X(ST_OWNED_ID_ADD, "INSERT INTO claim (node, gpu) VALUES (?, ?)")                              \
    X(ST_OWNED_ID_DROP, "DELETE FROM claim WHERE node = ? AND gpu = ?")                            \
    X(ST_ALLOCATION_ADD,                                                                           \
      "INSERT INTO allocation (id, uid, namespace, name, node, node_uid, state, origin, presumed," \
      " in_doubt, note_differs, held_gpus, unplaced_milli, reserved_ms, bound_ms, released_ms,"    \
      " terminating_ms, version)"                                                                  \
      " VALUES ((SELECT max(id) + 1 FROM (SELECT max(id) AS id FROM allocation UNION ALL"          \
      " SELECT max(last) FROM pack)), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")         \
    X(ST_ALLOCATION_SET,                                                                           \
      "UPDATE allocation SET state = ?, in_doubt = ?, note_differs = ?, reserved_ms = ?,"          \
      " bound_ms = ?, released_ms = ?, terminating_ms = ?, version = ?, bytes = ?, is_other = ?"   \
      " WHERE uid = ? AND node = ? AND state = ? AND state <> 'released'")                         \
    X(ST_SHARE_ADD, "INSERT INTO share (allocation, at, container, kind, life, gpu, milli, mib,"   \
                    " asked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ?))")                       \
    X(ST_CHARGE_ADD, "INSERT INTO charge (allocation, at, node, gpu, milli, mib, live)"            \
                     " VALUES (?, ?, ?, ?, ?, ?, ?)")                                              \
    X(ST_JOURNAL_ADD, "INSERT INTO journal (seq, at, command, result) VALUES (?, ?, ?, ?)")        \
    X(ST_JOURNAL_OLD, "SELECT seq, at FROM journal WHERE at <= ? ORDER BY seq LIMIT ?")            \
    X(ST_FOLD_ALLOCATIONS,                                                                         \
      "INSERT INTO baseline (key, seq, state)"                                                     \
      " SELECT 'allocation/' || json_extract(result, '$.allocation.uid'), seq,"                    \
      " json_extract(result, '$.allocation') FROM journal"                                         \
      " WHERE seq <= ? AND json_extract(result, '$.allocation') IS NOT NULL ORDER BY seq"          \
      " ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, state ="                               \
      " iif(json_type(excluded.state, '$.shares') IS NOT NULL, excluded.state,"                    \
      " json_patch(excluded.state, json_remove(state, " STATE_STEP_PATHS ")))")                    \
    X(ST_FOLD_NODES,                                                                               \
      "INSERT INTO baseline (key, seq, state)"                                                     \
      " SELECT 'node/' || json_extract(result, '$.node.name'), seq,"                               \
      " json_extract(result, '$.node') FROM journal"                                               \
      " WHERE seq <= ? AND json_extract(result, '$.node') IS NOT NULL ORDER BY seq"                \
      " ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, state = excluded.state")               \
    X(ST_FOLD_RELEASED,                                                                            \
      "DELETE FROM baseline WHERE json_extract(state, '$.state') = 'released' AND key IN"          \
      " (SELECT 'allocation/' || json_extract(result, '$.allocation.uid') FROM journal"            \
      " WHERE seq <= ? AND json_extract(result, '$.allocation.state') = 'released')")              \
    X(ST_FOLD_REMOVED,                                                                             \
      "DELETE FROM baseline WHERE json_extract(state, '$.removed') = 1 AND key IN"                 \
      " (SELECT 'node/' || json_extract(result, '$.node.name') FROM journal"                       \
      " WHERE seq <= ? AND json_extract(result, '$.node.removed') = 1)")                           \
    X(ST_FOLDED, "UPDATE meta SET folded = ?")                                                     \
    X(ST_STEPPED, "UPDATE meta SET stepped_ms = ?")                                                \
    X(ST_BELIEVED, "UPDATE meta SET stepped_ms = 0 WHERE stepped_ms <> 0")                         \
    X(ST_JOURNAL_OLDEST, "SELECT seq, " JOURNAL_BYTES " FROM journal ORDER BY seq LIMIT ?")        \
    X(ST_JOURNAL_BYTES, "SELECT coalesce(sum(" JOURNAL_BYTES "), 0) FROM journal WHERE seq <= ?")  \
    X(ST_PAGES, "PRAGMA page_count")                                                               \
    X(ST_PAGES_FREE, "PRAGMA freelist_count")                                                      \
    X(ST_PAST_COUNT, "UPDATE past SET n_rows = n_rows + 1, bytes = bytes + ? WHERE namespace = ?") \
    X(ST_PAST_ADD, "INSERT INTO past (n_rows, bytes, namespace) VALUES (1, ?, ?)")                 \
    X(ST_PAST_NAMES, "SELECT count(*) FROM past WHERE namespace <> ''")                            \
    X(ST_PAST_MOST, "SELECT namespace, n_rows, bytes FROM past ORDER BY bytes DESC LIMIT 1")       \
    X(ST_PAST_TRIM, "DELETE FROM allocation WHERE id IN (SELECT id" PAST_OLDEST ")")               \
    X(ST_HISTORY_MOST, "SELECT namespace, sum(n_rows), sum(bytes) FROM " HISTORY_PARTS             \
                       " GROUP BY namespace ORDER BY sum(bytes) DESC LIMIT 1")                     \
    X(ST_PACK_ROWS,                                                                                \
      "SELECT id, uid, namespace, name, node, node_uid, reserved_ms, bound_ms, released_ms,"       \
      " unplaced_milli FROM allocation WHERE id IN (SELECT id" PAST_OLDEST ") ORDER BY id")        \
    X(ST_PACK_CHARGES,                                                                             \
      "SELECT at, gpu, milli, mib FROM charge WHERE allocation = ? ORDER BY at, gpu")              \
    X(ST_PACK_ADD,                                                                                 \
      "INSERT INTO pack (past_of, n_rows, first, last, began_ms, oldest_ms, ended_ms, bytes,"      \
      " body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")                                                 \
    X(ST_PACK_TRIM, "DELETE FROM pack WHERE id = (SELECT id FROM pack WHERE past_of = ?"           \
                    " ORDER BY ended_ms LIMIT 1)")                                                 \
    X(ST_PACK_DROP, "DELETE FROM pack WHERE id IN (SELECT id FROM pack WHERE ended_ms < ?"         \
                    " ORDER BY ended_ms LIMIT ?)")                                                 \
    X(ST_JOURNAL_DROP, "DELETE FROM journal WHERE seq <= ?")                                       \
    X(ST_PAST_DROP, "DELETE FROM allocation WHERE id IN (SELECT id FROM allocation"                \
                    " WHERE state = 'released' AND released_ms < ? ORDER BY released_ms LIMIT ?)") \
    X(ST_MEASURED_DROP,                                                                            \
      "DELETE FROM measured WHERE (hour_ms, namespace, model) IN"                                  \
      " (SELECT hour_ms, namespace, model FROM measured WHERE hour_ms < ? ORDER BY hour_ms"        \
      " LIMIT ?)")                                                                                 \
    X(ST_MEASURED_SET, "UPDATE measured SET milli_s = milli_s + ?, of_milli_s = of_milli_s + ?,"   \
                       " mib_s = mib_s + ?, of_mib_s = of_mib_s + ?"                               \
                       " WHERE hour_ms = ? AND namespace = ? AND model = ?")                       \
    X(ST_MEASURED_ROWS, "SELECT count(*) FROM measured WHERE hour_ms = ?")                         \
    X(ST_MEASURED_ADD, "INSERT INTO measured (milli_s, of_milli_s, mib_s, of_mib_s, hour_ms,"      \
                       " namespace, model) VALUES (?, ?, ?, ?, ?, ?, ?)")                          \
    X(ST_IDLE_SET,                                                                                 \
      "INSERT INTO idle (since_ms, allocation, container, gpu)"                                    \
      " SELECT ?, s.allocation, s.container, s.gpu FROM allocation AS a"                           \
      " JOIN share AS s ON s.allocation = a.id WHERE a.uid = ? AND a.state <> 'released'"          \
      " AND s.container = ? AND s.gpu = ?"                                                         \
      " ON CONFLICT (allocation, container, gpu) DO UPDATE SET since_ms = excluded.since_ms")      \
    X(ST_IDLE_DROP, "DELETE FROM idle WHERE allocation = (SELECT id FROM allocation WHERE uid = ?" \
                    " AND state <> 'released') AND container = ? AND gpu = ?")                     \
    X(ST_IDLE_DROP_NODE, "DELETE FROM idle WHERE allocation IN"                                    \
                         " (SELECT id FROM allocation WHERE lives_on = ?)")                        \
    X(ST_IDLE, "SELECT a.node, a.uid, i.container, i.gpu, i.since_ms FROM idle AS i"               \
               " JOIN allocation AS a ON a.id = i.allocation ORDER BY a.node")                     \
    X(ST_REPORTED_SET, "INSERT INTO reported (one, until_ms) VALUES (1, ?)"                        \
                       " ON CONFLICT (one) DO UPDATE SET until_ms = excluded.until_ms")            \
    X(ST_REPORTED, "SELECT coalesce((SELECT until_ms FROM reported), 0)")                          \
    X(ST_POLICY_SET,                                                                               \
      "INSERT INTO policy (one, name, document, read_ms) VALUES (1, ?, ?, ?)"                      \
      " ON CONFLICT (one) DO UPDATE SET name = excluded.name, document = excluded.document,"       \
      " read_ms = excluded.read_ms"                                                                \
      " WHERE name <> excluded.name OR document <> excluded.document")                             \
    X(ST_POLICY_DROP, "DELETE FROM policy")                                                        \
    X(ST_AGENTS_SEEN, "UPDATE meta SET has_agents = 1")                                            \
    X(ST_HAS_AGENTS, "SELECT max(has_agents) FROM meta")                                           \
    X(ST_AGENT_SET,                                                                                \
      "INSERT INTO agent (node, uid, named_gpus, vouched) VALUES (?, ?, ?, ?)"                     \
      " ON CONFLICT (node) DO UPDATE SET uid = excluded.uid, named_gpus = excluded.named_gpus,"    \
      " vouched = excluded.vouched")                                                               \
    X(ST_AGENT_DROP, "DELETE FROM agent WHERE node = ?")                                           \
    X(ST_AGENTS, "SELECT node, uid, named_gpus, vouched FROM agent")                               \
    X(ST_LEARNED_DROP, "DELETE FROM learned")                                                      \
    X(ST_LEARNED_ADD, "INSERT INTO learned (one, pods, until_ms) VALUES (1, ?, ?)")                \
    X(ST_CLASSES_DROP, "DELETE FROM class")                                                        \
    X(ST_CLASS_ADD, "INSERT INTO class (place, cpu_milli, memory_mib, parts, milli, share_mib,"    \
                    " weight, models) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")                            \
    X(ST_LEARNED, "SELECT pods, until_ms FROM learned")                                            \
    X(ST_CLASSES, "SELECT place, cpu_milli, memory_mib, parts, milli, share_mib, weight, models,"  \
                  " json_valid(models) FROM class ORDER BY place LIMIT ?")                         \
    X(ST_MODELS, "SELECT CASE type WHEN 'text' THEN value END FROM json_each(?)")

enum statement {
#define X(code, sql) code,
    STATEMENT_TABLE(X)
#undef X
        STATEMENTS
};

struct store {
    sqlite3 *db;
    sqlite3_stmt *stmt[STATEMENTS];
    const struct store_schema *schema;
    struct store_limits limits;
    char *path; /* absolute, without links; ":memory:" */
    bool memory;
    int lock_fd;   /* holds the flock as long as it is open; -1 in memory */
    int raw_fd[2]; /* opened by store_copy_raw(): closing it would drop SQLite's own locks */
    enum store_corrupt_policy on_corrupt;
    void *user;
    void (*notice)(void *user, const char *text);
    bool asks_cluster;               /* there was a store_rules.cluster() */
    char cluster[UID_BYTES_MAX + 1]; /* what it said; "": it was not asked */
    struct mutex mutex;              /* guards the db of a ledger in memory, see above */

    struct sole_thread writer; /* the first thread that uses db to write */

    /* From here to result: the writer's, without a lock of their own. */
    bool in_batch;
    uint64_t seq;          /* of this batch's newest journal entry */
    int wal_pages;         /* in the log after the last commit; 0: all of them are in the file */
    int64_t hard_ms;       /* when the waiting checkpoint was last tried */
    int64_t retain_at_ms;  /* UTC: when the next round of retention is due */
    struct strbuf command; /* the journal entry that is being written */
    struct strbuf result;
    int64_t batch_bytes;     /* of the journal entries of this batch */
    int64_t unseen;          /* bytes that this batch has written, about, since space_look() */
    int64_t ballast_ms;      /* when it was last tried to make the ballast */
    bool has_ballast;        /* one is wanted beside the file */
    bool is_missing_ballast; /* the disk has no room for it */
    bool has_reported_ballast;
    bool is_stale; /* there were commits since space_look() */

    /* Written by the writer, read by any thread. */
    _Atomic(enum store_space) space;
    atomic_int_fast64_t used_bytes;
    atomic_int_fast64_t journal_bytes;
    atomic_int_fast64_t trimmed_ms; /* UTC: when retention by bytes last took something; 0: never */

    atomic_uint retention_days;
    atomic_bool clock_doubted;
    atomic_uint_fast64_t journal_rows;
    atomic_uint_fast64_t seq_stable; /* of the newest committed entry */
};

/* store.c */
int store_open_as(const struct store_rules *rules, const struct store_schema *schema,
                  struct store **out, struct err *err) MUST_USE;

/* notice.c */
void store_notice(const struct store *store, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* reader.c */
/* Does something for a ledger in memory only. */
void store_lock(struct store *store) ACQUIRE(store->mutex);
void store_unlock(struct store *store) RELEASE(store->mutex);

/* A connection for reading; in memory it is the writer's own, locked. */
struct reader {
    struct store *store;
    sqlite3 *db;
};
int reader_open(struct store *store, struct reader *out, struct err *err) MUST_USE;
void reader_done(struct reader *reader);

/* file.c: checks that the folder exists, is writable and local; then takes the lock. */
int file_find(const char *path, char **out_path, struct err *err) MUST_USE;
int file_lock(const char *path, int *out_fd, struct err *err) MUST_USE;
/* Creates the file if it does not exist; refuses what cannot be SQLite's. */
int file_prepare(const char *path, struct err *err) MUST_USE;
/* Can these first bytes be a ledger's? CORRUPT, FOREIGN. */
int file_check_head(int fd, const char *path, struct err *err) MUST_USE;
int file_sync_folder(const char *path, struct err *err) MUST_USE;
/* Renames the file with its side files to <path>.<word>-<UTC>; *out_name is yours to xfree. */
int file_move_aside(const char *path, const char *word, char **out_name, struct err *err) MUST_USE;
/* "<path>.<word>-<UTC>", a name that is not taken. */
char *file_free_name(const char *path, const char *word) MUST_USE;
/* The name of a file beside the ledger; yours to xfree. */
char *file_beside(const char *path, const char *suffix) MUST_USE;
/* A missing file counts as 0 bytes: the log appears with the first commit only. */
int64_t file_bytes(const char *path, const char *suffix);
int64_t file_wall_ms(void);

/*
 * wal.c: writes the bytes of the log once more and syncs them. After a failed fsync the kernel
 * believes that its pages were written: a restart would read from memory what no disk has, and
 * build on it. Only for a ledger, which nobody else writes to: if another program used the file
 * this would undo its work.
 */
int log_rewrite(const char *path, struct err *err) MUST_USE;

/* stale_copies.c: what an interrupted copy left next to the ledger. */
void store_remove_stale_copies(const struct store *store);
/* Bytes of the copies beside it that milligpud never deletes. Any thread. */
int64_t store_copies_bytes(const char *ledger);

/*
 * schema_prepare.c: identifies and checks the file; creates or migrates it; turns the write-ahead
 * log on.
 */
int schema_prepare(struct store *store, struct err *err) MUST_USE;

/* schema.c */
/* Does the file have exactly the tables, indexes and triggers of the schema? */
int schema_check(sqlite3 *db, const struct store_schema *schema, struct err *err) MUST_USE;
int schema_set_version(sqlite3 *db, uint32_t version, struct err *err) MUST_USE;
/* Whose file is it, and which version? FOREIGN, NEWER. Blank: nobody's yet. */
int schema_identify(sqlite3 *db, const struct store_schema *schema, bool *out_blank,
                    int64_t *out_version, struct err *err) MUST_USE;

/*
 * owner.c: refuses an older ledger of another cluster. confirm() reads the file and leaves no trace
 * there; what it cannot read is left to the opening. may_migrate() is for the open file: BUSY if
 * its owner is not the one that confirm() has seen.
 */
int owner_confirm(struct store *store, const struct store_rules *rules, struct err *err) MUST_USE;
int owner_may_migrate(const struct store *store, int64_t version, struct err *err) MUST_USE;

/* migrate.c: from an older version to the current schema, after a copy. */
int migrate_forward(const struct store *store, int64_t version, struct err *err) MUST_USE;
/*
 * The same for a copy in memory, as large as the file, which stays as it is. Close *out also after
 * a failure.
 */
int migrate_in_memory(sqlite3 *from, const char *path, int64_t version, sqlite3 **out,
                      struct err *err) MUST_USE;

/*
 * ledger_id.c: does the log beside the file belong to it? CONFLICT: the file was replaced, and a
 * log of the former one is there. accept() is for the daemon: it also forgets what was noted of a
 * file that was replaced in order.
 */
int ledger_id_compare(const char *path, struct err *err) MUST_USE;
int ledger_id_accept(const char *path, struct err *err) MUST_USE;
/* Notes what the file itself contains. Only right after a complete checkpoint. */
int ledger_id_note(const struct store *store, struct err *err) MUST_USE;
/* Makes a copy another ledger: its own id, and marked as a copy. */
int ledger_id_stamp_copy(sqlite3 *copy, struct err *err) MUST_USE;

/* backup.c: db into a new file, which is complete and on disk or does not exist. */
int backup_to(sqlite3 *db, const char *file, struct err *err) MUST_USE;
/* The bytes of a file; close *out_fd after SQLite has closed the file. */
int backup_bytes(const char *from, const char *to, int *out_fd, struct err *err) MUST_USE;
int backup_pages(sqlite3 *from, sqlite3 *to, struct err *err) MUST_USE;

/* write.c */
int write_change(struct store *store, const struct command *command, const struct change *change,
                 struct err *err) MUST_USE;

/*
 * learned.c, within a transaction: replaces the rows of the workload. The public part of it is
 * store_learned().
 */
int learned_write(struct store *store, const struct tally *tally, int64_t until_ms,
                  struct err *err) MUST_USE;

/*
 * measured_hours.c, within a transaction: adds to the sums of hours. The public part of it is
 * store_measured().
 */
int measured_write(struct store *store, const struct store_measured *row, uint32_t rows,
                   struct err *err) MUST_USE;

/*
 * idle_shares.c, within a transaction: what changed, and until when (0: as before). The public part
 * of it is store_idle().
 */
int idle_write(struct store *store, const struct store_chunk *chunk, struct err *err) MUST_USE;

/*
 * kept_policy.c, within a transaction: NULL forgets it. The public part of it is
 * store_kept_policy().
 */
int kept_policy_write(struct store *store, const struct store_policy *policy,
                      struct err *err) MUST_USE;

/*
 * agents_kept.c, within a transaction: the first changed memories, max at most, and that agents
 * were seen. *out_count: how many. The public part of it is store_agents().
 */
int agents_kept_write(struct store *store, const struct agents *agents, size_t max,
                      size_t *out_count, struct err *err) MUST_USE;

/* maintain.c */
/* Copies the log into the file, as far as readers let it; then notes the id (ledger_id.c). */
int maintain_take_in_log(struct store *store, struct err *err) MUST_USE;
int maintain_checkpoint(struct store *store, int64_t now_ms, struct err *err) MUST_USE;
int maintain_retention(struct store *store, int64_t now_ms, struct err *err) MUST_USE;
/* Entries that were folded into the baseline. */
struct folded {
    int rows;
    int64_t bytes;
};
/* Within a transaction: folds all entries up to this one. Once it is committed, folded() counts. */
int maintain_fold(struct store *store, int64_t upto, struct folded *out, struct err *err) MUST_USE;
void maintain_folded(struct store *store, const struct folded *folded);

/* disk_space.c */
/* Sets the limits. Before the file is opened. */
void space_open(struct store *store, const struct store_rules *rules);
/* Makes the ballast if the rules want one; after the opening, so a foreign file gets none. */
void space_first_ballast(struct store *store);
/* Counts the pages in use, then judges. Not within a batch. */
int space_look(struct store *store, struct err *err) MUST_USE;
/* May more be granted? By what was counted last, and the log as it is now. */
void space_check(struct store *store);
/* Within a batch: an entry of the journal of this length was written, with its rows. */
void space_count(struct store *store, int64_t journal_bytes);
/* Is it time to trim? */
bool space_is_short(const struct store *store);
/* A write failed (a negative code, or 0): gives the ballast up if the disk is full. */
void space_take_failure(struct store *store, int failed);
/* Makes a ballast that was given up again, if there is room. */
void space_keep_ballast(struct store *store, int64_t now_ms);
/* FULL: a copy of so many bytes does not fit on the disk of this path. */
int space_for_copy(const char *path, int64_t bytes, const char *what, struct err *err) MUST_USE;

/* trim.c: a few pieces, if it is time; now_ms is UTC. */
int trim_to_limit(struct store *store, int64_t now_ms, struct err *err) MUST_USE;

/* past.c */
/* Bytes of the rows of an allocation as history, about. */
int64_t past_bytes_of(const struct allocation *allocation);
/* Within a batch: an allocation of this namespace was released. */
int past_count(struct store *store, const char *namespace, int64_t bytes, bool *out_is_other,
               struct err *err) MUST_USE;
/* The namespace that has most by this statement. */
struct past_most {
    char *namespace; /* yours to xfree; NULL: there is no history */
    int64_t rows;
    int64_t bytes;
    int64_t piece; /* how many of its rows make about one piece */
};
int past_find_most(struct store *store, enum statement statement, struct past_most *out,
                   struct err *err) MUST_USE;
/*
 * Within a transaction: drops the oldest of the namespace that has most, a pack or a piece of its
 * rows; 0 rows: there is none.
 */
int past_trim(struct store *store, int *out_rows, struct err *err) MUST_USE;

/*
 * packs.c, within a transaction: packs the oldest rows of the namespace that has most of them; 0
 * rows: they would not make a good pack.
 */
int packs_add(struct store *store, int *out_rows, struct err *err) MUST_USE;

/* ballast.c */
struct volume {
    int64_t bytes;
    int64_t free_bytes; /* for us */
};
/* The file system of this path; false: it cannot be asked, or has no size. */
bool volume_look(const char *path, struct volume *out);
/* 0, or an errno; ENOSPC and EDQUOT: there is no room for it. */
int ballast_make(const char *path) MUST_USE;
void ballast_drop(const char *path);

/* state.c: canonical, so that equal states are equal texts. Defaults are omitted. */
void state_allocation(struct strbuf *out, const struct allocation_facts *facts);
/*
 * The two parts of it: what its steps change, with its names, and what it keeps while it lives. The
 * journal has both of an allocation that is new, and the first of its steps; until version 6 it had
 * both always, and their keys in another order. Kept is there if shares is.
 */
void state_step(struct strbuf *out, const struct allocation_facts *facts);
void state_kept(struct strbuf *out, const struct allocation_facts *facts);
void state_node(struct strbuf *out, const struct node_build *build);
void state_node_removed(struct strbuf *out, const struct atom *name);
void state_command(struct strbuf *out, const struct command *command);
struct node_build state_build_of(const struct node *node);
enum { GPU_FLAGS_KEPT = GPU_ABSENT | GPU_UNHEALTHY | GPU_CORDONED | GPU_DUPLICATE };

/* rows.c: each row is read, checked and handed over; borrowed for the call. */
typedef int rows_node(void *user, const struct node_build *build, struct err *err);
typedef int rows_allocation(void *user, int64_t id, const struct allocation_facts *facts,
                            struct err *err);
int rows_nodes(sqlite3 *db, struct names *names, void *user, rows_node *each,
               struct err *err) MUST_USE;
int rows_allocations(sqlite3 *db, struct names *names, bool past, void *user, rows_allocation *each,
                     struct err *err) MUST_USE;

/*
 * quiet_file.c: how to read a file without leaving a trace depends on who else uses it.
 *
 *   a daemon         through its log and its shared memory, like any reader
 *   nobody, no log   as a file that does not change (SQLite's immutable)
 *   nobody, a log    without locks, with the index of the log in our own memory
 *
 * Without a daemon an ordinary open would create a log and shared memory, or checkpoint the log.
 */
enum way { WAY_BESIDE, WAY_STILL, WAY_LOG };

/* What changes when somebody writes. */
struct mark {
    bool held;
    long long bytes;
    long long wal_bytes;
    struct timespec at;
    struct timespec wal_at;
};

struct quiet_file {
    const char *path; /* borrowed */
    bool locked;      /* by the caller */
    sqlite3 *db;      /* in a transaction that reads */
    enum way way;
    struct mark before;
};
/* A ledger of this version or an older one; whatever it returns, close it. */
int quiet_open(const char *path, struct quiet_file *out, int64_t *out_version,
               struct err *err) MUST_USE;
/* The same for the daemon that has the ledger's lock and has not opened the file yet. */
int quiet_open_locked(const char *path, struct quiet_file *out, int64_t *out_version,
                      struct err *err) MUST_USE;
/* BUSY: somebody wrote meanwhile, so what was read is worth nothing. */
int quiet_close(struct quiet_file *file, struct err *err) MUST_USE;

/* verify.c */
int check_file(sqlite3 *db, bool thorough, struct err *err) MUST_USE; /* SQLite's own checks */
int check_live(sqlite3 *db, struct err *err) MUST_USE;
int check_load(sqlite3 *db, struct ledger *ledger, struct err *err) MUST_USE;
int check_one(sqlite3 *db, const struct store_schema *schema, enum store_check which,
              struct err *err) MUST_USE;

#endif
