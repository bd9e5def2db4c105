/*
 * Back-tests of ledgers that the real store wrote: each test records events at its own times,
 * closes the ledger, and has the whole program play it again.
 */
#include "support/test.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/store/store.h"

#include "lab/backtest/backtest.h"
#include "support/core_fixture.h"
#include "support/folder.h"
#include "support/scoped.h"
#include "support/shown.h"
#include "support/store_checks.h"

/* 2026-01-01T00:00:00Z, earlier than the program's time (shown.h) */
static const int64_t first_ms = 1767225600000;
static const int64_t minute_ms = 60000;

static const struct core_gpu one[] = {{.id = "GPU-a"}};
static const struct core_gpu another[] = {{.id = "GPU-b"}};
static const struct core_gpu cordoned[] = {{.id = "GPU-b", .cordoned = true}};

struct journal {
    struct core_fixture core;
    struct store *store;
    struct store_ops ops;
    struct shown shown;
    char folder[64];
    char ledger[96];
    char csv[96];
    char other[96];
};

static void fail_with(const struct err *err)
{
    fail_msg("%s", err->text);
}

static void journal_open(struct journal *journal)
{
    const struct store_rules rules = {.path = journal->ledger};
    struct err err;

    if (store_open(&rules, &journal->store, &err) < 0)
        fail_with(&err);
    store_ops(journal->store, &journal->ops);
}

static int set_up(void **state)
{
    static struct journal journal;

    journal = (struct journal){.store = NULL};
    folder_make(journal.folder, sizeof journal.folder);
    (void)snprintf(journal.ledger, sizeof journal.ledger, "%s/ledger.db", journal.folder);
    (void)snprintf(journal.csv, sizeof journal.csv, "%s/csv", journal.folder);
    (void)snprintf(journal.other, sizeof journal.other, "%s/other", journal.folder);
    core_init(&journal.core);
    journal_open(&journal);
    *state = &journal;
    return 0;
}

static void journal_close(struct journal *journal)
{
    store_close(journal->store);
    journal->store = NULL;
}

static int tear_down(void **state)
{
    struct journal *journal = *state;
    journal_close(journal);
    core_done(&journal->core);
    folder_remove(journal->folder);
    return 0;
}

#define JOURNAL_TEST(name) TEST_WITH(name, struct journal *journal, set_up, tear_down)

/* --- events --- */

static void records(struct journal *journal, int64_t minutes, struct command command)
{
    struct change change;
    struct err err;

    command.at_ms = first_ms + minutes * minute_ms;
    assert_int_equal(ledger_decide(journal->core.ledger, &command, &change), VERDICT_OK);
    if (journal->ops.begin(journal->ops.ctx, &err) < 0 ||
        journal->ops.write(journal->ops.ctx, &command, &change, &err) != STORE_OK ||
        journal->ops.commit(journal->ops.ctx, &err) < 0)
        fail_with(&err);
    ledger_apply(journal->core.ledger, &change);
    change_done(&change);
}

static void node_shows(struct journal *journal, int64_t minutes, const char *node,
                       const struct core_gpu *gpu, uint32_t gpus)
{
    records(journal, minutes,
            (struct command){.kind = COMMAND_NODE,
                             .inventory = core_inventory(&journal->core, node, node, gpu, gpus)});
}

/* words are those of core_request(); created: minutes, or -1 if nothing says when. */
static void reserves(struct journal *journal, int64_t minutes, const char *pod, const char *node,
                     const char *words, int64_t created)
{
    records(journal, minutes,
            (struct command){.kind = COMMAND_RESERVE,
                             .uid = pod,
                             .namespace = "team",
                             .name = pod,
                             .node = node,
                             .request = core_request(&journal->core, words),
                             .created_ms = created >= 0 ? first_ms + created * minute_ms : 0});
}

static void steps(struct journal *journal, int64_t minutes, enum command_kind kind, const char *pod)
{
    records(journal, minutes,
            (struct command){
                .kind = kind, .uid = pod, .namespace = "team", .name = pod, .why = "test"});
}

