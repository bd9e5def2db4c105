/*
 * writer_internal - what the files of the writer share.
 *
 *   writer.c              the loop: batches and ticks
 *   writer_commands.c     commands of the ledger, within the batch
 *   writer_inflight.c     binds in flight, and the replies that wait for the COMMIT
 *   writer_actions.c      what happens once the batch is on disk: Bindings, advertised capacity
 *   writer_binds.c        a bind: reserve, send, learn the outcome
 *   writer_doubts.c       reservations in doubt: when to ask, and when they are void
 *   writer_pods.c         what the watch tells of pods
 *   writer_nodes.c        what the watch tells of nodes
 *   writer_new_ledger.c   a ledger that is nobody's yet: it waits, then belongs to this cluster
 *   writer_wake.c         whom to wake when capacity comes free
 *   writer_lost.c         batches that were lost, and news kept meanwhile
 *
 * All of it runs on the writer's thread; nothing here takes a lock.
 */
#ifndef MILLIGPU_WRITER_WRITER_INTERNAL_H
#define MILLIGPU_WRITER_WRITER_INTERNAL_H

#include "milligpu/hints.h"
#include "milligpu/map.h"
#include "milligpu/message.h"
#include "milligpu/outbox.h"
#include "milligpu/pod_cache.h"
#include "milligpu/writer.h"

#include "writer/batch.h"
#include "writer/drift_watch.h"
#include "writer/wallclock.h"

/* A Binding on its way, and who waits for its outcome. */
struct inflight_bind {
    char *uid;
    const struct atom *node;
    struct bind_reply *reply;
    size_t replies;
    size_t capacity;
    int64_t deadline_ms; /* of the bind that began it */
    bool asks;           /* nothing is sent: the API server is asked about an old doubt */
};

/* The outcome of a Binding, to be answered after the batch. */
struct pending_reply {
    char *uid;
    char *error; /* NULL: bound */
};

/* A reservation that nobody is sending: since when. */
struct doubt {
    char *uid;
    int64_t since_ms;
    uint64_t mark;
};

/* What happens once the batch is on disk. */
struct post_commit_action {
    enum { ACTION_BIND, ACTION_ADVERTISE } kind;
    char *uid; /* BIND; the node's name for ADVERTISE */
    char *namespace;
    char *name;
    char *node;
    struct strbuf body;
    uint64_t version;
    int64_t deadline_ms;
    enum outbox_sending sending;
    uint32_t milli;
};

struct writer {
    struct app *app;
    struct ledger *ledger;
    struct batch batch;
    struct drift_watch *drift;
    struct map inflight;
    struct map doubts;
    struct post_commit_action *action;
    size_t actions;
    size_t action_capacity;
    struct pending_reply *reply;
    size_t replies;
    size_t reply_capacity;
    struct message **kept; /* of a lost batch, to be tried again; and what a batch left over */
    size_t keeps;
    size_t keep_capacity;
    size_t keep_bytes;
    int64_t retry_ms;
    bool writes;       /* something was written since the last batch that was lost */
    struct arena list; /* what is kept of a list until its end: copies, since a listed object
                                as it came is ten times as large */
    const struct pod **listed;
    size_t lists;
    size_t list_capacity;
    bool listing;
    int64_t listed_ms;   /* when that list was asked for */
    uint64_t epoch;      /* of pod lists */
    uint64_t heard;      /* the version of a pod up to which the watch has told everything */
    uint64_t node_epoch; /* of node lists */
    struct map nodes_seen;
    struct map ages;  /* while the ledger is new: node name to its creationTimestamp */
    bool pods_ended;  /* this batch ends a list */
    bool after_grace; /* which began after a new ledger's wait */
    int64_t start_ms;
    bool granted_before; /* a pod has an annotation of ours */
    bool may_own;        /* the ledger: nothing is waited for any more */
    int64_t own_ms;      /* not before then, since it failed */
    bool nodes_ended;
    bool was_ready;
    int64_t tick_ms;
    int64_t wall_ms;
    struct wallclock wallclock;
    struct wallclock looked; /* as it was before this batch */
    bool watches_clock;      /* since the first batch */
    uint64_t mark;
    uint32_t verify_place;
};

/* How a Binding goes out. */
struct dispatch {
    uint64_t version; /* of the pod that was judged; 0: none, of an older ledger's reservation */
    int64_t deadline_ms;
    enum outbox_sending sending;
};

/* writer_commands.c */

int64_t writer_now_ms(const struct writer *writer);
/* False if the batch is lost; a contradiction is logged, counted and passed over. */
bool writer_run(struct writer *writer, const struct command *command);
bool writer_run_all(struct writer *writer, const struct command *command, size_t count);
/* Whatever made an owner let go of a UUID: a node, or the last pod that held it there. */
bool writer_heal_duplicates(struct writer *writer);
/* What the table had no room for stands in the pod itself. */
const struct request *writer_request_of(const struct writer *writer, const struct pod *pod,
                                        const struct pod_record *record, struct arena *arena);

/* writer_inflight.c */

void inflight_free(struct inflight_bind *bind_inflight);
void doubt_free(struct doubt *doubt);
void replies_drop(struct writer *writer);
struct inflight_bind *inflight_begin(struct writer *writer, const char *uid,
                                     const struct atom *node, int64_t deadline_ms);
