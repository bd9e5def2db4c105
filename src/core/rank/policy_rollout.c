/*
 * Computes the idle GPU capacity that a node is expected to end with: fixed random pods of the
 * workload arrive until the sequence ends, and each that fits is placed. Called once for each
 * placement that the policy rollout judges: the most frequent calculation of a filter call. So:
 *   - Steps of a sequence with a part larger than the largest hole are skipped (workload.small), so
 *     a sequence ends soon after the node is full.
 *   - If all GPUs are of one kind, their identity does not matter. The holes are then kept sorted:
 *     the tightest is the first that is large enough.
 *   - Else the tightest one is found without a branch for each hole: it would be mispredicted.
 */
#include <string.h>

#include "score_cache.h"

struct rollout {
    const struct workload *workload;
    const struct remaining *remaining;
    struct host host;
    uint32_t taken; /* milli */
    uint32_t work;  /* in ns, as measured (score_cache.h) */
    uint32_t n_holes;
    /* Free milli of each GPU: ascending if all are of one kind, else with its index (below). */
    uint32_t hole[GPUS_PER_NODE_MAX];
};

static bool host_suffices(const struct rollout *rollout, const struct workload_class *class)
{
    must_debug(class->parts > 0);
    must_debug(class->milli > 0);
    return class->host.cpu_milli <= rollout->host.cpu_milli &&
           class->host.memory_mib <= rollout->host.memory_mib;
}

static void host_take(struct rollout *rollout, const struct workload_class *class)
{
    must_debug(host_suffices(rollout, class));
    rollout->host.cpu_milli = host_less(rollout->host.cpu_milli, class->host.cpu_milli);
    rollout->host.memory_mib = host_less(rollout->host.memory_mib, class->host.memory_mib);
    rollout->taken += class->parts * class->milli;
    must(rollout->taken <= rollout->remaining->free_milli);
}

/* The steps of this word whose parts are not much larger than the hole. */
static uint64_t small_steps(const struct workload *workload, uint32_t sequence, uint32_t word,
                            uint32_t hole)
{
    must_debug(hole <= GPU_MILLI);
    must_debug(word < WORKLOAD_STEP_WORDS);
    return workload->small[sequence][hole / WORKLOAD_SIZE_MILLI][word];
}

/*
 * GPUs of one kind
 */

/* Shrinks the hole at this index and moves it to its sorted position. */
static void shrink(struct rollout *rollout, uint32_t at, uint32_t milli)
{
    must_debug(at < rollout->n_holes);
    must_debug(rollout->hole[at] >= milli);
    const uint32_t left = rollout->hole[at] - milli;
    for (; at > 0 && rollout->hole[at - 1] > left; at--)
        rollout->hole[at] = rollout->hole[at - 1];
    rollout->hole[at] = left;
}

static bool take_sorted(struct rollout *rollout, const struct workload_class *class)
{
    uint32_t at = 0;

    must_debug(rollout->n_holes > 0);
    if (class->milli > rollout->hole[rollout->n_holes - 1] || !host_suffices(rollout, class))
        return false;
    while (rollout->hole[at] < class->milli)
        at++;
    if (class->parts > rollout->n_holes - at)
        return false;
    /* A moved hole goes before the indexes still to come. */
    for (uint32_t p = 0; p < class->parts; p++)
        shrink(rollout, at + p, class->milli);
    host_take(rollout, class);
    must_debug(rollout->hole[0] <= rollout->hole[rollout->n_holes - 1]);
    return true;
}

static void play_sorted(struct rollout *rollout, uint32_t sequence)
{
    const struct workload *workload = rollout->workload;
    const struct gpu_kind *kind = &rollout->remaining->kinds[rollout->remaining->kind[0]];
    const uint32_t *largest = &rollout->hole[rollout->n_holes - 1];

    must(rollout->n_holes > 0);
    must(sequence < workload->n_sequences);
    for (uint32_t word = 0; word < WORKLOAD_STEP_WORDS; word++) {
        uint64_t steps = small_steps(workload, sequence, word, *largest);
        while (steps != 0) {
            const uint32_t step = word * 64 + (uint32_t)__builtin_ctzll(steps);
            const uint32_t class = workload->sequence[sequence][step];
            steps &= steps - 1;
            if (!gpu_kind_takes(kind, class))
                continue;
            rollout->work += 10 + rollout->n_holes / 2;
            if (take_sorted(rollout, &workload->class[class]))
                steps &= small_steps(workload, sequence, word, *largest);
        }
    }
}

/*
 * GPUs of several kinds
 */

/*
 * A hole has the index of its GPU in its low bits. The least hole that a part leaves is that of the
 * tightest GPU, of several the first. Where a part does not fit, the difference wraps around, and
 * is larger than any hole.
 */
enum { INDEX_BITS = 8 };
#define HOLE_END ((uint32_t)(GPU_MILLI + 1) << INDEX_BITS)
/* In a hole with a part of the pod that is being placed: no other part of it fits there. */
#define HOLE_USED (UINT32_C(1) << 31)
static_assert(GPUS_PER_NODE_MAX <= 1 << INDEX_BITS, "an index fits");
static_assert((GPU_MILLI + 1) << INDEX_BITS < 1 << 30, "a used hole less a part is too large");

static uint32_t largest_hole(const struct rollout *rollout)
{
    uint32_t largest = 0;

    must(rollout->n_holes > 0);
    for (uint32_t i = 0; i < rollout->n_holes; i++)
        largest = rollout->hole[i] > largest ? rollout->hole[i] : largest;
    must(largest < HOLE_END);
    return largest >> INDEX_BITS;
}

