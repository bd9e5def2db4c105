/*
 * place_oracle - every way to place a request in a room, checked against the rules as written.
 *
 * It tries each set of GPUs for each want, so it is for small rooms. It shares no code with the
 * search.
 */
#ifndef MILLIGPU_TESTS_PLACE_ORACLE_H
#define MILLIGPU_TESTS_PLACE_ORACLE_H

#include "milligpu/core/place/place.h"
#include "milligpu/core/rules/rulebook.h"

enum { ORACLE_WANTS = 4 };

struct place_oracle {
    const struct room *room;
    const struct request *request;
    const struct rulebook *book;                            /* prices; NULL: none */
    uint32_t raised_milli;                                  /* smaller shares are raised to this */
    void (*visit)(void *user, const struct placement *way); /* for each way; NULL: none */
    void *user;
    /* results */
    bool found;
    uint64_t ways;
    struct placement best; /* by rules a, b, 1, 2 and 5 */
    /* of the way at hand; bit g: GPU g */
    uint32_t on[ORACLE_WANTS];
    uint32_t best_on;
};

void place_oracle_run(struct place_oracle *oracle);

#endif
