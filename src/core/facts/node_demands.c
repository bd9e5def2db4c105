/*
 * Matches nodes against a pod's nodeSelector and required node affinity, and copies demands. Called
 * by views in admin threads, by the pod cache and by milligpuctl play. Parts: rules, matching,
 * keeping.
 */
#include <string.h>

#include "milligpu/core/facts/node_filter.h"

#include "integer.h"

/*
 * Rules
 */

enum node_rule_operator node_rule_operator_of(struct text word)
{
    static const char *const words[] = {
        [RULE_IN] = "In",         [RULE_NOT_IN] = "NotIn",
        [RULE_EXISTS] = "Exists", [RULE_NOT_EXISTS] = "DoesNotExist",
        [RULE_GT] = "Gt",         [RULE_LT] = "Lt",
    };

    must(word.at != NULL);
    must(word.len < UINT32_MAX);
    static_assert(ARRAY_LEN(words) == RULE_OTHER, "each word has its operator");
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (text_is(word, words[i]))
            return (enum node_rule_operator)i;
    return RULE_OTHER;
}

static bool is_among(struct text have, const struct node_rule *rule)
{
    must(have.at != NULL);
    must(rule->n_values == 0 || rule->value != NULL);
    for (uint32_t i = 0; i < rule->n_values; i++)
        if (text_is(have, rule->value[i]))
            return true;
    return false;
}

bool node_rule_holds(const struct node_rule *rule, const struct text *have)
{
    int64_t number;
    int64_t bound;

    must(rule->key != NULL);
    must(rule->n_values == 0 || rule->value != NULL);
    switch (rule->op) {
    case RULE_IN:
        return have != NULL && is_among(*have, rule);
    case RULE_NOT_IN:
        return have == NULL || !is_among(*have, rule);
    case RULE_EXISTS:
        return have != NULL;
    case RULE_NOT_EXISTS:
        return have == NULL;
    case RULE_GT:
    case RULE_LT:
        return have != NULL && rule->n_values == 1 && integer_parse(*have, &number) &&
               integer_parse(text_of(rule->value[0]), &bound) &&
               (rule->op == RULE_GT ? number > bound : number < bound);
    case RULE_OTHER:
        return false;
    }
    must_not_reach("every operator is listed");
}

/*
 * Matching
 */

static bool term_matches(const struct node_term *term, struct text node,
                         const struct label_view *labels)
{
    must(term->n_expressions == 0 || term->expression != NULL);
    must(term->n_fields == 0 || term->field != NULL);
    if (term->n_expressions == 0 && term->n_fields == 0)
        return false;
    for (uint32_t i = 0; i < term->n_expressions; i++) {
        struct text value;
        const bool there = labels->find(labels->ctx, term->expression[i].key, &value);
        if (!node_rule_holds(&term->expression[i], there ? &value : NULL))
            return false;
    }
    for (uint32_t i = 0; i < term->n_fields; i++) {
        const bool is_name = strcmp(term->field[i].key, "metadata.name") == 0;
        if (!node_rule_holds(&term->field[i], is_name ? &node : NULL))
            return false;
    }
    return true;
}

bool node_demands_match(const struct node_demands *demands, const char *node,
                        const struct label_view *labels)
{
    must(demands->n_selectors == 0 || demands->selector != NULL);
    must(demands->n_terms == 0 || demands->affine);
    for (uint32_t i = 0; i < demands->n_selectors; i++) {
        struct text value;
        if (!labels->find(labels->ctx, demands->selector[i].key, &value) ||
            !text_is(value, demands->selector[i].value))
            return false;
    }
    if (!demands->affine)
        return true;
    for (uint32_t i = 0; i < demands->n_terms; i++)
        if (term_matches(&demands->term[i], text_of(node), labels))
            return true;
    return false;
}

/*
 * Keeping
 */

static const char *keep_text(struct arena *arena, const char *text)
{
    must(arena != NULL);
    must(text != NULL);
    return arena_copy(arena, text_of(text));
}

static const struct node_rule *keep_rules(struct arena *arena, const struct node_rule *rule,
                                          uint32_t rules)
{
    struct node_rule *to = arena_array(arena, rules, sizeof *to);

    must(rules == 0 || rule != NULL);
    must(arena != NULL);
    for (uint32_t i = 0; i < rules; i++) {
        const char **value = arena_array(arena, rule[i].n_values, sizeof *value);
        for (uint32_t k = 0; k < rule[i].n_values; k++)
            value[k] = keep_text(arena, rule[i].value[k]);
        to[i] =
            (struct node_rule){keep_text(arena, rule[i].key), rule[i].op, rule[i].n_values, value};
    }
    return to;
}

