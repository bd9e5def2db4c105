/*
 * Rule b: keeps the GPUs of one want together if the topology of the node is known. Called by
 * place.c, in any thread, for each room in which some want has several parts. Allowed pairs of GPUs
 * form a graph, and a want is a clique in it: a NUMA node is one, and so are GPUs joined by a
 * switch, but on boards without a switch the links are irregular. One want is searched here; for
 * several wants, the walk (place_walk.c) uses the same graph, struct gpu_links. Parts: topology of
 * a room, links, cliques, the choice for one want.
 */
#include "place_internal.h"

/*
 * Topology of a room
 */

enum distance together_unknown(const struct plan *plan)
{
    must(plan->request->n_wants > 0);
    must(plan->most_parts > 0);
    return plan->most_parts > 1 ? DISTANCE_ANYWHERE : DISTANCE_LINKED;
}

bool together_matters(const struct plan *plan, const struct room *room)
{
    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    if (plan->most_parts <= 1)
        return false;
    if (plan->topology != TOPOLOGY_ANY)
        return true;
    for (uint32_t i = 0; i < room->n_gpus; i++)
        if (room->gpu[i].peers != 0 || room->gpu[i].socket != 0)
            return true;
    return false;
}

enum distance together_last(const struct plan *plan)
{
    static const enum distance last[] = {[TOPOLOGY_ANY] = DISTANCE_ANYWHERE,
                                         [TOPOLOGY_NUMA] = DISTANCE_NUMA,
                                         [TOPOLOGY_NVLINK] = DISTANCE_LINKED};

    static_assert(ARRAY_LEN(last) == TOPOLOGIES, "each demand has its end");
    must(plan->topology < TOPOLOGIES);
    return last[plan->topology];
}

/*
 * Links
 */

/* The other GPUs on the same NUMA node; empty if unknown. */
static gpu_set numa_of(const struct room *room, uint32_t gpu)
{
    gpu_set others = 0;

    must(gpu < room->n_gpus);
    if (room->gpu[gpu].socket == 0)
        return 0;
    for (uint32_t i = 0; i < room->n_gpus; i++)
        others |= i != gpu && room->gpu[i].socket == room->gpu[gpu].socket ? one_gpu(i) : 0;
    return others;
}

static gpu_set links_of(const struct room *room, uint32_t gpu)
{
    gpu_set others = 0;

    must(gpu < room->n_gpus);
    for (uint32_t i = 0; i < room->n_gpus; i++)
        others |= (room->gpu[gpu].peers >> i & 1) != 0 ? one_gpu(i) : 0;
    must((others & one_gpu(gpu)) == 0);
    return others;
}

/* A demand for one NUMA node applies to links, too: links within the node are then the nearest. */
void links_of_room(const struct plan *plan, const struct room *room, enum distance distance,
                   struct gpu_links *out)
{
    must(distance < DISTANCE_ANYWHERE);
    must(distance <= together_last(plan));
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        const gpu_set nvlinks = links_of(room, i);
        const gpu_set numa = numa_of(room, i);
        out->linked[i] = plan->topology == TOPOLOGY_NUMA ? nvlinks & numa : nvlinks;
        out->numa[i] = distance == DISTANCE_NUMA ? numa : 0;
    }
}

void links_of_shape(const struct gpu_links *room, const struct shape *shape, struct gpu_links *out)
{
    must(shape->n_slots <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < shape->n_slots; i++) {
        out->linked[i] = 0;
        out->numa[i] = 0;
        for (uint32_t k = 0; k < shape->n_slots; k++) {
            const gpu_set gpu = one_gpu(shape->gpu[k]);
            out->linked[i] |= (room->linked[shape->gpu[i]] & gpu) != 0 ? one_gpu(k) : 0;
            out->numa[i] |= (room->numa[shape->gpu[i]] & gpu) != 0 ? one_gpu(k) : 0;
        }
        must((out->linked[i] & one_gpu(i)) == 0 && (out->numa[i] & one_gpu(i)) == 0);
    }
}

/*
 * Cliques: depth first over the GPUs in order, below a weight limit
 */

struct clique {
    uint32_t parts;
    uint32_t count;                     /* number of GPUs that may be in it */
    uint8_t gpu[GPUS_PER_NODE_MAX];     /* in search order; a place is an index into this */
    uint32_t weight[GPUS_PER_NODE_MAX]; /* by place; to be minimized */
    uint8_t light[GPUS_PER_NODE_MAX];   /* places, the lightest first */
    gpu_set beside[GPUS_PER_NODE_MAX];  /* by place: places linked with it */
    uint32_t limit;                     /* exclusive upper limit of a clique's weight */
    uint32_t steps;                     /* steps left */
    gpu_set found;                      /* GPUs of the best clique; empty: none found */
};

