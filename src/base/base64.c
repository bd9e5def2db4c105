/*
 * Encodes and decodes base64 in kubeconfigs, credentials and signatures. Called by kube and sign.
 */
#include "milligpu/base/base64.h"

#include <string.h>

#include "milligpu/base/alloc.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static_assert(sizeof letters == 65, "base64 has 64 letters");

static int value_of(char c)
{
    /* strchr() would also find the terminator. */
    const char *at = c != '\0' ? strchr(letters, c) : NULL;
    return at != NULL ? (int)(at - letters) : -1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

char *base64_decode(const char *text, size_t *out_len)
{
    CLEANUP(xfreep) char *out = xmalloc(strlen(text) / 4 * 3 + 4);
    size_t len = 0;
    unsigned bits = 0;
    unsigned held = 0;
    unsigned padding = 0;

    for (; *text != '\0'; text++) {
        if (is_blank(*text))
            continue;
        if (*text == '=') {
            padding++;
            continue;
        }
        const int value = value_of(*text);
        if (value < 0 || padding > 0)
            return NULL;
        bits = bits << 6 | (unsigned)value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[len++] = (char)(bits >> held & 0xff);
        }
    }
    /* Six remaining bits are one letter of four: the text is truncated. Padding is optional. */
    if (padding > 2 || held >= 6)
        return NULL;
    out[len] = '\0';
    *out_len = len;
    return STEAL(out);
}

char *base64_encode(struct text bytes)
{
    CLEANUP(xfreep) char *out = xmalloc(bytes.len / 3 * 4 + 5);
    char *at = out;

    must(bytes.at != NULL);
    for (size_t i = 0; i < bytes.len; i += 3) {
        unsigned bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (i + j < bytes.len ? (unsigned char)bytes.at[i + j] : 0U);
        *at++ = letters[bits >> 18];
        *at++ = letters[bits >> 12 & 63];
        *at++ = i + 1 < bytes.len ? letters[bits >> 6 & 63] : '=';
        *at++ = i + 2 < bytes.len ? letters[bits & 63] : '=';
    }
    *at = '\0';
    return STEAL(out);
}
