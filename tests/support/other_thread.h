/*
 * other_thread - what only one thread may do, tried by another.
 */
#ifndef MILLIGPU_TESTS_OTHER_THREAD_H
#define MILLIGPU_TESTS_OTHER_THREAD_H

#include "milligpu/base/base.h"

/* Runs tried(arg) on a new thread of a child process. Returns whether the child aborted. */
bool other_thread_aborts(void (*tried)(void *arg), void *arg);

#endif
