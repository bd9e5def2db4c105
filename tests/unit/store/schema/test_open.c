#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "support/valid.h"
#include "unit/store/support_shelf.h"

#define FIXTURE_TEST(name) SHELF_TEST_BETWEEN(name, shelf_set_up_closed, shelf_tear_down)

/* A closed ledger with a node and three pods, one of them released. */
static void fill(struct shelf *shelf)
{
    struct core_fixture *core = &shelf->core;
    shelf_open(shelf);
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "600x2");
    (void)core_reserve(core, "b", "n1", "i200+300");
    (void)core_step(core, COMMAND_CONFIRM, "b");
    (void)core_reserve(core, "c", "n1", "100");
    (void)core_step(core, COMMAND_RELEASE, "c");
    shelf_save(shelf);
    shelf_close(shelf);
}

/* Refused with and without a second thread that checks the pages. */
static void refused(struct shelf *shelf, enum err_code code, const char *words)
{
    for (int beside = 0; beside < 2; beside++) {
        struct err err = {0};
        shelf->rules.checks_beside = beside != 0;
        if (shelf_try(shelf, &err) != -(int)code || strstr(err.text, words) == NULL)
            fail_msg("wanted %d with \"%s\", got %d: %s", code, words, err.code, err.text);
    }
}

static void spoil(const struct shelf *shelf, const char *sql)
{
    char text[2048];
    (void)snprintf(text, sizeof text, "PRAGMA foreign_keys=OFF; PRAGMA writable_schema=ON; %s",
                   sql);
    const int rc = shelf_sql(shelf->path, text);
    if (rc != SQLITE_OK)
        fail_msg("%d for %s", rc, sql);
}

/* Bytes of the pages that a connection keeps after it has read 8 MiB. */
static int kept_bytes(const char *path, enum db_mode mode)
{
    sqlite3 *db = NULL;
    int64_t sum = 0;
    int kept = 0;
    int most = 0;
    struct err err;

    assert_int_equal(db_open(path, mode, &db, &err), 0);
    assert_int_equal(db_number(db, "SELECT sum(length(hex(one))) FROM many", &sum, &err), 0);
    assert_int_equal(sum, 2 * 2048 * 4096);
    assert_int_equal(sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_USED, &kept, &most, 0), SQLITE_OK);
    db_close(db);
    return kept;
}

FIXTURE_TEST(open__limits_the_pages_that_a_connection_keeps)
{
    assert_int_equal(shelf_sql(shelf->path,
                               "CREATE TABLE many (one BLOB); WITH RECURSIVE n (i) AS (VALUES (1)"
                               " UNION ALL SELECT i + 1 FROM n WHERE i < 2048)"
                               " INSERT INTO many SELECT zeroblob(4096) FROM n"),
                     SQLITE_OK);
    const int writers = kept_bytes(shelf->path, DB_CREATE);
    const int readers = kept_bytes(shelf->path, DB_READ);
    assert_true(writers > 3 << 20 && writers < 4500 << 10);
    assert_true(readers > 1 << 20 && readers < 2300 << 10);
}

FIXTURE_TEST(open__is_refused_for_a_ledger_in_use)
{
    struct store *second = NULL;
    struct err err;
    char other[128];
    fill(shelf);
    shelf_open(shelf);
    assert_int_equal(store_open(&shelf->rules, &second, &err), -(int)ERR_BUSY);
    assert_non_null(strstr(err.text, "another milligpud"));
    /* Opening by another name is refused, too. */
    (void)snprintf(other, sizeof other, "%s/link", shelf->folder);
    assert_int_equal(symlink("ledger.db", other), 0);
    struct store_rules rules = shelf->rules;
    rules.path = other;
    assert_int_equal(store_open(&rules, &second, &err), -(int)ERR_BUSY);
    assert_null(second);
    shelf_close(shelf);
    shelf_open(shelf);
    shelf_same(shelf);
}

