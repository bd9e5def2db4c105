/*
 * Policy documents for commands that ask no server, and what their rules say in words. Called by
 * check_policy.c and by the command simulate.
 */
#include "policies.h"

#include "milligpu/file.h"
#include "milligpu/wire_kube.h"
#include "milligpu/zone_file.h"

int policies_choose(const char *word, struct rulebook **out, struct strbuf *warnings,
                    struct err *err)
{
    static const struct policy_edges edges = {zone_load, file_read};

    must(word != NULL);
    return policy_choose(word, &edges, out, warnings, err);
}

int policies_read_at(const struct ctl *ctl, int64_t *out_ms, struct err *err)
{
    const char *given = ctl->options.given[OPTION_at];
    char at[AGE_BYTES + 32];

    must(ctl->screen.now_ms > 0);
    *out_ms = ctl->screen.now_ms;
    if (given == NULL)
        return 0;
    at_format(given, ctl->screen.now_ms, at);
    if (time_parse(text_of(at), out_ms))
        return 0;
    return err_set(err, ERR_INVALID,
                   "--at is %.60s: it is 2026-01-02T14:05:00Z, or so long ago: 90s, 30m, 5h, 2d",
                   given);
}
