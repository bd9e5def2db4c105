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
 * and past), past (the history of each namespace, in bytes), journal (append-only), baseline,
 * learned and class (the workload, tally.h), measured (sums of what agents report), idle and
 * reported (since when shares are idle), policy (the document that decides), and agent (what is
 * remembered of agents, agents.h). The schema is src/store/schema/schema.sql; its comments are part
 * of this contract.
 *
 * Promises:
 *   I3. What load() gives after a crash is what was committed, nothing else.
 *   I4. A commit() that returned 0 survives kill -9 and power loss (if the disk honours fsync).
 *   I6. baseline + journal = present: CHECK_REPLAY. The learned workload is no part of the
 *       present: it only orders placements, so no journal entry tells of it, no check reads it, and
 *       without it milligpud learns anew. Nor is what was measured, or is idle, or the policy
 *       document, or what is remembered of agents: it says nothing of who holds what.
 *   A ledger of an older version is migrated for its own cluster only; another cluster's stays as
 *   it is, byte for byte (store_rules.cluster).
 *
 * The writer uses store_ops; the simulator and the fault tests insert their own in between. Once a
 * thread has written, another one that writes, or reads what a start reads, aborts.
 * history, backup, verification, replay_check and facts may be called from any thread: each uses a
 * connection of its own. A ledger in memory has only one connection, so there they wait for the end
 * of the batch, and the writer must not call them within its own.
 *
 * Besides <file> there are <file>-wal and <file>-shm (SQLite's), <file>.lock (flock; it is never
 * removed), <file>.id (to which ledger the log belongs), <file>.ballast (store_rules), and copies
 * that milligpud never deletes: <file>.corrupt-<UTC>, <file>.replaced-<UTC> (by store_restore()),
 * <file>.v<version>-<UTC>.
 * An unfinished copy is named <file>.v<version>-<UTC>.part-*, or is in a folder <file>.part-*;
 * opening the ledger removes it. Links are followed first. Refused filesystems: NFS, SMB/CIFS, 9p,
 * Ceph, AFS, Coda, OCFS2, GFS2, Lustre, GPFS, BeeGFS, VirtualBox folders. FUSE is allowed, because
 * local disks may use it, too.
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
    /* this change contradicts the database: it is rolled back alone, the batch continues */
    STORE_REFUSED,
    STORE_FAILED, /* the batch is lost: nothing of it is on disk, call rollback() */
};

/*
 * What was measured of the pods of one namespace on GPUs of one model: within one hour, or, from
 * store_measured(), within a time. Sums that are exact: thousandths of a GPU times seconds, and MiB
 * times seconds, each beside what was granted of it in the very seconds that were measured.
 */
struct store_measured {
    int64_t hour_ms;       /* UTC, when the hour begins; 0 from store_measured() */
    const char *namespace; /* "", with model "": those for which the hour had no row left */
    const char *model;     /* as the GPU's Node showed it then; "": it did not */
    uint64_t milli_s;
    uint64_t of_milli_s;
    uint64_t mib_s;
    uint64_t of_mib_s;
};
/* That a share of a live allocation is idle, or not any more. All texts are borrowed. */
struct store_idle {
    const char *node;
    const char *uid;       /* of the pod; "": no share on this node is known to be idle any more */
    const char *container; /* "" if uid is, like the next one */
    const char *gpu;       /* as the share names it */
    int64_t since_ms;      /* UTC; 0: it is not idle, or nobody knows */
};

/* What one transaction adds to what was measured. */
struct store_chunk {
    const struct store_measured *row;
    uint32_t rows;
    uint32_t n_idle;
    const struct store_idle *idle;
    int64_t reported_ms; /* UTC: with idle, all reports up to then were told of; 0: as before */
};

enum {
    STORE_HOUR_MS = 3600000,
    /* of one hour; what comes beyond is added to one more row, with namespace and model "" */
    STORE_MEASURED_ROWS_MAX = 4096,
};

/* A policy document that was read well, byte by byte, and the path of its file. */
struct store_policy {
    const char *name;
    struct text document; /* 1 .. STORE_POLICY_BYTES_MAX bytes */
    int64_t read_ms;      /* UTC */
};
enum { STORE_POLICY_BYTES_MAX = 1024 * 1024 };

