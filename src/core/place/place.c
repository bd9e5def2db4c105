/*
 * Finds the GPUs of a node for a request. Called by filter, the ledger, the table of waiting pods
 * and REST in their threads; all state is in the caller's plan and room. The same room and request
 * always give the same answer, because a bind must find the placement that filter promised. One
 * want is solved exactly here. Several become rows and slots (place_plan.c, place_shape.c), are
 * laid as cheaply as the steps allow (place_best.c), and then in the order of rule 5
 * (place_walk.c). Rule b comes first: a search begins with the nearest distance at which the wants
 * can lie (place_together.c). Steps bound the search, never time. Parts: room, one want, several
 * wants, placements, each.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/rules/rulebook.h"

#include "place_internal.h"

/*
 * Rooms
 */

void room_of(const struct node *node, struct room *out)
{
    const uint32_t gpus = node_room_gpus(node);

    must(out != NULL);
    must(node->n_gpus <= gpus || (node->gpu[gpus].flags & GPU_ABSENT) != 0);
    out->closed = node_closed(node);
    out->shared = node_has_shares(node);
    out->host_known = node->host_known;
    out->host = node->host;
    out->rules = node->rules;
    out->idle = node->rules != 0 && node_is_idle(node);
    out->is_leaving = false;
    out->free_milli = node->free_milli;
    out->n_gpus = gpus;
    for (uint32_t i = 0; i < gpus; i++) {
        const struct gpu *gpu = &node->gpu[i];
        out->gpu[i] = (struct gpu_room){
            .milli = gpu->milli,
            .mib = gpu->mib,
            .free_milli = gpu_free(gpu),
            .free_mib = gpu->used_mib < gpu->mib ? gpu->mib - gpu->used_mib : 0,
            .closed = gpu_closed(gpu),
            .socket = gpu->numa < 0 ? 0 : (uint32_t)gpu->numa + 1,
            .peers = gpu->peers,
            .model = gpu->model,
        };
    }
}

static bool is_among(const char *uid, const struct text *uids, uint32_t count)
{
    must(uid != NULL);
    for (uint32_t i = 0; i < count; i++)
        if (text_is(uids[i], uid))
            return true;
    return false;
}

/* Copies the notes of GPUs that are held whole, except by these pods. */
static uint32_t holders_without(const struct node *node, const struct text *uids, uint32_t count,
                                struct gpu_note *out)
{
    uint32_t notes = 0;

    must(node->n_notes <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < node->n_notes; i++) {
        enum hold_kind kind;
        struct text uid;
        if (node->note[i].held == NULL)
            continue;
        const bool known = hold_kind(node->note[i].held, &kind, &uid);
        must(known); /* as in node_new() */
        if (uid.len == 0 || !is_among(uid.at, uids, count))
            out[notes++] = (struct gpu_note){.gpu = node->note[i].gpu, .held = node->note[i].held};
    }
    must(notes <= node->n_notes);
    return notes;
}

void room_without(const struct node *node, const struct text *uids, uint32_t count,
                  struct room *out)
{
    struct gpu_note note[GPUS_PER_NODE_MAX];
    CLEANUP(xfreep)
    const struct allocation **staying =
        xmalloc((node->n_allocations + 1) * sizeof(struct allocation *));
    struct node_build build = {
        .name = node->name,
        .uid = node->uid,
        .gone = node->gone,
        .plugin = node->plugin,
        .vouch = node->vouch,
        .vouch_ms = node->vouch_ms,
        .host_known = node->host_known,
        .host = node->host,
        .taints = node->taints,
        .unusable = node->unusable,
        .rules = node->rules,
        .n_gpus = node->n_gpus,
        .gpu = node->gpu,
        .allocation = staying,
        .n_notes = holders_without(node, uids, count, note),
        .note = note,
        .names = node->names,
    };

    must(count == 0 || uids != NULL);
    for (uint32_t i = 0; i < node->n_allocations; i++)
        if (!is_among(node->allocation[i]->facts.uid, uids, count))
            staying[build.n_allocations++] = node->allocation[i];
    must(build.n_allocations + count >= node->n_allocations); /* a uid occurs once */

    /*
     * Rebuilt rather than subtracted: the reason that closes a GPU or the node may leave with the
     * victims.
     */
    struct node *without = node_new(&build);
    room_of(without, out);
    out->is_leaving = out->idle && !node_is_idle(node);
    must(out->n_gpus <= GPUS_PER_NODE_MAX);
    node_unref(without);
}

