/*
 * Schedules the calls to the API server: lanes, a window, and a retry budget (docs/why/010).
 * outbox.c calls it on its thread. No I/O, no clock, no lock: each function gets the time, so that
 * the simulator can run it. A ticket belongs to its call and must leave before it is freed. It is
 * in exactly one place: in a line, among the delayed ones, or in flight; a ticket with a deadline
 * is in the heap of deadlines as well. In order: lines, deadlines, the budget, sending, the window.
 */
#include "flow.h"

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"

enum { WHOLE_RETRY = 1000 }; /* the budget is counted in thousandths */

/* The tickets of a namespace in one lane. Lines form a ring (round robin). */
struct line {
    char *namespace;
    struct heap ready; /* by deadline */
    struct line *next;
};

struct lane {
    struct map lines;   /* by namespace */
    struct line *first; /* the line in turn */
    struct line *last;
    size_t in_flight;
    size_t limit; /* limit of in_flight; in LANE_BIND the window */
};

struct flow {
    struct lane lane[LANES];
    struct heap put_off;  /* delayed tickets, by the end of the delay */
    struct heap deadline; /* tickets by send_by_ms while they wait, by deadline_ms in flight */
    size_t waiting;
    int64_t shut_until_ms; /* end of Retry-After; nothing is sent before */
    int64_t halved_ms;
    bool halved_ever;
    size_t answers; /* answers to a full window since it last grew */
    int64_t budget; /* in thousandths; negative: debt */
    int64_t budget_ms;
};

struct flow *flow_new(void)
{
    struct flow *flow = xcalloc(1, sizeof *flow);

    for (size_t i = 0; i < LANES; i++)
        map_init(&flow->lane[i].lines);
    flow->lane[LANE_WAKE].limit = 1;
    flow->lane[LANE_BIND].limit = FLOW_WINDOW_FIRST;
    flow->lane[LANE_SIDE].limit = FLOW_SIDE_MAX;
    flow->budget = (int64_t)FLOW_RETRIES * WHOLE_RETRY;
    return flow;
}

static void line_free(struct line *line)
{
    heap_done(&line->ready);
    xfree(line->namespace);
    xfree(line);
}

void flow_free(struct flow *flow)
{
    if (flow == NULL)
        return;
    for (size_t i = 0; i < LANES; i++) {
        struct line *line;
        for (size_t at = 0; (line = map_next(&flow->lane[i].lines, &at)) != NULL;)
            line_free(line);
        map_done(&flow->lane[i].lines);
    }
    heap_done(&flow->put_off);
    heap_done(&flow->deadline);
    xfree(flow);
}

/* --- lines --- */

static void join_ring(struct lane *lane, struct line *line)
{
    must(line->next == NULL && line != lane->last);
    if (lane->last != NULL)
        lane->last->next = line;
    else
        lane->first = line;
    lane->last = line;
}

/* An empty line stays until its turn, so that removing a ticket never searches the ring. */
static struct line *flow_line_of(struct lane *lane, const char *namespace)
{
    must(namespace != NULL);
    struct line *line = map_find(&lane->lines, text_of(namespace));

    if (line != NULL)
        return line;
    line = xcalloc(1, sizeof *line);
    line->namespace = xstrdup(namespace);
    must(map_put(&lane->lines, text_of(line->namespace), line) == NULL);
    join_ring(lane, line);
    return line;
}

/* Tickets without a deadline come after all others. */
static void stand_in_line(struct flow *flow, struct ticket *ticket)
{
    must(ticket->turn.position == 0 && !ticket->in_flight && ticket->line == NULL);
    ticket->line = flow_line_of(&flow->lane[ticket->lane], ticket->namespace);
    heap_put(&ticket->line->ready, &ticket->turn,
             ticket->deadline_ms != 0 ? ticket->deadline_ms : INT64_MAX);
}

/* Takes the next line that is not empty; frees empty ones on the way. */
static struct line *line_in_turn(struct lane *lane)
{
    struct line *line;

    while ((line = lane->first) != NULL) {
        must((lane->last == line) == (line->next == NULL));
        lane->first = line->next;
        if (lane->first == NULL)
            lane->last = NULL;
        line->next = NULL;
        if (line->ready.count > 0)
            return line;
        must(map_take(&lane->lines, text_of(line->namespace)) == line);
        line_free(line);
    }
    return NULL;
}

/* --- limits --- */

