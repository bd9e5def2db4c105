/*
 * walk - how far a random walk goes: with WALK_PERCENT=1000 ten times as far as usual, with
 * WALK_PERCENT=1 only as far as it needs to meet everything that it has to meet.
 */
#ifndef MILLIGPU_TESTS_WALK_H
#define MILLIGPU_TESTS_WALK_H

#include <stdlib.h>

#include "milligpu/base/base.h"

static inline int walk_steps(int usual, int least)
{
    const char *given = getenv("WALK_PERCENT"); /* NOLINT(concurrency-mt-unsafe) */
    const long percent = given != NULL ? strtol(given, NULL, 10) : 100;
    must(percent > 0 && percent <= 10000);
    const int steps = (int)((int64_t)usual * percent / 100);
    return steps > least ? steps : least;
}

#endif
