/*
 * Older history is packed when the ledger comes near its limit. Every query has the same answer
 * before and after.
 */
#include <stdio.h>
#include <string.h>

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static const int64_t day = INT64_C(24) * 60 * 60 * 1000;

/* --- asking --- */

static void take(void *user, const struct history_row *row)
{
    struct strbuf *text = user;

    strbuf_printf(text, "%llu %s %s/%s on %s (%s) %s %s %u %u from %lld, %lld to %lld\n",
                  (unsigned long long)row->row, row->uid, row->namespace, row->name, row->node,
                  row->node_uid, row->gpu, row->state, row->milli, row->mib,
                  (long long)row->reserved_ms, (long long)row->bound_ms,
                  (long long)row->released_ms);
}

static void take_granted(void *user, const struct store_granted *row)
{
    strbuf_printf(user, "%s %s %llu %llu %llu\n", row->namespace, row->model,
                  (unsigned long long)row->pods, (unsigned long long)row->milli_s,
                  (unsigned long long)row->mib_s);
}

struct last {
    struct strbuf *text;
    uint64_t row;
    uint32_t rows;
};

static void take_last(void *user, const struct history_row *row)
{
    struct last *last = user;

    last->row = row->row;
    last->rows++;
    take(last->text, row);
}

/* As REST reads it, page by page. */
static void ask_in_pages(struct shelf *shelf, const struct store_history_query *query,
                         uint32_t limit, struct strbuf *out)
{
    struct store_history_query next = *query;
    struct last last = {.text = out};
    struct err err;

    next.limit = limit;
    do {
        last.rows = 0;
        assert_int_equal(store_history(shelf->store, &next, &last, take_last, &err), 0);
        assert_true(last.rows <= limit);
        next.before = last.row;
    } while (last.rows == limit);
}

/* In pages, too, where a time leaves no row out. */
static void ask(struct shelf *shelf, const struct store_history_query *query, struct strbuf *out)
{
    static const uint32_t limits[] = {1, 2, 7, 1000};
    CLEANUP(strbuf_done) struct strbuf pages;
    struct err err;
    const size_t from = out->len;

    assert_int_equal(store_history(shelf->store, query, out, take, &err), 0);
    for (size_t i = 0; query->at_ms == 0 && i < ARRAY_LEN(limits); i++) {
        strbuf_init(&pages);
        ask_in_pages(shelf, query, limits[i], &pages);
        assert_string_equal(pages.data, out->data + from);
        strbuf_done(&pages);
    }
    strbuf_init(&pages);
    strbuf_str(out, "--\n");
}

/* At no time, at each at which something began or ended, and before and after all of it. */
struct times {
    int64_t ms[64];
    size_t count;
};

static void find_times(struct shelf *shelf, struct times *out)
{
    char sql[256];

    out->ms[0] = 0;
    out->ms[1] = 2;
    out->ms[2] = shelf->core.now_ms + 1;
    for (out->count = 3; out->count < ARRAY_LEN(out->ms); out->count++) {
        (void)snprintf(sql, sizeof sql,
                       "WITH t(ms) AS (SELECT reserved_ms FROM allocation UNION SELECT bound_ms"
                       " FROM allocation UNION SELECT released_ms FROM allocation)"
                       " SELECT coalesce((SELECT ms FROM t WHERE ms > 0 LIMIT 1 OFFSET %zu), 0)",
                       out->count - 3);
        out->ms[out->count] = shelf_number(shelf->path, sql);
        if (out->ms[out->count] == 0)
            return;
    }
    fail_msg("more times than there is room for");
}

/* Every way to ask, at every time. */
static void ask_all(struct shelf *shelf, const struct times *times, struct strbuf *out)
{
    static const struct store_history_query queries[] = {
        {.limit = 0},
        {.gpu = "GPU-a"},
        {.gpu = "GPU-b", .node = "n1"},
        {.gpu = "n2/gpu-0"},
        {.gpu = "GPU-c"},
        {.gpu = "GPU-none"},
        {.node = "n2"},
        {.namespace = "one"},
        {.namespace = "two", .pod = "two-2"},
        {.namespace = "two", .pod = "one-0"},
        {.namespace = "none"},
    };
    struct err err;

    strbuf_reset(out);
    for (size_t i = 0; i < ARRAY_LEN(queries); i++)
        for (size_t j = 0; j < times->count; j++) {
            struct store_history_query query = queries[i];
            query.at_ms = times->ms[j];
            ask(shelf, &query, out);
        }
    for (size_t j = 0; j < times->count; j++)
        assert_int_equal(store_granted(shelf->store, times->ms[j], shelf->core.now_ms + 5000, out,
                                       take_granted, &err),
                         0);
}

