/*
 * Holds the state of the ledger: look up, apply, undo, publish. The writer owns it, and every
 * function here runs in its thread; only verifying a file builds a separate ledger in another one.
 * A change comes from ledger_decide() and is in the store's transaction before ledger_apply(), so
 * apply cannot fail; undo restores the former state, newest change first. A node keeps its slot for
 * its whole life. Only ledger_swap_node() and swap_allocation() write to the maps by name and uid,
 * and to the marks of UUIDs, so that these always agree with the nodes. Parts: look-ups, owners of
 * UUIDs, slots and indexes, apply and undo, policy, freed room, publication, duplicates.
 */
#include "milligpu/core/ledger/ledger.h"

#include <string.h>

#include "milligpu/base/alloc.h"

#include "core/node/snapshot_internal.h"
#include "ledger_internal.h"

static_assert(NODES_MAX % BOOK_NODES == 0, "the last book is whole");

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

static struct text uid_of_allocation(const void *value)
{
    const struct allocation *allocation = value;
    must(allocation->facts.uid != NULL);
    return text_of(allocation->facts.uid);
}

struct ledger *ledger_new(void)
{
    struct ledger *ledger = xcalloc(1, sizeof *ledger);
    ledger->names = names_new();
    map_init(&ledger->slots);
    map_init_keyed(&ledger->live, uid_of_allocation);
    map_init_keyed(&ledger->open, uid_of_allocation);
    map_init(&ledger->duplicate_nodes);
    ledger->index = slot_index_new(0);
    ledger->open_index = slot_index_new(0);
    must(ledger->names != NULL);
    return ledger;
}

static void duplicate_nodes_free(struct duplicate_nodes *duplicate_nodes)
{
    must(duplicate_nodes != NULL);
    must(duplicate_nodes->id != NULL);
    xfree(duplicate_nodes->slot);
    xfree(duplicate_nodes);
}

/* Frees everything but the struct. */
static void ledger_done(struct ledger *ledger)
{
    must(ledger->open.count <= ledger->live.count);
    const struct allocation *allocation;
    struct duplicate_nodes *duplicate_nodes;
    for (size_t at = 0; (allocation = map_next(&ledger->live, &at)) != NULL;)
        allocation_unref(allocation);
    for (size_t at = 0; (duplicate_nodes = map_next(&ledger->duplicate_nodes, &at)) != NULL;)
        duplicate_nodes_free(duplicate_nodes);
    for (uint32_t i = 0; i < ledger->n_books; i++)
        book_unref(ledger->book[i]);
    slot_index_unref(ledger->index);
    slot_index_unref(ledger->open_index);
    map_done(&ledger->slots);
    map_done(&ledger->live);
    map_done(&ledger->open);
    map_done(&ledger->duplicate_nodes);
    xfree(ledger->book);
    xfree(ledger->free_slot);
    for (size_t i = 0; i < ledger->n_undecided; i++)
        atom_unref(ledger->undecided_ids[i]);
    xfree(ledger->undecided_ids);
    xfree(ledger->kept);
    kinds_freep(&ledger->kinds);
    score_cache_free(ledger->scores);
    policy_context_unref(ledger->context);
    names_free(ledger->names);
}

void ledger_free(struct ledger *ledger)
{
    if (ledger == NULL)
        return;

    must(ledger->names != NULL);
    ledger_done(ledger);
    xfree(ledger);
}

/* Sums and prices of the policy context are counted anew, as if it had been in force before. */
void ledger_take(struct ledger *empty, struct ledger *take_from)
{
    const struct policy_context *context = empty->context;
    const bool room_came = empty->room_came;
    const struct node *node;

    must(empty->places == 0 && empty->generation == 0 && empty->tolerations == NULL);
    must(take_from->context == NULL && take_from->tolerations == NULL);
    empty->context = NULL;
    ledger_done(empty);
    *empty = *take_from;
    xfree(take_from);
    empty->room_came |= room_came;
    ledger_start_prices(empty, context);
    for (size_t at = 0; (node = ledger_next_node(empty, &at)) != NULL;)
        ledger_swap_supply(empty, NULL, node);
    policy_context_unref(context);
}

enum { SWEEP_LEAST = 16, SWEEP_IDLE_PARTS = 64 };

