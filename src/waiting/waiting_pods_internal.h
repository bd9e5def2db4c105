/*
 * waiting_pods_internal - shared by the parts of the table.
 *
 *   waiting_pods.c            waiting pods: which pods were refused or offered nodes
 *   waiting_pods_offers.c     the offers: best places of the newest shortlists
 *   waiting_pods_answers.c    cached refusals
 */
#ifndef MILLIGPU_WAITING_PODS_INTERNAL_H
#define MILLIGPU_WAITING_PODS_INTERNAL_H

#include "milligpu/base/map.h"
#include "milligpu/run/mutex.h"
#include "milligpu/waiting/request_classes.h"
#include "milligpu/waiting/waiting_pods.h"

struct answer {
    struct request *request; /* owned; NULL: the slot is free */
    uint32_t hash;
    struct cause cause;
    uint64_t n_names; /* digest_names() of the question */
    uint64_t capacity_generation;
    char *bytes; /* owned */
    size_t len;
};

struct answers {
    struct mutex lock; /* guards the rest */
    size_t bytes;      /* size of all answers; at most REFUSALS_BYTES_MAX */
    struct answer answer[ANSWERS_MAX];
    size_t next; /* modulo ANSWERS_MAX the slot of the next answer */
};

void answers_init(struct answers *answers);
void answers_done(struct answers *answers);
size_t answers_bytes(struct answers *answers);

struct waiting_pod;

/*
 * A ring buffer: offer n is at n % OFFERS_KEPT until it is overwritten. At most OFFERS_MAX are
 * used; twice as many are kept, because some are removed early.
 */
enum { OFFERS_KEPT = 2 * OFFERS_MAX };
struct offers {
    struct kept_offer {
        const struct waiting_pod *pod; /* NULL: removed */
        int64_t at_ms;                 /* monotonic */
        struct offer offer;            /* with references to its names; invalid if removed */
    } entry[OFFERS_KEPT];
    uint64_t next; /* number of the next offer */
};

void offers_add(struct offers *offers, const struct waiting_pod *pod, int64_t at_ms,
                struct offer offer);
/* Removes count offers from number first on; skips overwritten and removed ones. */
void offers_drop(struct offers *offers, uint64_t first, uint32_t count);
/* Copies the newest live offers, except those of pod but. Returns the count. */
uint32_t offers_copy(const struct offers *offers, const struct waiting_pod *but, int64_t now_ms,
                     struct offer out[OFFERS_MAX]);

/* The newest RESOLVED_MAX bound or deleted pods. Uids are never reused. */
struct resolved {
    struct map by_uid;       /* the strings in uid */
    char *uid[RESOLVED_MAX]; /* owned; a ring buffer; NULL: free */
    size_t next;             /* modulo RESOLVED_MAX the slot of the next uid */
};

struct waiting_pods {
    struct answers answers;
    struct schedulers *schedulers;
    waiting_pods_look *look; /* NULL: bound pods are not identified */
    void *look_user;
    struct mutex lock; /* guards everything below */
    struct map by_uid; /* struct waiting_pod, by uid */
    size_t bytes;      /* size of all entries, each with the longest text */
    /* the entries; an entry never changes its index, so a walk can be interrupted */
    struct waiting_pod *entry[WAITING_MAX];
    uint16_t spare[WAITING_MAX]; /* stack of indexes that are free again */
    size_t n_spare;
    size_t n_entries; /* number of entries that were ever used */
    struct request_classes request_classes;
    struct resolved resolved;
    struct offers offers;
    size_t n_waiting;   /* number of refused or late pods */
    size_t n_unclassed; /* number of them whose request could not be stored */
    /* List of offers by age. */
    struct waiting_pod *oldest;
    struct waiting_pod *newest;
    struct waiting_pod *fresh; /* the oldest offer that may not be late yet */
    bool has_lost_late;        /* an offer was evicted before it was late */
    bool overflowed;           /* a pod could not be stored */
    int64_t overflow_ms;       /* monotonic time of the last overflow */
    size_t next_entry;         /* entry at which waiting_pods_maintain() continues */
};

#endif
