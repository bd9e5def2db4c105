/*
 * unconsidered - what kube-scheduler would look at and play does not, in words.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_UNCONSIDERED_H
#define MILLIGPU_CTL_UNCONSIDERED_H

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

/* A bit for each that the pod uses; PREFER_NO_SCHEDULE depends on nodes and is never among them. */
uint32_t unconsidered_of(const struct document *pod);

/* "host ports" */
const char *unconsidered_text(enum unconsidered what);

#endif
