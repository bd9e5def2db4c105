/* When the rules of a rulebook hold, and when that changes next. */
#include <stdint.h>

#include "milligpu/core/rules/rulebook.h"

#include "support/test.h"
#include "support/zones.h"

/* 2026-01-05T00:00:00Z, a Monday. */
#define MONDAY_MS INT64_C(1767571200000)
enum { HOUR_MS = 3600 * 1000, RULES = 3 };

struct hours {
    struct rulebook *book;
    struct rule rule[RULES];
    struct window window[RULES];
};

static int hours_start(void **state)
{
    static struct hours hours;

    hours = (struct hours){.book = rulebook_new(POLICY_BINPACK, "test")};
    hours.book->rule = hours.rule;
    hours.book->zone[hours.book->n_zones++] = zone_utc();
    hours.book->zone[hours.book->n_zones++] = zones_of_rule("East", "<+02>-2");
    *state = &hours;
    return 0;
}

static int hours_done(void **state)
{
    rulebook_unref(((struct hours *)*state)->book);
    return 0;
}

#define HOURS_TEST(name) TEST_WITH(name, struct hours *hours, hours_start, hours_done)

/* when NULL: always. */
static void add_rule(struct hours *hours, const char *when)
{
    const uint32_t at = hours->book->n_rules++;
    struct err err;

    hours->rule[at].name = "test";
    if (when == NULL)
        return;
    assert_int_equal(window_parse(text_of(when), &hours->window[at], &err), 0);
    hours->rule[at].window = &hours->window[at];
    hours->rule[at].zone = hours->book->zone[hours->window[at].zone[0] == 'E' ? 1 : 0];
}

HOURS_TEST(rulebook_hours__never_change_without_rules)
{
    assert_true(rulebook_holding(hours->book, MONDAY_MS) == 0);
    assert_true(rulebook_next_ms(hours->book, MONDAY_MS) == INT64_MAX);
    assert_false(rulebook_has_windows(hours->book));
}

HOURS_TEST(rulebook_hours__hold_always_without_windows)
{
    add_rule(hours, NULL);
    add_rule(hours, NULL);
    assert_true(rulebook_holding(hours->book, 0) == 3);
    assert_true(rulebook_next_ms(hours->book, 0) == INT64_MAX);
    assert_false(rulebook_has_windows(hours->book));
}

HOURS_TEST(rulebook_hours__hold_while_the_window_is_open)
{
    add_rule(hours, "Mon-Fri 08:00-20:00");
    add_rule(hours, NULL);
    add_rule(hours, "daily 08:00-20:00 East");
    assert_true(rulebook_has_windows(hours->book));
    assert_true(rulebook_holding(hours->book, MONDAY_MS + 6 * HOUR_MS - 1) == 2);
    assert_true(rulebook_holding(hours->book, MONDAY_MS + 6 * HOUR_MS) == 6);
    assert_true(rulebook_holding(hours->book, MONDAY_MS + 8 * HOUR_MS) == 7);
    assert_true(rulebook_holding(hours->book, MONDAY_MS + 18 * HOUR_MS) == 3);
    assert_true(rulebook_holding(hours->book, MONDAY_MS + 20 * HOUR_MS) == 2);
}

HOURS_TEST(rulebook_hours__change_with_the_next_window)
{
    int64_t at_ms = MONDAY_MS;
    add_rule(hours, "Mon-Fri 08:00-20:00");
    add_rule(hours, NULL);
    add_rule(hours, "daily 08:00-20:00 East");
    static const int hour[] = {6, 8, 18, 20, 24 + 6, 24 + 8};
    for (size_t i = 0; i < ARRAY_LEN(hour); i++) {
        const rule_set before = rulebook_holding(hours->book, at_ms);
        at_ms = rulebook_next_ms(hours->book, at_ms);
        assert_true(at_ms == MONDAY_MS + hour[i] * (int64_t)HOUR_MS);
        assert_true(rulebook_holding(hours->book, at_ms - 1) == before);
        assert_true(rulebook_holding(hours->book, at_ms) != before);
    }
}

HOURS_TEST(rulebook_hours__never_change_for_a_whole_week)
{
    add_rule(hours, "daily");
    assert_true(rulebook_holding(hours->book, MONDAY_MS) == 1);
    assert_true(rulebook_next_ms(hours->book, MONDAY_MS) == INT64_MAX);
}
