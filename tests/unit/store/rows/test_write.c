#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/ledger/ledger_internal.h"
#include "support/other_thread.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

SHELF_TEST(new_file__has_our_id_and_is_empty)
{
    shelf_turn(shelf);
    assert_sql(shelf, "PRAGMA application_id", 0x6d475055);
    assert_sql(shelf, "PRAGMA user_version", 12);
    assert_sql(shelf, "SELECT count(*) FROM journal", 0);
}

SHELF_TEST(writer__uses_a_log_and_leaves_one_file)
{
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    assert_int_equal(shelf_files(shelf, "ledger.db-wal"), 1);
    shelf_close(shelf);
    assert_int_equal(shelf_files(shelf, "ledger.db-"), 0);
    shelf_open(shelf);
    shelf_same(shelf);
}

/* Every kind of command, each loaded back. */
SHELF_TEST(load__returns_each_command)
{
    bool seen[COMMANDS] = {false};
    struct pod *pod = core_pod(core, "seen", "n1");
    core_note(core, pod, "c0 GPU-b 200 100");
    struct pod *whole = core_pod(core, "whole", "n3");
    whole->whole_gpus = 2;
    const struct command commands[] = {
        {.kind = COMMAND_NODE, .inventory = core_inventory(core, "n1", "u1", two_a100, 2)},
        {.kind = COMMAND_RESERVE,
         .uid = "a",
         .namespace = "ns",
         .name = "a",
         .node = "n1",
         .request = core_request(core, "i700+s100+400+300x2"),
         .version = 190},
        {.kind = COMMAND_DOUBT, .uid = "a"},
        {.kind = COMMAND_VERSION,
         .uid = "a",
         .request = core_request(core, "i700+s100+400+300x2"),
         .version = 191},
        {.kind = COMMAND_CONFIRM, .uid = "a"},
        {.kind = COMMAND_NOTE, .uid = "a", .differs = true},
        {.kind = COMMAND_TERMINATING, .uid = "a", .terminating_ms = 1234567890123},
        {.kind = COMMAND_ADOPT,
         .uid = "seen",
         .namespace = "default",
         .name = "pod-seen",
         .node = "n1",
         .pod = pod,
         .request = core_request(core, "200")},
        {.kind = COMMAND_ADOPT,
         .uid = "whole",
         .namespace = "default",
         .name = "pod-whole",
         .node = "n3",
         .pod = whole},
        {.kind = COMMAND_CLOCK, .at_ms = 5, .clock_from_ms = 9},
        {.kind = COMMAND_POLICY, .at_ms = 5},
        {.kind = COMMAND_OVER, .at_ms = 5, .uid = "a"},
        {.kind = COMMAND_NODE_GONE, .node = "n1"},
        {.kind = COMMAND_RELEASE, .uid = "a", .why = "ended"},
        {.kind = COMMAND_RELEASE, .uid = "seen", .why = "gone"},
        {.kind = COMMAND_RELEASE, .uid = "whole", .why = "gone"},
    };
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        assert_int_equal(core_do(core, &commands[i]), VERDICT_OK);
        seen[commands[i].kind] = true;
        shelf_save_and_turn(shelf);
    }
    for (size_t i = 0; i < COMMANDS; i++)
        assert_true(seen[i]);
    /* All nodes are gone: n1 left with its last pod. Their charges are history. */
    assert_sql(shelf, "SELECT count(*) FROM node", 0);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 3);
    assert_sql(shelf, "SELECT count(*) FROM share", 6);
    assert_sql(shelf, "SELECT count(*) FROM charge WHERE live = 1", 0);
    assert_sql(shelf, "SELECT max(seq) = 16 AND count(*) = 16 FROM journal", 1);
}

