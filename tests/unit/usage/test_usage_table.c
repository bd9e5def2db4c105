/* A node reports with the key that its Node shows now, and no report counts twice. */
#include <stdio.h>
#include <string.h>

#include "milligpu/usage/idle_changes.h"
#include "milligpu/usage/measured_sums.h"
#include "milligpu/usage/usage_table.h"

#include "support/core_fixture.h"
#include "support/test.h"

static const char key_a[] = "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=";
static const char key_b[] = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

static int64_t mono_ms;

static int64_t now_of(void *ctx)
{
    (void)ctx;
    return mono_ms;
}

static const struct clock_ops mono = {.now_ms = now_of};

static bool has_key(struct usage_table *book, const char *node)
{
    char key[PUBLIC_KEY_TEXT_BYTES];

    return usage_table_key(book, text_of(node), key);
}

/* Each entry that is dropped with its Node changes the version. */
static bool has_entry(struct usage_table *book, const char *node)
{
    const uint64_t before = usage_table_version(book);

    usage_table_node_gone(book, node);
    return usage_table_version(book) != before;
}

TEST(usage_table__follows_nodes)
{
    struct usage_table *book = usage_table_new(&mono);
    char key[PUBLIC_KEY_TEXT_BYTES];

    assert_false(has_key(book, "n1"));
    usage_table_list_begin(book);
    usage_table_node(book, "n1", key_a);
    usage_table_node(book, "n2", NULL);
    usage_table_list_end(book);
    assert_true(usage_table_key(book, TEXT("n1"), key));
    assert_string_equal(key, key_a);
    assert_false(has_key(book, "n2"));
    /* A text longer than any key is no key, and a short one is good for no signature. */
    usage_table_node(book, "n2", "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=x");
    assert_false(has_key(book, "n2"));
    usage_table_node(book, "n2", key_b);
    assert_true(has_key(book, "n2"));
    usage_table_node_gone(book, "n2");
    usage_table_node_gone(book, "n2");
    assert_false(has_key(book, "n2"));
    usage_table_list_begin(book);
    usage_table_node(book, "n3", key_b);
    assert_true(has_key(book, "n1")); /* the list may yet fail */
    usage_table_list_end(book);
    assert_false(has_key(book, "n1"));
    usage_table_free(book);
    usage_table_free(NULL);
}

TEST(usage_table__has_no_entry_for_a_node_without_a_key)
{
    static const char *const none[] = {NULL, "", "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=x"};
    struct usage_table *book = usage_table_new(&mono);

    usage_table_list_begin(book);
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        usage_table_node(book, "n1", none[i]);
        assert_false(has_entry(book, "n1"));
    }
    usage_table_node(book, "n1", NULL);
    usage_table_node(book, "n2", key_a);
    usage_table_list_end(book);
    assert_false(has_entry(book, "n1"));
    assert_true(has_entry(book, "n2"));
    /* Nor for one that had a key and never reported. */
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        usage_table_node(book, "n1", key_a);
        usage_table_node(book, "n1", none[i]);
        assert_false(has_entry(book, "n1"));
    }
    usage_table_free(book);
}

/* A report without pods. */
static bool take_at(struct usage_table *book, const struct node *node, const char *key,
                    uint64_t number, int64_t now_ms)
{
    const struct usage_report report = {
        .node = text_of(node->name->text), .number = number, .seconds = 60};
    const struct measured_how how = {.now_ms = now_ms};
    uint32_t unknown;

    return usage_table_take(book, node, key, &report, &how, &unknown);
}

static bool take(struct usage_table *book, const struct node *node, const char *key,
                 uint64_t number)
{
    return take_at(book, node, key, number, 1000 + (int64_t)number);
}

