#include <string.h>

#include "core/ledger_inside.h"
#include "core/snapshot_inside.h"

struct totals {
    size_t nodes;
    size_t allocations;
    size_t open;
    size_t owners;
    uint32_t duplicates;
};

static void audit_allocation(const struct ledger *ledger, const struct node *node,
                             const struct allocation *allocation, struct totals *totals)
{
    const struct text uid = text_of(allocation->is.uid);

    allocation_audit(allocation);
    must(uid.len > 0);
    must(allocation->is.node == node->name);
    must(allocation->is.node_uid != NULL);
    must(allocation->is.state != STATE_RELEASED);
    must(allocation->is.origin == ORIGIN_GRANTED || allocation->is.state == STATE_BOUND);
    must(map_find(&ledger->live, uid) == allocation);
    const bool reserved = allocation->is.state == STATE_RESERVED;
    must(map_find(&ledger->open, uid) == (reserved ? allocation : NULL));
    must(reserved || !allocation->is.in_doubt);
    totals->allocations++;
    totals->open += reserved;
}

static void audit_gpu(const struct ledger *ledger, const struct node *node, uint32_t slot,
                      const struct gpu *gpu, struct totals *totals)
{
    must(gpu->milli > 0 && gpu->milli <= GPU_MILLI);
    must((gpu->flags & GPU_ABSENT) == 0 || gpu->charges > 0);
    must(node_gpu(node, atom_text(gpu->id)) == gpu);
    if (gpu->alias != NULL)
        must(node_gpu(node, atom_text(gpu->alias)) == gpu);
    if (node->gone)
        must((gpu->flags & GPU_ABSENT) != 0);

    if ((gpu->flags & GPU_DUPLICATE) != 0) {
        totals->duplicates++;
    } else if (gpu_id_is_real(gpu->id, atom_text(node->name))) {
        must(value_slot(map_find(&ledger->owners, atom_text(gpu->id))) == slot);
        totals->owners++;
    }
}

static void audit_node(const struct ledger *ledger, uint32_t slot, struct totals *totals)
{
    const struct node *node = ledger_at(ledger, slot);
    if (node == NULL) {
        must(slot >= ledger->free_from);
        return;
    }

    node_audit(node);
    must(ledger_slot(ledger, atom_text(node->name)) == slot);
    must(names_find(ledger->names, atom_text(node->name)) == node->name);
    for (uint32_t i = 0; i < node->gpus; i++)
        audit_gpu(ledger, node, slot, &node->gpu[i], totals);
    for (uint32_t i = 0; i < node->allocations; i++) {
        if (i > 0)
            must(strcmp(node->allocation[i - 1]->is.uid, node->allocation[i]->is.uid) < 0);
        audit_allocation(ledger, node, node->allocation[i], totals);
    }
    totals->nodes++;
}

void ledger_audit(const struct ledger *ledger)
{
    must(ledger != NULL);

    struct totals totals = {0};
    for (uint32_t slot = 0; slot < ledger->pages * PAGE_NODES; slot++)
        audit_node(ledger, slot, &totals);
    must(totals.nodes == ledger->slots.count);
    must(totals.allocations == ledger->live.count);
    must(totals.open == ledger->open.count);
    must(totals.owners == ledger->owners.count);
    must(totals.duplicates == ledger->duplicates);
    must(ledger->room <= ledger->generation);
}