SHELF_TEST(load__returns_nvlink_peers)
{
    static const struct core_gpu linked[] = {{.id = "GPU-a", .index = 0, .socket = 1, .peers = 4},
                                             {.id = "GPU-b", .index = 1, .socket = 1},
                                             {.id = "GPU-c", .index = 2, .socket = 2, .peers = 1}};
    static const struct core_gpu unlinked[] = {{.id = "GPU-a", .index = 0, .socket = 1},
                                               {.id = "GPU-b", .index = 1, .socket = 1},
                                               {.id = "GPU-c", .index = 2, .socket = 2}};
    (void)core_node(core, "n1", linked, 3);
    shelf_save_and_turn(shelf); /* read back as written */
    assert_sql(shelf, "SELECT sum(peers) FROM gpu", 4 + 1);
    assert_sql(shelf,
               "SELECT json_extract(result, '$.node.gpus[0].peers') = 4 AND json_extract(result,"
               " '$.node.gpus[1].peers') IS NULL FROM journal",
               1);
    /* GPU-b goes last when it is absent: its peers keep theirs, at other positions. */
    assert_int_equal(core_reserve(core, "p", "n1", "1000x3"), VERDICT_OK);
    (void)core_node(core, "n1", (const struct core_gpu[]){linked[0], {.id = "GPU-c", .index = 2}},
                    2);
    (void)core_node(core, "n1",
                    (const struct core_gpu[]){{.id = "GPU-a", .index = 0, .peers = 2},
                                              {.id = "GPU-c", .index = 2, .peers = 1}},
                    2);
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT peers FROM gpu WHERE id = 'GPU-a'", 2);
    assert_sql(shelf, "SELECT peers FROM gpu WHERE id = 'GPU-b'", 0);
    (void)core_node(core, "n1", unlinked, 3);
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT sum(peers) FROM gpu", 0);
}

/* In memory it is a number, and it stays with the GPU when indexes move. */
SHELF_TEST(alias__is_a_text_in_the_file)
{
    struct core_gpu swapped[] = {two_a100[1], two_a100[0]};
    swapped[0].index = 0;
    swapped[1].index = 1;

    (void)core_node(core, "n1", two_counted, 2);
    (void)core_reserve(core, "a", "n1", "300");
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT count(*) FROM gpu WHERE alias IS NULL", 2);
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT count(*) FROM gpu WHERE alias = 'n1/gpu-' || idx", 2);
    (void)core_node(core, "n1", swapped, 2);
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT count(*) FROM gpu WHERE alias = 'n1/gpu-' || (1 - idx)", 2);
    assert_string_equal(core_gpu(core, "n1", "n1/gpu-0")->id->text, "GPU-a");
    shelf_sound(shelf);
}

SHELF_TEST(load__returns_requested_beside_granted_milli)
{
    static const struct core_gpu gpu[] = {{.id = "GPU-a", .index = 0, .mib = 81920}};
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "raise");
    struct request *request = core_request(core, "100+300");
    book->raise = true;
    core_obey(core, book, 0, NULL);
    request->memory_mib = 16384;
    (void)core_node(core, "n1", gpu, 1);
    assert_int_equal(core_reserve_for(core, "p", "n1", request), VERDICT_OK);
    shelf_save_and_turn(shelf); /* read back as written */
    const struct allocation *held = ledger_find(core->ledger, TEXT("p"));
    assert_int_equal(held->facts.share[0].milli, 200);
    assert_int_equal(held->facts.share[0].asked, 100);
    assert_int_equal(held->facts.share[1].asked, 300);
    assert_sql(shelf, "SELECT count(*) FROM share WHERE asked IS NULL", 1);
    assert_sql(shelf, "SELECT asked FROM share WHERE milli = 200", 100);
    assert_sql(shelf,
               "SELECT result ->> '$.allocation.shares[0].asked' = 100 AND"
               " result -> '$.allocation.shares[1].asked' IS NULL FROM journal"
               " WHERE result LIKE '%allocation%'",
               1);
}

