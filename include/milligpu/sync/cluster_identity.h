/*
 * cluster_identity - finds out which cluster this is: by the uid of the namespace kube-system.
 *
 * It asks until the uid is known. If the ledger is new, it also finds out whether another milligpud
 * was here before: the first one creates the wake-up object, a later one finds it (docs/why/009).
 * Nothing is written before the cluster is known, because a ledger of another cluster must not be
 * changed.
 */
#ifndef MILLIGPU_CLUSTER_IDENTITY_H
#define MILLIGPU_CLUSTER_IDENTITY_H

#include "milligpu/kube/kube.h"
#include "milligpu/spine/app.h"

/*
 * Asks once, before a ledger of an older version is migrated, over ops that have nothing else in
 * flight. Waits five seconds at most. UNAVAILABLE: no answer, or none that names the cluster;
 * UNAUTHORIZED, FORBIDDEN: the API server refuses it.
 */
int cluster_identity_ask(const struct kube_ops *ops, char out_uid[UID_BYTES_MAX + 1],
                         struct err *err) MUST_USE;

struct cluster_identity;

struct cluster_identity *cluster_identity_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void cluster_identity_free(struct cluster_identity *identity);

/*
 * Starts what is due and returns how long it may be left alone, in ms. Then call kube_ops.poll with
 * cluster_identity_answer.
 */
int64_t cluster_identity_step(struct cluster_identity *identity, int64_t now_ms);
void cluster_identity_answer(struct cluster_identity *identity, int64_t now_ms,
                             const struct kube_answer *answer);

/*
 * Everything is known: instance.cluster, new_ledger and wake_object_existed are set, and the ledger
 * belongs to this cluster.
 */
bool cluster_identity_done(const struct cluster_identity *identity);
/* The ledger belongs to another cluster; *out_err says so. This is final. */
bool cluster_identity_refused(const struct cluster_identity *identity, struct err *out_err);

#endif
