/*
 * hints - what filter remembers between two questions.  Two locks, and tables that are bounded in
 * entries and in bytes, whatever is asked.
 *
 *   asker     a pod that asked and is not bound, as long as it lives:
 *
 *               refused --fits--> offered --a second without a bind--> late
 *                  ^  waits for room \                                /   waits for room, and for
 *                  \------------------ asks again -------------------/    a longer list
 *
 *             An offer's best place counts as taken in the ranking of others for two seconds.
 *   answer    the bytes that refused a request, while nothing that matters has changed
 *
 * A list shorter than what fitted that led to no bind was refused by somebody else, so the next
 * one is four times longer; a bind that came and failed was ours, and changes nothing.  Of a large
 * cluster kube-scheduler asks about a part, another one each time: until as many nodes have been
 * offered as there are a list of all that was asked about is too short as well.
 *
 * Hints change order and length of answers, never whether a node fits.
 *
 * No lost wake-up: filter records the refusal and then reads the capacity generation again; the
 * writer publishes and then looks at what waits.  Whoever comes second sees the other.  Where the
 * table is full, be it of askers or of what they ask, whoever could not be recorded is woken by any
 * room that comes free.
 */
#ifndef MILLIGPU_HINTS_H
#define MILLIGPU_HINTS_H

#include "milligpu/filter.h"
#include "milligpu/strbuf.h"
#include "milligpu/wishes.h"

enum {
    WAITING_MAX = 16384,
    SHORTLIST_LIVE_MS = 2000,
    SHORTLIST_LATE_MS = 1000, /* no bind for so long: another plugin has refused the list */
    SHORTLIST_GROWTH = 4,
    SAMPLE_MIN = 100, /* of more fitting nodes kube-scheduler may leave some out, of fewer never */
    TENTATIVES_MAX = 1024,
    ANSWERS_MAX = 64,         /* distinct refused questions */
    WISHES_TRIED_MAX = 64,    /* distinct requests that are tried when room comes free */
    WAKE_STEPS_MAX = 1 << 20, /* of search for them: some milliseconds of the writer */
    UNHEARD_MAX_MS = 600000,  /* kube-scheduler leaves no pod alone for longer than 330 s */
    RESOLVED_MAX = 2048,      /* who has settled is remembered among so many */
    SLICE_MAX = 256,          /* askers that are looked at without letting others in between */
    ASKERS_BYTES_MAX = 16 * 1024 * 1024, /* one takes 600 bytes, with the longest names 900 */
    REFUSAL_BYTES_MAX = 64 * 1024,       /* a longer one is not remembered */
    REFUSALS_BYTES_MAX = 2 * 1024 * 1024,
};

static_assert(WAITING_MAX % SLICE_MAX == 0, "slices come out even");

struct hints;

struct hints *hints_new(void) MUST_USE;
void hints_free(struct hints *hints);

/* Who asks, and what.  Everything is borrowed for the call. */
struct asker {
    const char *uid;
    const char *namespace;
    const char *name;
    const struct request *request; /* NULL: the request itself is refused */
    int64_t now_ms;                /* monotonic */
    int64_t wall_ms;               /* UTC */
    bool again;                    /* the same question, judged anew */
};

/* How long this pod's next list may be; 0: as long as it comes. */
uint32_t hints_shortlist(struct hints *hints, struct text uid, uint32_t shortlist);
/* Which tentative placements stand before this pod. */
uint32_t hints_tentatives(struct hints *hints, struct text uid, int64_t now_ms,
                          struct tentative tentative[TENTATIVES_MAX]);

/* A list that goes out. */
struct shortlist {
    uint32_t nodes;               /* of the cluster */
    uint32_t names;               /* asked about; one alone is a preemption's, and no list */
    uint32_t fitting;             /* of them */
    uint32_t listed;              /* of those */
    uint64_t capacity_generation; /* of the snapshot */
    const struct candidate *best; /* NULL: its node was made for the question */
};
void hints_shortlisted(struct hints *hints, const struct asker *asker,
                       const struct shortlist *offered);
void hints_refused(struct hints *hints, const struct asker *asker, enum reason reason,
                   const char *text);

