/* What a GPU of a model costs: by the document, by the table of known models, by memory. */
#include "milligpu/core/facts/model.h"
#include "milligpu/core/rules/rulebook.h"

#include "support/test.h"

static uint32_t price_of(const struct rulebook *book, const char *model)
{
    return rulebook_price(book, text_of(model), 0);
}

static struct rulebook *known_prices(void)
{
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "p");
    book->prices_by = PRICES_KNOWN;
    return book;
}

TEST(without_prices_all_models_cost_nothing)
{
    static const struct model_price said[] = {{"T4", 7}};
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "p");
    book->prices = 1;
    book->price = said;
    assert_int_equal(price_of(book, "T4"), 0);
    assert_int_equal(rulebook_price(book, TEXT("T4"), 16384), 0);
    rulebook_unref(book);
}

TEST(known_models_cost_what_their_class_does)
{
    static const struct {
        const char *model;
        uint32_t price;
    } says[] = {
        {"Tesla T4", 100},
        {"NVIDIA-Tesla-T4", 100},
        {"T4G", 100},
        {"P4", 70},
        {"Tesla-P40", 90},
        {"Tesla-P100-PCIE-16GB", 110},
        {"Tesla-V100-SXM2-16GB", 240},
        {"Tesla-V100-SXM2-32GB", 280},
        {"V100M32", 280},
        {"NVIDIA-A2", 60},
        {"NVIDIA-A10", 200},
        {"NVIDIA-A10G", 200},
        {"NVIDIA A16", 120},
        {"NVIDIA-A30", 300},
        {"NVIDIA-A40", 350},
        {"NVIDIA-A40-48Q", 350},
        {"NVIDIA-L20", 380},
        {"NVIDIA-H20-3e", 1400},
        {"NVIDIA-L4", 150},
        {"NVIDIA-L40", 420},
        {"NVIDIA-L40S", 480},
        {"NVIDIA-RTX-6000-Ada-Generation", 450},
        {"NVIDIA-RTX-A6000", 320},
        {"NVIDIA-RTX-A5000", 190},
        {"NVIDIA-RTX-A4000", 110},
        {"Quadro-RTX-6000", 180},
        {"NVIDIA-GeForce-RTX-3090-Ti", 140},
        {"NVIDIA-GeForce-RTX-4090", 210},
        {"NVIDIA-A100-SXM4-40GB", 700},
        {"NVIDIA-A100-PCIE-40GB-MIG-1g.5gb", 87},
        {"NVIDIA-A100-SXM4-80GB", 900},
        {"NVIDIA-A100-80GB-PCIe", 900},
        {"NVIDIA-H100-PCIe", 1600},
        {"NVIDIA-H100-NVL", 1800},
        {"NVIDIA-H100-80GB-HBM3", 2000},
        {"nvidia-h100-80gb-hbm3-shared", 2000},
        {"NVIDIA-H20", 1200},
        {"NVIDIA-H200", 2500},
        {"NVIDIA-B200", 4000},
        {"NVIDIA-GB200", 4500},
        {"AMD-Instinct-MI300X", 2200},
    };
    struct rulebook *book = known_prices();
    for (size_t i = 0; i < ARRAY_LEN(says); i++)
        if (price_of(book, says[i].model) != says[i].price)
            fail_msg("%s costs %u, not %u", says[i].model, price_of(book, says[i].model),
                     says[i].price);
    rulebook_unref(book);
}

TEST(what_the_document_says_comes_first)
{
    static const struct model_price said[] = {{"A100*", 1}, {"A*", 6}, {"Tesla-T4", PRICE_MAX}};
    struct rulebook *book = known_prices();
    book->prices = 2;
    book->price = said;
    assert_int_equal(price_of(book, "NVIDIA A100-SXM4-80GB"), 1);
    assert_int_equal(price_of(book, "A30"), 6);
    assert_int_equal(price_of(book, "T4"), 100);
    book->prices = 3;
    assert_int_equal(price_of(book, "T4"), PRICE_MAX);
    rulebook_unref(book);
}

