/*
 * writer_internal - what the files of the writer share.
 *
 *   writer.c             the loop: batches and ticks
 *   writer_commands.c    commands of the ledger, within the batch
 *   writer_inflight.c    binds in flight, and the replies that wait for the COMMIT
 *   writer_actions.c     what happens once the batch is on disk: Bindings, advertised capacity
 *   writer_binds.c       a bind: reserve, send, learn the outcome
 *   writer_doubts.c      reservations in doubt: when to ask, and when they are void
 *   writer_pods.c        what the watch reports of pods
 *   writer_nodes.c       what the watch reports of nodes
 *   writer_agents.c      which nodes their agents vouch for
 *   writer_seen.c        when nodes were seen, and how old they are
 *   writer_hosts.c       CPU and memory that pods leave of a node
 *   writer_new_ledger.c  a ledger that is nobody's yet: it waits, then belongs to this cluster
 *   writer_wake.c        which pods to wake when capacity comes free
 *   writer_learn.c       the workload, as it is learned
 *   writer_policy.c      which rules decide, and when others begin to
 *   writer_measured.c    what was measured, and which shares are idle
 *   writer_lost.c        batches that were lost, and messages kept meanwhile
 *
 * All of it runs on the writer's thread; nothing here takes a lock. A handler or command that
 * returns false has lost the batch: nothing more may be run in it.
 */
#ifndef MILLIGPU_WRITER_WRITER_INTERNAL_H
#define MILLIGPU_WRITER_WRITER_INTERNAL_H

#include "milligpu/base/map.h"
#include "milligpu/core/facts/agents.h"
#include "milligpu/core/rules/tally.h"
#include "milligpu/run/sole_thread.h"
#include "milligpu/spine/event_budget.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/host_sums.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/hints.h"
#include "milligpu/writer/writer.h"

#include "batch.h"
#include "drift_watch.h"
#include "wallclock.h"

/* A Binding on its way, and the calls that wait for its outcome. */
struct inflight_bind {
    /* also the key in writer.binds.inflight */
    char *uid;
    /* where it is being bound, a reference: a bind to another node is refused meanwhile */
    const struct atom *node;
    struct bind_reply *reply;
    size_t replies;
    size_t capacity;
    int64_t deadline_ms; /* of the bind that began it */
    bool is_query;       /* nothing is sent: the API server is asked about an old doubt */
};

/* The outcome of a Binding, to be answered after the batch. */
struct pending_reply {
    char *uid;
    char *error; /* NULL: bound */
};

/* A reservation that nothing is sending, and since when. */
struct doubt {
    /* also the key in writer.binds.doubts */
    char *uid;
    int64_t since_ms;
    /* writer.binds.mark of the last second in which it was still a doubt */
    uint64_t mark;
};

/* Its name is the key, so it lives as long as the entry. */
struct node_seen {
    const struct atom *name; /* a reference */
    int64_t number; /* in nodes_seen the epoch of the last list or event that showed the node */
};

/* An action to run when the batch is on disk. */
struct post_commit_action {
    enum { ACTION_BIND, ACTION_ADVERTISE } kind;
    char *uid; /* BIND; the node's name for ADVERTISE */
    char *namespace;
    char *name;
    char *node;
    /* BIND: the encoded Binding */
    struct strbuf body;
    uint64_t version;
    int64_t deadline_ms;
    enum outbox_sending sending;
    /* ADVERTISE: the capacity that the Node shall show */
    uint32_t milli;
};

