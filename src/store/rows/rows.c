/*
 * Turns rows into facts: nodes with their GPUs and claims, allocations with their shares. Called by
 * store_load() at start and by every check, in the thread that owns the connection. The file is
 * untrusted input: each column has a range, each allocation must satisfy allocation_fault(), and
 * the first fault ends the reading with CORRUPT. Columns are read in the order of the SELECT. The
 * arguments of each() are borrowed for the call. In order: names, words, GPUs, claims, nodes,
 * shares, allocations.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

enum {
    /* Limit of a node's GPUs: far more than it can show plus absent ones that its pods can hold. */
    GPU_ROWS_MAX = 4096,
    /* Names of former rows that are kept for nobody: they fit a CPU's cache. */
    NAMES_AT_HAND = 2048,
    NODES_SEEN = 32,             /* after which the number of names is guessed */
    NAMES_GUESSED_MAX = 1 << 20, /* for any file */
};

/* The table that the names of the next row are in. */
struct row_names {
    struct names *names;
    bool is_own; /* nobody keeps a name from one row to the next */
};

static struct row_names row_names_start(struct names *names)
{
    const bool is_own = names == NULL;
    return (struct row_names){is_own ? names_new() : names, is_own};
}

/* A table of all names of the ledger would take memory, and each look-up would miss the caches. */
static void row_names_next(struct row_names *at)
{
    must(at->names != NULL);
    if (!at->is_own || names_count(at->names) <= NAMES_AT_HAND)
        return;
    names_free(at->names);
    at->names = names_new();
}

static void row_names_end(struct row_names *at)
{
    must(at->names != NULL);
    if (at->is_own)
        names_free(at->names);
    at->names = NULL;
}

static const struct atom *rows_intern(struct names *names, const char *text)
{
    must(text != NULL);
    return names_intern(names, text_of(text));
}

static enum inventory_source rows_read_source(struct row *row)
{
    static const enum inventory_source known[] = {SOURCE_NONE, SOURCE_ANNOTATION, SOURCE_LABEL,
                                                  SOURCE_ALLOCATABLE};
    const char *words[ARRAY_LEN(known)];
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        words[i] = inventory_source_name(known[i]);
    return known[row_word(row, words, ARRAY_LEN(known))];
}

static enum inventory_problem read_problem(struct row *row)
{
    static const enum inventory_problem known[] = {
#define X(code, word, text) code,
        INVENTORY_PROBLEMS(X)
#undef X
    };
    const char *words[ARRAY_LEN(known)];
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        words[i] = inventory_problem_name(known[i]);
    return known[row_word(row, words, ARRAY_LEN(known))];
}

/* Stored fields only: use, reservations and other flags are recomputed (docs/why/002). */
static struct gpu rows_read_gpu(struct row *row, const struct atom *node, struct names *names)
{
    struct gpu gpu = {.id = rows_intern(names, row_text(row))};

    const char *alias = row_text_or_null(row);
    if (alias != NULL)
        gpu_set_alias(&gpu, node, text_of(alias), names);
    gpu.model = rows_intern(names, row_text(row));
    gpu.milli = (uint32_t)row_number(row, 1, GPU_MILLI);
    gpu.mib = (uint32_t)row_number(row, 0, UINT32_MAX);
    gpu.index = (uint16_t)row_number(row, 0, UINT16_MAX);
    gpu.numa = (int16_t)row_number(row, INT16_MIN, INT16_MAX);
    gpu.flags = (uint16_t)row_number(row, 0, GPU_FLAGS_KEPT);
    gpu.peers = (uint64_t)row_number(row, INT64_MIN, INT64_MAX);
    must(gpu.id != NULL && gpu.model != NULL);
    return gpu;
}