/* Sets the time for flow_late(): send_by_ms while the ticket waits, its deadline in flight. */
static void limit_to(struct flow *flow, struct ticket *ticket, int64_t at_ms)
{
    must(at_ms >= 0);
    heap_take(&flow->deadline, &ticket->limit);
    if (ticket->deadline_ms != 0)
        heap_put(&flow->deadline, &ticket->limit, at_ms);
}

static void wait_from(struct flow *flow, struct ticket *ticket, int64_t now_ms, int64_t from_ms)
{
    limit_to(flow, ticket, ticket->send_by_ms);
    flow->waiting++;
    if (from_ms <= now_ms)
        stand_in_line(flow, ticket);
    else
        heap_put(&flow->put_off, &ticket->turn, from_ms);
    must(ticket->turn.position != 0);
}

void flow_line_up(struct flow *flow, struct ticket *ticket, int64_t now_ms)
{
    const int64_t all_ms = ticket->deadline_ms - now_ms;

    must(ticket->owner != NULL && ticket->lane < LANES && ticket->turn.position == 0);
    ticket->turn.owner = ticket->limit.owner = ticket;
    /* If the deadline has passed, send_by_ms stays 0 and the ticket is late at once. */
    if (all_ms > 0)
        ticket->send_by_ms =
            ticket->deadline_ms - (all_ms / 4 < FLOW_LEAST_MS ? all_ms / 4 : FLOW_LEAST_MS);
    wait_from(flow, ticket, now_ms, now_ms);
}

static void leave_the_air(struct flow *flow, struct ticket *ticket)
{
    must(ticket->in_flight && flow->lane[ticket->lane].in_flight > 0);
    ticket->in_flight = false;
    flow->lane[ticket->lane].in_flight--;
}

void flow_leave(struct flow *flow, struct ticket *ticket)
{
    must(ticket->in_flight == (ticket->turn.position == 0));
    heap_take(&flow->deadline, &ticket->limit);
    if (ticket->in_flight) {
        leave_the_air(flow, ticket);
        return;
    }
    must(flow->waiting > 0);
    flow->waiting--;
    heap_take(ticket->line != NULL ? &ticket->line->ready : &flow->put_off, &ticket->turn);
    ticket->line = NULL;
}

struct ticket *flow_late(const struct flow *flow, int64_t now_ms)
{
    const struct heap_node *first = heap_first(&flow->deadline);

    if (first == NULL || first->key > now_ms)
        return NULL;
    must(first->owner != NULL);
    return first->owner;
}

/* --- the budget --- */

/* Refills the budget: 50 retries a second are 50 thousandths in each millisecond. */
static void flow_refill(struct flow *flow, int64_t now_ms)
{
    must(flow->budget <= (int64_t)FLOW_RETRIES * WHOLE_RETRY);
    if (now_ms > flow->budget_ms)
        flow->budget += (now_ms - flow->budget_ms) * FLOW_RETRIES_PER_S * WHOLE_RETRY / 1000;
    if (flow->budget > (int64_t)FLOW_RETRIES * WHOLE_RETRY)
        flow->budget = (int64_t)FLOW_RETRIES * WHOLE_RETRY;
    flow->budget_ms = now_ms;
}

/*
 * Takes one retry from the budget and returns the time at which it is covered. The budget may
 * become negative: each further retry is then delayed by 20 ms more, so that a thousand of them do
 * not return at once.
 */
static int64_t afforded_ms(struct flow *flow, int64_t now_ms)
{
    flow_refill(flow, now_ms);
    flow->budget -= WHOLE_RETRY;
    must(flow->budget < (int64_t)FLOW_RETRIES * WHOLE_RETRY);
    return flow->budget >= 0 ? now_ms
                             : now_ms - flow->budget * 1000 / FLOW_RETRIES_PER_S / WHOLE_RETRY;
}

void flow_again(struct flow *flow, struct ticket *ticket, int64_t now_ms, int64_t not_before_ms,
                bool retry)
{
    must(ticket->in_flight);
    const int64_t afforded = retry ? afforded_ms(flow, now_ms) : now_ms;

    leave_the_air(flow, ticket);
    wait_from(flow, ticket, now_ms, afforded > not_before_ms ? afforded : not_before_ms);
}

/* --- sending --- */

static void call_in_those_put_off(struct flow *flow, int64_t now_ms)
{
    struct heap_node *first;

    while ((first = heap_first(&flow->put_off)) != NULL && first->key <= now_ms) {
        must(first->owner != NULL);
        heap_take(&flow->put_off, first);
        stand_in_line(flow, first->owner);
    }
}

static struct ticket *first_of(struct lane *lane)
{
    struct line *line = lane->in_flight < lane->limit ? line_in_turn(lane) : NULL;

