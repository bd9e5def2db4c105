/*
 * The ledger's limit in bytes: the order of trimming near it, and the end of grants at it. And the
 * ballast beside it, for a full disk.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_internal.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static const int64_t hour = 3600000;
static const struct core_gpu gpus[] = {{.id = "GPU-a", .index = 0, .mib = 81920},
                                       {.id = "GPU-b", .index = 1, .mib = 81920}};

static void open_with(struct shelf *shelf, int64_t max_bytes, bool has_ballast)
{
    shelf_close(shelf);
    shelf->rules.retention_days = 365;
    shelf->rules.max_bytes = max_bytes;
    shelf->rules.has_ballast = has_ballast;
    shelf_open(shelf);
}

static void save(struct shelf *shelf)
{
    shelf_save(shelf);
    core_forget_undo(&shelf->core);
    shelf->written = 0;
}

static void maintain(struct shelf *shelf)
{
    struct err err;

    if (shelf->ops.maintain(shelf->ops.ctx, shelf->core.now_ms, &err) < 0)
        fail_msg("%s", err.text);
}

static void reserve(struct shelf *shelf, const char *namespace, const char *uid, const char *words)
{
    assert_int_equal(core_reserve_in(&shelf->core, namespace, uid, "n1", words), VERDICT_OK);
}

/* From the reservation to the end, as one batch. */
static void live_and_end(struct shelf *shelf, const char *namespace, int number, const char *words)
{
    char uid[32];

    (void)snprintf(uid, sizeof uid, "%s-%d", namespace, number);
    shelf->core.now_ms += 1000;
    reserve(shelf, namespace, uid, words);
    assert_int_equal(core_step(&shelf->core, COMMAND_CONFIRM, uid), VERDICT_OK);
    assert_int_equal(core_step(&shelf->core, COMMAND_RELEASE, uid), VERDICT_OK);
    save(shelf);
}

static long long count_past(const struct shelf *shelf, const char *namespace)
{
    char sql[128];

    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM allocation WHERE state = 'released' AND namespace = '%s'",
                   namespace);
    return shelf_number(shelf->path, sql);
}

static const char large[] = "s10+s10+s10+s10+s10+s10+s10+s10+s10+s10+s10+s10+10";

/*
 * Asking SQLite for the pages in use takes 3 % of a bind. Until the next look, a write counts as
 * twice its journal entries.
 */
SHELF_TEST(space__far_from_the_limit_is_looked_at_once_in_a_while)
{
    struct store *store;
    int64_t counted = 0;
    int looks = 0;
    int batches = 0;

    open_with(shelf, 64 << 20, false);
    store = shelf->store;
    (void)core_node(core, "n1", gpus, 2);
    maintain(shelf);
    assert_false(space_is_due(store));
    for (; looks < 3 && batches < 3000; batches++) {
        live_and_end(shelf, "a", batches, large);
        const bool is_due = space_is_due(store);
        assert_int_equal(store->unseen > store->limits.piece / 16, is_due);
        maintain(shelf);
        looks += is_due;
        assert_int_equal(store->unseen == 0, is_due);
        if (is_due && looks > 1) /* none was missed */
            assert_in_range(atomic_load(&store->used_bytes) - counted, 1, store->limits.piece / 8);
        counted = atomic_load(&store->used_bytes);
    }
    assert_in_range(batches, 6, 3000);
    assert_int_equal(looks, 3);
}

/* One namespace makes and ends pods all day; another had a few in the morning. */
SHELF_TEST(trim__takes_the_oldest_of_the_namespace_with_most_history)
{
    enum { LOUD = 3000, QUIET = 20 };
    struct store_facts facts;
    struct store_reach reach;
    struct err err;

    open_with(shelf, 2 << 20, false);
    assert_int_equal(store_reach(shelf->store, &reach, &err), 0);
    assert_int_equal(reach.oldest_ms, 0);
    assert_int_equal(reach.bytes, 0);
    assert_int_equal(reach.most_bytes, 0);
    assert_string_equal(reach.most, "");
    (void)core_node(core, "n1", gpus, 2);
    reserve(shelf, "alive", "stays", "500");
    for (int i = 0; i < QUIET; i++)
        live_and_end(shelf, "quiet", i, large);
    for (int i = 0; i < LOUD; i++) {
        live_and_end(shelf, "loud", i, large);
        maintain(shelf);
        assert_int_equal(store_space(shelf->store), SPACE_ENOUGH);
    }

    assert_int_equal(store_facts(shelf->store, &facts, &err), 0);
    assert_int_equal(facts.max_bytes, 2 << 20);
    assert_in_range(facts.used_bytes, 1 << 19, 3 << 19);
    assert_in_range(facts.trimmed_ms, 1, core->now_ms);
    assert_non_null(strstr(shelf->notices.data, "comes near its limit of 2 MiB"));
    assert_int_equal(count_past(shelf, "quiet"), QUIET);
    assert_in_range(count_past(shelf, "loud"), 100, LOUD / 2);
    assert_sql(shelf, "SELECT count(*) FROM allocation WHERE uid = 'loud-2999'", 1);
    assert_sql(shelf, "SELECT count(*) FROM allocation WHERE uid = 'loud-0'", 0);
    /* The journal keeps its quarter. */
    assert_in_range(atomic_load(&shelf->store->journal_bytes), 1 << 16, 3 << 19);
    assert_int_equal(store_reach(shelf->store, &reach, &err), 0);
    assert_string_equal(reach.most, "loud");
    assert_in_range(reach.oldest_ms, 1, core->now_ms - (LOUD - 1) * 1000);
    shelf_same(shelf);
    shelf_sound(shelf);
}

