/*
 * mps_clients - finds a client among a GPU's MPS servers, and terminates its work.
 *
 * Killing a client in the middle of a kernel breaks the contexts of other clients. The control
 * daemon can end its work first (terminate_client); then the kill is harmless to others.
 */
#ifndef MILLIGPU_AGENT_MPS_CLIENTS_H
#define MILLIGPU_AGENT_MPS_CLIENTS_H

#include "mps_daemon.h"

enum { MPS_SERVERS_MAX = 16 /* servers queried per daemon */ };

/*
 * Parses an answer with one PID per line, at most MPS_SERVERS_MAX; other lines are skipped. Returns
 * the number. Pure.
 */
uint32_t mps_pids_read(struct text answer, uint32_t out[MPS_SERVERS_MAX]);
/* True if pid is one of the answer. Pure. */
bool mps_pids_have(struct text answer, uint32_t pid);

/*
 * Has the daemon end the work of the client with this PID; the process continues. Waits at most
 * wait_ms for all answers. ERR_NOT_FOUND: no server of the daemon has this client; ERR_TIMEOUT: no
 * answer in time. One thread per struct mps_daemon.
 */
int mps_client_terminate(struct mps_daemon *daemon, uint32_t pid, int64_t wait_ms,
                         struct err *err) MUST_USE;

#endif
