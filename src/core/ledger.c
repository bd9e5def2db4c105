#include "milligpu/ledger.h"

#include <string.h>

#include "milligpu/alloc.h"

#include "core/ledger_inside.h"
#include "core/snapshot_inside.h"

static_assert(NODES_MAX % PAGE_NODES == 0, "the last page is whole");

const char *command_name(enum command_kind kind)
{
    static const char *const names[] = {
#define X(code, word) [code] = (word),
        COMMAND_TABLE(X)
#undef X
    };
    must((size_t)kind < ARRAY_LEN(names));
    must(names[kind] != NULL);
    return names[kind];
}

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {
        [VERDICT_OK] = "ok",
        [VERDICT_SAME] = "same",
        [VERDICT_ELSEWHERE] = "elsewhere",
        [VERDICT_UNKNOWN] = "unknown",
        [VERDICT_REFUSED] = "refused",
    };
    must((size_t)verdict < ARRAY_LEN(names));
    must(names[verdict] != NULL);
    return names[verdict];
}

struct ledger *ledger_new(void)
{
    struct ledger *ledger = xcalloc(1, sizeof *ledger);
    ledger->names = names_new();
    map_init(&ledger->slots);
    map_init(&ledger->live);
    map_init(&ledger->open);
    map_init(&ledger->owners);
    must(ledger->names != NULL);
    return ledger;
}

void ledger_free(struct ledger *ledger)
{
    if (ledger == NULL)
        return;

    must(ledger->open.count <= ledger->live.count);
    const struct allocation *allocation;
    size_t at = 0;
    while ((allocation = map_next(&ledger->live, &at)) != NULL)
        allocation_unref(allocation);
    for (uint32_t i = 0; i < ledger->pages; i++)
        page_unref(ledger->page[i]);
    node_index_unref(ledger->index);
    map_done(&ledger->slots);
    map_done(&ledger->live);
    map_done(&ledger->open);
    map_done(&ledger->owners);
    xfree(ledger->page);
    xfree(ledger->kept);
    names_free(ledger->names); /* last: everything else points into it */
    xfree(ledger);
}

struct names *ledger_names(struct ledger *ledger)
{
    must(ledger != NULL);
    must(ledger->names != NULL);
    return ledger->names;
}

uint32_t ledger_slot(const struct ledger *ledger, struct text name)
{
    const uint32_t slot = value_slot(map_find(&ledger->slots, name));
    must(slot == SLOT_NONE || slot < ledger->pages * PAGE_NODES);
    must(slot == SLOT_NONE || page_node(ledger->page, slot) != NULL);
    return slot;
}

const struct node *ledger_at(const struct ledger *ledger, uint32_t slot)
{
    must(slot < ledger->pages * PAGE_NODES);
    return page_node(ledger->page, slot);
}

uint32_t ledger_free_slot(const struct ledger *ledger)
{
    uint32_t slot = ledger->free_from;
    must(ledger->slots.count < NODES_MAX);
    while (slot < ledger->pages * PAGE_NODES && page_node(ledger->page, slot) != NULL)
        slot++;
    must(slot <= ledger->pages * PAGE_NODES);
    return slot;
}

const struct node *ledger_node(const struct ledger *ledger, struct text name)
{
    const uint32_t slot = ledger_slot(ledger, name);
    return slot == SLOT_NONE ? NULL : ledger_at(ledger, slot);
}

const struct allocation *ledger_find(const struct ledger *ledger, struct text uid)
{
    must(ledger != NULL);
    must(ledger->open.count <= ledger->live.count);
    return map_find(&ledger->live, uid);
}

const struct allocation *ledger_next(const struct ledger *ledger, size_t *at)
{
    must(ledger != NULL);
    must(at != NULL);
    return map_next(&ledger->live, at);
}

const struct node *ledger_next_node(const struct ledger *ledger, size_t *at)
{
    must(ledger != NULL);
    must(at != NULL);

    while (*at < (size_t)ledger->pages * PAGE_NODES) {
        const struct node *node = ledger_at(ledger, (uint32_t)(*at)++);
        if (node != NULL)
            return node;
    }
    return NULL;
}

bool gpu_id_is_real(const struct atom *id, struct text node)
{
    const struct text text = atom_text(id);
    must(text.len > 0);
    must(node.len > 0);
    return text.len <= node.len || memcmp(text.at, node.at, node.len) != 0 ||
           text.at[node.len] != '/';
}

