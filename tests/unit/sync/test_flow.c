#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "support/test.h"
#include "sync/flow.h"

enum { TICKETS = 4096, NOW = 1000 };

struct flow_fixture {
    struct flow *flow;
    struct ticket ticket[TICKETS];
    uint32_t n_tickets;
};

static int set_up(void **state)
{
    struct flow_fixture *fixture = xcalloc(1, sizeof *fixture);

    fixture->flow = flow_new();
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct flow_fixture *fixture = *state;

    flow_free(fixture->flow);
    xfree(fixture);
    return 0;
}

#define FLOW_TEST(name) TEST_WITH(name, struct flow_fixture *fixture, set_up, tear_down)

static struct ticket *comes(struct flow_fixture *fixture, const char *namespace,
                            int64_t deadline_ms)
{
    struct ticket *ticket = &fixture->ticket[fixture->n_tickets++];

    *ticket = (struct ticket){
        .owner = ticket, .lane = LANE_BIND, .namespace = namespace, .deadline_ms = deadline_ms};
    flow_line_up(fixture->flow, ticket, NOW);
    return ticket;
}

static struct ticket *comes_to(struct flow_fixture *fixture, enum flow_lane lane)
{
    struct ticket *ticket = &fixture->ticket[fixture->n_tickets++];

    *ticket = (struct ticket){.owner = ticket, .lane = lane, .namespace = ""};
    flow_line_up(fixture->flow, ticket, NOW);
    return ticket;
}

static uint32_t go(struct flow_fixture *fixture, int64_t now_ms)
{
    uint32_t gone = 0;

    while (flow_next(fixture->flow, now_ms) != NULL)
        gone++;
    return gone;
}

FLOW_TEST(flow__sends_the_earliest_deadline_of_a_namespace_first)
{
    struct ticket *late = comes(fixture, "a", 9000);
    struct ticket *early = comes(fixture, "a", 5000);
    struct ticket *never = comes(fixture, "a", 0);
    struct ticket *also_early = comes(fixture, "a", 5000);

    assert_ptr_equal(flow_next(fixture->flow, NOW), early);
    assert_ptr_equal(flow_next(fixture->flow, NOW), also_early);
    assert_ptr_equal(flow_next(fixture->flow, NOW), late);
    assert_ptr_equal(flow_next(fixture->flow, NOW), never);
    assert_null(flow_next(fixture->flow, NOW));
}

FLOW_TEST(flow__serves_namespaces_in_turn)
{
    for (int i = 0; i < 1000; i++)
        (void)comes(fixture, "many", 5000);
    struct ticket *one = comes(fixture, "one", 9000);
    struct ticket *two = comes(fixture, "two", 9000);
    assert_ptr_equal(flow_next(fixture->flow, NOW), &fixture->ticket[0]);
    assert_ptr_equal(flow_next(fixture->flow, NOW), one);
    assert_ptr_equal(flow_next(fixture->flow, NOW), two);
    assert_ptr_equal(flow_next(fixture->flow, NOW), &fixture->ticket[1]);
}

FLOW_TEST(flow__limits_requests_in_flight_to_the_window)
{
    for (int i = 0; i < 3000; i++)
        (void)comes(fixture, "a", 9000);
    assert_int_equal(go(fixture, NOW), FLOW_WINDOW_FIRST);
    flow_leave(fixture->flow, &fixture->ticket[3]);
    flow_leave(fixture->flow, &fixture->ticket[7]);
    assert_int_equal(go(fixture, NOW), 2);
    assert_int_equal(flow_stats(fixture->flow).in_flight, FLOW_WINDOW_FIRST);
    assert_int_equal(flow_stats(fixture->flow).waiting, 3000 - FLOW_WINDOW_FIRST - 2);
    assert_int_equal(flow_wait_ms(fixture->flow, NOW, 500), 500);
}

FLOW_TEST(flow__has_small_lanes_for_wake_ups_and_events)
{
    for (int i = 0; i < 1000; i++)
        (void)comes(fixture, "a", 9000);
    for (int i = 0; i < 100; i++)
        (void)comes_to(fixture, LANE_SIDE);
    struct ticket *wake = comes_to(fixture, LANE_WAKE);
    (void)comes_to(fixture, LANE_WAKE);
    assert_ptr_equal(flow_next(fixture->flow, NOW), wake);
    assert_int_equal(go(fixture, NOW), FLOW_WINDOW_FIRST + FLOW_SIDE_MAX);
}

