/*
 * store_internal - shared by the parts of the store.
 *
 *   store.c             open, close, batches          reader.c        connections for reading
 *   ledger_files.c      folder, lock, move aside      owner.c         the owning cluster
 *   schema.c            identify, compare             migrate.c       from an older version
 *   schema_prepare.c    create or migrate, check      notice.c        messages to the opener
 *   write.c             one change                    state.c         after-states as JSON
 *   rows.c              rows to facts                 history.c       holders of GPUs over time
 *   verify.c            every check, and replay       verify_file.c   of any ledger file
 *   read_transaction.c  one moment, for the verifier  backup.c        copies
 *   maintain.c          checkpoints, retention        stale_copies.c  leftovers of backups
 *   disk_space.c        limit in bytes                trim.c          retention by bytes
 *   past.c              the history by namespace      ballast.c       reserve for a full disk
 *   packs.c             packs older history           pack.c          the format of a pack
 *   unpack_table.c      a pack as a virtual table     wal.c           rewrites the log
 *   learned.c           the learned workload          granted.c       grants over time
 *   over_events.c       memory over the share         idle_shares.c   idle times
 *   measured_hours.c    hourly sums of usage          agents_kept.c   memories of agents
 *   kept_policy.c       the policy document in force  journal.c       followers of the journal
 *   quiet_file.c        a file that is not ours       journal_file.c  its journal
 *   restore_file.c      replaces a ledger by a copy   ledger_id.c     does a log belong to a file?
 *   check_beside.c      the pages, in a thread        log_vfs.c         fewer writes of the log
 *   checkpointer.c      the log, in a thread
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

struct store_migration {
    uint32_t from;     /* version before the step */
    const char *sql;   /* migrates to version from + 1 */
    bool edits_schema; /* the text in sqlite_schema, which is closed otherwise (DEFENSIVE) */
};

struct store_schema {
    uint32_t version;
    const char *sql;
    const struct store_migration *migration; /* ascending, without a gap */
    size_t n_migrations;
};

/* The current schema; tests use others. */
extern const struct store_schema store_schema;

struct store_limits {
    /* Pages in the log; space_take_page_bytes() sets them. */
    int wal_soft; /* a checkpoint is due */
    int wal_hard; /* the checkpoint waits for readers */
    int wal_max; /* no further batch begins, since a reader's hold on the log would fill the disk */

    int fold;          /* maximum number of rows that one round of retention deletes */
    int64_t retain_ms; /* time between rounds if nothing is left to delete */

    /* Bytes of pages in use plus the log; see disk_space.c. */
    int64_t max_bytes;
    int64_t trim_at;
    int64_t stop_at;
    int64_t go_at;
    int64_t piece; /* approximate size of one transaction of retention by bytes */
};

enum {
    STORE_PAGE_BYTES = 1024,       /* of a ledger that this version creates: docs/why/027 */
    STORE_BYTES_AUTO = 2047 << 20, /* maximum of the automatic limit in bytes */
    JOURNAL_ROW_BYTES = 24,        /* size of an entry without its two texts */
    PAST_NAMES_MAX = 4096,         /* namespaces with a row of their own in past */
};

/* The highest id of an allocation: the history numbers its rows by it (history.c). */
#define HISTORY_ID_MAX (INT64_MAX >> 11)

/* JSON paths of the keys of state_step() and of state_kept(). */
#define STATE_STEP_PATHS                                                                           \
    "'$.uid', '$.namespace', '$.name', '$.node', '$.state', '$.in_doubt', '$.note_differs',"       \
    " '$.reserved_ms', '$.bound_ms', '$.released_ms', '$.terminating_ms', '$.version'"
#define STATE_KEPT_PATHS                                                                           \
    "'$.node_uid', '$.origin', '$.presumed', '$.held_gpus', '$.unplaced_milli', '$.shares'"

#define JOURNAL_BYTES                                                                              \
    "length(CAST(command AS BLOB)) + length(CAST(result AS BLOB)) + 24" /* JOURNAL_ROW_BYTES */

