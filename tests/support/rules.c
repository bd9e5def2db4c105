#include "support/rules.h"

struct rulebook *bare_rulebook(const char *policy)
{
    enum policy_kind kind = POLICY_BINPACK;

    must(policy_of_name(text_of(policy), &kind));
    return rulebook_new(kind, policy);
}

struct rulebook *rulebook_with(enum policy_kind policy, const char *name, const struct rule *rule,
                               uint32_t rules)
{
    struct rulebook *book = rulebook_new(policy, name);
    struct rule *copy = arena_array(&book->arena, rules + 1, sizeof *copy);

    must(rules <= RULES_MAX);
    for (uint32_t i = 0; i < rules; i++) {
        copy[i] = rule[i];
        if (copy[i].name == NULL)
            copy[i].name = "rule";
    }
    book->digest = "00";
    book->n_rules = rules;
    book->rule = copy;
    return book;
}
