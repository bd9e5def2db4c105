/*
 * alloc - memory allocation that aborts on failure.
 *
 * Aborting is acceptable: the ledger is on disk, and a restart is a tested path. An allocation
 * whose size depends on outside input is bounded before it is made.
 */
#ifndef MILLIGPU_ALLOC_H
#define MILLIGPU_ALLOC_H

#include "milligpu/base/base.h"

void *xmalloc(size_t bytes) MUST_USE;
void *xcalloc(size_t count, size_t bytes) MUST_USE;
/* allocates count x bytes; an overflow aborts */
void *xrealloc(void *old, size_t count, size_t bytes) MUST_USE;
char *xstrdup(const char *text) MUST_USE;
/* free() under our own name, so that core calls no other allocator */
void xfree(void *memory);

/* Doubles items when count reaches *capacity, so that one more element fits. */
void *xgrow(void *items, size_t count, size_t *capacity, size_t bytes) MUST_USE;

void xfreep(void *pointer_to_pointer); /* for CLEANUP(xfreep) */

#endif