/* A bind was asked for: whatever becomes of it, nobody else refused the list. */
void hints_binding(struct hints *hints, struct text uid);
/* It holds a reservation: there is nothing to choose. */
void hints_fits(struct hints *hints, struct text uid);
/* Bound or gone, for good. */
void hints_resolved(struct hints *hints, struct text uid);

/*
 * Answers of refusals, by what they depend on: request, names and room.  A full cluster asks the
 * same few questions over and over; the same bytes are the answer until the room changes.
 */
struct refusal_key {
    const struct request *request;
    uint64_t names; /* digest, in order */
    uint64_t capacity_generation;
};
bool hints_answer_find(struct hints *hints, const struct refusal_key *key, struct strbuf *out,
                       enum reason *out_reason);
void hints_answer_keep(struct hints *hints, const struct refusal_key *key, struct text bytes,
                       enum reason reason);

/* --- who is to be woken --- */

/* Those that were refused, and those whose offer is late. */
size_t hints_waiting(struct hints *hints);
/* More wait than can be remembered, or did until a while ago; or one whose wish found no room. */
bool hints_overflow(struct hints *hints, int64_t now_ms);
/*
 * Does anybody who waits fit on one of these nodes?  True when in doubt: too many distinct
 * requests, or too dear ones, or more askers than can be remembered.  The searches are made
 * without the lock.
 */
bool hints_would_fit(struct hints *hints, int64_t now_ms, const struct node *const *node,
                     size_t nodes);
/*
 * Offers that have become late: true if kube-scheduler should be woken for one of them, because
 * its list was not all that fitted, or room came behind it.  out_node is then where one of them
 * would best have gone; NULL if that is not known.
 */
bool hints_late(struct hints *hints, int64_t now_ms, uint64_t capacity_generation,
                const struct atom **out_node);

/* --- entries follow the life of their pods --- */

/* What the watch knows of a pod; called under the lock. */
enum hints_pod { HINTS_POD_UNKNOWN, HINTS_POD_UNBOUND, HINTS_POD_BOUND };
typedef enum hints_pod hints_look(void *user, struct text uid);

/* The next few: who is bound goes, and who is not known although it was asked about long ago. */
void hints_maintain(struct hints *hints, int64_t now_ms, void *user, hints_look *look);
/* A list is complete that was asked for then: who asked before, and is not known, is gone. */
void hints_listed(struct hints *hints, int64_t asked_ms, void *user, hints_look *look);

/* --- for people --- */

struct waiting {
    const char *uid;
    const char *namespace;
    const char *name;
    const struct request *request; /* without names; NULL: the request itself is refused, or */
    bool wishless;                 /* it found no room, or it was not asked for */
    struct wish *held;             /* keeps the request; NULL: nothing does */
    const char *text;
    enum reason reason; /* NONE: offered so many of those that fitted */
    uint32_t offered;
    uint32_t fitting;
    int64_t since_ms; /* UTC */
    int64_t last_ms;  /* UTC */
    uint64_t asks;
};

/*
 * Those that hints_waiting() counts, a few at a time: *place begins at 0, and false is the end.
 * Others come in between: who waits all the while is named once, whoever comes or goes perhaps,
 * and who goes and comes twice perhaps.  What is named lives in arena; a key is
 * "namespace/name/uid".
 */
struct waiting_names {
    size_t count;
    const char *uid[SLICE_MAX];
    const char *key[SLICE_MAX];
};
bool hints_names(struct hints *hints, size_t *place, struct arena *arena,
                 struct waiting_names *out);
/* One of those, with the request, until hints_let_go(); false: it does not wait any more. */
bool hints_hold(struct hints *hints, struct text uid, struct arena *arena, struct waiting *out);
void hints_let_go(struct hints *hints, struct waiting *waiting);

/* Has this pod asked, whatever came of it? */
bool hints_has_asked(struct hints *hints, struct text uid);
/* Whoever was refused or offered nodes, late or not, and is not being bound; without request. */
bool hints_find(struct hints *hints, struct text uid, struct arena *arena, struct waiting *out);

/* What the tables take beside what is fixed. */
struct hints_bytes {
    size_t askers;
    size_t wishes;
    size_t refusals;
};
struct hints_bytes hints_bytes(struct hints *hints);

#endif
