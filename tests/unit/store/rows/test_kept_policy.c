/*
 * The policy document in the ledger is kept byte by byte until another one comes. The ledger's
 * checks do not look at it.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static void keep(struct shelf *shelf, const char *name, struct text document, int64_t read_ms)
{
    const struct store_policy policy = {name, document, read_ms};
    struct err err;

    if (shelf->ops.keep_policy(shelf->ops.ctx, &policy, &err) < 0)
        fail_msg("%s", err.text);
}

static void forget(struct shelf *shelf)
{
    struct err err;

    assert_int_equal(shelf->ops.keep_policy(shelf->ops.ctx, NULL, &err), 0);
}

static void assert_kept(const char *path, const char *name, struct text document, int64_t read_ms)
{
    CLEANUP(arena_done) struct arena arena;
    struct store_policy is = {.name = "x"};
    struct err err;

    arena_init(&arena);
    if (store_kept_policy(path, &arena, &is, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(is.name, name);
    assert_true(text_eq(is.document, document));
    assert_int_equal(is.read_ms, read_ms);
}

static void assert_nothing_kept(const char *path)
{
    CLEANUP(arena_done) struct arena arena;
    struct store_policy is = {.name = "x"};
    struct err err;

    arena_init(&arena);
    assert_int_equal(store_kept_policy(path, &arena, &is, &err), 0);
    assert_null(is.name);
    assert_int_equal(is.document.len, 0);
}

static void assert_refused(struct shelf *shelf, const char *says)
{
    CLEANUP(arena_done) struct arena arena;
    struct store_policy is;
    struct err err = {0};

    arena_init(&arena);
    assert_int_equal(store_kept_policy(shelf->path, &arena, &is, &err), -ERR_CORRUPT);
    assert_null(is.name);
    if (strstr(err.text, says) == NULL || strstr(err.text, ": table policy: ") == NULL ||
        strncmp(err.text, shelf->path, strlen(shelf->path)) != 0)
        fail_msg("%s", err.text);
}

SHELF_TEST(kept_policy__is_absent_in_a_new_ledger)
{
    assert_nothing_kept(shelf->path);
    forget(shelf);
    assert_nothing_kept(shelf->path);
}

SHELF_TEST(kept_policy__keeps_each_byte_until_another_document_comes)
{
    char bytes[256];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    keep(shelf, "/a.yaml", (struct text){bytes, sizeof bytes}, 7);
    assert_kept(shelf->path, "/a.yaml", (struct text){bytes, sizeof bytes}, 7);
    shelf_turn(shelf);
    assert_kept(shelf->path, "/a.yaml", (struct text){bytes, sizeof bytes}, 7);
    keep(shelf, "/a.yaml", TEXT("b"), -8);
    assert_kept(shelf->path, "/a.yaml", TEXT("b"), -8);
    keep(shelf, "/c.yaml", TEXT("b"), 9);
    assert_kept(shelf->path, "/c.yaml", TEXT("b"), 9);
    assert_sql(shelf, "SELECT count(*) FROM policy", 1);
    forget(shelf);
    assert_nothing_kept(shelf->path);
    shelf_turn(shelf);
    assert_nothing_kept(shelf->path);
}

SHELF_TEST(kept_policy__does_not_write_the_same_document_again)
{
    struct store_facts before, after;
    struct err err;

    keep(shelf, "/a.yaml", TEXT("b"), 1);
    assert_int_equal(store_facts(shelf->store, &before, &err), 0);
    keep(shelf, "/a.yaml", TEXT("b"), 2);
    assert_kept(shelf->path, "/a.yaml", TEXT("b"), 1);
    assert_int_equal(store_facts(shelf->store, &after, &err), 0);
    assert_int_equal(after.wal_bytes, before.wal_bytes);
    assert_int_equal(after.journal_rows, before.journal_rows);
}

SHELF_TEST(kept_policy__takes_a_document_of_the_largest_size)
{
    CLEANUP(xfreep) char *bytes = xmalloc(STORE_POLICY_BYTES_MAX);

    memset(bytes, '#', STORE_POLICY_BYTES_MAX);
    keep(shelf, "/a.yaml", (struct text){bytes, STORE_POLICY_BYTES_MAX}, 1);
    shelf_turn(shelf);
    assert_kept(shelf->path, "/a.yaml", (struct text){bytes, STORE_POLICY_BYTES_MAX}, 1);
}

SHELF_TEST(kept_policy__outlives_a_kill_and_a_backup)
{
    struct shelf left;

    keep(shelf, "/a.yaml", TEXT("b"), 1);
    shelf_open_killed(shelf, &left);
    assert_kept(left.path, "/a.yaml", TEXT("b"), 1);
    shelf_done(&left);
    shelf_open_backup(shelf, &left);
    assert_kept(left.path, "/a.yaml", TEXT("b"), 1);
    shelf_done(&left);
}

SHELF_TEST(kept_policy__is_absent_without_a_file)
{
    CLEANUP(strbuf_done) struct strbuf path;

    strbuf_init(&path);
    strbuf_printf(&path, "%s/none.db", shelf->folder);
    assert_nothing_kept(path.data);
    assert_int_equal(shelf_files(shelf, "none.db"), 0);
}

/* As an older version left it. */
SHELF_TEST(kept_policy__is_absent_without_its_table)
{
    shelf_close(shelf);
    shelf_run(shelf, "DROP TABLE policy");
    assert_nothing_kept(shelf->path);
}

