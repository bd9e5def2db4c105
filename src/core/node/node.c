/*
 * Recomputes a node from its inventory and its allocations, and finds why a GPU or a node takes no
 * shares. Called by the ledger's drafts in the writer's thread, and by placement and REST in HTTP
 * threads; stateless. A node is immutable after node_assemble(), so its sums cannot drift
 * (docs/why/002-nodes-are-recomputed.md). It is one block of memory with references to its
 * allocations and to its set of names, which versions share. Parts: names of GPUs, assembling,
 * look-ups, why closed, node_check().
 */
#include "milligpu/core/node/node.h"

#include <string.h>

#include "milligpu/base/alloc.h"

enum { GIVEN_FLAGS = GPU_ABSENT | GPU_UNHEALTHY | GPU_CORDONED | GPU_DUPLICATE | GPU_CONTESTED };

enum { ALLOCATION_STEP = 8 };

static_assert(CHARGES_PER_GPU_MAX < UINT16_MAX, "gpu.charges can tell that a GPU is crowded");

/* The model of a GPU known only from a charge. */
static const struct atom no_model = {.text = ""};

int atom_cmp(const struct atom *a, const struct atom *b)
{
    must(a != NULL && b != NULL);
    if (a == b)
        return 0;

    const uint32_t shorter = a->len < b->len ? a->len : b->len;
    const int differs = memcmp(a->text, b->text, shorter);
    return differs != 0 ? differs : (a->len > b->len) - (a->len < b->len);
}

/* Saturates, because adopted amounts may be absurdly large. */
static uint32_t node_sum(uint32_t a, uint32_t b)
{
    uint32_t all;
    return __builtin_add_overflow(a, b, &all) ? UINT32_MAX : all;
}

bool gpu_id_is_real(const struct atom *id, struct text node)
{
    const struct text text = atom_text(id);
    must(text.len > 0);
    must(node.len > 0);
    return text.len <= node.len || memcmp(text.at, node.at, node.len) != 0 ||
           text.at[node.len] != '/';
}

uint32_t gpu_id_index(struct text id)
{
    uint32_t index = 0;
    uint32_t weight = 1;

    must(id.len > 0);
    for (size_t i = id.len; i > 0 && weight <= 10000; i--, weight *= 10) {
        const char c = id.at[i - 1];
        if (c < '0' || c > '9')
            break;
        index += (uint32_t)(c - '0') * weight;
    }
    return index <= UINT16_MAX ? index : 0;
}

static const struct gpu *find_id(const struct gpu *gpu, uint32_t gpus, const struct atom *id)
{
    must(id != NULL);
    for (uint32_t i = 0; i < gpus; i++)
        if (gpu[i].id == id)
            return &gpu[i];
    return NULL;
}

static const struct gpu *find_alias(const struct gpu *gpu, uint32_t gpus, const struct atom *node,
                                    struct text name)
{
    must(node != NULL);
    for (uint32_t i = 0; i < gpus; i++)
        if (gpu_alias_is(&gpu[i], node, name))
            return &gpu[i];
    return NULL;
}

/* Finds the GPU of a charge: an id takes precedence over an alias. */
static const struct gpu *node_find_gpu(const struct gpu *gpu, uint32_t gpus,
                                       const struct atom *node, const struct atom *name)
{
    const struct gpu *found = find_id(gpu, gpus, name);
    return found != NULL ? found : find_alias(gpu, gpus, node, atom_text(name));
}

const struct gpu *gpu_of_charge(const struct gpu *gpu, uint32_t gpus, const struct atom *node,
                                const struct atom *name)
{
    must(name != NULL);
    must(gpus == 0 || gpu != NULL);
    return node_find_gpu(gpu, gpus, node, name);
}

const struct gpu *gpu_of_text(const struct gpu *gpu, uint32_t gpus, const struct atom *node,
                              struct text name)
{
    must(name.at != NULL || name.len == 0);
    must(gpus == 0 || gpu != NULL);
    for (uint32_t i = 0; i < gpus; i++)
        if (text_eq(atom_text(gpu[i].id), name))
            return &gpu[i];
    return find_alias(gpu, gpus, node, name);
}

/* As node_find_gpu(), but mutable. */
static struct gpu *charged_gpu(struct node *node, const struct atom *name)
{
    const struct gpu *found = node_find_gpu(node->gpu, node->n_gpus, node->name, name);
    must(found == NULL || (uint32_t)(found - node->gpu) < node->n_gpus);
    return found != NULL ? &node->gpu[found - node->gpu] : NULL;
}

/* Upper limit of this allocation's GPUs that are missing from the inventory. */
static uint32_t count_strangers(const struct node_build *build, const struct allocation *allocation)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < allocation->n_charges; i++)
        count += gpu_of_charge(build->gpu, build->n_gpus, build->name,
                               allocation_charge(allocation, i).gpu) == NULL;
    must(count <= allocation->n_charges);
    return count;
}

