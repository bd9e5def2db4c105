/*
 * Drafts the next version of a node: inventory, absent GPUs, owners of UUIDs. Called by decide,
 * adopt and restore; a draft that is not applied leaves no trace except interned names, until a
 * sweep. The difficulty is identity: pods hold GPUs by UUID or by made-up id
 * ("<node>/gpu-<index>"), and meanwhile a node may change from UUIDs to counts and back, or
 * renumber its GPUs at a reboot. A charge must follow its physical GPU; if that is uncertain, the
 * GPU takes no new shares. Order: draft_init(), draft_inventory() or draft_forget_gpus(),
 * draft_assign_owner(), draft_node().
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "ledger_internal.h"

void draft_init(struct draft *draft, const struct node *old, uint32_t slot, uint32_t more)
{
    must(slot != SLOT_NONE);
    must(slot < NODES_MAX);
    must(old == NULL || old->name != NULL);

    *draft = (struct draft){.slot = slot, .old = old};
    draft->build.gone = true;
    draft->capacity = more + (old != NULL ? old->n_gpus : 0);
    draft->gpu = draft->few;
    if (draft->capacity > DRAFT_GPUS_FEW)
        draft->gpu = xcalloc(draft->capacity, sizeof *draft->gpu);
    if (old == NULL)
        return;

    for (uint32_t i = 0; i < old->n_gpus; i++)
        draft->gpu[draft->n_gpus++] = old->gpu[i];
    draft->build = (struct node_build){
        .name = old->name,
        .uid = old->uid,
        .source = old->source,
        .problem = old->problem,
        .problem_text = old->problem_text,
        .gone = old->gone,
        .agent = old->agent,
        .plugin = old->plugin,
        .vouch = old->vouch,
        .vouch_ms = old->vouch_ms,
        .n_notes = old->n_notes,
        .note = old->note,
        .host_known = old->host_known,
        .host = old->host,
        .labels = old->labels,
        .taints = old->taints,
        .unusable = old->unusable,
        .rules = old->rules,
        .since_ms = old->since_ms,
        .names = old->names,
    };
    must(draft->n_gpus <= draft->capacity);
}

void draft_done(struct draft *draft)
{
    must(draft->n_gpus <= draft->capacity);
    must(draft->build.allocation == NULL);
    if (draft->gpu != draft->few)
        xfree(draft->gpu);
    draft->gpu = NULL;
    labels_unref(draft->labels);
    draft->labels = NULL;
    taints_unref(draft->taints);
    draft->taints = NULL;
}

static void ledger_draft_add_gpu(struct draft *draft, const struct gpu *gpu)
{
    must(draft->n_gpus < draft->capacity);
    must(gpu->milli > 0);
    must(gpu->milli <= GPU_MILLI);
    must(gpu->id->len > 0);
    must(!gpu_alias_is(gpu, draft->build.name, atom_text(gpu->id)));
    must(gpu->alias == NULL || gpu->alias_number == 0);
    draft->gpu[draft->n_gpus++] = *gpu;
}

/* Marks every GPU absent; node_new() keeps those with charges. */
void draft_forget_gpus(struct draft *draft)
{
    must(draft->old != NULL);
    must(draft->n_gpus == draft->old->n_gpus);

    for (uint32_t i = 0; i < draft->n_gpus; i++) {
        draft->gpu[i].flags &= GPU_DUPLICATE;
        draft->gpu[i].flags |= GPU_ABSENT;
        draft->gpu[i].peers = 0; /* as in keep_absent(): positions change */
    }
}

static bool ledger_draft_charge_by(const struct allocation *const *allocation, uint32_t allocations,
                                   const struct atom *id)
{
    must(allocations == 0 || allocation != NULL);
    must(id != NULL);

    for (uint32_t i = 0; i < allocations; i++)
        for (uint32_t k = 0; k < allocation[i]->n_charges; k++)
            if (allocation_charge(allocation[i], k).gpu == id)
                return true;
    return false;
}

/* Is there a charge under this name? gpu->charges counts both names of a GPU. */
static bool charged_by_id(const struct node *node, const struct atom *id)
{
    must(node != NULL);
    must(id->len > 0);
    return ledger_draft_charge_by(node->allocation, node->n_allocations, id);
}

