/*
 * Reads a policy document into a rulebook: the keys of the whole document; policy_rules.c reads the
 * rules. The document's tree is freed afterwards; the rulebook has copies in its own arena. Called
 * by policy_choice.c.
 */
#include <inttypes.h>
#include <string.h>

#include "milligpu/base/limits.h"
#include "milligpu/core/facts/host.h"
#include "milligpu/core/facts/quantity.h"

#include "policy_reader.h"

#define POLICY_API_VERSION "milligpu.io/v1"

/* --- what every object has --- */

static int read_api_version(struct policy_reader *in, const struct document *value, void *unused)
{
    static const char *const word[] = {POLICY_API_VERSION};
    size_t at = 0;

    must(unused == NULL);
    return policy_read_word(in, value, word, ARRAY_LEN(word), &at);
}

static int read_object_kind(struct policy_reader *in, const struct document *value, void *unused)
{
    static const char *const word[] = {"Policy"};
    size_t at = 0;

    must(unused == NULL);
    return policy_read_word(in, value, word, ARRAY_LEN(word), &at);
}

/* --- the order of placements --- */

static int read_policy(struct policy_reader *in, const struct document *value, void *unused)
{
    must(unused == NULL);
    return policy_read_kind(in, value, &in->book->policy);
}

static int read_seed(struct policy_reader *in, const struct document *value, void *unused)
{
    must(unused == NULL);
    return policy_read_number(in, value, (struct policy_range){0, UINT32_MAX}, &in->book->seed);
}

static int read_memory(struct policy_reader *in, const struct document *value, void *unused)
{
    enum memory_mode mode;

    must(unused == NULL);
    if (policy_read_memory(in, value, &mode) < 0)
        return err_same(in->err);
    in->book->raise = mode == MEMORY_RAISE;
    return 0;
}

/* --- prices --- */

static int read_price(struct policy_reader *in, const struct document *value,
                      const struct model_price *before, struct model_price *out)
{
    if (policy_read_model(in, value->key, value, &out->model) < 0 ||
        policy_read_number(in, value, (struct policy_range){1, PRICE_MAX}, &out->price) < 0)
        return err_same(in->err);
    for (const struct model_price *at = before; at < out; at++) {
        must(at->model != NULL);
        if (glob_covers(text_of(at->model), text_of(out->model)))
            return policy_wrong(in, value, "never counts, because %.60s comes before it",
                                at->model);
    }
    return 0;
}

static int read_price_table(struct policy_reader *in, const struct document *value)
{
    struct rulebook *book = in->book;

    if (value->count == 0)
        return policy_wrong(in, value, "is empty; write known or off, or prices of models");
    if (value->count > PRICES_MAX)
        return policy_wrong(in, value, "has %u prices; at most %d are allowed", value->count,
                            PRICES_MAX);
    struct model_price *price = arena_array(&book->arena, value->count, sizeof *price);
    document_each (item, value)
        if (read_price(in, item, price, &price[book->n_prices++]) < 0)
            return err_same(in->err);
    must(book->n_prices == value->count);
    book->price = price;
    return 0;
}

/* In YAML a plain off is false. */
static int read_prices(struct policy_reader *in, const struct document *value, void *unused)
{
    static const char *const word[] = {"off", "known"};
    size_t at = 0;

    must(unused == NULL);
    if (value->kind == DOCUMENT_BOOL && text_is(value->text, "false"))
        return 0;
    in->book->prices_by = PRICES_KNOWN;
    if (value->kind == DOCUMENT_OBJECT)
        return read_price_table(in, value);
    if (value->kind != DOCUMENT_STRING)
        return policy_wrong(in, value, "is %s; write off, known, or a mapping of models to prices",
                            document_kind_name(value->kind));
    if (policy_read_word(in, value, word, ARRAY_LEN(word), &at) < 0)
        return err_same(in->err);
    in->book->prices_by = at == 0 ? PRICES_OFF : PRICES_KNOWN;
    return 0;
}