static void keep_tolerations(struct arena *arena, const struct node_demands *demands,
                             struct node_demands *kept)
{
    struct toleration *to = arena_array(arena, demands->n_tolerations, sizeof *to);

    must(demands->n_tolerations == 0 || demands->toleration != NULL);
    must(kept->n_tolerations == 0);
    for (uint32_t i = 0; i < demands->n_tolerations; i++) {
        to[i] = demands->toleration[i];
        to[i].key = keep_text(arena, to[i].key);
        to[i].value = keep_text(arena, to[i].value);
    }
    kept->n_tolerations = demands->n_tolerations;
    kept->toleration = to;
}

const struct node_demands *node_demands_keep(const struct node_demands *demands,
                                             struct arena *arena)
{
    struct node_demands *kept = arena_alloc(arena, sizeof *kept);

    *kept = (struct node_demands){.unreadable = demands->unreadable};
    keep_tolerations(arena, demands, kept);
    struct label *selector = arena_array(arena, demands->n_selectors, sizeof *selector);
    for (uint32_t i = 0; i < demands->n_selectors; i++)
        selector[i] = (struct label){keep_text(arena, demands->selector[i].key),
                                     keep_text(arena, demands->selector[i].value)};
    kept->n_selectors = demands->n_selectors;
    kept->selector = selector;
    struct node_term *term = arena_array(arena, demands->n_terms, sizeof *term);
    for (uint32_t i = 0; i < demands->n_terms; i++) {
        const struct node_term *from = &demands->term[i];
        term[i] = (struct node_term){
            from->n_expressions, keep_rules(arena, from->expression, from->n_expressions),
            from->n_fields, keep_rules(arena, from->field, from->n_fields)};
    }
    kept->affine = demands->affine;
    kept->n_terms = demands->n_terms;
    kept->term = term;
    must(kept->affine || kept->n_terms == 0);
    must(kept->n_tolerations == demands->n_tolerations);
    return kept;
}

/* Prefixes the length, so that different lists of texts have different bytes. */
static void key_text(struct strbuf *out, const char *text)
{
    const size_t bytes = strlen(text);

    must(out != NULL);
    must(bytes < UINT32_MAX);
    strbuf_add(out, &bytes, sizeof bytes);
    strbuf_add(out, text, bytes);
}

static void key_number(struct strbuf *out, uint32_t number)
{
    const size_t before = out->len;

    must(out->data != NULL);
    strbuf_add(out, &number, sizeof number);
    must(out->len == before + sizeof number);
}

static void key_rules(struct strbuf *out, const struct node_rule *rule, uint32_t rules)
{
    must(rules == 0 || rule != NULL);
    must(out->len > 0);
    key_number(out, rules);
    for (uint32_t i = 0; i < rules; i++) {
        key_text(out, rule[i].key);
        key_number(out, rule[i].op);
        key_number(out, rule[i].n_values);
        for (uint32_t k = 0; k < rule[i].n_values; k++)
            key_text(out, rule[i].value[k]);
    }
}

void node_demands_key(const struct node_demands *demands, struct strbuf *out)
{
    must(demands->n_tolerations == 0 || demands->toleration != NULL);
    must(demands->n_terms == 0 || demands->affine);
    key_number(out, (demands->unreadable ? 1U : 0) | (demands->affine ? 2U : 0));
    key_number(out, demands->n_tolerations);
    for (uint32_t i = 0; i < demands->n_tolerations; i++) {
        const struct toleration *toleration = &demands->toleration[i];
        key_text(out, toleration->key);
        key_text(out, toleration->value);
        key_number(out, toleration->op);
        key_number(out, toleration->effect);
    }
    key_number(out, demands->n_selectors);
    for (uint32_t i = 0; i < demands->n_selectors; i++) {
        key_text(out, demands->selector[i].key);
        key_text(out, demands->selector[i].value);
    }
    key_number(out, demands->n_terms);
    for (uint32_t i = 0; i < demands->n_terms; i++) {
        key_rules(out, demands->term[i].expression, demands->term[i].n_expressions);
        key_rules(out, demands->term[i].field, demands->term[i].n_fields);
    }
}