FIXTURE_TEST(cluster__of_another_ledger_is_refused)
{
    struct err err;
    shelf_open(shelf);
    assert_int_equal(store_set_cluster(shelf->store, "", &err), -(int)ERR_INVALID);
    assert_int_equal(store_set_cluster(shelf->store, "cluster-one", &err), 0);
    assert_int_equal(store_set_cluster(shelf->store, "cluster-one", &err), 0);
    shelf_turn(shelf);
    assert_int_equal(store_set_cluster(shelf->store, "cluster-two", &err), -(int)ERR_FOREIGN);
    assert_non_null(strstr(err.text, "cluster-one"));
    assert_non_null(strstr(err.text, "cluster-two"));
    assert_int_equal(store_set_cluster(shelf->store, "cluster-one", &err), 0);
}

FIXTURE_TEST(open__takes_an_empty_file)
{
    put_file(shelf->path, "", 0);
    shelf_open(shelf);
    shelf_turn(shelf);
    /* Nor does the file matter that a crash right at the start leaves. */
    shelf_close(shelf);
    assert_int_equal(unlink(shelf->path), 0);
    shelf_run(shelf, "PRAGMA journal_mode=WAL");
    shelf_open(shelf);
    shelf_turn(shelf);
}

FIXTURE_TEST(open__leaves_a_foreign_file_untouched)
{
    static const char letter[] = "Dear Sir or Madam, this is no database at all.\n";
    struct stat before, after;
    shelf->rules.on_corrupt = STORE_MOVE_ASIDE; /* even then */

    put_file(shelf->path, letter, sizeof letter);
    refused(shelf, ERR_FOREIGN, "nor any SQLite database");
    put_file(shelf->path, "x", 1);
    refused(shelf, ERR_FOREIGN, "nor any SQLite database");
    assert_int_equal(unlink(shelf->path), 0);

    shelf_run(shelf, "CREATE TABLE recipes (name TEXT)");
    assert_int_equal(stat(shelf->path, &before), 0);
    refused(shelf, ERR_FOREIGN, "not a milligpu ledger");
    shelf_run(shelf, "PRAGMA application_id=77");
    refused(shelf, ERR_FOREIGN, "not a milligpu ledger");
    assert_int_equal(stat(shelf->path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_sql(shelf, "SELECT count(*) FROM recipes", 0);
    assert_int_equal(shelf_files(shelf, "corrupt"), 0);
}

FIXTURE_TEST(open__refuses_a_newer_ledger)
{
    shelf->rules.on_corrupt = STORE_MOVE_ASIDE;
    fill(shelf);
    shelf_run(shelf, "PRAGMA user_version=13");
    refused(shelf, ERR_NEWER, "newer milligpu");
    shelf_run(shelf, "PRAGMA user_version=12");
    shelf_open(shelf);
    shelf_same(shelf);
}

FIXTURE_TEST(open__names_a_path_that_cannot_be_used)
{
    char path[160];
    shelf->rules.path = path;
    (void)snprintf(path, sizeof path, "%s/missing/ledger.db", shelf->folder);
    refused(shelf, ERR_IO, "must be there");
    (void)snprintf(path, sizeof path, "%s/", shelf->folder);
    refused(shelf, ERR_INVALID, "a folder");
    (void)snprintf(path, sizeof path, "%s", shelf->folder);
    refused(shelf, ERR_INVALID, "a folder");
    path[0] = '\0';
    refused(shelf, ERR_INVALID, "empty");
    (void)snprintf(path, sizeof path, "%s/file", shelf->folder);
    put_file(path, "", 0);
    (void)snprintf(path, sizeof path, "%s/file/ledger.db", shelf->folder);
    refused(shelf, ERR_IO, "file");
    (void)snprintf(path, sizeof path, "%s/pipe", shelf->folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(shelf, ERR_INVALID, "not a regular file");
    char lock[80];
    (void)snprintf(lock, sizeof lock, "%s.lock", shelf->folder);
    (void)unlink(lock); /* left because a folder was opened as a ledger */
}

FIXTURE_TEST(open__gives_a_new_ledger_small_pages)
{
    shelf_open(shelf);
    assert_sql(shelf, "PRAGMA page_size", STORE_PAGE_BYTES);
    assert_int_equal(shelf->store->page_bytes, STORE_PAGE_BYTES);
    assert_int_equal(shelf->store->limits.wal_soft, (4 << 20) / STORE_PAGE_BYTES);
    shelf_turn(shelf);
    assert_sql(shelf, "PRAGMA page_size", STORE_PAGE_BYTES);
}

FIXTURE_TEST(open__finds_a_cut_or_scratched_file)
{
    fill(shelf);
    size_t size = 0;
    CLEANUP(xfreep) char *whole = get_file(shelf->path, &size);
    assert_in_range(size, 20000, 1 << 20);

    static const size_t cuts[] = {1, 15, 16, 99, 100, 1023, 1024, 4095, 4096, 8192};
    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        put_file(shelf->path, whole, cuts[i]);
        refused(shelf, ERR_CORRUPT, "ledger.db");
    }
    put_file(shelf->path, whole, size / 2);
    refused(shelf, ERR_CORRUPT, "ledger.db");
    put_file(shelf->path, whole, size - STORE_PAGE_BYTES);
    refused(shelf, ERR_CORRUPT, "ledger.db");

    static const unsigned char zeros[8192];
    put_file(shelf->path, zeros, sizeof zeros);
    refused(shelf, ERR_CORRUPT, "header is lost");
    /* Overwrite the head of every page in turn. */
    for (size_t at = STORE_PAGE_BYTES; at < size; at += STORE_PAGE_BYTES) {
        char kept[64];
        memcpy(kept, whole + at, sizeof kept);
        memset(whole + at, 0x5a, sizeof kept);
        put_file(shelf->path, whole, size);
        memcpy(whole + at, kept, sizeof kept);
        refused(shelf, ERR_CORRUPT, "ledger.db");
    }
    put_file(shelf->path, whole, size);
    shelf_open(shelf);
    shelf_same(shelf);
}

/* Each of the changes, by itself, is refused. */
static void refuses_each(struct shelf *shelf, void (*change)(const struct shelf *, const char *sql),
                         const char *const *sql, size_t count, const char *words)
{
    for (size_t i = 0; i < count; i++) {
        fill(shelf);
        change(shelf, sql[i]);
        refused(shelf, ERR_CORRUPT, words);
        shelf_begin_anew(shelf);
    }
}

/* The tables are read meanwhile, and hold what their CHECKs forbid. */
FIXTURE_TEST(open__finds_rows_against_the_checks_of_their_tables)
{
    static const char *const spoilt[] = {
        "UPDATE gpu SET alias = id",
        "UPDATE gpu SET milli = 0",
        "UPDATE gpu SET peers = -1, idx = -1",
        "UPDATE node SET gone = 2",
        "UPDATE allocation SET state = 'reserved', origin = 'observed'",
        "UPDATE charge SET milli = 0",
        "UPDATE share SET milli = 1001",
    };
    refuses_each(shelf, shelf_spoil, spoilt, ARRAY_LEN(spoilt), "CHECK constraint failed");
}

/* Ids that the history could not number: it is damaged, and grants go on. */
FIXTURE_TEST(open__counts_ids_on_beside_damaged_history)
{
    static const char *const spoilt[] = {
        "INSERT INTO pack VALUES (1, 'ns', 1, 1, 2251799813685248, 1, 1, 1, 1, x'00'),"
        " (2, 'ns', 1, 1, 9223372036854775807, 1, 1, 1, 1, x'00')",
        "UPDATE share SET allocation = 9223372036854775807 WHERE allocation = 3;"
        "UPDATE charge SET allocation = 9223372036854775807 WHERE allocation = 3;"
        "UPDATE allocation SET id = 9223372036854775807 WHERE id = 3",
    };
    static const int next[] = {4, 3};
    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        fill(shelf);
        shelf_spoil(shelf, spoilt[i]);
        shelf_open(shelf);
        (void)core_reserve(&shelf->core, "d", "n1", "100");
        shelf_save(shelf);
        assert_sql(shelf, "SELECT id FROM allocation WHERE uid = 'd'", next[i]);
        shelf_close(shelf);
        shelf_begin_anew(shelf);
    }
}

FIXTURE_TEST(open__finds_tables_that_differ)
{
    static const char *const spoilt[] = {
        "DROP TRIGGER charge_within",
        "DROP INDEX allocation_live",
        "CREATE TABLE more (a)",
        "CREATE TRIGGER more AFTER INSERT ON gpu BEGIN SELECT 1; END",
        "ALTER TABLE node ADD COLUMN more TEXT",
    };
    refuses_each(shelf, spoil, spoilt, ARRAY_LEN(spoilt), "its tables are not those");
}

FIXTURE_TEST(open__finds_rows_that_contradict_each_other)
{
    static const struct {
        const char *sql;
        const char *words;
    } spoilt[] = {
        {"UPDATE charge SET milli = 601 WHERE allocation = 1 AND gpu = 'GPU-a'", "shares come to"},
        {"UPDATE charge SET mib = 1 WHERE allocation = 1 AND gpu = 'GPU-a'", "shares come to"},
        {"DELETE FROM charge WHERE allocation = 2", "charges where"},
        {"DELETE FROM charge WHERE allocation = 1 AND gpu = 'GPU-a'",
         "allocation a has 1 charges where its shares make 2"},
        {"INSERT INTO charge VALUES (2, 'GPU-b', 1, 'n1', 1, 0, 1)", "charges where"},
        {"UPDATE charge SET gpu = 'GPU-b' WHERE allocation = 2", "allocation b on GPU GPU-a"},
        {"UPDATE charge SET at = 1 - at WHERE allocation = 1", "allocation a on GPU GPU-a"},
        {"UPDATE share SET at = 1 - at WHERE allocation = 1", "allocation a on GPU GPU-b"},
        {"UPDATE charge SET live = 0 WHERE allocation = 1", "shares come to"},
        {"UPDATE charge SET live = 1 WHERE allocation = 3", "its allocation is not"},
        {"UPDATE charge SET node = 'n2' WHERE allocation = 1", "its allocation is not"},
        {"UPDATE share SET milli = 1 WHERE allocation = 2", "shares come to"},
        {"DELETE FROM share WHERE allocation = 2", "a grant without a share"},
        {"DELETE FROM gpu WHERE id = 'GPU-a'", "does not have GPU GPU-a"},
        {"INSERT INTO node VALUES ('n2', '', 'none', 'none', '', 0, 0);"
         "UPDATE gpu SET node = 'n2' WHERE id = 'GPU-a'",
         "does not have GPU GPU-a"},
        {"INSERT INTO node VALUES ('n2', '', 'none', 'none', '', 0, 0);"
         "UPDATE gpu SET node = 'n2', id = 'GPU-z', alias = 'GPU-a' WHERE id = 'GPU-a'",
         "does not have GPU GPU-a"},
        {"UPDATE charge SET milli = 1001 - (SELECT sum(milli) FROM charge WHERE live = 1"
         " AND gpu = 'GPU-a' AND allocation <> 1) WHERE allocation = 1 AND gpu = 'GPU-a'",
         "grants of 1001 milli"},
        {"UPDATE gpu SET alias = 'GPU-b' WHERE id = 'GPU-a'", "goes by a name of"},
        {"UPDATE gpu SET alias = 'x'", "goes by a name of"},
        {"UPDATE gpu SET alias = 'n1/gpu-7'", "goes by a name of"},
        {"INSERT INTO gpu SELECT node, alias, NULL, model, milli, mib, 2, numa, flags, peers"
         " FROM gpu WHERE id = 'GPU-b'",
         "GPU GPU-b of node n1 goes by a name of GPU n1/gpu-1"},
        {"UPDATE gpu SET alias = 'GPU-a' WHERE id = 'GPU-b'", "GPU GPU-b of node n1 goes by a"},
        {"INSERT INTO claim VALUES ('GPU-a', 'n1')", "claims GPU GPU-a, which node n1 has"},
        {"INSERT INTO node VALUES ('n2', '', 'none', 'none', '', 1, 0);"
         "INSERT INTO claim VALUES ('GPU-q', 'n2')",
         "node n2 is gone, yet claims GPU GPU-q"},
        {"UPDATE node SET gone = 1", "is gone, yet shows"},
        {"UPDATE node SET source = 'hearsay'", "column source"},
        {"UPDATE node SET problem = 'toothache'", "column problem"},
        {"UPDATE node SET problem_text = 'a' || char(0) || 'b'", "column problem_text"},
        {"UPDATE allocation SET name = 'a' || char(0) || 'b'", "column name"},
        {"UPDATE allocation SET state = 'reserved' WHERE uid = 'c'", "CHECK"},
        {"UPDATE allocation SET state = 'released' WHERE uid = 'a'", "CHECK"},
        {"UPDATE allocation SET bytes = 1 WHERE uid = 'a'", "CHECK"},
        {"UPDATE allocation SET state = 'reserved', bytes = 0 WHERE uid = 'c'", "shares come to"},
        {"UPDATE allocation SET node = 'n7' WHERE uid = 'a'", "its allocation is not"},
        {"UPDATE allocation SET node = 'n7', held_gpus = 1 WHERE uid = 'a'", "lost its node"},
        {"DELETE FROM node", "lost its node"},
        {"DELETE FROM gpu; DELETE FROM node", "which is charged"},
        {"DELETE FROM allocation WHERE uid = 'c'", "lost its allocation"},
        {"DELETE FROM meta", "not one row in meta"},
        {"UPDATE allocation SET state = 'sideways' WHERE uid = 'a'", "CHECK"},
        {"UPDATE gpu SET milli = 0", "CHECK"},
        {"UPDATE share SET at = 1000", "CHECK"},
        {"INSERT INTO journal VALUES (9223372036854775807, 0, '{}', '{}')", "which cannot be"},
    };
    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        fill(shelf);
        shelf_spoil(shelf, spoilt[i].sql);
        refused(shelf, ERR_CORRUPT, spoilt[i].words);
        shelf_begin_anew(shelf);
    }
}

