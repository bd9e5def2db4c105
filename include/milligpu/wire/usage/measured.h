/*
 * measured - last reported usage of the shares of one node.
 *
 *     report of the node --\
 *     node of the snapshot --> measured_merge() --> struct measured, immutable, reference-counted
 *     struct measured before --/
 *
 * "Used" is the granted amount (account.h); "measured" is the usage that the driver saw. Only pods
 * that the snapshot shows as bound on the node are merged, so a cluster needs at most one entry of
 * 40 bytes for each share: 12 MB for 15,000 nodes with 20 pods each. An entry has a hash instead of
 * names, seeded by the process and compared only within one node; no decision depends on it.
 *
 * Pure.
 */
#ifndef MILLIGPU_MEASURED_H
#define MILLIGPU_MEASURED_H

#include "milligpu/core/node/node.h"
#include "milligpu/wire/usage/usage_report.h"

enum {
    MEASURED_FRESH_MS = 15 * 60 * 1000, /* older amounts are shown as unknown, with their time */
    MEASURED_IDLE_MILLI = 10,           /* a share below this is idle */
    /* Idle times from this length on survive a restart (usage_table.h). */
    MEASURED_KEPT_MS = 60 * 60 * 1000,
};

struct measured_share {
    uint64_t key;  /* hash of the names */
    int64_t at_ms; /* UTC time of the report */
    /*
     * UTC time of the first report of an unbroken run of idle reports, with gaps of at most
     * MEASURED_FRESH_MS; not before the pod was bound, nor later than the last report if the clock
     * was set back. 0 if the share is not idle, or unknown.
     */
    int64_t idle_since_ms;
    /* Amounts, or USAGE_UNKNOWN. */
    int32_t milli;
    int32_t mib;
    int32_t peak_mib;
    uint8_t over;   /* enum usage_over of the container */
    bool is_scaled; /* as in usage_report.h; false if milli is unknown */
    bool kept;      /* measured_how.idle() has accepted that the share is idle */
};

/* A share that has been idle for MEASURED_KEPT_MS, or has ceased to be. */
struct measured_idle {
    const struct allocation *allocation;
    const struct share *share;
    int64_t since_ms; /* UTC; 0 if the share is not idle any more */
};

struct measured {
    atomic_uint refs;
    uint32_t n_shares;
    struct measured_share share[];
};

/* One share of a report, while the report is merged. */
struct measured_fact {
    const struct allocation *allocation;
    const struct share *share;
    const struct gpu *gpu;
    const struct measured_share *measured;
    enum usage_over new_over; /* set if worse than before, once per container; else NOT */
};

struct measured_how {
    int64_t now_ms; /* UTC */
    void *user;
    void (*fact)(void *user, const struct measured_fact *fact); /* may be NULL */
    /*
     * Called once for each change; false if there is no room for it: retried with the next report.
     * May be NULL.
     */
    bool (*idle)(void *user, const struct measured_idle *idle);
};

/*
 * Returns before (may be NULL) with the report merged in. *out_unknown is the number of pods of the
 * report that are not bound on this node; they are dropped. Shares that the report does not name
 * stay unchanged; after MEASURED_FRESH_MS without a report their idle time is unknown.
 */
struct measured *measured_merge(const struct measured *before, const struct node *node,
                                const struct usage_report *report, const struct measured_how *how,
                                uint32_t *out_unknown) MUST_USE;

/*
 * Restores the idle times of one node's bound shares that the previous process had passed to the
 * listener; reported_ms is the UTC time of its last report. An impossible time counts as 0.
 */
struct measured *measured_resume(const struct node *node, const struct measured_idle *idle,
                                 uint32_t count, int64_t reported_ms, int64_t now_ms) MUST_USE;

/* Returns a copy without idle times, with kept false everywhere. */
struct measured *measured_without_idle(const struct measured *measured) MUST_USE;
bool measured_keeps(const struct measured *measured); /* true if kept is set for any share */

const struct measured *measured_ref(const struct measured *measured);
void measured_unref(const struct measured *measured); /* NULL is fine */

/* Finds a share of an allocation on this node; NULL if nothing was reported for it. */
const struct measured_share *measured_find(const struct measured *measured, const struct node *node,
                                           const struct allocation *allocation,
                                           const struct share *share);
bool measured_is_fresh(const struct measured_share *share, int64_t now_ms);

/* Fresh measurements of the shares of one GPU. */
struct measured_sum {
    uint32_t shares; /* number of shares with a fresh report */
    /* Sums over these; USAGE_UNKNOWN if the amount of one is unknown. */
    int64_t milli;
    int64_t mib;
    bool is_scaled;        /* milli is known and includes a scaled amount */
    int64_t at_ms;         /* UTC time of the oldest of these reports */
    int64_t idle_since_ms; /* UTC; all shares are idle since then; 0 if not, or unknown */
};
void measured_sum(const struct measured *measured, const struct node *node, const struct gpu *gpu,
                  int64_t now_ms, struct measured_sum *out);

DEFINE_FREEP(const struct measured, measured_unref);

#endif
