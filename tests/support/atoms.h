/*
 * atoms - one table of names for the tests of a file that need nothing else of a ledger.
 */
#ifndef MILLIGPU_TESTS_ATOMS_H
#define MILLIGPU_TESTS_ATOMS_H

#include "milligpu/core/facts/names.h"

/* Between atoms_set_up() and atoms_tear_down(), which cmocka calls for each test or for all. */
extern struct names *atoms;

int atoms_set_up(void **state);
int atoms_tear_down(void **state);

const struct atom *atom(const char *text);

#endif
