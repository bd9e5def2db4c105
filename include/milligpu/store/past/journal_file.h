/*
 * journal_file - reads the journal of a ledger file, oldest entry first.
 *
 * For back-tests (milligpuctl simulate --ledger). The file may be in any state: used by a running
 * daemon, left behind by one, or a copy; of this version of the schema or of an older one. Nothing
 * is written and no file is created. Any thread.
 */
#ifndef MILLIGPU_JOURNAL_FILE_H
#define MILLIGPU_JOURNAL_FILE_H

#include "milligpu/store/store.h"

struct journal_span {
    /* UTC times recorded in the first and the last entry about the cluster */
    int64_t oldest_ms;
    int64_t newest_ms;
    /* sum of the wall clock's steps according to the clock entries; positive: forward */
    int64_t set_ms;
    uint64_t folded; /* number of the newest entry that retention has folded */
};

/* Called in this order. Texts are valid during the call; a negative result ends the reading. */
struct journal_file_reader {
    void *user;
    int (*span)(void *user, const struct journal_span *span, struct err *err);
    /* Nodes, then allocations, in their state before the first entry: JSON as in the results. */
    int (*object)(void *user, bool is_node, const char *state, struct err *err);
    /* Unlike in store_journal(), the result contains every changed allocation completely. */
    int (*entry)(void *user, const struct journal_row *row, struct err *err);
};

/*
 * NOT_FOUND, INVALID (also if there is no entry), FOREIGN, NEWER, CORRUPT; BUSY: a process without
 * the ledger's lock wrote to the file meanwhile. err names the file.
 */
int store_journal_file(const char *path, const struct journal_file_reader *reader,
                       struct err *err) MUST_USE;

#endif
