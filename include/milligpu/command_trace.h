/*
 * command_trace - the last commands that the writer was given, and what became of them.
 *
 * For the bundle of safe mode: the journal knows what was done, this also what was not.  Names
 * are cut to the room that they have here.
 *
 * A ring behind a mutex: the writer adds, the verification thread writes it out.
 */
#ifndef MILLIGPU_COMMAND_TRACE_H
#define MILLIGPU_COMMAND_TRACE_H

#include "milligpu/ledger.h"
#include "milligpu/strbuf.h"

enum { RECENT_MAX = 1000 };

struct command_trace;

struct command_trace *command_trace_new(void);
void command_trace_free(struct command_trace *command_trace);

/* outcome is constant.  NULL recent: nothing is kept. */
void command_trace_add(struct command_trace *command_trace, const struct command *command,
                       const char *outcome);

/* JSON, a line each, oldest first. */
void command_trace_write(struct command_trace *command_trace, struct strbuf *out);

#endif
