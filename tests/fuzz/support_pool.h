/*
 * support_pool - memory for SQLite from lists of free blocks.
 *
 * SQLite is not what is searched here, and the sanitizer's memory takes several times as long.
 * One thread.
 */
#ifndef MILLIGPU_TESTS_FUZZ_SUPPORT_POOL_H
#define MILLIGPU_TESTS_FUZZ_SUPPORT_POOL_H

/* Once, before anything is opened. */
void sqlite_use_pool(void);

#endif
