/*
 * A pack returns the rows that were packed, and bytes of no packer are an error.
 */
#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/random.h"

#include "store/db.h"
#include "store/past/pack.h"
#include "support/test.h"

static const char uuid[] = "ca4ab6af-e853-434d-b295-00000000002a";
static const int64_t noon = INT64_C(1793491200000);

static struct packed a_pod(int64_t id)
{
    return (struct packed){.id = id,
                           .uid = uuid,
                           .namespace = "team",
                           .name = "server-7d9c8b6f5-x2k9p",
                           .node = "n1",
                           .node_uid = "11111111-2222-3333-4444-555555555555",
                           .reserved_ms = noon - 2050,
                           .bound_ms = noon - 2000,
                           .released_ms = noon,
                           .n_charges = 1,
                           .charge = {{0, "GPU-ca4ab6af-e853-434d-b295-0000000000ff", 300, 24576}}};
}

static void write_all(const struct packed *packed, size_t count, struct strbuf *out)
{
    struct packer packer;

    packer_init(&packer);
    for (size_t i = 0; i < count; i++)
        packer_add(&packer, &packed[i]);
    packer_finish(&packer, out);
    packer_done(&packer);
}

static void assert_same(const struct packed *packed, const struct packed *should)
{
    assert_int_equal(packed->id, should->id);
    assert_string_equal(packed->uid, should->uid);
    assert_string_equal(packed->namespace, should->namespace);
    assert_string_equal(packed->name, should->name);
    assert_string_equal(packed->node, should->node);
    assert_string_equal(packed->node_uid, should->node_uid);
    assert_int_equal(packed->reserved_ms, should->reserved_ms);
    assert_int_equal(packed->bound_ms, should->bound_ms);
    assert_int_equal(packed->released_ms, should->released_ms);
    assert_int_equal(packed->unplaced_milli, should->unplaced_milli);
    assert_int_equal(packed->n_charges, should->n_charges);
    for (uint32_t i = 0; i < should->n_charges; i++) {
        assert_int_equal(packed->charge[i].at, should->charge[i].at);
        assert_string_equal(packed->charge[i].gpu, should->charge[i].gpu);
        assert_int_equal(packed->charge[i].milli, should->charge[i].milli);
        assert_int_equal(packed->charge[i].mib, should->charge[i].mib);
    }
}

static void comes_back(const struct packed *packed, size_t count)
{
    CLEANUP(strbuf_done) struct strbuf bytes;
    struct unpacker unpacker;
    struct err err;

    strbuf_init(&bytes);
    write_all(packed, count, &bytes);
    unpacker_init(&unpacker);
    assert_int_equal(unpacker_open(&unpacker, (struct text){bytes.data, bytes.len}, &err), 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(unpacker_next(&unpacker, &err), 1);
        assert_same(&unpacker.packed, &packed[i]);
    }
    assert_int_equal(unpacker_next(&unpacker, &err), 0);
    unpacker_done(&unpacker);
}

TEST(pack__returns_the_packed_rows)
{
    enum { KINDS = 12 };
    struct packed *packed = xcalloc(KINDS, sizeof *packed);
    char longest[NAME_BYTES_MAX + 1];

    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    for (int i = 0; i < KINDS; i++)
        packed[i] = a_pod(1 + i * (int64_t)1000000);
    packed[1].uid = "not-a-uuid";
    packed[2].uid = "CA4AB6AF-E853-434D-B295-00000000002A"; /* must come back in capitals */
    packed[3].uid = "ca4ab6af-e853-434d-b295-00000000002g";
    packed[4].name = "nohyphen";
    packed[4].node_uid = "";
    packed[5].name = longest;
    packed[5].namespace = "x-";
    packed[6].name = "ends-in-";
    packed[6].bound_ms = 0;
    packed[7].reserved_ms = 0;
    packed[7].bound_ms = noon; /* bound and released at once */
    packed[8].released_ms = noon - 86400000;
    packed[8].bound_ms = noon; /* the clock was set back */
    packed[9].n_charges = 0;
    packed[9].unplaced_milli = 4000000000;
    packed[10].released_ms = INT64_MIN;
    packed[10].bound_ms = INT64_MAX - 1;
    packed[11].n_charges = PARTS_MAX;
    packed[11].released_ms = INT64_MAX;
    for (uint32_t i = 0; i < PARTS_MAX; i++)
        packed[11].charge[i] =
            (struct packed_charge){i, i % 2 == 0 ? "n1/gpu-0" : "GPU-b", 1 + i, UINT32_MAX - i};
    comes_back(packed, KINDS);
    for (int i = 0; i < KINDS; i++)
        comes_back(&packed[i], 1);
    packed[0].id = INT64_MAX >> 10; /* the highest that a row's number has room for */
    comes_back(packed, 1);
    xfree(packed);
}

