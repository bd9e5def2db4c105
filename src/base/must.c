#include <stdio.h>

#include "milligpu/base/base.h"

_Noreturn void must_fail(const char *file, int line, const char *what)
{
    /* If stderr fails, too, nothing more can be done: the abort says enough. */
    (void)fprintf(stderr, "%s:%d: must: %s\n", file, line, what);
    abort();
}
