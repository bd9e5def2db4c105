/*
 * points - the points at which something fails, one after the other: all of them, except under a
 * sanitizer, which makes each many times slower. There it is the first ones and then one of
 * POINTS_STEP, since neighbours use memory in the same ways. With POINTS=all it is all, there too.
 */
#ifndef MILLIGPU_TESTS_POINTS_H
#define MILLIGPU_TESTS_POINTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS_FIRST = 12, POINTS_STEP = 29 };

static inline bool are_points_sampled(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const char *given = getenv("POINTS"); /* NOLINT(concurrency-mt-unsafe) */
    return given == NULL || strcmp(given, "all") != 0;
#else
    return false;
#endif
}

static inline uint64_t point_after(uint64_t n)
{
    return n + (are_points_sampled() && n >= POINTS_FIRST ? POINTS_STEP : 1);
}

#endif