/* Is one of these charges under the alias of this GPU of the node? */
static bool charge_by_alias(const struct allocation *const *allocation, uint32_t allocations,
                            const struct atom *node, const struct gpu *gpu)
{
    must(allocations == 0 || allocation != NULL);
    must(gpu->id != gpu->alias);

    if (!gpu_has_alias(gpu))
        return false;
    for (uint32_t i = 0; i < allocations; i++)
        for (uint32_t k = 0; k < allocation[i]->n_charges; k++)
            if (gpu_alias_is(gpu, node, atom_text(allocation_charge(allocation[i], k).gpu)))
                return true;
    return false;
}

/* As charged_by_id(), with the second name of a GPU; false: it has none. */
static bool charged_by_alias(const struct node *node, const struct gpu *gpu)
{
    must(node->name != NULL);
    return charge_by_alias(node->allocation, node->n_allocations, node->name, gpu);
}

static bool ledger_draft_shows(const struct inventory *inventory, struct text id)
{
    must(id.len > 0);
    must(inventory->n_gpus <= GPUS_PER_NODE_MAX);

    for (uint32_t i = 0; i < inventory->n_gpus; i++)
        if (text_is(id, inventory->gpu[i].id))
            return true;
    return false;
}

/* Does a pod on the node hold this GPU, by its id or its alias? */
static bool ledger_draft_charged(const struct node *node, const struct gpu *gpu)
{
    must(gpu->id != NULL);
    must(gpu->id != gpu->alias);
    return charged_by_id(node, gpu->id) || charged_by_alias(node, gpu);
}

/*
 * The reverse of an alias: counts have replaced UUIDs (after an uninstall of the node side, say),
 * and pods hold the GPU. It keeps its UUID, or the same GPU could be granted twice: now, or when
 * the UUIDs come back at other indexes.
 */
static const struct gpu *known_by_uuid(const struct draft *draft, const struct inventory *inventory,
                                       const struct gpu_facts *facts)
{
    const struct node *old = draft->old;

    must(facts->id != NULL);
    must(facts >= inventory->gpu && facts < inventory->gpu + inventory->n_gpus);
    if (old == NULL || facts->alias != NULL)
        return NULL;
    for (uint32_t i = 0; i < old->n_gpus; i++) {
        const struct gpu *gpu = &old->gpu[i];
        const bool absent = (gpu->flags & GPU_ABSENT) != 0;
        const bool by_name = gpu_alias_is(gpu, old->name, text_of(facts->id));
        if ((draft->moved ? !absent && gpu->index == facts->index
                          : by_name && ledger_draft_charged(old, gpu)) &&
            gpu_id_is_real(gpu->id, atom_text(old->name)) &&
            !ledger_draft_shows(inventory, atom_text(gpu->id)))
            return gpu;
    }
    return NULL;
}

/* A made-up id that a pod holds stays with the GPU when indexes move. */
static bool keeps_alias(const struct node *old, const struct inventory *inventory,
                        const struct gpu *gpu)
{
    UNSET char alias[GPU_ALIAS_BYTES];

    must(gpu >= old->gpu && gpu < old->gpu + old->n_gpus);
    must(gpu->alias != gpu->id);
    return charged_by_alias(old, gpu) &&
           !ledger_draft_shows(inventory, text_of(gpu_alias(gpu, old->name, alias)));
}

/*
 * Gives this GPU its made-up id: by default that of its index, unless another GPU is known to have
 * had it.
 */
static void give_alias(const struct draft *draft, const struct inventory *inventory,
                       const char *proposed, struct names *names, struct gpu *gpu)
{
    const struct node *old = draft->old;

    must(proposed != NULL);
    must(!text_is(atom_text(gpu->id), proposed));
    for (uint32_t i = 0; old != NULL && i < old->n_gpus; i++)
        if (old->gpu[i].id == gpu->id && (draft->moved ? gpu_has_alias(&old->gpu[i])
                                                       : keeps_alias(old, inventory, &old->gpu[i])))
            gpu_copy_alias(gpu, &old->gpu[i]);
    if (!draft->moved && !gpu_has_alias(gpu))
        gpu_set_alias(gpu, draft->build.name, text_of(proposed), names);
}

