#include <stdint.h>
#include <string.h>

#include "milligpu/core/facts/model.h"

#include "support/pieces.h"
#include "support/test.h"

static bool takes(const char *glob, const char *model)
{
    char glob_buf[MODEL_BYTES_MAX];
    char model_buf[MODEL_BYTES_MAX];
    return model_takes(model_bare(text_of(glob), glob_buf), model_bare(text_of(model), model_buf));
}

/* Does the name or glob take each of the models, separated by commas, or none of them? */
static void check_takes(const char *name, const char *models, bool expected)
{
    for (struct pieces list = {.rest = text_of(models)}; pieces_next(&list, ',');) {
        const char *model = list.text + strspn(list.text, " ");
        if (takes(name, model) != expected)
            fail_msg("\"%s\" and \"%s\": expected %d", name, model, expected);
    }
}

static void taken(const char *name, const char *models)
{
    check_takes(name, models, true);
}

static void not_taken(const char *name, const char *models)
{
    check_takes(name, models, false);
}

TEST(model_takes__treats_vendor_words_as_optional)
{
    taken("T4", "T4, Tesla-T4, NVIDIA-Tesla-T4");
    taken("t4", "nvidia tesla t4");
    taken("Tesla-T4", "T4");
    taken("NVIDIA-Tesla-T4", "T4");
    taken("tesla t4", "NVIDIA-Tesla-T4");
    not_taken("T4", "T4G, Tesla-T40");
    not_taken("Tesla-T4", "Quadro-T4");
    taken("RTX-3090", "NVIDIA-GeForce-RTX-3090");
    taken("GeForce-RTX-3090", "RTX-3090");
    taken("RTX-8000", "Quadro-RTX-8000");
    taken("RTX-*", "GeForce-RTX-3090, Quadro-RTX-8000");
    not_taken("RTX-*", "GeForce-GTX-1080");
    taken("Tesla*", "Tesla-T4");
    not_taken("Tesla*", "A100");
    taken("NVIDIA*", "Tesla-T4, A100");
    taken("NVIDIA-T*", "Tesla-T4");
    not_taken("NVIDIA*V", "A100");
    /* before a wildcard, the vendor's word is required */
    taken("GeForce-RTX-*", "GeForce-RTX-3090");
    not_taken("GeForce-RTX-*", "RTX-6000-Ada-Generation, Quadro-RTX-8000");
    not_taken("GeForce-?TX-9", "RTX-9");
    not_taken("Tesla-*", "A100-SXM4-80GB");
    not_taken("Tesla-T?", "T4");
    /* the words alone are names */
    not_taken("Tesla-", "");
    taken("Tesla-", "Tesla-");
    not_taken("T4", "Tesla-");
    not_taken("Tesla", "Tesla-T4");
    taken("Jetson Orin", "Orin");
    taken("Orin", "Jetson-Orin");
    not_taken("A100", "");
    taken("*", "");
}

TEST(model_bare__turns_blanks_into_dashes_and_drops_the_maker)
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

TEST(model_takes__compares_the_longest_name_whole)
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

TEST(model_name__matches_from_the_left)
{
    taken("A100", "NVIDIA-A100-SXM4-80GB, NVIDIA-A100-PCIE-40GB, A100");
    taken("a100", "A100-SXM4-40GB");
    taken("NVIDIA A100", "A100-SXM4-40GB");
    taken("Tesla A100", "A100-SXM4-40GB");
    taken("Tesla-V100", "Tesla-V100-SXM2-16GB");
    not_taken("Quadro-V100", "Tesla-V100-SXM2-16GB");
    taken("A100 80GB", "NVIDIA-A100-80GB-PCIe");
    not_taken("A100-80", "NVIDIA-A100-80GB-PCIe");
    not_taken("A100", "RTX-A100-8GB, A1000, A100X");
    not_taken("A10", "A100-SXM4-80GB, A10G");
    not_taken("T4", "T4G");
    not_taken("L4", "L40");
    not_taken("L40", "L40S");
    not_taken("H20", "H200, H20-3e, H20-3e-x");
    taken("H20", "H20-3eX, H20-x");
    taken("H200", "H200-3e, H200-NVL");
    taken("H20-3e", "NVIDIA-H20-3e");
    taken("H100", "H100-80GB-HBM3");
    taken("nvidia-h100-80gb", "NVIDIA-H100-80GB-HBM3");
    taken("GH200", "NVIDIA-GH200-480GB");
    not_taken("H200", "GH200-480GB");
}

