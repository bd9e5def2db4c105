/*
 * informer - turns the cluster's nodes and pods into messages for the writer.
 *
 *   API server ==list, watch==> reflector of nodes --\
 *              ==list, watch==> reflector of pods  ---+--> decode --> [queue] --> writer
 *
 *   first  NODES_BEGIN, NODE_LISTED ..., NODES_END   then  NODE, NODE_DELETED; pods alike
 *
 * A watch event that repeats what its Node showed before is dropped (node_digests.h).
 *
 * A step function over kube_ops. Pods are listed only after a complete list of nodes, because pods
 * are placed on nodes. Ended pods are not selected: their end arrives as a deletion.
 *
 * An object with a name and a uid is always delivered, even if only part of it can be read: it may
 * hold GPUs. A list that contains an object without a name or a uid fails and is retried, so that a
 * list with a gap never counts as complete.
 *
 * The informer may use a limited share of the queue, in entries and in bytes, so that binds always
 * find room; while the writer is slow, the informer stops reading (backpressure). Pods are listed
 * again after a new ledger's grace period, and when pods that the pod cache had no room for may fit
 * now.
 */
#ifndef MILLIGPU_INFORMER_H
#define MILLIGPU_INFORMER_H

#include "milligpu/kube/kube.h"
#include "milligpu/kube/reflector.h"
#include "milligpu/spine/app.h"

struct informer;

struct informer *informer_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void informer_free(struct informer *informer);

/*
 * Starts the requests that are due and returns the ms until the next step is needed. Then call
 * kube_ops.poll with informer_answer.
 */
int64_t informer_step(struct informer *informer, int64_t now_ms);
void informer_answer(struct informer *informer, int64_t now_ms, const struct kube_answer *answer);

#endif