TEST(exact_name_comes_before_the_first_match)
{
    static const struct model_price said[] = {{"A100*", 1},          {"A100", 2}, {"NVIDIA-x", 3},
                                              {"A100-SXM4-80GB", 4}, {"T4", 5},   {"T4", 6}};
    struct rulebook *book = known_prices();
    book->prices = ARRAY_LEN(said);
    book->price = said;
    assert_int_equal(price_of(book, "NVIDIA A100-SXM4-80GB"), 4);
    assert_int_equal(price_of(book, "NVIDIA A100"), 2);
    assert_int_equal(price_of(book, "NVIDIA A100-PCIE-40GB"), 1);
    assert_int_equal(price_of(book, "Tesla-T4"), 5);
    book->price = said + 1;
    book->prices--;
    assert_int_equal(price_of(book, "NVIDIA A100-PCIE-40GB"), 2); /* from the left */
    rulebook_unref(book);
}

TEST(part_costs_its_part)
{
    static const struct {
        const char *model;
        uint32_t mib;
        uint32_t price;
    } says[] = {
        {"NVIDIA-L40S-24Q", 24576, 240},
        {"NVIDIA-L40S-24Q", 0, 240}, /* by its name */
        {"NVIDIA-L40S-24Q", 12288, 120},
        {"NVIDIA-L40S-48Q", 49152, 480},
        {"NVIDIA-L40S-48Q", 49151, 479},
        {"NVIDIA-L40S-48Q", 99999, 480}, /* never more than the whole */
        {"NVIDIA-L40S-MIG-x", 0, 480},   /* nobody knows how much of it */
        {"Tesla-T4-SHARED", 0, 100},
        {"GRID-V100D-8Q", 8192, 70},
        {"GRID-A100D-40C", 40960, 450},
        {"Tesla-K80-1Q", 1, 1},
        {"card-8Q", 16384, 100}, /* not known: by memory */
        {"card-8Q", 0, PRICE_MAX},
    };
    struct rulebook *book = known_prices();
    for (size_t i = 0; i < ARRAY_LEN(says); i++) {
        const uint32_t price = rulebook_price(book, text_of(says[i].model), says[i].mib);
        if (price != says[i].price)
            fail_msg("%s with %u MiB costs %u", says[i].model, says[i].mib, price);
    }
    rulebook_unref(book);
}

TEST(part_costs_its_part_of_what_the_document_says)
{
    static const struct model_price whole[] = {{"L40S*", 1000}, {"card", 50}};
    static const struct model_price parts[] = {{"L40S*", 1000}, {"L40S-24Q", 7}};
    static const struct model_price some[] = {{"*-24Q", 9}};
    struct rulebook *book = known_prices();
    book->price = whole;
    book->prices = 2;
    assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-24Q"), 24576), 500);
    assert_int_equal(rulebook_price(book, TEXT("card-8Q"), 1), 50); /* of an unknown whole */
    book->price = parts;
    assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-24Q"), 24576), 7);
    assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-12Q"), 12288), 250);
    book->price = some;
    book->prices = 1;
    assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-24Q"), 12288), 9);
    assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-12Q"), 12288), 120);
    rulebook_unref(book);
}

TEST(a_price_of_one_is_a_price)
{
    static const struct {
        struct model_price price[2];
        uint32_t should;
    } row[] = {
        {{{"L40S-24Q", 1}, {"L40S*", 1000}}, 1},
        {{{"L40S-24Q", 7}, {"L40S*", 1000}}, 7},
        {{{"*-24Q", 1}, {"nothing", 5}}, 1},
        {{{"L40S", 1}, {"nothing", 5}}, 1},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct rulebook *book = known_prices();
        book->price = row[i].price;
        book->prices = 2;
        assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-24Q"), 24576), row[i].should);
        rulebook_unref(book);
    }
}

/* A label may be anything: what is no part of a GPU has a price, too. */
TEST(a_model_that_is_only_a_slice_has_a_price)
{
    struct rulebook *book = known_prices();
    assert_int_equal(rulebook_price(book, TEXT("-MIG-1g.5gb"), 0), PRICE_MAX);
    rulebook_unref(book);
}

