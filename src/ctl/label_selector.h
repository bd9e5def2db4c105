/*
 * label_selector - a label selector, as kubectl --selector takes it.
 *
 *   zone=a, zone==a, zone!=a, zone in (a,b), zone notin (a,b), zone, !zone, rank>3, rank<3
 *
 * Rules are separated by commas, and all of them have to hold. Pure.
 */
#ifndef MILLIGPU_CTL_LABEL_SELECTOR_H
#define MILLIGPU_CTL_LABEL_SELECTOR_H

#include "milligpu/core/facts/node_filter.h"
#include "milligpu/document/document.h"

/*
 * Rules are an array of key, operator and values, as in matchExpressions. An error quotes the part
 * of the selector that cannot be read.
 */
int label_selector_read(const char *selector, struct arena *arena, struct document **out,
                        struct err *err) MUST_USE;
/* Do the labels fulfil all rules? NULL: no rules, no labels. */
bool label_selector_holds(const struct document *rules, const struct document *labels);

enum node_rule_operator label_rule_operator(const struct document *rule);
/* values: room for the texts of the rule; they stay the document's. */
struct node_rule label_rule_of(const struct document *rule, const char **values);
/* For a label_view: ctx is the labels; NULL: there are none. */
bool label_find(const void *ctx, const char *key, struct text *out);

#endif
