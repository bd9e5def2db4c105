/* Verification of a snapshot beside the running writer, and of any file. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

/* An open ledger with two nodes and three pods, one of them released. */
static int set_up(void **state)
{
    static struct shelf shelf;
    struct core_fixture *core = &shelf.core;

    shelf_init(&shelf);
    shelf_open(&shelf);
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", NULL, 0);
    (void)core_reserve(core, "a", "n1", "600x2");
    (void)core_reserve(core, "b", "n1", "i200+300");
    (void)core_step(core, COMMAND_CONFIRM, "b");
    (void)core_reserve(core, "c", "n1", "100");
    (void)core_step(core, COMMAND_RELEASE, "c");
    shelf_save(&shelf);
    *state = &shelf;
    return 0;
}

#define FIXTURE_TEST(name) SHELF_TEST_BETWEEN(name, set_up, shelf_tear_down)

/* --- beside the writer --- */

static struct store_read *pin(struct shelf *shelf)
{
    struct store_read *look = NULL;
    struct err err;

    assert_int_equal(store_read_open(shelf->store, &look, &err), 0);
    assert_int_equal(store_read_pin(look, &err), 0);
    return look;
}

static int compare(struct shelf *disk, const struct shelf *memory, struct err *err)
{
    struct store_read *look = pin(disk);
    const struct snapshot *snapshot = ledger_publish(memory->core.ledger, NULL, 0);
    const int failed = store_read_compare(look, snapshot, err);

    snapshot_unref(snapshot);
    store_read_close(look);
    return failed;
}

FIXTURE_TEST(compare__finds_memory_and_disk_alike)
{
    struct err err;
    assert_int_equal(compare(shelf, shelf, &err), 0);
}

