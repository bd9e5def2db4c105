/*
 * disk - a disk in memory under SQLite that forgets what was not synced and fails on command.
 *
 * disk_install() makes it SQLite's default VFS for the rest of the process. Files have the names
 * that SQLite gives them; the same name is the same file, for every connection. The store also
 * looks at the real folder (lock, header), so a ledger's path must be in an existing folder; its
 * bytes are only here.
 *
 * A disk keeps what was synced, and a random part of the rest. A cut is the moment at which the
 * process or the power ends, between two operations that change something or in the middle of one.
 * After it everything fails with an I/O error and changes nothing, so that open files can be
 * closed; disk_restart() then decides what the disk kept.
 *
 * Names are synced apart from bytes. That a file exists, is deleted or has another name is kept
 * once its folder is synced: by the first sync of a new log or journal, by a deletion that asks for
 * it (as SQLite's own VFS does both), and by fsync() of a folder. There is one folder. What a
 * failed sync should have written is not kept by the next one either, because the kernel takes it
 * for written. Shared memory ends with its last connection.
 *
 * rename(), renameat2(), unlink() and fsync() are the disk's as well, in programs that use it:
 * calls for other files go to the kernel. stat() and open() see the real folder only.
 *
 * Time stands still; randomness is the same after each disk_clear().
 *
 * One disk per process, one thread at a time.
 */
#ifndef MILLIGPU_TESTS_DISK_H
#define MILLIGPU_TESTS_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "milligpu/base/text.h"

void disk_install(void);

/* No files, no faults, no cut. Nothing may be open. */
void disk_clear(void);

enum disk_kind {
    DISK_WRITE = 1,
    DISK_SYNC = 2,
    DISK_TRUNCATE = 4,
    DISK_OPEN = 8,
    DISK_DELETE = 16,
    DISK_READ = 32,
    DISK_RENAME = 64,
    DISK_CHANGES = DISK_WRITE | DISK_SYNC | DISK_TRUNCATE | DISK_DELETE | DISK_RENAME,
};

/*
 * The n-th operation of these kinds from now on gives rc (SQLITE_FULL, SQLITE_IOERR: the extended
 * code of the operation is filled in); lasting: and every one after it, until the next call. Half
 * of a failed write is done. n = 0: nothing fails (any more).
 */
void disk_fail(unsigned kinds, uint64_t n, int rc, bool lasting);
uint64_t disk_failed(void); /* how many have failed since the last disk_fail() */

/* Operations of DISK_CHANGES since disk_clear(). */
uint64_t disk_changes(void);
/* Calls that wrote since disk_clear(). One may be several operations: see PIECE_BYTES in disk.c. */
uint64_t disk_writes(void);

/* Cuts before the n-th changing operation from now on (1: the next one); 0: no cut. */
void disk_cut_before(uint64_t n);
void disk_cut(void); /* now */
bool disk_is_cut(void);

enum disk_loss {
    DISK_KEEPS_ALL,  /* the process died; the kernel still had everything */
    DISK_KEEPS_NONE, /* the power failed, and nothing was written that was not synced */
    DISK_KEEPS_SOME, /* of each unsynced write, by the seed: all, nothing, or torn at 512 bytes */
};

/* Nothing may be open. Faults are cleared as well. */
void disk_restart(enum disk_loss loss, uint64_t seed);

/*
 * The bytes of a file, to copy or to damage; false if there is none. They are valid until the file
 * changes. What is put counts as synced.
 */
bool disk_file(const char *name, struct text *out);
void disk_put(const char *name, struct text bytes);

/*
 * For a recorder: each event as it took effect, including half of a failed write. A file is
 * identified by its number, which a name gets by DISK_NAMED (a new file) or DISK_RENAMED (name to
 * other) and loses by DISK_UNNAMED.
 */
enum disk_event_kind {
    DISK_WROTE,
    DISK_CUT_OFF, /* truncated to at */
    DISK_SYNCED,
    DISK_NAMED,
    DISK_UNNAMED,
    DISK_RENAMED,
    DISK_SYNCED_FOLDER,
};

struct disk_event {
    enum disk_event_kind kind;
    uint32_t file;
    const char *name;
    const char *other;
    uint64_t at;
    struct text bytes;
};

/* NULL: nobody. */
void disk_watch(void *user, void (*event)(void *user, const struct disk_event *event));

#endif
