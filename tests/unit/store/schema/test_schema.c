/* Tables, checks and triggers: what the database itself allows and forbids to any writer. */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"

#include "store/store_internal.h"
#include "support/test.h"

/*
 * n1 has GPU-a, also known as n1/gpu-0, GPU-b, and GPU-e, which is free; n2 has its own GPU-a, and
 * GPU-c; n3 has no pods. Only the memory of GPU-a on n1 is known.
 *   1 granted, on n1: 500 of GPU-a           4 observed, on n2: 900 of its GPU-a
 *   2 granted, on n1: 1000 of GPU-b          5 reserved on n1: 100 of GPU-a
 *   3 released, was on n1: 900 of GPU-a
 */
#define HOLDER(id, uid, node, state, origin, held_gpus)                                            \
    "INSERT INTO allocation (id, uid, namespace, name, node, node_uid, state, origin, presumed,"   \
    " in_doubt, note_differs, held_gpus, unplaced_milli, reserved_ms, bound_ms, released_ms,"      \
    " terminating_ms, bytes) VALUES (" id ", '" uid "', 'ns', 'x', '" node "', '', '" state        \
    "', '" origin "', 0, 0, 0, " held_gpus ", 0, 1, 1, 1, 0, '" state "' = 'released');"
#define POD(id, uid, node, state, origin) HOLDER(id, uid, node, state, origin, "0")

static const char *const before[] = {
    "INSERT INTO meta VALUES (1, NULL, 0, 3, 0, '', 0, 0)",
    "INSERT INTO node VALUES ('n1', '', '', '', '', 0, 0)",
    "INSERT INTO node VALUES ('n2', '', '', '', '', 0, 0)",
    "INSERT INTO node VALUES ('n3', '', '', '', '', 0, 0)",
    "INSERT INTO gpu VALUES ('n1', 'GPU-a', 'n1/gpu-0', '', 1000, 1000, 0, -1, 0, 0)",
    "INSERT INTO gpu VALUES ('n1', 'GPU-b', NULL, '', 1000, 0, 1, -1, 0, 0)",
    "INSERT INTO gpu VALUES ('n1', 'GPU-e', 'n1/gpu-2', '', 900, 0, 2, -1, 0, 0)",
    "INSERT INTO gpu VALUES ('n2', 'GPU-a', NULL, '', 1000, 0, 0, -1, 0, 0)",
    "INSERT INTO gpu VALUES ('n2', 'GPU-c', NULL, '', 1000, 0, 1, -1, 0, 0)",
    "INSERT INTO gpu VALUES ('n3', 'GPU-f', NULL, '', 1000, 0, 0, -1, 0, 0)",
    POD("1", "a", "n1", "bound", "granted"),
    POD("2", "b", "n1", "bound", "granted"),
    POD("3", "old", "n1", "released", "granted"),
    POD("4", "d", "n2", "bound", "observed"),
    POD("5", "e", "n1", "reserved", "granted"),
    "INSERT INTO share VALUES (1, 'c', 'GPU-a', 0, 'app', 0, 600, 0, NULL)",
    "INSERT INTO share VALUES (3, 'c', 'GPU-a', 0, 'app', 0, 900, 0, 900)",
    "INSERT INTO charge VALUES (1, 'GPU-a', 0, 'n1', 500, 600, 1)",
    "INSERT INTO charge VALUES (2, 'GPU-b', 0, 'n1', 1000, 0, 1)",
    "INSERT INTO charge VALUES (3, 'GPU-a', 0, 'n1', 900, 900, 0)",
    "INSERT INTO charge VALUES (4, 'GPU-a', 0, 'n2', 900, 0, 1)",
    "INSERT INTO charge VALUES (5, 'GPU-a', 0, 'n1', 100, 0, 1)",
    "INSERT INTO journal VALUES (3, 0, '{}', '{}')",
    "INSERT INTO journal VALUES (4, 0, '{}', '{}')",
};

static void must_do(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s for %s", sqlite3_errmsg(db), sql);
}

static int set_up(void **state)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    must_do(db, "PRAGMA foreign_keys=ON");
    must_do(db, store_schema.sql);
    for (size_t i = 0; i < ARRAY_LEN(before); i++)
        must_do(db, before[i]);
    *state = db;
    return 0;
}

