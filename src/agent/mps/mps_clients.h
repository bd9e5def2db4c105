/*
 * mps_clients - the clients of a GPU's MPS servers, and the end of what one of them computes.
 *
 * A client that is killed in the middle of a kernel breaks the contexts of its neighbours. The
 * control daemon can end its work before (terminate_client); then a kill harms nobody else.
 */
#ifndef MILLIGPU_AGENT_MPS_CLIENTS_H
#define MILLIGPU_AGENT_MPS_CLIENTS_H

#include "mps_daemon.h"

enum { MPS_SERVERS_MAX = 16 /* that one daemon is asked about */ };

/*
 * The PIDs of an answer, one on each line, MPS_SERVERS_MAX of them at most; other lines are left
 * out. Returns how many. Pure.
 */
uint32_t mps_pids_read(struct text answer, uint32_t out[MPS_SERVERS_MAX]);
bool mps_pids_have(struct text answer, uint32_t pid); /* is it one of them? Pure. */

/*
 * Has the daemon end what the client of this PID computes; the process goes on. Waits at most
 * wait_ms for all of its answers. ERR_NOT_FOUND: no server of the daemon has such a client;
 * ERR_TIMEOUT: it does not answer in time. One thread for each struct mps_daemon.
 */
int mps_client_terminate(struct mps_daemon *daemon, uint32_t pid, int64_t wait_ms,
                         struct err *err) MUST_USE;

#endif
