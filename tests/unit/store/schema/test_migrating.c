/*
 * The process, the power or the disk fails at every point of the migration from each released
 * version: the ledger is the old one or the new one, nothing in between, and the next start
 * completes it. Most points leave the same bytes as an earlier one, which are checked once.
 */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/disk.h"
#include "support/ledger_text.h"
#include "support/points.h"
#include "support/seen.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_released.h"
#include "unit/store/support_shelf.h"

enum { N_MAX = 3000 };

static struct seen looked_at;

/* The released ledger on disk and its text; the file "was" beside it stays unchanged. */
struct old {
    struct shelf shelf;
    uint32_t version;
    char was[128];
    char *text;
};

static void name_log(const char *file, char out[static 160])
{
    (void)snprintf(out, 160, "%s-wal", file);
}

static void lay(struct old *old, uint32_t version, const char *form)
{
    char rest[64];
    size_t bytes = 0;

    old->version = version;
    shelf_init(&old->shelf);
    (void)snprintf(old->was, sizeof old->was, "%s/was", old->shelf.folder);
    old->text = released_file(version, ".txt", &bytes);
    assert_non_null(old->text);
    (void)snprintf(rest, sizeof rest, "%s.db", form);
    CLEANUP(xfreep) char *file = released_file(version, rest, &bytes);
    assert_non_null(file);
    disk_put(old->shelf.path, (struct text){file, bytes});
    disk_put(old->was, (struct text){file, bytes});
    (void)snprintf(rest, sizeof rest, "%s.db-wal", form);
    CLEANUP(xfreep) char *wal = released_file(version, rest, &bytes);
    if (wal == NULL)
        return;
    char name[160];
    name_log(old->shelf.path, name);
    disk_put(name, (struct text){wal, bytes});
    name_log(old->was, name);
    disk_put(name, (struct text){wal, bytes});
}

static void lift(struct old *old)
{
    shelf_done(&old->shelf);
    xfree(old->text);
    disk_clear();
}

static void assert_keeps(const struct old *old, const char *file)
{
    CLEANUP(xfreep) char *text = ledger_text(file, old->was);
    assert_string_equal(text, old->text);
}

static long long version_now(const struct old *old)
{
    return shelf_number(old->shelf.path, "PRAGMA user_version");
}

/* The copy that the last notice names. */
static void assert_copy(const struct old *old)
{
    static const char words[] = "the backup is ";
    const char *at = strstr(old->shelf.notices.data, words);
    char name[256];

    assert_non_null(at);
    at += sizeof words - 1;
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "\n"), at);
    assert_keeps(old, name);
    assert_int_equal(shelf_number(name, "PRAGMA user_version"), old->version);
}

static uint64_t hash_file(const char *name, uint64_t seed)
{
    struct text bytes;
    return disk_file(name, &bytes) ? hash_bytes(bytes.at, bytes.len, seed) : ~seed;
}

/* Hashes the next start's input: the ledger, its log, and the number of files beside them. */
static bool is_left_for_the_first_time(const struct old *old)
{
    char log[160];
    uint32_t known;

    name_log(old->shelf.path, log);
    uint64_t hash = hash_file(old->shelf.path, old->version);
    hash = hash_file(log, hash) + (uint64_t)shelf_files(&old->shelf, "");
    if (seen_find(&looked_at, hash, &known))
        return false;
    seen_put(&looked_at, hash, 1);
    return true;
}

static void copy_file(const char *from, const char *to)
{
    struct text bytes;
    if (disk_file(from, &bytes))
        disk_put(to, bytes);
}

/* Looks at a copy, because closing a ledger takes its log in, and the next start should find it. */
static void assert_old_or_new(const struct old *old)
{
    char copy[128];
    char log[160];
    char copied_log[160];

    (void)snprintf(copy, sizeof copy, "%s/copy", old->shelf.folder);
    name_log(old->shelf.path, log);
    name_log(copy, copied_log);
    copy_file(old->shelf.path, copy);
    copy_file(log, copied_log);
    const long long version = shelf_number(copy, "PRAGMA user_version");
    assert_true(version == old->version || version == store_schema.version);
    assert_keeps(old, copy);
}

