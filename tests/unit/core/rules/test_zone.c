#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "milligpu/core/rules/zone.h"

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
        return 0; /* the same again, and with leap seconds */
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

/* Links are other names of what is compared anyway. */
TEST(every_installed_zone_is_as_the_c_library_reads_it)
{
    files.count = 0;
    assert_int_equal(nftw(ZONES_FOLDER, see_file, 16, FTW_PHYS), 0);
    assert_true(files.count > 300);
    for (int i = 0; i < files.count; i++) {
        struct zone *zone = zones_installed(files.name[i]);
        assert_string_equal(zone_name(zone), files.name[i]);
        c_library_uses(files.name[i]);
        agree_from(zone, FROM_S);
        zone_free(zone);
    }
}

TEST(zones_are_alike_by_name_and_bytes)
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
 * What slim files lack: the old block, and the transitions that the rule gives as well. All rules
 * of today hold since 2030 at the latest.
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

TEST(slim_files_say_the_same_as_fat_ones)
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

TEST(utc_needs_no_file)
{
    struct zone *utc = zone_utc();
    assert_string_equal(zone_name(utc), "UTC");
    assert_int_equal(zone_offset_s(utc, INT64_MIN), 0);
    assert_int_equal(zone_offset_s(utc, 0), 0);
    assert_int_equal(zone_offset_s(utc, INT64_MAX), 0);
    assert_true(zone_next_s(utc, 0) == INT64_MAX);
    zone_free(utc);
}

TEST(names_do_not_lead_out_of_the_folder)
{
    static const char *const good[] = {
        "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "Etc/GMT-14",
        "a",   "Z/z/0/9"};
    static const char *const bad[] = {"",
                                      "/etc/passwd",
                                      "../x",
                                      "Europe/../x",
                                      "Europe/",
                                      "Europe//Berlin",
                                      "Europe/Berl in",
                                      "a.b",
                                      "Europe\\Berlin",
                                      "a\n",
                                      "K\xc3\xb6ln",
                                      "a:b",
                                      "/",
                                      "@",
                                      "[",
                                      "`",
                                      "{",
                                      "a/@",
                                      "\x01"};
    char longest[ZONE_NAME_BYTES_MAX + 2];
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (!zone_name_ok(text_of(good[i])))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (zone_name_ok(text_of(bad[i])))
            fail_msg("%s", bad[i]);
    memset(longest, 'x', sizeof longest);
    assert_true(zone_name_ok((struct text){longest, ZONE_NAME_BYTES_MAX}));
    assert_false(zone_name_ok((struct text){longest, ZONE_NAME_BYTES_MAX + 1}));
}

static const int64_t at_s[] = {-100, 0, 1000};
static const uint8_t type[] = {1, 2, 1};
static const int32_t offset_s[] = {10, -20, 30};
static const struct tzif good = {.version = '2',
                                 .transitions = 3,
                                 .types = 3,
                                 .at_s = at_s,
                                 .type = type,
                                 .offset_s = offset_s,
                                 .footer = "ABC-2"};

static struct zone *made(const struct tzif *file)
{
    struct strbuf bytes;
    struct zone *zone = NULL;
    struct err err;
    strbuf_init(&bytes);
    tzif_write(file, &bytes);
    if (zone_new(TEXT("Made/Zone"), (struct text){bytes.data, bytes.len}, &zone, &err) != 0)
        fail_msg("%s", err.text);
    strbuf_done(&bytes);
    return zone;
}

TEST(a_transition_holds_from_its_second_on)
{
    static const char versions[] = {'\0', '2', '3', '4'};
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        struct tzif file = good;
        file.version = versions[i];
        file.footer = "";
        struct zone *zone = made(&file);
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
        zone_free(zone);
    }
}

TEST(the_footer_rules_from_the_last_transition_on)
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