SHELF_TEST(load__returns_claims_of_gpus)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", two_a100, 2);
    (void)core_node(core, "n1", two_a100, 1); /* GPU-b is now only claimed */
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT count(*) FROM claim WHERE node = 'n1' AND gpu = 'GPU-b'", 1);
    (void)core_node(core, "n1", NULL, 0);
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT count(*) FROM claim", 2);
    (void)core_node(core, "n1", &two_a100[1], 1);
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT count(*) FROM claim", 1);
    assert_sql(shelf,
               "SELECT count(*) FROM journal WHERE result -> '$.node.claims' IS '[\"GPU-a\"]'", 1);
    const struct command gone = {.kind = COMMAND_NODE_GONE, .node = "n1"};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT count(*) FROM claim", 0);
}

/* Writes the change of a DOUBT command that also raises the version. */
static void raise_version(struct shelf *shelf, const char *uid, uint64_t version)
{
    struct ledger *ledger = shelf->core.ledger;
    const struct allocation *held = ledger_find(ledger, text_of(uid));
    const struct node *node = ledger_node(ledger, atom_text(held->facts.node));
    const struct command command = {.kind = COMMAND_DOUBT, .at_ms = 1, .uid = uid};
    struct allocation_facts facts = held->facts;
    struct change change = {.kind = COMMAND_DOUBT, .verdict = VERDICT_OK};
    struct err err;

    facts.version = version;
    facts.in_doubt = true;
    change.slot = ledger_slot(ledger, atom_text(node->name));
    change.before = allocation_ref(held);
    change.after = allocation_new(&facts);
    change.node_before = node_ref(node);
    change.node_after = node_with(node, held, change.after);
    shelf_begin(shelf);
    assert_int_equal(shelf->ops.write(shelf->ops.ctx, &command, &change, &err), STORE_OK);
    shelf_commit(shelf);
    ledger_apply(ledger, &change);
    change_done(&change);
}

SHELF_TEST(binding_version__is_that_of_the_reservation)
{
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core_reserve(core, "a", "n1", "600"), VERDICT_OK);
    shelf_save(shelf);
    assert_int_equal(ledger_find(core->ledger, TEXT("a"))->facts.version, 0);
    static const uint64_t versions[] = {1, 4711, UINT64_C(1) << 53, VERSION_MAX};
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        raise_version(shelf, "a", versions[i]);
        shelf_turn(shelf);
        struct ledger *loaded = ledger_new();
        struct err err;
        assert_int_equal(store_load(shelf->store, loaded, &err), 0);
        assert_true(ledger_find(loaded, TEXT("a"))->facts.version == versions[i]);
        ledger_free(loaded);
    }
    /* The version stays with the row: when bound, released and folded. */
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    shelf_save_and_turn(shelf);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    shelf_save_and_turn(shelf);
    assert_sql(shelf, "SELECT version = 9223372036854775807 FROM allocation WHERE uid = 'a'", 1);
    assert_sql(shelf, "SELECT count(*) FROM journal WHERE result ->> '$.allocation.version' = 4711",
               1);
}

struct journal_fact {
    int seq;
    const char *is;
};

static void assert_journal(struct shelf *shelf, const struct journal_fact *facts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char sql[256];
        (void)snprintf(sql, sizeof sql, "SELECT %s FROM journal WHERE seq = %d", facts[i].is,
                       facts[i].seq);
        if (shelf_number(shelf->path, sql) != 1)
            fail_msg("not so: %s", facts[i].is);
    }
}

