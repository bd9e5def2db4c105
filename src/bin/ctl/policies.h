/*
 * policies - policy documents, as commands that ask no server read and describe them.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_POLICIES_H
#define MILLIGPU_CTL_POLICIES_H

#include "milligpu/policy_document.h"

#include "ctl.h"

/*
 * policy_choose(), with files and time zones of this machine. warnings: lines are appended. *out:
 * one reference.
 */
int policies_choose(const char *word, struct rulebook **out, struct strbuf *warnings,
                    struct err *err) MUST_USE;

/* The time that --at names; now without the option. */
int policies_read_at(const struct ctl *ctl, int64_t *out_ms, struct err *err) MUST_USE;

/* As a table behind a heading; nothing if there are none. Returns the exit status. */
int policies_put_rules(struct ctl *ctl, const struct doc *rules);

#endif