TEST(times_have_64_bits)
{
    static const int64_t far_s[] = {INT64_C(-576460752303423488), -INT64_C(0x100000001),
                                    INT64_C(0x1fffffff0)};
    struct tzif file = good;
    file.at_s = far_s;
    struct zone *zone = made(&file);
    assert_true(zone_next_s(zone, INT64_MIN) == far_s[0]);
    assert_true(zone_next_s(zone, far_s[0]) == far_s[1]);
    assert_true(zone_next_s(zone, far_s[1]) == far_s[2]);
    zone_free(zone);
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

static void refused_file(const struct tzif *file, enum err_code code, const char *why)
{
    struct strbuf bytes;
    strbuf_init(&bytes);
    tzif_write(file, &bytes);
    refused((struct text){bytes.data, bytes.len}, code, why);
    strbuf_done(&bytes);
}

TEST(a_file_that_is_cut_off_is_refused_at_every_length)
{
    for (int i = 0; i < 2; i++) {
        struct tzif file = good;
        struct strbuf bytes;
        file.version = i == 0 ? '\0' : '3';
        strbuf_init(&bytes);
        tzif_write(&file, &bytes);
        for (size_t len = 0; len < bytes.len; len++) {
            char *exact = malloc(len + 1); /* so that a sanitizer sees reads beyond the end */
            assert_non_null(exact);
            memcpy(exact, bytes.data, len);
            exact = realloc(exact, len > 0 ? len : 1);
            refused((struct text){exact, len}, ERR_INVALID, "the file ends early");
            free(exact);
        }
        strbuf_char(&bytes, '\n');
        refused((struct text){bytes.data, bytes.len}, ERR_INVALID, "1 bytes behind its end");
        strbuf_done(&bytes);
    }
}

TEST(what_is_wrong_with_a_file_is_said)
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
    file.types = 0;
    refused_file(&file, ERR_INVALID, "0 types of local time, not 1 to 256");
    file.types = 2;
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

TEST(offsets_beyond_a_day_and_two_hours_are_refused)
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

TEST(what_is_too_large_is_refused)
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
    file.types = 256;
    struct zone *zone = made(&file);
    assert_int_equal(zone_next_s(zone, ZONE_TRANSITIONS_MAX - 2), ZONE_TRANSITIONS_MAX - 1);
    zone_free(zone);
    file.types = 257;
    refused_file(&file, ERR_INVALID, "257 types of local time, not 1 to 256");
    file.transitions = ZONE_TRANSITIONS_MAX + 1;
    refused_file(&file, ERR_TOO_LARGE, "2049 transitions, more than 2048");

    struct strbuf bytes;
    strbuf_init(&bytes);
    tzif_write(&good, &bytes);
    while (bytes.len < ZONE_BYTES_MAX)
        strbuf_char(&bytes, 'x');
    refused((struct text){bytes.data, bytes.len}, ERR_INVALID, "65385 bytes behind its end");
    strbuf_char(&bytes, 'x');
    refused((struct text){bytes.data, bytes.len}, ERR_TOO_LARGE, "more than 65536 bytes");
    strbuf_done(&bytes);
}

/* Each of the six counts, in both headers. */
TEST(counts_that_the_file_cannot_have_are_refused)
{
    struct strbuf bytes;
    strbuf_init(&bytes);
    tzif_write(&good, &bytes);
    for (size_t header = 0; header < 2; header++)
        for (size_t count = 0; count < 6; count++) {
            const size_t place = header * (44 + 7) + 20 + count * 4;
            char kept[4];
            struct zone *zone = NULL;
            struct err err;
            memcpy(kept, bytes.data + place, 4);
            memset(bytes.data + place, 0xff, 4);
            assert_true(zone_new(TEXT("x"), (struct text){bytes.data, bytes.len}, &zone, &err) < 0);
            memcpy(bytes.data + place, "\0\0\0\x1",
                   4); /* one more or fewer: all that follows moves */
            if (memcmp(kept, bytes.data + place, 4) != 0)
                assert_true(zone_new(TEXT("x"), (struct text){bytes.data, bytes.len}, &zone, &err) <
                            0);
            memcpy(bytes.data + place, kept, 4);
        }
    strbuf_done(&bytes);
}