/* The hole that a part leaves on the tightest GPU that may take it; HOLE_END or more: on none. */
static uint32_t tightest_left(const struct rollout *rollout, uint32_t class)
{
    const struct remaining *remaining = rollout->remaining;
    const uint32_t part = rollout->workload->class[class].milli << INDEX_BITS;
    uint32_t least = UINT32_MAX;

    must(class < rollout->workload->n_classes);
    must(part > 0 && part < HOLE_END);
    for (uint32_t i = 0; i < rollout->n_holes; i++) {
        const bool takes = gpu_kind_takes(&remaining->kinds[remaining->kind[i]], class);
        const uint32_t left = takes ? rollout->hole[i] - part : UINT32_MAX;
        least = left < least ? left : least;
    }
    return least;
}

static bool take_mixed(struct rollout *rollout, uint32_t class)
{
    const struct workload_class *pod = &rollout->workload->class[class];
    UNSET uint32_t at[GPUS_PER_NODE_MAX];
    uint32_t parts = 0;

    must(pod->parts > 0 && pod->parts <= GPUS_PER_NODE_MAX);
    if (!host_suffices(rollout, pod))
        return false;
    while (parts < pod->parts) {
        const uint32_t left = tightest_left(rollout, class);
        if (left >= HOLE_END)
            break;
        at[parts] = left & ((1U << INDEX_BITS) - 1);
        rollout->hole[at[parts++]] = left | HOLE_USED;
    }
    const bool fits = parts == pod->parts;
    for (uint32_t p = 0; p < parts; p++) {
        rollout->hole[at[p]] &= ~HOLE_USED;
        rollout->hole[at[p]] += fits ? 0 : pod->milli << INDEX_BITS;
    }
    if (fits)
        host_take(rollout, pod);
    return fits;
}

static void play_mixed(struct rollout *rollout, uint32_t sequence)
{
    const struct workload *workload = rollout->workload;
    uint32_t largest = largest_hole(rollout);

    must(sequence < workload->n_sequences);
    for (uint32_t word = 0; word < WORKLOAD_STEP_WORDS; word++) {
        uint64_t steps = small_steps(workload, sequence, word, largest);
        while (steps != 0) {
            const uint32_t step = word * 64 + (uint32_t)__builtin_ctzll(steps);
            const uint32_t class = workload->sequence[sequence][step];
            steps &= steps - 1;
            rollout->work += 12 + rollout->n_holes * (1 + workload->class[class].parts) * 3 / 2;
            if (!take_mixed(rollout, class))
                continue;
            largest = largest_hole(rollout);
            steps &= small_steps(workload, sequence, word, largest);
        }
    }
    must(largest <= GPU_MILLI);
}

/*
 * All sequences
 */

static bool is_one_kind(const struct remaining *remaining)
{
    must(remaining->n_gpus > 0);
    must(remaining->kinds != NULL);
    for (uint32_t i = 1; i < remaining->n_gpus; i++)
        if (remaining->kind[i] != remaining->kind[0])
            return false;
    return true;
}

static void fill_holes(struct rollout *rollout, bool is_sorted)
{
    const uint16_t *free = rollout->remaining->free;

    must(rollout->n_holes > 0);
    for (uint32_t i = 0; i < rollout->n_holes; i++) {
        rollout->hole[i] = is_sorted ? free[i] : (uint32_t)free[i] << INDEX_BITS | i;
        if (is_sorted)
            shrink(rollout, i, 0);
    }
    must(!is_sorted || rollout->hole[0] <= rollout->hole[rollout->n_holes - 1]);
}

uint64_t rollout_idle(const struct workload *workload, const struct remaining *remaining,
                      uint64_t *work)
{
    const uint64_t all = (uint64_t)remaining->free_milli * WORKLOAD_SEQUENCES;
    UNSET uint32_t hole[GPUS_PER_NODE_MAX];
    UNSET struct rollout rollout;
    uint64_t taken = 0;

    must(remaining->n_gpus <= GPUS_PER_NODE_MAX);
    must(workload->n_sequences <= WORKLOAD_SEQUENCES);
    if (remaining->free_milli == 0)
        return all;
    const bool is_sorted = is_one_kind(remaining);
    rollout.workload = workload;
    rollout.remaining = remaining;
    rollout.n_holes = remaining->n_gpus;
    fill_holes(&rollout, is_sorted);
    memcpy(hole, rollout.hole, rollout.n_holes * sizeof *hole);
    for (uint32_t s = 0; s < workload->n_sequences; s++) {
        memcpy(rollout.hole, hole, rollout.n_holes * sizeof *hole);
        rollout.host = remaining->host;
        rollout.taken = 0;
        rollout.work = 0;
        if (is_sorted)
            play_sorted(&rollout, s);
        else
            play_mixed(&rollout, s);
        taken += rollout.taken;
        *work += rollout.work;
    }
    must(taken <= all);
    return all - taken;
}

static int64_t rollout_score(const struct workload *workload, int64_t by,
                             const struct remaining *after)
{
    const int64_t score = sigmoid_merit(by, workload->n_sequences);

    must(after->free_milli <= after->total_milli);
    must(workload->n_sequences <= WORKLOAD_SEQUENCES);
    if (after->total_milli == 0)
        return score;
    return score - (int64_t)((uint64_t)FREE_SHARE_COST * after->free_milli / after->total_milli);
}

const struct policy policy_rollout = {
    .name = "rollout",
    .help = "least idle GPU once the workload has filled the node",
    .shuffles = true,
    .waste = score_cache_idle,
    .score = rollout_score,
    .prices_places = true,
};
