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

struct wakeup;
struct command_trace;
struct commits;
struct events;
struct fake_apiserver;
struct waiting_pods;
struct score_caches;
struct key_publisher;
struct keyring;
struct node_digests;
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
     * Limit in bytes of the pods and nodes that wait while the disk is broken; the last message may
     * exceed it. The queue holds fewer (informer.c).
     */
    NEWS_BYTES_MAX = 32 * 1024 * 1024,
};

/* Points at which the order of threads matters. Each names the two steps around it. */
enum yield {
    YIELD_AFTER_SNAPSHOT, /* in filter */
    /* in filter: the refusal is recorded, the generation is not yet read again */
    YIELD_AFTER_REFUSAL,
    YIELD_AFTER_GENERATION, /* in filter */
    /* in the writer: more room is published, the waiting pods are not yet checked */
    YIELD_AFTER_PUBLISH,
};
struct yield_ops {
    void *ctx;
    /* NULL in the daemon, which has threads; the simulator runs its other "threads" here */
    void (*at)(void *ctx, enum yield where);
};

struct app {
    /* SIGHUP replaces set and settings; the old ones stay valid. */
    _Atomic(const struct settings_set *) set;
    _Atomic(const struct settings *) settings; /* the values of set */
    struct clock_ops clock;
    struct yield_ops yield;
    struct queue *queue;
    struct view *view;
    struct commits *commits;
    struct events *events; /* NULL: no streams of events */
    struct pod_cache *pod_cache;
    struct node_digests *node_digests;
    struct waiting_pods *waiting_pods;
    struct score_caches *score_caches;
    struct usage_table *usage_table;
    struct store *store;
    struct store_ops store_ops;      /* used by the writer for all writes */
    const struct rulebook *rulebook; /* initial rules of the writer; later: MESSAGE_POLICY */
    struct policy_reload *policy_reload;
    struct outbox *outbox;
    struct verifier *verifier;
    struct wakeup *verifier_wakeup; /* wakes the verifier's thread; owned by verifier */
    struct command_trace *command_trace;
    struct rights *rights;               /* NULL: permissions cannot be queried */
    struct keyring *keyring;             /* NULL: nothing is signed */
    struct key_publisher *key_publisher; /* NULL: nothing is signed */
    struct fake_apiserver *fake;         /* NULL in a cluster */
    /* Decoding rules, from the settings at the start. */
    struct {
        struct request_rules request_rules;
        struct inventory_rules inventory_rules;
        struct agents_rules agents_rules;
        struct wire_rules wire_rules;
    } rules;
    /* Identity of this process. The informer's thread writes cluster, before it sets identified. */
    struct {
        const char *server; /* address of the API server, for people */
        const char *wake_namespace;
        char webhook_address[300];       /* "" before the listener is bound */
        char cluster[UID_BYTES_MAX + 1]; /* uid of the namespace kube-system */
        uint64_t start_id;               /* random, different after each start */
        int64_t began_wall_ms;           /* UTC time of the start */
    } instance;

    /*
     * State for probes, metrics and doctor. Writers of the inputs of app_needs(): the identity step
     * sets identified, the writer sets nodes_synced and pods_synced; both set disk_broken, which
     * the writer clears; any thread sets safe_mode. All but disk_broken stay set.
     */
    atomic_bool identified; /* the cluster is known and owns the ledger */
    atomic_bool draining;
    atomic_bool planning;      /* an admin thread makes a plan of moves: one at a time */
    atomic_size_t names_bytes; /* names_bytes() of the ledger's names after the last batch */
    /* Start of a new ledger: the informer's thread sets the flags, the writer grace_ends_ms. */
    struct {
        /* the ledger has no owner or is a backup; the writer sets the owner after the first list */
        atomic_bool new_ledger;
        /* with new_ledger: the ledger is a backup and contains former nodes and pods */
        atomic_bool restored_ledger;
        /* the wake-up object existed before: another milligpud may have granted */
        atomic_bool wake_object_existed;
        /* duration of the grace period of a new ledger in a cluster with grants; 0: none */
        int64_t grace_ms;
        /* monotonic end of the current grace period; 0: none is running */
        atomic_int_fast64_t grace_ends_ms;
    } grace;
    /* State of the two watches: the informer's thread reads them, the writer applies them. */
    struct {
        atomic_bool nodes_synced; /* the writer has applied a complete list of nodes */
        atomic_bool pods_synced;  /* the writer has applied a complete list of pods */
        /*
         * list all pods again: the pod cache lacks one for which a node may have room now, or
         * signatures must be verified
         */
        atomic_bool list_again;
        atomic_int_fast64_t nodes_seen_ms; /* monotonic time of the last answer or event */
        atomic_int_fast64_t pods_seen_ms;  /* monotonic time of the last answer or event */
        atomic_int_fast64_t api_error_ms;  /* monotonic time of the last failed call; 0 if none */
    } watch;
    /* Health of the ledger, found by the writer and the verifier. */
    struct {
        atomic_bool disk_broken; /* the ledger cannot be written */
        atomic_bool safe_mode;   /* permanent; reason: safe_mode_why() */
        struct safe_mode safe;
        atomic_bool history_checked; /* a verification has completed */
        atomic_bool history_broken;
    } health;
};

/* Runs the simulator's other threads, if there is a simulator (struct yield_ops). */
static inline void app_yield(const struct app *app, enum yield where)
{
    if (app->yield.at != NULL)
        app->yield.at(app->yield.ctx, where);
}

/*
 * A condition for granting. Conditions are independent, so several may fail at once. The order:
 * conditions that a start waits for, as they are met, then conditions that can fail later.
 */
struct app_need {
    const char *name; /* as in /readyz */
    bool is_met;
    const char *why; /* reason for people if not met; contains no pod name */
};
enum { APP_NEEDS = 6 };
void app_needs(const struct app *app, struct app_need out[APP_NEEDS]);

/* Are all needs met? *out_why (out_why may be NULL): the first reason against it, or NULL. */
bool app_ready(const struct app *app, const char **out_why);
/* The reason while the grace period runs. */
const char *app_grace_why(const struct app *app);
/* The reason while the list of pods is not complete. */
const char *app_pods_why(const struct app *app);
/* The reason while store_space() is not SPACE_ENOUGH. */
const char *app_space_why(const struct app *app);

/* Counts one refusal in the metrics. */
void app_count_refusal(enum reason reason);

#endif
