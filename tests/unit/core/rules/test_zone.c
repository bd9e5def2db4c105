#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "milligpu/core/rules/zone.h"

#include "support/pieces.h"
#include "support/test.h"
#include "support/walk.h"
#include "support/zones.h"

enum { DAY_S = 86400, HOUR_S = 3600 };

static const int64_t FROM_S = INT64_C(-2208988800); /* 1900-01-01 */
static const int64_t TO_S = INT64_C(4102444800);    /* 2100-01-01 */

/* UTC, in the calendar of the C library. */
static int64_t at(int year, int month, int day, int hour, int minute)
{
    struct tm tm = {.tm_year = year - 1900,
                    .tm_mon = month - 1,
                    .tm_mday = day,
                    .tm_hour = hour,
                    .tm_min = minute};
    return timegm(&tm);
}

static void c_library_uses(const char *zone)
{
    char value[128];
    (void)snprintf(value, sizeof value, ":%s", zone);
    (void)setenv("TZ", value, 1); /* NOLINT(concurrency-mt-unsafe) */
    tzset();
}

static void agree_at(const struct zone *zone, int64_t utc_s)
{
    struct tm tm;
    const time_t when = utc_s;
    assert_non_null(localtime_r(&when, &tm));
    const int32_t ours = zone_offset_s(zone, utc_s);
    if (ours != tm.tm_gmtoff)
        fail_msg("%s at %lld: %d, by the C library %ld", zone_name(zone), (long long)utc_s, ours,
                 tm.tm_gmtoff);
}

/* Between the moments that zone_next_s() names, the offset stays the same. */
static void agree_from(const struct zone *zone, int64_t from_s)
{
    const int64_t step = (TO_S - from_s) / walk_steps(10400, 400);
    for (int64_t utc_s = from_s; utc_s < TO_S; utc_s += step)
        agree_at(zone, utc_s);
    int changes = 0;
    for (int64_t utc_s = from_s; utc_s < TO_S; utc_s = zone_next_s(zone, utc_s)) {
        agree_at(zone, utc_s - 1);
        agree_at(zone, utc_s);
        agree_at(zone, utc_s + 1);
        assert_true(++changes < 2000);
    }
}

struct files {
    char name[2048][ZONE_NAME_BYTES_MAX];
    int count;
};
static struct files files;

static int see_file(const char *path, const struct stat *stat, int type, struct FTW *at_level)
{
    (void)stat;
    (void)at_level;
    const char *name = path + strlen(ZONES_FOLDER "/");
    char magic[4] = "";
    if (type != FTW_F || strncmp(name, "posix", 5) == 0 || strncmp(name, "right/", 6) == 0)
        return 0; /* copies, and zones with leap seconds */
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    const size_t got = fread(magic, 1, sizeof magic, file);
    (void)fclose(file);
    if (got == sizeof magic && memcmp(magic, "TZif", sizeof magic) == 0) {
        assert_true(files.count < (int)ARRAY_LEN(files.name));
        assert_true(strlen(name) < sizeof files.name[0]);
        memcpy(files.name[files.count++], name, strlen(name) + 1);
    }
    return 0;
}

/* Links are skipped: their targets are compared. */
TEST(zone__agrees_with_the_c_library)
{
    files.count = 0;
    assert_int_equal(nftw(ZONES_FOLDER, see_file, 16, FTW_PHYS), 0);
    assert_true(files.count > 300);
    for (int i = 0; i < files.count; i++) {
        CLEANUP(zone_freep) struct zone *zone = zones_installed(files.name[i]);
        assert_string_equal(zone_name(zone), files.name[i]);
        c_library_uses(files.name[i]);
        agree_from(zone, FROM_S);
    }
}