/* The reply moves: the call waits for this Binding from now on. */
void inflight_join(struct inflight_bind *bind_inflight, struct bind_call *bind);
void inflight_end(struct writer *writer, const char *uid, const char *error);
void replies_add(struct writer *writer, const char *uid, const char *error);
/*
 * The reservation is on disk since before the POST, so success is answered whatever became of
 * the batch that confirms it; but after the batch, so that whoever asks next sees the pod bound,
 * its share free again, or the doubt.
 */
void replies_send(struct writer *writer);

/* writer_actions.c */

void writer_action_done(struct post_commit_action *action);
/* Queue the Binding of an allocation for when the batch is on disk. */
int writer_queue_binding(struct writer *writer, const struct allocation *allocation,
                         struct dispatch how, struct err *err);
/*
 * What the node has, and never less than what runs there: kubelet, when it starts again, ends pods
 * until they ask no more than the capacity.  What is too much is lowered with a later event of the
 * node (kubelet writes one each five minutes), when pods have gone.
 */
void writer_queue_advertise(struct writer *writer, const struct inventory *inventory,
                            const struct node_facts *facts);
void writer_run_actions(struct writer *writer);
/* Nothing of it happened: no Binding goes out, whoever waits for one hears why. */
void writer_drop_actions(struct writer *writer);

/* writer_binds.c */

void writer_refuse_bind(struct bind_call *bind, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Nothing of it is on its way that could land: it is free again.  Its pod has moved on unbound. */
bool writer_release_void(struct writer *writer, const struct pod_record *record);
/* A reservation of which nothing that was sent can land any more. */
bool writer_is_void(const struct allocation *held, const struct pod_record *record);
/* The reply is answered, or has moved to whatever the call now waits for.  arena: for this turn. */
bool writer_handle_bind(struct writer *writer, struct bind_call *bind, struct arena *arena);
/* In order: whoever is not in the table in a version before this one has gone. */
void writer_hear_version(struct writer *writer, const struct pod *pod);
bool writer_handle_fetched(struct writer *writer, struct fetched_pod *fetched, struct arena *arena);
bool writer_handle_outcome(struct writer *writer, const struct binding_outcome *outcome);

/* writer_doubts.c */

/*
 * Reservations that nobody sends: in doubt.  Evidence ends them; time only says when to ask.  Once
 * a second it looks at all reservations, not at the cluster (bench/README.md has what that costs).
 */
bool writer_check_doubts(struct writer *writer, int64_t now);

/* writer_pods.c */

bool writer_reconcile(struct writer *writer, const struct pod *pod);
bool writer_pod_gone(struct writer *writer, const char *uid);
bool writer_handle_pod(struct writer *writer, const struct pod *pod);
bool writer_handle_pod_deleted(struct writer *writer, const struct pod *pod);
void writer_drop_list(struct writer *writer);
void writer_begin_list(struct writer *writer, int64_t asked_ms);
bool writer_handle_listed(struct writer *writer, const struct pod *pod);
/* The pod cache, as hints ask for it. */
enum hints_pod writer_pod_state(void *user, struct text uid);
/*
 * Once a list, not for one event: all pods and all allocations are gone through, in one batch,
 * since nothing is known to be gone before all of the list is known.  With 49,568 pods that is
 * 18 ms after a list of 197 ms (bench/README.md); where the ledger is new and each pod is believed
 * or adopted here it is seconds, and nothing is granted before.
 */
bool writer_end_list(struct writer *writer, const struct pod_list_end *end);

/* writer_nodes.c */

bool writer_handle_node(struct writer *writer, const struct node_facts *facts);
bool writer_node_gone(struct writer *writer, const char *name);
/* Once a list: with 15,000 nodes 4 ms. */
bool writer_end_nodes(struct writer *writer);

/* writer_new_ledger.c */

/*
 * A milligpud before, whose ledger is lost, may have granted what no list shows yet: a Binding that
 * it sent can land for a minute after its end.  So where one was (its wake-up object exists, or a
 * pod carries a grant) a new ledger waits, and then needs a list that began after the wait.  It is
 * claimed at the end of that, so that who is killed meanwhile waits again.
 */
void writer_pods_are_in(struct writer *writer);
void writer_own_ledger(struct writer *writer);

/* writer_wake.c */

void writer_wake(struct writer *writer, const struct atom *node);
/* Room came free: does it help anybody who waits? */
void writer_wake_if_it_helps(struct writer *writer);
/* Any will do for those who can be woken by a node only. */
const struct atom *writer_some_node(const struct writer *writer);
/* Whoever was offered nodes a second ago and not bound: on a quiet cluster nobody else would have
   kube-scheduler ask again. */
void writer_wake_for_the_late(struct writer *writer);

/* writer_lost.c */

/* Behind the end of a list: it is taken again at once. */
void writer_leave_over(struct writer *writer, struct message **message, size_t count);
void writer_batch_lost(struct writer *writer, struct message **message, size_t count);
/* While older news is kept, newer news goes behind it; returns how many are left. */
size_t writer_put_behind(struct writer *writer, struct message **message, size_t count);
size_t writer_take_kept(struct writer *writer, struct message **message);

#endif