FLOW_TEST(window__grows_to_a_limit_while_the_server_keeps_up)
{
    uint32_t answered = 0;

    for (int i = 0; i < 4000; i++)
        (void)comes(fixture, "a", 9000);
    while (go(fixture, NOW) > 0)
        for (; answered < fixture->n_tickets && fixture->ticket[answered].in_flight; answered++) {
            flow_take_news(fixture->flow, NOW, FLOW_ANSWERED);
            flow_leave(fixture->flow, &fixture->ticket[answered]);
            (void)go(fixture, NOW);
        }
    assert_int_equal(answered, 4000);
    assert_int_equal(flow_stats(fixture->flow).window, FLOW_WINDOW_MAX);
}

FLOW_TEST(window__does_not_grow_while_nothing_waits)
{
    for (int i = 0; i < 1000; i++) {
        struct ticket *ticket = comes(fixture, "a", 9000);
        assert_ptr_equal(flow_next(fixture->flow, NOW), ticket);
        flow_take_news(fixture->flow, NOW, FLOW_ANSWERED);
        flow_leave(fixture->flow, ticket);
    }
    assert_int_equal(flow_stats(fixture->flow).window, FLOW_WINDOW_FIRST);
}

FLOW_TEST(window__halves_once_a_second_while_the_server_is_busy)
{
    for (int i = 0; i < 40; i++)
        flow_take_news(fixture->flow, NOW, FLOW_BUSY);
    assert_int_equal(flow_stats(fixture->flow).window, FLOW_WINDOW_FIRST / 2);
    flow_take_news(fixture->flow, NOW + FLOW_HALVE_MS, FLOW_SILENT);
    assert_int_equal(flow_stats(fixture->flow).window, FLOW_WINDOW_FIRST / 4);
    for (int i = 2; i < 40; i++)
        flow_take_news(fixture->flow, NOW + i * FLOW_HALVE_MS, FLOW_SILENT);
    assert_int_equal(flow_stats(fixture->flow).window, FLOW_WINDOW_MIN);
}

FLOW_TEST(retry_after__holds_all_lanes)
{
    (void)comes(fixture, "a", 9000);
    (void)comes_to(fixture, LANE_WAKE);
    flow_shut(fixture->flow, NOW, NOW + 2000);
    flow_shut(fixture->flow, NOW, NOW + 1000); /* the longer one counts */
    assert_int_equal(go(fixture, NOW + 1999), 0);
    assert_int_equal(flow_wait_ms(fixture->flow, NOW + 500, 60000), 1500);
    assert_int_equal(go(fixture, NOW + 2000), 2);
}

FLOW_TEST(retry_after__is_limited_to_a_minute)
{
    (void)comes_to(fixture, LANE_WAKE);
    flow_shut(fixture->flow, NOW, NOW + 3600 * 1000);
    assert_int_equal(go(fixture, NOW + FLOW_SHUT_MAX_MS), 1);
}

FLOW_TEST(flow__drops_requests_without_time_for_an_answer)
{
    struct ticket *ticket = comes(fixture, "a", NOW + 4000);

    flow_shut(fixture->flow, NOW, NOW + 3500);
    assert_null(flow_late(fixture->flow, NOW + 2999));
    assert_int_equal(flow_wait_ms(fixture->flow, NOW + 2999, 60000), 1);
    assert_ptr_equal(flow_late(fixture->flow, NOW + 3000), ticket);
    flow_leave(fixture->flow, ticket);
    assert_null(flow_late(fixture->flow, NOW + 9000));
    struct ticket *brief = comes(fixture, "a", NOW + 400);
    assert_null(flow_late(fixture->flow, NOW + 299));
    assert_ptr_equal(flow_late(fixture->flow, NOW + 300), brief);
}

