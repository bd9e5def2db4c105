#include <stdint.h>
#include <string.h>

#include "milligpu/base/problem.h"

#include "support/test.h"

TEST(problem_encode__escapes_the_detail_and_sets_the_title)
{
    CLEANUP(strbuf_done) struct strbuf out;

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
