/*
 * Enumerates all distinct layouts of the parts of a request on the slots of a room. Called by
 * place.c (rule 5, place_each()) and by place_best.c (the cheapest), in any thread. Rows go in the
 * order given, slots in the order of the shape, and each cell counts down from the maximum that
 * fits. No recursion: cells form one array, and backtracking means going to the previous cell.
 * Layouts that differ only by equal slots are visited once; layouts whose minimum cost reaches the
 * bound are skipped. A walk takes at most walk->steps steps. Parts: the walk, writing a layout.
 */
#include "place_internal.h"

/*
 * The walk
 */

/* The position of the walk. */
struct place_at {
    uint32_t cell;
    uint32_t row;
    uint32_t slot;
};

static void step_on(const struct walk *walk, struct place_at *at)
{
    must_debug(at->cell < walk->n_cells);
    must_debug(at->cell == at->row * walk->shape->n_slots + at->slot);
    at->cell++;
    at->slot++;
    if (at->slot < walk->shape->n_slots)
        return;
    at->slot = 0;
    at->row++;
}

static void step_back(const struct walk *walk, struct place_at *at)
{
    must_debug(at->cell > 0);
    must_debug(at->cell == at->row * walk->shape->n_slots + at->slot);
    at->cell--;
    if (at->slot == 0) {
        at->slot = walk->shape->n_slots;
        at->row--;
    }
    at->slot--;
}

/* The slots with the same load as their equal slot, after the previous row. */
static uint64_t still_alike(const struct walk *walk, const struct place_at *at)
{
    const uint32_t slots = walk->shape->n_slots;
    uint64_t alike = UINT64_MAX;

    must_debug(at->slot == 0);
    must_debug(at->cell == at->row * slots);
    if (at->row == 0)
        return alike;
    alike = walk->alike[at->row - 1];
    const uint8_t *before = &walk->cell[at->cell - slots];
    for (uint32_t i = 0; i < slots; i++) {
        const uint32_t equal_slot = walk->shape->equal_slot[i];
        if (equal_slot > 0 && before[equal_slot - 1] != before[i])
            alike &= ~one_gpu(i);
    }
    return alike;
}

/* Sets the capacity of each slot for the row. Costs one step per slot. */
static void open_row(struct walk *walk, const struct place_at *at)
{
    const struct plan_row *row = &walk->rows->row[at->row];
    const uint32_t slots = walk->shape->n_slots;
    uint32_t rest = 0;

    walk->alike[at->row] = still_alike(walk, at);
    for (uint32_t i = slots; i-- > 0;) {
        const uint32_t cell = at->cell + i;
        const uint32_t cap = load_takes(&walk->load[cell], &walk->shape->slot[i], row);
        walk->cap[cell] = (uint8_t)cap;
        walk->rest[cell] = (uint16_t)rest;
        rest += cap;
    }
    must_debug(rest <= slots * row->wants);
    must_debug(rest <= CELLS_ALL);
    walk->left[at->cell] = (uint16_t)(row->wants * row->parts);
    walk->steps -= slots < walk->steps ? slots : walk->steps;
}

/* Sets the range of counts of the cell: from below cell[] down to low[]. */
static void open_cell(struct walk *walk, const struct place_at *at)
{
    const uint32_t cell = at->cell;

    if (at->slot == 0)
        open_row(walk, at);
    const uint32_t left = walk->left[cell];
    const uint32_t rest = walk->rest[cell];
    const uint32_t equal_slot = walk->shape->equal_slot[at->slot];
    uint32_t most = walk->cap[cell] < left ? walk->cap[cell] : left;
    /* Symmetry: of equal slots with equal loads the first takes no less than the others. */
    if (equal_slot > 0 && (walk->alike[at->row] & one_gpu(at->slot)) != 0) {
        const uint32_t its = walk->cell[cell - at->slot + equal_slot - 1];
        most = its < most ? its : most;
    }
    const uint32_t low = left > rest ? left - rest : 0;
    must_debug(most <= CONTAINERS_MAX);
    must_debug(low <= UINT8_MAX || most < low);
    walk->low[cell] = (uint8_t)(low <= most ? low : most + 1);
    walk->cell[cell] = (uint8_t)(most + 1);
}

/*
 * A lower bound on the cost of any layout with this beginning: all running parts are charged and
 * need room.
 */
