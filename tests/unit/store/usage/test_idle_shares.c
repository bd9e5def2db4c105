/* The beginnings of idle times are read back, and go with the allocation; no part of I6. */
#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/strbuf.h"

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static const struct core_gpu two[] = {{.id = "GPU-a", .index = 0, .mib = 81920},
                                      {.id = "GPU-b", .index = 1, .mib = 81920}};

/* Pod a on n2 with two containers, b on n1 with one container on two GPUs, all of them bound. */
static int set_up(void **state)
{
    shelf_set_up(state);
    struct shelf *shelf = *state;
    struct core_fixture *core = &shelf->core;

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    assert_int_equal(core_node(core, "n2", (struct core_gpu[]){{.id = "GPU-c", .mib = 81920}}, 1),
                     VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "n2", "300+200"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "b", "n1", "600x2"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "b"), VERDICT_OK);
    shelf_save(shelf);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct shelf *shelf, set_up, shelf_tear_down)

/* "a0 5, b1 0": by the position of the share within its pod; "n1": all of that node. */
static int try_set(struct shelf *shelf, const char *words, int64_t reported_ms, struct err *err)
{
    struct store_idle idle[8];
    char uid[8][2];
    struct store_chunk chunk = {.idle = idle, .reported_ms = reported_ms};

    for (const char *at = words; *at != '\0'; at += strcspn(at, ",") + (strchr(at, ',') != NULL)) {
        struct store_idle *to = &idle[chunk.n_idle];
        at += strspn(at, " ");
        if (*at == 'n') {
            *to = (struct store_idle){at[1] == '1' ? "n1" : "n2", "", "", "", 0};
            chunk.n_idle++;
            continue;
        }
        const struct allocation *pod =
            ledger_find(shelf->core.ledger, (struct text){.at = at, .len = 1});
        uid[chunk.n_idle][0] = at[0];
        uid[chunk.n_idle][1] = '\0';
        *to = (struct store_idle){
            .node = "?", .uid = uid[chunk.n_idle], .container = "c0", .gpu = "GPU-c"};
        if (pod != NULL) {
            to->container = pod->facts.share[at[1] - '0'].container;
            to->gpu = pod->facts.share[at[1] - '0'].gpu->text;
        }
        to->since_ms = strtoll(at + 2, NULL, 10);
        chunk.n_idle++;
    }
    return shelf->ops.measure(shelf->ops.ctx, &chunk, err);
}

static void set(struct shelf *shelf, const char *words, int64_t reported_ms)
{
    struct err err;

    if (try_set(shelf, words, reported_ms, &err) < 0)
        fail_msg("%s", err.text);
}

static void take(void *user, const struct store_idle *idle)
{
    strbuf_printf(user, "%s/%s/%s/%s %lld\n", idle->node, idle->uid, idle->container, idle->gpu,
                  (long long)idle->since_ms);
}

