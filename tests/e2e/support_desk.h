/*
 * support_desk - the operator's desk: the application on a real listener, the world in one hand.
 *
 * Real parts: store, writer, informer, outbox, webhooks, the fake API server, three
 * listeners on loopback.  Writer and informer move only while desk_run() does, so what a test sees
 * stands still.
 */
#ifndef MILLIGPU_TESTS_SUPPORT_DESK_H
#define MILLIGPU_TESTS_SUPPORT_DESK_H

#include "app/api.h"
#include "app/informer.h"
#include "app/webhooks.h"
#include "app/writer.h"

struct desk {
    struct app app;
    struct settings settings; /* a copy, free to be changed */
    struct settings_set *set;
    struct kube_ops watch_ops;
    struct kube_ops call_ops;
    struct writer *writer;
    struct informer *informer;
    struct webhooks *webhooks;
    struct http_server *admin;
    struct http_server *probe;
    struct http_server *scheduler;
    struct arena arena; /* for what a test reads */
    char folder[64];
    char ledger[96];
};

/* Three nodes: n1 with two A100 of 81920 MiB, n2 with one and a UUID, n3 with half of a T4. */
struct desk *desk_new(void);
void desk_free(struct desk *desk);

/* Until nothing moves any more. */
void desk_run(struct desk *desk);

/* To the API server: method, path, body; must succeed. */
void desk_tell(struct desk *desk, const char *method, const char *path, const char *body);
void desk_pod(struct desk *desk, const char *name, const char *amount, const char *node);
void desk_end(struct desk *desk, const char *name);

/* As kube-scheduler: filter on all three nodes; then bind, which must succeed. */
void desk_filter(struct desk *desk, const char *name);
void desk_bind(struct desk *desk, const char *name, const char *node);

struct answer {
    int status;
    char type[80];
    char allow[40];
    struct strbuf head;
    struct strbuf body;
};

/* One request, one answer, in full.  body NULL: none; it is sent as application/json. */
void desk_ask(const struct http_server *http, const char *method, const char *target,
              const char *body, struct answer *out);
void answer_done(struct answer *answer);

#endif