TEST(model_name__takes_no_part_of_a_gpu)
{
    not_taken("A100", "A100-SXM4-80GB-MIG-1g.10gb, A100-1-5C");
    not_taken("A100-SXM4-80GB", "A100-SXM4-80GB-MIG-1g.10gb");
    taken("A100-SXM4-80GB-MIG", "A100-SXM4-80GB-MIG-1g.10gb");
    taken("A100-SXM4-80GB-MIG-1g.10gb", "A100-SXM4-80GB-MIG-1g.10gb");
    not_taken("A40", "NVIDIA-A40-48Q");
    taken("A40-48Q", "NVIDIA-A40-48Q");
    not_taken("T4", "GRID-T4-16Q, Tesla-T4-SHARED");
    not_taken("GRID", "GRID-T4-16Q");
    not_taken("GRID-T4", "GRID-T4-16Q");
    taken("GRID T4-16Q", "GRID-T4-16Q");
    taken("A100-1", "A100-1-5C");
    taken("Tesla-T4-SHARED", "Tesla-T4-SHARED");
    /* globs match parts, too */
    taken("A40*", "NVIDIA-A40-48Q");
    taken("H20*", "H20-3e");
    taken("H2*", "H20-3e");
    not_taken("A10?", "A100-SXM4-80GB");
}

TEST(model_name__takes_no_other_product)
{
    not_taken("RTX-4090", "NVIDIA-GeForce-RTX-4090-D, GeForce-RTX-4090-Laptop-GPU");
    not_taken("RTX-5090", "GeForce-RTX-5090-D-v2");
    taken("RTX-5090", "GeForce-RTX-5090-Dx");
    taken("RTX-4090-D", "NVIDIA-GeForce-RTX-4090-D");
    not_taken("RTX-3080", "NVIDIA-GeForce-RTX-3080-Ti");
    not_taken("RTX-4070", "GeForce-RTX-4070-Ti-SUPER");
    taken("RTX-4070", "GeForce-RTX-4070-Tix");
    not_taken("RTX-4070-Ti", "GeForce-RTX-4070-Ti-SUPER");
    not_taken("RTX-4080", "GeForce-RTX-4080-SUPER, GeForce-RTX-4080-SUPER-x");
    not_taken("RTX-6000", "RTX-6000-Ada-Generation");
    not_taken("RTX-5000", "RTX-5000-Ada-Generation");
    not_taken("RTX-4000", "RTX-4000-Ada-Generation, RTX-4000-SFF-Ada-Generation");
    not_taken("RTX-3000", "RTX-3000-Ada-Generation");
    taken("RTX-2000", "RTX-2000-Ada-Generation");
    taken("RTX-4500", "RTX-4500-Ada-Generation");
    taken("RTX-6000-Ada", "RTX-6000-Ada-Generation");
    not_taken("Quadro RTX 6000", "RTX-6000-Ada-Generation");
    not_taken("RTX-PRO-4000", "RTX-PRO-4000-Blackwell-SFF-Edition");
    taken("RTX-PRO-6000", "RTX-PRO-6000-Blackwell-Server-Edition, "
                          "RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition");
    not_taken("RTX-5000-Ada", "RTX-5000-Ada-Generation-Laptop-GPU, "
                              "RTX-5000-Ada-Generation-Embedded-GPU");
    taken("RTX-4090-Laptop", "GeForce-RTX-4090-Laptop-GPU");
    not_taken("RTX-A4500", "RTX-A4500-Embedded-GPU");
    not_taken("RTX-2080", "GeForce-RTX-2080-with-Max-Q-Design");
    not_taken("GTX-1070", "GeForce-GTX-1070-Max-Q");
    taken("RTX-A2000", "NVIDIA-RTX-A2000-12GB");
}

TEST(model_is_named__needs_the_exact_name)
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

TEST(model_part__names_the_whole_and_the_memory)
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

/* Names are not NUL-terminated. */
TEST(model_text__needs_no_terminator)
{
    struct model_part part;

    assert_false(model_part(text_first(TEXT("A100-80"), 6), &part));
    assert_false(model_takes(TEXT("A100"), text_first(TEXT("A101-SXM4"), 4)));
    assert_true(model_takes(TEXT("A100"), text_first(TEXT("A100-SXM4"), 4)));
}

/* Names are separated by blanks. */
static void check_several(const char *names, bool several)
{
    for (struct pieces list = {.rest = text_of(names)}; pieces_next(&list, ' ');)
        if (model_names_several(text_of(list.text)) != several)
            fail_msg("\"%s\" is %s", list.text, several ? "one name" : "several names");
}

TEST(model_names_several__sees_names_joined_without_comma)
{
    check_several("T4-L4 T4-or-L4 T4/L4 T4+L4 T4&L4 T4:L4 T4*-L4* A100-L4 Tesla-T4-L4 T4-and-L4 "
                  "RTX-4090-RTX-5090 A100-SXM4-80GB-H100 T4-L4-x",
                  true);
    check_several("T4 Tesla-T4 Quadro-RTX-6000 A100-SXM4-80GB A100-80GB GRID-T4-16Q "
                  "RTX-6000-Ada-Generation DGX-H100 Jetson-Orin foo-bar T4- x-T4 T4L4 "
                  "RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition T4_L4",
                  false);
}

TEST(model_distance__is_small_for_a_likely_typo)
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
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const size_t far = model_distance(text_of(row[i].glob), text_of(row[i].model));
        if (far != row[i].distance)
            fail_msg("\"%s\" and \"%s\": %zu", row[i].glob, row[i].model, far);
    }
}

TEST(model_distance__compares_the_first_64_bytes)
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
