/*
 * The scores of fgd and rollout against the sigmoid itself, in long double.
 */
#include "core/rank/policy_internal.h"
#include "support/test.h"

/* ln(k / (100 - k)) = 2 artanh((k - 50) / 50), by its series. */
static long double logit(uint32_t k)
{
    const long double z = ((long double)k - 50) / 50;
    long double power = z;
    long double sum = 0;
    for (uint32_t n = 1; n < 4000; n += 2) {
        sum += power / n;
        power *= z * z;
    }
    return 2 * sum;
}

/* The largest k with 100 sigmoid(by / of / 1000) >= k. */
static uint32_t by_floating_point(int64_t by, uint64_t of, const long double at[100])
{
    const long double x = (long double)by / (long double)of / 1000;
    uint32_t k = 0;
    while (k < 99 && x >= at[k + 1])
        k++;
    return k;
}

/* With this divisor, by counts billionths: the resolution of the thresholds. */
enum { FINE = 1000000 };

TEST(sigmoid_score__is_exact_on_both_sides_of_each_threshold)
{
    for (uint32_t k = 1; k < 100; k++) {
        const long double at = logit(k) * 1000 * FINE;
        int64_t first = (int64_t)at; /* rounded towards 0 */
        first += (long double)first < at;
        assert_int_equal(sigmoid_score(first, FINE), k);
        assert_int_equal(sigmoid_score(first - 1, FINE), k - 1);
    }
}

TEST(sigmoid_score__equals_the_sigmoid)
{
    static const uint64_t of[] = {1, 3, 16, 7752, 1U << 20};
    long double at[100];
    for (uint32_t k = 1; k < 100; k++)
        at[k] = logit(k);
    for (uint32_t i = 0; i < ARRAY_LEN(of); i++)
        for (int64_t milli = -8000; milli <= 8000; milli++) {
            const int64_t by = milli * (int64_t)of[i] + milli % 7;
            assert_int_equal(sigmoid_score(by, of[i]), by_floating_point(by, of[i], at));
        }
}

TEST(sigmoid_score__is_extreme_for_the_largest_differences)
{
    static const uint64_t of[] = {1, 16, 1U << 24};
    assert_int_equal(sigmoid_score(-1, 1U << 24), 49); /* the smallest difference */
    for (uint32_t i = 0; i < ARRAY_LEN(of); i++) {
        assert_int_equal(sigmoid_score((int64_t)1 << 40, of[i]), 99);
        assert_int_equal(sigmoid_score(-((int64_t)1 << 40), of[i]), 0);
    }
}
