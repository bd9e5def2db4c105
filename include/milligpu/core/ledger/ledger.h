/*
 * ledger - which pod holds which share, in memory.
 *
 * ledger_decide() computes what a command would change; ledger_apply() makes the change and cannot
 * fail; ledger_undo() takes changes back, newest first, if a COMMIT has failed. Nodes and
 * allocations are immutable, so a change is four pointers.
 *
 *   command --decide--> verdict + change --store writes it--> apply --> publish (snapshot.h)
 *
 * Invariants (ledger_check() recomputes them from scratch):
 *   I1. No grant takes a GPU over its milli or MiB at the time of granting.
 *   I2. A pod uid has at most one live allocation, and its node lists it too.
 *   I7. Reconciling twice changes nothing the second time (reconcile.h).
 *
 * Owned by the writer thread; all others read snapshots. Pure, except that ledger_decide() interns
 * names.
 */
#ifndef MILLIGPU_LEDGER_H
#define MILLIGPU_LEDGER_H

#include "milligpu/base/err.h"
#include "milligpu/base/map.h"
#include "milligpu/core/node/snapshot.h"
#include "milligpu/core/rank/policy.h"

struct ledger;

#define COMMAND_TABLE(X)                                                                           \
    X(COMMAND_RESERVE, "reserve") /* grant the request of a bind */                                \
    X(COMMAND_VERSION, "version") /* the pod was evaluated again, in a later version */            \
    X(COMMAND_CONFIRM, "confirm") /* the API server shows the pod on our node */                   \
    X(COMMAND_DOUBT, "doubt")     /* the outcome of a Binding is unknown */                        \
    X(COMMAND_RELEASE, "release") /* ended, gone, or refused by the API server */                  \
    X(COMMAND_ADOPT, "observe") /* a bound pod without a row: accept its annotation or adopt it */ \
    X(COMMAND_TERMINATING, "terminating") /* a deletion timestamp; frees nothing */                \
    X(COMMAND_NOTE, "note")               /* a change of annotation_differs or listed_unbound */   \
    X(COMMAND_NODE, "node")               /* the current state of a Node object */                 \
    X(COMMAND_NODE_GONE, "node_gone")                                                              \
    X(COMMAND_CLOCK, "clock")   /* wall clock step; only a journal row */                          \
    X(COMMAND_POLICY, "policy") /* a change of the rules in force; only a journal row */           \
    X(COMMAND_OVER, "over") /* a container held more memory than its share; only a journal row */

enum command_kind {
#define X(code, word) code,
    COMMAND_TABLE(X)
#undef X
        COMMANDS
};

const char *command_name(enum command_kind kind);

/*
 * All pointers are borrowed for the call.
 *
 * RESERVE also holds the request's whole GPUs on the node.
 *
 * VERSION: the pod changed and is still unbound, so no Binding sent for this reservation can take
 * effect any more. The next may be sent once this version is on disk.
 *
 * NODE with inventory NULL rebuilds the node from its present state (see ledger_stale_duplicate).
 * With first_owner, the inventory of another Node, it also gives up the UUIDs in first_owner that
 * no pod holds here: the first list of a new ledger does not show which Node had a UUID first.
 *
 * ADOPT with request NULL and a pod that names our resource (an invalid amount, bound without us)
 * counts the amount as unplaced. If the node is unknown, ADOPT creates it as gone and without
 * GPUs: nothing is granted there until a NODE command describes it, and it is removed with its last
 * pod.
 */
