/*
 * Calendar windows: the text of policy documents, and when they hold. The writer asks for each rule
 * with a window when it publishes a snapshot, so all is integer arithmetic without a clock.
 */
#include "milligpu/window.h"

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
    RUN_MIN = 3, /* so many days in a row are written as Mon-Wed */
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
 * Is the word meant to name days? Then what is wrong with it is said, while any other word is taken
 * for a zone: "Monday", "Mo-Fr" and "Mon,Feiertag" are days; no zone begins like that.
 */
static bool means_days(struct text word)
{
    struct text rest = word;
    struct text first;
    must(word.len > 0);
    if (same_word(word, "daily") || memchr(word.at, ',', word.len) != NULL)
        return true;
    if (!text_cut(&rest, '-', &first))
        return false;
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

/* "Mon" or "Mon-Fri", added to *days. */
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
    window->days = ALL_DAYS;
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

/* The words in their order. */
enum word { WORD_DAYS, WORD_TIMES, WORD_ZONE, WORDS };

static int take_word(struct text word, enum word *next, struct window *window, struct err *err)
{
    must(word.len > 0);
    must(*next <= WORDS);

    const enum word is = is_digit(word.at[0]) ? WORD_TIMES
                         : means_days(word)   ? WORD_DAYS
                                              : WORD_ZONE;
    if (is < *next)
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" does not belong there: write days, times, zone, each once",
                       TEXT_ARG(word));
    *next = (enum word)(is + 1);
    return is == WORD_DAYS    ? take_days(word, window, err)
           : is == WORD_TIMES ? take_times(word, window, err)
                              : take_zone(word, window, err);
}

int window_parse(struct text text, struct window *out, struct err *err)
{
    struct window window = {.days = ALL_DAYS, .minutes = DAY_MIN, .zone = "UTC"};
    struct text rest = text;
    struct text word;
    enum word next = WORD_DAYS;
    must(text.at != NULL || text.len == 0);

    while (text_cut(&rest, ' ', &word))
        if (word.len > 0 && take_word(word, &next, &window, err) < 0)
            return err_same(err);
    if (next == WORD_DAYS)
        return err_set(err, ERR_INVALID,
                       "empty: write days, times, zone, such as \"Mon-Fri 08:00-20:00 UTC\"");
    must(window.days > 0);
    *out = window;
    return 0;
}

/* How many of the window's days follow each other from this one, up to Sunday. */
static int run_from(const struct window *window, int day)
{
    int count = 0;
    must(day >= 0);
    while (day + count < WEEK_DAYS && (window->days >> (day + count) & 1) != 0)
        count++;
    must(count <= WEEK_DAYS);
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

void window_format(const struct window *window, struct strbuf *out)
{
    const int32_t end = window->from_min + window->minutes;
    const int32_t to = end > DAY_MIN ? end - DAY_MIN : end;
    must(window->minutes > 0 && window->minutes <= DAY_MIN);
    must(to != window->from_min);

    format_days(window, out);
    strbuf_printf(out, " %02d:%02d-%02d:%02d %s", window->from_min / HOUR_MIN,
                  window->from_min % HOUR_MIN, to / HOUR_MIN, to % HOUR_MIN, window->zone);
}

bool window_always(const struct window *window)
{
    must(window->days > 0 && window->days <= ALL_DAYS);
    must(window->minutes > 0 && window->minutes <= DAY_MIN);
    return window->days == ALL_DAYS && window->minutes == DAY_MIN;
}

static int64_t floor_by(int64_t number, int64_t by)
{
    must(by > 0);
    const int64_t down = number / by - (number % by < 0 ? 1 : 0);
    must(down <= number / by && number / by - down <= 1);
    return down;
}

/* Does it hold when wall clocks show this time? Seconds since 1970 on the wall clock. */
static bool holds_locally(const struct window *window, int64_t local_s)
{
    const int64_t minute = floor_by(local_s, MINUTE_S) + EPOCH_DAY * DAY_MIN;
    const int64_t of_week = minute - floor_by(minute, WEEK_MIN) * WEEK_MIN;
    must(of_week >= 0 && of_week < WEEK_MIN);
    must(window->days <= ALL_DAYS);
    for (int day = 0; day < WEEK_DAYS; day++) {
        const int64_t begin = day * DAY_MIN + window->from_min;
        const int64_t since = (of_week - begin + WEEK_MIN) % WEEK_MIN;
        if ((window->days >> day & 1) != 0 && since < window->minutes)
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

/* The next time after local_s at which a day of the window could begin or end. */
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
 * While the offset does not change, a week and a day have at most 16 edges, and the answer changes
 * at one of them. In two years of a rule, two weeks without a change of the offset are met.
 */
enum { STEPS_MAX = 17 * (ZONE_TRANSITIONS_MAX + 5) };

int64_t window_next_ms(const struct window *window, const struct zone *zone, int64_t utc_ms)
{
    const bool now = window_holds(window, zone, utc_ms);
    int64_t at_s = floor_by(utc_ms, SECOND_MS);
    if (window_always(window))
        return INT64_MAX;

    for (int step = 0; step < STEPS_MAX; step++) {
        const int64_t offset_s = zone_offset_s(zone, at_s);
        const int64_t edge_s = next_edge_s(window, at_s + offset_s) - offset_s;
        const int64_t change_s = zone_next_s(zone, at_s);
        must(edge_s > at_s && change_s > at_s);
        at_s = edge_s < change_s ? edge_s : change_s;
        if (at_s > INT64_MAX / SECOND_MS)
            return INT64_MAX;
        if (window_holds(window, zone, at_s * SECOND_MS) != now)
            return at_s * SECOND_MS;
    }
    must_not_reach("a window that does not always hold changes within a week or two");
}
