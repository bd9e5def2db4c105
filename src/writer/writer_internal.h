/*
 * writer_internal - types and functions shared by the files of the writer.
 *
 *   writer.c             the loop: batches and ticks
 *   writer_commands.c    commands of the ledger, within the batch
 *   writer_inflight.c    binds in flight, and the replies that wait for the COMMIT
 *   writer_actions.c     post-commit actions: Bindings, advertised capacity
 *   writer_binds.c       binds: reserve, send, handle the outcome
 *   writer_bound.c       rows that became bound since the last list of pods
 *   writer_doubts.c      reservations in doubt: GETs, and release by evidence
 *   writer_pods.c        pod events and lists
 *   writer_nodes.c       node events and lists
 *   writer_agents.c      the verdict of agents on nodes
 *   writer_seen.c        last list and age of each node
 *   writer_hosts.c       CPU and memory that pods leave free on nodes
 *   writer_new_ledger.c  a ledger without an owner: grace period and claim
 *   writer_wake.c        wake-ups when room becomes free
 *   writer_learn.c       the learned workload
 *   writer_policy.c      the rules in force, and changes of them
 *   writer_measured.c    measurements and idle shares
 *   writer_advice.c      Events with advice on waiting pods
 *   writer_put_off.c     messages that ride in the next batch, and the answers before it
 *   writer_lost.c        lost batches, and messages kept for a retry
 *
 * Writer's thread only; nothing here takes a lock. Handlers and commands return false if the batch
 * is lost: nothing more may be run in it.
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
#include "milligpu/waiting/waiting_pods.h"
#include "milligpu/writer/writer.h"

#include "batch.h"
#include "drift_watch.h"
#include "wallclock.h"

/* A Binding in flight, and the calls that wait for its outcome. */
struct inflight_bind {
    /* owned; also the key in writer.binds.inflight */
    char *uid;
    /* target node, a reference; binds to other nodes are refused meanwhile */
    const struct atom *node;
    struct bind_reply *reply;
    size_t n_replies;
    size_t capacity;
    int64_t deadline_ms; /* deadline of the first bind call, monotonic */
    bool is_query;       /* only a GET about an old doubt, no Binding */
};

/* The outcome of a Binding, to be answered after the batch; texts owned. */
struct pending_reply {
    char *uid;
    char *error; /* NULL if bound */
};

/* A reservation without a Binding in flight. */
struct doubt {
    /* owned; also the key in writer.binds.doubts */
    char *uid;
    int64_t since_ms; /* monotonic */
    /* writer.binds.mark of the last round that found it in doubt */
    uint64_t mark;
};

/* A number about a node, in a map by name. */
struct node_seen {
    const struct atom *name; /* key, a reference */
    /* nodes_seen: epoch of the last list or event that showed the node; ages: UTC ms */
    int64_t number;
};

/* An action to run after the COMMIT; texts owned. */
struct post_commit_action {
    enum { ACTION_BIND, ACTION_ADVERTISE } kind;
    char *uid; /* BIND: uid of the pod; ADVERTISE: name of the node */
    /* For BIND only. */
    char *namespace;
    char *name;
    char *node;
    struct strbuf body; /* the encoded Binding */
    uint64_t version;
    int64_t deadline_ms;
    enum outbox_sending sending;
    /* ADVERTISE: new capacity of the Node */
    uint32_t milli;
};

