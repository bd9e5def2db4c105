/*
 * diagnostics - writes the bundle for a bug report about safe mode, a folder beside the ledger.
 *
 *   <ledger>.safe-mode-<UTC>/  mode 0700
 *     README.txt               the reason, and the list of files
 *     ledger.db                a copy (with ledger.db-wal if only a raw copy was possible)
 *     snapshot.json            nodes, GPUs and allocations in memory
 *     commands.jsonl           the last commands and their results
 *     settings.yaml            settings in force; names of key files, no keys
 *     metrics.txt
 *
 * At most DIAGNOSTICS_MAX of them exist beside one ledger; they are never deleted. They contain
 * names of pods.
 */
#ifndef MILLIGPU_DIAGNOSTICS_H
#define MILLIGPU_DIAGNOSTICS_H

#include "milligpu/spine/app.h"

/*
 * Writes the files of health.safe.folder; slow. A file that fails does not stop the others; err
 * names the first one.
 */
int diagnostics_write(struct app *app, struct err *err) MUST_USE;

#endif
