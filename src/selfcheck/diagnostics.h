/*
 * diagnostics - what a bug report about safe mode needs, in a folder beside the ledger.
 *
 *   <ledger>.safe-mode-<UTC>/ mode 0700 README.txt what happened, and the list of files ledger.db a
 *   copy (and ledger.db-wal, where only a raw copy was to be had) snapshot.json nodes, GPUs,
 *   allocations as they are in memory commands.jsonl the last commands and what became of them
 *   settings.yaml as they are in force; names of key files, no keys metrics.txt
 *
 * At most DIAGNOSTICS_MAX of them exist beside one ledger; they are never deleted. They contain
 * names of pods.
 */
#ifndef MILLIGPU_DIAGNOSTICS_H
#define MILLIGPU_DIAGNOSTICS_H

#include "milligpu/spine/app.h"

/*
 * Fills health.safe.folder: slow. Whatever can be written is written; err names the first file that
 * cannot.
 */
int diagnostics_write(struct app *app, struct err *err) MUST_USE;

#endif
