/*
 * The checks of a ledger: SQLite's own (pages, references), the live tables among themselves, the
 * charges against the shares, the journal, its replay against the tables, and loading. Called at
 * start (check_file, check_live), by the verifier thread, and by milligpuctl verify. A check only
 * reads, in the caller's transaction, and ends at the first fault: CORRUPT or INTERNAL, with a
 * sentence for people. Any other code means that the check was not completed.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

static int verify_corrupt(sqlite3 *db, const char *what, struct err *err)
{
    must(what[0] != '\0');
    return err_set(err, ERR_CORRUPT, "%s: the ledger is corrupt: %s", db_name(db), what);
}

/* Each query selects violations as sentences; no row means no violation. */
static int check_sentences(sqlite3 *db, const char *const *sql, size_t count, struct err *err)
{
    must(count > 0);
    must(sql[0] != NULL);
    char wrong[256];

    for (size_t i = 0; i < count; i++) {
        const int failed = db_sentence(db, sql[i], wrong, sizeof wrong, err);
        if (failed != 0)
            return failed;
        if (wrong[0] != '\0')
            return verify_corrupt(db, wrong, err);
    }
    return 0;
}

/*
 * SQLite's integrity check reports a failed read in its result, not as an error. An I/O error must
 * not look like a corrupt ledger, which may be moved aside.
 */
static bool could_not_read(const char *answer)
{
    must(answer != NULL);
    return strstr(answer, "unable to get the page") != NULL ||
           strstr(answer, "failed to get page") != NULL;
}

/* quick_check (at start) does not compare indexes with tables. Both end at the first fault. */
static int check_pages(sqlite3 *db, bool thorough, struct err *err)
{
    char answer[256];

    must(db != NULL);
    const int failed =
        db_sentence(db, thorough ? "PRAGMA integrity_check(1)" : "PRAGMA quick_check(1)", answer,
                    sizeof answer, err);
    if (failed != 0)
        return failed;
    if (could_not_read(answer))
        return err_set(err, ERR_IO, "%s: cannot be read: %s", db_name(db), answer);
    return strcmp(answer, "ok") != 0 ? verify_corrupt(db, answer, err) : 0;
}

/* Finds foreign keys broken by later damage: SQLite checks them only when a row is written. */
static int check_references(sqlite3 *db, struct err *err)
{
    static const char *const orphans[] = {
        "SELECT 'a row of table ' || \"table\" || ' has lost its ' || parent"
        " FROM pragma_foreign_key_check LIMIT 1",
    };
    must(db != NULL);
    return check_sentences(db, orphans, ARRAY_LEN(orphans), err);
}

int check_file(sqlite3 *db, bool thorough, struct err *err)
{
    const int failed = check_pages(db, thorough, err);
    must(failed <= 0);
    return failed != 0 ? failed : check_references(db, err);
}

/*
 * One reading of nodes and allocations: compares the charges of each allocation with the sum of its
 * shares. With a ledger, also restores what it reads, unless the ledger has refused an object: then
 * store_load() will say why.
 */
struct row_check {
    sqlite3 *db;
    struct side_rows charges;
    struct ledger *ledger; /* NULL: only compares */
    bool refused;
    bool odd;           /* a node with claims, or with names that its GPUs may not have */
    uint64_t n_charges; /* of the allocations that were read */
};

static int charge_differs(const struct allocation *should, uint32_t i, struct err *err)
{
    char wrong[256];

    must(i < should->n_charges);
    text_clip(text_of(should->facts.uid), wrong, sizeof wrong);
    return err_set(err, ERR_CORRUPT,
                   "the ledger is corrupt: the charge of allocation %s on GPU %s is not what its "
                   "shares come to",
                   wrong, allocation_charge(should, i).gpu->text);
}

/* The rows of one allocation come by GPU. */
struct charges_seen {
    const struct allocation *should;
    uint32_t count;
    int32_t at[PARTS_MAX]; /* position of each charge of should; -1: not seen */
};

