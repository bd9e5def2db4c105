/*
 * flow - decides which call to the API server goes next, and which has to wait.
 *
 * A queue of tickets, without I/O and without a clock. It owns no ticket.
 *
 *   flow_line_up -> waits --flow_next--> in flight --flow_leave--> out
 *                     \<-----flow_again-----/
 *
 * Promises:
 *   - A bounded number is in flight in each lane. For Bindings and GETs the bound is a window, as
 *     TCP has one: half of it when the server says "busy" or does not answer, at most once in
 *     HALVE_MS; one more for each answer while it is full, and once the server was busy, one more
 *     for each windowful of answers.
 *   - Within a namespace the earliest deadline goes first; namespaces take turns, so that a
 *     thousand pods of one tenant do not delay the single pod of another.
 *   - A ticket with a deadline goes only while enough of its time is left for an answer (a quarter
 *     of what it came with, at most LEAST_MS): a call that is never sent certainly has no effect.
 *   - flow_shut() holds back all of them: Retry-After.
 *   - Retries share one budget; if it is used up they are put off, one by one, as it refills.
 *
 * Every operation costs O(log n) of the tickets in it. Not thread-safe.
 */
#ifndef MILLIGPU_FLOW_H
#define MILLIGPU_FLOW_H

#include "milligpu/base/base.h"

#include "heap.h"

enum flow_lane {
    LANE_WAKE, /* wake-ups: before all others, one at a time */
    LANE_BIND, /* Bindings, and the GETs that belong to them */
    LANE_SIDE, /* Events and advertised capacity: these may be late */
    LANES,
};

enum {
    FLOW_WINDOW_FIRST = 64,
    FLOW_WINDOW_MIN = 4,
    FLOW_WINDOW_MAX = 256,
    FLOW_SIDE_MAX = 8,
    FLOW_HALVE_MS = 1000,
    FLOW_LEAST_MS = 1000,
    FLOW_SHUT_MAX_MS = 60 * 1000, /* whatever Retry-After says */
    FLOW_RETRIES = 100,           /* the budget when it is full */
    FLOW_RETRIES_PER_S = 50,
};

/* The owner sets the first part before flow_line_up; the rest is zeroed. */
struct ticket {
    void *owner;
    enum flow_lane lane;
    /* "" is a namespace, too; must live as long as the ticket waits */
    const char *namespace;
    int64_t deadline_ms; /* 0: none */

    /* in its line, by deadline; or among the tickets that are put off, by time */
    struct heap_node turn;
    struct heap_node limit; /* among the tickets that have a deadline */
    int64_t send_by_ms;
    bool in_flight;
    struct line *line; /* NULL: put off, or in flight */
};

struct flow;

struct flow *flow_new(void) MUST_USE;
void flow_free(struct flow *flow); /* may be NULL; tickets are not freed */

/* A new ticket waits. */
void flow_line_up(struct flow *flow, struct ticket *ticket, int64_t now_ms);
/* Returns the ticket that goes now, and counts it as in flight; NULL: none may go. */
struct ticket *flow_next(struct flow *flow, int64_t now_ms);
/* A ticket in flight waits again, at least until then. retry: it uses the budget. */
void flow_again(struct flow *flow, struct ticket *ticket, int64_t now_ms, int64_t not_before_ms,
                bool retry);
/*
 * A ticket whose time is up: it has waited too long to be sent, or its deadline has passed in
 * flight. It stays in the queue: the caller removes it.
 */
struct ticket *flow_late(const struct flow *flow, int64_t now_ms);
void flow_leave(struct flow *flow, struct ticket *ticket);

/*
 * What the end of a call in LANE_BIND shows about the server; reported while the call still counts
 * as in flight.
 */
enum flow_news { FLOW_ANSWERED, FLOW_BUSY, FLOW_SILENT };
void flow_heard(struct flow *flow, int64_t now_ms, enum flow_news news);
/* No ticket goes before then. */
void flow_shut(struct flow *flow, int64_t now_ms, int64_t until_ms);

/* How long it may be left alone, except for answers; at most idle_ms. */
int64_t flow_wait_ms(struct flow *flow, int64_t now_ms, int64_t idle_ms);

struct flow_stats {
    size_t waiting; /* of these, the ones that are put off */
    size_t in_flight;
    size_t window;
};
struct flow_stats flow_stats(const struct flow *flow);

#endif