static char *loaded(struct shelf *shelf)
{
    struct ledger *ledger = ledger_new();
    struct err err;

    if (store_load(shelf->store, ledger, &err) != 0)
        fail_msg("%s", err.text);
    ledger_assert_valid(ledger);
    char *dump = core_dump(ledger);
    ledger_free(ledger);
    return dump;
}

FIXTURE_TEST(open__checks_the_pages_beside_the_tables)
{
    fill(shelf);
    shelf->rules.checks_beside = true;
    shelf_open(shelf);
    CLEANUP(xfreep) char *is = loaded(shelf);
    CLEANUP(xfreep) char *should = core_dump(shelf->core.ledger);
    assert_string_equal(is, should);
    shelf_turn(shelf);
}

/* A file that is no log yet is checked first. */
FIXTURE_TEST(open__checks_the_pages_of_a_copy_before_it_changes_it)
{
    struct shelf copy;

    fill(shelf);
    shelf_open(shelf);
    shelf_open_backup(shelf, &copy);
    shelf_close(&copy);
    shelf_run(&copy, "PRAGMA journal_mode=DELETE");
    copy.rules.checks_beside = true;
    shelf_open(&copy);
    CLEANUP(xfreep) char *is = loaded(&copy);
    CLEANUP(xfreep) char *should = core_dump(shelf->core.ledger);
    assert_string_equal(is, should);
    shelf_done(&copy);
}

