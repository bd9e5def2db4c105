#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/text.h"

#include "support/test.h"

TEST(text_eq__compares_bytes)
{
    assert_true(text_eq(TEXT("a\0b"), TEXT("a\0b")));
    assert_false(text_eq(TEXT("a\0b"), TEXT("a\0c")));
    assert_false(text_eq(TEXT("ab"), TEXT("abc")));
    assert_true(text_is(TEXT("abc"), "abc"));
    assert_false(text_is(TEXT("abc"), "abcd"));
    assert_false(text_is(TEXT("a\0"), "a"));
    assert_true(text_eq(text_of(NULL), TEXT("")));
    assert_true(text_eq((struct text){0}, TEXT("")));
    assert_true(text_ends(TEXT("abc"), "bc"));
    assert_true(text_ends(TEXT("abc"), "abc"));
    assert_true(text_ends(TEXT("abc"), ""));
    assert_true(text_ends((struct text){0}, ""));
    assert_false(text_ends(TEXT("bc"), "abc"));
    assert_false(text_ends(TEXT("abc"), "ab"));
    assert_true(text_starts(TEXT("abc"), "ab"));
    assert_true(text_starts(TEXT("abc"), ""));
    assert_true(text_starts((struct text){0}, ""));
    assert_false(text_starts(TEXT("ab"), "abc"));
}

TEST(text_hash__depends_on_every_byte_and_on_the_length)
{
    char bytes[41] = {0};
    for (size_t len = 0; len <= 40; len++) {
        const uint32_t hash = text_hash((struct text){bytes, len});
        for (size_t i = 0; i < len; i++) {
            bytes[i] ^= 1;
            assert_int_not_equal(text_hash((struct text){bytes, len}), hash);
            bytes[i] ^= 1;
        }
        assert_int_not_equal(text_hash((struct text){bytes, len + 1}), hash);
    }
}

TEST(text_hash__fills_all_buckets)
{
    uint32_t bucket[256] = {0};
    for (int i = 0; i < 25600; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "gpu-node-%05d", i);
        bucket[text_hash(text_of(name)) & 255]++;
    }
    for (size_t i = 0; i < ARRAY_LEN(bucket); i++)
        assert_in_range(bucket[i], 40, 180);
}

TEST(text_hash__depends_on_the_seed)
{
    text_seed(1);
    const uint32_t one = text_hash(TEXT("node-1"));
    const uint32_t empty = text_hash(TEXT(""));
    text_seed(2);
    assert_int_not_equal(text_hash(TEXT("node-1")), one);
    assert_int_not_equal(text_hash(TEXT("")), empty);
    text_seed(1);
    assert_int_equal(text_hash(TEXT("node-1")), one);
}

TEST(text_glob__matches)
{
    static const struct {
        const char *glob;
        const char *text;
        bool matches;
    } row[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"**", "", true},
        {"?", "", false},
        {"?", "a", true},
        {"a100*", "A100-SXM4-80GB", true},
        {"A100", "A100-SXM4-80GB", false},
        {"*-80GB", "A100-SXM4-80gb", true},
        {"*-80GB", "A100-SXM4-40GB", false},
        {"A*00*80?B", "A100-SXM4-80GB", true},
        {"*a*b*", "xxaxxbxx", true},
        {"*a*b*", "xxbxxaxx", false},
        {"*aab", "aaaab", true},
        {"a*?b", "ab", false},
        {"a*?b", "acb", true},
        {"[a-z]", "b", false},
        {"[a-z]", "[A-Z]", true},
        {"\\*", "\\abc", true},
        {"@", "`", false},
        {"[", "{", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_int_equal(text_glob(text_of(row[i].glob), text_of(row[i].text)), row[i].matches);
    assert_true(text_glob((struct text){0}, (struct text){0}));
}

/* Straight from the definition. */
static bool plain_glob(const char *glob, const char *text)
{
    if (*glob == '\0')
        return *text == '\0';
    if (*glob == '*')
        return plain_glob(glob + 1, text) || (*text != '\0' && plain_glob(glob, text + 1));
    return *text != '\0' && (*glob == '?' || *glob == *text) && plain_glob(glob + 1, text + 1);
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*seed >> 33) % below;
}

