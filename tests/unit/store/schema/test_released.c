/*
 * Ledgers written by older versions (tests/released): each opens, and nothing in it is lost.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/ledger_text.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "support/valid.h"
#include "unit/store/support_released.h"
#include "unit/store/support_shelf.h"

/* Puts a released ledger at the shelf's path, and an unchanged copy at `was`. */
static void lay(struct shelf *shelf, uint32_t version, const char *form, char *was, size_t bytes)
{
    shelf_init(shelf);
    (void)snprintf(was, bytes, "%s/was", shelf->folder);
    released_put(shelf->path, version, form);
    released_put(was, version, form);
}

static void assert_says(const char *file, const char *was, const char *should)
{
    CLEANUP(xfreep) char *text = ledger_text(file, was);
    if (strcmp(text, should) != 0)
        fail_msg("%s says:\n%s\nand should say:\n%s", file, text, should);
}

/* The only file in the folder whose name begins with ledger.db.v<version>-. */
static void find_copy(const struct shelf *shelf, uint32_t version, char *out, size_t bytes)
{
    char part[32];
    struct dirent *entry;
    (void)snprintf(part, sizeof part, "ledger.db.v%u-", version);
    assert_int_equal(shelf_files(shelf, part), 1);
    DIR *dir = opendir(shelf->folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) /* NOLINT(concurrency-mt-unsafe) */
        if (strncmp(entry->d_name, part, strlen(part)) == 0)
            (void)snprintf(out, bytes, "%s/%s", shelf->folder, entry->d_name);
    (void)closedir(dir);
}

static void what_its_text_says_is_kept(uint32_t version, const char *form)
{
    struct shelf shelf;
    char was[128], copy[512];
    size_t bytes = 0;
    struct err err;
    CLEANUP(xfreep) char *should = released_file(version, ".txt", &bytes);

    assert_non_null(should);
    lay(&shelf, version, form, was, sizeof was);
    assert_says(was, was, should);
    shelf_open(&shelf);
    assert_int_equal(store_verify(shelf.store, &err), 0);
    assert_says(shelf.path, was, should);
    find_copy(&shelf, version, copy, sizeof copy);
    assert_says(copy, was, should);
    assert_int_equal(shelf_files(&shelf, "ledger.db.v"), 1); /* however many steps there were */
    /* The ledger now equals a new file, and stays so. */
    shelf_close(&shelf);
    shelf_open(&shelf);
    assert_says(shelf.path, was, should);
    assert_sql(&shelf, "PRAGMA user_version", store_schema.version);
    find_copy(&shelf, version, copy, sizeof copy);
    shelf_done(&shelf);
}

TEST(released__keeps_its_rows_history_and_journal)
{
    for (uint32_t version = 1; version < store_schema.version; version++)
        for (size_t i = 0; i < ARRAY_LEN(released_forms); i++)
            what_its_text_says_is_kept(version, released_forms[i]);
}

/* Calls check() for the ledger of each version, opened. */
static void open_each(const char *form, void (*check)(struct shelf *shelf, uint32_t version))
{
    for (uint32_t version = 1; version < store_schema.version; version++) {
        struct shelf shelf;
        char was[128];
        lay(&shelf, version, form, was, sizeof was);
        shelf_open(&shelf);
        check(&shelf, version);
        shelf_done(&shelf);
    }
}

static void take_row(void *user, const struct history_row *row)
{
    unsigned *rows = user;
    assert_true(row->uid[0] != '\0');
    (*rows)++;
}

static unsigned ask_history(struct shelf *shelf, const struct store_history_query *query)
{
    unsigned rows = 0;
    struct err err;
    assert_int_equal(store_history(shelf->store, query, &rows, take_row, &err), 0);
    return rows;
}

static void answers_for_a_gpu(struct shelf *shelf, uint32_t version)
{
    /* From version 2 on one pod more, unplaced; from 4 on, raised; from 7 on, packed. */
    static const unsigned rows[] = {0, 15, 16, 16, 17, 17, 17, 18, 18, 18, 18, 18};
    assert_int_equal(ARRAY_LEN(rows), store_schema.version);
    const struct store_history_query all = {0};
    const struct store_history_query then = {.node = "copier", .at_ms = 1793491300000};
    const struct store_history_query past = {.gpu = "GPU-aaaaaaaa-0001"};
    assert_int_equal(ask_history(shelf, &all), rows[version]);
    assert_int_equal(ask_history(shelf, &then), 1);
    assert_int_equal(ask_history(shelf, &past), 2);
}

TEST(released__answers_which_pod_held_a_gpu_when)
{
    open_each("", answers_for_a_gpu);
}