static int tear_down(void **state)
{
    assert_int_equal(sqlite3_close(*state), SQLITE_OK);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, sqlite3 *db, set_up, tear_down)

/* Each starts from the same state and is undone; a foreign key is checked as a statement ends. */
static int attempt(sqlite3 *db, const char *sql)
{
    must_do(db, "SAVEPOINT one");
    const int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    must_do(db, "ROLLBACK TO one; RELEASE one");
    return rc & 0xff;
}

static void allowed(sqlite3 *db, const char *sql)
{
    const int rc = attempt(db, sql);
    if (rc != SQLITE_OK)
        fail_msg("%d, %s, for: %s", rc, sqlite3_errmsg(db), sql);
}

static void forbidden(sqlite3 *db, const char *sql)
{
    const int rc = attempt(db, sql);
    if (rc != SQLITE_CONSTRAINT)
        fail_msg("%d, not forbidden: %s", rc, sql);
}

static void assert_counts(sqlite3 *db, const char *sql, int wanted)
{
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(stmt, 0), wanted);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
}

/*
 * Columns
 */

/* A new row has the usual values in all columns but one; values are separated by semicolons. */
struct column {
    const char *name;
    const char *usual;
    const char *good;
    const char *bad;
};

#define TEXTS(length) "printf('%.*c', " #length ", 'x')"
#define U32           "0; 4294967295", "-1; 4294967296; NULL; 'x'"
#define U16           "0; 65535", "-1; 65536; NULL; 'x'"
#define BIT           "0; 1", "2; -1; NULL; 'x'"
#define MILLI         "1; 1000", "0; 1001; NULL; 'x'"
#define PLACE         "0; 511", "-1; 512; NULL; 'x'"
#define TIME          "-1; 1", "NULL; 'x'"
#define WORD          "''; 'x'", "NULL; x'00'"
#define NAMED         "'x'", "''; NULL; x'00'"

static const struct column meta[] = {
    {"one", "1", "1", "0; 2"},
    {"cluster", "NULL", "''; 'x'", "x'00'"},
    {"created_ms", "0", TIME},
    {"folded", "0", "0; 1", "-1; NULL; 'x'"},
    {"stepped_ms", "0", TIME},
    {"id", "''", "printf('%032d', 1)", "'x'; printf('%031d', 1); printf('%033d', 1); NULL"},
    {"is_copy", "0", BIT},
    {"has_agents", "0", BIT}};
static const struct column node[] = {
    {"name", "'n9'", "'x'; " TEXTS(253), "''; " TEXTS(254) "; 'é' || " TEXTS(252) "; x'00'"},
    {"uid", "''", WORD},
    {"source", "''", WORD},
    {"problem", "''", WORD},
    {"problem_text", "''", WORD},
    {"gone", "0", BIT},
    {"since_ms", "0", TIME}};
static const struct column gpu[] = {
    {"node", "'n1'", "'n2'", "'n9'; NULL"},
    {"id", "'GPU-z'", NAMED},
    {"alias", "'z'", "NULL; 'GPU-y'", "''; 'GPU-z'; x'00'"},
    {"model", "''", WORD},
    {"milli", "1000", MILLI},
    {"mib", "0", U32},
    {"idx", "0", U16},
    {"numa", "-1", "-32768; 32767", "-32769; 32768; NULL; 'x'"},
    {"peers", "0", "-9223372036854775808; 9223372036854775807", "NULL; 'x'; 0.5"},
    {"flags", "0", "0; 15", "-1; 16; NULL; 'x'"}};
static const struct column owned_id[] = {{"gpu", "'GPU-z'", NAMED},
                                         {"node", "'n1'", "'n2'", "'n9'; NULL"}};