struct command {
    enum command_kind kind;
    int64_t at_ms; /* UTC */
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node;
    const struct request *request; /* RESERVE, VERSION, ADOPT (NULL: no amounts to place) */
    /* RESERVE, VERSION: resourceVersion of the evaluated pod */
    uint64_t version;
    const struct pod *pod;               /* ADOPT: its annotation, proof and whole_gpus are used */
    const struct inventory *inventory;   /* NODE */
    const struct inventory *first_owner; /* NODE without inventory: see above; or NULL */
    bool has_vouch;                      /* NODE without inventory: vouch is set */
    enum vouch vouch;                    /* NODE with inventory, or has_vouch */
    int64_t terminating_ms;              /* TERMINATING */
    bool differs;                        /* NOTE: the annotation differs from the ledger */
    bool unbound;          /* NOTE: a list shows a bound pod unbound; in memory only */
    int64_t created_ms;    /* RESERVE: creation time of the pod, for the journal; 0: unknown */
    const char *why;       /* RELEASE: "ended", "gone", "refused", ...; for the journal */
    int64_t clock_from_ms; /* CLOCK: the wall clock before the step */
    /* OVER; why is "seen", or "killed" if the container was killed for it. */
    const char *container;
    const char *gpu;
    uint32_t mib;                    /* OVER: memory of the share */
    uint32_t peak_mib;               /* OVER: peak memory held; 0: unknown */
    const struct rulebook *rulebook; /* POLICY */
    rule_set holding;                /* POLICY: active rules of rulebook */
};

/*
 * In order of precedence: the first that applies is returned.
 *
 * RESERVE: SAME, ELSEWHERE, REFUSED with REASON_UNKNOWN_NODE or place_find()'s reason, OK.
 *
 * VERSION: UNKNOWN, SAME (not reserved, its version is unknown, or the command's is not later),
 * REFUSED with REASON_CHANGED (the pod holds something else than it now requests, or more than its
 * present memory request needs, or its GPU is closed), OK.
 *
 * ADOPT: SAME (with held: the existing row always wins; without: nothing to count), ELSEWHERE, OK.
 *
 * CLOCK, POLICY, OVER: OK, and nothing changes.
 *
 * The others: UNKNOWN (no such allocation or node, or the allocation is on another node than the
 * command's), SAME (nothing would change), OK.
 *
 * NODE and ADOPT are REFUSED with REASON_LIMIT if the node is new and NODES_MAX is reached.
 */
enum verdict {
    VERDICT_OK,
    VERDICT_SAME,      /* no difference: there is no change to apply */
    VERDICT_ELSEWHERE, /* RESERVE, ADOPT: this uid has an allocation on another node */
    VERDICT_UNKNOWN,   /* no such allocation or node */
    VERDICT_REFUSED,   /* see reason */
};

const char *verdict_name(enum verdict verdict);

struct change {
    enum command_kind kind;
    enum verdict verdict;
    enum reason reason; /* with VERDICT_REFUSED */
    uint32_t rule;      /* index into the rulebook, with REASON_RULE and REASON_RESERVE */
    /*
     * Only in-memory state changes. Of a node: labels, taints, rules, agent, vouch, notes, plugin;
     * of an allocation: listed_unbound.
     */
    bool unwritten;
    uint32_t slot;                   /* slot of the node; valid if a node changes */
    const struct node *node_before;  /* NULL: new */
    const struct node *node_after;   /* NULL: removed */
    const struct allocation *before; /* NULL: new */
    const struct allocation *after;  /* state RELEASED: leaves the ledger */
    /* SAME, ELSEWHERE: the existing allocation, borrowed */
    const struct allocation *held;
};

struct ledger *ledger_new(void) MUST_USE;
void ledger_free(struct ledger *ledger); /* NULL is allowed */
/*
 * Moves all nodes, allocations and names into a ledger in which nothing ever was, and which keeps
 * its policy context; take_from, which has none, is freed.
 */
void ledger_take(struct ledger *empty, struct ledger *take_from);

/*
 * Fills *out; with VERDICT_OK it holds references, released by change_done(). The ledger does not
 * change.
 */
enum verdict ledger_decide(struct ledger *ledger, const struct command *command,
                           struct change *out) MUST_USE;
void ledger_apply(struct ledger *ledger, const struct change *change);
void ledger_undo(struct ledger *ledger, const struct change *change); /* newest first */
void change_done(struct change *change);

/* May the change make a refused request fit (capacity freed, repaired or added)? */
bool change_gives_room(const struct change *change);

/*
 * Sets the policy that orders placements: for grants at once, for filters from the next snapshot
 * on. NULL: binpack, as in a new ledger. The ledger maintains the context's prices and idle host
 * counts: it replaces the context after every PRICE_EVERY grants, and when a host that a rule keeps
 * idle gets its first pod or loses its last. A new rulebook replaces every node for which the
 * matching rules change. Must not be called while changes may be undone.
 */
