#include "support/place_oracle.h"

#include "support/test.h"

static uint32_t milli_of(const struct place_oracle *oracle, uint32_t want)
{
    const uint32_t asked = oracle->request->want[want].milli;
    return asked > oracle->raised_milli ? asked : oracle->raised_milli;
}

/* The formula of request.h, word for word. */
static uint32_t peak(const struct place_oracle *oracle, uint32_t gpu, bool mib)
{
    const struct request *request = oracle->request;
    const struct gpu_room *room = &oracle->room->gpu[gpu];
    uint32_t taken[ORACLE_WANTS] = {0};
    uint32_t apps = 0;
    uint32_t sidecars = 0;
    uint32_t inits = 0;

    for (uint32_t w = 0; w < request->n_wants; w++)
        if ((oracle->on[w] >> gpu & 1) != 0)
            taken[w] = mib ? room->mib * milli_of(oracle, w) / room->milli : milli_of(oracle, w);
    for (uint32_t w = 0; w < request->n_wants; w++) {
        apps += request->want[w].kind == CONTAINER_APP ? taken[w] : 0;
        sidecars += request->want[w].kind == CONTAINER_SIDECAR ? taken[w] : 0;
        if (request->want[w].kind != CONTAINER_INIT || taken[w] == 0)
            continue;
        uint32_t then = taken[w];
        for (uint32_t before = 0; before < w; before++)
            then += request->want[before].kind == CONTAINER_SIDECAR ? taken[before] : 0;
        inits = then > inits ? then : inits;
    }
    return apps + sidecars > inits ? apps + sidecars : inits;
}

static bool takes_part(const struct place_oracle *oracle, uint32_t want, uint32_t gpu)
{
    const struct gpu_room *room = &oracle->room->gpu[gpu];
    const uint32_t milli = milli_of(oracle, want);

    return oracle->room->closed == REASON_NONE && room->closed == REASON_NONE && room->milli > 0 &&
           milli <= room->milli && request_takes_model(oracle->request, atom_text(room->model)) &&
           room->mib * milli / room->milli >= oracle->request->memory_mib;
}

static uint32_t touched(const struct place_oracle *oracle)
{
    uint32_t set = 0;

    for (uint32_t w = 0; w < oracle->request->n_wants; w++)
        set |= oracle->on[w];
    return set;
}

/* Each whole GPU must be present and hold no share. */
static bool leaves_whole(const struct place_oracle *oracle)
{
    uint32_t present = 0;

    for (uint32_t gpu = 0; gpu < oracle->room->n_gpus; gpu++)
        present += oracle->room->gpu[gpu].closed != REASON_ABSENT &&
                   oracle->room->gpu[gpu].closed != REASON_HELD;
    return (uint32_t)__builtin_popcount(touched(oracle)) + oracle->request->whole <= present;
}

/* Rule b for one want; false if the request demands more. */
static bool meets_demand(const struct place_oracle *oracle, uint32_t want, enum distance *out)
{
    const struct gpu_room *gpu = oracle->room->gpu;
    bool linked = true;
    bool numa = true;

    for (uint32_t a = 0; a < oracle->room->n_gpus; a++)
        for (uint32_t b = 0; b < a; b++) {
            if ((oracle->on[want] >> a & 1) == 0 || (oracle->on[want] >> b & 1) == 0)
                continue;
            linked = linked && (gpu[a].peers >> b & 1) != 0;
            numa = numa && gpu[a].socket != 0 && gpu[a].socket == gpu[b].socket;
        }
    *out = linked ? DISTANCE_LINKED : numa ? DISTANCE_NUMA : DISTANCE_ANYWHERE;
    return oracle->request->topology == TOPOLOGY_NVLINK ? linked
           : oracle->request->topology == TOPOLOGY_NUMA ? numa
                                                        : true;
}

static uint32_t price_of(const struct place_oracle *oracle, uint32_t gpu)
{
    const struct gpu_room *room = &oracle->room->gpu[gpu];
    return oracle->book == NULL ? 0
                                : rulebook_price(oracle->book, atom_text(room->model),
                                                 room->mib * (GPU_MILLI / room->milli));
}

/* False if it does not fit. */
static bool write_down(const struct place_oracle *oracle, struct placement *out)
{
    *out = (struct placement){.exact = true, .free_milli = oracle->room->free_milli};
    for (uint32_t gpu = 0; gpu < oracle->room->n_gpus; gpu++) {
        const uint32_t milli = peak(oracle, gpu, false);
        if (milli == 0)
            continue;
        if (milli > oracle->room->gpu[gpu].free_milli ||
            peak(oracle, gpu, true) > oracle->room->gpu[gpu].free_mib)
            return false;
        out->charge_milli += milli;
        out->left_milli += oracle->room->gpu[gpu].free_milli - milli;
        out->price = price_of(oracle, gpu) > out->price ? price_of(oracle, gpu) : out->price;
    }
    for (uint32_t w = 0; w < oracle->request->n_wants; w++) {
        enum distance distance;
        if (!meets_demand(oracle, w, &distance))
            return false;
        out->distance = distance > out->distance ? distance : out->distance;
        for (uint32_t gpu = 0; gpu < oracle->room->n_gpus; gpu++)
            if ((oracle->on[w] >> gpu & 1) != 0)
                out->part[out->n_parts++] = (struct part){(uint16_t)w, (uint16_t)gpu};
    }
    return leaves_whole(oracle);
}

/* Rules a, b, 1, 2 and 5; next to whole GPUs, the fewest touched GPUs come before rule 1. */
static bool is_better(const struct place_oracle *oracle, const struct placement *a)
{
    const struct placement *b = &oracle->best;
    const int touched_a = __builtin_popcount(touched(oracle));
    const int touched_b = __builtin_popcount(oracle->best_on);

    if (a->price != b->price)
        return a->price < b->price;
    if (a->distance != b->distance)
        return a->distance < b->distance;
    if (oracle->request->whole > 0 && touched_a != touched_b)
        return touched_a < touched_b;
    if (a->charge_milli != b->charge_milli)
        return a->charge_milli < b->charge_milli;
    if (a->left_milli != b->left_milli)
        return a->left_milli < b->left_milli;
    for (uint32_t i = 0; i < a->n_parts; i++)
        if (a->part[i].gpu != b->part[i].gpu)
            return a->part[i].gpu < b->part[i].gpu;
    fail_msg("two ways are one");
    return false;
}

static void try_want(struct place_oracle *oracle, uint32_t want)
{
    struct placement way;

    for (uint32_t set = 1; want < oracle->request->n_wants && set < 1U << oracle->room->n_gpus;
         set++) {
        bool may = (uint32_t)__builtin_popcount(set) == oracle->request->want[want].parts;
        for (uint32_t gpu = 0; may && gpu < oracle->room->n_gpus; gpu++)
            may = (set >> gpu & 1) == 0 || takes_part(oracle, want, gpu);
        oracle->on[want] = set;
        if (may)
            try_want(oracle, want + 1);
    }
    if (want < oracle->request->n_wants || !write_down(oracle, &way))
        return;
    oracle->ways++;
    if (oracle->visit != NULL)
        oracle->visit(oracle->user, &way);
    if (!oracle->found || is_better(oracle, &way)) {
        oracle->best = way;
        oracle->best_on = touched(oracle);
    }
    oracle->found = true;
}

void place_oracle_run(struct place_oracle *oracle)
{
    assert_true(oracle->request->n_wants <= ORACLE_WANTS);
    oracle->found = false;
    oracle->ways = 0;
    try_want(oracle, 0);
}
