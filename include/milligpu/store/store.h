/*
 * store - the ledger on disk: SQLite, WAL, synchronous=FULL, one writer.
 *
 * The writer opens a batch, writes each change under its own SAVEPOINT, and commits once. Triggers
 * on charges let the database itself refuse a grant beyond the size of a GPU; CHECKs and foreign
 * keys enforce the rest.
 *
 *   begin -> write, write, ... -> commit       a failing write is rolled back alone (STORE_REFUSED)
 *
 * Tables: meta, node, gpu, claim (ids that a node showed first), allocation, share, charge (live
 * and past), past (bytes of history by namespace), journal (append-only), baseline, learned and
 * class (the workload, tally.h), measured (sums of agents' reports), idle and reported (idle
 * shares), policy (the policy document in force), and agent (the memories of agents.h). The schema
 * is src/store/schema/schema.sql; its comments are part of this contract.
 *
 * Promises:
 *   I3. After a crash load() returns the committed state, nothing else.
 *   I4. A commit() that returned 0 survives kill -9 and power loss (if the disk honours fsync).
 *   I6. baseline + journal = present: CHECK_REPLAY. The present excludes the learned workload,
 *       measured sums, idle shares, the policy document and agents' memories, because none of them
 *       affects who holds what. The journal does not record the learned workload and no check
 *       reads it; without it milligpud learns anew.
 *   A ledger of an older version is migrated for its own cluster only. Another cluster's ledger
 *   stays unchanged, byte for byte (store_rules.cluster).
 *
 * The writer uses store_ops; the simulator and the fault tests wrap them. The first thread that
 * writes is the writer: any other one that writes, or calls a function for the start, aborts.
 * history, backup, verification and facts may be called from any thread: each uses a connection of
 * its own. A ledger in memory has only one connection, so there they wait for the end
 * of the batch, and the writer must not call them within its own.
 *
 * Files beside <file>: <file>-wal and <file>-shm (SQLite's), <file>.lock (flock; never removed),
 * <file>.id (identifies the ledger to which the log belongs), <file>.ballast (store_rules), and
 * copies that milligpud never deletes: <file>.corrupt-<UTC>, <file>.replaced-<UTC> (by
 * store_restore()), <file>.v<version>-<UTC>.
 * An unfinished copy is named <file>.v<version>-<UTC>.part-*, or is in a folder <file>.part-*;
 * opening the ledger removes it. Symbolic links are resolved first. Refused filesystems: NFS,
 * SMB/CIFS, 9p, Ceph, AFS, Coda, OCFS2, GFS2, Lustre, GPFS, BeeGFS, VirtualBox folders. FUSE is
 * allowed, because local disks may use it, too.
 */
#ifndef MILLIGPU_STORE_H
#define MILLIGPU_STORE_H

#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/facts/agents.h"
#include "milligpu/core/ledger/ledger.h"
#include "milligpu/core/rules/tally.h"
#include "milligpu/store/verify.h"

enum store_outcome {
    STORE_OK,
    /* the change contradicts the database; only this change is rolled back, the batch continues */
    STORE_REFUSED,
    STORE_FAILED, /* the batch is lost and nothing of it is on disk: call rollback() */
};

/*
 * Exact sums of the measured use by the pods of one namespace on GPUs of one model: in one hour, or
 * in the queried time (store_measured()). Units: milli times seconds, and MiB times seconds. The
 * of_ sums are the grants in the same measured seconds.
 */
struct store_measured {
    int64_t hour_ms;       /* UTC start of the hour; 0 from store_measured() */
    const char *namespace; /* "" with model "": sum of all use beyond the hour's row limit */
    const char *model;     /* model that the GPU's Node showed then; "" if it showed none */
    uint64_t milli_s;
    uint64_t of_milli_s;
    uint64_t mib_s;
    uint64_t of_mib_s;
};
/* Start or end of the idle time of a share of a live allocation. All texts are borrowed. */
struct store_idle {
    const char *node;
    /* pod uid; "" (with container and gpu ""): idle times of all shares on this node are unknown */
    const char *uid;
    const char *container;
    const char *gpu;  /* the share's name for its GPU */
    int64_t since_ms; /* UTC; 0: not idle, or not known */
};

/* The measured sums and idle changes of one transaction. */
struct store_chunk {
    const struct store_measured *row;
    uint32_t n_rows;
    uint32_t n_idle;
    const struct store_idle *idle;
    int64_t reported_ms; /* UTC; idle covers all reports up to this time; 0: unchanged */
};

enum {
    STORE_HOUR_MS = 3600000,
    /* limit for one hour; use beyond it is added to one more row, with namespace and model "" */
    STORE_MEASURED_ROWS_MAX = 4096,
};

