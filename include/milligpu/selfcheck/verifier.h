/*
 * verifier - verifies the ledger once milligpud is ready, and then every verify_interval_s.
 *
 *   verifier thread: open a read transaction on the file
 *     --> writer, between two batches: pin it, and take the snapshot of the same moment
 *     --> verifier thread: all checks of the file (verify.h), every node of the snapshot, and file
 *         against snapshot (I3)
 *
 * The writer only pins. It also verifies its own tables, a few nodes a second (verifier_memory). A
 * finding stops all grants (safe_mode.h), but damage to ended allocations is only reported.
 *
 * verifier_step() runs on the verifier thread, which also writes the diagnostics bundle.
 */
#ifndef MILLIGPU_VERIFIER_H
#define MILLIGPU_VERIFIER_H

#include "milligpu/spine/app.h"

struct verifier;

struct verifier *verifier_new(struct app *app);
void verifier_free(struct verifier *verifier);

/*
 * Starts or continues a verification that is due. The first one is due when milligpud is ready, at
 * the latest a minute after the first step.
 */
void verifier_step(struct verifier *verifier, int64_t now_ms);
/*
 * Returns the ms until the next step is due. app->verifier_wakeup is signaled before that for the
 * writer's part of a verification, when milligpud is ready, for safe mode and for verifier_stop().
 */
int64_t verifier_wait_ms(struct verifier *verifier, int64_t now_ms);

/* The writer's part of a verification. Writer's thread, between two batches. NULL is fine. */
void verifier_meet(struct verifier *verifier);

/* Verifies the next few nodes of the ledger in memory; *place is the position for the next call. */
void verifier_memory(struct app *app, const struct ledger *ledger, uint32_t *place);

/* Cancels the verification in progress. Any thread. */
void verifier_stop(struct verifier *verifier);

/* The last completed verification. */
struct verifier_facts {
    int64_t at_ms;   /* time of its end, UTC; 0: none yet */
    int64_t took_ms; /* duration on the verifier thread, without waits for the writer */
};
void verifier_facts(struct verifier *verifier, struct verifier_facts *out);

#endif
