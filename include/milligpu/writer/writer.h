/*
 * writer - the single writer of the ledger: batches, COMMITs, replies.
 *
 *   take a batch -> reply that pods are bound -> decide, write, apply each -> publish less room ->
 *   COMMIT -> act -> publish more room -> reply
 *
 * A step function: its thread is only a loop around writer_step(). It owns the ledger and the
 * writing half of the store: once a thread has made a step, any other thread that steps, ends or
 * loads the writer, or reads its tables, aborts. It does no network I/O: requests are put into the
 * outbox after the COMMIT.
 *
 * When a batch is lost (disk full, I/O error), it is undone, binds are answered with an Error,
 * messages of the watch are kept and retried, and readiness is false meanwhile. When the database
 * contradicts a single change, granting stops: safe mode.
 */
#ifndef MILLIGPU_WRITER_H
#define MILLIGPU_WRITER_H

#include "milligpu/spine/app.h"

struct writer;

struct writer *writer_new(struct app *app) MUST_USE;
void writer_free(struct writer *writer);

/* Loads the ledger from the store and publishes it; open reservations are in doubt. */
int writer_load(struct writer *writer, struct err *err) MUST_USE;

/*
 * Handles one batch; waits at most wait_ms for its first message. Returns the messages handled;
 * those that only confirm that a pod is bound may wait for the next batch.
 */
size_t writer_step(struct writer *writer, int64_t wait_ms);

/* Orderly shutdown; no step may follow. */
void writer_end(struct writer *writer);

/*
 * Numbers of entries of the writer's tables, with which tests check that no entry outlives its
 * subject. Writer's thread only.
 */
struct writer_tables {
    size_t inflight;
    size_t doubts;
    size_t n_kept;    /* messages kept for a retry */
    size_t n_put_off; /* messages that ride in the next batch */
    size_t n_listed;
    size_t nodes_seen;
    size_t host_sums;
    size_t agents;
    size_t drifts; /* drifts reported and not resolved */
    size_t names;  /* names of the ledger, including those that the next sweeps free */
};
void writer_tables(const struct writer *writer, struct writer_tables *out);

#endif