TEST(zone_alike__compares_name_and_bytes)
{
    CLEANUP(zone_freep) struct zone *winter = zones_of_rule("Made/Zone", "<+01>-1");
    CLEANUP(zone_freep) struct zone *again = zones_of_rule("Made/Zone", "<+01>-1");
    CLEANUP(zone_freep) struct zone *moved = zones_of_rule("Made/Zone", "<+02>-2");
    CLEANUP(zone_freep) struct zone *other = zones_of_rule("Made/Other", "<+01>-1");
    CLEANUP(zone_freep) struct zone *utc = zone_utc();
    CLEANUP(zone_freep) struct zone *utc_again = zone_utc();
    assert_true(zone_alike(winter, again));
    assert_false(zone_alike(winter, moved));
    assert_false(zone_alike(winter, other));
    assert_false(zone_alike(winter, utc));
    assert_true(zone_alike(utc, utc_again));
}

static int64_t read_s(const char *at_bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | (uint8_t)at_bytes[i];
    return (int64_t)value;
}

static uint32_t count_at(const struct strbuf *bytes, size_t place)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 8 | (uint8_t)bytes->data[place + (size_t)i];
    return value;
}

/*
 * Removes the parts that slim files lack: the old block, and the transitions that the rule gives,
 * too. All current rules hold since 2030 at the latest.
 */
static void make_slim(struct strbuf *bytes)
{
    const size_t old = (size_t)count_at(bytes, 32) * 5 + count_at(bytes, 36) * 6 +
                       count_at(bytes, 40) + count_at(bytes, 24) + count_at(bytes, 20);
    strbuf_cut(bytes, 44, old);
    memset(bytes->data + 20, 0, 24);
    const size_t second = 44;
    const uint32_t all = count_at(bytes, second + 32);
    const char *times = bytes->data + second + 44;
    uint32_t keep = 0;
    while (keep < all && read_s(times + (size_t)keep * 8) < at(2030, 1, 1, 0, 0))
        keep++;
    strbuf_cut(bytes, second + 44 + (size_t)all * 8 + keep, all - keep);
    strbuf_cut(bytes, second + 44 + (size_t)keep * 8, (size_t)(all - keep) * 8);
    for (int i = 0; i < 4; i++)
        bytes->data[second + 32 + (size_t)i] = (char)(keep >> (8 * (3 - i)) & 0xff);
}

TEST(zone_file__is_read_slim_or_fat)
{
    static const char *const names[] = {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
                                        "Asia/Kolkata",  "America/Santiago", "Asia/Jerusalem"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct strbuf bytes;
        struct zone *zone = NULL;
        struct err err;
        strbuf_init(&bytes);
        assert_true(zones_bytes(names[i], &bytes));
        make_slim(&bytes);
        if (zone_new(text_of(names[i]), (struct text){bytes.data, bytes.len}, &zone, &err) < 0)
            fail_msg("%s", err.text);
        c_library_uses(names[i]);
        agree_from(zone, FROM_S);
        zone_free(zone);
        strbuf_done(&bytes);
    }
}

TEST(zone_utc__needs_no_file)
{
    CLEANUP(zone_freep) struct zone *utc = zone_utc();
    assert_string_equal(zone_name(utc), "UTC");
    assert_int_equal(zone_offset_s(utc, INT64_MIN), 0);
    assert_int_equal(zone_offset_s(utc, 0), 0);
    assert_int_equal(zone_offset_s(utc, INT64_MAX), 0);
    assert_true(zone_next_s(utc, 0) == INT64_MAX);
}

TEST(zone_name__stays_inside_the_folder)
{
    static const char ok[] =
        "UTC|Europe/Berlin|America/Argentina/Buenos_Aires|Etc/GMT+5|Etc/GMT-14|a|Z/z/0/9";
    static const char wrong[] =
        "|/etc/passwd|../x|Europe/../x|Europe/|Europe//Berlin|Europe/Berl in|"
        "a.b|Europe\\Berlin|a\n|K\xc3\xb6ln|a:b|/|@|[|`|{|a/@|\x01";
    char longest[ZONE_NAME_BYTES_MAX + 2];

    for (struct pieces list = {.rest = text_of(ok)}; pieces_next(&list, '|');)
        if (!zone_name_ok(text_of(list.text)))
            fail_msg("%s", list.text);
    for (struct pieces list = {.rest = text_of(wrong)}; pieces_next(&list, '|');)
        if (zone_name_ok(text_of(list.text)))
            fail_msg("%s", list.text);
    memset(longest, 'x', sizeof longest);
    assert_true(zone_name_ok((struct text){longest, ZONE_NAME_BYTES_MAX}));
    assert_false(zone_name_ok((struct text){longest, ZONE_NAME_BYTES_MAX + 1}));
}

