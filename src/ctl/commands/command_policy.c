/*
 * The command policy: shows the policy in force. Rules look as in check-policy.
 */
#include <stdio.h>

#include "ctl/commands.h"
#include "ctl/policies.h"

int show_policy(struct ctl *ctl, const struct document *policy)
{
    const char *digest = document_shown(policy, "digest");
    const struct document *rules = document_get(policy, "rules");

    must(policy != NULL);
    if (ctl_document(ctl, policy))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME) {
        (void)fprintf(ctl->screen.out, "policy/%s\n", document_shown(policy, "name"));
        return CTL_FINE;
    }
    put_field(ctl, "Policy", "%s%s%s%s", document_shown(policy, "name"),
              digest[0] != '\0' ? " (digest " : " (bare)", digest, digest[0] != '\0' ? ")" : "");
    put_field(ctl, "Order", "%s", document_shown(policy, "policy"));
    put_field(ctl, "Memory", "%s", document_shown(policy, "memory"));
    put_field(ctl, "Prices", "%s", document_shown(policy, "prices"));
    put_field(ctl, "Rules", "%llu%s%s", rules == NULL ? 0ULL : (unsigned long long)rules->count,
              document_get(policy, "changesAt") != NULL ? ", others hold from " : "",
              document_shown(policy, "changesAt"));
    if (document_get(policy, "failed") != NULL)
        put_field(ctl, "Failed", "not read since %s, so this is the last good one: %s",
                  document_shown(policy, "failed.since"), document_shown(policy, "failed.text"));
    return rules == NULL || rules->kind != DOCUMENT_ARRAY ? CTL_FINE
                                                          : policies_put_rules(ctl, rules);
}

int command_policy(struct ctl *ctl)
{
    struct document *policy;
    struct err err;

    must(ctl->options.command != NULL);
    if (ctl_get(ctl, "/api/v1/policy", &policy, &err) < 0)
        return ctl_fail(ctl, &err);
    return show_policy(ctl, policy);
}
