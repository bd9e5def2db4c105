/*
 * verify - is a ledger file sound?
 *
 * The checks are those of a running daemon (store.h), and one more: whether the file loads. Any
 * thread.
 */
#ifndef MILLIGPU_VERIFY_H
#define MILLIGPU_VERIFY_H

#include "milligpu/base/err.h"

/* What a verification checks, in order: id, name, text for a sound ledger. */
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
 * written and no file is created. Of an older version, all checks but the first read a copy in
 * memory that was migrated to this version. wrong: NULL if all is well. Fails only if there is
 * nothing to check: no file, not a ledger, a newer version, or changed meanwhile (BUSY).
 */
int store_verify_file(const char *path, void *user,
                      void (*each)(void *user, enum store_check check, const char *wrong),
                      struct err *err) MUST_USE;

/*
 * Puts a backup in the place of a ledger that no daemon has open (BUSY), whole: the former ledger
 * goes aside with its log. The file is checked by SQLite, not verified. It keeps its version, which
 * may be older (from 6 on), so that a milligpud of that version can open it. The ledger then waits
 * like a new one before it grants (OWNER_THIS_BY_COPY). A failure leaves the former ledger, or says
 * where it is.
 */
struct restored {
    char *aside; /* the former ledger's new name, yours to xfree */
};
int store_restore(const char *backup, const char *path, struct restored *out,
                  struct err *err) MUST_USE;

#endif