/* Only GPUs with a UUID as id have an alias. An inventory without GPUs counts as one of counts. */
static bool shows_counts(const struct inventory *inventory)
{
    must(inventory->n_gpus <= GPUS_PER_NODE_MAX);
    must(inventory->n_gpus == 0 || inventory->gpu != NULL);
    for (uint32_t i = 0; i < inventory->n_gpus; i++)
        if (inventory->gpu[i].alias != NULL)
            return false;
    return true;
}

/* Does the made-up id at this index refer to another GPU? */
static bool another_there(const struct node *old, const struct gpu *gpu, uint32_t index)
{
    must(gpu >= old->gpu && gpu < old->gpu + old->n_gpus);
    must(index <= UINT16_MAX);
    for (uint32_t i = 0; i < old->n_gpus; i++)
        if ((old->gpu[i].flags & GPU_ABSENT) == 0 && old->gpu[i].index == index)
            return &old->gpu[i] != gpu;
    return gpu->index != index;
}

/* Does the inventory contradict the known index of this GPU, which a pod holds? */
static bool ledger_draft_contradicts(const struct node *old, const struct inventory *inventory,
                                     const struct gpu *gpu)
{
    const bool counts = shows_counts(inventory);

    must(inventory->node != NULL);
    must(gpu >= old->gpu && gpu < old->gpu + old->n_gpus);
    if (!charged_by_alias(old, gpu) || (!counts && !keeps_alias(old, inventory, gpu)))
        return false;
    for (uint32_t i = 0; i < inventory->n_gpus; i++) {
        const struct gpu_facts *facts = &inventory->gpu[i];
        const char *name = facts->alias != NULL ? facts->alias : facts->id;
        must(name != NULL);
        const bool its_index = gpu_alias_is(gpu, old->name, text_of(name));
        if (facts->alias != NULL && text_is(atom_text(gpu->id), facts->id) != its_index)
            return true;
        if (counts && its_index && another_there(old, gpu, facts->index))
            return true;
    }
    return false;
}

/* Does the alias of this GPU differ from its index, or is there none? */
static bool out_of_place(const struct gpu *gpu)
{
    must(gpu->id != gpu->alias);
    must(gpu->alias == NULL || gpu->alias_number == 0);
    return gpu->alias_number != gpu->index + 1U;
}

/*
 * Have indexes moved (after a reboot) while pods hold GPUs by index? Remains true as long as a pod
 * holds an index without a GPU.
 */
static bool indexes_moved(const struct node *old, const struct inventory *inventory)
{
    bool stray = false;
    bool out = false;

    must(inventory->n_gpus <= GPUS_PER_NODE_MAX);
    must(old == NULL || old->name != NULL);
    for (uint32_t i = 0; old != NULL && i < old->n_gpus; i++) {
        const struct gpu *gpu = &old->gpu[i];
        const bool absent = (gpu->flags & GPU_ABSENT) != 0;
        const bool real = gpu_id_is_real(gpu->id, atom_text(old->name));
        if (real && ledger_draft_contradicts(old, inventory, gpu))
            return true;
        stray = stray || (absent && !real);
        out = out || (!absent && real && out_of_place(gpu));
    }
    return stray && out;
}

/*
 * Gives a GPU with a made-up id the UUID under which a pod holds it. If only annotations mention
 * the UUID (the ledger was lost, and UUIDs are no longer shown), it is found by their index.
 */
static void give_uuid(const struct node *old, const struct inventory *inventory,
                      struct names *names, struct gpu *gpu)
{
    must(gpu->id != NULL);
    must(!gpu_has_alias(gpu));

    for (uint32_t i = 0; old != NULL && i < old->n_gpus; i++)
        if (old->gpu[i].id == gpu->id && keeps_alias(old, inventory, &old->gpu[i]))
            gpu_copy_alias(gpu, &old->gpu[i]);
    for (uint32_t i = 0; old != NULL && !gpu_has_alias(gpu) && i < old->n_gpus; i++) {
        const struct gpu *held = &old->gpu[i];
        if (held->index == gpu->index && (held->flags & GPU_DUPLICATE) != 0 &&
            !gpu_has_alias(held) && charged_by_id(old, held->id))
            gpu_set_alias(gpu, old->name, atom_text(held->id), names);
    }
}

