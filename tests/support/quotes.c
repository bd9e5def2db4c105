#include "quotes.h"

#include <string.h>

#include "milligpu/base/alloc.h"

char *with_quotes(const char *text)
{
    char *copy = xstrdup(text);

    for (char *at = copy; (at = strchr(at, '\'')) != NULL; at++)
        *at = '"';
    return copy;
}
