#include "milligpu/snapshot.h"

#include "milligpu/alloc.h"

#include "core/snapshot_inside.h"

struct node_index_entry {
    uint32_t hash;
    uint32_t slot_plus_1; /* 0: free */
};

struct node_index {
    atomic_uint refs;
    uint32_t entries; /* a power of two, at most half of them taken */
    struct node_index_entry entry[];
};

/* A count is the one thing of a shared object that its readers write. */
static struct snapshot *counted(const struct snapshot *snapshot)
{
    return (struct snapshot *)(uintptr_t)snapshot;
}

/* True if this was the last. */
static bool drop(atomic_uint *refs)
{
    const unsigned before = atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel);
    must(before > 0);
    return before == 1;
}

static void add(atomic_uint *refs)
{
    const unsigned before = atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
    must(before > 0);
    must(before < UINT32_MAX);
}

struct page *page_new(void)
{
    struct page *page = xcalloc(1, sizeof *page);
    atomic_init(&page->refs, 1);
    must(!page_shared(page));
    return page;
}

struct page *page_clone(const struct page *page)
{
    must(page != NULL);

    struct page *clone = page_new();
    for (uint32_t i = 0; i < PAGE_NODES; i++)
        if (page->node[i] != NULL)
            clone->node[i] = node_ref(page->node[i]);
    must(!page_shared(clone));
    return clone;
}

struct page *page_ref(struct page *page)
{
    must(page != NULL);

    add(&page->refs);
    return page;
}

void page_unref(struct page *page)
{
    must(page != NULL);

    if (!drop(&page->refs))
        return;
    for (uint32_t i = 0; i < PAGE_NODES; i++)
        node_unref(page->node[i]);
    xfree(page);
}

bool page_shared(const struct page *page)
{
    const unsigned refs = atomic_load_explicit(&page->refs, memory_order_acquire);
    must(refs > 0);
    return refs > 1;
}

static void index_put(struct node_index *index, const struct node *node, uint32_t slot)
{
    const uint32_t hash = text_hash(atom_text(node->name));
    const uint32_t mask = index->entries - 1;
    uint32_t at = hash & mask;

    must(slot < UINT32_MAX);
    must((index->entries & mask) == 0);
    while (index->entry[at].slot_plus_1 != 0)
        at = (at + 1) & mask;
    index->entry[at] = (struct node_index_entry){.hash = hash, .slot_plus_1 = slot + 1};
}

static uint32_t count_nodes(struct page *const *page, uint32_t pages)
{
    uint32_t nodes = 0;
    for (uint32_t slot = 0; slot < pages * PAGE_NODES; slot++)
        if (page_node(page, slot) != NULL)
            nodes++;
    must(nodes <= pages * PAGE_NODES);
    return nodes;
}

struct node_index *node_index_new(struct page *const *page, uint32_t pages)
{
    const uint32_t nodes = count_nodes(page, pages);
    uint32_t entries = 2;
    must(nodes <= NODES_MAX);
    while (entries < 2 * nodes)
        entries *= 2;

    struct node_index *index = xcalloc(1, sizeof *index + entries * sizeof index->entry[0]);
    atomic_init(&index->refs, 1);
    index->entries = entries;
    for (uint32_t slot = 0; slot < pages * PAGE_NODES; slot++) {
        const struct node *node = page_node(page, slot);
        if (node != NULL)
            index_put(index, node, slot);
    }
    must(index->entries >= 2 * nodes);
    return index;
}

struct node_index *node_index_ref(struct node_index *index)
{
    must(index != NULL);

    add(&index->refs);
    return index;
}

void node_index_unref(struct node_index *index)
{
    if (index != NULL && drop(&index->refs))
        xfree(index);
}

const struct snapshot *snapshot_ref(const struct snapshot *snapshot)
{
    must(snapshot != NULL);

    add(&counted(snapshot)->refs);
    return snapshot;
}

void snapshot_unref(const struct snapshot *snapshot)
{
    if (snapshot == NULL || !drop(&counted(snapshot)->refs))
        return;
    must(snapshot->index != NULL);
    must(snapshot->slots == snapshot->pages * PAGE_NODES);

    for (uint32_t i = 0; i < snapshot->opens; i++)
        allocation_unref(snapshot->open[i].allocation);
    for (uint32_t i = 0; i < snapshot->pages; i++)
        page_unref(snapshot->page[i]);
    node_index_unref((struct node_index *)(uintptr_t)snapshot->index);
    xfree(snapshot->open);
    xfree(snapshot->page);
    xfree(counted(snapshot));
}

