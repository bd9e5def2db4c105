/*
 * clear_fault - passes an operator's --clear-fault to the running agent, through a file.
 *
 *     milligpu-node --clear-fault GPU --> STATE_DIR/clear-fault/GPU --> agent: nvml_clear_fault()
 *
 * It requires write access to the agent's state folder (root on the node, or exec in its pod). The
 * agent checks every second, between its requests to the API server, whether these succeed or not,
 * and removes the file when it has acted on it.
 */
#ifndef MILLIGPU_CLEAR_FAULT_H
#define MILLIGPU_CLEAR_FAULT_H

#include "milligpu/base/err.h"

/* Two patches of the Node and a read of its label, 4 s each at most, and a turn of the reporter. */
enum { CLEAR_FAULT_WAIT_MS = 15000 };

/*
 * Creates the file, and waits at most wait_ms until the agent removes it. ERR_INVALID: uuid is not
 * a UUID. ERR_TIMEOUT: no agent has acted; the file is removed.
 */
int clear_fault_ask(const char *state_dir, const char *uuid, int64_t wait_ms,
                    struct err *err) MUST_USE;

/* Calls act for each requested GPU and removes its file; at most CLEAR_FAULT_MAX per call. */
enum { CLEAR_FAULT_MAX = 64 };
void clear_fault_take(const char *state_dir, void *user, void (*act)(void *user, const char *uuid));

#endif
