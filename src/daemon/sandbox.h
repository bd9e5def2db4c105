/*
 * sandbox - private memory and a seccomp filter, to limit an attacker inside this process.
 *
 *   start --sandbox_memory()--> listeners, ledger, threads --sandbox_calls()--> serving
 *
 * The filter allows the system calls needed to answer requests, call an API server and write files;
 * the process cannot execute programs, create processes, trace or mount. Other calls fail with
 * ENOSYS, as on a kernel without them, so that libraries fall back to older calls.
 *
 * Both functions do nothing in sanitizer builds, because a sanitizer inspects its own process.
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
 * Prevents other processes of this user from reading the memory, which holds secrets of the ledger
 * and the API server (PR_SET_DUMPABLE).
 */
int sandbox_memory(struct err *err) MUST_USE;

/*
 * Installs the filter for every present and future thread; irreversible. System calls that are not
 * in its list must be made before.
 */
int sandbox_calls(struct err *err) MUST_USE;

#endif
