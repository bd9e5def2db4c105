/*
 * place_internal - shared by the files of place.
 *
 *   place.c         rooms, reasons, one container, the order
 *   place_plan.c    a request as rows; model cache
 *   place_rule.c    policy rules: admission
 *   place_level.c   GPUs by price, and raised shares
 *   place_shape.c   a room as slots; cache of results by shape
 *   place_walk.c    enumerates every distinct layout of rows on slots
 *   place_best.c    the greedy layout, the bounds, the cheapest layout
 *   place_together.c  rule b: which GPUs may hold one want together
 *
 * A layout is a table of counts, one line per row and one column per slot: the number of parts of
 * the row on the slot. Each count is at most row.wants, and a line adds up to row.wants x
 * row.parts; then the wants of the row can be laid so that no two parts of one want share a slot
 * (Gale and Ryser).
 */
#ifndef MILLIGPU_CORE_PLACE_INTERNAL_H
#define MILLIGPU_CORE_PLACE_INTERNAL_H

#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/place/place.h"

/*
 * A bit set whose highest bit is GPU 0. Of two sets of equal size, the larger word comes first by
 * rule 5: at the first difference, it has the earlier GPU.
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
 * Popcount without the compiler's builtin, which becomes a library call that core may not use. Sums
 * pairs of bits, then groups of four, then bytes; the product adds up the bytes in the highest one.
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

/* An open GPU, as a search sees it: properties irrelevant to the request are 0. */
struct slot {
    uint32_t free_milli;
    uint32_t least_milli; /* minimum share whose memory meets the request */
    uint32_t most_milli;  /* maximum share that fits, by milli and MiB */
    /* Set only if memory is the limit (most_milli < free_milli), or all properties are compared. */
    uint32_t milli;
    uint32_t mib;
    uint32_t free_mib;
    const struct atom *model; /* set only if all properties are compared */
};

struct shape {
    uint32_t n_slots;
    uint32_t raised_milli; /* of the plan; affects the rows */
    uint32_t free_milli;   /* total of all slots */
    struct slot slot[GPUS_PER_NODE_MAX];
    uint8_t gpu[GPUS_PER_NODE_MAX]; /* index into room.gpu */
    /* the nearest equal slot before this one, + 1; 0: none */
    uint8_t equal_slot[GPUS_PER_NODE_MAX];
};

/*
 * Rule b: a want may lie on a set of GPUs if every two of them are in linked, or every two in numa.
 * Indexed by GPU of a room, or by slot of a shape.
 */
struct gpu_links {
    gpu_set linked[GPUS_PER_NODE_MAX];
    gpu_set numa[GPUS_PER_NODE_MAX];
};

/* place_plan.c */
/* Does the request accept a GPU of this model? */
bool plan_asks_for(struct plan *plan, const struct atom *model);
/* Milli of a part of the want at the plan's level. */
static inline uint32_t plan_milli(const struct plan *plan, const struct want *want)
{
    must(want->milli > 0 && want->milli <= GPU_MILLI);
    must(plan->raised_milli <= GPU_MILLI);
    return want->milli > plan->raised_milli ? want->milli : plan->raised_milli;
}
/* One row per want, in the order of the pod, which is that of rule 5. */
void rows_of_wants(const struct plan *plan, struct plan_rows *out);
/* The rows of the plan, with one row for each want of several parts. */
void rows_separate(const struct plan *plan, struct plan_rows *out);
/* Raises all smaller parts to this amount; 0: as requested. */
void plan_raise(struct plan *plan, uint32_t milli);
/* The price of a GPU; requires plan->priced. */
uint32_t plan_price(struct plan *plan, const struct gpu_room *gpu);

/* place_rule.c */
/* Applies the rules to a room: REASON_NONE or REASON_RULE. Sets plan->rule for this room. */
enum reason plan_admit(struct plan *plan, const struct room *room) MUST_USE;
/*
 * Replaces `why` by REASON_RESERVE if the room is reserved. Reasons that never pass stay, and so
 * does one nearer to fitting in the order of reason.h.
 */
enum reason plan_keep(const struct plan *plan, const struct room *room, enum reason why) MUST_USE;
/* Do the request and plan->rule accept a GPU of this model? */
bool plan_takes(struct plan *plan, const struct atom *model);

/* place_level.c */
/* Judges a room at the level set in the plan; *out has exact and free_milli set. */
typedef enum reason level_evaluate(struct plan *plan, const struct room *room, struct rank *out);
/*
 * place_evaluate() for an admitted request with wants: finds the level, sets it in the plan, and
 * judges by it.
 */
enum reason plan_settle(struct plan *plan, const struct room *room, level_evaluate *evaluate,
                        struct rank *out) MUST_USE;
/* False: only one level, as requested and with all GPUs. */
bool plan_has_levels(const struct plan *plan);

/* place_shape.c */
/* The minimum share of a GPU with at least memory_mib; more than GPU_MILLI: none. */
uint32_t least_with_memory(const struct gpu_room *gpu, uint32_t memory_mib);
/* Slots in the order of the GPUs. apart: slots are equal only if all properties are equal. */
void shape_of(struct plan *plan, const struct room *room, bool apart, struct shape *out);
/* Sorts the slots, the tightest first: rooms with equal GPUs in any order get the same shape. */
void shape_sort(struct shape *shape);
/* Sets equal_slot. links, by slot: equal slots have equal links, too; NULL: links do not matter. */
void shape_pair(struct shape *shape, const struct gpu_links *links);

