/*
 * support_pool - memory for SQLite from lists of free blocks.
 *
 * SQLite itself is not under test here, and the sanitizer's allocator takes several times as long.
 * Single-threaded.
 */
#ifndef MILLIGPU_TESTS_FUZZ_SUPPORT_POOL_H
#define MILLIGPU_TESTS_FUZZ_SUPPORT_POOL_H

/* Call once, before anything is opened. */
void sqlite_use_pool(void);

#endif
