/*
 * Answers that we ask for. SelfSubjectAccessReview: rights.c asks the API server whether our
 * account may do what milligpu needs; the answer is the same object with a status. The ConfigMap of
 * the public keys: key_publisher.c writes it, and reads what an operator has written on it.
 */
#include "milligpu/annotations.h"
#include "milligpu/wire_kube.h"

#include "wire/kube_read.h"

/* To the API server, an absent member means every namespace, every name or the core group. */
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

/* *out_said stays false for a null or a missing "allowed": silence is no permission. */
static void review_read_status(struct json_reader *in, bool *out_said, bool *out_allowed)
{
    static const char *const keys[] = {"allowed"};
    struct json_read_fields fields = JSON_TYPE_FIELDS(keys);
    int key;

    must(!*out_said);
    json_read_object(in);
    while (json_read_field(in, &fields, &key))
        *out_said = json_read_bool(in, out_allowed);
}

int review_decode(struct text bytes, struct arena *arena, bool *out_allowed, struct err *err)
{
    static const char *const keys[] = {"status"};
    struct json_read_fields fields = JSON_TYPE_FIELDS(keys);
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

static bool read_replace(void *user, struct json_reader *in, struct text key)
{
    const char **replace = user;

    must(replace != NULL);
    return text_is(key, ANNOTATION_REPLACE_KEY) ? read_once(in, replace) : json_read_skip(in);
}

/* The API server has only texts for annotations; a value that is none is passed over. */
int keys_decode(struct text bytes, struct arena *arena, const char **out_replace, struct err *err)
{
    static const char *const keys[] = {"metadata"};
    struct json_read_fields fields = JSON_TYPE_FIELDS(keys);
    const char *replace = NULL;
    struct meta_reading meta = {.user = &replace, .annotation = read_replace};
    struct json_reader in;
    int key;

    meta_clear(&meta.is);
    json_reader_init(&in, bytes, "ConfigMap", arena, err);
    json_read_object(&in);
    while (json_read_field(&in, &fields, &key))
        read_meta(&in, &meta);
    const int rc = json_reader_finish(&in);
    if (rc == 0)
        *out_replace = replace != NULL ? replace : "";
    return rc;
}
