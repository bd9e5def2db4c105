/*
 * unlike - a cluster of nodes with 8 GPUs each, of which no two have the same room.
 *
 * So no result of one node can serve for another, and each question is as expensive as it can be.
 */
#ifndef MILLIGPU_BENCH_UNLIKE_H
#define MILLIGPU_BENCH_UNLIKE_H

#include "milligpu/core/ledger/ledger.h"

enum { UNLIKE_GPUS = 8, UNLIKE_NODES_MAX = 15000 };

/* Free milli of each GPU: from, plus a random number below range. */
struct unlike_fill {
    const char *name;
    uint32_t from;
    uint32_t range;
    bool alike; /* the GPUs of a node are of one model */
    bool tight; /* the pod holds more MiB than its milli are worth */
};

enum { UNLIKE_HALF_ALIKE = 5, UNLIKE_FILLS };
extern const struct unlike_fill unlike_fills[UNLIKE_FILLS];

struct unlike {
    struct ledger *ledger;
    const struct snapshot *snapshot;
    struct text name[UNLIKE_NODES_MAX];
};

void unlike_init(struct unlike *unlike, const struct unlike_fill *fill, uint32_t nodes);
void unlike_done(struct unlike *unlike);

/* The ledger's policy was changed: takes a new snapshot. */
void unlike_publish(struct unlike *unlike);

#endif
