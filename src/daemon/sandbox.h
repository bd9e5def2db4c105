/*
 * sandbox - limits what an attacker can do with this process.
 *
 *   start --memory is private--> listeners, ledger, threads --few system calls--> serving
 *
 * Only the system calls of a process that answers requests, calls an API server and writes files
 * remain: it cannot execute programs, create processes, trace or mount. Any other fails with
 * ENOSYS, as on a kernel that does not have it, so that a library falls back to what it did before
 * that call was invented.
 *
 * In builds with a sanitizer both do nothing, because its runtime inspects its own process.
 */
#ifndef MILLIGPU_APP_SANDBOX_H
#define MILLIGPU_APP_SANDBOX_H

#include "milligpu/base/base.h"
#include "milligpu/base/err.h"

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

/*
 * No other process of this user can read the memory, with the secrets of the ledger and the API
 * server.
 */
int sandbox_memory(struct err *err) MUST_USE;

/*
 * For every present and future thread; it cannot be undone. Whatever has to be executed or opened
 * by a call that is not in the list must be done before.
 */
int sandbox_calls(struct err *err) MUST_USE;

#endif
