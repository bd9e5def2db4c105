/*
 * The owner of an older ledger is checked before a byte is written: a migration needs to know this
 * cluster. All files of the folder are compared byte by byte.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/test.h"
#include "unit/store/support_released.h"
#include "unit/store/support_shelf.h"

/* The owner of every released ledger. */
static const char owner[] = "uid-of-kube-system";

/* In place of the API server. */
struct cluster {
    const char *uid; /* NULL: it does not answer */
    unsigned asked;
    struct shelf *shelf;
};

static int answer(void *user, char out_uid[UID_BYTES_MAX + 1], struct err *err)
{
    struct cluster *cluster = user;
    struct err busy;
    int fd = -1;

    cluster->asked++;
    /* The caller holds the lock of the ledger. */
    assert_int_equal(file_lock(cluster->shelf->path, &fd, &busy), -(int)ERR_BUSY);
    if (cluster->uid == NULL)
        return err_set(err, ERR_UNAVAILABLE, "no answer within 5 s");
    (void)snprintf(out_uid, UID_BYTES_MAX + 1, "%s", cluster->uid);
    return 0;
}

static void take_notice(void *user, const char *text)
{
    struct cluster *cluster = user;
    strbuf_str(&cluster->shelf->notices, text);
}

/* A released ledger at the shelf's path, for a milligpud that asks this cluster. */
static void lay(struct shelf *shelf, struct cluster *cluster, uint32_t version, const char *form)
{
    shelf_init(shelf);
    released_put(shelf->path, version, form);
    cluster->shelf = shelf;
    cluster->asked = 0;
    shelf->rules.user = cluster;
    shelf->rules.notice = take_notice;
    shelf->rules.cluster = answer;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Every file of the folder but the lock, with its bytes. xfree it. */
static char *folder_text(const struct shelf *shelf)
{
    struct dirent **entry = NULL;
    struct strbuf text;
    const int count = scandir(shelf->folder, &entry, NULL, by_name);

    assert_true(count > 0);
    strbuf_init(&text);
    for (int i = 0; i < count; i++) {
        char path[512];
        int byte;

        (void)snprintf(path, sizeof path, "%s/%s", shelf->folder, entry[i]->d_name);
        const bool skip = entry[i]->d_name[0] == '.' || strstr(path, ".lock") != NULL;
        FILE *file = skip ? NULL : fopen(path, "rb");
        if (file != NULL) {
            strbuf_printf(&text, "%s:", entry[i]->d_name);
            while ((byte = fgetc(file)) != EOF)
                strbuf_printf(&text, "%02x", (unsigned)byte);
            assert_int_equal(fclose(file), 0);
        }
        free(entry[i]);
    }
    free(entry);
    return strbuf_steal(&text);
}

/* A ledger of version 5 for a cluster that does not answer. */
static int set_up(void **state)
{
    static struct shelf shelf;
    static struct cluster cluster;

    cluster.uid = NULL;
    lay(&shelf, &cluster, 5, "");
    *state = &shelf;
    return 0;
}

#define OWNER_TEST(name) SHELF_TEST_BETWEEN(name, set_up, shelf_tear_down)

static struct cluster *cluster_of(const struct shelf *shelf)
{
    return shelf->rules.user;
}

/* Opens; the cluster was asked so often. */
static void opens(struct shelf *shelf, unsigned asked)
{
    shelf_open(shelf);
    assert_int_equal(cluster_of(shelf)->asked, asked);
    assert_sql(shelf, "PRAGMA user_version", store_schema.version);
}

/* Refused with all these words, and nothing in the folder is other than before. */
static void refused_untouched(struct shelf *shelf, enum err_code code, const char *const *word,
                              size_t words)
{
    struct err err = {0};
    CLEANUP(xfreep) char *before = folder_text(shelf);

    assert_int_equal(shelf_try(shelf, &err), -(int)code);
    for (size_t i = 0; i < words; i++)
        if (strstr(err.text, word[i]) == NULL)
            fail_msg("no \"%s\" in: %s", word[i], err.text);
    CLEANUP(xfreep) char *after = folder_text(shelf);
    assert_string_equal(before, after);
    assert_string_equal(shelf->notices.data, "");
}

static void lay_and_refuse(struct cluster cluster, enum err_code code, const char *word)
{
    for (uint32_t version = 1; version < store_schema.version; version++) {
        for (size_t i = 0; i < ARRAY_LEN(released_forms); i++) {
            struct shelf shelf;
            char number[32];
            (void)snprintf(number, sizeof number, "version %u", version);
            const char *const words[] = {"ledger.db", owner, number, "not migrated", word};

            lay(&shelf, &cluster, version, released_forms[i]);
            refused_untouched(&shelf, code, words, ARRAY_LEN(words));
            assert_int_equal(cluster.asked, 1);
            shelf_done(&shelf);
        }
    }
}

TEST(migrate__leaves_the_ledger_of_another_cluster_as_it_is)
{
    lay_and_refuse((struct cluster){.uid = "somebody-else"}, ERR_FOREIGN, "somebody-else");
}

TEST(migrate__leaves_an_owned_ledger_as_it_is_without_an_answer)
{
    lay_and_refuse((struct cluster){.uid = NULL}, ERR_UNAVAILABLE, "no answer within 5 s");
}

/* A callback that breaks its promise is no reason to migrate. */
TEST(migrate__takes_an_empty_uid_as_no_answer)
{
    lay_and_refuse((struct cluster){.uid = ""}, ERR_FOREIGN, "another cluster");
}

TEST(migrate__changes_the_ledger_of_this_cluster)
{
    for (uint32_t version = 1; version < store_schema.version; version++) {
        for (size_t i = 0; i < ARRAY_LEN(released_forms); i++) {
            struct shelf shelf;
            struct cluster cluster = {.uid = owner};

            lay(&shelf, &cluster, version, released_forms[i]);
            shelf_open(&shelf);
            assert_int_equal(cluster.asked, 1);
            assert_non_null(strstr(shelf.notices.data, "migrated from version"));
            shelf_close(&shelf);
            /* The current version asks no cluster. */
            shelf_open(&shelf);
            assert_int_equal(cluster.asked, 1);
            shelf_done(&shelf);
        }
    }
}

OWNER_TEST(migrate__asks_no_cluster_for_a_ledger_without_owner)
{
    shelf_run(shelf, "UPDATE meta SET cluster = NULL");
    opens(shelf, 0);
}

OWNER_TEST(migrate__asks_no_cluster_for_a_new_file)
{
    assert_int_equal(unlink(shelf->path), 0);
    opens(shelf, 0);
}

/* The owner counts as it is with the log: here only the log has it. */
OWNER_TEST(migrate__reads_the_owner_with_the_log)
{
    static const char *const words[] = {"owner-in-the-log", "somebody-else"};
    sqlite3 *db = NULL;
    char wal[160];

    cluster_of(shelf)->uid = "somebody-else";
    shelf_run(shelf, "UPDATE meta SET cluster = NULL");
    assert_int_equal(sqlite3_open(shelf->path, &db), SQLITE_OK);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert_int_equal(
        sqlite3_exec(db, "UPDATE meta SET cluster = 'owner-in-the-log'", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    (void)snprintf(wal, sizeof wal, "%s-wal", shelf->path);
    assert_int_equal(access(wal, F_OK), 0);
    refused_untouched(shelf, ERR_FOREIGN, words, ARRAY_LEN(words));
}

/* A copy that a killed migration left is removed by the milligpud of its cluster only. */
OWNER_TEST(migrate__keeps_unfinished_copies_of_another_cluster)
{
    static const char *const words[] = {"somebody-else"};
    char scrap[160];

    cluster_of(shelf)->uid = "somebody-else";
    (void)snprintf(scrap, sizeof scrap, "%s.v5-20260102T030405Z.part-abcdef", shelf->path);
    put_file(scrap, "", 0);
    refused_untouched(shelf, ERR_FOREIGN, words, ARRAY_LEN(words));
    cluster_of(shelf)->uid = owner;
    shelf_open(shelf);
    assert_int_not_equal(access(scrap, F_OK), 0);
}

/* Without a column for the owner it is no ledger of ours, and the migration says so, as before. */
OWNER_TEST(migrate__finds_tables_without_an_owner_corrupt)
{
    struct err err = {0};

    shelf_run(shelf, "ALTER TABLE meta DROP COLUMN cluster");
    assert_int_equal(shelf_try(shelf, &err), -(int)ERR_CORRUPT);
    assert_int_equal(cluster_of(shelf)->asked, 0);
    assert_sql(shelf, "PRAGMA user_version", 5);
}

static void copy_file(const char *from, const char *to)
{
    struct err err;
    int fd = -1;

    assert_int_equal(backup_bytes(from, to, &fd, &err), 0);
    assert_int_equal(close(fd), 0);
}

/*
 * As another program leaves it that died in a transaction with a rollback journal: the file alone
 * cannot be read, and SQLite repairs it when it is opened. Afterwards the owner is there, and was
 * not confirmed.
 */
static void make_journal(struct shelf *shelf, const char *first)
{
    static const char begin[] =
        "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN; PRAGMA user_version = 4;"
        "CREATE TABLE much (a); WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " LIMIT 400) INSERT INTO much SELECT randomblob(2000) FROM n";
    char work[160];
    char journal[192];
    char to[192];
    sqlite3 *db = NULL;

    (void)snprintf(work, sizeof work, "%s/work", shelf->folder);
    (void)snprintf(journal, sizeof journal, "%s-journal", work);
    (void)snprintf(to, sizeof to, "%s-journal", shelf->path);
    shelf_run(shelf, first);
    assert_int_equal(rename(shelf->path, work), 0);
    assert_int_equal(sqlite3_open(work, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, begin, NULL, NULL, NULL), SQLITE_OK);
    copy_file(work, shelf->path);
    copy_file(journal, to);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(unlink(work), 0);
    FILE *file = fopen(shelf->path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 100, SEEK_SET), 0);
    for (int i = 100; i < 4096; i++)
        assert_int_equal(fputc(0xff, file), 0xff);
    assert_int_equal(fclose(file), 0);
}

OWNER_TEST(migrate__waits_for_the_next_start_for_an_owner_found_at_opening)
{
    struct err err = {0};

    cluster_of(shelf)->uid = owner;
    make_journal(shelf, "");
    assert_int_equal(shelf_try(shelf, &err), -(int)ERR_BUSY);
    assert_non_null(strstr(err.text, "start milligpud again"));
    assert_int_equal(cluster_of(shelf)->asked, 0);
    assert_int_equal(shelf_files(shelf, ".v5-"), 0);
    assert_sql(shelf, "PRAGMA user_version", 5);
    opens(shelf, 1);
}

/* Likewise, and without an owner the cluster does not matter. */
OWNER_TEST(migrate__asks_no_cluster_for_a_ledger_that_has_no_owner_after_repair)
{
    make_journal(shelf, "UPDATE meta SET cluster = NULL");
    opens(shelf, 0);
}

/* Tests, and programs without a cluster, have no way to ask. */
OWNER_TEST(migrate__any_ledger_without_a_cluster_to_ask)
{
    shelf->rules.cluster = NULL;
    opens(shelf, 0);
}
