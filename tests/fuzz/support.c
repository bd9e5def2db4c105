#include "support.h"

#include <string.h>
#include <strings.h>

struct pieces pieces_of(const uint8_t *data, size_t size)
{
    return (struct pieces){size > 0 ? (const char *)data : "", size};
}

struct text pieces_take(struct pieces *pieces, size_t bytes)
{
    const size_t len = bytes < pieces->left ? bytes : pieces->left;
    const struct text piece = {pieces->at, len};

    pieces->at += len;
    pieces->left -= len;
    return piece;
}

uint8_t pieces_byte(struct pieces *pieces)
{
    const struct text piece = pieces_take(pieces, 1);
    return piece.len > 0 ? (uint8_t)piece.at[0] : 0;
}

struct text pieces_until(struct pieces *pieces, char separator)
{
    const char *end = memchr(pieces->at, separator, pieces->left);
    const struct text piece =
        pieces_take(pieces, end != NULL ? (size_t)(end - pieces->at) : pieces->left);

    (void)pieces_byte(pieces); /* the separator, or nothing at the end */
    return piece;
}

struct text pieces_rest(struct pieces *pieces)
{
    return pieces_take(pieces, pieces->left);
}

size_t pieces_change(struct pieces *pieces, unsigned place_bytes, char *bytes, size_t len)
{
    while (pieces->left > place_bytes && len > 0) {
        size_t at = 0;
        for (unsigned i = 0; i < place_bytes; i++)
            at = at << 8 | pieces_byte(pieces);
        at %= len;
        const struct text piece = pieces_take(pieces, pieces_byte(pieces));
        if (piece.len == 0)
            len = at;
        else
            memcpy(bytes + at, piece.at, piece.len < len - at ? piece.len : len - at);
    }
    return len;
}

/* Provided by the address sanitizer; NULL in a build without it. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

size_t heap_bytes(void)
{
    return __sanitizer_get_current_allocated_bytes != NULL
               ? __sanitizer_get_current_allocated_bytes()
               : 0;
}

void heap_is_bounded(size_t before, size_t input)
{
    enum { FACTOR = 256, BASE = 1 << 20 };
    must(heap_bytes() <= before + BASE + FACTOR * input);
}

/*
 * Where jansson differs from our reader: it rejects numbers beyond a double or 64 bits, a NUL in a
 * key, and in any string, even one that we skip, invalid UTF-8 and half a surrogate pair. It nests
 * deeper than we do, keeps the last of duplicate keys, and overlooks a NUL after a number.
 */
struct second second_read(struct text bytes)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t error;

    if (memchr(bytes.at, '\0', bytes.len) != NULL)
        return (struct second){.value = NULL};
    json_t *value = json_loadb(bytes.at, bytes.len, flags | JSON_REJECT_DUPLICATES, &error);

    if (value != NULL)
        return (struct second){.value = value};
    switch (json_error_code(&error)) {
    case json_error_numeric_overflow:
    case json_error_null_byte_in_key:
    case json_error_duplicate_key:
    case json_error_stack_overflow:
    case json_error_invalid_utf8:
        return (struct second){.value = NULL};
    default:
        return (struct second){.refused = strstr(error.text, "Unicode") == NULL};
    }
}

json_t *second_field(json_t *object, const char *key)
{
    json_t *found = json_object_get(object, key);
    const char *name;
    json_t *value;

    if (found == NULL)
        json_object_foreach (object, name, value)
            if (strcasecmp(name, key) == 0)
                found = value;
    return json_is_null(found) ? NULL : found;
}

json_t *second_at(json_t *object, const char *path)
{
    struct text rest = text_of(path);
    struct text word;
    char key[64];

    while (object != NULL && text_cut(&rest, '.', &word)) {
        text_clip(word, key, sizeof key);
        object = second_field(object, key);
    }
    return object;
}

bool second_says(json_t *string, const char *text)
{
    if (string == NULL)
        return text[0] == '\0';
    return json_is_string(string) && json_string_length(string) == strlen(text) &&
           strcmp(json_string_value(string), text) == 0;
}
