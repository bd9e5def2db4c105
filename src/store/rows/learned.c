/*
 * Stores the learned workload (tally.h). Called in the writer, over its connection: store_ops.learn
 * writes, store_learned() reads once at start. The file is untrusted input: the result is a valid
 * tally or an error.
 */
#include <inttypes.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/arena.h"

#include "store/store_internal.h"

/* Limit of one class, as in the CHECK of the schema: a request has up to 32 models of 128 bytes. */
enum { MODELS_TEXT_MAX = 65536 };

/* --- writing --- */

static void learned_models(struct strbuf *out, const struct workload_class *class)
{
    must(class->n_models == 0 || class->model != NULL);
    strbuf_reset(out);
    strbuf_char(out, '[');
    for (uint32_t i = 0; i < class->n_models; i++) {
        if (i > 0)
            strbuf_char(out, ',');
        strbuf_json(out, text_of(class->model[i]));
    }
    strbuf_char(out, ']');
}

static int learned_add(struct store *store, uint32_t place, const struct workload_class *class,
                       struct strbuf *models, struct err *err)
{
    must(place < WORKLOAD_CLASSES_MAX);
    learned_models(models, class);
    struct bind bind = bind_start(store->stmt[ST_CLASS_ADD]);
    bind_number(&bind, place);
    bind_number(&bind, class->host.cpu_milli);
    bind_number(&bind, class->host.memory_mib);
    bind_number(&bind, class->parts);
    bind_number(&bind, class->milli);
    bind_number(&bind, class->share_mib);
    bind_number(&bind, class->count);
    bind_text(&bind, models->data);
    const int failed = bind_run(&bind, NULL, err);
    return failed != 0 ? err_wrap(err, "class %" PRIu32, place) : 0;
}

int learned_write(struct store *store, const struct tally *tally, int64_t until_ms, struct err *err)
{
    struct strbuf models;

    must(store->in_batch);
    must(tally_pods(tally) <= INT64_MAX);
    int failed = db_run(store->stmt[ST_CLASSES_DROP], err);
    if (failed == 0)
        failed = db_run(store->stmt[ST_LEARNED_DROP], err);
    if (failed != 0)
        return failed;
    struct bind bind = bind_start(store->stmt[ST_LEARNED_ADD]);
    bind_number(&bind, (int64_t)tally_pods(tally));
    bind_number(&bind, until_ms);
    failed = bind_run(&bind, NULL, err);
    strbuf_init(&models);
    for (uint32_t i = 0; failed == 0 && i < tally_classes(tally); i++)
        failed = learned_add(store, i, tally_class(tally, i), &models, err);
    strbuf_done(&models);
    return failed;
}

/* --- reading --- */

struct learned {
    struct store *store;
    struct arena arena; /* the models of all classes */
    struct strbuf text; /* expected text of the models of one class */
    uint64_t pods;
    int64_t until_ms;
    bool stored; /* table learned has a row */
    uint32_t n_classes;
    /* one more than a tally has, so that tally_restore() detects an excess */
    struct workload_class class[WORKLOAD_CLASSES_MAX + 1];
};

static int learned_wrong_models(const struct learned *learned, struct err *err)
{
    must(learned->n_classes <= WORKLOAD_CLASSES_MAX);
    return err_set(err, ERR_CORRUPT,
                   "class %u: models: a JSON array of texts, of at most %d bytes, would be right",
                   learned->n_classes, MODELS_TEXT_MAX);
}

/*
 * Requires the exact text that learned_models() writes for the result: SQLite also accepts others
 * (a text that ends at a NUL, an object). json is valid JSON.
 */
static int learned_read_models(struct learned *learned, const char *json,
                               struct workload_class *class, struct err *err)
{
    sqlite3_stmt *stmt = learned->store->stmt[ST_MODELS];
    struct bind bind = bind_start(stmt);
    const size_t room = strlen(json) / 3 + 1; /* the shortest texts: ["",""] */
    int more;

    class->model = arena_array(&learned->arena, room, sizeof *class->model);
    bind_text(&bind, json);
    must(bind.rc == SQLITE_OK);
    while ((more = db_step(stmt, err)) > 0) {
        struct row row = row_start(stmt);
        const char *model = row_text(&row);
        if (row.fault != NULL)
            break;
        must(class->n_models < room);
        class->model[class->n_models++] = arena_copy(&learned->arena, text_of(model));
    }
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    if (more < 0)
        return more;
    learned_models(&learned->text, class);
    return strcmp(learned->text.data, json) != 0 ? learned_wrong_models(learned, err) : 0;
}

enum learned_number {
    NUMBER_CPU,
    NUMBER_MEMORY,
    NUMBER_PARTS,
    NUMBER_MILLI,
    NUMBER_SHARE,
    NUMBER_WEIGHT,
    NUMBERS
};

