/*
 * Reduces a room to slots: the GPUs that can take a share of the request, each with only the
 * properties that the search uses, so that rooms which differ in other properties are searched
 * once. Called by place.c for each room; the table of results lives in the arena of one question.
 */
#include <string.h>

#include "place_internal.h"

/*
 * slots
 */

/* The MiB of a share follow from its milli, so a memory minimum is a milli minimum. */
uint32_t least_with_memory(const struct gpu_room *gpu, uint32_t memory_mib)
{
    must(gpu->milli > 0);
    if (memory_mib == 0)
        return 0;
    if (gpu->mib == 0)
        return GPU_MILLI + 1; /* no share is large enough */
    /* The minimum m with floor(mib x m / milli) >= memory. */
    const uint64_t milli = ((uint64_t)memory_mib * gpu->milli + gpu->mib - 1) / gpu->mib;
    must(milli > 0);
    return milli > GPU_MILLI ? GPU_MILLI + 1 : (uint32_t)milli;
}

/* The bound b such that floor(mib x m / milli) <= free_mib exactly if mib x m < b. */
static uint64_t mib_bound(const struct gpu_room *gpu)
{
    must(gpu->milli > 0);
    return ((uint64_t)gpu->free_mib + 1) * gpu->milli;
}

static void place_shape_slot_of(const struct gpu_room *gpu, uint32_t memory_mib, struct slot *out)
{
    const uint64_t bound = mib_bound(gpu);

    must(gpu->free_milli <= gpu->milli);
    *out = (struct slot){
        .free_milli = gpu->free_milli,
        .least_milli = least_with_memory(gpu, memory_mib),
        .most_milli = gpu->free_milli,
    };
    /*
     * Most GPUs have MiB for all their free milli: then only milli matter, and more rooms are
     * equal.
     */
    if ((uint64_t)gpu->mib * gpu->free_milli < bound)
        return;
    out->most_milli = (uint32_t)((bound - 1) / gpu->mib);
    out->milli = gpu->milli;
    out->mib = gpu->mib;
    out->free_mib = gpu->free_mib;
    must(out->most_milli < out->free_milli);
}

/* Adds all other properties of the GPU. */
static void set_apart(const struct gpu_room *gpu, struct slot *slot)
{
    must(gpu->model != NULL);
    must(slot->model == NULL);
    slot->model = gpu->model;
    slot->milli = gpu->milli;
    slot->mib = gpu->mib;
    slot->free_mib = gpu->free_mib;
}

void shape_of(struct plan *plan, const struct room *room, bool apart, struct shape *out)
{
    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    out->n_slots = 0;
    out->raised_milli = plan->raised_milli;
    out->free_milli = 0;
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        const struct gpu_room *gpu = &room->gpu[i];
        if (gpu->closed != REASON_NONE || gpu->free_milli == 0 ||
            (plan->usable & one_gpu(i)) == 0 || !plan_takes(plan, gpu->model))
            continue;
        struct slot *slot = &out->slot[out->n_slots];
        place_shape_slot_of(gpu, plan->request->memory_mib, slot);
        if (apart)
            set_apart(gpu, slot);
        out->gpu[out->n_slots++] = (uint8_t)i;
        out->free_milli += slot->free_milli;
    }
    must(out->n_slots <= room->n_gpus);
}

/* A total order in which equal slots are neighbours; by free milli first. */
static int slot_cmp(const struct slot *a, const struct slot *b)
{
    must(a != NULL);
    if (a->free_milli != b->free_milli)
        return a->free_milli < b->free_milli ? -1 : 1;
    if (a->least_milli != b->least_milli)
        return a->least_milli < b->least_milli ? -1 : 1;
    if (a->mib != b->mib)
        return a->mib < b->mib ? -1 : 1;
    if (a->milli != b->milli)
        return a->milli < b->milli ? -1 : 1;
    return (a->free_mib > b->free_mib) - (a->free_mib < b->free_mib);
}

static bool place_shape_are_equal(const struct slot *a, const struct slot *b)
{
    must(a != b);
    must(a->free_milli > 0 && b->free_milli > 0);
    return a->model == b->model && slot_cmp(a, b) == 0;
}

/* Moves the GPUs with their slots, so that a layout can still be written. */
void shape_sort(struct shape *shape)
{
    must(shape->n_slots <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 1; i < shape->n_slots; i++) {
        uint32_t at = i;
        if (slot_cmp(&shape->slot[i], &shape->slot[i - 1]) >= 0)
            continue;
        const struct slot slot = shape->slot[i];
        const uint8_t gpu = shape->gpu[i];
        must(slot.model == NULL); /* models would impose an order, too */
        for (; at > 0 && slot_cmp(&slot, &shape->slot[at - 1]) < 0; at--) {
            shape->slot[at] = shape->slot[at - 1];
            shape->gpu[at] = shape->gpu[at - 1];
        }
        shape->slot[at] = slot;
        shape->gpu[at] = gpu;
    }
}

