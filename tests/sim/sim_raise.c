/*
 * raise - shares that are raised for the sake of their memory, and tenants who edit what they
 * requested.
 *
 * In some runs the policy raises, or a rule of it, or neither (sim_rules.c), and pods request more
 * memory than their share comes with. While a pod waits, and while its Binding is on its way, its
 * tenant requests another memory or none: what is bound is what the version that is bound requests.
 * Once it runs he edits every annotation that requests something. That changes nothing, although
 * the ledger is lost: what runs is charged what it was granted, since our signature covers it.
 * Where ledgers are lost, only annotations of signed pods are edited, because an edit takes the
 * record of an unsigned one away.
 *
 * How far a share is raised is judged when it is written (here and in sim_answers.c), when it is
 * bound, and in each snapshot, where shares and charges are compared with those of the Binding.
 */
#include <stdio.h>
#include <string.h>

#include "sim_run.h"

enum { LONGER_MS = 200000 };

#define FOR_MEMORY .grantable = true, .ours = true
#define WITH_17    FOR_MEMORY, .memory = "17Gi", .memory_mib = 17408
#define WITH_24    FOR_MEMORY, .memory = "24Gi", .memory_mib = 24576
#define WITH_40    FOR_MEMORY, .memory = "40Gi", .memory_mib = 40960
#define TWO_APPS                                                                                   \
    {"a", WANT_APP, 150, 0},                                                                       \
    {                                                                                              \
        "b", WANT_APP, 700, 0                                                                      \
    }
#define ONE_AFTER                                                                                  \
    {"i", WANT_INIT, 500, 0},                                                                      \
    {                                                                                              \
        "c", WANT_APP, 100, 0                                                                      \
    }

/* Each in several ways, so that a pod may change from one to another. */
const struct shape model_raising[] = {
    {"100m0", 1, {{"c", WANT_APP, 100, 0}}, FOR_MEMORY},
    {"100m17", 1, {{"c", WANT_APP, 100, 0}}, WITH_17},
    {"100m24", 1, {{"c", WANT_APP, 100, 0}}, WITH_24},
    {"100m40", 1, {{"c", WANT_APP, 100, 0}}, WITH_40},
    {"100m80", 1, {{"c", WANT_APP, 100, 0}}, FOR_MEMORY, .memory = "80Gi", .memory_mib = 81920},
    {"400over2m0", 1, {{"c", WANT_APP, 400, 2}}, FOR_MEMORY},
    {"400over2m24", 1, {{"c", WANT_APP, 400, 2}}, WITH_24},
    {"400over2m40", 1, {{"c", WANT_APP, 400, 2}}, WITH_40},
    {"150+700m0", 2, {TWO_APPS}, FOR_MEMORY},
    {"150+700m17", 2, {TWO_APPS}, WITH_17},
    {"150+700m24", 2, {TWO_APPS}, WITH_24},
    {"init500+100m0", 2, {ONE_AFTER}, FOR_MEMORY},
    {"init500+100m24", 2, {ONE_AFTER}, WITH_24},
    {"100m17&whole", 1, {{"c", WANT_APP, 100, 0}}, WITH_17, .whole = 1},
};
const uint32_t model_raisings = ARRAY_LEN(model_raising);

const struct shape *raise_shape(const struct sim *sim, struct draw *draw)
{
    return sim->rules.raises && draw_chance(draw, sim->rules.loses ? 850 : 500)
               ? &model_raising[draw_below(draw, model_raisings)]
               : NULL;
}

/* --- tenants --- */

static void annotate(struct sim *sim, const struct model_pod *pod, const char *key,
                     const char *value)
{
    char path[96];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/p%u", pod->name);
    (void)core_request_json(sim, "PATCH", path,
                            json_pack("{s:{s:{s:s?}}}", "metadata", "annotations", key, value));
}

static bool are_alike(const struct shape *a, const struct shape *b)
{
    bool alike = a->n_wants == b->n_wants && a->whole == b->whole;

    for (uint32_t w = 0; alike && w < a->n_wants; w++)
        alike = a->want[w].kind == b->want[w].kind && a->want[w].milli == b->want[w].milli &&
                a->want[w].count == b->want[w].count;
    return alike;
}

static bool is_raising(const struct shape *shape)
{
    return shape >= model_raising && shape < model_raising + model_raisings;
}

