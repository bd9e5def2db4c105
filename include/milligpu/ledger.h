/*
 * ledger - the truth about who holds which share, in memory.
 *
 * decide() is a question: given what is, what would this command change?  apply() makes it
 * so and cannot fail; undo() takes it back (a COMMIT that failed), in reverse order.  Nodes and
 * allocations are immutable, so a change is four pointers.
 *
 *   command --decide--> verdict + change --store writes it--> apply --> publish (snapshot.h)
 *
 * Invariants (ledger_check recomputes them from nothing):
 *   I1. No grant ever takes a GPU over its milli or MiB at the time of granting.
 *   I2. A pod uid has at most one live allocation, and its node has it too.
 *   I7. Reconciling twice changes nothing the second time (reconcile.h).
 *
 * Single owner: the writer.  Everybody else reads snapshots.  Pure but for the names that
 * decide() interns.
 */
#ifndef MILLIGPU_LEDGER_H
#define MILLIGPU_LEDGER_H

#include "milligpu/err.h"
#include "milligpu/map.h"
#include "milligpu/place.h"
#include "milligpu/snapshot.h"

struct ledger;

#define COMMAND_TABLE(X)                                                                           \
    X(COMMAND_RESERVE, "reserve") /* grant: a bind asks for it */                                  \
    X(COMMAND_VERSION, "version") /* the pod was evaluated again, in a later version */            \
    X(COMMAND_CONFIRM, "confirm") /* the API server shows the pod on our node */                   \
    X(COMMAND_DOUBT, "doubt")     /* the outcome of a Binding is not known */                      \
    X(COMMAND_RELEASE, "release") /* ended, gone, or refused by the API server */                  \
    X(COMMAND_ADOPT, "observe") /* a bound pod without a row: accept its annotation or adopt it */ \
    X(COMMAND_TERMINATING, "terminating") /* a deletion timestamp; frees nothing */                \
    X(COMMAND_NOTE, "note") /* the pod's annotation differs from the ledger, or no longer does */  \
    X(COMMAND_NODE, "node") /* a Node as it is now */                                              \
    X(COMMAND_NODE_GONE, "node_gone")                                                              \
    X(COMMAND_CLOCK, "clock") /* the wall clock stepped; a journal row only */

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
 * RESERVE holds the request's whole GPUs against the node, too.
 * VERSION: no Binding that was sent for this reservation can land any more, since its pod has moved
 * on unbound; the next may be sent when this one's version is on disk.
 * NODE with inventory NULL rebuilds the node from what it is (see ledger_stale_duplicate); with
 * elder it gives up what that other Node shows, but for what a pod holds: where a ledger begins
 * anew, the order of its first list says nothing about who was first.
 * ADOPT with request NULL and a pod that names our resource (an amount nobody may ask for, bound
 * without us) counts the amount as unplaced.  On a node that is not known it makes the node: gone,
 * without GPUs, so that nothing is granted there until NODE says what it is, and it leaves with
 * its last pod.
 */
struct command {
    enum command_kind kind;
    int64_t at_ms; /* UTC */
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node;
    const struct request *request;     /* RESERVE, VERSION, ADOPT (NULL: no amounts to place) */
    uint64_t version;                  /* RESERVE, VERSION: of the pod that was judged */
    const struct pod *pod;             /* ADOPT: its annotation and whole_gpus */
    const struct inventory *inventory; /* NODE */
    const struct inventory *elder;     /* NODE without inventory; NULL */
    int64_t terminating_ms;            /* TERMINATING */
    bool differs;                      /* NOTE */
    const char *why;       /* RELEASE: "ended", "gone", "refused", ...; for the journal */
    int64_t clock_from_ms; /* CLOCK: the wall clock before the step */
};

/*
 * In order of precedence: the first that applies is returned.
 *
 * RESERVE: SAME, ELSEWHERE, then UNKNOWN_NODE, place_search()'s reason, then OK.
 *
 * VERSION: UNKNOWN, SAME (no reservation, or not a later version than its own), REFUSED with
 * REASON_CHANGED (what is held differs from what the request asks for now, or its GPU is closed),
 * OK.
 *
 * ADOPT: SAME (held: a row always wins; not held: nothing to count), ELSEWHERE, then OK.
 *
 * The others: UNKNOWN (no such allocation or node, or the allocation is on another node than the
 * command names), SAME (nothing would change), OK.
 *
 * A node beyond NODES_MAX is REFUSED with REASON_LIMIT, by NODE and by ADOPT.
 */
enum verdict {
    VERDICT_OK,
    VERDICT_SAME,      /* the ledger is like this already; there is no change to apply */
    VERDICT_ELSEWHERE, /* RESERVE, ADOPT: this uid has an allocation on another node */
    VERDICT_UNKNOWN,   /* there is no such allocation or node */
    VERDICT_REFUSED,   /* see reason */
};

const char *verdict_name(enum verdict verdict);

struct change {
    enum command_kind kind;
    enum verdict verdict;
    enum reason reason;              /* with VERDICT_REFUSED */
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

/* Fills *out; with VERDICT_OK it owns what change_done() frees. The ledger does not change. */
enum verdict ledger_decide(struct ledger *ledger, const struct command *command,
                           struct change *out) MUST_USE;
void ledger_apply(struct ledger *ledger, const struct change *change);
void ledger_undo(struct ledger *ledger, const struct change *change); /* newest first */
void change_done(struct change *change);

/* True if the change may make a refused request fit: something was freed, repaired or added. */
bool change_gives_room(const struct change *change);

struct names *ledger_names(struct ledger *ledger);
const struct node *ledger_node(const struct ledger *ledger, struct text name);
const struct allocation *ledger_find(const struct ledger *ledger, struct text uid);
/* *at starts at 0; NULL at the end. */
const struct allocation *ledger_next(const struct ledger *ledger, size_t *at);
const struct allocation *ledger_next_open(const struct ledger *ledger, size_t *at); /* reserved */
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
 * The present as a snapshot, count 1.  Nodes named by held_back (changes of a batch that is not yet
 * committed and that give room) appear as they were before the first of those changes.
 */
struct snapshot *ledger_publish(struct ledger *ledger, const struct change *const *held_back,
                                size_t count) MUST_USE;

/*
 * A UUID is granted on one node only: the first Node (uid) that showed it, for as long as that Node
 * is there, whatever it shows meanwhile, or a pod holds it there; what only an annotation names
 * claims nothing.  All others are duplicates, and the first is contested.  When it lets go, the one
 * that came next takes over (after a restart: the first by name).
 *
 * A node whose flags do not say so (any more), or NULL; to be asked after apply and undo of
 * anything, and answered by a NODE command with inventory NULL: until then it is the same node.
 * Costs what was let go since.
 */
const struct node *ledger_stale_duplicate(struct ledger *ledger) MUST_USE;

/*
 * The node that may grant a UUID, or that keeps other nodes from granting it; NULL: there is none.
 */
const struct node *ledger_owner(const struct ledger *ledger, struct text id) MUST_USE;

/*
 * Recomputes every invariant: an error names the first that is broken, with node, GPU or pod. The
 * writer checks a few nodes at a time: places, starting at a place; ledger_places() is the end,
 * which changes.
 */
int ledger_check(const struct ledger *ledger, struct err *err) MUST_USE;
int ledger_check_some(const struct ledger *ledger, uint32_t from, uint32_t places,
                      struct err *err) MUST_USE;
uint32_t ledger_places(const struct ledger *ledger);
/* ledger_check(), but it aborts. */
void ledger_assert_valid(const struct ledger *ledger);

#endif
