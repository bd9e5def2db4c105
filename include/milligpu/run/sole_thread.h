/*
 * sole_thread - the one thread that may touch a part without locks.
 *
 * The first thread that enters is the sole thread, for good. A program with one thread needs
 * nothing else. Callers assert the results: a second thread is a bug.
 */
#ifndef MILLIGPU_SOLE_THREAD_H
#define MILLIGPU_SOLE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "milligpu/base/base.h"

struct sole_thread {
    _Atomic(pthread_t) id; /* 0: no thread has entered */
};

/* The caller becomes the sole thread if there is none. False: another thread is. */
bool sole_thread_enter(struct sole_thread *sole) MUST_USE;

/* For what other threads may do as long as no thread has entered. Claims nothing. */
bool sole_thread_admits(const struct sole_thread *sole) MUST_USE;

#endif
