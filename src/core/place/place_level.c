/*
 * Levels: the GPUs of a room with which a request is searched, and the amount to which its shares
 * are raised. Called by place.c for every room, so that all callers get the same answer; most rooms
 * have one level.
 *
 *   all GPUs     as requested, raised to the first need, to the next, ...   does it fit at all?
 *   cheapest     as requested, raised to the first need, to the next, ...   the first that fits
 *   next dearer  ...                                                        is the answer
 *
 * A need is the minimum share of a GPU with the requested memory; no other amount can make a
 * refused request fit. A smaller raise on the same GPUs leaves more, so the first that fits is the
 * best. All GPUs come first, because prices only order placements: tiers are searched only in rooms
 * in which the request fits, and not at all if the plan skips them, when a question has used up its
 * work.
 */
#include "milligpu/core/rules/policy_context.h"

#include "place_internal.h"

/* Number of prices in one room that are tried one by one; after them all GPUs are used. */
enum { TIERS_MAX = 8 };

static const gpu_set all_gpus = ~(gpu_set)0;

/*
 * Raising
 */

bool plan_raises(const struct plan *plan)
{
    const struct rulebook *book = plan->context != NULL ? plan->context->rulebook : NULL;

    must(plan->request != NULL);
    must(plan->rule == NULL || book != NULL);
    if (plan->request->memory_mib == 0 || book == NULL)
        return false;
    if (plan->rule != NULL && plan->rule->memory != MEMORY_UNSAID)
        return plan->rule->memory == MEMORY_RAISE;
    return book->raise;
}

/* The raised amount on this GPU: its need, or the next amount that the rule hands out; 0: none. */
static uint32_t raise_on(const struct plan *plan, const struct gpu_room *gpu)
{
    const uint32_t need = gpu->milli > 0 ? least_with_memory(gpu, plan->request->memory_mib) : 0;

    must(plan->request->memory_mib > 0);
    must(gpu->milli <= GPU_MILLI);
    if (need == 0 || need > gpu->milli)
        return 0; /* no share is large enough */
    must(need <= GPU_MILLI);
    return plan->rule == NULL ? need : rule_next(plan->rule, need);
}

/* The smallest raise beyond the present one that any share and GPU could use; 0: none. */
static uint32_t next_raise(struct plan *plan, const struct room *room)
{
    uint32_t least = GPU_MILLI;
    uint32_t next = 0;

    must(plan->rows.count > 0);
    for (uint32_t r = 0; r < plan->rows.count; r++)
        least = plan->rows.row[r].milli < least ? plan->rows.row[r].milli : least;
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        if ((plan->usable & one_gpu(i)) == 0 || !plan_takes(plan, room->gpu[i].model))
            continue;
        const uint32_t raise = raise_on(plan, &room->gpu[i]);
        if (raise > least && (next == 0 || raise < next))
            next = raise;
    }
    must(next == 0 || next > plan->raised_milli);
    return next;
}

/* Adds the steps of an earlier attempt; exact only if both were. */
static void add_attempt(const struct rank *before, struct rank *out)
{
    must(before != out);
    must(before->raised_milli <= GPU_MILLI);
    out->steps += before->steps;
    out->exact = out->exact && before->exact;
}

/*
 * As requested, then raised as little as possible. If nothing fits, the reason is that of the
 * attempt nearest to fitting.
 */
static enum reason try_amounts(struct plan *plan, const struct room *room, level_evaluate *evaluate,
                               struct rank *out)
{
    const struct rank blank = {.exact = true, .free_milli = room->free_milli};
    enum reason nearest;
    uint32_t next;

    must(plan->request->n_wants > 0);
    must(evaluate != NULL);
    plan_raise(plan, 0);
    *out = blank;
    nearest = evaluate(plan, room, out);
    while (nearest != REASON_NONE && plan_raises(plan) && (next = next_raise(plan, room)) > 0) {
        struct rank raised = blank;
        plan_raise(plan, next);
        const enum reason why = evaluate(plan, room, &raised);
        nearest = why == REASON_NONE || why > nearest ? why : nearest;
        add_attempt(out, &raised);
        *out = raised;
    }
    if (nearest != REASON_NONE)
        plan_raise(plan, 0);
    out->raised_milli = plan->raised_milli;
    return nearest;
}

/*
 * Prices
 */

/* Prices of the usable GPUs; 0 for the others. Returns the highest. */
static uint32_t prices_of(struct plan *plan, const struct room *room,
                          uint32_t price[GPUS_PER_NODE_MAX])
{
    uint32_t dearest = 0;

    must(plan->priced);
    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        const struct gpu_room *gpu = &room->gpu[i];
        const bool open = gpu->closed == REASON_NONE && gpu->free_milli > 0;
        price[i] = open && plan_takes(plan, gpu->model) ? plan_price(plan, gpu) : 0;
        dearest = price[i] > dearest ? price[i] : dearest;
    }
    return dearest;
}

/* The lowest price above `beyond`. */
static uint32_t next_price(const uint32_t *price, uint32_t gpus, uint32_t beyond)
{
    uint32_t next = UINT32_MAX;

    must(gpus <= GPUS_PER_NODE_MAX);
    must(beyond <= PRICE_MAX);
    for (uint32_t i = 0; i < gpus; i++)
        if (price[i] > beyond && price[i] < next)
            next = price[i];
    must(next > beyond);
    return next;
}

static gpu_set gpus_up_to(const uint32_t *price, uint32_t gpus, uint32_t most)
{
    gpu_set set = 0;

    must(most > 0);
    for (uint32_t i = 0; i < gpus; i++)
        set |= price[i] > 0 && price[i] <= most ? one_gpu(i) : 0;
    must(set != 0);
    return set;
}

/* Given *out, a fit with all GPUs: searches for one with cheaper GPUs only. */
static void try_prices(struct plan *plan, const struct room *room, level_evaluate *evaluate,
                       struct rank *out)
{
    const uint32_t raised_milli = plan->raised_milli;
    uint32_t price[GPUS_PER_NODE_MAX] = {0};
    const uint32_t dearest = prices_of(plan, room, price);
    uint32_t tier = next_price(price, room->n_gpus, 0);

    must(dearest > 0);
    must(tier <= dearest);
    for (uint32_t t = 0; t < TIERS_MAX && tier < dearest && !plan->skips_tiers; t++) {
        struct rank cheaper;
        plan->usable = gpus_up_to(price, room->n_gpus, tier);
        const enum reason why = try_amounts(plan, room, evaluate, &cheaper);
        if (why == REASON_NONE) {
            add_attempt(out, &cheaper);
            *out = cheaper;
            plan->price = tier;
            return;
        }
        add_attempt(&cheaper, out);
        tier = next_price(price, room->n_gpus, tier);
    }
    plan->usable = all_gpus;
    plan_raise(plan, raised_milli);
    plan->price = dearest;
}

bool plan_has_levels(const struct plan *plan)
{
    must(plan->request->n_wants > 0);
    must(!plan->priced || plan->context != NULL);
    return plan->priced || plan_raises(plan);
}

enum reason plan_settle(struct plan *plan, const struct room *room, level_evaluate *evaluate,
                        struct rank *out)
{
    must(plan->request->n_wants > 0);
    plan->usable = all_gpus;
    plan->price = 0;
    const enum reason why = try_amounts(plan, room, evaluate, out);
    if (why == REASON_NONE && plan->priced)
        try_prices(plan, room, evaluate, out);
    out->price = plan->price;
    must(why == REASON_NONE || plan->raised_milli == 0);
    return why;
}
