/*
 * webhooks - answers filter, prioritize, bind and preempt: decode, ask, encode.
 *
 * kube-scheduler reads only answers with status 200, so errors of filter and bind are sent in the
 * Error field of a 200.
 */
#ifndef MILLIGPU_WEBHOOKS_H
#define MILLIGPU_WEBHOOKS_H

#include "milligpu/spine/app.h"

struct http_call;
struct webhooks;

struct webhooks *webhooks_new(struct app *app) MUST_USE;
void webhooks_free(struct webhooks *webhooks);
/* Bytes of scratch memory kept for later calls. */
size_t webhooks_bytes(struct webhooks *webhooks);

/* Answers a call on the webhook listener, on any path. */
void webhooks_handle(struct webhooks *webhooks, struct http_call *call);

/* Returns true for the webhooks' paths: no other path on that listener accepts a body. */
bool webhooks_takes_body(const struct webhooks *webhooks, const char *method, const char *path);

#endif
