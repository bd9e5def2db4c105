/*
 * Finds rules that can never match, because one earlier rule matches in all their cases. A rule
 * that only several earlier ones together cover is not found: a warning must be certain. Called by
 * policy_rules.c.
 */
#include <string.h>

#include "policy_reader.h"

/*
 * Matches wide against narrow as a text, in which '*' is matched only by '*', and '?' only by '*'
 * or '?'. If that succeeds, wide matches every text that narrow matches.
 */
bool glob_covers(struct text wide, struct text narrow)
{
    size_t w = 0;
    size_t n = 0;
    size_t star = SIZE_MAX;
    size_t star_narrow = 0;

    must(wide.at != NULL && narrow.at != NULL);
    while (n < narrow.len) {
        if (w < wide.len && wide.at[w] == '*') {
            star = w++;
            star_narrow = n;
        } else if (w < wide.len && narrow.at[n] != '*' &&
                   (wide.at[w] == '?' || text_lower(wide.at[w]) == text_lower(narrow.at[n]))) {
            w++;
            n++;
        } else if (star != SIZE_MAX) {
            w = star + 1;
            n = ++star_narrow;
        } else {
            return false;
        }
    }
    must(w <= wide.len);
    while (w < wide.len && wide.at[w] == '*')
        w++;
    return w == wide.len;
}

/* True if narrow demands each label of wide at least as strictly. */
static bool covers_nodes(const struct rule *wide, const struct rule *narrow)
{
    must(wide->n_labels <= RULE_LABELS_MAX);
    for (uint32_t i = 0; i < wide->n_labels; i++) {
        bool covered = false;
        for (uint32_t j = 0; j < narrow->n_labels; j++)
            covered = covered ||
                      (strcmp(wide->label[i].key, narrow->label[j].key) == 0 &&
                       glob_covers(text_of(wide->label[i].value), text_of(narrow->label[j].value)));
        if (!covered)
            return false;
    }
    return true;
}

static bool covers_namespace(const struct rule *wide, const char *namespace)
{
    must(wide->n_namespaces <= RULE_GLOBS_MAX);
    for (uint32_t i = 0; i < wide->n_namespaces; i++)
        if (glob_covers(text_of(wide->namespace[i]), text_of(namespace)))
            return true;
    return wide->n_namespaces == 0;
}

static bool covers_namespaces(const struct rule *wide, const struct rule *narrow)
{
    must(narrow->n_namespaces <= RULE_GLOBS_MAX);
    if (narrow->n_namespaces == 0)
        return covers_namespace(wide, "*");
    for (uint32_t i = 0; i < narrow->n_namespaces; i++)
        if (!covers_namespace(wide, narrow->namespace[i]))
            return false;
    return true;
}

static bool covers_hours(const struct rule *wide, const struct rule *narrow)
{
    const struct window *a = wide->window;
    const struct window *b = narrow->window;

    must(a == NULL || wide->zone != NULL);
    if (a == NULL || window_always(a))
        return true;
    return b != NULL && a->days == b->days && a->from_min == b->from_min &&
           a->minutes == b->minutes && strcmp(a->zone, b->zone) == 0 &&
           (!a->dated ||
            (b->dated && a->first_date <= b->first_date && a->last_date >= b->last_date));
}

void policy_warn_shadows(struct policy_reader *in, const struct document *list)
{
    const struct rule *rule = in->book->rule;
    uint32_t at = 0;

    must(list->count == in->book->n_rules);
    document_each (item, list) {
        for (uint32_t i = 0; i < at; i++) {
            if (!covers_nodes(&rule[i], &rule[at]) || !covers_namespaces(&rule[i], &rule[at]) ||
                !covers_hours(&rule[i], &rule[at]))
                continue;
            policy_warn(in, item, "never applies: wherever it would, rules[%u] (%s) comes first", i,
                        rule[i].name);
            break;
        }
        at++;
    }
}
