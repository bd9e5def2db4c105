/* SipHash-1-3 against that of Python 3.11: PYTHONHASHSEED=0 makes its key 0. Input: 00 01 .. */
#include <string.h>

#include "milligpu/base/siphash.h"

#include "support/test.h"

static const struct siphash_key key = {{0, 0}};

static struct text input(size_t len)
{
    static char bytes[64];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    assert_true(len <= sizeof bytes);
    return (struct text){bytes, len};
}

static uint64_t hash_of(struct text text)
{
    struct siphash hash;

    siphash_init(&hash, &key);
    siphash_add(&hash, text);
    return siphash_end(&hash);
}

TEST(siphash__equals_that_of_python)
{
    static const struct {
        size_t len;
        uint64_t hash;
    } vector[] = {
        {1, 7541581120933061747U},  {2, 75343234424780393U},    {3, 5569996484167262381U},
        {7, 3389392686435873370U},  {8, 16921169381604339434U}, {15, 17514137373579004394U},
        {16, 9904005486622393783U}, {63, 4061470857350050649U},
    };

    for (size_t i = 0; i < ARRAY_LEN(vector); i++)
        assert_int_equal(hash_of(input(vector[i].len)), vector[i].hash);
}

TEST(siphash__of_pieces_is_that_of_the_whole)
{
    for (size_t len = 0; len <= 40; len++)
        for (size_t first = 0; first <= len; first++)
            for (size_t second = first; second <= len; second++) {
                const struct text whole = input(len);
                struct siphash hash;
                siphash_init(&hash, &key);
                siphash_add(&hash, (struct text){whole.at, first});
                siphash_add(&hash, (struct text){whole.at + first, second - first});
                siphash_add(&hash, (struct text){whole.at + second, len - second});
                assert_int_equal(siphash_end(&hash), hash_of(whole));
            }
}

TEST(siphash__depends_on_the_key)
{
    const struct siphash_key other = {{key.word[0], key.word[1] ^ 1}};
    struct siphash hash;

    siphash_init(&hash, &other);
    siphash_add(&hash, input(15));
    assert_int_not_equal(siphash_end(&hash), hash_of(input(15)));
}
