/*
 * support_released - the ledgers of released versions, tests/released.
 */
#ifndef MILLIGPU_TESTS_RELEASED_H
#define MILLIGPU_TESTS_RELEASED_H

#include "milligpu/base/base.h"

/* The bytes of tests/released/<version><rest>, NUL-terminated, or NULL if missing. xfree it. */
char *released_file(uint32_t version, const char *rest, size_t *out_bytes) MUST_USE;

/* Writes the released ledger (form: "" or "-killed") to the path, and its log, if it has one. */
void released_put(const char *path, uint32_t version, const char *form);

extern const char *const released_forms[2]; /* closed, and with a log that a kill left */

#endif