/* Each group is used by the file that it names, and by few others. */
struct writer {
    struct sole_thread thread; /* of the first step */
    struct app *app;
    struct ledger *ledger;
    struct batch batch;
    struct drift_watch *drift;
    struct host_sums *host_sums;
    int64_t wall_ms; /* UTC: the time of all commands of this batch */
    int64_t tick_ms; /* monotonic: the next tick */
    bool was_ready;  /* after the batch before, to notice the change */
    /* where verifier_memory() continues */
    uint32_t verify_place;
    /* writer.c */
    struct {
        struct wallclock wallclock;
        struct wallclock looked; /* as it was before this batch */
        bool watches_clock;      /* since the first batch */
    } clock;
    /* writer_policy.c */
    struct {
        const struct rulebook *rulebook;  /* a reference; by which the ledger decides */
        rule_set holding;                 /* those of its rules that hold */
        const struct rulebook *next_book; /* from the next batch on; NULL: the same */
        bool has_reported_rules;          /* the journal says which rules decide */
        bool rules_matched;               /* it was looked whether its rules match any node */
        bool rules_kept;                  /* the ledger keeps its document, if it has one */
        int64_t keep_rules_ms;            /* monotonic: not again before this time */
        bool rules_change;                /* this batch does nothing but tell it */
        int64_t rules_from_ms;            /* UTC: from then ... */
        int64_t rules_until_ms;           /* ... and until then the same rules hold */
    } policy;
    /* writer_wake.c */
    struct {
        uint32_t idle[RULES_MAX];     /* of the policy context, when it last looked whom to wake */
        uint64_t tolerations_version; /* that the ledger was told (tolerations.h) */
    } wake;
    /* writer_learn.c */
    struct {
        struct tally *tally;
        int64_t learned_until_ms; /* pods created up to then were counted before the start */
        int64_t learned_ms;       /* creationTimestamp of the newest pod that was counted */
        uint64_t stored_pods;     /* of the tally that is stored; 0: none is */
        int64_t store_learned_ms; /* monotonic: not again before this time */
    } learning;
    /* writer_measured.c */
    struct {
        int64_t store_measured_ms; /* monotonic: not again before this time */
        int64_t reported_ms;       /* UTC, as stored: the last report that was taken; 0: none was */
    } measuring;
    /* writer_agents.c */
    struct {
        struct agents *agents;
        bool agents_unsure;      /* nodes may say otherwise than agents_check() */
        bool agents_stored;      /* that an agent was seen */
        int64_t store_agents_ms; /* monotonic: not again before this time */
    } vouching;
    /* writer_inflight.c, writer_doubts.c */
    struct {
        /* uid to struct inflight_bind */
        struct map inflight;
        /* uid to struct doubt */
        struct map doubts;
        /* counts the rounds of writer_check_doubts() */
        uint64_t mark;
    } binds;
    /* writer_actions.c, writer_inflight.c */
    struct {
        struct post_commit_action *action;
        size_t actions;
        size_t action_capacity;
        struct pending_reply *reply;
        size_t replies;
        size_t reply_capacity;
    } after_commit;
    /* writer_lost.c */
    struct {
        /* messages of a lost batch, to be handled again, and those that a batch left over */
        struct message **kept;
        size_t n_kept;
        size_t kept_capacity;
        /* with what the messages own; at NEWS_BYTES_MAX nothing is taken from the queue */
        size_t kept_bytes;
        /* monotonic: kept messages are not tried again before this time */
        int64_t retry_ms;
        bool is_writing; /* something was written since the last lost batch */
    } lost;
    /* writer_pods.c, writer_bound.c */
    struct {
        /*
         * The pods of a list until its end: copies, because a listed object as it arrives is ten
         * times as large.
         */
        struct arena list;
        const struct pod **listed;
        size_t n_listed;
        size_t listed_capacity;
        bool listing;
        int64_t listed_ms; /* when that list was requested */
        uint64_t epoch;    /* of pod lists */
        /* uid to struct bound_since: rows that became bound after the request of that list */
        struct map bound_since;
        uint64_t
            last_seen_version; /* the pod version up to which the watch has reported everything */
        bool pods_ended;       /* this batch ends a list */
        bool after_grace;      /* the list began after a new ledger's grace period */
    } pod_list;
    /* writer_nodes.c */
    struct {
        uint64_t node_epoch;   /* of node lists */
        struct map nodes_seen; /* struct node_seen, by node name */
        /* while the ledger is new: struct node_seen with a creationTimestamp, by node name */
        struct map ages;
        bool nodes_ended;
    } node_list;
    /* writer_new_ledger.c */
    struct {
        int64_t start_ms;
        bool granted_before; /* a pod has an annotation of ours */
        bool can_claim;      /* the ledger waits for nothing more and may belong to this cluster */
        int64_t claim_retry_ms; /* the last attempt failed: not before then */
    } new_ledger;
    /* writer_advice.c */
    struct {
        struct event_budget advice_budget;
        struct event_budget model_looks;
    } advice;
};