/*
 * Gives a shown GPU its two names. While the node shows UUIDs, the made-up id is the alias; while
 * it shows counts, the GPU keeps a UUID under which pods hold it.
 */
static struct gpu shown_gpu(const struct draft *draft, struct ledger *ledger,
                            const struct inventory *inventory, const struct gpu_facts *facts)
{
    const struct gpu *known = known_by_uuid(draft, inventory, facts);
    struct gpu gpu = {
        .id = known != NULL ? known->id : names_intern(ledger->names, text_of(facts->id)),
        .model = names_intern(ledger->names, text_of(facts->model)),
        .milli = facts->milli,
        .mib = facts->mib,
        .index = (uint16_t)facts->index,
        .numa = (int16_t)facts->numa,
        .peers = facts->peers, /* positions in the inventory, whose GPUs come first in the draft */
    };
    if (facts->alias != NULL)
        give_alias(draft, inventory, facts->alias, ledger->names, &gpu);
    else if (known != NULL) /* which is this id, if no index moved */
        gpu_copy_alias(&gpu, known);
    else if (shows_counts(inventory))
        give_uuid(draft->old, inventory, ledger->names, &gpu);
    must(gpu.index == facts->index);
    must(gpu.numa == facts->numa);
    if (!facts->healthy)
        gpu.flags |= GPU_UNHEALTHY;
    if (facts->cordoned)
        gpu.flags |= GPU_CORDONED;
    return gpu;
}

/* The Node object says nothing about its GPUs: they stay, and take no new shares. */
static void keep_closed(struct draft *draft, const struct node *old)
{
    must(draft->n_gpus == 0);
    must(old->n_gpus <= draft->capacity);

    for (uint32_t i = 0; i < old->n_gpus; i++) {
        struct gpu gpu = old->gpu[i];
        if ((gpu.flags & GPU_ABSENT) == 0) /* absent GPUs take no shares anyway */
            gpu.flags |= GPU_CORDONED;
        ledger_draft_add_gpu(draft, &gpu);
    }
}

/* Does any of the first GPUs of the draft go by the alias of this one? */
static bool alias_is_taken(const struct draft *draft, uint32_t gpus, const struct gpu *gpu)
{
    UNSET char alias[GPU_ALIAS_BYTES];

    must(gpus <= draft->n_gpus);
    must(gpu_has_alias(gpu));
    return gpu_of_text(draft->gpu, gpus, draft->build.name,
                       text_of(gpu_alias(gpu, draft->build.name, alias))) != NULL;
}

/* Present, but not under the UUID that a pod holds: this is its name now. */
static void go_by_alias(struct gpu *gpu, const struct atom *node, struct names *names)
{
    UNSET char alias[GPU_ALIAS_BYTES];

    must(gpu_has_alias(gpu));
    gpu->id = names_intern(names, text_of(gpu_alias(gpu, node, alias)));
    gpu_drop_alias(gpu);
    gpu->flags = GPU_DUPLICATE;
    must(gpu->id->len > 0);
}

/* Carries over GPUs that the new inventory lacks as absent. */
static void keep_absent(struct draft *draft, struct names *names, const struct inventory *inventory,
                        const struct node *old, uint32_t shown)
{
    must(shown == draft->n_gpus);
    must(shown + old->n_gpus <= draft->capacity);

    for (uint32_t i = 0; i < old->n_gpus; i++) {
        struct gpu gpu = old->gpu[i];
        if (gpu_of_charge(draft->gpu, shown, old->name, gpu.id) != NULL) {
            if (!keeps_alias(old, inventory, &old->gpu[i]) ||
                alias_is_taken(draft, draft->n_gpus, &gpu))
                continue;
            go_by_alias(&gpu, old->name, names);
        }
        gpu.flags &= GPU_DUPLICATE;
        gpu.flags |= GPU_ABSENT;
        gpu.peers = 0; /* links of an absent GPU are unknown */
        /* A name refers to one GPU: the one that is present. */
        if (gpu_has_alias(&gpu) && alias_is_taken(draft, shown, &gpu))
            gpu_drop_alias(&gpu);
        ledger_draft_add_gpu(draft, &gpu);
    }
}

