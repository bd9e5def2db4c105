/*
 * writer - the only one that changes the ledger.
 *
 *   take a batch -> decide, write, apply each -> publish less room -> COMMIT -> act -> publish
 *   more room -> reply
 *
 * A step function: its thread is only a loop around writer_step(). It owns the ledger and the
 * writing half of the store: once a thread has made a step, another one that makes a step, ends or
 * loads the writer, or reads its tables aborts. It never uses the network: what must be sent is put
 * into the outbox, after the COMMIT.
 *
 * When a batch is lost (disk full, I/O error), everything is undone, binds are answered with an
 * Error, and what the watch reported is kept and tried again; readiness is false meanwhile. When
 * the database contradicts a single change, granting stops: safe mode.
 */
#ifndef MILLIGPU_WRITER_H
#define MILLIGPU_WRITER_H

#include "milligpu/spine/app.h"

struct writer;

struct writer *writer_new(struct app *app) MUST_USE;
void writer_free(struct writer *writer);

/* Loads what the store kept and publishes it; open reservations are in doubt. */
int writer_load(struct writer *writer, struct err *err) MUST_USE;

/* Handles one batch. Waits at most wait_ms for the first message; returns how many were taken. */
size_t writer_step(struct writer *writer, int64_t wait_ms);

/* The process ends in order: there will be no more step. */
void writer_end(struct writer *writer);

/*
 * The sizes of its tables: entries must not outlive what they are about. The writer's thread only.
 */
struct writer_tables {
    size_t inflight;
    size_t doubts;
    size_t n_kept; /* messages kept from a lost batch */
    size_t n_listed;
    size_t nodes_seen;
    size_t host_sums;
    size_t agents;
    size_t drifts; /* that were reported and not resolved */
    size_t names;  /* of the ledger, with those that the next sweeps free */
};
void writer_tables(const struct writer *writer, struct writer_tables *out);

#endif
