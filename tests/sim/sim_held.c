/*
 * held - GPUs that something else than shares of ours has whole, and sick ones: what an agent wrote
 * into its Node decides, from the moment that milligpud has seen it.
 *
 *   a GPU        that its Node says is held takes no share; a variable says so only for a pod that
 *                requests whole GPUs and lives there
 *   a node       takes no shares while a pod has more GPUs whole than are named for it
 *   a snapshot   shows of each GPU what one write said, none older than one that it has shown, and
 *                when all is quiet what the last one said: to people, too, and as drift
 *   a Binding    is signed, and names the agent where the Node has one
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "milligpu/base/annotations.h"
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/wire/admin/wire_admin.h"

#include "sim_run.h"

enum { ALLOCATIONS_MAX = 256, SHOWN_GPUS_MAX = 4096, ILL_BYTES = 192, BY_BYTES = 96 };

/* --- by what a Node says --- */

/* The pod that a variable is of; NULL: it is no word about a variable. */
static const char *claimant(const char *held)
{
    return strncmp(held, "env:", 4) == 0 ? held + 4 : NULL;
}

static bool names_pod(const char *held, const char *uid)
{
    return (strncmp(held, "pod:", 4) == 0 || claimant(held) != NULL) && strcmp(held + 4, uid) == 0;
}

bool held_is(const struct sim *sim, const struct model_node *node, const struct model_gpu *gpu,
             const bool *victim)
{
    if (gpu->held[0] == '\0')
        return false;
    for (uint32_t i = 0; i < sim->model.n_pods; i++) {
        const struct model_pod *pod = &sim->model.pod[i];
        if (!names_pod(gpu->held, pod->uid))
            continue;
        if (victim != NULL && victim[i])
            return false;
        return claimant(gpu->held) == NULL || (oracle_should_hold(pod) && pod->shape->whole > 0 &&
                                               strcmp(pod->node, node->name) == 0);
    }
    return claimant(gpu->held) == NULL;
}

bool held_names_all(const struct model_version *version, const struct model_pod *pod)
{
    uint32_t named = 0;

    for (uint32_t i = 0; i < version->n_gpus; i++)
        named += !version->gpu[i].missing && names_pod(version->gpu[i].held, pod->uid) ? 1 : 0;
    return named >= pod->shape->whole;
}

bool held_named_for(const struct model_node *node, const struct model_pod *pod,
                    const struct model_pod *other)
{
    for (uint32_t v = model_first_known(node, other->asked_version); v < node->versions; v++)
        if (held_names_all(&node->was[v], pod))
            return true;
    return false;
}

/* It has whole GPUs on the other's node, and milligpud knew that when it granted the other. */
static bool was_known(const struct model_pod *pod, const struct model_pod *other)
{
    return pod != other && pod->shape->whole > 0 && model_alive(pod) &&
           strcmp(pod->node, other->node) == 0 && (pod->ours || squat_was_known(pod, other));
}

bool held_surely(const struct sim *sim, const struct model_pod *pod, const struct model_gpu *gpu)
{
    const char *uid = claimant(gpu->held);

    if (uid == NULL)
        return gpu->held[0] != '\0';
    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        if (strcmp(sim->model.pod[i].uid, uid) == 0)
            return was_known(&sim->model.pod[i], pod);
    return false;
}

bool held_closes(const struct sim *sim, const struct model_pod *pod,
                 const struct model_version *version)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        if (was_known(&sim->model.pod[i], pod) && !held_names_all(version, &sim->model.pod[i]))
            return true;
    return false;
}

/* --- by what is shown --- */

static const char *word_of(const struct node *node, const struct gpu *gpu)
{
    for (uint32_t i = 0; i < node->n_notes; i++)
        if (strcmp(node->note[i].gpu->text, gpu->id->text) == 0)
            return node->note[i].held != NULL ? node->note[i].held : "";
    return "";
}

static const char *illness_of(const struct node *node, const struct gpu *gpu)
{
    for (uint32_t i = 0; i < node->n_notes; i++)
        if (strcmp(node->note[i].gpu->text, gpu->id->text) == 0)
            return node->note[i].ill != NULL ? node->note[i].ill : "";
    return "";
}

bool held_shown(const struct node *node, const struct gpu *gpu, const bool *leaves)
{
    const char *held = word_of(node, gpu);

    if (held[0] == '\0')
        return false;
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation_facts *facts = &node->allocation[i]->facts;
        if (!names_pod(held, facts->uid))
            continue;
        if (leaves != NULL && leaves[i])
            return false;
        return claimant(held) == NULL || facts->held_gpus > 0;
    }
    return claimant(held) == NULL;
}