static int check_charge(struct charges_seen *seen, struct row *row, struct err *err)
{
    const struct allocation *should = seen->should;
    uint32_t i = 0;

    must(seen->count < should->n_charges);
    /* Reads every column, also after a difference. */
    const struct text gpu = text_of(row_text(row));
    while (i < should->n_charges && !text_eq(atom_text(allocation_charge(should, i).gpu), gpu))
        i++;
    bool same = i < should->n_charges && seen->at[i] < 0;
    i = same ? i : seen->count;
    same &= row_number(row, 1, UINT32_MAX) == allocation_charge(should, i).milli;
    same &= row_number(row, 0, UINT32_MAX) == allocation_charge(should, i).mib;
    same &= text_is(atom_text(should->facts.node), row_text(row));
    same &= (row_number(row, 0, 1) != 0) == (should->facts.state != STATE_RELEASED);
    seen->at[i] = (int32_t)row_number(row, 0, PARTS_MAX - 1);
    const int failed = row_check(row, "charge", err);
    if (failed != 0 || same)
        return failed;
    return charge_differs(should, i, err);
}

/* Are the rows, by position and then by GPU, in the order of the charges? */
static int check_charge_order(const struct charges_seen *seen, struct err *err)
{
    const struct allocation *should = seen->should;

    for (uint32_t i = 1; i < should->n_charges; i++) {
        must(seen->at[i - 1] >= 0 && seen->at[i] >= 0);
        if (seen->at[i - 1] > seen->at[i] ||
            (seen->at[i - 1] == seen->at[i] &&
             atom_cmp(allocation_charge(should, i - 1).gpu, allocation_charge(should, i).gpu) >= 0))
            return charge_differs(should, i - 1, err);
    }
    return 0;
}

/*
 * Compares with the charges that allocation_new() computes from the shares, as for the ledger in
 * memory.
 */
static int check_charges(void *user, int64_t id, const struct allocation_facts *facts,
                         struct err *err)
{
    struct row_check *check = user;
    struct allocation *should = allocation_new(facts);
    UNSET struct charges_seen seen;
    struct err ignored;

    seen.should = should;
    seen.count = 0;
    for (uint32_t i = 0; i < should->n_charges; i++)
        seen.at[i] = -1;
    int more = side_rows_find(&check->charges, id, err);
    while (more > 0) {
        struct row row = row_start(check->charges.stmt);
        (void)row_number(&row, 1, INT64_MAX); /* the allocation */
        more = seen.count < should->n_charges ? check_charge(&seen, &row, err) : 0;
        seen.count++;
        if (more == 0)
            more = side_rows_next(&check->charges, err);
    }
    if (more == 0 && seen.count != should->n_charges)
        more = err_set(err, ERR_CORRUPT,
                       "the ledger is corrupt: allocation %s has %u charges where its shares make "
                       "%u",
                       facts->uid, seen.count, should->n_charges);
    if (more == 0)
        more = check_charge_order(&seen, err);
    allocation_unref(should);
    check->n_charges += seen.count;
    if (more == 0 && check->ledger != NULL && !check->refused)
        check->refused = ledger_restore(check->ledger, facts, &ignored) != 0;
    return more;
}

static int verify_check_allocations(struct row_check *check, struct names *names, bool past,
                                    struct err *err)
{
    must(check->db != NULL && check->charges.stmt == NULL);

    int failed = db_prepare(check->db,
                            "SELECT allocation, gpu, milli, mib, node, live, at FROM charge"
                            " WHERE allocation >= ? ORDER BY allocation, gpu",
                            &check->charges.stmt, err);
    if (failed == 0)
        failed = rows_allocations(check->db, names, past, check, check_charges, err);
    if (failed != 0)
        (void)err_wrap(err, "%s", db_name(check->db));
    (void)sqlite3_finalize(check->charges.stmt); /* repeats the error of the step */
    return failed;
}

static int check_all_charges(sqlite3 *db, bool past, struct err *err)
{
    struct row_check check = {.db = db};
    const int failed = verify_check_allocations(&check, NULL, past, err);
    must(failed <= 0);
    return failed;
}

