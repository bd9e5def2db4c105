/*
 * copies - nodes that show UUIDs of another: a cloned image, for a while or for ever.
 *
 * A UUID is granted on one node at a time. If milligpud knew its owner before anybody copied it,
 * the owner keeps it for as long as its Node exists, whatever it shows meanwhile; the copying node
 * gets nothing. In all other cases milligpud may choose, so the oracle does not know which fits.
 */
#include <stdio.h>
#include <string.h>

#include "sim_run.h"

/* --- the owner --- */

static struct model_copied *copied_of(const struct sim *sim, const char *id)
{
    struct model *model = (struct model *)(uintptr_t)&sim->model;

    for (uint32_t i = 0; i < model->copies; i++)
        if (strcmp(model->copied[i].id, id) == 0)
            return &model->copied[i];
    return NULL;
}

/* Otherwise a new ledger may have begun in the meantime. */
static bool has_always_shown(const struct model_node *node, const char *id)
{
    for (uint32_t v = 0; v < node->versions; v++) {
        bool shown = false;
        for (uint32_t i = 0; i < node->was[v].n_gpus; i++)
            shown =
                shown || (strcmp(node->was[v].gpu[i].id, id) == 0 && !node->was[v].gpu[i].missing);
        if (!shown)
            return false;
    }
    return true;
}

/*
 * Then pods from its former life may hold what it shows, and take that with them: TRUST.md, Known.
 */
static bool came_again(const struct model_node *node)
{
    bool came = false;
    bool went = false;

    for (uint32_t v = 0; v < node->versions; v++) {
        if (node->was[v].there && went)
            return true;
        came = came || node->was[v].there;
        went = went || (came && !node->was[v].there);
    }
    return false;
}

enum copies_whose copies_whose(const struct sim *sim, const struct model_node *node, const char *id)
{
    const struct model_copied *copied = copied_of(sim, id);

    if (copied == NULL)
        return COPIES_ITS_OWN;
    if (!copied->known || came_again(&sim->model.node[copied->owner]) ||
        (sim->rules.loses && !has_always_shown(&sim->model.node[copied->owner], id)))
        return COPIES_UNSURE;
    return copied->owner == node - sim->model.node ? COPIES_ITS_OWN : COPIES_ANOTHERS;
}

bool copies_at(const struct sim *sim, const struct model_node *node)
{
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if (copied_of(sim, node->is.gpu[i].id) != NULL)
            return true;
    return false;
}

/* The Node is gone, and the next one that shows the UUID may own it. */
void copies_node_gone(struct sim *sim, const struct model_node *node)
{
    for (uint32_t i = 0; i < sim->model.copies; i++)
        if (sim->model.copied[i].owner == node - sim->model.node)
            sim->model.copied[i].known = false;
}

/* Has milligpud stored that the UUIDs are that node's? */
static bool is_known(const struct sim *sim, const struct model_node *node)
{
    return sim->rules.loses || sim->daemon.applied_nodes >= node->is.version;
}

/* --- what nodes do --- */

static void copy(struct sim *sim, struct model_node *node, const struct model_node *from,
                 uint32_t at)
{
    const struct model_gpu *gpu = &from->is.gpu[at];

    if (copied_of(sim, gpu->id) == NULL) {
        must(sim->model.copies < MODEL_COPIES);
        struct model_copied *copied = &sim->model.copied[sim->model.copies++];
        *copied = (struct model_copied){.owner = (uint32_t)(from - sim->model.node),
                                        .known = !gpu->missing && is_known(sim, from)};
        (void)snprintf(copied->id, sizeof copied->id, "%s", gpu->id);
    }
    struct model_gpu *mine = &node->is.gpu[node->is.n_gpus];
    *mine = *gpu;
    mine->alias[0] = '\0';
    mine->index = node->is.n_gpus++;
    mine->copy = true;
    mine->missing = mine->ill = false;
    mine->held[0] = '\0'; /* by nobody, and nobody says why it is ill */
    mine->health = mine->reason = NULL;
    mine->names = 0; /* those of the other node */
}

