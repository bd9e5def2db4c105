/*
 * Validates rows of a database and restores them into an empty ledger: all nodes, then all
 * allocations. Called by store/copy/verify.c. A database is external input: a contradiction to an
 * invariant is ERR_CORRUPT with the name of the object, never a failed must(). So every
 * precondition of node_new() and ledger_apply() is checked here first.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "ledger_internal.h"

/*
 * A UUID has one owner among all nodes, as a GPU or as a claim; other nodes that show it must be
 * flagged duplicates.
 */
static int ledger_restore_check_gpu(const struct node_build *build, uint32_t i, struct err *err)
{
    const struct gpu *gpu = &build->gpu[i];
    const char *node = build->name->text;

    must(i < build->n_gpus);
    must(gpu->id != NULL);
    must(gpu->model != NULL);
    if (gpu->id->len == 0)
        return err_set(err, ERR_CORRUPT, "node %s: a GPU without an id", node);
    if (gpu->milli == 0 || gpu->milli > GPU_MILLI)
        return err_set(err, ERR_CORRUPT, "node %s: GPU %s has %u milli, not 1 to %d", node,
                       gpu->id->text, gpu->milli, GPU_MILLI);
    if (gpu_alias_is(gpu, build->name, atom_text(gpu->id)))
        return err_set(err, ERR_CORRUPT, "node %s: GPU %s is its own alias", node, gpu->id->text);
    for (uint32_t k = 0; k < i; k++) {
        const struct gpu *other = &build->gpu[k];
        if (other->id == gpu->id || (gpu_has_alias(gpu) && gpu_alias_same(gpu, other)))
            return err_set(err, ERR_CORRUPT, "node %s: GPU %s is there twice", node, gpu->id->text);
    }
    if ((gpu->flags & GPU_DUPLICATE) == 0 && gpu_id_is_real(gpu->id, atom_text(build->name)) &&
        owner_slot(gpu->id) != SLOT_NONE)
        return err_set(err, ERR_CORRUPT, "node %s: GPU %s is another node's already", node,
                       gpu->id->text);
    return 0;
}

/* The store delivers claims in ascending order, so a claim out of order is a repetition. */
static int check_owned_id(const struct node_build *build, uint32_t i, struct err *err)
{
    const struct atom *id = build->owned_id[i];
    const char *node = build->name->text;

    must(i < build->n_owned_ids);
    must(id != NULL);
    if (build->gone || id->len == 0 || !gpu_id_is_real(id, atom_text(build->name)))
        return err_set(err, ERR_CORRUPT, "node %s: it cannot claim GPU %s", node, id->text);
    if (i > 0 && atom_cmp(build->owned_id[i - 1], id) >= 0)
        return err_set(err, ERR_CORRUPT, "node %s: it claims GPU %s twice", node, id->text);
    if (owner_slot(id) != SLOT_NONE)
        return err_set(err, ERR_CORRUPT, "node %s: it claims GPU %s, which is another node's", node,
                       id->text);
    for (uint32_t k = 0; k < build->n_gpus; k++)
        if (build->gpu[k].id == id)
            return err_set(err, ERR_CORRUPT, "node %s: it claims GPU %s, which it has", node,
                           id->text);
    return 0;
}

