/* The journal, for readers that follow it. */
#include <stdio.h>
#include <string.h>

#include "milligpu/store/past/journal_file.h"

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static const struct core_gpu one_a100[] = {{.id = "GPU-a", .index = 0, .mib = 81920}};

/* Four entries: 1 the node, 2 to 4 reservations. */
static void four_entries(struct shelf *shelf)
{
    struct core_fixture *core = &shelf->core;

    (void)core_node(core, "n1", one_a100, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(core_reserve(core, arena_printf(&core->arena, "p%d", i), "n1", "100"),
                         VERDICT_OK);
    shelf_save(shelf);
    assert_int_equal(store_newest(shelf->store), 4);
}

struct seen {
    char text[256];
    unsigned most; /* stops after so many */
    unsigned count;
};

static bool see(void *user, const struct journal_row *row)
{
    struct seen *seen = user;
    const size_t used = strlen(seen->text);

    assert_true(row->at_ms > 0);
    assert_int_equal(row->command[0], '{');
    assert_int_equal(row->result[0], '{');
    (void)snprintf(seen->text + used, sizeof seen->text - used, "%llu %s;",
                   (unsigned long long)row->seq, row->kind);
    return ++seen->count < seen->most;
}

static void assert_entries(struct shelf *shelf, uint64_t after, uint32_t limit, unsigned most,
                           const char *wanted)
{
    struct seen seen = {.most = most};
    const struct store_journal_query query = {
        .after = after, .limit = limit, .user = &seen, .each = see};
    uint64_t folded = 99;
    struct err err;

    if (store_journal(shelf->store, &query, &folded, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(seen.text, wanted);
    assert_int_equal(folded, 0);
}

SHELF_TEST(journal__gives_entries_after_a_number_oldest_first)
{
    assert_entries(shelf, 0, 10, 10, "");
    four_entries(shelf);
    assert_entries(shelf, 0, 10, 10, "1 node;2 reserve;3 reserve;4 reserve;");
    assert_entries(shelf, 2, 10, 10, "3 reserve;4 reserve;");
    assert_entries(shelf, 4, 10, 10, "");
    assert_entries(shelf, 1, 2, 10, "2 reserve;3 reserve;");
    assert_entries(shelf, 1, 10, 1, "2 reserve;");
}

SHELF_TEST(journal__leaves_out_entries_that_are_no_json)
{
    four_entries(shelf);
    shelf_spoil(shelf, "UPDATE journal SET command = 'broken' WHERE seq = 2");
    assert_entries(shelf, 0, 10, 10, "1 node;3 reserve;4 reserve;");
    shelf_spoil(shelf, "UPDATE journal SET result = '{' WHERE seq = 3");
    assert_entries(shelf, 0, 10, 10, "1 node;4 reserve;");
    shelf_spoil(shelf, "UPDATE journal SET command = '{\"kind\":null}' WHERE seq = 4");
    assert_entries(shelf, 3, 10, 10, "4 ;");
}

SHELF_TEST(journal__says_up_to_where_retention_dropped_entries)
{
    struct seen seen = {.most = 10};
    const struct store_journal_query query = {.after = 1, .limit = 10, .user = &seen, .each = see};
    const int64_t day = 24 * 60 * 60 * 1000;
    uint64_t folded = 0;
    struct err err;

    four_entries(shelf);
    store_retain(shelf->store, 1);
    shelf_maintain(shelf, 9 * day);
    assert_int_equal(store_journal(shelf->store, &query, &folded, &err), 0);
    assert_string_equal(seen.text, "");
    assert_int_equal(folded, 4);
    assert_int_equal(store_newest(shelf->store), 4);
}

/* --- the journal of a file --- */

static int see_span(void *user, const struct journal_span *span, struct err *err)
{
    struct seen *seen = user;

    assert_non_null(err);
    assert_true(span->oldest_ms > 0 && span->oldest_ms <= span->newest_ms);
    (void)snprintf(seen->text, sizeof seen->text, "folded %llu, set %lld;",
                   (unsigned long long)span->folded, (long long)span->set_ms);
    return 0;
}

static int see_object(void *user, bool is_node, const char *state, struct err *err)
{
    struct seen *seen = user;
    const size_t used = strlen(seen->text);

    assert_non_null(err);
    assert_int_equal(state[0], '{');
    (void)snprintf(seen->text + used, sizeof seen->text - used, "%s;",
                   is_node ? "a node" : "a pod");
    return 0;
}

static int see_entry(void *user, const struct journal_row *row, struct err *err)
{
    struct seen *seen = user;

    if (seen->count == seen->most)
        return err_set(err, ERR_TOO_LARGE, "seen enough");
    (void)see(user, row);
    return 0;
}

static int read_journal(const struct shelf *shelf, struct seen *seen, struct err *err)
{
    const struct journal_file_reader reader = {
        .user = seen, .span = see_span, .object = see_object, .entry = see_entry};

    return store_journal_file(shelf->path, &reader, err);
}

SHELF_TEST(journal_file__is_read_beside_its_daemon_and_without)
{
    static const char all[] = "folded 0, set 0;1 node;2 reserve;3 reserve;4 reserve;";
    struct seen seen = {.most = 10};
    struct err err;

    assert_int_equal(read_journal(shelf, &seen, &err), -(int)ERR_INVALID);
    assert_non_null(strstr(err.text, "its journal is empty"));
    four_entries(shelf);
    assert_int_equal(read_journal(shelf, &seen, &err), 0);
    assert_string_equal(seen.text, all);
    shelf_close(shelf);
    seen = (struct seen){.most = 10};
    assert_int_equal(read_journal(shelf, &seen, &err), 0);
    assert_string_equal(seen.text, all);
    /* The reader may end it, with an error of its own. */
    seen = (struct seen){.most = 2};
    assert_int_equal(read_journal(shelf, &seen, &err), -(int)ERR_TOO_LARGE);
    assert_string_equal(err.text, "seen enough");
}

static int pass_object(void *user, bool is_node, const char *state, struct err *err)
{
    (void)user, (void)is_node, (void)state, (void)err;
    return 0;
}

static int pass_span(void *user, const struct journal_span *span, struct err *err)
{
    (void)user, (void)span, (void)err;
    return 0;
}

static int pass_entry(void *user, const struct journal_row *row, struct err *err)
{
    (void)user, (void)row, (void)err;
    return 0;
}

struct completed {
    unsigned whole;
    unsigned ends;
};

/* Every result has the shares, also those of steps, and those of pods that are in the baseline. */
static int see_whole(void *user, const struct journal_row *row, struct err *err)
{
    struct completed *completed = user;
    const char *share = strstr(row->result, "\"shares\":[{");

    assert_non_null(err);
    if (strcmp(row->kind, "node") == 0)
        return 0;
    if (share == NULL || strstr(share, "\"milli\":100") == NULL ||
        strstr(row->result, "\"origin\":\"granted\"") == NULL)
        fail_msg("entry %llu: %s", (unsigned long long)row->seq, row->result);
    completed->whole++;
    if (strcmp(row->kind, "release") == 0) {
        assert_non_null(strstr(row->result, "\"state\":\"released\""));
        completed->ends++;
    }
    return 0;
}

SHELF_TEST(journal_file__completes_steps_with_their_shares)
{
    struct completed completed = {.whole = 0};
    struct err err;
    const struct journal_file_reader reader = {
        .user = &completed, .object = pass_object, .entry = see_whole, .span = pass_span};

    four_entries(shelf);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "p0"), VERDICT_OK);
    shelf_save(shelf);
    /* The beginnings of all three are folded away; of p0 also a step. */
    store_retain(shelf->store, 1);
    shelf_maintain(shelf, INT64_C(9) * 24 * 3600000);
    assert_sql(shelf, "SELECT count(*) FROM journal", 0);
    core->now_ms = INT64_C(9) * 24 * 3600000;
    static const char *const uid[] = {"p0", "p1", "p2"};
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "p1"), VERDICT_OK);
    for (size_t i = 0; i < ARRAY_LEN(uid); i++)
        assert_int_equal(core_step(core, COMMAND_RELEASE, uid[i]), VERDICT_OK);
    /* The same pod again: its shares are those of this time. */
    assert_int_equal(core_reserve(core, "p1", "n1", "100"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "p1"), VERDICT_OK);
    shelf_save(shelf);
    assert_int_equal(store_journal_file(shelf->path, &reader, &err), 0);
    assert_int_equal(completed.whole, 6);
    assert_int_equal(completed.ends, 4);
    assert_int_equal(store_verify(shelf->store, &err), 0);
}

