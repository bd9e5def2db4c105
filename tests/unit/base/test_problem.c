#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/base/problem.h"

static void a_problem_is_escaped_and_titled(void **state)
{
    CLEANUP(strbuf_done) struct strbuf out;

    (void)state;
    strbuf_init(&out);
    problem_encode(&out, 404, NULL, "no \"x\"\n\xff");
    assert_string_equal(out.data,
                        "{\"type\":\"about:blank\",\"title\":\"not found\",\"status\":404,"
                        "\"detail\":\"no \\\"x\\\"\\n\xef\xbf\xbd\"}");
    strbuf_reset(&out);
    problem_encode(&out, 418, NULL, "");
    assert_non_null(strstr(out.data, "\"title\":\"bad request\",\"status\":418"));
    strbuf_reset(&out);
    problem_encode(&out, 599, NULL, "");
    assert_non_null(strstr(out.data, "\"title\":\"internal error\""));
    strbuf_reset(&out);
    problem_encode(&out, 413, "Request not served", "too large");
    assert_non_null(strstr(out.data, "\"title\":\"Request not served\",\"status\":413"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_problem_is_escaped_and_titled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