static int ledger_restore_check_node(const struct ledger *ledger, const struct node_build *build,
                                     struct err *err)
{
    must(build->n_gpus == 0 || build->gpu != NULL);
    must(err != NULL);
    if (build->name->len == 0 || build->name->len > NAME_BYTES_MAX)
        return err_set(err, ERR_CORRUPT, "node: a name of %u bytes, not 1 to %d", build->name->len,
                       NAME_BYTES_MAX);
    if (ledger_node(ledger, atom_text(build->name)) != NULL)
        return err_set(err, ERR_CORRUPT, "node %s: is there twice", build->name->text);
    if (ledger->slots.count >= NODES_MAX)
        return err_set(err, ERR_CORRUPT, "node %s: one more than %d nodes", build->name->text,
                       NODES_MAX);
    for (uint32_t i = 0; i < build->n_gpus; i++) {
        const int failed = ledger_restore_check_gpu(build, i, err);
        if (failed != 0)
            return failed;
    }
    if (build->n_owned_ids > GPUS_PER_NODE_MAX)
        return err_set(err, ERR_CORRUPT, "node %s: it claims more than %d GPUs", build->name->text,
                       GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < build->n_owned_ids; i++) {
        const int failed = check_owned_id(build, i, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

/*
 * Keeps an absent GPU until an allocation charges it, because node_new() drops absent GPUs without
 * charges.
 */
static void keep_gpu(struct ledger *ledger, uint32_t slot, const struct gpu *gpu)
{
    must(ledger->n_kept == 0 || ledger->kept[ledger->n_kept - 1].slot <= slot);
    ledger->kept =
        xgrow(ledger->kept, ledger->n_kept, &ledger->kept_capacity, sizeof *ledger->kept);
    ledger->kept[ledger->n_kept++] = (struct kept_gpu){.slot = slot, .gpu = *gpu};
    must(ledger->n_kept <= ledger->kept_capacity);
}

int ledger_restore_node(struct ledger *ledger, const struct node_build *build, struct err *err)
{
    must(build->name != NULL);
    must(build->uid != NULL);
    must(build->problem_text != NULL);
    must(build->n_allocations == 0);

    const int failed = ledger_restore_check_node(ledger, build, err);
    if (failed != 0)
        return failed;

    struct change change = {.kind = COMMAND_NODE, .verdict = VERDICT_OK};
    change.slot = ledger_free_slot(ledger);
    struct gpu *shown = xcalloc(build->n_gpus + 1, sizeof *shown);
    struct node_build mine = *build;
    mine.n_gpus = 0;
    mine.gpu = shown;
    for (uint32_t i = 0; i < build->n_gpus; i++) {
        if ((build->gpu[i].flags & GPU_ABSENT) != 0)
            keep_gpu(ledger, change.slot, &build->gpu[i]);
        else
            shown[mine.n_gpus++] = build->gpu[i];
    }
    change.node_after = node_new(&mine);
    ledger_put_row(ledger, &change);
    change_done(&change);
    xfree(shown);
    return 0;
}

/* Stricter than allocation_fault(): rejects rows that no command leaves behind. */
static int ledger_restore_check_amounts(const struct allocation_facts *facts, struct err *err)
{
    const char *fault = allocation_fault(facts);
    if (fault != NULL)
        return err_set(err, ERR_CORRUPT, "allocation %s: %s", facts->uid, fault);
    if (facts->origin == ORIGIN_ADOPTED && facts->state != STATE_BOUND)
        return err_set(err, ERR_CORRUPT, "allocation %s: observed, but not bound", facts->uid);
    if (facts->n_shares == 0 && facts->unplaced_milli == 0 && facts->held_gpus == 0)
        return err_set(err, ERR_CORRUPT, "allocation %s: holds nothing", facts->uid);
    for (uint32_t i = 0; i < facts->n_shares; i++)
        if (facts->share[i].milli > GPU_MILLI)
            return err_set(err, ERR_CORRUPT, "allocation %s: a share of %u milli", facts->uid,
                           facts->share[i].milli);
    return 0;
}

/* The node must exist: the store delivers all nodes before the first allocation. */
static int check_allocation(const struct ledger *ledger, const struct allocation_facts *facts,
                            struct err *err)
{
    const size_t bytes = strlen(facts->uid);

    if (bytes == 0 || bytes > UID_BYTES_MAX)
        return err_set(err, ERR_CORRUPT, "allocation: a uid of %zu bytes, not 1 to %d", bytes,
                       UID_BYTES_MAX);
    if (ledger_find(ledger, text_of(facts->uid)) != NULL)
        return err_set(err, ERR_CORRUPT, "allocation %s: is there twice", facts->uid);
    if (facts->state != STATE_RESERVED && facts->state != STATE_BOUND)
        return err_set(err, ERR_CORRUPT, "allocation %s: released, yet among the live ones",
                       facts->uid);
    if (ledger_node(ledger, atom_text(facts->node)) == NULL)
        return err_set(err, ERR_CORRUPT, "allocation %s: node %s is not there", facts->uid,
                       facts->node->text);
    return ledger_restore_check_amounts(facts, err);
}

/* A binary search for the node: after an outage all GPUs of a cluster may be absent. */
static const struct gpu *kept_gpu(const struct ledger *ledger, uint32_t slot,
                                  const struct atom *name)
{
    uint32_t low = 0;
    uint32_t high = ledger->n_kept;

    must(name != NULL);
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (ledger->kept[middle].slot < slot)
            low = middle + 1;
        else
            high = middle;
    }
    must(low <= ledger->n_kept);
    const struct atom *node = ledger_at(ledger, slot)->name;
    for (uint32_t i = low; i < ledger->n_kept && ledger->kept[i].slot == slot; i++) {
        const struct gpu *gpu = &ledger->kept[i].gpu;
        if (gpu->id == name || gpu_alias_is(gpu, node, atom_text(name)))
            return gpu;
    }
    return NULL;
}

static bool ledger_restore_drafted(const struct draft *draft, const struct atom *name)
{
    must(draft->build.name != NULL);
    return gpu_of_charge(draft->gpu, draft->n_gpus, draft->build.name, name) != NULL;
}

/* Adds the kept GPUs that the shares name. False: a GPU is neither shown nor kept. */
static bool bring_gpus(const struct ledger *ledger, const struct allocation_facts *facts,
                       struct draft *draft, struct err *err)
{
    for (uint32_t i = 0; i < facts->n_shares; i++) {
        const struct atom *name = facts->share[i].gpu;
        if (ledger_restore_drafted(draft, name))
            continue;
        const struct gpu *kept = kept_gpu(ledger, draft->slot, name);
        if (kept == NULL) {
            (void)err_set(err, ERR_CORRUPT, "allocation %s: GPU %s is not of node %s", facts->uid,
                          name->text, facts->node->text);
            return false;
        }
        if ((kept->flags & GPU_DUPLICATE) == 0 && owner_slot(kept->id) != SLOT_NONE) {
            (void)err_set(err, ERR_CORRUPT, "node %s: GPU %s is another node's already",
                          facts->node->text, kept->id->text);
            return false;
        }
        draft_absent(draft, kept);
        must(ledger_restore_drafted(draft, name));
    }
    return true;
}

/* Has the node all GPUs of the pod? Nearly always: few are absent. */
static bool has_gpus(const struct node *node, const struct allocation_facts *facts)
{
    must(node->name == facts->node);
    for (uint32_t i = 0; i < facts->n_shares; i++) {
        const struct atom *name = facts->share[i].gpu;
        if (gpu_of_charge(node->gpu, node->n_gpus, node->name, name) == NULL)
            return false;
    }
    return true;
}

/* The node with the allocation, and with the kept GPUs that its shares name; NULL: an error. */
static struct node *with_kept_gpus(const struct ledger *ledger, uint32_t slot,
                                   const struct allocation *allocation, struct err *err)
{
    const struct node *node = ledger_at(ledger, slot);
    struct node *after = NULL;
    struct draft draft;

    must(node != NULL);
    draft_init(&draft, node, slot, allocation->facts.n_shares);
    /* Loading is no change: the node keeps the stored since_ms. */
    if (bring_gpus(ledger, &allocation->facts, &draft, err))
        after = draft_node(&draft, NULL, allocation, node->since_ms);
    draft_done(&draft);
    return after;
}

int ledger_restore(struct ledger *ledger, const struct allocation_facts *facts, struct err *err)
{
    must(facts->uid != NULL);
    must(facts->namespace != NULL);
    must(facts->name != NULL);
    must(facts->node != NULL);
    must(facts->node_uid != NULL);

    const int failed = check_allocation(ledger, facts, err);
    if (failed != 0)
        return failed;

    struct change change = {.kind = COMMAND_ADOPT, .verdict = VERDICT_OK};
    change.slot = ledger_slot(ledger, atom_text(facts->node));
    const struct node *node = ledger_at(ledger, change.slot);
    struct allocation *allocation = allocation_new(facts);
    change.node_after = has_gpus(node, facts)
                            ? node_with(node, NULL, allocation)
                            : with_kept_gpus(ledger, change.slot, allocation, err);
    if (change.node_after == NULL) {
        allocation_unref(allocation);
        return -(int)err->code;
    }
    must(change.node_after->since_ms == node->since_ms);
    must(change.node_after->n_allocations == node->n_allocations + 1);
    change.node_before = node_ref(node);
    change.after = allocation;
    ledger_put_row(ledger, &change);
    change_done(&change);
    return 0;
}
