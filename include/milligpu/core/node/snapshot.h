/*
 * snapshot - the ledger at one moment, for any number of readers.
 *
 *   snapshot --> book[0] --> page[0] --> 32 nodes     books and pages are counted and shared
 *           |           \--> page[1] --> 32 nodes     between snapshots: publishing copies only
 *           \--> book[1] --> ...                      what changed, and the way to it
 *            \-> index: node name -> slot              indexes are shared by all snapshots: an
 *             \> open:  uid of a reservation -> slot    entry is only a hint to a slot
 *
 * Immutable and reference-counted. A held snapshot keeps old pages alive: a slow reader should copy
 * its data and release the snapshot.
 */
#ifndef MILLIGPU_SNAPSHOT_H
#define MILLIGPU_SNAPSHOT_H

#include "milligpu/core/node/node.h"

/*
 * With 15,000 nodes, publishing one change references 15 books, and copies one book (32 pages) and
 * one page (32 nodes).
 */
enum { PAGE_NODES = 32, BOOK_PAGES = 32, BOOK_NODES = PAGE_NODES * BOOK_PAGES };

struct page {
    atomic_uint refs;
    const struct node *node[PAGE_NODES]; /* NULL: free slot */
};

struct book {
    atomic_uint refs;
    struct page *page[BOOK_PAGES];
};

struct slot_index;
struct policy_context; /* policy_context.h */

struct snapshot {
    atomic_uint refs;
    uint64_t generation;          /* increases with every publication */
    uint64_t capacity_generation; /* of the last change that may make a refused request fit */
    uint32_t slots;               /* books x BOOK_NODES */
    uint32_t nodes;
    uint32_t allocations;
    uint32_t n_opens; /* reservations not bound yet, on a node or not */
    uint32_t n_books;
    struct book **book;
    const struct slot_index *index;
    const struct slot_index *open;
    const struct policy_context *context; /* NULL: binpack */
};

const struct snapshot *snapshot_ref(const struct snapshot *snapshot);
void snapshot_unref(const struct snapshot *snapshot); /* NULL is fine */

const struct node *snapshot_node(const struct snapshot *snapshot, struct text name);
#define SNAPSHOT_NO_SLOT UINT32_MAX
/*
 * Looks up many nodes: out[i] is NULL if there is no such node. hash[i] is text_hash(name[i]);
 * slot[i] is the node's slot in the snapshot, or SNAPSHOT_NO_SLOT. In a large cluster memory
 * latency dominates, so the nodes of later names are prefetched, without their GPUs.
 */
void snapshot_nodes(const struct snapshot *snapshot, uint32_t count, const struct text *name,
                    const uint32_t *hash, const struct node **out, uint32_t *slot);
/* A name that was looked up: its node, or NULL and SNAPSHOT_NO_SLOT. */
struct known_node {
    const struct node *node;
    uint32_t slot;
};
/*
 * Looks up the name of a node of another snapshot of the same ledger, which the caller holds, too.
 * Costs a few instructions if the node is in its slot still; NULL: it is not, ask snapshot_nodes().
 */
const struct node *snapshot_node_again(const struct snapshot *snapshot,
                                       const struct known_node *known);
/* Returns the open allocation (allocation_is_open()) of this pod; NULL if none. */
const struct allocation *snapshot_open(const struct snapshot *snapshot, struct text uid);

/* Start with *at = 0; returns NULL at the end. */
const struct node *snapshot_next(const struct snapshot *snapshot, uint32_t *at);

/*
 * Iterates over the slots where two snapshots of one ledger differ (before NULL: an empty one).
 * Sets the old and the new node of the slot; either may be NULL. Start with *at = 0; returns false
 * at the end. Shared parts are skipped unread, so the cost depends on the number of changes only.
 */
bool snapshot_next_change(const struct snapshot *before, const struct snapshot *after, uint32_t *at,
                          const struct node **out_before, const struct node **out_after);

#endif
