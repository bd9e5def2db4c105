/*
 * The table of the policies: what they are called, for settings, documents and people, and their
 * functions.
 */
#include "core/policy_internal.h"

static const struct {
    const char *name;
    const struct policy *policy;
} policies[] = {
#define X(code, word) [code] = {#word, &policy_##word},
    POLICY_TABLE(X)
#undef X
};

const struct policy *policy_of(enum policy_kind kind)
{
    must((size_t)kind < ARRAY_LEN(policies));
    must(policies[kind].policy != NULL);
    return policies[kind].policy;
}

const char *policy_name(enum policy_kind kind)
{
    must((size_t)kind < ARRAY_LEN(policies));
    must(policies[kind].name != NULL);
    return policies[kind].name;
}

const char *policy_help(enum policy_kind kind)
{
    const struct policy *policy = policy_of(kind);

    must(policy->help != NULL);
    must(policy->help[0] != '\0');
    return policy->help;
}

bool policy_of_name(struct text name, enum policy_kind *out)
{
    must(out != NULL);
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        must(policies[i].name != NULL);
        if (!text_is(name, policies[i].name))
            continue;
        *out = (enum policy_kind)i;
        return true;
    }
    return false;
}

bool policy_needs_workload(enum policy_kind kind)
{
    const struct policy *policy = policy_of(kind);

    must((policy->waste == NULL) == (policy->score == NULL));
    must(policy->waste == NULL || policy->keys == NULL);
    return policy->waste != NULL;
}
