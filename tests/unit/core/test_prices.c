/* What a GPU of a model costs: by the document, by the table of known models, by memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "milligpu/rulebook.h"

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

static void without_prices_all_models_cost_nothing(void **state)
{
    (void)state;
    static const struct model_price said[] = {{"T4", 7}};
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "p");
    book->prices = 1;
    book->price = said;
    assert_int_equal(price_of(book, "T4"), 0);
    assert_int_equal(rulebook_price(book, TEXT("T4"), 16384), 0);
    rulebook_unref(book);
}

static void known_models_cost_what_their_class_does(void **state)
{
    (void)state;
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
        {"NVIDIA-A100-PCIE-40GB-MIG-1g.5gb", 700},
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

static void what_the_document_says_comes_first(void **state)
{
    (void)state;
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

static void an_unknown_model_costs_what_its_memory_does(void **state)
{
    (void)state;
    struct rulebook *book = known_prices();
    char long_name[MODEL_BYTES_MAX + 2];
    for (size_t i = 0; i < sizeof long_name - 1; i++)
        long_name[i] = 'x';
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(price_of_memory(0), 100);
    assert_int_equal(price_of_memory(1), 1);
    assert_int_equal(price_of_memory(327), 1);
    assert_int_equal(price_of_memory(328), 2);
    assert_int_equal(price_of_memory(16384), 100);
    assert_int_equal(price_of_memory(81920), 500);
    assert_int_equal(price_of_memory(163840000), PRICE_MAX);
    assert_int_equal(price_of_memory(163840000 + 164), PRICE_MAX);
    assert_int_equal(price_of_memory(UINT32_MAX), PRICE_MAX);
    assert_int_equal(rulebook_price(book, TEXT("card"), 32768), 200);
    assert_int_equal(rulebook_price(book, TEXT(""), 32768), 200);
    assert_int_equal(rulebook_price(book, TEXT(""), 0), 100);
    assert_int_equal(rulebook_price(book, text_of(long_name), 32768), 200);
    assert_int_equal(rulebook_price(book, TEXT("T4"), 32768), 100);
    assert_int_equal(rulebook_named_price(book, TEXT("card")), 0);
    assert_int_equal(rulebook_named_price(book, TEXT("T4")), 100);
    long_name[MODEL_BYTES_MAX] = '\0';
    const struct model_price said[] = {{"*", 9}};
    book->prices = 1;
    book->price = said;
    assert_int_equal(rulebook_price(book, text_of(long_name), 32768), 9);
    assert_int_equal(rulebook_named_price(book, TEXT("")), 0); /* no name is no model */
    rulebook_unref(book);
}

static void the_table_can_be_read_and_has_no_line_in_vain(void **state)
{
    (void)state;
    struct rulebook *book = known_prices();
    struct model_price price;
    uint32_t lines = 0;
    for (; known_price(lines, &price); lines++) {
        char name[MODEL_BYTES_MAX];
        size_t len = 0;
        /* The name that the glob itself spells is of that line, not of one before it. */
        for (const char *c = price.model; *c != '\0'; c++)
            if (*c != '*')
                name[len++] = *c;
            else if (c[1] == '\0')
                name[len++] = 'x';
        if (price.model[len - 1] == '-')
            name[len++] = 'x';
        name[len] = '\0';
        assert_in_range(price.price, 1, PRICE_MAX);
        if (price_of(book, name) != price.price)
            fail_msg("%s costs %u, not %u", name, price_of(book, name), price.price);
    }
    assert_true(lines > 40 && lines < 100);
    assert_false(known_price(lines + 1, &price));
    rulebook_unref(book);
}

static void the_next_share_that_a_rule_hands_out(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_prices_all_models_cost_nothing),
        cmocka_unit_test(known_models_cost_what_their_class_does),
        cmocka_unit_test(what_the_document_says_comes_first),
        cmocka_unit_test(an_unknown_model_costs_what_its_memory_does),
        cmocka_unit_test(the_table_can_be_read_and_has_no_line_in_vain),
        cmocka_unit_test(the_next_share_that_a_rule_hands_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
