/*
 * Fragmentation of a node, as Weng et al. define it in "Beware of Fragmentation" (USENIX ATC 2023):
 * the free milli that a random pod of the workload could not use there. Called once for each
 * placement that the policy fgd judges, and once for each node.
 */
#include "policy_internal.h"

/* The free milli on GPUs where a part does not fit; all of them if the shape does not fit. */
static uint32_t fgd_wasted(const struct rest *rest, const struct workload_typical *shape)
{
    uint32_t able = 0;
    uint32_t wasted = 0;

    must(shape->parts > 0);
    must(shape->milli > 0);
    for (uint32_t i = 0; i < rest->gpus; i++) {
        const bool fits = rest_takes(rest, i, shape);
        able += fits;
        wasted += fits ? 0 : rest->free[i];
    }
    must(wasted <= rest->free_milli);
    return able < shape->parts ? rest->free_milli : wasted;
}

uint64_t fgd_fragment(const struct workload *workload, const struct rest *rest)
{
    uint64_t sum = 0;

    must(rest->gpus <= GPUS_PER_NODE_MAX);
    must(workload->typicals <= workload->classes);
    for (uint32_t t = 0; t < workload->typicals; t++) {
        const struct workload_typical *shape = &workload->typical[t];
        /* Memory of hosts is no part of the measure; an unknown CPU is never too little. */
        const bool none = shape->parts == 0 || rest->host.cpu_milli < shape->cpu_milli;
        sum += (uint64_t)shape->count * (none ? rest->free_milli : fgd_wasted(rest, shape));
    }
    must(sum <= workload->typical_count * rest->free_milli);
    return sum;
}

static uint64_t fgd_waste(struct judge *judge, const struct workload *workload,
                          const struct rest *rest, uint64_t *work)
{
    (void)judge;
    must(work != NULL);
    must(rest->gpus <= GPUS_PER_NODE_MAX);
    *work += (uint64_t)rest->gpus * workload->typicals;
    return fgd_fragment(workload, rest);
}

static int64_t fgd_score(const struct workload *workload, int64_t by, const struct rest *after)
{
    must(after->free_milli <= after->total_milli);
    must(workload->typicals <= workload->classes);
    return sigmoid_merit(by, workload->typical_count);
}

const struct policy policy_fgd = {
    .name = "fgd",
    .help = "least fragmentation for the workload (published scores)",
    .shuffles = true,
    .waste = fgd_waste,
    .score = fgd_score,
};
