#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/wire_kube.h"

static void a_review_says_what_is_asked_and_no_more(void **state)
{
    struct strbuf out;

    (void)state;
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

static void an_answer_is_yes_or_no(void **state)
{
    bool allowed = false;
    struct err err;

    (void)state;
    assert_int_equal(decode("{\"kind\":\"SelfSubjectAccessReview\",\"spec\":{},\"status\":"
                            "{\"allowed\":true,\"reason\":\"RBAC: allowed by ...\"}}",
                            &allowed, &err),
                     0);
    assert_true(allowed);
    assert_int_equal(decode("{\"status\":{\"allowed\":false,\"denied\":true}}", &allowed, &err), 0);
    assert_false(allowed);
}

static void what_does_not_say_is_an_error_and_no_right(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        bool allowed = false;
        struct err err = {ERR_NONE, ""};
        assert_true(decode(bad[i], &allowed, &err) < 0);
        assert_false(allowed);
        assert_non_null(strstr(err.text, "SelfSubjectAccessReview"));
    }
}

/* What an operator wants of the keys. */
static void the_config_map_says_which_key_is_to_be_replaced(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const char *replace = "untouched";
        struct arena arena;
        struct err err;
        arena_init(&arena);
        const int rc = keys_decode(text_of(row[i].text), &arena, &replace, &err);
        assert_int_equal(rc < 0, row[i].replace == NULL);
        assert_string_equal(replace, row[i].replace != NULL ? row[i].replace : "untouched");
        arena_done(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_review_says_what_is_asked_and_no_more),
        cmocka_unit_test(an_answer_is_yes_or_no),
        cmocka_unit_test(what_does_not_say_is_an_error_and_no_right),
        cmocka_unit_test(the_config_map_says_which_key_is_to_be_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
