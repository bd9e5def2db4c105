/*
 * Detects a log that belongs to another file. SQLite replays every log with valid checksums, also
 * into a backup that was copied over the file after a crash. So the ledger has a random id, each
 * copy gets another one, and <file>.id records the id and the newest journal entry of the file at
 * the last complete checkpoint. Before the file is opened with its log, both are compared with the
 * file alone.
 *
 *   <file>.id    "0123456789abcdef0123456789abcdef 4711\n": id, seq
 *                "0123456789abcdef0123456789abcdef 4711 copying\n": a checkpoint has begun
 *
 * The file alone is a mix of two moments while the log is copied: its newest entry may be an old
 * one. So only the id counts then.
 *
 * Called by store.c at start, by checkpointer.c before each checkpoint and by maintain.c after it,
 * by backup.c for copies, and by quiet_file.c in milligpuctl. In order: the side file, the ledger
 * alone, comparing, copies.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/run/file.h"

#include "store/store_internal.h"

enum { LEDGER_ID_LEN = 32, SIDE_BYTES_MAX = 128 };

static const char copying_text[] = " copying\n";

/* The identity of a file without its log. */
struct ledger_id {
    char id[LEDGER_ID_LEN + 1]; /* "": none */
    int64_t seq;                /* number of the newest journal entry; -1: not readable */
    bool is_copying;            /* in the side file only */
};

/* --- the side file --- */

static bool is_id(const char *text)
{
    must(text != NULL);
    return strlen(text) == LEDGER_ID_LEN && strspn(text, "0123456789abcdef") == LEDGER_ID_LEN;
}

/* False: the file is missing, or was not written by us and is ignored. */
static bool side_read(const char *path, struct ledger_id *out)
{
    CLEANUP(xfreep) char *name = file_beside(path, ".id");
    CLEANUP(xfreep) char *text = NULL;
    size_t length = 0;
    struct err err;

    must(out != NULL);
    if (file_read(name, SIDE_BYTES_MAX, &text, &length, &err) < 0 || length <= LEDGER_ID_LEN ||
        text[LEDGER_ID_LEN] != ' ')
        return false;
    memcpy(out->id, text, LEDGER_ID_LEN);
    out->id[LEDGER_ID_LEN] = '\0';
    char *end = text;
    errno = 0;
    out->seq = strtoll(text + LEDGER_ID_LEN + 1, &end, 10);
    out->is_copying = strcmp(end, copying_text) == 0;
    return errno == 0 && (out->is_copying || strcmp(end, "\n") == 0) && is_id(out->id) &&
           out->seq >= 0;
}

/* Atomic: file_replace() writes a temporary file, syncs and renames it. */
static int side_write(const char *path, const struct ledger_id *id, struct err *err)
{
    CLEANUP(xfreep) char *name = file_beside(path, ".id");
    char text[SIDE_BYTES_MAX];

    must(is_id(id->id) && id->seq >= 0);
    const int length = snprintf(text, sizeof text, "%s %" PRId64 "%s", id->id, id->seq,
                                id->is_copying ? copying_text : "\n");
    must(length > 0 && (size_t)length < sizeof text);
    return file_replace(name, (struct text){text, (size_t)length}, err);
}

/* For a replaced ledger, before its log begins: the old id does not apply to it. */
static int side_remove(const char *path, struct err *err)
{
    CLEANUP(xfreep) char *name = file_beside(path, ".id");

    must(path[0] == '/');
    if (unlink(name) == 0)
        return file_sync_folder(path, err);
    return errno == ENOENT ? 0 : err_set(err, ERR_IO, "%s: %m", name);
}

/* --- the ledger alone --- */

/* "" without a column id (an older version) or without a row. */
static int read_id(sqlite3 *db, char out[LEDGER_ID_LEN + 1], struct err *err)
{
    int64_t columns = 0;

    out[0] = '\0';
    const int failed = db_number(
        db, "SELECT count(*) FROM pragma_table_info('meta') WHERE name = 'id'", &columns, err);
    if (failed != 0 || columns == 0)
        return failed;
    return db_sentence(db, "SELECT id FROM meta", out, LEDGER_ID_LEN + 1, err);
}

static int read_seq(sqlite3 *db, int64_t *out, struct err *err)
{
    must(out != NULL);
    return db_number(db,
                     "SELECT max(seq) FROM (SELECT max(seq) AS seq FROM journal UNION ALL "
                     "SELECT folded FROM meta)",
                     out, err);
}

/*
 * Reads the file as immutable, which ignores its log. After an interrupted checkpoint the file is a
 * mix of two moments: values that cannot be read are left open.
 */
static bool read_alone(const char *path, struct ledger_id *out)
{
    CLEANUP(db_closep) sqlite3 *db = NULL;
    struct err err;

    must(path[0] != '\0');
    if (db_open(path, DB_STILL, &db, &err) != 0 || read_id(db, out->id, &err) != 0)
        return false;
    if (read_seq(db, &out->seq, &err) != 0)
        out->seq = -1;
    return true;
}

/* --- comparing --- */

/* Does the file match the side file? True if that cannot be determined. */
static bool is_the_same(const char *path)
{
    struct ledger_id seen;
    struct ledger_id id = {.seq = -1};

    if (!side_read(path, &seen) || !read_alone(path, &id))
        return true;
    return strcmp(seen.id, id.id) == 0 && (seen.is_copying || id.seq < 0 || id.seq >= seen.seq);
}

int ledger_id_compare(const char *path, struct err *err)
{
    must(path[0] != '\0'); /* may be relative in milligpuctl */
    if (file_bytes(path, "") == 0 || file_bytes(path, "-wal") == 0 || is_the_same(path))
        return 0;
    return err_set(err, ERR_CONFLICT,
                   "%s: its log %s-wal belongs to another file: the ledger was replaced after "
                   "milligpud had been killed; to use a backup, run: milligpuctl restore BACKUP %s",
                   path, path, path);
}

int ledger_id_accept(const char *path, struct err *err)
{
    const int failed = ledger_id_compare(path, err);

    if (failed != 0)
        return failed;
    /* An empty file is a new ledger: SQLite deletes a log beside it. */
    if (file_bytes(path, "") == 0 || !is_the_same(path))
        return side_remove(path, err);
    return 0;
}

int ledger_id_mark(const char *path, struct err *err)
{
    struct ledger_id seen;

    must(path[0] == '/');
    if (!side_read(path, &seen))
        return 0;
    if (seen.is_copying)
        return file_sync_folder(path, err); /* maybe it failed then */
    seen.is_copying = true;
    /* A full disk must not keep the log from being copied. Without the file nothing is compared. */
    if (side_write(path, &seen, err) != 0)
        return side_remove(path, err);
    return file_sync_folder(path, err);
}

int ledger_id_note(const struct store *store, struct err *err)
{
    struct ledger_id id = {.seq = (int64_t)store->seq_stable};

    must(!store->in_batch);
    if (store->memory)
        return 0;
    const int failed = read_id(store->db, id.id, err);
    if (failed != 0 || !is_id(id.id))
        return failed;
    return side_write(store->path, &id, err);
}

/* --- copies --- */

int ledger_id_stamp_copy(sqlite3 *copy, struct err *err)
{
    int64_t columns = 0;

    must(copy != NULL);
    const int failed =
        db_number(copy, "SELECT count(*) FROM pragma_table_info('meta') WHERE name = 'is_copy'",
                  &columns, err);
    if (failed != 0 || columns == 0)
        return failed;
    return db_exec(copy, "UPDATE meta SET id = lower(hex(randomblob(16))), is_copy = 1", err);
}
