/*
 * Implements the books and pages that snapshots share, and the indexes by name and uid. The ledger
 * writes them in the writer's thread; other threads read without a lock, because the content of a
 * snapshot is immutable: only reference counts and index entries are written concurrently, and both
 * are atomic. The writer writes to a page only as its sole holder (books_place()). An index entry
 * is a hint that each reader checks in its own snapshot, so relaxed order suffices. Parts:
 * counting, books and pages, the index, look-ups, differences.
 */
#include "milligpu/core/node/snapshot.h"

#include "milligpu/base/alloc.h"
#include "milligpu/core/rules/policy_context.h"

#include "snapshot_internal.h"

/* An entry is hash and slot + 1 in one word, so that a reader sees both or neither; 0: free. */
struct slot_index {
    atomic_uint refs;
    uint32_t n_entries; /* a power of two */
    uint32_t taken;     /* used entries, at most three quarters; writer's thread only */
    atomic_uint_least64_t entry[];
};

enum { ENTRIES_MIN = 1024 };

/* Readers write only the reference count of a shared object. */
static struct snapshot *snapshot_counted(const struct snapshot *snapshot)
{
    return (struct snapshot *)(uintptr_t)snapshot;
}

/*
 * Returns true for the last reference. Release and acquire: all reads of other holders happen
 * before the last one frees.
 */
static bool snapshot_drop(atomic_uint *refs)
{
    const unsigned before = atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel);
    must(before > 0);
    return before == 1;
}

/* Relaxed, because the caller already holds a reference. */
static void snapshot_add(atomic_uint *refs)
{
    const unsigned before = atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
    must(before > 0);
    must(before < UINT32_MAX);
}

static struct page *page_new(void)
{
    struct page *page = xcalloc(1, sizeof *page);
    atomic_init(&page->refs, 1);
    must(page->node[0] == NULL);
    return page;
}

/* The new page takes references of its own. */
static struct page *page_clone(const struct page *page)
{
    must(page != NULL);

    struct page *clone = page_new();
    for (uint32_t i = 0; i < PAGE_NODES; i++)
        if (page->node[i] != NULL)
            clone->node[i] = node_ref(page->node[i]);
    return clone;
}

static void page_unref(struct page *page)
{
    must(page != NULL);

    if (!snapshot_drop(&page->refs))
        return;
    for (uint32_t i = 0; i < PAGE_NODES; i++)
        node_unref(page->node[i]);
    xfree(page);
}

/*
 * A count of 1 is the caller's own and cannot grow concurrently, because only a holder can add to
 * it. Acquire: all reads of former holders happened before.
 */
static bool is_shared(const atomic_uint *count)
{
    const unsigned refs = atomic_load_explicit(count, memory_order_acquire);
    must(refs > 0);
    return refs > 1;
}

struct book *book_new(void)
{
    struct book *book = xcalloc(1, sizeof *book);
    atomic_init(&book->refs, 1);
    for (uint32_t i = 0; i < BOOK_PAGES; i++)
        book->page[i] = page_new();
    must(book->page[0] != NULL);
    must(!is_shared(&book->refs));
    return book;
}

/* Copies pointers only: pages are copied on write. */
static struct book *book_clone(const struct book *book)
{
    must(book != NULL);
    must(is_shared(&book->refs));

    struct book *clone = xcalloc(1, sizeof *clone);
    atomic_init(&clone->refs, 1);
    for (uint32_t i = 0; i < BOOK_PAGES; i++) {
        clone->page[i] = book->page[i];
        snapshot_add(&clone->page[i]->refs);
    }
    return clone;
}

struct book *book_ref(struct book *book)
{
    must(book != NULL);

    snapshot_add(&book->refs);
    must(is_shared(&book->refs));
    return book;
}

void book_unref(struct book *book)
{
    must(book != NULL);

    if (!snapshot_drop(&book->refs))
        return;
    for (uint32_t i = 0; i < BOOK_PAGES; i++)
        page_unref(book->page[i]);
    xfree(book);
}

const struct node **books_place(struct book **book, uint32_t slot)
{
    must(book != NULL);

    struct book **own = &book[slot / BOOK_NODES];
    if (is_shared(&(*own)->refs)) {
        struct book *mine = book_clone(*own);
        book_unref(*own);
        *own = mine;
    }
    /* After the book, because cloning the book makes its pages shared. */
    struct page **page = &(*own)->page[slot / PAGE_NODES % BOOK_PAGES];
    if (is_shared(&(*page)->refs)) {
        struct page *mine = page_clone(*page);
        page_unref(*page);
        *page = mine;
    }
    must(!is_shared(&(*own)->refs));
    must(!is_shared(&(*page)->refs));
    return &(*page)->node[slot % PAGE_NODES];
}

/* slot + 1, because an entry of 0 is free. */
static uint64_t entry_of(uint32_t hash, uint32_t slot)
{
    must(slot < NODES_MAX);
    return (uint64_t)hash << 32 | (slot + 1);
}

