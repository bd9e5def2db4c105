/* Prices of GPU models: from the document, the table of known models, or the memory. */
#include "milligpu/core/facts/model.h"
#include "milligpu/core/rules/rulebook.h"

#include "support/test.h"

static uint32_t price_of(const struct rulebook *book, const char *model)
{
    return rulebook_price(book, text_of(model), 0);
}

static int set_up(void **state)
{
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "p");

    book->prices_by = PRICES_KNOWN;
    *state = book;
    return 0;
}

static int tear_down(void **state)
{
    rulebook_unref(*state);
    return 0;
}

/* A rulebook with the prices of known models. */
#define PRICES_TEST(name) TEST_WITH(name, struct rulebook *book, set_up, tear_down)

PRICES_TEST(price__is_zero_without_prices)
{
    static const struct model_price said[] = {{"T4", 7}};
    book->prices_by = PRICES_OFF;
    book->n_prices = 1;
    book->price = said;
    assert_int_equal(price_of(book, "T4"), 0);
    assert_int_equal(rulebook_price(book, TEXT("T4"), 16384), 0);
}

PRICES_TEST(price__of_the_document_comes_first)
{
    static const struct model_price said[] = {{"A100*", 1}, {"A*", 6}, {"Tesla-T4", PRICE_MAX}};
    book->n_prices = 2;
    book->price = said;
    assert_int_equal(price_of(book, "NVIDIA A100-SXM4-80GB"), 1);
    assert_int_equal(price_of(book, "A30"), 6);
    assert_int_equal(price_of(book, "T4"), 100);
    book->n_prices = 3;
    assert_int_equal(price_of(book, "T4"), PRICE_MAX);
}

PRICES_TEST(price__of_an_exact_name_comes_before_globs)
{
    static const struct model_price said[] = {{"A100*", 1},          {"A100", 2}, {"NVIDIA-x", 3},
                                              {"A100-SXM4-80GB", 4}, {"T4", 5},   {"T4", 6}};
    book->n_prices = ARRAY_LEN(said);
    book->price = said;
    assert_int_equal(price_of(book, "NVIDIA A100-SXM4-80GB"), 4);
    assert_int_equal(price_of(book, "NVIDIA A100"), 2);
    assert_int_equal(price_of(book, "NVIDIA A100-PCIE-40GB"), 1);
    assert_int_equal(price_of(book, "Tesla-T4"), 5);
    book->price = said + 1;
    book->n_prices--;
    assert_int_equal(price_of(book, "NVIDIA A100-PCIE-40GB"), 2); /* from the left */
}

PRICES_TEST(price__of_a_part_is_proportional)
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
        {"NVIDIA-L40S-MIG-x", 0, 480},   /* a part of unknown size */
        {"Tesla-T4-SHARED", 0, 100},
        {"GRID-V100D-8Q", 8192, 70},
        {"GRID-A100D-40C", 40960, 450},
        {"Tesla-K80-1Q", 1, 1},
        {"card-8Q", 16384, 100}, /* not known: by memory */
        {"card-8Q", 0, PRICE_MAX},
        {"-MIG-1g.5gb", 0, PRICE_MAX}, /* a slice of nothing */
    };
    for (size_t i = 0; i < ARRAY_LEN(says); i++) {
        const uint32_t price = rulebook_price(book, text_of(says[i].model), says[i].mib);
        if (price != says[i].price)
            fail_msg("%s with %u MiB costs %u", says[i].model, says[i].mib, price);
    }
}

PRICES_TEST(price__of_a_part_follows_the_document)
{
    static const struct model_price whole[] = {{"L40S*", 1000}, {"card", 50}};
    static const struct model_price parts[] = {{"L40S*", 1000}, {"L40S-24Q", 7}};
    static const struct model_price some[] = {{"*-24Q", 9}};
    book->price = whole;
    book->n_prices = 2;
    assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-24Q"), 24576), 500);
    assert_int_equal(rulebook_price(book, TEXT("card-8Q"), 1), 50); /* of an unknown whole */
    book->price = parts;
    assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-24Q"), 24576), 7);
    assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-12Q"), 12288), 250);
    book->price = some;
    book->n_prices = 1;
    assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-24Q"), 12288), 9);
    assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-12Q"), 12288), 120);
}

