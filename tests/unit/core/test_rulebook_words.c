/* Rules of a policy in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "milligpu/rulebook.h"

static void says(const struct rule *rule, const char *want)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    rule_add_demands(&text, rule);
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
    says(&(struct rule){.min_milli = 1}, "shares of at least 1 milli");
    says(&(struct rule){.step_milli = 1}, "shares in steps of 1 milli");
    says(&(struct rule){.models = 1, .model = model}, "only models A100*");
    says(&(struct rule){.models = 2, .model = model}, "only models A100*, H100*");
    says(&(struct rule){.memory = MEMORY_RAISE}, "gpu-memory raises the share");
    says(&(struct rule){.memory = MEMORY_FILTER}, "gpu-memory only filters");
    says(&(struct rule){.topology = TOPOLOGY_NVLINK}, "GPUs of a container linked by NVLink");
    says(&(struct rule){.topology = TOPOLOGY_NUMA}, "GPUs of a container on one NUMA node");
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
    rule_add_nodes(&text, &some);
    strbuf_char(&text, ' ');
    rule_add_namespaces(&text, &some);
    strbuf_char(&text, ' ');
    rule_add_nodes(&text, &all);
    strbuf_char(&text, ' ');
    rule_add_namespaces(&text, &all);
    assert_string_equal(text.data, "pool=a*, disk= ml-*, b all all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_says_each_of_its_demands),
        cmocka_unit_test(a_rule_says_where_it_applies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