static bool has(const struct model_node *node, const char *id)
{
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if (strcmp(node->is.gpu[i].id, id) == 0)
            return true;
    return false;
}

/* One UUID of that node, or as many as fit. */
static bool copy_from(struct sim *sim, struct model_node *node, const struct model_node *from,
                      bool all)
{
    bool any = false;

    if (from == node || node->by_agent || !from->is.there || from->source != MODEL_ANNOTATED)
        return false; /* an agent shows what it finds */
    for (uint32_t i = 0; i < from->is.n_gpus && node->is.n_gpus < MODEL_GPUS && (all || !any); i++)
        if (!from->is.gpu[i].copy && !has(node, from->is.gpu[i].id)) {
            copy(sim, node, from, i);
            any = true;
        }
    return any;
}

static void come_and_go(struct sim *sim, struct model_node *node)
{
    bool any = false;
    bool shows = false;

    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        shows = shows || (node->is.gpu[i].copy && !node->is.gpu[i].missing);
    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        any = any || node->is.gpu[i].copy;
        if (node->is.gpu[i].copy)
            node->is.gpu[i].missing = shows;
    }
    if (any)
        core_patch_node(sim, node, shows ? "is_itself_again" : "is_a_copy_again");
}

/* A copied node shows nothing for a moment, or everything again. */
static void blink(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->model.copies; i++) {
        struct model_node *owner = &sim->model.node[sim->model.copied[i].owner];
        if (!owner->is.there || owner->odd || owner->by_agent)
            continue;
        const bool shows = !owner->is.gpu[0].missing;
        for (uint32_t g = 0; g < owner->is.n_gpus; g++)
            owner->is.gpu[g].missing = shows;
        core_patch_node(sim, owner, shows ? "copied_and_shows_nothing" : "copied_and_shows_all");
        return;
    }
}

bool copies_step(struct sim *sim, struct model_node *node, struct draw *draw)
{
    if (!sim->rules.copies || node->source != MODEL_ANNOTATED || !draw_chance(draw, 500))
        return false;
    const struct model_node *from = &sim->model.node[draw_below(draw, sim->model.n_nodes)];
    const bool all = draw_chance(draw, 300);

    switch (draw_below(draw, 3)) {
    case 0:
        if (copy_from(sim, node, from, all))
            core_patch_node(sim, node, all ? "is_a_clone" : "copies_a_uuid");
        break;
    case 1:
        come_and_go(sim, node);
        break;
    default:
        blink(sim);
    }
    return true;
}

/*
 * In runs that lose ledgers nodes do not change: of two that show the same the older one continues.
 */
void copies_begin(struct sim *sim)
{
    if (!sim->rules.copies || !sim->rules.loses)
        return;
    for (uint32_t n = 0; n + 1 < sim->model.n_nodes; n++)
        if (copy_from(sim, &sim->model.node[n], &sim->model.node[n + 1], true))
            core_patch_node(sim, &sim->model.node[n], "is_a_clone");
}

/* --- what must hold --- */

void oracle_copies(const struct sim *sim, const struct model_pod *pod,
                   const struct model_share *share)
{
    const struct model_node *here = model_node((struct model *)(uintptr_t)&sim->model, pod->node);

    must(here != NULL);
    if (copies_whose(sim, here, share->gpu) == COPIES_ANOTHERS)
        sim_violation(sim, "p%u was granted GPU %s on %s, and another node showed it first",
                      pod->name, share->gpu, pod->node);
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        const uint32_t sum = node != here ? oracle_granted(sim, node, share->gpu, NULL) : 0;
        /* If a ledger is lost while its owner cannot be read: TRUST.md, Known. */
        if (sum > 0 && !(sim->rules.loses && (node->was_odd || here->was_odd)))
            sim_violation(sim, "GPU %s is granted on %s to p%u, and %u milli of it on %s",
                          share->gpu, pod->node, pod->name, sum, node->name);
    }
    if (copied_of(sim, share->gpu) != NULL)
        sim_met("grant/of_a_copied_uuid");
}
