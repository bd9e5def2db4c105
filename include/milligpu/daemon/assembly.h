/*
 * assembly - wires the parts of milligpud together, the same way for daemon, tests and benchmarks.
 *
 *   edges (clock, store, API server) + settings --app_open()--> struct app and its parts
 *
 * Starts no thread: the daemon's threads, or a test, call the step functions.
 */
#ifndef MILLIGPU_ASSEMBLY_H
#define MILLIGPU_ASSEMBLY_H

#include "milligpu/kube/kube.h"
#include "milligpu/spine/app.h"

struct cluster_identity;
struct informer;
struct webhooks;
struct writer;

/* The interfaces between the application and the outside. Borrowed until app_close(). */
struct app_edges {
    struct clock_ops clock;
    struct yield_ops yield;          /* at NULL: no yield points */
    struct store *store;             /* an open store */
    struct store_ops store_ops;      /* begin NULL: the store's own functions */
    const struct rulebook *rulebook; /* initial policy; app_open() takes a reference */
    struct fake_apiserver *fake;     /* NULL in a cluster */
    const struct kube_ops *watch;    /* for lists and watches */
    const struct kube_ops *calls;    /* for all other requests */
    /* grace period of a new ledger in a cluster with grants; 0: none */
    int64_t grace_ms;
    const char *server;         /* the API server's address, for people */
    const char *wake_namespace; /* namespace of the wake-up object */
    struct keyring *keyring;    /* NULL if allocations are not signed */
    const char *instance;       /* reporting instance of Events */
};

struct app_parts {
    struct writer *writer;
    struct cluster_identity *identity;
    struct informer *informer;
    struct webhooks *webhooks;
};

/* *app must be zeroed except for `set`. The caller loads the ledger afterwards (writer_load). */
void app_open(struct app *app, const struct settings *settings, const struct app_edges *edges,
              struct app_parts *out);
/*
 * To be called after the listeners and threads have stopped. An app that was never opened is fine.
 */
void app_close(struct app *app, struct app_parts *parts);

#endif