/* Labels of Nodes without GPUs are not kept. */
static void show_labels(struct draft *draft, struct ledger *ledger,
                        const struct inventory *inventory)
{
    const struct rulebook *book = ledger->context != NULL ? ledger->context->rulebook : NULL;
    const bool counts = inventory->n_gpus > 0 || inventory->silent;

    must(draft->labels == NULL);
    must(inventory->n_labels == 0 || inventory->label != NULL);
    draft->labels =
        counts ? labels_new(inventory->label, inventory->n_labels, ledger->names) : NULL;
    /* Shares the former version's object if equal. */
    if (draft->old != NULL && labels_eq(draft->labels, draft->old->labels)) {
        labels_unref(draft->labels);
        draft->labels = labels_ref(draft->old->labels);
    }
    draft->build.labels = draft->labels;
    draft->build.rules = rulebook_of_node(book, draft->labels);
}

/* Sets the taints. Whether they make the node unusable depends on the tolerations of known pods. */
static void show_taints(struct draft *draft, const struct ledger *ledger,
                        const struct inventory *inventory)
{
    must(draft->taints == NULL);
    must(inventory->taints.n_taints == 0 || inventory->taints.taint != NULL);
    draft->taints = taints_new(&inventory->taints);
    /* Shares the former version's object if equal; decide compares pointers. */
    if (draft->old != NULL && taints_eq(draft->taints, draft->old->taints)) {
        taints_unref(draft->taints);
        draft->taints = taints_ref(draft->old->taints);
    }
    draft->build.taints = draft->taints;
    draft->build.unusable =
        taints_close(draft->taints != NULL ? &draft->taints->facts : NULL, ledger->tolerations);
}

/* Borrows the texts of facts. */
static void draft_note(struct draft *draft, const struct atom *gpu, const struct gpu_facts *facts)
{
    must(gpu != NULL);
    must(draft->build.n_notes < GPUS_PER_NODE_MAX);
    if (facts->held == NULL && facts->ill == NULL)
        return;
    draft->build.note = draft->note;
    draft->note[draft->build.n_notes++] = (struct gpu_note){gpu, facts->held, facts->ill};
}

/* A silent inventory says nothing about the plugin either. */
static void draft_plugin(struct draft *draft, const struct inventory *inventory)
{
    const struct node *old = draft->old;
    const bool same = old != NULL && !draft->another;

    must(!inventory->silent || inventory->plugin.state == PLUGIN_NONE);
    if (inventory->silent && same)
        return;
    draft->build.plugin = plugin_judged(&inventory->plugin, same ? old->plugin.state : PLUGIN_NONE);
    must(draft->build.plugin.state != PLUGIN_ZERO);
}

void draft_inventory(struct draft *draft, struct ledger *ledger, const struct inventory *inventory)
{
    const struct node *old = draft->old;
    struct node_build *build = &draft->build;

    must(inventory->n_gpus <= GPUS_PER_NODE_MAX);
    must(inventory->n_gpus + (old != NULL ? old->n_gpus : 0) <= draft->capacity);

    build->name = names_intern(ledger->names, text_of(inventory->node));
    must(old == NULL || old->name == build->name);
    build->uid = names_intern(ledger->names, text_of(inventory->uid));
    draft->another = old != NULL && old->uid != build->uid;
    build->source = inventory->source;
    build->problem = inventory->problem;
    build->problem_text = names_intern(ledger->names, text_of(inventory->problem_text));
    build->gone = false;
    build->agent = inventory->agent;
    draft_plugin(draft, inventory);
    show_labels(draft, ledger, inventory);
    show_taints(draft, ledger, inventory);
    if (!inventory->silent)
        build->n_notes = 0; /* a silent inventory keeps the notes, like the GPUs */
    draft->n_gpus = 0;
    /* Before any GPU is added: it decides the meaning of indexes. */
    draft->moved = indexes_moved(old, inventory);
    const bool counts = shows_counts(inventory);
    for (uint32_t i = 0; i < inventory->n_gpus; i++) {
        const struct gpu_facts *facts = &inventory->gpu[i];
        /* An additional GPU: it may be any of the absent ones. */
        if (draft->moved && counts && known_by_uuid(draft, inventory, facts) == NULL)
            continue;
        struct gpu gpu = shown_gpu(draft, ledger, inventory, facts);
        if (draft->moved && counts)
            gpu.peers = 0; /* GPUs are skipped, so positions differ */
        ledger_draft_add_gpu(draft, &gpu);
        draft_note(draft, gpu.id, facts);
    }
    if (old != NULL && inventory->silent)
        keep_closed(draft, old);
    else if (old != NULL)
        keep_absent(draft, ledger->names, inventory, old, draft->n_gpus);
    must(draft->n_gpus >= inventory->n_gpus || draft->moved);
    must(build->problem == PROBLEM_NONE || inventory->n_gpus == 0);
}

