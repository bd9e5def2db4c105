/*
 * The memory of agents is kept in the ledger: written by pieces and restored as it was; a wrong row
 * is reported while the others are restored. The ledger's checks do not look at it.
 */
#include <stdio.h>
#include <string.h>

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static const struct agents_rules rules = {.key = {"", 0}, .value = {"", 0}};

struct memory {
    const char *node;
    const char *uid;
    bool named_gpus;
    bool vouched;
};

static void agents_freep(struct agents **agents)
{
    agents_free(*agents);
}

/* Shows the node and the pod that make this the memory of the node. */
static void show(struct agents *agents, struct memory memory)
{
    const struct node_facts node = {.name = memory.node,
                                    .uid = memory.uid,
                                    .agent = true,
                                    .claim = {.pod = memory.vouched ? "agent" : NULL},
                                    .has_gpus = memory.named_gpus,
                                    .n_gpus = memory.named_gpus};
    const struct pod pod = {
        .uid = "agent", .node = memory.node, .is_agent = true, .is_ready = true};

    (void)!agents_see_node(agents, &node);
    if (memory.vouched)
        (void)!agents_see_pod(agents, &pod);
}

static void remember(struct shelf *shelf, struct agents *agents, size_t max, size_t count)
{
    size_t is = 77;
    struct err err;

    if (shelf->ops.remember(shelf->ops.ctx, agents, max, &is, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(is, count);
    agents_stored(agents, is);
}

static void remember_one(struct shelf *shelf, struct memory memory)
{
    CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);

    show(agents, memory);
    remember(shelf, agents, 10, 1);
}

static struct agents *restored(struct store *store)
{
    struct agents *agents = agents_new(&rules);
    struct err err;

    if (store_agents(store, agents, &err) < 0)
        fail_msg("%s", err.text);
    return agents;
}

/* Reads the memory of a node from the agents' answers when the node is shown anew. */
static void assert_memory(struct agents *agents, const struct memory *should)
{
    const struct node_facts bare = {.name = should->node, .uid = should->uid};
    const struct node_facts other = {.name = should->node, .uid = "another uid"};
    const struct node_facts unnamed = {.name = should->node, .uid = should->uid, .agent = true};

    assert_int_equal(agents_lost_gpus(agents, &bare), should->named_gpus);
    assert_false(agents_lost_gpus(agents, &other));
    (void)!agents_see_node(agents, &unnamed);
    assert_int_equal(agents_check(agents, text_of(should->node)),
                     should->vouched ? VOUCH_UNNAMED : VOUCH_NONE);
    /* Had another uid been restored, the memory would have lapsed now, and so had to be stored. */
    struct agent_memory changed;
    size_t at = 0;
    assert_false(agents_next_changed(agents, &at, &changed));
}

static void assert_remembered(struct store *store, const struct memory *should, size_t count)
{
    CLEANUP(agents_freep) struct agents *agents = restored(store);

    assert_int_equal(agents_count(agents), count);
    assert_true(agents_seen(agents) || count == 0);
    for (size_t i = 0; i < count; i++)
        assert_memory(agents, &should[i]);
}

/* --- storing --- */

SHELF_TEST(agents_kept__is_empty_in_a_new_ledger)
{
    CLEANUP(agents_freep) struct agents *agents = restored(shelf->store);

    assert_int_equal(agents_count(agents), 0);
    assert_false(agents_seen(agents));
    remember(shelf, agents, 1, 0);
    assert_sql(shelf, "SELECT has_agents FROM meta", 0);
}

static const struct memory some[] = {
    {"n1", "u1", true, false}, {"n2", "u2", false, true}, {"n3", "u3", true, true}};

static void show_some(struct agents *agents)
{
    for (size_t i = 0; i < ARRAY_LEN(some); i++)
        show(agents, some[i]);
}

static void remember_some(struct shelf *shelf)
{
    CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);

    show_some(agents);
    remember(shelf, agents, 100, ARRAY_LEN(some));
}

SHELF_TEST(agents_kept__restores_each_memory)
{
    remember_some(shelf);
    assert_remembered(shelf->store, some, ARRAY_LEN(some));
    shelf_turn(shelf);
    assert_remembered(shelf->store, some, ARRAY_LEN(some));
    assert_remembered(shelf->store, some, ARRAY_LEN(some)); /* as often as one likes */
}

SHELF_TEST(agents_kept__writes_pieces_from_the_first_on)
{
    CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);

    show_some(agents);
    remember(shelf, agents, 2, 2);
    assert_remembered(shelf->store, some, 2);
    remember(shelf, agents, 1, 1);
    assert_remembered(shelf->store, some, 3);
    remember(shelf, agents, 1, 0);
    assert_remembered(shelf->store, some, 3);
}