static uint64_t least_end(const struct walk *walk, uint64_t cost)
{
    const uint32_t charge = cost_charge(cost);

    must_debug((cost & COST_MASK) >= charge);
    if (charge < walk->running)
        cost += (uint64_t)(walk->running - charge) << COST_BITS;
    return (cost & COST_MASK) < walk->running ? cost + walk->another : cost;
}

/* The slots up to this one that hold parts of the row. */
static gpu_set laid_of(const struct walk *walk, const struct place_at *at)
{
    gpu_set laid = 0;

    must_debug(at->cell >= at->slot);
    for (uint32_t i = 0; i <= at->slot; i++)
        laid |= walk->cell[at->cell - at->slot + i] > 0 ? one_gpu(i) : 0;
    return laid;
}

/* Are all slots of laid linked with each other, and with as many later slots as are missing? */
static bool links_suffice(const gpu_set *is_linked, gpu_set laid, gpu_set later, uint32_t parts)
{
    gpu_set common = ~(gpu_set)0;

    must_debug(laid != 0);
    for (gpu_set rest = laid; rest != 0; rest &= ~one_gpu(first_of(rest)))
        common &= is_linked[first_of(rest)] | one_gpu(first_of(rest));
    return (laid & ~common) == 0 && set_count(laid) + set_count(common & later) >= parts;
}

/* Can the want of this row, laid up to here, still stay together? */
static bool still_together(const struct walk *walk, const struct place_at *at)
{
    const struct plan_row *row = &walk->rows->row[at->row];

    if (walk->links == NULL || row->parts == 1)
        return true;
    must_debug(row->wants == 1);
    const gpu_set laid = laid_of(walk, at);
    const gpu_set later = one_gpu(at->slot) - 1;
    return laid == 0 || links_suffice(walk->links->linked, laid, later, row->parts) ||
           links_suffice(walk->links->numa, laid, later, row->parts);
}

/* Takes the next smaller count of the cell that is cheap enough; false: none. */
static bool lay_next(struct walk *walk, const struct place_at *at)
{
    const uint32_t cell = at->cell;
    const uint32_t slots = walk->shape->n_slots;
    const struct slot *slot = &walk->shape->slot[at->slot];
    const struct plan_row *row = &walk->rows->row[at->row];
    const struct load *before = &walk->load[cell];
    struct load *after = &walk->load[cell + slots];

    if (least_end(walk, walk->cost[cell]) >= walk->bound)
        return false; /* a cheaper layout was found since */
    while (walk->cell[cell] > walk->low[cell]) {
        const uint32_t copies = --walk->cell[cell];
        uint64_t cost = walk->cost[cell];
        if (!still_together(walk, at))
            continue;
        *after = *before;
        if (copies > 0) {
            load_add(after, slot, row, copies);
            cost += load_cost(after, slot, walk->touch) - load_cost(before, slot, walk->touch);
        }
        walk->cost[cell + 1] = cost;
        if (at->slot + 1 < slots)
            walk->left[cell + 1] = (uint16_t)(walk->left[cell] - copies);
        if (least_end(walk, cost) < walk->bound)
            return true;
    }
    must_debug(walk->cell[cell] == walk->low[cell]);
    must_debug(at->slot > 0 || walk->left[cell] == row->wants * row->parts);
    return false;
}

uint64_t walk_cost(const struct walk *walk)
{
    must(walk->n_cells > 0);
    must(walk->cost[walk->n_cells] < walk->bound);
    return walk->cost[walk->n_cells];
}

static void place_walk_start(struct walk *walk)
{
    uint32_t least = GPU_MILLI;

    walk->n_cells = walk->rows->count * walk->shape->n_slots;
    must(walk->n_cells > 0 && walk->n_cells <= CELLS_MAX);
    walk->running = 0;
    for (uint32_t r = 0; r < walk->rows->count; r++) {
        const struct plan_row *row = &walk->rows->row[r];
        walk->running += row->kind == CONTAINER_INIT ? 0 : row->wants * row->parts * row->milli;
    }
    for (uint32_t i = 0; i < walk->shape->n_slots; i++) {
        const uint32_t free = walk->shape->slot[i].free_milli;
        least = free < least ? free : least;
        walk->load[i] = (struct load){0};
    }
    must(least > 0);
    /* The tightest slot, so that least_end() remains a lower bound. */
    walk->another = walk->touch + least;
    walk->cost[0] = 0;
}

