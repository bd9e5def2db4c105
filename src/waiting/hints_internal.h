/*
 * hints_internal - what the parts of hints share.
 *
 *   hints.c            askers: which pods were refused or offered nodes
 *   hints_tentative.c  the best places of the newest offers
 *   hints_answers.c    the bytes of refusals
 */
#ifndef MILLIGPU_HINTS_INTERNAL_H
#define MILLIGPU_HINTS_INTERNAL_H

#include "milligpu/base/map.h"
#include "milligpu/run/mutex.h"
#include "milligpu/waiting/hints.h"
#include "milligpu/waiting/wishes.h"

struct answer {
    struct request *request; /* NULL: free */
    uint32_t hash;
    struct cause cause;
    /* digest_names() of the question */
    uint64_t names;
    uint64_t capacity_generation;
    char *bytes;
    size_t len;
};

struct answers {
    struct mutex lock; /* guards the rest */
    size_t bytes;      /* of all answers; at most REFUSALS_BYTES_MAX */
    struct answer answer[ANSWERS_MAX];
    /* the place that the next answer takes is next % ANSWERS_MAX */
    size_t next;
};

void answers_init(struct answers *answers);
void answers_done(struct answers *answers);
size_t answers_bytes(struct answers *answers);

struct kept;

/*
 * A ring: the n-th tentative placement is at n % TENTATIVES_KEPT until another one overwrites it.
 * At most TENTATIVES_MAX are used; twice as many are kept, because some are removed early.
 */
enum { TENTATIVES_KEPT = 2 * TENTATIVES_MAX };
struct tentatives {
    struct tentative_kept {
        const struct kept *of; /* NULL: it was removed */
        int64_t at_ms;
        struct tentative is; /* while it is not removed, with references to its names */
    } kept[TENTATIVES_KEPT];
    uint64_t next;
};

void tentatives_add(struct tentatives *tentatives, const struct kept *of, int64_t at_ms,
                    struct tentative tentative);
/* Removes count of them, from the first-th on; ones that are gone already do not matter. */
void tentatives_drop(struct tentatives *tentatives, uint64_t first, uint32_t count);
/* The newest that are alive, except those of one pod. */
uint32_t tentatives_copy(const struct tentatives *tentatives, const struct kept *but,
                         int64_t now_ms, struct tentative out[TENTATIVES_MAX]);

/* Pods that were bound or deleted, the newest RESOLVED_MAX: a uid is never used again. */
struct resolved {
    struct map by_uid;
    char *uid[RESOLVED_MAX];
    size_t next;
};

struct hints {
    struct answers answers;
    struct schedulers *schedulers;
    hints_look *look; /* NULL: nobody knows which pods are bound */
    void *look_user;
    struct mutex lock; /* guards everything below */
    struct map askers;
    size_t bytes; /* their size, with the longest texts */
    /* each asker keeps its slot: a pass over all can stop anywhere */
    struct kept *slot[WAITING_MAX];
    uint16_t spare[WAITING_MAX]; /* slots that are free again */
    size_t spares;
    size_t slots; /* slots that were ever used */
    struct wishes wishes;
    struct resolved resolved;
    struct tentatives tentatives;
    size_t waiting;  /* refused or late */
    size_t wishless; /* of those, how many have a request for which there was no room */
    /* offers by age, so that the newest tentative placements are found first */
    struct kept *oldest;
    struct kept *newest;
    struct kept *fresh;  /* the oldest offer that may not be late yet */
    bool late_went;      /* an offer had to be removed before it could be late */
    bool overflowed;     /* a pod could not be remembered, */
    int64_t overflow_ms; /* most recently at this time */
    size_t next_slot;    /* the slot at which hints_maintain() continues */
};

#endif
