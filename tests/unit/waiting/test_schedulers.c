/* Which schedulers ask, and which calls an autoscaler makes to simulate. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/waiting/schedulers.h"

#include "support/test.h"

static int set_up(void **state)
{
    *state = schedulers_new();
    return 0;
}

static int tear_down(void **state)
{
    schedulers_free(*state);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct schedulers *schedulers, set_up, tear_down)

FIXTURE_TEST(whole_nodes__are_a_simulation_where_the_scheduler_sends_names)
{
    assert_true(schedulers_asked(schedulers, "gpu", ASK_NODES, 0)); /* nothing is known yet */
    assert_true(schedulers_asked(schedulers, "gpu", ASK_NAMES, 1000));
    assert_false(schedulers_asked(schedulers, "gpu", ASK_NODES, 1000));
    assert_true(schedulers_asked(schedulers, "gpu", ASK_NAMES, 2000));
    assert_false(schedulers_asked(schedulers, "gpu", ASK_NODES, 2000 + SIMULATED_MAX_MS));
    assert_true(schedulers_asked(schedulers, "gpu", ASK_NODES, 2001 + SIMULATED_MAX_MS));
}

FIXTURE_TEST(whole_nodes__are_no_simulation_of_another_scheduler)
{
    assert_true(schedulers_asked(schedulers, "gpu", ASK_NAMES, 1));
    assert_true(schedulers_asked(schedulers, "old", ASK_NODES, 2));
    assert_true(schedulers_asked(schedulers, "old", ASK_NODES, 3));
    assert_true(schedulers_asked(schedulers, NULL, ASK_NODES, 3));
    assert_true(schedulers_asked(schedulers, NULL, ASK_NAMES, 4));
    assert_false(schedulers_asked(schedulers, SCHEDULER_DEFAULT, ASK_NODES, 5));
}

/* It was configured anew: an autoscaler never calls prioritize. */
FIXTURE_TEST(whole_nodes__in_prioritize_are_the_schedulers_own)
{
    assert_true(schedulers_asked(schedulers, "gpu", ASK_NAMES, 1));
    assert_false(schedulers_asked(schedulers, "gpu", ASK_NODES, 2));
    schedulers_scored(schedulers, "gpu", ASK_NODES, 3);
    assert_true(schedulers_asked(schedulers, "gpu", ASK_NODES, 4));
    schedulers_scored(schedulers, "gpu", ASK_NAMES, 5);
    assert_false(schedulers_asked(schedulers, "gpu", ASK_NODES, 6));
}

FIXTURE_TEST(scheduler__serves_once_it_has_asked)
{
    assert_false(schedulers_serves(schedulers, NULL));
    assert_true(schedulers_asked(schedulers, NULL, ASK_NODES, 1));
    assert_true(schedulers_serves(schedulers, NULL)); /* all send whole Nodes here */
    assert_true(schedulers_serves(schedulers, SCHEDULER_DEFAULT));
    assert_false(schedulers_serves(schedulers, "made-up"));
    assert_true(schedulers_asked(schedulers, "gpu", ASK_NAMES, 2));
    assert_true(schedulers_serves(schedulers, "gpu"));
    assert_false(schedulers_serves(schedulers, NULL)); /* perhaps only an autoscaler asked */
    schedulers_scored(schedulers, NULL, ASK_NODES, 3);
    assert_true(schedulers_serves(schedulers, NULL));
}

FIXTURE_TEST(schedulers__are_listed_in_the_order_of_their_first_call)
{
    CLEANUP(arena_done) struct arena arena;
    const char *name[SCHEDULERS_MAX];

    arena_init(&arena);
    assert_int_equal(schedulers_served(schedulers, &arena, name), 0);
    (void)schedulers_asked(schedulers, "b", ASK_NAMES, 1);
    (void)schedulers_asked(schedulers, "made-up", ASK_NODES, 1);
    (void)schedulers_asked(schedulers, "a", ASK_NAMES, 2);
    assert_int_equal(schedulers_served(schedulers, &arena, name), 2);
    assert_string_equal(name[0], "b");
    assert_string_equal(name[1], "a");
}

static void ask_made_up(void *schedulers, enum ask_form form, int64_t from_ms)
{
    char name[32];

    for (int i = 0; i < SCHEDULERS_MAX; i++) {
        (void)snprintf(name, sizeof name, "made-up-%d-%d", (int)form, i);
        assert_true(schedulers_asked(schedulers, name, form, from_ms + i));
    }
}

FIXTURE_TEST(simulated_names__go_first)
{
    (void)schedulers_asked(schedulers, "gpu", ASK_NAMES, 1);
    ask_made_up(schedulers, ASK_NODES, 1000);
    assert_true(schedulers_serves(schedulers, "gpu"));
    assert_false(schedulers_serves(schedulers, "never-seen"));
    ask_made_up(schedulers, ASK_NAMES, 2000);
    /* A scheduler that asked had to go: now every name counts as one that asked. */
    assert_true(schedulers_serves(schedulers, "gpu"));
    assert_true(schedulers_serves(schedulers, "never-seen"));
}

FIXTURE_TEST(long_name__has_room)
{
    char name[254];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_true(schedulers_asked(schedulers, name, ASK_NAMES, 1));
    assert_true(schedulers_serves(schedulers, name));
    name[sizeof name - 2] = 'm';
    assert_false(schedulers_serves(schedulers, name));
}
