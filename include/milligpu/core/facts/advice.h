/*
 * advice - what a waiting pod says that its author probably did not mean.
 *
 * Milligpu grants what is written. Some of it is allowed and nearly always wrong: an amount of 1
 * where a whole GPU is meant, an annotation with a misspelled key, which therefore has no effect.
 * Advice is a sentence about that, for an Event on the pod and its view in REST; no decision
 * depends on it.
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
    ADVICE_MODEL, /* the cluster has no such model; only unschedulable.h can tell */
    ADVICES
};

enum { ADVICE_BYTES_MAX = 960 }; /* an Event may have 1,000 */

struct advice {
    /* "amount", "minimum", "step": why it is refused; "tiny": it is granted; "annotation" */
    const char *word;
    char text[ADVICE_BYTES_MAX];
};

/*
 * Is the key of a pod's annotation one that milligpu neither reads nor writes, but nearly one of
 * those that it reads? Fast, because all annotations of all pods are asked about.
 */
bool annotation_is_odd(struct text key);

/*
 * About a pod of ours, by what it says itself; of a bound one nothing that would be refused now.
 * False: there is nothing to say.
 */
bool advice_of(enum advice_kind kind, const struct pod *pod, const struct request_rules *rules,
               struct advice *out) MUST_USE;

#endif
