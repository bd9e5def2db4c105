/*
 * Numbers of the command simulate: percentages without floating point, and times of decisions.
 * Times are counted in a histogram, so that memory does not grow with their number.
 */
#include <inttypes.h>

#include "simulate.h"

uint64_t simulate_ten_thousandths(uint64_t part, uint64_t whole)
{
    uint64_t digits = 0;
    uint64_t rest = 0;

    must(part <= UINT64_MAX / 100 && whole <= UINT64_MAX / 100);
    if (whole > 0) {
        digits = part * 100 / whole;
        rest = part * 100 % whole;
    }
    /* digit by digit, because a product with 10,000 could overflow */
    for (int i = 0; i < 4; i++) {
        rest *= 10;
        digits = 10 * digits + (whole > 0 ? rest / whole : 0);
        rest = whole > 0 ? rest % whole : 0;
    }
    if (whole > 0 && 2 * rest >= whole)
        digits++;
    return digits;
}

void simulate_percent(uint64_t part, uint64_t whole, char out[SIMULATE_PERCENT_BYTES])
{
    const uint64_t digits = simulate_ten_thousandths(part, whole);

    must(whole > 0 || digits == 0);
    (void)snprintf(out, SIMULATE_PERCENT_BYTES, "%" PRIu64 ".%04" PRIu64, digits / 10000,
                   digits % 10000);
}

/* Buckets of a sixteenth: 0 to 31 ns have one each, 32 to 63 ns one for two values, and so on. */
static uint32_t simulate_latency_of(uint64_t ns)
{
    static const uint64_t end = UINT64_C(2) * SIMULATE_LATENCY_STEPS;
    uint32_t shift = 0;

    while (ns >> shift >= end)
        shift++;
    const uint64_t step = (uint64_t)shift * SIMULATE_LATENCY_STEPS + (ns >> shift);
    must(step < SIMULATE_LATENCIES);
    return (uint32_t)step;
}

static uint64_t simulate_latency_ns(uint32_t step)
{
    must(step < SIMULATE_LATENCIES);
    if (step < 2 * SIMULATE_LATENCY_STEPS)
        return step;
    const uint32_t shift = step / SIMULATE_LATENCY_STEPS - 1;
    return (uint64_t)(step % SIMULATE_LATENCY_STEPS + SIMULATE_LATENCY_STEPS) << shift;
}

void simulate_count_ns(struct simulate_result *result, int64_t ns)
{
    must(ns >= 0);
    result->last_ns[result->decisions % SIMULATE_LAST] =
        ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    result->decisions++;
    result->decision_ns += (uint64_t)ns;
    result->latency[simulate_latency_of((uint64_t)ns)]++;
}

uint64_t simulate_p99(const struct simulate_result *result)
{
    const uint64_t slowest = result->decisions / 100 + 1;
    uint64_t seen = 0;

    must(result->latency != NULL);
    for (uint32_t step = SIMULATE_LATENCIES; step-- > 0;) {
        seen += result->latency[step];
        if (seen >= slowest)
            return simulate_latency_ns(step);
    }
    return 0;
}

uint64_t simulate_last_mean(const struct simulate_result *result)
{
    const uint64_t count = result->decisions < SIMULATE_LAST ? result->decisions : SIMULATE_LAST;
    uint64_t sum = 0;

    must(result->decision_ns == 0 || count > 0);
    for (uint64_t i = 0; i < count; i++)
        sum += result->last_ns[i];
    return count > 0 ? sum / count : 0;
}