static const struct column allocation[] = {
    {"uid", "'z'", "'y'; " TEXTS(128), "''; " TEXTS(129) "; 'é' || " TEXTS(127) "; NULL; x'00'"},
    {"namespace", "''", WORD},
    {"name", "''", WORD},
    {"node", "'n1'", "'n2'", "'n9'; NULL"},
    {"node_uid", "''", WORD},
    {"state", "'bound'", "'bound'", "'reserved'; 'released'; 'sideways'; NULL"},
    {"origin", "'observed'", "'granted'; 'observed'", "'found'; NULL"},
    {"presumed", "0", BIT},
    {"in_doubt", "0", "0", "1; 2; -1; NULL; 'x'"},
    {"note_differs", "0", BIT},
    {"held_gpus", "0", U32},
    {"unplaced_milli", "0", U32},
    {"reserved_ms", "0", TIME},
    {"bound_ms", "0", TIME},
    {"released_ms", "0", TIME},
    {"terminating_ms", "0", TIME},
    {"version", "0", "0", "-1; 1; NULL; 'x'"}, /* nonzero only in a grant, see below */
    {"bytes", "0", "0", "-1; 1; NULL; 'x'"},   /* nonzero only of a released one, likewise */
    {"is_other", "0", BIT}};
static const struct column share[] = {
    {"allocation", "1", "2", "77; NULL; 'x'"},
    {"container", "'z'", NAMED},
    {"gpu", "'GPU-b'", NAMED},
    {"at", "0", PLACE},
    {"kind", "'app'", "'app'; 'init'; 'sidecar'", "'other'; NULL"},
    {"life", "0", U16},
    {"milli", "1000", MILLI},
    {"mib", "0", U32},
    {"asked", "NULL", "NULL; 1; 1000", "0; 1001; 'x'; 0.5"}}; /* NULL: milli */
static const struct column charge[] = {{"allocation", "3", "1", "77; NULL; 'x'"},
                                       {"gpu", "'GPU-b'", NAMED},
                                       {"at", "0", PLACE},
                                       {"node", "'n1'", WORD},
                                       {"milli", "1", "1; 4294967295", "0; 4294967296; NULL; 'x'"},
                                       {"mib", "0", U32},
                                       {"live", "0", "0", "2; -1; NULL; 'x'"}};
static const struct column journal[] = {{"seq", "9", "10", "4"},
                                        {"at", "0", TIME},
                                        {"command", "'{}'", WORD},
                                        {"result", "'{}'", WORD}};
static const struct column baseline[] = {
    {"key", "'k'", WORD}, {"seq", "0", TIME}, {"state", "'{}'", WORD}};

/* printf() counts bytes here, as length() does of a blob. */
#define MODELS(length) "printf('[\"%.*c\"]', " #length ", 'x')"
static const struct column learned[] = {{"one", "1", "1", "0; 2"},
                                        {"pods", "0", "0; 9223372036854775807", "-1; NULL; 'x'"},
                                        {"until_ms", "0", TIME}};
static const struct column measured[] = {
    {"hour_ms", "3600000", "0; 7200000", "-3600000; 1; 3599999; 3600001; NULL; 'x'"},
    {"namespace", "'a'", "''", "NULL"},
    {"model", "'T4'", "''", "NULL"},
    {"milli_s", "1", "0; 9223372036854775807", "-1; NULL; 'x'"},
    {"of_milli_s", "1", "0; 9223372036854775807", "-1; NULL; 'x'"},
    {"mib_s", "1", "0; 9223372036854775807", "-1; NULL; 'x'"},
    {"of_mib_s", "1", "0; 9223372036854775807", "-1; NULL; 'x'"},
};
static const struct column class[] = {{"place", "0", "0; 511", "-1"},
                                      {"cpu_milli", "0", U32},
                                      {"memory_mib", "0", U32},
                                      {"parts", "1", "1; 64", "0; 65; NULL; 'x'"},
                                      {"milli", "1", MILLI},
                                      {"share_mib", "0", U32},
                                      {"models", "'[]'", "'[]'; '[\"a\"]'; " MODELS(65532),
                                       "''; 'x]'; '[x'; NULL; x'5b5d'; " MODELS(65533)},
                                      {"weight", "1", "1; 131072", "0; 131073; NULL; 'x'"}};

static const struct column policy[] = {
    {"one", "1", "1", "0; 2"},
    {"name", "'/a.yaml'", NAMED},
    {"document", "x'00'", "x'ff00'; zeroblob(1048576)", "x''; 'x'; 1; NULL; zeroblob(1048577)"},
    {"read_ms", "0", TIME}};

static const struct column agent[] = {
    {"node", "'n1'", "'x'; " TEXTS(253), "''; " TEXTS(254) "; 'é' || " TEXTS(252) "; NULL; x'00'"},
    {"uid", "'u1'", WORD},
    {"named_gpus", "1", BIT},
    {"vouched", "1", BIT}};

