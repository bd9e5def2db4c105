/*
 * cluster_identity - identifies the cluster by the uid of the namespace kube-system.
 *
 * It retries until the uid is known. If the ledger is new, it also detects an earlier milligpud:
 * the first one creates the wake-up object, a later one finds it (docs/why/009). Nothing is written
 * before the cluster is known, because the ledger of another cluster must not be changed.
 */
#ifndef MILLIGPU_CLUSTER_IDENTITY_H
#define MILLIGPU_CLUSTER_IDENTITY_H

#include "milligpu/kube/kube.h"
#include "milligpu/spine/app.h"

/*
 * Asks once, for at most five seconds, before a ledger of an older version is migrated. ops must
 * have nothing else in flight. UNAVAILABLE: no answer, or an answer without the uid; UNAUTHORIZED,
 * FORBIDDEN: refused by the API server.
 */
int cluster_identity_ask(const struct kube_ops *ops, char out_uid[UID_BYTES_MAX + 1],
                         struct err *err) MUST_USE;

struct cluster_identity;

struct cluster_identity *cluster_identity_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void cluster_identity_free(struct cluster_identity *identity);

/*
 * Starts the requests that are due and returns the ms until the next step is needed. Then call
 * kube_ops.poll with cluster_identity_answer.
 */
int64_t cluster_identity_step(struct cluster_identity *identity, int64_t now_ms);
void cluster_identity_answer(struct cluster_identity *identity, int64_t now_ms,
                             const struct kube_answer *answer);

/*
 * True once instance.cluster, new_ledger and wake_object_existed are set and the ledger belongs to
 * this cluster.
 */
bool cluster_identity_done(const struct cluster_identity *identity);
/* True, with *out_err set, if the ledger belongs to another cluster. Final. */
bool cluster_identity_refused(const struct cluster_identity *identity, struct err *out_err);

#endif