/* A valid policy document, byte for byte. */
struct store_policy {
    const char *name;     /* path of its file */
    struct text document; /* 1 .. STORE_POLICY_BYTES_MAX bytes */
    int64_t read_ms;      /* UTC */
};
enum { STORE_POLICY_BYTES_MAX = 1024 * 1024 };

struct store_ops {
    void *ctx;
    int (*begin)(void *ctx, struct err *err);
    enum store_outcome (*write)(void *ctx, const struct command *command,
                                const struct change *change, struct err *err);
    /* Negative: not acknowledged. After a crash it may still appear, as open reservations. */
    int (*commit)(void *ctx, struct err *err);
    void (*rollback)(void *ctx);

    /*
     * The functions below are called between batches and, except maintain(), never in safe mode
     * (the writer ensures that). Each of those uses a transaction of its own.
     */

    /* Checkpoint and retention. Cheap if nothing is due. now_ms is UTC. */
    int (*maintain)(void *ctx, int64_t now_ms, struct err *err);
    /*
     * Replaces the stored workload. Negative: the previous one is still stored; after a crash it
     * may be the new one.
     */
    int (*learn)(void *ctx, const struct tally *tally, int64_t until_ms, struct err *err);
    /*
     * Adds to the hourly sums and sets which shares are idle; skips ended shares. Negative: nothing
     * was stored, and a retry counts nothing twice.
     */
    int (*measure)(void *ctx, const struct store_chunk *chunk, struct err *err);
    /*
     * Replaces the stored policy document; NULL removes it. An equal document changes nothing, not
     * even its time. Negative: the previous document is still stored.
     */
    int (*keep_policy)(void *ctx, const struct store_policy *policy, struct err *err);
    /*
     * Stores up to max changed memories (agents_next_changed()) and the flag that agents were seen.
     * *out_count: number of memories stored, for agents_stored(). Negative: *out_count is 0 and the
     * previous memories are still stored; after a crash they may be the new ones. Idempotent.
     */
    int (*remember)(void *ctx, const struct agents *agents, size_t max, size_t *out_count,
                    struct err *err);
};

enum store_corrupt_policy { STORE_REFUSE, STORE_MOVE_ASIDE };

struct store_rules {
    const char *path; /* ":memory:" for standalone without --ledger */
    enum store_corrupt_policy on_corrupt;
    uint32_t retention_days; /* 0: no limit by age */
    /*
     * Maximum size in bytes of pages in use plus the log. Near the limit history is packed, then
     * the oldest history is trimmed, whatever its age; at the limit grants stop (store_space()). 0:
     * 30 % of the volume, at least LEDGER_BYTES_MIN and at most 2 GiB; in memory 256 MiB.
     */
    int64_t max_bytes;
    /* Keep <file>.ballast: up to 16 MiB that are freed when the disk is full. */
    bool has_ballast;
    /* Check the pages in a second thread while the tables are read; the verdict is the same. */
    bool checks_beside;
    /* Copy most of the log into the file in another thread; the writer copies the rest. */
    bool checkpoints_beside;
    /* Called with one sentence after a file was moved aside, migrated or copied. */
    void *user;
    void (*notice)(void *user, const char *text);
    /*
     * Writes the uid of this cluster (enum store_owner). Called at most once, under the ledger's
     * lock and before a byte is written, and only for a ledger of an older version with an owner.
     * Negative: this cluster is not known, so the ledger is not migrated, and store_open() fails
     * with err->code. NULL: ledgers of every owner are migrated.
     */
    int (*cluster)(void *user, char out_uid[UID_BYTES_MAX + 1], struct err *err);
};

struct store;

/*
 * Opens or creates the file, locks and migrates it, runs quick_check and verifies the live tables.
 * err explains each refusal: locked by another daemon (BUSY), network filesystem (INVALID), not a
 * milligpu ledger (FOREIGN), newer (NEWER), corrupt (CORRUPT), beside the log of another ledger
 * (CONFLICT), which SQLite would replay into this one. Only a corrupt file is moved aside, with its
 * bytes unchanged: no commit is ever removed from its log (docs/why/017).
 *
 * A ledger of an older version that belongs to another cluster is not migrated (FOREIGN). Neither
 * is a ledger for which rules->cluster() fails, or whose owner could not be read before the file
 * was opened (BUSY). Except in the last case, only the lock is created in its folder.
 */
int store_open(const struct store_rules *rules, struct store **out, struct err *err) MUST_USE;
void store_close(struct store *store); /* Runs a checkpoint; NULL is fine. */

/* Does the ledger accept grants? It accepts releases and observed pods in every state. */
enum store_space {
    SPACE_ENOUGH, /* yes */
    SPACE_LIMIT,  /* no: its size is at the limit, and trimming has not made room yet */
    SPACE_DISK,   /* no: its disk is full, and the ballast that was freed cannot be made again */
};
/* Any thread. */
enum store_space store_space(const struct store *store);

