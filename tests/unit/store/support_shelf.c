#include "support_shelf.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"

#include "support/store_checks.h"
#include "support/valid.h"

const struct core_gpu two_a100[2] = {{.id = "GPU-a", .index = 0, .mib = 81920},
                                     {.id = "GPU-b", .index = 1, .mib = 81920}};
const struct core_gpu two_counted[2] = {{.index = 0, .mib = 81920}, {.index = 1, .mib = 81920}};

static void take_notice(void *user, const char *text)
{
    struct shelf *shelf = user;
    strbuf_str(&shelf->notices, text);
    strbuf_char(&shelf->notices, '\n');
}

static void fail_with(const struct err *err)
{
    (void)fprintf(stderr, "%s\n", err->text);
    must_fail(__FILE__, __LINE__, err->text);
}

void shelf_init(struct shelf *shelf)
{
    /* These tests are not about disk speed, so they use memory where possible. */
    *shelf = (struct shelf){.folder = "/dev/shm/milligpu-shelf-XXXXXX"};
    if (mkdtemp(shelf->folder) == NULL) {
        *shelf = (struct shelf){.folder = "/tmp/milligpu-shelf-XXXXXX"};
        must(mkdtemp(shelf->folder) != NULL);
    }
    const int length = snprintf(shelf->path, sizeof shelf->path, "%s/ledger.db", shelf->folder);
    must(length > 0 && (size_t)length < sizeof shelf->path);
    shelf->rules = (struct store_rules){.path = shelf->path, .user = shelf, .notice = take_notice};
    strbuf_init(&shelf->notices);
    core_init(&shelf->core);
}

static void empty_folder(const struct shelf *shelf)
{
    DIR *dir = opendir(shelf->folder);
    must(dir != NULL);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            must(unlinkat(dirfd(dir), entry->d_name, 0) == 0);
    (void)closedir(dir);
}

void shelf_done(struct shelf *shelf)
{
    shelf_close(shelf);
    core_done(&shelf->core);
    strbuf_done(&shelf->notices);
    empty_folder(shelf);
    must(rmdir(shelf->folder) == 0);
}

int shelf_set_up_closed(void **state)
{
    static struct shelf shelf;

    shelf_init(&shelf);
    *state = &shelf;
    return 0;
}

int shelf_set_up(void **state)
{
    (void)shelf_set_up_closed(state);
    shelf_open(*state);
    return 0;
}

int shelf_tear_down(void **state)
{
    shelf_done(*state);
    return 0;
}

int shelf_try(struct shelf *shelf, struct err *err)
{
    must(shelf->store == NULL);
    const int failed = store_open(&shelf->rules, &shelf->store, err);
    must(failed <= 0 && (failed == 0) == (shelf->store != NULL));
    if (failed == 0)
        store_ops(shelf->store, &shelf->ops);
    return failed;
}

void shelf_open(struct shelf *shelf)
{
    struct err err;
    if (shelf_try(shelf, &err) < 0)
        fail_with(&err);
}

void shelf_close(struct shelf *shelf)
{
    store_close(shelf->store);
    shelf->store = NULL;
}

void shelf_begin_anew(struct shelf *shelf)
{
    shelf_close(shelf);
    must(unlink(shelf->path) == 0);
    core_done(&shelf->core);
    core_init(&shelf->core);
    shelf->written = 0;
}

void shelf_take_back(struct shelf *shelf)
{
    shelf->ops.rollback(shelf->ops.ctx);
    while (shelf->core.n_done > 0)
        core_undo(&shelf->core);
    shelf->written = 0;
}

static struct command asked(const struct core_fixture *core, const struct change *change)
{
    const struct allocation *allocation = change->after;
    const struct node *node = change->node_after != NULL ? change->node_after : change->node_before;
    struct command command = {.kind = change->kind, .at_ms = core->now_ms, .why = "test"};
    if (allocation != NULL) {
        command.uid = allocation->facts.uid;
        command.namespace = allocation->facts.namespace;
        command.name = allocation->facts.name;
    }
    if (node != NULL)
        command.node = node->name->text;
    return command;
}

enum store_outcome shelf_write(struct shelf *shelf, struct err *err)
{
    struct core_fixture *core = &shelf->core;
    enum store_outcome outcome = STORE_OK;
    while (shelf->written < core->n_done && outcome == STORE_OK) {
        const struct change *change = &core->done[shelf->written];
        const struct command command = asked(core, change);
        outcome = shelf->ops.write(shelf->ops.ctx, &command, change, err);
        if (outcome == STORE_OK)
            shelf->written++;
    }
    return outcome;
}

void shelf_begin(struct shelf *shelf)
{
    struct err err;
    if (shelf->ops.begin(shelf->ops.ctx, &err) < 0)
        fail_with(&err);
}

void shelf_commit(struct shelf *shelf)
{
    struct err err;
    if (shelf->ops.commit(shelf->ops.ctx, &err) < 0)
        fail_with(&err);
}

void shelf_maintain(struct shelf *shelf, int64_t now_ms)
{
    struct err err;
    if (shelf->ops.maintain(shelf->ops.ctx, now_ms, &err) < 0)
        fail_with(&err);
}

