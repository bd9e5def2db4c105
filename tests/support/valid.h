/*
 * valid - the checks of a ledger and of a node as assertions: they abort with the invariant that is
 * broken.
 */
#ifndef MILLIGPU_TESTS_VALID_H
#define MILLIGPU_TESTS_VALID_H

#include "milligpu/core/ledger/ledger.h"

void ledger_assert_valid(const struct ledger *ledger);
void node_assert_valid(const struct node *node);

#endif
