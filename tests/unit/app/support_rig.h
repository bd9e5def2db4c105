/*
 * rig - the whole application in one thread, with a clock in the hand.
 *
 * Real parts: writer, watcher, outbox, webhooks, the stand-in, the store in memory.  In between,
 * where the world can fail: store_ops that fail when told, kube_ops that lose answers when told.
 *  Web calls are records that keep their answer; there are no sockets.
 */
#ifndef MILLIGPU_TESTS_RIG_H
#define MILLIGPU_TESTS_RIG_H

#include "app/app.h"
#include "app/watcher.h"
#include "app/webhooks.h"
#include "app/writer.h"

struct web_call {
    char path[64];
    struct strbuf body;
    struct strbuf answer;
    int status; /* 0: not answered yet */
};

struct rig {
    struct app app;
    struct settings settings;
    struct store_ops real_store;
    struct kube_ops watch_ops;
    struct kube_ops call_ops; /* what the outbox uses: ours around real_calls */
    struct kube_ops real_calls;
    struct writer *writer;
    struct watcher *watcher;
    struct webhooks *webhooks;
    int64_t now_ms;
    int64_t wall_ms;
    bool disk_full;     /* every COMMIT fails */
    bool contradict;    /* the next write is refused by the database */
    bool lose_answers;  /* Bindings happen, their answers get lost */
    bool lose_requests; /* Bindings do not happen, and nobody says so */
    uint32_t commits;
    uint32_t bindings; /* POSTs that were started */
    uint32_t rings;
    struct {
        uint64_t id; /* 0: free */
        int64_t due_ms;
    } lost[32]; /* requests that time out */
    struct web_call *calls[256];
    size_t call_count;
};

/* nodes: {name, milli} pairs, model A100, ended by NULL. */
struct rig *rig_new(const char *const *nodes);
void rig_free(struct rig *rig);

/* Until nothing moves any more; bounded. */
void rig_run(struct rig *rig);
/* Let time pass, a second at a time. */
void rig_pass(struct rig *rig, int64_t ms);

/* The API server's side.  limits: "300" and so on for one container c. */
void rig_pod(struct rig *rig, const char *name, const char *limits);
void rig_bound_pod(struct rig *rig, const char *name, const char *limits, const char *node);
void rig_delete_pod(struct rig *rig, const char *name); /* gone at once */
void rig_end_pod(struct rig *rig, const char *name);    /* phase Succeeded */
void rig_node(struct rig *rig, const char *name, const char *milli);
void rig_delete_node(struct rig *rig, const char *name);
/* spec.nodeName of the pod; "" while unbound; NULL if it is not there. Valid until the next
   call. */
const char *rig_where(struct rig *rig, const char *name);

/* kube-scheduler's side: the answer's text.  names: space separated. */
const char *rig_filter(struct rig *rig, const char *pod, const char *names);
struct web_call *rig_bind_begin(struct rig *rig, const char *pod, const char *node);
/* begin, run, and the Error text ("" is success). */
const char *rig_bind(struct rig *rig, const char *pod, const char *node);
const char *rig_error(struct web_call *call);

/* What the snapshot shows. */
uint32_t rig_taken(struct rig *rig, const char *node); /* milli, bound and reserved */
uint32_t rig_reserved(struct rig *rig, const char *node);
size_t rig_allocations(struct rig *rig);

#endif
