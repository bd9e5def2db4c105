/*
 * rule_set - a set of the rules of one policy document (rulebook.h): bit i is rule i + 1.
 */
#ifndef MILLIGPU_RULE_SET_H
#define MILLIGPU_RULE_SET_H

#include "milligpu/base/base.h"

enum { RULES_MAX = 64 }; /* per policy document */
typedef uint64_t rule_set;
static const rule_set RULES_ALL = UINT64_MAX;
static_assert(RULES_MAX <= 64, "a set of rules is one word");

static inline rule_set one_rule(uint32_t at)
{
    must(at < RULES_MAX);
    return (rule_set)1 << at;
}

/* Returns the position of the first rule in a non-empty set. */
static inline uint32_t rules_first(rule_set rules)
{
    uint32_t at = 0;

    must(rules != 0);
    while ((rules >> at & 1) == 0)
        at++;
    return at;
}

#endif