/*
 * For the clock check: time of the newest journal entry, and time of the clock's last step beyond
 * STORE_CLOCK_STEP_MS (COMMAND_CLOCK), 0 if none since the last retention run (retention runs only
 * while the clock is trusted). Not within a batch.
 */
static const int64_t STORE_CLOCK_STEP_MS = INT64_C(24) * 60 * 60 * 1000;
int store_clock(struct store *store, int64_t *out_last_ms, int64_t *out_stepped_ms,
                struct err *err) MUST_USE;

/* Frees the cached pages of the file, which a load fills. Between batches. */
void store_release_memory(struct store *store);

/* doubted: the wall clock is not trusted, and nothing is folded or dropped. Any thread. */
void store_doubt_clock(struct store *store, bool doubted);

/* The cluster that owns a ledger, identified by the uid of the namespace kube-system. */
enum store_owner {
    OWNER_NOBODY, /* no owner yet: store_set_cluster() may set it */
    OWNER_THIS,
    /* this cluster, but the ledger is a backup: later grants are missing */
    OWNER_THIS_BY_COPY,
};

/* FOREIGN: another cluster owns the ledger. Not within a batch. */
int store_whose(struct store *store, const char *cluster, enum store_owner *out,
                struct err *err) MUST_USE;
/* Makes this cluster the owner and clears the mark of a copy. */
int store_set_cluster(struct store *store, const char *cluster, struct err *err) MUST_USE;

/*
 * Loads live nodes, then live allocations, into an empty ledger. The first call after the opening
 * gets what that has read, unless a batch has begun; the ledger then has another table of names.
 */
int store_load(struct store *store, struct ledger *ledger, struct err *err) MUST_USE;

/*
 * Reads the tally of the last learn(). *out NULL: nothing is stored. CORRUPT: rows that no tally
 * can contain; err names the row and the valid values. Not within a batch.
 */
int store_learned(struct store *store, struct tally **out, int64_t *out_until_ms,
                  struct err *err) MUST_USE;

/*
 * Visits each stored idle share, ordered by node, at most one row for each live share.
 * *out_reported_ms is set before the first row: UTC, reports up to this time are covered; 0: no
 * report was ever taken. Not within a batch.
 */
int store_idle(struct store *store, int64_t *out_reported_ms, void *user,
               void (*each)(void *user, const struct store_idle *idle), struct err *err) MUST_USE;

/*
 * Loads the memories that remember() stored into agents, which must be empty, by
 * agents_remember_seen() and agents_remember(). Not within a batch.
 *
 * CORRUPT: rows that remember() cannot have written; err names the first one and the valid values.
 * All valid rows are loaded. After this or any other failure agents_seen() is true, so the nodes
 * that the settings select need an agent: the caller reports the error and starts.
 */
int store_agents(struct store *store, struct agents *agents, struct err *err) MUST_USE;

/*
 * Reads the stored policy document of the ledger at this path without modifying any file; *out is
 * copied into the arena. name NULL: no document or no ledger. Fails like store_verify_file();
 * CORRUPT: a row that keep_policy() cannot have written.
 */
int store_kept_policy(const char *path, struct arena *arena, struct store_policy *out,
                      struct err *err) MUST_USE;

void store_ops(struct store *store, struct store_ops *out);

/*
 * Runs every check except CHECK_MEMORY, on a connection of its own: slow. Three steps allow a
 * comparison of memory and file as of the same moment: open and close on the thread that verifies;
 * pin in the writer, between two batches, and take a snapshot there. SQLite's log keeps growing
 * until close.
 *
 * CORRUPT and INTERNAL: the check *out_which failed; other codes: the check was not completed.
 * Interrupt: from any thread, while it is open.
 */
struct store_read;
int store_read_open(struct store *store, struct store_read **out, struct err *err) MUST_USE;
int store_read_pin(struct store_read *read, struct err *err) MUST_USE;
int store_read_verify(struct store_read *read, enum store_check *out_which,
                      struct err *err) MUST_USE;
/* I3: do the rows match the snapshot? */
int store_read_compare(struct store_read *read, const struct snapshot *snapshot,
                       struct err *err) MUST_USE;
void store_read_interrupt(struct store_read *read);
void store_read_close(struct store_read *read);

/*
 * Runs SQLite's online backup to a new file, which is fsynced and renamed into place. The copy has
 * an id of its own and is marked as a copy (OWNER_THIS_BY_COPY).
 */
int store_backup(struct store *store, const char *file, struct err *err) MUST_USE;

/*
 * Copies the raw bytes of the file, and of its log to <file>-wal, if the file is too damaged for
 * SQLite to copy. Only while nothing is written.
 */