static const int64_t at_s[] = {-100, 0, 1000};
static const uint8_t type[] = {1, 2, 1};
static const int32_t offset_s[] = {10, -20, 30};
static const struct tzif good = {.version = '2',
                                 .transitions = 3,
                                 .n_types = 3,
                                 .at_s = at_s,
                                 .type = type,
                                 .offset_s = offset_s,
                                 .footer = "ABC-2"};

static struct strbuf written(const struct tzif *file)
{
    struct strbuf bytes;

    strbuf_init(&bytes);
    tzif_write(file, &bytes);
    return bytes;
}

static int zone_read(const char *name, const struct strbuf *bytes, struct zone **out)
{
    struct err err;

    return zone_new(text_of(name), (struct text){bytes->data, bytes->len}, out, &err);
}

static struct zone *made(const struct tzif *file)
{
    CLEANUP(strbuf_done) struct strbuf bytes = written(file);
    struct zone *zone = NULL;

    assert_int_equal(zone_read("Made/Zone", &bytes, &zone), 0);
    return zone;
}

TEST(transition__holds_from_its_second_on)
{
    static const char versions[] = {'\0', '2', '3', '4'};
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        struct tzif file = good;
        file.version = versions[i];
        file.footer = "";
        CLEANUP(zone_freep) struct zone *zone = made(&file);
        assert_int_equal(zone_offset_s(zone, INT64_MIN), 10); /* the first type */
        assert_int_equal(zone_offset_s(zone, -101), 10);
        assert_int_equal(zone_offset_s(zone, -100), -20);
        assert_int_equal(zone_offset_s(zone, -1), -20);
        assert_int_equal(zone_offset_s(zone, 0), 30);
        assert_int_equal(zone_offset_s(zone, 999), 30);
        assert_int_equal(zone_offset_s(zone, 1000), -20);
        assert_int_equal(zone_offset_s(zone, INT64_MAX), -20);
        assert_int_equal(zone_next_s(zone, INT64_MIN), -100);
        assert_int_equal(zone_next_s(zone, -101), -100);
        assert_int_equal(zone_next_s(zone, -100), 0);
        assert_int_equal(zone_next_s(zone, 999), 1000);
        assert_true(zone_next_s(zone, 1000) == INT64_MAX);
    }
}

TEST(zone_footer__holds_from_the_last_transition_on)
{
    struct zone *zone = made(&good);
    assert_int_equal(zone_offset_s(zone, 999), 30);
    assert_int_equal(zone_offset_s(zone, 1000), 2 * HOUR_S);
    zone_free(zone);
    struct tzif file = good;
    file.transitions = 0;
    zone = made(&file);
    assert_int_equal(zone_offset_s(zone, INT64_MIN), 2 * HOUR_S);
    zone_free(zone);
    file.footer = "";
    zone = made(&file);
    assert_int_equal(zone_offset_s(zone, INT64_MIN), 10);
    assert_int_equal(zone_offset_s(zone, INT64_MAX), 10);
    zone_free(zone);
}

TEST(transition__has_64_bits)
{
    static const int64_t far_s[] = {INT64_C(-576460752303423488), -INT64_C(0x100000001),
                                    INT64_C(0x1fffffff0)};
    struct tzif file = good;
    file.at_s = far_s;
    CLEANUP(zone_freep) struct zone *zone = made(&file);
    assert_true(zone_next_s(zone, INT64_MIN) == far_s[0]);
    assert_true(zone_next_s(zone, far_s[0]) == far_s[1]);
    assert_true(zone_next_s(zone, far_s[1]) == far_s[2]);
}

