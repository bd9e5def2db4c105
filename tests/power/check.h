/*
 * check - one image, opened by the real store.
 */
#ifndef MILLIGPU_TESTS_POWER_CHECK_H
#define MILLIGPU_TESTS_POWER_CHECK_H

#include "disk_image.h"

enum { CHECK_TEXT_BYTES = 512 };

/* What the ledger turned out to hold. */
struct check_found {
    bool broken; /* it did not open, or was no state of the load; text says why */
    bool claimed;
    uint32_t state;
    char text[CHECK_TEXT_BYTES];
};

enum check_depth {
    CHECK_STATE,   /* it opens, which checks its pages and live tables; it is a state of the load */
    CHECK_AUDIT,   /* ... and the verification of everything, history and journal as well */
    CHECK_GOES_ON, /* ... and one more batch, an orderly end, and another start */
};

/* Put what is built on the disk, open it, load it, compare it with the states of the load. */
void check_ledger(const struct disk_image *image, const struct trace_event *at,
                  enum check_depth depth, struct check_found *out);

/* The same for one finished backup, by its name. */
void check_copy(const struct disk_image *image, const char *name, struct check_found *out);

#endif
