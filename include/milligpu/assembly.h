/*
 * assembly - the parts of milligpud, put together in one way for the daemon, tests and benchmarks.
 *
 *   edges (clock, store, API server) + settings --app_open()--> struct app and its parts
 *
 * Nothing runs yet: threads, or a test, call the step functions.
 */
#ifndef MILLIGPU_ASSEMBLY_H
#define MILLIGPU_ASSEMBLY_H

#include "milligpu/app.h"
#include "milligpu/kube.h"

struct cluster_identity;
struct informer;
struct webhooks;
struct writer;

/* What the application touches of the world.  Borrowed until app_close(). */
struct app_edges {
    struct clock_ops clock;
    struct between_ops between;   /* at NULL: nobody comes in between */
    struct store *store;          /* open */
    struct store_ops store_ops;   /* begin NULL: the store's own */
    struct fake_apiserver *fake;  /* NULL in a cluster */
    const struct kube_ops *watch; /* what lists and watches go through */
    const struct kube_ops *calls; /* what everything else goes through */
    int64_t grace_ms;             /* how long a new ledger beside grants waits; 0: not at all */
    const char *server;           /* the API server's address, for people */
    const char *wake_namespace;   /* where the wake-up object lives */
    const char *instance;         /* who reports Events */
};

struct app_parts {
    struct writer *writer;
    struct cluster_identity *identity;
    struct informer *informer;
    struct webhooks *webhooks;
};

/* *app is zeroed, but for `set`.  The caller loads the ledger (writer_load). */
void app_open(struct app *app, const struct settings *settings, const struct app_edges *edges,
              struct app_parts *out);
/* After the listeners and threads have stopped; also of an app that was never opened. */
void app_close(struct app *app, struct app_parts *parts);

#endif
