#include "milligpu/place.h"

#include <string.h>

#include "milligpu/alloc.h"

/*
 * A set of GPUs is a word whose highest bit is GPU 0.  Of two sets of one size, the larger word is
 * then the one that rule 5 puts first: where they first differ, it has the earlier GPU.
 */
typedef uint64_t gpu_set;

static_assert(GPUS_PER_NODE_MAX <= 64, "a set of GPUs is one word");
static_assert(EXACT_WANTS_MAX <= 8, "a set of wants is small enough to enumerate");
static_assert(GPUS_PER_NODE_MAX * GPU_MILLI < UINT32_MAX / 2, "sums over a node do not wrap");

static gpu_set one_gpu(uint32_t gpu)
{
    must(gpu < 64);
    return (gpu_set)1 << (63 - gpu);
}

/*
 * By hand: the compiler's own becomes a call into its library, and core has none.  Pairs of bits
 * hold their sums, then fours, then bytes, which the product adds up in the highest one.
 */
static uint32_t count_of(gpu_set set)
{
    set -= set >> 1 & 0x5555555555555555U;
    set = (set & 0x3333333333333333U) + (set >> 2 & 0x3333333333333333U);
    set = (set + (set >> 4)) & 0x0F0F0F0F0F0F0F0FU;
    const uint32_t count = (uint32_t)(set * 0x0101010101010101U >> 56);
    must(count <= 64);
    return count;
}

static uint32_t first_of(gpu_set set)
{
    must(set != 0);
    return (uint32_t)__builtin_clzll(set);
}

/*
 * room
 */

