/*
 * webhooks - filter, prioritize, bind, preempt: decode, ask, encode.
 */
#ifndef MILLIGPU_WEBHOOKS_H
#define MILLIGPU_WEBHOOKS_H

#include "app.h"

/* A call on the webhook listener, whatever its path. */
void webhooks_handle(struct app *app, struct web_call *call);

#endif