FIXTURE_TEST(compare__names_the_difference_between_memory_and_disk)
{
#define DIFFERS "is not the same on disk and in memory"
    static const struct {
        const char *sql;
        const char *says;
    } wrong[] = {
        {"UPDATE allocation SET note_differs = 1 WHERE uid = 'a'", "pod a " DIFFERS},
        {"UPDATE allocation SET version = 5 WHERE uid = 'a'", "pod a " DIFFERS},
        {"UPDATE share SET mib = mib + 1 WHERE allocation = 2", "pod b " DIFFERS},
        {"UPDATE gpu SET flags = 4 WHERE id = 'GPU-b'", "node n1 " DIFFERS},
        {"INSERT INTO claim VALUES ('GPU-q', 'n1')", "node n1 " DIFFERS},
        {"UPDATE allocation SET state = 'bound', released_ms = 0, bytes = 0 WHERE uid = 'c'",
         "pod c is on disk and not in memory"},
        {"INSERT INTO node SELECT 'n9', uid, source, problem, problem_text, gone, since_ms"
         " FROM node WHERE name = 'n2'",
         "node n9 is on disk and not in memory"},
        {"UPDATE allocation SET state = 'released', bytes = 1 WHERE uid = 'a'",
         "pod a is in memory and not on disk"},
        {"DELETE FROM node WHERE name = 'n2'", "node n2 is in memory and not on disk"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct shelf copy;
        struct err err;
        shelf_open_backup(shelf, &copy);
        shelf_spoil(&copy, wrong[i].sql);
        if (compare(&copy, shelf, &err) != -(int)ERR_CORRUPT ||
            strstr(err.text, wrong[i].says) == NULL)
            fail_msg("%s: %s", wrong[i].sql, err.text);
        shelf_done(&copy);
    }
}

/* Writes after the pin are not seen, so both sides are from the same moment. */
FIXTURE_TEST(pinned_read__stays_at_its_moment)
{
    struct store_read *look = pin(shelf);
    enum store_check which;
    struct err err;

    const struct snapshot *then = ledger_publish(shelf->core.ledger, NULL, 0);
    (void)core_reserve(&shelf->core, "d", "n1", "100");
    (void)core_step(&shelf->core, COMMAND_RELEASE, "b");
    shelf_save(shelf);
    const struct snapshot *now = ledger_publish(shelf->core.ledger, NULL, 0);
    assert_int_equal(store_read_compare(look, then, &err), 0);
    assert_int_equal(store_read_compare(look, now, &err), -(int)ERR_CORRUPT);
    assert_int_equal(store_read_verify(look, &which, &err), 0);
    store_read_close(look);
    snapshot_unref(then);
    snapshot_unref(now);
}

FIXTURE_TEST(pinned_read__of_a_ledger_in_memory_is_a_copy)
{
    enum store_check which;
    struct err err;

    shelf_close(shelf);
    shelf->rules.path = ":memory:";
    shelf_open(shelf);
    core_done(&shelf->core);
    core_init(&shelf->core);
    (void)core_node(&shelf->core, "n1", two_a100, 2);
    (void)core_reserve(&shelf->core, "a", "n1", "600");
    shelf_save(shelf);
    struct store_read *look = pin(shelf);
    const struct snapshot *then = ledger_publish(shelf->core.ledger, NULL, 0);
    (void)core_reserve(&shelf->core, "b", "n1", "100");
    shelf_save(shelf);
    assert_int_equal(store_read_compare(look, then, &err), 0);
    assert_int_equal(store_read_verify(look, &which, &err), 0);
    store_read_close(look);
    snapshot_unref(then);
}

FIXTURE_TEST(verify__reports_the_check_that_failed)
{
    static const struct {
        const char *sql;
        enum store_check which;
    } wrong[] = {
        {"UPDATE charge SET milli = milli + 900 WHERE allocation = 2", CHECK_PRESENT},
        {"UPDATE charge SET milli = milli - 1 WHERE allocation = 1", CHECK_CHARGES},
        {"UPDATE journal SET command = '{' WHERE seq = 1", CHECK_JOURNAL},
        {"UPDATE node SET since_ms = since_ms + 1 WHERE name = 'n2'", CHECK_REPLAY},
        {"CREATE TABLE more (a)", CHECK_TABLES},
        {"UPDATE charge SET milli = milli - 1 WHERE allocation = 3", CHECK_PAST},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        enum store_check which = STORE_CHECKS;
        struct shelf copy;
        struct err err;
        shelf_open_backup(shelf, &copy);
        shelf_spoil(&copy, wrong[i].sql);
        struct store_read *look = pin(&copy);
        assert_int_equal(store_read_verify(look, &which, &err), -(int)ERR_CORRUPT);
        if (which != wrong[i].which)
            fail_msg("%s: %s: %s", wrong[i].sql, store_check_name(which), err.text);
        store_read_close(look);
        shelf_done(&copy);
    }
}

/* --- a file --- */

struct found {
    uint32_t checks;
    uint32_t wrong;
    enum store_check first;
    char text[ERR_TEXT_MAX];
};

static void take_check(void *user, enum store_check check, const char *wrong)
{
    struct found *found = user;

    assert_true(strlen(store_check_text(check)) > 0);
    found->checks++;
    if (wrong == NULL)
        return;
    if (found->wrong++ == 0) {
        found->first = check;
        (void)snprintf(found->text, sizeof found->text, "%s", wrong);
    }
}

/* A hash of the names, sizes and times of all files in the folder. */
static uint64_t trace_of(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    struct stat st;
    uint64_t sum = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        /* A reader's mark in a running daemon's shared memory does not change the ledger. */
        if (entry->d_name[0] == '.' || strstr(entry->d_name, "-shm") != NULL)
            continue;
        assert_int_equal(fstatat(dirfd(dir), entry->d_name, &st, 0), 0);
        sum += text_hash(text_of(entry->d_name)) ^ (uint64_t)st.st_mtim.tv_nsec ^
               ((uint64_t)st.st_size << 20);
    }
    (void)closedir(dir);
    return sum;
}