static void binds(struct journal *journal, int64_t minutes, const char *pod, const char *node,
                  const char *words, int64_t created)
{
    reserves(journal, minutes, pod, node, words, created);
    steps(journal, minutes, COMMAND_CONFIRM, pod);
}

static void ends(struct journal *journal, int64_t minutes, const char *pod)
{
    steps(journal, minutes, COMMAND_RELEASE, pod);
}

/*
 * Two small pods lie on a GPU each, so that the whole pod, which comes 20 minutes later, waits for
 * the end of one of them: 40 minutes.
 */
static void bind_small_pods(struct journal *journal)
{
    node_shows(journal, 0, "n1", one, 1);
    node_shows(journal, 0, "n2", another, 1);
    binds(journal, 1, "first", "n1", "300", 1);
    binds(journal, 10, "second", "n2", "300", 10);
    ends(journal, 60, "second");
    binds(journal, 60, "whole", "n2", "1000", 20);
    ends(journal, 100, "first");
    ends(journal, 120, "whole");
}

static void record_small_pods(struct journal *journal)
{
    bind_small_pods(journal);
    journal_close(journal);
}

/* --- the back-test --- */

static int run_on(struct journal *journal, const char *file, const char *words)
{
    char line[512];

    (void)snprintf(line, sizeof line, "simulate --ledger %s%s%s", file, words[0] != '\0' ? " " : "",
                   words);
    return run_program(&journal->shown, line);
}

/* The last of the words is the option of the file. */
static void expect_written(struct journal *journal, const char *words, const char *expected)
{
    char all[256];

    (void)snprintf(all, sizeof all, "%s %s", words, journal->csv);
    const int status = run_on(journal, journal->ledger, all);
    if (status != CTL_FINE)
        fail_msg("%d: %s", status, journal->shown.err);
    shown_free(&journal->shown);
    char *bytes = file_text(journal->folder, "csv");
    assert_string_equal(bytes, expected);
    xfree(bytes);
}

/* The lines of the CSV file after its header, which has a column for each policy. */
static void expect_waits(struct journal *journal, const char *policies, const char *options,
                         const char *expected)
{
    SCOPED_STRBUF(lines);
    struct text rest = text_of(policies);
    struct text policy;

    strbuf_str(&lines, "pod,arrived,recorded_wait_ms");
    while (text_cut(&rest, ',', &policy))
        strbuf_printf(&lines, ",%.*s_wait_ms", TEXT_ARG(policy));
    strbuf_printf(&lines, "\n%s", expected);
    expect_written(journal,
                   arena_printf(&journal->core.arena, "--policy %s%s --csv", policies, options),
                   lines.data);
}

static void expect_said(struct journal *journal, const char *words, const char *said)
{
    const int status = run_on(journal, journal->ledger, words);

    if (status != CTL_FINE || strstr(journal->shown.out, said) == NULL)
        fail_msg("%d: no \"%s\" in: %s%s", status, said, journal->shown.out, journal->shown.err);
    shown_free(&journal->shown);
}

static void expect_refused(struct journal *journal, int wanted, const char *file, const char *words,
                           const char *said)
{
    const int status = run_on(journal, file, words);

    if (status != wanted || strstr(journal->shown.err, said) == NULL)
        fail_msg("%s: %d: %s", words, status, journal->shown.err);
    assert_string_equal(journal->shown.out, "");
    shown_free(&journal->shown);
}

/* --- the tests --- */

JOURNAL_TEST(backtest__waits_under_one_policy_only)
{
    record_small_pods(journal);
    expect_waits(journal, "binpack,spread", "",
                 "team/first,2026-01-01T00:01:00.000Z,0,0,0\n"
                 "team/second,2026-01-01T00:10:00.000Z,0,0,0\n"
                 "team/whole,2026-01-01T00:20:00.000Z,2400000,0,2400000\n");
}

