/*
 * desk - webhooks without sockets.
 */
#ifndef MILLIGPU_BENCH_DESK_H
#define MILLIGPU_BENCH_DESK_H

#include "app/app.h"
#include "app/webhooks.h"
#include "support/fake_http.h"

/* The parts of an app that are the same in every benchmark; it is ready to grant. */
struct desk {
    struct app app;
    struct settings settings;
    struct webhooks *webhooks;
};
void desk_init(struct desk *desk);
void desk_done(struct desk *desk);
/* An outbox that wakes nobody. */
void desk_outbox(struct desk *desk, const struct kube_ops *ops, void *user,
                 void (*result)(void *user, struct message *take_message));

/* Ask, and be answered at once. */
void desk_ask(struct desk *desk, struct http_call *call, struct text body);

#endif
