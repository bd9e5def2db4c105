/*
 * placement_order - the order of policy.h for binpack, by the placements themselves: an oracle for
 * the searches and for order_cmp(), which both compare numbers that were made from placements.
 */
#ifndef MILLIGPU_TESTS_PLACEMENT_ORDER_H
#define MILLIGPU_TESTS_PLACEMENT_ORDER_H

#include "milligpu/place.h"

/* Rules a, b and 1 to 5: negative if a is better, 0 only for the same placement. */
int placement_cmp(const struct placement *a, const struct atom *node_a, const struct placement *b,
                  const struct atom *node_b);

#endif