bool held_shown_by(const struct node *node, const struct gpu *gpu, const char *uid)
{
    return names_pod(word_of(node, gpu), uid);
}

uint32_t held_unnamed(const struct node *node, const bool *leaves)
{
    uint64_t unnamed = 0;

    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation_facts *facts = &node->allocation[i]->facts;
        uint32_t named = 0;
        for (uint32_t k = 0; k < node->n_gpus; k++)
            named += names_pod(word_of(node, &node->gpu[k]), facts->uid) ? 1 : 0;
        if ((leaves == NULL || !leaves[i]) && named < facts->held_gpus)
            unnamed += facts->held_gpus - named;
    }
    return unnamed < UINT32_MAX ? (uint32_t)unnamed : UINT32_MAX;
}

/* --- every snapshot --- */

static const struct gpu *shown_gpu(const struct node *node, const char *id)
{
    for (uint32_t i = 0; i < node->n_gpus; i++)
        if (strcmp(node->gpu[i].id->text, id) == 0 && (node->gpu[i].flags & GPU_ABSENT) == 0)
            return &node->gpu[i];
    return NULL;
}

static void illness_told(const struct model_gpu *gpu, char out[ILL_BYTES])
{
    char since[SIM_TIME_BYTES];

    out[0] = '\0';
    if (!gpu->ill)
        return;
    sim_time(gpu->since_ms, since);
    (void)snprintf(out, ILL_BYTES, "%s, since %s", gpu->reason, since);
}

/* The first difference; NULL if none. */
static const char *differs(const struct node *node, const struct model_gpu *told)
{
    const struct gpu *gpu = shown_gpu(node, told->id);
    char ill[ILL_BYTES];

    if (told->missing || gpu == NULL)
        return told->missing == (gpu == NULL) ? NULL : "whether it is there";
    illness_told(told, ill);
    if (gpu->index != told->index)
        return "its index";
    if (((gpu->flags & GPU_UNHEALTHY) != 0) != told->ill)
        return "its health";
    if (strcmp(illness_of(node, gpu), ill) != 0)
        return "why it is ill";
    return strcmp(word_of(node, gpu), told->held) != 0 ? "who holds it" : NULL;
}

/* An odd state tells nothing, or that the GPUs are not ours. */
static bool says(const struct node *node, const struct model_version *version)
{
    if (version->odd || !version->there)
        return true;
    if (node->agent != version->agent)
        return false;
    if (version->stripped)
        return true;
    for (uint32_t i = 0; i < version->n_gpus; i++)
        if (differs(node, &version->gpu[i]) != NULL)
            return false;
    return true;
}

static void oracle_news(const struct sim *sim, const struct model_node *model,
                        const struct node *node)
{
    for (uint32_t v = model_first_known(model, sim->daemon.applied_nodes); v < model->versions; v++)
        if (says(node, &model->was[v]))
            return;
    sim_violation(sim, "what is shown of node %s is nothing that its agent said since version %llu",
                  model->name, (unsigned long long)sim->daemon.applied_nodes);
}

void oracle_holds(const struct sim *sim, const struct node *node)
{
    const struct model_node *model =
        model_node((struct model *)(uintptr_t)&sim->model, node->name->text);
    const uint32_t unnamed = held_unnamed(node, NULL);

    for (uint32_t i = 0; i < node->n_gpus; i++)
        if (((node->gpu[i].flags & GPU_HELD) != 0) != held_shown(node, &node->gpu[i], NULL))
            sim_violation(sim, "GPU %s is %sheld, and is said to be held by \"%s\"",
                          node->gpu[i].id->text, (node->gpu[i].flags & GPU_HELD) != 0 ? "" : "not ",
                          word_of(node, &node->gpu[i]));
    if (node->unnamed_gpus != unnamed)
        sim_violation(sim, "%u whole GPUs of %s are said to be unnamed, %u are", node->unnamed_gpus,
                      node->name->text, unnamed);
    if (model != NULL && model->by_agent && !node->gone && daemon_ready(sim))
        oracle_news(sim, model, node);
}

/* --- all is quiet: to people --- */

static const struct model_pod *holder_of(const struct sim *sim, const char *held)
{
    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        if (names_pod(held, sim->model.pod[i].uid))
            return &sim->model.pod[i];
    return NULL;
}

