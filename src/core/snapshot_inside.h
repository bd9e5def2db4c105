/*
 * snapshot_inside - how the ledger makes snapshots: pages and the index over them.
 *
 * A page that only one holder counts may be written by that holder; a page that is shared
 * is copied first.  That is the whole of copy-on-write.
 */
#ifndef MILLIGPU_CORE_SNAPSHOT_INSIDE_H
#define MILLIGPU_CORE_SNAPSHOT_INSIDE_H

#include "milligpu/snapshot.h"

/* An empty page, or a copy of one; count 1. */
struct page *page_new(void) MUST_USE;
struct page *page_clone(const struct page *page) MUST_USE;
struct page *page_ref(struct page *page);
void page_unref(struct page *page);
bool page_shared(const struct page *page);

static inline const struct node *page_node(struct page *const *page, uint32_t slot)
{
    must(page != NULL);
    return page[slot / PAGE_NODES]->node[slot % PAGE_NODES];
}

/* Name to slot, over the nodes of these pages; count 1. */
struct node_index *node_index_new(struct page *const *page, uint32_t pages) MUST_USE;
struct node_index *node_index_ref(struct node_index *index);
void node_index_unref(struct node_index *index); /* NULL is fine */

#endif
