/* The journal for those who follow it. */
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

struct heard {
    char text[256];
    unsigned most; /* then it has heard enough */
    unsigned count;
};

static bool hear(void *user, const struct journal_row *row)
{
    struct heard *heard = user;
    const size_t used = strlen(heard->text);

    assert_true(row->at_ms > 0);
    assert_int_equal(row->command[0], '{');
    assert_int_equal(row->result[0], '{');
    (void)snprintf(heard->text + used, sizeof heard->text - used, "%llu %s;",
                   (unsigned long long)row->seq, row->kind);
    return ++heard->count < heard->most;
}

static void hears(struct shelf *shelf, uint64_t after, uint32_t limit, unsigned most,
                  const char *wanted)
{
    struct heard heard = {.most = most};
    const struct store_journal_query query = {
        .after = after, .limit = limit, .user = &heard, .each = hear};
    uint64_t folded = 99;
    struct err err;

    if (store_journal(shelf->store, &query, &folded, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(heard.text, wanted);
    assert_int_equal(folded, 0);
}

SHELF_TEST(journal__gives_entries_after_a_number_oldest_first)
{
    hears(shelf, 0, 10, 10, "");
    four_entries(shelf);
    hears(shelf, 0, 10, 10, "1 node;2 reserve;3 reserve;4 reserve;");
    hears(shelf, 2, 10, 10, "3 reserve;4 reserve;");
    hears(shelf, 4, 10, 10, "");
    hears(shelf, 1, 2, 10, "2 reserve;3 reserve;");
    hears(shelf, 1, 10, 1, "2 reserve;");
}

SHELF_TEST(journal__leaves_out_entries_that_are_no_json)
{
    four_entries(shelf);
    shelf_spoil(shelf, "UPDATE journal SET command = 'broken' WHERE seq = 2");
    hears(shelf, 0, 10, 10, "1 node;3 reserve;4 reserve;");
    shelf_spoil(shelf, "UPDATE journal SET result = '{' WHERE seq = 3");
    hears(shelf, 0, 10, 10, "1 node;4 reserve;");
    shelf_spoil(shelf, "UPDATE journal SET command = '{\"kind\":null}' WHERE seq = 4");
    hears(shelf, 3, 10, 10, "4 ;");
}

SHELF_TEST(journal__says_up_to_where_retention_dropped_entries)
{
    struct heard heard = {.most = 10};
    const struct store_journal_query query = {
        .after = 1, .limit = 10, .user = &heard, .each = hear};
    const int64_t day = 24 * 60 * 60 * 1000;
    uint64_t folded = 0;
    struct err err;

    four_entries(shelf);
    store_retain(shelf->store, 1);
    shelf_maintain(shelf, 9 * day);
    assert_int_equal(store_journal(shelf->store, &query, &folded, &err), 0);
    assert_string_equal(heard.text, "");
    assert_int_equal(folded, 4);
    assert_int_equal(store_newest(shelf->store), 4);
}

/* --- the journal of a file --- */

static int hear_span(void *user, const struct journal_span *span, struct err *err)
{
    struct heard *heard = user;

    assert_non_null(err);
    assert_true(span->oldest_ms > 0 && span->oldest_ms <= span->newest_ms);
    (void)snprintf(heard->text, sizeof heard->text, "folded %llu, set %lld;",
                   (unsigned long long)span->folded, (long long)span->set_ms);
    return 0;
}

static int hear_object(void *user, bool is_node, const char *state, struct err *err)
{
    struct heard *heard = user;
    const size_t used = strlen(heard->text);

    assert_non_null(err);
    assert_int_equal(state[0], '{');
    (void)snprintf(heard->text + used, sizeof heard->text - used, "%s;",
                   is_node ? "a node" : "a pod");
    return 0;
}

static int hear_entry(void *user, const struct journal_row *row, struct err *err)
{
    struct heard *heard = user;

    if (heard->count == heard->most)
        return err_set(err, ERR_TOO_LARGE, "heard enough");
    (void)hear(user, row);
    return 0;
}

static int hear_file(const struct shelf *shelf, struct heard *heard, struct err *err)
{
    const struct journal_file_reader reader = {
        .user = heard, .span = hear_span, .object = hear_object, .entry = hear_entry};

    return store_journal_file(shelf->path, &reader, err);
}

SHELF_TEST(journal_file__is_read_beside_its_daemon_and_without)
{
    static const char all[] = "folded 0, set 0;1 node;2 reserve;3 reserve;4 reserve;";
    struct heard heard = {.most = 10};
    struct err err;

    assert_int_equal(hear_file(shelf, &heard, &err), -(int)ERR_INVALID);
    assert_non_null(strstr(err.text, "its journal is empty"));
    four_entries(shelf);
    assert_int_equal(hear_file(shelf, &heard, &err), 0);
    assert_string_equal(heard.text, all);
    shelf_close(shelf);
    heard = (struct heard){.most = 10};
    assert_int_equal(hear_file(shelf, &heard, &err), 0);
    assert_string_equal(heard.text, all);
    /* Whoever reads may end it, with an error of its own. */
    heard = (struct heard){.most = 2};
    assert_int_equal(hear_file(shelf, &heard, &err), -(int)ERR_TOO_LARGE);
    assert_string_equal(err.text, "heard enough");
}

static int pass_object(void *user, bool is_node, const char *state, struct err *err)
{
    (void)user;
    (void)is_node;
    (void)state;
    (void)err;
    return 0;
}

static int pass_span(void *user, const struct journal_span *span, struct err *err)
{
    (void)user;
    (void)span;
    (void)err;
    return 0;
}

struct completed {
    unsigned whole;
    unsigned ends;
};

/* Every result has the shares, also those of steps, and those of pods that are in the baseline. */
static int hear_whole(void *user, const struct journal_row *row, struct err *err)
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
        .user = &completed, .object = pass_object, .entry = hear_whole, .span = pass_span};

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

static int pass_entry(void *user, const struct journal_row *row, struct err *err)
{
    (void)user;
    (void)row;
    (void)err;
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
    struct heard heard = {.most = 10};
    const int64_t day = 24 * 60 * 60 * 1000;
    struct err err;

    four_entries(shelf);
    store_retain(shelf->store, 1);
    shelf_maintain(shelf, 9 * day);
    const struct command clock = {.kind = COMMAND_CLOCK, .at_ms = 9 * day, .clock_from_ms = day};
    assert_int_equal(core_do(core, &clock), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "p1"), VERDICT_OK);
    shelf_save(shelf);
    assert_int_equal(hear_file(shelf, &heard, &err), 0);
    assert_memory_equal(heard.text, "folded 4, set ", 14);
    assert_non_null(strstr(heard.text, ";a node;a pod;a pod;a pod;5 clock;6 release;"));
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
        struct heard heard = {.most = 10};
        shelf_spoil(shelf, spoilt[i].sql);
        assert_int_equal(hear_file(shelf, &heard, &err), -(int)ERR_CORRUPT);
        assert_string_equal(heard.text, "");
        shelf_spoil(shelf, "UPDATE journal SET result = '{}' WHERE seq = 3");
        assert_non_null(strstr(err.text, spoilt[i].said));
    }
}