static void verify_file(struct shelf *shelf, const char *path, struct found *out)
{
    const uint64_t before = trace_of(shelf->folder);
    struct err err = {0};

    *out = (struct found){.first = STORE_CHECKS};
    if (store_verify_file(path, out, take_check, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(trace_of(shelf->folder) == before);
}

static void well(struct shelf *shelf, const char *path)
{
    struct found found;

    verify_file(shelf, path, &found);
    if (found.wrong > 0)
        fail_msg("%s: %s", store_check_name(found.first), found.text);
    assert_int_equal(found.checks, STORE_CHECKS);
}

static void copy(const char *from, const char *to)
{
    size_t bytes = 0;
    CLEANUP(xfreep) char *content = get_file(from, &bytes);

    put_file(to, content, bytes);
}

/* As kill -9 leaves it: the log is not checkpointed and no process has it open. */
static void leave_behind(struct shelf *shelf, char path[128])
{
    char from[128];
    char to[160];

    (void)snprintf(path, 128, "%s/left 100%%?.db", shelf->folder);
    copy(shelf->path, path);
    (void)snprintf(from, sizeof from, "%s-wal", shelf->path);
    (void)snprintf(to, sizeof to, "%s-wal", path);
    copy(from, to);
}

FIXTURE_TEST(verify_file__passes_a_sound_ledger_in_use_or_not)
{
    char left[128];
    struct err err;

    well(shelf, shelf->path); /* a daemon is using it */
    leave_behind(shelf, left);
    well(shelf, left);
    char backup[128];
    (void)snprintf(backup, sizeof backup, "%s/backup", shelf->folder);
    assert_int_equal(store_backup(shelf->store, backup, &err), 0);
    well(shelf, backup);
    shelf_close(shelf);
    well(shelf, shelf->path);                        /* closed cleanly */
    assert_int_equal(shelf_files(shelf, "-wal"), 1); /* only what leave_behind() made */
    assert_int_equal(shelf_files(shelf, "-shm"), 0);
}

/* Data that is only in the log is verified, too. */
FIXTURE_TEST(verify_file__reads_the_log)
{
    struct found found;
    char left[128];

    shelf_spoil(shelf, "UPDATE charge SET milli = 1 WHERE allocation = 1 AND gpu = 'GPU-a'");
    verify_file(shelf, shelf->path, &found);
    assert_int_equal(found.first, CHECK_CHARGES);
    leave_behind(shelf, left);
    verify_file(shelf, left, &found);
    assert_int_equal(found.first, CHECK_CHARGES);
    assert_non_null(strstr(found.text, "GPU-a"));
    assert_non_null(strstr(found.text, "allocation a"));
}

FIXTURE_TEST(verify_file__reads_a_read_only_ledger_in_a_read_only_folder)
{
    char left[128];

    leave_behind(shelf, left);
    shelf_close(shelf);
    assert_int_equal(chmod(shelf->path, 0400), 0);
    assert_int_equal(chmod(shelf->folder, 0500), 0);
    well(shelf, shelf->path);
    well(shelf, left);
    assert_int_equal(chmod(shelf->folder, 0700), 0);
}

FIXTURE_TEST(verify_file__can_fail_each_check)
{
    static const struct {
        const char *sql;
        enum store_check first;
        const char *says;
    } wrong[] = {
        {"DELETE FROM allocation WHERE uid = 'c'", CHECK_REFERENCES, "lost its allocation"},
        {"DROP INDEX allocation_live; INSERT INTO allocation (uid, namespace, name, node, node_uid,"
         " state, origin, presumed, in_doubt, note_differs, held_gpus, unplaced_milli, reserved_ms,"
         " bound_ms, released_ms, terminating_ms) SELECT uid, namespace, name, node, node_uid,"
         " state, origin, presumed, in_doubt, note_differs, held_gpus, unplaced_milli, reserved_ms,"
         " bound_ms, released_ms, terminating_ms FROM allocation WHERE uid = 'a'",
         CHECK_PRESENT, "pod a has two live allocations"},
        {"UPDATE charge SET milli = 900 WHERE allocation = 2", CHECK_PRESENT,
         "grants of 1500 milli"},
        {"DELETE FROM share WHERE allocation = 2", CHECK_CHARGES, "a grant without a share"},
        {"UPDATE gpu SET idx = 0, flags = 1 WHERE id = 'GPU-b'; UPDATE gpu SET flags = 1",
         CHECK_REPLAY, "node n1"},
        {"INSERT INTO node SELECT 'n3', uid, source, problem, problem_text, gone, since_ms"
         " FROM node WHERE name = 'n1'; INSERT INTO gpu SELECT 'n3', id, alias, model, milli, mib,"
         " idx, numa, flags, peers FROM gpu WHERE id = 'GPU-a'",
         CHECK_MEMORY, "another node's already"},
        {"INSERT INTO claim VALUES ('GPU-a', 'n2')", CHECK_PRESENT,
         "node n2 claims GPU GPU-a, which node n1 has"},
        {"UPDATE gpu SET flags = 1 WHERE id = 'GPU-a'; INSERT INTO claim VALUES ('GPU-a', 'n2')",
         CHECK_PRESENT, "node n2 claims GPU GPU-a, which node n1 has"},
        {"UPDATE gpu SET flags = 8 WHERE id = 'GPU-a' AND node = 'n1';"
         " INSERT INTO claim VALUES ('GPU-a', 'n1')",
         CHECK_PRESENT, "node n1 claims GPU GPU-a, which node n1 has"},
        {"UPDATE node SET gone = 1 WHERE name = 'n2'; UPDATE gpu SET flags = 1 WHERE node = 'n2';"
         " INSERT INTO claim VALUES ('GPU-q', 'n2')",
         CHECK_PRESENT, "node n2 is gone, yet claims GPU GPU-q"},
        {"INSERT INTO claim VALUES ('n2/gpu-9', 'n2')", CHECK_MEMORY,
         "node n2: it cannot claim GPU n2/gpu-9"},
        {"INSERT INTO claim VALUES ('GPU-q', 'n2')", CHECK_REPLAY, "node n2"},
        {"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 65)"
         " INSERT INTO claim SELECT 'GPU-' || i, 'n2' FROM n",
         CHECK_PRESENT, "node n2: it claims more than 64 GPUs"},
        {"DELETE FROM journal WHERE seq = 2", CHECK_JOURNAL, "gap"},
        {"UPDATE allocation SET bound_ms = 7 WHERE uid = 'b'", CHECK_REPLAY, "allocation b"},
        {"UPDATE allocation SET version = 7 WHERE uid = 'b'", CHECK_REPLAY, "allocation b"},
        {"UPDATE allocation SET version = -7 WHERE uid = 'b'", CHECK_CHARGES, "column version has"},
        {"UPDATE node SET name = '' WHERE name = 'n1'; UPDATE gpu SET node = '' WHERE node = 'n1';"
         " UPDATE allocation SET node = '' WHERE node = 'n1';"
         " UPDATE charge SET node = '' WHERE node = 'n1'",
         CHECK_PRESENT, "table node: column name has a value that milligpu never writes"},
        {"UPDATE allocation SET id = 0 WHERE id = 2; UPDATE share SET allocation = 0"
         " WHERE allocation = 2; UPDATE charge SET allocation = 0 WHERE allocation = 2",
         CHECK_CHARGES, "table allocation: column id has a value that milligpu never writes"},
        {"UPDATE allocation SET id = -9223372036854775808 WHERE id = 2;"
         " UPDATE share SET allocation = -9223372036854775808 WHERE allocation = 2;"
         " UPDATE charge SET allocation = -9223372036854775808 WHERE allocation = 2",
         CHECK_CHARGES, "table allocation: column id has a value that milligpu never writes"},
        {"DROP INDEX gpu_id", CHECK_TABLES, "its tables are not those"},
        {"UPDATE share SET mib = 1 WHERE allocation = 3", CHECK_PAST, "allocation c"},
    };
    struct found found;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        char path[128];
        struct err err;
        struct shelf spoilt = *shelf;
        (void)snprintf(path, sizeof path, "%s/%zu", shelf->folder, i);
        assert_int_equal(store_backup(shelf->store, path, &err), 0);
        (void)snprintf(spoilt.path, sizeof spoilt.path, "%s/%zu", shelf->folder, i);
        shelf_spoil(&spoilt, wrong[i].sql);
        verify_file(shelf, path, &found);
        if (found.first != wrong[i].first || strstr(found.text, wrong[i].says) == NULL)
            fail_msg("%s: %u %s", wrong[i].sql, found.first, found.text);
    }
}

FIXTURE_TEST(verify_file__finds_a_scratched_page)
{
    struct found found;
    size_t size = 0;

    shelf_close(shelf);
    CLEANUP(xfreep) char *bytes = get_file(shelf->path, &size);
    for (size_t at = STORE_PAGE_BYTES; at < size; at += STORE_PAGE_BYTES) {
        char kept[64];
        memcpy(kept, bytes + at, sizeof kept);
        memset(bytes + at, 0x5a, sizeof kept);
        put_file(shelf->path, bytes, size);
        memcpy(bytes + at, kept, sizeof kept);
        verify_file(shelf, shelf->path, &found);
        assert_true(found.wrong > 0);
        assert_int_equal(found.first, CHECK_PAGES);
    }
    put_file(shelf->path, bytes, 5000);
    verify_file(shelf, shelf->path, &found);
    assert_true(found.wrong > 0);
    memset(bytes, 0, 4096);
    put_file(shelf->path, bytes, size);
    verify_file(shelf, shelf->path, &found);
    assert_true(found.wrong > 0);
    assert_non_null(strstr(found.text, "header is lost"));
}

FIXTURE_TEST(verify_file__refuses_a_file_that_is_no_ledger)
{
    char path[6][128];
    static const struct {
        enum err_code code;
        const char *says;
    } wanted[] = {
        {ERR_NOT_FOUND, "No such file"},
        {ERR_INVALID, "a folder"},
        {ERR_INVALID, "the file is empty"},
        {ERR_FOREIGN, "not a milligpu ledger"},
        {ERR_FOREIGN, "a SQLite database, but not"},
        {ERR_NEWER, "a newer milligpu"},
    };
    struct err err;

    for (size_t i = 0; i < ARRAY_LEN(path); i++)
        (void)snprintf(path[i], sizeof path[i], i == 1 ? "%s" : "%s/%zu", shelf->folder, i);
    put_file(path[2], "", 0);
    put_file(path[3], "hello, this is a letter", 23);
    assert_int_equal(shelf_sql(path[4], "CREATE TABLE t (a)"), SQLITE_OK);
    assert_int_equal(store_backup(shelf->store, path[5], &err), 0);
    assert_int_equal(shelf_sql(path[5], "PRAGMA user_version=13"), SQLITE_OK);
    const uint64_t before = trace_of(shelf->folder);
    for (size_t i = 0; i < ARRAY_LEN(path); i++) {
        struct found found = {0};
        err.text[0] = '\0';
        if (store_verify_file(path[i], &found, take_check, &err) != -(int)wanted[i].code ||
            strstr(err.text, wanted[i].says) == NULL)
            fail_msg("%zu: %s", i, err.text);
        assert_int_equal(found.checks, 0);
    }
    assert_true(trace_of(shelf->folder) == before);
}

/* Interrupts the read at SQLite's n-th authorizer call from now, while it compiles a statement. */
static struct {
    struct store_read *look;
    int words;
} interrupter;

static int count_words(void *user, int action, const char *a, const char *b, const char *c,
                       const char *d)
{
    (void)user, (void)action, (void)a, (void)b, (void)c, (void)d;
    if (interrupter.look != NULL && --interrupter.words == 0)
        store_read_interrupt(interrupter.look);
    return SQLITE_OK;
}

static int listen_in(sqlite3 *db, char **text, const struct sqlite3_api_routines *api)
{
    (void)text, (void)api;
    return sqlite3_set_authorizer(db, count_words, NULL);
}

/* A verification interrupted by shutdown reports no finding, for any result of SQLite. */
FIXTURE_TEST(verify__that_is_interrupted_finds_nothing)
{
    bool interrupted = true;

    assert_int_equal(sqlite3_auto_extension((void (*)(void))listen_in), SQLITE_OK);
    for (int n = 1; interrupted; n++) {
        struct store_read *look = pin(shelf);
        enum store_check which = STORE_CHECKS;
        struct err err = {0};
        assert_true(n < 5000);
        interrupter.look = look;
        interrupter.words = n;
        const int failed = store_read_verify(look, &which, &err);
        interrupted = interrupter.words <= 0;
        interrupter.look = NULL;
        if (failed != 0 && failed != -(int)ERR_UNAVAILABLE)
            fail_msg("word %d: %d: %s", n, err.code, err.text);
        store_read_close(look);
    }
    sqlite3_reset_auto_extension();
}

/* --- names --- */

/* problem_text of each node that was read; the same text in all. */
struct reasons {
    const struct atom *atom[4000];
    size_t count;
};

static int keep_reason(void *user, const struct node_build *build, struct err *err)
{
    struct reasons *reasons = user;

    (void)err;
    assert_true(reasons->count < ARRAY_LEN(reasons->atom));
    reasons->atom[reasons->count++] = atom_ref(build->problem_text);
    return 0;
}

/* How often another atom follows. */
static size_t other_atoms(const struct shelf *shelf, struct names *names)
{
    static struct reasons reasons;
    CLEANUP(db_closep) sqlite3 *db = NULL;
    struct err err;
    size_t others = 0;

    reasons.count = 0;
    assert_int_equal(db_open(shelf->path, DB_READ, &db, &err), 0);
    assert_int_equal(rows_nodes(db, names, &reasons, keep_reason, &err), 0);
    assert_int_equal(reasons.count, 3002);
    for (size_t i = 1; i < reasons.count; i++)
        others += reasons.atom[i] != reasons.atom[i - 1];
    for (size_t i = 0; i < reasons.count; i++)
        atom_unref(reasons.atom[i]);
    return others;
}

FIXTURE_TEST(rows__keep_all_names_for_a_caller_with_a_table_and_few_for_one_without)
{
    struct names *names = names_new();

    shelf_spoil(shelf, "UPDATE node SET problem_text = '';"
                       " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
                       " WHERE i < 3000) INSERT INTO node SELECT 'n-' || i, 'uid-' || i, source,"
                       " problem, '', gone, since_ms FROM node CROSS JOIN n WHERE name = 'n1'");
    assert_int_equal(other_atoms(shelf, names), 0);
    assert_true(names_count(names) > 6000); /* two of each node */
    assert_int_equal(other_atoms(shelf, NULL), 2);
    names_free(names);
}

/*
 * Rows of live pods are read in the order of their pods, past those of ended ones, or searched
 * where there are many: none is missed, none is taken for another's.
 */
FIXTURE_TEST(rows__are_found_with_any_history_between_them)
{
    static const int ended[] = {0, 1, 3, 4, 5, 9, 0, 0, 5, 5, 5, 5, 5, 0, 4, 6, 1};
    char sql[128];
    char uid[64];
    struct err err;

    (void)core_node(core, "n3", two_counted, 2);
    for (size_t i = 0; i < ARRAY_LEN(ended); i++) {
        for (int k = 0; k < ended[i]; k++) {
            (void)snprintf(uid, sizeof uid, "ended-%zu-%d", i, k);
            assert_int_equal(core_reserve(core, uid, "n3", "10+10"), VERDICT_OK);
            (void)core_step(core, COMMAND_RELEASE, uid);
        }
        (void)snprintf(uid, sizeof uid, "live-%zu", i);
        assert_int_equal(core_reserve(core, uid, "n3", i % 2 == 0 ? "10x2" : "10+20"), VERDICT_OK);
    }
    shelf_save_and_turn(shelf);
    shelf_sound(shelf);
    for (size_t i = 0; i < ARRAY_LEN(ended); i++) {
        struct shelf copy;
        shelf_open_backup(shelf, &copy);
        shelf_close(&copy);
        (void)snprintf(sql, sizeof sql,
                       "DELETE FROM charge WHERE allocation ="
                       " (SELECT id FROM allocation WHERE uid = 'live-%zu')",
                       i);
        shelf_spoil(&copy, sql);
        assert_int_equal(shelf_try(&copy, &err), -(int)ERR_CORRUPT);
        (void)snprintf(uid, sizeof uid, "live-%zu has 0 ", i);
        assert_non_null(strstr(err.text, uid));
        shelf_done(&copy);
    }
}
