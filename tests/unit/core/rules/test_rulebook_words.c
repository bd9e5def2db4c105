/* Rules as texts for people. */
#include "milligpu/core/rules/rulebook.h"

#include "support/test.h"

static void says(const struct rule *rule, const char *want)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    rule_add_demands(&text, rule);
    assert_string_equal(text.data, want);
}

TEST(rule_words__name_each_demand)
{
    static const char *const model[] = {"A100*", "H100*"};
    says(&(struct rule){.has_order = true, .policy = POLICY_FGD}, "orders by fgd");
    says(&(struct rule){.whole = true}, "only whole GPUs");
    says(&(struct rule){.min_milli = 5}, "shares of at least 5 milli");
    says(&(struct rule){.step_milli = 5}, "shares in steps of 5 milli");
    says(&(struct rule){.n_sizes = 1, .size = {250}}, "250 milli and nothing else");
    says(&(struct rule){.n_sizes = 2, .size = {250, 500}}, "250 or 500 milli and nothing else");
    says(&(struct rule){.n_sizes = 3, .size = {1, 2, 3}}, "1, 2 or 3 milli and nothing else");
    says(&(struct rule){.reserve = 1}, "keeps 1 idle host for pods of several GPUs");
    says(&(struct rule){.reserve = 2}, "keeps 2 idle hosts for pods of several GPUs");
    says(&(struct rule){.min_milli = 1}, "shares of at least 1 milli");
    says(&(struct rule){.step_milli = 1}, "shares in steps of 1 milli");
    says(&(struct rule){.n_models = 1, .model = model}, "only models A100*");
    says(&(struct rule){.n_models = 2, .model = model}, "only models A100*, H100*");
    says(&(struct rule){.memory = MEMORY_RAISE}, "gpu-memory raises the share");
    says(&(struct rule){.memory = MEMORY_FILTER}, "gpu-memory only filters");
    says(&(struct rule){.topology = TOPOLOGY_NVLINK}, "GPUs of a container linked by NVLink");
    says(&(struct rule){.topology = TOPOLOGY_NUMA}, "GPUs of a container on one NUMA node");
    says(&(struct rule){.whole = true, .min_milli = 5, .reserve = 1},
         "only whole GPUs; shares of at least 5 milli; keeps 1 idle host for pods of several GPUs");
    says(&(struct rule){.whole = false}, "nothing: exempts from the rules after it");
}

TEST(rule_words__name_nodes_and_namespaces)
{
    static const struct label label[] = {{"pool", "a*"}, {"disk", ""}};
    static const char *const namespace[] = {"ml-*", "b"};
    const struct rule some = {
        .n_labels = 2, .label = label, .n_namespaces = 2, .namespace = namespace};
    const struct rule all = {.n_labels = 0};
    CLEANUP(strbuf_done) struct strbuf text;
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

/* The text for a cluster of three nodes. */
static void unmatched(struct rule rule, const char *want)
{
    static const struct {
        struct label label[2];
        uint32_t labels;
        const char *model[2];
        uint32_t models;
    } shown[] = {
        {{{"pool", "night"}, {"disk", "ssd"}}, 2, {"NVIDIA-A100-SXM4-80GB", "Tesla-T4"}, 2},
        {{{"pool", "day"}}, 1, {"NVIDIA-H100-80GB-HBM3"}, 1},
        {{{"disk", "hdd"}}, 0, {""}, 0},
    };
    CLEANUP(strbuf_done) struct strbuf text;
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "p");
    struct names *names = names_new();
    struct rule_matches matches = {0};

    strbuf_init(&text);
    rule.name = "r";
    book->n_rules = 1;
    book->rule = &rule;
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        const struct labels *labels = labels_new(shown[i].label, shown[i].labels, names);
        const struct atom *model[2];
        for (uint32_t m = 0; m < shown[i].models; m++)
            model[m] = names_intern(names, text_of(shown[i].model[m]));
        rule_match_node(&rule, labels, model, shown[i].models, &matches);
        labels_unref(labels);
    }
    rule_add_unmatched(&text, book, &rule, &matches);
    assert_string_equal(text.data, want);
    names_free(names);
    rulebook_unref(book);
}