void room_take(struct room *room, uint32_t gpu, uint32_t milli)
{
    must(gpu < room->n_gpus);

    struct gpu_room *from = &room->gpu[gpu];
    const uint32_t taken = milli < from->free_milli ? milli : from->free_milli;
    from->free_milli -= taken;
    /* The room's free_milli counts only open GPUs. */
    if (from->closed == REASON_NONE && room->closed == REASON_NONE) {
        must(taken <= room->free_milli);
        room->free_milli -= taken;
    }
}

void taken_add(struct taken *taken, uint32_t gpu, uint32_t milli)
{
    uint32_t at = 0;

    must(taken->count <= TAKEN_MAX);
    must(gpu < GPUS_PER_NODE_MAX);
    while (at < taken->count && taken->gpu[at] < gpu)
        at++;
    if (at == taken->count || taken->gpu[at] != gpu) {
        if (taken->count == TAKEN_MAX)
            return;
        for (uint32_t i = taken->count++; i > at; i--) {
            taken->gpu[i] = taken->gpu[i - 1];
            taken->milli[i] = taken->milli[i - 1];
        }
        taken->gpu[at] = (uint8_t)gpu;
        taken->milli[at] = 0;
    }
    const uint32_t rest = (uint32_t)GPU_MILLI - taken->milli[at];
    taken->milli[at] = (uint16_t)(taken->milli[at] + (milli < rest ? milli : rest));
}
static_assert(sizeof(struct taken) == 2 + TAKEN_MAX * 3, "no padding");

void room_take_all(struct room *room, const struct taken *taken)
{
    must(taken->count <= TAKEN_MAX);
    for (uint32_t i = 0; i < taken->count; i++) {
        must(taken->gpu[i] < room->n_gpus);
        room_take(room, taken->gpu[i], taken->milli[i]);
    }
}

/*
 * The capacity for each want on its own
 */

/*
 * The first reason in the order of reason.h why one part does not fit on one GPU. Compares products
 * to avoid the division in inventory_share_mib(): floor(a / b) < c exactly if a < b x c.
 */
static enum reason place_hurdle(const struct gpu_room *gpu, bool model, uint32_t milli,
                                uint32_t floor)
{
    const uint64_t comes_with = (uint64_t)gpu->mib * milli;

    must(milli > 0 && milli <= GPU_MILLI);
    if (gpu->milli == 0)
        return REASON_ABSENT; /* memory size unknown */
    if (!model)
        return REASON_MODEL;
    if (milli > gpu->milli)
        return REASON_SMALL;
    if (comes_with < (uint64_t)floor * gpu->milli)
        return gpu->mib > 0 ? REASON_MEMORY : REASON_MEMORY_UNKNOWN;
    if (gpu->closed != REASON_NONE)
        return gpu->closed;
    if (milli > gpu->free_milli || comes_with >= ((uint64_t)gpu->free_mib + 1) * gpu->milli)
        return REASON_ROOM;
    return REASON_NONE;
}

static_assert(REASON_NO_GPU < REASON_MODEL && REASON_MODEL < REASON_SMALL &&
                  REASON_SMALL < REASON_MEMORY && REASON_MEMORY < REASON_MEMORY_UNKNOWN &&
                  REASON_MEMORY_UNKNOWN < REASON_RULE && REASON_RULE < REASON_FEW &&
                  REASON_FEW < REASON_TOPOLOGY && REASON_TOPOLOGY < REASON_MIXED &&
                  REASON_MIXED < REASON_UNPLACED && REASON_UNPLACED < REASON_PLUGIN &&
                  REASON_PLUGIN < REASON_AGENT && REASON_AGENT < REASON_HELD &&
                  REASON_HELD < REASON_ABSENT && REASON_ABSENT < REASON_UNHEALTHY &&
                  REASON_UNHEALTHY < REASON_CORDONED && REASON_CORDONED < REASON_CROWDED &&
                  REASON_CROWDED < REASON_RESERVE && REASON_RESERVE < REASON_ROOM,
              "the kinds come before the moments, in the order in which place_hurdle() looks");

/*
 * By the order of reason.h: every reason after REASON_TOPOLOGY can pass (a pod ends, a repair, an
 * operator's action).
 */
static bool may_change(enum reason why)
{
    return why > REASON_TOPOLOGY;
}