/* Lower is better for the plan's choice; all equal with PLACE_FIRST. */
static uint32_t together_weight(const struct plan *plan, const struct gpu_room *gpu)
{
    must(gpu->free_milli <= GPU_MILLI);
    if (plan->choice == PLACE_TIGHTEST)
        return gpu->free_milli;
    return plan->choice == PLACE_LOOSEST ? GPU_MILLI - gpu->free_milli : 0;
}

/* Ascending; ties keep the first first. */
static void sort_light(struct clique *clique)
{
    for (uint32_t i = 0; i < clique->count; i++) {
        uint32_t at = i;
        for (; at > 0 && clique->weight[clique->light[at - 1]] > clique->weight[i]; at--)
            clique->light[at] = clique->light[at - 1];
        clique->light[at] = (uint8_t)i;
    }
    for (uint32_t i = 1; i < clique->count; i++)
        must(clique->weight[clique->light[i - 1]] <= clique->weight[clique->light[i]]);
}

/* Prepares a search in GPU order; clique_lightest_first() changes the order. */
static void clique_start(const struct plan *plan, const struct room *room, gpu_set among,
                         uint32_t parts, struct clique *out)
{
    must(parts > 1);
    must(set_count(among) >= parts);
    out->parts = parts;
    out->count = 0;
    out->limit = UINT32_MAX;
    out->steps = plan->steps;
    out->found = 0;
    for (; among != 0; among &= ~one_gpu(first_of(among))) {
        const uint32_t gpu = first_of(among);
        out->weight[out->count] = together_weight(plan, &room->gpu[gpu]);
        out->gpu[out->count++] = (uint8_t)gpu;
    }
    sort_light(out);
}

static void clique_lightest_first(struct clique *clique)
{
    uint8_t gpu[GPUS_PER_NODE_MAX];
    uint32_t weight[GPUS_PER_NODE_MAX];

    must(clique->count >= clique->parts);
    must(clique->count <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < clique->count; i++) {
        gpu[i] = clique->gpu[clique->light[i]];
        weight[i] = clique->weight[clique->light[i]];
    }
    for (uint32_t i = 0; i < clique->count; i++) {
        clique->gpu[i] = gpu[i];
        clique->weight[i] = weight[i];
        clique->light[i] = (uint8_t)i;
    }
}

/*
 * Sets the links between the places. is_linked, by GPU of the room: linked or numa, depending on
 * the distance.
 */
static void clique_bond(struct clique *clique, const gpu_set *is_linked)
{
    must(clique->count > 0);
    must(is_linked != NULL);
    for (uint32_t i = 0; i < clique->count; i++) {
        clique->beside[i] = 0;
        for (uint32_t k = 0; k < clique->count; k++)
            if ((is_linked[clique->gpu[i]] & one_gpu(clique->gpu[k])) != 0)
                clique->beside[i] |= one_gpu(k);
        must((clique->beside[i] & one_gpu(i)) == 0);
    }
}

/* The minimum weight of `parts` of these places. */
static uint32_t clique_least(const struct clique *clique, gpu_set among, uint32_t parts)
{
    uint32_t weight = 0;

    must_debug(set_count(among) >= parts);
    for (uint32_t i = 0; parts > 0; i++) {
        const uint32_t place = clique->light[i];
        must_debug(i < clique->count);
        if ((among & one_gpu(place)) == 0)
            continue;
        weight += clique->weight[place];
        parts--;
    }
    return weight;
}

/* The position of the search: places taken, their weight, and places that may still join. */
struct clique_at {
    uint32_t depth;
    uint8_t taken[GPUS_PER_NODE_MAX];
    uint32_t weight[GPUS_PER_NODE_MAX + 1];
    gpu_set among[GPUS_PER_NODE_MAX + 1];
};

/* Is there no clique below the limit from here on? */
static bool clique_is_hopeless(const struct clique *clique, const struct clique_at *at)
{
    const uint32_t missing = clique->parts - at->depth;
    const gpu_set among = at->among[at->depth];

    must_debug(missing > 0);
    return set_count(among) < missing ||
           at->weight[at->depth] + clique_least(clique, among, missing) >= clique->limit;
}

