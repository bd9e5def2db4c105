/*
 * Looks for public keys in a mounted folder. Called by the agent's main thread; reads one small
 * file where a key is not known yet.
 */
#include "milligpu/public_keys.h"

#include <dirent.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/file.h"
#include "milligpu/signing.h"
#include "milligpu/strbuf.h"

enum { FILE_BYTES_MAX = 256 };

struct known {
    char id[KEY_ID_BYTES];
    char key[PUBLIC_KEY_TEXT_BYTES];
};

struct public_keys {
    char *dir;
    size_t count;
    struct known known[PUBLIC_KEYS_MAX];
    struct known spare; /* the last that found no place */
};

struct public_keys *public_keys_new(const char *dir)
{
    struct public_keys *keys = xcalloc(1, sizeof *keys);

    must(dir != NULL);
    keys->dir = xstrdup(dir);
    return keys;
}

void public_keys_free(struct public_keys *keys)
{
    if (keys == NULL)
        return;
    xfree(keys->dir);
    xfree(keys);
}

/* Sixteen hexadecimal digits: nothing that leads out of the folder. */
static bool public_keys_is_id(const char *id)
{
    return strlen(id) == KEY_ID_BYTES - 1 && strspn(id, "0123456789abcdef") == KEY_ID_BYTES - 1;
}

static bool read_key(const char *dir, const char *id, struct known *out)
{
    CLEANUP(strbuf_done) struct strbuf path;
    CLEANUP(xfreep) char *data = NULL;
    struct err err;
    size_t len;

    strbuf_init(&path);
    strbuf_printf(&path, "%s/%s", dir, id);
    if (file_read(path.data, FILE_BYTES_MAX, &data, &len, &err) < 0)
        return false;
    const struct text key = text_trim((struct text){data, len});
    if (key.len != PUBLIC_KEY_TEXT_BYTES - 1 || !public_key_has_id(key, id))
        return false;
    memcpy(out->id, id, KEY_ID_BYTES);
    memcpy(out->key, key.at, key.len);
    out->key[key.len] = '\0';
    return true;
}

const char *public_keys_find(struct public_keys *keys, const char *id)
{
    if (!public_keys_is_id(id))
        return NULL;
    for (size_t i = 0; i < keys->count; i++)
        if (strcmp(keys->known[i].id, id) == 0)
            return keys->known[i].key;
    struct known *place = keys->count < PUBLIC_KEYS_MAX ? &keys->known[keys->count] : &keys->spare;
    if (!read_key(keys->dir, id, place))
        return NULL;
    keys->count += place != &keys->spare ? 1 : 0;
    return place->key;
}

size_t public_keys_count(const struct public_keys *keys)
{
    DIR *list = opendir(keys->dir);
    const struct dirent *entry;
    struct known known;
    size_t count = 0;

    if (list == NULL)
        return 0;
    while ((entry = readdir(list)) != NULL) /* NOLINT(concurrency-mt-unsafe): our own stream */
        if (public_keys_is_id(entry->d_name) && read_key(keys->dir, entry->d_name, &known))
            count++;
    (void)closedir(list);
    return count;
}