PRICES_TEST(price__of_one_is_not_absent)
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
        book->price = row[i].price;
        book->n_prices = 2;
        assert_int_equal(rulebook_price(book, TEXT("NVIDIA-L40S-24Q"), 24576), row[i].should);
    }
}

/* Labels of gpu-feature-discovery, cheapest first. */
static const struct {
    const char *model;
    uint32_t mib;
    uint32_t price;
} product_row[] = {
    {"Tesla-K80", 11441, 30},
    {"Quadro-P2000", 5120, 31},
    {"NVIDIA-GeForce-GTX-1660-Ti", 6144, 37},
    {"Orin", 0, 40},
    {"Tesla-M60", 8192, 50},
    {"NVIDIA-A2", 15356, 60},
    {"GRID-V100D-8Q", 8192, 70},
    {"GRID-T4-16Q", 16384, 100},
    {"Tesla-T4", 15360, 100},
    {"NVIDIA-RTX-2000-Ada-Generation", 16380, 105},
    {"Tesla-P100-SXM2-16GB", 16384, 110},
    {"NVIDIA-GeForce-RTX-3080-Ti", 12288, 115},
    {"NVIDIA-A16", 15356, 120},
    {"NVIDIA-TITAN-V", 12288, 130},
    {"NVIDIA-L2", 24564, 140},
    {"NVIDIA-RTX-4000-Ada-Generation", 20475, 145},
    {"NVIDIA-L4", 23034, 150},
    {"NVIDIA-PG506-232", 24576, 150},
    {"NVIDIA-TITAN-RTX", 24576, 160},
    {"Quadro-RTX-6000", 24576, 180},
    {"NVIDIA-A10", 23028, 200},
    {"NVIDIA-A10G", 23028, 200},
    {"NVIDIA-GeForce-RTX-4090-D", 24564, 205},
    {"NVIDIA-GeForce-RTX-4090", 24564, 210},
    {"NVIDIA-L40S-24Q", 24576, 240},
    {"Tesla-V100-SXM2-16GB", 16384, 240},
    {"NVIDIA-GB10", 0, 250},
    {"Tesla-V100-PCIE-32GB", 32768, 280},
    {"Tesla-V100-SXM2-32GB", 32768, 280},
    {"NVIDIA-Graphics-Device", 49140, 299},
    {"NVIDIA-A30", 24576, 300},
    {"NVIDIA-GeForce-RTX-5090", 32607, 310},
    {"NVIDIA-RTX-A6000", 49140, 320},
    {"NVIDIA-A40", 46068, 350},
    {"NVIDIA-A40-48Q", 49152, 350},
    {"NVIDIA-L20", 46068, 380},
    {"NVIDIA-L40", 46068, 420},
    {"GRID-A100D-40C", 40960, 450},
    {"NVIDIA-RTX-6000-Ada-Generation", 49140, 450},
    {"NVIDIA-L40S", 46068, 480},
    {"A100-SXM4-40GB", 40536, 700},
    {"NVIDIA-A100-PCIE-40GB", 40960, 700},
    {"NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition", 97887, 800},
    {"NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97887, 800},
    {"NVIDIA-A100-80GB-PCIe", 81920, 900},
    {"NVIDIA-A100-SXM4-80GB", 81920, 900},
    {"NVIDIA-H20", 97871, 1200},
    {"NVIDIA-H20-3e", 143771, 1400},
    {"NVIDIA-H100-PCIe", 81559, 1600},
    {"NVIDIA-H100-NVL", 95830, 1800},
    {"NVIDIA-H800", 81559, 1900},
    {"NVIDIA-H100-80GB-HBM3", 81559, 2000},
    {"NVIDIA-H200", 143771, 2500},
    {"NVIDIA-H200-NVL", 143771, 2500},
    {"NVIDIA-GH200-480GB", 97871, 2800},
    {"NVIDIA-B200", 183359, 4000},
    {"NVIDIA-GB200", 189471, 4500},
    {"NVIDIA-B300-SXM6-AC", 275040, 5000},
    {"NVIDIA-GB300", 284208, 5500},
    {"unknown", 0, PRICE_MAX},
};

PRICES_TEST(price__orders_known_products)
{
    for (size_t i = 0; i < ARRAY_LEN(product_row); i++) {
        const uint32_t price =
            rulebook_price(book, text_of(product_row[i].model), product_row[i].mib);
        if (price != product_row[i].price)
            fail_msg("%s costs %u", product_row[i].model, price);
        assert_true(i == 0 || price >= product_row[i - 1].price);
    }
}

/* Other names of these products, and other products. */
PRICES_TEST(price__is_known_by_any_name)
{
    static const struct model_price says[] = {
        {"Tesla T4", 100},
        {"NVIDIA-Tesla-T4", 100},
        {"T4G", 100},
        {"P4", 70},
        {"Tesla-P40", 90},
        {"Tesla-P100-PCIE-16GB", 110},
        {"V100M32", 280},
        {"NVIDIA A16", 120},
        {"NVIDIA-RTX-A5000", 190},
        {"NVIDIA-RTX-A4000", 110},
        {"NVIDIA-GeForce-RTX-3090-Ti", 140},
        {"NVIDIA-A100-SXM4-40GB", 700},
        {"NVIDIA-A100-PCIE-40GB-MIG-1g.5gb", 87},
        {"nvidia-h100-80gb-hbm3-shared", 2000},
        {"AMD-Instinct-MI300X", 2200},
    };
    for (size_t i = 0; i < ARRAY_LEN(says); i++)
        if (price_of(book, says[i].model) != says[i].price)
            fail_msg("%s costs %u", says[i].model, price_of(book, says[i].model));
}

PRICES_TEST(price__of_an_unknown_model_follows_its_memory)
{
    char long_name[MODEL_BYTES_MAX + 2];
    for (size_t i = 0; i < sizeof long_name - 1; i++)
        long_name[i] = 'x';
    long_name[sizeof long_name - 1] = '\0';
    static const struct {
        uint32_t mib;
        uint32_t price;
    } says[] = {
        {0, PRICE_MAX}, /* unknown memory sorts last */
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
    book->n_prices = 1;
    book->price = said;
    assert_int_equal(rulebook_price(book, text_of(long_name), 32768), 9);
    assert_int_equal(rulebook_named_price(book, TEXT("")).price, 0); /* no name is no model */
}

PRICES_TEST(product_table__has_no_unreachable_line)
{
    const struct product *product;
    uint32_t lines = 0;
    for (; (product = product_at(lines)) != NULL; lines++) {
        char name[MODEL_BYTES_MAX];
        size_t len = 0;
        /* A name made from the glob must match this line, not an earlier one. */
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
}

TEST(rule_next__is_the_next_amount_that_the_rule_allows)
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
    const struct rule sizes = {.n_sizes = 2, .size = {250, 500}};
    assert_int_equal(rule_next(&sizes, 100), 250);
    assert_int_equal(rule_next(&sizes, 251), 500);
    assert_int_equal(rule_next(&sizes, 501), 0);
    const struct rule one_size = {.n_sizes = 1, .size = {500}};
    assert_int_equal(rule_next(&one_size, 300), 500);
    assert_int_equal(rule_next(&one_size, 600), 0);
    rule.n_sizes = 3;
    rule.size[0] = 280; /* below the least */
    rule.size[1] = 400; /* no multiple */
    rule.size[2] = 420;
    assert_int_equal(rule_next(&rule, 1), 420);
    assert_int_equal(rule_next(&rule, 420), 420);
    assert_int_equal(rule_next(&rule, 421), 0);
    rule.n_sizes = 0;
    rule.whole = true;
    rule.step_milli = 100;
    assert_int_equal(rule_next(&rule, 1), 1000);
    rule.step_milli = 70;
    assert_int_equal(rule_next(&rule, 1), 0);
    rule.n_sizes = 1;
    assert_int_equal(rule_next(&rule, 1), 0);
}