/* --- a past --- */

static void reserve(struct shelf *shelf, const char *namespace, const char *uid, const char *node,
                    const char *words)
{
    assert_int_equal(core_reserve_in(&shelf->core, namespace, uid, node, words), VERDICT_OK);
    shelf->core.now_ms += 1000;
}

static void release(struct shelf *shelf, const char *uid)
{
    shelf->core.now_ms += 1000;
    assert_int_equal(core_step(&shelf->core, COMMAND_RELEASE, uid), VERDICT_OK);
}

static void bind(struct shelf *shelf, const char *uid)
{
    shelf->core.now_ms += 500;
    assert_int_equal(core_step(&shelf->core, COMMAND_CONFIRM, uid), VERDICT_OK);
}

/* Ended and live, on one GPU, on two and on none, bound and never bound, adopted, twice. */
static void make_a_past(struct shelf *shelf)
{
    struct core_fixture *core = &shelf->core;
    struct pod *whole = core_pod(core, "whole", "n1");
    char uid[32];

    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", two_counted, 2);
    reserve(shelf, "one", "lives", "n1", "100");
    bind(shelf, "lives");
    for (int i = 0; i < 4; i++) {
        const char *namespace = i % 2 == 0 ? "one" : "two";
        (void)snprintf(uid, sizeof uid, "%s-%d", namespace, i / 2 * 2);
        reserve(shelf, namespace, uid, i < 3 ? "n1" : "n2", i == 1 ? "200x2" : "s100+50");
        if (i != 2)
            bind(shelf, uid);
        if (i == 3)
            reserve(shelf, "two", "between", "n2", "400");
        release(shelf, uid);
    }
    whole->whole_gpus = 1;
    assert_int_equal(core_adopt(core, whole, NULL), VERDICT_OK);
    release(shelf, "whole");
    for (int i = 0; i < 2; i++) {
        reserve(shelf, "two", "again", "n2", "300"); /* the same uid twice */
        bind(shelf, "again");
        release(shelf, "again");
    }
    bind(shelf, "between");
    release(shelf, "between");
    shelf_save(shelf);
}

