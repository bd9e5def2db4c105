/*
 * journal_file - the journal of a ledger file: what its daemon did, oldest first.
 *
 * For whoever plays a past again (milligpuctl simulate --ledger). The file may be in any state:
 * used by a running daemon, left behind by one, or a copy; of this version of the schema or of an
 * older one. Nothing is written and no file is created. Any thread.
 */
#ifndef MILLIGPU_JOURNAL_FILE_H
#define MILLIGPU_JOURNAL_FILE_H

#include "milligpu/store/store.h"

struct journal_span {
    /* of the first entry about the cluster and of the last one, as their clocks said */
    int64_t oldest_ms;
    int64_t newest_ms;
    /* By how much the clock entries say that the wall clock was set, all together: + forward. */
    int64_t set_ms;
    uint64_t folded; /* entries that retention has folded away */
};

/* In this order; texts are valid during the call; negative ends the reading. */
struct journal_file_reader {
    void *user;
    int (*span)(void *user, const struct journal_span *span, struct err *err);
    /* Nodes, then allocations, as they were before the first entry: JSON as in the results. */
    int (*object)(void *user, bool is_node, const char *state, struct err *err);
    /* Unlike those of store_journal(), results have all of an allocation, however it changed. */
    int (*entry)(void *user, const struct journal_row *row, struct err *err);
};

/*
 * NOT_FOUND, INVALID, FOREIGN, NEWER, CORRUPT: with a sentence that names the file. INVALID also if
 * there is no entry; BUSY: it was written to meanwhile by somebody who takes no locks.
 */
int store_journal_file(const char *path, const struct journal_file_reader *reader,
                       struct err *err) MUST_USE;

#endif
