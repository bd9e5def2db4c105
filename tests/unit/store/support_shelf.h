/*
 * shelf - a ledger in memory and one on disk, kept side by side, for tests.
 *
 * shelf_save() writes what changed in memory, as one batch. shelf_turn() closes the file, reopens
 * and loads it, and compares it with the ledger in memory.
 */
#ifndef MILLIGPU_TESTS_SHELF_H
#define MILLIGPU_TESTS_SHELF_H

#include "milligpu/store/store.h"

#include "support/core_fixture.h"

struct shelf {
    struct core_fixture core;
    struct store *store; /* NULL: closed */
    struct store_ops ops;
    struct store_rules rules;
    size_t written; /* changes in memory that are on disk */
    char folder[64];
    char path[96];
    struct strbuf notices; /* one line each */
};

void shelf_init(struct shelf *shelf);
void shelf_done(struct shelf *shelf); /* removes the folder */

/* For cmocka: an open shelf, alone in its process. */
int shelf_set_up(void **state);
int shelf_set_up_closed(void **state);
int shelf_tear_down(void **state);
#define SHELF_TEST(name) SHELF_TEST_BETWEEN(name, shelf_set_up, shelf_tear_down)

/* A test with two parameters, `shelf` and its `core`; set_up has stored the shelf in *state. */
#define SHELF_TEST_BETWEEN(name, set_up, tear_down)                                                \
    static void with_core_##name(struct shelf *shelf, struct core_fixture *core);                  \
    TEST_WITH(name, struct shelf *shelf, set_up, tear_down)                                        \
    {                                                                                              \
        with_core_##name(shelf, &shelf->core);                                                     \
    }                                                                                              \
    static void with_core_##name(struct shelf *shelf __attribute__((unused)),                      \
                                 struct core_fixture *core __attribute__((unused)))

/* Two GPUs of 80 GiB: with UUIDs, and known by number only. */
extern const struct core_gpu two_a100[2];
extern const struct core_gpu two_counted[2];

void shelf_open(struct shelf *shelf);                         /* must succeed */
int shelf_try(struct shelf *shelf, struct err *err) MUST_USE; /* may be refused */
void shelf_close(struct shelf *shelf);
/* Closed, without its file, and nothing in memory. */
void shelf_begin_anew(struct shelf *shelf);
/* Undoes what is not committed, in the file and in memory. */
void shelf_take_back(struct shelf *shelf);

/* Each must succeed. */
void shelf_begin(struct shelf *shelf);
void shelf_commit(struct shelf *shelf);
void shelf_maintain(struct shelf *shelf, int64_t now_ms);

/* Within an open batch: writes what is new and returns how the last write ended. */
enum store_outcome shelf_write(struct shelf *shelf, struct err *err);
void shelf_save(struct shelf *shelf); /* begin, write, commit: all must succeed */
void shelf_turn(struct shelf *shelf);
void shelf_save_and_turn(struct shelf *shelf);
void shelf_same(struct shelf *shelf);  /* disk and memory must agree */
void shelf_sound(struct shelf *shelf); /* store_verify() must find nothing */

/* Runs SQL past the store, on a plain connection. Returns SQLite's code. */
int shelf_sql(const char *path, const char *sql);
void shelf_run(const struct shelf *shelf, const char *sql); /* must succeed */
long long shelf_number(const char *path, const char *sql);
#define assert_sql(shelf, sql, number)                                                             \
    assert_int_equal(shelf_number((shelf)->path, (sql)), (number))

/* The same with our triggers and CHECKs off, to make a file that we would never write. */
void shelf_spoil(const struct shelf *shelf, const char *sql);

/* A trigger stands for any reason of SQLite to refuse a row; what: "BEFORE INSERT ON agent". */
void shelf_refuse(const struct shelf *shelf, const char *what);
void shelf_allow(const struct shelf *shelf);

/* Opens the file and log of this one as kill -9 would leave them, or a backup. shelf_done() it. */
void shelf_open_killed(const struct shelf *shelf, struct shelf *out);
void shelf_open_backup(const struct shelf *shelf, struct shelf *out);

void put_file(const char *path, const void *bytes, size_t count);
char *get_file(const char *path, size_t *out_bytes) MUST_USE; /* xfree it */

/* The number of files in the folder whose names contain part. */
int shelf_files(const struct shelf *shelf, const char *part);

#endif
