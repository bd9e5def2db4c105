/*
 * Parses, formats and evaluates calendar windows. Called by the reader of policy documents, and by
 * the writer for each rule with a window when it publishes a snapshot. Integer arithmetic without a
 * clock.
 */
#include "milligpu/core/rules/window.h"

#include <string.h>

enum {
    SECOND_MS = 1000,
    MINUTE_S = 60,
    HOUR_MIN = 60,
    DAY_MIN = 24 * HOUR_MIN,
    WEEK_DAYS = 7,
    WEEK_MIN = WEEK_DAYS * DAY_MIN,
    ALL_DAYS = (1 << WEEK_DAYS) - 1,
    EPOCH_DAY = 3, /* 1970-01-01 was a Thursday */
    DAY_LETTERS = 3,
    RUN_MIN = 3, /* minimum of consecutive days written as a range: Mon-Wed */
    TIME_LEN = sizeof "HH:MM" - 1,
    DATE_LEN = sizeof "YYYY-MM-DD" - 1,
    YEAR_MIN = 1970,
    DATES_MAX = 3700, /* ten years: bounds the search for the next change */
};

static const char day_names[WEEK_DAYS][DAY_LETTERS + 1] = {"Mon", "Tue", "Wed", "Thu",
                                                           "Fri", "Sat", "Sun"};

