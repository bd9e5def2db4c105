#include "milligpu/wire_kube.h"

static void put(struct jw *jw, const char *key, const char *text)
{
    must(key[0] != '\0');
    if (text == NULL || text[0] == '\0')
        return;
    jw_key(jw, key);
    jw_str(jw, text);
}

void review_encode(struct strbuf *out, const struct review_facts *facts)
{
    struct jw jw;

    must(facts->verb != NULL && facts->resource != NULL);
    jw_init(&jw, out);
    jw_object(&jw);
    put(&jw, "kind", "SelfSubjectAccessReview");
    put(&jw, "apiVersion", "authorization.k8s.io/v1");
    jw_key(&jw, "spec");
    jw_object(&jw);
    jw_key(&jw, "resourceAttributes");
    jw_object(&jw);
    put(&jw, "verb", facts->verb);
    put(&jw, "group", facts->group);
    put(&jw, "resource", facts->resource);
    put(&jw, "subresource", facts->subresource);
    put(&jw, "namespace", facts->namespace);
    put(&jw, "name", facts->name);
    jw_object_end(&jw);
    jw_object_end(&jw);
    jw_object_end(&jw);
}

static void read_status(struct jr *in, bool *out_said, bool *out_allowed)
{
    static const char *const keys[] = {"allowed"};
    struct jr_fields fields = JR_FIELDS(keys);
    int key;

    must(!*out_said);
    jr_object(in);
    while (jr_field(in, &fields, &key))
        *out_said = jr_bool(in, out_allowed);
}

int review_decode(struct text bytes, struct arena *arena, bool *out_allowed, struct err *err)
{
    static const char *const keys[] = {"status"};
    struct jr_fields fields = JR_FIELDS(keys);
    struct jr in;
    bool allowed = false;
    bool said = false;
    int key;

    must(out_allowed != NULL);
    jr_init(&in, bytes, "SelfSubjectAccessReview", arena, err);
    jr_object(&in);
    while (jr_field(&in, &fields, &key))
        read_status(&in, &said, &allowed);
    const int rc = jr_finish(&in);
    if (rc == 0 && !said)
        return err_set(err, ERR_INVALID, "SelfSubjectAccessReview.status.allowed: missing");
    if (rc == 0)
        *out_allowed = allowed;
    return rc;
}