static const struct node *find_hashed(const struct snapshot *snapshot, struct text name,
                                      uint32_t hash)
{
    const struct node_index *index = snapshot->index;
    const uint32_t mask = index->entries - 1;

    must_debug(hash == text_hash(name));
    for (uint32_t at = hash & mask; index->entry[at].slot_plus_1 != 0; at = (at + 1) & mask) {
        const struct node_index_entry *entry = &index->entry[at];
        if (entry->hash != hash)
            continue;
        must(entry->slot_plus_1 <= snapshot->slots);
        const struct node *node = page_node(snapshot->page, entry->slot_plus_1 - 1);
        must(node != NULL);
        if (text_eq(atom_text(node->name), name))
            return node;
    }
    return NULL;
}

const struct node *snapshot_node(const struct snapshot *snapshot, struct text name)
{
    must(snapshot != NULL);
    must(snapshot->index != NULL);
    return find_hashed(snapshot, name, text_hash(name));
}

enum { CACHE_LINE = 64, AHEAD = 16 };

/* Where the first node of this hash hangs; NULL if there is none. */
static const struct node *const *place_of(const struct snapshot *snapshot, uint32_t hash)
{
    const struct node_index *index = snapshot->index;
    const uint32_t mask = index->entries - 1;
    uint32_t at = hash & mask;

    while (index->entry[at].slot_plus_1 != 0 && index->entry[at].hash != hash)
        at = (at + 1) & mask;
    if (index->entry[at].slot_plus_1 == 0)
        return NULL;
    const uint32_t slot = index->entry[at].slot_plus_1 - 1;
    must(slot < snapshot->slots);
    return &snapshot->page[slot / PAGE_NODES]->node[slot % PAGE_NODES];
}

/* Each step needs what the one before it sent for: entry, place in the page, node, the rest. */
static void send_for(const struct snapshot *snapshot, uint32_t count, const uint32_t *hash)
{
    const struct node_index *index = snapshot->index;
    const struct node *const *place[AHEAD];

    must(count <= AHEAD);
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&index->entry[hash[i] & (index->entries - 1)]);
    for (uint32_t i = 0; i < count; i++)
        if ((place[i] = place_of(snapshot, hash[i])) != NULL)
            __builtin_prefetch(place[i]);
    for (uint32_t i = 0; i < count; i++)
        if (place[i] != NULL)
            __builtin_prefetch(*place[i]);
    for (uint32_t i = 0; i < count; i++) {
        if (place[i] == NULL)
            continue;
        const struct node *node = *place[i];
        __builtin_prefetch(node->name);
        for (size_t at = 0; at < node->gpus * sizeof node->gpu[0]; at += CACHE_LINE)
            __builtin_prefetch((const char *)node->gpu + at);
    }
}

void snapshot_nodes(const struct snapshot *snapshot, uint32_t count, const struct text *name,
                    const uint32_t *hash, const struct node **out)
{
    must(snapshot != NULL);
    must(count == 0 || (name != NULL && hash != NULL));

    for (uint32_t i = 0; i < count; i++) {
        if (i % AHEAD == 0)
            send_for(snapshot, count - i < AHEAD ? count - i : AHEAD, &hash[i]);
        out[i] = find_hashed(snapshot, name[i], hash[i]);
    }
}

const struct allocation *snapshot_open(const struct snapshot *snapshot, struct text uid)
{
    must(snapshot != NULL);
    must(snapshot->opens == 0 || snapshot->open != NULL);

    for (uint32_t i = 0; i < snapshot->opens; i++)
        if (text_is(uid, snapshot->open[i].allocation->is.uid))
            return snapshot->open[i].allocation;
    return NULL;
}

const struct allocation *snapshot_find(const struct snapshot *snapshot, struct text uid)
{
    const struct node *node;
    uint32_t at = 0;
    while ((node = snapshot_next(snapshot, &at)) != NULL) {
        const struct allocation *allocation = node_allocation(node, uid);
        must(allocation == NULL || allocation->is.node == node->name);
        if (allocation != NULL)
            return allocation;
    }
    return NULL;
}

const struct node *snapshot_next(const struct snapshot *snapshot, uint32_t *at)
{
    must(snapshot != NULL);
    must(snapshot->slots == snapshot->pages * PAGE_NODES);
    must(at != NULL);

    while (*at < snapshot->slots) {
        const struct node *node = page_node(snapshot->page, (*at)++);
        if (node != NULL)
            return node;
    }
    return NULL;
}
