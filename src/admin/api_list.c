/*
 * Lists of REST: collects items, sorts them by key, writes one page. Called by handlers in an admin
 * thread; all state belongs to one call. A page continues behind a key and not at a position, so
 * additions and deletions in between shift nothing.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "api_internal.h"

/* A token is the last key in hexadecimal: no escaping in URLs, and no state on the server. */
static const char digits[] = "0123456789abcdef";

/* On the last page (key NULL) the member is absent, which ends the client's loop. */
void api_continue(struct json_writer *json, const char *key)
{
    CLEANUP(strbuf_done) struct strbuf token;

    strbuf_init(&token);
    if (key == NULL)
        return;
    must(key[0] != '\0');
    for (const char *at = key; *at != '\0'; at++) {
        strbuf_char(&token, digits[(unsigned char)*at >> 4]);
        strbuf_char(&token, digits[(unsigned char)*at & 15]);
    }
    json_write_key(json, "continue");
    json_write_str(json, token.data);
}

/* Accepts lower case only, as api_continue() writes it. */
static int digit_of(char c)
{
    static_assert(sizeof digits == 16 + 1, "hexadecimal");
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

bool api_token_read(const char *token, struct arena *arena, const char **out)
{
    const size_t bytes = strlen(token) / 2;
    char *key = arena_alloc(arena, bytes + 1);

    if (bytes == 0 || strlen(token) % 2 != 0)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        const int high = digit_of(token[2 * i]);
        const int low = digit_of(token[2 * i + 1]);
        /* A NUL would end the key early and select another page. */
        if (high < 0 || low < 0 || (high == 0 && low == 0))
            return false;
        key[i] = (char)(high * 16 + low);
    }
    must(strlen(key) == bytes);
    *out = key;
    return true;
}

/*
 * Drops items before the page. Items behind it are kept, because items arrive unsorted, and the
 * page is known only at the end.
 */
void api_list_add(struct api_call *call, struct api_list *list, const char *key, const void *what,
                  const void *where)
{
    must(key[0] != '\0');
    if (call->after != NULL && strcmp(key, call->after) <= 0)
        return;
    list->item = xgrow(list->item, list->count, &list->capacity, sizeof *list->item);
    list->item[list->count++] = (struct api_item){key, what, where};
}

static int by_key(const void *a, const void *b)
{
    const struct api_item *left = a;
    const struct api_item *right = b;
    return strcmp(left->key, right->key);
}

/* Removes duplicates: items that were removed and added again while the list was read. */
static void leave_out_doubles(struct api_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++)
        if (kept == 0 || strcmp(list->item[kept - 1].key, list->item[i].key) != 0)
            list->item[kept++] = list->item[i];
    must(kept <= list->count);
    list->count = kept;
}

void api_list_write(struct api_call *call, struct api_list *list,
                    void (*encode)(struct json_writer *json, const struct api_item *item))
{
    struct json_writer json;

    must(call->limit > 0);
    if (list->count > 0)
        qsort(list->item, list->count, sizeof *list->item, by_key);
    leave_out_doubles(list);
    const size_t shown = list->count < call->limit ? list->count : call->limit;
    json_writer_init(&json, &call->body);
    json_write_object(&json);
    json_write_key(&json, "items");
    json_write_array(&json);
    for (size_t i = 0; i < shown; i++) {
        must(i == 0 || strcmp(list->item[i - 1].key, list->item[i].key) < 0);
        encode(&json, &list->item[i]);
    }
    json_write_array_end(&json);
    if (list->overflow) {
        json_write_key(&json, "overflow");
        json_write_bool(&json, true);
    }
    if (list->about != NULL)
        list->about(&json, list->user);
    api_continue(&json, shown < list->count ? list->item[shown - 1].key : NULL);
    json_write_object_end(&json);
    xfree(list->item);
    *list = (struct api_list){0};
}
