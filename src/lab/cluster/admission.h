/*
 * admission - validation and admission of new pods, as in an API server.
 *
 * Applies the API server's rules about amounts, and the LimitRanges and ResourceQuotas of the
 * files, like its admission plugins LimitRanger and ResourceQuota and with their texts. Counts the
 * usage of quotas. Unsupported parts of these objects are reported once (admission_say()).
 *
 * One thread.
 */
#ifndef MILLIGPU_LAB_ADMISSION_H
#define MILLIGPU_LAB_ADMISSION_H

#include <stdio.h>

#include "milligpu/document/document.h"

struct limit_range;
struct quota;

struct admission {
    struct arena *arena;   /* for rules and usage */
    const char *namespace; /* of objects without one */
    struct limit_range *range;
    struct quota *quota;
};

/*
 * Refuses containers without a unique name, requests of an extended resource that differ from its
 * limit, and resources in spec.resources other than CPU, memory and huge pages.
 */
int admission_check(const struct document *pod, struct err *err) MUST_USE;

/* True for a LimitRange or a ResourceQuota. */
bool admission_is_rule(const struct document *object);
/* Adds a LimitRange or ResourceQuota; borrows from object. */
int admission_add(struct admission *admission, const struct document *object,
                  struct err *err) MUST_USE;

/* Adds the defaults of LimitRanges to the pod's containers. */
void admission_fill(const struct admission *admission, struct arena *arena, struct document *pod);
/* ERR_FORBIDDEN if a LimitRange or ResourceQuota forbids the pod. */
int admission_review(const struct admission *admission, const struct document *pod,
                     struct err *err) MUST_USE;
/* Adds the pod to the usage of quotas, unless it has ended. */
void admission_count(struct admission *admission, const struct document *pod);

/* Prints unsupported parts of the rules. counts: false if quotas are not considered at all. */
void admission_say(const struct admission *admission, bool counts, FILE *out);

#endif
