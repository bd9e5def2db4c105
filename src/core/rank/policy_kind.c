/* The table of the policies, with their names for settings, documents and people. */
#include "policy_internal.h"

const struct policy *const policy_table[POLICIES] = {
#define X(code, word, served) [code] = &policy_##word,
    POLICY_TABLE(X)
#undef X
};

const char *policy_name(enum policy_kind kind)
{
    const char *name = policy_of(kind)->name;

    must(name != NULL);
    must(name[0] != '\0');
    return name;
}

const char *policy_help(enum policy_kind kind)
{
    const char *help = policy_of(kind)->help;

    must(help != NULL);
    must(help[0] != '\0');
    return help;
}

bool policy_of_name(struct text name, enum policy_kind *out)
{
    must(out != NULL);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        if (!text_is(name, policy_name(kind)))
            continue;
        *out = kind;
        return true;
    }
    return false;
}

enum policy_kind policy_served(enum policy_kind kind)
{
    static const enum policy_kind by[] = {
#define X(code, word, served) [code] = (served),
        POLICY_TABLE(X)
#undef X
    };

    must((size_t)kind < ARRAY_LEN(by));
    must(by[by[kind]] == by[kind]);
    return by[kind];
}

bool policy_needs_workload(enum policy_kind kind)
{
    const struct policy *policy = policy_of(kind);

    must((policy->waste == NULL) == (policy->score == NULL));
    must(policy->waste == NULL || policy->fit == 0);
    return policy->waste != NULL;
}

/* Hashes the text, because the atom's own hash differs between processes. */
uint32_t policy_node_order(const struct policy_context *context, const struct policy *policy,
                           const struct atom *name)
{
    static const uint64_t spread = 0x9E3779B97F4A7C15U; /* separates small seeds */

    must(name->len > 0);
    if (!policy->shuffles)
        return 0;
    return text_hash_by(atom_text(name), (context->seed + 1) * spread);
}