static bool same_word(struct text a, const char *b)
{
    const struct text other = text_of(b);
    must(a.at != NULL || a.len == 0);
    must(other.len > 0);
    if (a.len != other.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (text_lower(a.at[i]) != text_lower(other.at[i]))
            return false;
    return true;
}

/* 0: Monday; -1: none. */
static int day_of(struct text word)
{
    must(word.at != NULL || word.len == 0);
    for (int day = 0; day < WEEK_DAYS; day++)
        if (same_word(word, day_names[day]))
            return day;
    must(!same_word(word, day_names[0]));
    return -1;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * Does the word look like days? If so, errors are about days; any other word is taken for a zone.
 * "Monday", "Mo-Fr" and "Mon,Feiertag" are days: no zone begins like that.
 */
static bool means_days(struct text word)
{
    struct text rest = word;
    struct text first;
    must(word.len > 0);
    if (same_word(word, "daily") || memchr(word.at, ',', word.len) != NULL)
        return true;
    const bool cut = text_cut(&rest, '-', &first);
    must(cut);
    must(first.len <= word.len);
    for (int day = 0; day < WEEK_DAYS; day++) {
        const char begin[] = {day_names[day][0], day_names[day][1], '\0'};
        if (same_word(first, begin) || day_of(text_first(first, DAY_LETTERS)) == day)
            return true;
    }
    return false;
}

static int one_day(struct text word, int *out, struct err *err)
{
    must(word.at != NULL);
    *out = day_of(word);
    if (*out < 0)
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" is not a day: write Mon, Tue, Wed, Thu, Fri, Sat or Sun",
                       TEXT_ARG(word));
    must(*out < WEEK_DAYS);
    return 0;
}

/* Adds "Mon" or "Mon-Fri" to *days. */
static int add_days(struct text piece, uint8_t *days, struct err *err)
{
    const char *dash = memchr(piece.at, '-', piece.len);
    const struct text first = {piece.at, dash != NULL ? (size_t)(dash - piece.at) : piece.len};
    int from;
    int to;
    must(*days <= ALL_DAYS);

    if (one_day(first, &from, err) < 0)
        return err_same(err);
    to = from;
    if (dash != NULL) {
        const struct text last = {dash + 1, piece.len - first.len - 1};
        if (one_day(last, &to, err) < 0)
            return err_same(err);
        if (to == from)
            return err_set(err, ERR_INVALID, "\"%.*s\" from a day to itself: write %s, or daily",
                           TEXT_ARG(piece), day_names[from]);
    }
    const int count = (to - from + WEEK_DAYS) % WEEK_DAYS + 1;
    must(count <= WEEK_DAYS);
    for (int i = 0; i < count; i++) {
        const int day = (from + i) % WEEK_DAYS;
        if ((*days >> day & 1) != 0)
            return err_set(err, ERR_INVALID, "\"%.*s\": %s is named twice", TEXT_ARG(piece),
                           day_names[day]);
        *days |= (uint8_t)(1 << day);
    }
    return 0;
}

static int take_days(struct text word, struct window *window, struct err *err)
{
    must(word.len > 0);
    must(window->days == ALL_DAYS);
    if (same_word(word, "daily"))
        return 0;
    window->days = 0;
    size_t from = 0;
    for (size_t i = 0; i <= word.len; i++) {
        if (i < word.len && word.at[i] != ',')
            continue;
        if (add_days((struct text){word.at + from, i - from}, &window->days, err) < 0)
            return err_same(err);
        from = i + 1;
    }
    must(window->days > 0 && window->days <= ALL_DAYS);
    return 0;
}

static int64_t floor_by(int64_t number, int64_t by)
{
    must(by > 0);
    const int64_t down = number / by - (number % by < 0 ? 1 : 0);
    must(down <= number / by && number / by - down <= 1);
    return down;
}

/* Returns 0 for Monday. day: days since 1970. */
static int weekday_of(int64_t day)
{
    const int64_t week = floor_by(day + EPOCH_DAY, WEEK_DAYS);
    const int64_t weekday = day + EPOCH_DAY - week * WEEK_DAYS;
    must(weekday >= 0 && weekday < WEEK_DAYS);
    return (int)weekday;
}

/*
 * Dates
 */

static bool is_leap_year(int32_t year)
{
    must(year >= YEAR_MIN);
    must(year <= 9999);
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int32_t days_of_month(int32_t year, int32_t month)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    must(month >= 1 && month <= (int32_t)ARRAY_LEN(days));
    must(year >= YEAR_MIN);
    return days[month - 1] + (month == 2 && is_leap_year(year));
}

static int32_t days_of_year(int32_t year)
{
    return is_leap_year(year) ? 366 : 365;
}

/* Converts digits that were checked before. */
static int32_t number_at(const char *at, int digits)
{
    int32_t number = 0;
    must(digits > 0 && digits <= 4);
    for (int i = 0; i < digits; i++) {
        must(is_digit(at[i]));
        number = number * 10 + (at[i] - '0');
    }
    return number;
}

/* Converts "2026-12-24" to days since 1970. */
static bool read_date(struct text word, int32_t *out)
{
    static const char form[] = "dddd-dd-dd";
    must(out != NULL);
    if (word.len != DATE_LEN)
        return false;
    for (size_t i = 0; i < DATE_LEN; i++)
        if (form[i] == 'd' ? !is_digit(word.at[i]) : word.at[i] != form[i])
            return false;
    const int32_t year = number_at(word.at, 4);
    const int32_t month = number_at(word.at + 5, 2);
    const int32_t day = number_at(word.at + 8, 2);
    if (year < YEAR_MIN || month < 1 || month > 12 || day < 1 || day > days_of_month(year, month))
        return false;
    *out = day - 1;
    for (int32_t y = YEAR_MIN; y < year; y++)
        *out += days_of_year(y);
    for (int32_t m = 1; m < month; m++)
        *out += days_of_month(year, m);
    must(*out >= 0);
    return true;
}

static void format_date(struct strbuf *out, int32_t date)
{
    int32_t year = YEAR_MIN;
    int32_t month = 1;
    must(date >= 0);
    for (; date >= days_of_year(year); year++)
        date -= days_of_year(year);
    for (; date >= days_of_month(year, month); month++)
        date -= days_of_month(year, month);
    must(month <= 12);
    strbuf_printf(out, "%04d-%02d-%02d", year, month, date + 1);
}

/* Does the word look like dates ("2026-..."), not like times? */
static bool means_dates(struct text word)
{
    must(word.len > 0);
    must(word.at != NULL);
    return word.len > 4 && is_digit(word.at[0]) && is_digit(word.at[1]) && is_digit(word.at[2]) &&
           is_digit(word.at[3]) && word.at[4] == '-';
}

static int take_dates(struct text word, struct window *window, struct err *err)
{
    const bool range = word.len == 2 * DATE_LEN + 2;
    const struct text last =
        range ? (struct text){word.at + DATE_LEN + 2, DATE_LEN} : (struct text){word.at, word.len};
    must(word.len > 0);

    if (!read_date(range ? text_first(word, DATE_LEN) : word, &window->first_date) ||
        !read_date(last, &window->last_date) || (range && memcmp(word.at + DATE_LEN, "..", 2) != 0))
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" is not a date: write 2026-12-24, or 2026-12-24..2027-01-02",
                       TEXT_ARG(word));
    if (window->last_date < window->first_date)
        return err_set(err, ERR_INVALID, "\"%.*s\" ends before it begins", TEXT_ARG(word));
    if (window->last_date - window->first_date >= DATES_MAX)
        return err_set(err, ERR_INVALID, "\"%.*s\" is longer than ten years", TEXT_ARG(word));
    window->dated = true;
    must(window->first_date <= window->last_date);
    return 0;
}

/*
 * Times
 */

