/* base64 - bytes as letters. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/base64.h"

static void base64_goes_both_ways(void **state)
{
    static const char *const plain[] = {"", "a", "ab", "abc", "abcd", "\xff\xfe\xfd?>"};
    static const char *const coded[] = {"", "YQ==", "YWI=", "YWJj", "YWJjZA==", "//79Pz4="};
    static const char *const bad[] = {"*", "Y", "YQ==Y", "Y===", "YWJj\x01", "YWJjZ"};
    size_t len;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
        CLEANUP(xfreep) char *encoded = base64_encode(text_of(plain[i]));
        CLEANUP(xfreep) char *decoded = base64_decode(coded[i], &len);
        assert_string_equal(encoded, coded[i]);
        assert_string_equal(decoded, plain[i]);
        assert_int_equal(len, strlen(plain[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_null(base64_decode(bad[i], &len));
    CLEANUP(xfreep) char *spaced = base64_decode(" YW\nJj\t", &len);
    assert_string_equal(spaced, "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_goes_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