struct store_ops {
    void *ctx;
    int (*begin)(void *ctx, struct err *err);
    enum store_outcome (*write)(void *ctx, const struct command *command,
                                const struct change *change, struct err *err);
    /* Negative: not acknowledged. It may still appear after a crash, as an open reservation. */
    int (*commit)(void *ctx, struct err *err);
    void (*rollback)(void *ctx);
    /* Between batches: checkpoint and retention. Cheap if nothing is due. now_ms is UTC. */
    int (*maintain)(void *ctx, int64_t now_ms, struct err *err);
    /*
     * Between batches: replaces what was stored of the workload, in a transaction of its own.
     * Negative: what was stored before is still there; after a crash it may be the new. Not in safe
     * mode: the writer sees to that.
     */
    int (*learn)(void *ctx, const struct tally *tally, int64_t until_ms, struct err *err);
    /*
     * Between batches: adds to the sums of hours, and sets which shares are idle, in a transaction
     * of its own. Negative: nothing of it was, and the same later counts nothing twice. What it
     * says of a share that has ended is left out. Not in safe mode, as above.
     */
    int (*measure)(void *ctx, const struct store_chunk *chunk, struct err *err);
    /*
     * Between batches: replaces the policy document that is kept, in a transaction of its own;
     * NULL: none is kept any more. The same document again changes nothing, not even its time.
     * Negative: the one before is still there. Not in safe mode, as above.
     */
    int (*keep_policy)(void *ctx, const struct store_policy *policy, struct err *err);
    /*
     * Between batches: stores the first memories that changed (agents_next_changed()), max at most,
     * and that agents were seen, in a transaction of its own. *out_count: how many memories, for
     * agents_stored(). Negative: *out_count is 0 and what was stored before is still there; after a
     * crash it may be the new. The same again changes nothing. Not in safe mode, as above.
     */
    int (*remember)(void *ctx, const struct agents *agents, size_t max, size_t *out_count,
                    struct err *err);
};

enum store_corrupt_policy { STORE_REFUSE, STORE_MOVE_ASIDE };

struct store_rules {
    const char *path; /* ":memory:" for standalone without --ledger */
    enum store_corrupt_policy on_corrupt;
    uint32_t retention_days; /* 0: for ever, as far as the limit in bytes lets it */
    /*
     * Maximum size in bytes: pages in use plus the log. Near it history is packed, then the oldest
     * is trimmed, whatever its age; grants stop at it (store_space()). 0: 30 % of the volume,
     * LEDGER_BYTES_MIN at least and 2 GiB at most; in memory 256 MiB.
     */
    int64_t max_bytes;
    /* Keeps <file>.ballast: up to 16 MiB that are given up when the disk is full. */
    bool has_ballast;
    /* Called when a file was moved aside, migrated or copied, with one sentence. */
    void *user;
    void (*notice)(void *user, const char *text);
    /*
     * Writes the uid of this cluster (enum store_owner). Called at most once, under the ledger's
     * lock and before a byte is written, and only if the ledger has an owner and an older version.
     * Negative: this cluster is not known, so the ledger is not migrated, and store_open() fails
     * with err->code. NULL: ledgers of every owner are migrated.
     */
    int (*cluster)(void *user, char out_uid[UID_BYTES_MAX + 1], struct err *err);
};

struct store;

/*
 * Opens or creates the file, locks and migrates it, runs quick_check and the verification of the
 * live tables. Each refusal has a sentence: locked by another daemon (BUSY), network filesystem
 * (INVALID), not a milligpu ledger (FOREIGN), newer (NEWER), corrupt (CORRUPT), beside the log of
 * another ledger (CONFLICT): SQLite would replay it into this one. Only a corrupt file
 * is ever moved aside, and its bytes stay as they are: no commit is ever removed from its log
 * (docs/why/017).
 *
 * A ledger of an older version that belongs to another cluster is not migrated (FOREIGN). Neither
 * is one whose cluster rules->cluster() does not know, or whose owner could not be read before the
 * file was opened (BUSY). Except in the last case, only the lock is made in its folder.
 */
int store_open(const struct store_rules *rules, struct store **out, struct err *err) MUST_USE;
void store_close(struct store *store); /* Runs a checkpoint; NULL is fine. */

/* Can the ledger take grants? It takes releases and observed pods in every state. */
enum store_space {
    SPACE_ENOUGH, /* yes */
    SPACE_LIMIT,  /* no: its size is at the limit, and trimming has not made room yet */
    SPACE_DISK,   /* no: its disk is full, and the ballast that was given up cannot be made again */
};
/* Any thread. */
enum store_space store_space(const struct store *store);