void ledger_sweep(struct ledger *ledger, bool idle)
{
    const size_t count = names_count(ledger->names);

    must(ledger->n_undecided <= ledger->undecided_capacity);
    /* Kept GPUs hold no references to names; nothing is restored after the first sweep. */
    xfree(ledger->kept);
    ledger->kept = NULL;
    ledger->n_kept = 0;
    ledger->kept_capacity = 0;
    names_sweep(ledger->names, SWEEP_LEAST + (idle ? count / SWEEP_IDLE_PARTS : 0));
    must(names_count(ledger->names) <= count);
}

void ledger_settle(struct ledger *ledger, size_t slots)
{
    must(ledger != NULL);
    must(slots > 0);
    map_settle(&ledger->slots, slots);
    map_settle(&ledger->live, slots);
    map_settle(&ledger->open, slots);
    must(ledger->open.count <= ledger->live.count);
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
    must(slot == SLOT_NONE || slot < ledger->places);
    must(slot == SLOT_NONE || slot_node(ledger->book, slot) != NULL);
    return slot;
}

const struct node *ledger_at(const struct ledger *ledger, uint32_t slot)
{
    must(slot <= ledger->places);
    must(ledger->places <= ledger->n_books * BOOK_NODES);
    return slot < ledger->places ? slot_node(ledger->book, slot) : NULL;
}

/*
 * ledger_decide() names this slot and list_node() requires it: no other node may be added in
 * between.
 */
