/*
 * allocation - the shares, charges and state of one pod.
 *
 *   reserved --confirm--> bound --release--> released
 *       \---------release---------------------^
 *
 * A share is the part of a GPU that a container sees; a charge is the peak of a pod on one GPU over
 * its life (request.h). An allocation is immutable and reference-counted: every change makes a new
 * object, and snapshots keep the old one. It is one block of memory with a reference to each of its
 * names.
 *
 * Invariants:
 *   1. Charges are what the shares come to on each GPU, in milli and MiB.
 *   2. A container has at most one share of one GPU; no share is empty.
 *   3. A granted allocation has shares or held GPUs, and nothing unplaced. An adopted pod was bound
 *      without a Binding of ours, so its allocation may hold anything.
 *
 * Pure. Only the atomic reference count is written after allocation_new().
 */
#ifndef MILLIGPU_ALLOCATION_H
#define MILLIGPU_ALLOCATION_H

#include <stdatomic.h>

#include "milligpu/core/facts/names.h"
#include "milligpu/core/facts/request.h"

enum allocation_state { STATE_RESERVED, STATE_BOUND, STATE_RELEASED };
enum allocation_origin { ORIGIN_GRANTED, ORIGIN_ADOPTED };

/*
 * The limit of a version: etcd's revisions and the ledger's file have 63 bits. Decoders treat a
 * higher value as unreadable (never as 0, never clamped), and an allocation with one is faulty.
 */
#define VERSION_MAX ((uint64_t)INT64_MAX)

struct share {
    const char *container;
    const struct atom *gpu;
    uint16_t order; /* order of start: places sidecars before or after init containers */
    enum container_kind kind : 8;
    uint32_t milli;
    uint32_t asked; /* requested milli, below milli if raised; 0 in facts: equals milli */
    uint32_t mib;
};

struct charge {
    const struct atom *gpu;
    uint32_t milli;
    uint32_t mib;
};

/* All fields of an allocation except the charges, which are computed. */
struct allocation_facts {
    const char *uid;
    const char *namespace;
    const char *name;
    const struct atom *node;
    const struct atom *node_uid;
    enum allocation_state state;
    enum allocation_origin origin;
    bool presumed;           /* adopted, with guessed GPUs, because nothing recorded them */
    bool in_doubt;           /* a Binding was sent, with unknown outcome */
    bool annotation_differs; /* from the pod's annotation: drift */
    /*
     * Bound, but a list that was requested later shows the pod unbound: drift, and the pod is not
     * bound again. In memory only: the first list after a restart shows it again.
     */
    bool listed_unbound;
    uint32_t held_gpus;      /* number of whole, unidentified GPUs of the other resource */
    uint32_t unplaced_milli; /* adopted amount that could not be assigned to a GPU */
    uint32_t n_shares;
    /* UTC times of the transitions; 0: not reached */
    int64_t reserved_ms;
    int64_t bound_ms;
    int64_t released_ms;
    int64_t terminating_ms;
    uint64_t version; /* highest version in any Binding, at most VERSION_MAX; 0: unknown */
    const struct share *share;
};

struct allocation {
    atomic_uint refs;
    uint32_t n_charges;
    struct allocation_facts facts; /* its strings, shares and charges are in the same block */
};

/*
 * One of n_charges, one for each GPU in order of the shares. Where each share is of another GPU, a
 * share is the charge; other charges follow the shares.
 */
static inline struct charge allocation_charge(const struct allocation *allocation, uint32_t i)
{
    const struct share *share = allocation->facts.share;

    if (allocation->n_charges < allocation->facts.n_shares)
        return ((const struct charge *)(share + allocation->facts.n_shares))[i];
    return (struct charge){share[i].gpu, share[i].milli, share[i].mib};
}

/* Returns the invariant that outside facts violate; NULL if none. */
const char *allocation_fault(const struct allocation_facts *facts);

/* Copies the facts, sorts the shares by order, and computes the charges. Returns one reference. */
struct allocation *allocation_new(const struct allocation_facts *facts) MUST_USE;
const struct allocation *allocation_ref(const struct allocation *allocation);
void allocation_unref(const struct allocation *allocation); /* NULL is fine */

/* Reserved, or listed unbound: kube-scheduler may still bind this pod. */
static inline bool allocation_is_open(const struct allocation *allocation)
{
    return allocation->facts.state == STATE_RESERVED || allocation->facts.listed_unbound;
}

/* The sum of the charges' milli. */
uint32_t allocation_milli(const struct allocation *allocation);

/* Have both the same node and the same shares? */
bool allocation_same_shares(const struct allocation *a, const struct allocation *b);

/* Recomputes the charges and returns the violated invariant; NULL if none. */
const char *allocation_unsound(const struct allocation *allocation);

const char *allocation_state_name(enum allocation_state state);
const char *allocation_origin_name(enum allocation_origin origin);
const char *container_kind_name(enum container_kind kind);

/* A journal entry: a container exceeded the memory of its share. */
struct history_over_event {
    int64_t at_ms; /* UTC time of the agent's report */
    const char *uid;
    const char *container;
    const char *gpu;
    const char *how;   /* "seen", or "killed" for it: usage_over_name() */
    uint32_t mib;      /* memory of its share */
    uint32_t peak_mib; /* peak usage; 0: unknown */
};

/* One live or past charge, as recorded in the history. */
struct history_row {
    uint64_t row; /* its row number in the history; 0: a live charge */
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node;
    const char *node_uid;
    const char *gpu;
    const char *state;
    uint32_t milli;
    uint32_t mib;
    /* UTC times; 0: not yet */
    int64_t reserved_ms;
    int64_t bound_ms;
    int64_t released_ms;
    bool has_over_events; /* the over events were read */
    uint32_t n_over_events;
    const struct history_over_event *over_event; /* of this GPU, newest first */
};

#endif