/* HH:MM, 24:00 at most. */
static bool read_time(const char *at, int32_t *out_min)
{
    must(at != NULL);
    must(out_min != NULL);
    if (!is_digit(at[0]) || !is_digit(at[1]) || at[2] != ':' || !is_digit(at[3]) ||
        !is_digit(at[4]))
        return false;
    const int32_t hours = (at[0] - '0') * 10 + (at[1] - '0');
    const int32_t minutes = (at[3] - '0') * 10 + (at[4] - '0');
    *out_min = hours * HOUR_MIN + minutes;
    return minutes < HOUR_MIN && *out_min <= DAY_MIN;
}

static int take_times(struct text word, struct window *window, struct err *err)
{
    static const char form[] = "HH:MM-HH:MM";
    const size_t second = sizeof "HH:MM-" - 1;
    int32_t from;
    int32_t to;
    must(word.len > 0);

    if (word.len != sizeof form - 1 || word.at[second - 1] != '-' || !read_time(word.at, &from) ||
        !read_time(word.at + second, &to))
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" is not a time of day: write 08:00-20:00, within 00:00-24:00",
                       TEXT_ARG(word));
    if (from == to)
        return err_set(err, ERR_INVALID, "\"%.*s\" would never hold: write 00:00-24:00",
                       TEXT_ARG(word));
    if (from == DAY_MIN)
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" begins when its day is over: write 00:00 and the next day",
                       TEXT_ARG(word));
    window->from_min = from;
    window->minutes = to > from ? to - from : to - from + DAY_MIN;
    must(window->minutes > 0 && window->minutes <= DAY_MIN);
    return 0;
}

static int take_zone(struct text word, struct window *window, struct err *err)
{
    must(word.len > 0);
    if (!zone_name_ok(word))
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" is not a time zone: write a name like Europe/Berlin, or UTC",
                       TEXT_ARG(word));
    must(word.len < sizeof window->zone);
    memcpy(window->zone, word.at, word.len);
    window->zone[word.len] = '\0';
    return 0;
}

enum { NO_DAY = -1 };

/* The end day in "20:00-Mon" of "Fri 20:00-Mon 08:00"; NO_DAY: no such word. */
static int end_day_of(struct text word)
{
    int32_t from;
    must(word.len > 0);
    if (word.len <= TIME_LEN + 1 || !read_time(word.at, &from) || word.at[TIME_LEN] != '-')
        return NO_DAY;
    const int day = day_of((struct text){word.at + TIME_LEN + 1, word.len - TIME_LEN - 1});
    must(day < WEEK_DAYS);
    return day;
}

static bool is_one_day(const struct window *window)
{
    must(window->days > 0);
    must(window->days <= ALL_DAYS);
    return (window->days & (window->days - 1)) == 0;
}

/* Parses both words: "20:00-Mon" and "08:00". */
static int take_span(struct text begin, struct text end, struct window *window, struct err *err)
{
    int32_t to;
    int day = 0;
    must(end_day_of(begin) != NO_DAY);

    if (!is_one_day(window))
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" ends on another day: write one day before it, as in Fri 20:00-Mon "
                       "08:00",
                       TEXT_ARG(begin));
    if (end.len != TIME_LEN || !read_time(end.at, &to))
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" has no time behind its day: write Fri 20:00-Mon 08:00",
                       TEXT_ARG(begin));
    const bool read = read_time(begin.at, &window->from_min);
    must(read);
    while ((window->days >> day & 1) == 0)
        day++;
    const int32_t days = (end_day_of(begin) - day + WEEK_DAYS) % WEEK_DAYS;
    const int32_t minutes = days * DAY_MIN + to - window->from_min;
    window->minutes = minutes > 0 ? minutes : minutes + WEEK_MIN;
    if (window->from_min == DAY_MIN || window->minutes >= WEEK_MIN)
        return err_set(err, ERR_INVALID,
                       "\"%.*s %.*s\": write less than a week, from 23:59 at most", TEXT_ARG(begin),
                       TEXT_ARG(end));
    must(window->minutes > 0);
    return 0;
}

/* The words, in order. */
enum window_word { WORD_DATES, WORD_DAYS, WORD_TIMES, WORD_ZONE, WORDS };

static int take_word(struct text word, enum window_word *next, struct window *window,
                     struct err *err)
{
    must(word.len > 0);
    must(*next <= WORDS);

    const enum window_word is = means_dates(word)      ? WORD_DATES
                                : is_digit(word.at[0]) ? WORD_TIMES
                                : means_days(word)     ? WORD_DAYS
                                                       : WORD_ZONE;
    if (is < *next)
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" does not belong there: write dates, days, times, zone, each once",
                       TEXT_ARG(word));
    *next = (enum window_word)(is + 1);
    return is == WORD_DATES   ? take_dates(word, window, err)
           : is == WORD_DAYS  ? take_days(word, window, err)
           : is == WORD_TIMES ? take_times(word, window, err)
                              : take_zone(word, window, err);
}

