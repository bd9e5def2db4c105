/*
 * writer - the one that changes the ledger.
 *
 *   take a batch -> decide, write, apply each -> publish less room -> COMMIT -> act -> publish
 *   more room -> reply
 *
 * A step function: a thread is only a loop around writer_step().  Owns the ledger and the
 * writing half of the store. It never touches the network: what must go out is put into the
 * outbox, after the COMMIT.
 *
 * When a batch is lost (disk full, I/O error) everything is undone, binds are answered with an
 * Error, what the watch told is kept and tried again; readiness is false meanwhile.  When a
 * single change contradicts the database, granting stops: safe mode.
 */
#ifndef MILLIGPU_WRITER_H
#define MILLIGPU_WRITER_H

#include "milligpu/app.h"

struct writer;

struct writer *writer_new(struct app *app) MUST_USE;
void writer_free(struct writer *writer);

/* Load what the store kept, publish it; open reservations are in doubt. */
int writer_load(struct writer *writer, struct err *err) MUST_USE;

/* One batch.  Waits at most wait_ms for the first message; returns how many were taken. */
size_t writer_step(struct writer *writer, int64_t wait_ms);

/* Nothing in flight: no bind waits for an answer. */
bool writer_idle(const struct writer *writer);

/* How long its tables are: what is gone leaves nothing in them.  Of the writer's thread. */
struct writer_tables {
    size_t inflight;
    size_t doubts;
    size_t kept; /* news of a lost batch */
    size_t listed;
    size_t nodes_seen;
    size_t drifts; /* that were told and have not healed */
    size_t names;  /* atoms: of nodes and GPUs, for good */
};
void writer_tables(const struct writer *writer, struct writer_tables *out);

#endif