/* A new start finds the counts that memory and the table past had. */
SHELF_TEST(space_counts__are_those_of_the_file)
{
    struct err err;

    open_with(shelf, 2 << 20, false);
    (void)core_node(core, "n1", gpus, 2);
    for (int i = 0; i < 1500; i++) {
        live_and_end(shelf, i % 3 == 0 ? "one" : "two", i, large);
        maintain(shelf);
    }
    const int64_t bytes = atomic_load(&shelf->store->journal_bytes);
    const uint64_t rows = atomic_load(&shelf->store->journal_rows);
    shelf_sound(shelf);
    assert_true(atomic_load(&shelf->store->trimmed_ms) > 0);
    shelf_close(shelf);
    shelf_open(shelf);
    assert_int_equal(atomic_load(&shelf->store->journal_bytes), bytes);
    assert_int_equal(atomic_load(&shelf->store->journal_rows), rows);
    /* A batch that is lost counts nothing. */
    reserve(shelf, "one", "lost", "100");
    shelf_begin(shelf);
    assert_int_equal(shelf_write(shelf, &err), STORE_OK);
    shelf->ops.rollback(shelf->ops.ctx);
    assert_int_equal(atomic_load(&shelf->store->journal_bytes), bytes);
}

/* The sum of the texts is near the real size of the rows. */
SHELF_TEST(space_counts__of_history_are_near_its_real_size)
{
    (void)core_node(core, "n1", gpus, 2);
    for (int i = 0; i < 400; i++)
        live_and_end(shelf, "team-of-some-length", i, i % 2 == 0 ? large : "300");
    const long long counted = shelf_number(shelf->path, "SELECT sum(bytes) FROM past");
    const long long before = shelf_number(shelf->path, "SELECT page_count - freelist_count FROM"
                                                       " pragma_page_count, pragma_freelist_count");
    shelf_run(shelf, "PRAGMA foreign_keys=ON;"
                     "DELETE FROM allocation WHERE state = 'released'");
    const long long after = shelf_number(shelf->path, "SELECT page_count - freelist_count FROM"
                                                      " pragma_page_count, pragma_freelist_count");
    assert_in_range(counted, (before - after) * STORE_PAGE_BYTES / 2,
                    (before - after) * STORE_PAGE_BYTES * 5 / 4);
}

SHELF_TEST(space_counts__of_namespaces_beyond_the_bound_are_one)
{
    char name[32];

    (void)core_node(core, "n1", gpus, 2);
    save(shelf);
    shelf_run(
        shelf,
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 4095) INSERT"
        " INTO past SELECT 'made-up-' || i, 0, 0 FROM n");
    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "ns%d", i);
        live_and_end(shelf, name, i, "300");
    }
    assert_sql(shelf, "SELECT count(*) FROM past", 4097);
    assert_sql(shelf, "SELECT n_rows FROM past WHERE namespace = 'ns0'", 1);
    assert_sql(shelf, "SELECT n_rows FROM past WHERE namespace = ''", 2);
    assert_sql(shelf, "SELECT sum(is_other) FROM allocation", 2);
    /* One that has a row of its own by now is still counted where it was. */
    shelf_run(shelf, "DELETE FROM past WHERE namespace = 'made-up-1'");
    live_and_end(shelf, "ns2", 9, "300");
    assert_sql(shelf, "SELECT n_rows FROM past WHERE namespace = 'ns2'", 1);
    shelf_run(shelf, "DELETE FROM past WHERE namespace LIKE 'made-up-%'");
    shelf_sound(shelf);
    shelf_run(shelf, "PRAGMA foreign_keys=ON;"
                     "DELETE FROM allocation WHERE state = 'released'");
    assert_sql(shelf, "SELECT count(*) FROM past", 0);
}

