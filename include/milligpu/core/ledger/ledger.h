/*
 * ledger - the truth about which pod holds which share, in memory.
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
 * Single owner: the writer. All others read snapshots. Pure, except that ledger_decide() interns
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
    X(COMMAND_RESERVE, "reserve") /* grant what a bind requests */                                 \
    X(COMMAND_VERSION, "version") /* the pod was evaluated again, in a later version */            \
    X(COMMAND_CONFIRM, "confirm") /* the API server shows the pod on our node */                   \
    X(COMMAND_DOUBT, "doubt")     /* the outcome of a Binding is not known */                      \
    X(COMMAND_RELEASE, "release") /* ended, gone, or refused by the API server */                  \
    X(COMMAND_ADOPT, "observe") /* a bound pod without a row: accept its annotation or adopt it */ \
    X(COMMAND_TERMINATING, "terminating") /* a deletion timestamp; frees nothing */                \
    X(COMMAND_NOTE, "note") /* how what is shown of the pod differs from the ledger */             \
    X(COMMAND_NODE, "node") /* a Node as it is now */                                              \
    X(COMMAND_NODE_GONE, "node_gone")                                                              \
    X(COMMAND_CLOCK, "clock")   /* the wall clock stepped; a journal row only, as is the next */   \
    X(COMMAND_POLICY, "policy") /* these rules decide from now on; likewise a journal row only */  \
    X(COMMAND_OVER, "over") /* a container held more memory than its share; a journal row only */

enum command_kind {
#define X(code, word) code,
    COMMAND_TABLE(X)
#undef X
        COMMANDS
};

const char *command_name(enum command_kind kind);

/*
 * Everything is borrowed for the call.
 *
 * RESERVE also holds the request's whole GPUs on the node.
 *
 * VERSION: the pod changed and is still unbound, so no Binding that was sent for this reservation
 * can take effect any more. The next may be sent once this version is on disk.
 *
 * NODE with inventory NULL rebuilds the node from its present state (see ledger_stale_duplicate).
 * With elder, another Node, it also gives up the UUIDs that elder shows, except those that a pod
 * holds: the order of a new ledger's first list does not tell which Node showed a UUID first.
 *
 * ADOPT with request NULL and a pod that names our resource (an invalid amount, bound without us)
 * counts the amount as unplaced. If the node is not known, ADOPT creates it as gone and without
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
    const struct request *request;       /* RESERVE, VERSION, ADOPT (NULL: no amounts to place) */
    uint64_t version;                    /* RESERVE, VERSION: of the pod that was evaluated */
    const struct pod *pod;               /* ADOPT: its annotation, proof and whole_gpus */
    const struct inventory *inventory;   /* NODE */
    const struct inventory *first_owner; /* NODE without inventory: see above; or NULL */
    bool has_vouch;                      /* NODE without inventory: vouch counts, too */
    enum vouch vouch;                    /* NODE with inventory, or has_vouch */
    int64_t terminating_ms;              /* TERMINATING */
    bool differs;                        /* NOTE: the annotation does */
    bool unbound;          /* NOTE: a list shows a bound pod unbound; in memory only */
    int64_t created_ms;    /* RESERVE: when the pod was created; 0: not known; for the journal */
    const char *why;       /* RELEASE: "ended", "gone", "refused", ...; for the journal */
    int64_t clock_from_ms; /* CLOCK: the wall clock before the step */
    const char *container; /* OVER, as is the next; why: "seen", or "killed" for it */
    const char *gpu;
    uint32_t mib;                    /* OVER: of its share */
    uint32_t peak_mib;               /* OVER: what it held at most; 0: not known */
    const struct rulebook *rulebook; /* POLICY */
    rule_set holding;                /* POLICY: those of its rules that hold */
};

/*
 * In order of precedence: the first that applies is returned.
 *
 * RESERVE: SAME, ELSEWHERE, REFUSED with REASON_UNKNOWN_NODE or place_find()'s reason, OK.
 *
 * VERSION: UNKNOWN, SAME (not reserved, or its version is not known, or the command's is not
 * later), REFUSED with REASON_CHANGED (the pod holds something else than it requests now, or more
 * than the memory needs that it demands now, or its GPU is closed), OK.
 *
 * ADOPT: SAME (with held: the existing row always wins; without: nothing to count), ELSEWHERE, OK.
 *
 * CLOCK, POLICY, OVER: OK, and nothing changes.
 *
 * The others: UNKNOWN (no such allocation or node, or the allocation is on another node than the
 * command names), SAME (nothing would change), OK.
 *
 * NODE and ADOPT are REFUSED with REASON_LIMIT if the node is new and NODES_MAX is reached.
 */
enum verdict {
    VERDICT_OK,
    VERDICT_SAME,      /* the ledger already says so; there is no change to apply */
    VERDICT_ELSEWHERE, /* RESERVE, ADOPT: this uid has an allocation on another node */
    VERDICT_UNKNOWN,   /* there is no such allocation or node */
    VERDICT_REFUSED,   /* see reason */
};

const char *verdict_name(enum verdict verdict);

