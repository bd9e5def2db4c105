/*
 * zones - time zones for tests: those that are installed, and made ones.
 */
#ifndef MILLIGPU_TESTS_SUPPORT_ZONES_H
#define MILLIGPU_TESTS_SUPPORT_ZONES_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/rules/zone.h"

#define ZONES_FOLDER "/usr/share/zoneinfo"

/* The bytes of a zone of tzdata; false if there is no such file. */
bool zones_bytes(const char *name, struct strbuf *out);
/* A zone of tzdata; fails the test if it is not there or is refused. */
struct zone *zones_installed(const char *name) MUST_USE;

/* A file: counts as in its header, then what they count. */
struct tzif {
    char version; /* 0, '2', '3' or '4' */
    size_t transitions;
    size_t n_types;
    const int64_t *at_s;
    const uint8_t *type;
    const int32_t *offset_s; /* of each type */
    const char *footer;
    uint32_t leaps; /* in the header, and as many empty records */
};
void tzif_write(const struct tzif *file, struct strbuf *out);

/* A zone without transitions, in which the rule always holds; fails the test if it is refused. */
struct zone *zones_of_rule(const char *name, const char *rule) MUST_USE;

#endif
