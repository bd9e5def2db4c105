/* Reads public keys from a mounted folder, one small file per lookup. Main thread only. */
#include "public_keys.h"

#include <dirent.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/run/file.h"
#include "milligpu/sign/signing.h"

enum { FILE_BYTES_MAX = 256 };

struct public_keys {
    char *dir;
    char key[PUBLIC_KEY_TEXT_BYTES]; /* the last key found */
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

/* Sixteen hexadecimal digits, so it cannot lead out of the folder. */
static bool public_keys_is_id(const char *id)
{
    return strlen(id) == KEY_ID_BYTES - 1 && strspn(id, "0123456789abcdef") == KEY_ID_BYTES - 1;
}

static bool read_key(const char *dir, const char *id, char out[PUBLIC_KEY_TEXT_BYTES])
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
    memcpy(out, key.at, key.len);
    out[key.len] = '\0';
    return true;
}

const char *public_keys_find(struct public_keys *keys, const char *id)
{
    return public_keys_is_id(id) && read_key(keys->dir, id, keys->key) ? keys->key : NULL;
}

size_t public_keys_count(const struct public_keys *keys)
{
    DIR *list = opendir(keys->dir);
    const struct dirent *entry;
    char key[PUBLIC_KEY_TEXT_BYTES];
    size_t count = 0;

    if (list == NULL)
        return 0;
    while ((entry = readdir(list)) != NULL) /* NOLINT(concurrency-mt-unsafe): our own stream */
        if (public_keys_is_id(entry->d_name) && read_key(keys->dir, entry->d_name, key))
            count++;
    (void)closedir(list);
    return count;
}