/* Does swapping a and b keep every want together? */
static bool links_are_equal(const struct gpu_links *links, uint32_t a, uint32_t b)
{
    const gpu_set others = ~(one_gpu(a) | one_gpu(b));

    must(a != b);
    return ((links->linked[a] ^ links->linked[b]) & others) == 0 &&
           ((links->numa[a] ^ links->numa[b]) & others) == 0;
}

void shape_pair(struct shape *shape, const struct gpu_links *links)
{
    must(shape->n_slots <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < shape->n_slots; i++) {
        uint32_t before = i;
        while (before > 0 && (!place_shape_are_equal(&shape->slot[before - 1], &shape->slot[i]) ||
                              (links != NULL && !links_are_equal(links, before - 1, i))))
            before--;
        shape->equal_slot[i] = (uint8_t)before;
        must(before <= i);
    }
}

/*
 * Results by shape: open addressing; a full table takes no more.
 */

enum { SHAPES_MAX = 1024, SHAPES_TABLE = 2 * SHAPES_MAX };

struct known_shape {
    uint64_t hash;
    uint32_t n_slots;
    uint32_t raised_milli;
    struct slot *slot; /* NULL: free entry */
    struct result result;
};

struct shapes {
    struct arena *arena;
    uint32_t count;
    struct known_shape found[SHAPES_TABLE];
};

static struct shapes *shapes_new(struct arena *arena)
{
    struct shapes *shapes = arena_alloc(arena, sizeof *shapes);

    shapes->arena = arena;
    must(arena != NULL);
    must(shapes->count == 0);
    return shapes;
}

void plan_remember(struct plan *plan, struct arena *arena)
{
    must(plan->shapes == NULL);
    must(arena != NULL);
    if (plan->request->n_wants > 1) /* one want is searched faster than looked up */
        plan->shapes = shapes_new(arena);
}

/* Needs only to spread: a match is confirmed slot by slot. */
static uint64_t place_shape_mix(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * 0x9e3779b97f4a7c15U;
    return hash ^ hash >> 32;
}

static uint64_t shape_hash(const struct shape *shape)
{
    uint64_t hash = place_shape_mix(shape->n_slots, shape->raised_milli);

    must(shape->n_slots > 0);
    must(shape->n_slots <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < shape->n_slots; i++) {
        const struct slot *slot = &shape->slot[i];
        hash = place_shape_mix(hash, (uint64_t)slot->free_milli << 32 | slot->least_milli);
        if (slot->mib > 0)
            hash = place_shape_mix(
                place_shape_mix(hash, (uint64_t)slot->mib << 32 | slot->free_mib), slot->milli);
    }
    return hash;
}

/* Compares all properties: a hash collision would give a wrong answer. */
static bool is_found(const struct known_shape *found, uint64_t hash, const struct shape *shape)
{
    must(found->slot != NULL);
    must(found->result.steps > 0);
    if (found->hash != hash || found->n_slots != shape->n_slots ||
        found->raised_milli != shape->raised_milli)
        return false;
    for (uint32_t i = 0; i < shape->n_slots; i++)
        if (!place_shape_are_equal(&found->slot[i], &shape->slot[i]))
            return false;
    return true;
}

const struct result *shapes_find(const struct shapes *shapes, const struct shape *shape)
{
    const uint64_t hash = shape_hash(shape);

    must(shapes->count <= SHAPES_MAX);
    for (uint32_t i = 0; i < SHAPES_TABLE; i++) {
        const struct known_shape *found = &shapes->found[(hash + i) % SHAPES_TABLE];
        if (found->slot == NULL)
            return NULL;
        if (is_found(found, hash, shape))
            return &found->result;
    }
    must_not_reach("half of the table is free");
}

void shapes_keep(struct shapes *shapes, const struct shape *shape, const struct result *result)
{
    const uint64_t hash = shape_hash(shape);
    uint32_t at = (uint32_t)(hash % SHAPES_TABLE);

    must(result->steps > 0);
    if (shapes->count == SHAPES_MAX)
        return;
    while (shapes->found[at].slot != NULL)
        at = (at + 1) % SHAPES_TABLE;
    shapes->found[at] = (struct known_shape){
        .hash = hash,
        .n_slots = shape->n_slots,
        .raised_milli = shape->raised_milli,
        .slot = arena_array(shapes->arena, shape->n_slots, sizeof *shape->slot),
        .result = *result,
    };
    memcpy(shapes->found[at].slot, shape->slot, shape->n_slots * sizeof *shape->slot);
    shapes->count++;
    must(shapes->count <= SHAPES_MAX);
}
