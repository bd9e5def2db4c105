#include "support/valid.h"

void ledger_assert_valid(const struct ledger *ledger)
{
    struct err err;

    must(ledger != NULL);
    if (ledger_check(ledger, &err) < 0)
        must_fail(__FILE__, __LINE__, err.text);
}

void node_assert_valid(const struct node *node)
{
    struct err err;

    must(node != NULL);
    if (node_check(node, &err) < 0)
        must_fail(__FILE__, __LINE__, err.text);
}
