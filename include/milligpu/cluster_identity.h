/*
 * cluster_identity - which cluster is this?  The uid of the kube-system namespace.
 *
 * It is asked for until it is known; and where the ledger is new, whether another milligpud was
 * here before: the first one creates the wake-up object, a later one finds it (docs/why/009).
 *
 * Before it is known nothing is written: a ledger of another cluster must not be touched.
 */
#ifndef MILLIGPU_CLUSTER_IDENTITY_H
#define MILLIGPU_CLUSTER_IDENTITY_H

#include "milligpu/app.h"
#include "milligpu/kube.h"

struct cluster_identity;

struct cluster_identity *cluster_identity_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void cluster_identity_free(struct cluster_identity *identity);

/* Returns how long it may be left alone, in ms; then kube_ops.poll with claim_answer. */
int64_t cluster_identity_step(struct cluster_identity *identity, int64_t now_ms);
void cluster_identity_answer(struct cluster_identity *identity, int64_t now_ms,
                             const struct kube_answer *answer);

/*
 * All that was learned: app->cluster, new_ledger and wake_object_existed are set, and the ledger
 * agreed.
 */
bool cluster_identity_done(const struct cluster_identity *identity);
/* The ledger is another cluster's: *out_err says so.  Final. */
bool cluster_identity_refused(const struct cluster_identity *identity, struct err *out_err);

#endif