static uint64_t entry_at(const struct slot_index *index, uint32_t at)
{
    must(index != NULL);
    return atomic_load_explicit(&index->entry[at & (index->n_entries - 1)], memory_order_relaxed);
}

static uint32_t entry_hash(uint64_t entry)
{
    must(entry != 0);
    return (uint32_t)(entry >> 32);
}

static uint32_t entry_slot(uint64_t entry)
{
    must((uint32_t)entry > 0);
    return (uint32_t)entry - 1;
}

struct slot_index *slot_index_new(uint32_t most)
{
    /* At most half full, so that many additions fit before the next rebuild. */
    uint32_t entries = ENTRIES_MIN;
    must(most <= UINT32_MAX / 4);
    while (entries < 2 * most)
        entries *= 2;

    struct slot_index *index = xcalloc(1, sizeof *index + entries * sizeof index->entry[0]);
    atomic_init(&index->refs, 1);
    index->n_entries = entries;
    must(slot_index_has_room(index, most));
    return index;
}

struct slot_index *slot_index_ref(struct slot_index *index)
{
    must(index != NULL);

    snapshot_add(&index->refs);
    must(index->n_entries >= ENTRIES_MIN);
    return index;
}

void slot_index_unref(struct slot_index *index)
{
    must(index != NULL);
    must(index->n_entries >= ENTRIES_MIN); /* taken is for the writer's thread only */
    if (snapshot_drop(&index->refs))
        xfree(index);
}

bool slot_index_has_room(const struct slot_index *index, uint32_t more)
{
    must((index->n_entries & (index->n_entries - 1)) == 0);
    must(index->taken < index->n_entries);
    return (uint64_t)index->taken + more <= (uint64_t)index->n_entries / 4 * 3;
}

void slot_index_add(struct slot_index *index, uint32_t hash, uint32_t slot)
{
    const uint64_t entry = entry_of(hash, slot);
    uint64_t found;
    uint32_t at = hash;

    must(index->taken < index->n_entries);
    must(entry_hash(entry) == hash);
    must(entry_slot(entry) == slot);
    /* Readers probe concurrently. Entries are only added, each by one atomic write. */
    for (; (found = entry_at(index, at)) != 0; at++)
        if (found == entry)
            return;
    atomic_store_explicit(&index->entry[at & (index->n_entries - 1)], entry, memory_order_relaxed);
    index->taken++;
    must(index->taken < index->n_entries);
}

const struct snapshot *snapshot_ref(const struct snapshot *snapshot)
{
    must(snapshot != NULL);

    snapshot_add(&snapshot_counted(snapshot)->refs);
    return snapshot;
}

void snapshot_unref(const struct snapshot *snapshot)
{
    if (snapshot == NULL || !snapshot_drop(&snapshot_counted(snapshot)->refs))
        return;
    must(snapshot->index != NULL);
    must(snapshot->slots == snapshot->n_books * BOOK_NODES);

    for (uint32_t i = 0; i < snapshot->n_books; i++)
        book_unref(snapshot->book[i]);
    slot_index_unref((struct slot_index *)(uintptr_t)snapshot->index);
    slot_index_unref((struct slot_index *)(uintptr_t)snapshot->open);
    policy_context_unref(snapshot->context);
    xfree(snapshot->book);
    xfree(snapshot_counted(snapshot));
}

/*
 * Returns the node of the next entry with this hash, NULL at the end. Start with *at = hash. It may
 * be another node than the caller's; entries without a node in this snapshot are skipped.
 */
static const struct node *next_hashed(const struct snapshot *snapshot,
                                      const struct slot_index *index, uint32_t hash, uint32_t *at)
{
    uint64_t entry;

    must(index != NULL);
    must(index == snapshot->index || index == snapshot->open);
    while ((entry = entry_at(index, (*at)++)) != 0) {
        if (entry_hash(entry) != hash || entry_slot(entry) >= snapshot->slots)
            continue;
        const struct node *node = slot_node(snapshot->book, entry_slot(entry));
        if (node != NULL)
            return node;
    }
    return NULL;
}

static const struct node *find_hashed(const struct snapshot *snapshot, struct text name,
                                      uint32_t hash, uint32_t *out_slot)
{
    const struct node *node;
    uint32_t at = hash;

    must_debug(hash == text_hash(name));
    while ((node = next_hashed(snapshot, snapshot->index, hash, &at)) != NULL) {
        if (!text_eq(atom_text(node->name), name))
            continue;
        *out_slot = entry_slot(entry_at(snapshot->index, at - 1)); /* at is already past it */
        return node;
    }
    return NULL;
}

const struct node *snapshot_node(const struct snapshot *snapshot, struct text name)
{
    must(snapshot != NULL);
    must(snapshot->index != NULL);

    uint32_t slot;
    return find_hashed(snapshot, name, text_hash(name), &slot);
}

enum { AHEAD = 32 }; /* nodes prefetched together */