struct node_rows {
    sqlite3_stmt *nodes;
    sqlite3_stmt *gpus;
    sqlite3_stmt *owned_ids;
    struct row_names in;
    struct gpu *gpu; /* GPUs of the current node, including absent ones; reused */
    uint32_t count;  /* of gpu */
    uint32_t shown;  /* number of GPUs that are not absent */
    uint32_t n_read; /* nodes */
    size_t capacity; /* of gpu */
    const struct atom *owned_id[GPUS_PER_NODE_MAX];
};

static bool gpu_comes_before(const struct gpu *a, const struct gpu *b)
{
    must(a->id != NULL && b->id != NULL);
    if ((a->flags & GPU_ABSENT) != (b->flags & GPU_ABSENT))
        return (a->flags & GPU_ABSENT) == 0;
    return a->index < b->index;
}

/*
 * In the order of invariant 3 of node.h; the rows come by id. Stable. Nearly always there is
 * nothing to move, and SQLite would make a sorter for each node.
 */
static void sort_gpus(struct gpu *gpu, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const struct gpu moving = gpu[i];
        uint32_t at = i;
        for (; at > 0 && gpu_comes_before(&moving, &gpu[at - 1]); at--)
            gpu[at] = gpu[at - 1];
        gpu[at] = moving;
    }
}

static int read_gpus(struct node_rows *rows, const struct atom *node, struct err *err)
{
    struct bind bind = bind_start(rows->gpus);
    int more;

    rows->count = 0;
    rows->shown = 0;
    bind_text(&bind, node->text);
    must(bind.rc == SQLITE_OK);
    while ((more = db_step(rows->gpus, err)) > 0) {
        struct row row = row_start(rows->gpus);
        const struct gpu gpu = rows_read_gpu(&row, node, rows->in.names);
        more = row_check(&row, "gpu", err);
        if (more < 0)
            break;
        rows->shown += (gpu.flags & GPU_ABSENT) == 0;
        rows->gpu = xgrow(rows->gpu, rows->count, &rows->capacity, sizeof *rows->gpu);
        rows->gpu[rows->count++] = gpu;
        /* A Node shows a limited number of GPUs; pods may hold further ones, which are absent. */
        if (rows->shown > GPUS_PER_NODE_MAX || rows->count > GPU_ROWS_MAX) {
            more = err_set(err, ERR_CORRUPT, "node %s: more than %d GPUs", node->text,
                           GPUS_PER_NODE_MAX);
            break;
        }
    }
    (void)sqlite3_reset(rows->gpus); /* repeats the error of the step */
    sort_gpus(rows->gpu, rows->count);
    return more;
}

/* Reads table claim: UUIDs that this Node showed first and does not show now. */
static int read_owned_ids(struct node_rows *rows, const char *node, uint32_t *out_count,
                          struct err *err)
{
    struct bind bind = bind_start(rows->owned_ids);
    uint32_t count = 0;
    int more;

    bind_text(&bind, node);
    must(bind.rc == SQLITE_OK);
    while ((more = db_step(rows->owned_ids, err)) > 0) {
        if (count == ARRAY_LEN(rows->owned_id)) {
            more = err_set(err, ERR_CORRUPT, "node %s: it claims more than %d GPUs", node,
                           GPUS_PER_NODE_MAX);
            break;
        }
        struct row row = row_start(rows->owned_ids);
        rows->owned_id[count++] = rows_intern(rows->in.names, row_text(&row));
        more = row_check(&row, "claim", err);
        if (more < 0)
            break;
    }
    (void)sqlite3_reset(rows->owned_ids); /* repeats the error of the step */
    *out_count = count;
    return more;
}

