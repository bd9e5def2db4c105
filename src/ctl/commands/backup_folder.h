/*
 * backup_folder - backups of the ledger in a folder that keeps the newest ones.
 *
 *   ledger-20261127T030000Z.db   a backup; the time is UTC, so the names sort by age
 *   ledger-...Z.db.tmp           an incomplete backup: in progress, or interrupted
 *   .backup.lock                 locked while a command works in the folder
 *
 * Other files are never touched. A backup is removed only after a newer one has passed every check,
 * so the folder never loses its last valid backup.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_BACKUP_FOLDER_H
#define MILLIGPU_CTL_BACKUP_FOLDER_H

#include "ctl/ctl.h"

/*
 * Downloads a copy of the ledger from milligpud, verifies it, renames it to its name in the folder
 * `path`, and removes the oldest backups until keep (at least 1) are left. Prints the results. BUSY
 * if another command works in the folder. A failure removes no backup, except when the removal
 * itself fails.
 */
int backup_folder_add(struct ctl *ctl, const char *path, unsigned keep, struct err *err) MUST_USE;

/*
 * Finds the newest backup in the folder `path`, ignoring names with a time in the future. NOT_FOUND
 * if none. *out is in ctl->arena. Neither verifies the backup nor locks the folder.
 */
int backup_folder_newest(struct ctl *ctl, const char *path, const char **out,
                         struct err *err) MUST_USE;

#endif