static void clique_take(const struct clique *clique, struct clique_at *at)
{
    const uint32_t place = first_of(at->among[at->depth]);

    must_debug(at->depth < clique->parts);
    at->among[at->depth] &= ~one_gpu(place);
    at->taken[at->depth] = (uint8_t)place;
    at->among[at->depth + 1] = at->among[at->depth] & clique->beside[place];
    at->weight[at->depth + 1] = at->weight[at->depth] + clique->weight[place];
    at->depth++;
}

/* False: the last place taken was too heavy. */
static bool clique_keep(struct clique *clique, const struct clique_at *at)
{
    must(at->depth == clique->parts);
    if (at->weight[at->depth] >= clique->limit)
        return false;
    clique->limit = at->weight[at->depth];
    clique->found = 0;
    for (uint32_t i = 0; i < clique->parts; i++)
        clique->found |= one_gpu(clique->gpu[at->taken[i]]);
    must(set_count(clique->found) == clique->parts);
    return true;
}

/* Each clique found lowers the limit to its weight; with `once`, the search ends at the first. */
static enum place_end clique_search(struct clique *clique, bool once)
{
    UNSET struct clique_at at;

    must(clique->parts > 1);
    must(clique->parts <= clique->count);
    at.depth = 0;
    at.weight[0] = 0;
    at.among[0] = 0;
    for (uint32_t i = 0; i < clique->count; i++)
        at.among[0] |= one_gpu(i);
    while (clique->steps > 0) {
        clique->steps--;
        if (clique_is_hopeless(clique, &at)) {
            if (at.depth == 0)
                return PLACE_ALL;
            at.depth--;
            continue;
        }
        clique_take(clique, &at);
        if (at.depth < clique->parts)
            continue;
        if (clique_keep(clique, &at) && once)
            return PLACE_STOPPED;
        at.depth--;
    }
    return PLACE_OUT_OF_STEPS;
}

/*
 * The choice for one want
 */

static const gpu_set *links_at(const struct gpu_links *links, enum distance distance)
{
    must(distance < DISTANCE_ANYWHERE);
    return distance == DISTANCE_LINKED ? links->linked : links->numa;
}

bool together_may(const struct plan *plan, const struct room *room, gpu_set among, uint32_t parts)
{
    const enum distance distance = together_last(plan);
    UNSET struct clique clique;
    UNSET struct gpu_links links;

    if (parts == 1 || distance == DISTANCE_ANYWHERE)
        return true;
    must(set_count(among) >= parts);
    links_of_room(plan, room, distance, &links);
    clique_start(plan, room, among, parts, &clique);
    clique_lightest_first(&clique);
    clique_bond(&clique, links_at(&links, distance));
    return clique_search(&clique, true) != PLACE_ALL;
}

/*
 * Searches at one distance: first for the minimum weight of a clique, then for the first clique of
 * that weight, by rule 5. False: there is none, or out->exact is false.
 */
static bool choose_at(const struct plan *plan, const struct room *room, gpu_set fits,
                      enum distance distance, struct rank *out, gpu_set *chosen)
{
    UNSET struct clique clique;
    UNSET struct gpu_links links;

    links_of_room(plan, room, distance, &links);
    clique_start(plan, room, fits, plan->most_parts, &clique);
    clique_lightest_first(&clique);
    clique_bond(&clique, links_at(&links, distance));
    enum place_end end = clique_search(&clique, false);
    out->steps += plan->steps - clique.steps;
    out->exact = out->exact && end == PLACE_ALL;
    if (clique.found == 0)
        return false;
    *chosen = clique.found;
    const uint32_t least = clique.limit;
    clique_start(plan, room, fits, plan->most_parts, &clique);
    clique_bond(&clique, links_at(&links, distance));
    clique.limit = least + 1;
    end = clique_search(&clique, true);
    out->steps += plan->steps - clique.steps;
    must(end != PLACE_ALL); /* at least the clique found before */
    out->exact = out->exact && end == PLACE_STOPPED;
    *chosen = clique.found != 0 ? clique.found : *chosen;
    return true;
}

bool together_choose(const struct plan *plan, const struct room *room, gpu_set fits,
                     struct rank *out, gpu_set *chosen)
{
    const enum distance last = together_last(plan);

    must(plan->request->n_wants == 1);
    must(set_count(fits) >= plan->most_parts);
    for (enum distance distance = DISTANCE_LINKED; distance <= last && distance < DISTANCE_ANYWHERE;
         distance++) {
        out->distance = distance;
        if (choose_at(plan, room, fits, distance, out, chosen))
            return true;
    }
    return false;
}
