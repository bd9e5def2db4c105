/*
 * sim - a cluster in one thread, from one number.
 *
 *   cluster (operators, kubelets, a hostile tenant) --\
 *   schedulers ----------------------------------------> sim_api (the API server, and a network
 *        |                                                 |      that lies)
 *        | filter, prioritize, bind                        | watches, answers
 *        \--> daemon (milligpud's own parts) <-------------/
 *
 *   model: API objects, from effects and answers           oracle: what must hold of them
 *
 * Everything happens in virtual time and is drawn from the seed, so the same seed and the same
 * skipped steps give the same run, to the byte.  A run is a list of steps; each draws from a
 * generator of its own, so that steps can be left out to shorten a failing run.
 *
 * Model and oracle share no code with the core: they read JSON with jansson and count by
 * themselves. Of the daemon they see what anybody could see: its answers, its Bindings, and its
 * snapshot.
 */
#ifndef MILLIGPU_TESTS_SIM_RUN_H
#define MILLIGPU_TESTS_SIM_RUN_H

#include <string.h>

#include <jansson.h>

#include "milligpu/daemon/assembly.h"
#include "milligpu/kube/kube.h"
#include "milligpu/spine/app.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/cluster_identity.h"
#include "milligpu/sync/informer.h"
#include "milligpu/webhook/webhooks.h"
#include "milligpu/writer/writer.h"

#include "sim_agent.h"
#include "sim_api.h"
#include "sim_keys.h"
#include "sim_lay.h"
#include "sim_model.h"
#include "sim_vouch.h"
#include "support/fake_http.h"

enum {
    SIM_SCHEDULERS = 3,
    SIM_CALLS = 48,
    SIM_WORD = 40,
    SIM_WORDS = 480,
    SIM_STEPS_MAX = 4096,
    SIM_FAULTY_MS = 3500 /* after a fault: Retry-After delays everything for this long */
};

struct draw {
    uint64_t state;
};

/* Wake-ups of the milligpud that is running. */
struct sim_wakes {
    bool sent;            /* false until the first one */
    int64_t sent_ms;      /* time of the last one */
    int64_t decided_ms;   /* time from which on it may have waited to be sent */
    int64_t reason_ms;    /* time of the last reason for one, for any pod */
    int64_t room_ms;      /* time of the last change that may have made room */
    int64_t vouched_ms;   /* time when an agent's pod began to vouch at the API server */
    int64_t waiting_ms;   /* time when pods waited last */
    int64_t offered_ms;   /* time of the last filter answer that named a node */
    uint32_t ready_turns; /* turns of the writer since milligpud became ready */
};
uint64_t draw_next(struct draw *draw);
uint32_t draw_below(struct draw *draw, uint32_t below); /* 0 gives 0 */
int64_t draw_between(struct draw *draw, int64_t least, int64_t most);
bool draw_chance(struct draw *draw, uint32_t per_mille);
uint32_t draw_any(void *draw, uint32_t below); /* the same as draw_below */

/*
 * The character of this run: drawn first, so that runs differ in what they stress ("swarm
 * testing").
 */
