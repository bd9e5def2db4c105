/*
 * policy_document - reads policy documents, and resolves the name or path of a policy.
 *
 *   mixed                       a ready policy, built in    --\
 *   /etc/milligpu/policy.yaml   an operator's document      ----> rulebook (rulebook.h)
 *   rollout                     bare: an empty rulebook     --/
 *
 * Strict: an unknown key, a wrong type, a number out of range, a duplicate name of a rule, and a
 * rule that is empty or contradicts itself are errors. The first error ends the reading; it names
 * the place, the key and the valid values: "policy.yaml:7:10: rules[1].min: 0 is below 1; write 1
 * to 1000". Valid but suspicious input, such as a rule that can never match, is a warning in the
 * form of an error. policy/README.md describes each key.
 *
 * No I/O: the caller passes the functions that do it (struct policy_edges).
 */
#ifndef MILLIGPU_POLICY_DOCUMENT_H
#define MILLIGPU_POLICY_DOCUMENT_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/core/rules/zone.h"

enum { POLICY_BYTES_MAX = 1024 * 1024 };

struct policy_edges {
    /* for example zone_load() */
    int (*load_zone)(const char *name, struct zone **out, struct err *err);
    /* for example file_read(); only policy_choose() calls it */
    int (*read_file)(const char *file, size_t max, char **out, size_t *out_len, struct err *err);
    /*
     * True to accept baseline policies, as in simulate; false to replace them by the policy that
     * milligpud serves instead (policy_served()), with a warning.
     */
    bool baselines;
};

/*
 * file names the document in messages, and becomes the name of the rulebook. *out is one reference.
 * Appends lines to warnings, also before an error. Returns ERR_INVALID, ERR_TOO_LARGE, or the error
 * of load_zone().
 */
int policy_document_read(struct text bytes, const char *file, const struct policy_edges *edges,
                         struct rulebook **out, struct strbuf *warnings, struct err *err) MUST_USE;

/*
 * Like policy_document_read(), and the rulebook keeps the bytes (rulebook.document). Used for a
 * file, and for the last good bytes of a file.
 */
int policy_keep_document(struct text bytes, const char *file, const struct policy_edges *edges,
                         struct rulebook **out, struct strbuf *warnings, struct err *err) MUST_USE;

/* Returns the ready policies by index, ordered by name; false at the end. */
struct policy_ready {
    const char *name; /* "mixed" */
    struct text bytes;
};
bool policy_ready(size_t at, struct policy_ready *out);
/* Returns the document of a ready policy; NULL if none has this name. */
const char *policy_document_find(struct text name);

/* True if the word is a path: it contains '/', or ends in .yaml, .yml or .json. */
bool policy_is_path(const char *word);

/*
 * Resolves a user's word for a policy: the name of a policy (policy_kind.h), for an empty rulebook,
 * the name of a ready policy, or a path. *out is one reference.
 */
int policy_choose(const char *word, const struct policy_edges *edges, struct rulebook **out,
                  struct strbuf *warnings, struct err *err) MUST_USE;

#endif
