#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/core/facts/quantity.h"

#include "support/test.h"
#include "support/walk.h"

struct row {
    const char *text;
    unsigned decimals;
    enum quantity_verdict verdict;
    int64_t value; /* exact, if the verdict is OK */
    int64_t ceil;  /* if the verdict is OK or FRACTION */
};

#define WHOLE(text, value)                                                                         \
    {                                                                                              \
        text, 0, QUANTITY_OK, value, value                                                         \
    }
#define MILLI(text, value)                                                                         \
    {                                                                                              \
        text, 3, QUANTITY_OK, value, value                                                         \
    }
#define FRACTION(text, up)                                                                         \
    {                                                                                              \
        text, 0, QUANTITY_FRACTION, 0, up                                                          \
    }
#define WRONG(text)                                                                                \
    {                                                                                              \
        text, 0, QUANTITY_SYNTAX, 0, 0                                                             \
    }
#define BEYOND(text)                                                                               \
    {                                                                                              \
        text, 0, QUANTITY_RANGE, 0, 0                                                              \
    }
#define UNTOUCHED (-77)

static void check(const struct row *row)
{
    int64_t exact = UNTOUCHED;
    int64_t up = UNTOUCHED;
    const enum quantity_verdict parsed = quantity_parse(text_of(row->text), row->decimals, &exact);
    const enum quantity_verdict ceiled = quantity_ceil(text_of(row->text), row->decimals, &up);
    const bool rounds = row->verdict == QUANTITY_FRACTION;
    if (parsed != row->verdict || ceiled != (rounds ? QUANTITY_OK : row->verdict))
        fail_msg("%.60s: %d, rounded %d", row->text, (int)parsed, (int)ceiled);
    if (exact != (parsed == QUANTITY_OK ? row->value : UNTOUCHED) ||
        up != (ceiled == QUANTITY_OK ? row->ceil : UNTOUCHED))
        fail_msg("%.60s: %lld, rounded %lld", row->text, (long long)exact, (long long)up);
}

