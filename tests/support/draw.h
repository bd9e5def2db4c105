/*
 * draw - workloads and rooms drawn at random, small enough that their amounts often coincide.
 *
 * The same seed draws the same. Models are among "A100", "H100", "T4" and "Tesla-T4"; the atoms are
 * those of support/atoms.h.
 */
#ifndef MILLIGPU_TESTS_DRAW_H
#define MILLIGPU_TESTS_DRAW_H

#include "milligpu/core/place/place.h"
#include "milligpu/core/rules/workload.h"

uint32_t draw_below(uint64_t *seed, uint32_t below);

/* At most that many classes, no two of them alike. */
uint32_t draw_classes(uint64_t *seed, uint32_t most, struct workload_class *out);
struct workload *draw_workload(uint64_t *seed, uint32_t most);

/* Half of the rooms have equal GPUs; some are closed or nothing is known of their host. */
void draw_room_of(uint64_t *seed, uint32_t gpus, struct room *out);

/* The need of a part of this class, asked of the GPU itself. */
bool gpu_may_serve(const struct gpu_room *gpu, const struct workload_class *class);

/* remaining_of() with kinds of this workload, which last until the next call. */
struct remaining;
void measure_room(const struct room *room, const struct workload *workload, struct remaining *out);

#endif
