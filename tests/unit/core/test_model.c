#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/model.h"

static bool takes(const char *glob, const char *model)
{
    char glob_buf[MODEL_BYTES_MAX];
    char model_buf[MODEL_BYTES_MAX];
    return model_takes(model_bare(text_of(glob), glob_buf), model_bare(text_of(model), model_buf));
}

static void vendor_words_are_optional(void **state)
{
    (void)state;
    static const struct {
        const char *glob;
        const char *model;
        bool takes;
    } row[] = {
        {"T4", "T4", true},
        {"T4", "Tesla-T4", true},
        {"T4", "NVIDIA-Tesla-T4", true},
        {"t4", "nvidia tesla t4", true},
        {"Tesla-T4", "T4", true},
        {"NVIDIA-Tesla-T4", "T4", true},
        {"tesla t4", "NVIDIA-Tesla-T4", true},
        {"T4", "T4G", false},
        {"T4", "Tesla-T40", false},
        {"Tesla-T4", "Quadro-T4", false},
        {"RTX-3090", "NVIDIA-GeForce-RTX-3090", true},
        {"GeForce-RTX-3090", "RTX-3090", true},
        {"RTX-8000", "Quadro-RTX-8000", true},
        {"RTX-*", "GeForce-RTX-3090", true},
        {"RTX-*", "Quadro-RTX-8000", true},
        {"RTX-*", "GeForce-GTX-1080", false},
        {"Tesla*", "Tesla-T4", true},
        {"Tesla*", "A100", false},
        {"NVIDIA*", "Tesla-T4", true},
        {"NVIDIA*", "A100", true},
        {"NVIDIA-T*", "Tesla-T4", true},
        {"NVIDIA*V", "A100", false},
        /* a wildcard behind the vendor's word asks for that word */
        {"GeForce-RTX-*", "GeForce-RTX-3090", true},
        {"GeForce-RTX-*", "RTX-6000-Ada-Generation", false},
        {"GeForce-RTX-*", "Quadro-RTX-8000", false},
        {"GeForce-?TX-9", "RTX-9", false},
        {"Tesla-*", "A100-SXM4-80GB", false},
        {"Tesla-T?", "T4", false},
        /* the words alone are names */
        {"Tesla-", "", false},
        {"Tesla-", "Tesla-", true},
        {"T4", "Tesla-", false},
        {"Tesla", "Tesla-T4", false},
        {"A100", "", false},
        {"*", "", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        if (takes(row[i].glob, row[i].model) != row[i].takes)
            fail_msg("\"%s\" and \"%s\": expected %d", row[i].glob, row[i].model, row[i].takes);
}

static void blanks_are_dashes_and_the_maker_goes(void **state)
{
    (void)state;
    static const struct {
        const char *given;
        const char *bare;
    } row[] = {
        {"NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"},
        {"nvidia-l4", "l4"},
        {"NVIDIA", "NVIDIA"},
        {"NVIDIA-", ""},
        {"Tesla T4", "Tesla-T4"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char buf[MODEL_BYTES_MAX];
        const struct text bare = model_bare(text_of(row[i].given), buf);
        assert_true(text_is(bare, row[i].bare));
    }
}

static void the_longest_name_is_compared_whole(void **state)
{
    (void)state;
    char longest[MODEL_BYTES_MAX];
    memset(longest, 'a', sizeof longest);
    const struct text model = {longest, sizeof longest};
    assert_true(model_takes(TEXT("NVIDIA-a*"), model));
    assert_true(model_takes(TEXT("NVIDIA*a"), model));
    longest[sizeof longest - 1] = 'b';
    assert_true(model_takes(TEXT("NVIDIA*b"), model));
    assert_false(model_takes(TEXT("NVIDIA*a"), model));
    char buf[MODEL_BYTES_MAX];
    assert_int_equal(model_bare(model, buf).len, sizeof longest);
}

static size_t distance(const char *glob, const char *model)
{
    return model_distance(text_of(glob), text_of(model));
}

static void the_distance_is_of_what_people_mean(void **state)
{
    (void)state;
    static const struct {
        const char *glob;
        const char *model;
        size_t distance;
    } row[] = {
        {"A100", "A100-SXM4-80GB", 0},
        {"a100", "A100-SXM4-80GB", 0},
        {"A100-SXM4-80GB-x", "A100-SXM4-80GB", 0},
        {"80GB", "A100-SXM4-80GB", 0},
        {"RTX-*", "GeForce-GTX-1080", 2},
        {"T5", "Tesla-T4", 1},
        {"Tesla-T5", "T4", 1},
        {"T?5", "Tesla-T4", 1},
        {"A10O", "A100-SXM4-80GB", 2},
        {"A100-80GB", "A100-SXM4-80GB", 1},
        {"A100-SXM4-80Gi", "A100-SXM4-80GB", 1},
        {"A100-SXM4-8GB", "A100-SXM4-80GB", 1},
        {"H200", "L4", 4},
        {"*", "L4", 0},
        {"L4", "", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        if (distance(row[i].glob, row[i].model) != row[i].distance)
            fail_msg("\"%s\" and \"%s\": %zu", row[i].glob, row[i].model,
                     distance(row[i].glob, row[i].model));
}

static void the_distance_of_long_names_is_that_of_their_beginnings(void **state)
{
    (void)state;
    char left[MODEL_BYTES_MAX];
    char right[MODEL_BYTES_MAX];
    memset(left, 'a', sizeof left);
    memset(right, 'a', sizeof right);
    right[TEXT_DISTANCE_MAX] = 'b';
    const struct text a = {left, sizeof left};
    const struct text b = {right, sizeof right};
    assert_int_equal(model_distance(a, b), 0);
    right[TEXT_DISTANCE_MAX - 1] = 'b';
    assert_int_equal(model_distance(a, b), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vendor_words_are_optional),
        cmocka_unit_test(blanks_are_dashes_and_the_maker_goes),
        cmocka_unit_test(the_longest_name_is_compared_whole),
        cmocka_unit_test(the_distance_is_of_what_people_mean),
        cmocka_unit_test(the_distance_of_long_names_is_that_of_their_beginnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