static struct text next_word(struct text *rest)
{
    struct text word = {0};
    must(rest->at != NULL || rest->len == 0);
    while (word.len == 0 && text_cut(rest, ' ', &word))
        continue;
    must(word.len == 0 || word.at[0] != ' ');
    return word;
}

/* Do the dates of the window contain one of its days of the week? */
static bool has_a_day(const struct window *window)
{
    must(window->days > 0);
    must(!window->dated || window->first_date <= window->last_date);
    for (int32_t date = window->first_date; window->dated && date <= window->last_date; date++)
        if ((window->days >> weekday_of(date) & 1) != 0)
            return true;
    return !window->dated;
}

int window_parse(struct text text, struct window *out, struct err *err)
{
    struct window window = {.days = ALL_DAYS, .minutes = DAY_MIN, .zone = "UTC"};
    struct text rest = text;
    struct text word;
    enum window_word next = WORD_DATES;
    must(text.at != NULL || text.len == 0);

    while ((word = next_word(&rest)).len > 0) {
        const bool span = next <= WORD_TIMES && end_day_of(word) != NO_DAY;
        if ((span ? take_span(word, next_word(&rest), &window, err)
                  : take_word(word, &next, &window, err)) < 0)
            return err_same(err);
        next = span ? WORD_ZONE : next;
    }
    if (next == WORD_DATES)
        return err_set(
            err, ERR_INVALID,
            "empty: write dates, days, times, zone, such as \"Mon-Fri 08:00-20:00 UTC\"");
    if (!has_a_day(&window))
        return err_set(err, ERR_INVALID, "would never hold: none of its dates is on these days");
    must(window.days > 0);
    *out = window;
    return 0;
}

/* The number of consecutive days of the window from this one, up to Sunday. */
static int run_from(const struct window *window, int day)
{
    int count = 0;
    must(day >= 0);
    while ((window->days >> (day + count) & 1) != 0)
        count++;
    must(day + count <= WEEK_DAYS);
    return count;
}

static void format_days(const struct window *window, struct strbuf *out)
{
    const char *before = "";
    must(window->days > 0 && window->days <= ALL_DAYS);
    if (window->days == ALL_DAYS) {
        strbuf_str(out, "daily");
        return;
    }
    for (int day = 0; day < WEEK_DAYS;) {
        const int run = run_from(window, day);
        must(day + run <= WEEK_DAYS);
        if (run >= RUN_MIN)
            strbuf_printf(out, "%s%s-%s", before, day_names[day], day_names[day + run - 1]);
        else if (run > 0)
            strbuf_printf(out, "%s%s", before, day_names[day]);
        before = run > 0 ? "," : before;
        day += run >= RUN_MIN ? run : 1;
    }
}

/* "20:00-08:00", or over more than a day "20:00-Mon 08:00" */
static void format_times(const struct window *window, struct strbuf *out)
{
    const int32_t end = window->from_min + window->minutes;
    int32_t to = end > DAY_MIN ? end - DAY_MIN : end;
    int day = 0;
    must(window->minutes > 0 && window->minutes < WEEK_MIN);

    strbuf_printf(out, " %02d:%02d-", window->from_min / HOUR_MIN, window->from_min % HOUR_MIN);
    if (window->minutes > DAY_MIN || (window->minutes == DAY_MIN && window->from_min > 0)) {
        while ((window->days >> day & 1) == 0)
            day++;
        to = end % DAY_MIN;
        strbuf_printf(out, "%s ", day_names[(day + end / DAY_MIN) % WEEK_DAYS]);
    }
    must(to <= DAY_MIN);
    strbuf_printf(out, "%02d:%02d", to / HOUR_MIN, to % HOUR_MIN);
}

void window_format(const struct window *window, struct strbuf *out)
{
    must(window->minutes <= DAY_MIN || is_one_day(window));
    must(!window->dated || window->first_date <= window->last_date);

    if (window->dated) {
        format_date(out, window->first_date);
        if (window->last_date > window->first_date) {
            strbuf_str(out, "..");
            format_date(out, window->last_date);
        }
        strbuf_char(out, ' ');
    }
    format_days(window, out);
    format_times(window, out);
    strbuf_printf(out, " %s", window->zone);
}

bool window_always(const struct window *window)
{
    must(window->days > 0 && window->days <= ALL_DAYS);
    must(window->minutes > 0 && window->minutes < WEEK_MIN);
    return window->days == ALL_DAYS && window->minutes == DAY_MIN && !window->dated;
}