void shelf_save(struct shelf *shelf)
{
    struct err err;
    shelf_begin(shelf);
    if (shelf_write(shelf, &err) != STORE_OK)
        fail_with(&err);
    shelf_commit(shelf);
    core_forget_undo(&shelf->core);
    shelf->written = 0;
}

void shelf_sound(struct shelf *shelf)
{
    struct err err;

    if (store_verify(shelf->store, &err) < 0)
        fail_with(&err);
}

void shelf_same(struct shelf *shelf)
{
    struct err err;
    struct ledger *loaded = ledger_new();

    if (store_load(shelf->store, loaded, &err) < 0 || store_replay_check(shelf->store, &err) < 0)
        fail_with(&err);
    ledger_assert_valid(loaded);
    CLEANUP(xfreep) char *is = core_dump(loaded);
    CLEANUP(xfreep) char *should = core_dump(shelf->core.ledger);
    if (strcmp(is, should) != 0) {
        (void)fprintf(stderr, "on disk:\n%s\nin memory:\n%s\n", is, should);
        must_fail(__FILE__, __LINE__, "disk and memory differ");
    }
    ledger_free(loaded);
}

void shelf_turn(struct shelf *shelf)
{
    shelf_close(shelf);
    shelf_open(shelf);
    shelf_same(shelf);
    shelf_sound(shelf);
}

void shelf_save_and_turn(struct shelf *shelf)
{
    shelf_save(shelf);
    shelf_turn(shelf);
}

int shelf_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *text = NULL;
    must(sqlite3_open(path, &db) == SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 2000);
    const int rc = sqlite3_exec(db, sql, NULL, NULL, &text);
    sqlite3_free(text);
    must(sqlite3_close(db) == SQLITE_OK);
    return rc;
}

void shelf_run(const struct shelf *shelf, const char *sql)
{
    const int rc = shelf_sql(shelf->path, sql);
    if (rc != SQLITE_OK) {
        (void)fprintf(stderr, "%d for %s\n", rc, sql);
        must_fail(__FILE__, __LINE__, "the file refuses the statement");
    }
}

void shelf_spoil(const struct shelf *shelf, const char *sql)
{
    struct strbuf text;
    struct strbuf again;
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;

    strbuf_init(&text);
    strbuf_init(&again);
    strbuf_str(&text, "PRAGMA ignore_check_constraints=ON; BEGIN;");
    must(sqlite3_open(shelf->path, &db) == SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 2000);
    must(sqlite3_prepare_v2(db, "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'", -1,
                            &stmt, NULL) == SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        strbuf_printf(&text, "DROP TRIGGER %s;", (const char *)sqlite3_column_text(stmt, 0));
        strbuf_printf(&again, "%s;", (const char *)sqlite3_column_text(stmt, 1));
    }
    (void)sqlite3_finalize(stmt);
    strbuf_printf(&text, "%s; %s COMMIT", sql, again.data);
    if (sqlite3_exec(db, text.data, NULL, NULL, NULL) != SQLITE_OK) {
        (void)fprintf(stderr, "%s for %s\n", sqlite3_errmsg(db), sql);
        must_fail(__FILE__, __LINE__, "the file could not be spoilt");
    }
    must(sqlite3_close(db) == SQLITE_OK);
    strbuf_done(&text);
    strbuf_done(&again);
}

long long shelf_number(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    must(sqlite3_open(path, &db) == SQLITE_OK);
    must(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK);
    must(sqlite3_step(stmt) == SQLITE_ROW);
    const long long number = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    must(sqlite3_close(db) == SQLITE_OK);
    return number;
}

int shelf_files(const struct shelf *shelf, const char *part)
{
    int count = 0;
    DIR *dir = opendir(shelf->folder);
    must(dir != NULL);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        count += strstr(entry->d_name, part) != NULL;
    (void)closedir(dir);
    return count;
}

void put_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    must(file != NULL && fwrite(bytes, 1, count, file) == count);
    must(fclose(file) == 0);
}

char *get_file(const char *path, size_t *out_bytes)
{
    struct err err;
    char *bytes = NULL;
    if (file_read(path, 16 << 20, &bytes, out_bytes, &err) < 0)
        fail_with(&err);
    return bytes;
}

void shelf_open_killed(const struct shelf *shelf, struct shelf *out)
{
    struct err err;
    shelf_init(out);
    if (store_copy_raw(shelf->store, out->path, &err) < 0)
        fail_with(&err);
    shelf_open(out);
}

void shelf_open_backup(const struct shelf *shelf, struct shelf *out)
{
    struct err err;
    shelf_init(out);
    if (store_backup(shelf->store, out->path, &err) < 0)
        fail_with(&err);
    shelf_open(out);
}

void shelf_refuse(const struct shelf *shelf, const char *what)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql, "CREATE TRIGGER odd %s BEGIN SELECT RAISE(ABORT, 'no'); END",
                   what);
    shelf_run(shelf, sql);
}

void shelf_allow(const struct shelf *shelf)
{
    shelf_run(shelf, "DROP TRIGGER odd");
}