struct sim_rules {
    uint32_t steps;
    uint32_t nodes;
    uint32_t schedulers;
    uint32_t faults_per_mille;
    uint32_t crash_per_mille;  /* of steps */
    uint32_t disk_per_mille;   /* of steps: disk full or broken for a while */
    uint32_t node_per_mille;   /* of steps: something about a node changes */
    uint32_t odd_per_mille;    /* of steps: a Node becomes unreadable */
    uint32_t tenant_per_mille; /* of steps: somebody writes our annotations, or binds by hand */
    uint32_t shortlist;
    bool full_nodes; /* schedulers send Node objects */
    bool both;       /* two schedulers may take the same pod */
    bool power;      /* crashes lose what was not synced */
    bool loses;      /* the ledger is lost now and then, and a new one begins */
    bool scarce;     /* the ledger may take so little that history goes by bytes */
    bool resets;     /* settings differ after a restart */
    bool ruled;      /* the policy has rules, which change */
    bool copies;     /* nodes show UUIDs of others */
    bool picky;      /* another extender agrees to one node only, for many pods */
    bool linked;     /* nodes tell which GPUs lie together, and pods demand it */
    bool agents;     /* nodes have agents */
    bool raises;     /* the policy raises shares for the sake of their memory */
    bool taints;     /* kube-scheduler would not use some nodes */
    bool reports;    /* agents report usage */
    bool vouches;    /* and their pods vouch for nodes */
    enum agents_required required;
    bool by_annotation;       /* agents run outside of pods */
    bool priced;              /* models have prices, which change with the rules */
    const char *order;        /* setting policy at the first start */
    uint32_t taint_per_mille; /* of steps: that begins or ends somewhere */
    uint32_t raise_per_mille; /* of steps: somebody edits what a pod requests */
    uint32_t agent_per_mille; /* of steps: something happens where one is */
    uint32_t key_per_mille;   /* of steps: an operator has the signing key replaced */
    uint32_t idle_pods;       /* pods that no step touches: lists of several pages */
};

/* How memory that comes with too small a share is met. */
enum sim_memory { SIM_MEMORY_UNSAID, SIM_MEMORY_FILTER, SIM_MEMORY_RAISE };

/* A rule of the policy, and the pods and nodes for which it holds. */
struct sim_rule {
    uint32_t pool;     /* 0: all nodes; 1: even; 2: odd */
    bool others;       /* about namespaces without pods */
    uint32_t from_min; /* of the day, UTC */
    uint32_t minutes;  /* 0: it holds always */
    bool whole;
    uint32_t min_milli;
    uint32_t step_milli;
    uint32_t reserve;
    enum sim_memory memory;
    enum model_lie lie;
};
enum { SIM_RULES = 3, SIM_BOOKS = 64, SIM_PRICES = 2 };
struct sim_book {
    uint32_t number;
    bool raise;                 /* where no rule says otherwise */
    uint32_t price[SIM_PRICES]; /* of each model that GPUs have here; 0: nothing has a price */
    uint32_t n_rules;
    struct sim_rule rule[SIM_RULES];
};

/* The daemon's threads, except those that answer calls. */
enum turn { TURN_WATCHER, TURN_WRITER, TURN_OUTBOX, TURNS };

/* A webhook call; binds wait for their answer. */
struct sim_call {
    struct http_call http;
    struct strbuf body;
    struct strbuf seen; /* of filter and prioritize: the pod, when the cycle began */
    bool lost;          /* the caller has given up */
    bool busy;          /* SIM_CALLS: in use */
    bool sent;
    bool given; /* the daemon has it and owes an answer */
    uint32_t scheduler;
    uint32_t pod;
    char node[MODEL_NAME];
    int64_t start_ms;
    int64_t deadline_ms;
};

struct sim_daemon {
    struct app_parts parts;
    bool up;
    bool turning[TURNS]; /* a thread that waits in the middle of its turn */
    uint32_t yield;      /* how deep threads are nested in the middle of something */
    bool rebuilds;       /* on a new ledger, which has not seen a list yet */
    struct app app;
    struct settings settings;
    struct kube_ops watch_ops;
    struct kube_ops call_ops;
    struct store_ops store; /* the real one, which ours wraps and counts */
    int64_t next_ms;        /* when it is to be stepped next */
    int64_t boot_ms;        /* when it is started again, while it is down */
    bool doomed;            /* it is killed before its next turn */
    uint64_t told_nodes;    /* resourceVersion up to which news of nodes was delivered */
    uint64_t applied_nodes; /* and up to which the writer knows */
    uint64_t told_pods;     /* the same for pods */
    uint64_t applied_pods;
    int64_t disk_heals_ms;       /* 0: the disk is well */
    uint64_t writes;             /* changes that the store accepted */
    const struct snapshot *seen; /* the last one judged */
    bool uncommitted;            /* the writer has shown more than is on disk, maybe */
};

