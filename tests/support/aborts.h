/*
 * aborts - claims that end the process, each in a child of its own.
 */
#ifndef MILLIGPU_TESTS_ABORTS_H
#define MILLIGPU_TESTS_ABORTS_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the stderr of the child to said; returns its wait status. */
int run_in_child(void (*claim)(void *), void *argument, char *said, size_t size);

/* True if the claim ends in abort(). */
bool aborts(void (*claim)(void *), void *argument);

#endif
