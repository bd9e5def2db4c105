/*
 * ledger_table - runs a table of requests to a ledger; table/ledger.txt has the language.
 *
 * A line is a request, its parameters, and the exact answer: all that follows "|", else the last
 * word. A table may have requests of its own.
 */
#ifndef MILLIGPU_TESTS_LEDGER_TABLE_H
#define MILLIGPU_TESTS_LEDGER_TABLE_H

#include "milligpu/base/strbuf.h"

#include "support/core_fixture.h"
#include "support/test.h"

enum { TABLE_WORDS_MAX = 64, TABLE_PODS_MAX = 64 };

struct table {
    struct core_fixture core;
    const char *file;
    uint32_t line;
    const char *word[TABLE_WORDS_MAX + 1]; /* the request and its parameters; then NULL */
    uint32_t next;                         /* index of the next word */
    const char *expected;
    struct strbuf said; /* the answer */
    uint32_t requests;  /* number of lines that were run */
    uint32_t met[VERDICT_REFUSED + 1];
    struct {
        const char *uid;
        const struct request *request; /* of the last reserve or bind */
    } asked[TABLE_PODS_MAX];
    uint32_t n_asked;
};

struct table_request {
    const char *words; /* any of these, separated by spaces */
    void (*run)(struct table *table);
};

/* Runs the file; own ends with an entry without words. A wrong line fails the test. */
void ledger_table_run(struct table *table, const char *file, const struct table_request *own);

/* Takes the next word if it is this one. */
bool ledger_table_next_is(struct table *table, const char *word);
bool ledger_table_has_more(const struct table *table);
const char *ledger_table_next(struct table *table);
uint32_t ledger_table_number(struct table *table);
/* AMOUNT with its options; AMOUNT -: without amounts. */
struct request *ledger_table_request(struct table *table);

/* Fails the test and names the line. */
#define ledger_table_fail(table, ...)                                                              \
    do {                                                                                           \
        print_error("%s:%u: ", (table)->file, (table)->line);                                      \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

/* Each adds to the answer: just this; or a word behind a comma. */
#define ledger_table_print(table, ...) strbuf_printf(&(table)->said, __VA_ARGS__)
void ledger_table_say(struct table *table, const char *word);
void ledger_table_say_verdict(struct table *table, enum verdict verdict);

#endif
