/*
 * policies - policy documents for commands that work without a server.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_POLICIES_H
#define MILLIGPU_CTL_POLICIES_H

#include "milligpu/document/policy/policy_document.h"

#include "ctl.h"

/*
 * policy_choose() as in milligpud, with files and time zones of this machine. Appends lines to
 * warnings. *out: one reference.
 */
int policies_choose(const char *word, struct rulebook **out, struct strbuf *warnings,
                    struct err *err) MUST_USE;

/* One of the policies that --policy names. */
struct policy_choice {
    const char *word; /* as written; in an arena or a literal */
    struct rulebook *book;
    bool bare;        /* a policy without a document */
    rule_set holding; /* rules that hold at the requested time */
};

enum { POLICY_CHOICES_MAX = 16 };
struct policy_choices {
    size_t count;
    struct policy_choice choice[POLICY_CHOICES_MAX];
};

/*
 * Reads --policy, names and files separated by commas; without the option, all bare policies.
 * Warnings go to standard error. A failure leaves nothing to free. Returns the exit status.
 */
int policies_choose_all(struct ctl *ctl, int64_t at_ms, struct policy_choices *out);
void policies_done(struct policy_choices *choices);

/* The UTC time of --at; now without the option. */
int policies_read_at(const struct ctl *ctl, int64_t *out_ms, struct err *err) MUST_USE;

/* Prints rules as a table below a heading; nothing without rules. Returns the exit status. */
int policies_put_rules(struct ctl *ctl, const struct document *rules);

#endif
