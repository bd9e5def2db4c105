/*
 * allocation - what one pod holds: its shares, its charges, its state.
 *
 *   reserved --confirm--> bound --release--> released
 *       \---------release---------------------^
 *
 * A share is what a container sees; a charge is what the pod takes on one GPU over its whole life
 * (request.h). An allocation is immutable and reference-counted: every step of its life is a new
 * object, so a snapshot may keep the old one as long as necessary. Each is one block of memory, and
 * holds a reference to each of its names.
 *
 * Invariants:
 *   1. charges are what allocation_charges() computes from the shares: milli and MiB for each GPU.
 *   2. A container has at most one share of one GPU; no share is empty.
 *   3. A granted allocation has shares or held GPUs, and nothing unplaced. An observed one was
 *      bound without a Binding of ours, so it may hold anything.
 *
 * Pure. The reference count is atomic; nothing else is written after allocation_new().
 */
#ifndef MILLIGPU_ALLOCATION_H
#define MILLIGPU_ALLOCATION_H

#include <stdatomic.h>

#include "milligpu/core/facts/names.h"
#include "milligpu/core/facts/request.h"

enum allocation_state { STATE_RESERVED, STATE_BOUND, STATE_RELEASED };
enum allocation_origin { ORIGIN_GRANTED, ORIGIN_ADOPTED };

/*
 * etcd counts its revisions in 63 bits, and so does the ledger's file. A version above this limit
 * cannot come from etcd: decoders treat it as unreadable (never as 0, never as the highest), and an
 * allocation that has one is faulty.
 */
#define VERSION_MAX ((uint64_t)INT64_MAX)

struct share {
    const char *container;
    enum container_kind kind;
    /* position in the pod's life: which sidecars run before which init container */
    uint16_t order;
    const struct atom *gpu;
    uint32_t milli;
    /* what the pod asked for, less than milli where that was raised; 0 in facts: milli */
    uint32_t asked;
    uint32_t mib;
};

struct charge {
    const struct atom *gpu;
    uint32_t milli;
    uint32_t mib;
};

/* Everything about an allocation except its charges, which follow. */
struct allocation_facts {
    const char *uid;
    const char *namespace;
    const char *name;
    const struct atom *node;
    const struct atom *node_uid;
    enum allocation_state state;
    enum allocation_origin origin;
    bool presumed;           /* adopted: the GPUs are our guess, because nothing recorded them */
    bool in_doubt;           /* a Binding was sent and its outcome is not known */
    bool annotation_differs; /* the pod's annotation differs: drift */
    /*
     * Bound, and a list that was requested later shows the pod unbound: drift, and nobody binds it.
     * In memory only: the first list after a restart shows it again.
     */
    bool listed_unbound;
    uint32_t held_gpus;      /* whole GPUs of the other resource: which ones is not known */
    uint32_t unplaced_milli; /* observed amount that could not be assigned to a GPU */
    int64_t reserved_ms;     /* UTC, unchanged since it happened; 0: never */
    int64_t bound_ms;
    int64_t released_ms;
    int64_t terminating_ms;
    /* the highest version that any Binding named, at most VERSION_MAX; 0: not known */
    uint64_t version;
    uint32_t shares;
    const struct share *share;
};

struct allocation {
    atomic_uint refs;
    struct allocation_facts facts; /* its strings and shares are in this same block */
    uint32_t charges;
    struct charge *charge;
};

/* The invariant that these facts break; NULL if none. Use it to check facts from outside. */
const char *allocation_fault(const struct allocation_facts *facts);

/*
 * Copies everything and computes the charges; the reference count is 1. Shares are sorted into the
 * order of the pod's life.
 */
struct allocation *allocation_new(const struct allocation_facts *facts) MUST_USE;
const struct allocation *allocation_ref(const struct allocation *allocation);
void allocation_unref(const struct allocation *allocation); /* NULL is fine */

/* Reserved, or listed unbound: kube-scheduler may ask for this pod. */
static inline bool allocation_is_open(const struct allocation *allocation)
{
    return allocation->facts.state == STATE_RESERVED || allocation->facts.listed_unbound;
}

/* The sum of the charges' milli: everything that the pod takes. */
uint32_t allocation_milli(const struct allocation *allocation);

/* Do both have the same node and the same shares? */
bool allocation_same_shares(const struct allocation *a, const struct allocation *b);

/* Recomputes the charges and returns the invariant that is broken; NULL if none. */
const char *allocation_unsound(const struct allocation *allocation);

const char *allocation_state_name(enum allocation_state state);
const char *allocation_origin_name(enum allocation_origin origin);
const char *container_kind_name(enum container_kind kind);

/* That a container held more memory than its share, as the journal has it. */
struct history_over_event {
    int64_t at_ms; /* wall clock: when the agent's report was taken */
    const char *uid;
    const char *container;
    const char *gpu;
    const char *how;   /* "seen", or "killed" for it: usage_over_name() */
    uint32_t mib;      /* of its share */
    uint32_t peak_mib; /* what it held at most; 0: not known */
};

/* One charge, live or past, as the history records it. */
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
    int64_t reserved_ms; /* wall clock, like the next two; 0: not yet */
    int64_t bound_ms;
    int64_t released_ms;
    bool has_over_events; /* whoever filled the row looked for them */
    uint32_t n_over_events;
    const struct history_over_event *over_event; /* of this GPU, newest first */
};

#endif
