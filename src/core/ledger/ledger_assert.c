/*
 * Recomputes every invariant of the ledger; the error names the first that is broken. The writer
 * checks a few places at each tick, verifying a file checks all of them; a finding begins safe mode
 * (docs/why/008-safe-mode.md). Each node is first checked by itself with node_check(); the tables
 * are then compared with the nodes, entry by entry and by size.
 */
#include <string.h>

#include "core/node/snapshot_internal.h"
#include "ledger_internal.h"

struct ledger_totals {
    size_t nodes;
    size_t allocations;
    size_t open;
    size_t owners;
    size_t duplicate_nodes;
    uint32_t duplicates;
};

static int ledger_assert_broken(const struct node *node, const char *kind, const char *name,
                                const char *fault, struct err *err)
{
    must(fault != NULL);
    must(node != NULL);
    return err_set(err, ERR_CORRUPT, "node %s: %s %s: %s", node->name->text, kind, name, fault);
}

/* I2: the node and the tables by uid must hold the same object, not an equal one. */
static const char *ledger_assert_broken_allocation(const struct ledger *ledger,
                                                   const struct allocation *allocation)
{
    const struct text uid = text_of(allocation->facts.uid);
    const bool reserved = allocation->facts.state == STATE_RESERVED;

    must(allocation->facts.node_uid != NULL);
    must(ledger->open.count <= ledger->live.count);
    if (allocation->facts.state == STATE_RELEASED)
        return "it is released";
    if (allocation->facts.origin != ORIGIN_GRANTED && reserved)
        return "it is reserved, and nobody granted it";
    if (!reserved && allocation->facts.in_doubt)
        return "it is in doubt, and not reserved";
    if (allocation->facts.state != STATE_BOUND && allocation->facts.listed_unbound)
        return "it is listed unbound, and not bound";
    if (map_find(&ledger->live, uid) != allocation)
        return "the table of live allocations has another for it, or none";
    if (map_find(&ledger->open, uid) != (allocation_is_open(allocation) ? allocation : NULL))
        return "the table of reservations is wrong about it";
    return NULL;
}

static bool is_duplicate_owner(const struct duplicate_nodes *duplicate_nodes, uint32_t slot)
{
    must(duplicate_nodes == NULL || duplicate_nodes->count > 0);
    must(slot != SLOT_NONE);
    for (uint32_t i = 0; duplicate_nodes != NULL && i < duplicate_nodes->count; i++)
        if (duplicate_nodes->slot[i] == slot)
            return true;
    return false;
}

/* A flag without its entry in the tables, or the reverse, would let two nodes grant one UUID. */
static const char *broken_gpu(const struct ledger *ledger, const struct node *node, uint32_t slot,
                              const struct gpu *gpu)
{
    UNSET char buffer[GPU_ALIAS_BYTES];
    const char *alias = gpu_alias(gpu, node->name, buffer);

    must(slot != SLOT_NONE);
    must(gpu->id != NULL);
    must(gpu->model != NULL);
    if (gpu->milli == 0 || gpu->milli > GPU_MILLI)
        return "its size is not 1 to 1000 milli";
    if (node_gpu(node, atom_text(gpu->id)) != gpu ||
        (alias != NULL && node_gpu(node, text_of(alias)) != gpu))
        return "it is not found by its name";
    if ((gpu->flags & GPU_DUPLICATE) == 0 && gpu_id_is_real(gpu->id, atom_text(node->name)) &&
        owner_slot(gpu->id) != slot)
        return "the table of owners has another node for it, or none";
    if ((gpu->flags & (GPU_DUPLICATE | GPU_ABSENT)) == GPU_DUPLICATE &&
        !is_duplicate_owner(map_find(&ledger->duplicate_nodes, atom_text(gpu->id)), slot))
        return "the table of duplicate nodes does not have it";
    return NULL;
}

/*
 * Adds the node's share of the expected table sizes. Each entry that a node needs is checked
 * elsewhere, so equal sizes prove that there are no others.
 */
static void ledger_assert_count(const struct ledger *ledger, const struct node *node,
                                struct ledger_totals *totals)
{
    must(node != NULL);
    must(ledger->names != NULL);
    totals->nodes++;
    totals->allocations += node->n_allocations;
    for (uint32_t i = 0; i < node->n_allocations; i++)
        totals->open += allocation_is_open(node->allocation[i]);
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        const struct gpu *gpu = &node->gpu[i];
        totals->duplicate_nodes += (gpu->flags & (GPU_DUPLICATE | GPU_ABSENT)) == GPU_DUPLICATE;
        if ((gpu->flags & GPU_DUPLICATE) != 0)
            totals->duplicates++;
        else if (gpu_id_is_real(gpu->id, atom_text(node->name)))
            totals->owners++;
    }
    totals->owners += node->n_owned_ids;
}

