/* What check-policy says of a document, and rules in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bin/ctl/policies.h"
#include "support.h"

static struct shown shown;

static void says(const struct rule *rule, const char *want)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    policies_add_demands(&text, rule);
    assert_string_equal(text.data, want);
}

static void a_rule_says_each_of_its_demands(void **state)
{
    static const char *const model[] = {"A100*", "H100*"};
    (void)state;
    says(&(struct rule){.orders = true, .policy = POLICY_FGD}, "orders by fgd");
    says(&(struct rule){.whole = true}, "only whole GPUs");
    says(&(struct rule){.min_milli = 5}, "shares of at least 5 milli");
    says(&(struct rule){.step_milli = 5}, "shares in steps of 5 milli");
    says(&(struct rule){.sizes = 1, .size = {250}}, "250 milli and nothing else");
    says(&(struct rule){.sizes = 2, .size = {250, 500}}, "250 or 500 milli and nothing else");
    says(&(struct rule){.sizes = 3, .size = {1, 2, 3}}, "1, 2 or 3 milli and nothing else");
    says(&(struct rule){.reserve = 1}, "keeps 1 idle host for pods of several GPUs");
    says(&(struct rule){.reserve = 2}, "keeps 2 idle hosts for pods of several GPUs");
    says(&(struct rule){.models = 2, .model = model}, "only models A100*, H100*");
    says(&(struct rule){.memory = MEMORY_RAISE}, "gpu-memory raises the share");
    says(&(struct rule){.memory = MEMORY_FILTER}, "gpu-memory only filters");
    says(&(struct rule){.together = TOGETHER_NVLINK}, "GPUs of a container linked by NVLink");
    says(&(struct rule){.together = TOGETHER_NUMA}, "GPUs of a container on one NUMA node");
    says(&(struct rule){.whole = true, .min_milli = 5, .reserve = 1},
         "only whole GPUs; shares of at least 5 milli; keeps 1 idle host for pods of several GPUs");
    says(&(struct rule){.whole = false}, "nothing: exempts from the rules after it");
}

static void a_rule_says_where_it_applies(void **state)
{
    static const struct label label[] = {{"pool", "a*"}, {"disk", ""}};
    static const char *const namespace[] = {"ml-*", "b"};
    const struct rule some = {.labels = 2, .label = label, .namespaces = 2, .namespace = namespace};
    const struct rule all = {.labels = 0};
    CLEANUP(strbuf_done) struct strbuf text;
    (void)state;
    strbuf_init(&text);
    policies_add_nodes(&text, &some);
    strbuf_char(&text, ' ');
    policies_add_namespaces(&text, &some);
    strbuf_char(&text, ' ');
    policies_add_nodes(&text, &all);
    strbuf_char(&text, ' ');
    policies_add_namespaces(&text, &all);
    assert_string_equal(text.data, "pool=a*, disk= ml-*, b all all");
}

/* Runs check-policy on a file of this content. */
static int check(const char *content, const char *options)
{
    char path[] = "/tmp/milligpu-policy-XXXXXX";
    char words[128];
    const int file = mkstemp(path);

    assert_true(file >= 0);
    assert_int_equal(write(file, content, strlen(content)), (ssize_t)strlen(content));
    assert_int_equal(close(file), 0);
    (void)snprintf(words, sizeof words, "check-policy %s %s", path, options);
    const int status = run_program(&shown, words);
    assert_int_equal(remove(path), 0);
    return status;
}

#define HEAD "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: fgd\n"

static void an_error_is_one_sentence_with_its_place(void **state)
{
    (void)state;
    assert_int_equal(check(HEAD "rules: [{min: 0}]\n", ""), CTL_NO);
    assert_string_equal(shown.out, "");
    assert_int_equal(strncmp(shown.err, "milligpuctl: /tmp/milligpu-policy-", 34), 0);
    assert_non_null(strstr(shown.err, ":4:15: rules[0].min: 0 is below 1; write 1 to 1000\n"));
    shown_free(&shown);
}

static void a_warning_does_not_change_the_status(void **state)
{
    (void)state;
    assert_int_equal(check(HEAD "rules: [{min: 5}, {min: 6}]\n", "-o json"), CTL_FINE);
    assert_non_null(strstr(shown.err, ":4:19: rules[1]: never applies: "));
    assert_non_null(strstr(shown.out, "rules[1]: never applies: "));
    assert_non_null(strstr(shown.out, "\"policy\": \"fgd\""));
    shown_free(&shown);
}

static void windows_are_shown_as_of_the_time_that_is_meant(void **state)
{
    static const char document[] = HEAD "rules: [{when: 'Mon 08:00-20:00', whole: true}]\n";
    (void)state;
    assert_int_equal(check(document, "--at 2026-01-05T08:00:00Z"), CTL_FINE);
    assert_non_null(strstr(shown.out, "Mon 08:00-20:00 UTC  until 2026-01-05T20:00:00.000Z  "));
    shown_free(&shown);
    assert_int_equal(check(document, "--at 2026-01-05T20:00:00Z"), CTL_FINE);
    assert_non_null(strstr(shown.out, "Mon 08:00-20:00 UTC  from 2026-01-12T08:00:00.000Z  "));
    shown_free(&shown);
    assert_int_equal(check(document, "--at yesterday"), CTL_USAGE);
    assert_non_null(strstr(shown.err, "--at is yesterday: "));
    shown_free(&shown);
}

static void each_ready_policy_is_described(void **state)
{
    struct policy_ready ready;
    char words[64];
    (void)state;
    for (size_t i = 0; policy_ready(i, &ready); i++) {
        (void)snprintf(words, sizeof words, "check-policy %s", ready.name);
        assert_int_equal(run_program(&shown, words), CTL_FINE);
        assert_string_equal(shown.err, "");
        assert_non_null(strstr(shown.out, ready.name));
        assert_non_null(strstr(shown.out, "Prices:       known: "));
        shown_free(&shown);
        (void)snprintf(words, sizeof words, "check-policy %s -o name", ready.name);
        assert_int_equal(run_program(&shown, words), CTL_FINE);
        assert_non_null(strstr(shown.out, "policy/"));
        shown_free(&shown);
    }
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_rule_says_each_of_its_demands),
        TEST(a_rule_says_where_it_applies),
        TEST(an_error_is_one_sentence_with_its_place),
        TEST(a_warning_does_not_change_the_status),
        TEST(windows_are_shown_as_of_the_time_that_is_meant),
        TEST(each_ready_policy_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
