#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static const int64_t day = 24 * 60 * 60 * 1000;

struct answers {
    struct strbuf text;
    uint64_t last;
    unsigned count;
};

static void take(void *user, const struct history_row *row)
{
    struct answers *answers = user;
    assert_true(answers->last == 0 || row->row < answers->last);
    answers->last = row->row;
    answers->count++;
    strbuf_printf(&answers->text, "%s/%s on %s/%s %u %u %s;", row->uid, row->name, row->node,
                  row->gpu, row->milli, row->mib, row->state);
}

static void answers(struct shelf *shelf, const struct store_history_query *query,
                    const char *wanted)
{
    struct answers got = {.count = 0};
    struct err err;
    strbuf_init(&got.text);
    assert_int_equal(store_history(shelf->store, query, &got, take, &err), 0);
    assert_string_equal(got.text.data, wanted);
    /* Reading one by one gives the same. */
    struct answers piece = {.count = 0};
    struct store_history_query next = *query;
    strbuf_init(&piece.text);
    next.limit = 1;
    for (unsigned i = 0; i <= got.count; i++) {
        next.before = piece.last;
        assert_int_equal(store_history(shelf->store, &next, &piece, take, &err), 0);
    }
    assert_string_equal(piece.text.data, wanted);
    strbuf_done(&got.text);
    strbuf_done(&piece.text);
}

static void at(struct core_fixture *core, int64_t ms)
{
    core->now_ms = ms - 1; /* the fixture advances its clock before it acts */
}

static void reserve_at(struct core_fixture *core, int64_t ms, const char *uid, const char *words)
{
    at(core, ms);
    assert_int_equal(core_reserve(core, uid, "n1", words), VERDICT_OK);
}

static void step_at(struct core_fixture *core, int64_t ms, enum command_kind kind, const char *uid)
{
    at(core, ms);
    assert_int_equal(core_step(core, kind, uid), VERDICT_OK);
}

static void node_gone(struct core_fixture *core, const char *node)
{
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = node};

    assert_int_equal(core_do(core, &gone), VERDICT_OK);
}

/* Runs a round of retention, which leaves so many rows. */
static void retain(struct shelf *shelf, int64_t now_ms, int journal, int allocations)
{
    shelf_maintain(shelf, now_ms);
    assert_sql(shelf, "SELECT count(*) FROM journal", journal);
    assert_sql(shelf, "SELECT count(*) FROM allocation", allocations);
}

SHELF_TEST(history__says_which_pod_held_a_gpu_when)
{
    at(core, 100);
    (void)core_node(core, "n1", two_a100, 2);
    reserve_at(core, 1000, "a", "600x2");
    reserve_at(core, 2000, "b", "300");
    step_at(core, 3000, COMMAND_RELEASE, "a");
    reserve_at(core, 4000, "a", "100"); /* the same pod again */
    shelf_save(shelf);

    struct store_history_query query = {.gpu = "GPU-a"};
    answers(shelf, &query,
            "a/pod on n1/GPU-a 100 8192 reserved;b/pod on n1/GPU-a 300 24576 reserved;"
            "a/pod on n1/GPU-a 600 49152 released;");
    query.at_ms = 999;
    answers(shelf, &query, "");
    query.at_ms = 1000;
    answers(shelf, &query, "a/pod on n1/GPU-a 600 49152 released;");
    query.at_ms = 2999;
    answers(shelf, &query,
            "b/pod on n1/GPU-a 300 24576 reserved;a/pod on n1/GPU-a 600 49152 released;");
    query.at_ms = 3000;
    answers(shelf, &query, "b/pod on n1/GPU-a 300 24576 reserved;");
    query = (struct store_history_query){.gpu = "GPU-b"};
    answers(shelf, &query, "a/pod on n1/GPU-b 600 49152 released;");
    query.node = "n2";
    answers(shelf, &query, "");
    query = (struct store_history_query){.namespace = "default", .pod = "pod", .at_ms = 1500};
    answers(shelf, &query,
            "a/pod on n1/GPU-b 600 49152 released;a/pod on n1/GPU-a 600 49152 released;");
    query = (struct store_history_query){.gpu = "'; DROP TABLE node; --"};
    answers(shelf, &query, "");
    query = (struct store_history_query){.namespace = "other"};
    answers(shelf, &query, "");
}

