/* Runs tests/table/ledger.txt; the language is described at its top. */
#include "support/ledger_table.h"
#include "support/test.h"

TEST(ledger__answers_each_request_of_the_table)
{
    static const struct table_request none = {NULL, NULL};
    struct table table;

    ledger_table_run(&table, "tests/table/ledger.txt", &none);
    assert_true(table.requests > 100);
    for (size_t i = 0; i < ARRAY_LEN(table.met); i++)
        assert_true(table.met[i] > 0); /* every verdict is reached */
}