/*
 * For the clock check: the time of the newest journal entry, and of the clock's last step beyond
 * STORE_CLOCK_STEP_MS (COMMAND_CLOCK); 0: there was none since retention last ran, which it does
 * only while the clock is trusted. Not within a batch.
 */
static const int64_t STORE_CLOCK_STEP_MS = INT64_C(24) * 60 * 60 * 1000;
int store_clock(struct store *store, int64_t *out_last_ms, int64_t *out_stepped_ms,
                struct err *err) MUST_USE;

/* The wall clock is not trusted: nothing is folded or dropped until it is. Any thread. */
void store_doubt_clock(struct store *store, bool doubted);

/* To which cluster a ledger belongs, by the uid of the namespace kube-system. */
enum store_owner {
    OWNER_NOBODY, /* to none yet: store_set_cluster() may claim it */
    OWNER_THIS,
    /* this cluster, by a backup: what was granted after it was made is not known */
    OWNER_THIS_BY_COPY,
};

/* FOREIGN: it belongs to another cluster. Not within a batch. */
int store_whose(struct store *store, const char *cluster, enum store_owner *out,
                struct err *err) MUST_USE;
/* Claims the ledger for this cluster; from then on it is no copy any more. */
int store_set_cluster(struct store *store, const char *cluster, struct err *err) MUST_USE;

/* Loads live nodes, then live allocations, into an empty ledger. */
int store_load(struct store *store, struct ledger *ledger, struct err *err) MUST_USE;

/*
 * What learn() stored last. *out NULL: nothing is stored. CORRUPT: rows that no tally can contain;
 * the text names the row and what would be right. Not within a batch.
 */
int store_learned(struct store *store, struct tally **out, int64_t *out_until_ms,
                  struct err *err) MUST_USE;

/*
 * What measure() set last: each share that is idle, by node, at most one row for each live share.
 * *out_reported_ms is set before the first row: until when that is known; 0: no report was ever
 * taken. Not within a batch.
 */
int store_idle(struct store *store, int64_t *out_reported_ms, void *user,
               void (*each)(void *user, const struct store_idle *idle), struct err *err) MUST_USE;

/*
 * Puts what remember() stored into agents, of which nothing was seen yet: agents_remember_seen(),
 * agents_remember(). Not within a batch.
 *
 * CORRUPT: rows that remember() cannot have written; the text names the first and what would be
 * right. Every other row is remembered. After this or another failure agents were seen for sure
 * (agents_seen()), so the nodes that the settings select need one: the caller says so and starts.
 */
int store_agents(struct store *store, struct agents *agents, struct err *err) MUST_USE;

/*
 * Reads the document that keep_policy() kept last in the ledger at this path, and leaves no trace
 * there; copied into the arena. name NULL: nothing, or there is no ledger. Else as
 * store_verify_file() fails; CORRUPT: a row that keep_policy() cannot have written.
 */
int store_kept_policy(const char *path, struct arena *arena, struct store_policy *out,
                      struct err *err) MUST_USE;

void store_ops(struct store *store, struct store_ops *out);

/*
 * Every check except CHECK_MEMORY, on a connection of its own: slow. In three steps, so that the
 * ledger in memory can be compared with the file as both were at one moment: open and close on the
 * thread that verifies; pin in the writer, between two batches, and take a snapshot there. Until it
 * is closed, SQLite's log keeps growing.
 *
 * CORRUPT and INTERNAL mean that something is wrong, and *out_which says what; other codes mean
 * that the check was not completed. Interrupt: from any thread, while it is open.
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
 * SQLite's online backup to a new file; fsynced, then renamed into place. The copy has an id of its
 * own and is marked as a copy (OWNER_THIS_BY_COPY).
 */
int store_backup(struct store *store, const char *file, struct err *err) MUST_USE;

/*
 * For a file that is too damaged for SQLite to copy: copies its bytes as they are, and those of its
 * log to <file>-wal. Only while nothing is written.
 */
int store_copy_raw(struct store *store, const char *file, struct err *err) MUST_USE;

