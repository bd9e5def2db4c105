/*
 * new_file - a file that is complete or absent (write-and-rename).
 *
 * It is written under a temporary name, synced and renamed, so that it also survives a power loss.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_NEW_FILE_H
#define MILLIGPU_CTL_NEW_FILE_H

#include "ctl/ctl.h"

struct new_file {
    const char *name; /* final name; borrowed from the caller */
    const char *made; /* temporary name, NAME.tmp; in the arena */
    FILE *file;
};

/*
 * Creates the temporary file, readable by its owner only. CONFLICT if a file of that name exists
 * and --force is not given. After a failure there is nothing to drop.
 */
int new_file_open(struct ctl *ctl, const char *name, struct new_file *out,
                  struct err *err) MUST_USE;
/*
 * Syncs and closes the file under its temporary name, so that it can be verified before it is
 * published. A failure removes it.
 */
int new_file_complete(struct new_file *file, struct err *err) MUST_USE;
/* Completes the file, if necessary, and renames it to its final name. A failure removes it. */
int new_file_publish(struct ctl *ctl, struct new_file *file, struct err *err) MUST_USE;
void new_file_drop(struct new_file *file);

#endif
