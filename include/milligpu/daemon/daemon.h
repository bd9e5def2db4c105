/*
 * daemon - runs milligpud from start to stop.
 *
 * Start: read the settings and the policy (or, if its document is broken, the copy stored in the
 * ledger), open the ledger file and the API client, load the ledger, open the listeners (webhooks
 * answer Error, probes work), enter the sandbox, identify the cluster, read the complete lists, and
 * wait for the grace period if the ledger is new and the cluster has grants. Then milligpud is
 * ready.
 *
 * Stop: SIGTERM or SIGINT makes /readyz fail and lets binds in flight finish, for at most 8 s; a
 * second signal stops at once.
 *
 * SIGHUP reloads the settings file, the policy document and the certificates. Changes of the
 * document and of the certificates are also detected without it.
 */
#ifndef MILLIGPU_DAEMON_H
#define MILLIGPU_DAEMON_H

#include "milligpu/settings/settings.h"

/*
 * Reads the files that the settings name: the policy and the signing key. With starts (milligpud is
 * about to start), a broken policy document is no error if the ledger has a valid copy.
 * ERR_INVALID, ERR_NOT_FOUND, ERR_IO.
 */
int daemon_check(const struct settings_set *set, bool starts, struct err *err) MUST_USE;

/*
 * Runs until a signal (returns 0) or a failure (negative, with err). set is borrowed for the call.
 */
int daemon_run(int argc, char *const *argv, char *const *envp, const struct settings_set *set,
               struct err *err) MUST_USE;

#endif
