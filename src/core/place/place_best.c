/*
 * Finds the cheapest layout of several wants on one shape. Called by place.c in any thread, once
 * for each shape that is not cached. First the greedy layout, then lower bounds that may prove it
 * best or a fit impossible, then a walk for cheaper layouts with the remaining steps: so the answer
 * is never worse than the greedy one.
 */
#include <string.h>

#include "place_internal.h"

/*
 * The greedy layout: one want after the other, each part where it costs least
 */

struct greedy {
    const struct plan *plan;
    const struct shape *shape;
    struct load load[GPUS_PER_NODE_MAX];
    uint32_t steps;
};

/* Rules 1 and 2 for one part: the increase of the charge, then the free milli left. */
static int32_t added_cost(const struct slot *slot, const struct load *load,
                          const struct plan_row *one)
{
    struct sums after = load->milli;
    const uint32_t charge = sums_peak(&load->milli);

    sums_add(&after, one->kind, one->milli, 1);
    const int32_t raise = (int32_t)(sums_peak(&after) - charge);
    const int32_t left = charge > 0 ? -raise : (int32_t)(slot->free_milli - sums_peak(&after));
    must(raise >= 0 && raise <= GPU_MILLI);
    must(left >= -GPU_MILLI && left <= GPU_MILLI);
    return raise * 4 * GPU_MILLI + left;
}

/* The cheapest slots for the parts of a want, in order of cost. */
struct cheapest {
    uint32_t count;
    uint8_t slot[GPUS_PER_NODE_MAX];
    int32_t cost[GPUS_PER_NODE_MAX];
};

/* Ties keep the first slot first. */
static void place_best_consider(struct cheapest *cheapest, uint32_t most, uint32_t slot,
                                int32_t cost)
{
    uint32_t at = cheapest->count;

    must(most > 0 && at <= most);
    must(slot < GPUS_PER_NODE_MAX);
    if (at == most && cost >= cheapest->cost[at - 1])
        return;
    if (at == most)
        at--;
    else
        cheapest->count++;
    for (; at > 0 && cheapest->cost[at - 1] > cost; at--) {
        cheapest->slot[at] = cheapest->slot[at - 1];
        cheapest->cost[at] = cheapest->cost[at - 1];
    }
    cheapest->slot[at] = (uint8_t)slot;
    cheapest->cost[at] = cost;
}

/* The parts of one want lie on different GPUs, so their costs are independent. */
static bool put_want(struct greedy *greedy, const struct plan_row *row, uint8_t *line)
{
    const struct plan_row one = {row->kind, row->milli, row->parts, 1};
    const struct shape *shape = greedy->shape;
    UNSET struct cheapest cheapest;

    must(row->parts > 0);
    cheapest.count = 0;
    memset(cheapest.slot, 0, sizeof cheapest.slot); /* for static analysers */
    for (uint32_t i = 0; i < shape->n_slots; i++)
        if (load_takes(&greedy->load[i], &shape->slot[i], &one) > 0)
            place_best_consider(&cheapest, row->parts, i,
                                added_cost(&shape->slot[i], &greedy->load[i], &one));
    greedy->steps += shape->n_slots;
    if (cheapest.count < row->parts)
        return false;
    for (uint32_t i = 0; i < row->parts; i++) {
        const uint32_t to = cheapest.slot[i];
        load_add(&greedy->load[to], &shape->slot[to], &one, 1);
        line[to]++;
        must(line[to] <= row->wants);
    }
    greedy->steps += row->parts;
    return true;
}

static uint64_t cost_of_loads(const struct greedy *greedy)
{
    const uint64_t touch = touch_of(greedy->plan);
    uint64_t cost = 0;

    for (uint32_t i = 0; i < greedy->shape->n_slots; i++)
        cost += load_cost(&greedy->load[i], &greedy->shape->slot[i], touch);
    must(cost_charge(cost) > 0);
    must(cost_charge(cost) >= greedy->plan->running_milli);
    return cost;
}

/*
 * Rows are sorted hardest first (place_plan.c); each want goes where it costs least. Steps count
 * against the limit shared with the walk.
 */
static void go_greedily(const struct plan *plan, const struct shape *shape, uint8_t *cell,
                        struct result *out)
{
    UNSET struct greedy greedy;
    const struct plan_rows *rows = &plan->rows;
    bool fits = true;

    must(rows->count * shape->n_slots <= CELLS_ALL);
    greedy.plan = plan;
    greedy.shape = shape;
    greedy.steps = 0;
    for (uint32_t i = 0; i < shape->n_slots; i++)
        greedy.load[i] = (struct load){0};
    memset(cell, 0, (size_t)rows->count * shape->n_slots);
    for (uint32_t r = 0; r < rows->count && fits; r++)
        for (uint32_t w = 0; w < rows->row[r].wants && fits; w++)
            fits = put_want(&greedy, &rows->row[r], &cell[(size_t)r * shape->n_slots]);
    must(greedy.steps >= shape->n_slots);
    out->any = fits;
    out->cost = fits ? cost_of_loads(&greedy) : UINT64_MAX;
    out->steps += greedy.steps;
}

/*
 * Lower bounds on the cost of any layout
 */

