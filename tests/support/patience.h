/*
 * patience - how tests wait for another thread or process: for a reason, never for a time.
 *
 *     int64_t until_ms = 0;
 *     while (!atomic_load(&site->answered) && patience_left(&until_ms))
 *         continue;
 */
#ifndef MILLIGPU_TESTS_PATIENCE_H
#define MILLIGPU_TESTS_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Only a failing test waits as long: plenty on a machine that is busy with other work. */
enum { PATIENCE_S = 60, PATIENCE_MS = 1000 * PATIENCE_S };

/* Sleeps 5 ms; false once PATIENCE_MS have passed since the first call (*until_ms is 0 then). */
bool patience_left(int64_t *until_ms);

#endif