/* Computed once per room, because each want checks each GPU. */
static gpu_set find_models(struct plan *plan, const struct room *room)
{
    gpu_set set = 0;

    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    if (plan->request->n_models == 0 && (plan->rule == NULL || plan->rule->n_models == 0))
        return plan->usable;
    for (uint32_t i = 0; i < room->n_gpus; i++)
        set |= plan_takes(plan, room->gpu[i].model) ? one_gpu(i) : 0;
    return set & plan->usable;
}

/*
 * The GPUs that fit one part of this want, and the reason if too few of them fit, or none as near
 * as the plan demands.
 */
static enum reason find_fits(const struct plan *plan, const struct room *room,
                             const struct want *want, gpu_set models, gpu_set *out)
{
    const uint32_t milli = plan_milli(plan, want);
    enum reason nearest = REASON_NONE;
    gpu_set able = 0;

    must(room->n_gpus > 0);
    must(want->parts > 0);
    *out = 0;
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        const bool model = (models & one_gpu(i)) != 0;
        const enum reason why =
            place_hurdle(&room->gpu[i], model, milli, plan->request->memory_mib);
        if (why == REASON_NONE)
            *out |= one_gpu(i);
        able |= why == REASON_NONE || may_change(why) ? one_gpu(i) : 0;
        nearest = why > nearest ? why : nearest;
    }
    must((*out & ~able) == 0);
    if (able == 0)
        return nearest;
    if (set_count(able) < want->parts)
        return REASON_FEW;
    if (!together_may(plan, room, able, want->parts))
        return REASON_TOPOLOGY;
    if (room->closed != REASON_NONE)
        return room->closed;
    if (set_count(*out) < want->parts || !together_may(plan, room, *out, want->parts))
        return nearest;
    return REASON_NONE;
}

/* A want that this kind of node can never serve gives the reason for the whole request. */
static enum reason place_weigh(enum reason a, enum reason b)
{
    must(a <= REASON_ROOM);
    must(b <= REASON_ROOM);
    if (a == REASON_NONE || b == REASON_NONE)
        return a > b ? a : b;
    if (may_change(a) != may_change(b))
        return may_change(a) ? b : a;
    return a > b ? a : b;
}

/*
 * One want: the charge is the same everywhere, so the best GPUs are the tightest ones, or the
 * loosest or the first for other policies
 */

static bool place_prefers(enum place_choice choice, const struct gpu_room *a,
                          const struct gpu_room *b)
{
    must(a->closed == REASON_NONE);
    must(b->closed == REASON_NONE);
    if (choice == PLACE_TIGHTEST)
        return a->free_milli < b->free_milli;
    return choice == PLACE_LOOSEST && a->free_milli > b->free_milli;
}

/* Ties go to the first GPU, by rule 5. */
static uint32_t place_preferred(const struct room *room, enum place_choice choice, gpu_set among)
{
    uint32_t best = first_of(among);

    for (among &= ~one_gpu(best); among != 0; among &= ~one_gpu(first_of(among)))
        if (place_prefers(choice, &room->gpu[first_of(among)], &room->gpu[best]))
            best = first_of(among);
    must(best < room->n_gpus);
    must(room->gpu[best].closed == REASON_NONE);
    return best;
}

static gpu_set choose_anywhere(const struct room *room, const struct plan *plan, gpu_set fits)
{
    const struct want *want = &plan->request->want[0];
    const uint32_t milli = plan_milli(plan, want);
    gpu_set chosen = 0;

    must(want->parts > 0);
    must(set_count(fits) >= want->parts);
    for (uint32_t i = 0; i < want->parts; i++) {
        const uint32_t gpu = place_preferred(room, plan->choice, fits & ~chosen);
        must(room->gpu[gpu].free_milli >= milli);
        chosen |= one_gpu(gpu);
    }
    return chosen;
}

/* False: no GPUs that meet the plan's demand were found within the steps. */
static bool choose_one(const struct room *room, const struct plan *plan, gpu_set fits,
                       struct rank *out, gpu_set *chosen)
{
    const struct want *want = &plan->request->want[0];
    const uint32_t milli = plan_milli(plan, want);