int store_copy_raw(struct store *store, const char *file, struct err *err) MUST_USE;

/* Grants to the pods of one namespace on GPUs of one model, in the queried time. */
struct store_granted {
    const char *namespace; /* borrowed for the call */
    const char *model;     /* "": its node no longer shows the GPU */
    uint64_t pods;
    uint64_t milli_s; /* milli times seconds */
    uint64_t mib_s;   /* MiB times seconds */
};
/*
 * Pods count from bound to released, as far as the history reaches back, and live pods until
 * now_ms. Ordered by the bytes of namespace and model. Any thread.
 */
int store_granted(struct store *store, int64_t since_ms, int64_t now_ms, void *user,
                  void (*each)(void *user, const struct store_granted *row),
                  struct err *err) MUST_USE;

/*
 * Sums the stored hours since since_ms, ordered by namespace and model. The hour that contains
 * since_ms counts in proportion to its part after since_ms. Hours that begin after now_ms (the
 * clock was set back) are left out. Any thread.
 */
int store_measured(struct store *store, int64_t since_ms, int64_t now_ms, void *user,
                   void (*each)(void *user, const struct store_measured *row),
                   struct err *err) MUST_USE;

struct store_history_query {
    const char *node; /* NULL: any */
    /* id or alias, matched with the GPU's name at that time; NULL: any */
    const char *gpu;
    const char *namespace; /* NULL: any */
    const char *pod;       /* name; NULL: any */
    int64_t at_ms;         /* UTC; only holders at this time; 0: all times */
    uint64_t before;       /* id of the row after which to continue; 0: from the newest */
    uint32_t limit;        /* maximum number of rows; 0: none */
};

/* Newest first. A pod without a known GPU has one row with gpu "". Any thread. */
int store_history(struct store *store, const struct store_history_query *query, void *user,
                  void (*row)(void *user, const struct history_row *row), struct err *err) MUST_USE;

struct store_over_events_query {
    const char *namespace;
    const char *pod; /* name */
};

/*
 * Visits the COMMAND_OVER entries (memory over the share) of the pods of this name, newest first,
 * as far as the journal reaches back. Reads the COMMAND_OVER entries of all pods, which are few and
 * indexed. Texts are valid during the call only. Any thread.
 */
int store_over_events(struct store *store, const struct store_over_events_query *query, void *user,
                      void (*each)(void *user, const struct history_over_event *over),
                      struct err *err) MUST_USE;

/*
 * A journal entry. The result contains a new allocation completely; of an existing one, its names
 * and the fields that a step can change, without the shares, which never change.
 */
struct journal_row {
    uint64_t seq;
    int64_t at_ms;       /* UTC */
    const char *kind;    /* kind of the command */
    const char *command; /* JSON object */
    const char *result;  /* JSON object */
};
/* Number of the newest committed entry. Any thread. */
uint64_t store_newest(const struct store *store);
struct store_journal_query {
    uint64_t after; /* number of the entry after which to begin; oldest first */
    uint32_t limit;
    void *user;
    /* Returns false to stop. Texts are valid during the call only. */
    bool (*each)(void *user, const struct journal_row *row);
};
/*
 * *out_folded: number of the newest entry that retention has folded; a reader that needs older
 * entries has lost them. Any thread.
 */
int store_journal(struct store *store, const struct store_journal_query *query,
                  uint64_t *out_folded, struct err *err) MUST_USE;

struct store_facts {
    const char *path; /* borrowed until store_close() */
    int64_t bytes;
    int64_t wal_bytes;
    int64_t used_bytes;        /* pages in use, without the log */
    int64_t max_bytes;         /* limit of used_bytes + wal_bytes */
    int64_t copies_bytes;      /* size of the copies beside it that milligpud never deletes */
    int64_t volume_free_bytes; /* -1: in memory, or the filesystem reports no size */
    int64_t trimmed_ms;        /* UTC time of the last trim by size; 0: none since the start */
    uint64_t journal_rows;
    uint32_t schema; /* version */
};
/* How far the history reaches back, and the namespace that uses most of it. Any thread. */
struct store_reach {
    int64_t oldest_ms;  /* UTC end of the oldest allocation in the history; 0 if none */
    int64_t bytes;      /* approximate size of the history of all namespaces */
    int64_t most_bytes; /* approximate size of the largest namespace's history */
    /* its name; "" also for the namespaces without a row of their own, counted together */
    char most[NAME_BYTES_MAX + 1];
};
int store_reach(struct store *store, struct store_reach *out, struct err *err) MUST_USE;

/* The path of store_facts(); also within a batch. */
const char *store_path(const struct store *store);
int store_facts(struct store *store, struct store_facts *out, struct err *err) MUST_USE;

#endif
