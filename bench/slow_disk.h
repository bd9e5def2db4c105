/*
 * slow_disk - makes syncs of SQLite's files as slow as those of a disk behind a network.
 *
 * A sync takes SLOW_SYNC_US, and SLOW_PLACE_US for each place of the file that was written to since
 * the one before; writes behind each other, or to the same 4 KiB, are one place.
 */
#ifndef MILLIGPU_BENCH_SLOW_DISK_H
#define MILLIGPU_BENCH_SLOW_DISK_H

#include "milligpu/base/base.h"

enum { SLOW_SYNC_US = 1000, SLOW_PLACE_US = 200 };

/* Before the first ledger is opened. The disk is fast until it is made slow. */
void slow_disk_install(void);
void slow_disk_set(bool is_slow);

#endif