TEST(text_glob__agrees_with_its_definition)
{
    const char *env = getenv("TEXT_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = env != NULL ? strtoull(env, NULL, 10) : 7;
    print_message("TEXT_SEED=%llu\n", (unsigned long long)seed);
    uint32_t seen[2] = {0};
    for (int i = 0; i < 200000; i++) {
        char glob[8] = {0};
        char text[10] = {0};
        const uint32_t globs = draw(&seed, sizeof glob);
        const uint32_t texts = draw(&seed, sizeof text);
        for (uint32_t k = 0; k < globs; k++)
            glob[k] = "ab*?"[draw(&seed, 4)];
        for (uint32_t k = 0; k < texts; k++)
            text[k] = "ab"[draw(&seed, 2)];
        const bool matches = plain_glob(glob, text);
        assert_int_equal(text_glob(text_of(glob), text_of(text)), matches);
        seen[matches]++;
    }
    assert_true(seen[0] > 1000 && seen[1] > 1000);
}

TEST(text_glob__is_fast_in_the_worst_case)
{
    char glob[2048];
    static char text[64 * 1024];
    for (size_t i = 0; i < sizeof glob; i++)
        glob[i] = i % 2 == 0 ? '*' : 'a';
    glob[sizeof glob - 1] = 'b';
    memset(text, 'a', sizeof text);
    assert_false(text_glob((struct text){glob, sizeof glob}, (struct text){text, sizeof text}));
}

TEST(text_cut__returns_every_piece_also_the_empty_ones)
{
    static const struct {
        const char *text;
        const char *piece[4];
    } row[] = {
        {"", {""}},
        {",", {"", ""}},
        {"a", {"a"}},
        {"a,b", {"a", "b"}},
        {"a,,b,", {"a", "", "b", ""}},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct text rest = text_of(row[i].text);
        struct text piece;
        size_t count = 0;
        while (text_cut(&rest, ',', &piece)) {
            assert_true(count < 4 && row[i].piece[count] != NULL);
            assert_true(text_is(piece, row[i].piece[count]));
            count++;
        }
        assert_true(count == 4 || row[i].piece[count] == NULL);
    }
}

TEST(text_trim__removes_blanks_at_both_ends_only)
{
    assert_true(text_is(text_trim(TEXT(" \t a b \t")), "a b"));
    assert_true(text_is(text_trim(TEXT("a")), "a"));
    assert_true(text_is(text_trim(TEXT("  ")), ""));
    assert_true(text_is(text_trim(TEXT("")), ""));
}

TEST(text_clip__marks_a_cut)
{
    char out[8];
    text_clip(TEXT("1234567"), out, sizeof out);
    assert_string_equal(out, "1234567");
    text_clip(TEXT("12345678"), out, sizeof out);
    assert_string_equal(out, "1234...");
    text_clip(TEXT("12\xE2\x82\xAC"
                   "45678"),
              out, sizeof out);
    assert_string_equal(out, "12...");
    text_clip(TEXT(""), out, sizeof out);
    assert_string_equal(out, "");
}

TEST(text_clip__escapes_terminal_controls)
{
    static const struct {
        const char *text;
        const char *shown;
    } row[] = {
        {"plain \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80",
         "plain \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"\x1B[2J\x1B]0;title\x07", "\\u001b[2J\\u001b]0;title\\u0007"},
        {"\xC2\x9B"
         "31m",
         "\\u009b31m"},
        {"one\ntwo\r\t\x7F", "one\\ntwo\\r\\t\\u007f"},
        {"gpj.\xE2\x80\xAEgnp", "gpj.\\u202egnp"},
        {"\xE2\x80\x8B\xE2\x81\xA6\xEF\xBB\xBF\xD8\x9C", "\\u200b\\u2066\\ufeff\\u061c"},
        {"\xE2\x80\xA8\xE2\x80\xA9", "\\u2028\\u2029"},
        {"\xE2\x80\x90\xE2\x80\xA7\xE2\x80\xAF\xE2\x81\x9F\xC2\xA0", /* next to the odd ones */
         "\xE2\x80\x90\xE2\x80\xA7\xE2\x80\xAF\xE2\x81\x9F\xC2\xA0"},
        {"a\xFFz\xC3", "a\xEF\xBF\xBDz\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char out[128];
        text_clip(text_of(row[i].text), out, sizeof out);
        assert_string_equal(out, row[i].shown);
    }
    char cut[9];
    text_clip(TEXT("ab\x1B"
                   "c"),
              cut, sizeof cut); /* the escaped form would not fit */
    assert_string_equal(cut, "ab...");
}

TEST(text_distance__counts_edits)
{
    static const struct {
        const char *a;
        const char *b;
        size_t far;
    } row[] = {
        {"", "", 0},
        {"nodes", "nodes", 0},
        {"node", "nodes", 1},   /* an insertion */
        {"nodees", "nodes", 1}, /* a deletion */
        {"modes", "nodes", 1},  /* a substitution */
        {"", "nodes", 5},
        {"nodes", "", 5},
        {"history", "hsitory", 2},
        {"top", "waiting", 6},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_int_equal(text_distance(text_of(row[i].a), text_of(row[i].b)), row[i].far);
}

TEST(text_slips__counts_up_to_a_limit_and_ignores_case)
{
    static const struct {
        const char *a;
        const char *b;
        size_t most;
        size_t slips;
    } row[] = {
        {"gpu-model", "gpu-model", 0, 0},
        {"GPU_Model", "gpu-model", 0, 0},
        {"Gpu.ModeL", "gpu-model", 0, 0},
        {"AZ", "az", 0, 0},
        {"gpu-modell", "gpu-model", 1, 1},
        {"gpu-modell", "gpu-model", 0, TEXT_FAR},
        {"gpu-modells", "gpu-model", 2, 2},
        {"gpu-modells", "gpu-model", 1, TEXT_FAR},
        {"gumodel", "gpu-model", 2, 2},
        {"gumodel", "gpu-model", 1, TEXT_FAR},
        {"gpu-count", "gpu-model", 2, TEXT_FAR},
        {"", "abcdefgh", TEXT_SLIPS_MAX, 8},
        {"", "", 0, 0},
        {"g", "", 0, TEXT_FAR},
    };
    char name[TEXT_DISTANCE_MAX + TEXT_SLIPS_MAX + 1];

    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_int_equal(text_slips(text_of(row[i].a), text_of(row[i].b), row[i].most),
                         row[i].slips);
    memset(name, 'A', sizeof name);
    const struct text longest = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                 TEXT_DISTANCE_MAX};
    assert_int_equal(text_slips((struct text){name, sizeof name - 1}, longest, TEXT_SLIPS_MAX),
                     TEXT_SLIPS_MAX);
    assert_int_equal(text_slips((struct text){name, sizeof name}, longest, TEXT_SLIPS_MAX),
                     TEXT_FAR);
}