/* Each group is used mainly by the files named above it. */
struct writer {
    struct sole_thread thread; /* thread of the first step */
    struct app *app;
    struct ledger *ledger;
    struct batch batch;
    struct drift_watch *drift;
    struct host_sums *host_sums;
    int64_t wall_ms; /* time of all commands of this batch, UTC */
    int64_t tick_ms; /* time of the next tick, monotonic */
    bool was_ready;  /* readiness after the previous batch */
    /* position of verifier_memory() */
    uint32_t verify_place;
    /* writer.c */
    struct {
        struct wallclock wallclock;
        struct wallclock looked; /* copy from before this batch */
        bool watches_clock;      /* set by the first batch */
    } clock;
    /* writer_policy.c */
    struct {
        const struct rulebook *rulebook;  /* rulebook in force, a reference */
        rule_set holding;                 /* its rules whose window is open */
        const struct rulebook *next_book; /* successor, a reference; NULL if none */
        bool has_reported_rules;          /* the journal has an entry for these rules */
        bool rules_matched;               /* rules that match no node were logged */
        bool rules_kept;                  /* the ledger stores its document, if it has one */
        int64_t keep_rules_ms;            /* time of the next try to store it, monotonic */
        bool rules_change;                /* this batch only journals a change of rules */
        /* The same rules hold from rules_from_ms to rules_until_ms (UTC). */
        int64_t rules_from_ms;
        int64_t rules_until_ms;
    } policy;
    /* writer_wake.c */
    struct {
        uint32_t idle[RULES_MAX];     /* idle hosts by rule at the last check */
        uint64_t tolerations_version; /* version passed to the ledger last (tolerations.h) */
    } wake;
    /* writer_learn.c */
    struct {
        struct tally *tally;
        int64_t learned_until_ms; /* newest creationTimestamp counted by earlier processes, UTC */
        int64_t learned_ms;       /* newest creationTimestamp counted, UTC */
        uint64_t stored_pods;     /* number of pods in the stored tally; 0 if none is stored */
        int64_t store_learned_ms; /* time of the next store, monotonic */
    } learning;
    /* writer_measured.c */
    struct {
        int64_t store_measured_ms; /* time of the next store, monotonic */
        int64_t reported_ms;       /* stored time of the last report, UTC; 0 if none */
    } measuring;
    /* writer_agents.c */
    struct {
        struct agents *agents;
        bool agents_unsure;      /* verdicts of nodes may differ from agents_check() */
        bool agents_stored;      /* the store has recorded that an agent was seen */
        int64_t store_agents_ms; /* time of the next try to store, monotonic */
    } vouching;
    /* writer_inflight.c, writer_doubts.c */
    struct {
        /* struct inflight_bind, by pod uid */
        struct map inflight;
        /* struct doubt, by pod uid */
        struct map doubts;
        /* number of rounds of writer_check_doubts() */
        uint64_t mark;
    } binds;
    /* writer_actions.c, writer_inflight.c */
    struct {
        struct post_commit_action *action;
        size_t n_actions;
        size_t action_capacity;
        struct pending_reply *reply;
        size_t n_replies;
        size_t reply_capacity;
    } after_commit;
    /* writer_put_off.c */
    struct {
        /* messages taken and not handled yet, in order */
        struct message *message[BATCH_MAX];
        size_t count;
        size_t bytes;     /* size including memory owned by the messages */
        int64_t until_ms; /* time at which they are handled anyway, monotonic */
    } put_off;
    /* writer_lost.c */
    struct {
        /* messages of a lost batch, to be retried, and messages that a full batch left over */
        struct message **kept;
        size_t n_kept;
        size_t kept_capacity;
        /* size including memory owned by the messages; at NEWS_BYTES_MAX the queue is not read */
        size_t kept_bytes;
        /* time of the next try, monotonic */
        int64_t retry_ms;
        bool is_writing; /* a write succeeded since the last lost batch */
    } lost;
    /* writer_pods.c, writer_bound.c */
    struct {
        /* copies of listed pods until the end of the list; the received objects are 10x larger */
        struct arena list;
        const struct pod **listed;
        size_t n_listed;
        size_t listed_capacity;
        bool listing;
        int64_t listed_ms; /* time of the list's request, monotonic */
        uint64_t epoch;    /* number of pod lists */
        /* struct bound_since, by pod uid: rows that became bound after that request */
        struct map bound_since;
        uint64_t last_seen_version; /* pod version up to which the watch is complete */
        bool pods_ended;            /* this batch ends a list */
        bool after_grace;           /* the list began after a new ledger's grace period */
    } pod_list;
    /* writer_nodes.c */
    struct {
        uint64_t node_epoch;   /* number of node lists */
        struct map nodes_seen; /* struct node_seen, by node name */
        /* struct node_seen with a creationTimestamp, by node name, while the ledger is new */
        struct map ages;
        bool nodes_ended; /* this batch ends a list */
    } node_list;
    /* writer_new_ledger.c */
    struct {
        int64_t start_ms;       /* start of the process, monotonic */
        bool granted_before;    /* a bound pod has an annotation of ours */
        bool can_claim;         /* the grace period is over or was not needed */
        int64_t claim_retry_ms; /* time of the next try to claim the ledger, monotonic */
    } new_ledger;
    /* writer_advice.c */
    struct {
        struct event_budget advice_budget;
        struct event_budget model_looks;
    } advice;
};