/* The arrays in out belong to rows and are valid until the next node. */
static int rows_read_node(struct node_rows *rows, struct node_build *out, struct err *err)
{
    must(rows->in.names != NULL);
    struct row row = row_start(rows->nodes);

    *out = (struct node_build){.name = rows_intern(rows->in.names, row_name(&row))};
    out->uid = rows_intern(rows->in.names, row_text(&row));
    out->source = rows_read_source(&row);
    out->problem = read_problem(&row);
    out->problem_text = rows_intern(rows->in.names, row_text(&row));
    out->gone = row_number(&row, 0, 1) != 0;
    out->since_ms = row_number(&row, INT64_MIN, INT64_MAX);
    int failed = row_check(&row, "node", err);
    if (failed == 0)
        failed = read_gpus(rows, out->name, err);
    if (failed == 0)
        failed = read_owned_ids(rows, out->name->text, &out->n_owned_ids, err);
    out->owned_id = rows->owned_id;
    out->n_gpus = rows->count;
    out->gpu = rows->gpu;
    return failed;
}

/*
 * Makes room for the names of all nodes, if they are like the first ones: a table that grows with
 * each name visits another name in memory for each.
 */
static int expect_names(sqlite3 *db, struct names *names, struct err *err)
{
    int64_t nodes = 0;

    const int failed = db_number(db, "SELECT count(*) FROM node", &nodes, err);
    if (failed != 0)
        return failed;
    const size_t each = names_count(names) / NODES_SEEN;
    const size_t all = nodes < NODES_MAX ? each * (size_t)nodes : NAMES_GUESSED_MAX;
    names_reserve(names, all < NAMES_GUESSED_MAX ? all : NAMES_GUESSED_MAX);
    return 0;
}

int rows_nodes(sqlite3 *db, struct names *names, void *user, rows_node *each, struct err *err)
{
    struct node_rows rows = {.in = row_names_start(names)};

    must(each != NULL);
    int more = db_prepare(db,
                          "SELECT name, uid, source, problem, problem_text, gone, since_ms"
                          " FROM node ORDER BY name",
                          &rows.nodes, err);
    if (more == 0)
        more = db_prepare(db,
                          "SELECT id, alias, model, milli, mib, idx, numa, flags, peers FROM gpu"
                          " WHERE node = ? ORDER BY id",
                          &rows.gpus, err);
    if (more == 0)
        more = db_prepare(db, "SELECT gpu FROM claim WHERE node = ? ORDER BY gpu", &rows.owned_ids,
                          err);
    while (more == 0 && (more = db_step(rows.nodes, err)) > 0) {
        struct node_build build;
        row_names_next(&rows.in);
        more = rows_read_node(&rows, &build, err);
        if (more == 0)
            more = each(user, &build, err);
        if (more == 0 && ++rows.n_read == NODES_SEEN && !rows.in.is_own)
            more = expect_names(db, names, err);
    }
    (void)sqlite3_finalize(rows.nodes); /* repeats the error of the step */
    (void)sqlite3_finalize(rows.gpus);
    (void)sqlite3_finalize(rows.owned_ids);
    xfree(rows.gpu);
    row_names_end(&rows.in);
    return more;
}

/* Passing over a row costs a tenth of a search. */
enum { SIDE_ROWS_MOST = 4 };

static int side_rows_step(struct side_rows *rows, struct err *err)
{
    const int more = db_step(rows->stmt, err);
    rows->has_row = more > 0;
    if (rows->has_row)
        rows->id = sqlite3_column_int64(rows->stmt, 0);
    return more < 0 ? more : 0;
}

static int side_rows_search(struct side_rows *rows, int64_t id, struct err *err)
{
    (void)sqlite3_reset(rows->stmt); /* no step has failed */
    struct bind bind = bind_start(rows->stmt);
    bind_number(&bind, id);
    must(bind.rc == SQLITE_OK);
    rows->runs = true;
    return side_rows_step(rows, err);
}

int side_rows_find(struct side_rows *rows, int64_t id, struct err *err)
{
    int passed = 0;
    int failed = 0;

    must(id > 0);
    while (failed == 0 && rows->has_row && rows->id < id && passed++ < rows->most)
        failed = side_rows_step(rows, err);
    const bool is_behind = !rows->runs || (rows->has_row && rows->id < id);
    /* Where much history lies between, nothing is passed over in vain each time. */
    rows->most = is_behind ? rows->most / 2 : SIDE_ROWS_MOST;
    if (failed == 0 && is_behind)
        failed = side_rows_search(rows, id, err);
    return failed != 0 ? failed : rows->has_row && rows->id == id;
}

