/*
 * place_internal - what the files of place share.
 *
 *   place.c         rooms, reasons, one container, the order
 *   place_plan.c    a request as rows; which models match
 *   place_rule.c    the rules of the policy: whom they let in
 *   place_level.c   which GPUs by price, and how far shares are raised
 *   place_shape.c   a room as slots; what was found in equal shapes
 *   place_walk.c    every distinct way to lay rows on slots, one after another
 *   place_best.c    the greedy way, the bounds, the cheapest way
 *   place_together.c  rule b: which GPUs may hold one want together
 *
 * A way is a table of counts, one line per row and one column per slot: how many parts of the row
 * are on the slot. Each count is at most row.wants, and a line adds up to row.wants x row.parts;
 * then the wants of the row can be laid so that no two parts of one want meet (Gale and Ryser).
 */
#ifndef MILLIGPU_CORE_PLACE_INTERNAL_H
#define MILLIGPU_CORE_PLACE_INTERNAL_H

#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/place/place.h"

/*
 * A set of GPUs is a word whose highest bit is GPU 0. Of two sets of one size, the larger word is
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

/*
 * Written out, because the compiler's builtin becomes a call into its library, which core may not
 * use. Pairs of bits are summed first, then groups of four, then bytes, which the product adds up
 * in the highest byte.
 */
static inline uint32_t set_count(gpu_set set)
{
    set -= set >> 1 & 0x5555555555555555U;
    set = (set & 0x3333333333333333U) + (set >> 2 & 0x3333333333333333U);
    set = (set + (set >> 4)) & 0x0F0F0F0F0F0F0F0FU;
    const uint32_t count = (uint32_t)(set * 0x0101010101010101U >> 56);
    must(count <= 64);
    return count;
}

/*
 * A GPU that takes shares, as a search sees it: properties that do not matter to the request are 0.
 */
struct slot {
    uint32_t free_milli;
    uint32_t least_milli; /* a smaller share comes with less memory than requested */
    uint32_t most_milli;  /* a larger share does not fit, perhaps for lack of memory */
    uint32_t milli; /* these three only where most_milli < free_milli, that is, where MiB run out */
    uint32_t mib;   /* before milli do, and where the search tells GPUs apart by all properties */
    uint32_t free_mib;
    const struct atom *model; /* in that case only */
};

struct shape {
    uint32_t slots;
    uint32_t raised_milli; /* of the plan: rows are larger then */
    uint32_t free_milli;   /* of all slots */
    struct slot slot[GPUS_PER_NODE_MAX];
    uint8_t gpu[GPUS_PER_NODE_MAX]; /* index into room.gpu */
    uint8_t
        equal_slot[GPUS_PER_NODE_MAX]; /* the nearest equal slot before this one, + 1; 0: none */
};

/*
 * Rule b: what may lie beside a GPU in one want, of which every two GPUs are in linked, or every
 * two in numa. By GPU of a room, or by slot of a shape.
 */
struct gpu_links {
    gpu_set linked[GPUS_PER_NODE_MAX];
    gpu_set numa[GPUS_PER_NODE_MAX];
};

/* place_plan.c */
/* Does the request take a GPU of this model? */
bool plan_asks_for(struct plan *plan, const struct atom *model);
/* What a part of the want takes at the level of the plan. */
static inline uint32_t plan_milli(const struct plan *plan, const struct want *want)
{
    must(want->milli > 0 && want->milli <= GPU_MILLI);
    must(plan->raised_milli <= GPU_MILLI);
    return want->milli > plan->raised_milli ? want->milli : plan->raised_milli;
}
/* One row per want, in the pod's order, which is the order of rule 5. */
void rows_of_wants(const struct plan *plan, struct plan_rows *out);
/* The plan's own rows, with one row for each want of several parts. */
void rows_separate(const struct plan *plan, struct plan_rows *out);
/* Raises all smaller parts to this; 0: as asked. */
void plan_raise(struct plan *plan, uint32_t milli);
/* The price of a GPU, with plan->priced. */
uint32_t plan_price(struct plan *plan, const struct gpu_room *gpu);

/* place_rule.c */
/* REASON_NONE or REASON_RULE; sets plan->rule for what follows in this room. */
enum reason plan_admit(struct plan *plan, const struct room *room) MUST_USE;
/*
 * REASON_RESERVE if the room is kept from the pod, in place of why it does not fit otherwise. What
 * never fits stays so, and what is nearer to fitting in the order of reason.h.
 */
enum reason plan_keep(const struct plan *plan, const struct room *room, enum reason why) MUST_USE;
/* Do the request and that rule take a GPU of this model? */
bool plan_takes(struct plan *plan, const struct atom *model);

/* place_level.c */
/* Judges a room at the level that is set in the plan; *out has exact and free_milli. */
typedef enum reason level_evaluate(struct plan *plan, const struct room *room, struct rank *out);
/*
 * place_evaluate() for an admitted request with wants: finds the level, which stays set in the
 * plan, and judges by it.
 */
enum reason plan_settle(struct plan *plan, const struct room *room, level_evaluate *evaluate,
                        struct rank *out) MUST_USE;
/* False: one level, as asked and with all GPUs. */
bool plan_has_levels(const struct plan *plan);

