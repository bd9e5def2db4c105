/*
 * backup_folder - backups of the ledger in a folder, of which the newest ones are kept.
 *
 *   ledger-20261127T030000Z.db   a backup; the time is UTC, so the names sort by age
 *   ledger-...Z.db.tmp           one that is being made, or that an interrupted command left
 *   .backup.lock                 locked while a command works in the folder
 *
 * Files of other names are never touched. A backup is removed only after a newer one has passed
 * every check, so the folder always keeps a good one if it ever had one.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_BACKUP_FOLDER_H
#define MILLIGPU_CTL_BACKUP_FOLDER_H

#include "ctl/ctl.h"

/*
 * Asks milligpud for a copy of the ledger, verifies it, gives it its name in the folder path and
 * removes the oldest backups there until keep (at least 1) are left. Prints what it did. BUSY:
 * another command works in the folder. After a failure no backup was removed, unless the failure is
 * that one of them cannot be removed.
 */
int backup_folder_add(struct ctl *ctl, const char *path, unsigned keep, struct err *err) MUST_USE;

/*
 * The newest backup in the folder path, of those that are not named after a later time than now.
 * NOT_FOUND: there is none. *out is in ctl->arena. It is not verified, and nothing is locked.
 */
int backup_folder_newest(struct ctl *ctl, const char *path, const char **out,
                         struct err *err) MUST_USE;

#endif
