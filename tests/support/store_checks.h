/*
 * store_checks - the checks of a store in one call, and its retention while it is open.
 */
#ifndef MILLIGPU_TESTS_STORE_CHECKS_H
#define MILLIGPU_TESTS_STORE_CHECKS_H

#include "milligpu/store/store.h"

/* store_read_verify() with all that belongs to it. */
int store_verify(struct store *store, struct err *err) MUST_USE;
/* CHECK_REPLAY alone. */
int store_replay_check(struct store *store, struct err *err) MUST_USE;
/* Any thread. */
void store_retain(struct store *store, uint32_t days);

#endif