CORE_TEST(report_numbers__rise_for_each_key)
{
    static const struct core_gpu one[] = {{.id = "GPU-a", .mib = 81920}};
    struct usage_table *book = usage_table_new(&mono);
    struct usage_totals totals;

    assert_int_equal(core_node(core, "n1", one, 1), VERDICT_OK);
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    assert_false(take(book, node, key_a, 5)); /* there is no such Node */
    usage_table_node(book, "n1", key_a);
    assert_null(usage_table_measured(book, TEXT("n1")));
    assert_true(take(book, node, key_a, 5));
    assert_false(take(book, node, key_a, 5));
    assert_false(take(book, node, key_a, 4));
    assert_true(take(book, node, key_a, 6));
    assert_false(take(book, node, key_b, 7)); /* no longer, or not yet, the key */
    usage_table_node(book, "n1", key_a);      /* shown again */
    assert_false(take(book, node, key_a, 6));
    usage_table_node(book, "n1", key_b);
    assert_true(take(book, node, key_b, 1));
    usage_table_totals(book, 1001 + MEASURED_FRESH_MS, &totals);
    assert_int_equal(totals.reporting, 1);
    assert_int_equal(totals.last_ms, 1001);
    assert_int_equal(totals.version, 3);
    usage_table_totals(book, 1002 + MEASURED_FRESH_MS, &totals);
    assert_int_equal(totals.reporting, 0);
    const struct measured *measured = usage_table_measured(book, TEXT("n1"));
    assert_non_null(measured);
    usage_table_node_gone(book, "n1");
    assert_int_equal(measured->n_shares, 0); /* a reader still holds it */
    measured_unref(measured);
    assert_int_equal(usage_table_version(book), 4);
    usage_table_free(book);
}

/* The usage stays until the Node is gone, and the numbers begin anew with each key. */
CORE_TEST(report_numbers__begin_anew_when_a_key_is_taken_away_and_given_again)
{
    static const struct core_gpu one[] = {{.id = "GPU-a", .mib = 81920}};
    struct usage_table *book = usage_table_new(&mono);
    struct usage_totals totals;

    assert_int_equal(core_node(core, "n1", one, 1), VERDICT_OK);
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    usage_table_node(book, "n1", key_a);
    usage_table_node(book, "n1", NULL);
    assert_false(take(book, node, key_a, 5));
    usage_table_node(book, "n1", key_a);
    assert_true(take(book, node, key_a, 5));
    usage_table_node(book, "n1", NULL);
    assert_false(has_key(book, "n1"));
    assert_false(take(book, node, key_a, 6));
    usage_table_totals(book, 1005, &totals);
    assert_int_equal(totals.reporting, 1);
    usage_table_list_begin(book);
    usage_table_node(book, "n1", NULL);
    usage_table_list_end(book);
    CLEANUP(measured_unrefp)
    const struct measured *measured = usage_table_measured(book, TEXT("n1"));
    assert_non_null(measured);
    usage_table_node(book, "n1", key_a);
    assert_true(take(book, node, key_a, 1));
    usage_table_list_begin(book);
    usage_table_list_end(book);
    assert_null(usage_table_measured(book, TEXT("n1")));
    usage_table_free(book);
}

/* --- sums --- */

enum { MINUTE = 60000 };
static const int64_t noon = 500000 * (int64_t)STORE_HOUR_MS;

static const struct core_gpu t4[] = {{.id = "GPU-a", .mib = 16384},
                                     {.id = "GPU-b", .index = 1, .mib = 16384}};

struct counting {
    struct core_fixture *core;
    struct usage_table *book;
    uint64_t number;
};

static void counting_done(struct counting *counting)
{
    usage_table_free(counting->book);
}

/* The clock goes on. */
static struct counting count_on(struct core_fixture *core, int64_t bound_ms)
{
    struct counting counting = {core, usage_table_new(&mono), 0};