static int keep_span(void *user, const struct journal_span *span, struct err *err)
{
    assert_non_null(err);
    *(struct journal_span *)user = *span;
    return 0;
}

/* Each start of milligpud notes its policy before it knows anything of the cluster. */
SHELF_TEST(journal_file__begins_with_the_cluster_and_sums_up_clock_steps)
{
    struct journal_span span = {0};
    const struct journal_file_reader reader = {
        .user = &span, .span = keep_span, .object = pass_object, .entry = pass_entry};
    const struct command command[] = {
        {.kind = COMMAND_POLICY, .at_ms = 1000},
        {.kind = COMMAND_NODE,
         .at_ms = 2000,
         .inventory = core_inventory(core, "n1", "uid", one_a100, 1)},
        {.kind = COMMAND_CLOCK, .at_ms = 9000, .clock_from_ms = 4000},
        {.kind = COMMAND_POLICY, .at_ms = 9500},
    };
    struct err err;

    for (size_t i = 0; i < ARRAY_LEN(command); i++) {
        struct change change;
        assert_int_equal(ledger_decide(core->ledger, &command[i], &change), VERDICT_OK);
        shelf_begin(shelf);
        assert_int_equal(shelf->ops.write(shelf->ops.ctx, &command[i], &change, &err), STORE_OK);
        shelf_commit(shelf);
        ledger_apply(core->ledger, &change);
        change_done(&change);
        if (i == 0) { /* there is no more yet */
            assert_int_equal(store_journal_file(shelf->path, &reader, &err), 0);
            assert_int_equal(span.oldest_ms, 0);
            assert_int_equal(span.set_ms, 0);
        }
    }
    assert_int_equal(store_journal_file(shelf->path, &reader, &err), 0);
    assert_int_equal(span.oldest_ms, 2000);
    assert_int_equal(span.newest_ms, 9500);
    assert_int_equal(span.set_ms, 5000);
    assert_int_equal(span.folded, 0);
}

