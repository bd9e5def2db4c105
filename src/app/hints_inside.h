/*
 * hints_inside - what the two halves of hints share.
 *
 *   hints.c          askers: who was refused or offered what
 *   hints_answers.c  the bytes of refusals
 */
#ifndef MILLIGPU_HINTS_INSIDE_H
#define MILLIGPU_HINTS_INSIDE_H

#include <pthread.h>

#include "milligpu/map.h"

#include "hints.h"
#include "wishes.h"

struct answer {
    struct request *request; /* NULL: free */
    uint32_t hash;
    enum reason reason;
    uint64_t names;
    uint64_t room;
    struct strbuf bytes;
};

struct answers {
    pthread_mutex_t lock; /* guards the rest */
    struct answer answer[ANSWERS_MAX];
    size_t next;
};

void answers_init(struct answers *answers);
void answers_done(struct answers *answers);

struct kept;

/* Who has settled, the newest SETTLED_MAX of them: a uid never comes back. */
struct settled {
    struct map by_uid;
    char *uid[SETTLED_MAX];
    size_t next;
};

struct hints {
    struct answers answers;
    pthread_mutex_t lock; /* guards everything below */
    struct map askers;
    struct wishes wishes;
    struct settled settled;
    size_t waiting;      /* refused or late */
    struct kept *oldest; /* offers by age, so that ghosts are found from the newest */
    struct kept *newest;
    struct kept *fresh;  /* the oldest offer that may not be late yet */
    bool late_went;      /* an offer had to make room before it could be late */
    bool overflowed;     /* somebody could not be remembered, */
    int64_t overflow_ms; /* last at that time */
    size_t tended;       /* where hints_tend() goes on */
};

#endif
