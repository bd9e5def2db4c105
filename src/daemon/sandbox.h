/*
 * sandbox - what is left to whoever takes this process over.
 *
 *   start --memory is private--> listeners, ledger, threads --few system calls--> serving
 *
 * The system calls that are left are those of a process that answers requests, asks an API server
 * and writes files: no program is executed, no process made, nothing traced or mounted.  Any other
 * fails with ENOSYS, as on a kernel that does not have it, so that a library falls back to what it
 * did before that call was invented.
 *
 * In builds with a sanitizer both do nothing: its runtime looks into its own process.
 */
#ifndef MILLIGPU_APP_SANDBOX_H
#define MILLIGPU_APP_SANDBOX_H

#include "milligpu/base.h"
#include "milligpu/err.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_BUILT 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX_BUILT 0
#endif
#endif
#ifndef SANDBOX_BUILT
#define SANDBOX_BUILT 1
#endif

/* Nobody of the same user reads the memory, with the ledger's and the API server's secrets. */
int sandbox_memory(struct err *err) MUST_USE;

/*
 * For every thread there is, and every one that comes; there is no way back.  What is to be
 * executed or opened by a call that is not in the list has to be done before.
 */
int sandbox_calls(struct err *err) MUST_USE;

#endif
