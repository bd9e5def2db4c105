/*
 * Reads the rules of a policy document: the nodes, namespaces and hours of each rule, its demands,
 * and whether they contradict each other. Called by policy_document.c.
 */
#include <string.h>

#include "policy_reader.h"

enum {
    RULE_NAME_BYTES_MAX = 63,
    LABEL_KEY_BYTES_MAX = NAME_BYTES_MAX + 1 + 63,
    LABEL_VALUE_BYTES_MAX = 128, /* limit of a glob: more than any value needs */
    NAMESPACE_BYTES_MAX = 63,
    WHEN_BYTES_MAX = 128,
    EQUAL_MAX = 100,
};

static bool one_of_chars(struct text text, const char *more)
{
    must(text.at != NULL);
    for (size_t i = 0; i < text.len; i++) {
        const char c = text_lower(text.at[i]);
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || strchr(more, c) == NULL))
            return false;
    }
    return true;
}

/* --- where and when it applies --- */

static int read_name(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;
    struct text name;

    must(rule->name == NULL);
    if (policy_read_text(in, value, RULE_NAME_BYTES_MAX, &name) < 0)
        return err_same(in->err);
    rule->name = arena_copy(&in->book->arena, name);
    return 0;
}

/* Loads each zone once. */
static int take_zone(struct policy_reader *in, const struct document *value, const char *name,
                     const struct zone **out)
{
    struct rulebook *book = in->book;

    for (uint32_t i = 0; i < book->n_zones; i++)
        if (strcmp(zone_name(book->zone[i]), name) == 0) {
            *out = book->zone[i];
            return 0;
        }
    must(book->n_zones < RULES_MAX);
    if (in->edges->load_zone(name, &book->zone[book->n_zones], in->err) < 0)
        return policy_wrong_at(in, value, value->at);
    *out = book->zone[book->n_zones++];
    return 0;
}

static int read_when(struct policy_reader *in, const struct document *value, void *into)
{
    struct window *window = arena_alloc(&in->book->arena, sizeof *window);
    struct rule *rule = into;
    struct text text;

    must(rule->window == NULL);
    if (policy_read_text(in, value, WHEN_BYTES_MAX, &text) < 0)
        return err_same(in->err);
    if (window_parse(text, window, in->err) < 0)
        return policy_wrong_at(in, value, value->at);
    if (take_zone(in, value, window->zone, &rule->zone) < 0)
        return err_same(in->err);
    rule->window = window;
    if (window_always(window))
        policy_warn(in, value, "holds all the time; leave it out");
    return 0;
}

static int read_label(struct policy_reader *in, const struct document *value, struct label *out)
{
    struct text glob;

    if (value->key.len == 0 || value->key.len > LABEL_KEY_BYTES_MAX ||
        !one_of_chars(value->key, "-_./"))
        return policy_wrong(in, value, "is not the key of a label");
    if (value->kind == DOCUMENT_STRING && value->text.len == 0) {
        glob = TEXT("");
    } else if (policy_read_text(in, value, LABEL_VALUE_BYTES_MAX, &glob) < 0) {
        return err_same(in->err);
    }
    if (!one_of_chars(glob, "-_.*?"))
        return policy_wrong(in, value, "\"%.60s\" matches no value of a label", value->shown);
    out->key = arena_copy(&in->book->arena, value->key);
    out->value = arena_copy(&in->book->arena, glob);
    must(out->key[0] != '\0');
    return 0;
}

static int read_nodes(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;

    must(rule->n_labels == 0);
    if (value->kind != DOCUMENT_OBJECT)
        return policy_wrong(in, value, "is %s; write a mapping of labels to values",
                            document_kind_name(value->kind));
    if (value->count == 0)
        return policy_wrong(in, value, "is empty; write a label, or leave it out for every node");
    if (value->count > RULE_LABELS_MAX)
        return policy_wrong(in, value, "has %u labels; at most %d are allowed", value->count,
                            RULE_LABELS_MAX);
    struct label *label = arena_array(&in->book->arena, value->count, sizeof *label);
    document_each (item, value)
        if (read_label(in, item, &label[rule->n_labels++]) < 0)
            return err_same(in->err);
    rule->label = label;
    return 0;
}

static int read_namespaces(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;

    must(rule->n_namespaces == 0);
    if (policy_check_list(in, value, RULE_GLOBS_MAX) < 0)
        return err_same(in->err);
    const char **glob = arena_array(&in->book->arena, value->count, sizeof *glob);
    document_each (item, value) {
        struct text text = {0};
        if (policy_read_text(in, item, NAMESPACE_BYTES_MAX, &text) < 0)
            return err_same(in->err);
        if (!one_of_chars(text, "-*?"))
            return policy_wrong(in, item, "\"%.60s\" matches no namespace", item->shown);
        glob[rule->n_namespaces++] = arena_copy(&in->book->arena, text);
    }
    rule->namespace = glob;
    return policy_check_distinct(in, value);
}