/*
 * Each iteration advances, visits a leaf or goes back, and costs one step, independent of the
 * request.
 */
enum place_end walk_all(struct walk *walk)
{
    struct place_at at = {0};

    must(walk->visit != NULL);
    must(walk->shape->n_slots > 0);
    place_walk_start(walk);
    open_cell(walk, &at);
    while (walk->steps > 0) {
        walk->steps--;
        if (!lay_next(walk, &at)) {
            if (at.cell == 0)
                return PLACE_ALL;
            step_back(walk, &at);
            continue;
        }
        step_on(walk, &at);
        if (at.cell < walk->n_cells) {
            open_cell(walk, &at);
            continue;
        }
        if (!walk->visit(walk))
            return PLACE_STOPPED;
        step_back(walk, &at);
    }
    return PLACE_OUT_OF_STEPS;
}

/*
 * Writing a layout
 */

/* The GPUs that still take parts of the row. */
struct column {
    gpu_set some;
    gpu_set all; /* GPUs with one part for each remaining want: the next want must take one */
};

static struct column column_of(const struct shape *shape, const uint8_t *line, uint32_t wants)
{
    struct column column = {0};

    must(wants > 0);
    for (uint32_t i = 0; i < shape->n_slots; i++) {
        must(line[i] <= wants);
        column.some |= line[i] > 0 ? one_gpu(shape->gpu[i]) : 0;
        column.all |= line[i] == wants ? one_gpu(shape->gpu[i]) : 0;
    }
    return column;
}

/* The first GPUs such that the later wants can still be placed. */
static gpu_set take_first(const struct column *column, uint32_t parts)
{
    gpu_set chosen = column->all;
    gpu_set rest = column->some & ~column->all;
    uint32_t count = 0;

    for (gpu_set all = column->all; all != 0; all &= ~one_gpu(first_of(all)))
        count++;
    must(count <= parts);
    for (; count < parts; count++) {
        chosen |= one_gpu(first_of(rest));
        rest &= ~one_gpu(first_of(rest));
    }
    must((chosen & ~column->some) == 0);
    return chosen;
}

/*
 * Want by want, each as early as possible (rule 5). A GPU on which every remaining want has a part
 * must be taken, or two parts of one want would share it.
 */
static void write_row(const struct plan_row *row, const uint16_t *want, const struct shape *shape,
                      const uint8_t *cell, gpu_set on[CONTAINERS_MAX])
{
    uint8_t line[GPUS_PER_NODE_MAX];

    must(shape->n_slots <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < shape->n_slots; i++)
        line[i] = cell[i];
    for (uint32_t w = 0; w < row->wants; w++) {
        const struct column column = column_of(shape, line, row->wants - w);
        on[want[w]] = take_first(&column, row->parts);
        for (uint32_t i = 0; i < shape->n_slots; i++)
            if ((on[want[w]] & one_gpu(shape->gpu[i])) != 0)
                line[i]--;
    }
    for (uint32_t i = 0; i < shape->n_slots; i++)
        must(line[i] == 0);
}

static void add_parts(struct placement *out, uint32_t want, gpu_set gpus)
{
    must(want < CONTAINERS_MAX);
    while (gpus != 0) {
        const uint32_t gpu = first_of(gpus);
        must(out->n_parts < PARTS_MAX);
        out->part[out->n_parts++] = (struct part){(uint16_t)want, (uint16_t)gpu};
        gpus &= ~one_gpu(gpu);
    }
}

void way_write(const struct plan_rows *rows, const struct shape *shape, const uint8_t *cell,
               struct placement *out)
{
    gpu_set on[CONTAINERS_MAX];
    uint32_t wants = 0;

    must(rows->count > 0);
    for (uint32_t r = 0; r < rows->count; r++) {
        write_row(&rows->row[r], &rows->want[wants], shape, &cell[(size_t)r * shape->n_slots], on);
        wants += rows->row[r].wants;
    }
    must(wants <= CONTAINERS_MAX);
    must(out->n_parts == 0);
    for (uint32_t w = 0; w < wants; w++)
        add_parts(out, w, on[w]);
}