/* The oldest allocations of a namespace's history that are not packed, up to a limit. */
#define PAST_OLDEST                                                                                \
    " FROM allocation WHERE past_of = ? AND bytes > 0 ORDER BY released_ms, id LIMIT ?"

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
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                            \
    X(ST_ALLOCATION_SET,                                                                           \
      "UPDATE allocation SET state = ?, in_doubt = ?, note_differs = ?, reserved_ms = ?,"          \
      " bound_ms = ?, terminating_ms = ?, version = ?"                                             \
      " WHERE uid = ? AND node = ? AND state = ? AND bytes = 0")                                   \
    X(ST_ALLOCATION_END,                                                                           \
      "UPDATE allocation SET state = ?, in_doubt = ?, note_differs = ?, reserved_ms = ?,"          \
      " bound_ms = ?, terminating_ms = ?, version = ?, released_ms = ?, bytes = ?, is_other = ?"   \
      " WHERE uid = ? AND node = ? AND state = ? AND bytes = 0")                                   \
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
                    " WHERE bytes > 0 AND released_ms < ? ORDER BY released_ms LIMIT ?)")          \
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
      " JOIN share AS s ON s.allocation = a.id WHERE a.uid = ? AND a.bytes = 0"                    \
      " AND s.container = ? AND s.gpu = ?"                                                         \
      " ON CONFLICT (allocation, container, gpu) DO UPDATE SET since_ms = excluded.since_ms")      \
    X(ST_IDLE_DROP, "DELETE FROM idle WHERE allocation = (SELECT id FROM allocation WHERE uid = ?" \
                    " AND bytes = 0) AND container = ? AND gpu = ?")                               \
    X(ST_IDLE_DROP_NODE, "DELETE FROM idle WHERE allocation IN"                                    \
                         " (SELECT allocation FROM charge WHERE live = 1 AND node = ?)")           \
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
    char *path; /* absolute, symbolic links resolved; ":memory:" in memory; owned */
    bool memory;
    int lock_fd;   /* holds the flock while open; -1 in memory */
    int raw_fd[2]; /* of store_copy_raw(), closed last: a close drops SQLite's locks; -1: none */
    enum store_corrupt_policy on_corrupt;
    void *user;
    void (*notice)(void *user, const char *text);
    bool checks_beside;                /* store_rules.checks_beside */
    bool asks_cluster;                 /* store_rules.cluster was not NULL */
    char cluster[UID_BYTES_MAX + 1];   /* its result; "": not called */
    struct mutex mutex;                /* guards the db of a ledger in memory, see above */
    struct checkpointer *checkpointer; /* owned; NULL: the writer alone copies the log */

    struct sole_thread writer; /* the first thread that uses db to write */

    /* As the opening read it, until store_load() or the first batch; NULL: none. Owned. */
    struct ledger *opened;

    /* Used by the writer only, without a lock. */
    bool in_batch;
    uint64_t seq;          /* number of this batch's newest journal entry */
    int64_t last_id;       /* of an allocation, the highest since the start or in the file */
    int64_t page_bytes;    /* a power of two that the file keeps for its life */
    int wal_pages;         /* pages in the log; 0 after a complete checkpoint */
    int copied_pages;      /* pages of the log in the file, as the last checkpoint said, or more */
    bool is_passing;       /* a pass was begun, and its result was not taken yet */
    bool has_lost_sync;    /* of the file: no checkpoint is made any more, see checkpointer.c */
    int64_t hard_ms;       /* UTC time of the last checkpoint that waited for readers */
    int64_t retain_at_ms;  /* UTC time of the next round of retention */
    struct strbuf command; /* of the journal entry that is being written */
    struct strbuf result;  /* of the journal entry that is being written */
    int64_t batch_bytes;   /* size of this batch's journal entries */
    int64_t unseen;        /* approximate number of bytes written since space_look() */
    int64_t ballast_ms;    /* UTC time of the last attempt to make the ballast */
    bool has_ballast;      /* a ballast is configured */
    bool is_missing_ballast; /* the disk has no room for it */
    bool has_reported_ballast;
    bool is_stale; /* since space_look(), bytes were written or freed that unseen does not count */

    /* Written by the writer, read by any thread. */
    _Atomic(enum store_space) space;
    atomic_int_fast64_t used_bytes;
    atomic_int_fast64_t journal_bytes;
    atomic_int_fast64_t trimmed_ms; /* UTC time of the last trim by size; 0: never */

    atomic_uint retention_days;
    atomic_bool clock_doubted;
    atomic_uint_fast64_t journal_rows;
    atomic_uint_fast64_t seq_stable; /* number of the newest committed entry */
};