static size_t text_size(const char *text)
{
    must(text == NULL || text[0] != '\0');
    return text != NULL ? strlen(text) + 1 : 0;
}

/* The size of the notes with their texts. */
static size_t notes_size(const struct node_build *build)
{
    size_t bytes = build->n_notes * sizeof(struct gpu_note);

    must(build->n_notes == 0 || build->note != NULL);
    for (uint32_t i = 0; i < build->n_notes; i++)
        bytes += text_size(build->note[i].held) + text_size(build->note[i].ill);
    must(bytes >= build->n_notes * sizeof(struct gpu_note));
    return bytes;
}

/*
 * The places for allocations: in steps, so that most versions of a node have one size. The block of
 * the former version then serves the next node that changes, instead of one place too few.
 */
static size_t allocation_places(const struct node_build *build)
{
    must(build->n_allocations < UINT32_MAX - ALLOCATION_STEP);
    return (build->n_allocations / ALLOCATION_STEP + 1) * (size_t)ALLOCATION_STEP;
}

/*
 * Block layout: the node, its allocations, its owned UUIDs, its GPUs with room for the worst case,
 * and its notes.
 */
static struct node *node_make_room(const struct node_build *build, const struct allocation *after)
{
    must(build->n_allocations == 0 || build->allocation != NULL);
    uint32_t gpus = build->n_gpus + (after != NULL ? count_strangers(build, after) : 0);
    for (uint32_t i = 0; i < build->n_allocations; i++)
        gpus += count_strangers(build, build->allocation[i]);
    const size_t places = allocation_places(build);
    const size_t owned_bytes = build->n_owned_ids * sizeof(struct atom *);

    struct node *node = xmalloc(sizeof *node + places * sizeof(struct allocation *) + owned_bytes +
                                gpus * sizeof(struct gpu) + notes_size(build));
    *node = (struct node){
        .name = build->name,
        .uid = build->uid,
        .source = build->source,
        .problem = build->problem,
        .problem_text = build->problem_text,
        .gone = build->gone,
        .agent = build->agent,
        .plugin = build->plugin,
        .vouch = build->vouch,
        .vouch_ms = build->vouch_ms,
        .host_known = build->host_known,
        .host = build->host,
        .labels = labels_ref(build->labels),
        .taints = taints_ref(build->taints),
        .unusable = build->unusable,
        .rules = build->rules,
        .since_ms = build->since_ms,
    };
    node->allocation = (const struct allocation **)(node + 1);
    node->owned_id = (const struct atom **)(node->allocation + places);
    node->gpu = (struct gpu *)(node->owned_id + build->n_owned_ids);
    node->note = (struct gpu_note *)(node->gpu + gpus);
    atomic_init(&node->refs, 1);
    must((uintptr_t)node->gpu % _Alignof(struct gpu) == 0);
    return node;
}

/* Inserts by uid, for the binary search of node_allocation(). */
static void node_add_allocation(struct node *node, const struct allocation *allocation)
{
    must(allocation->facts.state != STATE_RELEASED);
    must(allocation->facts.node == node->name);

    uint32_t at = node->n_allocations++;
    for (; at > 0 && strcmp(node->allocation[at - 1]->facts.uid, allocation->facts.uid) > 0; at--)
        node->allocation[at] = node->allocation[at - 1];
    must(at == 0 || strcmp(node->allocation[at - 1]->facts.uid, allocation->facts.uid) != 0);
    node->allocation[at] = allocation_ref(allocation);
}

/* Resets the sums to 0: they are recomputed from the charges. */
static void node_add_gpu(struct node *node, const struct gpu *gpu, unsigned flags)
{
    must(gpu->id != NULL);
    must(gpu->model != NULL);
    must(gpu->milli <= GPU_MILLI);
    must((flags & ~(unsigned)GIVEN_FLAGS) == 0);

    struct gpu *added = &node->gpu[node->n_gpus++];
    must(added != NULL);
    *added = *gpu;
    added->flags = (uint16_t)flags;
    added->used_milli = 0;
    added->reserved_milli = 0;
    added->used_mib = 0;
    added->charges = 0;
}

/* If the node is gone, all GPUs are absent. */
static unsigned given_flags(const struct node_build *build, const struct gpu *gpu)
{
    const unsigned gone = build->gone ? GPU_ABSENT : 0;
    return (gpu->flags & (unsigned)GIVEN_FLAGS) | gone;
}

