/*
 * measured_amounts - from what one report says of shares to sums of hours (measured_sums.h).
 *
 * Counted by charge, as what was granted is: a charge is measured in the seconds in which the
 * report tells of a share of that pod on that GPU, and what all of these used is held against all
 * that the charge grants, whether another container of the pod ran or not. Where one of these
 * shares is unknown, so is the charge. Pods of which the report says nothing were not measured.
 */
#ifndef STATE_MEASURED_AMOUNTS_H
#define STATE_MEASURED_AMOUNTS_H

#include "milligpu/usage/measured_sums.h"
#include "milligpu/wire/usage/measured.h"

struct measured_charge {
    const struct gpu *gpu;
    int64_t milli; /* of all shares; USAGE_UNKNOWN: of one of them it is unknown */
    int64_t mib;
};

struct measured_amounts {
    struct measured_sums *sums;
    const struct node *node;
    int64_t until_ms; /* UTC: the report is of the seconds before this time */
    int64_t seconds;  /* that no earlier report was counted for */
    uint32_t dropped; /* sums for which there was no room */
    /* the pod that facts came of last */
    const struct allocation *allocation;
    uint32_t charges;
    struct measured_charge charge[GPUS_PER_NODE_MAX];
};

/* Facts of one pod come one after another. */
void measured_amounts_hear(struct measured_amounts *amounts, const struct measured_fact *fact);
/* After the last fact. */
void measured_amounts_end(struct measured_amounts *amounts);

#endif
