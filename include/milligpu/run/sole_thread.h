/*
 * sole_thread - checks that only one thread uses a part that has no locks.
 *
 * The first thread that enters is the sole thread for good. Callers assert the results: a second
 * thread is a bug.
 */
#ifndef MILLIGPU_SOLE_THREAD_H
#define MILLIGPU_SOLE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "milligpu/base/base.h"

struct sole_thread {
    _Atomic(pthread_t) id; /* 0 until a thread has entered */
};

/* Makes the caller the sole thread if there is none; false if another thread is. */
bool sole_thread_enter(struct sole_thread *sole) MUST_USE;

/* True if the caller is the sole thread, or there is none yet; claims nothing. */
bool sole_thread_admits(const struct sole_thread *sole) MUST_USE;

#endif