/*
 * The minimum number of slots for all parts that run at once, and for the widest want. In a sorted
 * shape the largest slots come last.
 */
static uint32_t fewest_slots(const struct plan *plan, const struct shape *shape)
{
    uint32_t count = 0;
    uint32_t milli = 0;

    must(plan->running_milli <= shape->free_milli);
    while (milli < plan->running_milli)
        milli += shape->slot[shape->n_slots - ++count].free_milli;
    must(count <= shape->n_slots);
    return count > plan->most_parts ? count : plan->most_parts;
}

/*
 * A lower bound on the cost of any layout: the charge of all parts that run at once, on the minimum
 * number of slots, which are the tightest.
 */
static uint64_t least_cost(const struct plan *plan, const struct shape *shape)
{
    const uint32_t count = fewest_slots(plan, shape);
    uint64_t cost = count * touch_of(plan) + ((uint64_t)plan->running_milli << COST_BITS);

    must(count > 0);
    must(count <= shape->n_slots);
    for (uint32_t i = 0; i < count; i++)
        cost += shape->slot[i].free_milli;
    return cost;
}

/*
 * Counts large parts against the GPUs: of the parts of m milli and more, a GPU takes at most free /
 * m, and one per want. Valid for parts that run together, sorted by size.
 */
static bool too_many(const struct plan *plan, const struct shape *shape, struct result *out)
{
    uint32_t parts = 0;
    uint32_t wants = 0;

    for (uint32_t r = 0; r < plan->rows.count; r++) {
        const struct plan_row *row = &plan->rows.row[r];
        uint32_t places = 0;
        if (row->kind != CONTAINER_APP)
            continue;
        parts += row->wants * row->parts;
        wants += row->wants;
        for (uint32_t i = 0; i < shape->n_slots; i++) {
            const uint32_t most = shape->slot[i].free_milli / row->milli;
            places += most < wants ? most : wants;
        }
        out->steps += shape->n_slots;
        if (parts > places)
            return true;
    }
    must(parts <= PARTS_MAX);
    must(wants <= plan->request->n_wants);
    return false;
}

/*
 * The walk for the cheapest layout
 */

struct search {
    uint8_t *cell;
    uint64_t least;
    uint64_t cost;
    bool any;
};

/*
 * Lowers the bound to the new cost, so that the walk skips all layouts that are not cheaper; ends
 * the walk at the lower bound.
 */
static bool keep_cheapest(struct walk *walk)
{
    struct search *search = walk->user;

    must(walk_cost(walk) < walk->bound);
    must(walk_cost(walk) >= search->least);
    memcpy(search->cell, walk->cell, walk->n_cells);
    search->any = true;
    search->cost = walk_cost(walk);
    walk->bound = search->cost;
    return search->cost > search->least;
}

static void look_further(const struct plan *plan, const struct plan_rows *rows,
                         const struct shape *shape, const struct gpu_links *links, uint8_t *cell,
                         struct result *out)
{
    UNSET struct walk walk;
    struct search search = {.least = least_cost(plan, shape)};
    const uint32_t steps = plan->steps > out->steps ? plan->steps - out->steps : 0;

    must(rows->count * shape->n_slots <= CELLS_MAX);
    search.cell = cell;
    walk.rows = rows;
    walk.shape = shape;
    walk.links = links;
    walk.touch = touch_of(plan);
    /* The greedy cost, or no bound: only cheaper layouts matter. */
    walk.bound = out->cost;
    walk.steps = steps;
    walk.user = &search;
    walk.visit = keep_cheapest;
    out->exact = walk_all(&walk) != PLACE_OUT_OF_STEPS;
    out->steps += steps - walk.steps;
    if (search.any) {
        out->any = true;
        out->cost = search.cost;
    }
    must(out->steps <= plan->steps || steps == 0);
}

void best_way(const struct plan *plan, const struct shape *shape, uint8_t cell[CELLS_ALL],
              struct result *out)
{
    must(shape->n_slots > 0);

    *out = (struct result){.exact = true, .cost = UINT64_MAX, .steps = 1};
    if (plan->running_milli > shape->free_milli)
        return;
    go_greedily(plan, shape, cell, out);
    if (out->any && out->cost <= least_cost(plan, shape))
        return;
    if (!out->any && too_many(plan, shape, out))
        return;
    out->exact = false;
    if (plan->rows.count * shape->n_slots <= CELLS_MAX)
        look_further(plan, &plan->rows, shape, NULL, cell, out);
    must(out->any || out->cost == UINT64_MAX);
}

void best_way_together(const struct plan *plan, const struct plan_rows *rows,
                       const struct shape *shape, const struct gpu_links *links,
                       uint8_t cell[CELLS_ALL], struct result *out)
{
    must(shape->n_slots > 0);
    must(links != NULL);

    *out = (struct result){.exact = true, .cost = UINT64_MAX, .steps = 1};
    if (plan->running_milli > shape->free_milli)
        return;
    out->exact = false;
    if (rows->count * shape->n_slots <= CELLS_MAX)
        look_further(plan, rows, shape, links, cell, out);
    must(out->any || out->cost == UINT64_MAX);
}
