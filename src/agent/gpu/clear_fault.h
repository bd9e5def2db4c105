/*
 * clear_fault - an operator's word that a GPU is healthy, handed to the agent that runs.
 *
 *     milligpu-node --clear-fault GPU --> STATE_DIR/clear-fault/GPU --> agent: nvml_clear_fault()
 *
 * Whoever may write into the agent's state folder (root of the node, or exec in its pod) may say
 * it. The agent looks each second, and takes the file away when it has acted on it.
 */
#ifndef MILLIGPU_CLEAR_FAULT_H
#define MILLIGPU_CLEAR_FAULT_H

#include "milligpu/base/err.h"

/*
 * Asks, and waits at most wait_ms until the agent has taken it. ERR_INVALID: no UUID. ERR_TIMEOUT:
 * no agent takes it; then it is withdrawn.
 */
int clear_fault_ask(const char *state_dir, const char *uuid, int64_t wait_ms,
                    struct err *err) MUST_USE;

/* Calls act for each GPU that is asked for, at most CLEAR_FAULT_MAX in one call. */
enum { CLEAR_FAULT_MAX = 64 };
void clear_fault_take(const char *state_dir, void *user, void (*act)(void *user, const char *uuid));

#endif
