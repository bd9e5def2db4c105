/*
 * base - macros that every other file uses.
 *
 * must() asserts a condition that only a bug of ours can make false, also in release builds: it
 * prints the place and aborts. Outside input never reaches a must(); it is refused on reading.
 *
 * CLEANUP and STEAL make ownership visible: CLEANUP at the declaration of an owning local names its
 * destructor, and STEAL marks the transfer.
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
 * Exempts a large local from the zeroing of locals in release builds (cmake/Options.cmake), in code
 * that runs once per node. The local must be filled before it is read.
 */
#if __has_attribute(uninitialized)
#define UNSET __attribute__((uninitialized))
#else
#define UNSET
#endif

/* ARRAY_LEN of a pointer does not compile. */
#define ARRAY_LEN(a)                                                                               \
    (sizeof(a) / sizeof((a)[0]) +                                                                  \
     0 * sizeof(struct {                                                                           \
         static_assert(!__builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0])),          \
                       "ARRAY_LEN of a pointer");                                                  \
         int unused_;                                                                              \
     }))

/* Prints the place and the condition of a bug, then aborts. */
_Noreturn void must_fail(const char *file, int line, const char *what);

#define must(condition)                                                                            \
    (__builtin_expect(!!(condition), 1) ? (void)0 : must_fail(__FILE__, __LINE__, #condition))

/* Marks an unreachable place; why names the rule that forbids it. */
#define must_not_reach(why) must_fail(__FILE__, __LINE__, why)

/* For checks that cost more than O(1): disabled in release builds. */
#ifdef MILLIGPU_MUST_DEBUG
#define must_debug(condition) must(condition)
#else
#define must_debug(condition) ((void)sizeof(!!(condition)))
#endif

/* Runs fn(&local) when the local goes out of scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Moves the pointer out of its owning local, which becomes NULL. */
#define STEAL(pointer)                                                                             \
    __extension__({                                                                                \
        __typeof__(&(pointer)) steal_from_ = &(pointer);                                           \
        __typeof__(pointer) stolen_ = *steal_from_;                                                \
        *steal_from_ = NULL;                                                                       \
        stolen_;                                                                                   \
    })

/*
 * DEFINE_FREEP(struct store, store_close) defines store_closep(struct store **) for CLEANUP, a
 * no-op for NULL.
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
