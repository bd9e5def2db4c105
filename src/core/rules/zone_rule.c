/*
 * Parses and evaluates the rule of a time zone. Called by zone.c for times that its table of
 * transitions does not cover.
 */
#include "zone_rule.h"

#include <string.h>

enum {
    MINUTE_S = 60,
    HOUR_S = 3600,
    DAY_S = 86400,
    OFFSET_HOURS_MAX = 24,
    TIME_HOURS_MAX = 167, /* RFC 8536: up to a week before or after the day */
    RULE_NAME_MIN = 3,
    DIGITS_MAX = 3,
};

/* 400 years: the period of the calendar with weekdays. */
static const int64_t PERIOD_S = INT64_C(146097) * DAY_S;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip(struct text *rest, size_t bytes)
{
    must(bytes <= rest->len);
    must(rest->at != NULL || bytes == 0);
    rest->at += bytes;
    rest->len -= bytes;
}

static bool rule_mark(struct text *rest, char wanted)
{
    must(rest->at != NULL || rest->len == 0);
    must(wanted != '\0');
    if (rest->len == 0 || rest->at[0] != wanted)
        return false;
    skip(rest, 1);
    return true;
}

static bool rule_number(struct text *rest, int32_t least, int32_t most, int32_t *out)
{
    must(least >= 0 && least <= most);
    must(most < 1000); /* DIGITS_MAX suffices */

    int32_t value = 0;
    size_t digits = 0;
    for (; digits < rest->len && digits < DIGITS_MAX && is_digit(rest->at[digits]); digits++)
        value = value * 10 + (rest->at[digits] - '0');
    if (digits == 0 || value < least || value > most)
        return false;
    skip(rest, digits);
    *out = value;
    return true;
}

/* [+-]hh[:mm[:ss]] */
static bool rule_time(struct text *rest, int32_t hours_max, int32_t *out_s)
{
    must(hours_max > 0);

    int32_t hours;
    int32_t minutes = 0;
    int32_t seconds = 0;
    const bool negative = rule_mark(rest, '-');
    if (!negative)
        (void)rule_mark(rest, '+');
    if (!rule_number(rest, 0, hours_max, &hours))
        return false;
    if (rule_mark(rest, ':')) {
        if (!rule_number(rest, 0, 59, &minutes))
            return false;
        if (rule_mark(rest, ':') && !rule_number(rest, 0, 59, &seconds))
            return false;
    }
    const int32_t value = hours * HOUR_S + minutes * MINUTE_S + seconds;
    must(value >= 0 && value < (hours_max + 1) * HOUR_S);
    *out_s = negative ? -value : value;
    return true;
}

static bool is_letter(char c)
{
    const char lower = text_lower(c);
    return lower >= 'a' && lower <= 'z';
}

/* CET, or <+0330> with digits and signs */
static bool rule_name(struct text *rest)
{
    must(rest->at != NULL || rest->len == 0);

    const bool quoted = rule_mark(rest, '<');
    size_t len = 0;
    while (len < rest->len &&
           (is_letter(rest->at[len]) ||
            (quoted && (is_digit(rest->at[len]) || rest->at[len] == '+' || rest->at[len] == '-'))))
        len++;
    must(len <= rest->len);
    if (len < RULE_NAME_MIN)
        return false;
    skip(rest, len);
    return !quoted || rule_mark(rest, '>');
}

static bool rule_date(struct text *rest, struct zone_date *out)
{
    *out = (struct zone_date){.kind = DATE_DAY, .time_s = 2 * HOUR_S};
    must(rest->at != NULL || rest->len == 0);
    if (rule_mark(rest, 'M')) {
        out->kind = DATE_WEEKDAY;
        if (!rule_number(rest, 1, 12, &out->month) || !rule_mark(rest, '.') ||
            !rule_number(rest, 1, 5, &out->week) || !rule_mark(rest, '.') ||
            !rule_number(rest, 0, 6, &out->day))
            return false;
    } else if (rule_mark(rest, 'J')) {
        out->kind = DATE_WITHOUT_LEAP;
        if (!rule_number(rest, 1, 365, &out->day))
            return false;
    } else if (!rule_number(rest, 0, 365, &out->day)) {
        return false;
    }
    must(out->day >= 0 && out->day <= 365);
    return !rule_mark(rest, '/') || rule_time(rest, TIME_HOURS_MAX, &out->time_s);
}

bool zone_rule_parse(struct text text, struct zone_rule *out)
{
    struct text rest = text;
    struct zone_rule rule = {0};
    int32_t west_s;
    must(out != NULL);

    if (!rule_name(&rest) || !rule_time(&rest, OFFSET_HOURS_MAX, &west_s))
        return false;
    rule.standard_s = -west_s;
    rule.has_summer = rest.len > 0;
    if (rule.has_summer) {
        if (!rule_name(&rest))
            return false;
        west_s -= HOUR_S;
        if (rest.len > 0 && rest.at[0] != ',' && !rule_time(&rest, OFFSET_HOURS_MAX, &west_s))
            return false;
        rule.summer_s = -west_s;
        if (!rule_mark(&rest, ',') || !rule_date(&rest, &rule.start) || !rule_mark(&rest, ',') ||
            !rule_date(&rest, &rule.end))
            return false;
    }
    must(rest.len <= text.len);
    if (rest.len > 0)
        return false;
    *out = rule;
    return true;
}