SHELF_TEST(agents_kept__takes_the_longest_names)
{
    char node[NAME_BYTES_MAX + 1];
    char uid[UID_BYTES_MAX + 1];
    const struct memory longest = {node, uid, true, true};

    memset(node, 'n', NAME_BYTES_MAX);
    memset(uid, 'u', UID_BYTES_MAX);
    node[NAME_BYTES_MAX] = uid[UID_BYTES_MAX] = '\0';
    remember_one(shelf, longest);
    assert_remembered(shelf->store, &longest, 1);
}

SHELF_TEST(agents_kept__works_in_a_ledger_in_memory)
{
    shelf_close(shelf);
    shelf->rules.path = ":memory:";
    shelf_open(shelf);
    remember_some(shelf);
    assert_remembered(shelf->store, some, ARRAY_LEN(some));
}

/* An agent whose Node was not shown yet leaves no memory. */
SHELF_TEST(agents_seen__is_kept_without_a_memory)
{
    const struct pod pod = {.uid = "agent", .node = "n1", .is_agent = true, .is_ready = true};
    CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);
    CLEANUP(agents_freep) struct agents *others = agents_new(&rules);

    assert_true(agents_see_pod(agents, &pod));
    remember(shelf, agents, 1, 0);
    shelf_turn(shelf);
    CLEANUP(agents_freep) struct agents *now = restored(shelf->store);
    assert_true(agents_seen(now));
    assert_int_equal(agents_count(now), 0);
    remember(shelf, others, 1, 0); /* which have seen none */
    CLEANUP(agents_freep) struct agents *later = restored(shelf->store);
    assert_true(agents_seen(later));
}

/* --- it is replaced --- */

SHELF_TEST(agents_kept__replaces_the_former_memory)
{
    static const struct memory one[] = {
        {"n2", "u1", true, false}, {"n2", "u1", false, true}, {"n2", "u1", true, false},
        {"n2", "u1", true, true},  {"n2", "u2", true, true},  {"n2", "u3", false, true},
    };
    struct memory all[ARRAY_LEN(some)];

    memcpy(all, some, sizeof all);
    remember_some(shelf);
    for (size_t i = 0; i < ARRAY_LEN(one); i++) {
        remember_one(shelf, one[i]);
        all[1] = one[i];
        assert_remembered(shelf->store, all, ARRAY_LEN(all));
    }
}

SHELF_TEST(agents_kept__forgets_a_node_that_is_gone)
{
    static const struct memory left[] = {{"n1", "u1", true, false}, {"n3", "u3", true, true}};
    CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);

    show_some(agents);
    agents_node_gone(agents, text_of("n2")); /* before it was ever stored */
    remember(shelf, agents, 100, 3);
    assert_remembered(shelf->store, left, 2);
    agents_node_gone(agents, text_of("n1"));
    remember(shelf, agents, 100, 1);
    shelf_turn(shelf);
    assert_remembered(shelf->store, &left[1], 1);
    CLEANUP(agents_freep) struct agents *now = restored(shelf->store);
    agents_node_gone(now, text_of("n3")); /* between two runs */
    remember(shelf, now, 100, 1);
    assert_sql(shelf, "SELECT count(*) FROM agent", 0);
    assert_sql(shelf, "SELECT has_agents FROM meta", 1);
}

SHELF_TEST(agents_kept__does_not_write_the_same_again)
{
    struct store_facts before, after;
    CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);
    struct err err;

    show_some(agents);
    remember(shelf, agents, 100, 3);
    assert_int_equal(store_facts(shelf->store, &before, &err), 0);
    remember(shelf, agents, 100, 0);
    assert_int_equal(store_facts(shelf->store, &after, &err), 0);
    assert_int_equal(after.wal_bytes, before.wal_bytes);
}

SHELF_TEST(agents_kept__outlives_a_kill_and_a_backup)
{
    struct shelf left;

    remember_some(shelf);
    shelf_open_killed(shelf, &left);
    assert_remembered(left.store, some, ARRAY_LEN(some));
    shelf_done(&left);
    shelf_open_backup(shelf, &left);
    assert_remembered(left.store, some, ARRAY_LEN(some));
    shelf_done(&left);
}

/* --- it fails --- */

static void cannot_remember(struct shelf *shelf, const struct agents *agents, const char *says)
{
    size_t count = 77;
    struct err err = {0};

    assert_true(shelf->ops.remember(shelf->ops.ctx, agents, 100, &count, &err) < 0);
    assert_int_equal(count, 0);
    if (strstr(err.text, says) == NULL)
        fail_msg("%s", err.text);
}

