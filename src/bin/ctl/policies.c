/*
 * Policy documents for commands that ask no server, and what their rules say in words. Called by
 * check_policy.c and by the command simulate.
 */
#include "policies.h"

#include <string.h>

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

/* --- several --- */

static int policies_take(struct ctl *ctl, struct text word, struct policy_choices *choices,
                         struct err *err)
{
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
    const int rc = policies_choose(choice->word, &choice->book, &warnings, err);
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
    /* A file that is wrong is no wrong usage. */
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

/* --- in words --- */

void policies_add_nodes(struct strbuf *out, const struct rule *rule)
{
    must(rule->labels <= RULE_LABELS_MAX);
    for (uint32_t i = 0; i < rule->labels; i++)
        strbuf_printf(out, "%s%s=%s", i > 0 ? ", " : "", rule->label[i].key, rule->label[i].value);
    if (rule->labels == 0)
        strbuf_str(out, "all");
}

/* "a, b" */
static void add_texts(struct strbuf *out, const char *const *text, uint32_t count)
{
    must(count > 0);
    for (uint32_t i = 0; i < count; i++)
        strbuf_printf(out, "%s%s", i > 0 ? ", " : "", text[i]);
}

void policies_add_namespaces(struct strbuf *out, const struct rule *rule)
{
    must(rule->namespaces <= RULE_GLOBS_MAX);
    if (rule->namespaces == 0)
        strbuf_str(out, "all");
    else
        add_texts(out, rule->namespace, rule->namespaces);
}

static const char *before_demand(const struct strbuf *out, size_t begin)
{
    must(out->len >= begin);
    return out->len > begin ? "; " : "";
}

static void add_shares(struct strbuf *out, const struct rule *rule, size_t begin)
{
    must(rule->sizes <= RULE_SIZES_MAX);
    if (rule->whole)
        strbuf_printf(out, "%sonly whole GPUs", before_demand(out, begin));
    if (rule->min_milli > 0)
        strbuf_printf(out, "%sshares of at least %u milli", before_demand(out, begin),
                      rule->min_milli);
    if (rule->step_milli > 0)
        strbuf_printf(out, "%sshares in steps of %u milli", before_demand(out, begin),
                      rule->step_milli);
    for (uint32_t i = 0; i < rule->sizes; i++)
        strbuf_printf(out, "%s%u%s", i == 0 ? before_demand(out, begin) : "",
                      (unsigned)rule->size[i],
                      i + 1 == rule->sizes   ? " milli and nothing else"
                      : i + 2 == rule->sizes ? " or "
                                             : ", ");
}

void policies_add_demands(struct strbuf *out, const struct rule *rule)
{
    const size_t begin = out->len;

    if (rule->orders)
        strbuf_printf(out, "orders by %s", policy_name(rule->policy));
    add_shares(out, rule, begin);
    if (rule->reserve > 0)
        strbuf_printf(out, "%skeeps %u idle %s for pods of several GPUs", before_demand(out, begin),
                      rule->reserve, rule->reserve == 1 ? "host" : "hosts");
    if (rule->models > 0) {
        strbuf_printf(out, "%sonly models ", before_demand(out, begin));
        add_texts(out, rule->model, rule->models);
    }
    if (rule->memory != MEMORY_UNSAID)
        strbuf_printf(out, "%s%s", before_demand(out, begin),
                      rule->memory == MEMORY_RAISE ? "gpu-memory raises the share"
                                                   : "gpu-memory only filters");
    if (rule->together != TOGETHER_UNSAID)
        strbuf_printf(out, "%sGPUs of a container %s", before_demand(out, begin),
                      rule->together == TOGETHER_NVLINK ? "linked by NVLink" : "on one NUMA node");
    if (out->len == begin)
        strbuf_str(out, "nothing: exempts from the rules after it");
}
