/*
 * verify - is a ledger file sound?
 *
 * Runs the checks of a running daemon (store.h), and also loads the file. Any thread.
 */
#ifndef MILLIGPU_VERIFY_H
#define MILLIGPU_VERIFY_H

#include "milligpu/base/err.h"

/* The checks of a verification, in order: id, name, text for a sound ledger. */
#define STORE_CHECK_TABLE(X)                                                                       \
    X(CHECK_PAGES, "pages", "every page and index is as SQLite wants it")                          \
    X(CHECK_REFERENCES, "references", "no row has lost the one that it belongs to")                \
    X(CHECK_PRESENT, "present", "one live allocation for a pod, no GPU granted twice")             \
    X(CHECK_CHARGES, "charges", "live charges are what the shares come to")                        \
    X(CHECK_MEMORY, "memory", "it loads, and every invariant holds in memory")                     \
    X(CHECK_JOURNAL, "journal", "every entry is there and can be read")                            \
    X(CHECK_REPLAY, "replay", "baseline and journal come to the present")                          \
    X(CHECK_TABLES, "tables", "tables, indexes and triggers are those of this version")            \
    X(CHECK_PAST, "past", "charges of the past are what the shares come to, and packs what is said")

enum store_check {
#define X(id, name, text) id,
    STORE_CHECK_TABLE(X)
#undef X
        STORE_CHECKS
};

const char *store_check_name(enum store_check check);
const char *store_check_text(enum store_check check);

/*
 * Checks a file in any state: used by a running daemon, left behind by one, or a copy. Nothing is
 * written and no file is created. For an older version, all checks but the first read a migrated
 * copy in memory. wrong: NULL if the check passed. Fails only if there is nothing to check: no
 * file, not a ledger, a newer version, or changed meanwhile (BUSY).
 */
int store_verify_file(const char *path, void *user,
                      void (*each)(void *user, enum store_check check, const char *wrong),
                      struct err *err) MUST_USE;

/*
 * Replaces a ledger by a backup; the former ledger is moved aside with its log. BUSY: a daemon has
 * the ledger open. The backup is checked by SQLite, not verified. It keeps its version, which may
 * be older (from 6 on), so that a milligpud of that version can open it. The restored ledger waits
 * like a new one before it grants (OWNER_THIS_BY_COPY). After a failure the former ledger is in
 * place, or err says where it is.
 */
struct restored {
    char *aside; /* new name of the former ledger; owned by the caller (xfree) */
};
int store_restore(const char *backup, const char *path, struct restored *out,
                  struct err *err) MUST_USE;

#endif
