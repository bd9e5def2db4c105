/*
 * Counts places for pods of several GPUs, and prices their loss: such pods are rare and need
 * several free GPUs on one node, so a placement that breaks up the last places is expensive. Places
 * are counted for each placement that the policy rollout judges; prices for the whole cluster,
 * every PRICE_EVERY grants.
 */
#include <string.h>

#include "score_cache.h"

enum { IN_THOUSANDTHS = 1000, IN_MILLIONTHS = 1000000 };

/* Number of pods that fit by one resource: free / amount, at most limit. */
static uint32_t capacity_by(uint32_t limit, uint32_t free, uint32_t amount)
{
    must(limit <= GPUS_PER_NODE_MAX);
    if (free == HOST_UNKNOWN || (uint64_t)limit * amount <= free)
        return limit;
    return free / amount;
}

static uint32_t capacity_by_host(uint32_t limit, const struct workload_class *pod,
                                 const struct host *host)
{
    const uint32_t by_cpu = capacity_by(limit, host->cpu_milli, pod->host.cpu_milli);

    must(pod->parts > 1);
    must(by_cpu <= limit);
    return capacity_by(by_cpu, host->memory_mib, pod->host.memory_mib);
}

/* Number of GPUs with room for a part. */
static uint32_t able_gpus(const struct workload *workload, const struct remaining *remaining,
                          uint32_t class)
{
    const uint32_t milli = workload->class[class].milli;
    uint32_t able = 0;

    must(class < workload->n_classes);
    must(remaining->n_gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < remaining->n_gpus; i++)
        able += remaining->free[i] >= milli &&
                gpu_kind_takes(&remaining->kinds[remaining->kind[i]], class);
    return able;
}

static uint32_t largest_free(const struct remaining *remaining)
{
    uint32_t largest = 0;

    must(remaining->n_gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < remaining->n_gpus; i++)
        largest = remaining->free[i] > largest ? remaining->free[i] : largest;
    must(largest <= GPU_MILLI);
    return largest;
}

/* largest: largest_free() of the same. */
static uint32_t count_places(const struct workload *workload, const struct remaining *remaining,
                             uint32_t largest, uint32_t class, uint32_t *out_able)
{
    const struct workload_class *pod = &workload->class[class];

    must(class < workload->n_classes);
    must(pod->parts > 1);
    must_debug(largest == largest_free(remaining));
    *out_able = pod->milli > largest ? 0 : able_gpus(workload, remaining, class);
    if (*out_able < pod->parts)
        return 0;
    return capacity_by_host(*out_able / pod->parts, pod, &remaining->host);
}

void class_capacity_of(const struct workload *workload, const struct remaining *remaining,
                       struct class_capacity *out)
{
    const uint32_t largest = largest_free(remaining);
    uint32_t able;

    must(workload->n_scarce <= WORKLOAD_SCARCE_MAX);
    for (uint32_t i = 0; i < workload->n_scarce; i++) {
        out->count[i] =
            (uint16_t)count_places(workload, remaining, largest, workload->scarce[i], &able);
        must(out->count[i] <= GPUS_PER_NODE_MAX);
    }
}

void places_of(const struct workload *workload, const struct remaining *before,
               const struct host *asked, struct places *out)
{
    const uint32_t largest = largest_free(before);
    const struct host after = {host_less(before->host.cpu_milli, asked->cpu_milli),
                               host_less(before->host.memory_mib, asked->memory_mib)};
    uint32_t able;

    must(workload->n_scarce <= WORKLOAD_SCARCE_MAX);
    for (uint32_t i = 0; i < workload->n_scarce; i++) {
        const uint32_t class = workload->scarce[i];
        const uint32_t count = count_places(workload, before, largest, class, &able);
        must(count <= able && able <= GPUS_PER_NODE_MAX);
        out->able[i] = (uint8_t)able;
        out->count[i] = (uint8_t)count;
        out->left[i] = (uint8_t)capacity_by_host(count, &workload->class[class], &after);
    }
}

