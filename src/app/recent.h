/*
 * recent - the last commands that the writer was given, and what became of them.
 *
 * For the bundle of safe mode: the journal knows what was done, this also what was not.  Names
 * are cut to the room that they have here.
 *
 * A ring behind a mutex: the writer adds, the audit thread writes it out.
 */
#ifndef MILLIGPU_RECENT_H
#define MILLIGPU_RECENT_H

#include "milligpu/ledger.h"
#include "milligpu/strbuf.h"

enum { RECENT_MAX = 1000 };

struct recent;

struct recent *recent_new(void);
void recent_free(struct recent *recent);

/* outcome is constant.  NULL recent: nothing is kept. */
void recent_add(struct recent *recent, const struct command *command, const char *outcome);

/* JSON, a line each, oldest first. */
void recent_write(struct recent *recent, struct strbuf *out);

#endif