SHELF_TEST(history__finds_a_gpu_by_both_names)
{
    (void)core_node(core, "n1", two_counted, 2);
    (void)core_reserve(core, "a", "n1", "700");
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "b", "n1", "300");
    shelf_save(shelf);
    const char *wanted =
        "b/pod on n1/GPU-a 300 24576 reserved;a/pod on n1/n1/gpu-0 700 57344 reserved;";
    struct store_history_query query = {.gpu = "GPU-a"};
    answers(shelf, &query, wanted);
    query.gpu = "n1/gpu-0";
    answers(shelf, &query, wanted);
}

/* Live charges and ended ones are found by different indexes; the newest comes first. */
SHELF_TEST(history__of_a_gpu_is_one_list_of_live_and_ended)
{
    static const char *const ends[] = {"a", "c", "e"};
    char uid[] = "a";

    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", two_counted, 2);
    for (; uid[0] <= 'e'; uid[0]++)
        assert_int_equal(core_reserve(core, uid, "n1", "100"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "f", "n2", "100"), VERDICT_OK);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        assert_int_equal(core_step(core, COMMAND_RELEASE, ends[i]), VERDICT_OK);
    shelf_save(shelf);
#define ROW(uid, state) uid "/pod on n1/GPU-a 100 8192 " state ";"
    const struct store_history_query query = {.gpu = "GPU-a"};
    answers(shelf, &query,
            ROW("e", "released") ROW("d", "reserved") ROW("c", "released") ROW("b", "reserved")
                ROW("a", "released"));
#undef ROW
}

SHELF_TEST(history__has_a_row_for_a_pod_without_a_gpu)
{
    struct pod *pod = core_pod(core, "w", "n1");
    pod->whole_gpus = 1;
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core_adopt(core, pod, NULL), VERDICT_OK);
    shelf_save(shelf);
    const struct store_history_query query = {.namespace = "default", .pod = "pod-w"};
    answers(shelf, &query, "w/pod-w on n1/ 0 0 bound;");
}

static void add_up(void *user, const struct store_granted *row)
{
    struct strbuf *text = user;

    strbuf_printf(text, "%s %s %llu %llu %llu;", row->namespace, row->model,
                  (unsigned long long)row->pods, (unsigned long long)row->milli_s,
                  (unsigned long long)row->mib_s);
}

static void granted(struct shelf *shelf, int64_t since_ms, int64_t now_ms, const char *wanted)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct err err;

    strbuf_init(&text);
    assert_int_equal(store_granted(shelf->store, since_ms, now_ms, &text, add_up, &err), 0);
    assert_string_equal(text.data, wanted);
}

SHELF_TEST(granted__is_counted_from_bound_to_ended)
{
    at(core, 100);
    (void)core_node(core, "n1", two_a100, 2);
    reserve_at(core, 1000, "a", "600x2");
    step_at(core, 2000, COMMAND_CONFIRM, "a");
    reserve_at(core, 3000, "b", "300");
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "b"), VERDICT_OK);
    reserve_at(core, 4000, "never", "100");
    step_at(core, 12000, COMMAND_RELEASE, "a");
    assert_int_equal(core_step(core, COMMAND_RELEASE, "never"), VERDICT_OK);
    shelf_save(shelf);
    /* a: 1200 milli for 10 s; b: 300 for 19 s, since the fixture's clock goes on by 1 ms. */
    granted(shelf, 0, 23000, "default NVIDIA A100 2 17700 1449984;");
    granted(shelf, 7000, 23000, "default NVIDIA A100 2 10800 884736;"); /* 5 s and 16 s */
    granted(shelf, 12000, 13000, "default NVIDIA A100 1 300 24576;");
    granted(shelf, 12000, 12000, "");
    granted(shelf, 30000, 20000, ""); /* the clock was set back */
}