int side_rows_next(struct side_rows *rows, struct err *err)
{
    const int64_t id = rows->id;

    must(rows->has_row);
    const int failed = side_rows_step(rows, err);
    return failed != 0 ? failed : rows->has_row && rows->id == id;
}

struct allocation_rows {
    sqlite3_stmt *allocations;
    struct side_rows shares;
    struct row_names in;
    struct arena arena;     /* container names of the current allocation */
    struct share *share;    /* PARTS_MAX elements, owned; shares of the current allocation */
    uint16_t at[PARTS_MAX]; /* their positions */
};

/* By position; the rows come by container and GPU. Stable. */
static void sort_shares(struct allocation_rows *rows, uint32_t count)
{
    must(count <= PARTS_MAX);
    for (uint32_t i = 1; i < count; i++) {
        const struct share moving = rows->share[i];
        const uint16_t position = rows->at[i];
        uint32_t at = i;
        for (; at > 0 && rows->at[at - 1] > position; at--) {
            rows->share[at] = rows->share[at - 1];
            rows->at[at] = rows->at[at - 1];
        }
        rows->share[at] = moving;
        rows->at[at] = position;
    }
}

static struct share rows_read_share(struct row *row, struct names *names, struct arena *arena)
{
    static const char *const kinds[] = {"app", "init", "sidecar"};
    struct share share = {.container = arena_copy(arena, text_of(row_text(row)))};

    static_assert(CONTAINER_APP == 0 && CONTAINER_INIT == 1 && CONTAINER_SIDECAR == 2,
                  "the words stand in the order of the kinds");
    share.kind = (enum container_kind)row_word(row, kinds, ARRAY_LEN(kinds));
    share.order = (uint16_t)row_number(row, 0, UINT16_MAX);
    share.gpu = rows_intern(names, row_text(row));
    share.milli = (uint32_t)row_number(row, 1, GPU_MILLI);
    share.mib = (uint32_t)row_number(row, 0, UINT32_MAX);
    share.asked = (uint32_t)row_number(row, 1, GPU_MILLI);
    return share;
}

static int rows_read_shares(struct allocation_rows *rows, int64_t id, uint32_t *out_count,
                            struct err *err)
{
    uint32_t count = 0;

    arena_reset(&rows->arena);
    int more = side_rows_find(&rows->shares, id, err);
    while (more > 0) {
        if (count == PARTS_MAX)
            return err_set(err, ERR_CORRUPT, "allocation %lld: more than %d shares", (long long)id,
                           PARTS_MAX);
        struct row row = row_start(rows->shares.stmt);
        (void)row_number(&row, 1, INT64_MAX); /* the allocation */
        rows->share[count] = rows_read_share(&row, rows->in.names, &rows->arena);
        rows->at[count++] = (uint16_t)row_number(&row, 0, PARTS_MAX - 1);
        more = row_check(&row, "share", err);
        if (more == 0)
            more = side_rows_next(&rows->shares, err);
    }
    sort_shares(rows, count);
    *out_count = count;
    return more;
}

/*
 * uid, namespace and name are valid until the next step of this statement; reading the shares,
 * which have a statement of their own, does not invalidate them.
 */