    if (line == NULL)
        return NULL;
    struct heap_node *first = heap_first(&line->ready);
    must(first != NULL);
    heap_take(&line->ready, first);
    join_ring(lane, line); /* even if it is empty now: it is freed at its next turn */
    return first->owner;
}

struct ticket *flow_next(struct flow *flow, int64_t now_ms)
{
    struct ticket *ticket = NULL;

    call_in_those_put_off(flow, now_ms);
    if (now_ms < flow->shut_until_ms)
        return NULL;
    /* By priority: LANE_SIDE is served only if no Binding can be sent. */
    for (size_t i = 0; i < LANES && ticket == NULL; i++)
        ticket = first_of(&flow->lane[i]);
    if (ticket == NULL)
        return NULL;
    must(flow->waiting > 0);
    flow->waiting--;
    flow->lane[ticket->lane].in_flight++;
    ticket->line = NULL;
    ticket->in_flight = true;
    limit_to(flow, ticket, ticket->deadline_ms);
    return ticket;
}

/* --- what the server's answers show --- */

/*
 * Only a full window grows: otherwise the answers prove nothing about its size. It doubles per
 * round trip (slow start) until it was halved once, then it grows by one per round trip.
 */
static void flow_widen(struct flow *flow, struct lane *lane)
{
    must(lane->limit <= FLOW_WINDOW_MAX);
    if (lane->in_flight < lane->limit || lane->limit == FLOW_WINDOW_MAX)
        return;
    flow->answers++;
    if (flow->halved_ever && flow->answers < lane->limit)
        return;
    flow->answers = 0;
    lane->limit++;
}

void flow_take_news(struct flow *flow, int64_t now_ms, enum flow_news news)
{
    struct lane *lane = &flow->lane[LANE_BIND];

    must(lane->limit >= FLOW_WINDOW_MIN && lane->limit <= FLOW_WINDOW_MAX);
    if (news == FLOW_ANSWERED) {
        flow_widen(flow, lane);
        return;
    }
    /* Calls that were in flight together fail together: halve the window only once for them. */
    if (flow->halved_ever && now_ms - flow->halved_ms < FLOW_HALVE_MS)
        return;
    flow->halved_ever = true;
    flow->halved_ms = now_ms;
    flow->answers = 0;
    lane->limit = lane->limit / 2 > FLOW_WINDOW_MIN ? lane->limit / 2 : FLOW_WINDOW_MIN;
}

void flow_shut(struct flow *flow, int64_t now_ms, int64_t until_ms)
{
    if (until_ms > now_ms + FLOW_SHUT_MAX_MS)
        until_ms = now_ms + FLOW_SHUT_MAX_MS;
    if (until_ms > flow->shut_until_ms)
        flow->shut_until_ms = until_ms;
    must(flow->shut_until_ms <= now_ms + FLOW_SHUT_MAX_MS);
}

/* --- deadlines --- */

/* May be true for a ring of empty lines only, which costs one step too many. */
static bool somebody_may_go(const struct flow *flow)
{
    for (size_t i = 0; i < LANES; i++)
        if (flow->lane[i].first != NULL && flow->lane[i].in_flight < flow->lane[i].limit)
            return true;
    return false;
}

static int64_t flow_until(int64_t wait_ms, int64_t now_ms, int64_t at_ms)
{
    must(wait_ms >= 0);
    const int64_t left = at_ms > now_ms ? at_ms - now_ms : 0;
    return left < wait_ms ? left : wait_ms;
}

int64_t flow_wait_ms(struct flow *flow, int64_t now_ms, int64_t idle_ms)
{
    const struct heap_node *put_off = heap_first(&flow->put_off);
    const struct heap_node *deadline = heap_first(&flow->deadline);
    int64_t wait_ms = idle_ms;

    must(idle_ms >= 0);
    if (put_off != NULL)
        wait_ms = flow_until(wait_ms, now_ms, put_off->key);
    if (deadline != NULL)
        wait_ms = flow_until(wait_ms, now_ms, deadline->key);
    if (somebody_may_go(flow))
        wait_ms = flow_until(wait_ms, now_ms, flow->shut_until_ms);
    return wait_ms;
}

struct flow_stats flow_stats(const struct flow *flow)
{
    struct flow_stats stats = {.waiting = flow->waiting, .window = flow->lane[LANE_BIND].limit};

    must(stats.window >= FLOW_WINDOW_MIN);
    for (size_t i = 0; i < LANES; i++)
        stats.in_flight += flow->lane[i].in_flight;
    return stats;
}