/* Returns how many rows go into a pack of so many bytes. */
static int pack_once(struct shelf *shelf, int64_t piece)
{
    struct err err;
    int rows = 0;

    shelf->store->limits.piece = piece;
    assert_int_equal(db_exec(shelf->store->db, "BEGIN IMMEDIATE", &err), 0);
    if (packs_add(shelf->store, &rows, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(db_exec(shelf->store->db, "COMMIT", &err), 0);
    return rows;
}

/* In pieces of so many bytes, to the end; returns how many packs there are. */
static int pack_all(struct shelf *shelf, int64_t piece)
{
    int packs = 0;

    while (pack_once(shelf, piece) > 0)
        packs++;
    return packs;
}

/* The history has the names that GPUs had before their UUIDs, too. */
static void make_names(struct shelf *shelf)
{
    static const struct core_gpu two_c[] = {{.id = "GPU-c", .index = 0, .mib = 81920},
                                            {.id = "GPU-d", .index = 1, .mib = 81920}};

    reserve(shelf, "two", "both", "n2", "300x2");
    (void)core_node(&shelf->core, "n2", two_c, 2);
    reserve(shelf, "two", "both-again", "n2", "200x2");
    bind(shelf, "both");
    release(shelf, "both");
    release(shelf, "both-again");
    shelf_save(shelf);
    shelf_spoil(shelf, "UPDATE allocation SET reserved_ms = 1 WHERE id = 2");
}

static void same_when_packed(struct shelf *shelf, int64_t piece, int packs)
{
    CLEANUP(strbuf_done) struct strbuf before;
    CLEANUP(strbuf_done) struct strbuf after;
    struct times times;

    strbuf_init(&before);
    strbuf_init(&after);
    make_a_past(shelf);
    make_names(shelf);
    find_times(shelf, &times);
    ask_all(shelf, &times, &before);
    assert_int_equal(pack_all(shelf, piece) + pack_all(shelf, 1), packs);
    assert_sql(shelf, "SELECT count(*) FROM allocation WHERE state = 'released'", 0);
    assert_sql(shelf, "SELECT count(*) FROM past", 0);
    assert_sql(shelf, "SELECT sum(n_rows) FROM pack", 10);
    assert_sql(shelf, "SELECT count(*) FROM share", 1);
    ask_all(shelf, &times, &after);
    assert_string_equal(after.data, before.data);
    shelf_turn(shelf);
    shelf_sound(shelf);
    /* As if they had come when 4,096 other namespaces had a count of their own. */
    shelf_spoil(shelf, "UPDATE pack SET past_of = ''");
    ask_all(shelf, &times, &after);
    assert_string_equal(after.data, before.data);
    shelf_sound(shelf);
}

SHELF_TEST(packs__leave_history_and_grants_as_they_were)
{
    same_when_packed(shelf, 1000, 4);
}

SHELF_TEST(packs__of_one_row_leave_history_and_grants_as_they_were)
{
    same_when_packed(shelf, 1, 10);
}

static void granted_since(struct shelf *shelf, int64_t since_ms, const char *wanted)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct err err;

    strbuf_init(&text);
    assert_int_equal(
        store_granted(shelf->store, since_ms, shelf->core.now_ms, &text, take_granted, &err), 0);
    assert_string_equal(text.data, wanted);
}

/*
 * A GPU belongs to its node: other nodes may have one of the same name, and each of its names
 * counts. A pod that ended at the moment in question does not count, one that ended later does.
 */
SHELF_TEST(granted__has_the_model_of_its_own_gpu)
{
    make_a_past(shelf);
    core->now_ms = 30000;
    shelf_spoil(shelf,
                "UPDATE gpu SET model = 'B' WHERE id = 'GPU-b';"
                "UPDATE gpu SET model = 'C' WHERE node = 'n2';"
                "UPDATE gpu SET alias = 'n2/gpu-0', id = 'GPU-c' WHERE id = 'n2/gpu-0';"
                "UPDATE charge SET gpu = 'GPU-c' WHERE allocation = 8;"
                "INSERT INTO node SELECT 'n0', uid, source, problem, problem_text, 0, 0 FROM node"
                " WHERE name = 'n1';"
                "INSERT INTO gpu SELECT 'n0', id, alias, 'Z', milli, mib, idx, numa, 8, peers"
                " FROM gpu;"
                "UPDATE allocation SET bound_ms = 1, reserved_ms = 1 WHERE id IN (1, 8)");
    assert_sql(shelf, "SELECT released_ms FROM allocation WHERE id = 5", 13010);
    for (int i = 0; i < 2; i++) {
        granted_since(shelf, 0,
                      "one NVIDIA A100 2 3050 249856\ntwo B 1 200 16384\n"
                      "two C 3 5800 475136\ntwo NVIDIA A100 1 200 16384\n");
        granted_since(shelf, 13009, "one NVIDIA A100 1 1600 131072\ntwo C 3 1600 131072\n");
        granted_since(shelf, 13010, "one NVIDIA A100 1 1600 131072\ntwo C 2 1600 131072\n");
        granted_since(shelf, 20517, "one NVIDIA A100 1 900 73728\ntwo C 1 0 0\n");
        granted_since(shelf, 20518, "one NVIDIA A100 1 900 73728\n");
        granted_since(shelf, 29999, "one NVIDIA A100 1 0 0\n");
        (void)(pack_all(shelf, 1000) + pack_all(shelf, 1));
    }
}

/* --- choosing rows to pack --- */

SHELF_TEST(packs__leave_a_small_rest_unpacked)
{
    make_a_past(shelf);
    const int64_t most = shelf_number(shelf->path, "SELECT max(bytes) FROM past");
    assert_int_equal(pack_all(shelf, 2 * most + 2), 0);
    assert_int_equal(pack_all(shelf, 2 * most), 1);
    assert_sql(shelf, "SELECT count(*) FROM past", 2);
    assert_string_equal(shelf->notices.data, "");
}

SHELF_TEST(packs__take_the_oldest_a_piece_at_a_time)
{
    char uid[32];

    (void)core_node(core, "n1", two_a100, 2);
    for (int i = 0; i < 30; i++) {
        (void)snprintf(uid, sizeof uid, "p%d", 10 + i);
        reserve(shelf, "one", uid, "n1", "10");
    }
    for (int i = 29; i >= 0; i--) { /* the last to come is the first to go */
        (void)snprintf(uid, sizeof uid, "p%d", 10 + i);
        release(shelf, uid);
    }
    shelf_save(shelf);
    shelf->store->limits.fold = 5;
    const int rows = pack_once(shelf, 2000);
    assert_in_range(rows, 3, 9);
    assert_sql(shelf, "SELECT last FROM pack", 30);
    assert_sql(shelf, "SELECT first FROM pack", 31 - rows);
    assert_int_equal(pack_once(shelf, 8000), 10); /* more than two rounds of retention take */
    shelf_sound(shelf);
}

/*
 * A row's number is the token of a page, so a packed row keeps it, and no other row gets it: not
 * after a restart, and, before the next one, not when the history is gone.
 */
SHELF_TEST(row_id__is_given_once)
{
    (void)core_node(core, "n1", two_a100, 2);
    for (int i = 0; i < 3; i++) {
        reserve(shelf, "one", "a", "n1", "100");
        release(shelf, "a");
        shelf_save(shelf);
        assert_int_equal(pack_all(shelf, 1), 1);
        assert_sql(shelf, "SELECT max(last) FROM pack", i + 1);
    }
    shelf_close(shelf);
    shelf_open(shelf);
    reserve(shelf, "one", "b", "n1", "100");
    reserve(shelf, "one", "c", "n1", "100");
    shelf_save(shelf);
    assert_sql(shelf, "SELECT max(id) FROM allocation", 5);
    release(shelf, "b");
    release(shelf, "c");
    shelf_save(shelf);
    store_retain(shelf->store, 30);
    shelf_maintain(shelf, shelf->core.now_ms + 300 * day);
    assert_sql(shelf, "SELECT (SELECT count(*) FROM allocation) + count(*) FROM pack", 0);
    reserve(shelf, "one", "d", "n1", "100");
    shelf_save(shelf);
    assert_sql(shelf, "SELECT max(id) FROM allocation", 6);
    shelf_sound(shelf);
}

SHELF_TEST(packs__go_when_all_of_a_pack_is_too_old)
{
    struct store_reach reach;
    struct err err;

    make_a_past(shelf);
    (void)(pack_all(shelf, 1000) + pack_all(shelf, 1));
    store_retain(shelf->store, 30);
    assert_int_equal(store_reach(shelf->store, &reach, &err), 0);
    const int64_t oldest = shelf_number(shelf->path, "SELECT min(oldest_ms) FROM pack");
    const int64_t ended = shelf_number(shelf->path, "SELECT min(ended_ms) FROM pack");
    assert_int_equal(reach.oldest_ms, oldest);
    assert_int_equal(reach.bytes, shelf_number(shelf->path, "SELECT sum(bytes) FROM pack"));
    assert_int_equal(
        reach.most_bytes,
        shelf_number(shelf->path, "SELECT sum(bytes) FROM pack WHERE past_of = 'two'"));
    assert_string_equal(reach.most, "two");
    shelf_maintain(shelf, ended + 30 * day);
    assert_sql(shelf, "SELECT count(*) FROM pack", 4);
    shelf->store->limits.fold = 1;
    shelf_maintain(shelf, ended + 300 * day);
    assert_sql(shelf, "SELECT count(*) FROM pack", 3);
    assert_true(shelf_number(shelf->path, "SELECT min(ended_ms) FROM pack") > ended);
    for (int i = 0; i < 30; i++)
        shelf_maintain(shelf, ended + 300 * day);
    assert_sql(shelf, "SELECT count(*) FROM pack", 0);
    assert_int_equal(store_reach(shelf->store, &reach, &err), 0);
    assert_int_equal(reach.oldest_ms, 0);
}

/* The largest namespace loses packs before rows, the oldest first; others lose nothing. */
SHELF_TEST(trim__takes_the_oldest_pack_of_the_largest_namespace)
{
    struct store_reach reach;
    struct err err;
    int rows = 0;

    make_a_past(shelf);
    (void)pack_all(shelf, 1);
    reserve(shelf, "two", "later", "n2", "300");
    release(shelf, "later");
    shelf_save(shelf);
    shelf->store->limits.piece = 1 << 20;
    assert_int_equal(store_reach(shelf->store, &reach, &err), 0);
    assert_string_equal(reach.most, "two");
    const long long first =
        shelf_number(shelf->path, "SELECT min(ended_ms) FROM pack WHERE past_of = 'two'");
    assert_int_equal(past_trim(shelf->store, &rows, &err), 0);
    assert_int_equal(rows, 1);
    assert_true(shelf_number(shelf->path, "SELECT min(ended_ms) FROM pack WHERE past_of = 'two'") >
                first);
    assert_sql(shelf, "SELECT count(*) FROM pack WHERE past_of = 'one'", 2);
    for (int left = 8; left > 0; left--) { /* seven packs and one row */
        assert_int_equal(past_trim(shelf->store, &rows, &err), 0);
        assert_int_equal(rows, 1);
    }
    assert_int_equal(past_trim(shelf->store, &rows, &err), 0);
    assert_int_equal(rows, 0);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 1);
}