/* Counts the GPU out where a part of the class fits before, and not after. */
static void lose_gpu(const struct workload *workload, const struct gpu_kind *kind, uint32_t before,
                     uint32_t after, uint8_t able[WORKLOAD_SCARCE_MAX])
{
    must(before > after);
    must(workload->n_scarce <= WORKLOAD_SCARCE_MAX);
    for (uint32_t i = 0; i < workload->n_scarce; i++) {
        const uint32_t class = workload->scarce[i];
        const uint32_t milli = workload->class[class].milli;
        if (milli > after && milli <= before && gpu_kind_takes(kind, class))
            able[i]--;
        must_debug(able[i] <= GPUS_PER_NODE_MAX);
    }
}

void places_lost(const struct workload *workload, const struct places *places,
                 const struct remaining *before, const struct remaining *after, struct loss *out)
{
    uint8_t able[WORKLOAD_SCARCE_MAX];

    must(before->n_gpus == after->n_gpus);
    must(before->kinds == after->kinds);
    memcpy(able, places->able, sizeof able);
    for (uint32_t i = 0; i < before->n_gpus; i++)
        if (before->free[i] != after->free[i])
            lose_gpu(workload, &before->kinds[before->kind[i]], before->free[i], after->free[i],
                     able);
    for (uint32_t i = 0; i < workload->n_scarce; i++) {
        uint32_t left = places->left[i];
        if (able[i] != places->able[i]) {
            const uint32_t by_gpus = able[i] / workload->class[workload->scarce[i]].parts;
            left = by_gpus < left ? by_gpus : left;
        }
        must(left <= places->count[i]);
        out->count[i] = (uint8_t)(places->count[i] - left);
    }
}

/*
 * rho of policy.h in millionths, rounded down. A pod has at least 2 milli here, so the expected
 * pods are at most free_milli / 2 < 2^31; in thousandths, and with the stock, below 2^42.
 */
static uint64_t scarcity_rho(const struct workload *workload, const struct supply *supply,
                             uint32_t i)
{
    const uint64_t count = workload->class[workload->scarce[i]].count;
    const uint32_t stock = supply->nodes / STOCK_NODES > 0 ? supply->nodes / STOCK_NODES : 1;

    must(count > 0 && count <= WORKLOAD_COUNT_MAX);
    must(workload->gpu_milli >= 2 * count);
    if (supply->slots[i] == 0)
        return IN_MILLIONTHS;
    /* Below 2^20 x 2^32 x 2^10. */
    const uint64_t expected = count * supply->free_milli * IN_THOUSANDTHS / workload->gpu_milli;
    const uint64_t asked = expected + (uint64_t)stock * IN_THOUSANDTHS;
    const uint64_t rho = asked * (IN_MILLIONTHS / IN_THOUSANDTHS) / supply->slots[i];
    return rho < IN_MILLIONTHS ? rho : IN_MILLIONTHS;
}

void scarcity_prices(const struct workload *workload, const struct supply *supply, int64_t *price)
{
    must(workload->n_scarce <= WORKLOAD_SCARCE_MAX);
    must(supply->free_milli <= (uint64_t)NODES_MAX * GPUS_PER_NODE_MAX * GPU_MILLI);
    for (uint32_t i = 0; i < workload->n_scarce; i++) {
        const uint64_t rho = scarcity_rho(workload, supply, i);
        must(rho <= IN_MILLIONTHS);
        const uint64_t whole = (uint64_t)SCARCE_COST * workload->class[workload->scarce[i]].parts;
        /* Below 2^19 x 2^40. */
        price[i] = (int64_t)(whole * rho * rho / ((uint64_t)IN_MILLIONTHS * IN_MILLIONTHS));
        must(price[i] >= 0 && price[i] <= (int64_t)whole);
    }
}

/* Cannot overflow: at most 32 classes of at most 64 places, and prices of 64 x SCARCE_COST. */
int64_t loss_price(const struct policy_context *context, const struct loss *loss)
{
    int64_t price = 0;

    must(context->workload != NULL);
    must(context->workload->n_scarce <= WORKLOAD_SCARCE_MAX);
    for (uint32_t i = 0; i < context->workload->n_scarce; i++)
        price += context->scarcity_price[i] * loss->count[i];
    must(price >= 0);
    return price;
}
