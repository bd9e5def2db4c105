/*
 * app - the parts of milligpud, and how they fit together.
 *
 *   HTTP threads --filter, prioritize, preempt--> view, hints
 *        | bind                                    ^
 *        v                                         | publish
 *   [queue] <--informer thread-- API server    WRITER thread --> store
 *        \_____________________________________^      |
 *                                   outbox thread <---/  --> API server
 *
 * app_open() (assembly.h) fills struct app; after that only the atomics change.
 */
#ifndef MILLIGPU_APP_H
#define MILLIGPU_APP_H

#include <stdatomic.h>

#include "milligpu/core/facts/agents.h"
#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/facts/request.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/queue.h"
#include "milligpu/settings/settings.h"
#include "milligpu/spine/safe_mode.h"
#include "milligpu/spine/view.h"
#include "milligpu/store/store.h"
#include "milligpu/wire/kube/wire_kube.h"

struct bell;
struct command_trace;
struct commits;
struct events;
struct fake_apiserver;
struct hints;
struct score_caches;
struct key_publisher;
struct keyring;
struct outbox;
struct pod_cache;
struct policy_reload;
struct rights;
struct usage_table;
struct verifier;

enum {
    QUEUE_MAX = 8192, /* one kube-scheduler sends thousands of binds at once */
    BATCH_MAX = 256,
    /*
     * bytes of pods and nodes that wait in the queue, and the same amount again while the disk is
     * broken; the last message may exceed it
     */
    NEWS_BYTES_MAX = 32 * 1024 * 1024,
};

/*
 * Points at which another thread may run and at which the order matters. The daemon has threads and
 * leaves this at NULL; the simulator has one thread and runs the others there.
 */
enum yield {
    YIELD_SNAPSHOT_AND_ANSWER, /* in filter */
    /* the refusal is recorded, but the generation has not been read again yet */
    YIELD_RECORD_AND_READING,
    YIELD_READING_AND_ANSWER,
    /* the writer has published more room, but has not checked the waiting pods yet */
    YIELD_ROOM_AND_WAKE_UP,
};
struct yield_ops {
    void *ctx;
    void (*at)(void *ctx, enum yield where);
};

struct app {
    _Atomic(const struct settings_set *) set;
    /* the settings in set; SIGHUP replaces them, and the old ones stay valid */
    _Atomic(const struct settings *) settings;
    struct clock_ops clock;
    struct yield_ops yield;
    struct queue *queue;
    struct view *view;
    struct commits *commits;
    struct events *events; /* NULL: nobody feeds streams of events */
    struct pod_cache *pod_cache;
    struct hints *hints;
    struct score_caches *score_caches;
    struct usage_table *usage_table;
    struct store *store;
    struct store_ops store_ops;      /* the functions that the writer writes through */
    const struct rulebook *rulebook; /* with which the writer begins; see MESSAGE_POLICY */
    struct policy_reload *policy_reload;
    struct outbox *outbox;
    struct verifier *verifier;
    struct bell *verifier_bell; /* the verifier's, on which its thread sleeps */
    struct command_trace *command_trace;
    struct rights *rights;   /* NULL: the API server cannot be asked */
    struct keyring *keyring; /* NULL, with its publisher: nothing is signed */
    struct key_publisher *key_publisher;
    struct fake_apiserver *fake; /* NULL in a cluster */
    /* How bytes are read; by the settings of the start. */
    struct {
        struct request_rules request_rules;
        struct inventory_rules inventory_rules;
        struct agents_rules agents_rules;
        struct wire_rules wire_rules;
    } rules;
    /* Which milligpud this is. The informer's thread writes cluster, before identified. */
    struct {
        const char *server; /* the address of the API server, for people */
        const char *wake_namespace;
        char webhook_address[300]; /* the listener's address; "" before it is bound */
        char cluster[UID_BYTES_MAX + 1];
        uint64_t start_id;     /* random: another one after each start */
        int64_t began_wall_ms; /* UTC, when the parts were made */
    } instance;

    /*
     * Each is written by the part that knows it, and read by probes, metrics and doctor. Of those
     * in app_needs(), the identity step sets identified, and the writer nodes_synced and
     * pods_synced, for good. Both set disk_broken, and the writer clears it. Any thread sets
     * safe_mode, for good.
     */
    atomic_bool identified; /* the cluster is known, and the ledger belongs to it */
    atomic_bool draining;
    atomic_bool planning;      /* an admin thread makes a plan of moves: one at a time */
    atomic_size_t names_bytes; /* names_bytes() of the ledger's names after the last batch */
    /* The informer's thread says that the ledger is new; the writer waits, and claims it. */
    struct {
        /* it belongs to no cluster yet, or is a backup: claimed after the first list */
        atomic_bool new_ledger;
        /* with new_ledger: it is a backup, so it knows nodes and pods of before */
        atomic_bool restored_ledger;
        /* when it was new, the wake-up object existed: another milligpud may have granted */
        atomic_bool wake_object_existed;
        /* grace period of a new ledger in a cluster with grants; 0: none */
        int64_t grace_ms;
        /* monotonic end of a new ledger's grace period; 0: none is running */
        atomic_int_fast64_t grace_ends_ms;
    } grace;
    /* The informer's thread hears; the writer applies what it heard. */
    struct {
        atomic_bool nodes_synced; /* the writer has applied a complete list */
        atomic_bool pods_synced;
        /* the pod table had no room for all that the last list contained */
        atomic_bool list_again;
        atomic_int_fast64_t nodes_seen_ms; /* monotonic */
        atomic_int_fast64_t pods_seen_ms;
        atomic_int_fast64_t api_error_ms; /* monotonic time of the last failed call; 0: none */
    } watch;
    /* May the ledger be trusted, and written? The writer and the verifier find out. */
    struct {
        atomic_bool disk_broken;
        atomic_bool safe_mode; /* permanent; safe_mode_why() says why */
        struct safe_mode safe;
        atomic_bool history_checked; /* a verification has completed */
        atomic_bool history_broken;
    } health;
};

/* Lets other threads run here (see struct between). */
static inline void app_yield(const struct app *app, enum yield where)
{
    if (app->yield.at != NULL)
        app->yield.at(app->yield.ctx, where);
}

/*
 * What milligpud needs to grant. Each is a fact of its own, so several may fail at once. What a
 * start waits for comes first, in the order in which it ends; what can break later follows.
 */
struct app_need {
    const char *name; /* as /readyz shows it */
    bool is_met;
    const char *why; /* why not, for people; names no pod */
};
enum { APP_NEEDS = 6 };
void app_needs(const struct app *app, struct app_need out[APP_NEEDS]);

/*
 * May milligpud grant? False unless all needs are met. out_why may be NULL; else it receives the
 * first reason, or NULL.
 */
bool app_ready(const struct app *app, const char **out_why);
/* The reason to give while the list of pods is not complete. */
const char *app_grace_why(const struct app *app); /* while the grace period runs */
const char *app_pods_why(const struct app *app);
/* The reason to give while store_space() is not SPACE_ENOUGH. */
const char *app_room_why(const struct app *app);

/* Counts one refusal in the metrics. */
void app_count_refusal(enum reason reason);

#endif
