/*
 * base - what every other file uses.
 *
 * must() states a condition that only a bug of ours can make false: it stays on in release builds,
 * prints the place and aborts. Input from outside never reaches a must(): it is refused where it is
 * read.
 *
 * CLEANUP and STEAL make ownership readable: the declaration of a local that owns something says
 * how it is released, and STEAL marks where it is handed over.
 *
 *     CLEANUP(freep) char *name = xstrdup(given);
 *     ...
 *     return STEAL(name);
 *
 * Pure except for must_fail(); any thread.
 */
#ifndef MILLIGPU_BASE_H
#define MILLIGPU_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define MUST_USE                 __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#define NONNULL_RETURN           __attribute__((returns_nonnull))
#define UNUSED                   __attribute__((unused))

/*
 * For a large variable that is always filled before it is read, in code that runs once per node:
 * the compiler does not zero it, as it does with all others in a release build
 * (cmake/Options.cmake).
 */
#if __has_attribute(uninitialized)
#define UNSET __attribute__((uninitialized))
#else
#define UNSET
#endif

/* Accepts arrays only: a pointer does not compile. */
#define ARRAY_LEN(a)                                                                               \
    (sizeof(a) / sizeof((a)[0]) +                                                                  \
     0 * sizeof(struct {                                                                           \
         static_assert(!__builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0])),          \
                       "ARRAY_LEN of a pointer");                                                  \
         int unused_;                                                                              \
     }))

/* Reports a bug: prints the place and the condition, then aborts. */
_Noreturn void must_fail(const char *file, int line, const char *what);

#define must(condition)                                                                            \
    (__builtin_expect(!!(condition), 1) ? (void)0 : must_fail(__FILE__, __LINE__, #condition))

/* Marks a place that no state of the program reaches; why names the rule that forbids it. */
#define must_not_reach(why) must_fail(__FILE__, __LINE__, why)

/* For checks that cost more than O(1): active in every build except release. */
#ifdef MILLIGPU_MUST_DEBUG
#define must_debug(condition) must(condition)
#else
#define must_debug(condition) ((void)sizeof(!!(condition)))
#endif

/* Runs fn(&local) when the local goes out of scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Takes the pointer out of a local that owns it, so that nothing is left to clean up. */
#define STEAL(pointer)                                                                             \
    __extension__({                                                                                \
        __typeof__(&(pointer)) steal_from_ = &(pointer);                                           \
        __typeof__(pointer) stolen_ = *steal_from_;                                                \
        *steal_from_ = NULL;                                                                       \
        stolen_;                                                                                   \
    })

/*
 * DEFINE_FREEP(struct store, store_close) defines store_closep(struct store **), which CLEANUP
 * needs. It does nothing for NULL, so a half-built object is fine.
 */
#define DEFINE_FREEP(type, fn)                                                                     \
    UNUSED static inline void fn##p(type **at) /* NOLINT(bugprone-macro-parentheses) */            \
    {                                                                                              \
        if (*at != NULL)                                                                           \
            fn(*at);                                                                               \
        *at = NULL;                                                                                \
    }                                                                                              \
    struct freep_takes_a_semicolon_

/* For CLEANUP(freep): memory from malloc or the xmalloc family. */
UNUSED static inline void freep(void *at)
{
    void **pointer = at;
    free(*pointer);
    *pointer = NULL;
}

#endif
