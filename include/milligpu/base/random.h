/*
 * random - pseudo-random numbers, the same on every machine: splitmix64 (Steele, Lea, Flood 2014).
 * Any seed is valid, also 0. Not for secrets.
 *
 * Pure.
 */
#ifndef MILLIGPU_RANDOM_H
#define MILLIGPU_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t mixed = *state += 0x9E3779B97F4A7C15U;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBU;
    return mixed ^ mixed >> 31;
}

#endif