FLOW_TEST(flow__gives_requests_in_flight_their_whole_time)
{
    struct ticket *ticket = comes(fixture, "a", NOW + 4000);

    assert_int_equal(go(fixture, NOW), 1);
    assert_null(flow_late(fixture->flow, NOW + 3999));
    assert_ptr_equal(flow_late(fixture->flow, NOW + 4000), ticket);
    flow_again(fixture->flow, ticket, NOW + 3500, NOW + 3600, true);
    assert_ptr_equal(flow_late(fixture->flow, NOW + 3500), ticket);
}

FLOW_TEST(retry__waits_and_goes_before_later_requests)
{
    struct ticket *first = comes(fixture, "a", 9000);

    assert_ptr_equal(flow_next(fixture->flow, NOW), first);
    flow_again(fixture->flow, first, NOW, NOW + 50, true);
    assert_null(flow_next(fixture->flow, NOW + 49));
    assert_int_equal(flow_wait_ms(fixture->flow, NOW + 20, 1000), 30);
    struct ticket *younger = comes(fixture, "a", 9500);
    assert_ptr_equal(flow_next(fixture->flow, NOW + 50), first);
    assert_ptr_equal(flow_next(fixture->flow, NOW + 50), younger);
}

FLOW_TEST(retry__has_a_budget_and_a_rate)
{
    uint32_t gone = 0;

    for (int i = 0; i < 1000; i++) {
        struct ticket *ticket = comes(fixture, "a", 0);
        assert_ptr_equal(flow_next(fixture->flow, NOW), ticket);
        flow_again(fixture->flow, ticket, NOW, NOW + 1, true);
    }
    for (int64_t at = NOW + 1; at <= NOW + 1 + 10000; at += 10) {
        struct ticket *ticket;
        while ((ticket = flow_next(fixture->flow, at)) != NULL) {
            flow_leave(fixture->flow, ticket);
            gone++;
        }
        if (at == NOW + 1)
            assert_int_equal(gone, FLOW_RETRIES);
    }
    assert_in_range(gone, FLOW_RETRIES + 10 * FLOW_RETRIES_PER_S - 1,
                    FLOW_RETRIES + 10 * FLOW_RETRIES_PER_S + 1);
}

FLOW_TEST(retry__is_free_after_retry_after)
{
    for (int i = 0; i < 500; i++) {
        struct ticket *ticket = comes(fixture, "a", 0);
        assert_ptr_equal(flow_next(fixture->flow, NOW), ticket);
        flow_again(fixture->flow, ticket, NOW, NOW + 1000, false);
    }
    flow_take_news(fixture->flow, NOW, FLOW_ANSWERED);
    assert_int_equal(go(fixture, NOW + 1000), FLOW_WINDOW_FIRST);
}

/* In any order of events nothing is lost, nothing is sent twice, and the bounds hold. */
FLOW_TEST(flow__loses_no_request_in_any_order_of_events)
{
    static const char *const space[] = {"a", "b", "c", "d", "e"};
    unsigned seed = 7;
    uint32_t out = 0;
    int64_t now = NOW;

    while (out < TICKETS) {
        for (int k = rand_r(&seed) % 4; k > 0 && fixture->n_tickets < TICKETS; k--)
            (void)comes(fixture, space[rand_r(&seed) % 5],
                        rand_r(&seed) % 3 == 0 ? 0 : now + rand_r(&seed) % 5000);
        struct ticket *late = flow_late(fixture->flow, now);
        if (late != NULL) {
            flow_leave(fixture->flow, late);
            out++;
        }
        (void)flow_next(fixture->flow, now);
        struct ticket *any = &fixture->ticket[(uint32_t)rand_r(&seed) %
                                              (fixture->n_tickets > 0 ? fixture->n_tickets : 1)];
        if (any->in_flight && rand_r(&seed) % 3 == 0) {
            flow_again(fixture->flow, any, now, now + rand_r(&seed) % 300, rand_r(&seed) % 2 == 0);
        } else if (any->in_flight) {
            flow_take_news(fixture->flow, now, (enum flow_news)(rand_r(&seed) % 3));
            flow_leave(fixture->flow, any);
            out++;
        }
        now += rand_r(&seed) % 20;
        const struct flow_stats stats = flow_stats(fixture->flow);
        assert_true(stats.in_flight <= FLOW_WINDOW_MAX);
        assert_int_equal(stats.waiting + stats.in_flight, fixture->n_tickets - out);
    }
}