/* Labels of gpu-feature-discovery, cheapest first; a line's products cost the same. */
static const struct {
    const char *model;
    uint32_t mib;
    bool dearer; /* than the one before */
} product_row[] = {
    {"Tesla-K80", 11441, true},
    {"Quadro-P2000", 5120, true},
    {"NVIDIA-GeForce-GTX-1660-Ti", 6144, true},
    {"Orin", 0, true},
    {"Tesla-M60", 8192, true},
    {"NVIDIA-A2", 15356, true},
    {"GRID-V100D-8Q", 8192, true},
    {"GRID-T4-16Q", 16384, true},
    {"Tesla-T4", 15360, false},
    {"NVIDIA-RTX-2000-Ada-Generation", 16380, true},
    {"Tesla-P100-SXM2-16GB", 16384, true},
    {"NVIDIA-GeForce-RTX-3080-Ti", 12288, true},
    {"NVIDIA-A16", 15356, true},
    {"NVIDIA-TITAN-V", 12288, true},
    {"NVIDIA-L2", 24564, true},
    {"NVIDIA-RTX-4000-Ada-Generation", 20475, true},
    {"NVIDIA-L4", 23034, true},
    {"NVIDIA-PG506-232", 24576, false},
    {"NVIDIA-TITAN-RTX", 24576, true},
    {"Quadro-RTX-6000", 24576, true},
    {"NVIDIA-A10", 23028, true},
    {"NVIDIA-A10G", 23028, false},
    {"NVIDIA-GeForce-RTX-4090-D", 24564, true},
    {"NVIDIA-GeForce-RTX-4090", 24564, true},
    {"NVIDIA-L40S-24Q", 24576, true},
    {"Tesla-V100-SXM2-16GB", 16384, false},
    {"NVIDIA-GB10", 0, true},
    {"Tesla-V100-PCIE-32GB", 32768, true},
    {"Tesla-V100-SXM2-32GB", 32768, false},
    {"NVIDIA-Graphics-Device", 49140, true},
    {"NVIDIA-A30", 24576, true},
    {"NVIDIA-GeForce-RTX-5090", 32607, true},
    {"NVIDIA-RTX-A6000", 49140, true},
    {"NVIDIA-A40", 46068, true},
    {"NVIDIA-A40-48Q", 49152, false},
    {"NVIDIA-L20", 46068, true},
    {"NVIDIA-L40", 46068, true},
    {"GRID-A100D-40C", 40960, true},
    {"NVIDIA-RTX-6000-Ada-Generation", 49140, false},
    {"NVIDIA-L40S", 46068, true},
    {"A100-SXM4-40GB", 40536, true},
    {"NVIDIA-A100-PCIE-40GB", 40960, false},
    {"NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition", 97887, true},
    {"NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97887, false},
    {"NVIDIA-A100-80GB-PCIe", 81920, true},
    {"NVIDIA-A100-SXM4-80GB", 81920, false},
    {"NVIDIA-H20", 97871, true},
    {"NVIDIA-H20-3e", 143771, true},
    {"NVIDIA-H100-PCIe", 81559, true},
    {"NVIDIA-H100-NVL", 95830, true},
    {"NVIDIA-H800", 81559, true},
    {"NVIDIA-H100-80GB-HBM3", 81559, true},
    {"NVIDIA-H200", 143771, true},
    {"NVIDIA-H200-NVL", 143771, false},
    {"NVIDIA-GH200-480GB", 97871, true},
    {"NVIDIA-B200", 183359, true},
    {"NVIDIA-GB200", 189471, true},
    {"NVIDIA-B300-SXM6-AC", 275040, true},
    {"NVIDIA-GB300", 284208, true},
    {"nobody-knows", 0, true},
};

TEST(products_are_in_a_sane_order)
{
    struct rulebook *book = known_prices();
    uint32_t last = 0;
    for (size_t i = 0; i < ARRAY_LEN(product_row); i++) {
        const uint32_t price =
            rulebook_price(book, text_of(product_row[i].model), product_row[i].mib);
        if (product_row[i].dearer ? price <= last : price != last)
            fail_msg("%s costs %u, after %u", product_row[i].model, price, last);
        last = price;
    }
    assert_int_equal(last, PRICE_MAX);
    rulebook_unref(book);
}

TEST(an_unknown_model_costs_what_its_memory_does)
{
    struct rulebook *book = known_prices();
    char long_name[MODEL_BYTES_MAX + 2];
    for (size_t i = 0; i < sizeof long_name - 1; i++)
        long_name[i] = 'x';
    long_name[sizeof long_name - 1] = '\0';
    static const struct {
        uint32_t mib;
        uint32_t price;
    } says[] = {
        {0, PRICE_MAX}, /* what is not known comes last */
        {1, 1},
        {327, 1},
        {328, 2},
        {16384, 100},
        {81920, 500},
        {163840000, PRICE_MAX},
        {163840000 + 164, PRICE_MAX},
        {UINT32_MAX, PRICE_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(says); i++)
        assert_int_equal(rulebook_price(book, TEXT("card"), says[i].mib), says[i].price);
    assert_int_equal(rulebook_price(book, TEXT("card"), 32768), 200);
    assert_int_equal(rulebook_price(book, TEXT(""), 32768), 200);
    assert_int_equal(rulebook_price(book, TEXT(""), 0), PRICE_MAX);
    assert_int_equal(rulebook_price(book, text_of(long_name), 32768), 200);
    assert_int_equal(rulebook_price(book, TEXT("T4"), 32768), 100);
    assert_int_equal(rulebook_named_price(book, TEXT("card")).price, 0);
    assert_int_equal(rulebook_named_price(book, TEXT("T4")).price, 100);
    long_name[MODEL_BYTES_MAX] = '\0';
    const struct model_price said[] = {{"*", 9}};
    book->prices = 1;
    book->price = said;
    assert_int_equal(rulebook_price(book, text_of(long_name), 32768), 9);
    assert_int_equal(rulebook_named_price(book, TEXT("")).price, 0); /* no name is no model */
    rulebook_unref(book);
}

TEST(the_table_can_be_read_and_has_no_line_in_vain)
{
    struct rulebook *book = known_prices();
    const struct product *product;
    uint32_t lines = 0;
    for (; (product = product_at(lines)) != NULL; lines++) {
        char name[MODEL_BYTES_MAX];
        size_t len = 0;
        /* The name that the glob itself spells is of that line, not of one before it. */
        for (const char *c = product->model; *c != '\0'; c++)
            if (*c == '?')
                name[len++] = 'G';
            else if (*c != '*')
                name[len++] = *c;
            else if (c[1] == '\0')
                name[len++] = 'x';
        name[len] = '\0';
        assert_in_range(product->price, 1, PRICE_MAX);
        assert_in_range(product->gib, 8, 288);
        if (price_of(book, name) != product->price)
            fail_msg("%s costs %u, not %u", name, price_of(book, name), product->price);
    }
    assert_true(lines > 40 && lines < 100);
    assert_null(product_at(lines + 1));
    assert_null(product_of(TEXT("card")));
    assert_null(product_of(TEXT("")));
    rulebook_unref(book);
}

TEST(the_next_share_that_a_rule_hands_out)
{
    struct rule rule = {.name = "r"};
    assert_int_equal(rule_next(&rule, 1), 1);
    assert_int_equal(rule_next(&rule, 1000), 1000);
    rule.min_milli = 300;
    assert_int_equal(rule_next(&rule, 1), 300);
    assert_int_equal(rule_next(&rule, 300), 300);
    assert_int_equal(rule_next(&rule, 301), 301);
    rule.step_milli = 70;
    assert_int_equal(rule_next(&rule, 1), 350);
    assert_int_equal(rule_next(&rule, 350), 350);
    assert_int_equal(rule_next(&rule, 980), 980);
    assert_int_equal(rule_next(&rule, 981), 0);
    rule.sizes = 3;
    rule.size[0] = 280; /* below the least */
    rule.size[1] = 400; /* no multiple */
    rule.size[2] = 420;
    assert_int_equal(rule_next(&rule, 1), 420);
    assert_int_equal(rule_next(&rule, 420), 420);
    assert_int_equal(rule_next(&rule, 421), 0);
    rule.sizes = 0;
    rule.whole = true;
    rule.step_milli = 100;
    assert_int_equal(rule_next(&rule, 1), 1000);
    rule.step_milli = 70;
    assert_int_equal(rule_next(&rule, 1), 0);
    rule.sizes = 1;
    assert_int_equal(rule_next(&rule, 1), 0);
}
