/*
 * policies - policy documents, as commands that ask no server read and describe them.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_POLICIES_H
#define MILLIGPU_CTL_POLICIES_H

#include "milligpu/document/policy/policy_document.h"

#include "ctl.h"

/*
 * policy_choose() as milligpud does it, with files and time zones of this machine. warnings: lines
 * are appended. *out: one reference.
 */
int policies_choose(const char *word, struct rulebook **out, struct strbuf *warnings,
                    struct err *err) MUST_USE;

/* What --policy names: one of several that are compared. */
struct policy_choice {
    const char *word; /* as it was written; in an arena or a literal */
    struct rulebook *book;
    bool bare;        /* one of the policies, without a document */
    rule_set holding; /* the rules that hold at the time that is meant */
};

enum { POLICY_CHOICES_MAX = 16 };
struct policy_choices {
    size_t count;
    struct policy_choice choice[POLICY_CHOICES_MAX];
};

/*
 * Reads --policy, names and files with commas between them; without the option, all policies
 * without a document. Warnings go to standard error. A failure leaves nothing to free. Returns the
 * exit status.
 */
int policies_choose_all(struct ctl *ctl, int64_t at_ms, struct policy_choices *out);
void policies_done(struct policy_choices *choices);

/* The time that --at names; now without the option. */
int policies_read_at(const struct ctl *ctl, int64_t *out_ms, struct err *err) MUST_USE;

/* As a table behind a heading; nothing if there are none. Returns the exit status. */
int policies_put_rules(struct ctl *ctl, const struct document *rules);

#endif
