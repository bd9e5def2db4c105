/*
 * policy_document - reads policy documents, and finds the policy that somebody names.
 *
 *   mixed                       a ready policy, built in    --\
 *   /etc/milligpu/policy.yaml   a document of one's own     ----> rulebook (rulebook.h)
 *   rollout                     bare: an empty rulebook     --/
 *
 * Strict: an unknown key, a wrong type, a number out of range, a second rule of a name, a rule that
 * says nothing or contradicts itself are errors. An error names the place, the key and what would
 * be right: "policy.yaml:7:10: rules[1].min: 0 is below 1; write 1 to 1000". What is allowed and
 * probably not meant, such as a rule that can never match, is a warning: a line like an error. The
 * first error ends the reading. policy/README.md describes each key.
 *
 * No I/O of its own: whoever calls gives the functions that do it.
 */
#ifndef MILLIGPU_POLICY_DOCUMENT_H
#define MILLIGPU_POLICY_DOCUMENT_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/core/rules/zone.h"

enum { POLICY_BYTES_MAX = 1024 * 1024 };

struct policy_edges {
    /* zone_load() */
    int (*load_zone)(const char *name, struct zone **out, struct err *err);
    /* file_read(); only policy_choose() calls it */
    int (*read_file)(const char *file, size_t max, char **out, size_t *out_len, struct err *err);
    /*
     * A baseline is what it is called, as in simulate. False: it is read as what milligpud takes
     * for it (policy_served()), with a warning.
     */
    bool baselines;
};

/*
 * file names the document in messages, and becomes the name of the rulebook. *out: one reference.
 * warnings: lines are appended, also before an error. ERR_INVALID, ERR_TOO_LARGE, or what load_zone
 * says.
 */
int policy_document_read(struct text bytes, const char *file, const struct policy_edges *edges,
                         struct rulebook **out, struct strbuf *warnings, struct err *err) MUST_USE;

/*
 * The same, of the bytes of a file, which the rulebook keeps (rulebook.document). Also for those
 * that the file had when it was last read well.
 */
int policy_keep_document(struct text bytes, const char *file, const struct policy_edges *edges,
                         struct rulebook **out, struct strbuf *warnings, struct err *err) MUST_USE;

/* The ready policies, by name, with their documents; false at the end. */
struct policy_ready {
    const char *name; /* "mixed" */
    struct text bytes;
};
bool policy_ready(size_t at, struct policy_ready *out);
/* The document of a ready policy; NULL: there is none of this name. */
const char *policy_document_find(struct text name);

/* Is it a path? One contains '/', or ends in .yaml, .yml or .json. */
bool policy_is_path(const char *word);

/*
 * What somebody writes where a policy is wanted: the name of a policy (policy_kind.h), which gives
 * an empty rulebook of it, the name of a ready policy, or a path. *out: one reference.
 */
int policy_choose(const char *word, const struct policy_edges *edges, struct rulebook **out,
                  struct strbuf *warnings, struct err *err) MUST_USE;

#endif
