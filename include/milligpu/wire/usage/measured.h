/*
 * measured - what the shares of one node used, as its agent last reported it.
 *
 *     report of the node --\
 *     node of the snapshot --> measured_merge() --> struct measured, immutable, reference-counted
 *     what was before    --/
 *
 * "Used" is what a grant takes of a GPU (account.h); what the driver saw of it is "measured". A
 * report tells of containers and GPUs, and only those that the snapshot knows as bound on that node
 * are taken, so all of a cluster is at most one entry of 40 bytes for each share: 12 MB for 15,000
 * nodes with 20 pods each. An entry has no names but a hash of them, seeded by the process and
 * compared within one node only; nothing is decided by it.
 *
 * Pure.
 */
#ifndef MILLIGPU_MEASURED_H
#define MILLIGPU_MEASURED_H

#include "milligpu/core/node/node.h"
#include "milligpu/wire/usage/usage_report.h"

enum {
    MEASURED_FRESH_MS = 15 * 60 * 1000, /* what is older is shown as unknown, with its time */
    MEASURED_IDLE_MILLI = 10,           /* below this a share is idle */
    /* What has been idle for this long stays known over a restart (usage_table.h). */
    MEASURED_KEPT_MS = 60 * 60 * 1000,
};

struct measured_share {
    uint64_t key;
    int64_t at_ms; /* UTC: of the report */
    /*
     * UTC: of the first report since which each said that it was idle, with no gap of more than
     * MEASURED_FRESH_MS; never before it was bound, nor after the last report by a clock that was
     * set back. 0: it is not idle, or nobody knows.
     */
    int64_t idle_since_ms;
    int32_t milli; /* or USAGE_UNKNOWN, like the next two */
    int32_t mib;
    int32_t peak_mib;
    uint8_t over;   /* enum usage_over, of the container */
    bool is_scaled; /* as in usage_report.h; only while milli is known */
    bool kept;      /* the listener of measured_how was told that it is idle */
};

/* That a share has been idle for MEASURED_KEPT_MS, or, with 0, is not any more. */
struct measured_idle {
    const struct allocation *allocation;
    const struct share *share;
    int64_t since_ms; /* UTC */
};

struct measured {
    atomic_uint refs;
    uint32_t shares;
    struct measured_share share[];
};

/* One share that a report told of, while it is merged. */
struct measured_fact {
    const struct allocation *allocation;
    const struct share *share;
    const struct gpu *gpu;
    const struct measured_share *measured;
    enum usage_over new_over; /* worse than before, told once for each container; or NOT */
};

struct measured_how {
    int64_t now_ms; /* UTC */
    void *user;
    void (*fact)(void *user, const struct measured_fact *fact); /* NULL: nobody listens */
    /*
     * Told once of each change. False: there is no room for it now, and it is told again with the
     * next report. NULL: nobody listens.
     */
    bool (*idle)(void *user, const struct measured_idle *idle);
};

/*
 * before: NULL if nothing was known. *out_unknown is how many pods of the report are not bound on
 * this node: they are dropped. Shares that the report does not name stay as they were; of those
 * that it has not named for MEASURED_FRESH_MS nobody knows whether they are idle.
 */
struct measured *measured_merge(const struct measured *before, const struct node *node,
                                const struct usage_report *report, const struct measured_how *how,
                                uint32_t *out_unknown) MUST_USE;

/*
 * What the process before this one knew of bound shares of one node when it took its last report:
 * since when they are idle, of which the listener was told. A time that cannot be counts as 0.
 */
struct measured *measured_resume(const struct node *node, const struct measured_idle *idle,
                                 uint32_t count, int64_t reported_ms, int64_t now_ms) MUST_USE;

/* A copy in which nobody knows of any share whether it is idle, and which no listener knows. */
struct measured *measured_without_idle(const struct measured *measured) MUST_USE;
bool measured_keeps(const struct measured *measured); /* a share is kept */

const struct measured *measured_ref(const struct measured *measured);
void measured_unref(const struct measured *measured); /* NULL is fine */

/* Of a share of this allocation, which is on this node; NULL: nothing is known of it. */
const struct measured_share *measured_find(const struct measured *measured, const struct node *node,
                                           const struct allocation *allocation,
                                           const struct share *share);
bool measured_is_fresh(const struct measured_share *share, int64_t now_ms);

/* What is known, and not too old, of all bound shares of one GPU. */
struct measured_sum {
    uint32_t shares; /* of which there is a fresh report */
    int64_t milli;   /* of these; USAGE_UNKNOWN: not of each of them, like the next one */
    int64_t mib;
    bool is_scaled;        /* milli is known, and that of one of them was scaled */
    int64_t at_ms;         /* of the oldest of them */
    int64_t idle_since_ms; /* all of them are idle since; 0: not so */
};
void measured_sum(const struct measured *measured, const struct node *node, const struct gpu *gpu,
                  int64_t now_ms, struct measured_sum *out);

DEFINE_FREEP(const struct measured, measured_unref);

#endif