/* Does this GPU keep other nodes from granting it? */
static bool owns(const struct node *node, const struct gpu *gpu)
{
    must(gpu >= node->gpu);
    must(gpu < node->gpu + node->gpus);
    return (gpu->flags & GPU_DUPLICATE) == 0 && gpu_id_is_real(gpu->id, atom_text(node->name));
}

static bool same_claims(const struct node *a, const struct node *b)
{
    if (a == NULL || b == NULL || a->gpus != b->gpus)
        return false;
    for (uint32_t i = 0; i < a->gpus; i++)
        if (a->gpu[i].id != b->gpu[i].id ||
            ((a->gpu[i].flags ^ b->gpu[i].flags) & GPU_DUPLICATE) != 0)
            return false;
    return true;
}

static void drop_claims(struct ledger *ledger, uint32_t slot, const struct node *node)
{
    for (uint32_t i = 0; node != NULL && i < node->gpus; i++) {
        const struct gpu *gpu = &node->gpu[i];
        if ((gpu->flags & GPU_DUPLICATE) != 0) {
            must(ledger->duplicates > 0);
            ledger->duplicates--;
        } else if (owns(node, gpu)) {
            must(value_slot(map_take(&ledger->owners, atom_text(gpu->id))) == slot);
            ledger->owner_left = true;
        }
    }
}

static void take_claims(struct ledger *ledger, uint32_t slot, const struct node *node)
{
    for (uint32_t i = 0; node != NULL && i < node->gpus; i++) {
        const struct gpu *gpu = &node->gpu[i];
        if ((gpu->flags & GPU_DUPLICATE) != 0)
            ledger->duplicates++;
        else if (owns(node, gpu))
            must(map_put(&ledger->owners, atom_text(gpu->id), slot_value(slot)) == NULL);
    }
}

/* The page of a slot, fit to be written to. */
static struct page *own_page(struct ledger *ledger, uint32_t slot)
{
    const uint32_t number = slot / PAGE_NODES;
    must(number <= ledger->pages);
    must(number < NODES_MAX / PAGE_NODES);

    if (number == ledger->pages) {
        ledger->page =
            xgrow(ledger->page, ledger->pages, &ledger->page_capacity, sizeof(struct page *));
        ledger->page[ledger->pages++] = page_new();
    } else if (page_shared(ledger->page[number])) {
        struct page *mine = page_clone(ledger->page[number]);
        page_unref(ledger->page[number]);
        ledger->page[number] = mine;
    }
    return ledger->page[number];
}

/* The list of nodes changes, which the index follows. */
static void list_node(struct ledger *ledger, uint32_t slot, const struct node *from,
                      const struct node *to)
{
    must((from == NULL) != (to == NULL));

    if (to != NULL) {
        must(map_put(&ledger->slots, atom_text(to->name), slot_value(slot)) == NULL);
        if (slot == ledger->free_from)
            ledger->free_from = slot + 1;
    } else {
        must(value_slot(map_take(&ledger->slots, atom_text(from->name))) == slot);
        if (slot < ledger->free_from)
            ledger->free_from = slot;
    }
    node_index_unref(ledger->index);
    ledger->index = NULL;
}

static void swap_node(struct ledger *ledger, uint32_t slot, const struct node *from,
                      const struct node *to)
{
    must(from != to);
    must(from == NULL || to == NULL || from->name == to->name);
    must(slot < NODES_MAX);

    struct page *page = own_page(ledger, slot);
    must(page->node[slot % PAGE_NODES] == from);
    if (!same_claims(from, to)) {
        drop_claims(ledger, slot, from);
        take_claims(ledger, slot, to);
    }
    if (from == NULL || to == NULL)
        list_node(ledger, slot, from, to);
    page->node[slot % PAGE_NODES] = to != NULL ? node_ref(to) : NULL;
    node_unref(from);
    must(ledger->slots.count <= (size_t)ledger->pages * PAGE_NODES);
}

static bool lives(const struct allocation *allocation)
{
    return allocation != NULL && allocation->is.state != STATE_RELEASED;
}

