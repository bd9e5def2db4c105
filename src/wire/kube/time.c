/*
 * Converts RFC 3339 times to UTC milliseconds and back, for Kubernetes objects, the REST API and
 * milligpuctl. Own arithmetic, because strptime() depends on the locale, and wire may call only a
 * few functions of libc (tests/tidy/check_purity.py).
 */
#include "milligpu/wire/kube/wire_kube.h"

enum { SECOND_MS = 1000, DAY_S = 86400 };

/* Days since 1970-01-01 in the proleptic Gregorian calendar; years start in March. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    must(month >= 1 && month <= 12);

    const int64_t y = month > 2 ? year : year - 1;
    const int64_t era = (y >= 0 ? y : y - 399) / 400;
    const int64_t year_of_era = y - era * 400;
    const int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    const int64_t day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static int64_t month_days(int64_t year, int64_t month)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    must(month >= 1 && month <= 12);
    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

struct cursor {
    const char *at;
    const char *end;
};

/* Reads exactly count digits: RFC 3339 has fixed widths. */
static bool time_number(struct cursor *c, int count, int64_t *out)
{
    must(count > 0 && count <= 4);

    int64_t value = 0;
    for (int i = 0; i < count; i++, c->at++) {
        if (c->at == c->end || *c->at < '0' || *c->at > '9')
            return false;
        value = value * 10 + (*c->at - '0');
    }
    *out = value;
    return true;
}

/* Does not move the cursor if another byte follows, so callers can try alternatives. */
static bool time_mark(struct cursor *c, char wanted)
{
    must(c->at <= c->end);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

/* February 30 must fail here: days_of() would turn it into a day in March. */
static bool time_date(struct cursor *c, int64_t *out_days)
{
    int64_t year;
    int64_t month;
    int64_t day;
    if (!time_number(c, 4, &year) || !time_mark(c, '-') || !time_number(c, 2, &month) ||
        !time_mark(c, '-') || !time_number(c, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > month_days(year, month))
        return false;
    *out_days = days_of(year, month, day);
    return true;
}

/* A leap second becomes the first second of the next minute: Unix time has none. */
static bool clock_time(struct cursor *c, int64_t *out_s)
{
    int64_t hour;
    int64_t minute;
    int64_t second;
    if (!time_number(c, 2, &hour) || !time_mark(c, ':') || !time_number(c, 2, &minute) ||
        !time_mark(c, ':') || !time_number(c, 2, &second))
        return false;
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    *out_s = (hour * 60 + minute) * 60 + second;
    return true;
}

/* Digits beyond the third are truncated, not rounded. */
static bool time_fraction(struct cursor *c, int64_t *out_ms)
{
    *out_ms = 0;
    if (!time_mark(c, '.'))
        return true;
    const char *first = c->at;
    int64_t weight = 100;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++, weight /= 10)
        *out_ms += (*c->at - '0') * weight;
    return c->at > first;
}

/* Reads the offset to subtract for UTC; positive is east of Greenwich. "-00:00" counts as UTC. */
static bool time_offset(struct cursor *c, int64_t *out_s)
{
    int64_t hour;
    int64_t minute;
    *out_s = 0;
    if (time_mark(c, 'Z') || time_mark(c, 'z'))
        return true;
    const bool west = time_mark(c, '-');
    if (!west && !time_mark(c, '+'))
        return false;
    if (!time_number(c, 2, &hour) || !time_mark(c, ':') || !time_number(c, 2, &minute))
        return false;
    *out_s = (hour * 60 + minute) * 60 * (west ? -1 : 1);
    return hour <= 23 && minute <= 59;
}

/* Sets *out_ms only on success; trailing bytes are an error. */
bool time_parse(struct text text, int64_t *out_ms)
{
    struct cursor c = {text.at, text.at + text.len};
    int64_t days;
    int64_t seconds;
    int64_t ms;
    int64_t east;
    if (!time_date(&c, &days) || !(time_mark(&c, 'T') || time_mark(&c, 't')) ||
        !clock_time(&c, &seconds) || !time_fraction(&c, &ms) || !time_offset(&c, &east) ||
        c.at != c.end)
        return false;
    *out_ms = (days * DAY_S + seconds - east) * SECOND_MS + ms;
    return true;
}

struct civil {
    int64_t year;
    int64_t month;
    int64_t day;
};

/*
 * The inverse of days_of(). Years begin in March, so a leap day is the last day of a year and does
 * not shift the other months.
 */
static struct civil civil_of(int64_t days)
{
    days += 719468;
    const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    const int64_t day_of_era = days - era * 146097;
    const int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const int64_t day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const int64_t month_index = (5 * day_of_year + 2) / 153;
    const int64_t month = month_index < 10 ? month_index + 3 : month_index - 9;
    must(month >= 1 && month <= 12);
    return (struct civil){
        .year = year_of_era + era * 400 + (month <= 2 ? 1 : 0),
        .month = month,
        .day = day_of_year - (153 * month_index + 2) / 5 + 1,
    };
}

/* Writes value in count digits, and the byte after. */
static char *time_put(char *at, int64_t value, int count, char after)
{
    must(value >= 0);
    for (int i = count - 1; i >= 0; i--, value /= 10)
        at[i] = (char)('0' + value % 10);
    must(value == 0);
    at[count] = after;
    return at + count + 1;
}

void time_format(int64_t ms, char out[TIME_TEXT_BYTES])
{
    /* Years have four digits in the format. */
    static const int64_t first_ms = INT64_C(-62167219200000);
    static const int64_t last_ms = INT64_C(253402300799999);
    ms = ms < first_ms ? first_ms : ms > last_ms ? last_ms : ms;

    const int64_t day_ms = (int64_t)DAY_S * SECOND_MS;
    const int64_t days = ms >= 0 ? ms / day_ms : -((-ms + day_ms - 1) / day_ms);
    const int64_t rest = ms - days * day_ms;
    const struct civil civil = civil_of(days);
    must(rest >= 0 && rest < day_ms);

    char *at = time_put(out, civil.year, 4, '-');
    at = time_put(at, civil.month, 2, '-');
    at = time_put(at, civil.day, 2, 'T');
    at = time_put(at, rest / 3600000, 2, ':');
    at = time_put(at, rest / 60000 % 60, 2, ':');
    at = time_put(at, rest / 1000 % 60, 2, '.');
    at = time_put(at, rest % 1000, 3, 'Z');
    *at = '\0';
    must(at - out < TIME_TEXT_BYTES);
}
