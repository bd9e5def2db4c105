/*
 * squat - pods that name their node themselves and request more than it has.
 *
 * The API server accepts them, and no scheduler is asked. What does not exist is not counted; what
 * exists is closed to others from the moment that milligpud sees them until they are gone.
 */
#include <stdio.h>
#include <string.h>

#include "sim_run.h"

enum { GPU_MILLI_MAX = 1000 };

/* One container at most. */
const struct shape model_squatter[] = {
    {"64000", 1, {{"c", WANT_APP, 64000, 0}}, .grantable = true, .ours = true},
    {"64000over64", 1, {{"c", WANT_APP, 64000, 64}}, .grantable = true, .ours = true},
    {"6400over64", 1, {{"c", WANT_APP, 6400, 64}}, .grantable = true, .ours = true},
    {"65000", 1, {{"c", WANT_APP, 65000, 0}}, .ours = true},
    {"4294967000", 1, {{"c", WANT_APP, 4294967000, 0}}, .ours = true},
    {"64000&64whole", 1, {{"c", WANT_APP, 64000, 0}}, .grantable = true, .ours = true, .whole = 64},
    {"64whole", 0, {{0}}, .ours = false, .whole = 64},
    {"4000000000whole", 0, {{0}}, .ours = false, .whole = 4000000000},
};
const uint32_t model_squatters = ARRAY_LEN(model_squatter);

bool squat_was_known(const struct model_pod *squatter, const struct model_pod *pod)
{
    return model_alive(squatter) && squatter->node[0] != '\0' && !squatter->ours &&
           squatter->bound_version <= pod->asked_pods && strcmp(squatter->node, pod->node) == 0;
}

/* It requests each GPU that any node has, and all of it. */
static bool fills(const struct model_pod *pod)
{
    const struct shape *shape = pod->shape;

    return model_alive(pod) && pod->node[0] != '\0' && !pod->ours && shape->n_wants == 1 &&
           shape->grantable && shape->want[0].milli >= MODEL_GPUS * GPU_MILLI_MAX &&
           (shape->want[0].count == 0 ||
            shape->want[0].milli / shape->want[0].count == GPU_MILLI_MAX);
}

/* Did the GPU exist all the time, from the first state by which milligpud may have counted it? */
static bool was_there(const struct model_node *node, uint32_t gpu, const struct model_pod *squatter)
{
    for (uint32_t v = model_first_known(node, squatter->asked_version); v < node->versions; v++)
        if (!node->was[v].there || gpu >= node->was[v].n_gpus || node->was[v].gpu[gpu].missing)
            return false;
    return true;
}

bool squat_fills(const struct model_pod *pod, const struct model_node *node)
{
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if (!was_there(node, i, pod))
            return false;
    return fills(pod);
}

static bool is_named(const struct model_version *version, uint32_t gpu, const char *id)
{
    return strcmp(version->gpu[gpu].id, id) == 0 || strcmp(version->gpu[gpu].alias, id) == 0;
}

static void oracle_shares(const struct sim *sim, const struct model_pod *pod,
                          const struct model_node *node, const struct model_pod *squatter)
{
    for (uint32_t s = 0; s < pod->n_shares; s++)
        for (uint32_t i = 0; i < node->is.n_gpus; i++)
            if (is_named(&node->is, i, pod->share[s].gpu) && was_there(node, i, squatter))
                sim_violation(sim, "p%u was granted GPU %s, which p%u (%s) squats all the time",
                              pod->name, pod->share[s].gpu, squatter->name, squatter->shape->word);
}

void oracle_beside_squatters(struct sim *sim, const struct model_pod *pod)
{
    const struct model_node *node = model_node(&sim->model, pod->node);

    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *other = &sim->model.pod[i];
        if (other == pod || !squat_was_known(other, pod))
            continue;
        if ((pod->shape->whole > 0 && model_peak(other->shape) > 0) ||
            (other->shape->whole > 0 && pod->n_shares > 0 && !held_named_for(node, other, pod)))
            sim_violation(sim, "p%u (%s) was bound to %s beside p%u (%s), which was known there",
                          pod->name, pod->shape->word, pod->node, other->name, other->shape->word);
        if (fills(other))
            oracle_shares(sim, pod, node, other);
        sim_met("grant/beside a stranger");
    }
}

/* --- all is quiet --- */

/* The most that the node showed since then; 0: it was without GPUs for a while. */
static uint32_t most_gpus(const struct model_node *node, const struct model_pod *squatter)
{
    uint32_t most = 0;

    for (uint32_t v = model_first_known(node, squatter->asked_version); v < node->versions; v++) {
        uint32_t there = 0;
        for (uint32_t i = 0; node->was[v].there && i < node->was[v].n_gpus; i++)
            there += node->was[v].gpu[i].missing ? 0 : 1;
        if (there == 0)
            return 0;
        most = there > most ? there : most;
    }
    return most;
}