/* Load it, grant once more, advance one row of each kind, and load again. */
static void goes_on(struct shelf *shelf, uint32_t version)
{
    (void)version;
    struct err err;
    struct core_fixture *core = &shelf->core;
    assert_int_equal(store_load(shelf->store, core->ledger, &err), 0);
    ledger_assert_valid(core->ledger);
    assert_int_equal(core_reserve(core, "next", "honest", "500"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "in-doubt"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "on-its-way"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_RELEASE, "believed"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "much", "honest", "900"), VERDICT_REFUSED);
    shelf_save_and_turn(shelf);
}

TEST(released__goes_on_from_its_state)
{
    open_each("-killed", goes_on);
}

TEST(released__has_no_binding_versions_before_they_were_kept)
{
    struct shelf shelf;
    char was[128];
    lay(&shelf, 1, "", was, sizeof was);
    shelf_open(&shelf);
    assert_sql(&shelf, "SELECT max(version) FROM allocation", 0);
    assert_sql(&shelf, "SELECT count(*) FROM allocation", 12);
    shelf_done(&shelf);
}

/* Before version 3 nothing was learned, and before version 8 nothing was remembered of agents. */
static void has_what_was_kept(struct shelf *shelf, uint32_t version)
{
    static const struct agents_rules rules = {.key = {"", 0}, .value = {"", 0}};
    struct err err;
    int64_t until_ms = 0;
    struct tally *tally = NULL;
    struct agents *agents = agents_new(&rules);
    assert_int_equal(store_learned(shelf->store, &tally, &until_ms, &err), 0);
    assert_int_equal(tally != NULL, version >= 3);
    assert_int_equal(store_agents(shelf->store, agents, &err), 0);
    assert_int_equal(agents_seen(agents), version >= 8);
    assert_int_equal(agents_count(agents), version >= 8 ? 2 : 0);
    tally_free(tally);
    agents_free(agents);
}

TEST(released__has_no_workload_and_no_agents_before_they_were_kept)
{
    open_each("-killed", has_what_was_kept);
}

/*
 * The log is limited in bytes, whatever the pages are. A ledger that version 9 created has small
 * ones.
 */
static void keeps_pages(struct shelf *shelf, uint32_t version)
{
    const int page_bytes = version < 9 ? 4096 : 1024;
    assert_sql(shelf, "PRAGMA page_size", page_bytes);
    assert_int_equal(shelf->store->page_bytes, page_bytes);
    assert_int_equal(shelf->store->limits.wal_soft, (4 << 20) / page_bytes);
    assert_in_range(atomic_load(&shelf->store->used_bytes), 20 * page_bytes, 1 << 20);
}

TEST(released__keeps_its_pages)
{
    open_each("-killed", keeps_pages);
}

/* A step of the migration may edit the text of the schema, and nothing afterwards. */
static void has_a_closed_schema(struct shelf *shelf, uint32_t version)
{
    (void)version;
    assert_int_equal(sqlite3_exec(shelf->store->db,
                                  "PRAGMA writable_schema=ON;"
                                  "UPDATE sqlite_schema SET sql = sql",
                                  NULL, NULL, NULL),
                     SQLITE_ERROR);
    assert_string_equal(sqlite3_errmsg(shelf->store->db),
                        "table sqlite_master may not be modified");
}

TEST(released__has_a_closed_schema_afterwards)
{
    open_each("", has_a_closed_schema);
}

/* Modified tables stay refused; a new version does not repair them. A step drops the first. */
TEST(released__with_changed_tables_is_not_migrated)
{
    static const char *const changes[] = {"DROP TRIGGER charge_within", "DROP TRIGGER charge_stays",
                                          "CREATE TABLE idle (a)"};
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        struct shelf shelf;
        struct err err;
        char was[128];
        lay(&shelf, 1, "", was, sizeof was);
        shelf_run(&shelf, changes[i]);
        assert_int_equal(shelf_try(&shelf, &err), -(int)ERR_CORRUPT);
        assert_non_null(strstr(err.text, "not those of version 12"));
        assert_sql(&shelf, "PRAGMA user_version", 1);
        assert_sql(&shelf, "SELECT count(*) FROM allocation", 12);
        shelf_done(&shelf);
    }
}

struct checks {
    unsigned passed;
    char wrong[256]; /* "CHECK: what", of the first one that failed */
};

static void take_check(void *user, enum store_check check, const char *wrong)
{
    struct checks *checks = user;
    if (wrong == NULL)
        checks->passed++;
    else if (checks->wrong[0] == '\0')
        (void)snprintf(checks->wrong, sizeof checks->wrong, "%s: %s", store_check_name(check),
                       wrong);
}

