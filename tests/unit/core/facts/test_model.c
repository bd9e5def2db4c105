#include <stdint.h>
#include <string.h>

#include "milligpu/core/facts/model.h"

#include "support/test.h"

static bool takes(const char *glob, const char *model)
{
    char glob_buf[MODEL_BYTES_MAX];
    char model_buf[MODEL_BYTES_MAX];
    return model_takes(model_bare(text_of(glob), glob_buf), model_bare(text_of(model), model_buf));
}

TEST(vendor_words_are_optional)
{
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
        {"Jetson Orin", "Orin", true},
        {"Orin", "Jetson-Orin", true},
        {"A100", "", false},
        {"*", "", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        if (takes(row[i].glob, row[i].model) != row[i].takes)
            fail_msg("\"%s\" and \"%s\": expected %d", row[i].glob, row[i].model, row[i].takes);
}

TEST(blanks_are_dashes_and_the_maker_goes)
{
    static const struct {
        const char *given;
        const char *bare;
    } row[] = {
        {"NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"},
        {"nvidia-l4", "l4"},
        {"NVIDIA", "NVIDIA"},
        {"NVIDIA-", ""},
        {"A100  - SXM4", "A100-SXM4"},
        {"-A100", "-A100"},
        {"Tesla T4", "Tesla-T4"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char buf[MODEL_BYTES_MAX];
        const struct text bare = model_bare(text_of(row[i].given), buf);
        assert_true(text_is(bare, row[i].bare));
    }
}

TEST(the_longest_name_is_compared_whole)
{
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

struct named {
    const char *name;
    const char *model;
    bool takes;
};

static void check_names(const struct named *row, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        if (takes(row[i].name, row[i].model) != row[i].takes)
            fail_msg("\"%s\" and \"%s\": expected %d", row[i].name, row[i].model, row[i].takes);
}

TEST(name__from_the_left)
{
    static const struct named row[] = {
        {"A100", "NVIDIA-A100-SXM4-80GB", true},
        {"A100", "NVIDIA-A100-PCIE-40GB", true},
        {"a100", "A100-SXM4-40GB", true},
        {"NVIDIA A100", "A100-SXM4-40GB", true},
        {"Tesla A100", "A100-SXM4-40GB", true},
        {"Tesla-V100", "Tesla-V100-SXM2-16GB", true},
        {"Quadro-V100", "Tesla-V100-SXM2-16GB", false},
        {"A100 80GB", "NVIDIA-A100-80GB-PCIe", true},
        {"A100-80", "NVIDIA-A100-80GB-PCIe", false},
        {"A100", "RTX-A100-8GB", false},
        {"A100", "A1000", false},
        {"A100", "A100", true},
        {"A100", "A100X", false},
        {"A10", "A100-SXM4-80GB", false},
        {"A10", "A10G", false},
        {"T4", "T4G", false},
        {"L4", "L40", false},
        {"L40", "L40S", false},
        {"H20", "H200", false},
        {"H20", "H20-3e", false},
        {"H20", "H20-3e-x", false},
        {"H20", "H20-3eX", true},
        {"H20", "H20-x", true},
        {"H200", "H200-3e", true},
        {"H20-3e", "NVIDIA-H20-3e", true},
        {"H200", "H200-NVL", true},
        {"H100", "H100-80GB-HBM3", true},
        {"nvidia-h100-80gb", "NVIDIA-H100-80GB-HBM3", true},
        {"GH200", "NVIDIA-GH200-480GB", true},
        {"H200", "GH200-480GB", false},
    };
    check_names(row, ARRAY_LEN(row));
}

TEST(name__takes_no_part)
{
    static const struct named row[] = {
        {"A100", "A100-SXM4-80GB-MIG-1g.10gb", false},
        {"A100-SXM4-80GB", "A100-SXM4-80GB-MIG-1g.10gb", false},
        {"A100-SXM4-80GB-MIG", "A100-SXM4-80GB-MIG-1g.10gb", true},
        {"A100-SXM4-80GB-MIG-1g.10gb", "A100-SXM4-80GB-MIG-1g.10gb", true},
        {"A40", "NVIDIA-A40-48Q", false},
        {"A40-48Q", "NVIDIA-A40-48Q", true},
        {"T4", "GRID-T4-16Q", false},
        {"GRID", "GRID-T4-16Q", false},
        {"GRID-T4", "GRID-T4-16Q", false},
        {"GRID T4-16Q", "GRID-T4-16Q", true},
        {"A100", "A100-1-5C", false},
        {"A100-1", "A100-1-5C", true},
        {"T4", "Tesla-T4-SHARED", false},
        {"Tesla-T4-SHARED", "Tesla-T4-SHARED", true},
        /* globs say what they mean */
        {"A40*", "NVIDIA-A40-48Q", true},
        {"H20*", "H20-3e", true},
        {"H2*", "H20-3e", true},
        {"A10?", "A100-SXM4-80GB", false},
    };
    check_names(row, ARRAY_LEN(row));
}

TEST(name__takes_no_other_product)
{
    static const struct named row[] = {
        {"RTX-4090", "NVIDIA-GeForce-RTX-4090-D", false},
        {"RTX-5090", "GeForce-RTX-5090-D-v2", false},
        {"RTX-5090", "GeForce-RTX-5090-Dx", true},
        {"RTX-4090-D", "NVIDIA-GeForce-RTX-4090-D", true},
        {"RTX-3080", "NVIDIA-GeForce-RTX-3080-Ti", false},
        {"RTX-4070", "GeForce-RTX-4070-Ti-SUPER", false},
        {"RTX-4070", "GeForce-RTX-4070-Tix", true},
        {"RTX-4070-Ti", "GeForce-RTX-4070-Ti-SUPER", false},
        {"RTX-4080", "GeForce-RTX-4080-SUPER", false},
        {"RTX-4080", "GeForce-RTX-4080-SUPER-x", false},
        {"RTX-6000", "RTX-6000-Ada-Generation", false},
        {"RTX-5000", "RTX-5000-Ada-Generation", false},
        {"RTX-4000", "RTX-4000-Ada-Generation", false},
        {"RTX-3000", "RTX-3000-Ada-Generation", false},
        {"RTX-2000", "RTX-2000-Ada-Generation", true},
        {"RTX-4500", "RTX-4500-Ada-Generation", true},
        {"RTX-6000-Ada", "RTX-6000-Ada-Generation", true},
        {"Quadro RTX 6000", "RTX-6000-Ada-Generation", false},
        {"RTX-4000", "RTX-4000-SFF-Ada-Generation", false},
        {"RTX-PRO-4000", "RTX-PRO-4000-Blackwell-SFF-Edition", false},
        {"RTX-PRO-6000", "RTX-PRO-6000-Blackwell-Server-Edition", true},
        {"RTX-PRO-6000", "RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition", true},
        {"RTX-4090", "GeForce-RTX-4090-Laptop-GPU", false},
        {"RTX-5000-Ada", "RTX-5000-Ada-Generation-Laptop-GPU", false},
        {"RTX-4090-Laptop", "GeForce-RTX-4090-Laptop-GPU", true},
        {"RTX-A4500", "RTX-A4500-Embedded-GPU", false},
        {"RTX-5000-Ada", "RTX-5000-Ada-Generation-Embedded-GPU", false},
        {"RTX-2080", "GeForce-RTX-2080-with-Max-Q-Design", false},
        {"GTX-1070", "GeForce-GTX-1070-Max-Q", false},
        {"RTX-A2000", "NVIDIA-RTX-A2000-12GB", true},
    };
    check_names(row, ARRAY_LEN(row));
}

TEST(name__is_exact)
{
    static const struct {
        const char *name;
        const char *model;
        bool exact;
    } row[] = {
        {"T4", "Tesla-T4", true},
        {"Tesla-T4", "T4", true},
        {"t4", "T4", true},
        {"T?", "T4", false},
        {"T4*", "Tesla-T4", false},
        {"A100", "A100-SXM4-80GB", false},
        {"Tesla-T4", "Quadro-T4", false},
        {"T5", "T4", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        if (model_is_named(text_of(row[i].name), text_of(row[i].model)) != row[i].exact)
            fail_msg("\"%s\" and \"%s\": expected %d", row[i].name, row[i].model, row[i].exact);
}

TEST(part__of_a_gpu)
{
    static const struct {
        const char *model;
        const char *whole;
        uint32_t mib;
    } row[] = {
        {"A100-SXM4-40GB-MIG-1g.5gb", "A100-SXM4-40GB", 5 * 1024},
        {"A100-SXM4-80GB-mig-2g.20GB", "A100-SXM4-80GB", 20 * 1024},
        {"H100-PCIe-MIG-1c.3g.40gb", "H100-PCIe", 40 * 1024},
        {"H100-PCIe-MIG-1g.10gb.me", "H100-PCIe", 10 * 1024},
        {"A100-MIG-x", "A100", 0},
        {"A100-MIG-1g.5g", "A100", 0},
        {"A100-MIG-1g.5000gb", "A100", 0},
        {"A100-MIG-1g.500gb", "A100", 500 * 1024},
        {"A100-MIG-1g.gb", "A100", 0},
        {"L40S-24Q", "L40S", 24 * 1024},
        {"A16-4c", "A16", 4 * 1024},
        {"A16-8A", "A16", 8 * 1024},
        {"T4-2B", "T4", 2 * 1024},
        {"T4-1B4", "T4", 1024},
        {"M10-0B", "M10", 512},
        {"H100-141C", "H100", 141 * 1024},
        {"A100-1-5C", "A100", 5 * 1024},
        {"A100-1-5CME", "A100", 5 * 1024},
        {"RTX-PRO-6000-Blackwell-DC-1-24Q", "RTX-PRO-6000-Blackwell-DC", 24 * 1024},
        {"RTX-6000-24Q", "RTX-6000", 24 * 1024},
        {"4-8Q", "4", 8 * 1024},
        {"GRID-V100D-8Q", "V100D", 8 * 1024},
        {"GRID--8Q", "GRID-", 8 * 1024},
        {"Tesla-T4-SHARED", "Tesla-T4", 0},
        {"a100-mig-1g.5gb-shared", "a100", 5 * 1024},
        {"A40-8Q-SHARED", "A40", 8 * 1024},
        {"SHARED-8Q", "SHARED", 8 * 1024},
        {"A100-9Q", "A100", 9 * 1024},
        {"A100-MIG-1g.5gb.gb", "A100", 5 * 1024},
        {"A100-MIG-1g.10gb+me", "A100", 10 * 1024},
        {"X-1-5C", "X", 5 * 1024},
        {"X-MIG-1g.5gb", "X", 5 * 1024},
        /* whole GPUs */
        {"A100-SXM4-80GB", NULL, 0},
        {"H20-3e", NULL, 0},
        {"RTX-4090-D", NULL, 0},
        {"PG506-232", NULL, 0},
        {"A100-1000Q", NULL, 0},
        {"A100-Q", NULL, 0},
        {"A100-8QX", NULL, 0},
        {"A100-MIG-", NULL, 0},
        {"-MIG-1g.5gb", NULL, 0},
        {"T4-1234567Q", NULL, 0},
        {"24Q", NULL, 0},
        {"-24Q", NULL, 0},
        {"-SHARED", NULL, 0},
        {"SHARED", NULL, 0},
        {"", NULL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct model_part part;
        const bool is = model_part(text_of(row[i].model), &part);
        if (is != (row[i].whole != NULL))
            fail_msg("\"%s\" is a part: %d", row[i].model, is);
        if (is && !text_is(part.whole, row[i].whole))
            fail_msg("\"%s\" is part of \"%.*s\"", row[i].model, TEXT_ARG(part.whole));
        if (is && part.mib != row[i].mib)
            fail_msg("\"%s\" has %u MiB", row[i].model, part.mib);
    }
}

/* A name is not terminated. */
TEST(a_name_ends_where_it_ends)
{
    struct model_part part;

    assert_false(model_part(text_first(TEXT("A100-80"), 6), &part));
    assert_false(model_takes(TEXT("A100"), text_first(TEXT("A101-SXM4"), 4)));
    assert_true(model_takes(TEXT("A100"), text_first(TEXT("A100-SXM4"), 4)));
}

TEST(names__joined_without_comma)
{
    static const char *const several[] = {"T4-L4",
                                          "T4-or-L4",
                                          "T4/L4",
                                          "T4+L4",
                                          "T4&L4",
                                          "T4:L4",
                                          "T4*-L4*",
                                          "A100-L4",
                                          "Tesla-T4-L4",
                                          "T4-and-L4",
                                          "RTX-4090-RTX-5090",
                                          "A100-SXM4-80GB-H100",
                                          "T4-L4-x"};
    static const char *const one[] = {"T4",
                                      "Tesla-T4",
                                      "Quadro-RTX-6000",
                                      "A100-SXM4-80GB",
                                      "A100-80GB",
                                      "GRID-T4-16Q",
                                      "RTX-6000-Ada-Generation",
                                      "DGX-H100",
                                      "Jetson-Orin",
                                      "foo-bar",
                                      "T4-",
                                      "x-T4",
                                      "T4L4",
                                      "RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
                                      "T4_L4"};
    for (size_t i = 0; i < ARRAY_LEN(several); i++)
        if (!model_names_several(text_of(several[i])))
            fail_msg("\"%s\" is one name", several[i]);
    for (size_t i = 0; i < ARRAY_LEN(one); i++)
        if (model_names_several(text_of(one[i])))
            fail_msg("\"%s\" is several names", one[i]);
}

static size_t distance(const char *glob, const char *model)
{
    return model_distance(text_of(glob), text_of(model));
}

TEST(the_distance_is_of_what_people_mean)
{
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

TEST(the_distance_of_long_names_is_that_of_their_beginnings)
{
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