/* How a Binding is sent. */
struct dispatch {
    /* version of the evaluated pod; 0: none (a reservation of an older ledger) */
    uint64_t version;
    int64_t deadline_ms; /* monotonic */
    enum outbox_sending sending;
    const struct request *request; /* request of that pod; NULL: Binding without container names */
};

/* writer_commands.c */

int64_t writer_now_ms(const struct writer *writer);
/* Returns false if the batch is lost. A contradiction begins safe mode and is skipped. */
bool writer_run(struct writer *writer, const struct command *command);
bool writer_run_all(struct writer *writer, const struct command *command, size_t count);
/* Re-evaluates nodes whose duplicate GPUs have lost their other owner (a node, or its last pod). */
bool writer_heal_duplicates(struct writer *writer);
/* Returns the record's request, or parses the pod if the pod cache had no room for it. */
const struct request *writer_request_of(const struct writer *writer, const struct pod *pod,
                                        const struct pod_record *record, struct arena *arena);

/* writer_inflight.c */

void inflight_free(struct inflight_bind *bind_inflight);
void doubt_free(struct doubt *doubt);
void replies_drop(struct writer *writer);
struct inflight_bind *inflight_begin(struct writer *writer, const char *uid,
                                     const struct atom *node, int64_t deadline_ms);
/* Takes over the reply: the call waits for this Binding. */
void inflight_join(struct inflight_bind *bind_inflight, struct bind_call *bind);
/* Answers the calls that wait now; the Binding stays in flight, and further calls may join. */
void inflight_answer(struct writer *writer, const char *uid, const char *error);
void inflight_end(struct writer *writer, const char *uid, const char *error);
void replies_add(struct writer *writer, const char *uid, const char *error);
/*
 * Answers the collected outcomes; of a BOUND one, only calls that came after the first answer
 * (writer_answer_bound()). Called after the batch, so that readers see the new state of the pod.
 */
void replies_send(struct writer *writer);

/* writer_put_off.c */

/*
 * Answers the calls of outcomes that are BOUND, before the batch that confirms them: the
 * reservation was on disk before the POST, and what was answered is true whatever becomes of that
 * batch.
 */
void writer_answer_bound(struct writer *writer, struct message **message, size_t count);
/* Copies the messages that were put off; they stay put off until writer_put_off() says no. */
size_t writer_take_put_off(struct writer *writer, struct message **message);
/*
 * message: those that were put off, then new ones. Returns true if they all wait for the next
 * batch; false: all are to be handled now, and none is put off any more. step_is_due: the tick or
 * another timed event is due; it comes after what confirms reservations.
 */
bool writer_put_off(struct writer *writer, struct message **message, size_t count,
                    bool step_is_due);
/* Limits a wait to the time at which they are handled anyway. */
int64_t writer_put_off_wait(const struct writer *writer, int64_t wait_ms);
void writer_stop_put_off(struct writer *writer);

/* writer_actions.c */

void writer_action_done(struct post_commit_action *action);
/* Encodes the Binding of an allocation and queues it until the COMMIT. */
int writer_queue_binding(struct writer *writer, const struct allocation *allocation,
                         struct dispatch how, struct err *err);
/*
 * Queues the node's capacity, at least the milli held there: a kubelet that restarts ends pods that
 * exceed the capacity. A later event of the node (kubelet writes one every five minutes) lowers it
 * once pods have ended.
 */
void writer_queue_advertise(struct writer *writer, const struct inventory *inventory,
                            const struct node_facts *facts);
void writer_run_actions(struct writer *writer);
/* Drops the actions of a lost batch and answers the waiting calls with the reason. */
void writer_drop_actions(struct writer *writer);

/* writer_binds.c */

void writer_refuse_bind(struct bind_call *bind, const char *fmt, ...) PRINTF_LIKE(2, 3);
/*
 * Releases the reservation of a pod that is unbound in a later version than its Bindings named, so
 * that none of them can take effect.
 */
