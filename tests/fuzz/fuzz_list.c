/*
 * Any list gives items that are whole values: as many as jansson finds, and the same ones, also
 * where some are decoded before their end is known.
 */
#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"

struct seen {
    struct arena *arena;
    json_t *n_items; /* jansson's; NULL: it cannot judge */
    size_t at;
    size_t bytes;
};

static int see(void *user, struct text bytes, struct err *err)
{
    struct seen *seen = user;
    struct json_reader in;
    seen->bytes += bytes.len;
    json_reader_init(&in, bytes, "item", seen->arena, err);
    must(json_read_skip(&in));
    must(json_reader_finish(&in) == 0);
    while (json_is_null(json_array_get(seen->n_items, seen->at)))
        seen->at++;
    if (seen->n_items != NULL) {
        const struct second second = second_read(bytes);
        must(json_equal(second.value, json_array_get(seen->n_items, seen->at)));
        json_decref(second.value);
    }
    seen->at++;
    return bytes.len == 7 ? err_set(err, ERR_GONE, "seven") : 0;
}

/* Takes objects of every length but one in four, so that both ways meet in one list. */
static size_t begin(void *user, struct text rest)
{
    struct seen *seen = user;
    struct json_reader in;
    struct err ignored;
    json_reader_init(&in, rest, "item", seen->arena, &ignored);
    (void)json_read_skip(&in); /* json_reader_stop() says it */
    const size_t bytes = json_reader_stop(&in);
    if (bytes % 4 == 0 || bytes == 7)
        return 0;
    must(bytes <= rest.len);
    must(see(user, (struct text){rest.at, bytes}, &ignored) == 0);
    return bytes;
}

/* The same items, the same page, and the same words where it fails. */
static void check_begun(struct text bytes, const struct seen *once, int result,
                        const struct list_page *page, const struct err *err)
{
    struct seen seen = {.arena = once->arena, .n_items = once->n_items};
    const struct list_items items = {.user = &seen, .begin = begin, .item = see};
    struct list_page again;
    struct err why;
    must(list_decode_items(bytes, once->arena, &items, &again, &why) == result);
    must(seen.at == once->at && seen.bytes == once->bytes);
    if (result == 0) {
        must(strcmp(again.resource_version, page->resource_version) == 0);
        must(strcmp(again.continue_token, page->continue_token) == 0);
    } else {
        must(strcmp(why.text, err->text) == 0);
    }
}

static void check_page(const struct list_page *page, json_t *root, struct seen *seen)
{
    must(page->resource_version != NULL && page->continue_token != NULL);
    if (root == NULL)
        return;
    while (json_is_null(json_array_get(seen->n_items, seen->at)))
        seen->at++;
    must(seen->at == json_array_size(seen->n_items));
    must(second_says(second_at(root, "metadata.resourceVersion"), page->resource_version));
    must(second_says(second_at(root, "metadata.continue"), page->continue_token));
}

static void check_meta(struct text bytes, json_t *root, struct arena *arena)
{
    struct object_meta meta;
    struct err err;
    if (meta_decode(bytes, arena, &meta, &err) != 0) {
        must(strncmp(err.text, "object", strlen("object")) == 0);
        return;
    }
    must(strlen(meta.name) <= NAME_BYTES_MAX && strlen(meta.namespace) <= NAME_BYTES_MAX);
    must(strlen(meta.uid) <= UID_BYTES_MAX && strlen(meta.kind) <= NAME_BYTES_MAX);
    if (root == NULL)
        return;
    must(second_says(second_field(root, "kind"), meta.kind));
    must(second_says(second_at(root, "metadata.name"), meta.name));
    must(second_says(second_at(root, "metadata.namespace"), meta.namespace));
    must(second_says(second_at(root, "metadata.uid"), meta.uid));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {size > 0 ? (const char *)data : "", size};
    const size_t before = heap_bytes();
    struct second second = second_read(bytes);
    SCOPED_ARENA(arena);
    struct seen seen = {.arena = &arena, .n_items = second_field(second.value, "items")};
    struct list_page page;
    struct err err;
    const int result = list_decode(bytes, &arena, &seen, see, &page, &err);
    heap_is_bounded(before, size);
    must(seen.bytes <= size);
    check_begun(bytes, &seen, result, &page, &err);
    if (result == 0) {
        must(!second.refused);
        check_page(&page, second.value, &seen);
    } else {
        must(err.text[0] != '\0');
    }
    check_meta(bytes, second.value, &arena);
    json_decref(second.value);
    return 0;
}
