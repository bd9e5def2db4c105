/* Measured usage adds up by hour, is bounded, ages with the history, and is no part of I6. */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/strbuf.h"

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static const int64_t hour = STORE_HOUR_MS;
static const int64_t day = 24 * (int64_t)STORE_HOUR_MS;

static struct store_measured row_of(int64_t hours, const char *namespace, const char *model)
{
    return (struct store_measured){.hour_ms = hours * hour,
                                   .namespace = namespace,
                                   .model = model,
                                   .milli_s = 36000,
                                   .of_milli_s = 360000,
                                   .mib_s = 72000,
                                   .of_mib_s = 720000};
}

static void measure(struct shelf *shelf, int64_t hours, const char *namespace, const char *model)
{
    const struct store_measured row = row_of(hours, namespace, model);
    struct err err;

    if (shelf->ops.measure(shelf->ops.ctx, &(struct store_chunk){.row = &row, .n_rows = 1}, &err) <
        0)
        fail_msg("%s", err.text);
}

static void take(void *user, const struct store_measured *row)
{
    assert_int_equal(row->hour_ms, 0);
    strbuf_printf(user, "%s/%s %llu/%llu %llu/%llu\n", row->namespace, row->model,
                  (unsigned long long)row->milli_s, (unsigned long long)row->of_milli_s,
                  (unsigned long long)row->mib_s, (unsigned long long)row->of_mib_s);
}

