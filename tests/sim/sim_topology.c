/*
 * topology - nodes that tell which of their GPUs lie together, and pods that demand it.
 *
 * In some runs the Nodes with UUIDs tell of NVLink and NUMA nodes: switches, islands, boards with
 * irregular links, half of it or nothing; links come and go, and either side may name one. Some
 * pods then demand how the GPUs of each container lie, and change their minds while they wait, and
 * so do rules of the policy (sim_rules.c). What must hold of that is judged in sim_oracle.c
 * (Bindings) and sim_answers.c (answers and grants), by sim_lay.c.
 */
#include <stdio.h>
#include <string.h>

#include "sim_lay.h"
#include "sim_run.h"

enum { FEWEST = 2, RANGE = 5 }; /* GPUs of a node */

/* --- what pods request --- */

#define ANYHOW_LAID .grantable = true, .ours = true
#define ALL_LINKED  ANYHOW_LAID, .topology = "nvlink", .lie = LIE_LINKED
#define ON_ONE_NUMA ANYHOW_LAID, .topology = "numa", .lie = LIE_ON_NUMA
#define TWO_BESIDE                                                                                 \
    {"a", WANT_APP, 300, 0},                                                                       \
    {                                                                                              \
        "b", WANT_APP, 2000, 0                                                                     \
    }
#define TWO_TWICE                                                                                  \
    {"a", WANT_APP, 800, 2},                                                                       \
    {                                                                                              \
        "b", WANT_APP, 600, 2                                                                      \
    }
#define TWO_BEFORE                                                                                 \
    {"i", WANT_INIT, 2000, 0},                                                                     \
    {                                                                                              \
        "c", WANT_APP, 300, 0                                                                      \
    }

/* Most of them in three ways, so that a pod may change from one to another. */
const struct shape model_lying[] = {
    {"2000any", 1, {{"c", WANT_APP, 2000, 0}}, ANYHOW_LAID},
    {"2000nvlink", 1, {{"c", WANT_APP, 2000, 0}}, ALL_LINKED},
    {"2000numa", 1, {{"c", WANT_APP, 2000, 0}}, ON_ONE_NUMA},
    {"3000any", 1, {{"c", WANT_APP, 3000, 0}}, ANYHOW_LAID},
    {"3000nvlink", 1, {{"c", WANT_APP, 3000, 0}}, ALL_LINKED},
    {"3000numa", 1, {{"c", WANT_APP, 3000, 0}}, ON_ONE_NUMA},
    {"600over2any", 1, {{"c", WANT_APP, 600, 2}}, ANYHOW_LAID},
    {"600over2nvlink", 1, {{"c", WANT_APP, 600, 2}}, ALL_LINKED},
    {"600over2numa", 1, {{"c", WANT_APP, 600, 2}}, ON_ONE_NUMA},
    {"800over2+600over2any", 2, {TWO_TWICE}, ANYHOW_LAID},
    {"800over2+600over2nvlink", 2, {TWO_TWICE}, ALL_LINKED},
    {"800over2+600over2numa", 2, {TWO_TWICE}, ON_ONE_NUMA},
    /* A container of one GPU lies together by itself. */
    {"300+2000any", 2, {TWO_BESIDE}, ANYHOW_LAID},
    {"300+2000nvlink", 2, {TWO_BESIDE}, ALL_LINKED},
    {"300+2000numa", 2, {TWO_BESIDE}, ON_ONE_NUMA},
    {"init2000+300nvlink", 2, {TWO_BEFORE}, ALL_LINKED},
    {"2000nvlink&whole", 1, {{"c", WANT_APP, 2000, 0}}, ALL_LINKED, .whole = 1},
    {"500nvlink", 1, {{"c", WANT_APP, 500, 0}}, ALL_LINKED},
    {"bad_topology", 1, {{"c", WANT_APP, 2000, 0}}, .ours = true, .topology = "nvlnk"},
};
const uint32_t model_lyings = ARRAY_LEN(model_lying);

/* --- nodes --- */

enum pattern { SILENT, SWITCH, PAIRS, ACROSS, RING, NUMA_ONLY, ANYHOW, PATTERNS };

static bool are_paired(enum pattern pattern, uint32_t a, uint32_t b, uint32_t gpus)
{
    switch (pattern) {
    case SWITCH:
        return true;
    case PAIRS:
        return a / 2 == b / 2;
    case ACROSS:
        return a % 2 == b % 2;
    case RING:
        return (a + 1) % gpus == b || (b + 1) % gpus == a;
    default:
        return false;
    }
}

/* Either of the two names the link, or both do. */
static void name_link(struct model_node *node, struct draw *draw, uint32_t a, uint32_t b)
{
    const uint32_t who = draw_below(draw, 3);

    if (who != 0)
        node->is.gpu[a].names |= 1U << b;
    if (who != 1)
        node->is.gpu[b].names |= 1U << a;
}

