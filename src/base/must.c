/* Reports a failed must() and aborts; any thread. */
#include <stdio.h>

#include "milligpu/base/base.h"

_Noreturn void must_fail(const char *file, int line, const char *what)
{
    /* A failed write to stderr is ignored: abort() follows. */
    (void)fprintf(stderr, "%s:%d: must: %s\n", file, line, what);
    abort();
}
