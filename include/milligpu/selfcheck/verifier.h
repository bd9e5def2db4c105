/*
 * verifier - is the ledger sound? It is verified at start, then every verify_interval_s.
 *
 *   verifier thread: open a read transaction on the file
 *     --> writer, between two batches: pin it, and take the snapshot of the same moment
 *     --> verifier thread: every check of the file (verify.h), every node of the snapshot, and one
 *         against the other (I3)
 *
 * The writer waits for the pin only. Besides, it verifies its own tables, a few nodes a second
 * (verifier_memory). A finding stops all grants (safe_mode.h), except in the past: damage to ended
 * allocations is only reported.
 *
 * verifier_step() runs on the verifier thread, which also fills the diagnostics bundle.
 */
#ifndef MILLIGPU_VERIFIER_H
#define MILLIGPU_VERIFIER_H

#include "milligpu/spine/app.h"

struct verifier;

struct verifier *verifier_new(struct app *app);
void verifier_free(struct verifier *verifier);

/* Does what is due; the first verification starts at once. */
void verifier_step(struct verifier *verifier, int64_t now_ms);
/*
 * ms until a step has something to do, unless app->verifier_bell rings before: for the writer's
 * part of a verification, for safe mode and for verifier_stop().
 */
int64_t verifier_wait_ms(struct verifier *verifier, int64_t now_ms);

/* Between two batches, in the writer's thread. NULL is fine. */
void verifier_meet(struct verifier *verifier);

/* Verifies a piece of the ledger in memory; *place says where to continue. */
void verifier_memory(struct app *app, const struct ledger *ledger, uint32_t *place);

/* Any thread: ends the verification in progress early. */
void verifier_stop(struct verifier *verifier);

/* The last completed verification. */
struct verifier_facts {
    int64_t at_ms;   /* UTC; 0: none yet */
    int64_t took_ms; /* time of the verifier thread, without waiting for the writer */
};
void verifier_facts(struct verifier *verifier, struct verifier_facts *out);

#endif
