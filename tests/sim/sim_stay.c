/*
 * stay - pods on nodes with agents, from their Binding to the end of their sandbox.
 *
 * kubelet's device plugin knows no shares: it gives a pod some whole GPUs that no other pod has
 * whole, and keeps them for it. Then the agent is asked, and the second pod on a GPU is
 * refused and tries again: a pod that would have whole what others share, and a share of what
 * another pod has whole. While no agent serves the runtime, only pods whose Binding names it wait.
 * A sandbox may outlive its pod at the API server: its GPUs are taken for that long.
 */
#include <string.h>

#include "sim_run.h"

enum {
    START_MS = 4000,
    RESTART_MS = 8000,
    RETRY_MS = 10000,
    END_MS = 3000,
    LINGER_MS = 30000,
};

static uint32_t place_of(const struct sim *sim, const struct model_pod *pod)
{
    return (uint32_t)(pod - sim->model.pod);
}

static int64_t later(struct sim *sim, int64_t most)
{
    return sim->now_ms + draw_between(&sim->agents_draw, 1, most);
}

void stay_begins(struct sim *sim, struct model_pod *pod)
{
    const struct model_node *node = model_node(&sim->model, pod->node);

    if (!sim->rules.agents || node == NULL || !node->by_agent)
        return;
    sim->stay[place_of(sim, pod)] = (struct sim_stay){.here = true, .due_ms = later(sim, START_MS)};
}

static bool is_at(const struct sim *sim, uint32_t pod, const struct model_node *node)
{
    return sim->stay[pod].here && strcmp(sim->model.pod[pod].node, node->name) == 0;
}

/* Bits: GPUs that pods there have whole, by kubelet. */
static uint32_t given(const struct sim *sim, const struct model_node *node)
{
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        gpus |= is_at(sim, i, node) ? sim->stay[i].whole : 0;
    return gpus;
}

const struct model_pod *stay_holder(const struct sim *sim, const struct model_node *node,
                                    uint32_t gpu)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        if (is_at(sim, i, node) && sim->stay[i].runs && (sim->stay[i].whole >> gpu & 1) != 0)
            return &sim->model.pod[i];
    return NULL;
}

/* Bits: GPUs of which the pod has shares of ours. */
static uint32_t shared(const struct model_node *node, const struct model_pod *pod)
{
    uint32_t gpus = 0;

    for (uint32_t s = 0; pod->ours && s < pod->n_shares; s++)
        for (uint32_t i = 0; i < node->is.n_gpus; i++)
            if (strcmp(node->is.gpu[i].id, pod->share[s].gpu) == 0)
                gpus |= 1U << i;
    return gpus;
}

/* --- kubelet --- */

/* False: there are not as many as it requests. */
static bool give(struct sim *sim, const struct model_node *node, const struct model_pod *pod,
                 struct sim_stay *stay)
{
    const struct sim_agent *agent = &sim->agent[node - sim->model.node];
    const uint32_t from = draw_below(&sim->agents_draw, node->is.n_gpus);
    const uint32_t others = given(sim, node);
    uint32_t left = pod->shape->whole;

    for (uint32_t k = 0; k < node->is.n_gpus && left > 0; k++) {
        const uint32_t i = (from + k) % node->is.n_gpus;
        if ((others >> i & 1) != 0 || agent->gpu[i].gone || agent->gpu[i].ill != 0)
            continue;
        stay->whole |= 1U << i;
        left--;
    }
    if (left > 0)
        stay->whole = 0;
    return left == 0;
}

/* --- who comes second --- */

static bool is_second(const struct sim *sim, const struct model_node *node,
                      const struct model_pod *pod, const struct sim_stay *stay)
{
    const bool by_variable = sim->agent[node - sim->model.node].by_variable;
    const uint32_t mine = shared(node, pod);

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *other = &sim->model.pod[i];
        if (other == pod || !is_at(sim, i, node) || !sim->stay[i].runs)
            continue;
        /* A variable takes no GPU away from a share. */
        if ((!by_variable && (mine & sim->stay[i].whole) != 0) ||
            (stay->whole & shared(node, other)) != 0)
            return true;
    }
    return false;
}

static bool is_refused(struct sim *sim, const struct model_node *node, const struct model_pod *pod,
                       const struct sim_stay *stay)
{
    if (!pod->ours && oracle_asks(pod))
        return true; /* nobody signed that */
    if (pod->ours && pod->n_shares > 0 && !keys_believes(sim, node, pod))
        return true;
    return is_second(sim, node, pod, stay);
}

static void begin(struct sim *sim, struct model_node *node, struct model_pod *pod,
                  struct sim_stay *stay)
{
    const bool whole = stay->whole != 0;

    if (!stay->admitted && !give(sim, node, pod, stay)) {
        *stay = (struct sim_stay){.here = false};
        sim_met("stay/not_admitted");
        core_fails(sim, pod);
        return;
    }
    stay->admitted = true;
    stay->due_ms = later(sim, RETRY_MS);
    if (!agent_serves(sim, node) && pod->needs_agent) {
        sim_met("stay/waits_for_agent");
        return;
    }
    if (agent_serves(sim, node) && is_refused(sim, node, pod, stay)) {
        sim_met(whole ? "stay/whole_is_second" : "stay/share_is_second");
        return;
    }
    stay->runs = true;
    stay->due_ms = 0;
    sim_met(stay->whole != 0 ? "stay/whole" : "stay/runs");
    sim_say(sim, "p%u runs on %s", pod->name, node->name);
    if (stay->whole != 0)
        agent_looks(sim, node);
}

static void end(struct sim *sim, const struct model_node *node, uint32_t pod)
{
    struct true_gpu *gpu = sim->agent[node - sim->model.node].gpu;

    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if (gpu[i].claims == pod + 1)
            gpu[i].claims = 0;
    sim->stay[pod] = (struct sim_stay){.here = false};
    agent_looks(sim, node);
}

/* Containers run anew, in another order; kubelet remembers what it gave to whom. */
void stay_reboots(struct sim *sim, const struct model_node *node)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        if (!is_at(sim, i, node))
            continue;
        sim->stay[i].runs = false;
        sim->stay[i].due_ms = later(sim, RESTART_MS);
    }
}

static void act(struct sim *sim, uint32_t i)
{
    struct sim_stay *stay = &sim->stay[i];
    struct model_pod *pod = &sim->model.pod[i];
    struct model_node *node = model_node(&sim->model, pod->node);

    if (!model_alive(pod) && !stay->ends) {
        stay->ends = true;
        stay->due_ms = later(sim, draw_chance(&sim->agents_draw, 200) ? LINGER_MS : END_MS);
    }
    if (stay->due_ms == 0 || sim->now_ms < stay->due_ms)
        return;
    if (stay->ends)
        end(sim, node, i);
    else
        begin(sim, node, pod, stay);
}

void stay_turn(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        if (sim->stay[i].here)
            act(sim, i);
}

int64_t stay_next(const struct sim *sim)
{
    int64_t next = INT64_MAX;

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct sim_stay *stay = &sim->stay[i];
        if (stay->here && stay->due_ms != 0 && stay->due_ms < next)
            next = stay->due_ms;
        if (stay->here && !stay->ends && !model_alive(&sim->model.pod[i]))
            next = sim->now_ms;
    }
    return next;
}