/* Refused with this text behind "time zone Made/Zone: ". */
static void refused(struct text bytes, enum err_code code, const char *why)
{
    struct zone *zone = NULL;
    struct err err;
    if (zone_new(TEXT("Made/Zone"), bytes, &zone, &err) == 0)
        fail_msg("not refused: %s", why);
    assert_null(zone);
    assert_int_equal(err.code, code);
    assert_true(strncmp(err.text, "time zone Made/Zone: ", 21) == 0);
    assert_string_equal(err.text + 21, why);
}

static void refused_bytes(const struct strbuf *bytes, enum err_code code, const char *why)
{
    refused((struct text){bytes->data, bytes->len}, code, why);
}

static void refused_file(const struct tzif *file, enum err_code code, const char *why)
{
    CLEANUP(strbuf_done) struct strbuf bytes = written(file);
    refused_bytes(&bytes, code, why);
}

TEST(zone_file__is_refused_when_cut_at_any_length)
{
    for (int i = 0; i < 2; i++) {
        struct tzif file = good;
        file.version = i == 0 ? '\0' : '3';
        CLEANUP(strbuf_done) struct strbuf bytes = written(&file);
        for (size_t len = 0; len < bytes.len; len++) {
            char *exact = malloc(len + 1); /* so that a sanitizer sees reads beyond the end */
            assert_non_null(exact);
            memcpy(exact, bytes.data, len);
            exact = realloc(exact, len > 0 ? len : 1);
            refused((struct text){exact, len}, ERR_INVALID, "the file ends early");
            free(exact);
        }
        strbuf_char(&bytes, '\n');
        refused_bytes(&bytes, ERR_INVALID, "1 bytes behind its end");
    }
}

TEST(zone_file__is_refused_with_its_fault)
{
    struct tzif file = good;
    file.version = '1';
    refused_file(&file, ERR_INVALID, "version 0x31 of TZif; known are 1 to 4");
    file.version = '5';
    refused_file(&file, ERR_INVALID, "version 0x35 of TZif; known are 1 to 4");
    file = good;
    file.leaps = 1;
    refused_file(&file, ERR_INVALID, "it counts leap seconds; take the zone without \"right/\"");
    file = good;
    file.n_types = 0;
    refused_file(&file, ERR_INVALID, "0 types of local time, not 1 to 256");
    file.n_types = 2;
    refused_file(&file, ERR_INVALID, "transition 1: there is no type 2");
    file = good;
    file.footer = "CET-1CEST";
    refused_file(&file, ERR_INVALID, "its rule \"CET-1CEST\" cannot be read");
    static const int64_t equal_s[] = {-100, 0, 0};
    file = good;
    file.at_s = equal_s;
    refused_file(&file, ERR_INVALID, "transition 2 is not later than the one before");
    static const int64_t wrong_s[] = {5, 0, 10};
    file.at_s = wrong_s;
    refused_file(&file, ERR_INVALID, "transition 1 is not later than the one before");
    static const char empty[44] = "TZif";
    refused((struct text){empty, sizeof empty}, ERR_INVALID, "0 types of local time, not 1 to 256");
    refused(TEXT("XZif"), ERR_INVALID, "not a time zone file (TZif)");
    refused(TEXT("#!/bin/sh\n"), ERR_INVALID, "not a time zone file (TZif)");
    refused(TEXT(""), ERR_INVALID, "the file ends early");
}

TEST(zone_offset__is_below_26_hours)
{
    int32_t offset[] = {0, 0, 26 * HOUR_S - 1};
    struct tzif file = good;
    file.offset_s = offset;
    zone_free(made(&file));
    offset[2] = -26 * HOUR_S + 1;
    zone_free(made(&file));
    offset[2] = 26 * HOUR_S;
    refused_file(&file, ERR_INVALID, "an offset of 93600 s from UTC");
    offset[2] = -26 * HOUR_S;
    refused_file(&file, ERR_INVALID, "an offset of -93600 s from UTC");
}