    must(set_count(fits) >= want->parts);
    if (!together_matters(plan, room) || !together_choose(plan, room, fits, out, chosen)) {
        out->distance = together_unknown(plan);
        if (out->distance > together_last(plan))
            return false;
        *chosen = choose_anywhere(room, plan, fits);
    }
    for (gpu_set rest = *chosen; rest != 0; rest &= ~one_gpu(first_of(rest))) {
        must(room->gpu[first_of(rest)].free_milli >= milli);
        out->charge_milli += milli;
        out->left_milli += room->gpu[first_of(rest)].free_milli - milli;
    }
    return true;
}

/* Each whole GPU needs a GPU without shares that is not held whole. An unhealthy one counts. */
static bool leaves_whole(const struct room *room, const struct request *request, uint32_t touched)
{
    uint32_t there = 0;

    for (uint32_t i = 0; i < room->n_gpus; i++)
        there += room->gpu[i].closed != REASON_ABSENT && room->gpu[i].closed != REASON_HELD;
    must(request->whole > 0);
    must(touched <= there);
    return request->whole <= there - touched;
}

/* Given that the shares fit on at least this many GPUs. */
static enum reason weigh_whole(const struct room *room, const struct request *request,
                               uint32_t touched)
{
    must(touched <= room->n_gpus);
    must(touched > 0 || request->n_wants == 0 || request->whole == 0);
    if (request->whole == 0)
        return REASON_NONE;
    if (room->shared)
        return REASON_MIXED;
    return touched > 0 && !leaves_whole(room, request, touched) ? REASON_ROOM : REASON_NONE;
}

enum reason place_weigh_node(const struct room *room, const struct request *request,
                             uint32_t touched)
{
    must(touched > 0 || request->n_wants == 0);
    must(touched == 0 || request->n_wants > 0);
    if (request->n_wants > 0 && room->closed != REASON_NONE)
        return room->closed;
    return weigh_whole(room, request, touched);
}

/*
 * A want touches as many GPUs as it has parts, whichever they are, so whole GPUs can be judged
 * after the choice.
 */
static enum reason evaluate_one(struct plan *plan, const struct room *room, struct rank *out,
                                gpu_set *chosen)
{
    const struct want *want = &plan->request->want[0];
    gpu_set fits;

    must(plan->request->n_wants == 1);
    if (room->n_gpus == 0)
        return REASON_NO_GPU;
    const enum reason why = find_fits(plan, room, want, find_models(plan, room), &fits);
    if (why != REASON_NONE)
        return why;
    if (!choose_one(room, plan, fits, out, chosen))
        return REASON_UNSEARCHED;
    must(set_count(*chosen) == want->parts);
    return weigh_whole(room, plan->request, want->parts);
}

/*
 * Several wants
 */

/* The reason why some want does not fit even on its own; REASON_NONE if each does. */
static enum reason weigh_each(struct plan *plan, const struct room *room)
{
    const struct request *request = plan->request;
    enum reason why = REASON_NONE;
    gpu_set fits;

    must(request->n_wants > 0 && request->n_wants <= CONTAINERS_MAX);
    must(plan->rows.count > 0 && plan->rows.count <= request->n_wants);
    if (room->n_gpus == 0)
        return REASON_NO_GPU;
    const gpu_set models = find_models(plan, room);
    for (uint32_t r = 0, w = 0; r < plan->rows.count; w += plan->rows.row[r++].wants)
        why = place_weigh(why,
                          find_fits(plan, room, &request->want[plan->rows.want[w]], models, &fits));
    return why;
}

/* The same as a yes or no, which decides most rooms of a large question. */
static bool fits_each(const struct plan *plan, const struct room *room, const struct shape *shape)
{
    if (room->closed != REASON_NONE)
        return false;
    for (uint32_t r = 0; r < plan->rows.count; r++) {
        const struct plan_row *row = &plan->rows.row[r];
        uint32_t fits = 0;
        for (uint32_t i = 0; i < shape->n_slots; i++)
            fits += slot_takes(&shape->slot[i], row->milli);
        if (fits < row->parts)
            return false;
    }
    must(shape->n_slots > 0);
    must(shape->n_slots >= plan->most_parts);
    return true;
}

/*
 * Uses the cache only without a layout (cell NULL), because cached results have none. A hit costs
 * no steps.
 */
static void search_shape(struct plan *plan, const struct shape *shape, uint8_t *cell,
                         struct result *out)
{
    const struct result *known =
        plan->shapes != NULL && cell == NULL ? shapes_find(plan->shapes, shape) : NULL;
    UNSET uint8_t own[CELLS_ALL];