static void add_inventory(struct node *node, const struct node_build *build)
{
    for (uint32_t i = 0; i < build->n_gpus; i++) {
        const struct gpu *gpu = &build->gpu[i];
        if ((given_flags(build, gpu) & GPU_ABSENT) != 0)
            continue;
        must(gpu->milli > 0);
        must(find_id(node->gpu, node->n_gpus, gpu->id) == NULL);
        node_add_gpu(node, gpu, given_flags(build, gpu));
    }
    must(node->n_gpus <= GPUS_PER_NODE_MAX);

    /* Present GPUs come first, so that an id or an alias matches them first. */
    for (uint32_t i = 0; i < build->n_gpus; i++) {
        const struct gpu *gpu = &build->gpu[i];
        const unsigned flags = given_flags(build, gpu);
        if ((flags & GPU_ABSENT) != 0 &&
            node_find_gpu(node->gpu, node->n_gpus, node->name, gpu->id) == NULL)
            node_add_gpu(node, gpu, flags);
    }
    must(node->n_gpus <= build->n_gpus);
}

/* Saturates far above CHARGES_PER_GPU_MAX. */
static void count_charge(struct gpu *gpu)
{
    if (gpu->charges < UINT16_MAX)
        gpu->charges++;
    must(gpu->charges > 0);
}

/*
 * A charge on a GPU that is not listed adds an absent GPU of unknown size: charges are never
 * dropped.
 */
static void add_charge(struct node *node, struct charge charge, enum allocation_state state)
{
    struct gpu *gpu = charged_gpu(node, charge.gpu);
    if (gpu == NULL) {
        const struct gpu stranger = {.id = charge.gpu, .model = &no_model, .numa = -1};
        gpu = &node->gpu[node->n_gpus];
        node_add_gpu(node, &stranger, GPU_ABSENT);
    }
    must(gpu != NULL && charge.milli > 0);

    if (state == STATE_RESERVED)
        gpu->reserved_milli = node_sum(gpu->reserved_milli, charge.milli);
    else
        gpu->used_milli = node_sum(gpu->used_milli, charge.milli);
    gpu->used_mib = node_sum(gpu->used_mib, charge.mib);
    count_charge(gpu);
}

static void node_add_charges(struct node *node)
{
    must(node->held_gpus == 0);
    must(node->unplaced_milli == 0);
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation *allocation = node->allocation[i];
        node->held_gpus = node_sum(node->held_gpus, allocation->facts.held_gpus);
        node->unplaced_milli = node_sum(node->unplaced_milli, allocation->facts.unplaced_milli);
        for (uint32_t k = 0; k < allocation->n_charges; k++)
            add_charge(node, allocation_charge(allocation, k), allocation->facts.state);
    }
}

/* Drops absent GPUs without charges (node.h, invariant 2). */
static void drop_uncharged(struct node *node)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < node->n_gpus; i++)
        if ((node->gpu[i].flags & GPU_ABSENT) == 0 || node->gpu[i].charges > 0)
            node->gpu[kept++] = node->gpu[i];
    must(kept <= node->n_gpus);
    node->n_gpus = kept;
}

/*
 * Ids beyond the limit are dropped, so that a node with ever new UUIDs does not grow without limit.
 */
static void add_owned_ids(struct node *node, const struct node_build *build)
{
    must(build->n_owned_ids == 0 || (build->owned_id != NULL && !build->gone));
    for (uint32_t i = 0; i < build->n_owned_ids && node->n_owned_ids < GPUS_PER_NODE_MAX; i++) {
        must(i == 0 || atom_cmp(build->owned_id[i - 1], build->owned_id[i]) < 0);
        if (find_id(node->gpu, node->n_gpus, build->owned_id[i]) == NULL)
            node->owned_id[node->n_owned_ids++] = build->owned_id[i];
    }
    must(node->n_owned_ids <= build->n_owned_ids);
}

static bool is_absent(const struct gpu *gpu)
{
    return (gpu->flags & GPU_ABSENT) != 0;
}

/* Present GPUs come first: room_of() may cut off absent GPUs at its limit. */
static int gpu_order(const struct gpu *a, const struct gpu *b)
{
    must(a->id != NULL);
    must(b->id != NULL);
    if (is_absent(a) != is_absent(b))
        return is_absent(a) - is_absent(b);
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return atom_cmp(a->id, b->id);
}

/* Insertion sort: GPUs are nearly always sorted already. */
static void sort_gpus(struct node *node)
{
    for (uint32_t i = 1; i < node->n_gpus; i++) {
        const struct gpu moving = node->gpu[i];
        uint32_t at = i;
        for (; at > 0 && gpu_order(&node->gpu[at - 1], &moving) > 0; at--)
            node->gpu[at] = node->gpu[at - 1];
        node->gpu[at] = moving;
        must(at == i || gpu_order(&moving, &node->gpu[at + 1]) < 0);
    }
}

/* The current position of each GPU of the build; GPUS_PER_NODE_MAX: dropped, or above it. */
static void find_moved(const struct node *node, const struct node_build *build, uint32_t gpus,
                       uint8_t to[GPUS_PER_NODE_MAX])
{
    must(gpus <= GPUS_PER_NODE_MAX);
    must(gpus <= build->n_gpus);
    for (uint32_t i = 0; i < gpus; i++) {
        const struct gpu *found = find_id(node->gpu, node->n_gpus, build->gpu[i].id);
        const size_t at = found != NULL ? (size_t)(found - node->gpu) : GPUS_PER_NODE_MAX;
        to[i] = (uint8_t)(at < GPUS_PER_NODE_MAX ? at : GPUS_PER_NODE_MAX);
    }
}

