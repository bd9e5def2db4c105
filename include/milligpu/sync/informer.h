/*
 * informer - the nodes and pods of the cluster, as messages for the writer.
 *
 *   API server ==list, watch==> reflector of nodes --\
 *              ==list, watch==> reflector of pods  ---+--> decode --> [queue] --> writer
 *
 *   first  NODES_BEGIN, NODE_LISTED ..., NODES_END   then  NODE, NODE_DELETED; pods alike
 *
 * A step function over kube_ops. Pods are listed only once a list of nodes is complete, because
 * pods are placed on nodes. Ended pods are not selected: their end arrives as a deletion.
 *
 * An object with a name and a uid is always delivered, even if it can be read only in part: it may
 * hold GPUs. A list that contains an object without them fails and is tried again, so nobody takes
 * a list with a gap for complete.
 *
 * Messages wait for room in the queue: the informer takes a bounded share of it in entries and in
 * bytes, so binds always find room, and a slow writer makes the informer stop reading. Pods are
 * listed again when a new ledger's grace period has passed, and when the pod cache had to forget
 * pods that may fit now.
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
 * Starts what is due and returns how long it may be left alone, in ms. Then call kube_ops.poll with
 * informer_answer.
 */
int64_t informer_step(struct informer *informer, int64_t now_ms);
void informer_answer(struct informer *informer, int64_t now_ms, const struct kube_answer *answer);

#endif
