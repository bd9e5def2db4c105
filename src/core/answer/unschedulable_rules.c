/*
 * Finds rules of a policy that match no node of a snapshot. Called by doctor, and by the writer
 * when a new rulebook takes effect.
 */
#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/core/rank/policy.h"

/* The models of a node without adjacent repetitions. GPUs beyond GPUS_PER_NODE_MAX are absent. */
static uint32_t models_of(const struct node *node, const struct atom **model)
{
    uint32_t models = 0;

    must(node->n_gpus == 0 || node->gpu != NULL);
    for (uint32_t i = 0; i < node->n_gpus && i < GPUS_PER_NODE_MAX; i++)
        if (models == 0 || model[models - 1] != node->gpu[i].model)
            model[models++] = node->gpu[i].model;
    must(models <= GPUS_PER_NODE_MAX);
    return models;
}

static void match_cluster(const struct snapshot *snapshot, const struct rule *rule,
                          struct rule_matches *out)
{
    const struct atom *model[GPUS_PER_NODE_MAX];
    const struct node *node;

    must(snapshot->nodes > 0);
    must(out->nodes == 0);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        if (!node->gone)
            rule_match_node(rule, node->labels, model, models_of(node, model), out);
}

void cluster_unmatched_rules(const struct snapshot *snapshot, struct strbuf *out)
{
    const struct rulebook *book = snapshot->context != NULL ? snapshot->context->rulebook : NULL;
    const uint32_t rules = book != NULL && snapshot->nodes > 0 ? book->n_rules : 0;

    must(rules <= RULES_MAX);
    must(rules == 0 || book != NULL);
    for (uint32_t i = 0; i < rules; i++) {
        struct rule_matches matches = {0};
        match_cluster(snapshot, &book->rule[i], &matches);
        rule_add_unmatched(out, book, &book->rule[i], &matches);
    }
}
