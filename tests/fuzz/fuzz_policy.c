/*
 * A policy document is refused with its place, or what it says is within the limits and does not
 * contradict itself: every rule lets some request in, and refuses others with a text. The same
 * document, written as JSON, says the same.
 */
#include <string.h>

#include "milligpu/document/document.h"
#include "milligpu/document/policy/policy_document.h"

#include "support.h"
#include "support/zones.h"

enum { NOON_MS = 43200000 };

static int load_zone(const char *name, struct zone **out, struct err *err)
{
    if (strcmp(name, "UTC") == 0)
        *out = zone_utc();
    else if (strcmp(name, "Europe/Berlin") == 0)
        *out = zones_of_rule(name, "CET-1CEST,M3.5.0,M10.5.0/3");
    else
        return err_set(err, ERR_NOT_FOUND, "there is no zone %s", name);
    return 0;
}

/* "x:3:5: ...": the prefix of the text is a place in the document. */
static void begins_with_its_place(const char *text, struct text bytes)
{
    char *end;
    uint32_t lines = 1;

    for (size_t i = 0; i < bytes.len; i++)
        lines += bytes.at[i] == '\n';
    must(strncmp(text, "x:", 2) == 0);
    const unsigned long line = strtoul(text + 2, &end, 10);
    /* libyaml takes more characters than '\n' for the end of a line */
    must(line >= 1 && line <= lines + bytes.len && *end == ':');
    const unsigned long column = strtoul(end + 1, &end, 10);
    must(column >= 1 && column <= bytes.len + 2 && strncmp(end, ": ", 2) == 0 && end[2] != '\0');
}

static void sizes_are_sound(const struct rule *rule)
{
    for (uint32_t i = 0; i < rule->n_sizes; i++) {
        must(rule->size[i] >= 1 && rule->size[i] <= GPU_MILLI);
        must(i == 0 || rule->size[i - 1] < rule->size[i]);
        must(rule->size[i] >= rule->min_milli);
        must(rule->step_milli == 0 || rule->size[i] % rule->step_milli == 0);
    }
}

static bool takes(const struct rule *rule, uint32_t milli)
{
    struct want want = {.container = "c", .parts = 1, .milli = milli};
    const struct request request = {.n_wants = 1, .want = &want};
    return rule_takes(rule, &request);
}

static void rule_is_sound(const struct rulebook *book, const struct rule *rule)
{
    struct want want = {.container = "c", .parts = 1, .milli = 1};
    const struct request request = {.n_wants = 1, .want = &want};
    struct refusal refusal;

    must(rule->name[0] != '\0' && strlen(rule->name) < 64);
    must(rule->n_labels <= RULE_LABELS_MAX && rule->n_namespaces <= RULE_GLOBS_MAX);
    must(rule->n_models <= RULE_GLOBS_MAX && rule->reserve <= RULE_RESERVE_MAX);
    must((rule->window == NULL) == (rule->zone == NULL));
    must(rule->n_sizes <= RULE_SIZES_MAX);
    sizes_are_sound(rule);
    must(takes(rule, rule->n_sizes > 0 ? rule->size[rule->n_sizes - 1] : GPU_MILLI));
    for (const struct rule *before = book->rule; before < rule; before++)
        must(strcmp(before->name, rule->name) != 0);
    if (rule_takes(rule, &request))
        return;
    rulebook_refuse(book, rule, &request, &refusal);
    must(refusal.why == REASON_RULE && strncmp(refusal.text, "policy rule ", 12) == 0);
}

static void book_is_sound(const struct rulebook *book)
{
    uint32_t weight = 0;

    must(book->policy < POLICIES && strlen(book->digest) == 16);
    must(book->n_prices <= PRICES_MAX && book->n_shapes <= RULEBOOK_SHAPES_MAX);
    must(book->n_rules <= RULES_MAX && book->n_zones <= RULES_MAX);
    for (uint32_t i = 0; i < book->n_prices; i++)
        must(book->price[i].price >= 1 && book->price[i].price <= PRICE_MAX);
    for (uint32_t i = 0; i < book->n_shapes; i++) {
        must(book->shape[i].class.parts >= 2 && book->shape[i].class.milli <= GPU_MILLI);
        weight += book->shape[i].weight;
    }
    must(weight <= SHAPE_WEIGHT_MAX);
    for (uint32_t i = 0; i < book->n_rules; i++)
        rule_is_sound(book, &book->rule[i]);
    must(rulebook_next_ms(book, NOON_MS) > NOON_MS);
    must((rulebook_holding(book, NOON_MS) >> book->n_rules) == 0 || book->n_rules == RULES_MAX);
}

static int read_policy(struct text bytes, struct rulebook **out, struct err *err)
{
    static const struct policy_edges edges = {.load_zone = load_zone};
    SCOPED_STRBUF(warnings);
    struct text line;

    *out = NULL;
    const int rc = policy_document_read(bytes, "x", &edges, out, &warnings, err);
    must((rc == 0) == (*out != NULL));
    struct text rest = {warnings.data, warnings.len};
    while (text_cut(&rest, '\n', &line))
        must(line.len == 0 || text_starts(line, "x:"));
    return rc;
}

static bool say_the_same(const struct rulebook *a, const struct rulebook *b)
{
    if (a->policy != b->policy || a->seed != b->seed || a->raise != b->raise ||
        a->prices_by != b->prices_by || a->n_prices != b->n_prices || a->n_shapes != b->n_shapes ||
        a->n_rules != b->n_rules || a->n_zones != b->n_zones)
        return false;
    for (uint32_t i = 0; i < a->n_rules; i++)
        if (strcmp(a->rule[i].name, b->rule[i].name) != 0 ||
            a->rule[i].n_labels != b->rule[i].n_labels ||
            a->rule[i].n_namespaces != b->rule[i].n_namespaces ||
            memcmp(a->rule[i].size, b->rule[i].size, sizeof a->rule[i].size) != 0 ||
            a->rule[i].min_milli != b->rule[i].min_milli)
            return false;
    return rulebook_holding(a, NOON_MS) == rulebook_holding(b, NOON_MS);
}

/* As YAML and as JSON. */
static void json_says_the_same(struct text bytes, int rc, const struct rulebook *book)
{
    SCOPED_STRBUF(json);
    SCOPED_ARENA(arena);
    struct rulebook *second;
    struct document *documents;
    struct err err;

    if (document_parse_file(bytes, "x", &arena, &documents, &err) < 0 || documents->count != 1 ||
        documents->first->kind != DOCUMENT_OBJECT)
        return;
    document_write(&json, documents->first);
    const int again = read_policy((struct text){json.data, json.len}, &second, &err);
    must(again == rc || again == -ERR_TOO_LARGE);
    must(again < 0 || say_the_same(book, second));
    rulebook_unref(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = pieces_rest(&(struct pieces){(const char *)data, size});
    const size_t before = heap_bytes();
    struct rulebook *book;
    struct err err;

    const int rc = read_policy(bytes, &book, &err);
    heap_is_bounded(before, size);
    if (rc < 0)
        begins_with_its_place(err.text, bytes);
    else
        book_is_sound(book);
    json_says_the_same(bytes, rc, book);
    rulebook_unref(book);
    return 0;
}
