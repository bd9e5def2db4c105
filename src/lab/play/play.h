/*
 * play - the requests of kube-scheduler to an extender, and the evaluation of the answers.
 *
 * Pure: bodies in, bodies out.
 */
#ifndef MILLIGPU_CTL_PLAY_H
#define MILLIGPU_CTL_PLAY_H

#include "milligpu/document/document.h"

/* ExtenderArgs with nodeCacheCapable: names, not nodes. names: an array of strings. */
void play_args(struct strbuf *out, const struct document *pod, const struct document *names);
/* ExtenderBindingArgs. */
void play_bind_args(struct strbuf *out, const struct document *pod, const char *node);

/*
 * The node with the best score, the first among equals; NULL if no score belongs to one of names.
 */
const char *play_best(const struct document *scores, const struct document *names);

/* Does a container of the pod name the resource? */
bool play_asks(const struct document *pod, const char *resource);

#endif
