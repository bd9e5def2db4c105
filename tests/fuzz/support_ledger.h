/*
 * support_ledger - a ledger file in memory (tmpfs), the checks that any such file must pass, and a
 * good one to corrupt.
 */
#ifndef MILLIGPU_TESTS_FUZZ_SUPPORT_LEDGER_H
#define MILLIGPU_TESTS_FUZZ_SUPPORT_LEDGER_H

#include "support.h"

/* The path of the file, without a log from an earlier run beside it; removed at exit. */
const char *ledger_path(void);
void ledger_put(struct text bytes);

/*
 * The bytes of a ledger with nodes, live and past allocations, a learned workload and what is
 * remembered of agents, made once by the store itself.
 */
struct text ledger_template(void);

/*
 * The file is refused with a sentence, or is opened, loaded, verified and closed without failing a
 * must(). Thorough: the store verifies it as well, writes to it and maintains it; a ledger that
 * passes every verification opens again, with the same nodes and allocations.
 */
void ledger_use(bool thorough);

/* True for one input in eight, always the same ones: verification takes most of the time. */
bool ledger_thorough(struct text input);

#endif