TEST(whole_numbers_have_many_spellings)
{
    static const struct row row[] = {
        WHOLE("300", 300),
        WHOLE("0", 0),
        WHOLE("-0", 0),
        WHOLE("+3", 3),
        WHOLE("-1", -1),
        WHOLE("0300", 300),
        WHOLE("1k", 1000),
        WHOLE("3e2", 300),
        WHOLE("3E2", 300),
        WHOLE("3e+2", 300),
        WHOLE("300e-2", 3),
        WHOLE("3e0", 3),
        WHOLE("5.", 5),
        WHOLE("5.0", 5),
        WHOLE("5.000", 5),
        WHOLE("0.3k", 300),
        WHOLE(".5k", 500),
        WHOLE("3000m", 3),
        WHOLE("2000000u", 2),
        WHOLE("7000000000n", 7),
        WHOLE("1M", 1000000),
        WHOLE("1G", 1000000000),
        WHOLE("1T", 1000000000000),
        WHOLE("1P", 1000000000000000),
        WHOLE("1E", 1000000000000000000),
        WHOLE("1E2", 100),
        WHOLE("1e2", 100),
        WHOLE("1Ki", 1024),
        WHOLE("1Mi", 1048576),
        WHOLE("1Gi", 1073741824),
        WHOLE("1Ti", 1099511627776),
        WHOLE("1Pi", 1125899906842624),
        WHOLE("1Ei", 1152921504606846976),
        WHOLE("-1Ki", -1024),
        WHOLE("0.5Ki", 512),
        WHOLE("0.0009765625Ki", 1),
        WHOLE("1.5Gi", 1610612736),
        WHOLE("40Gi", 42949672960),
        WHOLE("0Ei", 0),
        WHOLE("0e999999999999999999999", 0),
        WHOLE("0.000", 0),
        WHOLE("0e-9", 0),
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        check(&row[i]);
}

TEST(what_is_not_whole_is_a_fraction)
{
    static const struct row row[] = {
        FRACTION("0.3", 1),
        FRACTION("300m", 1),
        FRACTION(".5", 1),
        FRACTION("1.5", 2),
        FRACTION("-0.3", -1),
        FRACTION("-1.5", -2),
        FRACTION("1n", 1),
        FRACTION("3001m", 4),
        FRACTION("1e-1", 1),
        FRACTION("15e-1", 2),
        FRACTION("0.1Ki", 103),
        FRACTION("1.3Ki", 1332),
        FRACTION("0.00048828125Ki", 1),
        FRACTION("0.00000000000000000001Ei", 1),
        FRACTION("0.1Ei", 115292150460684698),
        FRACTION("1e-99999999999999999999", 1),
        FRACTION("1.0000000000000000000000000000000000001Ki", 1025),
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        check(&row[i]);
}

TEST(thousandths_are_counted_as_well)
{
    static const struct row row[] = {
        MILLI("0.3", 300),    MILLI("300m", 300),   MILLI("1", 1000),
        MILLI("1500m", 1500), MILLI("2k", 2000000), MILLI("1e-3", 1),
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        check(&row[i]);
    check(&(struct row){"100u", 3, QUANTITY_FRACTION, 0, 1});
    check(&(struct row){"0.0005", 3, QUANTITY_FRACTION, 0, 1});
    check(&(struct row){"1n", 9, QUANTITY_OK, 1, 1});
    check(&(struct row){"9", 18, QUANTITY_OK, 9000000000000000000, 9000000000000000000});
    check(&(struct row){"10", 18, QUANTITY_RANGE, 0, 0});
}

TEST(what_is_no_quantity_is_refused)
{
    static const struct row row[] = {
        WRONG(""),     WRONG(" "),        WRONG("+"),     WRONG("-"),     WRONG("."),
        WRONG("+."),   WRONG(" 1"),       WRONG("1 "),    WRONG("1 k"),   WRONG("--1"),
        WRONG("+-1"),  WRONG("1+"),       WRONG("e"),     WRONG("1e"),    WRONG("1e+"),
        WRONG("1E-"),  WRONG("1e1.5"),    WRONG("1ee2"),  WRONG("k"),     WRONG("Ki"),
        WRONG("1K"),   WRONG("1ki"),      WRONG("1Kib"),  WRONG("1kk"),   WRONG("1mi"),
        WRONG("1Ei2"), WRONG("1i"),       WRONG("1..2"),  WRONG("1.2.3"), WRONG("1,000"),
        WRONG("0x10"), WRONG("abc"),      WRONG("1g"),    WRONG("1t"),    WRONG("NaN"),
        WRONG("inf"),  WRONG("1_0"),      WRONG("1e2e3"), WRONG("1e2k"),  WRONG("1k2"),
        WRONG("1e 2"), WRONG("\xC2\xB2"),
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        check(&row[i]);
    int64_t value = UNTOUCHED;
    assert_int_equal(quantity_parse(TEXT("1\0"), 0, &value), QUANTITY_SYNTAX);
    assert_int_equal(quantity_parse(TEXT("1\0i"), 0, &value), QUANTITY_SYNTAX);
    assert_int_equal(quantity_parse((struct text){0}, 0, &value), QUANTITY_SYNTAX);
    assert_int_equal(value, UNTOUCHED);
}

TEST(what_stands_behind_the_text_is_not_read)
{
    static const char number[] = "1.5e3Ki";
    static const enum quantity_verdict verdict[] = {
        QUANTITY_SYNTAX, QUANTITY_OK, QUANTITY_OK, QUANTITY_FRACTION, QUANTITY_SYNTAX, QUANTITY_OK};
    for (size_t len = 0; len < ARRAY_LEN(verdict); len++) {
        int64_t value = UNTOUCHED;
        assert_int_equal(quantity_parse((struct text){number, len}, 0, &value), verdict[len]);
        if (verdict[len] == QUANTITY_OK)
            assert_int_equal(value, len < 5 ? 1 : 1500);
    }
}

TEST(the_border_of_63_bits_is_sharp)
{
    static const struct row row[] = {
        WHOLE("9223372036854775807", INT64_MAX),
        WHOLE("-9223372036854775807", -INT64_MAX),
        WHOLE("9223372036854775.807k", INT64_MAX),
        WHOLE("9223372036854775807000m", INT64_MAX),
        BEYOND("9223372036854775808"),
        BEYOND("-9223372036854775808"),
        BEYOND("8Ei"),
        BEYOND("9.3E"),
        BEYOND("10E"),
        BEYOND("9223372036854775808000m"),
        BEYOND("99999999999999999999999999999999"),
        BEYOND("1e19"),
        BEYOND("1e999999999999999999999999"),
        BEYOND("-1e999999999999999999999999"),
        BEYOND("9999999999999999999Ei"),
        BEYOND("9223372036854775808.5"),
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        check(&row[i]);
    /* The whole part is at the limit and a fraction follows: only rounding up exceeds it. */
    int64_t value = UNTOUCHED;
    assert_int_equal(quantity_parse(TEXT("9223372036854775807.5"), 0, &value), QUANTITY_FRACTION);
    assert_int_equal(quantity_ceil(TEXT("9223372036854775807.5"), 0, &value), QUANTITY_RANGE);
    assert_int_equal(quantity_ceil(TEXT("7.99999999999999999999Ei"), 0, &value), QUANTITY_RANGE);
    assert_int_equal(value, UNTOUCHED);
}

TEST(long_texts_are_exact_too)
{
    enum { LONG = 100000 };
    static char text[LONG + 32];
    int64_t value = UNTOUCHED;

    memset(text, '0', LONG);
    (void)snprintf(text + LONG, 32, "42"); /* 000...042 */
    assert_int_equal(quantity_parse(text_of(text), 0, &value), QUANTITY_OK);
    assert_int_equal(value, 42);

    memset(text, '0', LONG);
    text[0] = '7';
    (void)snprintf(text + LONG, 32, "e-%d", LONG - 1); /* 7000...0e-99999 */
    assert_int_equal(quantity_parse(text_of(text), 0, &value), QUANTITY_OK);
    assert_int_equal(value, 7);

    text[0] = '.';
    (void)snprintf(text + LONG, 32, "5e%d", LONG); /* .000...05e100000 */
    assert_int_equal(quantity_parse(text_of(text), 0, &value), QUANTITY_OK);
    assert_int_equal(value, 5);
    (void)snprintf(text + LONG, 32, "5"); /* .000...05 */
    assert_int_equal(quantity_parse(text_of(text), 0, &value), QUANTITY_FRACTION);
    assert_int_equal(quantity_ceil(text_of(text), 0, &value), QUANTITY_OK);
    assert_int_equal(value, 1);
    (void)snprintf(text + LONG, 32, "5Ki");
    assert_int_equal(quantity_ceil(text_of(text), 0, &value), QUANTITY_OK);
    assert_int_equal(value, 1);

    memset(text, '9', LONG);
    text[LONG] = '\0';
    assert_int_equal(quantity_parse(text_of(text), 0, &value), QUANTITY_RANGE);
    text[2] = '.'; /* 99.999... */
    assert_int_equal(quantity_parse(text_of(text), 0, &value), QUANTITY_FRACTION);
    assert_int_equal(quantity_ceil(text_of(text), 0, &value), QUANTITY_OK);
    assert_int_equal(value, 100);
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*seed >> 33) % below;
}

/* digits x 10^-point x 1024^power, by plain integer arithmetic. */
TEST(quantities_agree_with_plain_arithmetic)
{
    const char *env = getenv("QUANTITY_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = env != NULL ? strtoull(env, NULL, 10) : 3;
    print_message("QUANTITY_SEED=%llu\n", (unsigned long long)seed);
    static const char *const suffix[] = {"", "Ki", "Mi"};
    uint32_t seen[2] = {0};
    for (int i = 0; i < walk_steps(200000, 40000); i++) {
        int64_t digits = draw(&seed, 1000000);
        const uint32_t zeros = draw(&seed, 4);
        for (uint32_t k = 0; k < zeros; k++)
            digits = digits / 10 * 10 * 5; /* makes many of them divisible */
        const uint32_t point = draw(&seed, 7);
        const uint32_t power = draw(&seed, 3);
        int64_t unit = 1;
        for (uint32_t k = 0; k < point; k++)
            unit *= 10;
        char text[64];
        (void)snprintf(text, sizeof text, "%lld.%0*lld%s", (long long)(digits / unit),
                       point > 0 ? (int)point : 1, (long long)(digits % unit), suffix[power]);
        const int64_t scaled = digits << (10 * power);
        const bool whole = scaled % unit == 0;
        check(&(struct row){text, 0, whole ? QUANTITY_OK : QUANTITY_FRACTION, scaled / unit,
                            scaled / unit + !whole});
        seen[whole]++;
    }
    assert_true(seen[0] > 10000 && seen[1] > 10000);
}

/* Any bytes get a verdict, and nothing is written unless it is OK. */
TEST(any_bytes_get_a_verdict)
{
    static const char alphabet[] = "0123456789.+-eEkKMGTPimun \xFF";
    uint64_t seed = 5;
    uint32_t seen[QUANTITY_RANGE + 1] = {0};
    for (int i = 0; i < walk_steps(300000, 30000); i++) {
        char text[24];
        const uint32_t len = draw(&seed, sizeof text);
        for (uint32_t k = 0; k < len; k++)
            text[k] = alphabet[draw(&seed, draw(&seed, 3) > 0 ? 10 : sizeof alphabet)];
        int64_t value = UNTOUCHED;
        const enum quantity_verdict verdict =
            quantity_parse((struct text){text, len}, draw(&seed, 10), &value);
        seen[verdict]++;
        if (verdict != QUANTITY_OK)
            assert_int_equal(value, UNTOUCHED);
    }
    for (size_t i = 0; i < ARRAY_LEN(seen); i++)
        assert_true(seen[i] > 100);
}