/* The pod's name, while it lives there and holds anything. */
static void holder_told(const struct sim *sim, const struct model_node *node, const char *held,
                        char out[BY_BYTES])
{
    const struct model_pod *pod = holder_of(sim, held);

    if (pod != NULL && oracle_should_hold(pod) && strcmp(pod->node, node->name) == 0)
        (void)snprintf(out, BY_BYTES, "default/p%u", pod->name);
    else
        (void)snprintf(out, BY_BYTES, "%s", held);
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

/* Troubles that come before it are judged elsewhere. */
static const char *state_told(const struct sim *sim, const struct model_node *node,
                              const struct model_gpu *told, const char *shown)
{
    if (strcmp(shown, "over") == 0 ||
        (strcmp(shown, "duplicate") == 0 && copies_whose(sim, node, told->id) != COPIES_ITS_OWN))
        return shown;
    if (held_is(sim, node, told, NULL))
        return "held";
    if (told->ill)
        return "unhealthy";
    return node->is.cordoned ? "cordoned" : "ok";
}

static void oracle_view_of_gpu(const struct sim *sim, const struct model_node *node,
                               const struct model_gpu *told, const json_t *view)
{
    const char *state = text_at(view, "state");
    const char *expected = state_told(sim, node, told, state);
    char by[BY_BYTES];
    char ill[ILL_BYTES];

    holder_told(sim, node, told->held, by);
    illness_told(told, ill);
    if (strcmp(state, expected) != 0)
        sim_violation(sim, "GPU %s is shown as %s, it is %s", told->id, state, expected);
    if (strcmp(text_at(view, "heldBy"), by) != 0)
        sim_violation(sim, "GPU %s is shown as held by \"%s\", its Node says \"%s\"", told->id,
                      text_at(view, "heldBy"), by);
    if (strcmp(text_at(view, "healthText"), ill) != 0)
        sim_violation(sim, "GPU %s is shown as ill for \"%s\", its Node says \"%s\"", told->id,
                      text_at(view, "healthText"), ill);
    sim_met("told/%s", state);
    if (by[0] != '\0')
        sim_met("told/by_%.3s", told->held);
}

static void oracle_view(const struct sim *sim, const struct model_node *node,
                        const struct node *shown)
{
    struct json_writer json;
    struct strbuf out;
    size_t at;
    const json_t *gpu;

    strbuf_init(&out);
    json_writer_init(&json, &out);
    admin_node(&json, shown, NULL, NULL, false);
    json_t *view = json_loadb(out.data, out.len, 0, NULL);
    if (json_is_true(json_object_get(view, "agent")) != node->is.agent)
        sim_violation(sim, "node %s is shown %s an agent", node->name,
                      node->is.agent ? "without" : "with");
    if (json_integer_value(json_object_get(view, "unnamedGpus")) != held_unnamed(shown, NULL))
        sim_violation(sim, "node %s is shown with %lld unnamed GPUs of %u", node->name,
                      json_integer_value(json_object_get(view, "unnamedGpus")),
                      held_unnamed(shown, NULL));
    json_array_foreach (json_object_get(view, "gpus"), at, gpu)
        for (uint32_t i = 0; i < node->is.n_gpus; i++)
            if (!node->is.gpu[i].missing && strcmp(node->is.gpu[i].id, text_at(gpu, "id")) == 0)
                oracle_view_of_gpu(sim, node, &node->is.gpu[i], gpu);
    json_decref(view);
    strbuf_done(&out);
}

/* --- all is quiet: drift --- */

struct told_drift {
    const struct node *node;
    bool unhealthy[ALLOCATIONS_MAX];
    bool mixed[SHOWN_GPUS_MAX];
    bool node_mixed;
};

static void note_drift(void *user, const struct drift *drift)
{
    struct told_drift *told = user;

    if (strcmp(drift->kind, "unhealthy") == 0)
        for (uint32_t i = 0; i < told->node->n_allocations; i++)
            told->unhealthy[i] =
                told->unhealthy[i] || told->node->allocation[i] == drift->allocation;
    if (strcmp(drift->kind, "mixed") == 0 && drift->gpu != NULL)
        told->mixed[drift->gpu - told->node->gpu] = true;
    if (strcmp(drift->kind, "mixed") == 0 && drift->gpu == NULL)
        told->node_mixed = true;
}

static const struct model_gpu *told_of(const struct model_node *node, const char *id)
{
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if (strcmp(node->is.gpu[i].id, id) == 0 && !node->is.gpu[i].missing)
            return &node->is.gpu[i];
    return NULL;
}

static bool has_share_on(const struct allocation *allocation, const char *id)
{
    for (uint32_t i = 0; i < allocation->n_charges; i++)
        if (strcmp(allocation_charge(allocation, i).gpu->text, id) == 0)
            return true;
    return false;
}

static bool is_on_sick(const struct model_node *node, const struct allocation *allocation)
{
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if (!node->is.gpu[i].missing && node->is.gpu[i].ill &&
            has_share_on(allocation, node->is.gpu[i].id))
            return true;
    return false;
}

static void oracle_drift_told(const struct sim *sim, const struct model_node *node,
                              const struct node *shown)
{
    struct told_drift told = {.node = shown};
    bool shares = false;

    must(shown->n_allocations <= ALLOCATIONS_MAX && shown->n_gpus <= SHOWN_GPUS_MAX);
    drift_of(shown, &told, note_drift);
    for (uint32_t i = 0; i < shown->n_allocations; i++) {
        const struct allocation *allocation = shown->allocation[i];
        shares = shares || allocation->facts.n_shares > 0 || allocation->facts.unplaced_milli > 0;
        if (told.unhealthy[i] != is_on_sick(node, allocation))
            sim_violation(sim, "%s on %s %s said to be on a sick GPU", allocation->facts.name,
                          node->name, told.unhealthy[i] ? "is wrongly" : "is not");
        if (told.unhealthy[i])
            sim_met("told/share_on_sick");
    }
    for (uint32_t i = 0; i < shown->n_gpus; i++) {
        const struct model_gpu *gpu = told_of(node, shown->gpu[i].id->text);
        const bool mixed =
            gpu != NULL && shown->gpu[i].charges > 0 && held_is(sim, node, gpu, NULL);
        if (told.mixed[i] != mixed)
            sim_violation(sim, "GPU %s is %s, and drift says otherwise", shown->gpu[i].id->text,
                          mixed ? "held whole and shared" : "not both held whole and shared");
        if (mixed)
            sim_met("told/share_on_held");
    }
    if (told.node_mixed != (shares && held_unnamed(shown, NULL) > 0))
        sim_violation(sim, "node %s is %s, and drift says otherwise", node->name,
                      told.node_mixed ? "not mixed" : "mixed");
}

void oracle_agents(struct sim *sim, const struct snapshot *snapshot)
{
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        const struct node *shown = snapshot_node(snapshot, text_of(node->name));
        if (!node->by_agent || !node->is.there || node->odd || node->is.stripped)
            continue;
        if (shown == NULL || shown->gone)
            sim_violation(sim, "node %s is there, and not for milligpud", node->name);
        for (uint32_t i = 0; i < node->is.n_gpus; i++)
            if (differs(shown, &node->is.gpu[i]) != NULL)
                sim_violation(sim, "GPU %s: %s is shown otherwise than its Node says",
                              node->is.gpu[i].id, differs(shown, &node->is.gpu[i]));
        oracle_view(sim, node, shown);
        oracle_drift_told(sim, node, shown);
        if (shown->held_gpus > 0 && shown->unnamed_gpus == 0)
            sim_met("told/all_named");
    }
}

