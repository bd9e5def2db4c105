/*
 * admission - what an API server does with a new pod besides storing it.
 *
 * Its own rules about amounts, and the LimitRanges and ResourceQuotas of the files, as its
 * admission plugins LimitRanger and ResourceQuota judge them. Texts are theirs. Usage of quotas is
 * counted here. What is not considered of them is said once (admission_say()).
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_ADMISSION_H
#define MILLIGPU_CTL_ADMISSION_H

#include <stdio.h>

#include "milligpu/document/document.h"

struct limit_range;
struct quota;

struct admission {
    struct arena *arena;   /* of what is kept */
    const char *namespace; /* of objects that name none */
    struct limit_range *range;
    struct quota *quota;
};

/*
 * An API server accepts no containers without a name of their own, no requests of an extended
 * resource that differ from its limit, and in spec.resources only CPU, memory and huge pages.
 */
int admission_check(const struct document *pod, struct err *err) MUST_USE;

/* Is it a LimitRange or a ResourceQuota? */
bool admission_is_rule(const struct document *object);
/* Such an object, from which the rule borrows. */
int admission_add(struct admission *admission, const struct document *object,
                  struct err *err) MUST_USE;

/* Writes what LimitRanges give to containers that do not say it themselves. */
void admission_fill(const struct admission *admission, struct arena *arena, struct document *pod);
/* Why the pod may not be created: ERR_FORBIDDEN. */
int admission_review(const struct admission *admission, const struct document *pod,
                     struct err *err) MUST_USE;
/* One more pod that quotas count, unless it has ended. */
void admission_count(struct admission *admission, const struct document *pod);

/* counts: are quotas considered here at all? */
void admission_say(const struct admission *admission, bool counts, FILE *out);

#endif
