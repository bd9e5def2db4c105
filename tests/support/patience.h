/*
 * patience - polls a condition that another thread or process makes true, up to a deadline.
 *
 *     int64_t until_ms = 0;
 *     while (!atomic_load(&site->answered) && patience_left(&until_ms))
 *         continue;
 */
#ifndef MILLIGPU_TESTS_PATIENCE_H
#define MILLIGPU_TESTS_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* The deadline. Only a failing test reaches it, on a busy machine, too. */
enum { PATIENCE_S = 60, PATIENCE_MS = 1000 * PATIENCE_S };

/* Sleeps 5 ms; false once PATIENCE_MS have passed since the first call (*until_ms is 0 then). */
bool patience_left(int64_t *until_ms);

#endif