TEST(released__is_verified_and_left_as_it_is)
{
    for (uint32_t version = 1; version < store_schema.version; version++)
        for (size_t i = 0; i < ARRAY_LEN(released_forms); i++) {
            struct shelf shelf;
            struct err err;
            char was[128];
            struct checks checks = {0};
            size_t bytes = 0;
            CLEANUP(xfreep) char *should = released_file(version, ".txt", &bytes);
            lay(&shelf, version, released_forms[i], was, sizeof was);
            const int files = shelf_files(&shelf, "ledger.db");
            assert_int_equal(store_verify_file(shelf.path, &checks, take_check, &err), 0);
            assert_string_equal(checks.wrong, "");
            assert_int_equal(checks.passed, STORE_CHECKS);
            assert_int_equal(shelf_files(&shelf, "ledger.db"), files);
            assert_sql(&shelf, "PRAGMA user_version", version);
            assert_says(shelf.path, was, should);
            shelf_done(&shelf);
        }
}

TEST(released__damage_is_found_before_migration)
{
    static const struct {
        const char *sql, *found;
    } damages[] = {
        {"DROP TRIGGER charge_within", "tables: "},
        {"DROP TRIGGER share_stays;"
         "UPDATE share SET milli = milli - 1, asked = NULL WHERE milli > 1;"
         "CREATE TRIGGER share_stays BEFORE UPDATE ON share\nBEGIN\n"
         "    SELECT RAISE(ABORT, 'a share never changes');\nEND",
         "charges: "},
    };
    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        struct shelf shelf;
        struct err err;
        char was[128];
        struct checks checks = {0};
        lay(&shelf, 9, "", was, sizeof was);
        shelf_run(&shelf, damages[i].sql);
        assert_int_equal(store_verify_file(shelf.path, &checks, take_check, &err), 0);
        if (strncmp(checks.wrong, damages[i].found, strlen(damages[i].found)) != 0)
            fail_msg("%s: %s", damages[i].sql, checks.wrong);
        assert_true(checks.passed < STORE_CHECKS);
        shelf_done(&shelf);
    }
}

TEST(released__damaged_pages_are_reported_first)
{
    struct shelf shelf;
    struct err err;
    char was[128];
    struct checks checks = {0};
    lay(&shelf, 9, "", was, sizeof was);
    FILE *file = fopen(shelf.path, "r+b");
    assert_non_null(file);
    for (long page = 4; page < 12; page++) {
        assert_int_equal(fseek(file, page * 4096, SEEK_SET), 0);
        assert_int_equal(fwrite("\377\377\377\377\377\377\377\377", 1, 8, file), 8);
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(store_verify_file(shelf.path, &checks, take_check, &err), 0);
    assert_true(strncmp(checks.wrong, "pages: ", 7) == 0);
    assert_int_equal(checks.passed, 0);
    shelf_done(&shelf);
}

/* Back to an older milligpu: its own copy takes the place of the migrated ledger, as it was. */
TEST(released__copy_before_migration_can_be_restored)
{
    for (uint32_t version = 1; version < store_schema.version; version++) {
        struct shelf shelf;
        struct err err;
        struct restored restored = {NULL};
        char was[128], copy[512];
        size_t bytes = 0;
        CLEANUP(xfreep) char *should = released_file(version, ".txt", &bytes);
        lay(&shelf, version, "-killed", was, sizeof was);
        shelf_open(&shelf);
        shelf_close(&shelf);
        find_copy(&shelf, version, copy, sizeof copy);
        const int failed = store_restore(copy, shelf.path, &restored, &err);
        CLEANUP(xfreep) char *aside = restored.aside;
        if (version < 6) { /* its tables cannot say that it is a copy */
            assert_int_equal(failed, -(int)ERR_INVALID);
            assert_non_null(strstr(err.text, "only versions from 6 on can be restored"));
            assert_sql(&shelf, "PRAGMA user_version", store_schema.version);
        } else {
            enum store_owner owner = OWNER_NOBODY;
            assert_int_equal(failed, 0);
            assert_int_equal(shelf_number(aside, "PRAGMA user_version"), store_schema.version);
            assert_sql(&shelf, "PRAGMA user_version", version);
            assert_sql(&shelf, "SELECT is_copy FROM meta", 1);
            assert_says(shelf.path, was, should);
            /* A newer milligpu may open it all the same, and waits like the older one. */
            shelf_open(&shelf);
            assert_int_equal(store_whose(shelf.store, "uid-of-kube-system", &owner, &err), 0);
            assert_int_equal(owner, OWNER_THIS_BY_COPY);
        }
        shelf_done(&shelf);
    }
}
