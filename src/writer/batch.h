/*
 * batch - commands that are committed to disk together or not at all.
 *
 *   batch_run: decide -> write (SAVEPOINT) -> apply      ... once per command
 *   batch_end: publish less room -> COMMIT -> publish more room
 *
 * A snapshot published before the COMMIT may only remove room: nodes on which this batch frees room
 * are shown as they were. A lost batch is undone, newest change first, and published again.
 */
#ifndef MILLIGPU_BATCH_H
#define MILLIGPU_BATCH_H

#include "milligpu/spine/app.h"

struct batch {
    struct app *app;
    struct ledger *ledger;
    struct change **change; /* applied changes in order; owned until batch_reset() */
    size_t n_changes;
    size_t capacity;
    bool open; /* a transaction is open */
    bool lost; /* it cannot be committed; the reason is in err */
    struct err err;
};

enum batch_result {
    BATCH_DONE, /* decided: see the verdict */
    /* not applied: the database refused it, or safe mode is on */
    BATCH_CONTRADICTED,
    BATCH_LOST, /* no further command may be run in this batch */
};

void batch_init(struct batch *batch, struct app *app, struct ledger *ledger);
void batch_done(struct batch *batch);

/* *out_change is borrowed until batch_end(); NULL unless BATCH_DONE with VERDICT_OK. */
enum batch_result batch_run(struct batch *batch, const struct command *command,
                            enum verdict *out_verdict, const struct change **out_change,
                            struct change *out_answer) MUST_USE;

/*
 * Returns true if committed and published; false, with batch->err, if undone and published. The
 * changes stay readable until batch_reset().
 */
bool batch_end(struct batch *batch) MUST_USE;

/* Frees the changes. */
void batch_reset(struct batch *batch);

/* Publishes the present state of the ledger. */
void batch_publish(struct app *app, struct ledger *ledger);

#endif
