/*
 * Verification in a running daemon, in steps for two threads. The verifier thread opens a
 * connection; the writer pins it between two batches, where file and memory agree, and takes a
 * snapshot of the ledger; the verifier thread then checks the file and compares it with the
 * snapshot, while the writer goes on. verifier_stop() interrupts it from another thread. SQLite's
 * log cannot be reset while a transaction is pinned, so it is closed as soon as the checks end. In
 * order: all checks, open, pin, verify, close, comparison with memory.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

static const struct {
    const char *name;
    const char *text;
} checks[] = {
#define X(id, name, text) [id] = {name, text},
    STORE_CHECK_TABLE(X)
#undef X
};

const char *store_check_name(enum store_check check)
{
    must((size_t)check < ARRAY_LEN(checks));
    return checks[check].name;
}

const char *store_check_text(enum store_check check)
{
    must((size_t)check < ARRAY_LEN(checks));
    return checks[check].text;
}

/* Skips CHECK_MEMORY, which loads a second ledger; a daemon uses store_read_compare() instead. */
static int verify_at_moment(sqlite3 *db, const struct store_schema *schema,
                            enum store_check *out_which, struct err *err)
{
    int failed = 0;

    must(db != NULL);
    for (unsigned i = 0; failed == 0 && i < STORE_CHECKS; i++) {
        *out_which = (enum store_check)i;
        if (*out_which != CHECK_MEMORY)
            failed = check_one(db, schema, *out_which, err);
    }
    must(failed <= 0);
    return failed;
}

struct store_read {
    struct store *store;
    sqlite3 *db;             /* for a ledger in memory, a copy: it has only one connection */
    bool pinned;             /* a read transaction is open */
    atomic_bool interrupted; /* set by any thread, never cleared */
};

int store_read_open(struct store *store, struct store_read **out, struct err *err)
{
    sqlite3 *db = NULL;
    int64_t folded;

    must(store != NULL);
    int failed = db_open(store->memory ? ":memory:" : store->path,
                         store->memory ? DB_CREATE : DB_READ, &db, err);
    /* Reads the schema now, not later in the writer. */
    if (failed == 0 && !store->memory)
        failed = db_number(db, "SELECT folded FROM meta", &folded, err);
    if (failed != 0) {
        db_close(db);
        return failed;
    }
    *out = xcalloc(1, sizeof **out);
    **out = (struct store_read){.store = store, .db = db};
    return 0;
}

/* Copies memory to memory in the writer, without disk I/O. */
static int copy_memory(struct store_read *read, struct err *err)
{
    struct reader reader;

    must(read->store->memory);
    int failed = reader_open(read->store, &reader, err);
    if (failed != 0)
        return failed;
    failed = backup_pages(reader.db, read->db, err);
    reader_done(&reader);
    return failed;
}

/* Maps any error to UNAVAILABLE: SQLite may return any code if it was compiling a statement. */
static int unless_interrupted(struct store_read *read, int failed, struct err *err)
{
    must(failed <= 0);
    if (failed == 0 || !atomic_load(&read->interrupted))
        return failed;
    return err_set(err, ERR_UNAVAILABLE, "%s: the verification was interrupted", read->store->path);
}

int store_read_pin(struct store_read *read, struct err *err)
{
    int64_t last;

    must(!read->pinned);
    int failed = read->store->memory ? copy_memory(read, err) : 0;
    if (failed == 0)
        failed = db_exec(read->db, "BEGIN", err);
    /* The first read, not BEGIN, starts the read transaction. */
    if (failed == 0)
        failed = db_number(read->db, "SELECT coalesce(max(seq), 0) FROM journal", &last, err);
    read->pinned = failed == 0;
    return unless_interrupted(read, failed, err);
}

int store_read_verify(struct store_read *read, enum store_check *out_which, struct err *err)
{
    must(read->pinned);
    const int failed = verify_at_moment(read->db, read->store->schema, out_which, err);
    return unless_interrupted(read, failed, err);
}

void store_read_interrupt(struct store_read *read)
{
    must(read != NULL && read->db != NULL);
    atomic_store(&read->interrupted, true);
    sqlite3_interrupt(read->db);
}

void store_read_close(struct store_read *read)
{
    if (read == NULL)
        return;
    must(read->db != NULL);
    db_rollback(read->db);
    db_close(read->db);
    xfree(read);
}

/* --- memory against disk --- */

/* Compares the canonical JSON of state.c, so that fields added there are included. */
struct likeness {
    sqlite3 *db;
    const struct snapshot *snapshot;
    struct strbuf disk;
    struct strbuf memory;
    uint32_t nodes;       /* number of rows seen */
    uint32_t allocations; /* number of rows seen */
};

