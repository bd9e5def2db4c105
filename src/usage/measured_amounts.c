/*
 * Adds one report to the hourly sums. Called by usage_table_take(). In order: hours, charges,
 * facts.
 */
#include "measured_amounts.h"

/* Limit above the memory of any GPU, so that a malicious report cannot overflow a sum. */
enum { MIB_BELIEVED_MAX = 1 << 24 };

/* --- hours --- */

/*
 * Adds the last seconds before until_ms, each to the hour in which it began. A report covers at
 * most a day. Seconds before 1970 are dropped.
 */
static void add_hours(struct measured_amounts *amounts, struct store_measured *each,
                      int64_t seconds)
{
    const struct store_measured per_second = *each;
    int64_t end_ms = amounts->until_ms;

    must(seconds <= USAGE_SECONDS_MAX);
    while (seconds > 0 && end_ms > 0) {
        const int64_t hour_ms = (end_ms - 1) - (end_ms - 1) % STORE_HOUR_MS;
        const int64_t there = (end_ms - hour_ms + 999) / 1000;
        const int64_t count = seconds < there ? seconds : there;
        each->hour_ms = hour_ms;
        each->milli_s = per_second.milli_s * (uint64_t)count;
        each->of_milli_s = per_second.of_milli_s * (uint64_t)count;
        each->mib_s = per_second.mib_s * (uint64_t)count;
        each->of_mib_s = per_second.of_mib_s * (uint64_t)count;
        amounts->dropped += !measured_sums_add(amounts->sums, each);
        seconds -= count;
        end_ms -= count * 1000;
    }
}

/* --- charges --- */

static int64_t together(int64_t sum, int32_t more)
{
    return sum == USAGE_UNKNOWN || more == USAGE_UNKNOWN ? USAGE_UNKNOWN : sum + more;
}

static struct measured_charge *charge_on(struct measured_amounts *amounts, const struct gpu *gpu)
{
    for (uint32_t i = 0; i < amounts->n_charges; i++)
        if (amounts->charge[i].gpu == gpu)
            return &amounts->charge[i];
    must(amounts->n_charges < ARRAY_LEN(amounts->charge));
    struct measured_charge *charge = &amounts->charge[amounts->n_charges++];
    *charge = (struct measured_charge){.gpu = gpu};
    return charge;
}

static void add_charge(struct measured_amounts *amounts, const struct charge *charge,
                       const struct measured_charge *now)
{
    struct store_measured each = {.namespace = amounts->allocation->facts.namespace,
                                  .model = now->gpu->model->text};
    /* Grants count from bound_ms on, too. Negative if the clock was set back: nothing is added. */
    const int64_t held_s = (amounts->until_ms - amounts->allocation->facts.bound_ms) / 1000;

    if (now->milli != USAGE_UNKNOWN) {
        each.milli_s = (uint64_t)now->milli;
        each.of_milli_s = charge->milli;
    }
    if (now->mib != USAGE_UNKNOWN) {
        each.mib_s = (uint64_t)now->mib;
        each.of_mib_s = charge->mib;
    }
    if (now->milli != USAGE_UNKNOWN || now->mib != USAGE_UNKNOWN)
        add_hours(amounts, &each, held_s < amounts->seconds ? held_s : amounts->seconds);
}

static void add_pod(struct measured_amounts *amounts)
{
    const struct allocation *allocation = amounts->allocation;

    for (uint32_t i = 0; i < amounts->n_charges; i++)
        for (uint32_t k = 0; k < allocation->n_charges; k++) {
            const struct charge charge = allocation_charge(allocation, k);
            if (node_gpu(amounts->node, atom_text(charge.gpu)) == amounts->charge[i].gpu)
                add_charge(amounts, &charge, &amounts->charge[i]);
        }
    amounts->n_charges = 0;
}

/* --- facts --- */

void measured_amounts_add(struct measured_amounts *amounts, const struct measured_fact *fact)
{
    if (fact->allocation != amounts->allocation)
        measured_amounts_end(amounts);
    amounts->allocation = fact->allocation;
    struct measured_charge *charge = charge_on(amounts, fact->gpu);
    charge->milli = together(charge->milli, fact->measured->milli);
    charge->mib = together(charge->mib, fact->measured->mib < MIB_BELIEVED_MAX ? fact->measured->mib
                                                                               : MIB_BELIEVED_MAX);
}

void measured_amounts_end(struct measured_amounts *amounts)
{
    if (amounts->allocation != NULL && amounts->seconds > 0)
        add_pod(amounts);
    amounts->n_charges = 0;
}