/*
 * The owner flags of a shown GPU. Made-up ids contain the name of their node and cannot collide. A
 * UUID in first_owner belongs to that node, unless a pod holds it here.
 */
static unsigned ledger_draft_owned_id(const struct draft *draft, const struct ledger *ledger,
                                      const struct gpu *gpu, const struct inventory *first_owner)
{
    const struct text id = atom_text(gpu->id);

    must(draft->build.name != NULL);
    if (!gpu_id_is_real(gpu->id, atom_text(draft->build.name)))
        return 0;
    const uint32_t owner = owner_slot(gpu->id);
    must(owner == SLOT_NONE || owner < ledger->places);
    if (owner != SLOT_NONE && owner != draft->slot)
        return GPU_DUPLICATE;
    if (first_owner != NULL && ledger_draft_shows(first_owner, id) &&
        (draft->old == NULL || !ledger_draft_charged(draft->old, gpu)))
        return GPU_DUPLICATE;
    const struct duplicate_nodes *duplicate_nodes = map_find(&ledger->duplicate_nodes, id);
    /* this node itself may have been absent until now */
    return duplicate_nodes != NULL &&
                   (duplicate_nodes->count > 1 || duplicate_nodes->slot[0] != draft->slot)
               ? GPU_CONTESTED
               : 0;
}

void draft_assign_owner(struct draft *draft, const struct ledger *ledger,
                        const struct inventory *first_owner)
{
    must(draft->slot <= ledger->places);
    must(draft->n_gpus <= draft->capacity);

    for (uint32_t i = 0; i < draft->n_gpus; i++) {
        struct gpu *gpu = &draft->gpu[i];
        const unsigned kept = gpu->flags & ~(unsigned)(GPU_DUPLICATE | GPU_CONTESTED);
        /* Absent GPUs keep their owner. */
        if ((gpu->flags & GPU_ABSENT) == 0)
            gpu->flags = (uint16_t)(kept | ledger_draft_owned_id(draft, ledger, gpu, first_owner));
    }
    draft->first_owner = first_owner;
}

void draft_vouch(struct draft *draft, enum vouch vouch, int64_t at_ms)
{
    struct node_build *build = &draft->build;

    must((unsigned)vouch < VOUCHES);
    must(!build->gone || vouch == VOUCH_NONE);
    if (build->vouch == vouch)
        return;
    build->vouch = vouch;
    build->vouch_ms = at_ms;
}

void draft_absent(struct draft *draft, const struct gpu *gpu)
{
    must(gpu_of_charge(draft->gpu, draft->n_gpus, draft->build.name, gpu->id) == NULL);

    struct gpu absent = *gpu;
    absent.flags = GPU_ABSENT | (gpu->flags & GPU_DUPLICATE);
    ledger_draft_add_gpu(draft, &absent);
    must((absent.flags & GPU_ABSENT) != 0);
}

/*
 * Merges the allocations, borrowed from old: node_new() takes its own references. Aborts if before
 * is missing.
 */
