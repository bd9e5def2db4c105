/*
 * policy_reload - result of the last attempt to read the policy document.
 *
 * Set by the thread that reads the document; shown by metrics, doctor and REST. Any thread.
 */
#ifndef MILLIGPU_POLICY_RELOAD_H
#define MILLIGPU_POLICY_RELOAD_H

#include "milligpu/base/err.h"

struct policy_reload;

struct policy_reload *policy_reload_new(void) MUST_USE;
void policy_reload_free(struct policy_reload *reload); /* NULL is fine */

/* Sets the result. error NULL: success, the document is in force. at_ms: UTC. */
void policy_reload_report(struct policy_reload *reload, const char *error, int64_t at_ms);
/* False: the last attempt succeeded. *out_at_ms: UTC time of the first of consecutive failures. */
bool policy_reload_failed(struct policy_reload *reload, char out_error[ERR_TEXT_MAX],
                          int64_t *out_at_ms);

#endif