struct change {
    enum command_kind kind;
    enum verdict verdict;
    enum reason reason; /* with VERDICT_REFUSED */
    uint32_t rule;      /* with REASON_RULE and REASON_RESERVE: its position in the rulebook */
    /*
     * only what the store does not keep: of a node labels, taints, rules, agent, vouch, notes,
     * plugin; of an allocation that it is listed unbound
     */
    bool unwritten;
    uint32_t slot;                   /* of the node; valid if a node changes */
    const struct node *node_before;  /* NULL: new */
    const struct node *node_after;   /* NULL: removed */
    const struct allocation *before; /* NULL: new */
    const struct allocation *after;  /* state RELEASED: leaves the ledger */
    /* SAME, ELSEWHERE: the existing allocation (borrowed) */
    const struct allocation *held;
};

struct ledger *ledger_new(void) MUST_USE;
void ledger_free(struct ledger *ledger); /* NULL is fine */

/*
 * Fills *out; with VERDICT_OK it holds references that change_done() releases. The ledger does not
 * change.
 */
enum verdict ledger_decide(struct ledger *ledger, const struct command *command,
                           struct change *out) MUST_USE;
void ledger_apply(struct ledger *ledger, const struct change *change);
void ledger_undo(struct ledger *ledger, const struct change *change); /* newest first */
void change_done(struct change *change);

/* True if the change may make a refused request fit: something was freed, repaired or added. */
bool change_gives_room(const struct change *change);

/*
 * Placements are ordered by this policy from now on: grants at once, filters from the next snapshot
 * on. NULL: binpack, as in a new ledger. The ledger keeps the prices of the policy context up to
 * date, and its numbers of idle hosts: it replaces the policy context after every PRICE_EVERY
 * grants, and when a host that a rule keeps idle gets its first pod or loses its last. With another
 * rulebook every node is replaced that other rules match now. Must not be called while changes may
 * be undone.
 */
void ledger_set_policy_context(struct ledger *ledger, const struct policy_context *context);
const struct policy_context *ledger_policy_context(const struct ledger *ledger);

/*
 * What the pods of a node leave of its CPU and memory. It only orders placements; it is in memory
 * only, and appears in the next snapshot. Must not be called while changes may still be undone.
 * False: there is no such node.
 */
bool ledger_set_host(struct ledger *ledger, struct text node, const struct host *host);

/*
 * Sets the tolerations of pods: a taint that no pod tolerates makes its node unusable
 * (node_filter.h). The table stays the caller's, and is read by every later change of a node; NULL:
 * no pod tolerates anything. Judges every node anew: call it when tolerations_version() has moved,
 * and not while changes may be undone. Returns how many nodes were replaced.
 */
uint32_t ledger_set_tolerations(struct ledger *ledger, const struct tolerations *tolerations);

struct names *ledger_names(struct ledger *ledger);

/*
 * Frees names that nobody holds any more, some at a time: as many as the changes since the last
 * call are worth, and in idle moments a further part of the table. The caller must hold no name by
 * address only, and no draft may be under way: the writer calls it between batches. After the first
 * call nothing is restored any more.
 */
void ledger_sweep(struct ledger *ledger, bool idle);
const struct node *ledger_node(const struct ledger *ledger, struct text name);
const struct allocation *ledger_find(const struct ledger *ledger, struct text uid);
/* *at starts at 0; NULL at the end. */
const struct allocation *ledger_next(const struct ledger *ledger, size_t *at);
/* Reserved, or listed unbound (allocation_is_open()). */
const struct allocation *ledger_next_open(const struct ledger *ledger, size_t *at);
const struct node *ledger_next_node(const struct ledger *ledger, size_t *at);

/*
 * Restores what the store kept, before any command: nodes first, then allocations. A row that
 * contradicts an invariant is an error, not a bug: a database is input from outside.
 */
int ledger_restore_node(struct ledger *ledger, const struct node_build *build,
                        struct err *err) MUST_USE;
int ledger_restore(struct ledger *ledger, const struct allocation_facts *facts,
                   struct err *err) MUST_USE;

/*
 * The present state as a snapshot with one reference. Nodes in held_back (changes of a batch that
 * is not yet committed and that free capacity) appear as they were before the first of those
 * changes.
 */
struct snapshot *ledger_publish(struct ledger *ledger, const struct change *const *held_back,
                                size_t count) MUST_USE;

/*
 * One node owns a UUID, and only the owner may grant it: the first Node (uid) that showed it, for
 * as long as that Node exists, whatever it shows later, or a pod holds the UUID there. A UUID that
 * only an annotation names is not owned. The other nodes that show it are duplicates, and the owner
 * is contested. When the owner gives it up, the next one that showed it becomes the owner (after a
 * restart: the first by name).
 *
 * Returns a node whose flags do not say this (any more), or NULL. Call it after every apply and
 * undo, and run a NODE command with inventory NULL for the result; until then it returns the same
 * node. Its cost depends only on how many UUIDs changed hands since the last call.
 */
const struct node *ledger_stale_duplicate(struct ledger *ledger) MUST_USE;

/* The node that owns a UUID: no other may grant it. NULL: none. */
const struct node *ledger_owner(const struct ledger *ledger, struct text id) MUST_USE;

/*
 * Recomputes every invariant: an error names the first that is broken, with node, GPU or pod.
 * ledger_check_some() checks as many places (of one node each) from the given one on, so that the
 * writer can check a few at a time; ledger_places() is the end, and may change.
 */
int ledger_check(const struct ledger *ledger, struct err *err) MUST_USE;
int ledger_check_some(const struct ledger *ledger, uint32_t from, uint32_t places,
                      struct err *err) MUST_USE;
uint32_t ledger_places(const struct ledger *ledger);

#endif