    usage_table_node(counting.book, "n1", key_a);
    if (ledger_node(core->ledger, TEXT("n1")) != NULL)
        return counting;
    core->now_ms = bound_ms;
    assert_int_equal(core_node(core, "n1", t4, 2), VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "n1", "400+100"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    return counting;
}

static struct counting count_from(struct core_fixture *core, int64_t bound_ms)
{
    mono_ms = 1000;
    return count_on(core, bound_ms);
}

/* The agent reports the last minutes: containers c0 and c1 of pod a, each on the GPU it holds. */
static void report_of(struct counting *counting, int64_t wall_ms, uint32_t seconds, int32_t milli,
                      int32_t mib)
{
    const struct allocation *pod = ledger_find(counting->core->ledger, TEXT("a"));
    struct usage_gpu gpu[2] = {{.milli = milli, .mib = mib}, {.milli = 30, .mib = 100}};
    struct usage_container container[2];
    struct usage_pod usage = {.uid = TEXT("a"), .n_containers = 2, .container = container};
    const struct usage_report report = {.node = TEXT("n1"),
                                        .number = ++counting->number,
                                        .seconds = seconds,
                                        .n_pods = 1,
                                        .pod = &usage};
    const struct measured_how how = {.now_ms = wall_ms};
    uint32_t unknown;

    assert_int_equal(pod->facts.n_shares, 2);
    for (int i = 0; i < 2; i++) {
        gpu[i].gpu = atom_text(pod->facts.share[i].gpu);
        container[i] = (struct usage_container){
            .name = text_of(pod->facts.share[i].container), .n_gpus = 1, .gpu = &gpu[i]};
    }
    assert_true(usage_table_take(counting->book, ledger_node(counting->core->ledger, TEXT("n1")),
                                 key_a, &report, &how, &unknown));
    assert_int_equal(unknown, 0);
}

/* The same, this long after the last one by the monotonic clock. */
static void report_after(struct counting *counting, int64_t ms, int64_t wall_ms, uint32_t seconds,
                         int32_t milli, int32_t mib)
{
    mono_ms += ms;
    report_of(counting, wall_ms, seconds, milli, mib);
}

/* The sums of one hour, all of which are taken. Seconds that were counted, of 500 milli. */
struct hour {
    int64_t seconds;
    struct store_measured is;
};
static uint32_t hours(struct counting *counting, struct hour out[4])
{
    struct store_measured row[32];
    CLEANUP(arena_done) struct arena arena;

    arena_init(&arena);
    memset(out, 0, 4 * sizeof *out);
    const uint32_t rows = measured_sums_take(usage_table_sums(counting->book), row, 32, &arena);
    for (uint32_t i = 0; i < rows; i++) {
        const int64_t at = (row[i].hour_ms - noon) / STORE_HOUR_MS + 1;
        if (at < 0 || at > 3)
            continue;
        assert_string_equal(row[i].namespace, "default");
        assert_string_equal(row[i].model, "NVIDIA A100");
        out[at].is = row[i];
        out[at].seconds = (int64_t)row[i].of_milli_s / 500;
        assert_int_equal(row[i].of_milli_s % 500, 0);
    }
    return rows;
}

CORE_TEST(usage_seconds__are_counted_once_and_not_for_lost_reports)
{
    struct hour hour[4];

    CLEANUP(counting_done) struct counting counting = count_from(core, noon - MINUTE);
    report_after(&counting, 5 * MINUTE, noon + 5 * MINUTE, 300, 250, 1000);
    assert_int_equal(hours(&counting, hour), 1);
    assert_int_equal(hour[1].seconds, 300);
    assert_int_equal(hour[1].is.milli_s, 280 * 300); /* both containers, of the charge of both */
    assert_int_equal(hour[1].is.mib_s, 1100 * 300);
    assert_int_equal(hour[1].is.of_mib_s, 8191 * 300);
    /* The next one reports ten minutes, five of which were counted, and a bit. */
    report_after(&counting, 5 * MINUTE + 500, noon + 10 * MINUTE + 500, 600, 0, 0);
    (void)hours(&counting, hour);
    assert_int_equal(hour[1].seconds, 300);
    assert_int_equal(hour[1].is.milli_s, 30 * 300);
    report_of(&counting, noon + 10 * MINUTE + 600, 600, 0, 0); /* an urgent one, at once */
    assert_int_equal(hours(&counting, hour), 0);
    /* The bit was not lost. */
    report_after(&counting, 600, noon + 10 * MINUTE + 1100, 600, 0, 0);
    (void)hours(&counting, hour);
    assert_int_equal(hour[1].seconds, 1);
    /* Three reports were lost, and the next covers ten of twenty minutes. */
    report_after(&counting, 20 * MINUTE, noon + 31 * MINUTE, 600, 1000, 0);
    (void)hours(&counting, hour);
    assert_int_equal(hour[1].seconds, 600);
}

CORE_TEST(usage_seconds__belong_to_their_hour)
{
    struct hour hour[4];

    CLEANUP(counting_done) struct counting counting = count_from(core, noon - 30 * MINUTE);
    report_after(&counting, 10 * MINUTE, noon + 2 * MINUTE, 600, 100, 0);
    assert_int_equal(hours(&counting, hour), 2);
    assert_int_equal(hour[0].seconds, 480);
    assert_int_equal(hour[1].seconds, 120);
    /* Exactly to the end of an hour. */
    report_after(&counting, 10 * MINUTE, noon + 60 * MINUTE, 600, 100, 0);
    assert_int_equal(hours(&counting, hour), 1);
    assert_int_equal(hour[1].seconds, 600);
    /* A whole hour, and parts of two; the second that an hour cuts counts once. */
    report_after(&counting, 150 * MINUTE, noon + 150 * MINUTE + 500, 7200, 100, 0);
    assert_int_equal(hours(&counting, hour), 3);
    assert_int_equal(hour[1].seconds, 1799);
    assert_int_equal(hour[2].seconds, 3600);
    assert_int_equal(hour[3].seconds, 1801);
}

/* The time that went by counts, in the hours that the wall clock shows. */
CORE_TEST(usage_seconds__are_not_made_by_a_stepping_clock)
{
    struct hour hour[4];

    CLEANUP(counting_done) struct counting counting = count_from(core, noon - 600 * MINUTE);
    report_after(&counting, 5 * MINUTE, noon + 50 * MINUTE, 300, 100, 0);
    report_after(&counting, 5 * MINUTE, noon - 10 * MINUTE, 600, 100, 0);  /* back by an hour */
    report_after(&counting, 5 * MINUTE, noon + 110 * MINUTE, 600, 100, 0); /* and forward by two */
    assert_int_equal(hours(&counting, hour), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(hour[i].seconds, 300);
    /* Before the pod was bound. */
    report_after(&counting, 5 * MINUTE, noon - 700 * MINUTE, 600, 100, 0);
    assert_int_equal(hours(&counting, hour), 0);
    report_after(&counting, 5 * MINUTE, 1000, 600, 100, 0);
    assert_int_equal(hours(&counting, hour), 0);
}

CORE_TEST(usage_seconds__begin_with_the_pod_and_the_process)
{
    struct hour hour[4];

    CLEANUP(counting_done) struct counting counting = count_from(core, noon + 4 * MINUTE);
    report_after(&counting, 5 * MINUTE, noon + 5 * MINUTE, 300, 100, 0);
    (void)hours(&counting, hour);
    const struct allocation *pod = ledger_find(counting.core->ledger, TEXT("a"));
    assert_int_equal(hour[1].seconds, (noon + 5 * MINUTE - pod->facts.bound_ms) / 1000);
    assert_in_range(hour[1].seconds, 50, 60);
    /* The process before may have counted it. */
    CLEANUP(counting_done) struct counting again = count_on(core, 0);
    report_after(&again, 2 * MINUTE, noon + 7 * MINUTE, 600, 100, 0);
    (void)hours(&again, hour);
    assert_int_equal(hour[1].seconds, 120);
}

/* An earlier entry of the Node may have counted the time before. */
CORE_TEST(usage_seconds__begin_with_the_key)
{
    struct hour hour[4];

    CLEANUP(counting_done) struct counting counting = count_from(core, noon - 10 * MINUTE);
    usage_table_node(counting.book, "n1", NULL);
    mono_ms += 4 * MINUTE;
    usage_table_node(counting.book, "n1", key_a);
    report_after(&counting, MINUTE, noon + 5 * MINUTE, 300, 100, 0);
    (void)hours(&counting, hour);
    assert_int_equal(hour[1].seconds, 60);
    /* It is the same entry after a report: no second is lost, and none counts twice. */
    usage_table_node(counting.book, "n1", NULL);
    mono_ms += MINUTE;
    usage_table_node(counting.book, "n1", key_a);
    report_after(&counting, MINUTE, noon + 7 * MINUTE, 300, 100, 0);
    (void)hours(&counting, hour);
    assert_int_equal(hour[1].seconds, 120);
}

CORE_TEST(usage_seconds__are_not_counted_when_the_driver_reports_none)
{
    struct hour hour[4];

    CLEANUP(counting_done) struct counting counting = count_from(core, noon - MINUTE);
    report_after(&counting, 5 * MINUTE, noon + 5 * MINUTE, 300, USAGE_UNKNOWN, 7);
    assert_int_equal(hours(&counting, hour), 1);
    assert_int_equal(hour[1].is.of_milli_s, 0);
    assert_int_equal(hour[1].is.milli_s, 0);
    assert_int_equal(hour[1].is.mib_s, 107 * 300);
    report_after(&counting, 5 * MINUTE, noon + 10 * MINUTE, 300, USAGE_UNKNOWN, USAGE_UNKNOWN);
    assert_int_equal(hours(&counting, hour), 0);
    /* More MiB than any GPU has. */
    report_after(&counting, 5 * MINUTE, noon + 15 * MINUTE, 300, 5, INT32_MAX);
    (void)hours(&counting, hour);
    assert_int_equal(hour[1].is.mib_s, ((1 << 24) + 100) * INT64_C(300));
}

/* --- idle --- */

/* Takes all changes that wait for the writer: "c0 SINCE" in minutes after noon, "c0 0", "n1". */
static void assert_changes(struct usage_table *book, const char *should)
{
    CLEANUP(arena_done) struct arena arena;
    struct store_idle idle[8];
    char is[128] = "";

    arena_init(&arena);
    const uint32_t count = idle_changes_take(usage_table_idle(book), idle, 8, &arena);
    for (uint32_t i = 0; i < count; i++) {
        const size_t len = strlen(is);
        const int64_t since = idle[i].since_ms > 0 ? (idle[i].since_ms - noon) / MINUTE : 0;
        if (idle[i].uid[0] == '\0')
            (void)snprintf(is + len, sizeof is - len, "%s", idle[i].node);
        else
            (void)snprintf(is + len, sizeof is - len, "%s %d", idle[i].container, (int)since);
    }
    assert_string_equal(is, should);
}

/* A report every ten minutes: container c0 is idle, the other never is. */
static void idle_for(struct counting *counting, int from, int until)
{
    for (int minute = from; minute <= until; minute += 10) {
        report_after(counting, 10 * MINUTE, noon + minute * (int64_t)MINUTE, 600, 0, 0);
    }
}

static int64_t idle_since(struct usage_table *book, const struct core_fixture *core, int share)
{
    const struct allocation *pod = ledger_find(core->ledger, TEXT("a"));
    const struct measured *is = usage_table_measured(book, TEXT("n1"));
    const struct measured_share *found =
        measured_find(is, ledger_node(core->ledger, TEXT("n1")), pod, &pod->facts.share[share]);
    const int64_t since_ms = found != NULL ? found->idle_since_ms : -1;

    measured_unref(is);
    return since_ms;
}

CORE_TEST(idle_share__is_reported_to_the_writer_after_an_hour)
{
    CLEANUP(counting_done) struct counting counting = count_from(core, noon - MINUTE);
    assert_int_equal(usage_table_last(counting.book), 0);
    idle_for(&counting, 10, 60);
    assert_changes(counting.book, "");
    idle_for(&counting, 70, 90);
    assert_changes(counting.book, "c0 10");
    assert_int_equal(usage_table_last(counting.book), noon + 90 * MINUTE);
    report_of(&counting, noon + 100 * MINUTE, 600, 500, 0);
    assert_changes(counting.book, "c0 0");
}

/* Reports of n2 come, and none of n1 any more. */
CORE_TEST(idle_share__is_forgotten_on_a_silent_node)
{
    static const struct core_gpu one[] = {{.id = "GPU-z", .mib = 16384}};

    CLEANUP(counting_done) struct counting counting = count_from(core, noon - MINUTE);
    assert_int_equal(core_node(core, "n2", one, 1), VERDICT_OK);
    usage_table_node(counting.book, "n2", key_a);
    idle_for(&counting, 10, 80);
    assert_changes(counting.book, "c0 10");
    for (int minute = 90; minute <= 96; minute++) {
        assert_true(take_at(counting.book, ledger_node(core->ledger, TEXT("n2")), key_a,
                            (uint64_t)minute, noon + minute * (int64_t)MINUTE));
        if (minute <= 95) /* fresh */
            assert_int_equal(idle_since(counting.book, core, 0), noon + 10 * MINUTE);
        assert_changes(counting.book, minute == 96 ? "n1" : "");
    }
    assert_int_equal(idle_since(counting.book, core, 0), 0);
    /* It speaks again: from then on. */
    report_of(&counting, noon + 97 * MINUTE, 600, 0, 0);
    assert_int_equal(idle_since(counting.book, core, 0), noon + 97 * MINUTE);
    assert_changes(counting.book, "");
}

CORE_TEST(idle_share__is_forgotten_on_a_deleted_node)
{
    CLEANUP(counting_done) struct counting counting = count_from(core, noon - MINUTE);
    idle_for(&counting, 10, 80);
    assert_changes(counting.book, "c0 10");
    usage_table_node_gone(counting.book, "n1");
    assert_changes(counting.book, "n1");
    usage_table_node(counting.book, "n1", key_a); /* and it never was idle for long */
    usage_table_list_begin(counting.book);
    usage_table_list_end(counting.book);
    assert_changes(counting.book, "");
    usage_table_node(counting.book, "n1", key_a);
    idle_for(&counting, 90, 160);
    assert_changes(counting.book, "c0 90");
    usage_table_list_begin(counting.book);
    usage_table_list_end(counting.book);
    assert_changes(counting.book, "n1");
}

static const struct measured *knew(const struct core_fixture *core, int64_t since_ms,
                                   int64_t reported_ms)
{
    const struct allocation *pod = ledger_find(core->ledger, TEXT("a"));
    const struct measured_idle idle = {pod, pod->facts.share, since_ms};

    return measured_resume(ledger_node(core->ledger, TEXT("n1")), &idle, 1, reported_ms,
                           reported_ms);
}

CORE_TEST(idle_share__goes_on_after_a_restart)
{
    struct usage_totals totals;

    CLEANUP(counting_done) struct counting counting = count_from(core, noon - MINUTE);
    usage_table_free(counting.book);
    counting = (struct counting){core, usage_table_new(&mono), 0};
    usage_table_resume(counting.book, "n1", knew(core, noon, noon + 70 * MINUTE),
                       noon + 70 * MINUTE);
    assert_false(has_key(counting.book, "n1"));
    usage_table_list_begin(counting.book);
    usage_table_node(counting.book, "n1", key_a);
    usage_table_list_end(counting.book);
    assert_int_equal(usage_table_version(counting.book), 1); /* REST shows it */
    usage_table_totals(counting.book, noon + 71 * MINUTE, &totals);
    assert_int_equal(totals.reporting, 0); /* it has not reported to this process */
    assert_int_equal(totals.last_ms, 0);
    assert_int_equal(idle_since(counting.book, core, 0), noon);
    report_of(&counting, noon + 80 * MINUTE, 600, 0, 0);
    assert_int_equal(idle_since(counting.book, core, 0), noon);
    assert_changes(counting.book, ""); /* it is stored already */
    report_of(&counting, noon + 81 * MINUTE, 60, 10, 0);
    assert_changes(counting.book, "c0 0");
}

/* The agent was uninstalled while milligpud was down. */
CORE_TEST(idle_share__of_a_node_without_a_key_is_known_until_the_node_is_gone)
{
    for (int unlisted = 0; unlisted < 2; unlisted++) {
        CLEANUP(counting_done) struct counting counting = count_from(core, noon - MINUTE);
        usage_table_free(counting.book);
        counting = (struct counting){core, usage_table_new(&mono), 0};
        usage_table_resume(counting.book, "n1", knew(core, noon, noon + 70 * MINUTE),
                           noon + 70 * MINUTE);
        usage_table_list_begin(counting.book);
        usage_table_node(counting.book, "n1", NULL);
        usage_table_list_end(counting.book);
        assert_false(has_key(counting.book, "n1"));
        assert_int_equal(idle_since(counting.book, core, 0), noon);
        assert_changes(counting.book, "");
        usage_table_list_begin(counting.book);
        if (unlisted)
            usage_table_list_end(counting.book);
        else
            usage_table_node_gone(counting.book, "n1");
        assert_changes(counting.book, "n1");
        assert_null(usage_table_measured(counting.book, TEXT("n1")));
    }
}

/* The age of its last report counts, which the previous process took. */
CORE_TEST(idle_share__survives_a_restart_while_the_last_report_is_fresh)
{
    static const struct core_gpu one[] = {{.id = "GPU-z", .mib = 16384}};

    CLEANUP(counting_done) struct counting counting = count_from(core, noon - MINUTE);
    assert_int_equal(core_node(core, "n2", one, 1), VERDICT_OK);
    usage_table_free(counting.book);
    counting = (struct counting){core, usage_table_new(&mono), 0};
    usage_table_resume(counting.book, "n1", knew(core, noon, noon + 70 * MINUTE),
                       noon + 70 * MINUTE);
    usage_table_node(counting.book, "n1", NULL);
    usage_table_node(counting.book, "n2", key_b);
    for (int minute = 84; minute <= 88; minute++) {
        assert_true(take_at(counting.book, ledger_node(core->ledger, TEXT("n2")), key_b,
                            (uint64_t)minute, noon + minute * (int64_t)MINUTE));
        assert_changes(counting.book, minute == 86 ? "n1" : "");
        assert_int_equal(idle_since(counting.book, core, 0), minute < 86 ? noon : 0);
    }
}

/* Neither a Node that the list does not show, nor one that stays silent, keeps what is stored. */
CORE_TEST(idle_share__is_forgotten_on_unlisted_and_silent_nodes)
{
    static const struct core_gpu one[] = {{.id = "GPU-z", .mib = 16384}};

    CLEANUP(counting_done) struct counting counting = count_from(core, noon - MINUTE);
    assert_changes(counting.book, "");
    assert_int_equal(core_node(core, "n2", one, 1), VERDICT_OK);
    for (int silent = 0; silent < 2; silent++) {
        struct usage_table *book = usage_table_new(&mono);
        usage_table_resume(book, "n1", knew(core, noon, noon + 70 * MINUTE),
                           silent ? 0 : noon + 70 * MINUTE);
        usage_table_list_begin(book);
        if (silent)
            usage_table_node(book, "n1", key_a);
        usage_table_node(book, "n2", key_b);
        usage_table_list_end(book);
        assert_changes(book, silent ? "" : "n1");
        assert_true(
            take_at(book, ledger_node(core->ledger, TEXT("n2")), key_b, 1, noon + 71 * MINUTE));
        assert_changes(book, silent ? "n1" : "");
        usage_table_free(book);
    }
}

/* However many fall silent at once, no report does more than a little for it. */
CORE_TEST(silent_nodes__are_forgotten_a_few_at_a_time)
{
    char name[16];
    uint32_t before = 0;
    uint32_t reports = 0;

    CLEANUP(counting_done) struct counting counting = count_from(core, noon - MINUTE);
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(name, sizeof name, "m%d", i);
        usage_table_resume(counting.book, name, knew(core, noon, noon + MINUTE), noon + MINUTE);
    }
    for (uint32_t gone = 0; gone < 2000 && reports < 300; reports++) {
        struct store_idle idle[32];
        CLEANUP(arena_done) struct arena arena;
        arena_init(&arena);
        report_of(&counting, noon + 90 * MINUTE + reports, 1, 500, 0);
        before = idle_changes_take(usage_table_idle(counting.book), idle, 32, &arena);
        assert_in_range(before, 0, 16);
        gone += before;
    }
    assert_in_range(reports, 125, 140);
}
