/* What was measured is stored once a minute and at the end, and no failure loses or doubles it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/measured_sums.h"
#include "milligpu/usage_book.h"
#include "milligpu/writer.h"

#include "support_fixture.h"

static void add(struct app_fixture *fixture, int hour, uint64_t milli_s)
{
    const struct store_measured row = {.hour_ms = hour * (int64_t)STORE_HOUR_MS,
                                       .namespace = "team",
                                       .model = "T4",
                                       .milli_s = milli_s,
                                       .of_milli_s = milli_s};

    assert_true(measured_sums_add(usage_book_sums(fixture->app.usage_book), &row));
}

static void add_up(void *user, const struct store_measured *row)
{
    *(uint64_t *)user += row->milli_s;
}

static uint64_t stored(struct app_fixture *fixture)
{
    uint64_t sum = 0;
    struct err err;

    assert_int_equal(store_measured(fixture->app.store, 0, INT64_MAX / 2, &sum, add_up, &err), 0);
    return sum;
}

static void it_is_stored_once_a_minute_and_at_the_end(void **state)
{
    struct app_fixture *fixture = *state;

    fixture_pass(fixture, 61000);
    add(fixture, 1, 5);
    fixture_pass(fixture, 61000);
    assert_int_equal(stored(fixture), 5);
    add(fixture, 1, 7);
    fixture_pass(fixture, 30000);
    assert_int_equal(stored(fixture), 5);
    fixture_pass(fixture, 61000);
    assert_int_equal(stored(fixture), 12);
    add(fixture, 2, 1);
    writer_end(fixture->parts.writer);
    assert_int_equal(stored(fixture), 13);
}

static void many_rows_are_all_stored_a_chunk_at_a_time(void **state)
{
    struct app_fixture *fixture = *state;

    for (int i = 0; i < 1000; i++)
        add(fixture, i, 1);
    fixture_pass(fixture, 70000);
    assert_int_equal(stored(fixture), 1000);
    for (int i = 0; i < 1000; i++)
        add(fixture, i, 1);
    writer_end(fixture->parts.writer);
    assert_int_equal(stored(fixture), 2000);
}

static void what_could_not_be_stored_is_stored_later_and_once(void **state)
{
    struct app_fixture *fixture = *state;
    const struct fixture_fault fault = {.point = POINT_MEASURE, .nth = 1, .lasting = true};

    fixture_break(fixture, &fault);
    add(fixture, 1, 5);
    fixture_pass(fixture, 130000);
    assert_true(fixture->struck > 1);
    assert_true(fixture->struck < 5); /* not after each batch */
    assert_int_equal(stored(fixture), 0);
    assert_false(fixture_disk_broken(fixture)); /* nothing is granted worse for it */
    add(fixture, 1, 2);
    fixture_heal(fixture);
    fixture_pass(fixture, 130000);
    assert_int_equal(stored(fixture), 7);
}

static void nothing_is_stored_in_safe_mode(void **state)
{
    struct app_fixture *fixture = *state;

    atomic_store(&fixture->app.safe_mode, true);
    add(fixture, 1, 5);
    fixture_pass(fixture, 61000);
    writer_end(fixture->parts.writer);
    assert_int_equal(stored(fixture), 0);
    atomic_store(&fixture->app.safe_mode, false);
    writer_end(fixture->parts.writer);
    assert_int_equal(stored(fixture), 5);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(it_is_stored_once_a_minute_and_at_the_end),
        WITH_FIXTURE(many_rows_are_all_stored_a_chunk_at_a_time),
        WITH_FIXTURE(what_could_not_be_stored_is_stored_later_and_once),
        WITH_FIXTURE(nothing_is_stored_in_safe_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