SHELF_TEST(journal__has_the_command_and_its_result)
{
    (void)core_node(core, "n1", two_a100, 2);
    const struct command reserve = {.kind = COMMAND_RESERVE,
                                    .at_ms = 77,
                                    .uid = "a",
                                    .namespace = "ns",
                                    .name = "web \"0\"",
                                    .node = "n1",
                                    .request = core_request(core, "600x2"),
                                    .created_ms = 70};
    assert_int_equal(core_do(core, &reserve), VERDICT_OK);
    struct err err;
    shelf_begin(shelf);
    const struct command node = {.kind = COMMAND_NODE, .at_ms = 76, .node = "n1"};
    assert_int_equal(shelf->ops.write(shelf->ops.ctx, &node, &core->done[0], &err), STORE_OK);
    assert_int_equal(shelf->ops.write(shelf->ops.ctx, &reserve, &core->done[1], &err), STORE_OK);
    shelf_commit(shelf);
    static const struct journal_fact facts[] = {
        {2, "at = 77"},
        {2, "command ->> '$.kind' = 'reserve'"},
        {2, "command ->> '$.name' = 'web \"0\"'"},
        {2, "command ->> '$.created_ms' = 70"},
        {2, "json_array_length(command, '$.wants') = 1"},
        {2, "command ->> '$.wants[0].parts' = 2 AND command ->> '$.wants[0].milli' = 600"},
        {2, "result ->> '$.allocation.state' = 'reserved'"},
        {2, "result ->> '$.allocation.shares[1].milli' = 600"},
        {2, "result -> '$.node' IS NULL"}, /* it did not change */
    };
    assert_journal(shelf, facts, ARRAY_LEN(facts));
}

/* Shares never change, so that only the entry of their beginning has them. */
SHELF_TEST(journal_step__has_the_change_and_the_pod)
{
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core_reserve(core, "a", "n1", "300"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_DOUBT, "a"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    shelf_save(shelf);
    static const struct journal_fact facts[] = {
        {2, "result ->> '$.allocation.shares[0].milli' = 300"},
        {2, "result ->> '$.allocation.origin' = 'granted'"},
        {3, "result ->> '$.allocation.in_doubt' = 1"},
        {3, "result ->> '$.allocation.name' IS NOT NULL"},
        {3, "result ->> '$.allocation.node' = 'n1'"},
        {3, "result -> '$.allocation.shares' IS NULL"},
        {4, "result -> '$.allocation.in_doubt' IS NULL"},
        {4, "result ->> '$.allocation.state' = 'bound'"},
        {4, "result -> '$.allocation.node_uid' IS NULL"},
    };
    assert_journal(shelf, facts, ARRAY_LEN(facts));
}

/* A batch of three, the middle one of which contradicts the database. */
SHELF_TEST(failed_write__is_rolled_back_alone)
{
    struct err err;
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    /* Another program edits the file: room that is free in memory is taken on disk. */
    shelf_run(shelf, "UPDATE gpu SET milli = 500 WHERE id = 'GPU-a'");

    shelf_begin(shelf);
    assert_int_equal(core_reserve(core, "fits", "n1", "500"), VERDICT_OK);
    assert_int_equal(shelf_write(shelf, &err), STORE_OK);
    assert_int_equal(core_reserve(core, "beyond", "n1", "400"), VERDICT_OK);
    assert_int_equal(shelf_write(shelf, &err), STORE_REFUSED);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_non_null(strstr(err.text, "a grant beyond the GPU"));
    core_undo(core);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "fits"), VERDICT_OK);
    assert_int_equal(shelf_write(shelf, &err), STORE_OK);
    shelf_commit(shelf);

    assert_sql(shelf, "SELECT count(*) FROM allocation", 1);
    assert_sql(shelf, "SELECT count(*) FROM share", 1);
    assert_sql(shelf, "SELECT max(seq) FROM journal", 3);
    assert_sql(shelf, "SELECT state = 'bound' FROM allocation", 1);
}

SHELF_TEST(write__of_an_unknown_allocation_is_refused)
{
    struct err err;
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core_reserve(core, "a", "n1", "500"), VERDICT_OK);
    shelf_save(shelf);
    shelf_run(shelf, "UPDATE allocation SET state = 'released', released_ms = 1, bytes = 1");
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    shelf_begin(shelf);
    assert_int_equal(shelf_write(shelf, &err), STORE_REFUSED);
    assert_non_null(strstr(err.text, "allocation a otherwise"));
    shelf_commit(shelf);
    assert_sql(shelf, "SELECT count(*) FROM journal", 2);
}