static const char table_expected[] =
    "from 2026-01-01T00:00:00Z to 2026-01-01T01:10:00Z (70m): 3 pods arrive\n"
    "not played again: 0 pods that stand there at the beginning, 0 bound by others\n"
    "target workload: 2 shapes of these pods\n\n"
    "POLICY    AT-ONCE  WAITED  NEVER  MEAN-WAIT  SUM-WAIT  GPU-HOURS  MEAN-%  PEAK-%\n"
    "recorded        2       1      0        40m       40m        0.8   32.64   65.00\n"
    "binpack         3       0      0         0s        0s        1.4   61.21   80.00\n"
    "spread          2       1      0        40m       40m        0.8   32.64   65.00\n\n"
    "compared with what was recorded:\n"
    "binpack   1 wait less (1 not at all), 0 wait longer; 87.53 % more GPU hours\n"
    "spread    every pod waits as it did; as many GPU hours\n\n"
    "waits that differ most, 1 of 1:\n"
    "POD         RECORDED  BINPACK  SPREAD\n"
    "team/whole       40m       0s     40m\n\n"
    "a ledger does not record:\n"
    "- CPU, memory, labels, taints and affinity: every node is asked about every pod,\n"
    "  and rules of a policy document about nodes match none\n"
    "- pods that never got a place, or that nobody created because there was none\n";

JOURNAL_TEST(backtest__compares_with_the_record)
{
    record_small_pods(journal);
    assert_int_equal(
        run_on(journal, journal->ledger, "--policy binpack,spread --to 2026-01-01T01:10:00Z"),
        CTL_FINE);
    assert_memory_equal(journal->shown.out, journal->ledger, strlen(journal->ledger));
    assert_string_equal(journal->shown.out + strlen(journal->ledger) + 1, table_expected);
    shown_free(&journal->shown);
}

/* milligpud notes its policy before it knows any node. */
JOURNAL_TEST(backtest__begins_with_the_cluster)
{
    records(journal, -60, (struct command){.kind = COMMAND_POLICY});
    record_small_pods(journal);
    assert_int_equal(
        run_on(journal, journal->ledger, "--policy binpack,spread --to 2026-01-01T01:10:00Z"),
        CTL_FINE);
    assert_string_equal(journal->shown.out + strlen(journal->ledger) + 1, table_expected);
    shown_free(&journal->shown);
}

JOURNAL_TEST(backtest__keeps_pods_of_the_beginning_in_place)
{
    record_small_pods(journal);
    expect_waits(journal, "binpack", " --from 2026-01-01T00:15:00Z",
                 "team/whole,2026-01-01T00:20:00.000Z,2400000,2400000\n");
    /* It was created before, and waits already. */
    expect_waits(journal, "binpack", " --from 2026-01-01T00:30:00Z",
                 "team/whole,2026-01-01T00:30:00.000Z,1800000,1800000\n");
    expect_said(journal, "--from 2026-01-01T00:15:00Z --policy fgd",
                "not played again: 2 pods that stand there at the beginning,");
}

JOURNAL_TEST(backtest__counts_a_place_after_the_end_as_waiting)
{
    record_small_pods(journal);
    expect_waits(journal, "binpack,spread", " --to 2026-01-01T00:50:00Z",
                 "team/first,2026-01-01T00:01:00.000Z,0,0,0\n"
                 "team/second,2026-01-01T00:10:00.000Z,0,0,0\n"
                 "team/whole,2026-01-01T00:20:00.000Z,,0,\n");
    expect_said(journal, "--policy binpack,spread --to 2026-01-01T00:50:00Z",
                "binpack   1 wait less (1 not at all), 0 wait longer;");
    /* Before its arrival the pod does not count. */
    expect_said(journal, "--policy binpack --to 2026-01-01T00:19:00Z", ": 2 pods arrive\n");
}

JOURNAL_TEST(backtest__counts_an_end_after_the_period)
{
    record_small_pods(journal);
    /* It ran from minute 60 to 120. Placed at 20, it ends at 80, and the mean falls again. */
    expect_said(journal, "--policy binpack --to 2026-01-01T01:30:00Z", "   56.50   80.00\n");
}