/* store.c */
int store_open_as(const struct store_rules *rules, const struct store_schema *schema,
                  struct store **out, struct err *err) MUST_USE;

/* notice.c */
void store_notice(const struct store *store, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* reader.c */
/* Locks only if the ledger is in memory. */
void store_lock(struct store *store) ACQUIRE(store->mutex);
void store_unlock(struct store *store) RELEASE(store->mutex);

/* A connection for reading; in memory, the writer's own, locked. */
struct reader {
    struct store *store;
    sqlite3 *db;
};
int reader_open(struct store *store, struct reader *out, struct err *err) MUST_USE;
void reader_done(struct reader *reader);

/* ledger_files.c */
/* Resolves the path (*out_path: caller xfrees) and checks that its folder is writable and local. */
int file_find(const char *path, char **out_path, struct err *err) MUST_USE;
int file_lock(const char *path, int *out_fd, struct err *err) MUST_USE;
/* Creates the file if it does not exist; checks its header like file_check_head(). */
int file_prepare(const char *path, struct err *err) MUST_USE;
/* Checks the first bytes: CORRUPT or FOREIGN if they are not a ledger's. */
int file_check_head(int fd, const char *path, struct err *err) MUST_USE;
int file_sync_folder(const char *path, struct err *err) MUST_USE;
/* Renames the file with its side files to <path>.<word>-<UTC>; *out_name: caller xfrees. */
int file_move_aside(const char *path, const char *word, char **out_name, struct err *err) MUST_USE;
/* "<path>.<word>-<UTC>", or with a number if that name exists; caller xfrees. */
char *file_free_name(const char *path, const char *word) MUST_USE;
/* "<path><suffix>"; caller xfrees. */
char *file_beside(const char *path, const char *suffix) MUST_USE;
/* Size of "<path><suffix>"; 0 if it does not exist, like the log before the first commit. */
int64_t file_bytes(const char *path, const char *suffix);
int64_t file_wall_ms(void);

/*
 * wal.c: rewrites the bytes of the log and syncs them. After a failed fsync the kernel marks its
 * pages clean: a restart would read commits from the page cache that are not on disk. Only for a
 * locked ledger: with another writer this would undo that writer's changes.
 */
int log_rewrite(const char *path, struct err *err) MUST_USE;

/* stale_copies.c: removes the files of interrupted copies beside the ledger. */
void store_remove_stale_copies(const struct store *store);
/* Size of the copies beside the ledger that milligpud never deletes. Any thread. */
int64_t store_copies_bytes(const char *ledger);

/*
 * schema_prepare.c: identifies and checks the file, creates or migrates it, and enables the
 * write-ahead log.
 */
int schema_prepare(struct store *store, struct err *err) MUST_USE;

/* schema.c */
/* Does the file have exactly the tables, indexes and triggers of the schema? */
int schema_check(sqlite3 *db, const struct store_schema *schema, struct err *err) MUST_USE;
/* Sets CORRUPT: it does not. why: the difference, if it is known, or "". */
int schema_is_other(sqlite3 *db, const struct store_schema *schema, const char *why,
                    struct err *err);
int schema_set_version(sqlite3 *db, uint32_t version, struct err *err) MUST_USE;
/* Identifies program and version: FOREIGN, NEWER. *out_blank: an empty database. */
int schema_identify(sqlite3 *db, const struct store_schema *schema, bool *out_blank,
                    int64_t *out_version, struct err *err) MUST_USE;

/*
 * owner.c: refuses an older ledger of another cluster. owner_confirm() reads the file without
 * changing it; a read error is left to the opening. owner_may_migrate() checks the open file: BUSY
 * if its owner is not the confirmed one.
 */
int owner_confirm(struct store *store, const struct store_rules *rules, struct err *err) MUST_USE;
int owner_may_migrate(const struct store *store, int64_t version, struct err *err) MUST_USE;

/* migrate.c: migrates an older version to the current schema, after making a copy. */
int migrate_forward(const struct store *store, int64_t version, struct err *err) MUST_USE;
/*
 * Migrates a copy in memory, as large as the file, which stays unchanged. Close *out also after a
 * failure.
 */
int migrate_in_memory(sqlite3 *from, const char *path, int64_t version, sqlite3 **out,
                      struct err *err) MUST_USE;

/*
 * ledger_id.c: does the log beside the file belong to it? CONFLICT: the file was replaced, but the
 * log is still that of the former one. accept() is for the daemon: it also removes <file>.id of a
 * file that was properly replaced.
 */
int ledger_id_compare(const char *path, struct err *err) MUST_USE;
int ledger_id_accept(const char *path, struct err *err) MUST_USE;
/* Writes <file>.id. Call only directly after a complete checkpoint. */
int ledger_id_note(const struct store *store, struct err *err) MUST_USE;
/* Before a checkpoint: from now to the next note, the file alone may be a mix of two moments. */
int ledger_id_mark(const char *path, struct err *err) MUST_USE;
/* Gives a copy an id of its own and marks it as a copy. */
int ledger_id_stamp_copy(sqlite3 *copy, struct err *err) MUST_USE;

/* backup.c: copies db to a new file; after a failure the file does not exist. */
int backup_to(sqlite3 *db, const char *file, struct err *err) MUST_USE;
/* Copies the bytes of a file; close *out_fd after SQLite has closed the file. */
int backup_bytes(const char *from, const char *to, int *out_fd, struct err *err) MUST_USE;
int backup_pages(sqlite3 *from, sqlite3 *to, struct err *err) MUST_USE;

/* write.c */
int write_change(struct store *store, const struct command *command, const struct change *change,
                 struct err *err) MUST_USE;

/* Within a transaction, the writes of store_ops.learn, measure, keep_policy and remember: */

/* learned.c */
int learned_write(struct store *store, const struct tally *tally, int64_t until_ms,
                  struct err *err) MUST_USE;

/* measured_hours.c */
int measured_write(struct store *store, const struct store_measured *row, uint32_t rows,
                   struct err *err) MUST_USE;

/* idle_shares.c */
int idle_write(struct store *store, const struct store_chunk *chunk, struct err *err) MUST_USE;

/* kept_policy.c */
int kept_policy_write(struct store *store, const struct store_policy *policy,
                      struct err *err) MUST_USE;

/* agents_kept.c */
int agents_kept_write(struct store *store, const struct agents *agents, size_t max,
                      size_t *out_count, struct err *err) MUST_USE;

/*
 * checkpointer.c: copies the log in a thread of its own. NULL: there is no thread. The path is
 * borrowed. The end waits for a pass that runs.
 */
struct checkpointer *checkpointer_new(const char *path);
void checkpointer_free(struct checkpointer *checkpointer); /* NULL is fine */
bool checkpointer_is_busy(struct checkpointer *checkpointer);
/*
 * While none runs, and the log has frames that are not copied; until it ends, nobody else may make
 * a checkpoint.
 */
void checkpointer_begin(struct checkpointer *checkpointer);
void checkpointer_await(struct checkpointer *checkpointer); /* the end of a pass that runs */
struct pass {
    int pages;          /* in the log */
    int copied;         /* of these, in the file; INT_MAX: not known */
    bool is_busy;       /* a reader or another process has a lock; some may be copied */
    bool has_lost_sync; /* of the file: pages may be missing there that count as copied */
    int failed;         /* 0, or negative with err */
};
/* A checkpoint of this mode, in the calling thread; is_beside: of a writer that goes on. */
struct pass checkpoint_run(const char *path, sqlite3 *db, int mode, bool is_beside,
                           struct err *err) MUST_USE;
/* The result of the last pass, while none runs. */
struct pass checkpointer_take(struct checkpointer *checkpointer, struct err *err) MUST_USE;

/* maintain.c */
/* Runs a passive checkpoint; if it is complete, notes the id (ledger_id.c). */
int maintain_take_in_log(struct store *store, struct err *err) MUST_USE;
int maintain_checkpoint(struct store *store, int64_t now_ms, struct err *err) MUST_USE;
int maintain_retention(struct store *store, int64_t now_ms, struct err *err) MUST_USE;
/* Journal entries folded into the baseline. */
struct folded {
    int rows;
    int64_t bytes;
};
/* Within a transaction: folds all entries up to upto. After the commit, call maintain_folded(). */
int maintain_fold(struct store *store, int64_t upto, struct folded *out, struct err *err) MUST_USE;
void maintain_folded(struct store *store, const struct folded *folded);

/* disk_space.c */
/* Sets the limits, but not those of the log. Call before the file is opened. */
void space_open(struct store *store, const struct store_rules *rules);
/* Reads the page size of the open file, and sets the limits of the log, which are in pages. */
int space_take_page_bytes(struct store *store, struct err *err) MUST_USE;
/* Makes the configured ballast; after the opening, so that a foreign file gets none. */
void space_first_ballast(struct store *store);
/* Is space_look() due? */
bool space_is_due(const struct store *store);
/* Counts the pages in use, then calls space_check(). Not within a batch. */
int space_look(struct store *store, struct err *err) MUST_USE;
/* Updates space from the last count, the bytes written since, and the size of the log. */
void space_check(struct store *store);
/* Within a batch: counts a journal entry of this size, with its rows. */
void space_count(struct store *store, int64_t journal_bytes);
/* Is trimming due? */
bool space_is_short(const struct store *store);
/* Frees the ballast if a write failed because the disk is full. failed: a negative code, or 0. */
void space_take_failure(struct store *store, int failed);
/* Makes a freed ballast again, if there is room. */
void space_keep_ballast(struct store *store, int64_t now_ms);
/* FULL: a copy of this size does not fit on the disk of this path. */
int space_for_copy(const char *path, int64_t bytes, const char *what, struct err *err) MUST_USE;

/* trim.c: trims a few pieces, if due; now_ms is UTC. */
int trim_to_limit(struct store *store, int64_t now_ms, struct err *err) MUST_USE;

/* past.c */
/* Approximate size in bytes of an allocation's rows in the history. */
int64_t past_bytes_of(const struct allocation *allocation);
/*
 * Within a batch: counts a released allocation. *out_is_other: its namespace has no row of its own
 * (PAST_NAMES_MAX) and is counted with others.
 */
int past_count(struct store *store, const char *namespace, int64_t bytes, bool *out_is_other,
               struct err *err) MUST_USE;
/* The namespace with the largest history, according to a statement. */
struct past_most {
    char *namespace; /* caller xfrees; NULL: there is no history */
    int64_t rows;
    int64_t bytes;
    int64_t piece; /* approximate number of its rows in one piece (store_limits.piece) */
};
int past_find_most(struct store *store, enum statement statement, struct past_most *out,
                   struct err *err) MUST_USE;
/*
 * Within a transaction: drops the oldest history of the largest namespace, a pack or a piece of its
 * rows. *out_rows 0: nothing is left.
 */
int past_trim(struct store *store, int *out_rows, struct err *err) MUST_USE;

/*
 * packs.c, within a transaction: packs the oldest rows of the namespace with most unpacked history.
 * *out_rows 0: too few rows for a pack.
 */
int packs_add(struct store *store, int *out_rows, struct err *err) MUST_USE;

/* ballast.c */
struct volume {
    int64_t bytes;
    int64_t free_bytes; /* for unprivileged users */
};
/* Sizes of the filesystem of this path; false: not available. */
bool volume_look(const char *path, struct volume *out);
/* Returns 0 or an errno; ENOSPC and EDQUOT: no room. */
int ballast_make(const char *path) MUST_USE;
void ballast_drop(const char *path);

/* state.c: canonical, so that equal states are equal texts. Defaults are omitted. */
void state_allocation(struct strbuf *out, const struct allocation_facts *facts);
/*
 * The two parts of state_allocation(): step has the names and the fields that a step can change,
 * kept the constant fields. The journal has both for a new allocation, and only step afterwards;
 * until version 6 it always had both, with keys in another order. A text contains kept if it has
 * the key shares.
 */
void state_step(struct strbuf *out, const struct allocation_facts *facts);
void state_kept(struct strbuf *out, const struct allocation_facts *facts);
void state_node(struct strbuf *out, const struct node_build *build);
void state_node_removed(struct strbuf *out, const struct atom *name);
void state_command(struct strbuf *out, const struct command *command);
struct node_build state_build_of(const struct node *node);
enum { GPU_FLAGS_KEPT = GPU_ABSENT | GPU_UNHEALTHY | GPU_CORDONED | GPU_DUPLICATE };

/*
 * rows.c: reads and checks each row and passes it on; borrowed for the call. names NULL: so are the
 * atoms, and the same name may be another atom in the next row.
 */
typedef int rows_node(void *user, const struct node_build *build, struct err *err);
typedef int rows_allocation(void *user, int64_t id, const struct allocation_facts *facts,
                            struct err *err);
/*
 * The rows of a table by allocation, read beside the allocations, whose ids ascend: nearly always
 * the next row is the wanted one, and no search from the root of the table is needed. The statement
 * selects the allocation first, WHERE allocation >= ? ORDER BY allocation.
 */
struct side_rows {
    sqlite3_stmt *stmt;
    bool runs;
    bool has_row; /* false: stmt is at the end */
    int64_t id;   /* the allocation of that row */
    int most;     /* rows of other allocations that are passed over before a search */
};
/* Goes to the first row of the allocation. Returns 1, 0 if it has none, or negative with err. */
int side_rows_find(struct side_rows *rows, int64_t id, struct err *err) MUST_USE;
/* Goes to the next row of the same allocation; returns as side_rows_find(). */
int side_rows_next(struct side_rows *rows, struct err *err) MUST_USE;
int rows_nodes(sqlite3 *db, struct names *names, void *user, rows_node *each,
               struct err *err) MUST_USE;
int rows_allocations(sqlite3 *db, struct names *names, bool past, void *user, rows_allocation *each,
                     struct err *err) MUST_USE;

/*
 * quiet_file.c: how to read a file without changing anything depends on its other users.
 *
 *   a daemon         through its log and its shared memory, like any reader
 *   none, no log     as a file that does not change (SQLite's immutable)
 *   none, a log      without locks, with the index of the log in our own memory
 *
 * Without a daemon an ordinary open would create a log and shared memory, or checkpoint the log.
 */
enum way { WAY_BESIDE, WAY_STILL, WAY_LOG };

/* State of the files, for the detection of concurrent writes. */
struct mark {
    bool held;              /* a daemon has the lock */
    long long bytes;        /* size of the file */
    long long wal_bytes;    /* size of the log */
    struct timespec at;     /* modification time of the file */
    struct timespec wal_at; /* modification time of the log */
};

struct quiet_file {
    const char *path; /* borrowed */
    bool locked;      /* by the caller */
    sqlite3 *db;      /* in a read transaction */
    enum way way;
    struct mark before; /* at the opening */
};
/* Opens a ledger of this version or an older one; call quiet_close() also after a failure. */
int quiet_open(const char *path, struct quiet_file *out, int64_t *out_version,
               struct err *err) MUST_USE;
/* For the daemon that holds the ledger's lock and has not opened the file yet. */
int quiet_open_locked(const char *path, struct quiet_file *out, int64_t *out_version,
                      struct err *err) MUST_USE;
/* BUSY: the file was written to meanwhile, so the data that were read are invalid. */
int quiet_close(struct quiet_file *file, struct err *err) MUST_USE;

/* verify.c */
int check_file(sqlite3 *db, bool thorough, struct err *err) MUST_USE; /* SQLite's own checks */
/*
 * Our own checks of the live tables. *out: the ledger that was read meanwhile, for store_load();
 * NULL if check_load() would fail.
 */
int check_live(sqlite3 *db, struct ledger **out, struct err *err) MUST_USE;
int check_load(sqlite3 *db, struct ledger *ledger, struct err *err) MUST_USE;

/*
 * check_beside.c: check_file() in a second thread, which needs a log (WAL): a connection of its own
 * then sees what db sees. The end waits for it; its fault wins over `failed`, that of the caller.
 */
struct check_beside {
    sqlite3 *db;
    pthread_t thread;
    bool runs;
    atomic_bool found; /* a fault; the caller's statements end, as interrupted */
    int failed;        /* written by the thread, like err, and read after its end */
    struct err err;
};
int check_beside_begin(struct check_beside *beside, sqlite3 *db, struct err *err) MUST_USE;
int check_beside_end(struct check_beside *beside, int failed, struct err *err) MUST_USE;

int check_one(sqlite3 *db, const struct store_schema *schema, enum store_check which,
              struct err *err) MUST_USE;

#endif
