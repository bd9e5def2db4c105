/*
 * flow - schedules the calls to the API server.
 *
 * A queue of borrowed tickets, without I/O and without a clock.
 *
 *   flow_line_up -> waits --flow_next--> in flight --flow_leave--> out
 *                     \<-----flow_again-----/
 *
 * Guarantees:
 *   - Each lane has a limit of tickets in flight. For Bindings and GETs it is a window as in TCP:
 *     halved when the server is busy or does not answer, at most once per FLOW_HALVE_MS; while it
 *     is full it grows by one per answer (slow start), and after the first halving by one per
 *     windowful of answers.
 *   - Within a namespace the earliest deadline goes first; namespaces take turns, so that a
 *     thousand pods of one tenant do not delay the single pod of another.
 *   - A ticket with a deadline is sent only while enough time for an answer is left (a quarter of
 *     its initial time, at most FLOW_LEAST_MS): a call that was never sent certainly has no effect.
 *   - flow_shut() holds back all tickets: Retry-After.
 *   - Retries share one budget; when it is used up, they are delayed one by one as it refills.
 *
 * Every operation is O(log n) in the number of tickets. Not thread-safe.
 */
#ifndef MILLIGPU_FLOW_H
#define MILLIGPU_FLOW_H

#include "milligpu/base/base.h"

#include "heap.h"

enum flow_lane {
    LANE_WAKE, /* wake-ups: before all others, one at a time */
    LANE_BIND, /* Bindings and their GETs */
    LANE_SIDE, /* Events and advertised capacity: low priority */
    LANES,
};

enum {
    FLOW_WINDOW_FIRST = 64,
    FLOW_WINDOW_MIN = 4,
    FLOW_WINDOW_MAX = 256,
    FLOW_SIDE_MAX = 8,
    FLOW_HALVE_MS = 1000,
    FLOW_LEAST_MS = 1000,
    FLOW_SHUT_MAX_MS = 60 * 1000, /* limit for Retry-After */
    FLOW_RETRIES = 100,           /* size of the retry budget */
    FLOW_RETRIES_PER_S = 50,
};

/* The owner sets the first four fields before flow_line_up; the rest is zeroed. */
struct ticket {
    void *owner;
    enum flow_lane lane;
    /* borrowed while the ticket waits; "" is a namespace, too */
    const char *namespace;
    int64_t deadline_ms; /* 0: none */

    /* entry in its line's heap (by deadline) or in that of delayed tickets (by time) */
    struct heap_node turn;
    struct heap_node limit; /* entry in the heap of deadlines, if it has one */
    int64_t send_by_ms;     /* last time at which it may be sent */
    bool in_flight;
    struct line *line; /* NULL while delayed or in flight */
};

struct flow;

struct flow *flow_new(void) MUST_USE;
void flow_free(struct flow *flow); /* NULL is fine; does not free tickets */

/* Adds a new ticket. */
void flow_line_up(struct flow *flow, struct ticket *ticket, int64_t now_ms);
/* Returns the ticket to send now and counts it as in flight; NULL if none may be sent. */
struct ticket *flow_next(struct flow *flow, int64_t now_ms);
/* Requeues a ticket in flight, not before not_before_ms. retry: takes from the retry budget. */
void flow_again(struct flow *flow, struct ticket *ticket, int64_t now_ms, int64_t not_before_ms,
                bool retry);
/*
 * Returns a ticket that has waited too long to be sent or whose deadline has passed in flight; NULL
 * if there is none. It stays in the queue until the caller removes it.
 */
struct ticket *flow_late(const struct flow *flow, int64_t now_ms);
void flow_leave(struct flow *flow, struct ticket *ticket);

/*
 * How a call in LANE_BIND ended, as a sign of the server's load; to be reported while the call
 * still counts as in flight.
 */
enum flow_news { FLOW_ANSWERED, FLOW_BUSY, FLOW_SILENT };
void flow_take_news(struct flow *flow, int64_t now_ms, enum flow_news news);
/* Sends no ticket before until_ms. */
void flow_shut(struct flow *flow, int64_t now_ms, int64_t until_ms);

/* Returns the ms until the next event other than an answer; at most idle_ms. */
int64_t flow_wait_ms(struct flow *flow, int64_t now_ms, int64_t idle_ms);

struct flow_stats {
    size_t waiting; /* tickets not in flight, delayed ones included */
    size_t in_flight;
    size_t window;
};
struct flow_stats flow_stats(const struct flow *flow);

#endif