static bool begins_on(const struct window *window, int64_t day)
{
    must(window->days <= ALL_DAYS);
    must(!window->dated || window->first_date <= window->last_date);
    return (window->days >> weekday_of(day) & 1) != 0 &&
           (!window->dated || (day >= window->first_date && day <= window->last_date));
}

/*
 * Does it hold at this wall-clock time, in seconds since 1970? It began today or within the last
 * seven days.
 */
static bool holds_locally(const struct window *window, int64_t local_s)
{
    const int64_t minute = floor_by(local_s, MINUTE_S);
    const int64_t today = floor_by(minute, DAY_MIN);
    must(minute >= today * DAY_MIN);
    must(window->minutes < WEEK_MIN);
    for (int64_t day = today - WEEK_DAYS; day <= today; day++) {
        const int64_t since = minute - day * DAY_MIN - window->from_min;
        if (since >= 0 && since < window->minutes && begins_on(window, day))
            return true;
    }
    return false;
}

bool window_holds(const struct window *window, const struct zone *zone, int64_t utc_ms)
{
    const int64_t utc_s = floor_by(utc_ms, SECOND_MS);
    must(strcmp(window->zone, zone_name(zone)) == 0);
    must(window->minutes > 0);
    return holds_locally(window, utc_s + zone_offset_s(zone, utc_s));
}

/* The next wall-clock time after local_s at which the window could begin or end. */
static int64_t next_edge_s(const struct window *window, int64_t local_s)
{
    const int64_t day_s = (int64_t)DAY_MIN * MINUTE_S;
    const int64_t of_day = local_s - floor_by(local_s, day_s) * day_s;
    const int64_t edge_min[] = {window->from_min, (window->from_min + window->minutes) % DAY_MIN};
    int64_t wait = day_s;
    must(of_day >= 0 && of_day < day_s);
    for (size_t i = 0; i < ARRAY_LEN(edge_min); i++) {
        const int64_t until = edge_min[i] * MINUTE_S - of_day;
        const int64_t ahead = until > 0 ? until : until + day_s;
        wait = ahead < wait ? ahead : wait;
    }
    must(wait > 0);
    return local_s + wait;
}

/*
 * Limit of the steps of a search. At a constant offset, eight days have at most 16 edges, and the
 * result changes at one of them. Two years of a zone's rule contain two weeks of constant offset. A
 * window with dates may hold on all its days, with two edges each.
 */
enum { STEPS_MAX = 17 * (ZONE_TRANSITIONS_MAX + 5) + 2 * (DATES_MAX + 2 * WEEK_DAYS) };

/* Upper limit of a window's duration plus a zone's offset. */
enum { NEAR_DAYS = WEEK_DAYS + 2 };

/* Returns at_s (UTC), advanced to shortly before the dates of the window if it is far before. */
static int64_t skip_to_dates(const struct window *window, int64_t at_s)
{
    const int64_t day_s = (int64_t)DAY_MIN * MINUTE_S;
    const int64_t near_s = (window->first_date - NEAR_DAYS) * day_s;
    must(window->first_date >= 0);
    must(window->first_date <= window->last_date);
    return window->dated && at_s < near_s ? near_s : at_s;
}

static bool is_over(const struct window *window, int64_t at_s)
{
    const int64_t day_s = (int64_t)DAY_MIN * MINUTE_S;
    must(window->last_date >= 0);
    must(window->first_date <= window->last_date);
    return window->dated && at_s > (window->last_date + NEAR_DAYS) * day_s;
}

int64_t window_next_ms(const struct window *window, const struct zone *zone, int64_t utc_ms)
{
    const bool now = window_holds(window, zone, utc_ms);
    int64_t at_s = skip_to_dates(window, floor_by(utc_ms, SECOND_MS));
    if (window_always(window))
        return INT64_MAX;

    for (int step = 0; step < STEPS_MAX; step++) {
        const int64_t offset_s = zone_offset_s(zone, at_s);
        const int64_t edge_s = next_edge_s(window, at_s + offset_s) - offset_s;
        const int64_t change_s = zone_next_s(zone, at_s);
        must(edge_s > at_s && change_s > at_s);
        at_s = edge_s < change_s ? edge_s : change_s;
        if (at_s > INT64_MAX / SECOND_MS || is_over(window, at_s))
            return INT64_MAX;
        if (window_holds(window, zone, at_s * SECOND_MS) != now)
            return at_s * SECOND_MS;
    }
    must_not_reach("a window that does not always hold changes within a week or two");
}