/* Do two GPUs share a name, or is it gone and shows one? The ids are distinct. */
static bool has_odd_gpus(const struct node_build *build)
{
    for (uint32_t i = 0; i < build->n_gpus; i++) {
        const struct gpu *gpu = &build->gpu[i];
        if (build->gone && (gpu->flags & GPU_ABSENT) == 0)
            return true;
        /* The number of its id as an alias; 0 for a UUID. */
        const uint32_t number = gpu_alias_number(build->name, atom_text(gpu->id));
        for (uint32_t k = 0; k < build->n_gpus; k++) {
            const struct gpu *other = &build->gpu[k];
            if (other->alias == gpu->id || (number > 0 && other->alias_number == number) ||
                (k > i && gpu_has_alias(gpu) && gpu_alias_same(gpu, other)))
                return true;
        }
    }
    return false;
}

/* Reading checks the node; the ledger, if there is one, gets it. */
static int check_node(void *user, const struct node_build *build, struct err *err)
{
    struct row_check *check = user;
    struct err ignored;

    must(build->name != NULL);
    must(err != NULL);
    check->odd |= build->n_owned_ids > 0 || has_odd_gpus(build);
    if (check->ledger != NULL && !check->refused)
        check->refused = ledger_restore_node(check->ledger, build, &ignored) != 0;
    return 0;
}

static int check_nodes(sqlite3 *db, struct err *err)
{
    struct row_check check = {.db = db};
    const int failed = rows_nodes(db, NULL, &check, check_node, err);
    must(failed <= 0);
    return failed;
}

/*
 * Repeats the CHECKs and triggers of the schema, which hold at each write: damage or another
 * program may have changed the file since. No OR between columns: SQLite would clear a table of its
 * own for each row. proved: only the first sentence (is_proved()).
 *
 * No check of ours reads the learned workload: it does not affect who holds what, so a
 * contradiction in it is no reason to stop granting (safe mode) or to move the ledger aside.
 * store_learned() refuses it, and then milligpud learns anew. SQLite's check of the pages covers
 * its tables, because a damaged page is damage anywhere.
 */
static int check_rows(sqlite3 *db, bool proved, struct err *err)
{
    static const char *const wrong[] = {
        "SELECT 'there is not one row in meta' FROM (SELECT count(*) AS rows FROM meta)"
        " WHERE rows <> 1",
        "SELECT 'pod ' || uid || ' has two live allocations' FROM allocation"
        " WHERE bytes = 0 GROUP BY uid HAVING count(*) > 1",
        "SELECT 'GPU ' || a.id || ' of node ' || a.node || ' goes by a name of GPU ' || b.id"
        " FROM gpu AS a JOIN gpu AS b ON b.node = a.node AND b.id = a.alias",
        "SELECT 'GPU ' || a.id || ' of node ' || a.node || ' goes by a name of GPU ' || b.id"
        " FROM gpu AS a JOIN gpu AS b ON b.node = a.node AND b.alias = a.alias AND b.id <> a.id",
        "SELECT 'node ' || g.node || ' is gone, yet shows GPU ' || g.id FROM node AS n"
        " CROSS JOIN gpu AS g ON g.node = n.name WHERE n.gone = 1 AND g.flags & 1 = 0",
        "SELECT 'node ' || c.node || ' claims GPU ' || c.gpu || ', which node ' || g.node || ' has'"
        " FROM claim AS c JOIN gpu AS g ON g.id = c.gpu WHERE g.node = c.node OR g.flags & 8 = 0",
        "SELECT 'node ' || c.node || ' is gone, yet claims GPU ' || c.gpu FROM claim AS c"
        " JOIN node AS n ON n.name = c.node WHERE n.gone = 1",
        "SELECT 'a charge is live on GPU ' || gpu || ', its allocation is not' FROM charge"
        " WHERE live = 1 AND node IS NOT"
        " (SELECT a.lives_on FROM allocation AS a WHERE a.id = charge.allocation)",
        "SELECT 'node ' || node || ' does not have GPU ' || gpu || ', which is charged'"
        " FROM charge WHERE live = 1 AND NOT EXISTS (SELECT 1 FROM gpu AS g"
        " WHERE g.node = charge.node AND g.id = charge.gpu) AND NOT EXISTS (SELECT 1 FROM gpu AS g"
        " WHERE g.node = charge.node AND g.alias = charge.gpu)",
        /* Not the GPU's milli, which may have shrunk below its grants; 1000 is the maximum. */
        "SELECT 'grants of ' || sum(c.milli) || ' milli on GPU ' || c.gpu FROM charge AS c"
        " JOIN allocation AS a ON a.id = c.allocation WHERE c.live = 1 AND a.origin = 'granted'"
        " GROUP BY c.node, c.gpu HAVING sum(c.milli) > 1000",
    };
    static_assert(GPU_MILLI == 1000, "the last sentence says so");

    must(db != NULL);
    return check_sentences(db, wrong, proved ? 1 : ARRAY_LEN(wrong), err);
}