static const struct {
    const char *name;
    const struct column *column;
    size_t columns;
} table[] = {
    {"meta", meta, ARRAY_LEN(meta)},
    {"node", node, ARRAY_LEN(node)},
    {"gpu", gpu, ARRAY_LEN(gpu)},
    {"claim", owned_id, ARRAY_LEN(owned_id)},
    {"allocation", allocation, ARRAY_LEN(allocation)},
    {"share", share, ARRAY_LEN(share)},
    {"charge", charge, ARRAY_LEN(charge)},
    {"journal", journal, ARRAY_LEN(journal)},
    {"baseline", baseline, ARRAY_LEN(baseline)},
    {"learned", learned, ARRAY_LEN(learned)},
    {"class", class, ARRAY_LEN(class)},
    {"measured", measured, ARRAY_LEN(measured)},
    {"policy", policy, ARRAY_LEN(policy)},
    {"agent", agent, ARRAY_LEN(agent)},
};

static void write_insert(struct strbuf *sql, size_t t, size_t odd, const char *value)
{
    strbuf_reset(sql);
    if (strcmp(table[t].name, "meta") == 0)
        strbuf_str(sql, "DELETE FROM meta;");
    strbuf_printf(sql, "INSERT INTO %s (", table[t].name);
    for (size_t c = 0; c < table[t].columns; c++)
        strbuf_printf(sql, "%s%s", c > 0 ? ", " : "", table[t].column[c].name);
    strbuf_str(sql, ") VALUES (");
    for (size_t c = 0; c < table[t].columns; c++)
        strbuf_printf(sql, "%s%s", c > 0 ? ", " : "", c == odd ? value : table[t].column[c].usual);
    strbuf_char(sql, ')');
}

static void try_all(sqlite3 *db, size_t t, size_t c, const char *values,
                    void (*expected)(sqlite3 *db, const char *sql))
{
    CLEANUP(strbuf_done) struct strbuf sql;
    CLEANUP(xfreep) char *list = xstrdup(values);
    char *rest = list;

    strbuf_init(&sql);
    for (const char *value; (value = strsep(&rest, ";")) != NULL;) {
        write_insert(&sql, t, c, value);
        expected(db, sql.data);
    }
}

FIXTURE_TEST(column__keeps_to_its_bounds)
{
    for (size_t t = 0; t < ARRAY_LEN(table); t++)
        for (size_t c = 0; c < table[t].columns; c++) {
            try_all(db, t, c, table[t].column[c].good, allowed);
            try_all(db, t, c, table[t].column[c].bad, forbidden);
        }
}

/*
 * Rows
 */

FIXTURE_TEST(allocation_row__does_not_contradict_itself)
{
    allowed(db, POD("9", "z", "n1", "reserved", "granted"));
    forbidden(db, POD("9", "z", "n1", "reserved", "observed"));
    allowed(db, "UPDATE allocation SET unplaced_milli = 1 WHERE id = 4");
    forbidden(db, "UPDATE allocation SET unplaced_milli = 1 WHERE id = 1");
    allowed(db, "UPDATE allocation SET in_doubt = 1 WHERE id = 5");
    forbidden(db, "UPDATE allocation SET in_doubt = 1 WHERE id = 1");
}

/* Its bytes say whether it lives, and the indexes of live rows have it by them. */
FIXTURE_TEST(allocation_row__has_bytes_from_its_release_on)
{
    forbidden(db, "UPDATE allocation SET state = 'released' WHERE id = 5");
    forbidden(db, "UPDATE allocation SET bytes = 1 WHERE id = 5");
    allowed(db, "UPDATE allocation SET state = 'released', bytes = 1 WHERE id = 5");
    allowed(db, "UPDATE allocation SET state = 'bound' WHERE id = 5");
    assert_counts(db, "SELECT count(*) FROM allocation INDEXED BY allocation_live WHERE bytes = 0",
                  4);
    assert_counts(db, "SELECT count(*) FROM allocation WHERE lives_on = 'n1'", 3);
    assert_counts(db, "SELECT count(*) FROM allocation WHERE lives_on IS NULL", 1);
}

