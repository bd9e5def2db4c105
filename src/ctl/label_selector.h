/*
 * label_selector - label selectors in the syntax of kubectl --selector.
 *
 *   zone=a, zone==a, zone!=a, zone in (a,b), zone notin (a,b), zone, !zone, rank>3, rank<3
 *
 * Rules are separated by commas, and all of them must hold. Pure.
 */
#ifndef MILLIGPU_CTL_LABEL_SELECTOR_H
#define MILLIGPU_CTL_LABEL_SELECTOR_H

#include "milligpu/core/facts/node_filter.h"
#include "milligpu/document/document.h"

/*
 * *out: an array of rules with key, operator and values, as in matchExpressions. An error quotes
 * the invalid part of the selector.
 */
int label_selector_read(const char *selector, struct arena *arena, struct document **out,
                        struct err *err) MUST_USE;
/* True if the labels fulfil all rules. NULL for no rules, or no labels. */
bool label_selector_holds(const struct document *rules, const struct document *labels);

enum node_rule_operator label_rule_operator(const struct document *rule);
/* values: array for the texts of the rule, which are borrowed from the document. */
struct node_rule label_rule_of(const struct document *rule, const char **values);
/* The find function of a label_view; ctx: the labels, or NULL for none. */
bool label_find(const void *ctx, const char *key, struct text *out);

#endif