/*
 * Maps peers to the positions after sorting, adding and dropping GPUs. A dropped GPU is no longer a
 * peer; a link stored on one side only (a database may contain anything) counts for both.
 */
static void move_peers(struct node *node, const struct node_build *build)
{
    const uint32_t gpus = build->n_gpus < GPUS_PER_NODE_MAX ? build->n_gpus : GPUS_PER_NODE_MAX;
    uint8_t to[GPUS_PER_NODE_MAX];
    uint64_t any = 0;

    must(gpus == 0 || build->gpu != NULL);
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        any |= node->gpu[i].peers;
        node->gpu[i].peers = 0;
    }
    if (any == 0)
        return;
    find_moved(node, build, gpus, to);
    for (uint32_t i = 0; i < gpus; i++) {
        for (uint64_t peers = build->gpu[i].peers; peers != 0; peers &= peers - 1) {
            const uint32_t peer = (uint32_t)__builtin_ctzll(peers);
            if (peer >= gpus || to[i] == to[peer] || to[i] == GPUS_PER_NODE_MAX ||
                to[peer] == GPUS_PER_NODE_MAX)
                continue;
            node->gpu[to[i]].peers |= (uint64_t)1 << to[peer];
            node->gpu[to[peer]].peers |= (uint64_t)1 << to[i];
        }
    }
}

/* An unknown size (0) cannot be exceeded. */
static bool is_over(const struct gpu *gpu)
{
    const uint32_t taken = node_sum(gpu->used_milli, gpu->reserved_milli);

    must(taken == 0 || gpu->charges > 0);
    return (gpu->milli > 0 && taken > gpu->milli) || (gpu->mib > 0 && gpu->used_mib > gpu->mib);
}

/* Is it an absent GPU with a made-up id that no present GPU has? Pods hold it. */
static bool is_stray(const struct node *node, const struct gpu *gpu)
{
    must(gpu >= node->gpu);
    must(gpu < node->gpu + node->n_gpus);
    return is_absent(gpu) && !gpu_id_is_real(gpu->id, atom_text(node->name));
}

/* Could it be the GPU of a stray made-up id, because its former index is unknown? */
static bool is_unsure(const struct node *node, const struct gpu *gpu)
{
    must(node->n_gpus > 0);
    if (is_absent(gpu) || gpu_has_alias(gpu) || !gpu_id_is_real(gpu->id, atom_text(node->name)))
        return false;
    for (uint32_t i = 0; i < node->n_gpus; i++)
        if (is_stray(node, &node->gpu[i]))
            return true;
    return false;
}

/* Appends a text to the block. */
static const char *put_text(char **end, const char *text)
{
    const size_t size = text_size(text);

    must(*end != NULL);
    if (text == NULL)
        return NULL;
    memcpy(*end, text, size);
    *end += size;
    must(*(*end - 1) == '\0');
    return *end - size;
}

/* Copies the notes into the block; their texts follow the last note. */
static void add_notes(struct node *node, const struct node_build *build)
{
    char *end = (char *)(node->note + build->n_notes);

    must(node->n_notes == 0);
    for (uint32_t i = 0; i < build->n_notes; i++) {
        const struct gpu_note *note = &build->note[i];
        const struct gpu *gpu = find_id(node->gpu, node->n_gpus, note->gpu);
        if (gpu == NULL || is_absent(gpu))
            continue;
        const char *held = put_text(&end, note->held);
        const char *ill = put_text(&end, note->ill);
        node->note[node->n_notes++] = (struct gpu_note){gpu->id, held, ill};
    }
    must(node->n_notes <= build->n_notes);
}

/* The pod named by a note, if it requests whole GPUs; else NULL. */
static const struct allocation *holder_of(const struct node *node, const struct gpu_note *note,
                                          enum hold_kind *out_kind)
{
    struct text uid;
    const bool known = hold_kind(note->held, out_kind, &uid);

    must(known); /* inventory_parse() replaces unknown words */
    const struct allocation *pod = node_allocation(node, uid);
    must(pod == NULL || pod->facts.node == node->name);
    return pod != NULL && pod->facts.held_gpus > 0 ? pod : NULL;
}

/* A variable is an unverified claim: it counts only for a pod that requests whole GPUs. */
static bool is_held(const struct node *node, const struct gpu *gpu)
{
    enum hold_kind kind;
    const struct gpu_note *note = node_note_of(node, gpu);

    must(gpu >= node->gpu && gpu < node->gpu + node->n_gpus);
    if (note == NULL || note->held == NULL)
        return false;
    const struct allocation *pod = holder_of(node, note, &kind);
    must(kind == HOLD_VARIABLE || kind == HOLD_POD || pod == NULL);
    return kind != HOLD_VARIABLE || pod != NULL;
}

