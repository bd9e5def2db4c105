/*
 * shelf - a ledger in memory and one on disk, kept side by side, for tests.
 *
 * What is done in the world is written by shelf_save(), as one batch.  shelf_turn() closes the
 * file, opens it again, loads it, and compares what it gives with the world.
 */
#ifndef MILLIGPU_TESTS_SHELF_H
#define MILLIGPU_TESTS_SHELF_H

#include "milligpu/store.h"

#include "support/core_fixture.h"

struct shelf {
    struct core_fixture core;
    struct store *store; /* NULL: closed */
    struct store_ops ops;
    struct store_rules rules;
    size_t written; /* changes of the world that are on disk */
    char folder[64];
    char path[96];
    struct strbuf notices; /* a line each */
};

void shelf_init(struct shelf *shelf);
void shelf_done(struct shelf *shelf); /* removes the folder */

void shelf_open(struct shelf *shelf);                         /* must succeed */
int shelf_try(struct shelf *shelf, struct err *err) MUST_USE; /* may be refused */
void shelf_close(struct shelf *shelf);

/* Within an open batch: write what is new; how the last of them ended. */
enum store_outcome shelf_write(struct shelf *shelf, struct err *err);
void shelf_save(struct shelf *shelf); /* begin, write, commit: all must succeed */
void shelf_turn(struct shelf *shelf);
void shelf_same(struct shelf *shelf); /* what is on disk is what the world is */

/* SQL beside the store, on a connection without any care.  Returns SQLite's code. */
int shelf_sql(const char *path, const char *sql);
long long shelf_number(const char *path, const char *sql);

/* The same without our triggers and CHECKs for a moment: a file that we would never write. */
void shelf_spoil(const struct shelf *shelf, const char *sql);

/* The folder's file names that contain part. */
int shelf_files(const struct shelf *shelf, const char *part);

#endif
