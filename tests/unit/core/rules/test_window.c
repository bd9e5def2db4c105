#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "milligpu/core/rules/window.h"

#include "support/pieces.h"
#include "support/test.h"
#include "support/walk.h"
#include "support/zones.h"

enum { MINUTE_S = 60, HOUR_S = 3600, DAY_S = 86400 };

static struct window parsed(const char *text)
{
    struct window window;
    struct err err;
    if (window_parse(text_of(text), &window, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    return window;
}

/* The canonical text is read as the same window. */
static void is_written(const char *text, const char *canonical)
{
    const struct window window = parsed(text);
    struct strbuf out;
    strbuf_init(&out);
    window_format(&window, &out);
    assert_string_equal(out.data, canonical);
    const struct window again = parsed(out.data);
    assert_int_equal(again.days, window.days);
    assert_int_equal(again.from_min, window.from_min);
    assert_int_equal(again.minutes, window.minutes);
    assert_int_equal(again.dated, window.dated);
    assert_int_equal(again.first_date, window.first_date);
    assert_int_equal(again.last_date, window.last_date);
    assert_string_equal(again.zone, window.zone);
    strbuf_done(&out);
}

TEST(window__has_a_default_for_each_word)
{
    is_written("Mon-Fri 08:00-20:00 Europe/Berlin", "Mon-Fri 08:00-20:00 Europe/Berlin");
    is_written("Mon-Fri 08:00-20:00", "Mon-Fri 08:00-20:00 UTC");
    is_written("Mon-Fri Europe/Berlin", "Mon-Fri 00:00-24:00 Europe/Berlin");
    is_written("08:00-20:00 Europe/Berlin", "daily 08:00-20:00 Europe/Berlin");
    is_written("Mon-Fri", "Mon-Fri 00:00-24:00 UTC");
    is_written("08:00-20:00", "daily 08:00-20:00 UTC");
    is_written("Europe/Berlin", "daily 00:00-24:00 Europe/Berlin");
    is_written("daily", "daily 00:00-24:00 UTC");
    is_written("  daily   UTC ", "daily 00:00-24:00 UTC");
}

TEST(window_days__have_several_spellings)
{
    is_written("sat,SUN", "Sat,Sun 00:00-24:00 UTC");
    is_written("sun,sat", "Sat,Sun 00:00-24:00 UTC");
    is_written("Mon-Wed,Fri", "Mon-Wed,Fri 00:00-24:00 UTC");
    is_written("Fri,Mon-Wed", "Mon-Wed,Fri 00:00-24:00 UTC");
    is_written("Fri-Mon", "Mon,Fri-Sun 00:00-24:00 UTC");
    is_written("Sun-Mon", "Mon,Sun 00:00-24:00 UTC");
    is_written("Mon,Tue", "Mon,Tue 00:00-24:00 UTC");
    is_written("Mon-Tue", "Mon,Tue 00:00-24:00 UTC");
    is_written("Mon,Tue,Wed", "Mon-Wed 00:00-24:00 UTC");
    is_written("Mon-Sun", "daily 00:00-24:00 UTC");
    is_written("Wed-Tue", "daily 00:00-24:00 UTC");
    is_written("DAILY", "daily 00:00-24:00 UTC");
    is_written("Thu", "Thu 00:00-24:00 UTC");
    is_written("Mon,Wed,Fri,Sun", "Mon,Wed,Fri,Sun 00:00-24:00 UTC");
}

TEST(window_times__go_to_24_00_and_over_midnight)
{
    is_written("00:00-24:00", "daily 00:00-24:00 UTC");
    is_written("20:00-08:00", "daily 20:00-08:00 UTC");
    is_written("20:00-24:00", "daily 20:00-24:00 UTC");
    is_written("20:00-00:00", "daily 20:00-24:00 UTC");
    is_written("23:59-24:00", "daily 23:59-24:00 UTC");
    is_written("00:00-00:01", "daily 00:00-00:01 UTC");
    is_written("00:01-00:00", "daily 00:01-24:00 UTC");
    is_written("12:00-11:59", "daily 12:00-11:59 UTC");
    is_written("09:08-19:59", "daily 09:08-19:59 UTC");
}

TEST(window_zone__is_not_taken_for_days)
{
    is_written("Mon W-SU", "Mon 00:00-24:00 W-SU");
    is_written("GB-Eire", "daily 00:00-24:00 GB-Eire");
    is_written("W-SU", "daily 00:00-24:00 W-SU");
    is_written("Turkey", "daily 00:00-24:00 Turkey");
    is_written("WET", "daily 00:00-24:00 WET");
    is_written("GB", "daily 00:00-24:00 GB");
    is_written("Mon Z", "Mon 00:00-24:00 Z");
    is_written("EST5EDT", "daily 00:00-24:00 EST5EDT");
    is_written("Etc/GMT-5", "daily 00:00-24:00 Etc/GMT-5");
}

static void refused(const char *text, const char *why)
{
    const struct window before = {.days = 77};
    struct window window = before;
    struct err err = {0};
    if (window_parse(text_of(text), &window, &err) == 0)
        fail_msg("not refused: %s", text);
    assert_int_equal(err.code, ERR_INVALID);
    assert_memory_equal(&window, &before, sizeof window);
    assert_string_equal(err.text, why);
}

static void refused_word(const char *text, const char *word, const char *what)
{
    char why[320];
    assert_true((size_t)snprintf(why, sizeof why, "\"%s\" %s", word, what) < sizeof why);
    refused(text, why);
}

static void no_day(const char *text, const char *word)
{
    refused_word(text, word, "is not a day: write Mon, Tue, Wed, Thu, Fri, Sat or Sun");
}

static void no_zone(const char *text, const char *word)
{
    refused_word(text, word, "is not a time zone: write a name like Europe/Berlin, or UTC");
}

static void misplaced(const char *text, const char *word)
{
    refused_word(text, word, "does not belong there: write dates, days, times, zone, each once");
}

/* Each of the words, separated by blanks, is refused with the word and this text. */
static void refused_words(const char *words, const char *what)
{
    for (struct pieces list = {.rest = text_of(words)}; pieces_next(&list, ' ');)
        refused_word(list.text, list.text, what);
}

static void no_times(const char *words)
{
    refused_words(words, "is not a time of day: write 08:00-20:00, within 00:00-24:00");
}

static void no_dates(const char *words)
{
    refused_words(words, "is not a date: write 2026-12-24, or 2026-12-24..2027-01-02");
}

TEST(window__names_the_invalid_word)
{
    no_day("Monday", "Monday");
    no_day("Mo-Fr", "Mo");
    no_day("Mon-Friday", "Friday");
    no_day("su", "su");
    no_day("Mon,", "");
    no_day(",Mon", "");
    no_day("Mon,,Tue", "");
    no_day("Mon-", "");
    no_day("Mon-Fri-Sun", "Fri-Sun");
    no_day("Europe/Berlin,UTC", "Europe/Berlin");
    no_day("Xon,Mon", "Xon");
    no_day("weekday,Mon", "weekday");
    no_day("Mon,daily", "daily");
    refused("Mon-Mon", "\"Mon-Mon\" from a day to itself: write Mon, or daily");
    refused("Mon-Wed,Tue", "\"Tue\": Tue is named twice");
    refused("Sun,Fri-Mon", "\"Fri-Mon\": Sun is named twice");
    no_times("8:00-20:00 08:00 08:00-24:01 08:00-25:00 24:01-08:00 08:60-20:00 08:00-20:60 "
             "08.00-20:00 08:00-20.00 08:00_20:00 08:00-20:000 0a:00-20:00 08:a0-20:00 "
             "08:0a-20:00 08:00-a0:00 08:00-2:000 0/:00-20:00 08:/9-20:00 08:00-/9:59 "
             "0::00-20:00");
    refused("08:00-08:00", "\"08:00-08:00\" would never hold: write 00:00-24:00");
    refused("24:00-24:00", "\"24:00-24:00\" would never hold: write 00:00-24:00");
    refused("24:00-08:00",
            "\"24:00-08:00\" begins when its day is over: write 00:00 and the next day");
    no_zone("../etc/passwd", "../etc/passwd");
    no_zone("Mon :00-20:00", ":00-20:00");
    no_zone("daily\t08:00-20:00", "daily\\t08:00-20:00");
    misplaced("08:00-20:00 Mon", "Mon");
    misplaced("Europe/Berlin Mon", "Mon");
    misplaced("Europe/Berlin 08:00-20:00", "08:00-20:00");
    misplaced("Mon Tue", "Tue");
    misplaced("08:00-10:00 12:00-14:00", "12:00-14:00");
    misplaced("UTC UTC", "UTC");
    misplaced("Mon 08:00-20:00 Europe/Berlin please", "please");
    refused("", "empty: write dates, days, times, zone, such as \"Mon-Fri 08:00-20:00 UTC\"");
    refused("   ", "empty: write dates, days, times, zone, such as \"Mon-Fri 08:00-20:00 UTC\"");
}

TEST(window_zone__has_at_most_64_bytes)
{
    char longest[ZONE_NAME_BYTES_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    no_zone(longest, longest);
    longest[ZONE_NAME_BYTES_MAX] = '\0';
    assert_string_equal(parsed(longest).zone, longest);
}

TEST(window_always__is_true_for_the_whole_week_only)
{
    static const char *const often[] = {"Mon-Sat", "00:00-23:59", "00:01-24:00", "12:00-11:59"};
    const struct window always = parsed("daily 00:00-24:00 Europe/Berlin");
    CLEANUP(zone_freep) struct zone *zone = zones_installed("Europe/Berlin");
    assert_true(window_always(&always));
    assert_true(window_next_ms(&always, zone, 0) == INT64_MAX);
    assert_true(window_holds(&always, zone, 0));
    for (size_t i = 0; i < ARRAY_LEN(often); i++) {
        const struct window window = parsed(often[i]);
        assert_false(window_always(&window));
    }
}

/* UTC, in the calendar of the C library. */
static int64_t at_ms(int year, int month, int day, int hour, int minute)
{
    struct tm tm = {.tm_year = year - 1900,
                    .tm_mon = month - 1,
                    .tm_mday = day,
                    .tm_hour = hour,
                    .tm_min = minute};
    return (int64_t)timegm(&tm) * 1000;
}

/* The window opens (or closes) at this millisecond. */
static void turns(const char *text, bool on, int64_t when_ms)
{
    const struct window window = parsed(text);
    CLEANUP(zone_freep)
    struct zone *zone = strcmp(window.zone, "UTC") == 0 ? zone_utc() : zones_installed(window.zone);
    if (window_holds(&window, zone, when_ms) != on ||
        window_holds(&window, zone, when_ms - 1) == on)
        fail_msg("%s does not turn %s at %lld", text, on ? "on" : "off", (long long)when_ms);
    assert_int_equal(window_next_ms(&window, zone, when_ms - 1), when_ms);
    assert_int_equal(window_next_ms(&window, zone, when_ms - 30000), when_ms);
    assert_true(window_next_ms(&window, zone, when_ms) > when_ms);
}

TEST(window__includes_its_first_minute_and_not_its_last)
{
    /* 2026-06-01 is a Monday. */
    turns("Mon-Fri 08:00-20:00", true, at_ms(2026, 6, 1, 8, 0));
    turns("Mon-Fri 08:00-20:00", false, at_ms(2026, 6, 1, 20, 0));
    turns("Mon-Fri 08:00-20:00", false, at_ms(2026, 6, 5, 20, 0));
    turns("Mon-Fri 08:00-20:00 Europe/Berlin", true, at_ms(2026, 6, 1, 6, 0));
    turns("Mon-Fri 08:00-20:00 Europe/Berlin", true, at_ms(2026, 1, 5, 7, 0));
    turns("Sat,Sun", true, at_ms(2026, 6, 6, 0, 0));
    turns("Sat,Sun", false, at_ms(2026, 6, 8, 0, 0));
    turns("Sun", false, at_ms(2026, 6, 8, 0, 0));
    turns("Fri 20:00-08:00", true, at_ms(2026, 6, 5, 20, 0));
    turns("Fri 20:00-08:00", false, at_ms(2026, 6, 6, 8, 0));
    turns("Sun 20:00-08:00", false, at_ms(2026, 6, 8, 8, 0)); /* over the end of the week */
    turns("Mon 00:00-24:00", true, at_ms(2026, 6, 1, 0, 0));
    turns("12:00-11:59", false, at_ms(2026, 6, 1, 11, 59));
    turns("12:00-11:59", true, at_ms(2026, 6, 1, 12, 0));
    turns("Mon 08:00-20:00", true, at_ms(1969, 12, 29, 8, 0)); /* before 1970 */
    turns("Thu", true, at_ms(1970, 1, 1, 0, 0));
}

TEST(window_next__is_up_to_a_week_away)
{
    const struct window window = parsed("Mon 08:00-08:01");
    CLEANUP(zone_freep) struct zone *utc = zone_utc();
    assert_int_equal(window_next_ms(&window, utc, at_ms(2026, 6, 1, 8, 1)),
                     at_ms(2026, 6, 8, 8, 0));
}

/* In Berlin, 2026-03-29 has no 02:30 and 2026-10-25 has two. */
TEST(window__follows_the_wall_clock_when_clocks_change)
{
    turns("Sun 02:30-05:00 Europe/Berlin", true, at_ms(2026, 3, 29, 1, 0)); /* 03:00 */
    turns("Sun 02:30-05:00 Europe/Berlin", false, at_ms(2026, 3, 29, 3, 0));
    turns("Sun 01:00-02:30 Europe/Berlin", false, at_ms(2026, 3, 29, 1, 0));
    turns("Sun 02:30-05:00 Europe/Berlin", true, at_ms(2026, 10, 25, 0, 30));
    turns("Sun 02:30-05:00 Europe/Berlin", false, at_ms(2026, 10, 25, 1, 0)); /* 02:00 again */
    turns("Sun 02:30-05:00 Europe/Berlin", true, at_ms(2026, 10, 25, 1, 30));
    turns("Sun 02:30-05:00 Europe/Berlin", false, at_ms(2026, 10, 25, 4, 0));
    turns("Sun 01:00-02:30 Europe/Berlin", true, at_ms(2026, 10, 25, 1, 0));
    turns("Sun 01:00-02:30 America/New_York", false, at_ms(2026, 3, 8, 7, 0));
    turns("Sun 01:30-05:00 Australia/Lord_Howe", true, at_ms(2026, 4, 4, 14, 30));
    turns("Sun 01:45-05:00 Australia/Lord_Howe", false, at_ms(2026, 4, 4, 15, 0));
    turns("Sun 02:15-05:00 Australia/Lord_Howe", true, at_ms(2026, 10, 3, 15, 30));
    turns("Sun 08:00-20:00 Asia/Kolkata", true, at_ms(2026, 3, 29, 2, 30));
    /* Casablanca turns its clocks back for Ramadan, and forward after it. */
    turns("Sun 02:30-04:00 Africa/Casablanca", true, at_ms(2026, 2, 15, 1, 30));
    turns("Sun 02:30-04:00 Africa/Casablanca", false, at_ms(2026, 2, 15, 2, 0));
    turns("Sun 02:30-04:00 Africa/Casablanca", true, at_ms(2026, 2, 15, 2, 30));
    turns("Sun 02:30-04:00 Africa/Casablanca", true, at_ms(2026, 3, 22, 2, 0));
}

/* 2026-03-29 has no 02:00 to 03:00, so that window waits for the next Sunday. */
TEST(window_next__skips_a_day_without_the_window)
{
    const struct window window = parsed("Sun 02:00-03:00 Europe/Berlin");
    struct zone *zone = zones_installed("Europe/Berlin");
    assert_int_equal(window_next_ms(&window, zone, at_ms(2026, 3, 28, 0, 0)),
                     at_ms(2026, 4, 5, 0, 0));
    zone_free(zone);
    /* Samoa had no Friday, 2011-12-30. */
    const struct window friday = parsed("Fri Pacific/Apia");
    zone = zones_installed("Pacific/Apia");
    assert_int_equal(window_next_ms(&friday, zone, at_ms(2011, 12, 25, 0, 0)),
                     at_ms(2012, 1, 5, 10, 0));
    const struct window both = parsed("Thu,Sat Pacific/Apia");
    assert_int_equal(window_next_ms(&both, zone, at_ms(2011, 12, 29, 12, 0)),
                     at_ms(2011, 12, 31, 10, 0));
    zone_free(zone);
}

TEST(window_next__is_never_at_the_end_of_time)
{
    const struct window window = parsed("Mon 08:00-20:00 Made/Rule");
    CLEANUP(zone_freep)
    struct zone *zone = zones_of_rule("Made/Rule", "CET-1CEST,M3.5.0,M10.5.0/3");
    assert_true(window_next_ms(&window, zone, INT64_MAX) == INT64_MAX);
    assert_true(window_next_ms(&window, zone, INT64_MAX - 1000) == INT64_MAX);
    const int64_t soon_ms = window_next_ms(&window, zone, INT64_MIN);
    assert_true(soon_ms > INT64_MIN && soon_ms < INT64_MIN + 9LL * DAY_S * 1000);
    assert_true(window_holds(&window, zone, soon_ms) != window_holds(&window, zone, soon_ms - 1));
    /* The last change before the end of time. */
    int64_t last_ms = INT64_MAX - 9LL * DAY_S * 1000;
    for (int i = 0; i < 4 && window_next_ms(&window, zone, last_ms) < INT64_MAX; i++)
        last_ms = window_next_ms(&window, zone, last_ms);
    assert_true(last_ms > INT64_MAX - 9LL * DAY_S * 1000);
}

/* In a zone five seconds ahead of UTC, a minute begins at the last second in milliseconds. */
TEST(window_next__reaches_the_last_second)
{
    const int64_t last_s = INT64_MAX / 1000;
    const int minute = (int)((last_s + 5) / MINUTE_S % 1440);
    char text[64];
    assert_int_equal((last_s + 5) % MINUTE_S, 0);
    (void)snprintf(text, sizeof text, "%02d:%02d-24:00 Made/Rule", minute / 60, minute % 60);
    const struct window window = parsed(text);
    CLEANUP(zone_freep) struct zone *zone = zones_of_rule("Made/Rule", "AAA-0:00:05");
    assert_true(window_next_ms(&window, zone, INT64_MAX - HOUR_S) == last_s * 1000);
    assert_true(window_next_ms(&window, zone, last_s * 1000) == INT64_MAX);
}

/* An independent reading of a window, by the calendar of the C library. */
struct plain {
    const char *text;
    const char *days; /* 7 marks from Sunday on */
    int from_min;
    int to_min; /* above 24 hours on the next day */
};

static bool plainly_holds(const struct plain *plain, time_t when)
{
    struct tm tm;
    (void)localtime_r(&when, &tm);
    const int minute = tm.tm_hour * 60 + tm.tm_min;
    bool holds = false;
    for (int back = 0; back <= 7; back++) {
        const int since = minute + back * 1440;
        holds = holds || (plain->days[(tm.tm_wday + 14 - back) % 7] == 'x' &&
                          since >= plain->from_min && since < plain->to_min);
    }
    return holds;
}

static void minute_by_minute(const struct plain *plain, const char *name, int64_t from_s,
                             int minutes)
{
    char text[128];
    (void)snprintf(text, sizeof text, ":%s", name);
    (void)setenv("TZ", text, 1); /* NOLINT(concurrency-mt-unsafe) */
    tzset();
    (void)snprintf(text, sizeof text, "%s %s", plain->text, name);
    const struct window window = parsed(text);
    CLEANUP(zone_freep) struct zone *zone = zones_installed(name);
    bool now = plainly_holds(plain, from_s);
    int64_t next_ms = window_next_ms(&window, zone, from_s * 1000);
    assert_int_equal(window_holds(&window, zone, from_s * 1000), now);
    for (int i = 1; i < minutes; i++) {
        const int64_t when_s = from_s + (int64_t)i * MINUTE_S;
        const bool then = plainly_holds(plain, when_s);
        if ((next_ms == when_s * 1000) != (then != now))
            fail_msg("%s: at %lld %s, next %lld", text, (long long)when_s,
                     then ? "holds" : "does not hold", (long long)next_ms);
        now = then;
        if (next_ms == when_s * 1000)
            next_ms = window_next_ms(&window, zone, next_ms);
    }
}

TEST(window__agrees_with_the_calendar_minute_by_minute)
{
    static const struct plain plain[] = {
        {"Mon-Fri 08:00-20:00", ".xxxxx.", 480, 1200},
        {"20:00-08:00", "xxxxxxx", 1200, 1920},
        {"Sun 02:00-03:00", "x......", 120, 180},
        {"Sat,Sun", "x.....x", 0, 1440},
        {"Sat 02:15-02:14", "......x", 135, 1440 + 134},
        {"Fri-Mon 23:59-00:01", "xx...xx", 1439, 1441},
        {"Fri 20:00-Mon 08:00", ".....x.", 1200, 3 * 1440 + 480},
        {"Sun 02:30-Sun 02:15", "x......", 150, 7 * 1440 + 135},
    };
    static const char *const names[] = {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
                                        "Asia/Kolkata", "Africa/Casablanca"};
    const int minutes = walk_steps(2 * 366 * 1440, 366 * 1440);
    for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
        for (size_t j = 0; j < ARRAY_LEN(names); j++)
            minute_by_minute(&plain[i], names[j], at_ms(2026, 1, 1, 0, 0) / 1000, minutes);
        minute_by_minute(&plain[i], "Pacific/Apia", at_ms(2011, 11, 1, 0, 0) / 1000, 100 * 1440);
    }
}

TEST(window__spans_several_days)
{
    is_written("Fri 20:00-Mon 08:00", "Fri 20:00-Mon 08:00 UTC");
    is_written("fri 20:00-mon 08:00 Europe/Berlin", "Fri 20:00-Mon 08:00 Europe/Berlin");
    is_written("Fri 20:00-Sat 08:00", "Fri 20:00-08:00 UTC");
    is_written("Fri 08:00-Fri 20:00", "Fri 08:00-20:00 UTC");
    is_written("Fri 20:00-Sat 20:00", "Fri 20:00-Sat 20:00 UTC");
    is_written("Fri 00:00-Fri 24:00", "Fri 00:00-24:00 UTC");
    is_written("Fri 20:00-Sat 20:01", "Fri 20:00-Sat 20:01 UTC");
    is_written("Fri 20:00-Sun 24:00", "Fri 20:00-Mon 00:00 UTC");
    is_written("Fri 20:00-Fri 19:59", "Fri 20:00-Fri 19:59 UTC");
    is_written("Mon 20:00-Wed 08:00", "Mon 20:00-Wed 08:00 UTC");
    is_written("Fri 20:00-Fri 20:01", "Fri 20:00-20:01 UTC");
    is_written("Fri 00:01-Sat 00:01", "Fri 00:01-Sat 00:01 UTC");
    is_written("Sun 00:00-Sat 23:59", "Sun 00:00-Sat 23:59 UTC");
    refused("Fri 20:00-Fri 20:00",
            "\"20:00-Fri 20:00\": write less than a week, from 23:59 at most");
    refused("Fri 00:00-Thu 24:00",
            "\"00:00-Thu 24:00\": write less than a week, from 23:59 at most");
    refused("Fri 24:00-Mon 08:00",
            "\"24:00-Mon 08:00\": write less than a week, from 23:59 at most");
    refused("Fri 20:00-Mon", "\"20:00-Mon\" has no time behind its day: write Fri 20:00-Mon 08:00");
    refused("Fri 20:00-Mon 8:00",
            "\"20:00-Mon\" has no time behind its day: write Fri 20:00-Mon 08:00");
    refused("Fri 20:00-Mon 08:60",
            "\"20:00-Mon\" has no time behind its day: write Fri 20:00-Mon 08:00");
    static const char one[] =
        "\"20:00-Mon\" ends on another day: write one day before it, as in Fri 20:00-Mon 08:00";
    refused("20:00-Mon 08:00", one);
    refused("Thu,Fri 20:00-Mon 08:00", one);
    no_times("20:00-Mox 20:00xMon 20x6-01-01 202x-01-01");
    is_written("08:00-20:00 x026-01-01", "daily 08:00-20:00 x026-01-01");
    is_written("Fri ABCDE-Mon", "Fri 00:00-24:00 ABCDE-Mon");
    misplaced("Fri UTC 20:00-Mon 08:00", "20:00-Mon");
    misplaced("Fri 20:00-Mon 08:00 08:00-20:00", "08:00-20:00");
}

/* Texts are not NUL-terminated. */
TEST(window_text__needs_no_terminator)
{
    static const struct text row[] = {{"2026-01-01", 4}, {"Fri 20:00-Mon", 9}};

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct window window;
        struct err err;
        assert_int_equal(window_parse(row[i], &window, &err), -(int)ERR_INVALID);
        assert_non_null(strstr(err.text, "is not a time of day"));
    }
}

TEST(window_dates__are_written_as_read)
{
    is_written("2026-12-24", "2026-12-24 daily 00:00-24:00 UTC");
    is_written("2026-12-24 18:00-24:00", "2026-12-24 daily 18:00-24:00 UTC");
    is_written("2026-12-24..2027-01-02", "2026-12-24..2027-01-02 daily 00:00-24:00 UTC");
    is_written("2026-12-24..2026-12-24", "2026-12-24 daily 00:00-24:00 UTC");
    is_written("2026-12-01..2026-12-31 Mon-Fri 08:00-20:00 Europe/Berlin",
               "2026-12-01..2026-12-31 Mon-Fri 08:00-20:00 Europe/Berlin");
    is_written("2026-12-01..2026-12-31 Fri 20:00-Mon 08:00",
               "2026-12-01..2026-12-31 Fri 20:00-Mon 08:00 UTC");
    is_written("2024-02-29", "2024-02-29 daily 00:00-24:00 UTC");
    is_written("2000-02-29..2000-03-01", "2000-02-29..2000-03-01 daily 00:00-24:00 UTC");
    is_written("1970-01-01", "1970-01-01 daily 00:00-24:00 UTC");
    is_written("9999-12-31", "9999-12-31 daily 00:00-24:00 UTC");
    is_written("2026-01-01..2036-02-17", "2026-01-01..2036-02-17 daily 00:00-24:00 UTC");
    no_dates("2026-02-29 2100-02-29 2026-13-01 2026-00-10 2026-01-00 2026-04-31 1969-12-31 "
             "2026-1-01 2026-01-1 2026-01-011 2026-01/01 2026-12-24-2027-01-02 "
             "2026-12-24.2027-01-02 2026-12-24.,2027-01-02 2026-12-24..x027-01-02 "
             "2026-12-24...2027-01-02 2026-12-24,,2027-01-02 2026-x2-24 2026-12-24..2027-01-32 "
             "2026-12-32..2027-01-02 2026-");
    refused("2026-12-24..2026-12-23", "\"2026-12-24..2026-12-23\" ends before it begins");
    refused("2026-01-01..2036-02-18", "\"2026-01-01..2036-02-18\" is longer than ten years");
    refused("2026-12-24 Fri", "would never hold: none of its dates is on these days");
    is_written("2026-12-24 Thu", "2026-12-24 Thu 00:00-24:00 UTC");
    misplaced("Mon 2026-12-24", "2026-12-24");
    misplaced("2026-12-24 2026-12-25", "2026-12-25");
}

/* The window changes at these times only. */
static void changes(const char *text, struct zone *zone, const int64_t *at, size_t count)
{
    const struct window window = parsed(text);
    int64_t now_ms = INT64_MIN;
    bool holds = false;
    for (size_t i = 0; i < count; i++) {
        const int64_t next_ms = window_next_ms(&window, zone, now_ms);
        if (next_ms != at[i])
            fail_msg("%s: change %zu at %lld", text, i, (long long)next_ms);
        assert_int_equal(window_holds(&window, zone, next_ms - 1), holds);
        holds = !holds;
        assert_int_equal(window_holds(&window, zone, next_ms), holds);
        now_ms = next_ms;
    }
    assert_true(window_next_ms(&window, zone, now_ms) == INT64_MAX);
    assert_false(holds);
}

TEST(window_dates__begin_and_end_once)
{
    CLEANUP(zone_freep) struct zone *utc = zones_installed("UTC");
    CLEANUP(zone_freep) struct zone *berlin = zones_installed("Europe/Berlin");
    changes("2026-12-24", utc, (int64_t[]){at_ms(2026, 12, 24, 0, 0), at_ms(2026, 12, 25, 0, 0)},
            2);
    changes("9999-12-30", utc, (int64_t[]){INT64_C(253402128000000), INT64_C(253402214400000)}, 2);
    changes("2026-12-24 20:00-08:00", utc,
            (int64_t[]){at_ms(2026, 12, 24, 20, 0), at_ms(2026, 12, 25, 8, 0)}, 2);
    changes("2026-12-24..2027-01-02", utc,
            (int64_t[]){at_ms(2026, 12, 24, 0, 0), at_ms(2027, 1, 3, 0, 0)}, 2);
    changes("2026-12-24..2027-01-02 Europe/Berlin", berlin,
            (int64_t[]){at_ms(2026, 12, 23, 23, 0), at_ms(2027, 1, 2, 23, 0)}, 2);
    /* Clocks go forward between: an hour less. */
    changes("2026-03-28..2026-03-29 Europe/Berlin", berlin,
            (int64_t[]){at_ms(2026, 3, 27, 23, 0), at_ms(2026, 3, 29, 22, 0)}, 2);
    changes("2026-01-01..2036-01-01", utc,
            (int64_t[]){at_ms(2026, 1, 1, 0, 0), at_ms(2036, 1, 2, 0, 0)}, 2);
    changes("2026-12-24..2026-12-25 08:00-20:00", utc,
            (int64_t[]){at_ms(2026, 12, 24, 8, 0), at_ms(2026, 12, 24, 20, 0),
                        at_ms(2026, 12, 25, 8, 0), at_ms(2026, 12, 25, 20, 0)},
            4);
    changes("2026-12-18 Fri 20:00-Thu 08:00", utc,
            (int64_t[]){at_ms(2026, 12, 18, 20, 0), at_ms(2026, 12, 24, 8, 0)}, 2);
}
