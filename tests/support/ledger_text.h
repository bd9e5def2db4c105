/*
 * ledger_text - all rows of a ledger file as text, in one fixed order, by plain SQL.
 *
 * It uses nothing of the store, so it reads a file of any version: tables and columns are taken
 * from another file, so that a migrated ledger can be compared with the original. What tells a copy
 * from the ledger (meta.id, meta.is_copy) is left out.
 */
#ifndef MILLIGPU_TESTS_LEDGER_TEXT_H
#define MILLIGPU_TESTS_LEDGER_TEXT_H

#include "milligpu/base/base.h"

/*
 * "table column=value column=value", one line per row; yours to xfree. Aborts on anything unusual.
 */
char *ledger_text(const char *file, const char *columns_of) MUST_USE;

#endif
