#include "support.h"

#include "milligpu/alloc.h"

const struct wire_rules rules = {.resource = "nvidia.com/vgpu", .whole_resource = "nvidia.com/gpu"};

int bench_setup(void **state)
{
    struct bench *bench = xcalloc(1, sizeof *bench);
    arena_init(&bench->arena);
    strbuf_init(&bench->out);
    *state = bench;
    return 0;
}

int bench_teardown(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < bench->inputs; i++)
        xfree(bench->input[i]);
    arena_done(&bench->arena);
    strbuf_done(&bench->out);
    xfree(bench);
    return 0;
}

struct text exact(struct bench *bench, struct text bytes)
{
    assert_true(bench->inputs < BENCH_INPUTS);
    char *at = xmalloc(bytes.len > 0 ? bytes.len : 1);
    if (bytes.len > 0)
        memcpy(at, bytes.at, bytes.len);
    bench->input[bench->inputs++] = at;
    return (struct text){at, bytes.len};
}

struct text read_file(struct bench *bench, const char *path)
{
    const char *root = getenv("MILLIGPU_SOURCE_DIR");
    char *full = arena_printf(&bench->arena, "%s/%s", root != NULL ? root : ".", path);
    FILE *file = fopen(full, "rb");
    if (file == NULL)
        fail_msg("%s cannot be read", full);
    char *bytes = arena_alloc(&bench->arena, 1 << 20);
    const size_t len = fread(bytes, 1, 1 << 20, file);
    (void)fclose(file);
    assert_true(len > 0 && len < 1 << 20);
    return (struct text){bytes, len};
}

struct text replaced(struct bench *bench, const char *text, const char *from, const char *to)
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
    const struct text copy = {arena_copy(&bench->arena, (struct text){out.data, out.len}), out.len};
    strbuf_done(&out);
    return copy;
}
