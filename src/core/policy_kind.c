/*
 * What policies are called, for settings, documents and people.
 */
#include "milligpu/policy_kind.h"

static const struct {
    const char *name;
    const char *help;
} policies[] = {
#define X(code, word, text) [code] = {(word), (text)},
    POLICY_TABLE(X)
#undef X
};

const char *policy_name(enum policy_kind kind)
{
    must((size_t)kind < ARRAY_LEN(policies));
    must(policies[kind].name != NULL);
    return policies[kind].name;
}

const char *policy_help(enum policy_kind kind)
{
    must((size_t)kind < ARRAY_LEN(policies));
    must(policies[kind].help != NULL);
    return policies[kind].help;
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
    must(kind < POLICIES);
    return kind == POLICY_FGD || kind == POLICY_ROLLOUT;
}
