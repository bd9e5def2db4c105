#include "support.h"

#include "milligpu/base/alloc.h"

#include "support/quotes.h"

const struct wire_rules rules = {.resource = "nvidia.com/vgpu", .whole_resource = "nvidia.com/gpu"};

int bench_setup(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);
    arena_init(&fixture->arena);
    strbuf_init(&fixture->out);
    *state = fixture;
    return 0;
}

int bench_teardown(void **state)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < fixture->n_inputs; i++)
        xfree(fixture->input[i]);
    arena_done(&fixture->arena);
    strbuf_done(&fixture->out);
    xfree(fixture);
    return 0;
}

struct text exact(struct fixture *fixture, struct text bytes)
{
    assert_true(fixture->n_inputs < BENCH_INPUTS);
    char *at = xmalloc(bytes.len > 0 ? bytes.len : 1);
    if (bytes.len > 0)
        memcpy(at, bytes.at, bytes.len);
    fixture->input[fixture->n_inputs++] = at;
    return (struct text){at, bytes.len};
}

struct text exact_json(struct fixture *fixture, const char *json)
{
    CLEANUP(xfreep) char *bytes = with_quotes(json);

    return exact(fixture, text_of(bytes));
}

void assert_json(const char *is, const char *json)
{
    CLEANUP(xfreep) char *should = with_quotes(json);

    assert_string_equal(is, should);
}

static bool has(const char *is, const char *part)
{
    CLEANUP(xfreep) char *sought = with_quotes(part);

    return strstr(is, sought) != NULL;
}

void assert_has(const char *is, const char *part)
{
    if (!has(is, part))
        fail_msg("no \"%s\" in \"%s\"", part, is);
}

void assert_lacks(const char *is, const char *part)
{
    if (has(is, part))
        fail_msg("\"%s\" in \"%s\"", part, is);
}

struct text read_file(struct fixture *fixture, const char *path)
{
    const char *root = getenv("MILLIGPU_SOURCE_DIR");
    char *full = arena_printf(&fixture->arena, "%s/%s", root != NULL ? root : ".", path);
    FILE *file = fopen(full, "rb");
    if (file == NULL)
        fail_msg("%s cannot be read", full);
    char *bytes = arena_alloc(&fixture->arena, 1 << 20);
    const size_t len = fread(bytes, 1, 1 << 20, file);
    (void)fclose(file);
    assert_true(len > 0 && len < 1 << 20);
    return (struct text){bytes, len};
}

struct text replaced(struct fixture *fixture, const char *text, const char *from, const char *to)
{
    struct strbuf out;
    strbuf_init(&out);
    const char *at = text;
    for (const char *hit = strstr(at, from); hit != NULL; hit = strstr(at, from)) {
        strbuf_add(&out, at, (size_t)(hit - at));
        strbuf_str(&out, to);
        at = hit + strlen(from);
    }
    assert_ptr_not_equal(at, text);
    strbuf_str(&out, at);
    const struct text copy = {arena_copy(&fixture->arena, (struct text){out.data, out.len}),
                              out.len};
    strbuf_done(&out);
    return copy;
}