/* A row in another state or on another node is refused just like a missing one. */
SHELF_TEST(write__of_an_allocation_that_differs_is_refused)
{
    struct err err;
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core_reserve(core, "a", "n1", "500"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "b", "n1", "500"), VERDICT_OK);
    shelf_save(shelf);
    shelf_run(shelf, "UPDATE allocation SET state = 'bound' WHERE uid = 'a';"
                     "PRAGMA foreign_keys=OFF;"
                     "DROP TRIGGER allocation_stays;"
                     "UPDATE allocation SET node = 'n2' WHERE uid = 'b'");
    static const struct {
        enum command_kind kind;
        const char *uid;
    } step[] = {{COMMAND_CONFIRM, "a"},
                {COMMAND_CONFIRM, "b"},
                {COMMAND_RELEASE, "a"},
                {COMMAND_RELEASE, "b"}};
    for (size_t i = 0; i < ARRAY_LEN(step); i++) {
        assert_int_equal(core_step(core, step[i].kind, step[i].uid), VERDICT_OK);
        shelf_begin(shelf);
        assert_int_equal(shelf_write(shelf, &err), STORE_REFUSED);
        assert_non_null(strstr(err.text, "otherwise than the ledger in memory"));
        shelf_commit(shelf);
        core_undo(core);
    }
    assert_sql(shelf, "SELECT count(*) FROM journal", 3);
}

SHELF_TEST(rollback__leaves_nothing)
{
    struct err err;
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    shelf_begin(shelf);
    assert_int_equal(core_reserve(core, "a", "n1", "500"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "b", "n1", "500"), VERDICT_OK);
    assert_int_equal(shelf_write(shelf, &err), STORE_OK);
    shelf->ops.rollback(shelf->ops.ctx);
    shelf->ops.rollback(shelf->ops.ctx); /* a second time does nothing */
    core_undo(core);
    core_undo(core);
    shelf->written = 0;
    shelf_turn(shelf);
    assert_sql(shelf, "SELECT max(seq) FROM journal", 1);
    assert_int_equal(core_reserve(core, "a", "n1", "500"), VERDICT_OK);
    shelf_save(shelf);
    assert_sql(shelf, "SELECT max(seq) FROM journal", 2);
    shelf_turn(shelf);
}

SHELF_TEST(close__within_a_batch_drops_it)
{
    struct err err;
    (void)core_node(core, "n1", two_a100, 2);
    shelf_begin(shelf);
    assert_int_equal(shelf_write(shelf, &err), STORE_OK);
    shelf_close(shelf);
    assert_sql(shelf, "SELECT count(*) FROM node", 0);
}

/* One batch was committed, another half written: nothing of the second remains. */
SHELF_TEST(kill__keeps_committed_batches_only)
{
    struct err err;
    shelf_close(shelf);
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core_reserve(core, "a", "n1", "500"), VERDICT_OK);
    const pid_t child = fork();
    if (child == 0) {
        shelf_open(shelf);
        shelf_save(shelf);
        if (shelf->ops.begin(shelf->ops.ctx, &err) < 0 ||
            core_reserve(core, "b", "n1", "500") != VERDICT_OK ||
            shelf_write(shelf, &err) != STORE_OK)
            _exit(1);
        _exit(0); /* no close, no checkpoint */
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(shelf_files(shelf, "ledger.db-wal") == 1);
    shelf_open(shelf);
    shelf_same(shelf);
    shelf_turn(shelf);
}

SHELF_TEST(ledger_in_memory__is_a_ledger)
{
    struct store_facts facts;
    struct err err;
    shelf_close(shelf);
    shelf->rules.path = ":memory:";
    shelf_open(shelf);
    (void)core_node(core, "n1", two_a100, 2);
    assert_int_equal(core_reserve(core, "a", "n1", "600"), VERDICT_OK);
    shelf_save(shelf);
    shelf_same(shelf);
    assert_int_equal(store_verify(shelf->store, &err), 0);
    assert_int_equal(store_set_cluster(shelf->store, "cluster", &err), 0);
    shelf_maintain(shelf, 1000);
    assert_int_equal(store_facts(shelf->store, &facts, &err), 0);
    assert_string_equal(facts.path, ":memory:");
    assert_true(facts.bytes > 0 && facts.wal_bytes == 0);
    assert_int_equal(facts.volume_free_bytes, -1);
    assert_int_equal(facts.journal_rows, 2);

    /* Its backup is a file like any other. */
    char copy[128];
    (void)snprintf(copy, sizeof copy, "%s/copy.db", shelf->folder);
    assert_int_equal(store_backup(shelf->store, copy, &err), 0);
    shelf_close(shelf);
    shelf->rules.path = copy;
    shelf_open(shelf);
    shelf_same(shelf);
}