/* place_shape.c */
/* The least share of a GPU that comes with so much memory; beyond GPU_MILLI: none does. */
uint32_t least_with_memory(const struct gpu_room *gpu, uint32_t memory_mib);
/* Slots in the order of the GPUs. apart: slots are equal only if their room and model are equal. */
void shape_of(struct plan *plan, const struct room *room, bool apart, struct shape *out);
/* The tightest slot first: rooms with equal GPUs in any order get the same shape. */
void shape_sort(struct shape *shape);
/* Pair equal slots. links, by slot: with equal links only; NULL: they do not matter. */
void shape_pair(struct shape *shape, const struct gpu_links *links);

static inline bool slot_takes(const struct slot *slot, uint32_t milli)
{
    must_debug(milli > 0 && milli <= GPU_MILLI);
    must_debug(slot->most_milli <= slot->free_milli);
    return milli >= slot->least_milli && milli <= slot->most_milli;
}

/*
 * The cost of a layout orders by touched slots (where whole GPUs are requested, too), then rule 1,
 * then rule 2: touched | charge | free milli of the touched slots, before the charges.
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

/* The result of a search. */
struct result {
    bool any;
    bool exact; /* nothing better, or nothing at all, was left unvisited */
    enum distance distance;
    uint64_t cost;
    uint32_t steps; /* steps taken */
};

enum { CELLS_ALL = CONTAINERS_MAX * GPUS_PER_NODE_MAX };

/* NULL: not searched yet. */
const struct result *shapes_find(const struct shapes *shapes, const struct shape *shape);
void shapes_keep(struct shapes *shapes, const struct shape *shape, const struct result *result);

/*
 * What the parts on one slot take of milli or MiB, counted part by part as request_peak() does.
 * Where sidecars run beside init containers the rows are in order of life, so no sum has to be
 * corrected.
 */
struct sums {
    uint32_t running;  /* app containers and sidecars, which run all at once */
    uint32_t sidecars; /* sidecars among them */
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

/* How many of copies parts fit beside the load, each fitting by itself. */
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
    struct sums mib; /* of the slots that have MiB */
};

/* How many parts of the row fit on the slot beside its load. */
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

/* What a slot with this load adds to the cost. touch: the cost of touching it, 0 or 1. */
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
/* Visits a leaf: a complete layout. Returns false to end the walk. */
struct walk;
typedef bool walk_visit(struct walk *walk);

enum {
    CELLS_MAX = PLACE_STEPS_MAX,          /* more rows x slots than this are not walked */
    FIRST_STEPS_MAX = 8 * PLACE_STEPS_MAX /* steps for rule 5, which is only asked of one node */
};

/*
 * Depth first, row by row and slot by slot, most parts first. Skips layouts that cost bound or
 * more; the visitor may lower it.
 */
struct walk {
    const struct plan_rows *rows;
    const struct shape *shape;
    const struct gpu_links *links; /* by slot; each want of several parts has its row. NULL: none */
    uint64_t touch;
    uint64_t bound;
    uint32_t steps; /* steps left */
    void *user;
    walk_visit *visit;
    uint32_t cells;   /* from here on private to the walk */
    uint32_t running; /* milli of all that runs at once */
    uint64_t another; /* adding a slot does not lower the cost */
    uint8_t cell[CELLS_MAX];
    uint8_t low[CELLS_MAX];
    uint8_t cap[CELLS_MAX];
    uint16_t rest[CELLS_MAX]; /* capacities of the later slots of the row */
    uint16_t left[CELLS_MAX]; /* parts of the row that are not laid yet */
    uint64_t cost[CELLS_MAX + 1];
    uint64_t
        alike[CONTAINERS_MAX]; /* slots that carry what their equal slot carries, before the row */
    struct load load[CELLS_MAX + GPUS_PER_NODE_MAX]; /* load before the cell's row */
};

enum place_end walk_all(struct walk *walk) MUST_USE;
uint64_t walk_cost(const struct walk *walk); /* cost of a leaf */

/* Write a layout down, each row as rule 5 would have it. */
void way_write(const struct plan_rows *rows, const struct shape *shape, const uint8_t *cell,
               struct placement *out);

/* place_best.c */
/* The cheapest layout; cell NULL: only its cost is asked for. */
void best_way(const struct plan *plan, const struct shape *shape, uint8_t cell[CELLS_ALL],
              struct result *out);
/* The same where links keep wants together; rows by rows_separate(), without a greedy way. */
void best_way_together(const struct plan *plan, const struct plan_rows *rows,
                       const struct shape *shape, const struct gpu_links *links,
                       uint8_t cell[CELLS_ALL], struct result *out);

/* place_together.c */
/* Does rule b tell placements in this room apart, or does the plan make a demand of it? */
bool together_matters(const struct plan *plan, const struct room *room);
/* The farthest apart that the plan allows. */
enum distance together_last(const struct plan *plan);
/* How far apart the wants lie where nothing is told: one part lies together by itself. */
enum distance together_untold(const struct plan *plan);
/* The links that make wants lie this near. distance: not ANYWHERE. */
void links_of_room(const struct plan *plan, const struct room *room, enum distance distance,
                   struct gpu_links *out);
void links_of_shape(const struct gpu_links *room, const struct shape *shape, struct gpu_links *out);
/* May a want of this many parts lie as the plan demands? False: certainly not. */
bool together_may(const struct plan *plan, const struct room *room, gpu_set among, uint32_t parts);
/*
 * One want: its nearest GPUs, and of those the ones that the plan's choice takes. False: there are
 * none nearer than anywhere; out->exact says whether that is certain.
 */
bool together_choose(const struct plan *plan, const struct room *room, gpu_set fits,
                     struct rank *out, gpu_set *chosen);

#endif