TEST(zone_file__has_limits)
{
    static int64_t many_s[ZONE_TRANSITIONS_MAX + 1];
    static uint8_t zeros[ZONE_TRANSITIONS_MAX + 1];
    static int32_t types[257];
    for (size_t i = 0; i < ARRAY_LEN(many_s); i++)
        many_s[i] = (int64_t)i;
    struct tzif file = good;
    file.at_s = many_s;
    file.type = zeros;
    file.offset_s = types;
    file.transitions = ZONE_TRANSITIONS_MAX;
    file.n_types = 256;
    CLEANUP(zone_freep) struct zone *zone = made(&file);
    assert_int_equal(zone_next_s(zone, ZONE_TRANSITIONS_MAX - 2), ZONE_TRANSITIONS_MAX - 1);
    file.n_types = 257;
    refused_file(&file, ERR_INVALID, "257 types of local time, not 1 to 256");
    file.transitions = ZONE_TRANSITIONS_MAX + 1;
    refused_file(&file, ERR_TOO_LARGE, "2049 transitions, more than 2048");

    CLEANUP(strbuf_done) struct strbuf bytes = written(&good);
    while (bytes.len < ZONE_BYTES_MAX)
        strbuf_char(&bytes, 'x');
    refused_bytes(&bytes, ERR_INVALID, "65385 bytes behind its end");
    strbuf_char(&bytes, 'x');
    refused_bytes(&bytes, ERR_TOO_LARGE, "more than 65536 bytes");
}

/* Changes each of the six counts in both headers, which moves all that follows. */
TEST(zone_file__is_refused_with_a_wrong_count)
{
    static const char wrong[][5] = {"\xff\xff\xff\xff", {0, 0, 0, 1}};
    CLEANUP(strbuf_done) struct strbuf bytes = written(&good);
    for (size_t header = 0; header < 2; header++)
        for (size_t count = 0; count < 6; count++) {
            char *place = bytes.data + header * (44 + 7) + 20 + count * 4;
            char kept[4];
            memcpy(kept, place, 4);
            for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                struct zone *zone = NULL;
                memcpy(place, wrong[i], 4);
                if (memcmp(kept, place, 4) != 0)
                    assert_true(zone_read("x", &bytes, &zone) < 0);
            }
            memcpy(place, kept, 4);
        }
}

TEST(zone_file__has_one_version_in_both_headers)
{
    CLEANUP(strbuf_done) struct strbuf bytes = written(&good);
    bytes.data[44 + 7 + 4] = '3';
    refused_bytes(&bytes, ERR_INVALID, "its two headers have different versions");
    bytes.data[44 + 7] = 'X';
    refused_bytes(&bytes, ERR_INVALID, "not a time zone file (TZif)");
    CLEANUP(strbuf_done) struct strbuf ends = written(&good);
    ends.data[ends.len - strlen("\nABC-2\n")] = ' ';
    refused_bytes(&ends, ERR_INVALID, "no rule where it has to be");
}

TEST(zone_file__is_refused_with_leap_seconds)
{
    CLEANUP(strbuf_done) struct strbuf bytes;
    strbuf_init(&bytes);
    if (zones_bytes("right/Europe/Berlin", &bytes))
        refused_bytes(&bytes, ERR_INVALID,
                      "it counts leap seconds; take the zone without \"right/\"");
}

static int32_t under(const char *rule, int64_t utc_s)
{
    CLEANUP(zone_freep) struct zone *zone = zones_of_rule("Made/Rule", rule);
    const int32_t offset = zone_offset_s(zone, utc_s);
    return offset;
}

/* The offset changes at this second. */
static void changes(const char *rule, int64_t when_s, int32_t before_s, int32_t after_s)
{
    CLEANUP(zone_freep) struct zone *zone = zones_of_rule("Made/Rule", rule);
    if (zone_offset_s(zone, when_s - 1) != before_s || zone_offset_s(zone, when_s) != after_s)
        fail_msg("%s at %lld: %d, then %d", rule, (long long)when_s,
                 zone_offset_s(zone, when_s - 1), zone_offset_s(zone, when_s));
    assert_int_equal(zone_next_s(zone, when_s - 1), when_s);
}

