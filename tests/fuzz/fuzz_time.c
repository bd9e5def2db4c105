/*
 * A time that is read is what the C library's calendar says, and it is written and read again as
 * the same moment. Anything else is refused; any number can be written as a time.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"

/* Two digits at i, -1 if there are none. */
static int two(struct text text, size_t i)
{
    if (i + 2 > text.len || text.at[i] < '0' || text.at[i] > '9' || text.at[i + 1] < '0' ||
        text.at[i + 1] > '9')
        return -1;
    return (text.at[i] - '0') * 10 + (text.at[i + 1] - '0');
}

static bool has(struct text text, size_t i, const char *letters)
{
    return i < text.len && text.at[i] != '\0' && strchr(letters, text.at[i]) != NULL;
}

/* ".123" at *at, truncated to milliseconds. */
static bool read_fraction(struct text text, size_t *at, int *out_ms)
{
    int weight = 100;
    *out_ms = 0;
    if (!has(text, *at, "."))
        return true;
    const size_t first = ++*at;
    for (; has(text, *at, "0123456789"); ++*at, weight /= 10)
        *out_ms += (text.at[*at] - '0') * weight;
    return *at > first;
}

static bool read_offset(struct text text, size_t at, int *out_s)
{
    *out_s = 0;
    if (has(text, at, "Zz"))
        return at + 1 == text.len;
    if (!has(text, at, "+-") || at + 6 != text.len || text.at[at + 3] != ':')
        return false;
    const int hour = two(text, at + 1);
    const int minute = two(text, at + 4);
    *out_s = (hour * 60 + minute) * 60 * (text.at[at] == '-' ? -1 : 1);
    return hour >= 0 && hour <= 23 && minute >= 0 && minute <= 59;
}

/* Uses the calendar of the C library: a day that it moves into another month does not exist. */
static bool read(struct text text, int64_t *out_ms)
{
    int ms;
    int east;
    size_t at = 19;
    struct tm tm = {.tm_year = two(text, 0) * 100 + two(text, 2) - 1900,
                    .tm_mon = two(text, 5) - 1,
                    .tm_mday = two(text, 8),
                    .tm_hour = two(text, 11),
                    .tm_min = two(text, 14)};
    const int second = two(text, 17);
    const struct tm said = tm;
    if (text.len < 20 || two(text, 0) < 0 || two(text, 2) < 0 || tm.tm_mon < 0 || tm.tm_mday < 1 ||
        tm.tm_hour < 0 || tm.tm_min < 0 || second < 0)
        return false;
    if (text.at[4] != '-' || text.at[7] != '-' || !has(text, 10, "Tt") || text.at[13] != ':' ||
        text.at[16] != ':' || tm.tm_hour > 23 || tm.tm_min > 59 || second > 60)
        return false;
    const int64_t minute_s = timegm(&tm);
    if (tm.tm_mon != said.tm_mon || tm.tm_mday != said.tm_mday)
        return false;
    if (!read_fraction(text, &at, &ms) || !read_offset(text, at, &east))
        return false;
    *out_ms = (minute_s + second - east) * 1000 + ms;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text text = {size > 0 ? (const char *)data : "", size};
    const int64_t first_ms = INT64_C(-62167219200000);
    const int64_t last_ms = INT64_C(253402300799999);
    char out[TIME_TEXT_BYTES];
    int64_t ms = 0;
    int64_t second = 0;
    int64_t again = 0;
    const bool ours = time_parse(text, &ms);
    must(ours == read(text, &second));
    must(!ours || ms == second);
    if (!ours && size >= sizeof ms)
        memcpy(&ms, data, sizeof ms);
    time_format(ms, out);
    must(strlen(out) == strlen("2026-01-02T03:04:05.678Z"));
    must(time_parse(text_of(out), &again));
    must(again == (ms < first_ms ? first_ms : ms > last_ms ? last_ms : ms));
    return 0;
}
