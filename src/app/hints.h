/*
 * hints - what filter remembers between two questions.  Bounded tables, one lock.
 *
 *   offer     this pod was given a list: its best place counts as taken in the ranking of others
 *             for two seconds; a list that led to no bind within one second makes the next one
 *             four times longer
 *   waiting   this pod was refused, and why: for the bell and for REST
 *   answer    the bytes that refused a request, while nothing that matters has changed
 *
 * Hints change order and length of answers, never whether a node fits.
 *
 * No lost wake-up: filter records the refusal and then reads the room generation again; the
 * writer publishes and then looks at what waits.  Whoever comes second sees the other.
 */
#ifndef MILLIGPU_HINTS_H
#define MILLIGPU_HINTS_H

#include "milligpu/filter.h"
#include "milligpu/strbuf.h"

enum {
    OFFERS_MAX = 4096,
    WAITING_MAX = 16384,
    OFFER_LIVE_MS = 2000,
    OFFER_STALE_MS = 1000, /* no bind for so long: another plugin may have refused the list */
    OFFER_GROWTH = 4,
    GHOSTS_MAX = 1024,
    ANSWERS_MAX = 64, /* distinct refused questions */
};

struct hints;

struct hints *hints_new(void) MUST_USE;
void hints_free(struct hints *hints);

/* How long this pod's next list may be (shortlist 0 stays 0), and which ghosts stand before it. */
uint32_t hints_shortlist(struct hints *hints, struct text uid, uint32_t shortlist, int64_t now_ms);
uint32_t hints_ghosts(struct hints *hints, struct text uid, int64_t now_ms,
                      struct ghost ghost[GHOSTS_MAX]);
void hints_offered(struct hints *hints, struct text uid, int64_t now_ms, uint32_t listed,
                   const struct candidate *best, const struct request *request);

/* One refused question. */
struct waiting {
    const char *uid;
    const char *namespace;
    const char *name;
    const struct request *request; /* NULL: the request itself is refused */
    const char *text;
    enum reason reason;
    int64_t since_ms; /* UTC */
    int64_t last_ms;  /* UTC */
    uint64_t asks;
};
void hints_refused(struct hints *hints, const struct waiting *waiting);

/*
 * Answers of refusals, by what they depend on: request, names and room.  A full cluster asks the
 * same few questions over and over; the same bytes are the answer until the room changes.
 */
struct refusal_key {
    const struct request *request;
    uint64_t names; /* digest, in order */
    uint64_t room;
};
bool hints_answer_find(struct hints *hints, const struct refusal_key *key, struct strbuf *out,
                       enum reason *out_reason);
void hints_answer_keep(struct hints *hints, const struct refusal_key *key, struct text bytes,
                       enum reason reason);

/* Bound, gone, or fitting again. */
void hints_settled(struct hints *hints, struct text uid);
void hints_fits(struct hints *hints, struct text uid); /* no longer waiting; the offer stays */

size_t hints_waiting(struct hints *hints);
/* Does any waiting request fit on one of these nodes? Distinct requests only; true when in
   doubt. */
bool hints_would_fit(struct hints *hints, const struct node *const *node, size_t nodes);
/* Visit under the lock: copy what you need. */
void hints_each(struct hints *hints, void *user,
                void (*visit)(void *user, const struct waiting *waiting));
bool hints_find(struct hints *hints, struct text uid, struct arena *arena, struct waiting *out);

#endif
