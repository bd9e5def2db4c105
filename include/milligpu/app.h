/*
 * app - the parts of milligpud, and how they hold together.
 *
 *   HTTP threads --filter, prioritize, preempt--> view, hints
 *        | bind                                    ^
 *        v                                         | publish
 *   [queue] <--informer thread-- API server    WRITER thread --> store
 *        \_____________________________________^      |
 *                                   outbox thread <---/  --> API server
 *
 * struct app is filled by daemon_run() and then constant, but for the atomics.
 */
#ifndef MILLIGPU_APP_H
#define MILLIGPU_APP_H

#include <stdatomic.h>

#include "milligpu/clock.h"
#include "milligpu/inventory.h"
#include "milligpu/queue.h"
#include "milligpu/request.h"
#include "milligpu/safe_mode.h"
#include "milligpu/settings.h"
#include "milligpu/store.h"
#include "milligpu/view.h"
#include "milligpu/wire_kube.h"

struct command_trace;
struct fake_apiserver;
struct hints;
struct outbox;
struct pod_cache;
struct rights;
struct verifier;

enum {
    QUEUE_MAX = 8192, /* one kube-scheduler sends thousands of binds at once */
    BATCH_MAX = 256,
    NEWS_BYTES_MAX = 32 * 1024 * 1024, /* of the cluster, in the queue; and as much again while the
                                          disk is broken.  The last one may be larger. */
};

/*
 * Places where another thread may come in between, and where it matters.  The daemon has threads
 * and leaves at NULL; the simulator has one, and lets the others run there.
 */
enum between {
    BETWEEN_SNAPSHOT_AND_JUDGEMENT, /* of a filter */
    BETWEEN_RECORD_AND_READING,     /* the refusal is recorded, the generation not read again */
    BETWEEN_READING_AND_ANSWER,
    BETWEEN_ROOM_AND_WAKE_UP, /* of the writer: more room is published, who waits not looked at */
};
struct between_ops {
    void *ctx;
    void (*at)(void *ctx, enum between where);
};

struct app {
    _Atomic(const struct settings_set *) set;
    _Atomic(const struct settings *)
        settings; /* of set; SIGHUP puts another, the old one lives on */
    struct request_rules request_rules;
    struct inventory_rules inventory_rules;
    struct wire_rules wire_rules;
    struct clock_ops clock;
    struct between_ops between;
    struct queue *queue;
    struct view *view;
    struct pod_cache *pod_cache;
    struct hints *hints;
    struct store *store;
    struct store_ops store_ops; /* what the writer writes through */
    struct outbox *outbox;
    struct verifier *verifier;
    struct command_trace *command_trace;
    struct rights *rights;       /* NULL: nobody can be asked */
    struct fake_apiserver *fake; /* NULL in a cluster */
    const char *server;          /* of the API, for people */
    const char *wake_namespace;
    int64_t grace_ms;          /* how long a new ledger beside grants waits; 0: not at all */
    char webhook_address[300]; /* as bound; "" before */
    char cluster[UID_BYTES_MAX + 1];

    /* Written by the part that knows, read by probes, metrics and doctor. */
    atomic_bool identified; /* the cluster is known, and the ledger is no other one's */
    atomic_bool new_ledger; /* it is nobody's yet: the writer claims it after the first list */
    atomic_bool wake_object_existed; /* before that ledger: another milligpud may have granted */
    atomic_bool nodes_synced;        /* the writer has applied a complete list */
    atomic_bool pods_synced;
    atomic_bool disk_broken;
    atomic_bool safe_mode; /* for good; safe says why */
    struct safe_mode safe;
    atomic_bool draining;
    atomic_bool list_again;      /* pods: not all that is needed could be kept of the last list */
    atomic_bool history_checked; /* a verification came to its end */
    atomic_bool history_broken;
    atomic_int_fast64_t grace_ends_ms;  /* monotonic, of a new ledger that waits; 0: none does */
    atomic_int_fast64_t nodes_heard_ms; /* monotonic */
    atomic_int_fast64_t pods_heard_ms;
    atomic_int_fast64_t api_error_ms; /* monotonic time of the last failed call; 0: none */
};

/* Others may come in between here. */
static inline void app_between(const struct app *app, enum between where)
{
    if (app->between.at != NULL)
        app->between.at(app->between.ctx, where);
}

/* Ready to grant: fail closed otherwise. out_why may be NULL; else the first reason, for
   people. */
bool app_ready(const struct app *app, const char **out_why);
/* What there is to say while the pods are not synced. */
const char *app_pods_why(const struct app *app);

/* One more refusal in the metrics. */
void app_count_refusal(enum reason reason);

#endif
