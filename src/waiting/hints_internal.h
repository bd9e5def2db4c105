/*
 * hints_internal - what the parts of hints share.
 *
 *   hints.c            waiting pods: which pods were refused or offered nodes
 *   hints_offers.c  the best places of the newest offers
 *   hints_answers.c    the bytes of refusals
 */
#ifndef MILLIGPU_HINTS_INTERNAL_H
#define MILLIGPU_HINTS_INTERNAL_H

#include "milligpu/base/map.h"
#include "milligpu/run/mutex.h"
#include "milligpu/waiting/hints.h"
#include "milligpu/waiting/request_classes.h"

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

struct waiting_pod;

/*
 * A ring: the n-th offer is at n % OFFERS_KEPT until another one overwrites it.
 * At most OFFERS_MAX are used; twice as many are kept, because some are removed early.
 */
enum { OFFERS_KEPT = 2 * OFFERS_MAX };
struct offers {
    struct kept_offer {
        const struct waiting_pod *pod; /* NULL: it was removed */
        int64_t at_ms;
        struct offer offer; /* while it is not removed, with references to its names */
    } entry[OFFERS_KEPT];
    uint64_t next;
};

void offers_add(struct offers *offers, const struct waiting_pod *of, int64_t at_ms,
                struct offer offer);
/* Removes count of them, from the first-th on; ones that are gone already do not matter. */
void offers_drop(struct offers *offers, uint64_t first, uint32_t count);
/* The newest that are alive, except those of one pod. */
uint32_t offers_copy(const struct offers *offers, const struct waiting_pod *but, int64_t now_ms,
                     struct offer out[OFFERS_MAX]);

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
    struct map waiting_pods;
    size_t bytes; /* their size, with the longest texts */
    /* each waiting pod keeps its slot: a pass over all can stop anywhere */
    struct waiting_pod *slot[WAITING_MAX];
    uint16_t spare[WAITING_MAX]; /* slots that are free again */
    size_t n_spare;
    size_t slots; /* slots that were ever used */
    struct request_classes request_classes;
    struct resolved resolved;
    struct offers offers;
    size_t waiting;   /* refused or late */
    size_t unclassed; /* of those, how many have a request for which there was no room */
    /* offers by age, so that the newest offers are found first */
    struct waiting_pod *oldest;
    struct waiting_pod *newest;
    struct waiting_pod *fresh; /* the oldest offer that may not be late yet */
    bool late_went;            /* an offer had to be removed before it could be late */
    bool overflowed;           /* a pod could not be remembered, */
    int64_t overflow_ms;       /* most recently at this time */
    size_t next_slot;          /* the slot at which hints_maintain() continues */
};

#endif
