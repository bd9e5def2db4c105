/*
 * safe_mode - the ledger cannot be trusted, so nothing is granted and nothing is written.
 *
 *   batch (a change refused) -----------\
 *   writer (memory verification) --------> safe_mode_enter() once --> safe_mode, one log line
 *   verifier thread (file, comparison) -/       \--> the verifier thread writes the diagnostics
 *
 * It ends with the process. Reads are still answered, from the last snapshot. Watch events are
 * received but not written: after the restart the pods are listed again, and an inconsistent file
 * must stay unchanged for diagnosis.
 *
 * Any thread may call safe_mode_enter(); the first call decides the reason.
 */
#ifndef MILLIGPU_SAFE_MODE_H
#define MILLIGPU_SAFE_MODE_H

#include <stdatomic.h>

#include "milligpu/base/err.h"

struct app;

/* id, word in the metric, and text for the scheduler and probes (contains no pod name). */
#define SAFE_TABLE(X)                                                                              \
    X(SAFE_REFUSED, "refused",                                                                     \
      "safe mode: the database refused a change that the ledger in memory allows")                 \
    X(SAFE_DISK, "disk", "safe mode: the ledger on disk failed its verification")                  \
    X(SAFE_MEMORY, "memory", "safe mode: the ledger in memory failed its verification")            \
    X(SAFE_DIFFER, "differ", "safe mode: the ledger in memory and the one on disk are not the same")

enum safe_mode_reason {
#define X(id, word, text) id,
    SAFE_TABLE(X)
#undef X
        SAFE_REASONS
};

enum { SAFE_FOLDER_MAX = 4096 };

/*
 * Written once, by the first safe_mode_enter(), before health.safe_mode is set; only reason may be
 * read earlier.
 */
struct safe_mode {
    atomic_bool entered;
    _Atomic(enum safe_mode_reason) reason;
    int64_t since_ms; /* UTC */
    char text[ERR_TEXT_MAX];
    char folder[SAFE_FOLDER_MAX]; /* of the diagnostics; "": none */
    char why_none[ERR_TEXT_MAX];  /* set if folder is "" */
};

enum { DIAGNOSTICS_MAX = 4 }; /* folders beside one ledger */

/* Creates an empty folder for the diagnostics; does not block. An error is for why_none. */
int safe_mode_folder(const struct app *app, char *out, size_t bytes, struct err *err) MUST_USE;

void safe_mode_enter(struct app *app, enum safe_mode_reason reason, const char *text);

/* Text and word of the reason; those of the first table row before safe mode. */
const char *safe_mode_why(const struct app *app);
const char *safe_mode_word(const struct app *app);

#endif