/* The first load gets what the opening has read, the second reads anew. */
FIXTURE_TEST(load__is_the_same_twice)
{
    fill(shelf);
    shelf_open(shelf);
    CLEANUP(xfreep) char *first = loaded(shelf);
    CLEANUP(xfreep) char *second = loaded(shelf);
    CLEANUP(xfreep) char *should = core_dump(shelf->core.ledger);
    assert_string_equal(first, should);
    assert_string_equal(second, should);
}

FIXTURE_TEST(load__shows_what_was_written_since_the_opening)
{
    fill(shelf);
    shelf_open(shelf);
    (void)core_reserve(&shelf->core, "d", "n1", "50");
    shelf_save(shelf);
    CLEANUP(xfreep) char *is = loaded(shelf);
    CLEANUP(xfreep) char *should = core_dump(shelf->core.ledger);
    assert_string_equal(is, should);
}

/* Rows that only the ledger refuses do not fail the opening: loading says why. */
FIXTURE_TEST(load__refuses_what_the_opening_takes)
{
    static const struct {
        const char *sql;
        const char *words;
    } spoilt[] = {
        {"INSERT INTO node SELECT 'n2', uid, source, problem, problem_text, gone, since_ms"
         " FROM node; INSERT INTO gpu SELECT 'n2', id, alias, model, milli, mib, idx, numa, flags,"
         " peers FROM gpu WHERE id = 'GPU-a'",
         "node n2: GPU GPU-a is another node's already"},
        {"UPDATE allocation SET origin = 'observed', state = 'bound', version = 0 WHERE uid = 'b';"
         "UPDATE allocation SET unplaced_milli = 0 WHERE uid = 'b'; DELETE FROM share WHERE"
         " allocation = 2; DELETE FROM charge WHERE allocation = 2",
         "allocation b: holds nothing"},
    };
    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        struct ledger *ledger = ledger_new();
        struct err err = {0};
        fill(shelf);
        shelf_spoil(shelf, spoilt[i].sql);
        shelf_open(shelf);
        if (store_load(shelf->store, ledger, &err) != -(int)ERR_CORRUPT ||
            strstr(err.text, spoilt[i].words) == NULL)
            fail_msg("%s: %s", spoilt[i].sql, err.text);
        ledger_free(ledger);
        shelf_begin_anew(shelf);
    }
}

