#include <stdio.h>

#include "milligpu/base.h"

_Noreturn void must_fail(const char *file, int line, const char *what)
{
    /* Nothing can be done if stderr is gone too: the abort says enough. */
    (void)fprintf(stderr, "%s:%d: must: %s\n", file, line, what);
    abort();
}
