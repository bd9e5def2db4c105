/*
 * Enforces the limit of the ledger in bytes: pages in use plus the log, without free pages, which
 * the file reuses. Called by store.c in the writer, after commits and in maintenance, which trims
 * (trim.c) long before grants have to stop.
 *
 *   0 ........................ trim_at ........... stop_at ........ max
 *      nothing is trimmed       | trimmed by bytes   | no grants      |
 *
 * Writes beyond stop_at are small: releases and observed pods. go_at, slightly below stop_at, adds
 * hysteresis, so that granting does not begin and end with every batch.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "store/store_internal.h"

static const int64_t mib = INT64_C(1) << 20;
/* This part of a piece is written before the pages in use are counted again. */
enum { UNSEEN_PART = 16 };

/* of_mib MiB, or less in proportion below LEDGER_BYTES_MIN (in tests). */
static int64_t space_margin(int64_t max_bytes, int64_t of_mib)
{
    const int64_t part = max_bytes * of_mib / (LEDGER_BYTES_MIN / mib);

    must(of_mib > 0);
    return part < of_mib * mib ? part : of_mib * mib;
}

/* 30 % of the volume: backup, copy before a migration, and log each need as much again. */
static int64_t space_usual_bytes(const struct store *store)
{
    struct volume volume;

    if (store->memory || !volume_look(store->path, &volume))
        return 256 * mib;
    const int64_t part = volume.bytes / 10 * 3;
    if (part < LEDGER_BYTES_MIN)
        return LEDGER_BYTES_MIN;
    return part < STORE_BYTES_AUTO ? part : STORE_BYTES_AUTO;
}

static void space_limits(struct store *store, int64_t max_bytes)
{
    struct store_limits *limits = &store->limits;
    const int64_t max = max_bytes > 0 ? max_bytes : space_usual_bytes(store);

    must(max > 0);
    limits->max_bytes = max;
    limits->trim_at = max - space_margin(max, 20);
    limits->stop_at = max - space_margin(max, 8);
    limits->go_at = limits->stop_at - space_margin(max, 2);
    limits->piece = space_margin(max, 1);
}

/* Pages in this many MiB, or in a part of the ledger's limit if that is less. */
static int space_log_pages(const struct store *store, int64_t of_mib, int64_t part)
{
    const int64_t most = store->limits.max_bytes / part;
    const int64_t pages = (most < of_mib * mib ? most : of_mib * mib) / store->page_bytes;

    must(pages > 0 && pages <= INT_MAX);
    return (int)pages;
}

int space_take_page_bytes(struct store *store, struct err *err)
{
    const int failed = db_number(store->db, "PRAGMA page_size", &store->page_bytes, err);

    if (failed != 0)
        return failed;
    must(store->page_bytes >= 512);
    store->limits.wal_soft = space_log_pages(store, 4, 16);
    store->limits.wal_hard = space_log_pages(store, 64, 8);
    store->limits.wal_max = space_log_pages(store, 512, 1);
    return 0;
}

static int64_t space_log_bytes(const struct store *store)
{
    enum { FRAME_HEAD = 24 };

    must(store->wal_pages >= 0);
    return (int64_t)store->wal_pages * (store->page_bytes + FRAME_HEAD);
}

static void space_set(struct store *store, enum store_space room)
{
    static const char *const says[] = {
        [SPACE_ENOUGH] = "there is room in it again: granting goes on",
        [SPACE_LIMIT] = "it has reached its limit (ledger_max_bytes): nothing is granted until "
                        "history or released pods make room",
        [SPACE_DISK] =
            "its disk is full, and the ballast beside it is given up: nothing is granted "
            "until there is room to make it again",
    };

    must((size_t)room < ARRAY_LEN(says));
    if ((enum store_space)atomic_exchange(&store->space, room) != room)
        store_notice(store, "%s: %s", store->path, says[room]);
}

void space_check(struct store *store)
{
    const int64_t bytes = atomic_load(&store->used_bytes) + space_log_bytes(store) + store->unseen;
    const bool was_full = store_space(store) == SPACE_LIMIT;

    if (store->is_missing_ballast)
        space_set(store, SPACE_DISK);
    else if (bytes > (was_full ? store->limits.go_at : store->limits.stop_at))
        space_set(store, SPACE_LIMIT);
    else
        space_set(store, SPACE_ENOUGH);
}