static void swap_allocation(struct ledger *ledger, const struct allocation *from,
                            const struct allocation *to)
{
    must(lives(from) || lives(to));
    must(from == NULL || to == NULL || strcmp(from->is.uid, to->is.uid) == 0);

    if (lives(from)) {
        const struct text uid = text_of(from->is.uid);
        must(map_take(&ledger->live, uid) == from);
        must((map_take(&ledger->open, uid) == from) == (from->is.state == STATE_RESERVED));
    }
    if (lives(to)) {
        /* The map hands back what it was given, and nobody writes through it. */
        void *value = (void *)(uintptr_t)allocation_ref(to); /* NOLINT(performance-no-int-to-ptr) */
        const struct text uid = text_of(to->is.uid);
        must(map_put(&ledger->live, uid, value) == NULL);
        if (to->is.state == STATE_RESERVED)
            must(map_put(&ledger->open, uid, value) == NULL);
    }
    if (lives(from))
        allocation_unref(from);
}

static bool gives_room(const struct node *from, const struct node *to);

void ledger_apply(struct ledger *ledger, const struct change *change)
{
    must(change->verdict == VERDICT_OK);
    must(change->held == NULL);

    if (change->node_before != NULL || change->node_after != NULL)
        swap_node(ledger, change->slot, change->node_before, change->node_after);
    if (change->before != NULL || change->after != NULL)
        swap_allocation(ledger, change->before, change->after);
    if (change_gives_room(change))
        ledger->room_came = true;
}

void ledger_undo(struct ledger *ledger, const struct change *change)
{
    must(change->verdict == VERDICT_OK);
    must(change->held == NULL);

    if (change->before != NULL || change->after != NULL)
        swap_allocation(ledger, change->after, change->before);
    if (change->node_before != NULL || change->node_after != NULL)
        swap_node(ledger, change->slot, change->node_after, change->node_before);
    /* A grant that is taken back gives room as much as a release does. */
    if (gives_room(change->node_after, change->node_before))
        ledger->room_came = true;
}

void change_done(struct change *change)
{
    must(change->verdict == VERDICT_OK || change->node_before == NULL);
    must(change->verdict == VERDICT_OK || change->node_after == NULL);

    node_unref(change->node_before);
    node_unref(change->node_after);
    allocation_unref(change->before);
    allocation_unref(change->after);
    *change = (struct change){.kind = change->kind, .verdict = change->verdict};
}

static bool gpu_gives_room(const struct gpu *from, const struct gpu *to)
{
    must(from != NULL);
    must(to != NULL);

    if (gpu_closed(to) != REASON_NONE)
        return false;
    if (gpu_closed(from) != REASON_NONE)
        return true;
    const uint32_t mib_from = from->mib > from->used_mib ? from->mib - from->used_mib : 0;
    const uint32_t mib_to = to->mib > to->used_mib ? to->mib - to->used_mib : 0;
    return gpu_free(to) > gpu_free(from) || mib_to > mib_from || from->milli != to->milli ||
           from->mib != to->mib || from->model != to->model;
}

static bool gives_room(const struct node *from, const struct node *to)
{
    if (to == NULL || to->gone)
        return false;
    /* Where no shares are (any more) whole GPUs have a place, whatever else is there. */
    if ((from == NULL || from->gone || node_has_shares(from)) && !node_has_shares(to))
        return true;
    if (node_closed(to) != REASON_NONE)
        return false;
    if (from != NULL && (from->gone || node_closed(from) != REASON_NONE))
        return true;
    for (uint32_t i = 0; i < to->gpus; i++) {
        const struct gpu *gpu = &to->gpu[i];
        const struct gpu *was = from == NULL ? NULL : node_gpu(from, atom_text(gpu->id));
        if (was == NULL ? gpu_closed(gpu) == REASON_NONE : gpu_gives_room(was, gpu))
            return true;
    }
    return false;
}

bool change_gives_room(const struct change *change)
{
    must(change->verdict == VERDICT_OK);
    must(change->kind != COMMAND_CLOCK || change->node_after == NULL);
    return gives_room(change->node_before, change->node_after);
}

static void count_node(struct snapshot *snapshot, const struct node *from, const struct node *to)
{
    if (from != NULL) {
        must(snapshot->nodes > 0);
        must(snapshot->allocations >= from->allocations);
        snapshot->nodes--;
        snapshot->allocations -= from->allocations;
    }
    if (to != NULL) {
        snapshot->nodes++;
        snapshot->allocations += to->allocations;
    }
    must(snapshot->nodes <= snapshot->slots);
}