uint32_t ledger_free_slot(const struct ledger *ledger)
{
    must(ledger->slots.count < NODES_MAX);
    must(ledger->slots.count + ledger->n_free_slots == ledger->places);
    return ledger->n_free_slots > 0 ? ledger->free_slot[ledger->n_free_slots - 1] : ledger->places;
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

const struct allocation *ledger_next_open(const struct ledger *ledger, size_t *at)
{
    must(ledger != NULL);
    must(at != NULL);
    return map_next(&ledger->open, at);
}

const struct node *ledger_next_node(const struct ledger *ledger, size_t *at)
{
    must(ledger != NULL);
    must(at != NULL);

    while (*at < ledger->places) {
        const struct node *node = ledger_at(ledger, (uint32_t)(*at)++);
        if (node != NULL)
            return node;
    }
    return NULL;
}

/* Does this GPU prevent other nodes from granting the same id? */
static bool ledger_owns(const struct node *node, const struct gpu *gpu)
{
    must(gpu >= node->gpu);
    must(gpu < node->gpu + node->n_gpus);
    return (gpu->flags & GPU_DUPLICATE) == 0 && gpu_id_is_real(gpu->id, atom_text(node->name));
}

/*
 * True for nearly every change (a grant, a release). Then owners and duplicate owners need no
 * update, and a duplicate owner keeps its place in line.
 */
static bool same_owned_ids(const struct node *a, const struct node *b)
{
    if (a == NULL || b == NULL || a->n_gpus != b->n_gpus || a->n_owned_ids != b->n_owned_ids)
        return false;
    for (uint32_t i = 0; i < a->n_gpus; i++)
        if (a->gpu[i].id != b->gpu[i].id ||
            ((a->gpu[i].flags ^ b->gpu[i].flags) & (GPU_DUPLICATE | GPU_ABSENT)) != 0)
            return false;
    return a->n_owned_ids == 0 ||
           memcmp(a->owned_id, b->owned_id, a->n_owned_ids * sizeof *a->owned_id) == 0;
}

/* Linear: the list contains only UUIDs shown by several nodes, each once. */
static void look_again(struct ledger *ledger, const struct atom *id)
{
    must(id != NULL);
    must(id->len > 0);
    for (size_t i = 0; i < ledger->n_undecided; i++)
        if (ledger->undecided_ids[i] == id)
            return;
    ledger->undecided_ids = xgrow(ledger->undecided_ids, ledger->n_undecided,
                                  &ledger->undecided_capacity, sizeof(struct atom *));
    ledger->undecided_ids[ledger->n_undecided++] = atom_ref(id);
    must(ledger->n_undecided <= ledger->undecided_capacity);
}

/* Only ids with duplicate owners need a check. */
static void mark_undecided(struct ledger *ledger, const struct atom *id)
{
    must(ledger != NULL);
    if (map_find(&ledger->duplicate_nodes, atom_text(id)) != NULL)
        look_again(ledger, id);
}

/* The owner is the same, but its GPU_CONTESTED flags may be outdated after an undo. */
static void mark_words_undecided(struct ledger *ledger, const struct node *from,
                                 const struct node *to)
{
    must(from->n_gpus == to->n_gpus);
    for (uint32_t i = 0; i < from->n_gpus; i++) {
        must(from->gpu[i].id == to->gpu[i].id);
        if (((from->gpu[i].flags ^ to->gpu[i].flags) & GPU_CONTESTED) != 0)
            look_again(ledger, to->gpu[i].id);
    }
}

/*
 * An absent duplicate is counted but not put in line: a node can only take over a GPU that it
 * shows.
 */
static void add_duplicate_node(struct ledger *ledger, uint32_t slot, const struct gpu *gpu)
{
    struct duplicate_nodes *duplicate_nodes =
        map_find(&ledger->duplicate_nodes, atom_text(gpu->id));

    must((gpu->flags & GPU_DUPLICATE) != 0);
    must(slot < ledger->places);
    ledger->duplicates++;
    if ((gpu->flags & GPU_ABSENT) != 0)
        return;
    if (duplicate_nodes == NULL) {
        duplicate_nodes = xcalloc(1, sizeof *duplicate_nodes);
        duplicate_nodes->id = gpu->id;
        must(map_put(&ledger->duplicate_nodes, atom_text(gpu->id), duplicate_nodes) == NULL);
    }
    duplicate_nodes->slot = xgrow(duplicate_nodes->slot, duplicate_nodes->count,
                                  &duplicate_nodes->capacity, sizeof *duplicate_nodes->slot);
    duplicate_nodes->slot[duplicate_nodes->count++] = slot;
    mark_undecided(ledger, gpu->id);
}

/* Keeps the order of the others, which decides who takes over when the owner gives up the id. */
static void drop_duplicate_node(struct ledger *ledger, uint32_t slot, const struct gpu *gpu)
{
    must(ledger->duplicates > 0);
    ledger->duplicates--;
    if ((gpu->flags & GPU_ABSENT) != 0)
        return;
    struct duplicate_nodes *duplicate_nodes =
        map_find(&ledger->duplicate_nodes, atom_text(gpu->id));
    size_t at = 0;
    mark_undecided(ledger, gpu->id); /* the owner may have no duplicate owners any more */
    must(duplicate_nodes != NULL && duplicate_nodes->count > 0);
    while (duplicate_nodes->slot[at] != slot) {
        at++;
        must(at < duplicate_nodes->count);
    }
    for (duplicate_nodes->count--; at < duplicate_nodes->count; at++)
        duplicate_nodes->slot[at] = duplicate_nodes->slot[at + 1];
    if (duplicate_nodes->count == 0)
        duplicate_nodes_free(map_take(&ledger->duplicate_nodes, atom_text(gpu->id)));
}

/* Aborts unless this node owned the id: with two owners one GPU would be granted twice. */
static void drop_owner(struct ledger *ledger, const struct atom *id, uint32_t slot)
{
    must(slot < ledger->places);
    must(ledger->n_owners > 0 && owner_slot(id) == slot);
    ledger->n_owners--;
    atom_set_mark(id, 0);
    mark_undecided(ledger, id);
}

static void take_owner(struct ledger *ledger, const struct atom *id, uint32_t slot)
{
    must(slot < ledger->places);
    must(owner_slot(id) == SLOT_NONE);
    ledger->n_owners++;
    atom_set_mark(id, slot + 1);
    mark_undecided(ledger, id);
}

static void drop_owned_ids(struct ledger *ledger, uint32_t slot, const struct node *node)
{
    for (uint32_t i = 0; node != NULL && i < node->n_gpus; i++) {
        const struct gpu *gpu = &node->gpu[i];
        if ((gpu->flags & GPU_DUPLICATE) != 0)
            drop_duplicate_node(ledger, slot, gpu);
        else if (ledger_owns(node, gpu))
            drop_owner(ledger, gpu->id, slot);
    }
    for (uint32_t i = 0; node != NULL && i < node->n_owned_ids; i++)
        drop_owner(ledger, node->owned_id[i], slot);
}

static void take_owned_ids(struct ledger *ledger, uint32_t slot, const struct node *node)
{
    for (uint32_t i = 0; node != NULL && i < node->n_gpus; i++) {
        const struct gpu *gpu = &node->gpu[i];
        if ((gpu->flags & GPU_DUPLICATE) != 0)
            add_duplicate_node(ledger, slot, gpu);
        else if (ledger_owns(node, gpu))
            take_owner(ledger, gpu->id, slot);
    }
    for (uint32_t i = 0; node != NULL && i < node->n_owned_ids; i++)
        take_owner(ledger, node->owned_id[i], slot);
}

/* Drops before it takes, because an unchanged id would collide with its own entry. */
static void swap_owned_ids(struct ledger *ledger, uint32_t slot, const struct node *from,
                           const struct node *to)
{
    must(from != NULL || to != NULL);
    must(slot < ledger->places);
    if (same_owned_ids(from, to)) {
        mark_words_undecided(ledger, from, to);
        return;
    }
    drop_owned_ids(ledger, slot, from);
    take_owned_ids(ledger, slot, to);
}

/*
 * The writable place of a slot. Books are only added: in snapshots of any age, slots keep their
 * position.
 */
static const struct node **own_place(struct ledger *ledger, uint32_t slot)
{
    must(slot <= ledger->places);
    must(slot < NODES_MAX);

    if (slot / BOOK_NODES == ledger->n_books) {
        ledger->book =
            xgrow(ledger->book, ledger->n_books, &ledger->book_capacity, sizeof *ledger->book);
        ledger->book[ledger->n_books++] = book_new();
    }
    return books_place(ledger->book, slot);
}

static void put_into(struct ledger *ledger, struct slot_index *index, struct text key,
                     uint32_t slot)
{
    must(slot < ledger->places);
    must(key.len > 0);
    ledger->indexed++;
    slot_index_add(index, text_hash(key), slot);
}

/*
 * Rebuilds a full index from the listed nodes; older snapshots keep the former one. more: capacity
 * for further entries, possibly of nodes that only a snapshot shows.
 */
static void room_in_index(struct ledger *ledger, uint32_t more)
{
    const struct node *node;
    uint32_t slot;

    if (slot_index_has_room(ledger->index, more))
        return;
    slot_index_unref(ledger->index);
    must(ledger->slots.count <= NODES_MAX);
    ledger->index = slot_index_new((uint32_t)ledger->slots.count + more);
    for (size_t at = 0; (node = ledger_next_node(ledger, &at)) != NULL;) {
        slot = (uint32_t)at - 1;
        must(ledger_at(ledger, slot) == node);
        put_into(ledger, ledger->index, atom_text(node->name), slot);
    }
}

/*
 * Adds an open allocation to the index; it must be in the map, from which a full index is rebuilt.
 * Entries of ended reservations stay until then: readers check the state.
 */
static void index_open(struct ledger *ledger, const struct allocation *open, uint32_t slot)
{
    const struct allocation *each;

    must(allocation_is_open(open));
    must(map_find(&ledger->open, text_of(open->facts.uid)) == open);
    if (slot_index_has_room(ledger->open_index, 1)) {
        put_into(ledger, ledger->open_index, text_of(open->facts.uid), slot);
        return;
    }
    slot_index_unref(ledger->open_index);
    ledger->open_index = slot_index_new((uint32_t)ledger->open.count);
    for (size_t at = 0; (each = map_next(&ledger->open, &at)) != NULL;)
        put_into(ledger, ledger->open_index, text_of(each->facts.uid),
                 ledger_slot(ledger, atom_text(each->facts.node)));
}

/*
 * Adds or removes a node. Its slot is reused for the next new node, so readers of the index compare
 * names.
 */
static void list_node(struct ledger *ledger, uint32_t slot, const struct node *from,
                      const struct node *to)
{
    must((from == NULL) != (to == NULL));

    if (to == NULL) {
        must(value_slot(map_take(&ledger->slots, atom_text(from->name))) == slot);
        ledger->free_slot = xgrow(ledger->free_slot, ledger->n_free_slots,
                                  &ledger->free_slot_capacity, sizeof *ledger->free_slot);
        ledger->free_slot[ledger->n_free_slots++] = slot;
        must(ledger->n_free_slots <= ledger->places);
        return;
    }
    /* Undo runs backwards, so this also holds for undo. */
    must(slot == ledger_free_slot(ledger));
    if (ledger->n_free_slots > 0)
        ledger->n_free_slots--;
    else
        ledger->places++;
    room_in_index(ledger, 1);
    put_into(ledger, ledger->index, atom_text(to->name), slot);
    must(map_put(&ledger->slots, atom_text(to->name), slot_value(slot)) == NULL);
}

/* Reports names of the former version that the next one may not hold. */
static void let_names_go(struct ledger *ledger, const struct node *from, const struct node *to)
{
    must(from != to);
    if (from != NULL && (to == NULL || from->names != to->names))
        names_let_go(ledger->names, from->names->count);
    if (from != NULL && from->labels != NULL && (to == NULL || from->labels != to->labels))
        names_let_go(ledger->names, from->labels->count);
    must(names_count(ledger->names) > 0);
}

/*
 * One step of apply or, with from and to exchanged, of undo. The place must hold from: changes are
 * applied and undone in strict order.
 */
static void ledger_swap_node(struct ledger *ledger, uint32_t slot, const struct node *from,
                             const struct node *to)
{
    must(from != to);
    must(from == NULL || to == NULL || from->name == to->name);
    must(slot < NODES_MAX);

    const struct node **place = own_place(ledger, slot);
    must(*place == from);
    if (from == NULL || to == NULL)
        list_node(ledger, slot, from, to);
    swap_owned_ids(ledger, slot, from, to);
    ledger_swap_supply(ledger, from, to);
    *place = to != NULL ? node_ref(to) : NULL;
    let_names_go(ledger, from, to);
    node_unref(from);
    must(ledger->slots.count <= ledger->places);
}

static bool ledger_lives(const struct allocation *allocation)
{
    return allocation != NULL && allocation->facts.state != STATE_RELEASED;
}

/*
 * Call after ledger_swap_node(): if index_open() rebuilds its index, it looks up the slot by the
 * node's name. An old entry is removed, not overwritten, because its key belongs to the allocation
 * that leaves.
 */
static void swap_allocation(struct ledger *ledger, uint32_t slot, const struct allocation *from,
                            const struct allocation *to)
{
    must(ledger_lives(from) || ledger_lives(to));
    must(from == NULL || to == NULL || strcmp(from->facts.uid, to->facts.uid) == 0);

    if (ledger_lives(from)) {
        const struct text uid = text_of(from->facts.uid);
        must(map_take(&ledger->live, uid) == from);
        must((map_take(&ledger->open, uid) == from) == allocation_is_open(from));
    }
    if (ledger_lives(to)) {
        /* Casts away const for the map, which never writes through the pointer. */
        void *value = (void *)(uintptr_t)allocation_ref(to); /* NOLINT(performance-no-int-to-ptr) */
        const struct text uid = text_of(to->facts.uid);
        must(map_put(&ledger->live, uid, value) == NULL);
        if (allocation_is_open(to)) {
            must(map_put(&ledger->open, uid, value) == NULL);
            index_open(ledger, to, slot);
        }
    }
    if (ledger_lives(from)) {
        if (!ledger_lives(to))
            names_let_go(ledger->names, from->n_charges);
        allocation_unref(from);
    }
}

static bool gives_room(const struct node *from, const struct node *to, bool takes_only);

void ledger_put_row(struct ledger *ledger, const struct change *change)
{
    must(change->verdict == VERDICT_OK);
    must(change->held == NULL);

    if (change->node_before != NULL || change->node_after != NULL)
        ledger_swap_node(ledger, change->slot, change->node_before, change->node_after);
    if (change->before != NULL || change->after != NULL)
        swap_allocation(ledger, change->slot, change->before, change->after);
}

void ledger_apply(struct ledger *ledger, const struct change *change)
{
    ledger_put_row(ledger, change);
    if (change_gives_room(change))
        ledger->room_came = true;
    if (change->kind == COMMAND_RESERVE)
        ledger_count_grant(ledger);
}

void ledger_undo(struct ledger *ledger, const struct change *change)
{
    must(change->verdict == VERDICT_OK);
    must(change->held == NULL);

    if (change->node_before != NULL || change->node_after != NULL)
        ledger_swap_node(ledger, change->slot, change->node_after, change->node_before);
    if (change->before != NULL || change->after != NULL)
        swap_allocation(ledger, change->slot, change->after, change->before);
    /* Undoing a grant frees capacity like a release. */
    if (gives_room(change->node_after, change->node_before, false))
        ledger->room_came = true;
}

/*
 * Updates the matching rules of every node. They are part of the node, so that readers need no
 * labels.
 */
static void set_rules(struct ledger *ledger, const struct rulebook *book)
{
    must(ledger->reserving == 0);
    must(ledger->places <= NODES_MAX);
    for (uint32_t slot = 0; slot < ledger->places; slot++) {
        const struct node *node = ledger_at(ledger, slot);
        const rule_set rules = node == NULL ? 0 : rulebook_of_node(book, node->labels);
        if (node == NULL || node->rules == rules)
            continue;
        struct node *with = node_with_rules(node, rules);
        ledger_swap_node(ledger, slot, node, with);
        node_unref(with);
    }
}

static const struct rulebook *rulebook_of(const struct policy_context *context)
{
    return context == NULL ? NULL : context->rulebook;
}

void ledger_set_policy_context(struct ledger *ledger, const struct policy_context *context)
{
    const struct rulebook *former = rulebook_of(ledger->context);
    const rule_set held = former == NULL ? 0 : ledger->context->holding;
    const struct node *node;

    if (rulebook_of(context) != former) {
        ledger->reserving = 0; /* idle hosts are counted below */
        set_rules(ledger, rulebook_of(context));
    }
    /* Requests that a rule refused before may fit. */
    if (rulebook_of(context) != former || (former != NULL && context->holding != held))
        ledger->room_came = true;
    ledger_start_prices(ledger, context);
    for (size_t at = 0; (node = ledger_next_node(ledger, &at)) != NULL;)
        ledger_swap_supply(ledger, NULL, node);
    ledger_set_prices(ledger);
    must(ledger->context != NULL || context == NULL);
}

uint32_t ledger_set_tolerations(struct ledger *ledger, const struct tolerations *tolerations)
{
    uint32_t replaced = 0;

    must(ledger->places <= NODES_MAX);
    ledger->tolerations = tolerations;
    for (uint32_t slot = 0; slot < ledger->places; slot++) {
        const struct node *node = ledger_at(ledger, slot);
        if (node == NULL || node->taints == NULL)
            continue;
        const struct unusable_cause cause = taints_close(&node->taints->facts, tolerations);
        if (unusable_eq(&cause, &node->unusable))
            continue;
        struct node *with = node_with_unusable(node, cause);
        if (cause.why == USABLE)
            ledger->room_came = true;
        ledger_swap_node(ledger, slot, node, with);
        node_unref(with);
        replaced++;
    }
    must(replaced <= ledger->places);
    must(ledger->tolerations == tolerations);
    return replaced;
}

bool ledger_set_host(struct ledger *ledger, struct text name, const struct host *host)
{
    const uint32_t slot = ledger_slot(ledger, name);
    const struct node *node = slot == SLOT_NONE ? NULL : ledger_at(ledger, slot);

    must(host != NULL);
    if (node == NULL)
        return false;
    struct node *with = node_with_host(node, host);
    must(node_alike(node, with));
    ledger_swap_node(ledger, slot, node, with);
    node_unref(with);
    return true;
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

/* May the GPU count as a whole GPU beside other pods' shares? A GPU closed to shares may. */
static bool may_be_whole(enum reason closed)
{
    must(closed == REASON_NONE || reason_class(closed) == REASON_CLASS_MOMENT);
    /* these reasons close a whole node */
    must(closed != REASON_MIXED && closed != REASON_UNPLACED && closed != REASON_PLUGIN &&
         closed != REASON_AGENT);
    return closed != REASON_ABSENT && closed != REASON_HELD;
}

/* from: NULL for a new GPU. */
static bool gpu_gives_room(const struct gpu *from, const struct gpu *to)
{
    must(to != NULL);

    const enum reason was = from != NULL ? gpu_closed(from) : REASON_ABSENT;
    const enum reason is = gpu_closed(to);
    if (!may_be_whole(was) || is != REASON_NONE)
        return !may_be_whole(was) && may_be_whole(is);
    if (was != REASON_NONE)
        return true;
    const uint32_t mib_from = from->mib > from->used_mib ? from->mib - from->used_mib : 0;
    const uint32_t mib_to = to->mib > to->used_mib ? to->mib - to->used_mib : 0;
    return gpu_free(to) > gpu_free(from) || mib_to > mib_from || from->milli != to->milli ||
           from->mib != to->mib || from->model != to->model || from->numa != to->numa ||
           from->peers != to->peers; /* bits are positions; if GPUs moved, assume a difference */
}

/* Returns NULL for a new GPU. The index of a GPU rarely changes. */
static const struct gpu *gpu_before(const struct node *from, const struct gpu *gpu, uint32_t at)
{
    must(gpu->id != NULL);
    if (from == NULL)
        return NULL;
    must(from->n_gpus == 0 || from->gpu != NULL);
    return at < from->n_gpus && from->gpu[at].id == gpu->id ? &from->gpu[at]
                                                            : node_gpu(from, atom_text(gpu->id));
}

static bool gpus_give_room(const struct node *from, const struct node *to)
{
    must(to != NULL);
    for (uint32_t i = 0; i < to->n_gpus; i++)
        if (gpu_gives_room(gpu_before(from, &to->gpu[i], i), &to->gpu[i]))
            return true;
    return false;
}

/*
 * True when unsure: a needless wake-up costs some searches, a missing one leaves a pod waiting for
 * up to 330 s (docs/why/004-the-wake-up-object.md). takes_only: no GPU has more room than before.
 */
static bool gives_room(const struct node *from, const struct node *to, bool takes_only)
{
    if (to == NULL || to->gone)
        return false;
    /* Whole GPUs fit on a new node without shares, and after the last shares have left. */
    if ((from == NULL || from->gone || node_has_shares(from)) && !node_has_shares(to))
        return true;
    if (node_closed(to) != REASON_NONE)
        return false;
    if (from != NULL && (from->gone || node_closed(from) != REASON_NONE))
        return true;
    if (from != NULL && from->rules != to->rules)
        return true;
    if (from != NULL && from->unusable.why != USABLE && to->unusable.why == USABLE)
        return true;
    /* While idle, the node may have been reserved for pods of several GPUs (rulebook.h). */
    if (from != NULL && from->rules != 0 && node_is_idle(from) && !node_is_idle(to))
        return true;
    must_debug(!takes_only || !gpus_give_room(from, to));
    return !takes_only && gpus_give_room(from, to);
}

/* A grant takes, and its confirmation moves nothing. */
bool change_gives_room(const struct change *change)
{
    const bool takes_only = change->kind == COMMAND_RESERVE || change->kind == COMMAND_CONFIRM;

    must(change->verdict == VERDICT_OK);
    must(change->kind < COMMAND_CLOCK || change->node_after == NULL);
    return gives_room(change->node_before, change->node_after, takes_only);
}

/* Keeps the totals equal to the nodes of this snapshot; the verifier counts them. */
static void count_node(struct snapshot *snapshot, const struct node *from, const struct node *to)
{
    if (from != NULL) {
        must(snapshot->nodes > 0);
        must(snapshot->allocations >= from->n_allocations);
        snapshot->nodes--;
        snapshot->allocations -= from->n_allocations;
    }
    if (to != NULL) {
        snapshot->nodes++;
        snapshot->allocations += to->n_allocations;
    }
    must(snapshot->nodes <= snapshot->slots);
}

/*
 * Publishes nodes changed by held changes as before those changes: a failed COMMIT would take back
 * the room.
 */
static void hold_back(struct ledger *ledger, struct snapshot *snapshot,
                      const struct change *const *held, size_t count)
{
    must(count == 0 || held != NULL);
    /* Backwards, so that the first of several changes to one slot wins. */
    for (size_t i = count; i-- > 0;) {
        const struct change *change = held[i];
        must(change->verdict == VERDICT_OK);
        if (change->node_before == NULL && change->node_after == NULL)
            continue;
        must(change->slot < snapshot->slots);
        const struct node **at = books_place(snapshot->book, change->slot);
        const struct node *before = change->node_before;
        count_node(snapshot, *at, before);
        if (before != NULL) {
            (void)node_ref(before);
            put_into(ledger, ledger->index, atom_text(before->name), change->slot);
        }
        node_unref(*at);
        *at = before;
    }
}

struct snapshot *ledger_publish(struct ledger *ledger, const struct change *const *held_back,
                                size_t count)
{
    must(count == 0 || held_back != NULL);

    struct snapshot *snapshot = xcalloc(1, sizeof *snapshot);
    atomic_init(&snapshot->refs, 1);
    snapshot->generation = ++ledger->generation;
    /* Held-back room is announced with the publication after the COMMIT. */
    if (ledger->room_came && count == 0) {
        ledger->capacity_generation = ledger->generation;
        ledger->room_came = false;
    }
    snapshot->capacity_generation = ledger->capacity_generation;
    snapshot->n_books = ledger->n_books;
    snapshot->slots = ledger->n_books * BOOK_NODES;
    snapshot->book = xcalloc((size_t)ledger->n_books + 1, sizeof *snapshot->book);
    /* Shares every book: the next change copies the page that it writes to. */
    for (uint32_t i = 0; i < ledger->n_books; i++)
        snapshot->book[i] = book_ref(ledger->book[i]);

    snapshot->nodes = (uint32_t)ledger->slots.count;
    snapshot->allocations = (uint32_t)ledger->live.count;
    snapshot->n_opens = (uint32_t)ledger->open.count;
    room_in_index(ledger, (uint32_t)count);
    hold_back(ledger, snapshot, held_back, count);
    snapshot->index = slot_index_ref(ledger->index);
    snapshot->open = slot_index_ref(ledger->open_index);
    snapshot->context = ledger->context != NULL ? policy_context_ref(ledger->context) : NULL;
    must(snapshot->capacity_generation <= snapshot->generation);
    return snapshot;
}

/*
 * The node with outdated flags; NULL: none. Without an owner, the first duplicate owner in line,
 * which takes over; otherwise an owner whose GPU_CONTESTED flag disagrees with its duplicate
 * owners.
 */
static const struct node *node_of_undecided(const struct ledger *ledger, const struct atom *id)
{
    const uint32_t slot = owner_slot(id);
    const struct duplicate_nodes *duplicate_nodes =
        map_find(&ledger->duplicate_nodes, atom_text(id));

    must(id->len > 0);
    must(duplicate_nodes == NULL || duplicate_nodes->count > 0);
    if (slot == SLOT_NONE)
        return duplicate_nodes == NULL ? NULL : ledger_at(ledger, duplicate_nodes->slot[0]);
    const struct node *owner = ledger_at(ledger, slot);
    for (uint32_t i = 0; i < owner->n_gpus; i++) {
        const struct gpu *gpu = &owner->gpu[i];
        if (gpu->id == id && (gpu->flags & GPU_ABSENT) == 0 &&
            ((gpu->flags & GPU_CONTESTED) != 0) != (duplicate_nodes != NULL))
            return owner;
    }
    return NULL;
}

const struct node *ledger_stale_duplicate(struct ledger *ledger)
{
    must(ledger != NULL);
    must(ledger->n_undecided <= ledger->undecided_capacity);
    /*
     * An id stays on the list until its nodes are right: the answer is the same until a NODE
     * command corrects the node.
     */
    while (ledger->n_undecided > 0) {
        const struct atom *id = ledger->undecided_ids[ledger->n_undecided - 1];
        const struct node *node = node_of_undecided(ledger, id);
        if (node != NULL)
            return node;
        ledger->n_undecided--;
        atom_unref(id);
    }
    return NULL;
}

const struct node *ledger_owner(const struct ledger *ledger, struct text id)
{
    const struct atom *atom = names_find(ledger->names, id);
    const uint32_t slot = atom != NULL ? owner_slot(atom) : SLOT_NONE;
    must(id.len > 0);
    must(slot == SLOT_NONE || slot < ledger->places);
    return slot == SLOT_NONE ? NULL : ledger_at(ledger, slot);
}
