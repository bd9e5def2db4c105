/*
 * Reads fields of manifests and cluster files. Called by amounts.c, nodefit.c and pod_maker.c.
 */
#include "fields.h"

const char *field_key(const struct document *value, char out[FIELD_KEY_BYTES])
{
    must(value != NULL);
    text_clip(value->key, out, FIELD_KEY_BYTES);
    return out;
}

int field_expect(const struct document *value, enum document_kind kind, const char *path,
                 struct err *err)
{
    must(path[0] != '\0');
    if (value == NULL || value->kind == kind || value->kind == DOCUMENT_NULL)
        return 0;
    return err_set(err, ERR_INVALID, "%.250s: expected %s, found %s%s", path,
                   document_kind_name(kind), document_kind_name(value->kind),
                   kind == DOCUMENT_STRING && value->kind != DOCUMENT_OBJECT &&
                           value->kind != DOCUMENT_ARRAY
                       ? "; put it in quotes"
                       : "");
}

int field_string(const struct document *object, const char *path, const char *key, const char **out,
                 struct err *err)
{
    char at[FIELD_PATH_BYTES];

    must(key[0] != '\0');
    FIELD_PATH(at, "%.200s.%s", path, key);
    if (field_expect(document_get(object, key), DOCUMENT_STRING, at, err) < 0)
        return err_same(err);
    *out = document_str(object, key);
    return 0;
}

/* Also checks each object of the path. */
int field_member(const struct document *root, const char *path, enum document_kind kind,
                 const struct document **out, struct err *err)
{
    const struct document *at = root;
    struct text rest = text_of(path);
    struct text key;

    *out = NULL;
    while (text_cut(&rest, '.', &key)) {
        char name[64];
        char done[FIELD_PATH_BYTES];
        (void)snprintf(name, sizeof name, "%.*s", TEXT_ARG(key)); /* constant paths fit */
        FIELD_PATH(done, "%.*s", (int)(key.at - path + (ptrdiff_t)key.len), path);
        at = document_get(at, name);
        if (at == NULL)
            return 0;
        if (field_expect(at, rest.len == 0 ? kind : DOCUMENT_OBJECT, done, err) < 0)
            return err_same(err);
    }
    must(at != root);
    *out = at;
    return 0;
}