FIXTURE_TEST(allocation_row__is_live_once_for_a_pod)
{
    forbidden(db, POD("9", "a", "n2", "bound", "observed"));
    allowed(db, POD("9", "old", "n1", "bound", "observed"));
    allowed(db, POD("9", "old", "n1", "released", "observed"));
    allowed(db, POD("9", "a", "n1", "released", "observed"));
}

FIXTURE_TEST(node_row__stays_while_a_pod_lives_there)
{
    forbidden(db, "DELETE FROM node WHERE name = 'n1'"); /* charges of grants only */
    forbidden(db, "UPDATE node SET name = 'n9' WHERE name = 'n1'");
    forbidden(db, "DELETE FROM node WHERE name = 'n2'");
    forbidden(db, POD("9", "z", "n9", "bound", "observed"));
    allowed(db, POD("9", "z", "n9", "released", "observed"));
    allowed(db, "UPDATE allocation SET state = 'released', bytes = 1 WHERE id = 4;"
                "DELETE FROM node WHERE name = 'n2'");
    forbidden(db, "UPDATE allocation SET state = 'released', bytes = 1 WHERE id IN (1, 2);"
                  "DELETE FROM node WHERE name = 'n1'"); /* a reservation is left */
    allowed(db, "UPDATE allocation SET state = 'released', bytes = 1 WHERE id IN (1, 2, 5);"
                "DELETE FROM node WHERE name = 'n1'");
    must_do(db, "DELETE FROM node WHERE name = 'n3'");
    assert_counts(db, "SELECT count(*) FROM gpu WHERE node = 'n3'", 0);
    assert_counts(db, "SELECT count(*) FROM gpu", 5);
}

/* A charge keeps the node by its GPU; an allocation that may have none keeps it itself. */
FIXTURE_TEST(node_row__stays_while_something_without_a_charge_lives_there)
{
    static const char *const without[] = {
        POD("9", "z", "n3", "bound", "observed"),
        HOLDER("9", "z", "n3", "bound", "granted", "1"),
    };
    char sql[1024];

    for (size_t i = 0; i < ARRAY_LEN(without); i++) {
        (void)snprintf(sql, sizeof sql, "%s DELETE FROM node WHERE name = 'n3'", without[i]);
        forbidden(db, sql);
        (void)snprintf(sql, sizeof sql,
                       "%s UPDATE allocation SET state = 'released', bytes = 1 WHERE id = 9;"
                       "DELETE FROM node WHERE name = 'n3'",
                       without[i]);
        allowed(db, sql);
    }
    must_do(db, without[1]);
    assert_counts(db,
                  "SELECT count(*) FROM allocation INDEXED BY allocation_needs"
                  " WHERE needs_node IS NOT NULL",
                  2);
}

/*
 * I1
 */

#define GRANT    POD("9", "z", "n1", "bound", "granted") "INSERT INTO charge VALUES (9, "
#define OBSERVED POD("9", "z", "n1", "bound", "observed") "INSERT INTO charge VALUES (9, "

FIXTURE_TEST(grant_row__fits_to_the_last_thousandth_and_mib)
{
    allowed(db, GRANT "'GPU-a', 0, 'n1', 400, 400, 1)");
    forbidden(db, GRANT "'GPU-a', 0, 'n1', 401, 400, 1)");
    forbidden(db, GRANT "'GPU-a', 0, 'n1', 400, 401, 1)");
    allowed(db, GRANT "'n1/gpu-0', 0, 'n1', 400, 400, 1)");
    forbidden(db, GRANT "'n1/gpu-0', 0, 'n1', 401, 400, 1)");
    forbidden(db, GRANT "'n1/gpu-0', 0, 'n1', 400, 401, 1)");
    forbidden(db, GRANT "'GPU-a', 0, 'n1', 400, 0, 1), (9, 'n1/gpu-0', 1, 'n1', 1, 0, 1)");
    forbidden(db, GRANT "'n1/gpu-0', 0, 'n1', 400, 0, 1), (9, 'GPU-a', 1, 'n1', 1, 0, 1)");
    forbidden(db, GRANT "'GPU-b', 0, 'n1', 1, 0, 1)");
    allowed(db, GRANT "'GPU-e', 0, 'n1', 900, 99999, 1)"); /* its memory is unknown */
    forbidden(db, GRANT "'GPU-e', 0, 'n1', 901, 0, 1)");
    allowed(db, GRANT "'GPU-e', 0, 'n1', 9999, 9999, 0)"); /* ended charges take no room */
    allowed(db, "UPDATE gpu SET mib = 1 WHERE id = 'GPU-e';" GRANT "'GPU-e', 0, 'n1', 900, 1, 1)");
    forbidden(db,
              "UPDATE gpu SET mib = 1 WHERE id = 'GPU-e';" GRANT "'GPU-e', 0, 'n1', 900, 2, 1)");
}

