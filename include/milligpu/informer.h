/*
 * informer - two reflectors, nodes before pods, decoded into messages for the writer.
 */
#ifndef MILLIGPU_INFORMER_H
#define MILLIGPU_INFORMER_H

#include "milligpu/app.h"
#include "milligpu/kube.h"
#include "milligpu/reflector.h"

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