TEST(packer__knows_its_rows_and_times)
{
    struct packed is[] = {a_pod(7), a_pod(9), a_pod(30)};
    struct packer packer;

    is[0].released_ms = noon + 5;
    is[1].reserved_ms = 0;
    is[1].bound_ms = noon - 9000;
    is[1].released_ms = noon - 20;
    is[2].reserved_ms = noon - 8000;
    packer_init(&packer);
    for (size_t i = 0; i < ARRAY_LEN(is); i++)
        packer_add(&packer, &is[i]);
    assert_int_equal(packer.facts.rows, 3);
    assert_int_equal(packer.facts.first, 7);
    assert_int_equal(packer.facts.last, 30);
    assert_int_equal(packer.facts.began_ms, noon - 9000);
    assert_int_equal(packer.facts.oldest_ms, noon - 20);
    assert_int_equal(packer.facts.ended_ms, noon + 5);
    packer_done(&packer);
}

/* As Deployments make them: the texts are there once. */
TEST(pack__takes_few_bytes_for_a_pod)
{
    enum { PODS = 500 };
    struct packed *packed = xcalloc(PODS, sizeof *packed);
    CLEANUP(strbuf_done) struct strbuf bytes;

    for (int i = 0; i < PODS; i++) {
        packed[i] = a_pod(1 + i);
        packed[i].released_ms = noon + i * 1700;
        packed[i].bound_ms = packed[i].released_ms - 600000;
        packed[i].reserved_ms = packed[i].bound_ms - 50;
    }
    strbuf_init(&bytes);
    write_all(packed, PODS, &bytes);
    assert_in_range(bytes.len, (size_t)PODS * 30, (size_t)PODS * 50);
    xfree(packed);
}

/* Reads to the end or to the first fault; returns whether it was one. */
static bool is_refused(struct text bytes)
{
    struct unpacker unpacker;
    struct err err;
    int more;

    unpacker_init(&unpacker);
    more = unpacker_open(&unpacker, bytes, &err);
    assert_true(more == 0 || more == -(int)ERR_CORRUPT);
    if (more == 0)
        do
            more = unpacker_next(&unpacker, &err);
        while (more > 0);
    assert_true(more == 0 || more == -(int)ERR_CORRUPT);
    if (more < 0)
        assert_non_null(strstr(err.text, "a pack of the history is not what milligpu writes"));
    unpacker_done(&unpacker);
    return more < 0;
}

TEST(unpacker__refuses_bytes_of_no_packer)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"", 0},
        {"\1", 1},                                              /* no count of words */
        {"\2\0\0", 3},                                          /* another version */
        {"\1\0\1", 3},                                          /* an allocation is missing */
        {"\1\0\0x", 4},                                         /* something behind the end */
        {"\1\177", 2},                                          /* more words than bytes */
        {"\1\1\4a\0\0", 6},                                     /* a NUL within a word */
        {"\1\1\1short\0", 8},                                   /* a UUID of five bytes */
        {"\1\0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\1", 13}, /* a number of 71 bits */
        {"\1\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\2", 12},     /* one of 65 bits */
        {"\1\0\1\0\0\0\0\0\0\0\0\0\0\0\0", 15},                 /* an id that does not grow */
        {"\1\0\1\1\0\0\0\0\0\0\0\0\0\0\0", 15},                 /* a word of none */
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (!is_refused((struct text){bad[i].bytes, bad[i].len}))
            fail_msg("number %zu was read", i);
    /* The same with a word for each: nothing is wrong with it. */
    assert_false(is_refused((struct text){"\1\1\0\1\1\0\0\0\0\0\0\0\0\0\0\0", 16}));
    assert_false(is_refused((struct text){"\1\0\0", 3}));
}

/* Each place is cut and changed: an error or other texts, and never more than that. */
TEST(unpacker__reads_damage_as_an_error_or_another_history)
{
    struct packed is[] = {a_pod(7), a_pod(9), a_pod(30)};
    uint64_t random = 7;
    CLEANUP(strbuf_done) struct strbuf bytes;

    is[1].n_charges = 2;
    is[1].charge[1] = (struct packed_charge){1, "GPU-b", 1000, 1};
    is[2].n_charges = 0;
    strbuf_init(&bytes);
    write_all(is, ARRAY_LEN(is), &bytes);
    const struct text whole = {bytes.data, bytes.len};
    assert_false(is_refused(whole));
    for (size_t i = 0; i < whole.len; i++)
        assert_true(is_refused((struct text){whole.at, i}));
    for (size_t i = 0; i < whole.len; i++) {
        const char was = bytes.data[i];
        for (int j = 0; j < 40; j++) {
            bytes.data[i] = (char)(random_next(&random) >> 56);
            (void)is_refused(whole);
        }
        bytes.data[i] = was;
    }
    assert_false(is_refused(whole));
}

