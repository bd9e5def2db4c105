/*
 * daemon - the whole of milligpud, from start to stop.
 *
 * Start: settings, ledger file, listeners (webhooks answer Error, probes work), the API server,
 * the complete lists, ready.  Stop: SIGTERM makes /readyz fail and lets binds in flight end; a
 * second one stops at once. SIGHUP reads the settings file and the certificates again.
 */
#ifndef MILLIGPU_DAEMON_H
#define MILLIGPU_DAEMON_H

#include "milligpu/settings.h"

/* Returns when a signal ended it.  set is borrowed for the call.  0, or negative with err. */
int daemon_run(int argc, char *const *argv, char *const *envp, const struct settings_set *set,
               struct err *err) MUST_USE;

#endif
