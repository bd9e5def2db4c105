#include "milligpu/text.h"

#include <string.h>

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

bool text_is(struct text text, const char *terminated)
{
    return text_eq(text, text_of(terminated));
}

bool text_starts(struct text text, const char *prefix)
{
    must(prefix != NULL);
    must(text.at != NULL || text.len == 0);

    const size_t len = strlen(prefix);
    return len == 0 || (text.len >= len && memcmp(text.at, prefix, len) == 0);
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

void text_clip(struct text text, char *out, size_t bytes)
{
    static const char mark[] = "...";
    must(text.at != NULL || text.len == 0);
    must(bytes >= sizeof mark);

    if (text.len < bytes) {
        if (text.len > 0)
            memcpy(out, text.at, text.len);
        out[text.len] = '\0';
        return;
    }
    size_t kept = bytes - sizeof mark;
    while (kept > 0 && ((unsigned char)text.at[kept] & 0xC0) == 0x80)
        kept--;
    memcpy(out, text.at, kept);
    memcpy(out + kept, mark, sizeof mark);
}

/* Multiply to twice the width and fold: every bit of either side reaches every bit. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    const unsigned __int128 wide = (unsigned __int128)a * b;
    return (uint64_t)wide ^ (uint64_t)(wide >> 64);
}

uint32_t text_hash(struct text text)
{
    static const uint64_t odd = 0xD6E8FEB86659FD93U;
    must(text.at != NULL || text.len == 0);

    uint64_t hash = hash_seed ^ text.len;
    size_t at = 0;
    for (; text.len - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, text.at + at, sizeof word);
        hash = fold(hash ^ word, odd);
    }
    if (at < text.len) {
        uint64_t word = 0;
        memcpy(&word, text.at + at, text.len - at);
        hash = fold(hash ^ word, odd);
    }
    hash = fold(hash, hash_seed ^ odd);
    must(at + sizeof(uint64_t) > text.len);
    return (uint32_t)(hash ^ (hash >> 32));
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool text_glob(struct text glob, struct text text)
{
    must(glob.at != NULL || glob.len == 0);
    must(text.at != NULL || text.len == 0);

    /* Only the last '*' can need a second try: what an earlier one took is never too much. */
    size_t g = 0;
    size_t t = 0;
    size_t star = SIZE_MAX;
    size_t star_text = 0;
    while (t < text.len) {
        if (g < glob.len && glob.at[g] == '*') {
            star = g++;
            star_text = t;
        } else if (g < glob.len && (glob.at[g] == '?' || lower(glob.at[g]) == lower(text.at[t]))) {
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
