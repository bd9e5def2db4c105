/*
 * count_of - how often a text contains a part.
 */
#ifndef MILLIGPU_TESTS_COUNT_OF_H
#define MILLIGPU_TESTS_COUNT_OF_H

#include <stddef.h>
#include <string.h>

/* Occurrences that do not overlap. */
static inline size_t count_of(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

#endif