/* The number of whole GPUs held by pods beyond the GPUs noted for them. */
static uint32_t count_unnamed(const struct node *node)
{
    uint32_t unnamed = 0;
    enum hold_kind kind;

    must(node->n_allocations == 0 || node->allocation != NULL);
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation *pod = node->allocation[i];
        uint32_t named = 0;
        for (uint32_t k = 0; pod->facts.held_gpus > 0 && k < node->n_notes; k++)
            named += node->note[k].held != NULL && holder_of(node, &node->note[k], &kind) == pod;
        unnamed =
            node_sum(unnamed, named < pod->facts.held_gpus ? pod->facts.held_gpus - named : 0);
    }
    must(node->n_notes == 0 || node->note != NULL);
    return unnamed;
}

/* The free milli of the GPUs that take new shares; 0 if the node is closed. */
static uint32_t count_free(const struct node *node)
{
    uint32_t milli = 0;
    if (node_closed(node) != REASON_NONE)
        return 0;
    for (uint32_t i = 0; i < node->n_gpus; i++)
        if (gpu_closed(&node->gpu[i]) == REASON_NONE)
            milli += gpu_free(&node->gpu[i]);
    must(milli <= GPUS_PER_NODE_MAX * GPU_MILLI);
    return milli;
}

/* Models come last, because adjacent GPUs nearly always have the same (name_set_add()). */
static const struct name_set *names_of(const struct node *node, const struct name_set *former)
{
    struct name_set *set = name_set_new(3 + 3 * node->n_gpus + node->n_owned_ids);

    must(node->name != NULL);
    name_set_add(set, node->name);
    name_set_add(set, node->uid);
    name_set_add(set, node->problem_text);
    for (uint32_t i = 0; i < node->n_owned_ids; i++)
        name_set_add(set, node->owned_id[i]);
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        name_set_add(set, node->gpu[i].id);
        name_set_add(set, node->gpu[i].alias);
    }
    for (uint32_t i = 0; i < node->n_gpus; i++)
        name_set_add(set, node->gpu[i].model);
    must(set->count <= 3 + 3 * node->n_gpus + node->n_owned_ids);
    return name_set_hold(set, former);
}

static struct node *node_assemble(const struct node_build *build, const struct allocation *before,
                                  const struct allocation *after)
{
    must(build->name != NULL);
    must(build->n_gpus == 0 || build->gpu != NULL);

    struct node *node = node_make_room(build, after);
    for (uint32_t i = 0; i < build->n_allocations; i++)
        if (build->allocation[i] != before)
            node_add_allocation(node, build->allocation[i]);
    if (after != NULL)
        node_add_allocation(node, after);
    must(node->n_allocations + (before != NULL) == build->n_allocations + (after != NULL));
    /*
     * Charges need the GPUs; uncharged GPUs are dropped after both; is_unsure() and is_held() need
     * the final list.
     */
    add_inventory(node, build);
    node_add_charges(node);
    drop_uncharged(node);
    add_owned_ids(node, build);
    sort_gpus(node);
    move_peers(node, build);
    add_notes(node, build);
    node->unnamed_gpus = count_unnamed(node);
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        struct gpu *gpu = &node->gpu[i];
        gpu->flags |= (is_over(gpu) ? GPU_OVER : 0) | (is_unsure(node, gpu) ? GPU_UNSURE : 0) |
                      (is_held(node, gpu) ? GPU_HELD : 0);
    }
    node->free_milli = count_free(node);
    node->names = names_of(node, build->names);
    return node;
}

struct node *node_new(const struct node_build *build)
{
    must(build != NULL);
    return node_assemble(build, NULL, NULL);
}

static struct node_build build_of(const struct node *node)
{
    must(node->name != NULL);
    must(node->uid != NULL);
    return (struct node_build){
        .name = node->name,
        .uid = node->uid,
        .source = node->source,
        .problem = node->problem,
        .problem_text = node->problem_text,
        .gone = node->gone,
        .agent = node->agent,
        .plugin = node->plugin,
        .vouch = node->vouch,
        .vouch_ms = node->vouch_ms,
        .host_known = node->host_known,
        .host = node->host,
        .labels = node->labels,
        .taints = node->taints,
        .unusable = node->unusable,
        .rules = node->rules,
        .since_ms = node->since_ms,
        .n_gpus = node->n_gpus,
        .gpu = node->gpu,
        .n_allocations = node->n_allocations,
        .allocation = node->allocation,
        .n_owned_ids = node->n_owned_ids,
        .owned_id = node->owned_id,
        .n_notes = node->n_notes,
        .note = node->note,
        .names = node->names,
    };
}

