/*
 * webhook_fixture - webhooks without sockets.
 */
#ifndef MILLIGPU_BENCH_WEBHOOK_FIXTURE_H
#define MILLIGPU_BENCH_WEBHOOK_FIXTURE_H

#include "milligpu/app.h"
#include "milligpu/kube.h"
#include "milligpu/message.h"
#include "milligpu/webhooks.h"

#include "support/fake_http.h"

/* The parts of an app that are the same in every benchmark; it is ready to grant. */
struct webhook_fixture {
    struct app app;
    struct settings settings;
    struct webhooks *webhooks;
};
void webhook_fixture_init(struct webhook_fixture *fixture);
void webhook_fixture_done(struct webhook_fixture *fixture);
/* An outbox that writes no wake-up objects. */
void webhook_fixture_outbox(struct webhook_fixture *fixture, const struct kube_ops *ops, void *user,
                            void (*result)(void *user, struct message *take_message));

/* Ask, and get the answer at once. */
void webhook_fixture_ask(struct webhook_fixture *fixture, struct http_call *call, struct text body);

#endif
