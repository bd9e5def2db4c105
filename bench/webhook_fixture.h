/*
 * webhook_fixture - webhooks without sockets.
 */
#ifndef MILLIGPU_BENCH_WEBHOOK_FIXTURE_H
#define MILLIGPU_BENCH_WEBHOOK_FIXTURE_H

#include "milligpu/daemon/assembly.h"
#include "milligpu/webhook/webhooks.h"

#include "support/fake_http.h"

/* An app as the daemon has it, with fixed settings; it is ready to grant. */
struct webhook_fixture {
    struct app app;
    struct settings settings;
    struct app_parts parts;
    /* what edges did not bring: the fixture's own, else NULL */
    struct store *store;
    struct fake_apiserver *fake;
    struct kube_ops watch_ops; /* of fake */
    struct kube_ops call_ops;
};
/*
 * Parts that edges leaves out (NULL: all) are the real clock, a ledger in memory, the policy
 * binpack, and a fake API server without objects. No wake-up objects are written.
 */
void webhook_fixture_init(struct webhook_fixture *fixture, const struct app_edges *edges);
/* Frees the app and what init made; then the caller may free what edges brought. */
void webhook_fixture_done(struct webhook_fixture *fixture);

/* Ask, and get the answer at once. */
void webhook_fixture_ask(struct webhook_fixture *fixture, struct http_call *call, struct text body);

#endif
