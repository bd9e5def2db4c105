/*
 * Computes the fragmentation of a node, defined by Weng et al. in "Beware of Fragmentation" (USENIX
 * ATC 2023): the free milli that a random pod of the workload could not use there. Called once for
 * each placement that the policy fgd judges, and once for each node.
 */
#include "policy_internal.h"

/* The free milli on GPUs where a part does not fit; all free milli if the shape does not fit. */
static uint32_t fgd_wasted(const struct remaining *remaining, const struct workload_typical *shape)
{
    uint32_t able = 0;
    uint32_t wasted = 0;

    must(shape->parts > 0);
    must(shape->milli > 0);
    for (uint32_t i = 0; i < remaining->n_gpus; i++) {
        const bool fits = remaining_takes(remaining, i, shape);
        able += fits;
        wasted += fits ? 0 : remaining->free[i];
    }
    must(wasted <= remaining->free_milli);
    return able < shape->parts ? remaining->free_milli : wasted;
}

uint64_t fgd_fragment(const struct workload *workload, const struct remaining *remaining)
{
    uint64_t sum = 0;

    must(remaining->n_gpus <= GPUS_PER_NODE_MAX);
    must(workload->n_typical <= workload->n_classes);
    for (uint32_t t = 0; t < workload->n_typical; t++) {
        const struct workload_typical *shape = &workload->typical[t];
        /* Host memory is not part of the measure; unknown CPU always suffices. */
        const bool none = shape->parts == 0 || remaining->host.cpu_milli < shape->cpu_milli;
        sum +=
            (uint64_t)shape->count * (none ? remaining->free_milli : fgd_wasted(remaining, shape));
    }
    must(sum <= workload->typical_count * remaining->free_milli);
    return sum;
}

static uint64_t fgd_waste(struct score_cache *cache, const struct workload *workload,
                          const struct remaining *remaining, uint64_t *work)
{
    (void)cache;
    must(work != NULL);
    must(remaining->n_gpus <= GPUS_PER_NODE_MAX);
    *work += (uint64_t)remaining->n_gpus * workload->n_typical;
    return fgd_fragment(workload, remaining);
}

static int64_t fgd_score(const struct workload *workload, int64_t by, const struct remaining *after)
{
    must(after->free_milli <= after->total_milli);
    must(workload->n_typical <= workload->n_classes);
    return sigmoid_merit(by, workload->typical_count);
}

const struct policy policy_fgd = {
    .name = "fgd",
    .help = "least fragmentation for the workload (published scores)",
    .shuffles = true,
    .waste = fgd_waste,
    .score = fgd_score,
};
