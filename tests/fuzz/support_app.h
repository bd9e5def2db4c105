/*
 * support_app - the whole application in one thread on a small cluster.
 *
 * Real parts: writer, informer, outbox, webhooks, REST, the fake API server, the store in memory.
 */
#ifndef MILLIGPU_TESTS_FUZZ_SUPPORT_APP_H
#define MILLIGPU_TESTS_FUZZ_SUPPORT_APP_H

#include "milligpu/api.h"
#include "milligpu/assembly.h"
#include "milligpu/informer.h"
#include "milligpu/kube.h"
#include "milligpu/webhooks.h"
#include "milligpu/writer.h"

#include "support.h"
#include "support/fake_http.h"

struct core_fixture {
    struct app app;
    struct app_parts parts;
    struct settings settings;
    struct settings_set *set;
    char *server;
    struct kube_ops watch_ops;
    struct kube_ops call_ops;
    int64_t now_ms;
    uint64_t generation; /* of the snapshot when this was made */
};

/* The cluster that runs share, ready to use; made if there is none. */
struct core_fixture *core_take(void) MUST_USE;
/* This cluster was changed: the next run gets a new one. */
void core_spoil(void);
/* If the ledger was changed: verify it, and let the next run get a new cluster. */
void core_close(struct core_fixture *core);
/* Empty the hints: every run begins without earlier questions. */
void core_forget(struct core_fixture *core);
/* Run a few turns, so that changes reach the ledger. */
void core_run(struct core_fixture *core);
/* Run until the call is answered; bounded. */
void core_answer(struct core_fixture *core, const struct http_call *call);
#endif