/* How a Binding is sent. */
struct dispatch {
    /* of the pod that was evaluated; 0: none (a reservation of an older ledger) */
    uint64_t version;
    int64_t deadline_ms;
    enum outbox_sending sending;
    const struct request *request; /* of that pod; NULL: the Binding need not name containers */
};

/* writer_commands.c */

int64_t writer_now_ms(const struct writer *writer);
/* False if the batch is lost; a contradiction is logged, counted and skipped. */
bool writer_run(struct writer *writer, const struct command *command);
bool writer_run_all(struct writer *writer, const struct command *command, size_t count);
/* An owner gave up a UUID: a node did, or the last pod that held it there is gone. */
bool writer_heal_duplicates(struct writer *writer);
/* A request for which the table had no room is read from the pod itself. */
const struct request *writer_request_of(const struct writer *writer, const struct pod *pod,
                                        const struct pod_record *record, struct arena *arena);

/* writer_inflight.c */

void inflight_free(struct inflight_bind *bind_inflight);
void doubt_free(struct doubt *doubt);
void replies_drop(struct writer *writer);
struct inflight_bind *inflight_begin(struct writer *writer, const char *uid,
                                     const struct atom *node, int64_t deadline_ms);
/* The reply moves: the call now waits for this Binding. */
void inflight_join(struct inflight_bind *bind_inflight, struct bind_call *bind);
void inflight_end(struct writer *writer, const char *uid, const char *error);
void replies_add(struct writer *writer, const char *uid, const char *error);
/*
 * The reservation was on disk before the POST, so success is answered whatever happens to the batch
 * that confirms it. It is answered after the batch, so that the next reader sees the pod bound, its
 * share free again, or the doubt.
 */
void replies_send(struct writer *writer);

/* writer_actions.c */

void writer_action_done(struct post_commit_action *action);
/* Queues the Binding of an allocation until the batch is on disk. */
int writer_queue_binding(struct writer *writer, const struct allocation *allocation,
                         struct dispatch how, struct err *err);
/*
 * The capacity of the node, but never less than what runs there: when kubelet restarts, it ends
 * pods until they ask for no more than the capacity. A capacity that is too large is lowered with a
 * later event of the node (kubelet writes one every five minutes), when pods have gone.
 */
void writer_queue_advertise(struct writer *writer, const struct inventory *inventory,
                            const struct node_facts *facts);
void writer_run_actions(struct writer *writer);
/* The batch did not happen: no Binding is sent, and the waiting calls get the reason. */
void writer_drop_actions(struct writer *writer);

/* writer_binds.c */

void writer_refuse_bind(struct bind_call *bind, const char *fmt, ...) PRINTF_LIKE(2, 3);
/*
 * Nothing that was sent can take effect: frees the reservation. Its pod has a later version,
 * unbound.
 */
bool writer_release_void(struct writer *writer, const struct pod_record *record);
/* Is it a reservation of which nothing that was sent can take effect any more? */
bool writer_is_void(const struct allocation *held, const struct pod_record *record);
/*
 * Afterwards the reply is answered, or has moved to whatever the call now waits for. arena: for
 * this call only.
 */
bool writer_handle_bind(struct writer *writer, struct bind_call *bind, struct arena *arena);
/*
 * Called in order of versions: a pod that is not in the table and has an earlier version is gone.
 */
