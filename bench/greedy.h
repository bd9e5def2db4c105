/*
 * greedy - the most expensive requests that a tenant can write, one of each shape, and drawn ones.
 */
#ifndef MILLIGPU_BENCH_GREEDY_H
#define MILLIGPU_BENCH_GREEDY_H

#include "milligpu/core/facts/request.h"

struct greedy {
    struct request request;
    struct want want[CONTAINERS_MAX];
};

/* Makes the request at this index, and returns its name; NULL: there is none. */
const char *greedy_make(size_t at, struct greedy *out);
/* Makes the request of this name, which must exist. */
void greedy_make_named(const char *name, struct greedy *out);

/* Anything that a pod may ask for, in sizes of which some fit and some do not. */
void greedy_draw(struct greedy *out, uint64_t *seed);

#endif
