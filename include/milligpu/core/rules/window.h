/*
 * window - a calendar window: the hours of a week in which a rule of a policy holds, such as
 * "Mon-Fri 08:00-20:00 Europe/Berlin".
 *
 * Up to four words, each of which may be left out, but not all of them:
 *
 *   dates   2026-12-24   2026-12-24..2027-01-02                    else: for ever
 *   days    Mon-Fri   Sat,Sun   Mon-Wed,Fri   Fri-Mon   daily      else: daily
 *   times   08:00-20:00   20:00-08:00   00:00-24:00                else: the whole day
 *   zone    a name of tzdata, such as Europe/Berlin                else: UTC
 *
 * The first time belongs to the window, the second one does not. If the second is not later than
 * the first, it is of the next day: "Fri 20:00-08:00" ends on Saturday morning. "Fri 20:00-Mon
 * 08:00" goes on over several days, less than a week. Dates and days are those on which it begins.
 *
 * A window holds at a moment exactly if it holds what wall clocks in the zone show at that moment.
 * So where clocks are put forward over its start, it begins with that jump; where they are put back
 * over its start or its end, it holds twice.
 *
 * Pure.
 */
#ifndef MILLIGPU_WINDOW_H
#define MILLIGPU_WINDOW_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/rules/zone.h"

struct window {
    uint8_t days;     /* bit 0: Monday */
    int32_t from_min; /* of the day */
    int32_t
        minutes; /* at most a whole day; less than a week, if it begins on one day of the week */
    bool dated;
    int32_t first_date; /* with dated: days since 1970, the first and the last on which it begins */
    int32_t last_date;
    char zone[ZONE_NAME_BYTES_MAX + 1];
};

/*
 * ERR_INVALID: the text names the word and what would be right. Whether there is such a zone is for
 * zone_load() to say.
 */
int window_parse(struct text text, struct window *out, struct err *err) MUST_USE;

/* The canonical text, with all words; windows that differ only in writing have the same. */
void window_format(const struct window *window, struct strbuf *out);

/* Does it hold all the time? (There is none that never holds, but dates may be over.) */
bool window_always(const struct window *window);

/* zone: the one that the window names. */
bool window_holds(const struct window *window, const struct zone *zone, int64_t utc_ms);

/*
 * The first moment after utc_ms at which window_holds() gives another answer than at utc_ms.
 * INT64_MAX: it never does.
 */
int64_t window_next_ms(const struct window *window, const struct zone *zone, int64_t utc_ms);

#endif
