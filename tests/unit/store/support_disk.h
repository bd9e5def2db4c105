/*
 * disk - a disk that fails when told to: a SQLite VFS around the real one.
 *
 * disk_install() makes it the default for the rest of the process.  Calls that change a file
 * are counted.
 */
#ifndef MILLIGPU_TESTS_DISK_H
#define MILLIGPU_TESTS_DISK_H

#include <stdbool.h>

void disk_install(void);

/* The n-th write, sync or truncation from now on gives rc; lasting: and all after it.  0: none. */
void disk_fail(int n, int rc, bool lasting);

/* How many have failed since. */
int disk_failed(void);

#endif