SHELF_TEST(history__does_not_see_an_open_batch)
{
    struct err err;
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    (void)core_reserve(core, "a", "n1", "700");
    shelf_begin(shelf);
    assert_int_equal(shelf_write(shelf, &err), STORE_OK);
    const struct store_history_query query = {.gpu = "GPU-a"};
    answers(shelf, &query, "");
    assert_int_equal(store_verify(shelf->store, &err), 0);
    shelf_commit(shelf);
    answers(shelf, &query, "a/pod on n1/GPU-a 700 57344 reserved;");
}

SHELF_TEST(retention__drops_the_old_and_keeps_the_present)
{
    struct store_facts facts;
    struct err err;
    char uid[16];
    shelf_close(shelf);
    shelf->rules.retention_days = 30;
    shelf_open(shelf);

    at(core, day);
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", two_counted, 2);
    node_gone(core, "n2");
    (void)core_reserve(core, "stays", "n1", "100");
    shelf_save(shelf);
    for (int i = 0; i < 10; i++) {
        at(core, (i + 1) * 10 * day);
        (void)snprintf(uid, sizeof uid, "p%d", i);
        assert_int_equal(core_reserve(core, uid, "n1", "50"), VERDICT_OK);
        assert_int_equal(core_step(core, COMMAND_RELEASE, uid), VERDICT_OK);
        shelf_save(shelf);
    }

    shelf_maintain(shelf, 75 * day); /* before day 45 */
    shelf_same(shelf);
    assert_int_equal(store_verify(shelf->store, &err), 0);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 7);
    assert_sql(shelf, "SELECT count(*) FROM share", 7);
    assert_sql(shelf, "SELECT min(seq) FROM journal", 13);
    assert_sql(shelf, "SELECT count(*) FROM baseline", 2);
    assert_int_equal(store_facts(shelf->store, &facts, &err), 0);
    assert_int_equal(facts.journal_rows, 12);

    /* Everything goes, yet the journal keeps counting. */
    shelf_maintain(shelf, 1000 * day);
    shelf_turn(shelf);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 1);
    assert_sql(shelf, "SELECT count(*) FROM journal", 0);
    step_at(core, 1001 * day, COMMAND_CONFIRM, "stays");
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT seq FROM journal", 25);
}

SHELF_TEST(retention__takes_a_little_at_a_time)
{
    struct err err;
    char uid[16];
    shelf->store->limits.fold = 4;
    store_retain(shelf->store, 1);
    (void)core_node(core, "n1", two_a100, 2);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(uid, sizeof uid, "p%d", i);
        (void)core_reserve(core, uid, "n1", "50");
        (void)core_step(core, COMMAND_RELEASE, uid);
    }
    shelf_save(shelf);
    for (int round = 0; round < 6; round++) {
        assert_sql(shelf, "SELECT count(*) FROM journal", 21 - 4 * round);
        shelf_maintain(shelf, 9 * day);
        shelf_same(shelf);
        assert_int_equal(store_verify(shelf->store, &err), 0);
    }
    assert_sql(shelf, "SELECT count(*) FROM journal", 0);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 0);
}

SHELF_TEST(retention__keeps_history_for_all_of_its_days)
{
    store_retain(shelf->store, 30);
    (void)core_node(core, "n1", two_a100, 1);
    (void)core_reserve(core, "a", "n1", "50");
    (void)core_step(core, COMMAND_RELEASE, "a");
    shelf_save(shelf);
    const int64_t released = shelf_number(shelf->path, "SELECT released_ms FROM allocation");
    shelf_maintain(shelf, released + 30 * day);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 1);
    shelf_maintain(shelf, released + 31 * day);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 0);
}

/* The kind of the last entry must not matter. */
SHELF_TEST(retention__may_end_a_round_with_any_entry)
{
    struct err err;
    shelf->store->limits.fold = 1;
    store_retain(shelf->store, 1);
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", two_counted, 2);
    (void)core_reserve(core, "a", "n1", "50");
    (void)core_step(core, COMMAND_CONFIRM, "a");
    (void)core_reserve(core, "b", "n1", "50");
    (void)core_step(core, COMMAND_RELEASE, "b");
    node_gone(core, "n2");
    shelf_save(shelf);
    for (int left = 7; left > 0; left--) {
        assert_sql(shelf, "SELECT count(*) FROM journal", left);
        shelf_maintain(shelf, 9 * day);
        assert_int_equal(store_verify(shelf->store, &err), 0);
    }
    assert_sql(shelf, "SELECT count(*) FROM baseline", 2);
    shelf_same(shelf);
}