static void draw_pattern(struct model_node *node, struct draw *draw)
{
    const enum pattern pattern = draw_below(draw, PATTERNS);
    const uint32_t gpus = node->is.n_gpus;

    for (uint32_t i = 0; i < gpus; i++) {
        struct model_gpu *gpu = &node->is.gpu[i];
        gpu->names = 0;
        gpu->numa = pattern == SILENT                            ? 0
                    : pattern == ANYHOW || draw_chance(draw, 50) ? draw_below(draw, 3)
                    : pattern == NUMA_ONLY                       ? 1 + i % 2
                                                                 : 1 + i * 2 / gpus;
    }
    for (uint32_t i = 0; i < gpus; i++)
        for (uint32_t k = 0; k < i; k++)
            if (are_paired(pattern, i, k, gpus) || (pattern == ANYHOW && draw_chance(draw, 500)))
                name_link(node, draw, i, k);
}

void topology_draw(const struct sim *sim, struct model_node *node, struct draw *draw)
{
    if (sim->rules.linked && node->source == MODEL_ANNOTATED)
        draw_pattern(node, draw);
}

/* Some have more GPUs than nodes otherwise have. */
uint32_t topology_gpus(const struct sim *sim, uint32_t gpus, struct draw *draw)
{
    return sim->rules.linked ? FEWEST + draw_below(draw, RANGE) : gpus;
}

void topology_tell(const struct model_node *node, uint32_t at, json_t *object)
{
    const struct model_gpu *gpu = &node->is.gpu[at];

    if (gpu->numa > 0)
        json_object_set_new(object, "numa", json_integer(gpu->numa - 1));
    if (gpu->names == 0)
        return;
    json_t *list = json_array();
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if ((gpu->names >> i & 1) != 0)
            json_array_append_new(list, json_string(node->is.gpu[i].id));
    json_object_set_new(object, "nvlink", list);
}

/* False: nothing. */
bool topology_step(struct sim *sim, struct model_node *node, struct draw *draw)
{
    if (!sim->rules.linked || node->source != MODEL_ANNOTATED || !draw_chance(draw, 400))
        return false;
    const uint32_t a = draw_below(draw, node->is.n_gpus);
    const uint32_t b = draw_below(draw, node->is.n_gpus);

    switch (draw_below(draw, 4)) {
    case 0:
        draw_pattern(node, draw);
        break;
    case 1:
        if (a != b)
            name_link(node, draw, a, b);
        break;
    case 2:
        node->is.gpu[a].names &= ~(1U << b);
        node->is.gpu[b].names &= ~(1U << a);
        break;
    default:
        node->is.gpu[a].numa = draw_below(draw, 3);
    }
    core_patch_node(sim, node, "lies_otherwise");
    return true;
}

/* A Node tells that its GPUs lie together, so that the pod fits: milligpud does not know yet. */
bool topology_makes_room(struct sim *sim, const struct model_pod *pod)
{
    if (!sim->rules.linked || sim->rules.loses || pod->shape->lie == LIE_ANYWHERE ||
        !draw_chance(&sim->draw, 300))
        return false;
    struct model_node *node = &sim->model.node[draw_below(&sim->draw, sim->model.n_nodes)];
    if (node->source != MODEL_ANNOTATED || node->by_agent || !node->is.there || node->odd)
        return false;
    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        if (pod->shape->lie == LIE_ON_NUMA)
            node->is.gpu[i].numa = 1;
        for (uint32_t k = 0; pod->shape->lie == LIE_LINKED && k < i; k++)
            name_link(node, &sim->draw, i, k);
    }
    core_patch_node(sim, node, "lies_together");
    return oracle_fits_somewhere(sim, pod);
}

/* --- all is quiet: what is shown is what the Node tells --- */

static const struct model_gpu *told_of(const struct model_node *node, const struct gpu *gpu)
{
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if (!node->is.gpu[i].missing && strcmp(node->is.gpu[i].id, gpu->id->text) == 0)
            return &node->is.gpu[i];
    return NULL;
}

static bool are_linked(const struct model_node *node, const struct model_gpu *a,
                       const struct model_gpu *b)
{
    return (a->names >> (b - node->is.gpu) & 1) != 0 || (b->names >> (a - node->is.gpu) & 1) != 0;
}

static void oracle_peers(const struct sim *sim, const struct model_node *node,
                         const struct node *shown, uint32_t at)
{
    const struct gpu *gpu = &shown->gpu[at];
    const struct model_gpu *told = told_of(node, gpu);

    if (told == NULL)
        return;
    if (gpu->numa != (int32_t)told->numa - 1)
        sim_violation(sim, "GPU %s is on NUMA node %d, its Node says %d", gpu->id->text, gpu->numa,
                      (int32_t)told->numa - 1);
    for (uint32_t i = 0; i < at; i++) {
        const struct model_gpu *other = told_of(node, &shown->gpu[i]);
        const bool linked = other != NULL && are_linked(node, told, other);
        if (((gpu->peers >> i & 1) != 0) != linked)
            sim_violation(sim, "GPUs %s and %s are %s, and their Node says otherwise",
                          gpu->id->text, shown->gpu[i].id->text, linked ? "not linked" : "linked");
        sim_met(linked ? "quiet/linked" : "quiet/not_linked");
    }
}