/* --- shapes that are expected --- */

static int read_gpus(struct policy_reader *in, const struct document *value, void *into)
{
    struct expected_shape *shape = into;

    must(shape->class.parts == 0);
    return policy_read_number(in, value, (struct policy_range){2, GPUS_PER_NODE_MAX},
                              &shape->class.parts);
}

static int read_milli(struct policy_reader *in, const struct document *value, void *into)
{
    struct expected_shape *shape = into;

    must(shape->class.parts > 0);
    return policy_read_number(in, value, (struct policy_range){1, GPU_MILLI}, &shape->class.milli);
}

struct amount_kind {
    unsigned decimals;
    int64_t unit;
    const char *example;
};

/* Reads a quantity; *out is its number of units, rounded up. */
static int read_amount(struct policy_reader *in, const struct document *value,
                       const struct amount_kind *kind, uint32_t *out)
{
    int64_t amount = 0;

    must(kind->unit > 0);
    if (value->kind != DOCUMENT_STRING && value->kind != DOCUMENT_NUMBER)
        return policy_wrong(in, value, "is %s; write an amount, such as %s",
                            document_kind_name(value->kind), kind->example);
    const enum quantity_verdict verdict = quantity_ceil(value->text, kind->decimals, &amount);
    if (verdict == QUANTITY_SYNTAX)
        return policy_wrong(in, value, "\"%.60s\" is not an amount; write one such as %s",
                            value->shown, kind->example);
    const bool little = verdict == QUANTITY_OK && amount < kind->unit;
    if (verdict != QUANTITY_OK || little || amount / kind->unit >= HOST_UNKNOWN - 1)
        return policy_wrong(in, value, "%.60s is too %s for a pod; write an amount such as %s",
                            value->text.at, little ? "little" : "much", kind->example);
    *out = (uint32_t)(amount / kind->unit + (amount % kind->unit > 0 ? 1 : 0));
    return 0;
}

static int read_cpu(struct policy_reader *in, const struct document *value, void *into)
{
    static const struct amount_kind cpu = {3, 1, "64 or 500m"};
    struct expected_shape *shape = into;

    must(shape->class.host.cpu_milli == 0);
    return read_amount(in, value, &cpu, &shape->class.host.cpu_milli);
}

static int read_host_memory(struct policy_reader *in, const struct document *value, void *into)
{
    static const struct amount_kind memory = {0, HOST_MIB_BYTES, "512Gi"};
    struct expected_shape *shape = into;

    must(shape->class.host.memory_mib == 0);
    return read_amount(in, value, &memory, &shape->class.host.memory_mib);
}

static int read_weight(struct policy_reader *in, const struct document *value, void *into)
{
    struct expected_shape *shape = into;

    must(shape->weight == 0);
    return policy_read_number(in, value, (struct policy_range){1, SHAPE_WEIGHT_MAX},
                              &shape->weight);
}

static int read_shape_models(struct policy_reader *in, const struct document *value, void *into)
{
    struct expected_shape *shape = into;

    must(shape->class.n_models == 0);
    if (policy_read_models(in, value, MODELS_MAX, &shape->class.model) < 0)
        return err_same(in->err);
    shape->class.n_models = value->count;
    return 0;
}

static int read_shape(struct policy_reader *in, const struct document *item,
                      struct expected_shape *out)
{
    static const struct policy_key key[] = {
        {"gpus", read_gpus, true},
        {"milli", read_milli, false},
        {"cpu", read_cpu, false},
        {"memory", read_host_memory, false},
        {"models", read_shape_models, false},
        {"weight", read_weight, true},
    };
    static const struct policy_keys keys = {key, ARRAY_LEN(key), "a shape"};

    *out = (struct expected_shape){.class = {.milli = GPU_MILLI, .count = 1}};
    must(out->weight == 0);
    return policy_read_keys(in, item, &keys, out);
}

