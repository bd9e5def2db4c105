/*
 * snapshot_internal - construction of snapshots by the ledger: books of pages, and indexes.
 *
 * Copy-on-write: a holder may write to a page if it has the only reference to the page and its
 * book; shared objects are copied first.
 */
#ifndef MILLIGPU_CORE_SNAPSHOT_INTERNAL_H
#define MILLIGPU_CORE_SNAPSHOT_INTERNAL_H

#include "milligpu/core/node/snapshot.h"

/* Returns a book of empty pages with one reference. */
struct book *book_new(void) MUST_USE;
struct book *book_ref(struct book *book);
void book_unref(struct book *book);

/* Returns the writable place of a slot, after copying a shared book and page. */
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
 * A map from hashes to slots, shared by all live snapshots. The writer adds entries while other
 * threads read; entries are never removed. A reader checks a found slot in *its own* snapshot: if
 * it holds another node or none, because the node was added later or is gone, the search continues.
 * A full index is rebuilt: the only cost here that grows with the cluster, paid once per number of
 * spare entries (bench/README.md).
 */
struct slot_index *slot_index_new(uint32_t most) MUST_USE; /* room for `most`; one reference */
struct slot_index *slot_index_ref(struct slot_index *index);
void slot_index_unref(struct slot_index *index);
bool slot_index_has_room(const struct slot_index *index, uint32_t more);
void slot_index_add(struct slot_index *index, uint32_t hash, uint32_t slot);

#endif
