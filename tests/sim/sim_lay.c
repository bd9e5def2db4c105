#include "sim_lay.h"

#include <string.h>

#include "milligpu/base/limits.h"

enum {
    MODEL_LETTERS = 4, /* that tell models apart here */
    WHOLE = 1000,
};

uint32_t lay_mib(uint32_t mib, uint32_t milli_all, uint32_t milli)
{
    return (uint32_t)((uint64_t)mib * milli / milli_all);
}

bool lay_suits(const struct shape *shape, const struct lay_gpu *gpu, uint32_t milli)
{
    if (shape->model != NULL && strncmp(gpu->model, shape->model, MODEL_LETTERS) != 0)
        return false;
    return milli <= gpu->milli &&
           (shape->memory == NULL || lay_mib(gpu->mib, gpu->milli, milli) >= shape->memory_mib);
}

uint32_t lay_need(const struct lay_gpu *gpu, uint32_t memory_mib)
{
    uint32_t milli = 1;

    while (milli <= gpu->milli && lay_mib(gpu->mib, gpu->milli, milli) < memory_mib)
        milli++;
    return milli <= gpu->milli ? milli : 0;
}

uint32_t lay_next(const struct lay_raise *raise, uint32_t milli)
{
    if (raise->whole)
        milli = WHOLE;
    if (milli < raise->min_milli)
        milli = raise->min_milli;
    while (raise->step_milli > 0 && milli % raise->step_milli != 0)
        milli++;
    return milli <= WHOLE ? milli : 0;
}

/* --- where they lie --- */

static const struct model_gpu *told_of(const struct model_version *version, const char *id,
                                       uint32_t *out)
{
    for (*out = 0; *out < version->n_gpus; ++*out) {
        const struct model_gpu *gpu = &version->gpu[*out];
        if (!gpu->missing && (strcmp(gpu->id, id) == 0 || strcmp(gpu->alias, id) == 0))
            return gpu;
    }
    return NULL;
}

/* A link that either side names is one. */
void lay_tell(struct lay_room *room, const struct model_version *version)
{
    uint32_t at[LAY_GPUS];

    for (uint32_t i = 0; i < room->n_gpus; i++) {
        const struct model_gpu *told = told_of(version, room->gpu[i].id, &at[i]);
        room->gpu[i].numa = told != NULL ? told->numa : 0;
        room->gpu[i].links = 0;
        for (uint32_t k = 0; told != NULL && k < i; k++) {
            const struct model_gpu *other = at[k] < version->n_gpus ? &version->gpu[at[k]] : NULL;
            if (other == NULL ||
                ((told->names >> at[k] & 1) == 0 && (other->names >> at[i] & 1) == 0))
                continue;
            room->gpu[i].links |= 1U << k;
            room->gpu[k].links |= 1U << i;
        }
    }
}

static bool are_linked(const struct lay_room *room, uint32_t gpus)
{
    for (uint32_t i = 0; i < room->n_gpus; i++)
        if ((gpus >> i & 1) != 0 && (gpus & ~room->gpu[i].links & ~(1U << i)) != 0)
            return false;
    return true;
}

static bool are_on_one_numa(const struct lay_room *room, uint32_t gpus)
{
    uint32_t numa = 0;

    for (uint32_t i = 0; i < room->n_gpus; i++) {
        if ((gpus >> i & 1) == 0)
            continue;
        if (room->gpu[i].numa == 0 || (numa != 0 && room->gpu[i].numa != numa))
            return false;
        numa = room->gpu[i].numa;
    }
    return true;
}

static bool is_one(uint32_t gpus)
{
    return (gpus & (gpus - 1)) == 0;
}

enum lay_apart lay_apart(const struct lay_room *room, uint32_t gpus)
{
    if (is_one(gpus) || are_linked(room, gpus))
        return LAY_LINKED;
    return are_on_one_numa(room, gpus) ? LAY_NUMA : LAY_ANYWHERE;
}

bool lay_obeys(const struct lay_room *room, uint32_t gpus, enum model_lie demand)
{
    if (demand == LIE_ANYWHERE || is_one(gpus))
        return true;
    return demand == LIE_LINKED ? are_linked(room, gpus) : are_on_one_numa(room, gpus);
}

/* --- every way --- */