/* --- what it says --- */

static int read_order(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;

    must(!rule->has_order);
    rule->has_order = true;
    return policy_read_kind(in, value, &rule->policy);
}

static int read_whole(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;

    must(!rule->whole);
    return policy_read_bool(in, value, &rule->whole);
}

static int read_reserve(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;

    must(rule->reserve == 0);
    return policy_read_number(in, value, (struct policy_range){1, RULE_RESERVE_MAX},
                              &rule->reserve);
}

static int read_min(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;

    must(rule->min_milli == 0);
    return policy_read_number(in, value, (struct policy_range){1, GPU_MILLI}, &rule->min_milli);
}

static int read_step(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;

    must(rule->step_milli == 0);
    if (policy_read_number(in, value, (struct policy_range){1, GPU_MILLI}, &rule->step_milli) < 0)
        return err_same(in->err);
    if (GPU_MILLI % rule->step_milli != 0)
        return policy_wrong(in, value, "%u does not divide %d, so nobody would get a whole GPU",
                            rule->step_milli, GPU_MILLI);
    return 0;
}

/* Reads "4 equal": four shares of one size per GPU. */
static int read_equal(struct policy_reader *in, const struct document *value, struct rule *rule)
{
    struct text rest = value->text;
    struct text count;
    uint32_t parts = 0;

    must(value->kind == DOCUMENT_STRING);
    const bool two = text_cut(&rest, ' ', &count) && text_is(text_trim(rest), "equal");
    for (size_t i = 0; i < count.len && parts <= EQUAL_MAX; i++) {
        if (count.at[i] < '0' || count.at[i] > '9')
            return policy_wrong(in, value, "\"%.60s\" are no sizes; write \"4 equal\" or a list",
                                value->shown);
        parts = 10 * parts + (uint32_t)(count.at[i] - '0');
    }
    if (!two || parts < 2 || parts > EQUAL_MAX)
        return policy_wrong(in, value,
                            "\"%.60s\" are no sizes; write \"2 equal\" to \"%d equal\", or a list",
                            value->shown, EQUAL_MAX);
    rule->size[0] = (uint16_t)(GPU_MILLI / parts);
    rule->n_sizes = 1;
    return 0;
}

/* Keeps sizes in ascending order. */
static int read_size(struct policy_reader *in, const struct document *value, struct rule *rule)
{
    uint32_t size;
    uint32_t at = rule->n_sizes;

    if (policy_read_number(in, value, (struct policy_range){1, GPU_MILLI}, &size) < 0)
        return err_same(in->err);
    while (at > 0 && rule->size[at - 1] > size)
        at--;
    if (at > 0 && rule->size[at - 1] == size)
        return policy_wrong(in, value, "%u is there twice", size);
    must(rule->n_sizes < RULE_SIZES_MAX);
    memmove(&rule->size[at + 1], &rule->size[at], (rule->n_sizes - at) * sizeof rule->size[0]);
    rule->size[at] = (uint16_t)size;
    rule->n_sizes++;
    return 0;
}

static int read_sizes(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;

    must(rule->n_sizes == 0);
    if (value->kind == DOCUMENT_STRING)
        return read_equal(in, value, rule);
    if (policy_check_list(in, value, RULE_SIZES_MAX) < 0)
        return err_same(in->err);
    document_each (item, value)
        if (read_size(in, item, rule) < 0)
            return err_same(in->err);
    return 0;
}

static int read_rule_models(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;
    const char **model;

    must(rule->n_models == 0);
    if (policy_read_models(in, value, RULE_GLOBS_MAX, &model) < 0)
        return err_same(in->err);
    rule->model = model;
    rule->n_models = value->count;
    return 0;
}

static int read_rule_memory(struct policy_reader *in, const struct document *value, void *into)
{
    struct rule *rule = into;

    must(rule->memory == MEMORY_UNSAID);
    return policy_read_memory(in, value, &rule->memory);
}

static int read_topology(struct policy_reader *in, const struct document *value, void *into)
{
    static const char *const word[] = {"numa", "nvlink"};
    struct rule *rule = into;
    size_t at = 0;

    must(rule->topology == TOPOLOGY_ANY);
    if (policy_read_word(in, value, word, ARRAY_LEN(word), &at) < 0)
        return err_same(in->err);
    rule->topology = at == 0 ? TOPOLOGY_NUMA : TOPOLOGY_NVLINK;
    return 0;
}

