#include "milligpu/json.h"

#include <string.h>

#include "wire/json_scan.h"

enum { PATH_MAX_BYTES = 256, SHOWN_MAX_BYTES = 48 };

void json_init(struct json *in, struct text bytes, const char *root, struct arena *arena,
               struct err *err)
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
    in->depth = 0;
}

struct path {
    char text[PATH_MAX_BYTES];
    size_t len;
};

/* Bytes of a path are shown in logs and answers: no control characters, no half sequences. */
static void path_add(struct path *path, struct text piece)
{
    for (size_t i = 0; i < piece.len && path->len + 1 < sizeof path->text; i++) {
        const unsigned char byte = (unsigned char)piece.at[i];
        path->text[path->len++] = byte >= 0x20 && byte < 0x7F ? piece.at[i] : '?';
    }
    must(path->len < sizeof path->text);
    path->text[path->len] = '\0';
}

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

void json_fail_here(struct json *in)
{
    must(!in->failed);
    must(in->depth <= JSON_DEPTH_MAX);

    struct path path = {.len = 0};
    path_add(&path, text_of(in->root));
    for (uint32_t i = 0; i < in->depth; i++) {
        const struct json_level *level = &in->level[i];
        if (level->array)
            path_add_index(&path, level->index);
        else if (level->key.at != NULL)
            path_add_key(&path, level->key);
    }
    (void)err_wrap(in->err, "%s", path.text); /* the reader's flag says it from here on */
    in->failed = true;
}