static int check_present(sqlite3 *db, struct err *err)
{
    const int failed = check_rows(db, false, err);
    must(failed <= 0);
    return failed != 0 ? failed : check_nodes(db, err);
}

/* Is a GPU charged beyond the greatest GPU? */
static bool has_full_gpus(const struct ledger *ledger)
{
    const struct node *node;

    for (size_t at = 0; (node = ledger_next_node(ledger, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_gpus; i++)
            if ((uint64_t)node->gpu[i].used_milli + node->gpu[i].reserved_milli > GPU_MILLI)
                return true;
    return false;
}

/*
 * Does the reading show that no sentence of check_rows() but the first can find a row?
 *
 *   two live allocations of a pod      the ledger refuses the second
 *   a GPU by the name of another,      has_odd_gpus()
 *   a GPU of a node that is gone
 *   claims                             there are none
 *   a live charge whose allocation     the charges of live allocations are live, on its node, and
 *   is not                             as many as there are live ones
 *   a charge of a GPU that the node    they name the GPUs of the shares, and the ledger refuses a
 *   does not have                      share of a GPU that is not of its node
 *   grants beyond a GPU                all charges of a GPU, by any of its names, are not
 */
static int is_proved(const struct row_check *check, bool *out, struct err *err)
{
    int64_t live = 0;

    *out = false;
    if (check->refused || check->odd || has_full_gpus(check->ledger))
        return 0;
    const int failed =
        db_number(check->db, "SELECT count(*) FROM charge NOT INDEXED WHERE live = 1", &live, err);
    *out = failed == 0 && (uint64_t)live == check->n_charges;
    return failed;
}

/* Reads each row once, for the checks and for the ledger. */
static int read_live(struct row_check *check, bool *out_proved, struct err *err)
{
    struct names *names = ledger_names(check->ledger);

    *out_proved = false;
    int failed = rows_nodes(check->db, names, check, check_node, err);
    if (failed == 0)
        failed = verify_check_allocations(check, names, false, err);
    return failed != 0 ? failed : is_proved(check, out_proved, err);
}

/*
 * The sentences search whole tables for what the reading nearly always shows already. Where it does
 * not, or found a fault, they are asked, and what they find is said first.
 */
int check_live(sqlite3 *db, struct ledger **out, struct err *err)
{
    struct row_check check = {.db = db, .ledger = ledger_new()};
    bool proved = false;
    struct err why;

    *out = NULL;
    int failed = read_live(&check, &proved, &why);
    if (failed == 0 || failed == -(int)ERR_CORRUPT) {
        const int rows = check_rows(db, proved, err);
        if (rows == 0 && failed != 0)
            *err = why;
        failed = rows != 0 ? rows : failed;
    } else {
        *err = why;
    }
    if (failed == 0 && !check.refused)
        *out = STEAL(check.ledger);
    ledger_free(check.ledger);
    must(failed <= 0);
    return failed;
}

/* Checks the history, its counts in past, and its packs. */
static int check_past(sqlite3 *db, struct err *err)
{
    static const char *const wrong[] = {
        "SELECT 'the history of namespace ' || namespace || ' is not what is counted of it'"
        " FROM past AS p WHERE (n_rows, bytes) IS NOT (SELECT count(*), sum(bytes)"
        " FROM allocation WHERE bytes > 0 AND past_of = p.namespace)",
        "SELECT 'nothing is counted of the history of namespace ' || past_of FROM allocation"
        " WHERE bytes > 0 AND past_of NOT IN (SELECT namespace FROM past)",
        "SELECT 'pack ' || p.id || ' of the history is not what is said of it' FROM pack AS p"
        " WHERE (n_rows, first, last, began_ms, oldest_ms, ended_ms) IS NOT"
        " (SELECT count(DISTINCT u.id), min(u.id), max(u.id),"
        " min(iif(u.reserved_ms <> 0, u.reserved_ms, u.bound_ms)), min(u.released_ms),"
        " max(u.released_ms) FROM unpack AS u WHERE u.body = p.body)",
        "SELECT 'pack ' || p.id || ' of the history has pods of namespace ' || u.namespace"
        " FROM pack AS p JOIN unpack AS u ON u.body = p.body"
        " WHERE p.past_of NOT IN ('', u.namespace)",
        "SELECT 'allocation ' || a.id || ' is also in pack ' || p.id || ' of the history'"
        " FROM pack AS p JOIN unpack AS u ON u.body = p.body JOIN allocation AS a ON a.id = u.id",
    };

    must(db != NULL);
    const int failed = check_all_charges(db, true, err);
    return failed != 0 ? failed : check_sentences(db, wrong, ARRAY_LEN(wrong), err);
}

static int check_journal(sqlite3 *db, struct err *err)
{
    static const char *const wrong[] = {
        "SELECT 'the journal has a gap' FROM (SELECT count(*) AS rows, min(seq) AS first,"
        " max(seq) AS last FROM journal), meta"
        " WHERE rows > 0 AND (first <> folded + 1 OR last <> folded + rows)",
        "SELECT 'journal entry ' || seq || ' is no JSON' FROM journal"
        " WHERE NOT json_valid(command) OR NOT json_valid(result)",
        "SELECT 'the baseline knows entry ' || seq || ', which is not folded yet'"
        " FROM baseline, meta WHERE seq > folded",
    };

    must(db != NULL);
    return check_sentences(db, wrong, ARRAY_LEN(wrong), err);
}

/*
 * An object according to the journal. Its last state is stored as digests, so that the memory for
 * an object does not depend on its size.
 */
struct replayed {
    uint64_t state; /* digest of state_step() or state_node() */
    uint64_t kept;  /* digest of state_kept(); of "" for a node */
    bool seen;      /* a live row exists and is equal */
    char key[];
};

struct replay {
    sqlite3 *db;
    struct map replayed; /* struct replayed, by key ("node/..." or "allocation/...") */
    struct strbuf text;  /* a key */
    struct strbuf state; /* of a live row */
    struct strbuf kept;  /* of a live row; "" for a node */
};

/* FNV-1a: different states collide with a probability of 2^-64. */
static uint64_t verify_digest(const char *state)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    must(state != NULL);
    for (const char *at = state; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return hash;
}

/* The key is in replay->text. */
static struct text verify_key_of(struct replay *replay, const char *kind, const char *name)
{
    strbuf_reset(&replay->text);
    strbuf_printf(&replay->text, "%s/%s", kind, name);
    must(replay->text.len > 0);
    return (struct text){replay->text.data, replay->text.len};
}

/* Call in order of seq: the last state of an object wins. kept NULL: unchanged. */
static void verify_note(struct replay *replay, const char *kind, const char *name,
                        const char *state, const char *kept)
{
    const struct text key = verify_key_of(replay, kind, name);
    struct replayed *replayed = map_find(&replay->replayed, key);

    if (replayed == NULL) {
        replayed = xmalloc(sizeof *replayed + key.len + 1);
        memcpy(replayed->key, key.at, key.len + 1);
        replayed->kept = verify_digest("");
        must(map_put(&replay->replayed, text_of(replayed->key), replayed) == NULL);
    }
    if (kept != NULL)
        replayed->kept = verify_digest(kept);
    replayed->state = verify_digest(state);
    replayed->seen = false;
}

/* Removes an ended object, which has no live row. */
static void verify_forget(struct replay *replay, const char *kind, const char *name)
{
    must(name != NULL);
    xfree(map_take(&replay->replayed, verify_key_of(replay, kind, name)));
}

/* Loads the state before the oldest entry of the journal. */
static int replay_baseline(struct replay *replay, struct err *err)
{
    must(replay->replayed.count == 0);
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    int more = db_prepare(replay->db,
                          "SELECT key, iif(json_valid(state), json_remove(state, " STATE_KEPT_PATHS
                          "), state), iif(json_valid(state) AND json_type(state, '$.shares') IS"
                          " NOT NULL, json_remove(state, " STATE_STEP_PATHS "), NULL)"
                          " FROM baseline",
                          &stmt, err);
    while (more == 0 && (more = db_step(stmt, err)) > 0) {
        struct row row = row_start(stmt);
        const char *key = row_text(&row);
        const char *state = row_text(&row);
        const char *kept = row_text_or_null(&row);
        more = row_check(&row, "baseline", err);
        const char *slash = strchr(key, '/');
        if (more == 0 && slash == NULL)
            more = verify_corrupt(replay->db, "a baseline of neither node nor allocation", err);
        if (more < 0)
            return more;
        CLEANUP(xfreep) char *kind = xstrdup(key);
        kind[slash - key] = '\0';
        verify_note(replay, kind, slash + 1, state, kept);
    }
    return more;
}

/* An entry may contain an allocation and its node. Reads all columns, also after a fault. */
static int replay_row(struct replay *replay, sqlite3_stmt *stmt, struct err *err)
{
    must(sqlite3_column_count(stmt) == 8);
    static const char *const kinds[] = {"allocation", "node"};
    struct row row = row_start(stmt);

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const char *name = row_text_or_null(&row);
        const char *state = row_text_or_null(&row);
        const char *kept = row_text_or_null(&row);
        const int64_t left = row_number(&row, 0, 1);
        if (row.fault == NULL && (name == NULL) != (state == NULL))
            return verify_corrupt(replay->db, "a journal entry of nothing that has a name", err);
        if (row.fault != NULL || name == NULL)
            continue;
        if (left != 0)
            verify_forget(replay, kinds[i], name);
        else
            verify_note(replay, kinds[i], name, state, kept);
    }
    return row_check(&row, "journal", err);
}

/* Skips entries that are not JSON: check_journal() reports them. */
static int replay_journal(struct replay *replay, struct err *err)
{
    must(replay->db != NULL);
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;

    int more = db_prepare(replay->db,
                          "SELECT json_extract(result, '$.allocation.uid'),"
                          " json_remove(json_extract(result, '$.allocation'), " STATE_KEPT_PATHS
                          "), iif(json_type(result, '$.allocation.shares') IS NOT NULL,"
                          " json_remove(json_extract(result, '$.allocation'), " STATE_STEP_PATHS
                          "), NULL),"
                          " json_extract(result, '$.allocation.state') IS 'released',"
                          " json_extract(result, '$.node.name'), json_extract(result, '$.node'),"
                          " NULL,"
                          " json_extract(result, '$.node.removed') IS 1"
                          " FROM journal WHERE json_valid(result) ORDER BY seq",
                          &stmt, err);
    while (more == 0 && (more = db_step(stmt, err)) > 0)
        more = replay_row(replay, stmt, err);
    return more;
}

/* Compares the live state, in replay->state and replay->kept, with the journal's. */
static int verify_compare(struct replay *replay, const char *kind, const char *name,
                          struct err *err)
{
    must(replay->state.len > 0);
    struct replayed *replayed = map_find(&replay->replayed, verify_key_of(replay, kind, name));
    if (replayed != NULL && replayed->state == verify_digest(replay->state.data) &&
        replayed->kept == verify_digest(replay->kept.len > 0 ? replay->kept.data : "")) {
        replayed->seen = true;
        return 0;
    }
    return err_set(err, ERR_CORRUPT, "%s: %s %s: the journal %s", db_name(replay->db), kind, name,
                   replayed == NULL ? "does not know it" : "tells it otherwise than the table");
}

static int compare_node(void *user, const struct node_build *build, struct err *err)
{
    must(user != NULL);
    struct replay *replay = user;

    strbuf_reset(&replay->state);
    strbuf_reset(&replay->kept);
    state_node(&replay->state, build);
    return verify_compare(replay, "node", build->name->text, err);
}

static int compare_allocation(void *user, int64_t id, const struct allocation_facts *facts,
                              struct err *err)
{
    struct replay *replay = user;

    must(id > 0);
    strbuf_reset(&replay->state);
    strbuf_reset(&replay->kept);
    state_step(&replay->state, facts);
    state_kept(&replay->kept, facts);
    return verify_compare(replay, "allocation", facts->uid, err);
}

/* Finds objects of the journal that have no live row. */
static int compare_rest(struct replay *replay, struct err *err)
{
    must(replay->db != NULL);
    const struct replayed *replayed;
    size_t at = 0;

    while ((replayed = map_next(&replay->replayed, &at)) != NULL)
        if (!replayed->seen)
            return err_set(err, ERR_CORRUPT, "%s: %s: the journal knows it, the tables do not",
                           db_name(replay->db), replayed->key);
    return 0;
}

/* I6. Reads the whole baseline and journal; memory: key and digests of each live object. */
static int check_replay(sqlite3 *db, struct err *err)
{
    struct replay replay = {.db = db};

    must(db != NULL);
    map_init(&replay.replayed);
    strbuf_init(&replay.text);
    strbuf_init(&replay.state);
    strbuf_init(&replay.kept);
    int failed = replay_baseline(&replay, err);
    if (failed == 0)
        failed = replay_journal(&replay, err);
    if (failed == 0)
        failed = rows_nodes(db, NULL, &replay, compare_node, err);
    if (failed == 0)
        failed = rows_allocations(db, NULL, false, &replay, compare_allocation, err);
    if (failed == 0)
        failed = compare_rest(&replay, err);

    struct replayed *replayed;
    size_t at = 0;
    while ((replayed = map_next(&replay.replayed, &at)) != NULL)
        xfree(replayed);
    map_done(&replay.replayed);
    strbuf_done(&replay.text);
    strbuf_done(&replay.state);
    strbuf_done(&replay.kept);
    return failed;
}

static int load_node(void *user, const struct node_build *build, struct err *err)
{
    must(user != NULL);
    return ledger_restore_node(user, build, err);
}

static int load_allocation(void *user, int64_t id, const struct allocation_facts *facts,
                           struct err *err)
{
    must(user != NULL);
    must(id > 0);
    return ledger_restore(user, facts, err);
}

/* Nodes first: an allocation is restored on its node. */
int check_load(sqlite3 *db, struct ledger *ledger, struct err *err)
{
    struct names *names = ledger_names(ledger);

    must(db != NULL);
    const int failed = rows_nodes(db, names, ledger, load_node, err);
    return failed != 0 ? failed : rows_allocations(db, names, false, ledger, load_allocation, err);
}

/* Checks the ledger in memory as after a start of the daemon. */
static int check_memory(sqlite3 *db, struct err *err)
{
    struct ledger *ledger = ledger_new();

    int failed = check_load(db, ledger, err);
    if (failed == 0)
        failed = ledger_check(ledger, err);
    must(failed <= 0);
    ledger_free(ledger);
    return failed;
}

int check_one(sqlite3 *db, const struct store_schema *schema, enum store_check which,
              struct err *err)
{
    must(db != NULL && schema != NULL);
    switch (which) {
    case CHECK_PAGES:
        return check_pages(db, true, err);
    case CHECK_REFERENCES:
        return check_references(db, err);
    case CHECK_PRESENT:
        return check_present(db, err);
    case CHECK_CHARGES:
        return check_all_charges(db, false, err);
    case CHECK_MEMORY:
        return check_memory(db, err);
    case CHECK_JOURNAL:
        return check_journal(db, err);
    case CHECK_REPLAY:
        return check_replay(db, err);
    case CHECK_TABLES:
        return schema_check(db, schema, err);
    case CHECK_PAST:
        return check_past(db, err);
    case STORE_CHECKS:
        break;
    }
    must_not_reach("every check is listed");
}