static int read_workload(struct policy_reader *in, const struct document *value, void *unused)
{
    struct rulebook *book = in->book;
    uint32_t weight = 0;

    must(unused == NULL && book->n_shapes == 0);
    if (policy_check_list(in, value, RULEBOOK_SHAPES_MAX) < 0)
        return err_same(in->err);
    struct expected_shape *shape = arena_array(&book->arena, value->count, sizeof *shape);
    document_each (item, value) {
        struct expected_shape *own = &shape[book->n_shapes];
        if (read_shape(in, item, own) < 0)
            return err_same(in->err);
        for (uint32_t i = 0; i < book->n_shapes; i++)
            if (workload_alike(&shape[i].class, &own->class))
                return policy_wrong(in, item, "asks for the same as workload[%u]", i);
        weight += own->weight;
        book->n_shapes++;
    }
    if (weight > SHAPE_WEIGHT_MAX)
        return policy_wrong(in, value,
                            "the weights add up to %u; at most %d of 1,000 pods, because those "
                            "that really come are the rest",
                            weight, SHAPE_WEIGHT_MAX);
    book->shape = shape;
    return 0;
}

/* --- the document --- */

/* Equal on all machines of one byte order, so that people can compare it. */
static const char *digest_of(struct text bytes, struct arena *arena)
{
    static const uint64_t high = 0x6D696C6C69677075U;
    static const uint64_t low = 0x706F6C6963790001U;

    must(bytes.at != NULL);
    return arena_printf(arena, "%08" PRIx32 "%08" PRIx32, text_hash_by(bytes, high),
                        text_hash_by(bytes, low));
}

static int read_root(struct policy_reader *in, const struct document *documents)
{
    static const struct policy_key key[] = {
        {"apiVersion", read_api_version, true}, {"kind", read_object_kind, true},
        {"policy", read_policy, true},          {"seed", read_seed, false},
        {"prices", read_prices, false},         {"memory", read_memory, false},
        {"workload", read_workload, false},     {"rules", policy_read_rules, false},
    };
    static const struct policy_keys keys = {key, ARRAY_LEN(key), "a policy document"};

    must(documents->kind == DOCUMENT_ARRAY);
    if (documents->count == 0)
        return err_set(in->err, ERR_INVALID,
                       "%.200s:1:1: is empty; a policy document begins with \"apiVersion: "
                       "" POLICY_API_VERSION "\"",
                       in->file);
    in->root = documents->first;
    if (documents->count == 1)
        return policy_read_keys(in, in->root, &keys, NULL);
    const struct document_mark second = documents->first->next->at;
    return err_set(in->err, ERR_INVALID,
                   "%.200s:%u:%u: a second document; a file has one policy document", in->file,
                   second.line, second.column);
}

static int read_document(struct policy_reader *in, struct text bytes)
{
    CLEANUP(arena_done) struct arena arena;
    struct document *documents;

    arena_init(&arena);
    if (bytes.len > POLICY_BYTES_MAX)
        return err_set(in->err, ERR_TOO_LARGE,
                       "%.200s:1:1: is larger than 1 MiB; is it a policy document?", in->file);
    if (document_parse_file(bytes, in->file, &arena, &documents, in->err) < 0)
        return err_same(in->err);
    must(documents != NULL);
    in->book->digest = digest_of(bytes, &in->book->arena);
    return read_root(in, documents);
}

int policy_document_read(struct text bytes, const char *file, const struct policy_edges *edges,
                         struct rulebook **out, struct strbuf *warnings, struct err *err)
{
    struct policy_reader in = {
        .file = file,
        .edges = edges,
        .book = rulebook_new(POLICY_BINPACK, file),
        .warnings = warnings,
        .err = err,
    };

    must(bytes.at != NULL && edges->load_zone != NULL);
    if (read_document(&in, bytes) < 0) {
        rulebook_unref(in.book);
        return err_same(err);
    }
    *out = in.book;
    return 0;
}