struct lay {
    const struct lay_room *room;
    const struct shape *shape;
    enum model_lie demand;
    enum lay_apart most;      /* no container lies farther apart */
    uint32_t raised;          /* to which smaller shares are raised */
    uint32_t on[MODEL_WANTS]; /* bits: the GPUs of each want so far */
};

static uint32_t milli_of(const struct lay *lay, uint32_t want)
{
    const uint32_t milli = lay->shape->want[want].milli / model_parts(&lay->shape->want[want]);

    return milli > lay->raised ? milli : lay->raised;
}

/* The peak of all parts so far on the GPU, on both axes. */
static bool has_room(const struct lay *lay, uint32_t at)
{
    const struct lay_gpu *gpu = &lay->room->gpu[at];
    uint32_t milli[MODEL_WANTS] = {0};
    uint32_t mib[MODEL_WANTS] = {0};

    for (uint32_t w = 0; w < lay->shape->n_wants; w++) {
        if ((lay->on[w] >> at & 1) == 0)
            continue;
        milli[w] = milli_of(lay, w);
        mib[w] = lay_mib(gpu->mib, gpu->milli, milli[w]);
    }
    return model_peak_of(lay->shape, milli) <= gpu->free_milli &&
           model_peak_of(lay->shape, mib) <= gpu->free_mib;
}

/* Whole GPUs next to shares of the same pod: each is one more than those that the shares lie on. */
static bool leaves_whole(const struct lay *lay)
{
    uint32_t touched = 0;
    uint32_t left = 0;

    for (uint32_t w = 0; w < lay->shape->n_wants; w++)
        touched |= lay->on[w];
    for (uint32_t i = 0; i < lay->room->n_gpus; i++)
        left += lay->room->gpu[i].whole && (touched >> i & 1) == 0 ? 1 : 0;
    return lay->shape->whole <= left;
}

/* The parts of this want from this GPU on, and all later wants. */
static bool lay_rest(struct lay *lay, uint32_t want, uint32_t parts, uint32_t from)
{
    if (want == lay->shape->n_wants)
        return leaves_whole(lay);
    if (parts == 0) {
        if (!lay_obeys(lay->room, lay->on[want], lay->demand) ||
            lay_apart(lay->room, lay->on[want]) > lay->most)
            return false;
        return lay_rest(
            lay, want + 1,
            want + 1 < lay->shape->n_wants ? model_parts(&lay->shape->want[want + 1]) : 0, 0);
    }
    const uint32_t milli = milli_of(lay, want);
    for (uint32_t i = from; i < lay->room->n_gpus; i++) {
        if (!lay->room->gpu[i].open || !lay_suits(lay->shape, &lay->room->gpu[i], milli))
            continue;
        lay->on[want] |= 1U << i;
        if (has_room(lay, i) && lay_rest(lay, want, parts - 1, i + 1))
            return true;
        lay->on[want] &= ~(1U << i);
    }
    return false;
}

static bool can_lie(const struct lay_room *room, const struct shape *shape, enum model_lie demand,
                    enum lay_apart most, uint32_t raised)
{
    struct lay lay = {
        .room = room, .shape = shape, .demand = demand, .most = most, .raised = raised};

    must(shape->n_wants > 0);
    return lay_rest(&lay, 0, model_parts(&shape->want[0]), 0);
}

/* The next amount beyond that one; 0: there is none. */
static uint32_t raise_beyond(const struct lay_room *room, const struct shape *shape,
                             uint32_t beyond)
{
    uint32_t next = 0;

    for (uint32_t i = 0; room->raise.may && shape->memory != NULL && i < room->n_gpus; i++) {
        const uint32_t need = lay_need(&room->gpu[i], shape->memory_mib);
        const uint32_t raised = need > 0 ? lay_next(&room->raise, need) : 0;
        if (raised > beyond && (next == 0 || raised < next))
            next = raised;
    }
    return next;
}

uint32_t lay_raised(const struct lay_room *room, const struct shape *shape, enum model_lie demand)
{
    uint32_t raised = 0;

    while (!can_lie(room, shape, demand, LAY_ANYWHERE, raised)) {
        raised = raise_beyond(room, shape, raised);
        if (raised == 0)
            return LAY_NEVER;
    }
    return raised;
}

