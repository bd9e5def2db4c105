/*
 * unconsidered - rules of kube-scheduler that play does not consider.
 *
 * Pure.
 */
#ifndef MILLIGPU_LAB_UNCONSIDERED_H
#define MILLIGPU_LAB_UNCONSIDERED_H

#include "milligpu/document/document.h"

enum unconsidered {
    UNCONSIDERED_POD_AFFINITY,
    UNCONSIDERED_SPREAD,
    UNCONSIDERED_HOST_PORTS,
    UNCONSIDERED_VOLUMES,
    UNCONSIDERED_CLAIMS,
    UNCONSIDERED_PREFERRED,
    UNCONSIDERED_PREFER_NO_SCHEDULE,
    UNCONSIDERED_PRIORITY,
    UNCONSIDERED_RUNTIME_CLASS,
    UNCONSIDERED_GANG,
    UNCONSIDERED_SCHEDULER,
    UNCONSIDEREDS,
};

/* Bit set of the rules that the pod uses, without PREFER_NO_SCHEDULE, which depends on nodes. */
uint32_t unconsidered_of(const struct document *pod);

/* "host ports" */
const char *unconsidered_text(enum unconsidered what);

#endif