TEST(both_headers_have_one_version)
{
    struct strbuf bytes;
    strbuf_init(&bytes);
    tzif_write(&good, &bytes);
    bytes.data[44 + 7 + 4] = '3';
    refused((struct text){bytes.data, bytes.len}, ERR_INVALID,
            "its two headers have different versions");
    bytes.data[44 + 7] = 'X';
    refused((struct text){bytes.data, bytes.len}, ERR_INVALID, "not a time zone file (TZif)");
    strbuf_done(&bytes);
    strbuf_init(&bytes);
    tzif_write(&good, &bytes);
    bytes.data[bytes.len - strlen("\nABC-2\n")] = ' ';
    refused((struct text){bytes.data, bytes.len}, ERR_INVALID, "no rule where it has to be");
    strbuf_done(&bytes);
}

TEST(zones_with_leap_seconds_are_refused)
{
    struct strbuf bytes;
    strbuf_init(&bytes);
    if (zones_bytes("right/Europe/Berlin", &bytes))
        refused((struct text){bytes.data, bytes.len}, ERR_INVALID,
                "it counts leap seconds; take the zone without \"right/\"");
    strbuf_done(&bytes);
}

static int32_t under(const char *rule, int64_t utc_s)
{
    struct zone *zone = zones_of_rule("Made/Rule", rule);
    const int32_t offset = zone_offset_s(zone, utc_s);
    zone_free(zone);
    return offset;
}

/* The offset is this one until the second before, and that one from then on. */
static void changes(const char *rule, int64_t when_s, int32_t before_s, int32_t after_s)
{
    struct zone *zone = zones_of_rule("Made/Rule", rule);
    if (zone_offset_s(zone, when_s - 1) != before_s || zone_offset_s(zone, when_s) != after_s)
        fail_msg("%s at %lld: %d, then %d", rule, (long long)when_s,
                 zone_offset_s(zone, when_s - 1), zone_offset_s(zone, when_s));
    assert_int_equal(zone_next_s(zone, when_s - 1), when_s);
    zone_free(zone);
}

TEST(rules_without_summer_have_one_offset)
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

TEST(a_rule_names_the_weekday_of_a_month)
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

TEST(the_first_and_the_last_day_of_each_month_are_found)
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

TEST(every_year_has_its_march)
{
    for (int year = 1600; year < 2500; year++)
        changes("AAA0BBB,J60/0,J300", at(year, 3, 1, 0, 0), 0, HOUR_S);
}

TEST(a_rule_names_the_day_of_a_year)
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

TEST(summer_has_its_own_offset_and_times)
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

TEST(a_change_may_fall_into_the_next_year_or_the_last)
{
    changes("AAA0BBB,J1/-24,J100", at(2025, 12, 31, 0, 0), 0, HOUR_S);
    changes("AAA0BBB,J100,J365/25", at(2026, 1, 1, 0, 0), HOUR_S, 0);
    changes("AAA0BBB,J100,J365/167", at(2026, 1, 6, 22, 0), HOUR_S, 0);
    changes("AAA0BBB,J364/167,J100", at(2026, 1, 5, 23, 0), 0, HOUR_S);
    assert_int_equal(under("AAA0BBB,J1/-24,J100", at(2025, 12, 31, 12, 0)), HOUR_S);
    assert_int_equal(under("AAA0BBB,J100,J365/48", at(2026, 1, 1, 12, 0)), HOUR_S);
}

/* On December 31, both changes of the next year are past: what comes is of the year after. */
TEST(both_changes_may_fall_into_the_year_before)
{
    static const char rule[] = "AAA0BBB,J1/-48,J1/-24";
    changes(rule, at(2025, 12, 30, 0, 0), 0, HOUR_S);
    changes(rule, at(2025, 12, 30, 23, 0), HOUR_S, 0);
    struct zone *zone = zones_of_rule("Made/Rule", rule);
    assert_int_equal(zone_next_s(zone, at(2025, 12, 31, 12, 0)), at(2026, 12, 30, 0, 0));
    zone_free(zone);
}

