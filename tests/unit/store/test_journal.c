/* The journal for those who follow it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/store_internal.h"
#include "support_shelf.h"

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

static void entries_behind_a_number_come_oldest_first(void **state)
{
    struct shelf *shelf = *state;

    hears(shelf, 0, 10, 10, "");
    four_entries(shelf);
    hears(shelf, 0, 10, 10, "1 node;2 reserve;3 reserve;4 reserve;");
    hears(shelf, 2, 10, 10, "3 reserve;4 reserve;");
    hears(shelf, 4, 10, 10, "");
    hears(shelf, 1, 2, 10, "2 reserve;3 reserve;");
    hears(shelf, 1, 10, 1, "2 reserve;");
}

static void what_is_no_json_is_left_out(void **state)
{
    struct shelf *shelf = *state;

    four_entries(shelf);
    shelf_spoil(shelf, "UPDATE journal SET command = 'broken' WHERE seq = 2");
    hears(shelf, 0, 10, 10, "1 node;3 reserve;4 reserve;");
    shelf_spoil(shelf, "UPDATE journal SET result = '{' WHERE seq = 3");
    hears(shelf, 0, 10, 10, "1 node;4 reserve;");
    shelf_spoil(shelf, "UPDATE journal SET command = '{\"kind\":null}' WHERE seq = 4");
    hears(shelf, 3, 10, 10, "4 ;");
}

static void retention_says_up_to_where_entries_are_gone(void **state)
{
    struct shelf *shelf = *state;
    struct heard heard = {.most = 10};
    const struct store_journal_query query = {
        .after = 1, .limit = 10, .user = &heard, .each = hear};
    const int64_t day = 24 * 60 * 60 * 1000;
    uint64_t folded = 0;
    struct err err;

    four_entries(shelf);
    store_retain(shelf->store, 1);
    assert_int_equal(shelf->ops.maintain(shelf->ops.ctx, 9 * day, &err), 0);
    assert_int_equal(store_journal(shelf->store, &query, &folded, &err), 0);
    assert_string_equal(heard.text, "");
    assert_int_equal(folded, 4);
    assert_int_equal(store_newest(shelf->store), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(entries_behind_a_number_come_oldest_first, shelf_set_up,
                                        shelf_tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_json_is_left_out, shelf_set_up, shelf_tear_down),
        cmocka_unit_test_setup_teardown(retention_says_up_to_where_entries_are_gone, shelf_set_up,
                                        shelf_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
