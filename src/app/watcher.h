/*
 * watcher - two reflectors, nodes before pods, decoded into messages for the writer.
 */
#ifndef MILLIGPU_WATCHER_H
#define MILLIGPU_WATCHER_H

#include "milligpu/reflector.h"

#include "app.h"

struct watcher;

struct watcher *watcher_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void watcher_free(struct watcher *watcher);

/* Start what is due; returns how long it may be left alone, in ms. Then kube_ops.poll with
   watcher_answer. */
int64_t watcher_step(struct watcher *watcher, int64_t now_ms);
void watcher_answer(struct watcher *watcher, int64_t now_ms, const struct kube_answer *answer);

#endif