struct node *node_with(const struct node *node, const struct allocation *before,
                       const struct allocation *after)
{
    must(before != NULL || after != NULL);
    must(before == NULL || after == NULL || strcmp(before->facts.uid, after->facts.uid) == 0);
    must(before == NULL || node_allocation(node, text_of(before->facts.uid)) == before);

    const struct node_build build = build_of(node);
    return node_assemble(&build, before, after);
}

struct node *node_with_host(const struct node *node, const struct host *host)
{
    struct node_build build = build_of(node);

    must(host != NULL);
    build.host_known = true;
    build.host = *host;
    return node_assemble(&build, NULL, NULL);
}

struct node *node_with_rules(const struct node *node, rule_set rules)
{
    struct node_build build = build_of(node);

    must(build.n_gpus == node->n_gpus);
    must(build.labels == node->labels);
    build.rules = rules;
    return node_assemble(&build, NULL, NULL);
}

struct node *node_with_unusable(const struct node *node, struct unusable_cause unusable)
{
    struct node_build build = build_of(node);

    must(unusable.why < UNUSABLES);
    must(build.taints != NULL || unusable.why == USABLE);
    build.unusable = unusable;
    return node_assemble(&build, NULL, NULL);
}

/* Only the reference count is mutable. */
static atomic_uint *node_refs_of(const struct node *node)
{
    must(node != NULL);
    return (atomic_uint *)(uintptr_t)&node->refs;
}

const struct node *node_ref(const struct node *node)
{
    const unsigned before = atomic_fetch_add_explicit(node_refs_of(node), 1, memory_order_relaxed);
    must(before > 0 && before < UINT32_MAX);
    return node;
}

void node_unref(const struct node *node)
{
    if (node == NULL)
        return;
    const unsigned before = atomic_fetch_sub_explicit(node_refs_of(node), 1, memory_order_acq_rel);
    must(before > 0);
    if (before > 1)
        return;
    for (uint32_t i = 0; i < node->n_allocations; i++)
        allocation_unref(node->allocation[i]);
    labels_unref(node->labels);
    taints_unref(node->taints);
    name_set_unref(node->names);
    xfree((void *)(uintptr_t)node);
}

const struct gpu *node_gpu(const struct node *node, struct text id)
{
    must(node != NULL);
    must(node->name != NULL);
    return gpu_of_text(node->gpu, node->n_gpus, node->name, id);
}

const struct gpu_note *node_note_of(const struct node *node, const struct gpu *gpu)
{
    must(node->n_notes <= node->n_gpus);
    for (uint32_t i = 0; i < node->n_notes; i++)
        if (node->note[i].gpu == gpu->id)
            return &node->note[i];
    must(gpu->id != NULL);
    return NULL;
}

/* Binary search in strcmp() order, as in node_add_allocation(). uid need not be terminated. */
const struct allocation *node_allocation(const struct node *node, struct text uid)
{
    uint32_t low = 0;
    uint32_t high = node->n_allocations;

    must(uid.at != NULL || uid.len == 0);
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct text found = text_of(node->allocation[middle]->facts.uid);
        const size_t shorter = found.len < uid.len ? found.len : uid.len;
        const int differs = shorter > 0 ? memcmp(found.at, uid.at, shorter) : 0;
        if (differs == 0 && found.len == uid.len)
            return node->allocation[middle];
        if (differs < 0 || (differs == 0 && found.len < uid.len))
            low = middle + 1;
        else
            high = middle;
    }
    must(low == high);
    return NULL;
}

/* Returns the first applicable reason in the order of reason.h, the furthest from fitting. */
enum reason gpu_closed(const struct gpu *gpu)
{
    if ((gpu->flags & GPU_HELD) != 0)
        return REASON_HELD;
    if ((gpu->flags & (GPU_ABSENT | GPU_DUPLICATE | GPU_UNSURE)) != 0)
        return REASON_ABSENT;
    if ((gpu->flags & GPU_UNHEALTHY) != 0)
        return REASON_UNHEALTHY;
    if ((gpu->flags & GPU_CORDONED) != 0)
        return REASON_CORDONED;
    if (gpu->charges >= CHARGES_PER_GPU_MAX)
        return REASON_CROWDED;
    if ((gpu->flags & GPU_OVER) != 0)
        return REASON_ROOM;
    must(gpu->milli > 0);
    must(gpu_free(gpu) <= gpu->milli);
    return REASON_NONE;
}

enum reason node_closed(const struct node *node)
{
    must(node != NULL);
    if (node->n_gpus == 0)
        return REASON_NO_GPU;
    if (node->unnamed_gpus > 0)
        return REASON_MIXED;
    if (node->unplaced_milli > 0)
        return REASON_UNPLACED;
    must(node->plugin.state != PLUGIN_ZERO);
    must((unsigned)node->vouch < VOUCHES);
    if (node->plugin.state == PLUGIN_DOWN)
        return REASON_PLUGIN;
    return vouch_closes(node->vouch) ? REASON_AGENT : REASON_NONE;
}

