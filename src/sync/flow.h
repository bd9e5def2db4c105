/*
 * flow - which call to the API server goes next, and which has to wait.
 *
 * A queue of tickets, without I/O and without a clock.  It owns no ticket.
 *
 *   flow_line_up -> waits --flow_next--> in flight --flow_leave--> out
 *                     \<-----flow_again-----/
 *
 * What it promises:
 *   - A bounded number is in flight in each lane.  For Bindings and GETs the bound is a window, as
 *     TCP has one: half of it when the server says "busy" or does not answer, at most once in
 *     HALVE_MS; one more for each answer while it is full, and once the server was busy, one more
 *     for each windowful of answers.
 *   - Within a namespace the earliest deadline goes first; namespaces take turns, so that one
 *     tenant's thousand pods are not before another's one.
 *   - A ticket with a deadline goes only while enough of its time is left for an answer (a quarter
 *     of what it came with, at most LEAST_MS): what is never sent is certainly without effect.
 *   - flow_shut() holds all of them: Retry-After.
 *   - Second tries draw on one budget; beyond it they are put off, one by one, as it refills.
 *
 * Everything costs O(log n) of what stands in it.  Not thread-safe.
 */
#ifndef MILLIGPU_FLOW_H
#define MILLIGPU_FLOW_H

#include "milligpu/base.h"

#include "sync/heap.h"

enum flow_lane {
    LANE_WAKE, /* wake-ups: alone, before all others */
    LANE_BIND, /* Bindings, and the GETs that belong to them */
    LANE_SIDE, /* Events, advertised capacity: what may be late */
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

/* Set by its owner before flow_line_up: the first part.  Zeroed: the rest. */
struct ticket {
    void *owner;
    enum flow_lane lane;
    const char *namespace; /* "" is one, too; as long as the ticket waits */
    int64_t deadline_ms;   /* 0: none */

    struct heap_node turn;  /* in its line, by deadline; or among those that are put off, by time */
    struct heap_node limit; /* among those that have a deadline */
    int64_t send_by_ms;
    bool in_flight;
    struct line *line; /* NULL: put off, or in flight */
};

struct flow;

struct flow *flow_new(void) MUST_USE;
void flow_free(struct flow *flow); /* may be NULL; tickets are left alone */

/* A new one waits. */
void flow_line_up(struct flow *flow, struct ticket *ticket, int64_t now_ms);
/* Who goes now, in flight from here on; NULL: nobody may. */
struct ticket *flow_next(struct flow *flow, int64_t now_ms);
/* One in flight waits again, until then at least.  retry: it draws on the budget. */
void flow_again(struct flow *flow, struct ticket *ticket, int64_t now_ms, int64_t not_before_ms,
                bool retry);
/* One whose time is up: it waits too late to go, or flies past its deadline.  It stays where it is:
   the caller makes it leave. */
struct ticket *flow_late(const struct flow *flow, int64_t now_ms);
void flow_leave(struct flow *flow, struct ticket *ticket);

/* What the end of a call in LANE_BIND told about the server; said while it is in flight still. */
enum flow_news { FLOW_ANSWERED, FLOW_BUSY, FLOW_SILENT };
void flow_heard(struct flow *flow, int64_t now_ms, enum flow_news news);
/* Nobody goes before then. */
void flow_shut(struct flow *flow, int64_t now_ms, int64_t until_ms);

/* How long it may be left alone, but for answers; at most idle_ms. */
int64_t flow_wait_ms(struct flow *flow, int64_t now_ms, int64_t idle_ms);

struct flow_stats {
    size_t waiting; /* those that are put off among them */
    size_t in_flight;
    size_t window;
};
struct flow_stats flow_stats(const struct flow *flow);

#endif