/* --- damage --- */

static void spoiled(struct shelf *shelf, const char *sql, const char *wanted)
{
    struct err err;

    shelf_run(shelf, "CREATE TABLE kept AS SELECT * FROM pack");
    shelf_spoil(shelf, sql);
    assert_int_equal(check_one(shelf->store->db, &store_schema, CHECK_PAST, &err),
                     -(int)ERR_CORRUPT);
    if (strstr(err.text, wanted) == NULL)
        fail_msg("%s", err.text);
    shelf_spoil(shelf, "DELETE FROM pack; INSERT INTO pack SELECT * FROM kept; DROP TABLE kept");
    assert_int_equal(check_one(shelf->store->db, &store_schema, CHECK_PAST, &err), 0);
}

SHELF_TEST(verify__finds_packs_that_contradict)
{
    make_a_past(shelf);
    (void)(pack_all(shelf, 1000) + pack_all(shelf, 1));
    static const char *const columns[] = {"n_rows = n_rows + 1",       "first = first + 1",
                                          "last = last + 1",           "began_ms = began_ms + 1",
                                          "oldest_ms = oldest_ms - 1", "ended_ms = ended_ms + 1"};
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        char sql[128];
        (void)snprintf(sql, sizeof sql, "UPDATE pack SET %s WHERE past_of = 'two'", columns[i]);
        spoiled(shelf, sql, "of the history is not what is said of it");
    }
    spoiled(shelf, "UPDATE pack SET body = x'0100' WHERE past_of = 'two'",
            "a pack of the history is not what milligpu writes");
    spoiled(shelf, "UPDATE pack SET past_of = 'three' WHERE past_of = 'two'",
            "of the history has pods of namespace two");
    shelf_spoil(shelf, "UPDATE pack SET past_of = '' WHERE past_of = 'two'");
    shelf_sound(shelf);
    /* A live one with the id of a packed one. */
    struct err err;
    shelf_spoil(shelf, "UPDATE allocation SET id = (SELECT first FROM pack LIMIT 1);"
                       "UPDATE share SET allocation = (SELECT first FROM pack LIMIT 1);"
                       "UPDATE charge SET allocation = (SELECT first FROM pack LIMIT 1)");
    assert_int_equal(check_one(shelf->store->db, &store_schema, CHECK_PAST, &err),
                     -(int)ERR_CORRUPT);
    assert_non_null(strstr(err.text, "is also in pack"));
}

