/*
 * place_internal - what the files of place share.
 *
 *   place.c         rooms, reasons, one container, the order
 *   place_plan.c    a request as rows; which models will do
 *   place_shape.c   a room as slots; what was found in equal shapes
 *   place_walk.c    every way to lay rows on slots that differs, one after the other
 *   place_best.c    the greedy way, the bounds, the cheapest way
 *
 * A way is a table of counts, a line per row and a column per slot: how many parts of the row lie
 * on the slot.  Each count is at most row.wants and a line adds up to row.wants x row.parts; then
 * the wants of the row can be laid so that no two parts of one want meet (Gale and Ryser).
 */
#ifndef MILLIGPU_CORE_PLACE_INTERNAL_H
#define MILLIGPU_CORE_PLACE_INTERNAL_H

#include "milligpu/inventory.h"
#include "milligpu/place.h"

/*
 * A set of GPUs is a word whose highest bit is GPU 0.  Of two sets of one size, the larger word is
 * then the one that rule 5 puts first: where they first differ, it has the earlier GPU.
 */
typedef uint64_t gpu_set;

static_assert(GPUS_PER_NODE_MAX <= 64, "a set of GPUs is one word");

static inline gpu_set one_gpu(uint32_t gpu)
{
    must(gpu < 64);
    return (gpu_set)1 << (63 - gpu);
}

static inline uint32_t first_of(gpu_set set)
{
    must(set != 0);
    return (uint32_t)__builtin_clzll(set);
}

/* A GPU that takes shares, as a search sees it: what makes no difference to the request is 0. */
struct slot {
    uint32_t free_milli;
    uint32_t least_milli; /* a smaller share comes with less memory than asked */
    uint32_t most_milli;  /* a larger share does not fit, be it for its memory */
    uint32_t milli;       /* these three only where most_milli < free_milli: there MiB run out */
    uint32_t mib;         /* before milli do; and where all that a GPU is tells it apart */
    uint32_t free_mib;
    const struct atom *model; /* only there */
};

struct shape {
    uint32_t slots;
    uint32_t free_milli; /* of all slots */
    struct slot slot[GPUS_PER_NODE_MAX];
    uint8_t gpu[GPUS_PER_NODE_MAX];  /* index into room.gpu */
    uint8_t twin[GPUS_PER_NODE_MAX]; /* the nearest equal slot before this one, + 1; 0: none */
};

/* place_plan.c */
bool plan_takes(struct plan *plan, const struct atom *model);
/* Each want a row of its own, in the pod's order: the order of rule 5. */
void rows_of_wants(const struct plan *plan, struct plan_rows *out);

/* place_shape.c */
/* Slots in the order of the GPUs.  apart: equal are only those that are so in room and model. */
void shape_of(struct plan *plan, const struct room *room, bool apart, struct shape *out);
/* The tightest slot first: rooms with equal GPUs in any order get the same shape. */
void shape_sort(struct shape *shape);
/* Equal slots find each other. */
void shape_pair(struct shape *shape);

static inline bool slot_takes(const struct slot *slot, uint32_t milli)
{
    must_debug(milli > 0 && milli <= GPU_MILLI);
    must_debug(slot->most_milli <= slot->free_milli);
    return milli >= slot->least_milli && milli <= slot->most_milli;
}

/*
 * The cost of a way orders by touched slots (where whole GPUs are asked, too), then rule 1, then
 * rule 2: touched | charge | free milli of the touched slots, charges not taken off.
 */
enum { COST_BITS = 24 };
static_assert(GPUS_PER_NODE_MAX * GPU_MILLI < 1 << COST_BITS, "sums over a node stay apart");
static const uint64_t COST_MASK = ((uint64_t)1 << COST_BITS) - 1;

static inline uint32_t cost_touched(uint64_t cost)
{
    must(cost != UINT64_MAX);
    return (uint32_t)(cost >> 2 * COST_BITS);
}

static inline uint32_t cost_charge(uint64_t cost)
{
    return (uint32_t)(cost >> COST_BITS & COST_MASK);
}

static inline uint32_t cost_left(uint64_t cost)
{
    must(cost_charge(cost) > 0);
    must((cost & COST_MASK) >= cost_charge(cost));
    return (uint32_t)(cost & COST_MASK) - cost_charge(cost);
}

/* What a search came to. */
struct result {
    bool any;
    bool exact; /* nothing better, or nothing at all, is left unseen */
    uint64_t cost;
    uint32_t steps; /* taken */
};

enum { CELLS_ALL = CONTAINERS_MAX * GPUS_PER_NODE_MAX };

/* NULL: not searched yet. */
const struct result *shapes_find(const struct shapes *shapes, const struct shape *shape);
void shapes_keep(struct shapes *shapes, const struct shape *shape, const struct result *result);

/*
 * What parts on one slot take of milli or MiB, as request_peak() counts it, part by part: where
 * sidecars run beside init containers rows come in the order of life, so no sum has to be mended.
 */
struct sums {
    uint32_t running;  /* app containers and sidecars, all at once */
    uint32_t sidecars; /* of them */
    uint32_t starting; /* the most while init containers run */
};