/* Far below the limits, unseen stands for the pages that batches wrote. */
bool space_is_due(const struct store *store)
{
    const int64_t bytes = atomic_load(&store->used_bytes) + store->unseen;

    must(!store->in_batch);
    return store->is_stale || store->unseen > store->limits.piece / UNSEEN_PART ||
           (store->unseen > 0 && bytes > store->limits.trim_at - store->limits.piece);
}

int space_look(struct store *store, struct err *err)
{
    int64_t pages = 0;
    int64_t free_pages = 0;

    must(!store->in_batch);
    int failed = db_ask(store->stmt[ST_PAGES], &pages, err);
    if (failed == 0)
        failed = db_ask(store->stmt[ST_PAGES_FREE], &free_pages, err);
    if (failed == 0) {
        atomic_store(&store->used_bytes, (pages - free_pages) * store->page_bytes);
        store->unseen = 0;
        store->is_stale = false;
    }
    space_check(store);
    return failed;
}

/* Twice the journal entry: rows and indexes take about as many bytes again. */
void space_count(struct store *store, int64_t journal_bytes)
{
    must(store->in_batch && journal_bytes > 0);
    store->unseen += 2 * journal_bytes;
    space_check(store);
}

bool space_is_short(const struct store *store)
{
    must(!store->in_batch);
    return atomic_load(&store->used_bytes) > store->limits.trim_at;
}

/* A full disk or quota stops grants. After other errors milligpud goes on without a ballast. */
static void space_make_ballast(struct store *store)
{
    const int failed = ballast_make(store->path);

    must(!store->in_batch);
    store->is_missing_ballast = failed == ENOSPC || failed == EDQUOT;
    if (failed != 0 && !store->is_missing_ballast && !store->has_reported_ballast) {
        store_notice(store, "%s: no ballast can be kept beside it: %s", store->path,
                     strerrordesc_np(failed));
        store->has_reported_ballast = true;
    }
    space_check(store);
}

void space_take_failure(struct store *store, int failed)
{
    struct volume volume;

    must(failed <= 0);
    if (!store->has_ballast || store->is_missing_ballast || failed == 0)
        return;
    /* SQLite reports some writes to a full disk as an I/O error. */
    if (failed != -(int)ERR_FULL &&
        (failed != -(int)ERR_IO || !volume_look(store->path, &volume) || volume.free_bytes >= mib))
        return;
    ballast_drop(store->path);
    store->is_missing_ballast = true;
    space_check(store);
}

void space_keep_ballast(struct store *store, int64_t now_ms)
{
    enum { PAUSE_MS = 1000 };
    const int64_t since = now_ms - store->ballast_ms;

    /* Negative after the wall clock was set back: counts as long ago. */
    if (!store->is_missing_ballast || (since >= 0 && since < PAUSE_MS))
        return;
    store->ballast_ms = now_ms;
    space_make_ballast(store);
}

void space_open(struct store *store, const struct store_rules *rules)
{
    must(rules->max_bytes >= 0);
    store->has_ballast = rules->has_ballast && !store->memory;
    store->ballast_ms = INT64_MIN / 2;
    space_limits(store, rules->max_bytes);
}

void space_first_ballast(struct store *store)
{
    must(store->db != NULL);
    if (store->has_ballast)
        space_make_ballast(store);
}

int space_for_copy(const char *path, int64_t bytes, const char *what, struct err *err)
{
    struct volume volume;

    must(bytes >= 0);
    if (!volume_look(path, &volume) || volume.free_bytes >= bytes + mib)
        return 0;
    return err_set(err, ERR_FULL, "%s: %s takes %lld MiB on this disk, and %lld MiB are free", path,
                   what, (long long)(bytes / mib + 1), (long long)(volume.free_bytes / mib));
}

enum store_space store_space(const struct store *store)
{
    must(store != NULL);
    return (enum store_space)atomic_load(&store->space);
}