    must(shape->n_slots > 0);
    if (known != NULL) {
        *out = *known;
        out->steps = 0;
        return;
    }
    best_way(plan, shape, cell != NULL ? cell : own, out);
    if (plan->shapes != NULL && cell == NULL)
        shapes_keep(plan->shapes, shape, out);
    must(out->steps > 0);
}

/*
 * Pairs the slots for this distance. Returns the links that keep wants as near, in own; NULL: they
 * may lie anywhere.
 */
static const struct gpu_links *pair_at(const struct plan *plan, const struct room *room,
                                       enum distance distance, struct shape *shape,
                                       struct gpu_links *own)
{
    const bool is_linked = distance < together_unknown(plan);
    UNSET struct gpu_links by_gpu;

    must(distance <= DISTANCE_ANYWHERE);
    if (is_linked) {
        links_of_room(plan, room, distance, &by_gpu);
        links_of_shape(&by_gpu, shape, own);
    }
    shape_pair(shape, is_linked ? own : NULL);
    return is_linked ? own : NULL;
}

/* The cheapest layout at this distance. The shape must be sorted. */
static enum reason evaluate_at(struct plan *plan, const struct room *room, enum distance distance,
                               struct shape *shape, uint8_t *cell, struct result *out)
{
    UNSET uint8_t own_cell[CELLS_ALL];
    UNSET struct plan_rows rows;
    UNSET struct gpu_links own;
    const struct gpu_links *links = pair_at(plan, room, distance, shape, &own);

    if (links == NULL) {
        search_shape(plan, shape, cell, out);
    } else {
        /* Not cached: equal rooms with different links have different results. */
        rows_separate(plan, &rows);
        best_way_together(plan, &rows, shape, links, cell != NULL ? cell : own_cell, out);
    }
    out->distance = distance;
    must(out->any || out->cost == UINT64_MAX);
    return out->any ? weigh_whole(room, plan->request, cost_touched(out->cost)) : REASON_ROOM;
}

/*
 * Rule b: the nearest distance at which the pod fits. If there is none, the last search decides,
 * because every nearer distance lies within it.
 */
static enum reason evaluate_each_distance(struct plan *plan, const struct room *room,
                                          struct shape *shape, uint8_t *cell, struct result *out)
{
    const enum distance unknown = together_unknown(plan);
    const enum distance last = together_last(plan) < unknown ? together_last(plan) : unknown;
    enum distance distance = together_matters(plan, room) ? DISTANCE_LINKED : unknown;
    enum reason why = evaluate_at(plan, room, distance, shape, cell, out);
    uint32_t steps = out->steps;
    bool exact = true;

    must(distance <= last);
    while (why != REASON_NONE && distance < last) {
        exact = exact && out->exact;
        why = evaluate_at(plan, room, ++distance, shape, cell, out);
        steps += out->steps;
    }
    out->exact = out->exact && (exact || why != REASON_NONE);
    out->steps = steps;
    return why;
}

/* cell NULL: the caller needs no layout. */
static enum reason evaluate_many(struct plan *plan, const struct room *room, struct shape *shape,
                                 uint8_t *cell, struct result *out)
{
    must(plan->request->n_wants > 1);
    *out = (struct result){.exact = true};
    shape_of(plan, room, false, shape);
    enum reason why = REASON_NONE;
    if (!fits_each(plan, room, shape)) {
        why = weigh_each(plan, room);
        must(why != REASON_NONE);
        return why;
    }
    shape_sort(shape);
    why = evaluate_each_distance(plan, room, shape, cell, out);
    /* Each want fits, but not as near as demanded. */
    if (why != REASON_NONE && together_last(plan) < together_unknown(plan)) {
        const enum reason each = weigh_each(plan, room);
        if (each != REASON_NONE)
            return each;
    }
    /* With more steps the search might have found fewer GPUs, or any at all. */
    return why == REASON_ROOM && !out->exact ? REASON_UNSEARCHED : why;
}

static void rank_way(const struct result *result, struct rank *out)
{
    out->exact = result->exact;
    out->distance = result->distance;
    out->steps = result->steps;
    if (!result->any)
        return;
    out->charge_milli = cost_charge(result->cost);
    out->left_milli = cost_left(result->cost);
    must(out->charge_milli > 0);
    must(result->cost != UINT64_MAX);
}

