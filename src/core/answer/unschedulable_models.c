/*
 * Lists the GPU models of the cluster, for a pod that requests a model without any GPU. Called for
 * one pod at a time: by the REST view of a pod, and by the watch for a pod's Event. kube-scheduler
 * never gets this text: it changes with the cluster (docs/why/005-constant-texts.md).
 */
#include <stdlib.h>

#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/core/facts/model.h"

/* Number of models in a text, and of models that are compared. */
enum { NEAREST_MAX = 3, COMPARED_MAX = 64 };

struct near_model {
    const struct atom *model;
    size_t distance;
};

/* State of a walk over all GPUs. Models are interned: equal pointers are equal names. */
struct model_search {
    const struct request *request;
    uint32_t n_models;
    struct near_model model[COMPARED_MAX];
};

static bool seen_before(const struct model_search *search, const struct atom *model)
{
    must(model != NULL);
    must(search->n_models <= COMPARED_MAX);
    for (uint32_t i = 0; i < search->n_models; i++)
        if (search->model[i].model == model)
            return true;
    return false;
}

/* The minimum distance to any of the requested models. */
static size_t distance_to(const struct request *request, const struct atom *model)
{
    char buf[MODEL_BYTES_MAX];
    const struct text bare = model_bare(atom_text(model), buf);
    size_t least = SIZE_MAX;

    must(request->n_models > 0);
    must(model->len <= MODEL_BYTES_MAX);
    for (uint32_t i = 0; i < request->n_models; i++) {
        const size_t distance = model_distance(text_of(request->model[i]), bare);
        least = distance < least ? distance : least;
    }
    must(least < SIZE_MAX);
    return least;
}

/* False: the request accepts this model. */
static bool add_model(struct model_search *search, const struct atom *model)
{
    must(search->request->n_models > 0);
    must(search->n_models <= COMPARED_MAX);
    if (seen_before(search, model))
        return true;
    if (request_takes_model(search->request, atom_text(model)))
        return false;
    if (model->len > 0 && model->len <= MODEL_BYTES_MAX && search->n_models < COMPARED_MAX)
        search->model[search->n_models++] =
            (struct near_model){model, distance_to(search->request, model)};
    return true;
}

static int nearest_first(const void *left, const void *right)
{
    const struct near_model *a = left;
    const struct near_model *b = right;
    must(a->model != NULL && b->model != NULL);
    must(a->model != b->model || a == b);
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return atom_cmp(a->model, b->model);
}

/* False: the request accepts the model of some GPU. */
static bool add_all_models(struct model_search *search, const struct snapshot *snapshot)
{
    const struct node *node;

    must(search->n_models == 0);
    must(snapshot != NULL);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_gpus && !node->gone; i++)
            if (!add_model(search, node->gpu[i].model))
                return false;
    return true;
}

void unschedulable_missing_model(const struct snapshot *snapshot, const struct request *request,
                                 char *out, size_t bytes)
{
    struct model_search search = {.request = request};
    CLEANUP(strbuf_done) struct strbuf text;

    must(bytes > 0);
    must(request_asks(request));
    out[0] = '\0';
    strbuf_init(&text);
    if (request->n_models == 0 || !add_all_models(&search, snapshot))
        return;
    qsort(search.model, search.n_models, sizeof *search.model, nearest_first);
    strbuf_str(&text, "no node has a GPU of model ");
    request_add_models(&text, request);
    request_add_comma_hint(&text, request);
    if (search.n_models > 0)
        strbuf_str(&text, search.n_models == 1 ? "; the nearest is " : "; the nearest are ");
    for (uint32_t i = 0; i < search.n_models && i < NEAREST_MAX; i++)
        strbuf_printf(&text, "%s%s", i > 0 ? ", " : "", search.model[i].model->text);
    must(text.len > 0);
    text_clip((struct text){text.data, text.len}, out, bytes);
}

static int by_model_name(const void *left, const void *right)
{
    const struct atom *const *a = left;
    const struct atom *const *b = right;
    must(*a != NULL && *b != NULL);
    must(*a != *b || a == b);
    return atom_cmp(*a, *b);
}

static void collect_model(struct cluster_models *models, const struct atom *model)
{
    must(model != NULL);
    must(models->count <= CLUSTER_MODELS_MAX);
    for (uint32_t i = 0; i < models->count; i++)
        if (models->model[i] == model)
            return;
    if (model->len > 0 && models->count < CLUSTER_MODELS_MAX)
        models->model[models->count++] = model;
}

void cluster_models(const struct snapshot *snapshot, struct cluster_models *out)
{
    const struct atom *last = NULL; /* adjacent GPUs nearly always have the same model */
    const struct node *node;

    must(snapshot != NULL);
    must(out != NULL);
    out->count = 0;
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_gpus && !node->gone; i++)
            if (node->gpu[i].model != last) {
                last = node->gpu[i].model;
                collect_model(out, last);
            }
    qsort(out->model, out->count, sizeof *out->model, by_model_name);
    must(out->count <= CLUSTER_MODELS_MAX);
}