/* The last argument of store_ops.learn, as a hash of all classes; 0: nothing is stored. */
enum { SIM_TRIED = 8 };
struct sim_learned {
    uint64_t stored; /* by the last call that succeeded, or what was found at the last start */
    uint32_t tries;  /* calls since that failed: each may be what a crash leaves */
    uint64_t tried[SIM_TRIED];
};

/* Agents that report usage: they all have the same key. */
enum { SIM_AGENT_BYTES = 128, SIM_LATE_BYTES = 4096 };
struct sim_usage {
    struct reports *reports; /* milligpud's, while it is up */
    struct signing_key *key;
    struct draw draw;                   /* for reports that come in the middle of something */
    bool idles;                         /* no report says anything else */
    uint64_t number;                    /* of the last report */
    const struct model_node *late_node; /* of the next one; NULL: there is none */
    char late[SIM_LATE_BYTES];          /* a report of before, which comes again */
    int64_t begin_ms;                   /* of the run */
    int64_t boot_ms;                    /* of this milligpud */
    uint32_t over[MODEL_NODES];         /* entries of the journal that each node caused since */
    uint32_t over_open[MODEL_NODES];    /* ... in the batch that is not committed yet */
    char file[300];
};

/* The pods that kube-scheduler would evict so that a pod fits. */
struct proposal {
    bool stranger; /* and an unknown node */
    bool node[MODEL_NODES];
    bool victim[MODEL_PODS]; /* only these nodes */
};

enum view_state { VIEW_UNSEEN, VIEW_QUEUED, VIEW_BACKOFF, VIEW_REFUSED, VIEW_BINDING, VIEW_DONE };

/* A scheduler's knowledge of a pod. */
struct view_of_pod {
    enum view_state state;
    int64_t due_ms;
    uint32_t tries;
    uint64_t events;   /* version of the cluster when it was refused */
    bool ours;         /* milligpud refused it */
    uint32_t withheld; /* bits: nodes that milligpud was not asked about then */
    bool fits;         /* bound to another one */
    uint64_t looked;   /* when that was found out */
    int64_t owed_ms;   /* since when it is owed a wake-up; 0: it is not */
};

struct scheduler {
    uint32_t id;
    bool stepping;          /* it waits for an answer and does nothing else meanwhile */
    struct sim_call asking; /* filter and prioritize: answered at once */
    int64_t lag_ms;         /* how far its informers are behind */
    int64_t cycle_ms;       /* when its serial loop is free again */
    struct view_of_pod view[MODEL_PODS];
};

struct sim {
    uint64_t seed;
    bool trace;
    bool settling; /* no more faults, and other plugins agree to everything */
    bool frozen;   /* schedulers and kubelets do nothing */
    bool pressing; /* a scheduler's question will have another answer in a moment */
    struct sim_rules rules;
    int64_t now_ms;
    int64_t wall_ms;
    int64_t clock_ahead_ms;  /* so far, by somebody's mistake */
    int64_t forward_ms;      /* all smaller steps ahead, which are believed */
    bool years;              /* it was ahead that far once */
    int64_t clock_heals_ms;  /* ahead until then; 0: it is not */
    struct draw draw;        /* for everything that is not a step */
    struct draw agents_draw; /* the same of agents and their nodes */
    struct fake_apiserver *fake;
    struct sim_api *api;
    struct model model;
    struct sim_agent agent[MODEL_NODES];
    struct sim_stay stay[MODEL_PODS];
    struct sim_vouch vouch[MODEL_NODES];
    uint32_t vouch_pods; /* pods of agents so far */
    struct vouch_table vouched[MODEL_NODES];
    bool agent_seen;  /* one was in the cluster at some time */
    bool agent_known; /* and this milligpud knows it */
    bool agent_kept;  /* and its store */
    struct sim_wakes wakes;
    struct sim_keys keys;
    struct sim_daemon daemon;
    struct sim_learned learned;
    struct sim_usage usage;
    struct scheduler scheduler[SIM_SCHEDULERS];
    struct sim_call call[SIM_CALLS];
    uint64_t events; /* events that wake refused pods */
    int64_t events_ms;
    char woken[64];         /* the wake-up object's current value */
    uint64_t changes;       /* version of the cluster, for each of them */
    int64_t look_ms;        /* for pods that wait for nothing */
    int64_t breath_ms;      /* until then the cluster is stopped; 0: it is not */
    uint64_t breath_events; /* when that began */
    uint64_t faults;        /* met at the last look */
    int64_t faults_ms;      /* when new ones were last met */
    uint64_t operations;
    struct sim_policy policy;
    uint32_t n_books;       /* drawn so far: the number of the last one */
    uint64_t open;          /* bits: rules that hold, as far as the waiting are concerned */
    uint32_t told_book;     /* the journal says that it decides */
    uint32_t deciding_book; /* and that is committed */
    struct sim_book book[SIM_BOOKS];
    bool idle[MODEL_NODES];      /* hosts, by what was written so far */
    bool idle_kept[MODEL_NODES]; /* and committed */
    uint32_t step;
    char ledger[256];
};