void oracle_told(const struct sim *sim, const struct snapshot *snapshot)
{
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        const struct node *shown = snapshot_node(snapshot, text_of(node->name));
        for (uint32_t i = 0; node->is.there && shown != NULL && i < shown->n_gpus; i++)
            oracle_peers(sim, node, shown, i);
    }
}

/* --- pods --- */

const struct shape *topology_shape(const struct sim *sim, struct draw *draw)
{
    const struct shape *raising = raise_shape(sim, draw);
    const struct shape *large = raising == NULL ? reserve_shape(sim, draw) : NULL;

    if (raising != NULL || large != NULL)
        return raising != NULL ? raising : large;
    if (sim->rules.linked && draw_chance(draw, 500))
        return &model_lying[draw_below(draw, model_lyings)];
    return &model_shape[draw_below(draw, model_shapes)];
}

static bool are_alike(const struct shape *a, const struct shape *b)
{
    bool alike = a->grantable && b->grantable && a->n_wants == b->n_wants && a->whole == b->whole;

    for (uint32_t w = 0; alike && w < a->n_wants; w++)
        alike = a->want[w].kind == b->want[w].kind && a->want[w].milli == b->want[w].milli &&
                a->want[w].count == b->want[w].count;
    return alike && a->model == b->model && a->memory == b->memory;
}

/* Another demand of a pod that waits: it gets what it demands in the version that is bound. */
bool topology_ask(struct sim *sim, struct model_pod *pod, struct draw *draw)
{
    const uint32_t from = draw_below(draw, model_lyings);
    const struct shape *other = NULL;
    char path[96];

    for (uint32_t i = 0; other == NULL && i < model_lyings; i++) {
        const struct shape *shape = &model_lying[(from + i) % model_lyings];
        if (shape->lie != pod->shape->lie && are_alike(shape, pod->shape))
            other = shape;
    }
    if (!sim->rules.linked || other == NULL)
        return false;
    pod->shape = other;
    pod->edited = true;
    pod->edited_version = UINT64_MAX;
    (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/p%u", pod->name);
    (void)core_request_json(sim, "PATCH", path,
                            json_pack("{s:{s:{s:s?}}}", "metadata", "annotations",
                                      "milligpu.io/topology", other->topology));
    pod->edited_version = pod->version;
    sim_met("tenant/demands_otherwise");
    sim_say(sim, "p%u is %s now", pod->name, other->word);
    return true;
}

void topology_reserved(struct sim *sim, struct model_pod *pod)
{
    if ((sim->rules.linked || sim->rules.raises) && draw_chance(&sim->draw, 150))
        pod->hesitates = true;
}

/* --- a Binding --- */

/* The GPUs of a want, as positions in that state of the node; false: it does not show them all. */
static bool find_gpus(const struct model_pod *pod, uint32_t want,
                      const struct model_version *version, uint32_t *out)
{
    *out = 0;
    for (uint32_t s = 0; s < pod->n_shares; s++) {
        uint32_t at = 0;
        if (pod->share[s].want != want)
            continue;
        while (at < version->n_gpus && strcmp(version->gpu[at].id, pod->share[s].gpu) != 0 &&
               strcmp(version->gpu[at].alias, pod->share[s].gpu) != 0)
            at++;
        if (at == version->n_gpus)
            return false;
        *out |= 1U << at;
    }
    return true;
}

static bool lies(const struct model_pod *pod, const struct model_version *version,
                 enum model_lie demand)
{
    struct lay_room room = {.n_gpus = version->n_gpus};
    uint32_t gpus;

    for (uint32_t i = 0; i < version->n_gpus; i++)
        room.gpu[i].id = version->gpu[i].id;
    lay_tell(&room, version);
    for (uint32_t w = 0; w < pod->shape->n_wants; w++)
        if (!find_gpus(pod, w, version, &gpus) || !lay_obeys(&room, gpus, demand))
            return false;
    return true;
}

/*
 * Each container lies as the pod demands in the version that is bound, by some state of the node
 * that milligpud may have decided by. Linked is more than on one NUMA node (rulebook.h): a rule
 * that demands it counts instead.
 */
void oracle_lies(const struct sim *sim, const struct model_pod *pod)
{
    const struct model_node *node = model_node((struct model *)(uintptr_t)&sim->model, pod->node);
    bool ok = false;

    if (pod->shape->lie == LIE_ANYWHERE)
        return;
    for (uint32_t v = model_first_known(node, pod->asked_version); v < node->versions; v++)
        ok = ok || lies(pod, &node->was[v], pod->shape->lie) ||
             (pod->told_nvlink && lies(pod, &node->was[v], LIE_LINKED));
    if (!ok)
        sim_violation(sim, "p%u (%s) was granted GPUs of %s that do not lie so", pod->name,
                      pod->shape->word, pod->node);
    if (pod->edited)
        sim_met("grant/demanded_later");
}
