/*
 * The strict JSON pull reader (docs/why/007-own-json-reader.md). Called by all decoders of src/wire
 * and by document.c, on the thread that holds the bytes; a reader belongs to one call. The input is
 * untrusted: bounds are checked before each byte, and depth is limited. The first error is kept
 * with its path and makes every later call return false. In order: paths of errors, levels and
 * keys, strings, scalars, skipping, tables of fields.
 */
#include <string.h>

#include "milligpu/wire/json/json.h"

#include "scan.h"

enum { PATH_MAX_BYTES = 256, SHOWN_MAX_BYTES = 48 };

void json_reader_init(struct json_reader *in, struct text bytes, const char *root,
                      struct arena *arena, struct err *err)
{
    must(root != NULL && arena != NULL && err != NULL);
    must(bytes.at != NULL || bytes.len == 0);

    in->begin = bytes.at != NULL ? bytes.at : "";
    in->at = in->begin;
    in->end = in->begin + bytes.len;
    in->arena = arena;
    in->root = root;
    in->err = err;
    in->failed = false;
    in->deep = false;
    in->depth = 0;
}

/*
 * The root word and the keys that lead to a value. A path is built only for an error, from the
 * levels. It is truncated if too long, and always terminated.
 */
struct path {
    char text[PATH_MAX_BYTES];
    size_t len;
};

/* A path appears in logs and answers: no control characters, no partial UTF-8 sequences. */
static void path_add(struct path *path, struct text piece)
{
    for (size_t i = 0; i < piece.len && path->len + 1 < sizeof path->text; i++) {
        const unsigned char byte = (unsigned char)piece.at[i];
        path->text[path->len++] = byte >= 0x20 && byte < 0x7F ? piece.at[i] : '?';
    }
    must(path->len < sizeof path->text);
    path->text[path->len] = '\0';
}

/* No snprintf(): wire may call only a few functions of libc (tests/tidy/check_purity.py). */
static void path_add_index(struct path *path, uint32_t index)
{
    char digits[10];
    size_t at = sizeof digits;
    do {
        must(at > 0);
        digits[--at] = (char)('0' + index % 10);
        index /= 10;
    } while (index > 0);
    path_add(path, TEXT("["));
    path_add(path, (struct text){digits + at, sizeof digits - at});
    path_add(path, TEXT("]"));
}

/*
 * Other keys appear as ["milligpu.io/gpus"], because a dot or a slash would look like part of the
 * path.
 */
static bool is_word(struct text key)
{
    must(key.at != NULL || key.len == 0);

    for (size_t i = 0; i < key.len; i++) {
        const char c = key.at[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '-')
            return false;
    }
    return key.len > 0;
}

/* The sender chooses the key, so it is clipped: the rest of the path must still fit. */
static void path_add_key(struct path *path, struct text key)
{
    must(key.at != NULL);

    const bool word = is_word(key);
    struct text shown = key;
    if (shown.len > SHOWN_MAX_BYTES)
        shown.len = SHOWN_MAX_BYTES;
    path_add(path, word ? TEXT(".") : TEXT("[\""));
    path_add(path, shown);
    if (shown.len < key.len)
        path_add(path, TEXT("..."));
    if (!word)
        path_add(path, TEXT("\"]"));
}

/* Called by the two macros in json.h, which set in->err just before. */
void json_reader_fail_here(struct json_reader *in)
{
    must(!in->failed);
    must(in->depth <= JSON_DEPTH_MAX);

    struct path path = {.len = 0};
    path_add(&path, text_of(in->root));
    for (uint32_t i = 0; i < in->depth; i++) {
        const struct json_reader_level *level = &in->level[i];
        if (level->array)
            path_add_index(&path, level->index);
        else if (level->key.at != NULL)
            path_add_key(&path, level->key);
    }
    (void)err_wrap(in->err, "%s", path.text); /* the failed flag reports the error from here on */
    in->failed = true;
}

