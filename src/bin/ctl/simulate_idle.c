/*
 * What is left at the end of a run of the command simulate: how much of the idle GPU is stranded,
 * that is, on GPUs on which no pod of the workload fits any more. Looks at each node on its own.
 */
#include "milligpu/model.h"
#include "milligpu/snapshot.h"

#include "simulate.h"

static bool simulate_takes_model(const struct node *node, const struct workload_class *class)
{
    const struct request models = {.models = class->models, .model = class->model};
    char bare[MODEL_BYTES_MAX];

    must(node->gpus > 0);
    return request_takes_model(&models, model_bare(atom_text(node->gpu[0].model), bare));
}

/* All GPUs of a node are of one model here. */
static bool simulate_class_fits(const struct node *node, const struct workload_class *class)
{
    uint32_t able = 0;

    must(node->host_known);
    if (class->parts == 0 || class->host.cpu_milli > node->host.cpu_milli ||
        class->host.memory_mib > node->host.memory_mib)
        return false;
    for (uint32_t i = 0; i < node->gpus; i++)
        able += gpu_free(&node->gpu[i]) >= class->milli;
    return able >= class->parts && simulate_takes_model(node, class);
}

static uint64_t simulate_stranded_on(const struct node *node, const struct workload *workload)
{
    uint32_t least = UINT32_MAX; /* the smallest part that still fits */
    uint64_t stranded = 0;

    must(node->gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t c = 0; c < workload->classes; c++)
        if (workload->class[c].milli < least && simulate_class_fits(node, &workload->class[c]))
            least = workload->class[c].milli;
    for (uint32_t i = 0; i < node->gpus; i++)
        if (gpu_free(&node->gpu[i]) < least)
            stranded += gpu_free(&node->gpu[i]);
    return stranded;
}

uint64_t simulate_stranded(const struct snapshot *snapshot, const struct workload *workload)
{
    uint64_t stranded = 0;
    uint32_t at = 0;

    must(snapshot != NULL);
    for (const struct node *node = snapshot_next(snapshot, &at); node != NULL;
         node = snapshot_next(snapshot, &at))
        stranded += simulate_stranded_on(node, workload);
    return stranded;
}