SHELF_TEST(kept_policy__leaves_no_trace_of_reading)
{
    keep(shelf, "/a.yaml", TEXT("b"), 1);
    shelf_close(shelf);
    const int files = shelf_files(shelf, "");
    assert_kept(shelf->path, "/a.yaml", TEXT("b"), 1);
    assert_int_equal(shelf_files(shelf, ""), files);
}

SHELF_TEST(kept_policy__refuses_a_file_that_is_no_ledger)
{
    CLEANUP(arena_done) struct arena arena;
    struct store_policy is = {.name = "x"};
    struct err err = {0};

    arena_init(&arena);
    shelf_close(shelf);
    shelf_run(shelf, "PRAGMA application_id = 1");
    assert_int_equal(store_kept_policy(shelf->path, &arena, &is, &err), -ERR_FOREIGN);
    assert_null(is.name);
    assert_int_equal(store_kept_policy("", &arena, &is, &err), -ERR_INVALID);
}

SHELF_TEST(kept_policy__keeps_the_former_when_a_write_fails)
{
    const struct store_policy other = {"/b.yaml", TEXT("c"), 2};
    struct err err;

    keep(shelf, "/a.yaml", TEXT("b"), 1);
    shelf->store->limits.wal_max = -1;
    assert_int_equal(shelf->ops.keep_policy(shelf->ops.ctx, &other, &err), -ERR_FULL);
    assert_int_equal(shelf->ops.keep_policy(shelf->ops.ctx, NULL, &err), -ERR_FULL);
    assert_kept(shelf->path, "/a.yaml", TEXT("b"), 1);
    shelf->store->limits.wal_max = 1000;
    keep(shelf, "/b.yaml", TEXT("c"), 2);
    assert_kept(shelf->path, "/b.yaml", TEXT("c"), 2);
}

SHELF_TEST(kept_policy__is_no_part_of_the_ledger_state)
{
    struct err err;

    keep(shelf, "/a.yaml", TEXT("no policy at all"), 1);
    assert_int_equal(store_replay_check(shelf->store, &err), 0);
    assert_int_equal(store_verify(shelf->store, &err), 0);
}

SHELF_TEST(kept_policy__refuses_values_that_are_never_written)
{
    shelf_spoil(shelf, "INSERT INTO policy VALUES (1, '/a', x'', 0)");
    assert_refused(shelf, "column document has a value");
    shelf_spoil(shelf, "UPDATE policy SET document = zeroblob(1048577)");
    assert_refused(shelf, "a document of at most 1048576 bytes");
    shelf_spoil(shelf, "UPDATE policy SET document = x'00', name = ''");
    assert_refused(shelf, "a name, and a document");
    shelf_spoil(shelf, "UPDATE policy SET name = 'a' || char(0) || 'b'");
    assert_refused(shelf, "column name has a value");
    keep(shelf, "/a.yaml", TEXT("b"), 1);
    assert_kept(shelf->path, "/a.yaml", TEXT("b"), 1);
}
