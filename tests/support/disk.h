/*
 * disk - a disk in memory under SQLite, that forgets what was not synced and fails when told to.
 *
 * disk_install() makes it SQLite's default VFS for the rest of the process.  Files live under the
 * names that SQLite gives them; the same name is the same file, for every connection.  The store
 * also looks at the real folder (lock, header), so a ledger's path has to be in a folder that is
 * there; its bytes are only here.
 *
 * What a disk keeps is what was synced, and of the rest what chance wants: a cut is the moment at
 * which the process or the power goes, between two operations that change something or in the
 * middle of one.  After it everything fails with an I/O error and changes nothing, so that what is
 * still open can be closed; disk_restart() then says what the platter kept.
 *
 * One disk per process, one thread at a time.
 */
#ifndef MILLIGPU_TESTS_DISK_H
#define MILLIGPU_TESTS_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "milligpu/text.h"

void disk_install(void);

/* No files, no faults, nothing cut.  Nothing may be open. */
void disk_clear(void);

enum disk_kind {
    DISK_WRITE = 1,
    DISK_SYNC = 2,
    DISK_TRUNCATE = 4,
    DISK_OPEN = 8,
    DISK_DELETE = 16,
    DISK_READ = 32,
    DISK_CHANGES = DISK_WRITE | DISK_SYNC | DISK_TRUNCATE | DISK_DELETE,
};

/*
 * The n-th operation of these kinds from now on gives rc (SQLITE_FULL, SQLITE_IOERR: the extended
 * code of the operation is filled in); lasting: and all after it, until told otherwise.  Half of a
 * failed write got there.  n = 0: nothing fails (any more).
 */
void disk_fail(unsigned kinds, uint64_t n, int rc, bool lasting);
uint64_t disk_failed(void); /* how many have, since the last disk_fail() */

/* Operations of DISK_CHANGES since disk_clear(). */
uint64_t disk_changes(void);

/* Cut before the n-th changing operation from now on (1: the next one); 0: no longer. */
void disk_cut_before(uint64_t n);
void disk_cut(void); /* now */
bool disk_is_cut(void);

enum disk_loss {
    DISK_KEEPS_ALL,  /* the process died; the kernel still had everything */
    DISK_KEEPS_NONE, /* the power went, and of what was not synced nothing was written */
    DISK_KEEPS_SOME, /* of each unsynced write, by the seed: whole, not, or torn at 512 bytes */
};

/* Nothing may be open.  Faults are gone as well. */
void disk_restart(enum disk_loss loss, uint64_t seed);

/* The bytes of a file, for a copy outside or for damage by hand; false if there is none. */
bool disk_file(const char *name, struct text *out);
void disk_put(const char *name, struct text bytes);

#endif
