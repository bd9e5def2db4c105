/*
 * measured_amounts - adds one report's usage of shares to the hourly sums (measured_sums.h).
 *
 * Counts by charge, like grants: a charge is measured in the seconds for which the report has a
 * share of that pod on that GPU. The use of all these shares counts against the whole charge, even
 * if another container of the pod did not run. If the use of one share is unknown, that of the
 * charge is. Pods that are missing in the report are not measured.
 */
#ifndef STATE_MEASURED_AMOUNTS_H
#define STATE_MEASURED_AMOUNTS_H

#include "milligpu/usage/measured_sums.h"
#include "milligpu/wire/usage/measured.h"

struct measured_charge {
    const struct gpu *gpu;
    int64_t milli; /* sum of all shares; USAGE_UNKNOWN if one is unknown */
    int64_t mib;   /* sum of all shares; USAGE_UNKNOWN if one is unknown */
};

struct measured_amounts {
    struct measured_sums *sums;
    const struct node *node;
    int64_t until_ms; /* UTC end of the time that the report covers */
    int64_t seconds;  /* time before until_ms that no earlier report covered, in s */
    uint32_t dropped; /* number of sums for which there was no room */
    /* pod of the current facts; NULL before the first */
    const struct allocation *allocation;
    uint32_t n_charges;
    struct measured_charge charge[GPUS_PER_NODE_MAX];
};

/* Adds a fact. Facts of one pod must be consecutive. */
void measured_amounts_add(struct measured_amounts *amounts, const struct measured_fact *fact);
/* Called after the last fact. */
void measured_amounts_end(struct measured_amounts *amounts);

#endif