static void read_facts(struct row *row, struct names *names, struct allocation_facts *out)
{
    static const char *const states[] = {"reserved", "bound", "released"};
    static const char *const origins[] = {"granted", "observed"};

    static_assert(STATE_RESERVED == 0 && STATE_BOUND == 1 && STATE_RELEASED == 2,
                  "the words stand in the order of the states");
    static_assert(ORIGIN_GRANTED == 0 && ORIGIN_ADOPTED == 1, "and so do the origins");
    *out = (struct allocation_facts){.uid = row_text(row)};
    out->namespace = row_text(row);
    out->name = row_text(row);
    out->node = rows_intern(names, row_text(row));
    out->node_uid = rows_intern(names, row_text(row));
    out->state = (enum allocation_state)row_word(row, states, ARRAY_LEN(states));
    out->origin = (enum allocation_origin)row_word(row, origins, ARRAY_LEN(origins));
    out->presumed = row_number(row, 0, 1) != 0;
    out->in_doubt = row_number(row, 0, 1) != 0;
    out->annotation_differs = row_number(row, 0, 1) != 0;
    out->held_gpus = (uint32_t)row_number(row, 0, UINT32_MAX);
    out->unplaced_milli = (uint32_t)row_number(row, 0, UINT32_MAX);
    out->reserved_ms = row_number(row, INT64_MIN, INT64_MAX);
    out->bound_ms = row_number(row, INT64_MIN, INT64_MAX);
    out->released_ms = row_number(row, INT64_MIN, INT64_MAX);
    out->terminating_ms = row_number(row, INT64_MIN, INT64_MAX);
    out->version = (uint64_t)row_number(row, 0, INT64_MAX);
}

static int read_allocation(struct allocation_rows *rows, void *user, rows_allocation *each,
                           struct err *err)
{
    must(rows->share != NULL);
    struct allocation_facts facts;
    struct row row = row_start(rows->allocations);

    const int64_t id = row_number(&row, 1, INT64_MAX);
    read_facts(&row, rows->in.names, &facts);
    /* SQLite generates the column when a row is written, and does not compare it afterwards. */
    (void)row_number(&row, 1, 1);
    int failed = row_check(&row, "allocation", err);
    if (failed == 0)
        failed = rows_read_shares(rows, id, &facts.n_shares, err);
    if (failed != 0)
        return failed;
    facts.share = rows->share;
    /* Finds values that contradict each other. */
    const char *fault = allocation_fault(&facts);
    if (fault != NULL)
        return err_set(err, ERR_CORRUPT, "allocation %s: %s", facts.uid, fault);
    return each(user, id, &facts, err);
}

#define ALLOCATION_COLUMNS                                                                         \
    "SELECT id, uid, namespace, name, node, node_uid, state, origin, presumed, in_doubt,"          \
    " note_differs, held_gpus, unplaced_milli, reserved_ms, bound_ms, released_ms,"                \
    " terminating_ms, version, "

/* Reads either live or released allocations: the latter are many, and a start skips them. */
int rows_allocations(sqlite3 *db, struct names *names, bool past, void *user, rows_allocation *each,
                     struct err *err)
{
    struct allocation_rows rows = {.in = row_names_start(names)};

    must(each != NULL);
    arena_init(&rows.arena);
    rows.share = xcalloc(PARTS_MAX, sizeof *rows.share);
    int more = db_prepare(db,
                          past ? ALLOCATION_COLUMNS "lives_on IS NULL AS lives_on FROM allocation"
                                                    " WHERE state = 'released' ORDER BY id"
                               : ALLOCATION_COLUMNS "lives_on IS node AS lives_on FROM allocation"
                                                    " WHERE state <> 'released' ORDER BY id",
                          &rows.allocations, err);
    if (more == 0)
        more = db_prepare(db,
                          "SELECT allocation, container, kind, life, gpu, milli, mib,"
                          " coalesce(asked, milli), at FROM share WHERE allocation >= ?"
                          " ORDER BY allocation, container, gpu",
                          &rows.shares.stmt, err);
    while (more == 0 && (more = db_step(rows.allocations, err)) > 0) {
        row_names_next(&rows.in);
        more = read_allocation(&rows, user, each, err);
    }
    (void)sqlite3_finalize(rows.allocations); /* repeats the error of the step */
    (void)sqlite3_finalize(rows.shares.stmt);
    xfree(rows.share);
    arena_done(&rows.arena);
    row_names_end(&rows.in);
    return more;
}