JOURNAL_TEST(backtest__tries_waiting_pods_in_order_of_arrival)
{
    node_shows(journal, 0, "n1", one, 1);
    binds(journal, 1, "long", "n1", "700", 1);
    binds(journal, 6, "small", "n1", "200", 4);
    ends(journal, 60, "long");
    binds(journal, 60, "large", "n1", "800", 2);
    ends(journal, 70, "small");
    ends(journal, 90, "large");
    binds(journal, 91, "late", "n1", "800", 3);
    ends(journal, 99, "late");
    journal_close(journal);
    expect_waits(journal, "binpack", "",
                 "team/long,2026-01-01T00:01:00.000Z,0,0\n"
                 "team/small,2026-01-01T00:04:00.000Z,120000,0\n"
                 "team/large,2026-01-01T00:02:00.000Z,3480000,3480000\n"
                 "team/late,2026-01-01T00:03:00.000Z,5280000,5220000\n");
}

JOURNAL_TEST(backtest__follows_nodes_that_come_change_and_go)
{
    node_shows(journal, 0, "n1", one, 1);
    node_shows(journal, 0, "n2", cordoned, 1);
    binds(journal, 1, "first", "n1", "1000", 1);
    node_shows(journal, 10, "n2", another, 1); /* the cordon is lifted */
    binds(journal, 11, "second", "n2", "1000", 2);
    ends(journal, 20, "second");
    records(journal, 20, (struct command){.kind = COMMAND_NODE_GONE, .node = "n2"});
    ends(journal, 30, "first");
    binds(journal, 31, "third", "n1", "1000", 21);
    ends(journal, 40, "third");
    journal_close(journal);
    expect_waits(journal, "rollout", "",
                 "team/first,2026-01-01T00:01:00.000Z,0,0\n"
                 "team/second,2026-01-01T00:02:00.000Z,540000,480000\n"
                 "team/third,2026-01-01T00:21:00.000Z,600000,540000\n");
    /* The second pod came later than it would have, so it still runs when its node goes. */
    expect_said(journal, "--policy rollout", "GPU hours\n");
}

JOURNAL_TEST(backtest__counts_pods_of_vanished_nodes)
{
    node_shows(journal, 0, "n1", one, 1);
    node_shows(journal, 0, "n2", another, 1);
    binds(journal, 1, "first", "n2", "500", 1); /* binpack takes n1 */
    records(journal, 40, (struct command){.kind = COMMAND_NODE_GONE, .node = "n1"});
    ends(journal, 50, "first");
    journal_close(journal);
    expect_said(journal, "--policy binpack", "1 on nodes that went away\n");
}

JOURNAL_TEST(backtest__keeps_foreign_pods_in_place)
{
    struct pod *pod = core_pod(&journal->core, "foreign", "n1");

    node_shows(journal, 0, "n1", one, 1);
    node_shows(journal, 0, "n2", another, 1);
    core_note(&journal->core, pod, "c0 GPU-a 600 0 0");
    records(journal, 1,
            (struct command){.kind = COMMAND_ADOPT,
                             .uid = "foreign",
                             .namespace = "team",
                             .name = "foreign",
                             .node = "n1",
                             .pod = pod,
                             .request = core_request(&journal->core, "600")});
    binds(journal, 2, "mine", "n2", "300", 2);
    ends(journal, 3, "foreign");
    ends(journal, 9, "mine");
    journal_close(journal);
    expect_written(journal, "--policy binpack --placements", "team/mine,n1,0\n");
    expect_said(journal, "--policy binpack", "beginning, 1 bound by others\n");
}

JOURNAL_TEST(backtest__skips_failed_binds)
{
    node_shows(journal, 0, "n1", one, 1);
    reserves(journal, 1, "never", "n1", "300", 1);
    ends(journal, 2, "never");
    reserves(journal, 3, "again", "n1", "300", -1);
    ends(journal, 4, "again");
    binds(journal, 7, "again", "n1", "300", -1);
    ends(journal, 9, "again");
    journal_close(journal);
    expect_waits(journal, "spread", "", "team/again,2026-01-01T00:03:00.000Z,240000,0\n");
    expect_said(journal, "--policy spread", "0 bound by others, 1 that never ran\n");
}

