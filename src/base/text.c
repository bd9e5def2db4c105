/*
 * Operations on borrowed bytes. Called everywhere, from any thread. A text may contain any bytes,
 * also zero bytes and invalid UTF-8. The pointer of an empty text may be NULL, so it is never
 * passed to memcmp() or memchr(). The output of text_show() and text_clip() contains no terminal
 * control sequences. Parts: pieces and comparisons, text for people, hash, glob, distance.
 */
#include "milligpu/base/text.h"

#include <string.h>

/* Set at start, so that tenants cannot choose names that collide in our tables. */
static uint64_t hash_seed = 0x9E3779B97F4A7C15U;

void text_seed(uint64_t seed)
{
    must(seed != 0);
    hash_seed = seed;
}

struct text text_of(const char *terminated)
{
    if (terminated == NULL)
        return TEXT("");
    return (struct text){terminated, strlen(terminated)};
}

bool text_eq(struct text a, struct text b)
{
    must(a.at != NULL || a.len == 0);
    must(b.at != NULL || b.len == 0);

    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

const char *text_lay(char **at, const char *terminated)
{
    const size_t bytes = strlen(terminated) + 1;
    char *here = *at;

    must(here != NULL);
    memcpy(here, terminated, bytes);
    *at += bytes;
    return here;
}

bool text_starts(struct text text, const char *prefix)
{
    must(prefix != NULL);
    must(text.at != NULL || text.len == 0);

    const size_t len = strlen(prefix);
    return len == 0 || (text.len >= len && memcmp(text.at, prefix, len) == 0);
}

bool text_ends(struct text text, const char *suffix)
{
    must(suffix != NULL);
    must(text.at != NULL || text.len == 0);

    const size_t len = strlen(suffix);
    return len == 0 || (text.len >= len && memcmp(text.at + text.len - len, suffix, len) == 0);
}

struct text text_first(struct text text, size_t most)
{
    return (struct text){text.at, text.len < most ? text.len : most};
}

struct text text_trim(struct text text)
{
    must(text.at != NULL || text.len == 0);

    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

bool text_cut(struct text *rest, char separator, struct text *out)
{
    if (rest->at == NULL)
        return false;
    const char *end = rest->len > 0 ? memchr(rest->at, separator, rest->len) : NULL;
    if (end == NULL) {
        *out = *rest;
        *rest = (struct text){0}; /* not merely empty: "a," has a second, empty piece */
        return true;
    }
    *out = (struct text){rest->at, (size_t)(end - rest->at)};
    must(out->len < rest->len);
    *rest = (struct text){end + 1, rest->len - out->len - 1};
    return true;
}

/* --- for people --- */

static bool text_continues(struct text text, size_t at, unsigned char least, unsigned char most)
{
    if (at >= text.len)
        return false;
    const unsigned char c = (unsigned char)text.at[at];
    return c >= least && c <= most;
}

/*
 * The limits of the second byte exclude overlong forms, surrogates and code points above U+10FFFF.
 */
size_t text_sequence(struct text text, size_t at)
{
    must(at < text.len);

    const unsigned char lead = (unsigned char)text.at[at];
    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        return text_continues(text, at + 1, 0x80, 0xBF) ? 2 : 0;
    if (lead >= 0xE0 && lead <= 0xEF) {
        const unsigned char least = lead == 0xE0 ? 0xA0 : 0x80;
        const unsigned char most = lead == 0xED ? 0x9F : 0xBF;
        return text_continues(text, at + 1, least, most) && text_continues(text, at + 2, 0x80, 0xBF)
                   ? 3
                   : 0;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        const unsigned char least = lead == 0xF0 ? 0x90 : 0x80;
        const unsigned char most = lead == 0xF4 ? 0x8F : 0xBF;
        const bool whole = text_continues(text, at + 1, least, most) &&
                           text_continues(text, at + 2, 0x80, 0xBF) &&
                           text_continues(text, at + 3, 0x80, 0xBF);
        return whole ? 4 : 0;
    }
    return 0;
}

/* Returns INT32_MAX for four bytes: no odd character is that long. */
static int32_t text_code_of(struct text text, size_t at, size_t bytes)
{
    const unsigned char *c = (const unsigned char *)text.at + at;

    must(bytes >= 1 && bytes <= 4);
    if (bytes == 1)
        return c[0];
    if (bytes == 2)
        return (c[0] & 0x1F) << 6 | (c[1] & 0x3F);
    return bytes == 3 ? (c[0] & 0x0F) << 12 | (c[1] & 0x3F) << 6 | (c[2] & 0x3F) : INT32_MAX;
}

int32_t text_odd(struct text text, size_t at, size_t bytes)
{
    static const struct {
        int32_t first;
        int32_t last;
    } odd[] = {
        {0x0000, 0x001F}, /* control characters */
        {0x007F, 0x009F}, /* DEL and C1 controls: U+009B begins an escape sequence */
        {0x061C, 0x061C}, /* the Arabic letter mark */
        {0x200B, 0x200F}, /* zero width; directional marks */
        {0x2028, 0x202E}, /* line and paragraph separators; embeddings and overrides */
        {0x2060, 0x206F}, /* zero width; isolates */
        {0xFEFF, 0xFEFF}, /* zero width */
        {0xFFF9, 0xFFFB}, /* interlinear annotations */
    };

    must(at < text.len && bytes > 0);
    const int32_t code = text_code_of(text, at, bytes);
    for (size_t i = 0; i < ARRAY_LEN(odd); i++)
        if (code >= odd[i].first && code <= odd[i].last)
            return code;
    return -1;
}

static void show_odd(unsigned code, char out[TEXT_SHOWN_MAX])
{
    static const char hex[] = "0123456789abcdef";
    static const char named[] = "\nn\tt\rr"; /* the character, then its letter */

    must(code <= 0xFFFF);
    for (size_t i = 0; i + 1 < sizeof named; i += 2)
        if (code == (unsigned char)named[i]) {
            memcpy(out, (char[]){'\\', named[i + 1], '\0'}, 3);
            return;
        }
    memcpy(out,
           (char[]){'\\', 'u', hex[code >> 12], hex[code >> 8 & 15], hex[code >> 4 & 15],
                    hex[code & 15], '\0'},
           TEXT_SHOWN_MAX);
}

/* Returns at least 1, so that a loop over invalid bytes ends. */
size_t text_show(struct text text, size_t at, char out[TEXT_SHOWN_MAX])
{
    static const char none[] = "\xEF\xBF\xBD";
    const size_t bytes = text_sequence(text, at);
    const int32_t odd = bytes > 0 ? text_odd(text, at, bytes) : -1;

    if (odd >= 0) {
        show_odd((unsigned)odd, out);
    } else if (bytes == 0) {
        memcpy(out, none, sizeof none);
    } else {
        memcpy(out, text.at + at, bytes);
        out[bytes] = '\0';
    }
    return bytes > 0 ? bytes : 1;
}

static bool is_printable_ascii(struct text text)
{
    bool is = true;

    for (size_t i = 0; i < text.len; i++)
        is &= text.at[i] >= ' ' && text.at[i] <= '~'; /* no early end: vectorised */
    return is;
}

void text_clip(struct text text, char *out, size_t bytes)
{
    static const char mark[] = "...";
    char shown[TEXT_SHOWN_MAX];
    size_t len = 0;
    size_t kept = 0; /* longest length after which the mark still fits */

    must(text.at != NULL || text.len == 0);
    must(bytes >= sizeof mark);
    if (text.len > 0 && text.len < bytes && is_printable_ascii(text)) {
        memcpy(out, text.at, text.len);
        out[text.len] = '\0';
        return;
    }
    for (size_t at = 0; at < text.len;) {
        at += text_show(text, at, shown);
        const size_t more = strlen(shown);
        if (len + more >= bytes) {
            memcpy(out + kept, mark, sizeof mark);
            return;
        }
        memcpy(out + len, shown, more);
        len += more;
        if (len + sizeof mark <= bytes)
            kept = len;
    }
    out[len] = '\0';
}

/* Folded 128-bit product: each bit of the result depends on all bits of a and b. */
static uint64_t text_fold(uint64_t a, uint64_t b)
{
    const unsigned __int128 wide = (unsigned __int128)a * b;
    return (uint64_t)wide ^ (uint64_t)(wide >> 64);
}

uint32_t text_hash_by(struct text text, uint64_t seed)
{
    static const uint64_t odd = 0xD6E8FEB86659FD93U;
    must(text.at != NULL || text.len == 0);

    uint64_t hash = seed ^ text.len;
    size_t at = 0;
    for (; text.len - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, text.at + at, sizeof word);
        hash = text_fold(hash ^ word, odd);
    }
    if (at < text.len) {
        uint64_t word = 0;
        memcpy(&word, text.at + at, text.len - at);
        hash = text_fold(hash ^ word, odd);
    }
    hash = text_fold(hash, seed ^ odd);
    must(at + sizeof(uint64_t) > text.len);
    return (uint32_t)(hash ^ (hash >> 32));
}

uint32_t text_hash(struct text text)
{
    return text_hash_by(text, hash_seed);
}

char text_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool text_glob(struct text glob, struct text text)
{
    must(glob.at != NULL || glob.len == 0);
    must(text.at != NULL || text.len == 0);

    /* Backtracks to the last '*' only: the shortest match of an earlier one always suffices. */
    size_t g = 0;
    size_t t = 0;
    size_t star = SIZE_MAX;
    size_t star_text = 0;
    while (t < text.len) {
        if (g < glob.len && glob.at[g] == '*') {
            star = g++;
            star_text = t;
        } else if (g < glob.len &&
                   (glob.at[g] == '?' || text_lower(glob.at[g]) == text_lower(text.at[t]))) {
            g++;
            t++;
        } else if (star != SIZE_MAX) {
            g = star + 1;
            t = ++star_text;
        } else {
            return false;
        }
    }
    must(t == text.len && g <= glob.len);
    while (g < glob.len && glob.at[g] == '*')
        g++;
    return g == glob.len;
}

static size_t least_of(size_t a, size_t b, size_t c)
{
    const size_t ab = a < b ? a : b;
    must(ab <= a && ab <= b);
    return ab < c ? ab : c;
}

/* Dynamic programming with one row of the table. */
size_t text_distance(struct text a, struct text b)
{
    size_t row[TEXT_DISTANCE_MAX + 1];

    must(b.len <= TEXT_DISTANCE_MAX);
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 0; i < a.len; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b.len; j++) {
            const size_t above = row[j + 1];
            row[j + 1] = least_of(above + 1, row[j] + 1, corner + (a.at[i] != b.at[j] ? 1 : 0));
            corner = above;
        }
    }
    return row[b.len];
}

/* The comparison of lengths rejects most names. */
size_t text_slips(struct text a, struct text b, size_t most)
{
    char plain[TEXT_DISTANCE_MAX + TEXT_SLIPS_MAX];

    must(most <= TEXT_SLIPS_MAX);
    must(b.len <= TEXT_DISTANCE_MAX);
    if (a.len > b.len + most || a.len + most < b.len)
        return TEXT_FAR;
    for (size_t i = 0; i < a.len; i++)
        plain[i] = a.at[i] == '_' || a.at[i] == '.' ? '-' : text_lower(a.at[i]);
    const size_t slips = text_distance((struct text){plain, a.len}, b);
    return slips <= most ? slips : TEXT_FAR;
}
