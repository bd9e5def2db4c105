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
int shelf_tear_down(void **state);
#define SHELF_TEST(name) TEST_WITH(name, struct shelf *shelf, shelf_set_up, shelf_tear_down)

void shelf_open(struct shelf *shelf);                         /* must succeed */
int shelf_try(struct shelf *shelf, struct err *err) MUST_USE; /* may be refused */
void shelf_close(struct shelf *shelf);

/* Within an open batch: writes what is new and returns how the last write ended. */
enum store_outcome shelf_write(struct shelf *shelf, struct err *err);
void shelf_save(struct shelf *shelf); /* begin, write, commit: all must succeed */
void shelf_turn(struct shelf *shelf);
void shelf_same(struct shelf *shelf);  /* disk and memory must agree */
void shelf_sound(struct shelf *shelf); /* store_verify() must find nothing */

/* Runs SQL past the store, on a plain connection. Returns SQLite's code. */
int shelf_sql(const char *path, const char *sql);
long long shelf_number(const char *path, const char *sql);

/* The same with our triggers and CHECKs off, to make a file that we would never write. */
void shelf_spoil(const struct shelf *shelf, const char *sql);

/* The number of files in the folder whose names contain part. */
int shelf_files(const struct shelf *shelf, const char *part);

#endif
