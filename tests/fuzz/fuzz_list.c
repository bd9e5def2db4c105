/* Any list gives items that are whole values. */
#include <string.h>

#include "milligpu/wire_kube.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct count {
    struct arena *arena;
    size_t bytes;
};

static int see(void *user, struct text bytes, struct err *err)
{
    struct count *count = user;
    struct jr in;
    count->bytes += bytes.len;
    jr_init(&in, bytes, "item", count->arena, err);
    must(jr_skip(&in));
    must(jr_finish(&in) == 0);
    return bytes.len == 7 ? err_set(err, ERR_GONE, "seven") : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {(const char *)data, size};
    struct arena arena;
    struct count count = {.arena = &arena};
    struct list_page page;
    struct object_meta meta;
    struct err err;
    arena_init(&arena);
    if (list_decode(bytes, &arena, &count, see, &page, &err) == 0)
        must(page.resource_version != NULL && page.continue_token != NULL);
    must(count.bytes <= size);
    if (meta_decode(bytes, &arena, &meta, &err) == 0)
        must(meta.kind != NULL && meta.name != NULL);
    arena_done(&arena);
    return 0;
}
