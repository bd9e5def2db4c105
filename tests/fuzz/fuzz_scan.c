/* The fast paths for tokens agree with reading byte by byte. */
#include <string.h>

#include "support.h"
#include "wire/json/scan.h"

__extension__ typedef __int128 wide;

static void plain(struct text bytes)
{
    const char *end = bytes.at + bytes.len;
    const char *at = bytes.at;
    while (at < end && scan_is_plain(*at))
        at++;
    must(scan_plain(bytes.at, end) == at);
}

/* Length of a sequence by the table of RFC 3629, 0 if there is none. */
static size_t sequence(const unsigned char *at, size_t left)
{
    static const struct {
        unsigned char first, last, low, high;
        size_t bytes;
    } rows[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (at[0] < rows[i].first || at[0] > rows[i].last || left < rows[i].bytes)
            continue;
        if (at[1] < rows[i].low || at[1] > rows[i].high)
            return 0;
        for (size_t j = 2; j < rows[i].bytes; j++)
            if (at[j] < 0x80 || at[j] > 0xBF)
                return 0;
        return rows[i].bytes;
    }
    return 0;
}

/* Length of an escape such as "\t", 0 if there is none; jansson checks "\u", in fuzz_json. */
static size_t short_escape(const char *at, size_t left)
{
    return left >= 2 && at[1] != '\0' && strchr("\"\\/bfnrt", at[1]) != NULL ? 2 : 0;
}

/* The closing quote, NULL if the string is broken; *out_sure becomes false at a "\u". */
static const char *close_of(struct text bytes, bool *out_sure)
{
    size_t step;
    for (size_t i = 0; i < bytes.len; i += step) {
        const unsigned char c = (unsigned char)bytes.at[i];
        if (c == '"')
            return bytes.at + i;
        if (c == '\\' && i + 1 < bytes.len && bytes.at[i + 1] == 'u')
            *out_sure = false;
        if (!*out_sure)
            return NULL;
        step = c == '\\'  ? short_escape(bytes.at + i, bytes.len - i)
               : c < 0x80 ? c >= 0x20
                          : sequence((const unsigned char *)bytes.at + i, bytes.len - i);
        if (step == 0)
            return NULL;
    }
    return NULL;
}

static void string(struct text bytes)
{
    const struct scan_string got = scan_string(bytes.at, bytes.at + bytes.len);
    bool sure = true;
    const char *close = close_of(bytes, &sure);
    must(!sure || got.close == close);
    if (got.close == NULL) {
        must(got.fault[0] != '\0');
        must(got.fault_at >= bytes.at && got.fault_at <= bytes.at + bytes.len);
        return;
    }
    const struct text raw = {bytes.at, (size_t)(got.close - bytes.at)};
    CLEANUP(freep) char *out = malloc(raw.len + 1);
    must(out != NULL);
    const size_t len = scan_unescape(raw, out);
    must(len <= raw.len && got.escaped == (memchr(raw.at, '\\', raw.len) != NULL));
    must(got.escaped || (len == raw.len && memcmp(raw.at, out, len) == 0));
}

static size_t digits(struct text text, size_t from)
{
    size_t at = from;
    while (at < text.len && text.at[at] >= '0' && text.at[at] <= '9')
        at++;
    return at - from;
}

/* Length of the number at the start, 0 if there is none: RFC 8259, section 6. */
static size_t number_length(struct text text)
{
    size_t at = text.len > 0 && text.at[0] == '-';
    const size_t whole = digits(text, at);
    if (whole == 0 || (whole > 1 && text.at[at] == '0'))
        return 0;
    at += whole;
    if (at < text.len && text.at[at] == '.') {
        const size_t fraction = digits(text, at + 1);
        if (fraction == 0)
            return 0;
        at += 1 + fraction;
    }
    if (at < text.len && (text.at[at] == 'e' || text.at[at] == 'E')) {
        at++;
        at += at < text.len && (text.at[at] == '+' || text.at[at] == '-');
        const size_t exponent = digits(text, at);
        if (exponent == 0)
            return 0;
        at += exponent;
    }
    return at;
}

/* All digits in one row, and the position of the decimal point. */
struct row {
    char digit[4096];
    int64_t count;
    int64_t point;
    bool negative;
};

static void row_of(struct text number, struct row *row)
{
    enum { FAR = 100000 };
    size_t i = number.at[0] == '-';
    int64_t behind = 0;
    int64_t exponent = 0;
    bool fraction = false;
    row->negative = i == 1;
    row->count = 0;
    for (; i < number.len && number.at[i] != 'e' && number.at[i] != 'E'; i++) {
        if (number.at[i] == '.') {
            fraction = true;
            continue;
        }
        must(row->count < (int64_t)sizeof row->digit);
        row->digit[row->count++] = (char)(number.at[i] - '0');
        behind += fraction;
    }
    const bool down = i + 1 < number.len && number.at[i + 1] == '-';
    for (i++; i < number.len; i++)
        if (number.at[i] >= '0' && number.at[i] <= '9' && exponent < FAR)
            exponent = exponent * 10 + (number.at[i] - '0');
    row->point = row->count - behind + (down ? -exponent : exponent);
}

static enum scan_whole value_of(const struct row *row, wide *out)
{
    int64_t first = 0;
    int64_t last = row->count;
    while (first < last && row->digit[first] == 0)
        first++;
    while (last > first && row->digit[last - 1] == 0)
        last--;
    *out = 0;
    if (first == last)
        return SCAN_WHOLE;
    if (last > row->point)
        return SCAN_FRACTION;
    if (row->point - first > 19)
        return SCAN_RANGE;
    for (int64_t i = first; i < row->point; i++)
        *out = *out * 10 + (i < last ? row->digit[i] : 0);
    *out = row->negative ? -*out : *out;
    return *out > INT64_MAX || *out < INT64_MIN ? SCAN_RANGE : SCAN_WHOLE;
}

static void number(struct text bytes)
{
    static struct row row;
    int64_t got = 0;
    wide value;
    const char *end = scan_number(bytes.at, bytes.at + bytes.len);
    const size_t len = number_length(bytes);
    must((end == NULL) == (len == 0));
    if (len == 0)
        return;
    must(end == bytes.at + len);
    row_of((struct text){bytes.at, len}, &row);
    const enum scan_whole verdict = value_of(&row, &value);
    must(scan_i64((struct text){bytes.at, len}, &got) == verdict);
    must(verdict != SCAN_WHOLE || got == (int64_t)value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { LONGEST = 4000 };
    const struct text bytes = {(const char *)data, size < LONGEST ? size : LONGEST};
    if (size == 0)
        return 0;
    plain(bytes);
    string(bytes);
    number(bytes);
    return 0;
}