bool writer_release_void(struct writer *writer, const struct pod_record *record);
/* Returns true for a reservation whose Bindings can no longer take effect (see above). */
bool writer_is_void(const struct allocation *held, const struct pod_record *record);
/* Answers the bind, or moves its reply to the Binding or GET it waits for. arena: scratch. */
bool writer_handle_bind(struct writer *writer, struct bind_call *bind, struct arena *arena);
/*
 * Records the version of a watch event; they come in order, so a pod of an earlier version that is
 * not in the pod cache is gone.
 */
void writer_note_version(struct writer *writer, const struct pod *pod);
bool writer_handle_fetched(struct writer *writer, struct fetched_pod *fetched, struct arena *arena);
bool writer_handle_outcome(struct writer *writer, const struct binding_outcome *outcome);

/* writer_doubts.c */

/*
 * Puts reservations without a Binding in flight in doubt, and sends a GET for old doubts. Only
 * evidence ends a doubt, never time. Examines all reservations once a second (bench/README.md has
 * the cost).
 */
bool writer_check_doubts(struct writer *writer, int64_t now);

/* writer_pods.c */

bool writer_reconcile(struct writer *writer, const struct pod *pod);
bool writer_handle_pod(struct writer *writer, const struct pod *pod);
bool writer_handle_pod_deleted(struct writer *writer, const struct pod *pod);
void writer_drop_list(struct writer *writer);
void writer_begin_list(struct writer *writer, int64_t asked_ms);
bool writer_handle_listed(struct writer *writer, const struct pod *pod);
/* State of a pod in the pod cache, for the table of waiting pods. */
enum watched_pod writer_pod_state(void *user, struct text uid);
/*
 * Examines all pods and all allocations in one batch, once per list, because absence is known only
 * when the list is complete. With 49,568 pods it takes 18 ms after a list of 197 ms
 * (bench/README.md). With a new ledger, which accepts or adopts every pod here, it takes seconds,
 * and nothing is granted before.
 */
bool writer_end_list(struct writer *writer, const struct pod_list_end *end);

/* writer_bound.c */

/* Records the time at which a row became bound, until it ends or a later list begins. */
void writer_note_bound(struct writer *writer, const struct change *change, int64_t now_ms);
/* At the begin of a list: drops rows that became bound before its request. */
void writer_forget_bound(struct writer *writer);
void writer_stop_bound(struct writer *writer);
/* Returns true if the row became bound after the request of the list, which then proves nothing. */
bool writer_bound_lately(const struct writer *writer, const char *uid);

/* writer_advice.c */

/* Sends Events about probable mistakes in a waiting pod. pod: must be in the pod cache. */
void writer_advise(struct writer *writer, const struct pod *pod);

/* writer_nodes.c */

bool writer_handle_node(struct writer *writer, const struct node_facts *facts);
bool writer_node_gone(struct writer *writer, const char *name);
/* Removes nodes missing from the list; 4 ms with 15,000 nodes. */
bool writer_end_nodes(struct writer *writer);

/* writer_agents.c */

void writer_load_agents(struct writer *writer);  /* at the start */
void writer_store_agents(struct writer *writer); /* between two batches */
/* Re-evaluates every node, after the first agent of the cluster. */
bool writer_check_agents(struct writer *writer);
/* Same, if a lost batch or a list has made the verdicts uncertain. */
bool writer_check_unsure_agents(struct writer *writer);
/* To be called for every living pod: an agent's pod may have lost its label. */
bool writer_see_agent(struct writer *writer, const struct pod *pod);
bool writer_agent_gone(struct writer *writer, const char *node, const char *uid);

/* writer_seen.c: struct node_seen by name, in nodes_seen and ages. */

int64_t writer_seen_number(const struct map *seen, const struct atom *name); /* 0 if none */
void writer_see_node(struct map *seen, const struct atom *name, int64_t number);
void writer_unsee_node(struct map *seen, struct text name);
void writer_done_seen(struct map *seen); /* frees the entries and the map */

/* writer_hosts.c */

/* Passes the Node's allocatable CPU and memory to host_sums, if the ledger has its GPUs. */
void writer_show_host(struct writer *writer, const struct node_facts *facts);
/*
 * Between two batches: updates the changed hosts in the ledger, if its policy uses them, and
 * publishes at most once.
 */
void writer_set_hosts(struct writer *writer);
void writer_stop_hosts(struct writer *writer);