static void skip_space(struct json *in)
{
    must(in->at <= in->end);

    while (in->at < in->end &&
           (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t'))
        in->at++;
}

static const char *type_name(enum json_type type)
{
    static const char *const name[] = {
        [JSON_END] = "the end",     [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string", [JSON_NUMBER] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",     [JSON_NULL] = "null",        [JSON_BAD] = "no JSON",
    };
    must((size_t)type < ARRAY_LEN(name));
    return name[type];
}

static size_t position(const struct json *in, const char *at)
{
    must(at >= in->begin && at <= in->end);
    return (size_t)(at - in->begin);
}

/* What stands here is not what the grammar wants. */
static bool wrong(struct json *in, const char *expected)
{
    must(!in->failed);
    must(expected != NULL);

    const enum json_type type = json_peek(in);
    if (type != JSON_BAD && type != JSON_END && *in->at != 't' && *in->at != 'f' && *in->at != 'n')
        json_fail(in, "expected %s, found %s at byte %zu", expected, type_name(type),
                  position(in, in->at));
    else if (type == JSON_END)
        json_fail(in, "expected %s, found the end at byte %zu", expected, position(in, in->at));
    else if (*in->at > 0x20 && *in->at < 0x7F)
        json_fail(in, "expected %s, found '%c' at byte %zu", expected, *in->at,
                  position(in, in->at));
    else
        json_fail(in, "expected %s, found byte 0x%02x at byte %zu", expected,
                  (unsigned)(unsigned char)*in->at, position(in, in->at));
    return false;
}

enum json_type json_peek(struct json *in)
{
    must(in->at >= in->begin && in->at <= in->end);
    must(in->depth <= JSON_DEPTH_MAX);

    if (in->failed)
        return JSON_BAD;
    skip_space(in);
    if (in->at == in->end)
        return JSON_END;
    switch (*in->at) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return *in->at == '-' || (*in->at >= '0' && *in->at <= '9') ? JSON_NUMBER : JSON_BAD;
    }
}

static bool expect(struct json *in, enum json_type type, const char *expected)
{
    must(type != JSON_BAD && type != JSON_END);

    if (in->failed)
        return false;
    return json_peek(in) == type || wrong(in, expected);
}

static bool enter(struct json *in, bool array)
{
    must(in->at < in->end);

    if (in->depth == JSON_DEPTH_MAX) {
        json_fail_as(in, ERR_TOO_LARGE, "nested deeper than %d levels (JSON_DEPTH_MAX)",
                     JSON_DEPTH_MAX);
        return false;
    }
    in->level[in->depth++] = (struct json_level){.array = array, .first = true};
    in->at++;
    return true;
}

static bool leave(struct json *in)
{
    must(in->depth > 0);
    in->depth--;
    in->at++;
    return false;
}

bool json_object(struct json *in)
{
    return expect(in, JSON_OBJECT, "an object") && enter(in, false);
}

bool json_array(struct json *in)
{
    return expect(in, JSON_ARRAY, "an array") && enter(in, true);
}

/* To the closing quote.  The reader stands on the opening one. */
static bool read_string(struct json *in, struct scan_string *out)
{
    must(in->at < in->end && *in->at == '"');

    *out = scan_string(in->at + 1, in->end);
    if (out->close == NULL) {
        json_fail(in, "%s, at byte %zu", out->fault, position(in, out->fault_at));
        return false;
    }
    return true;
}

static struct text decode(struct json *in, struct text raw, bool escaped)
{
    must(raw.at > in->begin);
    must(raw.len <= position(in, in->end));

    if (!escaped)
        return raw;
    char *out = arena_alloc(in->arena, raw.len + 1);
    return (struct text){out, scan_unescape(raw, out)};
}

/* ',' before all but the first; false at the closing bracket or on failure. */
static bool next(struct json *in, bool array)
{
    if (in->failed)
        return false;
    must(in->depth > 0 && in->level[in->depth - 1].array == array);

    struct json_level *level = &in->level[in->depth - 1];
    skip_space(in);
    if (in->at < in->end && *in->at == (array ? ']' : '}'))
        return leave(in);
    if (level->first) {
        level->first = false;
        return true;
    }
    if (in->at == in->end || *in->at != ',')
        return wrong(in, array ? "',' or ']'" : "',' or '}'");
    in->at++;
    level->index++;
    skip_space(in);
    return true;
}

/* The key with its colon.  Decoded only where somebody will look at it. */
static bool next_key(struct json *in, struct text *out_key, bool decoded)
{
    must(out_key != NULL);

    struct scan_string string;
    if (!in->failed)
        in->level[in->depth - 1].key = (struct text){NULL, 0};
    if (!next(in, false))
        return false;
    if (in->at == in->end || *in->at != '"')
        return wrong(in, "a key in quotes");
    if (!read_string(in, &string))
        return false;
    const struct text raw = {in->at + 1, (size_t)(string.close - in->at - 1)};
    *out_key = decoded ? decode(in, raw, string.escaped) : raw;
    in->level[in->depth - 1].key = *out_key;
    in->at = string.close + 1;
    skip_space(in);
    if (in->at == in->end || *in->at != ':')
        return wrong(in, "':'");
    in->at++;
    return true;
}

bool json_key(struct json *in, struct text *out_key)
{
    must(in->failed || in->depth > 0);
    return next_key(in, out_key, true);
}

bool json_element(struct json *in)
{
    return next(in, true);
}

bool json_string(struct json *in, struct text *out)
{
    must(out != NULL);

    struct scan_string string;
    if (!expect(in, JSON_STRING, "a string") || !read_string(in, &string))
        return false;
    const struct text raw = {in->at + 1, (size_t)(string.close - in->at - 1)};
    *out = decode(in, raw, string.escaped);
    in->at = string.close + 1;
    return true;
}

/* Only an escape can make a NUL, and what has escapes is not borrowed. */
static bool no_nul(struct json *in, struct text value)
{
    must(value.at != NULL);

    const bool borrowed = value.at >= in->begin && value.at <= in->end;
    if (borrowed || memchr(value.at, '\0', value.len) == NULL)
        return true;
    json_fail(in, "must not hold a NUL");
    return false;
}

bool json_cstring(struct json *in, const char **out)
{
    struct text value;
    if (!json_string(in, &value) || !no_nul(in, value))
        return false;
    const bool borrowed = value.at >= in->begin && value.at <= in->end;
    /* What was decoded is ours and has a zero behind it. */
    *out = borrowed ? arena_copy(in->arena, value) : value.at;
    must((*out)[value.len] == '\0');
    return true;
}

bool json_string_element(struct json *in, struct text *out)
{
    must(in->failed || in->depth > 0);
    must(out != NULL);

    /* Go writes no space, and names have no escapes: `,"name"` is nearly every element. */
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
    return json_element(in) && json_string(in, out);
}

bool json_is_name(struct json *in, size_t max, struct text name)
{
    must(max > 0);

    if (in->failed || !no_nul(in, name))
        return false;
    if (name.len == 0)
        json_fail(in, "must not be empty");
    else if (name.len > max)
        json_fail_as(in, ERR_TOO_LARGE, "has %zu bytes, more than %zu", name.len, max);
    return !in->failed;
}

bool json_name(struct json *in, size_t max, struct text *out)
{
    must(out != NULL);
    return json_string(in, out) && json_is_name(in, max, *out);
}

static bool read_number(struct json *in, struct text *out)
{
    must(out != NULL);

    if (!expect(in, JSON_NUMBER, "a whole number"))
        return false;
    const char *end = scan_number(in->at, in->end);
    if (end == NULL) {
        json_fail(in, "a number that is not JSON, at byte %zu", position(in, in->at));
        return false;
    }
    *out = (struct text){in->at, (size_t)(end - in->at)};
    in->at = end;
    return true;
}

bool json_i64(struct json *in, int64_t *out)
{
    must(out != NULL);

    struct text number;
    if (!read_number(in, &number))
        return false;
    const enum scan_whole verdict = scan_i64(number, out);
    const int shown = number.len < SHOWN_MAX_BYTES ? (int)number.len : SHOWN_MAX_BYTES;
    if (verdict == SCAN_FRACTION)
        json_fail(in, "is %.*s, but must be a whole number", shown, number.at);
    if (verdict == SCAN_RANGE)
        json_fail(in, "is %.*s, beyond what 63 bits can hold", shown, number.at);
    return !in->failed;
}

static bool literal(struct json *in, const char *word)
{
    must(word != NULL);

    const struct text rest = {in->at, position(in, in->end) - position(in, in->at)};
    if (in->failed)
        return false;
    if (!text_starts(rest, word))
        return wrong(in, "a value");
    in->at += strlen(word);
    return true;
}

bool json_bool(struct json *in, bool *out)
{
    must(out != NULL);

    const enum json_type type = json_peek(in);
    if (in->failed)
        return false;
    if (type != JSON_TRUE && type != JSON_FALSE)
        return wrong(in, "true or false");
    if (!literal(in, type == JSON_TRUE ? "true" : "false"))
        return false;
    *out = type == JSON_TRUE;
    return true;
}

bool json_null(struct json *in)
{
    return json_peek(in) == JSON_NULL && literal(in, "null");
}

/* One value, or the first step into one. */
static bool skip_step(struct json *in)
{
    struct scan_string string;
    struct text number;
    switch (json_peek(in)) {
    case JSON_OBJECT:
        return enter(in, false);
    case JSON_ARRAY:
        return enter(in, true);
    case JSON_STRING:
        if (!read_string(in, &string))
            return false;
        in->at = string.close + 1;
        return true;
    case JSON_NUMBER:
        return read_number(in, &number);
    case JSON_TRUE:
        return literal(in, "true");
    case JSON_FALSE:
        return literal(in, "false");
    case JSON_NULL:
        return literal(in, "null");
    case JSON_END:
    case JSON_BAD:
        break;
    }
    return in->failed ? false : wrong(in, "a value");
}

bool json_skip(struct json *in)
{
    const uint32_t base = in->depth;
    while (skip_step(in)) {
        /* Up and on to where the next value stands. */
        for (;;) {
            struct text key;
            must(in->depth >= base);
            if (in->depth == base)
                return true;
            if (in->level[in->depth - 1].array ? json_element(in) : next_key(in, &key, false))
                break;
            if (in->failed)
                return false;
        }
    }
    return false;
}

bool json_raw(struct json *in, struct text *out)
{
    must(out != NULL);

    (void)json_peek(in); /* moves to the value's first byte */
    const char *begin = in->at;
    if (!json_skip(in))
        return false;
    *out = (struct text){begin, (size_t)(in->at - begin)};
    return true;
}

int json_consumed(struct json *in, size_t *out_bytes)
{
    if (in->failed)
        return -(int)in->err->code;
    must(in->depth == 0);
    *out_bytes = position(in, in->at);
    return 0;
}

int json_finish(struct json *in)
{
    if (!in->failed) {
        must(in->depth == 0);
        skip_space(in);
        if (in->at < in->end)
            json_fail(in, "%zu bytes after the value, at byte %zu; one value only",
                      (size_t)(in->end - in->at), position(in, in->at));
    }
    return in->failed ? -(int)in->err->code : 0;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_letters(struct text key, const char *name)
{
    must(strlen(name) == key.len);

    for (size_t i = 0; i < key.len; i++)
        if (lower(key.at[i]) != lower(name[i]))
            return false;
    return true;
}

/* Which of the fields key is, -1 for none.  Exact first. */
static int field_of(const struct json_fields *fields, struct text key)
{
    must(fields->key != NULL);

    int near = -1;
    for (uint32_t i = 0; i < fields->keys; i++) {
        const char *name = fields->key[i];
        if (strlen(name) != key.len)
            continue;
        if (memcmp(name, key.at, key.len) == 0)
            return (int)i;
        if (near < 0 && same_letters(key, name))
            near = (int)i;
    }
    return near;
}

bool json_field(struct json *in, struct json_fields *fields, int *out_key)
{
    must(fields->keys <= JSON_FIELDS_MAX);

    struct text key;
    while (json_key(in, &key)) {
        const int found = field_of(fields, key);
        if (found < 0) {
            (void)json_skip(in); /* a failure ends the loop */
            continue;
        }
        const uint32_t bit = UINT32_C(1) << found;
        if ((fields->seen & bit) != 0) {
            json_fail(in, "comes twice; a key may come once");
            return false;
        }
        fields->seen |= bit;
        if (json_null(in))
            continue;
        *out_key = found;
        return !in->failed;
    }
    return false;
}