/* The place of the first entry with this hash, possibly outdated; NULL if there is no entry. */
static const struct node *const *snapshot_place_of(const struct snapshot *snapshot, uint32_t hash)
{
    uint64_t entry;

    for (uint32_t at = hash; (entry = entry_at(snapshot->index, at)) != 0; at++)
        if (entry_hash(entry) == hash && entry_slot(entry) < snapshot->slots)
            break;
    if (entry == 0)
        return NULL;
    const uint32_t slot = entry_slot(entry);
    must(slot < snapshot->slots);
    return &slot_page(snapshot->book, slot)->node[slot % PAGE_NODES];
}

/* Prefetches in steps that depend on each other: entry, place in the page, node, its name. */
static void send_for(const struct snapshot *snapshot, uint32_t count, const uint32_t *hash)
{
    const struct slot_index *index = snapshot->index;
    const struct node *const *place[AHEAD];

    must(count <= AHEAD);
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&index->entry[hash[i] & (index->n_entries - 1)]);
    for (uint32_t i = 0; i < count; i++)
        if ((place[i] = snapshot_place_of(snapshot, hash[i])) != NULL)
            __builtin_prefetch(place[i]);
    for (uint32_t i = 0; i < count; i++) {
        if (place[i] == NULL || *place[i] == NULL)
            continue;
        __builtin_prefetch(*place[i]); /* usually one cache line, else two */
        __builtin_prefetch(&(*place[i])->free_milli);
    }
    for (uint32_t i = 0; i < count; i++)
        if (place[i] != NULL && *place[i] != NULL)
            __builtin_prefetch((*place[i])->name);
}

void snapshot_nodes(const struct snapshot *snapshot, uint32_t count, const struct text *name,
                    const uint32_t *hash, const struct node **out, uint32_t *slot)
{
    must(snapshot != NULL);
    must(count == 0 || (name != NULL && hash != NULL));

    for (uint32_t i = 0; i < count; i++) {
        if (i % AHEAD == 0)
            send_for(snapshot, count - i < AHEAD ? count - i : AHEAD, &hash[i]);
        slot[i] = SNAPSHOT_NO_SLOT;
        out[i] = find_hashed(snapshot, name[i], hash[i], &slot[i]);
    }
}

/*
 * A slot may have become another node's. Both snapshots keep their names referenced, so equal names
 * have equal addresses.
 */
const struct node *snapshot_node_again(const struct snapshot *snapshot,
                                       const struct known_node *known)
{
    must(snapshot != NULL);
    must_debug(known->node == NULL || known->slot != SNAPSHOT_NO_SLOT);
    if (known->node == NULL || known->slot >= snapshot->slots)
        return NULL;
    const struct node *node = slot_node(snapshot->book, known->slot);
    if (node == known->node)
        return node;
    return node != NULL && node->name == known->node->name ? node : NULL;
}

/*
 * An entry may be of another uid with this hash, or of a reservation that has since ended or been
 * bound: the search then continues.
 */
const struct allocation *snapshot_open(const struct snapshot *snapshot, struct text uid)
{
    const uint32_t hash = text_hash(uid);
    const struct node *node;
    uint32_t at = hash;

    must(snapshot != NULL);
    while ((node = next_hashed(snapshot, snapshot->open, hash, &at)) != NULL) {
        const struct allocation *found = node_allocation(node, uid);
        must(found == NULL || found->facts.node == node->name);
        if (found != NULL && allocation_is_open(found))
            return found;
    }
    return NULL;
}

const struct node *snapshot_next(const struct snapshot *snapshot, uint32_t *at)
{
    must(snapshot != NULL);
    must(snapshot->slots == snapshot->n_books * BOOK_NODES);
    must(at != NULL);

    while (*at < snapshot->slots) {
        const struct node *node = slot_node(snapshot->book, (*at)++);
        if (node != NULL)
            return node;
    }
    return NULL;
}

/* The number of slots shared from here on: a book, a page, or 0 (compare one by one). */
static uint32_t shared_from(const struct snapshot *before, const struct snapshot *after,
                            uint32_t slot)
{
    must(slot < after->slots);
    must(after->slots % BOOK_NODES == 0);
    if (before == NULL || slot >= before->slots)
        return 0;
    if (before->book[slot / BOOK_NODES] == after->book[slot / BOOK_NODES]) {
        must(slot % BOOK_NODES == 0); /* else the book was skipped */
        return BOOK_NODES;
    }
    if (slot_page(before->book, slot) == slot_page(after->book, slot)) {
        must(slot % PAGE_NODES == 0);
        return PAGE_NODES;
    }
    return 0;
}

bool snapshot_next_change(const struct snapshot *before, const struct snapshot *after, uint32_t *at,
                          const struct node **out_before, const struct node **out_after)
{
    must(before == NULL || before->slots <= after->slots); /* slots are never removed */
    must(before == NULL || before->generation <= after->generation);
    must(at != NULL);

    while (*at < after->slots) {
        const uint32_t shared = shared_from(before, after, *at);
        if (shared > 0) {
            *at += shared;
            continue;
        }
        const uint32_t slot = (*at)++;
        *out_after = slot_node(after->book, slot);
        *out_before = before != NULL && slot < before->slots ? slot_node(before->book, slot) : NULL;
        if (*out_before != *out_after)
            return true;
    }
    return false;
}
