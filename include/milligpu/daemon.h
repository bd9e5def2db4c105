/*
 * daemon - the whole of milligpud, from start to stop.
 *
 * Start: settings, ledger file, the API client, the ledger loaded, listeners (webhooks answer
 * Error, probes work), the sandbox, whose cluster it is, the complete lists, for a new ledger
 * beside grants the grace period, ready.  Stop:  SIGTERM or SIGINT makes /readyz fail and lets
 * binds in flight end, for 8 s at most; a second one stops at once.  SIGHUP reads the settings file
 * and the certificates again; certificates that change are read again without it.
 */
#ifndef MILLIGPU_DAEMON_H
#define MILLIGPU_DAEMON_H

#include "milligpu/settings.h"

/* Returns when a signal has ended it. set is borrowed for the call. 0, or negative with err. */
int daemon_run(int argc, char *const *argv, char *const *envp, const struct settings_set *set,
               struct err *err) MUST_USE;

#endif