void writer_hear_version(struct writer *writer, const struct pod *pod);
bool writer_handle_fetched(struct writer *writer, struct fetched_pod *fetched, struct arena *arena);
bool writer_handle_outcome(struct writer *writer, const struct binding_outcome *outcome);

/* writer_doubts.c */

/*
 * Reservations that nothing is sending are in doubt. Evidence ends them; time only decides when to
 * ask. Once a second it examines all reservations, not the cluster (bench/README.md has the cost).
 */
bool writer_check_doubts(struct writer *writer, int64_t now);

/* writer_pods.c */

bool writer_reconcile(struct writer *writer, const struct pod *pod);
bool writer_handle_pod(struct writer *writer, const struct pod *pod);
bool writer_handle_pod_deleted(struct writer *writer, const struct pod *pod);
void writer_drop_list(struct writer *writer);
void writer_begin_list(struct writer *writer, int64_t asked_ms);
bool writer_handle_listed(struct writer *writer, const struct pod *pod);
/* The pod cache, as hints ask for it. */
enum hints_pod writer_pod_state(void *user, struct text uid);
/*
 * Once per list, not per event: it examines all pods and all allocations in one batch, because
 * nothing is known to be gone before the list is complete. With 49,568 pods that takes 18 ms after
 * a list of 197 ms (bench/README.md). If the ledger is new and every pod is accepted or adopted
 * here, it takes seconds, and nothing is granted before.
 */
bool writer_end_list(struct writer *writer, const struct pod_list_end *end);

/* writer_bound.c */

/* Notes when a row becomes bound, until it ends or a later list begins. */
void writer_note_bound(struct writer *writer, const struct change *change, int64_t now_ms);
/* A list begins: what was bound before it was requested need not be remembered. */
void writer_forget_bound(struct writer *writer);
void writer_stop_bound(struct writer *writer);
/* Did this row become bound when the list was requested already? Then the list proves nothing. */
bool writer_bound_lately(const struct writer *writer, const char *uid);

/* writer_advice.c */

/* Tells the author of a waiting pod what was probably meant otherwise. pod: in the pod cache. */
void writer_advise(struct writer *writer, const struct pod *pod);

/* writer_nodes.c */

bool writer_handle_node(struct writer *writer, const struct node_facts *facts);
bool writer_node_gone(struct writer *writer, const char *name);
/* Once per list: 4 ms with 15,000 nodes. */
bool writer_end_nodes(struct writer *writer);

/* writer_agents.c */

/* At the start, and between two batches. */
void writer_load_agents(struct writer *writer);
void writer_store_agents(struct writer *writer);
/* Every node anew: after the first agent of the cluster; and where that is not sure. */
bool writer_check_agents(struct writer *writer);
bool writer_check_unsure_agents(struct writer *writer);
/* A living pod, whatever it is: one that was an agent's may have lost the label. */
bool writer_see_agent(struct writer *writer, const struct pod *pod);
bool writer_agent_gone(struct writer *writer, const char *node, const char *uid);

/* writer_seen.c: struct node_seen by name, in nodes_seen and ages. */

int64_t writer_seen_number(const struct map *seen, const struct atom *name); /* 0: never seen */
void writer_see_node(struct map *seen, const struct atom *name, int64_t number);
void writer_unsee_node(struct map *seen, struct text name);
void writer_done_seen(struct map *seen); /* frees the entries and the map */

/* writer_hosts.c */

/* What the Node has, as the ledger knows the node now. */
void writer_show_host(struct writer *writer, const struct node_facts *facts);
/*
 * Between two batches: tells the ledger what has changed, if its policy looks at it, and publishes
 * that at most once.
 */
void writer_set_hosts(struct writer *writer);
void writer_stop_hosts(struct writer *writer);

/* writer_new_ledger.c */
/* Did this ledger know nothing when milligpud started? A restored backup knew what it had seen. */
bool writer_begins_empty(const struct writer *writer);

