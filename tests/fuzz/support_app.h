/*
 * support_app - the whole application in one thread on a small cluster.
 *
 * Real parts: writer, informer, outbox, webhooks, REST, the fake API server, the store in memory.
 */
#ifndef MILLIGPU_TESTS_FUZZ_SUPPORT_APP_H
#define MILLIGPU_TESTS_FUZZ_SUPPORT_APP_H

#include "milligpu/admin/api.h"
#include "milligpu/daemon/assembly.h"
#include "milligpu/kube/kube.h"
#include "milligpu/sync/informer.h"
#include "milligpu/webhook/webhooks.h"
#include "milligpu/writer/writer.h"

#include "support.h"
#include "support/fake_http.h"

struct fuzz_app {
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
struct fuzz_app *fuzz_app_take(void) MUST_USE;
/* This cluster was changed: the next run gets a new one. */
void fuzz_app_spoil(void);
/* If the ledger was changed: verify it, and let the next run get a new cluster. */
void fuzz_app_close(struct fuzz_app *fuzz);
/* Empty the table of waiting pods: every run begins without earlier questions. */
void fuzz_app_forget(struct fuzz_app *fuzz);
/* Run a few turns, so that changes reach the ledger. */
void fuzz_app_run(struct fuzz_app *fuzz);
/* Run until the call is answered; bounded. */
void fuzz_app_answer(struct fuzz_app *fuzz, const struct http_call *call);
#endif
