/*
 * assembly - puts the parts of milligpud together, the same way for daemon, tests and benchmarks.
 *
 *   edges (clock, store, API server) + settings --app_open()--> struct app and its parts
 *
 * Nothing runs yet: threads, or a test, call the step functions.
 */
#ifndef MILLIGPU_ASSEMBLY_H
#define MILLIGPU_ASSEMBLY_H

#include "milligpu/kube/kube.h"
#include "milligpu/spine/app.h"

struct cluster_identity;
struct informer;
struct webhooks;
struct writer;

/* The interfaces between the application and everything outside it. Borrowed until app_close(). */
struct app_edges {
    struct clock_ops clock;
    struct yield_ops yield;          /* NULL: no other thread needs to run in between */
    struct store *store;             /* open */
    struct store_ops store_ops;      /* begin NULL: use the store's own functions */
    const struct rulebook *rulebook; /* by which milligpud begins to decide; referenced */
    struct fake_apiserver *fake;     /* NULL in a cluster */
    const struct kube_ops *watch;    /* for lists and watches */
    const struct kube_ops *calls;    /* for all other requests */
    /* grace period of a new ledger in a cluster with grants; 0: none */
    int64_t grace_ms;
    const char *server;         /* the API server's address, for people */
    const char *wake_namespace; /* namespace of the wake-up object */
    struct keyring *keyring;    /* NULL: nothing is signed */
    const char *instance;       /* name under which Events are reported */
};

struct app_parts {
    struct writer *writer;
    struct cluster_identity *identity;
    struct informer *informer;
    struct webhooks *webhooks;
};

/* *app is zeroed except for `set`. The caller loads the ledger (writer_load). */
void app_open(struct app *app, const struct settings *settings, const struct app_edges *edges,
              struct app_parts *out);
/*
 * Call it after the listeners and threads have stopped; also valid for an app that was never
 * opened.
 */
void app_close(struct app *app, struct app_parts *parts);

#endif
