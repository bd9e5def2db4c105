/*
 * placements - one search without a policy, and the order of placements by binpack.
 */
#ifndef MILLIGPU_TESTS_PLACEMENTS_H
#define MILLIGPU_TESTS_PLACEMENTS_H

#include "milligpu/core/place/place.h"

/* place_find() for one room, under no rules. The request asks for something. */
enum reason place_search(const struct room *room, const struct request *request,
                         struct placement *out) MUST_USE;

/*
 * Rules a, b and 1 to 5 of policy.h, by the placements themselves: negative if a is better, 0 only
 * for the same placement. An oracle for the searches and for order_cmp(), which compare numbers
 * that were made from placements.
 */
int placement_cmp(const struct placement *a, const struct atom *node_a, const struct placement *b,
                  const struct atom *node_b);

#endif
