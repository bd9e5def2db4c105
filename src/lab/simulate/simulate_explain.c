/*
 * Explains why a pod was refused, with the texts of play: kube-scheduler's for CPU and memory,
 * which are checked before the extender is called, and filter's for the other nodes. Called by
 * simulate_run.c for the first refusal of a run.
 */
#include "milligpu/core/answer/filter.h"
#include "milligpu/core/answer/unschedulable.h"

#include "lab/cluster/nodefit.h"
#include "simulate.h"

/* True if kube-scheduler's own filter refuses the node; why: the reason. */
static bool explain_in_tree(const struct world_node *node, const struct host *left,
                            const struct host *asked, struct strbuf *why)
{
    struct amount memory = {.resource = "memory", .value = left->memory_mib};
    struct amount room = {.resource = "cpu", .value = left->cpu_milli, .next = &memory};
    struct amount more = {.resource = "memory", .value = asked->memory_mib};
    struct amount requests = {.resource = "cpu", .value = asked->cpu_milli, .next = &more};
    const struct fit_node fit = {.name = node->name, .allocatable = &room};
    const struct fit_pod pod = {.requests = &requests};

    must(node->name[0] != '\0');
    return !fit_check(&pod, &fit, SIMULATE_RESOURCE, why);
}

static void explain_take(void *user, struct text name, const char *text)
{
    must(name.len > 0);
    reasons_add(user, text, false, 1);
}

/* Sets `never` only if the pod does not fit in an empty cluster either. */
static void explain_never(const struct simulate_refusal *refusal, struct simulate_result *out)
{
    struct unschedulable *unschedulable = arena_alloc(&out->arena, sizeof *unschedulable);

    must(out->never[0] == '\0');
    if (!request_asks(&refusal->shape->request))
        return;
    const struct unschedulable_question question = {.request = &refusal->shape->request};
    unschedulable_of(refusal->question->snapshot, &question, &out->arena, unschedulable);
    if (unschedulable->never)
        out->never = unschedulable->never_text;
}

void simulate_explain(const struct simulate_refusal *refusal, struct simulate_result *out)
{
    CLEANUP(strbuf_done) struct strbuf why;
    const struct world *world = refusal->world;

    must(out->reasons.nodes == 0);
    strbuf_init(&why);
    for (uint32_t i = 0; i < world->n_nodes; i++)
        if (explain_in_tree(&world->node[i], &refusal->left[i], &refusal->shape->request.host,
                            &why))
            reasons_add(&out->reasons, why.data, true, 1);
    filter_refusals(refusal->question, refusal->answer, UINT32_MAX, &out->reasons, explain_take);
    must(out->reasons.nodes == world->n_nodes);
    explain_never(refusal, out);
}
