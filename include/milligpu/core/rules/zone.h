/*
 * zone - a time zone: how far its wall clocks are ahead of UTC at any moment.
 *
 * Made from the bytes of a TZif file (RFC 8536, RFC 9636), as tzdata installs them, fat or slim: a
 * table of transitions, and a rule (a POSIX TZ string) that holds from the last of them on, for
 * ever. Before the first transition, the first type of the file holds. Files that count leap
 * seconds ("right/...") are refused: our times do not count them.
 *
 * Immutable, so any thread may read it. Pure.
 */
#ifndef MILLIGPU_ZONE_H
#define MILLIGPU_ZONE_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

enum {
    ZONE_NAME_BYTES_MAX = 64,
    ZONE_BYTES_MAX = 64 * 1024, /* of a file */
    ZONE_TRANSITIONS_MAX = 2048,
    ZONE_OFFSET_MAX_S = 26 * 3600, /* offsets lie between this and its opposite */
};

struct zone;

/*
 * Is it a name that a zone may have? Letters, digits, '_', '+', '-', and '/' between two parts:
 * nothing that leads out of a folder.
 */
bool zone_name_ok(struct text name);

/*
 * *out belongs to the caller (zone_free). ERR_INVALID, ERR_TOO_LARGE: the text names the zone and
 * what is wrong with its bytes. name: zone_name_ok().
 */
int zone_new(struct text name, struct text bytes, struct zone **out, struct err *err) MUST_USE;
struct zone *zone_utc(void) MUST_USE; /* "UTC", which needs no file */
void zone_free(struct zone *zone);
DEFINE_FREEP(struct zone, zone_free);

const char *zone_name(const struct zone *zone);
/* Do both have the same name, and come from files of the same bytes? */
bool zone_alike(const struct zone *a, const struct zone *b);

/* Seconds to add to UTC; east of Greenwich they are positive. */
int32_t zone_offset_s(const struct zone *zone, int64_t utc_s);

/*
 * The first moment after utc_s at which the offset may change: before it, the offset is the same as
 * at utc_s. INT64_MAX: it never changes again.
 */
int64_t zone_next_s(const struct zone *zone, int64_t utc_s);

#endif