JOURNAL_TEST(backtest__arrives_at_the_bind_without_a_creation_time)
{
    node_shows(journal, 0, "n1", one, 1);
    binds(journal, 5, "old", "n1", "300", -1);
    binds(journal, 6, "new", "n1", "300", 6);
    journal_close(journal);
    expect_said(journal, "--policy spread",
                "- how long 1 of the 2 pods had waited: they arrive when they got their place\n"
                "- when 2 pods end that still ran: here, to the end\n");
}

JOURNAL_TEST(backtest__asks_for_models_and_memory_again)
{
    struct inventory *other = core_inventory(&journal->core, "n2", "n2", another, 1);
    static const char *model[] = {"H100"};
    struct request *request = core_request(&journal->core, "300");

    node_shows(journal, 0, "n1", one, 1);
    other->gpu[0].model = "NVIDIA H100";
    records(journal, 0, (struct command){.kind = COMMAND_NODE, .inventory = other});
    request->n_models = 1;
    request->model = model;
    records(journal, 1,
            (struct command){.kind = COMMAND_RESERVE,
                             .uid = "picky",
                             .namespace = "team",
                             .name = "picky",
                             .node = "n2",
                             .request = request,
                             .created_ms = first_ms});
    steps(journal, 1, COMMAND_CONFIRM, "picky");
    journal_close(journal);
    expect_written(journal, "--policy binpack --placements", "team/picky,n2,0\n");
}

JOURNAL_TEST(backtest__orders_times_after_the_clock_was_set_back)
{
    node_shows(journal, 100, "n1", one, 1);
    binds(journal, 101, "first", "n1", "1000", 101);
    /* At minute 110 of the wrong clock it is minute 10. */
    records(journal, 10,
            (struct command){.kind = COMMAND_CLOCK, .clock_from_ms = first_ms + 110 * minute_ms});
    ends(journal, 20, "first");
    binds(journal, 20, "second", "n1", "1000", 5);
    ends(journal, 30, "second");
    journal_close(journal);
    expect_waits(journal, "binpack", "",
                 "team/first,2026-01-01T00:01:00.000Z,0,0\n"
                 "team/second,2026-01-01T00:05:00.000Z,900000,900000\n");
    expect_said(journal, "", "from 2026-01-01T00:00:00Z to 2026-01-01T00:30:00Z (30m): 2 pods");
    expect_said(journal, "",
                "- the true time: its clock was set back by 100m, and times before are");
}

JOURNAL_TEST(backtest__begins_with_what_was_folded_away)
{
    const int64_t day_ms = INT64_C(24) * 60 * minute_ms;
    struct err err;

    node_shows(journal, 0, "n1", one, 1);
    binds(journal, 1, "old", "n1", "600", 1);
    store_retain(journal->store, 1);
    assert_int_equal(journal->ops.maintain(journal->ops.ctx, first_ms + 2 * day_ms, &err), 0);
    binds(journal, 3000, "new", "n1", "400", 3000);
    ends(journal, 3001, "old");
    journal_close(journal);
    expect_waits(journal, "binpack", "", "team/new,2026-01-03T02:00:00.000Z,0,0\n");
    expect_refused(journal, CTL_NO, journal->ledger, "--from 2026-01-01T00:00:00Z",
                   "ledger.db begins at 2026-01-03T02:00:00.000Z; what was before is folded away");
}

static char *output_of(struct journal *journal, const char *file, const char *words)
{
    const int status = run_on(journal, file, words);

    if (status != CTL_FINE)
        fail_msg("%d: %s", status, journal->shown.err);
    char *out = arena_copy(&journal->core.arena, text_of(journal->shown.out));
    shown_free(&journal->shown);
    return out;
}