static enum reason evaluate_level(struct plan *plan, const struct room *room, struct rank *out)
{
    UNSET struct shape shape;
    struct result result;
    gpu_set chosen;

    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    must(plan->request->n_wants > 0);
    if (plan->request->n_wants == 1)
        return evaluate_one(plan, room, out, &chosen);
    const enum reason why = evaluate_many(plan, room, &shape, NULL, &result);
    rank_way(&result, out);
    must(why != REASON_UNSEARCHED || !out->exact);
    return why;
}

enum reason place_evaluate(struct plan *plan, const struct room *room, struct rank *out)
{
    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    *out = (struct rank){.exact = true, .free_milli = room->free_milli};
    const enum reason refused = plan_admit(plan, room);
    if (refused != REASON_NONE)
        return refused;
    const enum reason why = plan->request->n_wants == 0
                                ? weigh_whole(room, plan->request, 0)
                                : plan_settle(plan, room, evaluate_level, out);
    return plan_keep(plan, room, why);
}

/*
 * Placements
 */

/* Field by field: most of the large part[] is unused. */
static void start_placement(struct placement *out, const struct rank *rank)
{
    must(out != NULL && rank != NULL);
    out->exact = rank->exact;
    out->distance = rank->distance;
    out->price = rank->price;
    out->raised_milli = rank->raised_milli;
    out->charge_milli = rank->charge_milli;
    out->left_milli = rank->left_milli;
    out->free_milli = rank->free_milli;
    out->n_parts = 0;
}

/*
 * Stops at the first leaf: the walk goes in the order of rule 5, and its bound excludes costlier
 * layouts.
 */
static bool place_stop(struct walk *walk)
{
    must(walk->n_cells > 0);
    must(walk_cost(walk) < walk->bound);
    return false;
}

/*
 * Rule 5: the first of all layouts that cost no more, compared want by want and GPU by GPU, parts
 * first. False if the steps run out before.
 */
static bool find_first(struct plan *plan, const struct room *room, const struct result *found,
                       struct placement *out)
{
    UNSET struct shape shape;
    UNSET struct plan_rows rows;
    UNSET struct walk walk;
    UNSET struct gpu_links own;

    must(plan->request->n_wants > 1);
    shape_of(plan, room, false, &shape);
    const struct gpu_links *links = pair_at(plan, room, found->distance, &shape, &own);
    rows_of_wants(plan, &rows);
    if (rows.count * shape.n_slots > CELLS_MAX)
        return false;
    walk.rows = &rows;
    walk.shape = &shape;
    walk.links = links;
    walk.touch = touch_of(plan);
    walk.bound = found->cost + 1;
    walk.steps = FIRST_STEPS_MAX;
    walk.visit = place_stop;
    const enum place_end end = walk_all(&walk);
    must(end != PLACE_ALL); /* at least the layout found before */
    if (end == PLACE_STOPPED)
        way_write(&rows, &shape, walk.cell, out);
    return end == PLACE_STOPPED;
}

/*
 * Two searches: the minimum cost on sorted slots, shared by equal rooms, and then the first layout
 * of that cost on the GPUs in their own order. If the steps run out in between, or any layout will
 * do, the answer is that of the first search.
 */
static enum reason find_many(struct plan *plan, const struct room *room, bool any,
                             struct rank *rank, struct placement *out)
{
    UNSET struct shape shape;
    UNSET uint8_t cell[CELLS_ALL];
    UNSET struct plan_rows rows;
    struct result result;
    const bool exact = rank->exact;     /* of the level */
    const uint32_t steps = rank->steps; /* of the level */
    const enum reason why = evaluate_many(plan, room, &shape, cell, &result);

    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    must(why != REASON_NONE || result.any);
    rank_way(&result, rank);
    rank->exact = rank->exact && exact;
    rank->steps += steps;
    start_placement(out, rank);
    if (why != REASON_NONE || (!any && result.exact && find_first(plan, room, &result, out)))
        return why;
    must(result.any);
    out->exact = out->exact && any;
    if (result.distance < together_unknown(plan))
        rows_separate(plan, &rows);
    else
        rows = plan->rows;
    way_write(&rows, &shape, cell, out);
    return REASON_NONE;
}

