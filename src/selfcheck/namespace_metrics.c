/*
 * Charges by namespace. Tenants choose the number and the names of namespaces, and each would be a
 * series in Prometheus for ever, so those that hold least share one series. Called by
 * metrics_page().
 */
#include "namespace_metrics.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"

static const char others_name[] = "other";

struct namespace_sum {
    const char *namespace; /* borrowed from an allocation of the snapshot */
    uint64_t milli;
};

struct namespace_sums {
    struct namespace_sum *sum;
    size_t count;
    size_t capacity;
    struct map places; /* by namespace: index in sum, plus one */
};

static struct namespace_sum *namespace_sum_of(struct namespace_sums *sums, const char *namespace)
{
    const size_t place = (size_t)(uintptr_t)map_find(&sums->places, text_of(namespace));

    must(place <= sums->count);
    if (place > 0)
        return &sums->sum[place - 1];
    sums->sum = xgrow(sums->sum, sums->count, &sums->capacity, sizeof *sums->sum);
    sums->sum[sums->count++] = (struct namespace_sum){.namespace = namespace};
    (void)map_put(&sums->places, text_of(namespace), (void *)(uintptr_t)sums->count);
    return &sums->sum[sums->count - 1];
}

static void add_up(struct namespace_sums *sums, const struct snapshot *snapshot)
{
    const struct node *node;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_allocations; i++) {
            const struct allocation *allocation = node->allocation[i];
            uint64_t milli = 0;
            for (uint32_t k = 0; k < allocation->n_charges; k++)
                milli += allocation_charge(allocation, k).milli;
            if (milli > 0) /* pods with whole GPUs of the other resource have no charge */
                namespace_sum_of(sums, allocation->facts.namespace)->milli += milli;
        }
}

/* Sorts by milli, largest first, then by name. */
static int by_milli(const void *a, const void *b)
{
    const struct namespace_sum *left = a;
    const struct namespace_sum *right = b;
    if (left->milli != right->milli)
        return left->milli > right->milli ? -1 : 1;
    return strcmp(left->namespace, right->namespace);
}

/* A namespace named "other" is added to the series of that name. */
void namespace_metrics(struct strbuf *out, const struct snapshot *snapshot,
                       enum metric_format format)
{
    struct namespace_sums sums = {.count = 0};
    uint64_t others_milli = 0;
    size_t shown = 0;

    must(snapshot != NULL);
    map_init(&sums.places);
    add_up(&sums, snapshot);
    if (sums.count > 0)
        qsort(sums.sum, sums.count, sizeof *sums.sum, by_milli);
    metric_head(out, M_NAMESPACE, format);
    for (size_t i = 0; i < sums.count; i++) {
        const struct namespace_sum *sum = &sums.sum[i];
        if (shown == NAMESPACES_SHOWN || strcmp(sum->namespace, others_name) == 0) {
            others_milli += sum->milli;
            continue;
        }
        shown++;
        metric_sample(out, M_NAMESPACE, LABEL_VALUES(sum->namespace), sum->milli);
    }
    metric_sample(out, M_NAMESPACE, LABEL_VALUES(others_name), others_milli);
    map_done(&sums.places);
    xfree(sums.sum);
}