static void assert_sums(struct shelf *shelf, int64_t since_ms, int64_t now_ms, const char *should)
{
    CLEANUP(strbuf_done) struct strbuf is;
    struct err err;

    strbuf_init(&is);
    if (store_measured(shelf->store, since_ms, now_ms, &is, take, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(is.data != NULL ? is.data : "", should);
}

SHELF_TEST(measured_hours__add_up_by_namespace_and_model)
{
    assert_sums(shelf, 0, 100 * hour, "");
    measure(shelf, 7, "b", "T4");
    measure(shelf, 8, "b", "T4");
    measure(shelf, 7, "b", "T4");
    measure(shelf, 7, "a", "T4");
    measure(shelf, 7, "b", "A100");
    measure(shelf, 7, "b", "");
    for (int i = 0; i < 2; i++) {
        assert_sums(shelf, 0, 100 * hour,
                    "a/T4 36000/360000 72000/720000\nb/ 36000/360000 72000/720000\n"
                    "b/A100 36000/360000 72000/720000\nb/T4 108000/1080000 216000/2160000\n");
        shelf_turn(shelf);
    }
    assert_sql(shelf, "SELECT count(*) FROM measured", 5);
}

SHELF_TEST(measured_hours__are_cut_at_the_times_asked_for)
{
    measure(shelf, 7, "a", "T4");
    measure(shelf, 8, "a", "T4");
    assert_sums(shelf, 7 * hour, 7 * hour, "a/T4 36000/360000 72000/720000\n");
    assert_sums(shelf, 6 * hour, 7 * hour - 1, ""); /* the clock was set back */
    assert_sums(shelf, 8 * hour, 9 * hour, "a/T4 36000/360000 72000/720000\n");
    assert_sums(shelf, 9 * hour, 99 * hour, "");
    /* A part of the hour that is cut: a quarter of the first, and all of the second. */
    assert_sums(shelf, 7 * hour + hour / 4 * 3, 99 * hour, "a/T4 45000/450000 90000/900000\n");
    assert_sums(shelf, 8 * hour + hour / 2, 9 * hour, "a/T4 18000/180000 36000/360000\n");
    /* The present hour has had twenty minutes, of which the last five are asked about. */
    assert_sums(shelf, 8 * hour + hour / 4, 8 * hour + hour / 3, "a/T4 9000/90000 18000/180000\n");
    assert_sums(shelf, 8 * hour + 500, 8 * hour + 999, "a/T4 0/0 0/0\n");
    assert_sums(shelf, 9 * hour - 1, 99 * hour, "a/T4 0/0 0/0\n");
}

SHELF_TEST(measured_hours__beyond_the_rows_of_an_hour_are_one_row)
{
    struct store_measured row[64];
    char name[64][16];
    struct err err;

    for (int at = 0; at < STORE_MEASURED_ROWS_MAX; at += 64) {
        for (int i = 0; i < 64; i++) {
            (void)snprintf(name[i], sizeof name[i], "n%d", at + i);
            row[i] = row_of(7, name[i], "T4");
        }
        assert_int_equal(shelf->ops.measure(shelf->ops.ctx,
                                            &(struct store_chunk){.row = row, .n_rows = 64}, &err),
                         0);
    }
    measure(shelf, 7, "one-more", "T4");
    measure(shelf, 7, "n5", "A100");
    measure(shelf, 7, "n5", "T4");       /* it has its row */
    measure(shelf, 8, "one-more", "T4"); /* in another hour there is room */
    assert_sql(shelf, "SELECT count(*) FROM measured WHERE hour_ms = 25200000",
               STORE_MEASURED_ROWS_MAX + 1);
    assert_sql(shelf, "SELECT milli_s FROM measured WHERE namespace = '' AND model = ''", 72000);
    assert_sql(shelf, "SELECT milli_s FROM measured WHERE namespace = 'n5'", 72000);
    assert_sql(shelf, "SELECT hour_ms FROM measured WHERE namespace = 'one-more'", 8 * hour);
}

/* The last of several rows fails: the first is not there either, and all can be added again. */
SHELF_TEST(measured_hours__that_fail_are_not_added_at_all)
{
    const struct store_measured row[] = {row_of(7, "a", "T4"), row_of(7, "b", "T4")};
    const struct store_chunk both = {.row = row, .n_rows = 2};
    static const char *const refusing[] = {
        "BEFORE INSERT ON measured WHEN NEW.namespace = 'b'",
        "BEFORE UPDATE ON measured WHEN NEW.namespace = 'b'",
    };
    struct err err;

    for (size_t i = 0; i < ARRAY_LEN(refusing); i++) {
        shelf_refuse(shelf, refusing[i]);
        assert_true(shelf->ops.measure(shelf->ops.ctx, &both, &err) < 0);
        assert_sql(shelf, "SELECT coalesce(sum(milli_s), 0) FROM measured", (long long)i * 72000);
        shelf_allow(shelf);
        assert_int_equal(shelf->ops.measure(shelf->ops.ctx, &both, &err), 0);
    }
    shelf->store->limits.wal_max = 0; /* a reader holds the log */
    assert_int_equal(shelf->ops.measure(shelf->ops.ctx, &both, &err), -(int)ERR_FULL);
    assert_sums(shelf, 0, 100 * hour,
                "a/T4 72000/720000 144000/1440000\nb/T4 72000/720000 144000/1440000\n");
}

SHELF_TEST(measured_hours__age_with_the_history)
{
    shelf_close(shelf);
    shelf->rules.retention_days = 30;
    shelf_open(shelf);
    shelf->store->limits.fold = 2;
    for (int i = 0; i < 5; i++)
        measure(shelf, i, "a", "T4");
    measure(shelf, 1, "b", "T4");
    core->now_ms = 30 * day;
    shelf_maintain(shelf, 30 * day);
    assert_sql(shelf, "SELECT count(*) FROM measured", 6);
    /* The oldest go first, a little at a time: a full round goes on at once. */
    shelf->store->retain_at_ms = 0;
    shelf_maintain(shelf, 30 * day + 3 * hour);
    assert_sql(shelf, "SELECT count(*) FROM measured", 4);
    assert_sql(shelf, "SELECT min(hour_ms) FROM measured", hour);
    shelf_maintain(shelf, 30 * day + 3 * hour);
    shelf_maintain(shelf, 30 * day + 3 * hour);
    assert_sql(shelf, "SELECT count(*) FROM measured", 2);
    assert_sql(shelf, "SELECT min(hour_ms) FROM measured", 3 * hour);
}

/* A file whose sums are beyond all bounds says so when it is asked, and grants go on. */
SHELF_TEST(measured_hours__are_no_part_of_the_ledger_checks)
{
    struct err err;

    measure(shelf, 7, "a", "T4");
    shelf_spoil(shelf, "UPDATE measured SET mib_s = 9223372036854775807");
    assert_int_equal(store_verify(shelf->store, &err), 0);
    assert_int_equal(store_replay_check(shelf->store, &err), 0);
    assert_sums(shelf, 0, 100 * hour, "a/T4 36000/360000 9223372036854775807/720000\n");
    assert_int_equal(store_measured(shelf->store, 7 * hour + 60000, 100 * hour, NULL, take, &err),
                     -(int)ERR_CORRUPT);
    assert_non_null(strstr(err.text, "history"));
}