void ledger_set_policy_context(struct ledger *ledger, const struct policy_context *context);
const struct policy_context *ledger_policy_context(const struct ledger *ledger);

/*
 * Sets the CPU and memory left by the pods of a node. Only orders placements; in memory only,
 * visible from the next snapshot on. Must not be called while changes may be undone. False: no such
 * node.
 */
bool ledger_set_host(struct ledger *ledger, struct text node, const struct host *host);

/*
 * Sets the tolerations of pods: a taint that no pod tolerates makes its node unusable
 * (node_filter.h). tolerations is borrowed and read at every later change of a node; NULL: no pod
 * tolerates anything. Judges every node again: call it after tolerations_version() has changed, and
 * not while changes may be undone. Returns the number of replaced nodes.
 */
uint32_t ledger_set_tolerations(struct ledger *ledger, const struct tolerations *tolerations);

struct names *ledger_names(struct ledger *ledger);

/*
 * Frees unreferenced names incrementally: in proportion to the changes since the last call, and
 * when idle a further part of the table. The caller must hold no name by address only, and no draft
 * may exist: the writer calls it between batches. Nothing may be restored after the first call.
 */
void ledger_sweep(struct ledger *ledger, bool idle);
/* Finishes the growth of the tables by name and uid (map_settle()), by this many slots of each. */
void ledger_settle(struct ledger *ledger, size_t slots);
const struct node *ledger_node(const struct ledger *ledger, struct text name);
const struct allocation *ledger_find(const struct ledger *ledger, struct text uid);
/* Iterates; *at starts at 0. NULL at the end. */
const struct allocation *ledger_next(const struct ledger *ledger, size_t *at);
/* The same for allocations that are reserved or listed unbound (allocation_is_open()). */
const struct allocation *ledger_next_open(const struct ledger *ledger, size_t *at);
const struct node *ledger_next_node(const struct ledger *ledger, size_t *at);

/*
 * Restores the rows of the store, before any command: nodes first, then allocations. A row that
 * contradicts an invariant is an error, not a bug: a database is external input.
 */
int ledger_restore_node(struct ledger *ledger, const struct node_build *build,
                        struct err *err) MUST_USE;
int ledger_restore(struct ledger *ledger, const struct allocation_facts *facts,
                   struct err *err) MUST_USE;

/*
 * The present state as a snapshot with one reference. Nodes in held_back (changes of an uncommitted
 * batch that free capacity) appear as before the first of those changes.
 */
struct snapshot *ledger_publish(struct ledger *ledger, const struct change *const *held_back,
                                size_t count) MUST_USE;

/*
 * One node owns a UUID, and only the owner may grant it: the first Node (uid) that showed it, for
 * as long as that Node exists, whatever it shows later, or a pod holds the UUID there. A UUID named
 * only by an annotation is not owned. Other nodes that show it are duplicates, and the owner is
 * contested. When the owner gives it up, the next node that showed it becomes the owner (after a
 * restart: the first by name).
 *
 * Returns a node with outdated flags, or NULL. Call it after every apply and undo, and run a NODE
 * command with inventory NULL for the result; until then it returns the same node. Its cost depends
 * only on the number of UUIDs that changed owners since the last call.
 */
const struct node *ledger_stale_duplicate(struct ledger *ledger) MUST_USE;

/* The node that owns a UUID: no other may grant it. NULL: none. */
const struct node *ledger_owner(const struct ledger *ledger, struct text id) MUST_USE;

/*
 * Recompute every invariant; the error contains the first that is broken, with node, GPU or pod.
 * ledger_check_some() checks `places` places (of one node each) beginning at `from`, so that the
 * writer can check incrementally; ledger_places() is the end, and may change.
 */
int ledger_check(const struct ledger *ledger, struct err *err) MUST_USE;
int ledger_check_some(const struct ledger *ledger, uint32_t from, uint32_t places,
                      struct err *err) MUST_USE;
uint32_t ledger_places(const struct ledger *ledger);

#endif
