/*
 * daemon - the whole of milligpud, from start to stop.
 *
 * Start: read the settings and the policy (if its document is broken, the one that the ledger has
 * kept decides), open the ledger file and the API client, load the ledger, open the
 * listeners (webhooks answer Error, probes work), enter the sandbox, find out which cluster this
 * is, read the complete lists, wait for the grace period if the ledger is new and the cluster has
 * grants. Then milligpud is ready.
 *
 * Stop: SIGTERM or SIGINT makes /readyz fail and lets binds in flight finish, for at most 8 s; a
 * second signal stops at once.
 *
 * SIGHUP reads the settings file, the policy document and the certificates again. A document or
 * certificates that change are also read again without it.
 */
#ifndef MILLIGPU_DAEMON_H
#define MILLIGPU_DAEMON_H

#include "milligpu/settings/settings.h"

/*
 * Reads the files that the settings name: the policy and the signing key. If it starts, a broken
 * policy document is no error as long as the ledger has kept a good one.
 * ERR_INVALID, ERR_NOT_FOUND, ERR_IO.
 */
int daemon_check(const struct settings_set *set, bool starts, struct err *err) MUST_USE;

/*
 * Returns when a signal or a failure has ended it. set is borrowed for the call. 0, or negative
 * with err.
 */
int daemon_run(int argc, char *const *argv, char *const *envp, const struct settings_set *set,
               struct err *err) MUST_USE;

#endif