TEST(summer_may_last_all_year_or_never_begin)
{
    for (int month = 1; month <= 12; month++)
        for (int hour = 0; hour < 24; hour++) {
            const int64_t when = at(2026, month, 1, hour, 30);
            assert_int_equal(under("EST5EDT,0/0,J365/25", when), -4 * HOUR_S);
            assert_int_equal(under("EST5EDT4,J50/1,J50/2", when), -5 * HOUR_S);
        }
}

TEST(rules_hold_at_any_distance)
{
    static const char berlin[] = "CET-1CEST,M3.5.0,M10.5.0/3";
    const int64_t period_s = INT64_C(146097) * DAY_S;
    const int64_t change_s = at(2026, 3, 29, 1, 0);
    changes(berlin, change_s + period_s * 700000000, HOUR_S, 2 * HOUR_S);
    changes(berlin, change_s - period_s * 700000000, HOUR_S, 2 * HOUR_S);
    struct zone *zone = zones_of_rule("Made/Rule", berlin);
    assert_int_equal(zone_offset_s(zone, 0), HOUR_S);
    (void)zone_offset_s(zone, INT64_MIN);
    (void)zone_offset_s(zone, INT64_MAX);
    assert_true(zone_next_s(zone, INT64_MAX) == INT64_MAX);
    assert_true(zone_next_s(zone, INT64_MAX - 1) == INT64_MAX);
    assert_true(zone_next_s(zone, INT64_MIN) < INT64_MIN + 366 * (int64_t)DAY_S);
    zone_free(zone);
}

static const char *const not_rules[] = {"A",
                                        "AB0",
                                        "ABC",
                                        "ABC+",
                                        "ABC25",
                                        "ABC1:",
                                        "ABC1:60",
                                        "ABC1:00:60",
                                        "ABC1:00:",
                                        "ABC--1",
                                        "<AB>0",
                                        "<ABC0",
                                        "<ABC",
                                        "<A_C>0",
                                        "AB10",
                                        "<+01>",
                                        "ABC0 ",
                                        " ABC0",
                                        ":ABC0",
                                        "ABC0000",
                                        "ABC0D",
                                        "ABC0DEF",
                                        "ABC0DEF1",
                                        "ABC0DEF25,1,2",
                                        "ABC0DEF,",
                                        "ABC0DEF,1",
                                        "ABC0DEF,1,",
                                        "ABC0DEF,1,2,",
                                        "ABC0DEF,1,366",
                                        "ABC0DEF,J0,2",
                                        "ABC0DEF,J366,2",
                                        "ABC0DEF,J,2",
                                        "ABC0DEF,M0.1.0,2",
                                        "ABC0DEF,M13.1.0,2",
                                        "ABC0DEF,M1.0.0,2",
                                        "ABC0DEF,M1.6.0,2",
                                        "ABC0DEF,M1.1.7,2",
                                        "ABC0DEF,M1.1,2",
                                        "ABC0DEF,M1,2",
                                        "ABC0DEF,M1.1.,2",
                                        "ABC0DEF,M1-1.1,2",
                                        "ABC0DEF,M.1.1,2",
                                        "ABC0DEF,M1..1,2",
                                        "ABC0DEF,1/168,2",
                                        "ABC0DEF,1/-168,2",
                                        "ABC0DEF,1/,2",
                                        "ABC0DEF,1/1:,2",
                                        "ABC0DEF;1,2",
                                        "ABC0DEF,1;2",
                                        "ABC0,1,2",
                                        "ABC0DEF,1234,2",
                                        "ABC0DEF,1,2/1x",
                                        "@BC0",
                                        "[BC0",
                                        "`BC0",
                                        "{BC0",
                                        "<A:C>0",
                                        "<A/C>0",
                                        "<A,C>0",
                                        "<A.C>0",
                                        "<A*C>0",
                                        "ABC/1",
                                        "ABC:1"};

TEST(what_is_not_a_rule_is_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(not_rules); i++) {
        char why[128];
        struct tzif file = good;
        file.footer = not_rules[i];
        (void)snprintf(why, sizeof why, "its rule \"%s\" cannot be read", not_rules[i]);
        refused_file(&file, ERR_INVALID, why);
    }
}