/* What the pods of one namespace were granted of one model, from one moment to another. */
struct store_granted {
    const char *namespace; /* borrowed for the call */
    const char *model;     /* "": of a GPU that its node does not show any more */
    uint64_t pods;
    uint64_t milli_s; /* thousandths of a GPU times seconds, like the next one MiB */
    uint64_t mib_s;
};
/*
 * From when they were bound until they ended, as far as the history reaches back; now_ms ends what
 * still lives. In the order of namespace and model, by bytes. Any thread.
 */
int store_granted(struct store *store, int64_t since_ms, int64_t now_ms, void *user,
                  void (*each)(void *user, const struct store_granted *row),
                  struct err *err) MUST_USE;

/*
 * What measure() added since a time, by namespace and model, in their order. Of the hour that
 * since_ms cuts, the part after it counts, as if that hour had been even. Hours that begin after
 * now_ms (the clock was set back) are left out. Any thread.
 */
int store_measured(struct store *store, int64_t since_ms, int64_t now_ms, void *user,
                   void (*each)(void *user, const struct store_measured *row),
                   struct err *err) MUST_USE;

struct store_history_query {
    const char *node; /* NULL: any */
    /* id or alias: rows have the name that the GPU had at that time; NULL: any */
    const char *gpu;
    const char *namespace; /* NULL: any */
    const char *pod;       /* name; NULL: any */
    int64_t at_ms;         /* who held it at this time; 0: all times */
    uint64_t before;       /* continue: rows older than this row; 0: from the newest */
    uint32_t limit;        /* 0: all */
};

/* Newest first. A pod that holds nothing of a known GPU has one row with gpu "". Any thread. */
int store_history(struct store *store, const struct store_history_query *query, void *user,
                  void (*row)(void *user, const struct history_row *row), struct err *err) MUST_USE;

/* Whose memory over a share. */
struct store_over_events_query {
    const char *namespace;
    const char *pod; /* name */
};

/*
 * What COMMAND_OVER wrote of the pods of this name, newest first, as far as the journal reaches
 * back. The cost is that of reading all such entries, which are few; an index has them. The texts
 * are valid during the call only. Any thread.
 */
int store_over_events(struct store *store, const struct store_over_events_query *query, void *user,
                      void (*each)(void *user, const struct history_over_event *over),
                      struct err *err) MUST_USE;

/*
 * An entry of the journal; the texts are JSON objects. In the result, an allocation that is new is
 * there as a whole; of one that was there before, its names and what its steps change: its shares
 * stay as they are.
 */
struct journal_row {
    uint64_t seq;
    int64_t at_ms;
    const char *kind; /* of the command */
    const char *command;
    const char *result;
};
/* Number of the newest entry that is committed. Any thread. */
uint64_t store_newest(const struct store *store);
struct store_journal_query {
    uint64_t after; /* entries behind this one, oldest first */
    uint32_t limit;
    void *user;
    /* False ends the reading; the texts are valid during the call only. */
    bool (*each)(void *user, const struct journal_row *row);
};
/*
 * *out_folded: the newest entry that retention has folded away, so whoever wants an older one has
 * missed something. Any thread.
 */
int store_journal(struct store *store, const struct store_journal_query *query,
                  uint64_t *out_folded, struct err *err) MUST_USE;

struct store_facts {
    const char *path; /* borrowed until store_close() */
    int64_t bytes;
    int64_t wal_bytes;
    int64_t used_bytes;        /* pages in use, without the log */
    int64_t max_bytes;         /* the limit of used_bytes and wal_bytes */
    int64_t copies_bytes;      /* of copies beside it that milligpud never deletes */
    int64_t volume_free_bytes; /* -1: in memory, or the file system has no size */
    int64_t trimmed_ms;        /* UTC: when the limit last cost history; 0: not since the start */
    uint64_t journal_rows;
    uint32_t schema;
};
/* The history: how far it reaches back, and which namespace has most of it. Any thread. */
struct store_reach {
    int64_t oldest_ms; /* UTC: when the oldest allocation of the history ended; 0: there is none */
    int64_t bytes;     /* of all namespaces, about */
    int64_t most_bytes;
    /* "" also if the namespaces without a count of their own have most */
    char most[NAME_BYTES_MAX + 1];
};
int store_reach(struct store *store, struct store_reach *out, struct err *err) MUST_USE;

/* The same path; also within a batch. */
const char *store_path(const struct store *store);
int store_facts(struct store *store, struct store_facts *out, struct err *err) MUST_USE;

#endif
