/* Formats a notice for the opener of the store (store_rules.notice). Called by all its parts. */
#include <stdarg.h>
#include <stdio.h>

#include "store/store_internal.h"

void store_notice(const struct store *store, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    must(fmt != NULL);
    if (store->notice == NULL)
        return;
    va_start(args, fmt);
    const int length =
        vsnprintf(text, sizeof text, fmt, args); /* NOLINT(clang-analyzer-valist.*) */
    va_end(args);
    must(length >= 0);
    store->notice(store->user, text);
}