/* As many charges ended as live allocations have, so that one count may not stand for the other. */
FIXTURE_TEST(open__finds_a_live_charge_of_an_ended_pod_among_many)
{
    fill(shelf);
    shelf_open(shelf);
    (void)core_reserve(&shelf->core, "d", "n1", "50x2");
    (void)core_reserve(&shelf->core, "e", "n1", "50");
    (void)core_step(&shelf->core, COMMAND_RELEASE, "d");
    (void)core_step(&shelf->core, COMMAND_RELEASE, "e");
    shelf_save(shelf);
    shelf_close(shelf);
    shelf_spoil(shelf, "UPDATE charge SET live = 1 WHERE allocation = 3");
    assert_sql(shelf,
               "SELECT count(*) = (SELECT count(*) FROM charge JOIN allocation AS a"
               " ON a.id = allocation WHERE a.state <> 'released') FROM charge WHERE live = 0",
               1);
    refused(shelf, ERR_CORRUPT, "its allocation is not");
}

/* A GPU with more grants than it has is found beside pods that another scheduler bound. */
FIXTURE_TEST(open__counts_grants_apart_from_what_was_bound_elsewhere)
{
    fill(shelf);
    shelf_open(shelf);
    for (int i = 0; i < 3; i++) {
        struct pod *pod =
            core_pod(&shelf->core, arena_printf(&shelf->core.arena, "elsewhere-%d", i), "n1");
        pod->ours = true;
        core_note(&shelf->core, pod, "c0 GPU-a 300 24576");
        assert_int_equal(core_adopt(&shelf->core, pod, "300"), VERDICT_OK);
    }
    shelf_save(shelf);
    shelf_turn(shelf);
    shelf_close(shelf);
    assert_sql(shelf, "SELECT sum(milli) > 1000 FROM charge WHERE live = 1 AND gpu = 'GPU-a'", 1);
    shelf_spoil(shelf, "UPDATE charge SET milli = milli + 500 WHERE allocation < 3");
    refused(shelf, ERR_CORRUPT, "grants of");
}