/* --- one rule --- */

/* First where the rule applies, then its demands. */
static const struct policy_key rule_key[] = {
    {"name", read_name, false},          {"when", read_when, false},
    {"nodes", read_nodes, false},        {"namespaces", read_namespaces, false},
    {"policy", read_order, false},       {"whole", read_whole, false},
    {"reserve", read_reserve, false},    {"min", read_min, false},
    {"step", read_step, false},          {"sizes", read_sizes, false},
    {"models", read_rule_models, false}, {"memory", read_rule_memory, false},
    {"topology", read_topology, false},
};
enum { FIRST_SAID = 4 };

/* A key counts even with its default value: so a rule can exempt from later ones. */
static int check_says(struct policy_reader *in, const struct document *item)
{
    must(strcmp(rule_key[FIRST_SAID].name, "policy") == 0);
    for (size_t i = FIRST_SAID; i < ARRAY_LEN(rule_key); i++)
        if (document_get(item, rule_key[i].name) != NULL)
            return 0;
    return policy_wrong(in, item,
                        "says nothing; to exempt from the rules after it, write \"whole: false\"");
}

static int check_size(struct policy_reader *in, const struct rule *rule, uint32_t size,
                      const struct document *value)
{
    must(size > 0);
    if (size < rule->min_milli)
        return policy_wrong(in, value, "%u is below the rule's min, %u", size, rule->min_milli);
    if (rule->step_milli > 0 && size % rule->step_milli != 0)
        return policy_wrong(in, value, "%u is not a multiple of the rule's step, %u", size,
                            rule->step_milli);
    return 0;
}

/* Checks sizes against each of the other demands. */
static int check_sizes(struct policy_reader *in, const struct rule *rule,
                       const struct document *sizes)
{
    must(rule->n_sizes > 0);
    if (rule->whole && rule->size[rule->n_sizes - 1] != GPU_MILLI)
        return policy_wrong(in, sizes, "has no %d, but the rule's whole is true", GPU_MILLI);
    if (sizes->kind != DOCUMENT_ARRAY)
        return check_size(in, rule, rule->size[0], sizes);
    document_each (item, sizes)
        if (check_size(in, rule, (uint32_t)strtoul(item->text.at, NULL, 10), item) < 0)
            return err_same(in->err);
    return 0;
}

static int check_rule(struct policy_reader *in, const struct rule *rule,
                      const struct document *item)
{
    const struct document *sizes = document_get(item, "sizes");

    if (check_says(in, item) < 0 || (sizes != NULL && check_sizes(in, rule, sizes) < 0))
        return err_same(in->err);
    must(rule->step_milli == 0 || GPU_MILLI % rule->step_milli == 0);
    if (rule->step_milli > 0 && rule->min_milli % rule->step_milli != 0)
        policy_warn(in, document_get(item, "min"),
                    "%u is not a multiple of the rule's step, so shares begin at %u",
                    rule->min_milli, (rule->min_milli / rule->step_milli + 1) * rule->step_milli);
    return 0;
}

/* --- all of them --- */

/* Rules without a name get their number as name. */
static int name_rules(struct policy_reader *in, struct rule *rule, const struct document *list)
{
    uint32_t at = 0;

    document_each (item, list) {
        if (rule[at].name == NULL)
            rule[at].name = arena_printf(&in->book->arena, "rule %u", at + 1);
        must(rule[at].name[0] != '\0');
        for (uint32_t i = 0; i < at; i++) {
            const struct document *name = document_get(item, "name");
            if (strcmp(rule[i].name, rule[at].name) == 0)
                return policy_wrong(in, name != NULL ? name : item,
                                    "rules[%u] is called \"%s\", too; names are distinct", i,
                                    rule[at].name);
        }
        at++;
    }
    return 0;
}

int policy_read_rules(struct policy_reader *in, const struct document *list, void *unused)
{
    static const struct policy_keys keys = {rule_key, ARRAY_LEN(rule_key), "a rule"};
    uint32_t at = 0;

    must(unused == NULL);
    if (policy_check_list(in, list, RULES_MAX) < 0)
        return err_same(in->err);
    struct rule *rule = arena_array(&in->book->arena, list->count, sizeof *rule);
    document_each (item, list) {
        if (policy_read_keys(in, item, &keys, &rule[at]) < 0 || check_rule(in, &rule[at], item) < 0)
            return err_same(in->err);
        at++;
    }
    if (name_rules(in, rule, list) < 0)
        return err_same(in->err);
    must(at == list->count);
    in->book->rule = rule;
    in->book->n_rules = at;
    policy_warn_shadows(in, list);
    return 0;
}
