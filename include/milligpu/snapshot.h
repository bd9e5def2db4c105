/*
 * snapshot - the ledger as it was at one moment, for any number of readers.
 *
 *   snapshot --> page[0] --> 64 nodes      pages are counted and shared between snapshots:
 *           \--> page[1] --> 64 nodes      publishing copies only what changed
 *            \-> index: node name -> slot (rebuilt only when nodes come or go)
 *             \> open:  reservations not yet bound (few)
 *
 * Immutable and counted.  Take, read, drop; a slow reader copies out and lets go, because a held
 * snapshot keeps old pages alive.
 */
#ifndef MILLIGPU_SNAPSHOT_H
#define MILLIGPU_SNAPSHOT_H

#include "milligpu/node.h"

enum { PAGE_NODES = 64 };

struct page {
    atomic_uint refs;
    const struct node *node[PAGE_NODES]; /* NULL: free slot */
};

struct node_index;

struct open_reservation {
    const struct allocation *allocation;
    uint32_t slot;
};

struct snapshot {
    atomic_uint refs;
    uint64_t generation; /* grows with every publication */
    uint64_t room;       /* generation of the last change that may make a refused request fit */
    uint32_t slots;      /* pages x PAGE_NODES */
    uint32_t nodes;
    uint32_t allocations;
    uint32_t pages;
    struct page **page;
    const struct node_index *index;
    uint32_t opens;
    struct open_reservation *open;
};

const struct snapshot *snapshot_ref(const struct snapshot *snapshot);
void snapshot_unref(const struct snapshot *snapshot); /* NULL is fine */

const struct node *snapshot_node(const struct snapshot *snapshot, struct text name);
/*
 * The same for many, NULL where there is none.  hash: per name its text_hash().  In a large
 * cluster memory is what one waits for, so what the later ones need is sent for ahead.
 */
void snapshot_nodes(const struct snapshot *snapshot, uint32_t count, const struct text *name,
                    const uint32_t *hash, const struct node **out);
const struct allocation *snapshot_open(const struct snapshot *snapshot, struct text uid);
const struct allocation *snapshot_find(const struct snapshot *snapshot,
                                       struct text uid); /* O(all) */

/* *at starts at 0; NULL at the end. */
const struct node *snapshot_next(const struct snapshot *snapshot, uint32_t *at);

#endif