static bool is_leap(int64_t year)
{
    must(year >= 1);
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days from 1970-01-01 to January 1 of the year. */
static int64_t year_day(int64_t year)
{
    must(year >= 1);
    const int64_t past = year - 1;
    const int64_t day = past * 365 + past / 4 - past / 100 + past / 400 - 719162;
    must(year < 1970 || day >= 0);
    return day;
}

/* Days from 1970-01-01 to the first of the month; month 13 is January of the next year. */
static int64_t month_day(int64_t year, int32_t month)
{
    static const int16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    must(month >= 1 && month <= 13);
    must((size_t)month <= ARRAY_LEN(before));
    return year_day(year) + before[month - 1] + (month > 2 && is_leap(year) ? 1 : 0);
}

/* 0: Sunday. */
static int64_t weekday_of(int64_t day)
{
    must(day >= -400);
    const int64_t weekday = ((day + 4) % 7 + 7) % 7;
    must(weekday >= 0 && weekday < 7);
    return weekday;
}

static int64_t date_day(const struct zone_date *date, int64_t year)
{
    must(date->day >= 0 && date->day <= 365);
    if (date->kind == DATE_DAY)
        return year_day(year) + date->day;
    if (date->kind == DATE_WITHOUT_LEAP)
        return year_day(year) + date->day - 1 + (date->day > 59 && is_leap(year) ? 1 : 0);

    const int64_t first = month_day(year, date->month);
    const int64_t skipped = (date->day - weekday_of(first) + 7) % 7;
    const int64_t day = first + skipped + (int64_t)7 * (date->week - 1);
    must(day >= first && day < first + 35);
    return day < month_day(year, date->month + 1) ? day : day - 7; /* the month has no fifth one */
}

static int64_t start_s(const struct zone_rule *rule, int64_t year)
{
    must(rule->has_summer);
    must(rule->start.time_s > -8 * DAY_S && rule->start.time_s < 8 * DAY_S);
    return date_day(&rule->start, year) * DAY_S + rule->start.time_s - rule->standard_s;
}

static int64_t end_s(const struct zone_rule *rule, int64_t year)
{
    must(rule->has_summer);
    must(rule->end.time_s > -8 * DAY_S && rule->end.time_s < 8 * DAY_S);
    return date_day(&rule->end, year) * DAY_S + rule->end.time_s - rule->summer_s;
}

/* Maps utc_s to the same calendar time in 1970 .. 2370, so that no later step can overflow. */
static int64_t moment_of(int64_t utc_s)
{
    const int64_t rest = utc_s % PERIOD_S;
    const int64_t moment = rest < 0 ? rest + PERIOD_S : rest;
    must(moment >= 0 && moment < PERIOD_S);
    must((utc_s - rest) % PERIOD_S == 0);
    return moment;
}

static int64_t year_of(int64_t moment)
{
    must(moment >= 0 && moment < PERIOD_S);
    const int64_t day = moment / DAY_S;
    int64_t year = 1970 + day / 366; /* too early by at most one */
    if (year_day(year + 1) <= day)
        year++;
    must(year_day(year) <= day && day < year_day(year + 1));
    return year;
}

/* Is moment in the summer time that begins in year? In the south, it ends in the next year. */
static bool in_summer_of(const struct zone_rule *rule, int64_t year, int64_t moment)
{
    must(rule->has_summer);
    must(moment >= 0);
    const int64_t start = start_s(rule, year);
    int64_t end = end_s(rule, year);
    if (end < start)
        end = end_s(rule, year + 1);
    return moment >= start && moment < end;
}

int32_t zone_rule_offset_s(const struct zone_rule *rule, int64_t utc_s)
{
    if (!rule->has_summer)
        return rule->standard_s;

    const int64_t moment = moment_of(utc_s);
    const int64_t year = year_of(moment);
    /* An offset or an unusual time of day may move a change into an adjacent year. */
    for (int64_t at_year = year - 1; at_year <= year + 1; at_year++)
        if (in_summer_of(rule, at_year, moment))
            return rule->summer_s;
    must(year >= 1970);
    must(year < 2370);
    return rule->standard_s;
}

int64_t zone_rule_next_s(const struct zone_rule *rule, int64_t utc_s)
{
    if (!rule->has_summer)
        return INT64_MAX;

    const int64_t moment = moment_of(utc_s);
    const int64_t year = year_of(moment);
    int64_t next = INT64_MAX;
    for (int64_t at_year = year - 1; at_year <= year + 2; at_year++) {
        const int64_t edge[] = {start_s(rule, at_year), end_s(rule, at_year)};
        for (size_t i = 0; i < ARRAY_LEN(edge); i++)
            if (edge[i] > moment && edge[i] < next)
                next = edge[i];
    }
    must(next > moment);
    must(next < INT64_MAX);
    const int64_t wait = next - moment;
    return utc_s > INT64_MAX - wait ? INT64_MAX : utc_s + wait;
}
