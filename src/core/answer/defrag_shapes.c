/*
 * Counts, for a plan of moves, how many pods of the most frequent shapes fit before and after.
 * Called by defrag.c for every node, so it only compares sums and does not search.
 */
#include "defrag_shapes.h"

void shape_counter_init(struct shape_counter *counter, const struct workload *workload)
{
    must(workload != NULL);
    counter->n_shapes = 0;
    for (uint32_t t = 0; t < workload->n_typical && counter->n_shapes < DEFRAG_SHAPES; t++)
        if (workload->typical[t].parts > 0)
            counter->shape[counter->n_shapes++] = &workload->typical[t];
    kinds_init(&counter->kinds, workload);
    must(counter->n_shapes <= DEFRAG_SHAPES);
}

void shape_counter_done(struct shape_counter *counter)
{
    must(counter->n_shapes <= DEFRAG_SHAPES);
    must(counter->kinds.count <= KINDS_MAX);
    kinds_done(&counter->kinds);
}

const struct workload_class *shape_counter_class(const struct shape_counter *counter, uint32_t at)
{
    const struct workload *workload = counter->kinds.workload;

    must(at < counter->n_shapes);
    must(counter->shape[at]->class < workload->n_classes);
    return &workload->class[counter->shape[at]->class];
}

/* A pod has at most one part on a GPU, so `pods` pods use at most `pods` parts of each. */
static bool have_parts(const uint32_t *parts, uint32_t gpus, uint64_t pods, uint32_t parts_each)
{
    uint64_t used = 0;

    must(gpus <= GPUS_PER_NODE_MAX);
    must(parts_each > 0);
    for (uint32_t i = 0; i < gpus; i++)
        used += parts[i] < pods ? parts[i] : pods;
    return used >= pods * parts_each;
}

/* Binary search: if there are parts for some number of pods, there are for fewer. */
static uint64_t count_on(const struct remaining *remaining, const struct workload_typical *shape)
{
    uint32_t parts[GPUS_PER_NODE_MAX];
    uint64_t all = 0;

    must(shape->milli > 0);
    for (uint32_t i = 0; i < remaining->n_gpus; i++) {
        parts[i] = remaining_takes(remaining, i, shape) ? remaining->free[i] / shape->milli : 0;
        all += parts[i];
    }
    uint64_t least = 0;
    uint64_t most = all / shape->parts;
    if (remaining->host.cpu_milli != HOST_UNKNOWN && shape->cpu_milli > 0 &&
        remaining->host.cpu_milli / shape->cpu_milli < most)
        most = remaining->host.cpu_milli / shape->cpu_milli;
    while (least < most) {
        const uint64_t middle = least + (most - least + 1) / 2;
        if (have_parts(parts, remaining->n_gpus, middle, shape->parts))
            least = middle;
        else
            most = middle - 1;
    }
    return least;
}

void shape_counter_add(struct shape_counter *counter, const struct node *node,
                       uint64_t count[DEFRAG_SHAPES])
{
    UNSET struct room room;
    struct remaining remaining;

    must(counter->n_shapes <= DEFRAG_SHAPES);
    room_of(node, &room);
    remaining_of(&room, &counter->kinds, &remaining);
    must(remaining.n_gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < counter->n_shapes; i++)
        count[i] += count_on(&remaining, counter->shape[i]);
}