FIXTURE_TEST(grant_row__is_of_the_gpu_with_that_id_before_one_with_that_alias)
{
    must_do(db, "INSERT INTO gpu VALUES ('n1', 'GPU-g', 'GPU-e', '', 1000, 0, 3, -1, 0, 0)");
    allowed(db, GRANT "'GPU-e', 0, 'n1', 900, 0, 1)");
    forbidden(db, GRANT "'GPU-e', 0, 'n1', 901, 0, 1)");
    forbidden(db,
              "UPDATE gpu SET flags = 1 WHERE id = 'GPU-e';" GRANT "'GPU-e', 0, 'n1', 1, 0, 1)");
    allowed(db, "UPDATE gpu SET flags = 1 WHERE id = 'GPU-g';" GRANT "'GPU-e', 0, 'n1', 1, 0, 1)");
}

FIXTURE_TEST(observed_row__may_exceed_the_gpu)
{
    allowed(db, OBSERVED "'GPU-a', 0, 'n1', 9999, 9999, 1)");
    /* After that, nothing more is granted there. */
    forbidden(db,
              OBSERVED "'GPU-e', 0, 'n1', 900, 0, 1);" POD(
                  "8", "y", "n1", "bound", "granted") "INSERT INTO charge VALUES (8, 'GPU-e', 0,"
                                                      " 'n1', 1, 0, 1)");
}

FIXTURE_TEST(grant_row__is_refused_on_a_closed_gpu)
{
    static const char *const flags[] = {"1", "2", "4", "8"};
    char sql[1024];
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        (void)snprintf(sql, sizeof sql, "UPDATE gpu SET flags = %s WHERE id = 'GPU-e';%s", flags[i],
                       GRANT "'GPU-e', 0, 'n1', 1, 0, 1)");
        forbidden(db, sql);
        (void)snprintf(sql, sizeof sql, "UPDATE gpu SET flags = %s WHERE id = 'GPU-e';%s", flags[i],
                       OBSERVED "'GPU-e', 0, 'n1', 1, 0, 1)");
        allowed(db, sql);
    }
}

FIXTURE_TEST(charge_row__names_a_gpu_of_its_node)
{
    forbidden(db, OBSERVED "'GPU-c', 0, 'n1', 1, 0, 1)");
    forbidden(db, OBSERVED "'GPU-c', 0, 'n2', 1, 0, 1)");
    allowed(db, OBSERVED "'GPU-e', 0, 'n1', 1, 0, 1), (9, 'n1/gpu-0', 1, 'n1', 1, 0, 1)");
    allowed(db, POD("9", "z", "n2", "bound",
                    "observed") "INSERT INTO charge VALUES (9, 'GPU-c', 0, 'n2', 1, 0, 1)");
    /* an alias is of one node, too */
    forbidden(db, POD("9", "z", "n2", "bound",
                      "observed") "INSERT INTO charge VALUES (9, 'n1/gpu-0', 0, 'n2', 1, 0, 1)");
    forbidden(db, POD("9", "z", "n2", "bound",
                      "granted") "INSERT INTO charge VALUES (9, 'n1/gpu-0', 0, 'n2', 1, 0, 1)");
    allowed(db, OBSERVED "'GPU-c', 0, 'n9', 1, 0, 0)"); /* ended charges are not checked */
    forbidden(db, "INSERT INTO charge VALUES (3, 'GPU-b', 0, 'n1', 1, 0, 1)"); /* it has ended */
}

/*
 * History does not change
 */

