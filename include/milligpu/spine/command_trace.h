/*
 * command_trace - the last commands of the writer and their results.
 *
 * Part of the diagnostics of safe mode: unlike the journal, the trace includes refused commands.
 * Names are truncated to a fixed length. A ring buffer behind a mutex: the writer adds entries, the
 * verifier thread writes them out.
 */
#ifndef MILLIGPU_COMMAND_TRACE_H
#define MILLIGPU_COMMAND_TRACE_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/ledger/ledger.h"

enum { RECENT_MAX = 1000 };

struct command_trace;

struct command_trace *command_trace_new(void);
void command_trace_free(struct command_trace *command_trace);

/* outcome is a constant string. trace NULL: nothing is recorded. */
void command_trace_add(struct command_trace *command_trace, const struct command *command,
                       const char *outcome);

/* JSON, one line per command, oldest first. */
void command_trace_write(struct command_trace *command_trace, struct strbuf *out);

#endif