TEST(rule_words__name_labels_and_models_without_a_match)
{
    static const struct label slip[] = {{"pool", "nigth"}};
    static const struct label some[] = {{"pool", "n*"}, {"disk", "ssd"}};
    static const struct label separate[] = {{"pool", "day"}, {"disk", "ssd"}};
    static const struct label half[] = {{"pool", "night"}, {"dsk", "*"}, {"disk", "hdd"}};
    static const struct label day[] = {{"pool", "day"}};
    static const char *const models[] = {"H200*", "A100", "T5"};
    static const char *const a100[] = {"A100"};
    static const char *const any[] = {"T4", "H100"};
    static const struct label first[] = {{"pool", "nigth"}, {"disk", "ssd"}};
    static const char *const h200[] = {"H200*"};
    unmatched((struct rule){.n_labels = 2, .label = first},
              "rule 1 (r), nodes: pool=nigth matches 0 nodes");
    unmatched((struct rule){.n_labels = 1, .label = day, .n_models = 1, .model = h200},
              "rule 1 (r), models: H200* matches 0 nodes");
    unmatched((struct rule){}, "");
    unmatched((struct rule){.n_labels = 1, .label = slip},
              "rule 1 (r), nodes: pool=nigth matches 0 nodes");
    unmatched((struct rule){.n_labels = 2, .label = some}, "");
    unmatched((struct rule){.n_labels = 2, .label = separate},
              "rule 1 (r), nodes: pool=day, disk=ssd matches 0 nodes");
    unmatched((struct rule){.n_labels = 3, .label = half},
              "rule 1 (r), nodes: dsk=* matches 0 nodes\n"
              "rule 1 (r), nodes: disk=hdd matches 0 nodes");
    unmatched((struct rule){.n_models = 3, .model = models},
              "rule 1 (r), models: H200* matches 0 nodes\n"
              "rule 1 (r), models: T5 matches 0 nodes");
    unmatched((struct rule){.n_models = 2, .model = any}, "");
    unmatched((struct rule){.n_labels = 1, .label = day, .n_models = 1, .model = a100},
              "rule 1 (r), models: matches 0 of its 1 node");
    unmatched((struct rule){.n_labels = 1, .label = day, .n_models = 2, .model = any}, "");
    unmatched((struct rule){.n_labels = 1, .label = slip, .n_models = 1, .model = a100},
              "rule 1 (r), nodes: pool=nigth matches 0 nodes");
    unmatched((struct rule){.n_labels = 1, .label = slip, .n_models = 3, .model = models},
              "rule 1 (r), nodes: pool=nigth matches 0 nodes\n"
              "rule 1 (r), models: H200* matches 0 nodes\n"
              "rule 1 (r), models: T5 matches 0 nodes");
}

TEST(rule_matches__count_by_label_and_by_model)
{
    static const struct label label[] = {{"pool", "a"}, {"disk", "*"}};
    static const char *const models[] = {"T4", "H100"};
    const struct rule rule = {
        .name = "r", .n_labels = 2, .label = label, .n_models = 2, .model = models};
    struct names *names = names_new();
    const struct labels *both =
        labels_new((struct label[]){{"pool", "a"}, {"disk", "x"}}, 2, names);
    const struct labels *pool = labels_new(label, 1, names);
    const struct atom *t4 = names_intern(names, TEXT("T4"));
    struct rule_matches matches = {0};
    rule_match_node(&rule, both, &t4, 1, &matches);
    rule_match_node(&rule, pool, &t4, 1, &matches);
    rule_match_node(&rule, both, &t4, 0, &matches);
    assert_int_equal(matches.label[0], 3);
    assert_int_equal(matches.label[1], 2);
    assert_int_equal(matches.model[0], 2);
    assert_int_equal(matches.model[1], 0);
    assert_int_equal(matches.nodes, 2);
    assert_int_equal(matches.allowed, 1);
    labels_unref(both);
    labels_unref(pool);
    names_free(names);
}

TEST(rule_words__begin_a_line_for_each_mismatch)
{
    static const struct label label[] = {{"pool", "a"}};
    static const struct rule rule[] = {{.name = "all"},
                                       {.name = "r", .n_labels = 1, .label = label}};
    const struct rule_matches none = {0};
    CLEANUP(strbuf_done) struct strbuf text;
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "p");
    strbuf_init(&text);
    book->rule = rule;
    book->n_rules = 2;
    strbuf_char(&text, 'x');
    rule_add_unmatched(&text, book, &rule[0], &none); /* it names no label that could be wrong */
    assert_string_equal(text.data, "x");
    rule_add_unmatched(&text, book, &rule[1], &none);
    assert_string_equal(text.data, "x\nrule 2 (r), nodes: pool=a matches 0 nodes");
    rulebook_unref(book);
}