enum call { BEGIN, WRITE, COMMIT, MAINTAIN, CLOCK, WHOSE, CLAIM, LOAD, LEARNED, IDLE, AGENTS };

struct attempt {
    struct shelf *shelf;
    enum call call;
};

static void pass_over(void *user, const struct store_idle *idle)
{
    (void)user;
    (void)idle;
}

static void load_all(struct store *store, enum call call)
{
    const struct agents_rules rules = {.key = TEXT("pool"), .value = TEXT("gpu")};
    struct ledger *ledger = ledger_new();
    struct agents *agents = agents_new(&rules);
    struct tally *tally = NULL;
    int64_t time_ms;
    struct err err;

    must((call == LOAD      ? store_load(store, ledger, &err)
          : call == LEARNED ? store_learned(store, &tally, &time_ms, &err)
          : call == IDLE    ? store_idle(store, &time_ms, NULL, pass_over, &err)
                            : store_agents(store, agents, &err)) == 0);
    ledger_free(ledger);
    agents_free(agents);
    tally_free(tally);
}

static void try_it(void *arg)
{
    const struct attempt *attempt = arg;
    const struct store_ops *ops = &attempt->shelf->ops;
    struct store *store = attempt->shelf->store;
    enum store_owner owner;
    int64_t last_ms;
    int64_t stepped_ms;
    struct err err;

    switch (attempt->call) {
    case BEGIN:
        (void)ops->begin(ops->ctx, &err);
        return;
    case WRITE:
        (void)shelf_write(attempt->shelf, &err);
        return;
    case COMMIT:
        (void)ops->commit(ops->ctx, &err);
        return;
    case MAINTAIN:
        (void)ops->maintain(ops->ctx, 0, &err);
        return;
    case CLOCK:
        must(store_clock(store, &last_ms, &stepped_ms, &err) == 0);
        return;
    case WHOSE:
        must(store_whose(store, "c1", &owner, &err) == 0);
        return;
    case CLAIM:
        must(store_set_cluster(store, "c1", &err) == 0);
        return;
    default:
        load_all(store, attempt->call);
    }
}

static bool elsewhere_aborts(struct shelf *shelf, enum call call)
{
    struct attempt attempt = {shelf, call};

    return other_thread_aborts(try_it, &attempt);
}

/* All use the connection that writes, so another thread would find or leave half a batch. */
SHELF_TEST(writer__is_the_first_thread_that_wrote)
{
    struct err err;
    static const enum call at_start[] = {WHOSE, LOAD, LEARNED, IDLE, AGENTS};
    static const enum call later[] = {BEGIN, MAINTAIN, CLOCK, CLAIM};

    for (size_t i = 0; i < ARRAY_LEN(at_start); i++)
        assert_false(elsewhere_aborts(shelf, at_start[i])); /* no thread has written yet */
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    for (size_t i = 0; i < ARRAY_LEN(at_start); i++)
        assert_true(elsewhere_aborts(shelf, at_start[i]));
    for (size_t i = 0; i < ARRAY_LEN(later); i++)
        assert_true(elsewhere_aborts(shelf, later[i]));
    (void)core_node(core, "n2", two_a100, 2);
    shelf_begin(shelf);
    assert_true(elsewhere_aborts(shelf, WRITE));
    assert_int_equal(shelf_write(shelf, &err), STORE_OK);
    assert_true(elsewhere_aborts(shelf, COMMIT));
    shelf_commit(shelf);
    shelf_turn(shelf);
}