SHELF_TEST(retention__keeps_an_object_that_came_again)
{
    struct err err;
    store_retain(shelf->store, 1);
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", two_counted, 2);
    node_gone(core, "n2");
    (void)core_node(core, "n2", two_counted, 2);
    (void)core_reserve(core, "a", "n1", "50");
    (void)core_step(core, COMMAND_RELEASE, "a");
    (void)core_reserve(core, "a", "n1", "70");
    shelf_save(shelf);
    shelf_maintain(shelf, 9 * day);
    assert_sql(shelf, "SELECT count(*) FROM journal", 0);
    assert_sql(shelf, "SELECT count(*) FROM baseline", 3);
    assert_int_equal(store_verify(shelf->store, &err), 0);
    shelf_turn(shelf);
}

/* The clock was set back after it. */
SHELF_TEST(retention__keeps_entries_behind_one_of_this_moment)
{
    static const struct {
        const char *node;
        int64_t day;
    } entry[] = {{"n1", 1}, {"n2", 1000}, {"n3", 2}};
    store_retain(shelf->store, 30);
    for (size_t i = 0; i < ARRAY_LEN(entry); i++) {
        at(core, entry[i].day * day);
        assert_int_equal(core_node(core, entry[i].node, NULL, 0), VERDICT_OK);
        shelf_save(shelf);
    }
    const int64_t now = 1000 * day;
    shelf_maintain(shelf, now);
    assert_sql(shelf, "SELECT count(*) FROM journal", 2);
    shelf_maintain(shelf, now - 1);
    assert_sql(shelf, "SELECT count(*) FROM journal", 0);
}

SHELF_TEST(retention__unset_drops_nothing)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "50");
    (void)core_step(core, COMMAND_RELEASE, "a");
    shelf_save(shelf);
    retain(shelf, 100000 * day, 3, 1);
}

SHELF_TEST(retention__keeps_young_entries_when_the_clock_is_set_back)
{
    store_retain(shelf->store, 10);
    at(core, 100 * day);
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    at(core, 5 * day); /* clock set back: these entries only look old */
    (void)core_reserve(core, "a", "n1", "50");
    shelf_save(shelf);
    shelf_maintain(shelf, 101 * day);
    assert_sql(shelf, "SELECT count(*) FROM journal", 2);
    shelf_same(shelf);
    /* Retention works on although its last round now lies in the future. */
    shelf_maintain(shelf, 120 * day);
    assert_sql(shelf, "SELECT count(*) FROM journal", 0);
    shelf_same(shelf);
}

SHELF_TEST(retention__drops_nothing_while_the_clock_is_doubted)
{
    store_retain(shelf->store, 10);
    at(core, day);
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "50");
    (void)core_step(core, COMMAND_RELEASE, "a");
    shelf_save(shelf);
    store_doubt_clock(shelf->store, true);
    retain(shelf, 401 * day, 3, 1);
    store_doubt_clock(shelf->store, false);
    retain(shelf, 12 * day, 0, 0);
}

/* Otherwise a clock 400 days ahead for two seconds would let the journal grow for 400 days. */
SHELF_TEST(retention__is_not_held_up_by_a_future_entry)
{
    struct store_facts facts;
    struct err err;
    store_retain(shelf->store, 10);
    at(core, day);
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    at(core, 401 * day);
    (void)core_reserve(core, "a", "n1", "50");
    (void)core_step(core, COMMAND_CONFIRM, "a");
    shelf_save(shelf);
    shelf_maintain(shelf, 12 * day);
    assert_sql(shelf, "SELECT count(*) FROM journal", 2); /* for now */
    at(core, 2 * day);
    (void)core_reserve(core, "b", "n1", "50");
    shelf_save(shelf);
    at(core, 9 * day);
    (void)core_reserve(core, "c", "n1", "50");
    shelf_save(shelf);
    shelf_maintain(shelf, 13 * day);
    assert_sql(shelf, "SELECT count(*) FROM journal", 1);
    assert_int_equal(store_facts(shelf->store, &facts, &err), 0);
    assert_int_equal(facts.journal_rows, 1);
    shelf_turn(shelf);
}

