/*
 * Any value that is read can be written, and then reads and writes the same; jansson reads the
 * same bytes as the same value, or refuses them as we do.
 */
#include <string.h>

#include "milligpu/wire/json/json.h"

#include "support.h"

static void copy(struct json_reader *in, struct json_writer *out)
{
    struct text text;
    int64_t number;
    bool flag;
    switch (json_read_peek(in)) {
    case JSON_TYPE_OBJECT:
        (void)json_read_object(in);
        json_write_object(out);
        while (json_read_key(in, &text)) {
            json_write_key_text(out, text);
            copy(in, out);
        }
        json_write_object_end(out);
        return;
    case JSON_TYPE_ARRAY:
        (void)json_read_array(in);
        json_write_array(out);
        while (json_read_element(in))
            copy(in, out);
        json_write_array_end(out);
        return;
    case JSON_TYPE_STRING:
        if (json_read_string(in, &text))
            json_write_text(out, text);
        return;
    case JSON_TYPE_NUMBER:
        if (json_read_i64(in, &number))
            json_write_i64(out, number);
        return;
    case JSON_TYPE_TRUE:
    case JSON_TYPE_FALSE:
        if (json_read_bool(in, &flag))
            json_write_bool(out, flag);
        return;
    default:
        if (json_read_null(in))
            json_write_null(out);
        else
            json_reader_fail(in, "no value");
    }
}

static int copy_all(struct text bytes, struct arena *arena, struct strbuf *out)
{
    struct json_reader in;
    struct json_writer json;
    struct err err;
    json_reader_init(&in, bytes, "value", arena, &err);
    json_writer_init(&json, out);
    copy(&in, &json);
    const int result = json_reader_finish(&in);
    must(result <= 0 && (result == 0 || strncmp(err.text, "value", strlen("value")) == 0));
    return result;
}

static enum err_code skips(struct text bytes, struct arena *arena)
{
    struct json_reader in;
    struct err err;
    json_reader_init(&in, bytes, "value", arena, &err);
    (void)json_read_skip(&in); /* json_reader_finish() reports it */
    return json_reader_finish(&in) == 0 ? ERR_NONE : err.code;
}

static bool within(double number, double bound)
{
    return number > -bound && number < bound;
}

/* jansson reads a number with a point or an exponent as a double, which is exact up to 2^53. */
static void same_number(struct json_reader *in, json_t *value)
{
    const double exact = 9007199254740992.0;
    const double real = json_real_value(value);
    struct text raw;
    struct err ignored;
    int64_t number;
    struct json_reader again;
    must(json_read_raw(in, &raw));
    json_reader_init(&again, raw, "number", in->arena, &ignored);
    const bool whole = json_read_i64(&again, &number);
    if (json_is_integer(value))
        must(whole && number == json_integer_value(value));
    else if (whole && within((double)number, exact))
        must((double)number == real);
    else if (!whole && within(real, 1e15) && raw.len < 15)
        must((double)(int64_t)real != real || real == 0);
}

static void same(struct json_reader *in, json_t *value)
{
    struct text text;
    size_t count = 0;
    bool flag;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        must(json_read_object(in));
        for (; json_read_key(in, &text); count++) {
            json_t *member = json_object_getn(value, text.at, text.len);
            must(member != NULL);
            same(in, member);
        }
        must(count == json_object_size(value));
        return;
    case JSON_ARRAY:
        must(json_read_array(in));
        for (; json_read_element(in); count++)
            same(in, json_array_get(value, count));
        must(count == json_array_size(value));
        return;
    case JSON_STRING:
        must(json_read_string(in, &text));
        must(text_eq(text, (struct text){json_string_value(value), json_string_length(value)}));
        return;
    case JSON_INTEGER:
    case JSON_REAL:
        same_number(in, value);
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        must(json_read_bool(in, &flag) && flag == json_is_true(value));
        return;
    case JSON_NULL:
        must(json_read_null(in));
    }
}

static void compare(struct text bytes, enum err_code ours, struct arena *arena)
{
    const struct second second = second_read(bytes);
    struct json_reader in;
    struct err err;
    if (second.refused)
        must(ours != ERR_NONE);
    if (second.value == NULL)
        return;
    /* Valid JSON is refused only for its depth. */
    must(ours == ERR_NONE || ours == ERR_TOO_LARGE);
    if (ours == ERR_NONE) {
        json_reader_init(&in, bytes, "value", arena, &err);
        same(&in, second.value);
        must(json_reader_finish(&in) == 0);
    }
    json_decref(second.value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {size > 0 ? (const char *)data : "", size};
    const size_t before = heap_bytes();
    SCOPED_ARENA(arena);
    SCOPED_STRBUF(once);
    SCOPED_STRBUF(twice);
    const enum err_code verdict = skips(bytes, &arena);
    if (copy_all(bytes, &arena, &once) == 0) {
        const struct text written = {once.data, once.len};
        must(verdict == ERR_NONE);
        must(copy_all(written, &arena, &twice) == 0);
        must(text_eq(written, (struct text){twice.data, twice.len}));
    }
    heap_is_bounded(before, size);
    compare(bytes, verdict, &arena);
    return 0;
}
