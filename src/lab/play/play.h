/*
 * play - kube-scheduler's requests to an extender, and the evaluation of the answers.
 *
 * Pure: bodies in, bodies out.
 */
#ifndef MILLIGPU_LAB_PLAY_H
#define MILLIGPU_LAB_PLAY_H

#include "milligpu/document/document.h"

/* Writes ExtenderArgs with nodeCacheCapable; names: an array of node names. */
void play_args(struct strbuf *out, const struct document *pod, const struct document *names);
/* Writes ExtenderBindingArgs. */
void play_bind_args(struct strbuf *out, const struct document *pod, const char *node);

/*
 * The node of names with the best score, the first among equals; NULL if none has a score.
 */
const char *play_best(const struct document *scores, const struct document *names);

/* True if a container of the pod names the resource. */
bool play_asks(const struct document *pod, const char *resource);

#endif