/* Whichever version it is now, nothing is lost, and an undisturbed start makes it the new one. */
static void assert_either(struct old *old)
{
    struct err err;

    if (!is_left_for_the_first_time(old))
        return;
    assert_old_or_new(old);
    shelf_open(&old->shelf);
    assert_int_equal(store_verify(old->shelf.store, &err), 0);
    shelf_close(&old->shelf);
    assert_int_equal(version_now(old), store_schema.version);
    assert_keeps(old, old->shelf.path);
}

/* False if it ended before the n-th change: then both files are safe. */
static bool cut(uint32_t version, const char *form, uint64_t n, enum disk_loss loss)
{
    static struct old old;
    struct err err;

    lay(&old, version, form);
    disk_cut_before(n);
    const int failed = shelf_try(&old.shelf, &err);
    const bool was_cut = disk_is_cut();
    if (failed == 0 && !was_cut)
        disk_cut();
    shelf_close(&old.shelf);
    disk_restart(loss, n);
    if (!was_cut) {
        assert_int_equal(failed, 0);
        assert_int_equal(version_now(&old), store_schema.version);
        assert_copy(&old);
    }
    assert_either(&old);
    lift(&old);
    return was_cut;
}

/*
 * The oldest ledger goes through every step, so it is cut at every change. Younger ones go through
 * the later of these steps once more: after their beginning one of 20 will do, and under a
 * sanitizer they have no beginning.
 */
static uint64_t after(uint32_t version, uint64_t n)
{
    enum { BEGINNING = 20, SOME = 20 };
    if (version == 1)
        return point_after(n);
    if (are_points_sampled())
        return n + POINTS_STEP;
    return n + (n < BEGINNING ? 1 : SOME);
}

static void cut_everywhere(enum disk_loss loss)
{
    static const char *const forms[] = {"", "-killed"};
    for (uint32_t version = 1; version < store_schema.version; version++)
        for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
            uint64_t n = 1;
            for (; cut(version, forms[i], n, loss); n = after(version, n))
                assert_true(n < N_MAX);
            assert_true(n > 40);
        }
}

TEST(migration__killed_leaves_the_old_ledger_or_the_new_one)
{
    cut_everywhere(DISK_KEEPS_ALL);
}

TEST(migration__without_power_leaves_the_old_ledger_or_the_new_one)
{
    cut_everywhere(DISK_KEEPS_NONE);
    cut_everywhere(DISK_KEEPS_SOME);
}

/* False if nothing failed. */
static bool full(uint32_t version, uint64_t n)
{
    static struct old old;
    struct err err;

    lay(&old, version, "");
    disk_fail(DISK_WRITE | DISK_SYNC | DISK_TRUNCATE, n, SQLITE_FULL, true);
    const int failed = shelf_try(&old.shelf, &err);
    const bool hit = disk_failed() > 0;
    assert_true(failed != -(int)ERR_CORRUPT); /* else it would be moved aside */
    shelf_close(&old.shelf);
    disk_fail(0, 0, SQLITE_OK, false);
    assert_either(&old);
    lift(&old);
    return hit;
}

TEST(migration__on_a_full_disk_leaves_the_old_ledger)
{
    for (uint32_t version = 1; version < store_schema.version; version++) {
        uint64_t n = 1;
        for (; full(version, n); n = after(version, n))
            assert_true(n < N_MAX);
        assert_true(n > 40);
    }
}

static int install(void **state)
{
    (void)state;
    disk_install();
    seen_init(&looked_at);
    return 0;
}

static int forget(void **state)
{
    (void)state;
    seen_done(&looked_at);
    return 0;
}

TEST_GROUP(install, forget)
