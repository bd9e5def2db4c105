/*
 * zone - a time zone: its offset from UTC at any time.
 *
 * Parsed from a TZif file of tzdata (RFC 8536, RFC 9636), fat or slim: a table of transitions, and
 * a rule (a POSIX TZ string) for all times after the last transition. Before the first transition,
 * the first type of the file applies. Files with leap seconds ("right/...") are refused: our times
 * do not count them.
 *
 * Immutable: any thread may read it. Pure.
 */
#ifndef MILLIGPU_ZONE_H
#define MILLIGPU_ZONE_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

enum {
    ZONE_NAME_BYTES_MAX = 64,
    ZONE_BYTES_MAX = 64 * 1024, /* size of a file */
    ZONE_TRANSITIONS_MAX = 2048,
    ZONE_OFFSET_MAX_S = 26 * 3600, /* limit of the absolute value */
};

struct zone;

/*
 * Is it a valid zone name? Letters, digits, '_', '+', '-', and '/' between two parts: no path out
 * of the zoneinfo folder.
 */
bool zone_name_ok(struct text name);

/*
 * *out is owned by the caller (zone_free). ERR_INVALID, ERR_TOO_LARGE: the text names the zone and
 * the fault in its bytes. name: must be valid (zone_name_ok()).
 */
int zone_new(struct text name, struct text bytes, struct zone **out, struct err *err) MUST_USE;
struct zone *zone_utc(void) MUST_USE; /* "UTC", without a file */
void zone_free(struct zone *zone);
DEFINE_FREEP(struct zone, zone_free);

const char *zone_name(const struct zone *zone);
/* Have both the same name and the same file bytes? */
bool zone_alike(const struct zone *a, const struct zone *b);

/* Seconds to add to UTC: positive east of Greenwich. */
int32_t zone_offset_s(const struct zone *zone, int64_t utc_s);

/*
 * The first time after utc_s at which the offset may change; until then it is the offset at utc_s.
 * INT64_MAX: never.
 */
int64_t zone_next_s(const struct zone *zone, int64_t utc_s);

#endif