/*
 * A run, from seed to the end; if something does not hold it does not return: sim_violation() ends
 * the process. skip: [rules.steps] flags of steps to leave out, NULL: none.
 */
struct sim_plan {
    uint64_t seed;
    uint32_t steps; /* 0: as the seed decides */
    const bool *skip;
    const char *folder; /* for the lock file */
    bool trace;
};
void sim_run(const struct sim_plan *plan, uint64_t *out_operations);
uint32_t sim_steps(uint64_t seed); /* how many are due */

/* Schedulers and kubelets do nothing. */
static inline bool sim_is_still(const struct sim *sim)
{
    return sim->frozen || sim->breath_ms != 0;
}

/* Is pod i one of the victims on that node? */
static inline bool proposes(const struct proposal *proposal, const struct sim *sim, uint32_t i,
                            const struct model_node *node)
{
    return proposal->victim[i] && strcmp(sim->model.pod[i].node, node->name) == 0;
}

enum fit { FIT_NO, FIT_YES, FIT_UNSURE };

/* Let virtual time pass; everybody does what is due. */
void sim_pass(struct sim *sim, int64_t ms);
/* The same while a thread of the daemon is in the middle of something: all others go on. */
void sim_interleave(struct sim *sim);

/* RFC 3339, as agents write it. */
enum { SIM_TIME_BYTES = 32 };
void sim_time(int64_t utc_ms, char out[SIM_TIME_BYTES]);

/* Words that were met, counted over all runs; main.c owns the table. */
void sim_met(const char *format, ...) PRINTF_LIKE(1, 2);
void sim_digest(const char *text); /* part of the run's identity */
void sim_met_many(uint64_t times, const char *format, ...) PRINTF_LIKE(2, 3);

/* A violation: says so and ends the process. */
_Noreturn void sim_violation(const struct sim *sim, const char *format, ...) PRINTF_LIKE(2, 3);
/* One line of the trace. */
void sim_say(const struct sim *sim, const char *format, ...) PRINTF_LIKE(2, 3);

/* daemon */
void daemon_boot(struct sim *sim);
void daemon_kill(struct sim *sim);
void daemon_lose_ledger(struct sim *sim); /* it is killed, and its disk is empty */
void daemon_stop(struct sim *sim);        /* shut down in good order */
/* Runs the due steps in an order that is drawn; kills it if its disk was cut. */
void daemon_step(struct sim *sim);
/* One of its threads at the beginning of its turn, if there is one. */
void daemon_turn(struct sim *sim);
/* Each of them, in the order in which news passes through. */
void daemon_hears(struct sim *sim);
/*
 * A call that is answered at once (filter, prioritize), or one that waits (bind). False: no daemon.
 */