bool gpu_reported_unhealthy(const struct gpu *gpu)
{
    must(gpu != NULL);
    must(gpu->id != NULL);
    return (gpu->flags & (GPU_UNHEALTHY | GPU_ABSENT)) == GPU_UNHEALTHY;
}

bool node_misses_agent(const struct node *node)
{
    must((unsigned)node->vouch < VOUCHES);
    must(!node->gone || node->vouch == VOUCH_NONE);
    return vouch_closes(node->vouch) && node->vouch != VOUCH_LEAVING && node->n_gpus > 0 &&
           !inventory_is_excluded(node->problem);
}

uint64_t node_held_milli(const struct node *node)
{
    must(node != NULL);

    uint64_t milli = node->unplaced_milli;
    for (uint32_t i = 0; i < node->n_gpus; i++)
        milli += (uint64_t)node->gpu[i].used_milli + node->gpu[i].reserved_milli;
    must(milli >= node->unplaced_milli);
    return milli;
}

/* An invariant, and the message if it is violated. */
struct node_invariant {
    bool holds;
    const char *text;
};

static const char *first_broken(const struct node_invariant *rule, size_t count)
{
    must(rule != NULL);
    must(count > 0);
    for (size_t i = 0; i < count; i++)
        if (!rule[i].holds)
            return rule[i].text;
    return NULL;
}

/* Recomputes the sums of this GPU independently of add_charge(). */
static struct gpu node_recount(const struct node *node, const struct gpu *gpu)
{
    struct gpu fresh = {.milli = gpu->milli, .mib = gpu->mib};

    must(gpu >= node->gpu);
    must(gpu < node->gpu + node->n_gpus);
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation *allocation = node->allocation[i];
        for (uint32_t k = 0; k < allocation->n_charges; k++) {
            const struct charge charge = allocation_charge(allocation, k);
            if (node_find_gpu(node->gpu, node->n_gpus, node->name, charge.gpu) != gpu)
                continue;
            const bool reserved = allocation->facts.state == STATE_RESERVED;
            fresh.reserved_milli = node_sum(fresh.reserved_milli, reserved ? charge.milli : 0);
            fresh.used_milli = node_sum(fresh.used_milli, reserved ? 0 : charge.milli);
            fresh.used_mib = node_sum(fresh.used_mib, charge.mib);
            count_charge(&fresh);
        }
    }
    return fresh;
}

static bool node_links_both(const struct node *node, uint32_t gpu)
{
    const uint32_t gpus = node_room_gpus(node);

    must(gpu < node->n_gpus);
    must(gpus <= 64);
    if (gpu >= gpus)
        return node->gpu[gpu].peers == 0;
    for (uint64_t peers = node->gpu[gpu].peers; peers != 0; peers &= peers - 1) {
        const uint32_t peer = (uint32_t)__builtin_ctzll(peers);
        if (peer >= gpus || peer == gpu || (node->gpu[peer].peers >> gpu & 1) == 0)
            return false;
    }
    return true;
}

/* Checks distinct ids before the order, which compares ids last. */
static int node_check_gpu(const struct node *node, uint32_t i, struct err *err)
{
    const struct gpu *gpu = &node->gpu[i];
    const struct gpu fresh = node_recount(node, gpu);
    const struct node_invariant rules[] = {
        {gpu->used_milli == fresh.used_milli, "its used milli are not the sum of its charges"},
        {gpu->reserved_milli == fresh.reserved_milli,
         "its reserved milli are not the sum of its charges"},
        {gpu->used_mib == fresh.used_mib, "its used MiB are not the sum of its charges"},
        {gpu->charges == fresh.charges, "it does not count the pods that hold it"},
        {((gpu->flags & GPU_OVER) != 0) == is_over(&fresh),
         "it is wrong about being charged beyond its size"},
        {((gpu->flags & GPU_UNSURE) != 0) == is_unsure(node, gpu),
         "it is wrong about being the one that a pod may hold by another name"},
        {((gpu->flags & GPU_HELD) != 0) == is_held(node, gpu),
         "it is wrong about being held whole"},
        {!is_absent(gpu) || gpu->charges > 0, "it is absent, and nobody holds it"},
        {find_id(node->gpu, node->n_gpus, gpu->id) == gpu, "it is there twice"},
        {gpu_alias_sound(gpu, node->name), "its alias has two forms, or the wrong one"},
        {i == 0 || gpu_order(&node->gpu[i - 1], gpu) < 0, "it stands in the wrong place"},
        {!node->gone || is_absent(gpu), "it is there, and its node is gone"},
        {node_links_both(node, i), "it is linked with a GPU that is not linked with it"},
    };

    must(i < node->n_gpus);
    must(err != NULL);
    const char *fault = first_broken(rules, ARRAY_LEN(rules));
    return fault == NULL ? 0
                         : err_set(err, ERR_CORRUPT, "node %s: GPU %s: %s", node->name->text,
                                   gpu->id->text, fault);
}

