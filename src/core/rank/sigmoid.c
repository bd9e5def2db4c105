/*
 * Integer scores of a difference, without floating point, because every machine must compute the
 * same score. Called for each placement that fgd or rollout judges.
 */
#include "policy_internal.h"

enum { SCORES_ABOVE = 49, BILLIONTHS_IN_THOUSANDTHS = 1000000 };

/*
 * 100 sigmoid(x) reaches k where x reaches ln(k / (100 - k)). The table has these in billionths for
 * k in 51 .. 99, rounded up:
 *   python3 -c 'from decimal import *; print([int((Decimal(k) / (100 - k)).ln().scaleb(9)
 *       .to_integral_value(ROUND_CEILING)) for k in range(51, 100)])'
 * x is rational and the thresholds are irrational, so billionths are precise enough.
 */
static const int64_t threshold[SCORES_ABOVE] = {
    40005335,   80042708,   120144312,  160342651,  200670696,  241162057,  281851153,
    322773393,  363965378,  405465109,  447312219,  489548226,  532216814,  575364145,
    619039209,  663294218,  708185058,  753771803,  800119301,  847297861,  895384048,
    944461609,  994622576,  1045968556, 1098612289, 1152679510, 1208311206, 1265666374,
    1324925415, 1386294362, 1450010176, 1516347490, 1585627264, 1658228077, 1734601056,
    1815289967, 1900958762, 1992430165, 2090741097, 2197224578, 2313634930, 2442347036,
    2586689345, 2751535314, 2944438980, 3178053831, 3476098690, 3891820299, 4595119851,
};

/* Number of thresholds reached by a difference of at least 0. */
static uint32_t reached(int64_t by, uint64_t of)
{
    uint32_t low = 0;
    uint32_t high = SCORES_ABOVE;

    must(by >= 0 && by <= (int64_t)1 << 40);
    must(of > 0 && of <= 1U << 24);
    /* Below 2^60 and 2^57. */
    const int64_t scaled = by * BILLIONTHS_IN_THOUSANDTHS;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (scaled >= threshold[middle] * (int64_t)of)
            low = middle + 1;
        else
            high = middle;
    }
    must(low <= SCORES_ABOVE);
    return low;
}

/*
 * sigmoid(-x) is 1 - sigmoid(x), and only 0 meets an integer score exactly: so rounding down on one
 * side is rounding up on the other.
 */
uint32_t sigmoid_score(int64_t by, uint64_t of)
{
    must(by >= -((int64_t)1 << 40));
    const uint32_t score = by >= 0 ? 50 + reached(by, of) : 49 - reached(-by, of);
    must(score <= 99);
    return score;
}
