/*
 * verify - is a ledger file sound?
 *
 * The checks are those that a running daemon makes now and then (store.h), and one more: that the
 * file loads.  Any thread.
 */
#ifndef MILLIGPU_VERIFY_H
#define MILLIGPU_VERIFY_H

#include "milligpu/err.h"

/* What a verification checks, in order: id, name, what it says of a ledger that is well. */
#define STORE_CHECK_TABLE(X)                                                                       \
    X(CHECK_PAGES, "pages", "every page and index is as SQLite wants it")                          \
    X(CHECK_REFERENCES, "references", "no row has lost the one that it belongs to")                \
    X(CHECK_PRESENT, "present", "one live allocation for a pod, no GPU granted twice")             \
    X(CHECK_CHARGES, "charges", "live charges are what the shares come to")                        \
    X(CHECK_MEMORY, "memory", "it loads, and every invariant holds in memory")                     \
    X(CHECK_JOURNAL, "journal", "every entry is there and can be read")                            \
    X(CHECK_REPLAY, "replay", "baseline and journal come to the present")                          \
    X(CHECK_TABLES, "tables", "tables, indexes and triggers are those of this version")            \
    X(CHECK_PAST, "past", "charges of the past are what the shares come to")

enum store_check {
#define X(id, name, text) id,
    STORE_CHECK_TABLE(X)
#undef X
        STORE_CHECKS
};

const char *store_check_name(enum store_check check);
const char *store_check_text(enum store_check check);

/*
 * Check a file that may be anybody's: with a daemon at work on it, left behind by one, a copy.
 * Nothing is written and no file is made.  wrong: NULL if all is well.  Fails only where there is
 * nothing to check: not there, not ours, another version, changed while we looked (BUSY).
 */
int store_verify_file(const char *path, void *user,
                      void (*each)(void *user, enum store_check check, const char *wrong),
                      struct err *err) MUST_USE;

#endif