/*
 * At most what the node has: parts of one container lie on different GPUs. An annotation that names
 * GPUs which are missing is believed, if it agrees with the request.
 */
static void oracle_most(const struct sim *sim, const struct model_pod *pod,
                        const struct model_node *node, const struct allocation *held)
{
    const uint32_t most = most_gpus(node, pod) * GPU_MILLI_MAX;
    const uint32_t counted = allocation_milli(held) + held->facts.unplaced_milli;

    if (pod->shape->n_wants != 1 || most == 0 || pod->makes_up)
        return;
    if (counted > most)
        sim_violation(sim, "p%u (%s) counts %u milli of %s, which has %u", pod->name,
                      pod->shape->word, counted, pod->node, most);
    if (model_peak(pod->shape) > most)
        sim_met("quiet/squatted");
}

static uint32_t free_on(const struct node *node, const char *id)
{
    const struct gpu *gpu = node_gpu(node, text_of(id));

    return gpu != NULL ? gpu_free(gpu) : 0;
}

void oracle_squatter(struct sim *sim, const struct model_pod *pod, const struct node *shown,
                     const struct allocation *held)
{
    const struct model_node *node = model_node(&sim->model, pod->node);

    if (node == NULL)
        return; /* bound to a node that never existed */
    oracle_most(sim, pod, node, held);
    if (pod->shape->whole > 0 && shown->held_gpus == 0)
        sim_violation(sim, "%s is open to shares beside p%u (%s)", pod->node, pod->name,
                      pod->shape->word);
    if (!fills(pod) || shown->unplaced_milli > 0)
        return; /* the whole node is closed */
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if (was_there(node, i, pod) && free_on(shown, node->is.gpu[i].id) > 0)
            sim_violation(sim, "GPU %s has %u milli free, and p%u (%s) squats it",
                          node->is.gpu[i].id, free_on(shown, node->is.gpu[i].id), pod->name,
                          pod->shape->word);
}

uint32_t squat_least(const struct sim *sim, const struct model_pod *pod)
{
    const struct model_node *node = model_node((struct model *)(uintptr_t)&sim->model, pod->node);
    uint32_t least = UINT32_MAX;

    /* Until it could not be read it had what it showed. */
    for (uint32_t v = 0; v < node->versions; v++) {
        uint32_t milli = 0;
        for (uint32_t i = 0; node->was[v].there && i < node->was[v].n_gpus; i++)
            milli += node->was[v].gpu[i].missing ? 0 : node->was[v].gpu[i].milli;
        if (milli > 0 && milli < least)
            least = milli;
    }
    return least;
}

/* Somebody else's pod, one with whole GPUs, or a doubt: then nothing can be said. */
static bool is_ours_alone(const struct sim *sim, const struct model_node *node,
                          const struct node *shown)
{
    for (uint32_t i = 0; i < shown->n_allocations; i++)
        if (shown->allocation[i]->facts.state == STATE_RESERVED)
            return false;
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (model_alive(pod) && strcmp(pod->node, node->name) == 0 &&
            ((!pod->ours && oracle_asks(pod)) || !held_names_all(&node->is, pod)))
            return false;
    }
    return true;
}

void oracle_open_nodes(struct sim *sim, const struct snapshot *snapshot)
{
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        const struct node *shown = snapshot_node(snapshot, text_of(node->name));
        if (!node->is.there || node->is.cordoned || !is_ours_alone(sim, node, shown))
            continue;
        for (uint32_t i = 0; i < node->is.n_gpus; i++) {
            const struct model_gpu *gpu = &node->is.gpu[i];
            const struct gpu *is = node_gpu(shown, text_of(gpu->id));
            if (gpu->missing || gpu->ill || held_is(sim, node, gpu, NULL) ||
                copies_whose(sim, node, gpu->id) != COPIES_ITS_OWN)
                continue;
            const uint32_t taken = oracle_granted(sim, node, gpu->id, NULL);
            const uint32_t room = taken < gpu->milli ? gpu->milli - taken : 0;
            if (is == NULL || (room > 0 && gpu_closed(is) != REASON_NONE) || gpu_free(is) != room)
                sim_violation(sim, "GPU %s has %u milli free, the ledger says %u, %s", gpu->id,
                              room, is != NULL ? gpu_free(is) : 0,
                              is != NULL ? reason_name(gpu_closed(is)) : "not there");
            sim_met("quiet/open");
        }
    }
}
