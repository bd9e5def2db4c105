/* Sums wait for the writer: taken once, put back whole, and never more than there may be. */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/usage/measured_sums.h"

#include "support/test.h"

static bool add(struct measured_sums *sums, int64_t hours, const char *namespace)
{
    const struct store_measured row = {.hour_ms = hours * STORE_HOUR_MS,
                                       .namespace = namespace,
                                       .model = "T4",
                                       .milli_s = 1,
                                       .of_milli_s = 2,
                                       .mib_s = 3,
                                       .of_mib_s = 4};
    return measured_sums_add(sums, &row);
}

TEST(measured_sums__add_up_and_are_taken_once)
{
    struct measured_sums *sums = measured_sums_new();
    struct store_measured row[4];
    CLEANUP(arena_done) struct arena arena;

    arena_init(&arena);
    assert_int_equal(measured_sums_take(sums, row, 4, &arena), 0);
    assert_true(add(sums, 0, "a"));
    assert_true(add(sums, 0, "a"));
    assert_true(add(sums, 1, "a"));
    assert_true(add(sums, 1, "b"));
    assert_int_equal(measured_sums_take(sums, row, 4, &arena), 3);
    for (int i = 0; i < 3; i++) {
        const uint64_t times = row[i].hour_ms == 0 ? 2 : 1;
        assert_string_equal(row[i].model, "T4");
        assert_true(row[i].milli_s == times && row[i].of_milli_s == 2 * times);
        assert_true(row[i].mib_s == 3 * times && row[i].of_mib_s == 4 * times);
        assert_true(measured_sums_add(sums, &row[i])); /* the commit failed */
    }
    assert_true(add(sums, 0, "a"));
    uint64_t sum = 0;
    for (uint32_t rows; (rows = measured_sums_take(sums, row, 2, &arena)) > 0;)
        for (uint32_t i = 0; i < rows; i++)
            sum += row[i].milli_s;
    assert_int_equal(sum, 5);
    measured_sums_free(sums);
    measured_sums_free(NULL);
}

TEST(measured_sums__use_one_row_per_hour_when_full)
{
    struct measured_sums *sums = measured_sums_new();
    struct store_measured *row = xcalloc(MEASURED_SUMS_MAX, sizeof *row);
    char name[16];
    CLEANUP(arena_done) struct arena arena;
    uint64_t beyond = 0;

    arena_init(&arena);
    for (int i = 0; i < MEASURED_SUMS_MAX; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        assert_true(add(sums, 0, name));
    }
    assert_true(add(sums, 0, "n7"));
    for (int i = 0; i < MEASURED_SUMS_HOURS_MAX; i++) {
        assert_true(add(sums, i, "x"));
        assert_true(add(sums, i, "y"));
    }
    assert_false(add(sums, MEASURED_SUMS_HOURS_MAX, "x"));
    assert_true(add(sums, 0, "z"));
    for (uint32_t rows; (rows = measured_sums_take(sums, row, MEASURED_SUMS_MAX, &arena)) > 0;)
        for (uint32_t i = 0; i < rows; i++)
            if (row[i].namespace[0] == '\0' && row[i].model[0] == '\0')
                beyond += row[i].milli_s;
            else
                assert_int_equal(row[i].milli_s, strcmp(row[i].namespace, "n7") == 0 ? 2 : 1);
    assert_int_equal(beyond, 2 * MEASURED_SUMS_HOURS_MAX + 1);
    measured_sums_free(sums);
    xfree(row);
}