/* writer_new_ledger.c */
/* Returns true if the ledger was empty when milligpud started (a restored backup is not). */
bool writer_begins_empty(const struct writer *writer);

/*
 * At the end of a list of pods: begins or ends the grace period. An earlier milligpud whose ledger
 * is lost may have granted shares that no list shows yet: its Bindings can take effect up to a
 * minute after its end. If there was one (its wake-up object exists, or a pod carries a grant), a
 * new ledger waits, and then needs a list that began after the wait. It is claimed only then, so
 * that a process that is killed meanwhile waits again.
 */
void writer_pods_are_in(struct writer *writer);
void writer_own_ledger(struct writer *writer);

/* writer_learn.c */

/* Before the first batch: creates an empty tally and the policy context. */
void writer_begin_to_learn(struct writer *writer);
/* Returns true if no list or event has shown the pod yet. */
bool writer_is_new_pod(const struct writer *writer, const struct pod *pod);
/* Counts a pod at its first event. pod: must be in the pod cache. */
void writer_learn(struct writer *writer, const struct pod *pod);
/* Between two batches: publishes a new policy context when enough was learned. */
void writer_use_what_was_learned(struct writer *writer);
/* At the start: loads the stored tally. */
void writer_load_learned(struct writer *writer);
/* Between two batches: stores the tally if it has changed. */
void writer_store_learned(struct writer *writer);
void writer_store_learned_now_and_then(struct writer *writer);

/* writer_measured.c */

/* Journals memory overuse, even of a pod that has ended since (overuse is often the reason). */
bool writer_handle_over(struct writer *writer, const struct over_memory *over);

/* At the start: loads since when shares are idle. */
void writer_load_idle(struct writer *writer);

/* Between two batches: once a minute, stores all measurements, one chunk per call. */
void writer_store_measured_now_and_then(struct writer *writer);
/* At the end: stores all measurements. */
void writer_store_measured(struct writer *writer);

/* writer_policy.c */

/* Before the first batch: takes the initial policy of the process. */
void writer_begin_policy(struct writer *writer);
void writer_end_policy(struct writer *writer);
/* Between two batches: sets a policy context of the rulebook and the learned workload. */
void writer_set_policy_context(struct writer *writer);
void writer_handle_policy(struct writer *writer, const struct rulebook *book);
/* Returns the ms until other rules begin to hold; at most wait_ms. */
int64_t writer_wait_for_rules(const struct writer *writer, int64_t wait_ms);
/* First command of a batch: journals a change of rules, which ends the batch. */
bool writer_note_policy(struct writer *writer);
/* Once per rulebook, when all nodes are known: logs rules that match no node. */
void writer_match_rules(struct writer *writer);
/* Between two batches: stores the policy document in force, once. */
void writer_keep_policy(struct writer *writer);
/* After that batch is on disk: puts the rules into force and wakes waiting pods. */
void writer_take_policy(struct writer *writer);

/* writer_wake.c */

void writer_wake(struct writer *writer, const struct atom *node);
/* Wakes kube-scheduler if room that this batch freed may fit a waiting pod. */
void writer_wake_if_it_helps(struct writer *writer);
/*
 * Between two batches: re-evaluates which nodes are usable if the tolerations of pods have changed,
 * and wakes pods that wait for one more idle host.
 */
void writer_check_taints(struct writer *writer);
/* Returns any node, for wake-ups under wake=node that concern no node in particular; or NULL. */
const struct atom *writer_some_node(const struct writer *writer);
/*
 * Wakes pods that were offered nodes a second ago and are not bound: on a quiet cluster nothing
 * else would make kube-scheduler retry.
 */
void writer_wake_for_the_late(struct writer *writer);

/* writer_lost.c */

/* Keeps messages that a full batch did not handle, for the next step. */
void writer_leave_over(struct writer *writer, struct message **message, size_t count);
/* Keeps the messages of a lost batch for a retry; answers its binds with an error. */
void writer_batch_lost(struct writer *writer, struct message **message, size_t count);
/* Appends cluster messages to the kept ones; returns the number of others, moved to the front. */
size_t writer_put_behind(struct writer *writer, struct message **message, size_t count);
size_t writer_take_kept(struct writer *writer, struct message **message);

#endif