static const char *node_broken_allocation(const struct node *node, uint32_t i)
{
    const struct allocation *allocation = node->allocation[i];

    must(i < node->n_allocations);
    must(allocation != NULL);
    if (allocation->facts.node != node->name)
        return "it is on another node";
    if (i > 0 && strcmp(node->allocation[i - 1]->facts.uid, allocation->facts.uid) >= 0)
        return "it stands in the wrong place, or twice";
    for (uint32_t k = 0; k < allocation->n_charges; k++)
        if (node_find_gpu(node->gpu, node->n_gpus, node->name,
                          allocation_charge(allocation, k).gpu) == NULL)
            return "it holds a GPU that its node does not have";
    return allocation_unsound(allocation);
}

static int node_check_allocations(const struct node *node, struct err *err)
{
    uint32_t held = 0;
    uint32_t unplaced = 0;

    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation_facts *facts = &node->allocation[i]->facts;
        const char *fault = node_broken_allocation(node, i);
        if (fault != NULL)
            return err_set(err, ERR_CORRUPT, "node %s: pod %s/%s (%s): %s", node->name->text,
                           facts->namespace, facts->name, facts->uid, fault);
        held = node_sum(held, facts->held_gpus);
        unplaced = node_sum(unplaced, facts->unplaced_milli);
    }
    const struct node_invariant rules[] = {
        {node->held_gpus == held, "its held GPUs are not the sum of its pods"},
        {node->unplaced_milli == unplaced, "its unplaced milli are not the sum of its pods"},
        {node->unnamed_gpus == count_unnamed(node),
         "its unnamed GPUs are not what its pods hold beyond those that are named"},
    };
    const char *fault = first_broken(rules, ARRAY_LEN(rules));
    must(err != NULL);
    return fault == NULL ? 0 : err_set(err, ERR_CORRUPT, "node %s: %s", node->name->text, fault);
}

/* Checks for unknown words first: their meaning cannot be checked. */
static const char *broken_note(const struct node *node)
{
    enum hold_kind kind;
    struct text uid;

    must(node->n_notes == 0 || node->note != NULL);
    for (uint32_t i = 0; i < node->n_notes; i++) {
        const struct gpu_note *note = &node->note[i];
        const struct gpu *gpu = find_id(node->gpu, node->n_gpus, note->gpu);
        if (note->held != NULL && !hold_kind(note->held, &kind, &uid))
            return "it does not know who holds a GPU whole";
        if (gpu == NULL || is_absent(gpu))
            return "a GPU that it does not show is noted";
        if (node_note_of(node, gpu) != note)
            return "a GPU is noted twice";
    }
    must(node->n_notes <= node->n_gpus);
    return NULL;
}

/* A UUID both shown and owned would have two entries in the table of owners. */
static const char *broken_owned_ids(const struct node *node)
{
    must(node->n_owned_ids <= GPUS_PER_NODE_MAX);
    must(node->n_owned_ids == 0 || node->owned_id != NULL);
    if (node->gone && node->n_owned_ids > 0)
        return "it is gone, and claims a GPU";
    for (uint32_t i = 0; i < node->n_owned_ids; i++) {
        if (i > 0 && atom_cmp(node->owned_id[i - 1], node->owned_id[i]) >= 0)
            return "what it claims stands in the wrong place, or twice";
        if (find_id(node->gpu, node->n_gpus, node->owned_id[i]) != NULL)
            return "it claims a GPU that it has";
    }
    return NULL;
}

bool node_holds_names(const struct node *node)
{
    must(node->names != NULL);
    const struct name_set *names = names_of(node, node->names);
    const bool same = names == node->names;

    must(names->count > 0);
    name_set_unref(names);
    return same;
}

int node_check(const struct node *node, struct err *err)
{
    must(err != NULL);
    must(node->name != NULL);
    must(atomic_load_explicit(node_refs_of(node), memory_order_relaxed) > 0);
    const char *noted = broken_note(node);
    if (noted != NULL)
        return err_set(err, ERR_CORRUPT, "node %s: %s", node->name->text, noted);
    int failed = node_check_allocations(node, err);
    for (uint32_t i = 0; failed == 0 && i < node->n_gpus; i++)
        failed = node_check_gpu(node, i, err);
    if (failed == 0 && node->free_milli != count_free(node))
        failed =
            err_set(err, ERR_CORRUPT, "node %s: its free milli are not what is left on its GPUs",
                    node->name->text);
    if (failed == 0 && node->unusable.why != USABLE && node->taints == NULL)
        failed = err_set(err, ERR_CORRUPT, "node %s: it is unusable, and says nothing",
                         node->name->text);
    const char *fault = failed == 0 ? broken_owned_ids(node) : NULL;
    return fault == NULL ? failed
                         : err_set(err, ERR_CORRUPT, "node %s: %s", node->name->text, fault);
}
