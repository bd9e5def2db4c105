/*
 * Reads policy documents for commands that work without a server, and prints their rules. Called by
 * check_policy.c and by the command simulate.
 */
#include "policies.h"

#include <string.h>

#include "milligpu/document/policy/zone_file.h"
#include "milligpu/run/file.h"

int policies_choose(const char *word, struct rulebook **out, struct strbuf *warnings,
                    struct err *err)
{
    static const struct policy_edges edges = {.load_zone = zone_load, .read_file = file_read};

    must(word != NULL);
    return policy_choose(word, &edges, out, warnings, err);
}

int policies_read_at(const struct ctl *ctl, int64_t *out_ms, struct err *err)
{
    must(ctl->screen.now_ms > 0);
    *out_ms = ctl->screen.now_ms;
    return at_read(ctl, OPTION_at, out_ms, err);
}

/* --- several --- */

static int policies_take(struct ctl *ctl, struct text word, struct policy_choices *choices,
                         struct err *err)
{
    static const struct policy_edges edges = {zone_load, file_read, .baselines = true};
    CLEANUP(strbuf_done) struct strbuf warnings;
    struct policy_choice *choice = &choices->choice[choices->count];

    strbuf_init(&warnings);
    *choice = (struct policy_choice){.word = arena_copy(&ctl->kept, word)};
    for (size_t i = 0; i < choices->count; i++)
        if (strcmp(choices->choice[i].word, choice->word) == 0)
            return err_set(err, ERR_INVALID, "--policy names %.200s twice", choice->word);
    if (choices->count == POLICY_CHOICES_MAX)
        return err_set(err, ERR_INVALID, "--policy names more than %d policies",
                       POLICY_CHOICES_MAX);
    const int rc = policy_choose(choice->word, &edges, &choice->book, &warnings, err);
    (void)fputs(warnings.data, ctl->err);
    if (rc < 0)
        return policy_is_path(choice->word) ? rc : err_wrap(err, "--policy");
    choice->bare = choice->book->digest[0] == '\0';
    choices->count++;
    return 0;
}

int policies_choose_all(struct ctl *ctl, int64_t at_ms, struct policy_choices *out)
{
    const char *given = ctl->options.given[OPTION_policy];
    struct text rest = text_of(given);
    struct text word = {0};
    struct err err;
    int rc = 0;

    *out = (struct policy_choices){0};
    for (size_t i = 0; given == NULL && i < POLICIES && rc == 0; i++)
        rc = policies_take(ctl, text_of(policy_name((enum policy_kind)i)), out, &err);
    while (given != NULL && rc == 0 && text_cut(&rest, ',', &word))
        rc = policies_take(ctl, word, out, &err);
    for (size_t i = 0; i < out->count; i++)
        out->choice[i].holding = rulebook_holding(out->choice[i].book, at_ms);
    if (rc == 0)
        return CTL_FINE;
    /* An invalid file is a failure, but not wrong usage. */
    const bool path = word.at != NULL && policy_is_path(arena_copy(&ctl->kept, word));
    policies_done(out);
    return path ? ctl_fail(ctl, &err) : ctl_misused(ctl, &err);
}

void policies_done(struct policy_choices *choices)
{
    must(choices->count <= POLICY_CHOICES_MAX);
    for (size_t i = 0; i < choices->count; i++)
        rulebook_unref(choices->choice[i].book);
    choices->count = 0;
}
