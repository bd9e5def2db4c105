/*
 * Computes the stranded milli at the end of a run of simulate: idle milli on GPUs on which no pod
 * of the workload fits. Each node is considered separately.
 */
#include "milligpu/core/facts/model.h"
#include "milligpu/core/node/snapshot.h"

#include "simulate.h"

/* True if one part of the class fits on this GPU. */
static bool simulate_part_fits(const struct gpu *gpu, const struct workload_class *class)
{
    const struct request models = {.n_models = class->n_models, .model = class->model};
    const uint32_t mib = inventory_share_mib(gpu->mib, gpu->milli, class->milli);
    char bare[MODEL_BYTES_MAX];

    must(class->parts > 0);
    return gpu_free(gpu) >= class->milli && mib >= class->share_mib &&
           (gpu->used_mib <= gpu->mib && mib <= gpu->mib - gpu->used_mib) &&
           gpu_closed(gpu) == REASON_NONE &&
           request_takes_model(&models, model_bare(atom_text(gpu->model), bare));
}

/* Marks the GPUs that can hold a part of the class as useful, if all its parts fit on the node. */
static void simulate_mark_useful(const struct node *node, const struct workload_class *class,
                                 bool *useful)
{
    bool able[GPUS_PER_NODE_MAX] = {false};
    uint32_t count = 0;

    must(node->host_known);
    if (class->parts == 0 || class->host.cpu_milli > node->host.cpu_milli ||
        class->host.memory_mib > node->host.memory_mib)
        return;
    for (uint32_t i = 0; i < node->n_gpus && i < GPUS_PER_NODE_MAX; i++) {
        able[i] = simulate_part_fits(&node->gpu[i], class);
        count += able[i];
    }
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX && count >= class->parts; i++)
        useful[i] = useful[i] || able[i];
}

static uint64_t simulate_stranded_on(const struct node *node, const struct workload *workload)
{
    bool useful[GPUS_PER_NODE_MAX] = {false};
    uint64_t stranded = simulate_node_idle(node);

    if (node_closed(node) != REASON_NONE)
        return stranded;
    for (uint32_t c = 0; c < workload->n_classes; c++)
        simulate_mark_useful(node, &workload->class[c], useful);
    for (uint32_t i = 0; i < node->n_gpus && i < GPUS_PER_NODE_MAX; i++)
        if (useful[i]) {
            must(stranded >= gpu_free(&node->gpu[i]));
            stranded -= gpu_free(&node->gpu[i]);
        }
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
