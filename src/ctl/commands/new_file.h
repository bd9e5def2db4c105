/*
 * new_file - a file that is complete under its name, or not there.
 *
 * It is written under another name, synced and renamed, so that it also survives a power loss.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_NEW_FILE_H
#define MILLIGPU_CTL_NEW_FILE_H

#include "ctl/ctl.h"

struct new_file {
    const char *name; /* borrowed from the caller and the arena */
    const char *made; /* NAME.tmp, until it is published */
    FILE *file;
};

/*
 * Only its owner may read it. CONFLICT: a file of that name is there, and --force was not given.
 * After a failure there is nothing to drop.
 */
int new_file_open(struct ctl *ctl, const char *name, struct new_file *out,
                  struct err *err) MUST_USE;
/*
 * Syncs and closes the file under its temporary name, file->made, so that it can be verified before
 * it is published. After a failure nothing is left.
 */
int new_file_complete(struct new_file *file, struct err *err) MUST_USE;
/* Gives the file its name, completed before if it is not; after a failure nothing is left. */
int new_file_publish(struct ctl *ctl, struct new_file *file, struct err *err) MUST_USE;
void new_file_drop(struct new_file *file);

#endif
