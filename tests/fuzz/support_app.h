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
    uint64_t generation; /* of the snapshot when it was made */
};

/* The cluster of every run, made when there is none.  Ready. */
struct core_fixture *core_take(void) MUST_USE;
/* The next run gets another: this cluster was changed. */
void core_spoil(void);
/* If the ledger was changed: verification it, and let the next run have another. */
void core_close(struct core_fixture *core);
/* Forget who was asked what: every run begins with empty hints. */
void core_forget(struct core_fixture *core);
/* A little further: what was changed reaches the ledger. */
void core_run(struct core_fixture *core);
/* Until the call is answered; bounded. */
void core_answer(struct core_fixture *core, const struct http_call *call);
#endif
