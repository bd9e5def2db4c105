/*
 * A backup in the place of a ledger, and the log of a ledger that was replaced (ledger_id.c,
 * restore_file.c). A kill is a child process that ends without closing the ledger.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"
#include "milligpu/store/verify.h"

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_released.h"
#include "unit/store/support_shelf.h"

static const struct core_gpu one[] = {{.index = 0, .mib = 81920}};

static void reserve(struct shelf *shelf, const char *uid)
{
    assert_int_equal(core_reserve(&shelf->core, uid, "n1", "100"), VERDICT_OK);
    shelf_save(shelf);
}

static void begin(struct shelf *shelf)
{
    struct err err;

    (void)core_node(&shelf->core, "n1", one, 1);
    shelf_save(shelf);
    reserve(shelf, "first");
    assert_int_equal(store_set_cluster(shelf->store, "here", &err), 0);
}

static void beside(const struct shelf *shelf, const char *suffix, char out[160])
{
    (void)snprintf(out, 160, "%s%s", shelf->path, suffix);
}

static char backup[160]; /* of the test's ledger */

static void back_up(struct shelf *shelf)
{
    struct err err;

    (void)snprintf(backup, sizeof backup, "%s/backup", shelf->folder);
    assert_int_equal(store_backup(shelf->store, backup, &err), 0);
}

/* In a child that ends as a killed daemon does: the reservation is in the log only. */
static void reserve_and_be_killed(struct shelf *shelf, const char *uid)
{
    shelf_close(shelf);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        shelf_open(shelf);
        reserve(shelf, uid);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void copy_over(const char *from, const char *to)
{
    size_t bytes = 0;
    CLEANUP(xfreep) char *content = get_file(from, &bytes);
    struct err err;

    assert_int_equal(file_replace(to, (struct text){content, bytes}, &err), 0);
}

/* A backup, and behind it a reservation that only the log of a killed daemon has. */
static void back_up_and_be_killed(struct shelf *shelf)
{
    begin(shelf);
    back_up(shelf);
    reserve_and_be_killed(shelf, "second");
}

static void restore(struct shelf *shelf)
{
    struct restored restored = {NULL};
    struct err err;

    assert_int_equal(store_restore(backup, shelf->path, &restored, &err), 0);
    xfree(restored.aside);
    shelf_open(shelf);
    shelf_sound(shelf);
}

static long long wal_bytes(const struct shelf *shelf)
{
    char wal[160];
    struct stat st;

    beside(shelf, "-wal", wal);
    return stat(wal, &st) == 0 ? (long long)st.st_size : 0;
}

static void assert_refused(struct shelf *shelf)
{
    const long long before = wal_bytes(shelf);
    struct err err;

    assert_true(before > 0);
    assert_int_equal(shelf_try(shelf, &err), -(int)ERR_CONFLICT);
    assert_non_null(strstr(err.text, "milligpuctl restore BACKUP"));
    assert_int_equal(wal_bytes(shelf), before);
}

SHELF_TEST(foreign_log__of_a_killed_daemon_refuses_the_backup_over_its_ledger)
{
    shelf->rules.on_corrupt = STORE_MOVE_ASIDE; /* it is not called corrupt even then */
    back_up_and_be_killed(shelf);
    copy_over(backup, shelf->path);
    assert_refused(shelf);
    assert_int_equal(shelf_files(shelf, "corrupt"), 0);
    shelf->rules.on_corrupt = STORE_REFUSE;
    assert_refused(shelf);
    assert_int_equal(shelf_files(shelf, "corrupt"), 0);
}

static void take_check(void *user, enum store_check check, const char *wrong)
{
    (void)check;
    *(unsigned *)user += wrong != NULL;
}

SHELF_TEST(verify_file__takes_a_relative_path_with_a_log)
{
    const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned wrong = 0;
    struct err err;

    begin(shelf);
    reserve_and_be_killed(shelf, "second");
    assert_int_equal(chdir(shelf->folder), 0);
    assert_int_equal(store_verify_file(strrchr(shelf->path, '/') + 1, &wrong, take_check, &err), 0);
    assert_int_equal(fchdir(here), 0);
    (void)close(here);
    assert_int_equal(wrong, 0);
}

SHELF_TEST(verify_file__does_not_read_a_foreign_log)
{
    unsigned wrong = 0;
    struct err err;

    back_up_and_be_killed(shelf);
    assert_int_equal(store_verify_file(shelf->path, &wrong, take_check, &err), 0);
    copy_over(backup, shelf->path);
    assert_int_equal(store_verify_file(shelf->path, &wrong, take_check, &err), -(int)ERR_CONFLICT);
    assert_int_equal(wrong, 0);
}

/* cp of a file that was in use: the same id, and less in it than was once in the file. */
SHELF_TEST(foreign_log__refuses_an_older_state_of_the_same_file)
{
    char older[160];

    begin(shelf);
    shelf_close(shelf);
    beside(shelf, ".older", older);
    copy_over(shelf->path, older);
    shelf_open(shelf);
    reserve(shelf, "second");
    shelf->store->limits.wal_soft = 1;
    shelf_maintain(shelf, 1);
    reserve_and_be_killed(shelf, "third");
    copy_over(older, shelf->path);
    assert_refused(shelf);
}

SHELF_TEST(foreign_log__refuses_a_copy_of_an_older_version)
{
    size_t bytes = 0;
    struct err err;
    CLEANUP(xfreep) char *released = released_file(5, ".db", &bytes);

    assert_non_null(released);
    begin(shelf);
    reserve_and_be_killed(shelf, "second");
    assert_int_equal(file_replace(shelf->path, (struct text){released, bytes}, &err), 0);
    assert_refused(shelf);
}

SHELF_TEST(killed_ledger__opens_with_its_log)
{
    begin(shelf);
    for (int i = 0; i < 3; i++) {
        char uid[32];
        (void)snprintf(uid, sizeof uid, "more-%d", i);
        reserve_and_be_killed(shelf, uid);
        shelf_open(shelf);
    }
    shelf_close(shelf);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 4);
}