/* --- a Binding --- */

static bool had_agent(const struct model_node *node, const struct model_pod *pod, bool had)
{
    for (uint32_t v = model_first_known(node, pod->asked_version); v < node->versions; v++)
        if (node->was[v].agent == had)
            return true;
    return false;
}

static void oracle_required(const struct sim *sim, const struct model_pod *pod, const json_t *notes,
                            bool *out)
{
    const struct model_node *node = model_node((struct model *)(uintptr_t)&sim->model, pod->node);
    char key[64];

    *out = strcmp(text_at(notes, ANNOTATION_REQUIRED_POD), REQUIRED_PLUGINS) == 0;
    if (node == NULL || !had_agent(node, pod, *out))
        sim_violation(sim, "p%u was bound to %s %s an agent, and its Binding says otherwise",
                      pod->name, pod->node, *out ? "without" : "with");
    for (uint32_t s = 0; s < pod->n_shares; s++) {
        (void)snprintf(key, sizeof key, ANNOTATION_REQUIRED_CONTAINER "%s",
                       pod->shape->want[pod->share[s].want].container);
        if ((strcmp(text_at(notes, key), REQUIRED_PLUGINS) == 0) != *out)
            sim_violation(sim, "p%u: its Binding says %s of its container as of itself", pod->name,
                          *out ? "not the same" : "more");
    }
}

void oracle_signed(struct sim *sim, struct model_pod *pod, const json_t *notes)
{
    const char *signature = text_at(notes, ANNOTATION_SIGNATURE);

    if (pod->n_shares == 0)
        return; /* it has no annotations */
    if (!sim->rules.agents && signature[0] != '\0')
        sim_violation(sim, "p%u: somebody signed its allocation", pod->name);
    if (sim->rules.agents)
        oracle_key(sim, pod, signature, text_at(notes, ANNOTATION_ALLOCATION));
    oracle_required(sim, pod, notes, &pod->needs_agent);
    if (pod->needs_agent && pod->signed_by[0] == '\0')
        sim_violation(sim, "p%u: nobody signed its allocation, and its agent will believe none",
                      pod->name);
    if (sim->rules.agents)
        sim_met(pod->needs_agent ? "signed/names_agent" : "signed/without_agent");
}