FIXTURE_TEST(charge_row__never_changes)
{
    forbidden(db, "UPDATE charge SET allocation = 2 WHERE allocation = 1");
    forbidden(db, "UPDATE charge SET gpu = 'n1/gpu-0' WHERE allocation = 1");
    forbidden(db, "UPDATE charge SET at = 1 WHERE allocation = 1");
    forbidden(db, "UPDATE charge SET node = 'n2' WHERE allocation = 1");
    forbidden(db, "UPDATE charge SET milli = 1 WHERE allocation = 1");
    forbidden(db, "UPDATE charge SET mib = 1 WHERE allocation = 1");
    forbidden(db, "UPDATE charge SET live = 1 WHERE allocation = 3");
    allowed(db, "UPDATE charge SET live = 1 WHERE allocation = 1"); /* unchanged */
    allowed(db, "UPDATE charge SET live = 0 WHERE allocation = 1");
    forbidden(db, "UPDATE share SET milli = 1 WHERE allocation = 1");
}

FIXTURE_TEST(charge_row__goes_with_its_allocation_only)
{
    forbidden(db, "DELETE FROM charge WHERE allocation = 3");
    forbidden(db, "DELETE FROM share WHERE allocation = 3");
    forbidden(db, "DELETE FROM allocation WHERE id = 1");
    forbidden(db, "DELETE FROM allocation WHERE id = 5");
    must_do(db, "DELETE FROM allocation WHERE id = 3");
    assert_counts(db, "SELECT count(*) FROM share WHERE allocation = 3", 0);
    assert_counts(db, "SELECT count(*) FROM charge WHERE allocation = 3", 0);
    assert_counts(db, "SELECT count(*) FROM share", 1);
    assert_counts(db, "SELECT count(*) FROM charge", 4);
}

FIXTURE_TEST(allocation_row__goes_forward_and_never_moves)
{
    forbidden(db, "UPDATE allocation SET id = 99 WHERE id = 2");
    /* without rows that refer to the id, and by its other names */
    must_do(db, HOLDER("9", "h", "n1", "bound", "observed", "1"));
    forbidden(db, "UPDATE allocation SET id = 99 WHERE id = 9");
    forbidden(db, "UPDATE allocation SET rowid = 99, state = 'bound' WHERE id = 9");
    forbidden(db, "UPDATE allocation SET oid = 99 WHERE id = 9");
    forbidden(db, "UPDATE allocation SET uid = 'y' WHERE id = 2");
    forbidden(db, "UPDATE allocation SET node = 'n3' WHERE id = 2");
    forbidden(db, "UPDATE allocation SET node_uid = 'y' WHERE id = 2");
    forbidden(db, "UPDATE allocation SET origin = 'observed' WHERE id = 2");
    forbidden(db, "UPDATE allocation SET held_gpus = 1 WHERE id = 2");
    forbidden(db, "UPDATE allocation SET state = 'reserved' WHERE id = 2");
    forbidden(db, "UPDATE allocation SET state = 'bound' WHERE id = 3");
    forbidden(db, "UPDATE allocation SET terminating_ms = 5 WHERE id = 3");
    allowed(db, "UPDATE allocation SET terminating_ms = 5 WHERE id = 2");
    allowed(db, "UPDATE allocation SET in_doubt = 1 WHERE id = 5");
    allowed(db, "UPDATE allocation SET state = 'bound' WHERE id = 5");
    allowed(db, "UPDATE allocation SET state = 'released', bytes = 1 WHERE id = 5");
}

FIXTURE_TEST(claim_row__is_unique_and_goes_with_its_node)
{
    must_do(db, "INSERT INTO claim VALUES ('GPU-x', 'n3')");
    forbidden(db, "INSERT INTO claim VALUES ('GPU-x', 'n3')");
    forbidden(db, "INSERT INTO claim VALUES ('GPU-x', 'n1')");
    must_do(db, "DELETE FROM node WHERE name = 'n3'");
    assert_counts(db, "SELECT count(*) FROM claim", 0);
}

