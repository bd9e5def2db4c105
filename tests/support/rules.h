/*
 * rules - rulebooks for tests, without documents.
 */
#ifndef MILLIGPU_TESTS_RULES_H
#define MILLIGPU_TESTS_RULES_H

#include "milligpu/core/rules/rulebook.h"

/* One of a policy alone; the word is one of policy_kind.h. */
struct rulebook *bare_rulebook(const char *policy);
/* Pointers of the rules are borrowed; a rule without a name gets "rule". */
struct rulebook *rulebook_with(enum policy_kind policy, const char *name, const struct rule *rule,
                               uint32_t rules);

#endif