bool daemon_call(struct sim *sim, struct sim_call *call);
const struct snapshot *daemon_view(const struct sim *sim); /* NULL while down */
bool daemon_ready(const struct sim *sim);

/* wakes */
void wakes_booted(struct sim *sim);
void wakes_turn(struct sim *sim); /* at the end of the writer's turn */
void wakes_offered(struct sim *sim);
void wakes_vouched(struct sim *sim); /* the pods of agents on a node may vouch for it now */
void wakes_shown(struct sim *sim, const struct snapshot *before, const struct snapshot *now);
void wakes_sent(struct sim *sim); /* when milligpud sends one: judges it */

/* schedulers */
void schedulers_hear(struct sim *sim); /* something changed: idle ones look again */
/* The pod was written to: a scheduler that was refused asks again. */
void schedulers_pod_written(struct sim *sim, const struct model_pod *pod);
void scheduler_step(struct sim *sim, struct scheduler *scheduler);
int64_t scheduler_next(const struct sim *sim, const struct scheduler *scheduler);
void scheduler_restart(struct sim *sim, struct scheduler *scheduler);
size_t scheduler_binding(const struct sim *sim);
/* A proposal for this pod, drawn and sent; the answer is judged and carried out. */
void scheduler_preempt(struct sim *sim, const struct model_pod *pod);

/* cluster */
void core_add_idle_pods(struct sim *sim); /* before the API server is watched */
void core_begin(struct sim *sim);
void core_step(struct sim *sim, struct draw *draw);
void core_kubelets(struct sim *sim); /* pods whose time has come */
int64_t core_next(const struct sim *sim);
/* For a pod that fits nowhere some others end now: schedulers know it, milligpud not yet. */
bool core_makes_room(struct sim *sim, const struct model_pod *pod);
void core_evict(struct sim *sim, struct model_pod *pod);
void core_vanish(struct sim *sim, uint32_t pods); /* that we bound: deleted at once */
void core_remake_node(struct sim *sim, struct model_node *node); /* it is deleted, and made anew */
void core_fails(struct sim *sim, struct model_pod *pod);         /* its node does not admit it */
void core_calm(struct sim *sim);                                 /* end all trouble */
void core_end_all(struct sim *sim);                              /* delete every pod */

int core_request_json(struct sim *sim, const char *method, const char *path, json_t *take_body);
/* PATCHes a Node, or its "/status" with that as rest. */
void core_change_node(struct sim *sim, const struct model_node *node, const char *rest,
                      json_t *take_patch);
uint64_t core_version(struct sim *sim); /* current resourceVersion */
uint32_t core_milli(const struct model_node *node);
json_t *core_gpus(const struct model_node *node); /* as its source shows them; owned */
json_t *core_labels(const struct model_node *node);
json_t *core_pool(const struct model_node *node); /* the label by which rules know it */
json_t *core_amounts(const struct model_node *node);

/* odd */
void core_odd_node(struct sim *sim, struct draw *draw);
bool odd_create(struct sim *sim, struct model_node *node, struct draw *draw);
void odd_mend(struct sim *sim, struct model_node *node);
void odd_mend_all(struct sim *sim);
void odd_forget(struct model_node *node); /* it is deleted */
void oracle_odd_nodes(struct sim *sim, const struct snapshot *snapshot);

/* one node's change */
void core_patch_node(struct sim *sim, struct model_node *node, const char *what);

/* policy */
void policy_draw(struct sim *sim); /* before a start */
bool policy_allows(const struct sim_policy *policy, const struct shape *shape);
void policy_asked(const struct sim *sim, struct model_pod *pod);
void oracle_policy(const struct sim *sim, const struct model_pod *pod); /* that was granted */