/* REST asks while the verifier has not found it yet. */
SHELF_TEST(history__reports_a_pack_that_cannot_be_read)
{
    const struct store_history_query query = {.namespace = "two", .pod = "two-2"};
    CLEANUP(strbuf_done) struct strbuf text;
    struct err err;

    strbuf_init(&text);
    make_a_past(shelf);
    (void)(pack_all(shelf, 1000) + pack_all(shelf, 1));
    shelf_spoil(shelf, "UPDATE pack SET body = substr(body, 1, length(body) - 3)");
    assert_int_equal(store_history(shelf->store, &query, &text, take, &err), -(int)ERR_CORRUPT);
    assert_non_null(strstr(err.text, "a pack of the history is not what milligpu writes"));
    assert_int_equal(store_granted(shelf->store, 0, 1, &text, take_granted, &err),
                     -(int)ERR_CORRUPT);
}

/* An allocation in two packs has one row. */
SHELF_TEST(history__gives_a_row_in_two_packs_once)
{
    CLEANUP(strbuf_done) struct strbuf before;
    CLEANUP(strbuf_done) struct strbuf after;

    strbuf_init(&before);
    strbuf_init(&after);
    make_a_past(shelf);
    (void)(pack_all(shelf, 1000) + pack_all(shelf, 1));
    const struct store_history_query query = {.namespace = "two"};
    ask(shelf, &query, &before);
    shelf_spoil(shelf, "INSERT INTO pack SELECT NULL, past_of, n_rows, first, last, began_ms,"
                       " oldest_ms, ended_ms, bytes, body FROM pack");
    ask(shelf, &query, &after);
    assert_string_equal(after.data, before.data);
}