/* --- as a table --- */

static long long ask(sqlite3 *db, const char *sql, int *out_rc)
{
    sqlite3_stmt *stmt = NULL;
    long long number = -1;

    *out_rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (*out_rc == SQLITE_OK)
        *out_rc = sqlite3_step(stmt);
    if (*out_rc == SQLITE_ROW)
        number = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt); /* returns the error of the step again */
    return number;
}

TEST(unpack_table__is_known_to_each_connection)
{
    struct packed is[] = {a_pod(7), a_pod(9), a_pod(30)};
    CLEANUP(db_closep) sqlite3 *db = NULL;
    CLEANUP(strbuf_done) struct strbuf bytes;
    sqlite3_stmt *stmt = NULL;
    struct err err;
    int rc;

    is[1].n_charges = 2;
    is[1].charge[1] = (struct packed_charge){1, "GPU-b", 1000, 1};
    is[2].n_charges = 0;
    is[2].unplaced_milli = 70;
    strbuf_init(&bytes);
    write_all(is, ARRAY_LEN(is), &bytes);
    assert_int_equal(db_open(":memory:", DB_CREATE, &db, &err), 0);
    assert_int_equal(db_exec(db, "CREATE TABLE t (body BLOB)", &err), 0);
    assert_int_equal(db_prepare(db, "INSERT INTO t VALUES (?)", &stmt, &err), 0);
    struct bind bind = bind_start(stmt);
    bind_bytes(&bind, (struct text){bytes.data, bytes.len});
    assert_int_equal(bind_run(&bind, NULL, &err), 0);
#define FROM " FROM t JOIN unpack AS u ON u.body = t.body "
    assert_int_equal(ask(db, "SELECT count(*)" FROM, &rc), 4);
    assert_int_equal(ask(db, "SELECT sum(u.id)" FROM, &rc), 7 + 9 + 9 + 30);
    assert_int_equal(ask(db, "SELECT u.milli" FROM "WHERE u.gpu = ''", &rc), 70);
    assert_int_equal(ask(db, "SELECT u.mib" FROM "WHERE u.gpu = 'GPU-b' AND u.at = 1", &rc), 1);
    assert_int_equal(ask(db, "SELECT count(DISTINCT u.rowid)" FROM, &rc), 4);
    assert_int_equal(ask(db,
                         "SELECT u.reserved_ms - u.bound_ms + u.released_ms" FROM
                         "WHERE u.id = 7 AND u.namespace = 'team' AND u.node = 'n1'"
                         " AND u.node_uid LIKE '1111%' AND u.name LIKE 'server-%'"
                         " AND u.uid LIKE 'ca4%' AND u.body = t.body",
                         &rc),
                     noon - 50);
    /* Twice in one statement, and without a body. */
    assert_int_equal(ask(db,
                         "SELECT count(*)" FROM "JOIN unpack AS v ON v.body = t.body"
                         " WHERE v.id = u.id",
                         &rc),
                     1 + 4 + 1);
    (void)ask(db, "SELECT count(*) FROM unpack", &rc);
    assert_int_not_equal(rc, SQLITE_ROW);
    /* Other bytes are an error that says so, and the connection goes on. */
    (void)ask(db, "SELECT count(*) FROM unpack AS u WHERE u.body = x'0203'", &rc);
    assert_int_equal(rc & 0xff, SQLITE_CORRUPT);
    assert_non_null(strstr(sqlite3_errmsg(db), "a pack of the history is not what"));
    (void)ask(db, "SELECT count(*) FROM unpack AS u WHERE u.body = x'010001'", &rc);
    assert_int_equal(rc & 0xff, SQLITE_CORRUPT);
    (void)ask(db, "SELECT count(*) FROM unpack AS u WHERE u.body IS NULL", &rc);
    assert_int_not_equal(rc, SQLITE_ROW);
    assert_int_equal(ask(db, "SELECT count(*)" FROM, &rc), 4);
    /* A file cannot use it. */
    assert_int_equal(db_exec(db,
                             "CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t WHERE"
                             " EXISTS (SELECT 1 FROM unpack AS u WHERE u.body = t.body); END",
                             &err),
                     0);
    assert_true(db_exec(db, "INSERT INTO t VALUES (x'00')", &err) < 0);
    assert_non_null(strstr(err.text, "unsafe use of virtual table"));
}