static uint32_t ledger_draft_merge(const struct node *old, const struct allocation *before,
                                   const struct allocation *after, const struct allocation **out)
{
    uint32_t count = 0;
    bool left = before == NULL;

    for (uint32_t i = 0; old != NULL && i < old->n_allocations; i++) {
        left = left || old->allocation[i] == before;
        if (old->allocation[i] != before)
            out[count++] = old->allocation[i];
    }
    must(left);
    must(count <= (old != NULL ? old->n_allocations : 0));
    if (after != NULL)
        out[count++] = after;
    return count;
}

/*
 * Clears aliases without charges: the UUID of a made-up GPU is known from pods only, and goes with
 * the last pod that holds it. The next inventory would do the same (give_uuid()), too late.
 */
static void forget_uuids(struct draft *draft)
{
    const struct node_build *build = &draft->build;

    must(build->name != NULL);
    must(draft->n_gpus <= draft->capacity);
    for (uint32_t i = 0; i < draft->n_gpus; i++) {
        struct gpu *gpu = &draft->gpu[i];
        if (gpu_has_alias(gpu) && !gpu_id_is_real(gpu->id, atom_text(build->name)) &&
            !charge_by_alias(build->allocation, build->n_allocations, build->name, gpu))
            gpu_drop_alias(gpu);
    }
}

/* Inserts id in sorted order, unless present. */
static uint32_t add_owned_id(const struct atom **owned_id, uint32_t owned_ids,
                             const struct atom *id)
{
    uint32_t at = owned_ids;

    must(id != NULL);
    must(owned_id != NULL);
    while (at > 0 && atom_cmp(owned_id[at - 1], id) > 0)
        at--;
    if (at > 0 && owned_id[at - 1] == id)
        return owned_ids;
    memmove(&owned_id[at + 1], &owned_id[at], (owned_ids - at) * sizeof(struct atom *));
    owned_id[at] = id;
    return owned_ids + 1;
}

/* Was this pod the only reason to keep the GPU, and did the former Node show it? */
static bool left_with(const struct draft *draft, const struct allocation *before,
                      const struct gpu *gpu)
{
    must(gpu->id != NULL);
    must((gpu->flags & GPU_ABSENT) != 0);
    if (before == NULL || before->facts.node_uid == draft->build.uid)
        return false;
    for (uint32_t i = 0; i < before->n_charges; i++)
        if (allocation_charge(before, i).gpu == gpu->id ||
            gpu_alias_is(gpu, draft->build.name, atom_text(allocation_charge(before, i).gpu)))
            return true;
    return false;
}

/*
 * Collects the claims. A UUID that this Node showed first stays its own while the Node exists,
 * shown or not: an annotation that is unreadable for a moment gives no GPU away. A charged one
 * becomes an absent GPU.
 */
static uint32_t ledger_draft_remember(const struct draft *draft, const struct allocation *before,
                                      const struct atom **out)
{
    const struct node *old = draft->old;
    uint32_t owned_ids = 0;

    must(old == NULL || old->n_owned_ids <= GPUS_PER_NODE_MAX);
    if (old == NULL || draft->build.gone || draft->another)
        return 0;
    for (uint32_t i = 0; i < old->n_owned_ids; i++)
        if (draft->first_owner == NULL ||
            !ledger_draft_shows(draft->first_owner, atom_text(old->owned_id[i])))
            owned_ids = add_owned_id(out, owned_ids, old->owned_id[i]);
    for (uint32_t i = 0; i < draft->n_gpus; i++) {
        const struct gpu *gpu = &draft->gpu[i];
        if ((gpu->flags & (GPU_ABSENT | GPU_DUPLICATE)) == GPU_ABSENT &&
            gpu_id_is_real(gpu->id, atom_text(draft->build.name)) && !left_with(draft, before, gpu))
            owned_ids = add_owned_id(out, owned_ids, gpu->id);
    }
    must(owned_ids <= old->n_owned_ids + draft->n_gpus);
    return owned_ids;
}

/* Ignores charges, which no NODE command changes. */
static bool gpu_alike(const struct gpu *a, const struct gpu *b)
{
    must(a->id != NULL);
    must(b->id != NULL);
    return a->id == b->id && gpu_alias_same(a, b) && a->model == b->model && a->milli == b->milli &&
           a->mib == b->mib && a->index == b->index && a->numa == b->numa && a->peers == b->peers &&
           ((a->flags ^ b->flags) & ~(unsigned)GPU_HELD) == 0;
}