/* rules */
enum rules_fit { RULES_FIT, RULES_NOT, RULES_UNSURE };
bool rules_even(const struct model_node *node); /* its pool */
bool rules_match(const struct sim_rule *rule, bool is_even);
void rules_draw(struct sim *sim, struct draw *draw);
struct rulebook *rules_document(const struct sim *sim); /* the last one drawn; one reference */
void rules_change(struct sim *sim, struct draw *draw);  /* while milligpud runs */
/* The changes given to the store: grants are judged. */
void rules_written(struct sim *sim, const struct command *command, const struct change *change);
void rules_committed(struct sim *sim);
void rules_lost(struct sim *sim); /* instead */
enum rules_fit rules_fit(const struct sim *sim, const struct shape *shape,
                         const struct model_node *node, const bool *victim);
void rules_watch(struct sim *sim); /* time has passed */
int64_t rules_wait_ms(const struct sim *sim);
/* The rule that wins there now; NULL: there is none. */
const struct sim_rule *rules_now(const struct sim *sim, const struct model_node *node);
/* The same by a snapshot. */
const struct sim_rule *rules_shown(const struct sim *sim, const struct snapshot *snapshot,
                                   const struct model_node *node);
bool rules_take(const struct sim_rule *rule, const struct shape *shape);
enum model_lie rules_demand(const struct sim_rule *rule, const struct shape *shape);
/* The rule that wins where a reservation is written; NULL: there is none. */
const struct sim_rule *rules_granting(const struct sim *sim, const struct command *command,
                                      const char *node);

/* How shares may be raised there now, by a snapshot, and where a reservation is written. */
struct lay_raise rules_raise_now(const struct sim *sim, const struct model_node *node);
struct lay_raise rules_raise_shown(const struct sim *sim, const struct snapshot *snapshot,
                                   const struct model_node *node);
struct lay_raise rules_raise_granting(const struct sim *sim, const struct command *command,
                                      const char *node);
/* Price of a GPU when a reservation is written; 0: nothing has a price then. */
uint32_t rules_price_granting(const struct sim *sim, const char *model);

/* raise */
const struct shape *raise_shape(const struct sim *sim, struct draw *draw); /* NULL: another one */
bool raise_ask(struct sim *sim, struct model_pod *pod, struct draw *draw); /* while it waits */
void raise_trouble(struct sim *sim, uint32_t step);
void raise_before_loss(struct sim *sim);
void raise_written(struct sim *sim, const struct command *command, const struct change *change);
void oracle_amounts(const struct sim *sim, const struct model_pod *pod); /* as it was granted */

/* reserve */
const struct shape *reserve_shape(const struct sim *sim,
                                  const struct draw *draw); /* NULL: another */
bool reserve_is_small(const struct shape *shape);
bool reserve_is_ahead(const struct sim *sim, const struct sim_rule *rule,
                      const struct shape *shape);
/* Is the node one of the idle hosts that the rule keeps, by what the cluster shows? */
enum fit reserve_keeps(const struct sim *sim, const struct sim_rule *rule,
                       const struct model_node *node, const bool *victim);
/* The same by a snapshot. */
bool reserve_keeps_shown(const struct sim *sim, const struct sim_rule *rule,
                         const struct snapshot *snapshot, const struct model_node *node,
                         const struct proposal *proposal);
/* The content of the ledger, change by change; a grant is judged before it counts. */
void reserve_loaded(struct sim *sim);
void reserve_written(struct sim *sim, const struct command *command, const struct change *change);
void reserve_committed(struct sim *sim);
void reserve_shown(struct sim *sim, const struct snapshot *snapshot);
void reserve_lost(struct sim *sim);
void oracle_reserve(const struct sim *sim, const struct snapshot *snapshot); /* all is quiet */
void oracle_rules(const struct sim *sim, const struct snapshot *snapshot);

/* learned */
void learned_written(struct sim *sim, const struct tally *tally, bool stored);
void learned_loaded(struct sim *sim); /* milligpud has started */
void learned_lost(struct sim *sim);   /* with the ledger */
void oracle_learned(struct sim *sim); /* all is quiet */

