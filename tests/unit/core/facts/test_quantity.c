#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/core/facts/quantity.h"

#include "support/draw.h"
#include "support/pieces.h"
#include "support/test.h"
#include "support/walk.h"

struct row {
    const char *text;
    unsigned decimals;
    enum quantity_verdict verdict;
    int64_t value; /* exact, if the verdict is OK */
    int64_t ceil;  /* if the verdict is OK or FRACTION */
};

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

/* Each "TEXT=NUMBER", separated by blanks, has this verdict; a fraction is rounded up. */
static void check_each(const char *pairs, unsigned decimals, enum quantity_verdict verdict)
{
    for (struct pieces list = {.rest = text_of(pairs)}; pieces_next(&list, ' ');) {
        char *equals = strchr(list.text, '=');
        assert_non_null(equals);
        *equals = '\0';
        const int64_t number = strtoll(equals + 1, NULL, 10);
        check(&(struct row){list.text, decimals, verdict, number, number});
    }
}

/* The texts are separated by |. */
static void refuse_all(const char *texts, enum quantity_verdict verdict)
{
    for (struct pieces list = {.rest = text_of(texts)}; pieces_next(&list, '|');)
        check(&(struct row){list.text, 0, verdict, 0, 0});
}

TEST(quantity__reads_all_spellings_of_whole_numbers)
{
    check_each("300=300 0=0 -0=0 +3=3 -1=-1 0300=300 1k=1000 3e2=300 3E2=300 3e+2=300 300e-2=3 "
               "3e0=3 5.=5 5.0=5 5.000=5 0.3k=300 .5k=500 3000m=3 2000000u=2 7000000000n=7 "
               "1M=1000000 1G=1000000000 1T=1000000000000 1P=1000000000000000 "
               "1E=1000000000000000000 1E2=100 1e2=100 1Ki=1024 1Mi=1048576 1Gi=1073741824 "
               "1Ti=1099511627776 1Pi=1125899906842624 1Ei=1152921504606846976 -1Ki=-1024 "
               "0.5Ki=512 0.0009765625Ki=1 1.5Gi=1610612736 40Gi=42949672960 0Ei=0 "
               "0e999999999999999999999=0 0.000=0 0e-9=0",
               0, QUANTITY_OK);
}

TEST(quantity__reports_a_fraction)
{
    check_each("0.3=1 300m=1 .5=1 1.5=2 -0.3=-1 -1.5=-2 1n=1 3001m=4 1e-1=1 15e-1=2 0.1Ki=103 "
               "1.3Ki=1332 0.00048828125Ki=1 0.00000000000000000001Ei=1 "
               "0.1Ei=115292150460684698 1e-99999999999999999999=1 "
               "1.0000000000000000000000000000000000001Ki=1025",
               0, QUANTITY_FRACTION);
}

TEST(quantity__counts_in_decimals)
{
    check_each("0.3=300 300m=300 1=1000 1500m=1500 2k=2000000 1e-3=1", 3, QUANTITY_OK);
    check_each("100u=1 0.0005=1", 3, QUANTITY_FRACTION);
    check_each("1n=1", 9, QUANTITY_OK);
    check_each("9=9000000000000000000", 18, QUANTITY_OK);
    check_each("10=0", 18, QUANTITY_RANGE);
}

TEST(quantity__refuses_any_other_text)
{
    refuse_all("| |+|-|.|+.| 1|1 |1 k|--1|+-1|1+|e|1e|1e+|1E-|1e1.5|1ee2|k|Ki|1K|1ki"
               "|1Kib|1kk|1mi|1Ei2|1i|1..2|1.2.3|1,000|0x10|abc|1g|1t|NaN|inf|1_0"
               "|1e2e3|1e2k|1k2|1e 2|\xC2\xB2",
               QUANTITY_SYNTAX);
    int64_t value = UNTOUCHED;
    assert_int_equal(quantity_parse(TEXT("1\0"), 0, &value), QUANTITY_SYNTAX);
    assert_int_equal(quantity_parse(TEXT("1\0i"), 0, &value), QUANTITY_SYNTAX);
    assert_int_equal(quantity_parse((struct text){0}, 0, &value), QUANTITY_SYNTAX);
    assert_int_equal(value, UNTOUCHED);
}

TEST(quantity__needs_no_terminator)
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