SHELF_TEST(agents_kept__keeps_the_former_when_a_write_fails)
{
    static const struct {
        const char *refusing;
        const char *says;
    } odd[] = {
        {"BEFORE INSERT ON agent WHEN NEW.node = 'n5'", "the agent of node n5: "},
        {"BEFORE UPDATE ON agent", "the agent of node n3: "},
        {"BEFORE DELETE ON agent", "the agent of node n1: "},
    };
    static const struct memory after[] = {
        {"n2", "u2", false, true}, {"n3", "u4", true, true}, {"n5", "u5", true, false}};
    CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);

    show_some(agents);
    remember(shelf, agents, 100, 3);
    show(agents, after[2]);
    show(agents, after[1]);
    agents_node_gone(agents, text_of("n1"));
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        shelf_refuse(shelf, odd[i].refusing);
        cannot_remember(shelf, agents, odd[i].says);
        assert_remembered(shelf->store, some, ARRAY_LEN(some));
        shelf_allow(shelf);
    }
    remember(shelf, agents, 100, 3);
    assert_remembered(shelf->store, after, ARRAY_LEN(after));
    shelf_turn(shelf);
    assert_remembered(shelf->store, after, ARRAY_LEN(after));
}

SHELF_TEST(agents_kept__stores_no_memory_without_agents_seen)
{
    CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);

    show_some(agents);
    shelf_refuse(shelf, "BEFORE UPDATE ON meta");
    cannot_remember(shelf, agents, "no");
    shelf_allow(shelf);
    assert_remembered(shelf->store, NULL, 0);
    CLEANUP(agents_freep) struct agents *now = restored(shelf->store);
    assert_false(agents_seen(now));
    remember(shelf, agents, 100, 3);
    assert_remembered(shelf->store, some, ARRAY_LEN(some));
}

SHELF_TEST(agents_kept__writes_nothing_while_a_reader_holds_the_log)
{
    CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);

    show_some(agents);
    shelf->store->limits.wal_max = -1;
    cannot_remember(shelf, agents, "a program reads the ledger");
    assert_remembered(shelf->store, NULL, 0);
    shelf->store->limits.wal_max = 1000;
    remember(shelf, agents, 100, 3);
    assert_remembered(shelf->store, some, ARRAY_LEN(some));
}

/* --- it is input from outside --- */

/* Agents count as seen, and every right row is restored. */
static void assert_reported(struct shelf *shelf, const char *what, const char *says,
                            const struct memory *left, size_t count)
{
    CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);
    struct err err = {0};

    const int failed = store_agents(shelf->store, agents, &err);
    if (failed != -(int)ERR_CORRUPT || strstr(err.text, says) == NULL ||
        strstr(err.text, ": what is remembered of agents: ") == NULL ||
        strncmp(err.text, shelf->path, strlen(shelf->path)) != 0)
        fail_msg("%s: %d, %s", what, failed, err.text);
    assert_true(agents_seen(agents));
    assert_int_equal(agents_count(agents), count);
    for (size_t i = 0; i < count; i++)
        assert_memory(agents, &left[i]);
}

SHELF_TEST(agents_kept__names_a_wrong_row_and_restores_the_others)
{
    static const char name[] = "node: a name of 1 to 253 bytes would be right";
    static const struct {
        const char *sql;
        const char *says;
    } wrong[] = {
        {"node = ''", name},
        {"node = printf('%.*c', 254, 'x')", name},
        {"node = 'a' || char(0) || 'b'", name},
        {"uid = 'a' || char(0) || 'b'", "node n2: uid: a text would be right"},
        {"named_gpus = 2", "node n2: named_gpus: 0 or 1 would be right"},
        {"named_gpus = -1", "node n2: named_gpus: 0 or 1 would be right"},
        {"vouched = 2", "node n2: vouched: 0 or 1 would be right"},
        {"vouched = -1", "node n2: vouched: 0 or 1 would be right"},
        {"vouched = 0", "node n2: named_gpus and vouched are 0: 1 would be right in one of them"},
    };
    static const struct memory left[] = {{"n1", "u1", true, false}, {"n3", "u3", true, true}};
    char sql[128];

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        remember_some(shelf);
        assert_remembered(shelf->store, some, ARRAY_LEN(some));
        (void)snprintf(sql, sizeof sql, "UPDATE agent SET %s WHERE node = 'n2'", wrong[i].sql);
        shelf_spoil(shelf, sql);
        assert_reported(shelf, wrong[i].sql, wrong[i].says, left, ARRAY_LEN(left));
        assert_reported(shelf, wrong[i].sql, wrong[i].says, left, ARRAY_LEN(left));
        shelf_spoil(shelf, "DELETE FROM agent WHERE node NOT IN ('n1', 'n2', 'n3')");
    }
    remember_some(shelf); /* a new memory of the node mends its row */
    assert_remembered(shelf->store, some, ARRAY_LEN(some));
}