/* Another memory of a pod that waits: it gets what the version that is bound requests. */
bool raise_ask(struct sim *sim, struct model_pod *pod, struct draw *draw)
{
    const uint32_t from = draw_below(draw, model_raisings);
    const struct shape *other = NULL;

    if (!is_raising(pod->shape))
        return false;
    for (uint32_t i = 0; other == NULL && i < model_raisings; i++) {
        const struct shape *shape = &model_raising[(from + i) % model_raisings];
        if (shape != pod->shape && are_alike(shape, pod->shape))
            other = shape;
    }
    if (other == NULL)
        return false;
    pod->shape = other;
    pod->edited = true;
    pod->edited_version = UINT64_MAX;
    annotate(sim, pod, "milligpu.io/gpu-memory", other->memory);
    pod->edited_version = pod->version;
    sim_met("tenant/asks_other_memory");
    sim_say(sim, "p%u is %s now", pod->name, other->word);
    return true;
}

static bool has_raised(const struct model_pod *pod)
{
    for (uint32_t i = 0; i < pod->n_shares; i++)
        if (pod->share[i].milli != pod->share[i].asked)
            return true;
    return false;
}

/* It runs: it keeps what it holds, though it demands no more memory for which it was raised. */
static bool edit_running(struct sim *sim, struct model_pod *pod, struct draw *draw)
{
    static const struct {
        const char *key;
        const char *value;
    } edit[] = {
        {"milligpu.io/gpu-memory", NULL},   {"milligpu.io/gpu-memory", "1Gi"},
        {"milligpu.io/gpu-memory", "80Gi"}, {"milligpu.io/gpu-memory", "plenty"},
        {"milligpu.io/gpu-count", NULL},    {"milligpu.io/gpu-count", "2"},
        {"milligpu.io/gpu-count", "7"},     {"gpu-count.milligpu.io/c", "4"},
        {"milligpu.io/gpu-model", "none"},  {"milligpu.io/gpu-model", ","},
        {"milligpu.io/topology", "nvlnk"},
    };
    const bool disowns = has_raised(pod) && draw_chance(draw, 800);
    const size_t at = disowns ? 0 : draw_below(draw, ARRAY_LEN(edit));

    if (!pod->ours || pod->n_shares == 0 || (sim->rules.loses && !keys_vouch(sim, pod)))
        return false;
    pod->unlike = true;
    if (pod->kubelet_ms != 0 && sim->rules.loses)
        pod->kubelet_ms += LONGER_MS; /* until the ledger is lost */
    annotate(sim, pod, edit[at].key, edit[at].value);
    sim_met("tenant/edits_running");
    sim_say(sim, "p%u says %s: %s now", pod->name, edit[at].key,
            edit[at].value != NULL ? edit[at].value : "nothing");
    return true;
}

void raise_trouble(struct sim *sim, uint32_t step)
{
    struct draw draw = {.state = sim->seed * 0xA24BAED4963EE407U + step};

    if (!sim->rules.raises || sim->model.n_pods == 0 ||
        !draw_chance(&draw, sim->rules.raise_per_mille))
        return;
    const uint32_t from = draw_below(&draw, sim->model.n_pods);
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        struct model_pod *pod = &sim->model.pod[(from + i) % sim->model.n_pods];
        if (model_alive(pod) &&
            (pod->node[0] == '\0' ? raise_ask(sim, pod, &draw) : edit_running(sim, pod, &draw)))
            return;
    }
}

/* The ledger is about to be lost: that is when edits would do most harm. */
void raise_before_loss(struct sim *sim)
{
    struct draw draw = {.state = sim->seed ^ ((uint64_t)sim->now_ms << 22)};

    for (uint32_t i = 0; sim->rules.raises && i < sim->model.n_pods; i++) {
        struct model_pod *pod = &sim->model.pod[i];
        if (model_alive(pod) && pod->node[0] != '\0' && draw_chance(&draw, 600))
            (void)edit_running(sim, pod, &draw);
    }
}

/* --- how far --- */