static int read_transaction_unlike(const struct likeness *like, const char *kind, const char *name,
                                   bool known, struct err *err)
{
    must(name[0] != '\0');
    if (!known)
        return err_set(err, ERR_CORRUPT, "%s: %s %s is on disk and not in memory",
                       db_name(like->db), kind, name);
    return err_set(err, ERR_CORRUPT, "%s: %s %s is not the same on disk and in memory",
                   db_name(like->db), kind, name);
}

static bool read_transaction_same(struct likeness *like)
{
    must(like->disk.len > 0 && like->memory.len > 0);
    return like->disk.len == like->memory.len &&
           memcmp(like->disk.data, like->memory.data, like->disk.len) == 0;
}

static int like_node(void *user, const struct node_build *build, struct err *err)
{
    struct likeness *like = user;
    const struct node *node = snapshot_node(like->snapshot, atom_text(build->name));

    must(build->name->len > 0);
    like->nodes++;
    if (node == NULL)
        return read_transaction_unlike(like, "node", build->name->text, false, err);
    const struct node_build mine = state_build_of(node);
    strbuf_reset(&like->disk);
    strbuf_reset(&like->memory);
    state_node(&like->disk, build);
    state_node(&like->memory, &mine);
    return read_transaction_same(like)
               ? 0
               : read_transaction_unlike(like, "node", build->name->text, true, err);
}

static int like_allocation(void *user, int64_t id, const struct allocation_facts *facts,
                           struct err *err)
{
    struct likeness *like = user;
    const struct node *node = snapshot_node(like->snapshot, atom_text(facts->node));
    const struct allocation *mine =
        node == NULL ? NULL : node_allocation(node, text_of(facts->uid));

    must(id > 0);
    like->allocations++;
    if (mine == NULL)
        return read_transaction_unlike(like, "the allocation of pod", facts->uid, false, err);
    strbuf_reset(&like->disk);
    strbuf_reset(&like->memory);
    state_allocation(&like->disk, facts);
    state_allocation(&like->memory, &mine->facts);
    return read_transaction_same(like)
               ? 0
               : read_transaction_unlike(like, "the allocation of pod", facts->uid, true, err);
}

/* Fails if the query does not find the name. */
static int read_transaction_missing(const struct likeness *like, sqlite3_stmt *stmt,
                                    const char *kind, const char *name, struct err *err)
{
    struct bind bind = bind_start(stmt);

    bind_text(&bind, name);
    must(bind.rc == SQLITE_OK);
    const int more = db_step(stmt, err);
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    if (more != 0)
        return more < 0 ? more : 0;
    return err_set(err, ERR_CORRUPT, "%s: %s %s is in memory and not on disk", db_name(like->db),
                   kind, name);
}

/*
 * Every row was found in memory, but the counts differ: memory has more objects. Names the first
 * one; the query for each object is expensive, so it runs only in this case.
 */
static int find_missing(const struct likeness *like, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *nodes = NULL;
    CLEANUP(stmt_donep) sqlite3_stmt *pods = NULL;
    const struct node *node;
    uint32_t at = 0;

    must(like->snapshot != NULL);
    int failed = db_prepare(like->db, "SELECT 1 FROM node WHERE name = ?", &nodes, err);
    if (failed == 0)
        failed = db_prepare(like->db, "SELECT 1 FROM allocation WHERE uid = ? AND bytes = 0", &pods,
                            err);
    while (failed == 0 && (node = snapshot_next(like->snapshot, &at)) != NULL) {
        failed = read_transaction_missing(like, nodes, "node", node->name->text, err);
        for (uint32_t i = 0; failed == 0 && i < node->n_allocations; i++)
            failed = read_transaction_missing(like, pods, "the allocation of pod",
                                              node->allocation[i]->facts.uid, err);
    }
    return failed != 0 ? failed
                       : err_set(err, ERR_CORRUPT, "memory counts what neither it nor %s has",
                                 db_name(like->db));
}

int store_read_compare(struct store_read *read, const struct snapshot *snapshot, struct err *err)
{
    struct likeness like = {.db = read->db, .snapshot = snapshot};

    must(read->pinned);
    strbuf_init(&like.disk);
    strbuf_init(&like.memory);
    int failed = rows_nodes(read->db, NULL, &like, like_node, err);
    if (failed == 0)
        failed = rows_allocations(read->db, NULL, false, &like, like_allocation, err);
    if (failed == 0 && (like.nodes != snapshot->nodes || like.allocations != snapshot->allocations))
        failed = find_missing(&like, err);
    strbuf_done(&like.disk);
    strbuf_done(&like.memory);
    return unless_interrupted(read, failed, err);
}
