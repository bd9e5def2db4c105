/*
 * A quantity is what schoolbook arithmetic on its digits gives, exactly and rounded up; an exact
 * quantity is the same when rounded up.
 */
#include <string.h>

#include "milligpu/core/facts/quantity.h"

#include "support.h"

enum { DIGITS = 512, TEXT_MAX = 128, FAR = 1000 };

/* digit[0] is the least significant. */
struct big {
    unsigned char digit[DIGITS];
    int count;
};

static void big_double(struct big *big)
{
    unsigned carry = 0;
    for (int i = 0; i < big->count; i++) {
        carry += 2U * big->digit[i];
        big->digit[i] = (unsigned char)(carry % 10);
        carry /= 10;
    }
    must(big->count < DIGITS);
    if (carry > 0)
        big->digit[big->count++] = (unsigned char)carry;
}

struct parts {
    struct big digits;
    int scale; /* x 10^scale */
    int doublings;
    bool negative;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* After the digits: nothing, a unit, or an exponent. */
static bool read_unit(struct text text, struct parts *out)
{
    static const char *const units[] = {"n-9", "u-6", "m-3", "k+3", "M+6",
                                        "G+9", "T12", "P15", "E18"};
    int exponent = 0;
    if (text.len == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (text.len == 1 && text.at[0] == units[i][0]) {
            const char *power = units[i] + 1;
            out->scale += power[0] == '-'   ? '0' - power[1]
                          : power[0] == '+' ? power[1] - '0'
                                            : 10 + power[1] - '0';
            return true;
        }
    for (int i = 0; i < 6; i++)
        if (text.len == 2 && text.at[1] == 'i' && text.at[0] == "KMGTPE"[i]) {
            out->doublings = 10 * (i + 1);
            return true;
        }
    if (text.at[0] != 'e' && text.at[0] != 'E')
        return false;
    size_t i = 1;
    const bool down = i < text.len && text.at[i] == '-';
    i += i < text.len && (text.at[i] == '-' || text.at[i] == '+');
    if (i == text.len)
        return false;
    for (; i < text.len; i++) {
        if (!is_digit(text.at[i]))
            return false;
        exponent = exponent < FAR ? exponent * 10 + (text.at[i] - '0') : FAR;
    }
    out->scale += down ? -exponent : exponent;
    return true;
}

static bool read_parts(struct text text, struct parts *out)
{
    char digit[TEXT_MAX];
    int count = 0;
    bool point = false;
    size_t i = text.len > 0 && (text.at[0] == '-' || text.at[0] == '+');
    *out = (struct parts){.negative = i == 1 && text.at[0] == '-'};
    for (; i < text.len && (is_digit(text.at[i]) || (text.at[i] == '.' && !point)); i++) {
        if (text.at[i] == '.') {
            point = true;
            continue;
        }
        digit[count++] = (char)(text.at[i] - '0');
        out->scale -= point;
    }
    for (int j = 0; j < count; j++)
        out->digits.digit[j] = (unsigned char)digit[count - 1 - j];
    out->digits.count = count;
    return count > 0 && read_unit((struct text){text.at + i, text.len - i}, out);
}

struct judged {
    enum quantity_verdict exact;
    enum quantity_verdict ceiling;
    int64_t value;
    int64_t up;
};

static struct judged evaluate(struct parts *parts)
{
    struct big *big = &parts->digits;
    uint64_t whole = 0;
    bool fraction = false;
    bool large = false;
    for (int i = 0; i < parts->doublings; i++)
        big_double(big);
    for (int i = big->count - 1; i >= 0; i--) {
        const int power = i + parts->scale;
        if (big->digit[i] == 0)
            continue;
        fraction |= power < 0;
        large |= power > 18;
    }
    for (int power = 18; power >= 0 && !large; power--) {
        const int i = power - parts->scale;
        whole = whole * 10 + (i >= 0 && i < big->count ? big->digit[i] : 0);
    }
    /* At most 10^19 - 1, so it fits in 64 bits. */
    large |= whole > INT64_MAX;
    if (large)
        return (struct judged){.exact = QUANTITY_RANGE, .ceiling = QUANTITY_RANGE};
    struct judged judged = {.value = (int64_t)whole, .up = (int64_t)whole};
    if (fraction) {
        judged.exact = QUANTITY_FRACTION;
        judged.ceiling = whole == INT64_MAX ? QUANTITY_RANGE : QUANTITY_OK;
        judged.up += whole != INT64_MAX;
    }
    judged.value = parts->negative ? -judged.value : judged.value;
    judged.up = parts->negative ? -judged.up : judged.up;
    return judged;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text text = {size > 0 ? (const char *)data : "", size};
    if (size > TEXT_MAX)
        return 0;
    for (unsigned decimals = 0; decimals <= 3; decimals += 3) {
        static struct parts parts;
        int64_t exact = 0;
        int64_t up = 0;
        const enum quantity_verdict verdict = quantity_parse(text, decimals, &exact);
        const enum quantity_verdict rounded = quantity_ceil(text, decimals, &up);
        const bool well_formed = read_parts(text, &parts);
        must((verdict == QUANTITY_SYNTAX) == !well_formed);
        must((rounded == QUANTITY_SYNTAX) == !well_formed);
        if (!well_formed)
            continue;
        parts.scale += (int)decimals;
        const struct judged judged = evaluate(&parts);
        must(verdict == judged.exact && rounded == judged.ceiling);
        must(verdict != QUANTITY_OK || exact == judged.value);
        must(rounded != QUANTITY_OK || up == judged.up);
    }
    return 0;
}