enum lay_apart lay_nearest(const struct lay_room *room, const struct shape *shape,
                           enum model_lie demand)
{
    const uint32_t raised = lay_raised(room, shape, demand);
    enum lay_apart apart = raised == LAY_NEVER ? LAY_NOWHERE : LAY_LINKED;

    while (apart < LAY_NOWHERE && !can_lie(room, shape, demand, apart, raised))
        apart++;
    return apart;
}

bool lay_fits(const struct lay_room *room, const struct shape *shape, enum model_lie demand)
{
    return lay_raised(room, shape, demand) != LAY_NEVER;
}

/* The lowest price of an open GPU beyond this one; 0: there is none. */
static uint32_t price_beyond(const struct lay_room *room, uint32_t beyond)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < room->n_gpus; i++) {
        const uint32_t price = room->gpu[i].open ? room->gpu[i].price : 0;
        if (price > beyond && (next == 0 || price < next))
            next = price;
    }
    return next;
}

bool lay_cheapest(struct lay_room *room, const struct shape *shape, enum model_lie demand)
{
    struct lay_room cheap = *room;
    uint32_t price = 0;
    bool fits = false;

    while (!fits && (price = price_beyond(room, price)) > 0) {
        cheap = *room;
        for (uint32_t i = 0; i < room->n_gpus; i++)
            cheap.gpu[i].open = room->gpu[i].open && room->gpu[i].price <= price;
        fits = lay_fits(&cheap, shape, demand);
    }
    const bool shut = fits && price_beyond(room, price) > 0;
    if (shut)
        *room = cheap;
    return shut;
}

/* --- ever --- */

/* So many more of the GPUs from this one on. */
static bool lies_ever(const struct lay_room *room, uint32_t able, enum model_lie demand,
                      uint32_t parts, uint32_t gpus)
{
    if (parts == 0)
        return lay_obeys(room, gpus, demand);
    for (uint32_t i = 0; i < room->n_gpus; i++)
        if ((able >> i & 1) != 0 && gpus >> i == 0 &&
            lies_ever(room, able, demand, parts - 1, gpus | 1U << i))
            return true;
    return false;
}

bool lay_ever(const struct lay_room *room, const struct shape *shape, enum model_lie demand)
{
    for (uint32_t w = 0; w < shape->n_wants; w++) {
        const uint32_t parts = model_parts(&shape->want[w]);
        uint32_t able = 0;
        for (uint32_t i = 0; i < room->n_gpus && parts > 0; i++)
            able |= lay_suits(shape, &room->gpu[i], shape->want[w].milli / parts) ? 1U << i : 0;
        if (!lies_ever(room, able, demand, parts, 0))
            return false;
    }
    return true;
}

/* --- as far as milligpu searches --- */

static uint32_t choices(uint32_t gpus, uint32_t parts)
{
    uint64_t count = 1;

    for (uint32_t i = 0; i < parts; i++)
        count = count * (gpus - i) / (i + 1);
    return (uint32_t)count;
}

/*
 * The daemon searches for a limited number of steps; if this is true, the search always ends
 * before. Each beginning of a layout opens one line of the table of counts, which is visited once
 * and laid cell by cell, back and forth, for each choice of GPUs. Before that every container has
 * been tried greedily, and counted. With links there are fewer choices, and each distance has as
 * many steps. One container needs no search, and links among so few GPUs no long one. Each GPU may
 * need another amount, with which all is searched again.
 */
bool lay_is_searched(const struct shape *shape, uint32_t gpus)
{
    uint64_t beginnings = 1;
    uint64_t steps = 1 + (uint64_t)shape->n_wants * 3 * gpus;

    for (uint32_t w = 0; w < shape->n_wants; w++) {
        const uint32_t parts = model_parts(&shape->want[w]);
        if (parts > gpus)
            return true; /* nor does it fit */
        const uint64_t cells =
            parts == 1 ? (uint64_t)gpus * (gpus + 1) : 2 * (uint64_t)gpus * choices(gpus, parts);
        steps += beginnings * (cells + (uint64_t)3 * gpus);
        beginnings *= choices(gpus, parts);
    }
    steps *= shape->memory != NULL ? 1 + gpus : 1;
    return shape->n_wants == 1 || steps <= PLACE_STEPS_MAX;
}
