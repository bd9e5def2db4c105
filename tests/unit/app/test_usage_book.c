/* Who may report is what the Nodes show now, and no report is taken twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/usage_book.h"

#include "support/core_fixture.h"

static const char key_a[] = "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=";
static const char key_b[] = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

static enum usage_sender sender_of(struct usage_book *book, const char *node)
{
    char key[PUBLIC_KEY_TEXT_BYTES];

    return usage_book_key(book, text_of(node), key);
}

static void nodes_come_and_go(void **state)
{
    struct usage_book *book = usage_book_new();
    char key[PUBLIC_KEY_TEXT_BYTES];

    (void)state;
    assert_int_equal(sender_of(book, "n1"), USAGE_SENDER_UNKNOWN);
    usage_book_list_begin(book);
    usage_book_node(book, "n1", key_a);
    usage_book_node(book, "n2", NULL);
    usage_book_list_end(book);
    assert_int_equal(usage_book_key(book, TEXT("n1"), key), USAGE_SENDER_KEYED);
    assert_string_equal(key, key_a);
    assert_int_equal(sender_of(book, "n2"), USAGE_SENDER_KEYLESS);
    /* What is longer than any key is none, and what is short is good for no signature. */
    usage_book_node(book, "n2", "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=x");
    assert_int_equal(sender_of(book, "n2"), USAGE_SENDER_KEYLESS);
    usage_book_node_gone(book, "n2");
    usage_book_node_gone(book, "n2");
    assert_int_equal(sender_of(book, "n2"), USAGE_SENDER_UNKNOWN);
    usage_book_list_begin(book);
    usage_book_node(book, "n3", key_b);
    assert_int_equal(sender_of(book, "n1"), USAGE_SENDER_KEYED); /* the list may yet fail */
    usage_book_list_end(book);
    assert_int_equal(sender_of(book, "n1"), USAGE_SENDER_UNKNOWN);
    usage_book_free(book);
    usage_book_free(NULL);
}

static bool take(struct usage_book *book, const struct node *node, const char *key, uint64_t number)
{
    const struct usage_report report = {.node = TEXT("n1"), .number = number, .seconds = 300};
    const struct measured_how how = {.now_ms = 1000 + (int64_t)number};
    uint32_t unknown;

    return usage_book_take(book, node, key, &report, &how, &unknown);
}

static void numbers_rise_for_each_key(void **state)
{
    static const struct core_gpu one[] = {{.id = "GPU-a", .mib = 81920}};
    struct core_fixture *core = *state;
    struct usage_book *book = usage_book_new();
    struct usage_totals totals;

    assert_int_equal(core_node(core, "n1", one, 1), VERDICT_OK);
    const struct node *node = ledger_node(core->ledger, TEXT("n1"));
    assert_false(take(book, node, key_a, 5)); /* there is no such Node */
    usage_book_node(book, "n1", key_a);
    assert_null(usage_book_measured(book, TEXT("n1")));
    assert_true(take(book, node, key_a, 5));
    assert_false(take(book, node, key_a, 5));
    assert_false(take(book, node, key_a, 4));
    assert_true(take(book, node, key_a, 6));
    assert_false(take(book, node, key_b, 7)); /* no longer, or not yet, the key */
    usage_book_node(book, "n1", key_a);       /* shown again */
    assert_false(take(book, node, key_a, 6));
    usage_book_node(book, "n1", key_b);
    assert_true(take(book, node, key_b, 1));
    usage_book_totals(book, 1001 + MEASURED_FRESH_MS, &totals);
    assert_int_equal(totals.reporting, 1);
    assert_int_equal(totals.last_ms, 1001);
    assert_int_equal(totals.version, 3);
    usage_book_totals(book, 1002 + MEASURED_FRESH_MS, &totals);
    assert_int_equal(totals.reporting, 0);
    const struct measured *measured = usage_book_measured(book, TEXT("n1"));
    assert_non_null(measured);
    usage_book_node_gone(book, "n1");
    assert_int_equal(measured->shares, 0); /* still there for whoever looks at it */
    measured_unref(measured);
    assert_int_equal(usage_book_version(book), 4);
    usage_book_free(book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_come_and_go),
        cmocka_unit_test_setup_teardown(numbers_rise_for_each_key, core_set_up, core_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