/* usage */
void usage_begin(struct sim *sim, const char *folder);
void usage_end(struct sim *sim);
void usage_agent(const struct sim *sim, char out[SIM_AGENT_BYTES]);
void usage_boot(struct sim *sim);                   /* milligpud's parts were made */
void usage_stop(struct sim *sim);                   /* the process is gone */
void usage_loaded(struct sim *sim);                 /* milligpud has started */
bool usage_trouble(struct sim *sim, uint32_t step); /* true: everything should become quiet now */
void usage_between(struct sim *sim); /* a thread of milligpud is in the middle of something */
void usage_written(struct sim *sim, const struct command *command, const struct change *change);
void usage_batch_ended(struct sim *sim, bool committed);
void oracle_usage(struct sim *sim); /* all is quiet */

/* copies */
enum copies_whose { COPIES_ITS_OWN, COPIES_ANOTHERS, COPIES_UNSURE };
enum copies_whose copies_whose(const struct sim *sim, const struct model_node *node,
                               const char *id);
bool copies_at(const struct sim *sim,
               const struct model_node *node); /* shown there and elsewhere */
void copies_begin(struct sim *sim);
bool copies_step(struct sim *sim, struct model_node *node, struct draw *draw); /* false: nothing */
void copies_node_gone(struct sim *sim, const struct model_node *node);
void oracle_copies(const struct sim *sim, const struct model_pod *pod,
                   const struct model_share *share);

/* topology */
void topology_draw(const struct sim *sim, struct model_node *node, struct draw *draw);
uint32_t topology_gpus(const struct sim *sim, uint32_t gpus, struct draw *draw);
void topology_tell(const struct model_node *node, uint32_t at, json_t *object); /* of a GPU */
bool topology_step(struct sim *sim, struct model_node *node,
                   struct draw *draw); /* false: nothing */
bool topology_makes_room(struct sim *sim, const struct model_pod *pod);
const struct shape *topology_shape(const struct sim *sim, struct draw *draw); /* of a new pod */
bool topology_ask(struct sim *sim, struct model_pod *pod, struct draw *draw);
/* Its Binding is about to be sent: somebody may be faster. */
void topology_reserved(struct sim *sim, struct model_pod *pod);
void oracle_told(const struct sim *sim, const struct snapshot *snapshot); /* all is quiet */
void oracle_lies(const struct sim *sim, const struct model_pod *pod); /* it was granted its GPUs */

/* held: GPUs that something else than shares of ours has whole, and what agents say */
bool held_is(const struct sim *sim, const struct model_node *node, const struct model_gpu *gpu,
             const bool *victim);
/* Does this state of the node name as many GPUs for the pod as it requests whole? */
bool held_names_all(const struct model_version *version, const struct model_pod *pod);
/* Does it, in any state that milligpud may have known when it granted the other its shares? */
bool held_named_for(const struct model_node *node, const struct model_pod *pod,
                    const struct model_pod *other);
/* Facts that milligpud must have known when it granted the pod its shares. */
bool held_surely(const struct sim *sim, const struct model_pod *pod, const struct model_gpu *gpu);
bool held_closes(const struct sim *sim, const struct model_pod *pod,
                 const struct model_version *version);
/* The same of a node as it is shown; leaves: flags of its allocations, NULL: all stay. */
bool held_shown(const struct node *node, const struct gpu *gpu, const bool *leaves);
bool held_shown_by(const struct node *node, const struct gpu *gpu, const char *uid);
uint32_t held_unnamed(const struct node *node, const bool *leaves);
void oracle_holds(const struct sim *sim, const struct node *node);    /* of a snapshot */
void oracle_agents(struct sim *sim, const struct snapshot *snapshot); /* all is quiet */
void oracle_signed(struct sim *sim, struct model_pod *pod, const json_t *notes);

/* answers: by the snapshot that was shown when they were given */
struct sim_offer {
    uint32_t names;
    const char (*name)[MODEL_NAME];
};
void oracle_filter(const struct sim *sim, const struct model_pod *pod,
                   const struct snapshot *snapshot, const struct sim_offer *offer,
                   const json_t *answer);
