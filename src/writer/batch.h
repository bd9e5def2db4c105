/*
 * batch - commands that reach the disk together, or not at all.
 *
 *   batch_run: decide -> write (SAVEPOINT) -> apply      ... as often as there are commands
 *   batch_end: publish less room -> COMMIT -> publish more room
 *
 * Before the COMMIT a publication may only remove capacity: nodes on which this batch frees
 * capacity are shown as they were. A lost batch is undone, newest change first, and published
 * again.
 */
#ifndef MILLIGPU_BATCH_H
#define MILLIGPU_BATCH_H

#include "milligpu/spine/app.h"

struct batch {
    struct app *app;
    struct ledger *ledger;
    struct change **change; /* in order, all applied; owned until batch_reset() */
    size_t changes;
    size_t capacity;
    bool open; /* a transaction is open */
    bool lost; /* it cannot be committed any more; err says why */
    struct err err;
};

enum batch_result {
    BATCH_DONE, /* see the change's verdict */
    /* the database refused it, or safe mode is on: nothing was done */
    BATCH_CONTRADICTED,
    BATCH_LOST, /* nothing more can be done in this batch */
};

void batch_init(struct batch *batch, struct app *app, struct ledger *ledger);
void batch_done(struct batch *batch);

/* *out_change is borrowed until batch_end(); NULL unless BATCH_DONE with VERDICT_OK. */
enum batch_result batch_run(struct batch *batch, const struct command *command,
                            enum verdict *out_verdict, const struct change **out_change,
                            struct change *out_answer) MUST_USE;

/*
 * True: committed and published. False: undone and published, batch->err says why. The changes stay
 * readable.
 */
bool batch_end(struct batch *batch) MUST_USE;

/* Prepares for the next batch. */
void batch_reset(struct batch *batch);

/* Publishes the ledger as it is. */
void batch_publish(struct app *app, struct ledger *ledger);

#endif
