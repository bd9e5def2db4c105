/*
 * A zone is refused with its name, or its offset stays the same up to where zone_next_s() says. A
 * window is refused or written and read again as the same; it holds as the C library's calendar
 * says of the wall clock, and changes where window_next_ms() says and not before.
 *
 * An input: 'F' and a TZif file; or 'R', a window, a line end, and the rule of its zone.
 */
#include <string.h>
#include <time.h>

#include "milligpu/core/rules/window.h"

#include "support.h"
#include "support/zones.h"

enum { NEXTS = 6, DAY_MIN = 1440 };

static const int64_t probes_s[] = {INT64_MIN,           -INT64_C(2208988800), 0,
                                   INT64_C(1774746000), INT64_C(4102444800),  INT64_MAX - 1};

static void offsets_hold_until_the_next(const struct zone *zone)
{
    for (size_t i = 0; i < ARRAY_LEN(probes_s); i++) {
        int64_t at_s = probes_s[i];
        for (int k = 0; k < NEXTS && at_s < INT64_MAX; k++) {
            const int64_t next_s = zone_next_s(zone, at_s);
            const int32_t offset_s = zone_offset_s(zone, at_s);
            must(next_s > at_s);
            must(next_s == INT64_MAX || zone_offset_s(zone, next_s - 1) == offset_s);
            must(zone_offset_s(zone, at_s + (int64_t)(((uint64_t)next_s - (uint64_t)at_s) / 2)) ==
                 offset_s);
            at_s = next_s;
        }
    }
}

/* By the calendar of the C library. */
static bool plainly_holds(const struct window *window, const struct zone *zone, int64_t utc_s)
{
    const time_t local = utc_s + zone_offset_s(zone, utc_s);
    struct tm tm;
    must(gmtime_r(&local, &tm) != NULL);
    for (int back = 0; back <= 7; back++) {
        const int weekday = (tm.tm_wday + 6 - back + 7) % 7;
        const int since = back * DAY_MIN + tm.tm_hour * 60 + tm.tm_min - window->from_min;
        const int64_t date = (local - (((local % 86400) + 86400) % 86400)) / 86400 - back;
        if ((window->days >> weekday & 1) != 0 && since >= 0 && since < window->minutes &&
            (!window->dated || (date >= window->first_date && date <= window->last_date)))
            return true;
    }
    return false;
}

static void window_changes_at_the_next(const struct window *window, const struct zone *zone)
{
    for (size_t i = 1; i + 1 < ARRAY_LEN(probes_s); i++) {
        int64_t at_ms = probes_s[i] * 1000;
        for (int k = 0; k < NEXTS && at_ms < INT64_MAX; k++) {
            const bool now = window_holds(window, zone, at_ms);
            const int64_t next_ms = window_next_ms(window, zone, at_ms);
            must(now == plainly_holds(window, zone, at_ms / 1000));
            must(next_ms > at_ms);
            must(window->dated || (next_ms == INT64_MAX) == window_always(window));
            if (next_ms < INT64_MAX) {
                must(window_holds(window, zone, next_ms) != now);
                must(window_holds(window, zone, next_ms - 1) == now);
                must(window_holds(window, zone, at_ms + (next_ms - at_ms) / 2) == now);
            }
            at_ms = next_ms;
        }
    }
    (void)window_next_ms(window, zone, INT64_MIN);
    (void)window_next_ms(window, zone, INT64_MAX);
}

static struct zone *read_zone(const char *name, struct text bytes)
{
    struct zone *zone = NULL;
    struct err err;
    if (zone_new(text_of(name), bytes, &zone, &err) == 0)
        return zone;
    must(text_starts(text_of(err.text), "time zone "));
    must(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
    return NULL;
}

static void try_zone(struct zone *zone, const struct window *window)
{
    if (zone == NULL)
        return;
    must(strcmp(zone_name(zone), window->zone) == 0);
    offsets_hold_until_the_next(zone);
    window_changes_at_the_next(window, zone);
    zone_free(zone);
}

static bool read_window(struct text text, struct window *out)
{
    struct window again;
    struct err err;
    SCOPED_STRBUF(canonical);
    if (window_parse(text, out, &err) < 0) {
        must(err.code == ERR_INVALID);
        return false;
    }
    window_format(out, &canonical);
    must(window_parse((struct text){canonical.data, canonical.len}, &again, &err) == 0);
    must(again.days == out->days && again.from_min == out->from_min);
    must(again.minutes == out->minutes && strcmp(again.zone, out->zone) == 0);
    return true;
}

static void try_rule(const struct window *window, struct text rule)
{
    static const int32_t offset_s[] = {0};
    char footer[256];
    SCOPED_STRBUF(bytes);
    if (rule.len >= sizeof footer || memchr(rule.at, '\0', rule.len) != NULL)
        return;
    memcpy(footer, rule.at, rule.len);
    footer[rule.len] = '\0';
    const struct tzif file = {.version = '3', .n_types = 1, .offset_s = offset_s, .footer = footer};
    tzif_write(&file, &bytes);
    try_zone(read_zone(window->zone, (struct text){bytes.data, bytes.len}), window);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pieces pieces = pieces_of(data, size);
    const size_t before = heap_bytes();
    struct window window;
    if (pieces_byte(&pieces) == 'F') {
        must(read_window(TEXT("Mon-Fri 08:00-20:00 Made/Zone"), &window));
        struct zone *zone = read_zone("Made/Zone", pieces_rest(&pieces));
        heap_is_bounded(before, size);
        try_zone(zone, &window);
    } else if (read_window(pieces_until(&pieces, '\n'), &window)) {
        try_rule(&window, pieces_rest(&pieces));
    }
    return 0;
}