/* Reads number[] in the order of the SELECT; the error names the first invalid column. */
static int learned_read_numbers(struct row *row, int64_t place, uint32_t number[NUMBERS],
                                struct err *err)
{
    static const struct {
        const char *name;
        uint32_t least;
        uint32_t most;
    } column[NUMBERS] = {
        [NUMBER_CPU] = {"cpu_milli", 0, UINT32_MAX},
        [NUMBER_MEMORY] = {"memory_mib", 0, UINT32_MAX},
        [NUMBER_PARTS] = {"parts", 1, GPUS_PER_NODE_MAX},
        [NUMBER_MILLI] = {"milli", 1, GPU_MILLI},
        [NUMBER_SHARE] = {"share_mib", 0, UINT32_MAX},
        [NUMBER_WEIGHT] = {"weight", 1, TALLY_SUM_MAX},
    };

    for (unsigned i = 0; i < NUMBERS; i++) {
        number[i] = (uint32_t)row_number(row, column[i].least, column[i].most);
        if (row->fault != NULL)
            return err_set(err, ERR_CORRUPT,
                           "class %" PRId64 ": %s: %" PRIu32 " to %" PRIu32 " would be right",
                           place, column[i].name, column[i].least, column[i].most);
    }
    return 0;
}

static int learned_read_class(struct learned *learned, struct err *err)
{
    struct row row = row_start(learned->store->stmt[ST_CLASSES]);
    struct workload_class *class = &learned->class[learned->n_classes];
    uint32_t number[NUMBERS] = {0};

    must(learned->n_classes < ARRAY_LEN(learned->class));
    const int64_t place = row_number(&row, INT64_MIN, INT64_MAX);
    if (place != learned->n_classes)
        return err_set(err, ERR_CORRUPT, "class %" PRId64 ": place: %" PRIu32 " would be right",
                       place, learned->n_classes);
    const int failed = learned_read_numbers(&row, place, number, err);
    if (failed != 0)
        return failed;
    *class = (struct workload_class){
        .host = {.cpu_milli = number[NUMBER_CPU], .memory_mib = number[NUMBER_MEMORY]},
        .parts = number[NUMBER_PARTS],
        .milli = number[NUMBER_MILLI],
        .share_mib = number[NUMBER_SHARE],
        .count = number[NUMBER_WEIGHT],
    };
    const char *models = row_text(&row);
    const bool valid = row_number(&row, 0, 1) != 0;
    if (row.fault != NULL || !valid || strlen(models) > MODELS_TEXT_MAX)
        return learned_wrong_models(learned, err);
    return learned_read_models(learned, models, class, err);
}

static int learned_read_classes(struct learned *learned, struct err *err)
{
    sqlite3_stmt *stmt = learned->store->stmt[ST_CLASSES];
    struct bind bind = bind_start(stmt);
    int more;

    bind_number(&bind, ARRAY_LEN(learned->class));
    must(bind.rc == SQLITE_OK);
    while ((more = db_step(stmt, err)) > 0) {
        more = learned_read_class(learned, err);
        if (more < 0)
            break;
        learned->n_classes++;
    }
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return more;
}

static int learned_read_pods(struct learned *learned, struct err *err)
{
    sqlite3_stmt *stmt = learned->store->stmt[ST_LEARNED];
    int more;

    must(!learned->stored);
    while ((more = db_step(stmt, err)) > 0) {
        struct row row = row_start(stmt);
        learned->pods = (uint64_t)row_number(&row, 0, INT64_MAX);
        learned->until_ms = row_number(&row, INT64_MIN, INT64_MAX);
        if (learned->stored)
            more = err_set(err, ERR_CORRUPT, "several rows in table learned: one would be right");
        else if (row.fault != NULL)
            more = err_set(err, ERR_CORRUPT, "table learned: %s: a number from 0 on would be right",
                           row.fault);
        if (more < 0)
            break;
        learned->stored = true;
    }
    (void)sqlite3_reset(stmt); /* repeats the error of the step */
    return more;
}

/* Needs no transaction, because nobody but the writer writes. */
static int learned_read(struct learned *learned, struct tally **out, struct err *err)
{
    int failed = learned_read_pods(learned, err);
    if (failed == 0)
        failed = learned_read_classes(learned, err);
    if (failed != 0)
        return failed;
    if (!learned->stored && learned->n_classes > 0)
        return err_set(err, ERR_CORRUPT,
                       "classes without a row in table learned: one would be right");
    if (!learned->stored)
        return 0;
    must(learned->n_classes <= ARRAY_LEN(learned->class));
    const struct tally_rows rows = {
        .pods = learned->pods, .n_classes = learned->n_classes, .class = learned->class};
    return tally_restore(&rows, out, err);
}

int store_learned(struct store *store, struct tally **out, int64_t *out_until_ms, struct err *err)
{
    struct learned *learned = xcalloc(1, sizeof *learned);

    must(!store->in_batch);
    learned->store = store;
    arena_init(&learned->arena);
    strbuf_init(&learned->text);
    *out = NULL;
    must(sole_thread_admits(&store->writer));
    store_lock(store);
    const int failed = learned_read(learned, out, err);
    store_unlock(store);
    *out_until_ms = learned->until_ms;
    strbuf_done(&learned->text);
    arena_done(&learned->arena);
    xfree(learned);
    must(failed == 0 || *out == NULL);
    return failed != 0 ? err_wrap(err, "%s: the learned workload", store->path) : 0;
}
