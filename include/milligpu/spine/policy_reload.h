/*
 * policy_reload - what became of the last attempt to read the policy document.
 *
 * The thread that reads it tells; metrics, doctor and REST show it. Any thread.
 */
#ifndef MILLIGPU_POLICY_RELOAD_H
#define MILLIGPU_POLICY_RELOAD_H

#include "milligpu/base/err.h"

struct policy_reload;

struct policy_reload *policy_reload_new(void) MUST_USE;
void policy_reload_free(struct policy_reload *reload); /* NULL is fine */

/* error NULL: it was read, and decides. */
void policy_reload_tell(struct policy_reload *reload, const char *error, int64_t at_ms);
/* False: it was read. *out_at_ms: UTC, when the first failure in a row was. */
bool policy_reload_failed(struct policy_reload *reload, char out_error[ERR_TEXT_MAX],
                          int64_t *out_at_ms);

#endif
