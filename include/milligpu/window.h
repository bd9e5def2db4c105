/*
 * window - a calendar window: the hours of a week in which a rule of a policy holds, such as
 * "Mon-Fri 08:00-20:00 Europe/Berlin".
 *
 * Up to three words, each of which may be left out, but not all of them:
 *
 *   days    Mon-Fri   Sat,Sun   Mon-Wed,Fri   Fri-Mon   daily      else: daily
 *   times   08:00-20:00   20:00-08:00   00:00-24:00                else: the whole day
 *   zone    a name of tzdata, such as Europe/Berlin                else: UTC
 *
 * The first time belongs to the window, the second one does not. If the second is not later than
 * the first, it is of the next day: "Fri 20:00-08:00" ends on Saturday morning.
 *
 * A window holds at a moment exactly if it holds what wall clocks in the zone show at that moment.
 * So where clocks are put forward over its start, it begins with that jump; where they are put back
 * over its start or its end, it holds twice.
 *
 * Pure.
 */
#ifndef MILLIGPU_WINDOW_H
#define MILLIGPU_WINDOW_H

#include "milligpu/strbuf.h"
#include "milligpu/zone.h"

struct window {
    uint8_t days;     /* bit 0: Monday */
    int32_t from_min; /* of the day */
    int32_t minutes;  /* at most a whole day */
    char zone[ZONE_NAME_BYTES_MAX + 1];
};

/*
 * ERR_INVALID: the text names the word and what would be right. Whether there is such a zone is for
 * zone_load() to say.
 */
int window_parse(struct text text, struct window *out, struct err *err) MUST_USE;

/* The canonical text, with all three words; windows that differ only in writing have the same. */
void window_format(const struct window *window, struct strbuf *out);

/* Does it hold all the time? (There is none that never holds.) */
bool window_always(const struct window *window);

/* zone: the one that the window names. */
bool window_holds(const struct window *window, const struct zone *zone, int64_t utc_ms);

/*
 * The first moment after utc_ms at which window_holds() gives another answer than at utc_ms.
 * INT64_MAX: it never does.
 */
int64_t window_next_ms(const struct window *window, const struct zone *zone, int64_t utc_ms);

#endif