/* All shares that are smaller than what others were raised to, and none that is larger. */
static void oracle_raised(const struct sim *sim, const struct model_pod *pod)
{
    uint32_t raised = 0;

    for (uint32_t i = 0; i < pod->n_shares; i++)
        if (pod->share[i].milli != pod->share[i].asked)
            raised = pod->share[i].milli;
    if (raised == 0)
        return;
    if (!sim->rules.raises || pod->shape->memory == NULL)
        sim_violation(sim, "p%u (%s) was raised to %u milli, and nothing demands it", pod->name,
                      pod->shape->word, raised);
    for (uint32_t i = 0; i < pod->n_shares; i++) {
        const struct model_share *share = &pod->share[i];
        if (share->milli != (share->asked > raised ? share->asked : raised))
            sim_violation(sim, "p%u (%s): a share of %u milli beside others that were raised to %u",
                          pod->name, pod->shape->word, share->milli, raised);
    }
    sim_met(pod->edited ? "raise/bound_edited" : "raise/bound");
}

void oracle_amounts(const struct sim *sim, const struct model_pod *pod)
{
    for (uint32_t w = 0; w < pod->shape->n_wants; w++) {
        const struct model_want *want = &pod->shape->want[w];
        const uint32_t parts = model_parts(want);
        uint32_t found = 0;
        for (uint32_t i = 0; i < pod->n_shares; i++) {
            if (pod->share[i].want != w)
                continue;
            found++;
            if (pod->share[i].asked != want->milli / parts)
                sim_violation(sim,
                              "p%u container %s: a share of %u milli, asked were %u in %u parts",
                              pod->name, want->container, pod->share[i].asked, want->milli, parts);
            for (uint32_t k = 0; k < i; k++)
                if (pod->share[k].want == w && strcmp(pod->share[k].gpu, pod->share[i].gpu) == 0)
                    sim_violation(sim, "p%u container %s: two shares of one GPU", pod->name,
                                  want->container);
        }
        if (found != parts)
            sim_violation(sim, "p%u container %s: %u shares, asked were %u", pod->name,
                          want->container, found, parts);
    }
    oracle_raised(sim, pod);
}

/* --- what is written --- */

/* The most that the GPUs of the raised shares need for that memory, and those shares. */
static uint32_t most_needed(const struct node *node, const struct allocation_facts *facts,
                            uint32_t memory_mib, uint32_t *out_raised)
{
    uint32_t most = 0;

    *out_raised = 0;
    for (uint32_t i = 0; i < facts->n_shares; i++) {
        const struct share *share = &facts->share[i];
        const struct gpu *gpu = node_gpu(node, text_of(share->gpu->text));
        if (share->milli == share->asked || gpu == NULL)
            continue;
        const struct lay_gpu lies = {.milli = gpu->milli, .mib = gpu->mib};
        const uint32_t need = lay_need(&lies, memory_mib);
        most = need > most ? need : most;
        *out_raised = share->milli;
    }
    return most;
}

/*
 * A later version was judged, for which the reservation stays: its shares are raised to what that
 * version needs. If it is not the one that is known, nobody knows what it requested.
 */
static void oracle_version(const struct sim *sim, const struct command *command,
                           const struct change *change)
{
    const struct allocation_facts *facts = &change->after->facts;
    const struct model_pod *pod = model_find((struct model *)(uintptr_t)&sim->model, command->uid);
    const struct lay_raise raise = rules_raise_granting(sim, command, facts->node->text);
    uint32_t raised = 0;

    if (pod == NULL || command->version < pod->edited_version)
        return;
    const uint32_t need = most_needed(change->node_before, facts, pod->shape->memory_mib, &raised);
    if (raised == 0)
        return;
    if (pod->shape->memory == NULL)
        sim_violation(sim, "p%u (%s) keeps shares that were raised to %u milli", pod->name,
                      pod->shape->word, raised);
    if (raised != lay_next(&raise, need))
        sim_violation(sim, "p%u (%s) keeps shares that were raised to %u milli, it needs %u",
                      pod->name, pod->shape->word, raised, need);
    sim_met("raise/kept_by_version");
}

static bool is_raised(const struct allocation_facts *facts)
{
    for (uint32_t i = 0; i < facts->n_shares; i++)
        if (facts->share[i].milli != facts->share[i].asked)
            return true;
    return false;
}

void raise_written(struct sim *sim, const struct command *command, const struct change *change)
{
    const struct model_pod *pod = model_find(&sim->model, command->uid != NULL ? command->uid : "");

    if (command->kind == COMMAND_VERSION)
        oracle_version(sim, command, change);
    if (command->kind == COMMAND_ADOPT && pod != NULL && pod->ours && pod->unlike &&
        change->after != NULL)
        sim_met(is_raised(&change->after->facts) ? "raise/believed_edited"
                                                 : "raise/edited_unraised");
}