SHELF_TEST(agents_seen__is_read_with_care)
{
    static const char *const wrong[] = {
        "UPDATE meta SET has_agents = 2",
        "UPDATE meta SET has_agents = -1",
        "DELETE FROM meta",
    };

    remember_some(shelf);
    /* The larger one counts, whichever row is first. */
    shelf_spoil(shelf,
                "UPDATE meta SET has_agents = 0;"
                "INSERT INTO meta (one, created_ms, folded, has_agents) VALUES (2, 0, 0, 1)");
    assert_remembered(shelf->store, some, ARRAY_LEN(some));
    shelf_spoil(shelf, "DELETE FROM meta WHERE one = 2");
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        shelf_spoil(shelf, wrong[i]);
        assert_reported(shelf, wrong[i], "table meta: has_agents: 0 or 1 would be right", some,
                        ARRAY_LEN(some));
    }
}

SHELF_TEST(agents_kept__reports_the_first_of_several_wrong_values)
{
    remember_some(shelf);
    shelf_spoil(shelf, "UPDATE agent SET vouched = 2 WHERE node <> 'n2'");
    assert_reported(shelf, "two", "node n1: vouched: ", &some[1], 1);
    shelf_spoil(shelf, "UPDATE meta SET has_agents = 2");
    assert_reported(shelf, "three", "table meta: has_agents: ", &some[1], 1);
}

/* SQLite refuses a statement whose table or column is gone: that stands for a failing disk. */
SHELF_TEST(agents_seen__is_true_when_reading_fails)
{
    static const struct {
        const char *sql;
        const char *back;
        const char *says;
        size_t left;
    } wrong[] = {
        {"ALTER TABLE meta RENAME COLUMN has_agents TO x",
         "ALTER TABLE meta RENAME COLUMN x TO has_agents", "no such column: has_agents",
         ARRAY_LEN(some)},
        {"UPDATE meta SET has_agents = 0; ALTER TABLE agent RENAME TO x",
         "ALTER TABLE x RENAME TO agent; UPDATE meta SET has_agents = 1", "no such table: agent",
         0},
    };

    remember_some(shelf);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        CLEANUP(agents_freep) struct agents *agents = agents_new(&rules);
        struct err err = {0};
        shelf_run(shelf, wrong[i].sql);
        const int failed = store_agents(shelf->store, agents, &err);
        if (failed >= 0 || failed == -(int)ERR_CORRUPT || strstr(err.text, wrong[i].says) == NULL)
            fail_msg("%d, %s", failed, err.text);
        assert_true(agents_seen(agents));
        assert_int_equal(agents_count(agents), wrong[i].left);
        show(agents, (struct memory){"n9", "u9", true, true});
        cannot_remember(shelf, agents, wrong[i].says);
        shelf_run(shelf, wrong[i].back);
        assert_remembered(shelf->store, some, ARRAY_LEN(some));
    }
}

SHELF_TEST(agents_seen__is_mended_by_the_next_write)
{
    shelf_spoil(shelf, "UPDATE meta SET has_agents = 2");
    assert_reported(shelf, "2", "table meta: has_agents: ", NULL, 0);
    remember_some(shelf);
    assert_remembered(shelf->store, some, ARRAY_LEN(some));
}

/* The ledger opens, passes its checks, and the writer goes on. */
SHELF_TEST(agents_kept__with_a_wrong_row_does_not_make_the_ledger_corrupt)
{
    static const struct memory left[] = {{"n1", "u1", true, false}, {"n3", "u3", true, true}};

    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    shelf_save(shelf);
    remember_some(shelf);
    shelf_spoil(shelf, "UPDATE agent SET uid = 'a' || char(0) WHERE node = 'n2'");
    shelf_turn(shelf);
    assert_reported(shelf, "uid", "node n2: uid: ", left, ARRAY_LEN(left));
    (void)core_step(core, COMMAND_CONFIRM, "a");
    shelf_save_and_turn(shelf);
}

SHELF_TEST(agents_kept__is_no_part_of_the_ledger_state)
{
    struct store_facts before, after;
    struct err err;

    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    assert_int_equal(store_facts(shelf->store, &before, &err), 0);
    remember_some(shelf);
    assert_int_equal(store_facts(shelf->store, &after, &err), 0);
    assert_int_equal(after.journal_rows, before.journal_rows);
    assert_int_equal(store_replay_check(shelf->store, &err), 0);
    /* The ledger forgets the node; its memory stays until the writer says that it is gone. */
    (void)core_do(core, &(struct command){.kind = COMMAND_NODE_GONE, .node = "n1"});
    shelf_save_and_turn(shelf);
    assert_remembered(shelf->store, some, ARRAY_LEN(some));
}
