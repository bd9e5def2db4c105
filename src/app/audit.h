/*
 * audit - is the ledger what it must be?  Asked again every audit_interval_s while we run.
 *
 *   audit thread: open a look at the file, ask --> writer, between two batches: pin it, and take
 *   the snapshot --> audit thread: every check of the file (store.h), every node of the snapshot,
 *   and one against the other (I3).
 *
 * The writer waits for nothing but the pin.  Beside it goes through its own tables, a few nodes a
 * second (audit_memory).  Whatever is wrong ends granting (safe.h), but for the past: ended
 * allocations are in nobody's way, so damage there is told and no more.
 *
 * audit_step() is for the audit thread, which also fills the bundle of safe mode.
 */
#ifndef MILLIGPU_AUDIT_H
#define MILLIGPU_AUDIT_H

#include "app.h"

struct audit;

struct audit *audit_new(struct app *app);
void audit_free(struct audit *audit);

/* Whatever is due; the first audit at once. */
void audit_step(struct audit *audit, int64_t now_ms);

/* Between two batches, in the writer's thread.  NULL is fine. */
void audit_meet(struct audit *audit);

/* A piece of the ledger in memory; *place says where it goes on. */
void audit_memory(struct app *app, const struct ledger *ledger, uint32_t *place);

/* Any thread: the audit under way ends early. */
void audit_stop(struct audit *audit);

/* The last one that came to its end. */
struct audit_facts {
    int64_t at_ms;   /* UTC; 0: none yet */
    int64_t took_ms; /* of the audit thread, the wait for the writer left out */
};
void audit_facts(struct audit *audit, struct audit_facts *out);

#endif