JOURNAL_TEST(backtest__is_deterministic)
{
    static const char *const words[] = {"", "-o json", "-o yaml", "-o wide --learn --seed 7"};

    record_small_pods(journal);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        assert_string_equal(output_of(journal, journal->ledger, words[i]),
                            output_of(journal, journal->ledger, words[i]));
    expect_said(journal, "--learn", "; fgd and rollout know what has arrived so far\n");
}

JOURNAL_TEST(backtest__reads_a_ledger_in_use_and_a_backup)
{
    struct err err;

    bind_small_pods(journal);
    const char *in_use = output_of(journal, journal->ledger, "--no-headers");
    if (store_backup(journal->store, journal->other, &err) < 0)
        fail_with(&err);
    assert_string_equal(output_of(journal, journal->other, "--no-headers"), in_use);
    /* Nothing was written, and work goes on. */
    node_shows(journal, 200, "n3", NULL, 0);
}

JOURNAL_TEST(backtest__reads_ledgers_of_released_versions)
{
    static const char *const names[] = {"1.db", "1-killed.db", "2.db", "2-killed.db"};
    const char *source = getenv("MILLIGPU_SOURCE_DIR");

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *file = arena_printf(&journal->core.arena, "%s/tests/released/%s",
                                        source != NULL ? source : ".", names[i]);
        assert_non_null(strstr(output_of(journal, file, ""), ": 4 pods arrive\n"));
    }
}

JOURNAL_TEST(backtest__has_every_number_in_the_document)
{
    struct document *document;
    struct err err;

    record_small_pods(journal);
    const char *json = output_of(journal, journal->ledger, "--policy binpack -o json");
    if (document_parse_json(text_of(json), "output", &journal->core.arena, &document, &err) < 0)
        fail_with(&err);
    const struct document *recorded = document_get(document, "items")->first;
    const struct document *binpack = recorded->next;
    assert_int_equal(document_int(document, "arrivals"), 3);
    assert_string_equal(document_str(document, "targetWorkload.source"), "arrivals");
    assert_string_equal(document_str(recorded, "policy"), "recorded");
    assert_int_equal(document_int(recorded, "waitSeconds"), 2400);
    assert_int_equal(document_int(recorded, "waited"), 1);
    assert_int_equal(document_int(binpack, "atOnce"), 3);
    assert_int_equal(document_int(binpack, "waitNoMore"), 1);
    assert_string_equal(document_str(document_get(document, "pods")->first, "pod"), "team/whole");
}

JOURNAL_TEST(backtest__refuses_an_impossible_period_or_option)
{
    static const struct {
        const char *words;
        int status;
        const char *said;
    } bad[] = {
        {"--from 2026-01-02T00:00:00Z --to 2026-01-01T00:00:00Z", CTL_USAGE,
         "--from is not before --to"},
        {"--from yesterday", CTL_USAGE, "--from is yesterday: it is 2026-01-02T14:05:00Z, or"},
        {"--to 12", CTL_USAGE, "--to is 12: it is"},
        {"--from 2025-12-31T00:00:00Z", CTL_NO, "ledger.db begins at 2026-01-01T00:00:00.000Z\n"},
        {"--from 2026-01-01T03:00:00Z", CTL_NO, "ledger.db ends at 2026-01-01T02:00:00.000Z\n"},
        {"--to 2025-12-31T00:00:00Z", CTL_NO, "--to is 2025-12-31T00:00:00.000Z: the journal"},
        {"--from 2026-01-01T01:30:00Z", CTL_NO, "milligpud placed no pod from 2026-01-01T01:30"},
        {"--nodes n", CTL_USAGE, "--ledger and --nodes exclude each other"},
        {"--cluster c", CTL_USAGE, "--ledger and --cluster exclude each other"},
        {"--arrivals a", CTL_USAGE, "--ledger and --arrivals exclude each other"},
        {"--pods p", CTL_USAGE, "--ledger and --pods exclude each other"},
        {"--churn 90", CTL_USAGE, "--ledger and --churn exclude each other"},
        {"--plot p", CTL_USAGE, "--ledger and --plot exclude each other"},
        {"--policy best", CTL_USAGE, "--policy: there is no policy \"best\""},
        {"--placements p", CTL_USAGE, "--placements wants one --policy"},
    };

    record_small_pods(journal);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        expect_refused(journal, bad[i].status, journal->ledger, bad[i].words, bad[i].said);
    expect_refused(journal, CTL_NO, journal->ledger,
                   arena_printf(&journal->core.arena, "--csv %s", journal->ledger),
                   "is the file of --ledger: write another one");
    assert_int_equal(run_program(&journal->shown, "simulate --from 5d --nodes n --arrivals a"),
                     CTL_USAGE);
    assert_non_null(strstr(journal->shown.err, "--from is for --ledger"));
    shown_free(&journal->shown);
}

