/*
 * snapshot_internal - how the ledger makes snapshots: books of pages, and indexes over them.
 *
 * A holder may write a page if it is the only one that counts the page and the book around it;
 * anything shared is copied first. That is all there is to copy-on-write.
 */
#ifndef MILLIGPU_CORE_SNAPSHOT_INTERNAL_H
#define MILLIGPU_CORE_SNAPSHOT_INTERNAL_H

#include "milligpu/core/node/snapshot.h"

/* A book of empty pages; count 1. */
struct book *book_new(void) MUST_USE;
struct book *book_ref(struct book *book);
void book_unref(struct book *book);

/* The place of a slot, made writable: whatever is shared on the way there is copied first. */
const struct node **books_place(struct book **book, uint32_t slot);

static inline const struct page *slot_page(struct book *const *book, uint32_t slot)
{
    must(book != NULL);
    return book[slot / BOOK_NODES]->page[slot / PAGE_NODES % BOOK_PAGES];
}

static inline const struct node *slot_node(struct book *const *book, uint32_t slot)
{
    return slot_page(book, slot)->node[slot % PAGE_NODES];
}

/*
 * Hash to slot. One index for all living snapshots: the writer adds while others read, nothing is
 * ever removed, and whoever finds a slot checks what is there in *its own* snapshot. A node that
 * came later or has left is then another node, or none, and the search goes on. A full index is
 * rebuilt; this is the only cost here that grows with the cluster, paid once per as many additions
 * as the index has spare entries (bench/README.md).
 */
struct slot_index *slot_index_new(uint32_t most) MUST_USE; /* with room for that many; count 1 */
struct slot_index *slot_index_ref(struct slot_index *index);
void slot_index_unref(struct slot_index *index);
bool slot_index_has_room(const struct slot_index *index, uint32_t more);
void slot_index_add(struct slot_index *index, uint32_t hash, uint32_t slot);

#endif