/* Nothing is left to trim: live rows never go. */
SHELF_TEST(ledger_limit__stops_grants_and_not_releases)
{
    struct store_facts facts;
    struct err err;
    char uid[32];
    int made = 0;

    open_with(shelf, 2 << 20, false);
    for (int i = 0; i < 40; i++) {
        (void)snprintf(uid, sizeof uid, "n%d", i);
        (void)core_node(core, uid, gpus, 1);
    }
    save(shelf);
    for (; store_space(shelf->store) == SPACE_ENOUGH && made < 4000; made++) {
        (void)snprintf(uid, sizeof uid, "p%d", made);
        struct pod *pod = core_pod(core, uid, "n1");
        core_note(core, pod, "c0 GPU-a 1 1,c1 GPU-b 1 1,c2 GPU-c 1 1,c3 GPU-d 1 1,c4 GPU-e 1 1");
        assert_int_equal(core_adopt(core, pod, "s1+s1+s1+s1+1"), VERDICT_OK);
        save(shelf);
        maintain(shelf);
    }
    assert_int_equal(store_space(shelf->store), SPACE_LIMIT);
    assert_non_null(strstr(shelf->notices.data, "it has reached its limit (ledger_max_bytes)"));
    assert_int_equal(store_facts(shelf->store, &facts, &err), 0);
    assert_in_range(facts.used_bytes, 1 << 20, 2 << 20);
    assert_int_equal(facts.journal_rows, 0); /* all that was not live is gone */
    for (int i = 0; i < made; i++) {
        (void)snprintf(uid, sizeof uid, "p%d", i);
        assert_int_equal(core_step(core, COMMAND_RELEASE, uid), VERDICT_OK);
        save(shelf);
        maintain(shelf);
    }
    assert_int_equal(store_space(shelf->store), SPACE_ENOUGH);
    assert_non_null(strstr(shelf->notices.data, "granting goes on"));
    shelf_same(shelf);
    shelf_sound(shelf);
}

/* A batch may be large: its writes count before it is committed. */
SHELF_TEST(ledger_limit__is_met_within_a_batch)
{
    struct err err;
    char uid[32];
    int made = 0;

    open_with(shelf, 1 << 20, false);
    (void)core_node(core, "n1", gpus, 2);
    save(shelf);
    shelf_begin(shelf);
    for (; made < 2000 && store_space(shelf->store) == SPACE_ENOUGH; made++) {
        (void)snprintf(uid, sizeof uid, "p%d", made);
        reserve(shelf, "a", uid, large);
        assert_int_equal(core_step(core, COMMAND_RELEASE, uid), VERDICT_OK);
        assert_int_equal(shelf_write(shelf, &err), STORE_OK);
    }
    assert_in_range(made, 20, 1000);
    assert_int_equal(store_space(shelf->store), SPACE_LIMIT);
    /* The rolled back batch took no room. */
    shelf->ops.rollback(shelf->ops.ctx);
    maintain(shelf);
    assert_int_equal(store_space(shelf->store), SPACE_ENOUGH);
}

/* Hours outlive rows: they go when nothing else is left. */
SHELF_TEST(trim__takes_hourly_sums_last)
{
    struct store_facts facts;
    struct err err;
    char namespace[50][64];

    open_with(shelf, 2 << 20, false);
    (void)core_node(core, "n1", gpus, 2);
    core->now_ms = 1000 * hour;
    for (int i = 0; i < 50; i++) {
        live_and_end(shelf, "team", i, large);
        maintain(shelf);
    }
    for (int i = 0; i < 600; i++) {
        struct store_measured row[50];
        for (int j = 0; j < 50; j++) {
            (void)snprintf(namespace[j], sizeof namespace[j], "namespace-of-some-length-%d", j);
            row[j] = (struct store_measured){.hour_ms = i * hour,
                                             .namespace = namespace[j],
                                             .model = "NVIDIA-A100-SXM4-80GB",
                                             .milli_s = 1 << 20,
                                             .of_milli_s = 1 << 20,
                                             .mib_s = 1 << 30,
                                             .of_mib_s = 1 << 30};
        }
        const struct store_chunk chunk = {.row = row, .n_rows = 50};
        assert_int_equal(shelf->ops.measure(shelf->ops.ctx, &chunk, &err), 0);
        maintain(shelf);
        if (shelf_number(shelf->path, "SELECT min(hour_ms) FROM measured") > 0)
            break;
    }
    assert_in_range(shelf_number(shelf->path, "SELECT min(hour_ms) FROM measured"), hour,
                    500 * hour);
    assert_int_equal(count_past(shelf, "team"), 0);
    assert_int_equal(store_facts(shelf->store, &facts, &err), 0);
    assert_int_equal(facts.journal_rows, 0);
    shelf_sound(shelf);
}