/* Two nodes may use one name for two GPUs. */
FIXTURE_TEST(open__takes_a_gpu_name_of_another_node)
{
    fill(shelf);
    spoil(shelf, "INSERT INTO node VALUES ('n2', 'u', 'none', 'none', '', 0, 0);"
                 "INSERT INTO gpu VALUES ('n2', 'GPU-z', 'GPU-a', '', 1000, 0, 0, -1, 0, 0);");
    struct err err = {0};
    if (shelf_try(shelf, &err) != 0)
        fail_msg("%s", err.text);
}

/* Only the slow verification looks at this. */
FIXTURE_TEST(verify__finds_a_history_that_contradicts_itself)
{
    static const struct {
        const char *sql;
        const char *words;
    } spoilt[] = {
        {"UPDATE charge SET milli = 99 WHERE allocation = 3", "shares come to"},
        {"DELETE FROM journal WHERE seq = 2", "gap"},
        {"DELETE FROM journal WHERE seq = 1", "gap"},
        {"DELETE FROM journal WHERE seq < (SELECT max(seq) FROM journal)", "gap"},
        {"UPDATE journal SET seq = 0 WHERE seq = 1", "gap"},
        {"UPDATE journal SET result = '{' WHERE seq = 2", "no JSON"},
        {"UPDATE journal SET result = '{}' WHERE seq = 2", "does not know it"},
        {"UPDATE journal SET result = json_set(result, '$.allocation.name', 'other')"
         " WHERE seq = 2",
         "otherwise than the table"},
        {"INSERT INTO journal VALUES (7, 0, '{}', '{\"node\":{\"name\":\"n5\"}}')",
         "the tables do not"},
        {"INSERT INTO journal VALUES (7, 0, '{}', '{\"node\":{}}')", "nothing that has a name"},
        {"INSERT INTO baseline VALUES ('node/n1', 3, '{}')", "not folded yet"},
        {"INSERT INTO baseline VALUES ('n1', 0, '{}')", "neither node nor allocation"},
    };
    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        struct err err = {0};
        fill(shelf);
        shelf_spoil(shelf, spoilt[i].sql);
        shelf_open(shelf);
        if (store_verify(shelf->store, &err) != -(int)ERR_CORRUPT ||
            strstr(err.text, spoilt[i].words) == NULL)
            fail_msg("%s: %s", spoilt[i].sql, err.text);
        shelf_begin_anew(shelf);
    }
}