/* Sets the plan's level. *out gets the rank of that search, and stays blank without levels. */
static enum reason find_level(struct plan *plan, const struct room *room, struct rank *out)
{
    must(out->exact);
    if (plan->request->n_wants == 0)
        return REASON_NONE;
    if (plan_has_levels(plan))
        return plan_settle(plan, room, evaluate_level, out);
    plan->price = 0;
    plan->usable = ~(gpu_set)0;
    plan_raise(plan, 0);
    must(out->price == 0 && out->raised_milli == 0);
    return REASON_NONE;
}

/* place_find() or place_any() without the reserve. */
static enum reason find_in_room(struct plan *plan, const struct room *room, bool any,
                                struct rank *out_rank, struct placement *out)
{
    gpu_set chosen = 0;

    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    must(out != NULL);
    *out_rank = (struct rank){.exact = true, .free_milli = room->free_milli};
    enum reason why = plan_admit(plan, room);
    if (why == REASON_NONE)
        why = find_level(plan, room, out_rank);
    if (why != REASON_NONE) {
        start_placement(out, out_rank);
        return why;
    }
    /* Cleared, because the final search adds the cost again. */
    out_rank->charge_milli = out_rank->left_milli = 0;
    if (plan->request->n_wants > 1)
        return find_many(plan, room, any, out_rank, out);
    why = plan->request->n_wants == 0 ? weigh_whole(room, plan->request, 0)
                                      : evaluate_one(plan, room, out_rank, &chosen);
    start_placement(out, out_rank);
    for (; why == REASON_NONE && chosen != 0; chosen &= ~one_gpu(first_of(chosen)))
        out->part[out->n_parts++] = (struct part){.gpu = (uint16_t)first_of(chosen)};
    return why;
}

static enum reason find_way(struct plan *plan, const struct room *room, bool any,
                            struct rank *out_rank, struct placement *out)
{
    const enum reason why = plan_keep(plan, room, find_in_room(plan, room, any, out_rank, out));

    must(out->n_parts <= PARTS_MAX);
    if (why != REASON_NONE)
        out->n_parts = 0;
    return why;
}

enum reason place_find(struct plan *plan, const struct room *room, struct rank *out_rank,
                       struct placement *out)
{
    must(out_rank != NULL);
    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    return find_way(plan, room, false, out_rank, out);
}

enum reason place_any(struct plan *plan, const struct room *room, struct rank *out_rank,
                      struct placement *out)
{
    must(out_rank != NULL);
    return find_way(plan, room, true, out_rank, out);
}

/*
 * Every distinct placement
 */

struct each {
    const struct plan *plan;
    const struct room *room;
    void *user;
    place_visit *visit;
    enum distance distance;
    struct placement placement;
};

/* Skips layouts that leave too few GPUs for the request's whole ones. */
static bool visit_placement(struct walk *walk)
{
    struct each *each = walk->user;
    const uint64_t cost = walk_cost(walk);
    const struct rank rank = {
        .distance = each->distance,
        .price = each->plan->price,
        .raised_milli = each->plan->raised_milli,
        .charge_milli = cost_charge(cost),
        .left_milli = cost_left(cost),
        .free_milli = each->room->free_milli,
    };

    must(rank.charge_milli > 0);
    must(rank.charge_milli >= each->plan->running_milli);
    if (weigh_whole(each->room, each->plan->request, cost_touched(cost)) != REASON_NONE)
        return true;
    start_placement(&each->placement, &rank);
    way_write(walk->rows, walk->shape, walk->cell, &each->placement);
    return each->visit(each->user, &each->placement);
}

/* Visits the placement of the only part on this slot, as visit_placement() does. */
static bool visit_part(struct each *each, const struct shape *shape, uint32_t slot)
{
    const struct plan *plan = each->plan;
    const uint32_t milli = plan->rows.row[0].milli;
    const struct rank rank = {
        .distance = each->distance,
        .price = plan->price,
        .raised_milli = plan->raised_milli,
        .charge_milli = milli,
        .left_milli = shape->slot[slot].free_milli - milli,
        .free_milli = each->room->free_milli,
    };

    must(milli <= shape->slot[slot].free_milli);
    if (weigh_whole(each->room, plan->request, plan->request->whole > 0) != REASON_NONE)
        return true;
    start_placement(&each->placement, &rank);
    each->placement.part[each->placement.n_parts++] = (struct part){.gpu = shape->gpu[slot]};
    return each->visit(each->user, &each->placement);
}