TEST(zone_rule__has_one_offset_without_summer)
{
    assert_int_equal(under("UTC0", 0), 0);
    assert_int_equal(under("CET-1", 0), HOUR_S);
    assert_int_equal(under("EST+5", 0), -5 * HOUR_S);
    assert_int_equal(under("IST-5:30", 0), 5 * HOUR_S + 1800);
    assert_int_equal(under("<+1245>-12:45", 0), 12 * HOUR_S + 2700);
    assert_int_equal(under("<-03>3", 0), -3 * HOUR_S);
    assert_int_equal(under("LMT-0:53:28", 0), 3208);
    assert_int_equal(under("AAA-1:00", 0), HOUR_S);
    assert_int_equal(under("AAA-1:00:00", 0), HOUR_S);
    assert_int_equal(under("abcdefz24:59:59", 0), -25 * HOUR_S + 1);
    assert_int_equal(under("AZa-24", 0), 24 * HOUR_S);
    assert_int_equal(under("<A0z9+->-024", 0), 24 * HOUR_S);
}

TEST(zone_rule__names_the_weekday_of_a_month)
{
    static const char berlin[] = "CET-1CEST,M3.5.0,M10.5.0/3";
    changes(berlin, at(2026, 3, 29, 1, 0), HOUR_S, 2 * HOUR_S);
    changes(berlin, at(2026, 10, 25, 1, 0), 2 * HOUR_S, HOUR_S);
    changes(berlin, at(2024, 3, 31, 1, 0), HOUR_S, 2 * HOUR_S); /* a leap year */
    changes(berlin, at(2000, 3, 26, 1, 0), HOUR_S, 2 * HOUR_S);
    changes(berlin, at(2100, 3, 28, 1, 0), HOUR_S, 2 * HOUR_S); /* not a leap year */
    changes(berlin, at(1970, 3, 29, 1, 0), HOUR_S, 2 * HOUR_S);
    changes(berlin, at(2369, 10, 26, 1, 0), 2 * HOUR_S, HOUR_S);
    changes(berlin, at(1900, 3, 25, 1, 0), HOUR_S, 2 * HOUR_S); /* before 1970 */
    changes("AAA-1BBB,M2.5.5,M12.5.6", at(2020, 2, 28, 1, 0), HOUR_S, 2 * HOUR_S);
    changes("AAA0BBB,M2.1.0,M3.4.6", at(2026, 2, 1, 2, 0), 0, HOUR_S);
    changes("AAA0BBB,M2.1.0,M3.4.6", at(2026, 3, 28, 1, 0), HOUR_S, 0);
    changes("AAA0BBB,M2.5.0,M3.4.6", at(2026, 2, 22, 2, 0), 0, HOUR_S); /* four Sundays */
    changes("AAA0BBB,M2.5.6,M3.4.6", at(2020, 2, 29, 2, 0), 0, HOUR_S);
    changes("AAA0BBB,M1.5.6,M12.5.4", at(2026, 12, 31, 1, 0), HOUR_S, 0);
}

static int weekday(int64_t utc_s)
{
    struct tm tm;
    const time_t when = utc_s;
    assert_non_null(gmtime_r(&when, &tm));
    return tm.tm_wday;
}

TEST(zone_rule__finds_the_first_and_last_day_of_each_month)
{
    for (int year = 2023; year <= 2024; year++)
        for (int month = 1; month <= 12; month++) {
            const int64_t first_s = at(year, month, 1, 0, 0);
            const int64_t last_s = at(year, month + 1, 0, 0, 0);
            const int other = (month + 5) % 12 + 1;
            char rule[64];
            (void)snprintf(rule, sizeof rule, "AAA0BBB,M%d.1.%d/0,M%d.2.0", month, weekday(first_s),
                           other);
            changes(rule, first_s, 0, HOUR_S);
            (void)snprintf(rule, sizeof rule, "AAA0BBB,M%d.5.%d/0,M%d.2.0", month, weekday(last_s),
                           other);
            changes(rule, last_s, 0, HOUR_S);
            /* the weekday of the first of the next month: a week before that */
            (void)snprintf(rule, sizeof rule, "AAA0BBB,M%d.5.%d/0,M%d.2.0", month,
                           (weekday(last_s) + 1) % 7, other);
            changes(rule, last_s - 6 * DAY_S, 0, HOUR_S);
        }
}