/*
 * An earlier milligpud whose ledger is lost may have granted shares that no list shows yet: a
 * Binding that it sent can take effect for a minute after its end. So if there was one (its wake-up
 * object exists, or a pod carries a grant), a new ledger waits, and then needs a list that began
 * after the wait. It is claimed only at the end, so that a process that is killed meanwhile waits
 * again.
 */
void writer_pods_are_in(struct writer *writer);
void writer_own_ledger(struct writer *writer);

/* writer_learn.c */

/* Before the first batch: the ledger's policy, and what is known of the workload. */
void writer_begin_to_learn(struct writer *writer);
/* Has the watch not shown it yet? */
bool writer_is_new_pod(const struct writer *writer, const struct pod *pod);
/* Counts a pod that the watch has shown for the first time. pod: in the pod cache. */
void writer_learn(struct writer *writer, const struct pod *pod);
/* Between two batches: publishes another policy context when enough was learned. */
void writer_use_what_was_learned(struct writer *writer);
/* At the start: goes on with what is stored. */
void writer_load_learned(struct writer *writer);
/* Between two batches: what was learned since the last time goes to disk. */
void writer_store_learned(struct writer *writer);
void writer_store_learned_now_and_then(struct writer *writer);

/* writer_measured.c */

/* Into the journal, also of a pod that has ended meanwhile: that is often why. */
bool writer_handle_over(struct writer *writer, const struct over_memory *over);

/* At the start: since when shares are idle by what is stored. */
void writer_load_idle(struct writer *writer);

/* Between two batches: some of what was measured goes to disk, once in a minute all of it. */
void writer_store_measured_now_and_then(struct writer *writer);
/* At the end. */
void writer_store_measured(struct writer *writer);

/* writer_policy.c */

/* Before the first batch: the policy with which the process began. */
void writer_begin_policy(struct writer *writer);
void writer_end_policy(struct writer *writer);
/* Between two batches: a policy context of the rulebook and of what is known of the workload. */
void writer_set_policy_context(struct writer *writer);
void writer_handle_policy(struct writer *writer, const struct rulebook *book);
/* At most wait_ms, and not beyond the moment at which other rules begin to hold. */
int64_t writer_wait_for_rules(const struct writer *writer, int64_t wait_ms);
/*
 * The first of a batch: if other rules decide from now on, the journal says so, and the batch ends.
 */
bool writer_note_policy(struct writer *writer);
/* Once for each rulebook, when all nodes are known: logs what of its rules matches none of them. */
void writer_match_rules(struct writer *writer);
/* Between two batches: the document by which it decides goes to disk, once. */
void writer_keep_policy(struct writer *writer);
/* That batch is on disk: the rules decide, and who waits is woken. */
void writer_take_policy(struct writer *writer);

/* writer_wake.c */

void writer_wake(struct writer *writer, const struct atom *node);
/* Capacity came free: wakes kube-scheduler if it helps a waiting pod. */
void writer_wake_if_it_helps(struct writer *writer);
/*
 * Between two batches: where pods tolerate other taints now, which nodes are usable is judged anew,
 * and who waits for one more idle host is woken.
 */
void writer_check_taints(struct writer *writer);
/* Any node: pods that can be woken only by a node accept each. */
const struct atom *writer_some_node(const struct writer *writer);
/*
 * For pods that were offered nodes a second ago and are not bound: on a quiet cluster nothing else
 * would make kube-scheduler ask again.
 */
void writer_wake_for_the_late(struct writer *writer);

/* writer_lost.c */

/* Messages after the end of a list are handled again at once. */
void writer_leave_over(struct writer *writer, struct message **message, size_t count);
void writer_batch_lost(struct writer *writer, struct message **message, size_t count);
/* While older messages are kept, newer ones are put behind them; returns how many are left. */
size_t writer_put_behind(struct writer *writer, struct message **message, size_t count);
size_t writer_take_kept(struct writer *writer, struct message **message);

#endif
