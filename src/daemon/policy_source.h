/*
 * policy_source - where the policy comes from: the word of the setting, and the file that it names.
 *
 * The main thread's. Reading it takes a few files, so nobody who answers waits for it.
 */
#ifndef MILLIGPU_APP_POLICY_SOURCE_H
#define MILLIGPU_APP_POLICY_SOURCE_H

#include "milligpu/base/err.h"
#include "milligpu/core/rules/rulebook.h"

struct policy_source {
    bool quiet;                  /* warnings are not logged: another reading follows */
    char *word;                  /* that was read last; NULL: none */
    uint64_t seen;               /* device, inode, size and time of the file then */
    int64_t kept_ms;             /* UTC: when what policy_source_read_kept() gave was in its file */
    const struct rulebook *last; /* a reference: what was last read well; NULL: nothing */
};

void policy_source_done(struct policy_source *source);

/*
 * One reference in *out; NULL: nothing has changed since it was last read well, as where something
 * only touches the file. A failure counts as seen, too, so that it is told once; the text names
 * file and line.
 */
int policy_source_read(struct policy_source *source, const char *word, const struct rulebook **out,
                       struct err *err) MUST_USE;
/*
 * The document that a ledger has kept, after policy_source_read() failed at the start; ledger: its
 * path, or ":memory:". why, which says what is wrong with the file, is returned where no such
 * document helps: the word is no path, nothing is kept, or it cannot be read here either.
 */
int policy_source_read_kept(struct policy_source *source, const char *ledger,
                            const struct rulebook **out, struct err *why) MUST_USE;

/* Is the file another one than when it was read last? */
bool policy_source_changed(const struct policy_source *source);
/* What was read did not reach anyone: it counts as changed. */
void policy_source_again(struct policy_source *source);

#endif
