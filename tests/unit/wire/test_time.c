#include "support.h"

TEST(time_parse__reads_rfc3339)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1969-12-31T23:59:59.999Z", -1},
        {"2026-11-21T01:29:42Z", INT64_C(1795224582000)},
        {"2026-01-02T03:04:05.678Z", INT64_C(1767323045678)},
        {"2026-01-02T03:04:05.678999Z", INT64_C(1767323045678)},
        {"2026-01-02T03:04:05.6Z", INT64_C(1767323045600)},
        {"2026-01-02T05:04:05+02:00", INT64_C(1767323045000)},
        {"2026-01-01T21:34:05-05:30", INT64_C(1767323045000)},
        {"2000-02-29T12:00:00Z", INT64_C(951825600000)},
        {"2026-01-02t03:04:05z", INT64_C(1767323045000)},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000)},
        {"0001-01-01T00:00:00Z", INT64_C(-62135596800000)},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        int64_t ms = 1;
        if (!time_parse(text_of(good[i].text), &ms) || ms != good[i].ms)
            fail_msg("%s became %lld", good[i].text, (long long)ms);
    }
}

TEST(time_parse__refuses_other_texts)
{
    static const char *const bad[] = {
        "",
        "2026",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-01-02 03:04:05Z",
        "2026-1-02T03:04:05Z",
        "2026-13-02T03:04:05Z",
        "2026-00-02T03:04:05Z",
        "2026-02-29T03:04:05Z",
        "1900-02-29T03:04:05Z",
        "2026-04-31T03:04:05Z",
        "2026-01-00T03:04:05Z",
        "2026-01-02T24:04:05Z",
        "2026-01-02T03:60:05Z",
        "2026-01-02T03:04:61Z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05ZZ",
        "2026-01-02T03:04:05+2:00",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05+02:60",
        "-2026-01-02T03:04:05Z",
        "2026-01-02T-3:04:05Z",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t ms;
        if (time_parse(text_of(bad[i]), &ms))
            fail_msg("%s was taken", bad[i]);
    }
}

TEST(time_format__is_read_back)
{
    char out[TIME_TEXT_BYTES];
    time_format(INT64_C(1767323045678), out);
    assert_string_equal(out, "2026-01-02T03:04:05.678Z");
    time_format(-1, out);
    assert_string_equal(out, "1969-12-31T23:59:59.999Z");
    time_format(INT64_MIN, out);
    assert_string_equal(out, "0000-01-01T00:00:00.000Z");
    time_format(INT64_MAX, out);
    assert_string_equal(out, "9999-12-31T23:59:59.999Z");

    /* The step is not a multiple of a day, and the range covers leap years and centuries. */
    for (int64_t ms = INT64_C(-62135596800000); ms < INT64_C(253402300799999);
         ms += INT64_C(86400000) * 97 + 12345677) {
        int64_t back = 1;
        time_format(ms, out);
        assert_true(time_parse(text_of(out), &back));
        assert_int_equal(back, ms);
    }
}
