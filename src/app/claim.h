/*
 * claim - whose cluster is this?  The uid of the kube-system namespace, asked until it is known;
 * and where the ledger is new, whether another milligpud was here before: the first one creates the
 * wake-up object, a later one finds it (docs/why/009).
 *
 * Before it is known nothing is written: a ledger of another cluster must not be touched.
 */
#ifndef MILLIGPU_CLAIM_H
#define MILLIGPU_CLAIM_H

#include "app.h"

struct claim;

struct claim *claim_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void claim_free(struct claim *claim);

/* Returns how long it may be left alone, in ms; then kube_ops.poll with claim_answer. */
int64_t claim_step(struct claim *claim, int64_t now_ms);
void claim_answer(struct claim *claim, int64_t now_ms, const struct kube_answer *answer);

/*
 * All that was learned: app->cluster, new_ledger and wake_object_existed are set, and the ledger
 * agreed.
 */
bool claim_done(const struct claim *claim);
/* The ledger is another cluster's: *out_err says so.  Final. */
bool claim_refused(const struct claim *claim, struct err *out_err);

#endif