FIXTURE_TEST(open__moves_a_corrupt_file_aside_if_configured)
{
    struct err err;
    shelf->rules.on_corrupt = STORE_MOVE_ASIDE;
    for (int times = 1; times <= 2; times++) {
        fill(shelf);
        shelf->rules.checks_beside = times == 2;
        const int fd = open(shelf->path, O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, "scratched", 9, STORE_PAGE_BYTES), 9);
        assert_int_equal(close(fd), 0);
        /* A log is moved aside with its ledger. */
        char wal[128];
        (void)snprintf(wal, sizeof wal, "%s-wal", shelf->path);
        put_file(wal, "not a log either", 16);

        shelf_open(shelf);
        assert_true(shelf_files(shelf, "ledger.db.corrupt-") >= 2 * times);
        assert_non_null(strstr(shelf->notices.data, "a new ledger begins"));
        struct ledger *ledger = ledger_new();
        assert_int_equal(store_load(shelf->store, ledger, &err), 0);
        size_t at = 0;
        assert_null(ledger_next_node(ledger, &at));
        ledger_free(ledger);
        shelf_begin_anew(shelf);
    }
}

/* --- migrations to a made-up next version (released ones: test_released.c) --- */

static const char more_things[] =
    "CREATE TABLE extra (a INTEGER) STRICT; CREATE INDEX extra_a ON extra (a);";

static int open_next(struct shelf *shelf, const struct store_migration *step, size_t steps,
                     struct store **out, struct err *err)
{
    struct strbuf sql;
    strbuf_init(&sql);
    strbuf_str(&sql, store_schema.sql);
    strbuf_str(&sql, more_things);
    const struct store_schema next = {.version = store_schema.version + 1,
                                      .sql = sql.data,
                                      .migration = step,
                                      .n_migrations = steps};
    const int failed = store_open_as(&shelf->rules, &next, out, err);
    if (failed == 0)
        store_close(*out);
    strbuf_done(&sql);
    return failed;
}

FIXTURE_TEST(migration__copies_the_older_ledger_first)
{
    const struct store_migration step = {.from = 12, .sql = more_things};
    struct store *store = NULL;
    struct err err;
    fill(shelf);
    assert_int_equal(open_next(shelf, &step, 1, &store, &err), 0);
    assert_sql(shelf, "PRAGMA user_version", 13);
    assert_sql(shelf, "SELECT count(*) FROM extra", 0);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 3);
    assert_int_equal(shelf_files(shelf, "ledger.db.v12-"), 1);
    assert_non_null(strstr(shelf->notices.data, "from version 12 to 13"));
    /* Forward only. */
    refused(shelf, ERR_NEWER, "newer milligpu");
    /* Repeating it does nothing. */
    assert_int_equal(open_next(shelf, &step, 1, &store, &err), 0);
    assert_int_equal(shelf_files(shelf, "ledger.db.v12-"), 1);
}

