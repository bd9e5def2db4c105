/*
 * Encodes and decodes SelfSubjectAccessReviews and the ConfigMap of the public keys. rights.c asks
 * the API server whether our account has the permissions that milligpu needs; the answer is the
 * same object with a status. key_publisher.c writes the ConfigMap, and reads the annotations that
 * an operator has added.
 */
#include "milligpu/base/annotations.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "kube_read.h"

/* For the API server an absent member means every namespace, every name or the core group. */
static void review_put(struct json_writer *json, const char *key, const char *text)
{
    must(key[0] != '\0');
    if (text == NULL || text[0] == '\0')
        return;
    json_write_key(json, key);
    json_write_str(json, text);
}

void review_encode(struct strbuf *out, const struct review_facts *facts)
{
    struct json_writer json;

    must(facts->verb != NULL && facts->resource != NULL);
    json_writer_init(&json, out);
    json_write_object(&json);
    review_put(&json, "kind", "SelfSubjectAccessReview");
    review_put(&json, "apiVersion", "authorization.k8s.io/v1");
    json_write_key(&json, "spec");
    json_write_object(&json);
    json_write_key(&json, "resourceAttributes");
    json_write_object(&json);
    review_put(&json, "verb", facts->verb);
    review_put(&json, "group", facts->group);
    review_put(&json, "resource", facts->resource);
    review_put(&json, "subresource", facts->subresource);
    review_put(&json, "namespace", facts->namespace);
    review_put(&json, "name", facts->name);
    json_write_object_end(&json);
    json_write_object_end(&json);
    json_write_object_end(&json);
}

/* *out_said stays false if "allowed" is null or missing: that is no permission. */
static void review_read_status(struct json_reader *in, bool *out_said, bool *out_allowed)
{
    static const char *const keys[] = {"allowed"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    int key;

    must(!*out_said);
    json_read_object(in);
    while (json_read_field(in, &fields, &key))
        *out_said = json_read_bool(in, out_allowed);
}

int review_decode(struct text bytes, struct arena *arena, bool *out_allowed, struct err *err)
{
    static const char *const keys[] = {"status"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    struct json_reader in;
    bool allowed = false;
    bool said = false;
    int key;

    json_reader_init(&in, bytes, "SelfSubjectAccessReview", arena, err);
    json_read_object(&in);
    while (json_read_field(&in, &fields, &key))
        review_read_status(&in, &said, &allowed);
    const int rc = json_reader_finish(&in);
    if (rc == 0 && !said)
        return err_set(err, ERR_INVALID, "SelfSubjectAccessReview.status.allowed: missing");
    if (rc == 0)
        *out_allowed = allowed;
    return rc;
}

/* The value is not read: only the key counts. */
static bool read_revoked(struct json_reader *in, struct keys_read *out, struct text id)
{
    must(out->n_revoked <= KEYS_READ_MAX);
    if (key_number(id) != 0 && out->n_revoked < KEYS_READ_MAX)
        out->revoked[out->n_revoked++] = arena_copy(in->arena, id);
    return json_read_skip(in);
}

static bool read_key_annotation(void *user, struct json_reader *in, struct text key)
{
    static const size_t head = sizeof ANNOTATION_REVOKED_KEY - 1;
    struct keys_read *out = user;

    must(out != NULL);
    if (text_is(key, ANNOTATION_REPLACE_KEY))
        return read_once(in, &out->replace);
    if (text_starts(key, ANNOTATION_REVOKED_KEY))
        return read_revoked(in, out, (struct text){key.at + head, key.len - head});
    return json_read_skip(in);
}

/* Skips entries that are no keys: they are not ours. */
static void read_key_data(struct json_reader *in, struct keys_read *out)
{
    struct text key;

    must(out->n_keys <= KEYS_READ_MAX);
    json_read_object(in);
    while (json_read_key(in, &key)) {
        const bool kept = key_number(key) != 0 && out->n_keys < KEYS_READ_MAX;
        const char *id = kept ? arena_copy(in->arena, key) : NULL;
        struct text text;
        if (!kept)
            (void)json_read_skip(in);
        else if (json_read_string(in, &text)) /* a text with a NUL is no key */
            out->key[out->n_keys++] = (struct published_key){id, arena_copy(in->arena, text)};
    }
}

/* Annotations and data of the API server are strings; another value is an error. */
int keys_decode(struct text bytes, struct arena *arena, struct keys_read *out, struct err *err)
{
    static const char *const keys[] = {"metadata", "data"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    struct meta_reading meta = {.user = out, .annotation = read_key_annotation};
    struct json_reader in;
    int key;

    *out = (struct keys_read){.replace = NULL};
    meta_clear(&meta.meta);
    json_reader_init(&in, bytes, "ConfigMap", arena, err);
    json_read_object(&in);
    while (json_read_field(&in, &fields, &key)) {
        if (key == 0)
            read_meta(&in, &meta);
        else
            read_key_data(&in, out);
    }
    if (out->replace == NULL)
        out->replace = "";
    return json_reader_finish(&in);
}
