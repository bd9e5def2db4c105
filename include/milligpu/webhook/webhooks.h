/*
 * webhooks - filter, prioritize, bind, preempt: decode, ask, encode.
 *
 * kube-scheduler reads only answers with status 200, so an error of filter or bind is sent in the
 * Error field of a 200.
 */
#ifndef MILLIGPU_WEBHOOKS_H
#define MILLIGPU_WEBHOOKS_H

#include "milligpu/spine/app.h"

struct http_call;
struct webhooks;

struct webhooks *webhooks_new(struct app *app) MUST_USE;
void webhooks_free(struct webhooks *webhooks);
/* Bytes that it keeps for the next calls. */
size_t webhooks_bytes(struct webhooks *webhooks);

/* Answers a call on the webhook listener, whatever its path. */
void webhooks_handle(struct webhooks *webhooks, struct http_call *call);

/* Is it one of the webhooks? No other path on that listener accepts a body. */
bool webhooks_takes_body(const struct webhooks *webhooks, const char *method, const char *path);

#endif
