/*
 * check - one image, opened by the real store.
 */
#ifndef MILLIGPU_TESTS_POWER_CHECK_H
#define MILLIGPU_TESTS_POWER_CHECK_H

#include "disk_image.h"

enum { CHECK_TEXT_BYTES = 512 };

/* The content of the ledger. */
struct check_found {
    bool broken;      /* it did not open, or is not a state of the load; text says why */
    uint32_t learned; /* which workload; 0: none */
    bool claimed;
    uint32_t state;
    char text[CHECK_TEXT_BYTES];
};

enum check_depth {
    CHECK_STATE,   /* it opens, which checks pages and live tables, and is a state of the load */
    CHECK_AUDIT,   /* ... and the verification of everything, including history and journal */
    CHECK_GOES_ON, /* ... and one more batch, an orderly close, and another start */
};

/* Put the built image on the disk, open and load it, and compare it with the states of the load. */
void check_ledger(const struct disk_image *image, const struct trace_event *at,
                  enum check_depth depth, struct check_found *out);

/* The same for one finished backup, given by name. */
void check_copy(const struct disk_image *image, const char *name, struct check_found *out);

#endif
