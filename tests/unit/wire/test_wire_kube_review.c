#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "support/test.h"

TEST(a_review_says_what_is_asked_and_no_more)
{
    struct strbuf out;

    strbuf_init(&out);
    review_encode(&out, &(struct review_facts){.verb = "list", .resource = "nodes"});
    assert_string_equal(out.data,
                        "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s."
                        "io/v1\",\"spec\":{\"resourceAttributes\":{\"verb\":\"list\",\"resource\":"
                        "\"nodes\"}}}");
    strbuf_reset(&out);
    review_encode(&out, &(struct review_facts){.verb = "patch",
                                               .group = "storage.k8s.io",
                                               .resource = "csistoragecapacities",
                                               .namespace = "wakes",
                                               .name = WAKE_OBJECT_NAME});
    assert_non_null(strstr(out.data, "\"group\":\"storage.k8s.io\","
                                     "\"resource\":\"csistoragecapacities\","
                                     "\"namespace\":\"wakes\",\"name\":\"milligpu-bell\""));
    strbuf_reset(&out);
    review_encode(&out, &(struct review_facts){
                            .verb = "create", .resource = "pods", .subresource = "binding"});
    assert_non_null(strstr(out.data, "\"resource\":\"pods\",\"subresource\":\"binding\""));
    strbuf_done(&out);
}

static int decode(const char *text, bool *out_allowed, struct err *err)
{
    struct arena arena;

    arena_init(&arena);
    const int rc = review_decode(text_of(text), &arena, out_allowed, err);
    arena_done(&arena);
    return rc;
}

TEST(an_answer_is_yes_or_no)
{
    bool allowed = false;
    struct err err;

    assert_int_equal(decode("{\"kind\":\"SelfSubjectAccessReview\",\"spec\":{},\"status\":"
                            "{\"allowed\":true,\"reason\":\"RBAC: allowed by ...\"}}",
                            &allowed, &err),
                     0);
    assert_true(allowed);
    assert_int_equal(decode("{\"status\":{\"allowed\":false,\"denied\":true}}", &allowed, &err), 0);
    assert_false(allowed);
}

TEST(what_does_not_say_is_an_error_and_no_right)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"status\":{}}",
        "{\"status\":{\"allowed\":\"true\"}}",
        "{\"status\":[]}",
        "{\"status\":{\"allowed\":true}",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        bool allowed = false;
        struct err err = {ERR_NONE, ""};
        assert_true(decode(bad[i], &allowed, &err) < 0);
        assert_false(allowed);
        assert_non_null(strstr(err.text, "SelfSubjectAccessReview"));
    }
}

/* What an operator wants of the keys. */
TEST(the_config_map_says_which_key_is_to_be_replaced)
{
    static const struct {
        const char *text;
        const char *replace; /* NULL: an error */
    } row[] = {
        {"{\"metadata\":{\"name\":\"milligpu-keys\",\"annotations\":{\"a\":\"b\",\"milligpu.io/"
         "replace-key\":\"0123456789abcdef\"}},\"data\":{\"x\":\"y\"}}",
         "0123456789abcdef"},
        {"{\"metadata\":{\"name\":\"milligpu-keys\"},\"data\":{}}", ""},
        {"{\"metadata\":{\"name\":\"milligpu-keys\",\"annotations\":{\"milligpu.io/replace-key\":"
         "null}}}",
         ""},
        {"{\"metadata\":{\"name\":\"milligpu-keys\",\"annotations\":{\"milligpu.io/replace-key\":"
         "7}}}",
         ""},
        {"{}", ""},
        {"", NULL},
        {"[]", NULL},
        {"{\"metadata\":{", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct keys_read read;
        struct arena arena;
        struct err err;
        arena_init(&arena);
        const int rc = keys_decode(text_of(row[i].text), &arena, &read, &err);
        assert_int_equal(rc < 0, row[i].replace == NULL);
        if (rc == 0) {
            assert_string_equal(read.replace, row[i].replace);
            assert_int_equal(read.n_revoked, 0);
            assert_int_equal(read.n_keys, 0);
        }
        arena_done(&arena);
    }
}

/* Only what bears the id of a key; what others keep there may be anything. */
TEST(the_config_map_says_which_keys_it_has_and_which_are_revoked)
{
    static const char text[] =
        "{\"data\":{\"a\":7,\"0123456789abcdef\":\"K\",\"0123456789abcdeF\":\"\","
        "\"1123456789abcdef\":\"\\u0000\"},\"metadata\":{\"annotations\":{"
        "\"revoked-key.milligpu.io/2123456789abcdef\":\"true\","
        "\"revoked-key.milligpu.io/\":\"true\",\"revoked-key.milligpu.io\":\"\","
        "\"revoked-key.milligpu.io/3123456789abcdef\":\"\","
        "\"milligpu.io/replace-key\":\"r\"}}}";
    struct keys_read read;
    struct arena arena;
    struct err err;

    arena_init(&arena);
    assert_int_equal(keys_decode(text_of(text), &arena, &read, &err), 0);
    assert_string_equal(read.replace, "r");
    assert_int_equal(read.n_keys, 2);
    assert_string_equal(read.key[0].id, "0123456789abcdef");
    assert_string_equal(read.key[0].key, "K");
    assert_string_equal(read.key[1].id, "1123456789abcdef");
    assert_string_equal(read.key[1].key, "");
    assert_int_equal(read.n_revoked, 2);
    assert_string_equal(read.revoked[0], "2123456789abcdef");
    assert_string_equal(read.revoked[1], "3123456789abcdef");
    arena_done(&arena);
}

TEST(a_config_map_with_thousands_of_keys_is_read_in_part)
{
    struct keys_read read;
    struct strbuf text;
    struct arena arena;
    struct err err;

    arena_init(&arena);
    strbuf_init(&text);
    strbuf_str(&text, "{\"metadata\":{\"annotations\":{\"a\":\"\"");
    for (int i = 0; i <= KEYS_READ_MAX; i++)
        strbuf_printf(&text, ",\"revoked-key.milligpu.io/%016x\":\"\"", i + 1);
    strbuf_str(&text, "}},\"data\":{\"a\":\"\"");
    for (int i = 0; i <= KEYS_READ_MAX; i++)
        strbuf_printf(&text, ",\"%016x\":\"k\"", i + 1);
    strbuf_str(&text, "}}");
    assert_int_equal(keys_decode((struct text){text.data, text.len}, &arena, &read, &err), 0);
    assert_int_equal(read.n_revoked, KEYS_READ_MAX);
    assert_int_equal(read.n_keys, KEYS_READ_MAX);
    strbuf_done(&text);
    arena_done(&arena);
}
