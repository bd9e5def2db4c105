/*
 * hints_internal - what the parts of hints share.
 *
 *   hints.c          askers: who was refused or offered what
 *   hints_tentative.c   where the newest offers would best have gone
 *   hints_answers.c  the bytes of refusals
 */
#ifndef MILLIGPU_HINTS_INTERNAL_H
#define MILLIGPU_HINTS_INTERNAL_H

#include <pthread.h>

#include "milligpu/hints.h"
#include "milligpu/map.h"
#include "milligpu/wishes.h"

struct answer {
    struct request *request; /* NULL: free */
    uint32_t hash;
    enum reason reason;
    uint64_t names;
    uint64_t capacity_generation;
    char *bytes;
    size_t len;
};

struct answers {
    pthread_mutex_t lock; /* guards the rest */
    size_t bytes;         /* of what was answered */
    struct answer answer[ANSWERS_MAX];
    size_t next;
};

void answers_init(struct answers *answers);
void answers_done(struct answers *answers);
size_t answers_bytes(struct answers *answers);

struct kept;

/*
 * A ring: the n-th tentative placement that ever came is at n % TENTATIVES_KEPT until another takes
 * its place.  No more than TENTATIVES_MAX are shown; twice as many are kept, since some are laid
 * before their time.
 */
enum { TENTATIVES_KEPT = 2 * TENTATIVES_MAX };
struct tentatives {
    struct tentative_kept {
        const struct kept *of; /* NULL: it was laid */
        int64_t at_ms;
        struct tentative is;
    } kept[TENTATIVES_KEPT];
    uint64_t next;
};

void tentatives_add(struct tentatives *tentatives, const struct kept *of, int64_t at_ms,
                    struct tentative tentative);
/* Lay count of them, from the first-th on; those that are gone are gone. */
void tentatives_drop(struct tentatives *tentatives, uint64_t first, uint32_t count);
/* The newest that live, but those of one. */
uint32_t tentatives_copy(const struct tentatives *tentatives, const struct kept *but,
                         int64_t now_ms, struct tentative out[TENTATIVES_MAX]);

/* Who has settled, the newest RESOLVED_MAX of them: a uid never comes back. */
struct resolved {
    struct map by_uid;
    char *uid[RESOLVED_MAX];
    size_t next;
};

struct hints {
    struct answers answers;
    pthread_mutex_t lock; /* guards everything below */
    struct map askers;
    size_t bytes;                   /* that they take, their texts as long as can be */
    struct kept *slot[WAITING_MAX]; /* each stays in one: who goes through all can stop anywhere */
    uint16_t spare[WAITING_MAX];    /* slots that are free again */
    size_t spares;
    size_t slots; /* that were ever taken */
    struct wishes wishes;
    struct resolved resolved;
    struct tentatives tentatives;
    size_t waiting;      /* refused or late */
    size_t wishless;     /* of those, whose wish found no room */
    struct kept *oldest; /* offers by age, so that tentative placements are found from the newest */
    struct kept *newest;
    struct kept *fresh;  /* the oldest offer that may not be late yet */
    bool late_went;      /* an offer had to make room before it could be late */
    bool overflowed;     /* somebody could not be remembered, */
    int64_t overflow_ms; /* last at that time */
    size_t next_slot;    /* the slot at which hints_maintain() goes on */
};

#endif
