#include "support.h"

WIRE_TEST(review__has_the_question_and_no_more)
{
    review_encode(&fixture->out, &(struct review_facts){.verb = "list", .resource = "nodes"});
    assert_json(fixture->out.data,
                "{'kind':'SelfSubjectAccessReview','apiVersion':'authorization.k8s.io/v1','spec':{"
                "'resourceAttributes':{'verb':'list','resource':'nodes'}}}");
    strbuf_reset(&fixture->out);
    review_encode(&fixture->out, &(struct review_facts){.verb = "patch",
                                                        .group = "storage.k8s.io",
                                                        .resource = "csistoragecapacities",
                                                        .namespace = "wakes",
                                                        .name = WAKE_OBJECT_NAME});
    assert_has(fixture->out.data,
               "'group':'storage.k8s.io','resource':'csistoragecapacities','namespace':'wakes',"
               "'name':'milligpu-bell'");
    strbuf_reset(&fixture->out);
    review_encode(
        &fixture->out,
        &(struct review_facts){.verb = "create", .resource = "pods", .subresource = "binding"});
    assert_has(fixture->out.data, "'resource':'pods','subresource':'binding'");
}

static int decode(struct fixture *fixture, const char *text, bool *out_allowed)
{
    return review_decode(exact_json(fixture, text), &fixture->arena, out_allowed, &fixture->err);
}

static int decode_keys(struct fixture *fixture, const char *text, struct keys_read *read)
{
    return keys_decode(exact_json(fixture, text), &fixture->arena, read, &fixture->err);
}

WIRE_TEST(review_answer__is_allowed_or_not)
{
    bool allowed = false;

    assert_int_equal(decode(fixture,
                            "{'kind':'SelfSubjectAccessReview','spec':{},'status':{"
                            "'allowed':true,'reason':'RBAC: allowed by ...'}}",
                            &allowed),
                     0);
    assert_true(allowed);
    assert_int_equal(decode(fixture, "{'status':{'allowed':false,'denied':true}}", &allowed), 0);
    assert_false(allowed);
}

WIRE_TEST(review_answer__that_is_malformed_is_an_error_and_no_right)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{'status':{}}",
        "{'status':{'allowed':'true'}}",
        "{'status':[]}",
        "{'status':{'allowed':true}",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        bool allowed = false;
        fixture->err = (struct err){ERR_NONE, ""};
        assert_true(decode(fixture, bad[i], &allowed) < 0);
        assert_false(allowed);
        assert_has(fixture->err.text, "SelfSubjectAccessReview");
    }
}

/* The operator's requests about keys. */
WIRE_TEST(keys_map__names_the_key_to_replace)
{
    static const struct {
        const char *text;
        const char *replace; /* NULL: an error */
    } row[] = {
        {"{'metadata':{'name':'milligpu-keys','annotations':{'a':'b',"
         "'milligpu.io/replace-key':'0123456789abcdef'}},'data':{'x':'y'}}",
         "0123456789abcdef"},
        {"{'metadata':{'name':'milligpu-keys'},'data':{}}", ""},
        {"{'metadata':{'name':'milligpu-keys','annotations':{'milligpu.io/replace-key':null}}}",
         ""},
        {"{'metadata':{'name':'milligpu-keys','annotations':{'milligpu.io/replace-key':7}}}", ""},
        {"{}", ""},
        {"", NULL},
        {"[]", NULL},
        {"{'metadata':{", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct keys_read read;
        const int rc = decode_keys(fixture, row[i].text, &read);
        assert_int_equal(rc < 0, row[i].replace == NULL);
        if (rc == 0) {
            assert_string_equal(read.replace, row[i].replace);
            assert_int_equal(read.n_revoked, 0);
            assert_int_equal(read.n_keys, 0);
        }
    }
}

/* Only entries with the id of a key count; other entries may be anything. */
WIRE_TEST(keys_map__has_keys_and_revoked_keys)
{
    static const char text[] =
        "{'data':{'a':7,'0123456789abcdef':'K','0123456789abcdeF':'','1123456789abcdef':'\\u0000'},"
        "'metadata':{'annotations':{'revoked-key.milligpu.io/2123456789abcdef':'true',"
        "'revoked-key.milligpu.io/':'true','revoked-key.milligpu.io':'',"
        "'revoked-key.milligpu.io/3123456789abcdef':'','milligpu.io/replace-key':'r'}}}";
    struct keys_read read;

    assert_int_equal(decode_keys(fixture, text, &read), 0);
    assert_string_equal(read.replace, "r");
    assert_int_equal(read.n_keys, 2);
    assert_string_equal(read.key[0].id, "0123456789abcdef");
    assert_string_equal(read.key[0].key, "K");
    assert_string_equal(read.key[1].id, "1123456789abcdef");
    assert_string_equal(read.key[1].key, "");
    assert_int_equal(read.n_revoked, 2);
    assert_string_equal(read.revoked[0], "2123456789abcdef");
    assert_string_equal(read.revoked[1], "3123456789abcdef");
}

WIRE_TEST(keys_map__with_thousands_of_keys_is_read_in_part)
{
    struct keys_read read;
    struct strbuf text;

    strbuf_init(&text);
    strbuf_str(&text, "{'metadata':{'annotations':{'a':''");
    for (int i = 0; i <= KEYS_READ_MAX; i++)
        strbuf_printf(&text, ",'revoked-key.milligpu.io/%016x':''", i + 1);
    strbuf_str(&text, "}},'data':{'a':''");
    for (int i = 0; i <= KEYS_READ_MAX; i++)
        strbuf_printf(&text, ",'%016x':'k'", i + 1);
    strbuf_str(&text, "}}");
    assert_int_equal(decode_keys(fixture, text.data, &read), 0);
    assert_int_equal(read.n_revoked, KEYS_READ_MAX);
    assert_int_equal(read.n_keys, KEYS_READ_MAX);
    strbuf_done(&text);
}