static void assert_stored(struct shelf *shelf, int64_t should_ms, const char *should)
{
    CLEANUP(strbuf_done) struct strbuf is;
    int64_t reported_ms = -1;
    struct err err;

    strbuf_init(&is);
    if (store_idle(shelf->store, &reported_ms, &is, take, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(is.data != NULL ? is.data : "", should);
    assert_int_equal(reported_ms, should_ms);
}

FIXTURE_TEST(idle_shares__are_read_back_by_node)
{
    assert_stored(shelf, 0, "");
    set(shelf, "a0 5, b0 7, b1 8", 0);
    set(shelf, "a1 6", 100);
    for (int i = 0; i < 2; i++) {
        assert_stored(shelf, 100,
                      "n1/b/c0/GPU-a 7\nn1/b/c0/GPU-b 8\nn2/a/c0/GPU-c 5\nn2/a/c1/GPU-c 6\n");
        shelf_turn(shelf);
    }
    /* The newest counts; without a time of reports the one before stays. */
    set(shelf, "a0 9, a1 0, b0 0", 0);
    assert_stored(shelf, 100, "n1/b/c0/GPU-b 8\nn2/a/c0/GPU-c 9\n");
    set(shelf, "", 99); /* the clock was set back */
    assert_stored(shelf, 99, "n1/b/c0/GPU-b 8\nn2/a/c0/GPU-c 9\n");
    assert_sql(shelf, "SELECT count(*) FROM reported", 1);
}

FIXTURE_TEST(idle_share__belongs_to_its_pod_in_equal_shares)
{
    struct core_fixture *core = &shelf->core;

    /* Like pod a, a container c0 with a share of GPU-c. */
    assert_int_equal(core_reserve(core, "d", "n2", "100"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "d"), VERDICT_OK);
    shelf_save(shelf);
    set(shelf, "a0 5", 100);
    assert_stored(shelf, 100, "n2/a/c0/GPU-c 5\n");
    set(shelf, "d0 6", 0);
    set(shelf, "a0 0", 0);
    assert_stored(shelf, 100, "n2/d/c0/GPU-c 6\n");
}

FIXTURE_TEST(idle_shares__of_an_unknown_node_are_removed_first)
{
    set(shelf, "a0 5, a1 6, b0 7", 100);
    set(shelf, "a1 8, n2", 0);
    assert_stored(shelf, 100, "n1/b/c0/GPU-a 7\nn2/a/c1/GPU-c 8\n");
    set(shelf, "n1", 0);
    assert_stored(shelf, 100, "n2/a/c1/GPU-c 8\n");
}

FIXTURE_TEST(idle_share__goes_with_its_allocation)
{
    set(shelf, "a0 5, b0 7", 100);
    assert_int_equal(core_step(&shelf->core, COMMAND_RELEASE, "a"), VERDICT_OK);
    shelf_save(shelf);
    assert_stored(shelf, 100, "n1/b/c0/GPU-a 7\n");
    /* Late reports about it are dropped, also while its row is part of the history. */
    set(shelf, "a0 6, x0 1, b1 8", 101);
    assert_stored(shelf, 101, "n1/b/c0/GPU-a 7\nn1/b/c0/GPU-b 8\n");
    set(shelf, "a0 0", 0);
    /* Another pod of the same uid, elsewhere: rows of the one before say nothing of it. */
    assert_int_equal(core_reserve(&shelf->core, "a", "n2", "300"), VERDICT_OK);
    assert_int_equal(core_step(&shelf->core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    shelf_save(shelf);
    set(shelf, "a0 9", 0);
    assert_stored(shelf, 101, "n1/b/c0/GPU-a 7\nn1/b/c0/GPU-b 8\nn2/a/c0/GPU-c 9\n");
    assert_sql(shelf, "SELECT max(allocation) = (SELECT max(id) FROM allocation) FROM idle", 1);
    set(shelf, "a0 0", 0);
    assert_stored(shelf, 101, "n1/b/c0/GPU-a 7\nn1/b/c0/GPU-b 8\n");
    /* A row about a released allocation goes with the history. */
    shelf_spoil(shelf, "INSERT INTO idle SELECT allocation, container, gpu, 3 FROM share WHERE"
                       " allocation IN (SELECT id FROM allocation WHERE state = 'released') LIMIT"
                       " 1");
    assert_sql(shelf, "SELECT count(*) FROM idle", 3);
    shelf->store->limits.retain_ms = 1;
    store_retain(shelf->store, 1);
    shelf_maintain(shelf, INT64_C(99) * 86400000);
    assert_sql(shelf, "SELECT count(*) FROM idle", 2);
}

/* If the last of several rows fails, none is stored, and no measured row either. */
FIXTURE_TEST(idle_shares__that_fail_are_not_set_at_all)
{
    static const char *const refusing[] = {
        "BEFORE INSERT ON idle WHEN NEW.container = 'c1'",
        "BEFORE DELETE ON idle",
        "BEFORE INSERT ON reported",
    };
    static const char *const words[] = {"a0 5, a1 6", "a0 5, b0 0", "a0 5"};
    struct err err;

    set(shelf, "b0 7", 0);
    for (size_t i = 0; i < ARRAY_LEN(refusing); i++) {
        shelf_refuse(shelf, refusing[i]);
        assert_true(try_set(shelf, words[i], 100, &err) < 0);
        assert_stored(shelf, 0, "n1/b/c0/GPU-a 7\n");
        if (i == 1)
            assert_true(try_set(shelf, "n1", 0, &err) < 0);
        shelf_allow(shelf);
    }
    shelf->store->limits.wal_max = 0; /* a reader holds the log */
    assert_int_equal(try_set(shelf, "a0 5", 100, &err), -(int)ERR_FULL);
    assert_stored(shelf, 0, "n1/b/c0/GPU-a 7\n");
}

FIXTURE_TEST(idle_shares__refuse_impossible_values_with_the_table)
{
    int64_t reported_ms;
    struct err err;

    set(shelf, "a0 5", 100);
    assert_int_equal(shelf_sql(shelf->path, "UPDATE idle SET since_ms = 0"), SQLITE_CONSTRAINT);
    assert_int_equal(shelf_sql(shelf->path, "UPDATE reported SET until_ms = 0"), SQLITE_CONSTRAINT);
    assert_int_equal(store_verify(shelf->store, &err), 0);
    shelf_spoil(shelf, "UPDATE idle SET since_ms = 0");
    assert_int_equal(store_idle(shelf->store, &reported_ms, NULL, take, &err), -(int)ERR_CORRUPT);
    assert_non_null(strstr(err.text, "idle"));
    shelf_spoil(shelf, "DELETE FROM idle");
    shelf_spoil(shelf, "UPDATE reported SET until_ms = -1");
    assert_int_equal(store_idle(shelf->store, &reported_ms, NULL, take, &err), -(int)ERR_CORRUPT);
    assert_non_null(strstr(err.text, "until_ms"));
}
