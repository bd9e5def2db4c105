/*
 * ledger_text - all rows of a ledger file as text, in one fixed order, by plain SQL.
 *
 * Nothing of the store is in it, so it reads a file of any version as it is: the tables and columns
 * are those of another file, so that a migrated ledger can be held against the one that it was.
 */
#ifndef MILLIGPU_TESTS_LEDGER_TEXT_H
#define MILLIGPU_TESTS_LEDGER_TEXT_H

#include "milligpu/base.h"

/* "table column=value column=value", a line each; yours to xfree.  Aborts on anything unusual. */
char *ledger_text(const char *file, const char *columns_of) MUST_USE;

#endif