static void step_clock(struct shelf *shelf, int64_t from_ms, int64_t to_ms)
{
    const struct command step = {.kind = COMMAND_CLOCK, .at_ms = to_ms, .clock_from_ms = from_ms};
    struct change change;
    struct err err;
    assert_int_equal(ledger_decide(shelf->core.ledger, &step, &change), VERDICT_OK);
    shelf_begin(shelf);
    assert_int_equal(shelf->ops.write(shelf->ops.ctx, &step, &change, &err), STORE_OK);
    shelf_commit(shelf);
}

SHELF_TEST(clock_step__beyond_a_day_is_known_after_a_start)
{
    int64_t last, stepped;
    struct err err;
    static const struct {
        int64_t from;
        int64_t to;
        bool counts;
    } steps[] = {{5, 5, false},
                 {100, 100 + 24 * 3600000, false},
                 {100, 101 + 24 * 3600000, true},
                 {200 + 24 * 3600000, 200, false},
                 {201 + 24 * 3600000, 200, true}};
    int64_t known = 0;
    assert_int_equal(store_clock(shelf->store, &last, &stepped, &err), 0);
    assert_int_equal(last, 0);
    assert_int_equal(stepped, 0);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        step_clock(shelf, steps[i].from, steps[i].to);
        shelf_turn(shelf);
        known = steps[i].counts ? steps[i].to : known;
        assert_int_equal(store_clock(shelf->store, &last, &stepped, &err), 0);
        assert_int_equal(last, steps[i].to);
        assert_int_equal(stepped, known);
    }
}

SHELF_TEST(released_memory__is_read_again)
{
    int64_t last, stepped;
    struct err err;

    step_clock(shelf, 5, 7);
    store_release_memory(shelf->store);
    store_release_memory(shelf->store);
    assert_int_equal(store_clock(shelf->store, &last, &stepped, &err), 0);
    assert_int_equal(last, 7);
    step_clock(shelf, 7, 9);
    shelf_turn(shelf);
    assert_int_equal(store_clock(shelf->store, &last, &stepped, &err), 0);
    assert_int_equal(last, 9);
}

SHELF_TEST(clock_step__is_forgotten_once_the_clock_is_trusted)
{
    int64_t last, stepped;
    struct err err;
    store_retain(shelf->store, 1);
    step_clock(shelf, 2 + 24 * 3600000, 1);
    store_doubt_clock(shelf->store, true);
    shelf_maintain(shelf, 102 + 24 * 3600000);
    assert_int_equal(store_clock(shelf->store, &last, &stepped, &err), 0);
    assert_int_equal(stepped, 1);
    store_doubt_clock(shelf->store, false);
    shelf_maintain(shelf, 102 + 24 * 3600000);
    assert_int_equal(store_clock(shelf->store, &last, &stepped, &err), 0);
    assert_int_equal(stepped, 0);
}

SHELF_TEST(log__is_checkpointed_between_batches)
{
    struct store_facts facts;
    struct err err;
    shelf->store->limits.wal_soft = 8;
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(core_reserve(core, "a", "n1", "50"), VERDICT_OK);
        assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
        shelf_save(shelf);
        shelf_maintain(shelf, i);
    }
    assert_int_equal(store_facts(shelf->store, &facts, &err), 0);
    assert_string_equal(facts.path, shelf->path);
    assert_int_equal(facts.schema, 12);
    assert_int_equal(facts.journal_rows, 401);
    assert_in_range(facts.bytes, 40000, 1000000);
    assert_in_range(facts.wal_bytes, 1, 48 * 4152); /* the tables are 42 of these pages */
    shelf_turn(shelf);
}

