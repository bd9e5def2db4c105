/*
 * Packs rows of the history when the ledger comes near its limit: many allocations in one row of
 * the table pack (pack.h), which takes about a tenth of the bytes. Called by trim.c in the writer.
 * The output of history, granted and doctor does not change; containers are not packed.
 */
#include "milligpu/base/alloc.h"

#include "pack.h"
#include "store/store_internal.h"

/* Overhead of a pack: half of the body's last page, and its row in table and indexes. */
enum { PACK_BYTES = 2048 + 150 };

/* Reads the columns of an allocation; texts are valid until the next step. */
static void packs_read(struct row *row, struct packed *out)
{
    must(row->at == 0);
    out->id = row_number(row, 1, INT64_MAX);
    out->uid = row_text(row);
    out->namespace = row_text(row);
    out->name = row_text(row);
    out->node = row_text(row);
    out->node_uid = row_text(row);
    out->reserved_ms = row_number(row, INT64_MIN, INT64_MAX);
    out->bound_ms = row_number(row, INT64_MIN, INT64_MAX);
    out->released_ms = row_number(row, INT64_MIN, INT64_MAX);
    out->unplaced_milli = (uint32_t)row_number(row, 0, UINT32_MAX);
}

/* Copies the names of GPUs, because SQLite's are valid only until the next step. */
static int packs_read_charges(struct store *store, struct arena *arena, struct packed *out,
                              struct err *err)
{
    sqlite3_stmt *stmt = store->stmt[ST_PACK_CHARGES];
    struct bind bind = bind_start(stmt);
    int more = 0;

    out->n_charges = 0;
    bind_number(&bind, out->id);
    must(bind.rc == SQLITE_OK);
    while (out->n_charges < PARTS_MAX && (more = db_step(stmt, err)) > 0) {
        struct row row = row_start(stmt);
        struct packed_charge *charge = &out->charge[out->n_charges++];
        charge->at = (uint32_t)row_number(&row, 0, PARTS_MAX - 1);
        charge->gpu = arena_copy(arena, text_of(row_text(&row)));
        charge->milli = (uint32_t)row_number(&row, 1, UINT32_MAX);
        charge->mib = (uint32_t)row_number(&row, 0, UINT32_MAX);
        more = row_check(&row, "charge", err);
        if (more < 0)
            break;
    }
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return more < 0 ? more : 0;
}

static int packs_take(struct store *store, struct packer *packer, struct arena *arena,
                      struct packed *packed, struct err *err)
{
    sqlite3_stmt *stmt = store->stmt[ST_PACK_ROWS];
    struct row row = row_start(stmt);

    must(sqlite3_column_count(stmt) == 10);
    arena_reset(arena);
    packs_read(&row, packed);
    int failed = row_check(&row, "allocation", err);
    if (failed == 0)
        failed = packs_read_charges(store, arena, packed, err);
    if (failed == 0)
        packer_add(packer, packed);
    return failed;
}

static int packs_collect(struct store *store, const struct past_most *most, struct packer *packer,
                         struct err *err)
{
    struct bind bind = bind_start(store->stmt[ST_PACK_ROWS]);
    struct packed *packed = xcalloc(1, sizeof *packed);
    struct arena arena;
    int more;

    arena_init(&arena);
    bind_text(&bind, most->namespace);
    bind_number(&bind, most->piece);
    must(bind.rc == SQLITE_OK);
    while ((more = db_step(bind.stmt, err)) > 0)
        if ((more = packs_take(store, packer, &arena, packed, err)) < 0)
            break;
    (void)sqlite3_reset(bind.stmt); /* repeats the error of the step */
    arena_done(&arena);
    xfree(packed);
    return more;
}

static int packs_insert(struct store *store, const char *namespace, const struct packer *packer,
                        struct err *err)
{
    const struct pack_facts *facts = &packer->facts;
    struct bind bind = bind_start(store->stmt[ST_PACK_ADD]);
    CLEANUP(strbuf_done) struct strbuf body;

    must(facts->rows > 0 && facts->first <= facts->last);
    strbuf_init(&body);
    packer_finish(packer, &body);
    bind_text(&bind, namespace);
    bind_number(&bind, facts->rows);
    bind_number(&bind, facts->first);
    bind_number(&bind, facts->last);
    bind_number(&bind, facts->began_ms);
    bind_number(&bind, facts->oldest_ms);
    bind_number(&bind, facts->ended_ms);
    bind_number(&bind, (int64_t)body.len + PACK_BYTES);
    bind_bytes(&bind, (struct text){body.data, body.len});
    return bind_run(&bind, NULL, err);
}

/* Deletes the packed rows: the same transaction and order select the same rows. */
static int packs_replace(struct store *store, const struct past_most *most,
                         const struct packer *packer, int *out_rows, struct err *err)
{
    struct bind bind = bind_start(store->stmt[ST_PAST_TRIM]);

    must(most->piece > 0 && packer->facts.rows > 0);
    bind_text(&bind, most->namespace);
    bind_number(&bind, most->piece);
    int failed = bind_run(&bind, out_rows, err);
    if (failed != 0)
        return failed;
    if ((uint32_t)*out_rows != packer->facts.rows)
        return err_set(err, ERR_INTERNAL, "packed %u allocations of the history and dropped %d",
                       packer->facts.rows, *out_rows);
    return packs_insert(store, most->namespace, packer, err);
}

int packs_add(struct store *store, int *out_rows, struct err *err)
{
    const int64_t most_rows = INT64_C(2) * store->limits.fold;
    struct past_most most;
    struct packer packer;

    must(!store->in_batch);
    *out_rows = 0;
    int failed = past_find_most(store, ST_PAST_MOST, &most, err);
    CLEANUP(xfreep) char *namespace = most.namespace;
    /* No small packs: their texts would be shared by few allocations. */
    if (failed != 0 || namespace == NULL || most.bytes < store->limits.piece / 2)
        return failed;
    if (most.piece > most_rows)
        most.piece = most_rows;
    packer_init(&packer);
    failed = packs_collect(store, &most, &packer, err);
    if (failed == 0 && packer.facts.rows > 0)
        failed = packs_replace(store, &most, &packer, out_rows, err);
    packer_done(&packer);
    return failed;
}