/* Without the victims, if there are any: did preempt keep the node, and should it have? */
void oracle_kept_there(const struct sim *sim, const struct model_pod *pod,
                       const struct snapshot *snapshot, const struct model_node *node,
                       const struct proposal *proposal, bool kept);
/* A reservation that is written: the node is as it was before. */
void oracle_reserved(struct sim *sim, const struct command *command, const struct change *change);

/* taints */
void taints_of_pod(const struct sim *sim, struct model_pod *pod, struct draw *draw);
void taints_tell_pod(const struct model_pod *pod, json_t *spec);
void taints_trouble(struct sim *sim, uint32_t step);
void taints_mend_all(struct sim *sim);
bool taints_make_room(struct sim *sim, const struct model_pod *pod);
void taints_forget(struct model_node *node); /* it is deleted */
/* Would kube-scheduler use the node for the pod? */
bool taints_leave(const struct model_pod *pod, const struct model_node *node);
/* And for any pod, as far as sums and the reserve are concerned? */
enum fit taints_usable(const struct sim *sim, const struct model_node *node);
bool taints_are_steady(const struct sim *sim, const struct model_node *node);
void oracle_taints(const struct sim *sim, const struct snapshot *snapshot); /* all is quiet */

/* oracle */
bool oracle_asks(const struct model_pod *pod);        /* for shares */
bool oracle_should_hold(const struct model_pod *pod); /* something, on its node */
void oracle_grant(struct sim *sim, struct model_pod *pod, const char *annotation);
void oracle_beside_squatters(struct sim *sim, const struct model_pod *pod);
void oracle_bind_answer(struct sim *sim, const struct sim_call *call, const char *error);
/* Sets kept. */
void oracle_preempt(struct sim *sim, const struct model_pod *pod, const struct proposal *proposal,
                    const json_t *answer, bool kept[MODEL_NODES]);
void oracle_snapshot(struct sim *sim);    /* every one that is published */
void oracle_uncommitted(struct sim *sim); /* what is shown before the COMMIT only takes room */
void oracle_quiet(struct sim *sim);       /* nothing on its way: ledger and cluster agree */
void oracle_nobody_waits(struct sim *sim);
void oracle_waiting(struct sim *sim); /* at every moment: no pod waits for nothing */
/* A living pod bound by somebody else; all is quiet. */
void oracle_squatter(struct sim *sim, const struct model_pod *pod, const struct node *shown,
                     const struct allocation *held);
/* It runs there and leaves room for no share. */
/* The least that its node ever showed when it showed any GPU. */
uint32_t squat_least(const struct sim *sim, const struct model_pod *pod);
/* Where only pods of ours run nothing is closed. */
void oracle_open_nodes(struct sim *sim, const struct snapshot *snapshot);
uint32_t oracle_granted(const struct sim *sim, const struct model_node *node, const char *gpu,
                        const bool *victim);
bool squat_fills(const struct model_pod *pod, const struct model_node *node);
/* Bound by somebody else, and milligpud knew it when it was first asked about the pod. */
bool squat_was_known(const struct model_pod *squatter, const struct model_pod *pod);
/* A fault was met or felt lately, so what milligpud owes or sends may be late. */
bool waits_for_faults(struct sim *sim);
/* This pod has just been refused; room is what the daemon showed before. */
void waits_refused(struct sim *sim, struct view_of_pod *view, const struct model_pod *pod,
                   uint64_t room);
bool oracle_fits(const struct sim *sim, const struct model_pod *pod, uint32_t node); /* for sure */
bool oracle_fits_somewhere(const struct sim *sim, const struct model_pod *pod);
void oracle_empty(struct sim *sim);
void oracle_history(struct sim *sim); /* the same */
void oracle_tables(struct sim *sim);  /* when all is quiet: nothing is kept of what is gone */

#endif