/* A reader that never ends keeps the log growing; at some point writes are refused. */
SHELF_TEST(log__that_grows_beyond_its_limit_is_refused)
{
    struct reader reader;
    struct err err;
    shelf->store->limits.wal_soft = 4;
    shelf->store->limits.wal_hard = 8;
    shelf->store->limits.wal_max = 40;
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    assert_int_equal(reader_open(shelf->store, &reader, &err), 0);
    assert_int_equal(db_exec(reader.db, "BEGIN; SELECT * FROM node", &err), 0);
    int i = 0;
    for (; i < 100; i++) {
        if (shelf->ops.begin(shelf->ops.ctx, &err) < 0)
            break;
        (void)core_reserve(core, "a", "n1", "50");
        (void)core_step(core, COMMAND_RELEASE, "a");
        assert_int_equal(shelf_write(shelf, &err), STORE_OK);
        shelf_commit(shelf);
        shelf_maintain(shelf, i);
    }
    assert_in_range(i, 1, 99);
    assert_int_equal(err.code, ERR_FULL);
    assert_non_null(strstr(err.text, "a program reads the ledger"));
    reader_done(&reader);
    shelf_maintain(shelf, 100000);
    core_forget_undo(core);
    shelf->written = 0;
    (void)core_reserve(core, "a", "n1", "50");
    shelf_save_and_turn(shelf);
}

SHELF_TEST(backup__opens_as_the_same_ledger)
{
    struct err err;
    char copy[128];
    (void)snprintf(copy, sizeof copy, "%s/copy.db", shelf->folder);
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "600x2");
    shelf_save(shelf);
    assert_int_equal(store_set_cluster(shelf->store, "one", &err), 0);
    assert_int_equal(store_backup(shelf->store, copy, &err), 0);
    assert_int_equal(shelf_files(shelf, "copy.db"), 1); /* one file, no log beside it */

    assert_int_equal(store_backup(shelf->store, copy, &err), -(int)ERR_CONFLICT);
    assert_non_null(strstr(err.text, "already"));
    assert_int_equal(store_backup(shelf->store, shelf->path, &err), -(int)ERR_CONFLICT);
    assert_int_equal(store_backup(shelf->store, "", &err), -(int)ERR_INVALID);
    assert_int_equal(store_backup(shelf->store, "/tmp/", &err), -(int)ERR_INVALID);
    assert_int_equal(store_backup(shelf->store, "/no/such/folder/x", &err), -(int)ERR_IO);
    assert_int_equal(shelf_files(shelf, "part"), 0);

    shelf_close(shelf);
    shelf->rules.path = copy;
    shelf_open(shelf);
    shelf_same(shelf);
    assert_int_equal(store_set_cluster(shelf->store, "two", &err), -(int)ERR_FOREIGN);
    shelf_turn(shelf);
}

struct asking {
    struct shelf *shelf;
    atomic_bool enough;
    unsigned rounds;
};

static void ignore(void *user, const struct history_row *row)
{
    must(user != NULL && row->uid[0] != '\0');
}

static void *ask(void *user)
{
    struct asking *asking = user;
    const struct store_history_query query = {.gpu = "GPU-a"};
    struct store *store = asking->shelf->store;
    struct store_facts facts;
    struct err err;
    char copy[128];
    for (; !atomic_load(&asking->enough) || asking->rounds < 3; asking->rounds++) {
        (void)snprintf(copy, sizeof copy, "%s/copy%u.db", asking->shelf->folder, asking->rounds);
        must(store_history(store, &query, asking, ignore, &err) == 0);
        must(store_verify(store, &err) == 0);
        must(store_facts(store, &facts, &err) == 0);
        must(store_backup(store, copy, &err) == 0);
        must(unlink(copy) == 0);
    }
    return NULL;
}

static void read_and_write_at_once(struct shelf *shelf)
{
    struct core_fixture *core = &shelf->core;
    struct asking asking = {.shelf = shelf};
    pthread_t thread;
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    store_retain(shelf->store, 1);
    assert_int_equal(pthread_create(&thread, NULL, ask, &asking), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(core_reserve(core, "a", "n1", "50"), VERDICT_OK);
        assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
        shelf_save(shelf);
        shelf_maintain(shelf, day + core->now_ms / 2);
    }
    atomic_store(&asking.enough, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    shelf_same(shelf);
}

SHELF_TEST(readers__run_beside_the_writer)
{
    read_and_write_at_once(shelf);
    shelf_turn(shelf);
}

SHELF_TEST(readers__read_a_ledger_in_memory)
{
    shelf_close(shelf);
    shelf->rules.path = ":memory:";
    shelf_open(shelf);
    read_and_write_at_once(shelf);
}