SHELF_TEST(copied_ledger__opens_without_a_log)
{
    enum store_owner owner = OWNER_NOBODY;
    struct err err;

    begin(shelf);
    assert_int_equal(store_whose(shelf->store, "here", &owner, &err), 0);
    assert_int_equal(owner, OWNER_THIS);
    back_up(shelf);
    shelf_close(shelf);
    copy_over(backup, shelf->path);
    shelf_open(shelf);
    assert_int_equal(store_whose(shelf->store, "here", &owner, &err), 0);
    assert_int_equal(owner, OWNER_THIS_BY_COPY);
    assert_int_equal(store_whose(shelf->store, "elsewhere", &owner, &err), -(int)ERR_FOREIGN);
    /* It has an id of its own, so its own log belongs to it. */
    reserve_and_be_killed(shelf, "after");
    shelf_open(shelf);
    assert_int_equal(store_whose(shelf->store, "here", &owner, &err), 0);
    assert_int_equal(owner, OWNER_THIS_BY_COPY);
    assert_int_equal(store_set_cluster(shelf->store, "here", &err), 0);
    assert_int_equal(store_whose(shelf->store, "here", &owner, &err), 0);
    assert_int_equal(owner, OWNER_THIS);
}

SHELF_TEST(lost_ledger__begins_anew_beside_its_log)
{
    begin(shelf);
    reserve_and_be_killed(shelf, "second");
    assert_int_equal(unlink(shelf->path), 0);
    shelf_open(shelf);
    shelf_close(shelf);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 0);
}

/* The id cannot be noted: that says nothing about the ledger. */
SHELF_TEST(id_file__that_cannot_be_written_stops_nothing)
{
    char id[160];

    begin(shelf);
    shelf_close(shelf);
    beside(shelf, ".id", id);
    assert_int_equal(unlink(id), 0);
    assert_int_equal(mkdir(id, 0700), 0);
    shelf_open(shelf);
    assert_non_null(strstr(shelf->notices.data, "could not be noted"));
    shelf_close(shelf);
    assert_int_equal(rmdir(id), 0);
}

