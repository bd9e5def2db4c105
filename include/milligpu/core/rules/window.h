/*
 * window - a calendar window: the hours of a week in which a rule of a policy holds, such as
 * "Mon-Fri 08:00-20:00 Europe/Berlin".
 *
 * Up to four optional words, at least one of them present:
 *
 *   dates   2026-12-24   2026-12-24..2027-01-02                    else: for ever
 *   days    Mon-Fri   Sat,Sun   Mon-Wed,Fri   Fri-Mon   daily      else: daily
 *   times   08:00-20:00   20:00-08:00   00:00-24:00                else: the whole day
 *   zone    a name of tzdata, such as Europe/Berlin                else: UTC
 *
 * The start time is inclusive, the end time exclusive. An end that is not later than the start is
 * on the next day: "Fri 20:00-08:00" ends on Saturday morning. "Fri 20:00-Mon 08:00" spans several
 * days, less than a week. Dates and days refer to the start.
 *
 * A window holds whenever it contains the wall-clock time of its zone. If clocks are set forward
 * past its start, it begins at that jump; if they are set back past its start or end, it holds
 * twice.
 *
 * Pure.
 */
#ifndef MILLIGPU_WINDOW_H
#define MILLIGPU_WINDOW_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/rules/zone.h"

struct window {
    uint8_t days;     /* bit 0: Monday */
    int32_t from_min; /* start, in minutes of the day */
    int32_t minutes;  /* duration: at most one day, or less than a week if days is one day */
    bool dated;
    /* with dated: first and last date of a start, in days since 1970 */
    int32_t first_date;
    int32_t last_date;
    char zone[ZONE_NAME_BYTES_MAX + 1];
};

/*
 * ERR_INVALID: the text names the word and a correct form. The zone's existence is checked by
 * zone_load() only.
 */
int window_parse(struct text text, struct window *out, struct err *err) MUST_USE;

/* Appends the canonical text with all words, the same for equivalent spellings. */
void window_format(const struct window *window, struct strbuf *out);

/* Does it always hold? (No window never holds, but its dates may have passed.) */
bool window_always(const struct window *window);

/* zone: the window's zone. */
bool window_holds(const struct window *window, const struct zone *zone, int64_t utc_ms);

/* The first time after utc_ms at which the result of window_holds() changes; INT64_MAX: never. */
int64_t window_next_ms(const struct window *window, const struct zone *zone, int64_t utc_ms);

#endif