JOURNAL_TEST(backtest__refuses_a_file_that_is_not_a_ledger)
{
    expect_refused(journal, CTL_NO, "/nonexistent", "", "/nonexistent: No such file");
    expect_refused(journal, CTL_NO, journal->folder, "", "a folder; the ledger is a file in one");
    write_file(journal->other, "nothing of ours, but long enough for that\n");
    expect_refused(journal, CTL_NO, journal->other, "", "not a milligpu ledger");
    journal_close(journal);
    expect_refused(journal, CTL_NO, journal->ledger, "", "its journal is empty");
}

/* Past the store and its triggers. */
static void spoil(struct journal *journal, const char *sql)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(journal->ledger, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DROP TRIGGER IF EXISTS journal_stays", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Entry 3 reserves for the first pod, entry 1 shows its node. */
JOURNAL_TEST(backtest__names_the_entry_that_no_daemon_writes)
{
    static const struct {
        const char *set;
        const char *said;
    } spoilt[] = {
        {"command = json_remove(command, '$.wants') WHERE seq = 3", "journal entry 3: what pod "},
        {"command = json_set(command, '$.wants[0].milli', 0) WHERE seq = 3", "team/first asks for"},
        {"command = json_set(command, '$.wants[0].kind', 'x') WHERE seq = 3",
         "team/first asks for"},
        {"command = json_set(command, '$.models', json('[1]')) WHERE seq = 3", "asks for"},
        {"result = json_set(result, '$.allocation.node', '') WHERE seq = 3", "first: node is not"},
        {"result = json_set(result, '$.allocation.state', 'x') WHERE seq = 3", "state is not what"},
        {"result = json_set(result, '$.allocation.shares[0].gpu', '') WHERE seq = 3", "gpu is not"},
        {"result = json_set(result, '$.allocation.shares[0].milli', 1001) WHERE seq = 3",
         "milli is not what a daemon writes"},
        {"result = json_set(result, '$.node.gpus[0].milli', 0) WHERE seq = 1", "node n1: gpus is"},
        {"result = json_set(result, '$.node.gpus[0].alias', '') WHERE seq = 1", "node n1: gpus is"},
        {"result = json_set(result, '$.node.source', 'x') WHERE seq = 1", "node n1: source is not"},
        {"result = json_set(result, '$.node.claims', json('[1]')) WHERE seq = 1", "claims is not"},
        {"at = 9223372036854775807 WHERE seq = 4", "journal entry 4: its time is none"},
        {"at = -9223372036854775808 WHERE seq = 1", "the times of its journal are none"},
    };
    char sql[256];

    record_small_pods(journal);
    spoil(journal, "CREATE TABLE kept AS SELECT * FROM journal");
    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        (void)snprintf(sql, sizeof sql, "UPDATE journal SET %s", spoilt[i].set);
        spoil(journal, sql);
        expect_refused(journal, CTL_NO, journal->ledger, "", spoilt[i].said);
        spoil(journal, "UPDATE journal SET at = k.at, command = k.command, result = k.result"
                       " FROM kept AS k WHERE k.seq = journal.seq");
    }
    expect_said(journal, "--policy binpack", "3 pods arrive\n");
}
