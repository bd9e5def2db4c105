/* Any value that is read can be written, and then reads and writes the same. */
#include <string.h>

#include "milligpu/jr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void copy(struct jr *in, struct jw *out)
{
    struct text text;
    int64_t number;
    bool flag;
    switch (jr_peek(in)) {
    case JR_OBJECT:
        (void)jr_object(in);
        jw_object(out);
        while (jr_key(in, &text)) {
            jw_key_text(out, text);
            copy(in, out);
        }
        jw_object_end(out);
        return;
    case JR_ARRAY:
        (void)jr_array(in);
        jw_array(out);
        while (jr_element(in))
            copy(in, out);
        jw_array_end(out);
        return;
    case JR_STRING:
        if (jr_string(in, &text))
            jw_text(out, text);
        return;
    case JR_NUMBER:
        if (jr_i64(in, &number))
            jw_i64(out, number);
        return;
    case JR_TRUE:
    case JR_FALSE:
        if (jr_bool(in, &flag))
            jw_bool(out, flag);
        return;
    default:
        if (jr_null(in))
            jw_null(out);
        else
            jr_fail(in, "no value");
    }
}

static int copy_all(struct text bytes, struct arena *arena, struct strbuf *out)
{
    struct jr in;
    struct jw jw;
    struct err err;
    jr_init(&in, bytes, "value", arena, &err);
    jw_init(&jw, out);
    copy(&in, &jw);
    const int result = jr_finish(&in);
    must(result <= 0 && (result == 0 || strlen(err.text) > 0));
    return result;
}

static bool skips(struct text bytes, struct arena *arena)
{
    struct jr in;
    struct err err;
    jr_init(&in, bytes, "value", arena, &err);
    (void)jr_skip(&in); /* jr_finish knows */
    return jr_finish(&in) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {(const char *)data, size};
    struct arena arena;
    CLEANUP(strbuf_done) struct strbuf once;
    CLEANUP(strbuf_done) struct strbuf twice;
    arena_init(&arena);
    strbuf_init(&once);
    strbuf_init(&twice);
    const bool whole = skips(bytes, &arena);
    if (copy_all(bytes, &arena, &once) == 0) {
        const struct text written = {once.data, once.len};
        must(whole);
        must(copy_all(written, &arena, &twice) == 0);
        must(text_eq(written, (struct text){twice.data, twice.len}));
    }
    arena_done(&arena);
    return 0;
}
