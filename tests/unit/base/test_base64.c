/* base64 - bytes as letters. */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/base64.h"

#include "support/test.h"

TEST(base64__goes_both_ways)
{
    static const char *const plain[] = {"", "a", "ab", "abc", "abcd", "\xff\xfe\xfd?>"};
    static const char *const coded[] = {"", "YQ==", "YWI=", "YWJj", "YWJjZA==", "//79Pz4="};
    static const char *const bad[] = {"*", "Y", "YQ==Y", "Y===", "YWJj\x01", "YWJjZ"};
    size_t len;

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