/*
 * Most requests are one part: the walk then goes along the slots, from each distinct one that takes
 * the part to the end and back. False: other requests, or the steps might run out.
 */
static bool is_one_part(const struct plan *plan, const struct shape *shape, uint32_t steps)
{
    const struct plan_row *row = &plan->rows.row[0];

    must(shape->n_slots <= GPUS_PER_NODE_MAX);
    return plan->rows.count == 1 && row->wants == 1 && row->parts == 1 &&
           shape->n_slots * (shape->n_slots + 4) <= steps;
}

/* Visits for one part the placements that walk_all() would visit, for the same number of steps. */
static enum place_end visit_parts(struct each *each, const struct shape *shape, uint32_t *out_steps)
{
    const struct plan_row *row = &each->plan->rows.row[0];
    const struct load none = {0};
    const uint32_t slots = shape->n_slots;
    uint32_t last = slots - 1;
    uint32_t steps = slots; /* to open the row */

    for (; load_takes(&none, &shape->slot[last], row) == 0; last--)
        must(last > 0);
    for (uint32_t i = 0; i <= last; i++) {
        if (shape->equal_slot[i] == 0 && load_takes(&none, &shape->slot[i], row) > 0) {
            steps += slots - i; /* laid here, and nothing on the slots behind */
            *out_steps = steps;
            if (!visit_part(each, shape, i))
                return PLACE_STOPPED;
            steps += slots - i - 1; /* back */
        }
        steps += i < last; /* nothing here */
    }
    *out_steps = steps + last + 1; /* back to the first slot, and from there */
    must(*out_steps < slots * (slots + 4));
    return PLACE_ALL;
}

enum place_end place_each(struct plan *plan, const struct room *room, uint32_t steps, void *user,
                          place_visit *visit)
{
    UNSET struct each each;
    UNSET struct shape shape;
    UNSET struct plan_rows rows;
    UNSET struct gpu_links own;
    UNSET struct walk walk;
    struct rank nearest = {.exact = true, .distance = together_unknown(plan)};

    must(visit != NULL);
    must(plan->request->n_wants > 0);
    plan->walked = 0;
    shape_of(plan, room, true, &shape);
    if (!fits_each(plan, room, &shape))
        return PLACE_ALL;
    if (together_matters(plan, room)) {
        const enum reason why = place_evaluate(plan, room, &nearest);
        if (why != REASON_NONE)
            return why == REASON_UNSEARCHED ? PLACE_OUT_OF_STEPS : PLACE_ALL;
    }
    const struct gpu_links *links = pair_at(plan, room, nearest.distance, &shape, &own);
    each.plan = plan;
    each.room = room;
    each.user = user;
    each.visit = visit;
    each.distance = nearest.distance;
    if (is_one_part(plan, &shape, steps)) {
        must(links == NULL);
        return visit_parts(&each, &shape, &plan->walked);
    }
    rows_separate(plan, &rows);
    if (links == NULL)
        rows = plan->rows;
    if (rows.count * shape.n_slots > CELLS_MAX)
        return PLACE_OUT_OF_STEPS;
    walk.rows = &rows;
    walk.shape = &shape;
    walk.links = links;
    walk.touch = touch_of(plan);
    walk.bound = UINT64_MAX;
    walk.steps = steps;
    walk.user = &each;
    walk.visit = visit_placement;
    const enum place_end end = walk_all(&walk);
    must(walk.steps <= steps);
    plan->walked = steps - walk.steps;
    return end == PLACE_ALL && !nearest.exact ? PLACE_OUT_OF_STEPS : end;
}

/*
 * The shares of a placement
 */

void place_shares(const struct placement *placement, const struct request *request,
                  const struct node *node, struct share *share)
{
    must(placement->n_parts <= PARTS_MAX);
    for (uint32_t i = 0; i < placement->n_parts; i++) {
        const struct part part = placement->part[i];
        must(part.want < request->n_wants);
        must(part.gpu < node->n_gpus);
        const struct want *want = &request->want[part.want];
        const struct gpu *gpu = &node->gpu[part.gpu];
        const uint32_t milli = placement_milli(placement, want);
        must(milli <= gpu->milli);
        share[i] = (struct share){
            .container = want->container,
            .kind = want->kind,
            .order = part.want,
            .gpu = gpu->id,
            .milli = milli,
            .asked = want->milli,
            .mib = inventory_share_mib(gpu->mib, gpu->milli, milli),
        };
    }
}
