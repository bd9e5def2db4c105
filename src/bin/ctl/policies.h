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

/* In words, for people: "pool=training, disk=ssd*"; "all". */
void policies_add_nodes(struct strbuf *out, const struct rule *rule);
void policies_add_namespaces(struct strbuf *out, const struct rule *rule);
/* "only whole GPUs; keeps 2 idle hosts" */
void policies_add_demands(struct strbuf *out, const struct rule *rule);

#endif