FIXTURE_TEST(migration__that_fails_leaves_the_old_version)
{
    struct store *store = NULL;
    struct err err;
    static const struct store_migration bad[] = {
        {.from = 12, .sql = "CREATE TABLE extra (a); CREATE TABLE gpu (a)"},
        {.from = 12, .sql = "DELETE FROM node"}, /* leaves orphans */
    };
    fill(shelf);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(open_next(shelf, &bad[i], 1, &store, &err) < 0);
        assert_non_null(strstr(err.text, "migrate from version 12"));
        assert_sql(shelf, "PRAGMA user_version", 12);
    }
    /* A migration whose result differs from a new file is not applied. */
    const struct store_migration other = {.from = 12, .sql = "CREATE TABLE extra (b)"};
    const int failed = open_next(shelf, &other, 1, &store, &err);
    assert_int_equal(failed, -(int)ERR_CORRUPT);
    assert_non_null(strstr(err.text, "not those of version 13"));
    assert_sql(shelf, "PRAGMA user_version", 12);
    shelf_open(shelf);
    shelf_same(shelf);
}

FIXTURE_TEST(migration__from_an_unknown_version_is_refused)
{
    struct store *store = NULL;
    struct err err;
    fill(shelf);
    assert_int_equal(open_next(shelf, NULL, 0, &store, &err), -(int)ERR_CORRUPT);
    assert_non_null(strstr(err.text, "which never existed"));
    shelf_run(shelf, "PRAGMA user_version=0");
    refused(shelf, ERR_CORRUPT, "which never existed");
}

/* --- files of a killed process --- */

static void make_file(const struct shelf *shelf, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", shelf->folder, name);
    put_file(path, "half a copy", 11);
}

static void make_folder(const struct shelf *shelf, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", shelf->folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

FIXTURE_TEST(open__removes_unfinished_copies)
{
    fill(shelf);
    make_file(shelf, "ledger.db.v1-20260102T030405Z.part-AbCd12");
    make_file(shelf, "ledger.db.v1-20260102T030405Z.2.part-AbCd12");
    make_file(shelf, "ledger.db.v1-20260102T030405Z.part-AbCd12-journal");
    make_folder(shelf, "ledger.db.part-AbCd12");
    make_file(shelf, "ledger.db.part-AbCd12/ledger.db");
    make_file(shelf, "ledger.db.part-AbCd12/ledger.db.part-Ef34gH");
    make_folder(shelf, "ledger.db.part-empty1");
    shelf_open(shelf);
    assert_int_equal(shelf_files(shelf, "part-"), 0);
    assert_non_null(strstr(shelf->notices.data, "ledger.db.part-AbCd12"));
    shelf_same(shelf);
}

FIXTURE_TEST(open__keeps_whole_copies_and_foreign_files)
{
    static const char *const files[] = {
        "ledger.db.v1-20260102T030405Z",
        "ledger.db.corrupt-20260102T030405Z",
        "ledger.db.part-1234567",
        "ledger.db.part-AbCd12",
        "other.db.v1-20260102T030405Z.part-AbCd12",
    };
    fill(shelf);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        make_file(shelf, files[i]);
    make_folder(shelf, "other.db.part-AbCd12");
    make_folder(shelf, "ledger.db.part-mine12");
    make_file(shelf, "ledger.db.part-mine12/letter");
    shelf_open(shelf);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        assert_in_range(shelf_files(shelf, files[i]), 1, 2);
    assert_int_equal(shelf_files(shelf, "other.db.part-AbCd12"), 1);
    assert_int_equal(shelf_files(shelf, "ledger.db.part-mine12"), 1);
    assert_null(strstr(shelf->notices.data, "part-"));
    char path[256];
    (void)snprintf(path, sizeof path, "%s/ledger.db.part-mine12/letter", shelf->folder);
    assert_int_equal(unlink(path), 0); /* it was left alone */
    (void)snprintf(path, sizeof path, "%s/ledger.db.part-mine12", shelf->folder);
    assert_int_equal(rmdir(path), 0);
    (void)snprintf(path, sizeof path, "%s/other.db.part-AbCd12", shelf->folder);
    assert_int_equal(rmdir(path), 0);
}