FIXTURE_TEST(version_column__only_rises_and_only_in_a_grant)
{
    assert_counts(db, "SELECT sum(version) FROM allocation", 0);
    forbidden(db, "UPDATE allocation SET version = -1 WHERE id = 5");
    forbidden(db, "UPDATE allocation SET version = 9223372036854775808 WHERE id = 5");
    forbidden(db, "UPDATE allocation SET version = 1 WHERE id = 4"); /* it is observed */
    allowed(db, "UPDATE allocation SET version = 1 WHERE id = 5");
    allowed(db, "UPDATE allocation SET version = 9223372036854775807 WHERE id = 2");
    must_do(db, "UPDATE allocation SET version = 7 WHERE id = 5");
    forbidden(db, "UPDATE allocation SET version = 6 WHERE id = 5");
    forbidden(db, "UPDATE allocation SET version = 0 WHERE id = 5");
    allowed(db, "UPDATE allocation SET version = 7 WHERE id = 5");
    allowed(db, "UPDATE allocation SET version = 8, state = 'bound' WHERE id = 5");
}

FIXTURE_TEST(release__frees_its_own_charges)
{
    must_do(db, "UPDATE allocation SET state = 'bound' WHERE id = 5");
    assert_counts(db, "SELECT count(*) FROM charge WHERE live = 1", 4);
    must_do(db, "UPDATE allocation SET state = 'released', bytes = 1 WHERE id = 1");
    assert_counts(db, "SELECT live FROM charge WHERE allocation = 1", 0);
    assert_counts(db, "SELECT count(*) FROM charge WHERE live = 1", 3);
}

FIXTURE_TEST(gpu_row__stays_while_it_is_charged_by_one_of_its_names)
{
    forbidden(db, "DELETE FROM gpu WHERE node = 'n1' AND id = 'GPU-a'");
    forbidden(db, "DELETE FROM gpu WHERE node = 'n2' AND id = 'GPU-a'");
    allowed(db, "DELETE FROM gpu WHERE id = 'GPU-e'");
    allowed(db, "DELETE FROM gpu WHERE id = 'GPU-c'");
    /* The charge uses the GPU's other name. */
    forbidden(db, OBSERVED "'n1/gpu-2', 0, 'n1', 1, 0, 1); DELETE FROM gpu WHERE id = 'GPU-e'");
    allowed(db, OBSERVED "'n1/gpu-2', 0, 'n1', 1, 0, 0); DELETE FROM gpu WHERE id = 'GPU-e'");
    /* Unless another GPU goes by that name now. */
    allowed(db, OBSERVED "'n1/gpu-2', 0, 'n1', 1, 0, 1);"
                         "INSERT INTO gpu VALUES ('n1', 'n1/gpu-2', NULL, '', 1, 0, 0, 0, 0, 0);"
                         "DELETE FROM gpu WHERE id = 'GPU-e'");
    allowed(db, OBSERVED "'n1/gpu-2', 0, 'n1', 1, 0, 1);"
                         "INSERT INTO gpu VALUES ('n1', 'GPU-g', 'n1/gpu-2', '', 1, 0, 0, 0, 0, 0);"
                         "DELETE FROM gpu WHERE id = 'GPU-e'");
    forbidden(db, OBSERVED "'n1/gpu-2', 0, 'n1', 1, 0, 1);"
                           "INSERT INTO gpu VALUES ('n2', 'n1/gpu-2', NULL, '', 1, 0, 0, 0, 0, 0);"
                           "DELETE FROM gpu WHERE id = 'GPU-e'");
}

/* A row that remembers nothing is not kept, and a Node without GPUs is still remembered. */
FIXTURE_TEST(agent_row__does_not_need_its_node)
{
    allowed(db, "INSERT INTO agent VALUES ('n9', 'u9', 1, 0)");
    allowed(db, "INSERT INTO agent VALUES ('n9', '', 0, 1)");
    forbidden(db, "INSERT INTO agent VALUES ('n9', 'u9', 0, 0)");
    forbidden(db, "INSERT INTO agent VALUES ('n9', 'u9', 1, 1), ('n9', 'u8', 1, 1)");
    must_do(db, "INSERT INTO agent VALUES ('n3', 'u3', 1, 1);"
                "DELETE FROM node WHERE name = 'n3'");
    assert_counts(db, "SELECT count(*) FROM agent WHERE node = 'n3'", 1);
}

FIXTURE_TEST(journal_row__goes_by_folding_only)
{
    forbidden(db, "UPDATE journal SET at = 1 WHERE seq = 3");
    forbidden(db, "DELETE FROM journal WHERE seq = 4");
    allowed(db, "DELETE FROM journal WHERE seq = 3");
    allowed(db, "UPDATE meta SET folded = 4; DELETE FROM journal");
}