TEST(zone_rule__finds_march_in_every_year)
{
    for (int year = 1600; year < 2500; year++)
        changes("AAA0BBB,J60/0,J300", at(year, 3, 1, 0, 0), 0, HOUR_S);
}

TEST(zone_rule__names_the_day_of_a_year)
{
    static const char julian[] = "AAA0BBB,J60/0,J365/12"; /* J60 is always March 1 */
    changes(julian, at(2023, 3, 1, 0, 0), 0, HOUR_S);
    changes(julian, at(2024, 3, 1, 0, 0), 0, HOUR_S);
    changes(julian, at(2024, 12, 31, 11, 0), HOUR_S, 0);
    changes("AAA0BBB,J59/0,J300", at(2024, 2, 28, 0, 0), 0, HOUR_S);
    changes("AAA0BBB,J1/0,J300", at(2024, 1, 1, 0, 0), 0, HOUR_S);
    changes("AAA0BBB,59/0,300", at(2023, 3, 1, 0, 0), 0, HOUR_S);
    changes("AAA0BBB,59/0,300", at(2024, 2, 29, 0, 0), 0, HOUR_S);
    changes("AAA0BBB,0/0,300", at(2024, 1, 1, 0, 0), 0, HOUR_S);
    changes("AAA0BBB,20,365/0", at(2024, 12, 30, 23, 0), HOUR_S, 0);
}

TEST(zone_rule__gives_summer_its_offset_and_times)
{
    static const char lord_howe[] = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0";
    changes(lord_howe, at(2026, 4, 4, 15, 0), 11 * HOUR_S, 10 * HOUR_S + 1800);
    changes(lord_howe, at(2026, 10, 3, 15, 30), 10 * HOUR_S + 1800, 11 * HOUR_S);
    /* Ireland: "summer" is winter, and behind */
    changes("IST-1GMT0,M10.5.0,M3.5.0/1", at(2026, 10, 25, 1, 0), HOUR_S, 0);
    changes("IST-1GMT0,M10.5.0,M3.5.0/1", at(2026, 3, 29, 1, 0), 0, HOUR_S);
    changes("EST5EDT4:30:15,M3.2.0/3:04:05,M11.1.0", at(2026, 3, 8, 8, 4) + 5, -5 * HOUR_S,
            -(4 * HOUR_S + 1815));
    /* Nuuk: on the day before */
    changes("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", at(2026, 3, 29, 1, 0), -2 * HOUR_S, -HOUR_S);
    changes("EST5EDT,M3.2.0/+2,M11.1.0", at(2026, 3, 8, 7, 0), -5 * HOUR_S, -4 * HOUR_S);
    changes("AAA0BBB,J10/167,J100", at(2026, 1, 16, 23, 0), 0, HOUR_S);
    changes("AAA0BBB,J10/-167,J100", at(2026, 1, 3, 1, 0), 0, HOUR_S);
}

TEST(zone_rule__changes_in_the_next_or_previous_year)
{
    changes("AAA0BBB,J1/-24,J100", at(2025, 12, 31, 0, 0), 0, HOUR_S);
    changes("AAA0BBB,J100,J365/25", at(2026, 1, 1, 0, 0), HOUR_S, 0);
    changes("AAA0BBB,J100,J365/167", at(2026, 1, 6, 22, 0), HOUR_S, 0);
    changes("AAA0BBB,J364/167,J100", at(2026, 1, 5, 23, 0), 0, HOUR_S);
    assert_int_equal(under("AAA0BBB,J1/-24,J100", at(2025, 12, 31, 12, 0)), HOUR_S);
    assert_int_equal(under("AAA0BBB,J100,J365/48", at(2026, 1, 1, 12, 0)), HOUR_S);
}

