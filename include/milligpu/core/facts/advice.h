/*
 * advice - warnings about probable mistakes in a pod's request.
 *
 * milligpu grants a request as it is written. Some valid requests are nearly always wrong: an
 * amount of 1 where a whole GPU is meant, or a misspelled annotation key, which has no effect.
 * Advice is a sentence for an Event on the pod and its view in REST; no decision depends on it.
 *
 * Pure.
 */
#ifndef MILLIGPU_ADVICE_H
#define MILLIGPU_ADVICE_H

#include "milligpu/core/facts/pod.h"
#include "milligpu/core/facts/request.h"

enum advice_kind {
    ADVICE_AMOUNT,
    ADVICE_ANNOTATION,
    ADVICE_MODEL, /* no such model in the cluster; only found by unschedulable.h */
    ADVICES
};

enum { ADVICE_BYTES_MAX = 960 }; /* an Event may have 1,000 */

struct advice {
    /* "amount", "minimum" or "step" (refused), "tiny" (granted anyway), or "annotation" */
    const char *word;
    char text[ADVICE_BYTES_MAX];
};

/*
 * Is the annotation key unknown to milligpu, but in its domain or close to a key that it reads?
 * Fast: called for every annotation of every pod.
 */
bool annotation_is_odd(struct text key);

/*
 * Returns true and sets *out if there is advice of this kind, from the pod alone. A bound pod gets
 * no advice about an amount that is refused now.
 */
bool advice_of(enum advice_kind kind, const struct pod *pod, const struct request_rules *rules,
               struct advice *out) MUST_USE;

#endif
