/*
 * alloc - memory, or the end.
 *
 * Out of memory aborts: the ledger is on disk and a restart is the tested path.
 * What outside input can make us allocate is bounded before we allocate it.
 */
#ifndef MILLIGPU_ALLOC_H
#define MILLIGPU_ALLOC_H

#include "milligpu/base.h"

void *xmalloc(size_t bytes) MUST_USE;
void *xcalloc(size_t count, size_t bytes) MUST_USE;
void *xrealloc(void *old, size_t count, size_t bytes) MUST_USE; /* checks count x bytes */
char *xstrdup(const char *text) MUST_USE;
void xfree(void *memory); /* free(), under our name so that core needs no other */

/* Room for one more element: doubles items when count reaches *capacity. */
void *xgrow(void *items, size_t count, size_t *capacity, size_t bytes) MUST_USE;

void xfreep(void *pointer_to_pointer); /* for CLEANUP(xfreep) */

#endif
