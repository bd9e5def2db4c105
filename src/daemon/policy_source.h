/*
 * policy_source - reads the policy that the setting names: a built-in policy or a document.
 *
 * Main thread only, because it reads files and must not delay threads that answer calls.
 */
#ifndef MILLIGPU_APP_POLICY_SOURCE_H
#define MILLIGPU_APP_POLICY_SOURCE_H

#include "milligpu/base/err.h"
#include "milligpu/core/rules/rulebook.h"

struct policy_source {
    bool quiet;                  /* do not log warnings: the file will be read once more */
    char *word;                  /* setting at the last read, owned; NULL before the first */
    uint64_t seen;               /* hash of the file's device, inode, size and mtime then */
    int64_t kept_ms;             /* UTC time at which the stored document was read from its file */
    const struct rulebook *last; /* last rulebook read without error, a reference; or NULL */
};

void policy_source_done(struct policy_source *source);

/*
 * Sets *out to a reference, or to NULL if the rulebook equals the last one (the file was only
 * touched). A failure is remembered, too, so that it is logged once; its text has file and line.
 */
int policy_source_read(struct policy_source *source, const char *word, const struct rulebook **out,
                       struct err *err) MUST_USE;
/*
 * Reads the document stored in the ledger, after policy_source_read() failed at the start. ledger:
 * path, or ":memory:". why: the error of the file; returned unchanged if the setting is no path, no
 * document is stored, or the stored one is invalid, too.
 */
int policy_source_read_kept(struct policy_source *source, const char *ledger,
                            const struct rulebook **out, struct err *why) MUST_USE;

/* Returns true if the file has changed since it was last read. */
bool policy_source_changed(const struct policy_source *source);
/* Marks the file as changed, because the last rulebook could not be delivered. */
void policy_source_again(struct policy_source *source);

#endif