/* Put the nodes back that the held changes change; true if the list of nodes is another then. */
static bool hold_back(struct snapshot *snapshot, const struct change *const *held, size_t count)
{
    bool listed = false;
    must(snapshot->index == NULL);
    /* Backwards, so that of several changes of one slot the first has the last word. */
    for (size_t i = count; i-- > 0;) {
        const struct change *change = held[i];
        must(change->verdict == VERDICT_OK);
        if (change->node_before == NULL && change->node_after == NULL)
            continue;
        must(change->slot < snapshot->slots);
        struct page **page = &snapshot->page[change->slot / PAGE_NODES];
        if (page_shared(*page)) {
            struct page *mine = page_clone(*page);
            page_unref(*page);
            *page = mine;
        }
        const struct node **at = &(*page)->node[change->slot % PAGE_NODES];
        const struct node *before = change->node_before;
        count_node(snapshot, *at, before);
        listed = listed || *at == NULL || before == NULL || (*at)->name != before->name;
        if (before != NULL)
            (void)node_ref(before);
        node_unref(*at);
        *at = before;
    }
    return listed;
}

/* Reservations whose node the snapshot shows. */
static void publish_open(const struct ledger *ledger, struct snapshot *snapshot)
{
    const struct allocation *allocation;
    size_t at = 0;

    snapshot->open = xcalloc(ledger->open.count + 1, sizeof *snapshot->open);
    while ((allocation = map_next(&ledger->open, &at)) != NULL) {
        const uint32_t slot = ledger_slot(ledger, atom_text(allocation->is.node));
        must(slot != SLOT_NONE);
        const struct node *node = page_node(snapshot->page, slot);
        if (node == NULL || node->name != allocation->is.node)
            continue;
        must(snapshot->opens < ledger->open.count);
        snapshot->open[snapshot->opens++] =
            (struct open_reservation){.allocation = allocation_ref(allocation), .slot = slot};
    }
}

struct snapshot *ledger_publish(struct ledger *ledger, const struct change *const *held_back,
                                size_t count)
{
    must(count == 0 || held_back != NULL);

    struct snapshot *snapshot = xcalloc(1, sizeof *snapshot);
    atomic_init(&snapshot->refs, 1);
    snapshot->generation = ++ledger->generation;
    if (ledger->room_came && count == 0) {
        ledger->room = ledger->generation;
        ledger->room_came = false;
    }
    snapshot->room = ledger->room;
    snapshot->pages = ledger->pages;
    snapshot->slots = ledger->pages * PAGE_NODES;
    snapshot->page = xcalloc((size_t)ledger->pages + 1, sizeof(struct page *));
    for (uint32_t i = 0; i < ledger->pages; i++)
        snapshot->page[i] = page_ref(ledger->page[i]);

    snapshot->nodes = (uint32_t)ledger->slots.count;
    snapshot->allocations = (uint32_t)ledger->live.count;
    if (ledger->index == NULL)
        ledger->index = node_index_new(ledger->page, ledger->pages);
    if (hold_back(snapshot, held_back, count))
        snapshot->index = node_index_new(snapshot->page, snapshot->pages);
    else
        snapshot->index = node_index_ref(ledger->index);
    publish_open(ledger, snapshot);
    must(snapshot->room <= snapshot->generation);
    return snapshot;
}

static bool is_stale_duplicate(const struct ledger *ledger, const struct gpu *gpu)
{
    must(gpu->id != NULL);
    must(ledger->duplicates > 0);
    return (gpu->flags & (GPU_DUPLICATE | GPU_ABSENT)) == GPU_DUPLICATE &&
           map_find(&ledger->owners, atom_text(gpu->id)) == NULL;
}

const struct node *ledger_stale_duplicate(struct ledger *ledger)
{
    const struct node *node;
    size_t at = 0;

    must(ledger != NULL);
    if (!ledger->owner_left)
        return NULL;
    while (ledger->duplicates > 0 && (node = ledger_next_node(ledger, &at)) != NULL)
        for (uint32_t i = 0; i < node->gpus; i++)
            if (is_stale_duplicate(ledger, &node->gpu[i]))
                return node;
    ledger->owner_left = false;
    return NULL;
}
