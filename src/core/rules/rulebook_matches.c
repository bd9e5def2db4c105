/*
 * Counts the nodes of a cluster that a rule matches, to detect typing errors: labels or models that
 * match nothing. Called by check-policy with --cluster, by doctor, and by the writer once for each
 * rulebook.
 */
#include "milligpu/core/rules/rulebook.h"

/* Does model number at of the rule match any of these models? */
static bool has_model(const struct rule *rule, uint32_t at, const struct atom *const *model,
                      uint32_t models)
{
    const struct rule one = {.n_models = 1, .model = &rule->model[at]};

    must(at < rule->n_models);
    must(models == 0 || model != NULL);
    for (uint32_t i = 0; i < models; i++)
        if (rule_takes_model(&one, atom_text(model[i])))
            return true;
    return false;
}

void rule_match_node(const struct rule *rule, const struct labels *labels,
                     const struct atom *const *model, uint32_t models, struct rule_matches *out)
{
    bool all = true;
    bool any = rule->n_models == 0;

    must(rule->n_labels <= RULE_LABELS_MAX);
    must(rule->n_models <= RULE_GLOBS_MAX);
    for (uint32_t i = 0; i < rule->n_labels; i++) {
        const bool matches = labels_match(labels, &rule->label[i]);
        out->label[i] += matches;
        all = all && matches;
    }
    for (uint32_t i = 0; i < rule->n_models; i++) {
        const bool matches = has_model(rule, i, model, models);
        out->model[i] += matches;
        any = any || matches;
    }
    out->nodes += all;
    out->allowed += all && any;
    must(out->allowed <= out->nodes);
}

/* "rule 2 (night), models: H200*" */
static void begin_line(struct strbuf *out, const struct rulebook *book, const struct rule *rule,
                       const char *field)
{
    must(rule->name[0] != '\0');
    must(field[0] != '\0');
    strbuf_printf(out, "%srule %u (%s), %s: ", out->len > 0 ? "\n" : "",
                  (unsigned)rulebook_number(book, rule), rule->name, field);
}

/* Reports each label that no node has, else all of them if no node has the combination. */
static void add_labels(struct strbuf *out, const struct rulebook *book, const struct rule *rule,
                       const struct rule_matches *matches)
{
    bool said = false;

    must(rule->n_labels <= RULE_LABELS_MAX);
    must(matches->nodes == 0);
    for (uint32_t i = 0; i < rule->n_labels; i++) {
        if (matches->label[i] > 0)
            continue;
        said = true;
        begin_line(out, book, rule, "nodes");
        strbuf_printf(out, "%s=%s matches 0 nodes", rule->label[i].key, rule->label[i].value);
    }
    if (said || rule->n_labels == 0)
        return;
    begin_line(out, book, rule, "nodes");
    rule_add_nodes(out, rule);
    strbuf_str(out, " matches 0 nodes");
}

void rule_add_unmatched(struct strbuf *out, const struct rulebook *book, const struct rule *rule,
                        const struct rule_matches *matches)
{
    bool said = false;

    must(matches->allowed <= matches->nodes);
    must(rule->n_models <= RULE_GLOBS_MAX);
    if (matches->nodes == 0)
        add_labels(out, book, rule, matches);
    for (uint32_t i = 0; i < rule->n_models; i++) {
        if (matches->model[i] > 0)
            continue;
        said = true;
        begin_line(out, book, rule, "models");
        strbuf_printf(out, "%s matches 0 nodes", rule->model[i]);
    }
    if (said || matches->nodes == 0 || matches->allowed > 0)
        return;
    begin_line(out, book, rule, "models");
    strbuf_printf(out, "matches 0 of its %u node%s", (unsigned)matches->nodes,
                  matches->nodes == 1 ? "" : "s");
}