void room_of(const struct node *node, struct room *out)
{
    /* The absent come last: those beyond the bound take no shares and need not be seen. */
    const uint32_t gpus = node->gpus < GPUS_PER_NODE_MAX ? node->gpus : GPUS_PER_NODE_MAX;

    must(out != NULL);
    must(node->gpus <= gpus || (node->gpu[gpus].flags & GPU_ABSENT) != 0);
    out->closed = node_closed(node);
    out->shared = node_has_shares(node);
    out->free_milli = node->free_milli;
    out->gpus = gpus;
    for (uint32_t i = 0; i < gpus; i++) {
        const struct gpu *gpu = &node->gpu[i];
        out->gpu[i] = (struct gpu_room){
            .milli = gpu->milli,
            .mib = gpu->mib,
            .free_milli = gpu_free(gpu),
            .free_mib = gpu->used_mib < gpu->mib ? gpu->mib - gpu->used_mib : 0,
            .closed = gpu_closed(gpu),
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

void room_without(const struct node *node, const struct text *uids, uint32_t count,
                  struct room *out)
{
    CLEANUP(xfreep)
    const struct allocation **staying =
        xmalloc((node->allocations + 1) * sizeof(struct allocation *));
    struct node_build build = {
        .name = node->name,
        .uid = node->uid,
        .gone = node->gone,
        .gpus = node->gpus,
        .gpu = node->gpu,
        .allocation = staying,
    };

    must(count == 0 || uids != NULL);
    for (uint32_t i = 0; i < node->allocations; i++)
        if (!is_among(node->allocation[i]->is.uid, uids, count))
            staying[build.allocations++] = node->allocation[i];
    must(build.allocations + count >= node->allocations); /* a uid is there once */

    struct node *without = node_new(&build);
    room_of(without, out);
    must(out->gpus <= GPUS_PER_NODE_MAX);
    node_unref(without);
}

void room_take(struct room *room, uint32_t gpu, uint32_t milli)
{
    must(gpu < room->gpus);

    struct gpu_room *from = &room->gpu[gpu];
    const uint32_t taken = milli < from->free_milli ? milli : from->free_milli;
    from->free_milli -= taken;
    if (from->closed == REASON_NONE && room->closed == REASON_NONE) {
        must(taken <= room->free_milli);
        room->free_milli -= taken;
    }
}

/*
 * What each want could take if it came alone
 */

/*
 * The first thing that keeps one part from one GPU, in the order of reason.h.  The products
 * compare what inventory_share_mib() would give, without its division:
 * floor(a / b) < c where a < b x c.
 */
static enum reason hurdle(const struct gpu_room *gpu, bool model, uint32_t milli, uint32_t floor)
{
    const uint64_t comes_with = (uint64_t)gpu->mib * milli;

    must(milli > 0 && milli <= GPU_MILLI);
    if (gpu->milli == 0)
        return REASON_ABSENT; /* of its size nothing is known */
    if (!model)
        return REASON_MODEL;
    if (milli > gpu->milli)
        return REASON_SMALL;
    if (comes_with < (uint64_t)floor * gpu->milli)
        return REASON_MEMORY;
    if (gpu->closed != REASON_NONE)
        return gpu->closed;
    if (milli > gpu->free_milli || comes_with >= ((uint64_t)gpu->free_mib + 1) * gpu->milli)
        return REASON_ROOM;
    return REASON_NONE;
}

static_assert(REASON_NO_GPU < REASON_MODEL && REASON_MODEL < REASON_SMALL &&
                  REASON_SMALL < REASON_MEMORY && REASON_MEMORY < REASON_FEW &&
                  REASON_FEW < REASON_MIXED && REASON_MIXED < REASON_UNPLACED &&
                  REASON_UNPLACED < REASON_ABSENT && REASON_ABSENT < REASON_UNHEALTHY &&
                  REASON_UNHEALTHY < REASON_CORDONED && REASON_CORDONED < REASON_CROWDED &&
                  REASON_CROWDED < REASON_ROOM,
              "the kinds come before the moments, in the order in which hurdle() looks");

static bool may_change(enum reason why)
{
    return why > REASON_FEW;
}

/* Models of neighbours are nearly always the same atom: one look does for all of them. */
static gpu_set find_models(const struct room *room, const struct request *request)
{
    gpu_set set = 0;
    bool takes = false;

    must(room->gpus <= GPUS_PER_NODE_MAX);
    if (request->models == 0)
        return ~set;
    for (uint32_t i = 0; i < room->gpus; i++) {
        if (i == 0 || room->gpu[i].model != room->gpu[i - 1].model)
            takes = request_takes_model(request, atom_text(room->gpu[i].model));
        set |= takes ? one_gpu(i) : 0;
    }
    return set;
}

/* The GPUs that could take one part of this want, and why there are too few of them. */
static enum reason find_fits(const struct room *room, const struct request *request,
                             const struct want *want, gpu_set models, gpu_set *out)
{
    enum reason nearest = REASON_NONE;
    uint32_t able = 0;

    must(room->gpus > 0);
    must(want->parts > 0);
    *out = 0;
    for (uint32_t i = 0; i < room->gpus; i++) {
        const bool model = (models & one_gpu(i)) != 0;
        const enum reason why = hurdle(&room->gpu[i], model, want->milli, request->memory_mib);
        if (why == REASON_NONE)
            *out |= one_gpu(i);
        able += why == REASON_NONE || may_change(why);
        nearest = why > nearest ? why : nearest;
    }
    must(count_of(*out) <= able);
    if (able == 0)
        return nearest;
    if (able < want->parts)
        return REASON_FEW;
    if (room->closed != REASON_NONE)
        return room->closed;
    return count_of(*out) < want->parts ? nearest : REASON_NONE;
}

/* A want that this kind of node can never serve speaks for all wants. */
static enum reason weigh(enum reason a, enum reason b)
{
    must(a <= REASON_ROOM);
    must(b <= REASON_ROOM);
    if (a == REASON_NONE || b == REASON_NONE)
        return a > b ? a : b;
    if (may_change(a) != may_change(b))
        return may_change(a) ? b : a;
    return a > b ? a : b;
}

static enum reason find_all_fits(const struct room *room, const struct request *request,
                                 gpu_set *fits)
{
    enum reason why = REASON_NONE;

    must(request->wants > 0 && request->wants <= CONTAINERS_MAX);
    if (room->gpus == 0)
        return REASON_NO_GPU;
    const gpu_set models = find_models(room, request);
    for (uint32_t w = 0; w < request->wants; w++)
        why = weigh(why, find_fits(room, request, &request->want[w], models, &fits[w]));
    return why;
}

/*
 * Writing a placement down
 */

static void add_parts(struct placement *out, uint32_t want, gpu_set gpus)
{
    must(want < CONTAINERS_MAX);
    while (gpus != 0) {
        const uint32_t gpu = first_of(gpus);
        must(out->parts < PARTS_MAX);
        out->part[out->parts++] = (struct part){(uint16_t)want, (uint16_t)gpu};
        gpus &= ~one_gpu(gpu);
    }
}

static void start_placement(struct placement *out, const struct room *room, bool exact)
{
    must(room->gpus <= GPUS_PER_NODE_MAX);

    /* Not the whole struct: parts are many and seldom used. */
    out->exact = exact;
    out->charge_milli = 0;
    out->left_milli = 0;
    out->free_milli = room->free_milli;
    out->parts = 0;
}

/*
 * One want: the charge is the same everywhere, so the tightest GPUs are the best ones
 */

static uint32_t tightest(const struct room *room, gpu_set among)
{
    uint32_t best = first_of(among);

    for (among &= ~one_gpu(best); among != 0; among &= ~one_gpu(first_of(among)))
        if (room->gpu[first_of(among)].free_milli < room->gpu[best].free_milli)
            best = first_of(among);
    must(best < room->gpus);
    return best;
}

static void place_one(const struct room *room, const struct want *want, gpu_set fits,
                      struct placement *out)
{
    gpu_set chosen = 0;

    must(want->parts > 0);
    must(count_of(fits) >= want->parts);
    start_placement(out, room, true);
    for (uint32_t i = 0; i < want->parts; i++) {
        const uint32_t gpu = tightest(room, fits & ~chosen);
        must(room->gpu[gpu].free_milli >= want->milli);
        chosen |= one_gpu(gpu);
        out->charge_milli += want->milli;
        out->left_milli += room->gpu[gpu].free_milli - want->milli;
    }
    must(count_of(chosen) == want->parts);
    add_parts(out, 0, chosen);
}

/*
 * A few wants: every way to place them, GPU by GPU
 *
 * A state says how many parts of each want are placed, as a number of mixed radix (stride).  A
 * loaf is a set of wants, one part each, that share one GPU.  Going through the GPUs, best[state]
 * is the best way to come to that state with the GPUs seen so far.  Rules 1, 2 and 5 are sums over
 * the GPUs (rule 5 because the sets are words whose bits never meet), so the best way to a state
 * goes through best ways only, and the sets that make it comparable are at the same time its trace.
 */

enum { LOAVES_MAX = 1 << EXACT_WANTS_MAX, STATES_ON_STACK = 64 };

/* Worse than any way, and still so with a loaf on top. */
static const uint64_t NO_WAY = UINT64_MAX / 2;

struct way {
    uint32_t some; /* wants of which this state has a part */
    gpu_set on[EXACT_WANTS_MAX];
};

struct table {
    const struct room *room;
    const struct request *request;
    const gpu_set *fits;
    uint32_t states;
    uint32_t loaves;
    uint32_t charge[LOAVES_MAX]; /* of the loaf, on any GPU */
    uint32_t step[LOAVES_MAX];   /* from a state without the loaf to the one with it */
    struct way *best;
    uint64_t
        *cost; /* of best: rule 1 above rule 2; apart, because most offers end at a look at it */
    uint64_t touch; /* above rule 1: what a GPU costs beside whole ones, which it is none of */
};

/* A loaf that the GPU at hand can take. */
struct loaf {
    uint32_t wants;
    uint32_t step;
    uint64_t cost;
};

/* Sums over a node of rules 1 and 2 stay below it, that of all GPUs below NO_WAY. */
static const uint64_t ONE_TOUCHED = (uint64_t)1 << 55;

static uint64_t cost_of(uint32_t charge_milli, uint32_t left_milli)
{
    must(charge_milli <= EXACT_WANTS_MAX * GPU_MILLI);
    must(left_milli <= GPU_MILLI);
    return (uint64_t)charge_milli << 32 | left_milli;
}

/* 0 if there are more than EXACT_STATES_MAX. */
static uint32_t count_states(const struct request *request)
{
    uint32_t states = 1;

    if (request->wants > EXACT_WANTS_MAX)
        return 0;
    for (uint32_t w = 0; w < request->wants; w++) {
        must(request->want[w].parts <= GPUS_PER_NODE_MAX);
        states *= request->want[w].parts + 1;
        if (states > EXACT_STATES_MAX)
            return 0;
    }
    must(states > 1);
    return states;
}

/* What the wants of a loaf take, if each takes amount[w]. */
static uint32_t loaf_peak(const struct request *request, uint32_t loaf, const uint32_t *amount)
{
    uint32_t taken[EXACT_WANTS_MAX] = {0};

    must(loaf > 0);
    must(loaf < 1U << request->wants);
    for (uint32_t w = 0; w < request->wants; w++)
        taken[w] = (loaf >> w & 1) != 0 ? amount[w] : 0;
    return request_peak(request, taken);
}

static void init_loaves(struct table *table)
{
    const struct request *request = table->request;
    uint32_t milli[EXACT_WANTS_MAX];
    uint32_t stride = 1;

    table->loaves = 1U << request->wants;
    must(table->loaves <= LOAVES_MAX);
    for (uint32_t w = 0; w < request->wants; w++)
        milli[w] = request->want[w].milli;
    for (uint32_t loaf = 1; loaf < table->loaves; loaf++)
        table->charge[loaf] = loaf_peak(request, loaf, milli);

    table->step[0] = 0;
    for (uint32_t w = 0; w < request->wants; w++) {
        for (uint32_t loaf = 0; loaf < 1U << w; loaf++)
            table->step[loaf | 1U << w] = table->step[loaf] + stride;
        stride *= request->want[w].parts + 1;
    }
    must(stride == table->states);
}

static void init_ways(struct table *table)
{
    const struct request *request = table->request;

    for (uint32_t state = 0; state < table->states; state++) {
        uint32_t rest = state;
        table->best[state] = (struct way){0};
        table->cost[state] = NO_WAY;
        for (uint32_t w = 0; w < request->wants; w++) {
            const uint32_t radix = request->want[w].parts + 1;
            table->best[state].some |= (uint32_t)(rest % radix != 0) << w;
            rest /= radix;
        }
        must(rest == 0);
    }
    table->cost[0] = cost_of(0, 0);
    must(table->best[0].some == 0);
}

/* Floors add up to no more than the floor of the sum: most loaves fit at first sight. */
static bool mib_fits(const struct table *table, const struct gpu_room *gpu, uint32_t loaf)
{
    const struct request *request = table->request;
    uint32_t mib[EXACT_WANTS_MAX];

    must(gpu->milli > 0);
    must(table->charge[loaf] <= gpu->milli);
    if (inventory_share_mib(gpu->mib, gpu->milli, table->charge[loaf]) <= gpu->free_mib)
        return true;
    for (uint32_t w = 0; w < request->wants; w++)
        mib[w] = (loaf >> w & 1) != 0
                     ? inventory_share_mib(gpu->mib, gpu->milli, request->want[w].milli)
                     : 0;
    return loaf_peak(request, loaf, mib) <= gpu->free_mib;
}

static uint32_t list_loaves(const struct table *table, uint32_t gpu, struct loaf list[LOAVES_MAX])
{
    const struct gpu_room *room = &table->room->gpu[gpu];
    uint32_t wants = 0;
    uint32_t count = 0;

    must(gpu < table->room->gpus);
    for (uint32_t w = 0; w < table->request->wants; w++)
        wants |= (uint32_t)((table->fits[w] & one_gpu(gpu)) != 0) << w;
    for (uint32_t loaf = 1; loaf < table->loaves; loaf++) {
        const uint32_t charge = table->charge[loaf];
        if ((loaf & ~wants) != 0 || charge > room->free_milli || !mib_fits(table, room, loaf))
            continue;
        list[count++] = (struct loaf){loaf, table->step[loaf],
                                      table->touch + cost_of(charge, room->free_milli - charge)};
    }
    must(count < LOAVES_MAX);
    return count;
}

/* Rule 5, of two ways to one state: their sets are of the same sizes. */
static bool comes_first(const struct way *a, const struct way *b)
{
    for (uint32_t w = 0; w < EXACT_WANTS_MAX; w++)
        if (a->on[w] != b->on[w])
            return a->on[w] > b->on[w];
    must_not_reach("two ways to a state differ by a GPU");
}

/* Come to state with the loaf on the GPU, unless the way so far is better by rule 5. */
static void take_way(struct table *table, uint32_t state, const struct loaf *loaf, uint32_t gpu)
{
    const uint64_t cost = table->cost[state - loaf->step] + loaf->cost;
    struct way *best = &table->best[state];
    struct way way = table->best[state - loaf->step];

    must(cost <= table->cost[state]);
    must(cost < NO_WAY);
    way.some = best->some;
    for (uint32_t w = 0; w < table->request->wants; w++)
        way.on[w] |= (loaf->wants >> w & 1) != 0 ? one_gpu(gpu) : 0;
    if (cost < table->cost[state] || comes_first(&way, best)) {
        table->cost[state] = cost;
        *best = way;
    }
}

/* From the fullest state down, so that what a way comes from has not seen this GPU yet. */
static void visit_gpu(struct table *table, uint32_t gpu)
{
    struct loaf list[LOAVES_MAX];
    const uint32_t loaves = list_loaves(table, gpu, list);

    must(table->states > 1);
    must(loaves < table->loaves);
    if (loaves == 0)
        return;
    for (uint32_t state = table->states - 1; state > 0; state--) {
        const uint32_t none = ~table->best[state].some;
        for (uint32_t i = 0; i < loaves; i++) {
            if ((list[i].wants & none) != 0)
                continue;
            if (table->cost[state - list[i].step] + list[i].cost <= table->cost[state])
                take_way(table, state, &list[i], gpu);
        }
    }
}

static enum reason place_exactly(const struct room *room, const struct request *request,
                                 const gpu_set *fits, uint32_t states, struct placement *out)
{
    UNSET struct way few[STATES_ON_STACK];
    UNSET uint64_t few_costs[STATES_ON_STACK];
    CLEANUP(xfreep) struct way *many = NULL;
    CLEANUP(xfreep) uint64_t *many_costs = NULL;
    struct table table = {.room = room, .request = request, .fits = fits, .states = states};

    table.touch = request->whole > 0 ? ONE_TOUCHED : 0;
    must(request->wants <= EXACT_WANTS_MAX);
    must(states <= EXACT_STATES_MAX);
    if (states > STATES_ON_STACK) {
        many = xmalloc(states * sizeof *many);
        many_costs = xmalloc(states * sizeof *many_costs);
    }
    table.best = many != NULL ? many : few;
    table.cost = many_costs != NULL ? many_costs : few_costs;
    init_loaves(&table);
    init_ways(&table);
    for (uint32_t gpu = 0; gpu < room->gpus; gpu++)
        visit_gpu(&table, gpu);

    const struct way *way = &table.best[states - 1];
    const uint64_t cost = table.cost[states - 1];
    if (cost == NO_WAY)
        return REASON_ROOM;
    start_placement(out, room, true);
    out->charge_milli = (uint32_t)(cost % ONE_TOUCHED >> 32);
    out->left_milli = (uint32_t)cost;
    for (uint32_t w = 0; w < request->wants; w++) {
        must(count_of(way->on[w]) == request->want[w].parts);
        add_parts(out, w, way->on[w]);
    }
    return REASON_NONE;
}

/*
 * Many wants: one after the other, the largest parts first, each part where it costs least
 */

struct greedy {
    const struct room *room;
    const struct request *request;
    const gpu_set *fits;
    gpu_set on[CONTAINERS_MAX];
    uint32_t charge[GPUS_PER_NODE_MAX]; /* so far */
};

/* What the GPU would be charged with one part of want more; false if it does not fit. */
static bool charge_with(const struct greedy *greedy, uint32_t want, uint32_t gpu, uint32_t *out)
{
    const struct request *request = greedy->request;
    const struct gpu_room *room = &greedy->room->gpu[gpu];
    UNSET uint32_t milli[CONTAINERS_MAX];
    UNSET uint32_t mib[CONTAINERS_MAX];

    must((greedy->on[want] & one_gpu(gpu)) == 0);
    must((greedy->fits[want] & one_gpu(gpu)) != 0);
    for (uint32_t w = 0; w < request->wants; w++) {
        const bool here = w == want || (greedy->on[w] & one_gpu(gpu)) != 0;
        milli[w] = here ? request->want[w].milli : 0;
        mib[w] = here ? inventory_share_mib(room->mib, room->milli, milli[w]) : 0;
    }
    *out = request_peak(request, milli);
    must(*out >= greedy->charge[gpu]);
    return *out <= room->free_milli && request_peak(request, mib) <= room->free_mib;
}

/* Rules 1 and 2 for one part: what it adds to the charge, then to what is left. */
static int64_t added_cost(const struct greedy *greedy, uint32_t gpu, uint32_t charge)
{
    const uint32_t raise = charge - greedy->charge[gpu];
    const int64_t left = greedy->charge[gpu] > 0
                             ? -(int64_t)raise
                             : (int64_t)greedy->room->gpu[gpu].free_milli - charge;

    must(raise <= GPU_MILLI);
    must(left >= -GPU_MILLI && left <= GPU_MILLI);
    return (int64_t)raise * 4 * GPU_MILLI + left;
}

static uint32_t cheapest(gpu_set among, const int64_t *cost)
{
    uint32_t best = first_of(among);

    for (; among != 0; among &= ~one_gpu(first_of(among)))
        if (cost[first_of(among)] < cost[best]) /* of equal ones the first: rule 5 */
            best = first_of(among);
    must(best < GPUS_PER_NODE_MAX);
    return best;
}

/* The parts of one want lie on different GPUs, so what each costs does not depend on the others. */
static bool put_want(struct greedy *greedy, uint32_t want)
{
    const uint32_t parts = greedy->request->want[want].parts;
    UNSET int64_t cost[GPUS_PER_NODE_MAX];
    UNSET uint32_t charge[GPUS_PER_NODE_MAX];
    gpu_set possible = 0;

    must(greedy->on[want] == 0);
    for (gpu_set rest = greedy->fits[want]; rest != 0; rest &= ~one_gpu(first_of(rest))) {
        const uint32_t gpu = first_of(rest);
        if (!charge_with(greedy, want, gpu, &charge[gpu]))
            continue;
        cost[gpu] = added_cost(greedy, gpu, charge[gpu]);
        possible |= one_gpu(gpu);
    }
    if (count_of(possible) < parts)
        return false;
    for (uint32_t i = 0; i < parts; i++) {
        const uint32_t gpu = cheapest(possible, cost);
        possible &= ~one_gpu(gpu);
        greedy->on[want] |= one_gpu(gpu);
        greedy->charge[gpu] = charge[gpu];
    }
    must(count_of(greedy->on[want]) == parts);
    return true;
}

/* Largest part first; of equal ones the one that comes first in the pod. */
static void order_wants(const struct request *request, uint16_t *order)
{
    must(request->wants <= CONTAINERS_MAX);
    for (uint32_t i = 0; i < request->wants; i++) {
        uint32_t at = i;
        for (; at > 0 && request->want[order[at - 1]].milli < request->want[i].milli; at--)
            order[at] = order[at - 1];
        order[at] = (uint16_t)i;
        must(at == 0 || request->want[order[at - 1]].milli >= request->want[i].milli);
    }
}

static void write_greedy(const struct greedy *greedy, struct placement *out)
{
    start_placement(out, greedy->room, false);
    for (uint32_t w = 0; w < greedy->request->wants; w++) {
        must(count_of(greedy->on[w]) == greedy->request->want[w].parts);
        add_parts(out, w, greedy->on[w]);
    }
    for (uint32_t gpu = 0; gpu < greedy->room->gpus; gpu++) {
        out->charge_milli += greedy->charge[gpu];
        if (greedy->charge[gpu] > 0)
            out->left_milli += greedy->room->gpu[gpu].free_milli - greedy->charge[gpu];
    }
    must(out->charge_milli > 0);
}

static enum reason place_greedily(const struct room *room, const struct request *request,
                                  const gpu_set *fits, struct placement *out)
{
    struct greedy greedy = {.room = room, .request = request, .fits = fits};
    uint16_t order[CONTAINERS_MAX] = {0};

    must(request->wants <= CONTAINERS_MAX);
    order_wants(request, order);
    for (uint32_t i = 0; i < request->wants; i++)
        if (!put_want(&greedy, order[i]))
            return REASON_ROOM;
    write_greedy(&greedy, out);
    return REASON_NONE;
}

/* Shares only; the whole GPUs are not its question. */
static enum reason place_wants(const struct room *room, const struct request *request,
                               struct placement *out)
{
    UNSET gpu_set fits[CONTAINERS_MAX];
    const enum reason why = find_all_fits(room, request, fits);

    must(request->wants > 0);
    must(why <= REASON_ROOM);
    if (why != REASON_NONE)
        return why;
    if (request->wants == 1) {
        place_one(room, &request->want[0], fits[0], out);
        return REASON_NONE;
    }
    const uint32_t states = count_states(request);
    if (states > 0)
        return place_exactly(room, request, fits, states, out);
    return place_greedily(room, request, fits, out);
}

/* Beside the GPUs that the shares lie on, is there one for each whole one?  A sick one counts. */
static bool has_whole(const struct room *room, const struct request *request,
                      const struct placement *placement)
{
    gpu_set touched = 0;
    uint32_t there = 0;

    must(placement->parts > 0);
    for (uint32_t i = 0; i < placement->parts; i++)
        touched |= one_gpu(placement->part[i].gpu);
    for (uint32_t i = 0; i < room->gpus; i++)
        there += room->gpu[i].closed != REASON_ABSENT;
    must(count_of(touched) <= there);
    return request->whole <= there - count_of(touched);
}

enum reason place_search(const struct room *room, const struct request *request,
                         struct placement *out)
{
    must(room->gpus <= GPUS_PER_NODE_MAX);
    must(out != NULL);
    must(request_asks(request));

    if (request->wants > 0) {
        const enum reason why = place_wants(room, request, out);
        if (why != REASON_NONE || request->whole == 0)
            return why;
        if (!room->shared && !has_whole(room, request, out))
            return REASON_ROOM;
    } else {
        start_placement(out, room, true);
    }
    return room->shared ? REASON_MIXED : REASON_NONE;
}

void place_shares(const struct placement *placement, const struct request *request,
                  const struct node *node, struct share *share)
{
    for (uint32_t i = 0; i < placement->parts; i++) {
        const struct part part = placement->part[i];
        must(part.want < request->wants);
        must(part.gpu < node->gpus);
        const struct want *want = &request->want[part.want];
        const struct gpu *gpu = &node->gpu[part.gpu];
        must(want->milli <= gpu->milli);
        share[i] = (struct share){
            .container = want->container,
            .kind = want->kind,
            .order = part.want,
            .gpu = gpu->id,
            .milli = want->milli,
            .mib = inventory_share_mib(gpu->mib, gpu->milli, want->milli),
        };
    }
}

static int compare(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

/* Rule 5. */
static int parts_cmp(const struct placement *a, const struct placement *b)
{
    const uint32_t shorter = a->parts < b->parts ? a->parts : b->parts;

    must(shorter <= PARTS_MAX);
    for (uint32_t i = 0; i < shorter; i++) {
        if (a->part[i].want != b->part[i].want)
            return compare(a->part[i].want, b->part[i].want);
        if (a->part[i].gpu != b->part[i].gpu)
            return compare(a->part[i].gpu, b->part[i].gpu);
    }
    return compare(a->parts, b->parts);
}

int placement_cmp(const struct placement *a, const struct atom *node_a, const struct placement *b,
                  const struct atom *node_b)
{
    must(a->parts <= PARTS_MAX);
    must(b->parts <= PARTS_MAX);

    if (a->charge_milli != b->charge_milli) /* rule 1 */
        return compare(a->charge_milli, b->charge_milli);
    if (a->left_milli != b->left_milli) /* rule 2 */
        return compare(a->left_milli, b->left_milli);
    if (a->free_milli != b->free_milli) /* rule 3 */
        return compare(a->free_milli, b->free_milli);
    const int names = atom_cmp(node_a, node_b); /* rule 4 */
    if (names != 0)
        return names;
    return parts_cmp(a, b); /* rule 5 */
}