SHELF_TEST(journal_file__gives_the_baseline_first_nodes_before_pods)
{
    struct seen seen = {.most = 10};
    const int64_t day = 24 * 60 * 60 * 1000;
    struct err err;

    four_entries(shelf);
    store_retain(shelf->store, 1);
    shelf_maintain(shelf, 9 * day);
    const struct command clock = {.kind = COMMAND_CLOCK, .at_ms = 9 * day, .clock_from_ms = day};
    assert_int_equal(core_do(core, &clock), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "p1"), VERDICT_OK);
    shelf_save(shelf);
    assert_int_equal(read_journal(shelf, &seen, &err), 0);
    assert_memory_equal(seen.text, "folded 4, set ", 14);
    assert_non_null(strstr(seen.text, ";a node;a pod;a pod;a pod;5 clock;6 release;"));
}

SHELF_TEST(journal_file__with_a_gap_or_without_json_is_refused)
{
    static const struct {
        const char *sql;
        const char *said;
    } spoilt[] = {
        {"UPDATE journal SET result = '{' WHERE seq = 3", "journal entry 3 is no JSON"},
        {"DELETE FROM journal WHERE seq = 2", "the journal has a gap"},
    };
    struct err err;

    four_entries(shelf);
    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        struct seen seen = {.most = 10};
        shelf_spoil(shelf, spoilt[i].sql);
        assert_int_equal(read_journal(shelf, &seen, &err), -(int)ERR_CORRUPT);
        assert_string_equal(seen.text, "");
        shelf_spoil(shelf, "UPDATE journal SET result = '{}' WHERE seq = 3");
        assert_non_null(strstr(err.text, spoilt[i].said));
    }
}