/* Checks the node itself first: with a broken node every table would seem wrong. */
static int ledger_assert_check_node(const struct ledger *ledger, uint32_t slot,
                                    const struct node *node, struct err *err)
{
    const int failed = node_check(node, err);

    must(slot < ledger->places);
    must(node->name != NULL);
    must(node->uid != NULL);
    must(node->problem_text != NULL);
    if (failed != 0)
        return failed;
    if (value_slot(map_find(&ledger->slots, atom_text(node->name))) != slot ||
        names_find(ledger->names, atom_text(node->name)) != node->name)
        return err_set(err, ERR_CORRUPT, "node %s: it is not found by its name", node->name->text);
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        const char *fault = broken_gpu(ledger, node, slot, &node->gpu[i]);
        if (fault != NULL)
            return ledger_assert_broken(node, "GPU", node->gpu[i].id->text, fault, err);
    }
    for (uint32_t i = 0; i < node->n_owned_ids; i++)
        if (owner_slot(node->owned_id[i]) != slot)
            return ledger_assert_broken(node, "claim", node->owned_id[i]->text,
                                        "the table of owners has another node for it, or none",
                                        err);
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const char *fault = ledger_assert_broken_allocation(ledger, node->allocation[i]);
        if (fault != NULL)
            return ledger_assert_broken(node, "pod", node->allocation[i]->facts.uid, fault, err);
    }
    if (!node_holds_names(node))
        return err_set(err, ERR_CORRUPT, "node %s: it does not hold its names", node->name->text);
    return 0;
}

uint32_t ledger_places(const struct ledger *ledger)
{
    must(ledger != NULL);
    must(ledger->places <= NODES_MAX);
    return ledger->places;
}

int ledger_check_some(const struct ledger *ledger, uint32_t from, uint32_t places, struct err *err)
{
    const uint32_t all = ledger_places(ledger);

    must(err != NULL);
    must(places > 0);
    for (uint32_t slot = from; slot < all && slot - from < places; slot++) {
        const struct node *node = ledger_at(ledger, slot);
        const int failed = node == NULL ? 0 : ledger_assert_check_node(ledger, slot, node, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

/* For comparison with the shown duplicates: absent ones are not in line. */
static size_t count_duplicate_owners(const struct ledger *ledger)
{
    const struct duplicate_nodes *duplicate_nodes;
    size_t count = 0;

    for (size_t at = 0; (duplicate_nodes = map_next(&ledger->duplicate_nodes, &at)) != NULL;)
        count += duplicate_nodes->count;
    must(count >= ledger->duplicate_nodes.count);
    must(ledger->duplicate_nodes.count <= NODES_MAX * (size_t)GPUS_PER_NODE_MAX);
    return count;
}

/* A pass over all nodes, so only for ledger_check(), not for the writer's tick. */
static int check_totals(const struct ledger *ledger, struct err *err)
{
    struct ledger_totals totals = {0};
    const struct node *node;
    size_t at = 0;

    must(err != NULL);
    must(ledger->generation >= ledger->capacity_generation);
    while ((node = ledger_next_node(ledger, &at)) != NULL)
        ledger_assert_count(ledger, node, &totals);
    const struct {
        size_t is;
        size_t should;
        const char *what;
    } all[] = {
        {ledger->slots.count, totals.nodes, "nodes"},
        {ledger->n_free_slots, ledger->places - totals.nodes, "free places"},
        {ledger->live.count, totals.allocations, "allocations"},
        {ledger->open.count, totals.open, "reservations"},
        {ledger->n_owners, totals.owners, "GPUs with an owner"},
        {ledger->duplicates, totals.duplicates, "duplicate GPUs"},
        {count_duplicate_owners(ledger), totals.duplicate_nodes, "shown duplicates"},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].is != all[i].should)
            return err_set(err, ERR_CORRUPT, "the ledger counts %zu %s where there are %zu",
                           all[i].is, all[i].what, all[i].should);
    return 0;
}

/* Compares the idle host counts of rules with the nodes. */
static int check_idle(const struct ledger *ledger, struct err *err)
{
    uint32_t idle[RULES_MAX] = {0};
    const struct node *node;
    size_t at = 0;

    must(err != NULL);
    if (ledger->reserving == 0)
        return 0;
    must(ledger->context != NULL && ledger->context->rulebook != NULL);
    while ((node = ledger_next_node(ledger, &at)) != NULL)
        for (uint32_t i = 0; node_is_idle(node) && i < RULES_MAX; i++)
            idle[i] += (node->rules & ledger->reserving & one_rule(i)) != 0;
    for (uint32_t i = 0; i < RULES_MAX; i++)
        if (idle[i] != ledger->context->idle[i])
            return err_set(err, ERR_CORRUPT,
                           "the ledger counts %u idle hosts of rule %u where there are %u",
                           ledger->context->idle[i], i + 1, idle[i]);
    return 0;
}

int ledger_check(const struct ledger *ledger, struct err *err)
{
    must(ledger != NULL);
    must(err != NULL);
    const uint32_t places = ledger_places(ledger);
    const int failed = places == 0 ? 0 : ledger_check_some(ledger, 0, places, err);
    if (failed != 0)
        return failed;
    return check_totals(ledger, err) != 0 ? err_same(err) : check_idle(ledger, err);
}