TEST(quantity__has_63_bits)
{
    check_each("9223372036854775807=9223372036854775807 "
               "-9223372036854775807=-9223372036854775807 "
               "9223372036854775.807k=9223372036854775807 "
               "9223372036854775807000m=9223372036854775807",
               0, QUANTITY_OK);
    refuse_all("9223372036854775808|-9223372036854775808|8Ei|9.3E|10E"
               "|9223372036854775808000m|99999999999999999999999999999999|1e19"
               "|1e999999999999999999999999|-1e999999999999999999999999"
               "|9999999999999999999Ei|9223372036854775808.5",
               QUANTITY_RANGE);
    /* The whole part is at the limit and a fraction follows: only rounding up exceeds it. */
    int64_t value = UNTOUCHED;
    assert_int_equal(quantity_parse(TEXT("9223372036854775807.5"), 0, &value), QUANTITY_FRACTION);
    assert_int_equal(quantity_ceil(TEXT("9223372036854775807.5"), 0, &value), QUANTITY_RANGE);
    assert_int_equal(quantity_ceil(TEXT("7.99999999999999999999Ei"), 0, &value), QUANTITY_RANGE);
    assert_int_equal(value, UNTOUCHED);
}

TEST(quantity__is_exact_for_long_texts)
{
    enum { LONG = 100000 };
    static char text[LONG + 32];
    static const struct {
        char first;
        const char *end;
        int exponent; /* follows the end; 0: none */
        enum quantity_verdict verdict;
        int64_t value;
    } row[] = {
        {'0', "42", 0, QUANTITY_OK, 42},       /* 000...042 */
        {'7', "e-", LONG - 1, QUANTITY_OK, 7}, /* 7000...0e-99999 */
        {'.', "5e", LONG, QUANTITY_OK, 5},     /* .000...05e100000 */
        {'.', "5", 0, QUANTITY_FRACTION, 1},   /* .000...05 */
        {'.', "5Ki", 0, QUANTITY_FRACTION, 1},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char number[16] = "";
        if (row[i].exponent > 0)
            (void)snprintf(number, sizeof number, "%d", row[i].exponent);
        memset(text, '0', LONG);
        text[0] = row[i].first;
        (void)snprintf(text + LONG, 32, "%s%s", row[i].end, number);
        check(&(struct row){text, 0, row[i].verdict, row[i].value, row[i].value});
    }
    memset(text, '9', LONG);
    text[LONG] = '\0';
    check(&(struct row){text, 0, QUANTITY_RANGE, 0, 0});
    text[2] = '.'; /* 99.999... */
    check(&(struct row){text, 0, QUANTITY_FRACTION, 0, 100});
}

/* digits x 10^-point x 1024^power, by plain integer arithmetic. */
TEST(quantity__agrees_with_plain_arithmetic)
{
    const char *env = getenv("QUANTITY_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = env != NULL ? strtoull(env, NULL, 10) : 3;
    print_message("QUANTITY_SEED=%llu\n", (unsigned long long)seed);
    static const char *const suffix[] = {"", "Ki", "Mi"};
    uint32_t seen[2] = {0};
    for (int i = 0; i < walk_steps(200000, 40000); i++) {
        int64_t digits = draw_below(&seed, 1000000);
        const uint32_t zeros = draw_below(&seed, 4);
        for (uint32_t k = 0; k < zeros; k++)
            digits = digits / 10 * 10 * 5; /* so that many are divisible */
        const uint32_t point = draw_below(&seed, 7);
        const uint32_t power = draw_below(&seed, 3);
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

/* The result is written only if the verdict is OK. */
TEST(quantity__gives_a_verdict_on_any_bytes)
{
    static const char alphabet[] = "0123456789.+-eEkKMGTPimun \xFF";
    uint64_t seed = 5;
    uint32_t seen[QUANTITY_RANGE + 1] = {0};
    for (int i = 0; i < walk_steps(300000, 30000); i++) {
        char text[24];
        const uint32_t len = draw_below(&seed, sizeof text);
        for (uint32_t k = 0; k < len; k++)
            text[k] = alphabet[draw_below(&seed, draw_below(&seed, 3) > 0 ? 10 : sizeof alphabet)];
        int64_t value = UNTOUCHED;
        const enum quantity_verdict verdict =
            quantity_parse((struct text){text, len}, draw_below(&seed, 10), &value);
        seen[verdict]++;
        if (verdict != QUANTITY_OK)
            assert_int_equal(value, UNTOUCHED);
    }
    for (size_t i = 0; i < ARRAY_LEN(seen); i++)
        assert_true(seen[i] > 100);
}