SHELF_TEST(id_file__with_unknown_content_is_ignored)
{
    static const char *const texts[] = {"", "x", "0123456789abcdef0123456789abcdeX 1\n",
                                        "0123456789abcdef0123456789abcdef\n",
                                        "0123456789abcdef0123456789abcdef -1\n"};
    char id[160];
    struct err err;

    begin(shelf);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char uid[32];
        (void)snprintf(uid, sizeof uid, "more-%zu", i);
        reserve_and_be_killed(shelf, uid);
        beside(shelf, ".id", id);
        assert_int_equal(file_replace(id, text_of(texts[i]), &err), 0);
        shelf_open(shelf);
    }
}

SHELF_TEST(restore__moves_the_former_set_aside)
{
    struct restored restored = {NULL};
    enum store_owner owner = OWNER_NOBODY;
    struct err err;

    back_up_and_be_killed(shelf);
    assert_int_equal(store_restore(backup, shelf->path, &restored, &err), 0);
    CLEANUP(xfreep) char *aside = restored.aside;
    assert_non_null(strstr(aside, "ledger.db.replaced-"));
    assert_int_equal(shelf_number(aside, "SELECT count(*) FROM allocation"), 2);
    assert_int_equal(shelf_files(shelf, ".restored-"), 0);
    shelf_open(shelf);
    assert_int_equal(store_whose(shelf->store, "here", &owner, &err), 0);
    assert_int_equal(owner, OWNER_THIS_BY_COPY);
    assert_int_equal(store_verify(shelf->store, &err), 0);
    shelf_close(shelf);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 1);
    assert_int_equal(shelf_number(backup, "SELECT count(*) FROM allocation"), 1);
}

/* After the refusal, too: the file in place is the backup itself, beside the former log. */
SHELF_TEST(restore__mends_a_copy_by_hand)
{
    back_up_and_be_killed(shelf);
    copy_over(backup, shelf->path);
    assert_refused(shelf);
    restore(shelf);
}

SHELF_TEST(restore__works_without_a_ledger)
{
    back_up_and_be_killed(shelf);
    assert_int_equal(unlink(shelf->path), 0);
    restore(shelf);
    shelf_close(shelf);
    assert_sql(shelf, "SELECT count(*) FROM allocation", 1);
}

static void assert_kept(struct shelf *shelf, const char *from, enum err_code code, const char *word)
{
    struct restored restored = {NULL};
    struct err err;

    assert_int_equal(store_restore(from, shelf->path, &restored, &err), -(int)code);
    assert_non_null(strstr(err.text, word));
    assert_null(restored.aside);
    assert_int_equal(shelf_files(shelf, ".restored-"), 0);
    assert_int_equal(shelf_files(shelf, ".replaced-"), 0);
}

SHELF_TEST(restore__changes_nothing_on_an_error)
{
    char file[160];
    size_t bytes = 0;
    struct err err;
    CLEANUP(xfreep) char *released = released_file(5, ".db", &bytes);

    begin(shelf);
    back_up(shelf);
    assert_kept(shelf, backup, ERR_BUSY, "another milligpud");
    shelf_close(shelf);
    (void)snprintf(file, sizeof file, "%s/none", shelf->folder);
    assert_kept(shelf, file, ERR_NOT_FOUND, "none");
    assert_kept(shelf, shelf->folder, ERR_INVALID, "a folder");
    assert_int_equal(file_replace(file, (struct text){released, bytes}, &err), 0);
    assert_kept(shelf, file, ERR_INVALID, "only versions from 6 on can be restored");
    assert_int_equal(file_replace(file, TEXT("not SQLite's at all"), &err), 0);
    assert_kept(shelf, file, ERR_FOREIGN, "not a milligpu ledger");
    shelf_open(shelf);
    shelf_same(shelf);
}
