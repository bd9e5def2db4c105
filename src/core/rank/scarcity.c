/*
 * Counts places for pods of several GPUs, and prices their loss: such pods are rare and need
 * several free GPUs on one node, so a placement that breaks up the last places is expensive. Places
 * are counted for each placement that the policy rollout judges; prices for the whole cluster,
 * every PRICE_EVERY grants.
 */
#include "score_cache.h"

enum { IN_THOUSANDTHS = 1000, IN_MILLIONTHS = 1000000 };

/* Number of pods that fit by one resource: free / amount, at most limit. */
static uint32_t capacity_by(uint32_t limit, uint32_t free, uint32_t amount)
{
    must(limit <= GPUS_PER_NODE_MAX);
    if (free == HOST_UNKNOWN || amount == 0)
        return limit;
    const uint32_t pods = free / amount;
    return pods < limit ? pods : limit;
}

static uint32_t capacity_for(const struct workload *workload, const struct remaining *remaining,
                             uint32_t class)
{
    const struct workload_class *pod = &workload->class[class];
    uint32_t able = 0;

    must(class < workload->n_classes);
    must(pod->parts > 1);
    for (uint32_t i = 0; i < remaining->n_gpus; i++)
        able += remaining->free[i] >= pod->milli &&
                gpu_kind_takes(&remaining->kinds[remaining->kind[i]], class);
    const uint32_t by_cpu =
        capacity_by(able / pod->parts, remaining->host.cpu_milli, pod->host.cpu_milli);
    return capacity_by(by_cpu, remaining->host.memory_mib, pod->host.memory_mib);
}

void class_capacity_of(const struct workload *workload, const struct remaining *remaining,
                       struct class_capacity *out)
{
    must(workload->n_scarce <= WORKLOAD_SCARCE_MAX);
    must(remaining->n_gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < workload->n_scarce; i++)
        out->count[i] = (uint16_t)capacity_for(workload, remaining, workload->scarce[i]);
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
