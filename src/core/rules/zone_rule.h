/*
 * zone_rule - the yearly rule of a time zone for its offsets.
 *
 * Parsed from a POSIX TZ string with the extensions of RFC 8536:
 *
 *     CET-1CEST,M3.5.0,M10.5.0/3
 *     |  |  |   |      +-- end of summer time, in summer time
 *     |  |  |   +-- start of summer time, in standard time: month 3, last week, Sunday, 02:00
 *     |  |  +-- name of summer time; its offset, if it is not one hour more
 *     |  +-- standard offset, positive to the west
 *     +-- name of standard time
 *
 * "Summer" is the second offset, which may be smaller, or hold in winter. Pure.
 */
#ifndef MILLIGPU_CORE_ZONE_RULE_H
#define MILLIGPU_CORE_ZONE_RULE_H

#include "milligpu/base/text.h"

enum zone_date_kind {
    DATE_WEEKDAY,      /* Mm.w.d: the w-th weekday d of month m, 5 is the last one */
    DATE_WITHOUT_LEAP, /* Jn: day 1 to 365, not counting February 29 */
    DATE_DAY,          /* n: day 0 to 365 */
};

struct zone_date {
    enum zone_date_kind kind;
    int32_t month;
    int32_t week;
    int32_t day;    /* of the week (0: Sunday) or of the year */
    int32_t time_s; /* time of day on the wall clock before the change; -167 h .. 167 h */
};

struct zone_rule {
    int32_t standard_s;
    int32_t summer_s;
    bool has_summer; /* false: standard time for ever */
    struct zone_date start;
    struct zone_date end;
};

/* Returns false if text is not a rule. *out is written only on success. */
bool zone_rule_parse(struct text text, struct zone_rule *out) MUST_USE;

int32_t zone_rule_offset_s(const struct zone_rule *rule, int64_t utc_s);
/* As zone_next_s(). */
int64_t zone_rule_next_s(const struct zone_rule *rule, int64_t utc_s);

#endif
