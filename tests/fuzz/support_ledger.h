/*
 * support_ledger - a ledger file in memory (tmpfs), what is asked of whatever it holds, and a good
 * one to spoil.
 */
#ifndef MILLIGPU_TESTS_FUZZ_SUPPORT_LEDGER_H
#define MILLIGPU_TESTS_FUZZ_SUPPORT_LEDGER_H

#include "support.h"

/* Its path, with no log of an earlier run beside it; gone at exit. */
const char *ledger_path(void);
void ledger_put(struct text bytes);

/* The bytes of a ledger with nodes, live and past allocations, made once by the store itself. */
struct text ledger_template(void);

/*
 * Opened or refused with a sentence.  If opened, then loaded, verified and closed without ever
 * ending in a must().  Thorough: verified by the store as well, written to and tended; one whose
 * every verification passes opens again, with the same nodes and allocations in it.
 */
void ledger_use(bool thorough);

/* One input in eight, always the same ones: the verifications take most of the time. */
bool ledger_thorough(struct text input);

#endif