/* On December 31, both changes of the next year are past: the next one is a year later. */
TEST(zone_rule__changes_twice_in_the_previous_year)
{
    static const char rule[] = "AAA0BBB,J1/-48,J1/-24";
    changes(rule, at(2025, 12, 30, 0, 0), 0, HOUR_S);
    changes(rule, at(2025, 12, 30, 23, 0), HOUR_S, 0);
    CLEANUP(zone_freep) struct zone *zone = zones_of_rule("Made/Rule", rule);
    assert_int_equal(zone_next_s(zone, at(2025, 12, 31, 12, 0)), at(2026, 12, 30, 0, 0));
}

TEST(zone_rule__has_summer_all_year_or_never)
{
    for (int month = 1; month <= 12; month++)
        for (int hour = 0; hour < 24; hour++) {
            const int64_t when = at(2026, month, 1, hour, 30);
            assert_int_equal(under("EST5EDT,0/0,J365/25", when), -4 * HOUR_S);
            assert_int_equal(under("EST5EDT4,J50/1,J50/2", when), -5 * HOUR_S);
        }
}

TEST(zone_rule__holds_at_any_distance)
{
    static const char berlin[] = "CET-1CEST,M3.5.0,M10.5.0/3";
    const int64_t period_s = INT64_C(146097) * DAY_S;
    const int64_t change_s = at(2026, 3, 29, 1, 0);
    changes(berlin, change_s + period_s * 700000000, HOUR_S, 2 * HOUR_S);
    changes(berlin, change_s - period_s * 700000000, HOUR_S, 2 * HOUR_S);
    CLEANUP(zone_freep) struct zone *zone = zones_of_rule("Made/Rule", berlin);
    assert_int_equal(zone_offset_s(zone, 0), HOUR_S);
    (void)zone_offset_s(zone, INT64_MIN);
    (void)zone_offset_s(zone, INT64_MAX);
    assert_true(zone_next_s(zone, INT64_MAX) == INT64_MAX);
    assert_true(zone_next_s(zone, INT64_MAX - 1) == INT64_MAX);
    assert_true(zone_next_s(zone, INT64_MIN) < INT64_MIN + 366 * (int64_t)DAY_S);
}

/* The texts are separated by |. */
static const char not_rules[] =
    "A|AB0|ABC|ABC+|ABC25|ABC1:|ABC1:60|ABC1:00:60|ABC1:00:|ABC--1|<AB>0|<ABC0|<ABC"
    "|<A_C>0|AB10|<+01>|ABC0 | ABC0|:ABC0|ABC0000|ABC0D|ABC0DEF|ABC0DEF1|ABC0DEF25,1,2"
    "|ABC0DEF,|ABC0DEF,1|ABC0DEF,1,|ABC0DEF,1,2,|ABC0DEF,1,366|ABC0DEF,J0,2"
    "|ABC0DEF,J366,2|ABC0DEF,J,2|ABC0DEF,M0.1.0,2|ABC0DEF,M13.1.0,2|ABC0DEF,M1.0.0,2"
    "|ABC0DEF,M1.6.0,2|ABC0DEF,M1.1.7,2|ABC0DEF,M1.1,2|ABC0DEF,M1,2|ABC0DEF,M1.1.,2"
    "|ABC0DEF,M1-1.1,2|ABC0DEF,M.1.1,2|ABC0DEF,M1..1,2|ABC0DEF,1/168,2|ABC0DEF,1/-168,2"
    "|ABC0DEF,1/,2|ABC0DEF,1/1:,2|ABC0DEF;1,2|ABC0DEF,1;2|ABC0,1,2|ABC0DEF,1234,2"
    "|ABC0DEF,1,2/1x|@BC0|[BC0|`BC0|{BC0|<A:C>0|<A/C>0|<A,C>0|<A.C>0|<A*C>0|ABC/1|ABC:1";

TEST(zone_rule__refuses_any_other_text)
{
    for (struct pieces list = {.rest = text_of(not_rules)}; pieces_next(&list, '|');) {
        char why[200];
        struct tzif file = good;
        file.footer = list.text;
        (void)snprintf(why, sizeof why, "its rule \"%s\" cannot be read", list.text);
        refused_file(&file, ERR_INVALID, why);
    }
}
