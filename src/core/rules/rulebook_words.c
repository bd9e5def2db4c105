/*
 * Formats the rules of a policy for display. Called for REST and by check-policy.
 */
#include "milligpu/core/rules/rulebook.h"

void rule_add_nodes(struct strbuf *out, const struct rule *rule)
{
    must(rule->n_labels <= RULE_LABELS_MAX);
    must(rule->n_labels == 0 || rule->label != NULL);
    for (uint32_t i = 0; i < rule->n_labels; i++)
        strbuf_printf(out, "%s%s=%s", i > 0 ? ", " : "", rule->label[i].key, rule->label[i].value);
    if (rule->n_labels == 0)
        strbuf_str(out, "all");
}

/* "a, b" */
static void words_add_texts(struct strbuf *out, const char *const *text, uint32_t count)
{
    must(count > 0);
    must(text != NULL);
    for (uint32_t i = 0; i < count; i++)
        strbuf_printf(out, "%s%s", i > 0 ? ", " : "", text[i]);
}

void rule_add_namespaces(struct strbuf *out, const struct rule *rule)
{
    must(rule->n_namespaces <= RULE_GLOBS_MAX);
    must(rule->n_namespaces == 0 || rule->namespace != NULL);
    if (rule->n_namespaces == 0)
        strbuf_str(out, "all");
    else
        words_add_texts(out, rule->namespace, rule->n_namespaces);
}

static const char *before_demand(const struct strbuf *out, size_t begin)
{
    must(out->len >= begin);
    return out->len > begin ? "; " : "";
}

static void words_add_shares(struct strbuf *out, const struct rule *rule, size_t begin)
{
    must(rule->n_sizes <= RULE_SIZES_MAX);
    must(rule->min_milli <= GPU_MILLI && rule->step_milli <= GPU_MILLI);
    if (rule->whole)
        strbuf_printf(out, "%sonly whole GPUs", before_demand(out, begin));
    if (rule->min_milli > 0)
        strbuf_printf(out, "%sshares of at least %u milli", before_demand(out, begin),
                      rule->min_milli);
    if (rule->step_milli > 0)
        strbuf_printf(out, "%sshares in steps of %u milli", before_demand(out, begin),
                      rule->step_milli);
    for (uint32_t i = 0; i < rule->n_sizes; i++)
        strbuf_printf(out, "%s%u%s", i == 0 ? before_demand(out, begin) : "",
                      (unsigned)rule->size[i],
                      i + 1 == rule->n_sizes   ? " milli and nothing else"
                      : i + 2 == rule->n_sizes ? " or "
                                               : ", ");
}

void rule_add_demands(struct strbuf *out, const struct rule *rule)
{
    const size_t begin = out->len;

    must(rule->n_models <= RULE_GLOBS_MAX);
    must(rule->reserve <= RULE_RESERVE_MAX);
    if (rule->has_order)
        strbuf_printf(out, "orders by %s", policy_name(rule->policy));
    words_add_shares(out, rule, begin);
    if (rule->reserve > 0)
        strbuf_printf(out, "%skeeps %u idle %s for pods of several GPUs", before_demand(out, begin),
                      rule->reserve, rule->reserve == 1 ? "host" : "hosts");
    if (rule->n_models > 0) {
        strbuf_printf(out, "%sonly models ", before_demand(out, begin));
        words_add_texts(out, rule->model, rule->n_models);
    }
    if (rule->memory != MEMORY_UNSAID)
        strbuf_printf(out, "%s%s", before_demand(out, begin),
                      rule->memory == MEMORY_RAISE ? "gpu-memory raises the share"
                                                   : "gpu-memory only filters");
    if (rule->topology != TOPOLOGY_ANY)
        strbuf_printf(out, "%sGPUs of a container %s", before_demand(out, begin),
                      rule->topology == TOPOLOGY_NVLINK ? "linked by NVLink" : "on one NUMA node");
    if (out->len == begin)
        strbuf_str(out, "nothing: exempts from the rules after it");
}