/* RFC 8259 allows four bytes between tokens; form feed and no-break space are errors. */
static inline void skip_space(struct json_reader *in)
{
    must(in->at <= in->end);

    while (in->at < in->end && *in->at <= ' ' &&
           (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t'))
        in->at++;
}

/* Returns the name with its article, for "expected X, found Y". */
static const char *json_reader_type_name(enum json_reader_type type)
{
    static const char *const name[] = {
        [JSON_TYPE_END] = "the end",     [JSON_TYPE_OBJECT] = "an object",
        [JSON_TYPE_ARRAY] = "an array",  [JSON_TYPE_STRING] = "a string",
        [JSON_TYPE_NUMBER] = "a number", [JSON_TYPE_TRUE] = "true",
        [JSON_TYPE_FALSE] = "false",     [JSON_TYPE_NULL] = "null",
        [JSON_TYPE_BAD] = "no JSON",
    };
    must((size_t)type < ARRAY_LEN(name));
    return name[type];
}

static size_t json_reader_position(const struct json_reader *in, const char *at)
{
    must(at >= in->begin && at <= in->end);
    return (size_t)(at - in->begin);
}

/* Reports a byte that the grammar does not allow here. */
static bool json_reader_wrong(struct json_reader *in, const char *expected)
{
    must(!in->failed);
    must(expected != NULL);

    const enum json_reader_type type = json_read_peek(in);
    /* t, f and n may begin a misspelled word, so the error shows the character, not the type. */
    if (type != JSON_TYPE_BAD && type != JSON_TYPE_END && *in->at != 't' && *in->at != 'f' &&
        *in->at != 'n')
        json_reader_fail(in, "expected %s, found %s at byte %zu", expected,
                         json_reader_type_name(type), json_reader_position(in, in->at));
    else if (type == JSON_TYPE_END)
        json_reader_fail(in, "expected %s, found the end at byte %zu", expected,
                         json_reader_position(in, in->at));
    else if (*in->at > 0x20 && *in->at < 0x7F)
        json_reader_fail(in, "expected %s, found '%c' at byte %zu", expected, *in->at,
                         json_reader_position(in, in->at));
    else
        json_reader_fail(in, "expected %s, found byte 0x%02x at byte %zu", expected,
                         (unsigned)(unsigned char)*in->at, json_reader_position(in, in->at));
    return false;
}

enum json_reader_type json_read_peek(struct json_reader *in)
{
    must(in->at >= in->begin && in->at <= in->end);
    must(in->depth <= JSON_DEPTH_MAX);

    if (in->failed)
        return JSON_TYPE_BAD;
    skip_space(in);
    if (in->at == in->end)
        return JSON_TYPE_END;
    switch (*in->at) {
    case '{':
        return JSON_TYPE_OBJECT;
    case '[':
        return JSON_TYPE_ARRAY;
    case '"':
        return JSON_TYPE_STRING;
    case 't':
        return JSON_TYPE_TRUE;
    case 'f':
        return JSON_TYPE_FALSE;
    case 'n':
        return JSON_TYPE_NULL;
    default:
        return *in->at == '-' || (*in->at >= '0' && *in->at <= '9') ? JSON_TYPE_NUMBER
                                                                    : JSON_TYPE_BAD;
    }
}

static bool json_reader_expect(struct json_reader *in, enum json_reader_type type,
                               const char *expected)
{
    must(type != JSON_TYPE_BAD && type != JSON_TYPE_END);

    if (in->failed)
        return false;
    return json_read_peek(in) == type || json_reader_wrong(in, expected);
}

/* Pushes the level before the first key is read, so an error in between names the object. */
static bool json_reader_enter(struct json_reader *in, bool array)
{
    must(in->at < in->end);

    if (in->depth == JSON_DEPTH_MAX) {
        json_reader_fail_as(in, ERR_TOO_LARGE, "nested deeper than %d levels (JSON_DEPTH_MAX)",
                            JSON_DEPTH_MAX);
        return false;
    }
    in->level[in->depth++] = (struct json_reader_level){.array = array, .first = true};
    in->at++;
    return true;
}

/* Always returns false, to end the loops of the callers; this is not an error. */
static bool json_reader_leave(struct json_reader *in)
{
    must(in->depth > 0);
    in->depth--;
    in->at++;
    return false;
}

bool json_read_object(struct json_reader *in)
{
    return json_reader_expect(in, JSON_TYPE_OBJECT, "an object") && json_reader_enter(in, false);
}

bool json_read_array(struct json_reader *in)
{
    return json_reader_expect(in, JSON_TYPE_ARRAY, "an array") && json_reader_enter(in, true);
}

/* Reads from the opening quote to the closing one. shape: the text is not used (scan_shape()). */
static bool json_reader_read_string(struct json_reader *in, bool shape, struct scan_string *out)
{
    must(in->at < in->end && *in->at == '"');

    *out = shape ? scan_shape(in->at + 1, in->end) : scan_string(in->at + 1, in->end);
    if (out->close == NULL) {
        json_reader_fail(in, "%s, at byte %zu", out->fault,
                         json_reader_position(in, out->fault_at));
        return false;
    }
    return true;
}

/*
 * A decoded string is never longer than its escaped form. The extra byte is the terminator, on
 * which json_read_cstring() relies.
 */
static struct text json_reader_decode(struct json_reader *in, struct text raw, bool escaped)
{
    must(raw.at > in->begin);
    must(raw.len <= json_reader_position(in, in->end));

    if (!escaped)
        return raw;
    char *out = arena_alloc(in->arena, raw.len + 1);
    const size_t len = scan_unescape(raw, out);
    out[len] = '\0';
    return (struct text){out, len};
}

/*
 * Reads the string at this byte if it is plain (scan.h), as nearly all are. False, with nothing
 * read, if it is not: json_reader_read_string() then says what it is.
 */
static inline bool read_plain(struct json_reader *in, struct text *out)
{
    if (in->at == in->end || *in->at != '"')
        return false;
    const char *close = scan_plain(in->at + 1, in->end);
    if (close == in->end || *close != '"')
        return false;
    *out = (struct text){in->at + 1, (size_t)(close - in->at - 1)};
    in->at = close + 1;
    return true;
}

/* Reads ',' before every element but the first; false at the closing bracket or on failure. */
static bool json_reader_next(struct json_reader *in, bool array)
{
    if (in->failed)
        return false;
    must(in->depth > 0 && in->level[in->depth - 1].array == array);

    struct json_reader_level *level = &in->level[in->depth - 1];
    skip_space(in);
    if (in->at < in->end && *in->at == (array ? ']' : '}'))
        return json_reader_leave(in);
    /* A trailing comma fails later, at the missing key or value. */
    if (level->first) {
        level->first = false;
        return true;
    }
    if (in->at == in->end || *in->at != ',')
        return json_reader_wrong(in, array ? "',' or ']'" : "',' or '}'");
    in->at++;
    level->index++;
    skip_space(in);
    return true;
}

/* Reads a key without its colon; decoded is false if the caller ignores the key. */
static bool read_key(struct json_reader *in, struct text *out_key, bool decoded)
{
    struct scan_string string;

    if (read_plain(in, out_key))
        return true;
    if (in->at == in->end || *in->at != '"')
        return json_reader_wrong(in, "a key in quotes");
    if (!json_reader_read_string(in, !decoded, &string))
        return false;
    const struct text raw = {in->at + 1, (size_t)(string.close - in->at - 1)};
    *out_key = decoded ? json_reader_decode(in, raw, string.escaped) : raw;
    in->at = string.close + 1;
    return true;
}

/*
 * Reads ,"key": without spaces, as Go writes it, or "key": behind the bracket, if the key is plain.
 * False, with nothing read, if something else follows.
 */
static inline bool read_plain_key(struct json_reader *in, struct text *out_key)
{
    struct json_reader_level *level = &in->level[in->depth - 1];
    const char *at = in->at;

    if (!level->first && at < in->end && *at++ != ',')
        return false;
    if (at >= in->end || *at++ != '"')
        return false;
    const char *close = scan_plain(at, in->end);
    if (in->end - close < 2 || close[0] != '"' || close[1] != ':')
        return false;
    *out_key = (struct text){at, (size_t)(close - at)};
    level->key = *out_key;
    level->index += !level->first;
    level->first = false;
    in->at = close + 2;
    return true;
}

/* Reads a key with its colon; decoded as in read_key(). */
static bool next_key(struct json_reader *in, struct text *out_key, bool decoded)
{
    if (!in->failed && !in->level[in->depth - 1].array && read_plain_key(in, out_key))
        return true;
    /* Until this key is read, an error belongs to the object, not to the previous member. */
    if (!in->failed)
        in->level[in->depth - 1].key = (struct text){NULL, 0};
    if (!json_reader_next(in, false) || !read_key(in, out_key, decoded))
        return false;
    in->level[in->depth - 1].key = *out_key;
    skip_space(in);
    if (in->at == in->end || *in->at != ':')
        return json_reader_wrong(in, "':'");
    in->at++;
    return true;
}

bool json_read_key(struct json_reader *in, struct text *out_key)
{
    must(in->failed || in->depth > 0);
    return next_key(in, out_key, true);
}

bool json_read_element(struct json_reader *in)
{
    return json_reader_next(in, true);
}

bool json_read_string(struct json_reader *in, struct text *out)
{
    struct scan_string string;
    if (!in->failed && read_plain(in, out))
        return true;
    if (!json_reader_expect(in, JSON_TYPE_STRING, "a string") ||
        !json_reader_read_string(in, false, &string))
        return false;
    const struct text raw = {in->at + 1, (size_t)(string.close - in->at - 1)};
    *out = json_reader_decode(in, raw, string.escaped);
    in->at = string.close + 1;
    return true;
}

/* Only an escape can produce a NUL, and strings with escapes are not borrowed. */
static bool no_nul(struct json_reader *in, struct text value)
{
    must(value.at != NULL);

    const bool borrowed = value.at >= in->begin && value.at <= in->end;
    if (borrowed || memchr(value.at, '\0', value.len) == NULL)
        return true;
    json_reader_fail(in, "must not hold a NUL");
    return false;
}

bool json_read_cstring(struct json_reader *in, const char **out)
{
    struct text value;
    if (!json_read_string(in, &value) || !no_nul(in, value))
        return false;
    const bool borrowed = value.at >= in->begin && value.at <= in->end;
    /* A decoded string is in the arena, with a terminator. */
    *out = borrowed ? arena_copy(in->arena, value) : value.at;
    must((*out)[value.len] == '\0');
    return true;
}

bool json_read_string_element(struct json_reader *in, struct text *out)
{
    must(in->failed || in->depth > 0);

    /* Fast path: Go writes no spaces, and names have no escapes, so elements are `,"name"`. */
    const char *at = in->at;
    if (!in->failed && in->end - at >= 2 && at[0] == ',' && at[1] == '"' &&
        !in->level[in->depth - 1].first) {
        const char *close = scan_plain(at + 2, in->end);
        if (close < in->end && *close == '"') {
            in->level[in->depth - 1].index++;
            in->at = close + 1;
            *out = (struct text){at + 2, (size_t)(close - at - 2)};
            return true;
        }
    }
    return json_read_element(in) && json_read_string(in, out);
}

/* Sixteen bytes that one instruction compares. */
typedef int8_t byte_block __attribute__((vector_size(16)));

/*
 * Adds the bytes that differ, or are not plain. As signed numbers, all but ASCII are negative, and
 * the quote is the last of those below '#'; a blank and '!' are read the slow way, too.
 */
static inline byte_block compare_block(const char *at, const char *expected)
{
    byte_block sent;
    byte_block other;

    memcpy(&sent, at, sizeof sent);
    memcpy(&other, expected, sizeof other);
    return (sent ^ other) | (sent < '#') | (sent == '\\');
}
static_assert('"' + 1 == '#', "no byte is between them");

/* Fewer bytes than a block. */
static byte_block compare_rest(const char *at, struct text expected)
{
    char sent[sizeof(byte_block)] = "................";
    char other[sizeof(byte_block)] = "................";

    must(expected.len < sizeof(byte_block));
    memcpy(sent, at, expected.len);
    memcpy(other, expected.at, expected.len);
    return compare_block(sent, other);
}

/* Are both equal and plain? The last blocks overlap, so that no byte behind the text is read. */
static inline bool is_same_and_plain(const char *at, struct text expected)
{
    const size_t block = sizeof(byte_block);
    byte_block wrong = {0};
    uint64_t half[2];

    must(expected.at != NULL);
    if (expected.len < block) {
        wrong = compare_rest(at, expected);
    } else {
        const size_t last = expected.len - block;
        for (size_t i = 0; i < last; i += block)
            wrong |= compare_block(at + i, expected.at + i);
        wrong |= compare_block(at + last, expected.at + last);
    }
    memcpy(half, &wrong, sizeof half);
    return (half[0] | half[1]) == 0;
}

bool json_read_expected_element(struct json_reader *in, struct text expected)
{
    const char *at = in->at;

    must(in->failed || in->depth > 0);
    if (in->failed || expected.len == 0 || (size_t)(in->end - at) < expected.len + 3 ||
        at[0] != ',' || at[1] != '"' || at[2 + expected.len] != '"' ||
        in->level[in->depth - 1].first || !is_same_and_plain(at + 2, expected))
        return false;
    in->level[in->depth - 1].index++;
    in->at = at + expected.len + 3;
    return true;
}

bool json_read_is_name(struct json_reader *in, size_t max, struct text name)
{
    must(max > 0);

    if (in->failed || !no_nul(in, name))
        return false;
    if (name.len == 0)
        json_reader_fail(in, "must not be empty");
    else if (name.len > max)
        json_reader_fail_as(in, ERR_TOO_LARGE, "has %zu bytes, more than %zu", name.len, max);
    return !in->failed;
}

bool json_read_name(struct json_reader *in, size_t max, struct text *out)
{
    return json_read_string(in, out) && json_read_is_name(in, max, *out);
}

/* Checks only the token; trailing bytes, as in 12abc, fail at the next comma or bracket. */
static bool json_scan_number(struct json_reader *in, struct text *out)
{
    if (!json_reader_expect(in, JSON_TYPE_NUMBER, "a whole number"))
        return false;
    const char *end = scan_number(in->at, in->end);
    if (end == NULL) {
        json_reader_fail(in, "a number that is not JSON, at byte %zu",
                         json_reader_position(in, in->at));
        return false;
    }
    *out = (struct text){in->at, (size_t)(end - in->at)};
    in->at = end;
    return true;
}

bool json_read_i64(struct json_reader *in, int64_t *out)
{
    must(out != NULL);

    struct text number;
    if (!json_scan_number(in, &number))
        return false;
    const enum scan_whole verdict = scan_i64(number, out);
    const int shown = number.len < SHOWN_MAX_BYTES ? (int)number.len : SHOWN_MAX_BYTES;
    if (verdict == SCAN_FRACTION)
        json_reader_fail(in, "is %.*s, but must be a whole number", shown, number.at);
    if (verdict == SCAN_RANGE)
        json_reader_fail(in, "is %.*s, beyond what 63 bits can hold", shown, number.at);
    return !in->failed;
}

/* json_read_peek() has checked only the first letter; this checks the others. */
static bool json_reader_literal(struct json_reader *in, const char *word)
{
    must(word != NULL);

    const struct text rest = {in->at,
                              json_reader_position(in, in->end) - json_reader_position(in, in->at)};
    if (in->failed)
        return false;
    if (!text_starts(rest, word))
        return json_reader_wrong(in, "a value");
    in->at += strlen(word);
    return true;
}

bool json_read_bool(struct json_reader *in, bool *out)
{
    const enum json_reader_type type = json_read_peek(in);
    if (in->failed)
        return false;
    if (type != JSON_TYPE_TRUE && type != JSON_TYPE_FALSE)
        return json_reader_wrong(in, "true or false");
    if (!json_reader_literal(in, type == JSON_TYPE_TRUE ? "true" : "false"))
        return false;
    *out = type == JSON_TYPE_TRUE;
    return true;
}

bool json_read_null(struct json_reader *in)
{
    const char first = in->at == in->end ? ' ' : *in->at;

    /* Go writes no spaces, so nearly always the value begins here, and is none. */
    if (first > ' ' && first != 'n')
        return false;
    return json_read_peek(in) == JSON_TYPE_NULL && json_reader_literal(in, "null");
}

/* Skips a string, number, bool or null. */
static bool skip_scalar(struct json_reader *in, enum json_reader_type type)
{
    struct scan_string string;
    struct text number;

    must(type != JSON_TYPE_OBJECT && type != JSON_TYPE_ARRAY);
    /* A skipped string must be JSON, but not UTF-8 (reason: scan_shape()). */
    switch (type) {
    case JSON_TYPE_STRING:
        if (!json_reader_read_string(in, true, &string))
            return false;
        in->at = string.close + 1;
        return true;
    case JSON_TYPE_NUMBER:
        return json_scan_number(in, &number);
    case JSON_TYPE_TRUE:
        return json_reader_literal(in, "true");
    case JSON_TYPE_FALSE:
        return json_reader_literal(in, "false");
    case JSON_TYPE_NULL:
        return json_reader_literal(in, "null");
    default:
        return in->failed ? false : json_reader_wrong(in, "a value");
    }
}

/* Below the depth of paths, only the kind of closing bracket is kept for each level. */
struct deep {
    uint32_t depth;
    uint64_t arrays[JSON_SKIP_DEPTH_MAX / 64];
};

static bool deep_is_array(const struct deep *deep)
{
    must(deep->depth > 0);
    return (deep->arrays[(deep->depth - 1) / 64] >> ((deep->depth - 1) % 64) & 1) != 0;
}

/*
 * One bit per level: 10,240 full levels would take 240 KiB of stack. JSON_SKIP_DEPTH_MAX is above
 * Go's limit of 10,000, so all objects that the API server stores can be skipped.
 */
static bool deep_enter(struct json_reader *in, struct deep *deep, bool array)
{
    must(in->at < in->end);

    if (deep->depth == JSON_SKIP_DEPTH_MAX) {
        json_reader_fail_as(in, ERR_TOO_LARGE, "nested deeper than %d levels (JSON_SKIP_DEPTH_MAX)",
                            JSON_SKIP_DEPTH_MAX);
        return false;
    }
    const uint64_t bit = UINT64_C(1) << (deep->depth % 64);
    uint64_t *word = &deep->arrays[deep->depth / 64];
    if (deep->depth++ % 64 == 0)
        *word = 0; /* first of the 64 levels of this word */
    *word = array ? *word | bit : *word & ~bit;
    in->at++;
    return true;
}

/* Skips the key and its colon: no path reaches this depth. */
static bool deep_key(struct json_reader *in)
{
    struct scan_string string;

    if (json_read_peek(in) != JSON_TYPE_STRING)
        return json_reader_wrong(in, "a key in quotes");
    if (!json_reader_read_string(in, true, &string))
        return false;
    in->at = string.close + 1;
    skip_space(in);
    if (in->at == in->end || *in->at != ':')
        return json_reader_wrong(in, "':'");
    in->at++;
    return true;
}

/* After a value, moves up and on to the next value; false at the end, or on failure. */
static bool deep_next(struct json_reader *in, struct deep *deep)
{
    while (deep->depth > 0) {
        const bool array = deep_is_array(deep);
        skip_space(in);
        if (in->at < in->end && *in->at == ',') {
            in->at++;
            return array || deep_key(in);
        }
        if (in->at == in->end || *in->at != (array ? ']' : '}'))
            return json_reader_wrong(in, array ? "',' or ']'" : "',' or '}'");
        in->at++;
        deep->depth--;
    }
    return false;
}

/* Called just behind an opening bracket; true if a value begins here. */
static bool deep_first(struct json_reader *in, struct deep *deep)
{
    const bool array = deep_is_array(deep);

    skip_space(in);
    if (in->at == in->end || *in->at != (array ? ']' : '}'))
        return array || deep_key(in);
    in->at++;
    deep->depth--;
    return deep_next(in, deep);
}

/* Skips an object or array without recording paths. */
static bool skip_deep(struct json_reader *in)
{
    struct deep deep;
    bool more = true;

    in->deep = true;
    deep.depth = 0;
    while (more) {
        const enum json_reader_type type = json_read_peek(in);
        if (type == JSON_TYPE_OBJECT || type == JSON_TYPE_ARRAY)
            more = deep_enter(in, &deep, type == JSON_TYPE_ARRAY) && deep_first(in, &deep);
        else
            more = skip_scalar(in, type) && deep_next(in, &deep);
    }
    return !in->failed;
}

/*
 * Skips a value, or makes the first step into one. Levels that fit into in->level are entered
 * normally, so that their errors have a full path; skip_deep() skips deeper ones.
 */
static bool skip_step(struct json_reader *in)
{
    const enum json_reader_type type = json_read_peek(in);

    if (type != JSON_TYPE_OBJECT && type != JSON_TYPE_ARRAY)
        return skip_scalar(in, type);
    return in->depth < JSON_DEPTH_MAX ? json_reader_enter(in, type == JSON_TYPE_ARRAY)
                                      : skip_deep(in);
}

/*
 * A loop, not recursion: the sender controls the depth, and must not control the stack. Nearly all
 * values are passed by scan_value(), which knows no paths; what it does not accept is gone through
 * again, for the error.
 */
bool json_read_skip(struct json_reader *in)
{
    const uint32_t base = in->depth;
    const char *behind = in->failed ? NULL : scan_value(in->at, in->end);

    if (behind != NULL) {
        in->at = behind;
        return true;
    }
    while (skip_step(in)) {
        /* Up and on to the next value. */
        for (;;) {
            struct text key;
            must(in->depth >= base);
            if (in->depth == base)
                return true;
            if (in->level[in->depth - 1].array ? json_read_element(in) : next_key(in, &key, false))
                break;
            if (in->failed)
                return false;
        }
    }
    return false;
}

bool json_reader_retreat(struct json_reader *in, struct json_reader_mark mark)
{
    must(in->failed);
    must(mark.at >= in->begin && mark.at <= in->at && mark.depth <= in->depth);

    /* The mark's level still describes the value: only deeper levels were overwritten. */
    in->failed = false;
    in->at = mark.at;
    in->depth = mark.depth;
    return json_read_skip(in);
}

bool json_read_raw(struct json_reader *in, struct text *out)
{
    (void)json_read_peek(in); /* moves to the value's first byte */
    const char *begin = in->at;
    if (!json_read_skip(in))
        return false;
    *out = (struct text){begin, (size_t)(in->at - begin)};
    return true;
}

size_t json_reader_stop(struct json_reader *in)
{
    if (in->failed || in->deep)
        return 0;
    must(in->depth == 0);
    must(in->at > in->begin);
    return json_reader_position(in, in->at);
}

void json_read_past(struct json_reader *in, size_t bytes)
{
    must(!in->failed);
    must(bytes > 0 &&
         bytes <= json_reader_position(in, in->end) - json_reader_position(in, in->at));
    in->at += bytes;
}

/* Bytes after the value are an error: another parser might use them as the request. */
int json_reader_finish(struct json_reader *in)
{
    if (!in->failed) {
        must(in->depth == 0);
        skip_space(in);
        if (in->at < in->end)
            json_reader_fail(in, "%zu bytes after the value, at byte %zu; one value only",
                             (size_t)(in->end - in->at), json_reader_position(in, in->at));
    }
    return in->failed ? -(int)in->err->code : 0;
}

/* Only ASCII: field names have no other letters, and tolower() depends on the locale. */
static char json_reader_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_letters(struct text key, const char *name)
{
    must(strlen(name) == key.len);

    for (size_t i = 0; i < key.len; i++)
        if (json_reader_lower(key.at[i]) != json_reader_lower(name[i]))
            return false;
    return true;
}

/*
 * Returns the index of the field, -1 if none matches. An exact match wins. Nearly all names differ
 * from the key in their first letter.
 */
static int field_of(const struct json_read_fields *fields, struct text key)
{
    must(fields->key != NULL);

    if (key.len == 0)
        return -1;
    const char first = key.at[0];
    int near = -1;
    for (uint32_t i = 0; i < fields->n_keys; i++) {
        const char *name = fields->key[i];
        must_debug(name[0] != '\0');
        /* The two cases of a letter differ in one bit. */
        if (((name[0] ^ first) & ~0x20) != 0 || strlen(name) != key.len)
            continue;
        if (memcmp(name, key.at, key.len) == 0)
            return (int)i;
        if (near < 0 && same_letters(key, name))
            near = (int)i;
    }
    return near;
}

bool json_read_field(struct json_reader *in, struct json_read_fields *fields, int *out_key)
{
    must(fields->n_keys <= JSON_FIELDS_MAX);

    struct text key = TEXT("");
    while (json_read_key(in, &key)) {
        const int found = field_of(fields, key);
        if (found < 0) {
            (void)json_read_skip(in); /* a failure ends the loop */
            continue;
        }
        /*
         * A duplicate is an error, because Go uses the last of two equal keys and other parsers
         * the first. The bit is set for a null, too.
         */
        const uint32_t bit = UINT32_C(1) << found;
        if ((fields->seen & bit) != 0) {
            json_reader_fail(in, "comes twice; a key may come once");
            return false;
        }
        fields->seen |= bit;
        if (json_read_null(in))
            continue;
        *out_key = found;
        return !in->failed;
    }
    return false;
}