static inline bool slot_takes(const struct slot *slot, uint32_t milli)
{
    must_debug(milli > 0 && milli <= GPU_MILLI);
    must_debug(slot->most_milli <= slot->free_milli);
    return milli >= slot->least_milli && milli <= slot->most_milli;
}

/*
 * The cost of a layout is a word of three fields: touched slots (if whole GPUs are requested) |
 * charge (rule 1) | free milli of the touched slots, before the charges (rule 2).
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
    bool exact; /* the search was complete: no better layout, or none at all, exists */
    enum distance distance;
    uint64_t cost;
    uint32_t steps; /* steps taken */
};

enum { CELLS_ALL = CONTAINERS_MAX * GPUS_PER_NODE_MAX };

/* NULL: not cached. */
const struct result *shapes_find(const struct shapes *shapes, const struct shape *shape);
void shapes_keep(struct shapes *shapes, const struct shape *shape, const struct result *result);

/*
 * Peak of milli or MiB of the parts on one slot, added part by part as in request_peak(). If
 * sidecars run beside init containers, the rows are in the order in which containers start,
 * so no sum needs a correction.
 */
struct sums {
    uint32_t running;  /* total of app containers and sidecars, which all run at once */
    uint32_t sidecars; /* total of sidecars */
    uint32_t starting; /* peak while init containers run */
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

/* Number of `copies` parts that fit beside the load, given that each fits by itself. */
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
    struct sums mib; /* of slots with mib set */
};

/* Number of parts of the row that fit on the slot beside its load. */
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

/* Cost of a slot with this load. touch: the cost of touching it (touch_of()). */
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
/* Visits a leaf, a complete layout. Returns false to end the walk. */
struct walk;
typedef bool walk_visit(struct walk *walk);

enum {
    CELLS_MAX = PLACE_STEPS_MAX, /* limit of rows x slots of a walk */
    /* steps for rule 5, which is evaluated for one node only */
    FIRST_STEPS_MAX = 8 * PLACE_STEPS_MAX
};

/*
 * Depth first, row by row and slot by slot, most parts first. Skips layouts with a cost of bound or
 * more; the visitor may lower bound.
 */
struct walk {
    const struct plan_rows *rows;
    const struct shape *shape;
    /* By slot; each want of several parts has its own row. NULL: none. */
    const struct gpu_links *links;
    uint64_t touch;
    uint64_t bound;
    uint32_t steps; /* steps left */
    void *user;
    walk_visit *visit;
    /* Private to the walk from here on. */
    uint32_t n_cells;
    uint32_t running; /* milli of all parts that run at once */
    uint64_t another; /* minimum cost of one more slot */
    uint8_t cell[CELLS_MAX];
    uint8_t low[CELLS_MAX];
    uint8_t cap[CELLS_MAX];
    uint16_t rest[CELLS_MAX]; /* capacity of the later slots of the row */
    uint16_t left[CELLS_MAX]; /* parts of the row still to be laid */
    uint64_t cost[CELLS_MAX + 1];
    /* by row: slots with the same load as their equal slot, before the row */
    uint64_t alike[CONTAINERS_MAX];
    struct load load[CELLS_MAX + GPUS_PER_NODE_MAX]; /* load before the cell's row */
};

enum place_end walk_all(struct walk *walk) MUST_USE;
uint64_t walk_cost(const struct walk *walk); /* cost of a leaf */

/* Appends the parts of a layout to *out, each row in the order of rule 5. */
void way_write(const struct plan_rows *rows, const struct shape *shape, const uint8_t *cell,
               struct placement *out);

/* place_best.c */
/* The cheapest layout in cell, which must not be NULL, and its cost in *out. */
void best_way(const struct plan *plan, const struct shape *shape, uint8_t cell[CELLS_ALL],
              struct result *out);
/* The same with links between slots; rows from rows_separate(), without the greedy layout. */
void best_way_together(const struct plan *plan, const struct plan_rows *rows,
                       const struct shape *shape, const struct gpu_links *links,
                       uint8_t cell[CELLS_ALL], struct result *out);

/* place_together.c */
/* Does rule b distinguish placements in this room, or does the plan demand a distance? */
bool together_matters(const struct plan *plan, const struct room *room);
/* The greatest distance that the plan allows. */
enum distance together_last(const struct plan *plan);
/* The distance without topology information; a want of one part counts as linked. */
enum distance together_unknown(const struct plan *plan);
/* The links for this distance; distance is not ANYWHERE. */
void links_of_room(const struct plan *plan, const struct room *room, enum distance distance,
                   struct gpu_links *out);
void links_of_shape(const struct gpu_links *room, const struct shape *shape, struct gpu_links *out);
/* Can a want of this many parts meet the plan's demand? False: certainly not. */
bool together_may(const struct plan *plan, const struct room *room, gpu_set among, uint32_t parts);
/*
 * One want: the GPUs of the plan's choice at the nearest distance. False: none found nearer than
 * ANYWHERE; out->exact: this is certain.
 */
bool together_choose(const struct plan *plan, const struct room *room, gpu_set fits,
                     struct rank *out, gpu_set *chosen);

#endif