static bool is_same_text(const char *a, const char *b)
{
    must(a == NULL || a[0] != '\0');
    must(b == NULL || b[0] != '\0');
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool node_notes_alike(const struct node *a, const struct node *b)
{
    must(a->n_notes <= a->n_gpus);
    must(b->n_notes <= b->n_gpus);
    if (a->n_notes != b->n_notes)
        return false;
    for (uint32_t i = 0; i < a->n_notes; i++)
        if (a->note[i].gpu != b->note[i].gpu || !is_same_text(a->note[i].held, b->note[i].held) ||
            !is_same_text(a->note[i].ill, b->note[i].ill))
            return false;
    return true;
}

bool node_plugins_alike(const struct node *a, const struct node *b)
{
    must(a != b);
    must(a->name == b->name);
    return a->plugin.state == b->plugin.state && a->plugin.offered == b->plugin.offered &&
           a->plugin.healthy == b->plugin.healthy;
}

bool node_alike(const struct node *a, const struct node *b)
{
    must(a != NULL);
    must(b != NULL);

    if (a->name != b->name || a->uid != b->uid || a->source != b->source ||
        a->problem != b->problem || a->problem_text != b->problem_text || a->gone != b->gone ||
        a->n_gpus != b->n_gpus || a->n_owned_ids != b->n_owned_ids)
        return false;
    for (uint32_t i = 0; i < a->n_gpus; i++)
        if (!gpu_alike(&a->gpu[i], &b->gpu[i]))
            return false;
    for (uint32_t i = 0; i < a->n_owned_ids; i++)
        if (a->owned_id[i] != b->owned_id[i])
            return false;
    return true;
}

/* Are problem, gone and the stored flags equal, so that since_ms stays? */
static bool same_trouble(const struct node *a, const struct node *b)
{
    must(a->name == b->name);
    must(a != b);

    if (a->problem != b->problem || a->gone != b->gone || a->n_gpus != b->n_gpus ||
        (a->problem_text->len > 0) != (b->problem_text->len > 0))
        return false;
    for (uint32_t i = 0; i < a->n_gpus; i++)
        if (a->gpu[i].id != b->gpu[i].id ||
            ((a->gpu[i].flags ^ b->gpu[i].flags) & ~(unsigned)(GPU_CONTESTED | GPU_HELD)) != 0)
            return false;
    return true;
}

struct node *draft_node(struct draft *draft, const struct allocation *before,
                        const struct allocation *after, int64_t at_ms)
{
    const struct node *old = draft->old;
    struct node_build *build = &draft->build;
    const uint32_t most = (old != NULL ? old->n_allocations : 0) + 1;

    must(build->name != NULL);
    must(build->uid != NULL);
    must(build->problem_text != NULL);
    must(before == NULL || after == NULL || strcmp(before->facts.uid, after->facts.uid) == 0);
    const struct allocation **list = xcalloc(most, sizeof(struct allocation *));
    build->n_allocations = ledger_draft_merge(old, before, after, list);
    build->allocation = list;
    must(build->n_allocations <= most);
    if (before != NULL) /* otherwise it may be the first pod that is restored */
        forget_uuids(draft);
    build->n_gpus = draft->n_gpus;
    build->gpu = draft->gpu;
    /* Worst case: every former claim stays, and every GPU becomes one. */
    const uint32_t owned_ids_most = (old != NULL ? old->n_owned_ids : 0) + draft->n_gpus + 1;
    const struct atom **owned_id = xcalloc(owned_ids_most, sizeof(struct atom *));
    build->n_owned_ids = ledger_draft_remember(draft, before, owned_id);
    build->owned_id = owned_id;

    struct node *node = NULL;
    if (!build->gone || build->n_allocations > 0) {
        node = node_new(build);
        must(node->n_allocations == build->n_allocations);
        node->since_ms = old != NULL && same_trouble(old, node) ? old->since_ms : at_ms;
    }
    build->allocation = NULL;
    build->owned_id = NULL;
    xfree(list);
    xfree(owned_id);
    return node;
}