/* --- the ballast --- */

static long long ballast_blocks(const struct shelf *shelf)
{
    char name[256];
    struct stat st;

    (void)snprintf(name, sizeof name, "%s.ballast", shelf->path);
    return stat(name, &st) == 0 ? (long long)st.st_blocks * 512 : -1;
}

SHELF_TEST(ballast__is_given_up_for_a_full_disk_and_holds_grants)
{
    struct store_rules *rules = &shelf->rules;

    open_with(shelf, 0, true);
    if (!shelf->store->has_ballast || ballast_blocks(shelf) < 0)
        fail_msg("no ballast: %s", shelf->notices.data);
    const long long whole = ballast_blocks(shelf);
    assert_in_range(whole, 1 << 20, 17 << 20);
    assert_int_equal(store_space(shelf->store), SPACE_ENOUGH);

    space_take_failure(shelf->store, -(int)ERR_CONFLICT); /* not the disk's */
    assert_int_equal(ballast_blocks(shelf), whole);
    space_take_failure(shelf->store, -(int)ERR_FULL);
    assert_int_equal(ballast_blocks(shelf), -1);
    assert_int_equal(store_space(shelf->store), SPACE_DISK);
    assert_non_null(strstr(shelf->notices.data, "the ballast beside it is given up"));
    /* Releases are written meanwhile. */
    (void)core_node(core, "n1", gpus, 2);
    live_and_end(shelf, "a", 1, "300");
    assert_int_equal(store_space(shelf->store), SPACE_DISK);
    core->now_ms += 2000;
    maintain(shelf);
    assert_int_equal(ballast_blocks(shelf), whole);
    assert_int_equal(store_space(shelf->store), SPACE_ENOUGH);

    /* A file of holes, as some copies are, holds no room. */
    shelf_close(shelf);
    char name[256];
    (void)snprintf(name, sizeof name, "%s.ballast", shelf->path);
    assert_int_equal(truncate(name, 0), 0);
    assert_int_equal(truncate(name, whole), 0);
    shelf_open(shelf);
    assert_int_equal(ballast_blocks(shelf), whole);
    assert_true(rules->has_ballast);
}

SHELF_TEST(copy__that_does_not_fit_is_refused_before_it_begins)
{
    struct volume volume;
    struct err err;

    assert_true(volume_look(shelf->path, &volume));
    assert_int_equal(space_for_copy(shelf->path, 1 << 20, "a copy", &err), 0);
    assert_int_equal(space_for_copy(shelf->path, volume.free_bytes + (64 << 20), "a copy", &err),
                     -(int)ERR_FULL);
    assert_non_null(strstr(err.text, "a copy takes "));
    assert_non_null(strstr(err.text, " MiB are free"));
}

SHELF_TEST(ledger_limit__is_a_part_of_the_volume)
{
    struct store_facts facts;
    struct volume volume;
    struct err err;

    assert_true(volume_look(shelf->path, &volume));
    assert_int_equal(store_facts(shelf->store, &facts, &err), 0);
    const int64_t part = volume.bytes / 10 * 3;
    const int64_t most = INT64_C(2047) << 20;
    assert_int_equal(facts.max_bytes, part < LEDGER_BYTES_MIN ? LEDGER_BYTES_MIN
                                      : part < most           ? part
                                                              : most);
    /* The log stays below the limit, too. */
    open_with(shelf, LEDGER_BYTES_MIN, false);
    assert_int_equal(shelf->store->limits.wal_max, LEDGER_BYTES_MIN / STORE_PAGE_BYTES);
    assert_int_equal(shelf->store->limits.wal_hard, LEDGER_BYTES_MIN / 8 / STORE_PAGE_BYTES);
    assert_int_equal(shelf->store->limits.wal_soft, LEDGER_BYTES_MIN / 16 / STORE_PAGE_BYTES);
    assert_int_equal(shelf->store->limits.stop_at, LEDGER_BYTES_MIN - (8 << 20));
    assert_int_equal(shelf->store->limits.trim_at, LEDGER_BYTES_MIN - (20 << 20));
}