static inline uint32_t sums_peak(const struct sums *sums)
{
    must_debug(sums->sidecars <= sums->running);
    return sums->running > sums->starting ? sums->running : sums->starting;
}

static inline void sums_add(struct sums *sums, enum container_kind kind, uint32_t amount,
                            uint32_t copies)
{
    must_debug(copies > 0);
    must_debug(amount <= UINT32_MAX / copies);
    if (kind == CONTAINER_INIT) {
        const uint32_t now = sums->sidecars + amount;
        sums->starting = now > sums->starting ? now : sums->starting;
        return;
    }
    sums->running += copies * amount;
    sums->sidecars += kind == CONTAINER_SIDECAR ? copies * amount : 0;
}

/* How many of copies parts fit beside what is there, each alone being no question. */
static inline uint32_t sums_take(const struct sums *sums, enum container_kind kind, uint32_t amount,
                                 uint32_t copies, uint32_t free)
{
    must_debug(copies > 0);
    must_debug(sums_peak(sums) <= free);
    if (kind == CONTAINER_INIT)
        return sums->sidecars + amount <= free ? copies : 0;
    if (amount == 0 || sums->running + copies * amount <= free)
        return copies;
    return copies == 1 ? 0 : (free - sums->running) / amount;
}

struct load {
    struct sums milli;
    struct sums mib; /* of slots that have MiB */
};

/* How many parts of the row the slot takes beside its load. */
static inline uint32_t load_takes(const struct load *load, const struct slot *slot,
                                  const struct plan_row *row)
{
    must_debug(row->wants > 0);
    must_debug(slot->mib == 0 || slot->milli > 0);
    if (!slot_takes(slot, row->milli))
        return 0;
    const uint32_t copies =
        sums_take(&load->milli, row->kind, row->milli, row->wants, slot->free_milli);
    if (slot->mib == 0 || copies == 0)
        return copies;
    const uint32_t mib = inventory_share_mib(slot->mib, slot->milli, row->milli);
    return sums_take(&load->mib, row->kind, mib, copies, slot->free_mib);
}

static inline void load_add(struct load *load, const struct slot *slot, const struct plan_row *row,
                            uint32_t copies)
{
    must_debug(copies > 0 && copies <= row->wants);
    sums_add(&load->milli, row->kind, row->milli, copies);
    if (slot->mib > 0)
        sums_add(&load->mib, row->kind, inventory_share_mib(slot->mib, slot->milli, row->milli),
                 copies);
    must_debug(sums_peak(&load->milli) <= slot->free_milli);
}

/* What a slot with this load adds to the cost.  touch: of being touched, 0 or one. */
static inline uint64_t load_cost(const struct load *load, const struct slot *slot, uint64_t touch)
{
    const uint32_t peak = sums_peak(&load->milli);

    must_debug(peak <= slot->free_milli);
    return peak == 0 ? 0 : touch + ((uint64_t)peak << COST_BITS) + slot->free_milli;
}

static inline uint64_t touch_of(const struct plan *plan)
{
    return plan->request->whole > 0 ? (uint64_t)1 << 2 * COST_BITS : 0;
}

/* place_walk.c */
/* A leaf: the way is complete.  Returns false to end the walk. */
struct walk;
typedef bool walk_visit(struct walk *walk);

enum {
    CELLS_MAX = PLACE_STEPS_MAX,          /* more rows x slots than that are not walked over */
    FIRST_STEPS_MAX = 8 * PLACE_STEPS_MAX /* to rule 5: asked of one node only */
};

/*
 * Depth first, row by row and slot by slot, most parts first.  Ways that cost bound or more are
 * left out; the visitor may lower it.
 */
struct walk {
    const struct plan_rows *rows;
    const struct shape *shape;
    uint64_t touch;
    uint64_t bound;
    uint32_t steps; /* left */
    void *user;
    walk_visit *visit;
    uint32_t cells;   /* from here on it is the walk's own */
    uint32_t running; /* milli of all that runs at once */
    uint64_t another; /* a slot more costs no less */
    uint8_t cell[CELLS_MAX];
    uint8_t low[CELLS_MAX];
    uint8_t cap[CELLS_MAX];
    uint16_t rest[CELLS_MAX]; /* caps of the slots behind in the row */
    uint16_t left[CELLS_MAX]; /* parts of the row that are not laid yet */
    uint64_t cost[CELLS_MAX + 1];
    uint64_t alike[CONTAINERS_MAX]; /* slots that carry what their twin carries, before the row */
    struct load load[CELLS_MAX + GPUS_PER_NODE_MAX]; /* before the cell's row */
};

enum place_end walk_all(struct walk *walk) MUST_USE;
uint64_t walk_cost(const struct walk *walk); /* of a leaf */

/* Write a way down, each row as rule 5 would have it. */
void way_write(const struct plan_rows *rows, const struct shape *shape, const uint8_t *cell,
               struct placement *out);

/* place_best.c */
/* The cheapest way; cell NULL: only its cost is asked for. */
void best_way(const struct plan *plan, const struct shape *shape, uint8_t cell[CELLS_ALL],
              struct result *out);

#endif
