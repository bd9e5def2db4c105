#include "milligpu/wire_admin.h"

#include <string.h>

#include "milligpu/wire_kube.h"

enum { REQUEST_TEXT_MAX = 512 };

static void put_str(struct jw *jw, const char *key, const char *value)
{
    must(value != NULL);
    jw_key(jw, key);
    jw_str(jw, value);
}

static void put_atom(struct jw *jw, const char *key, const struct atom *value)
{
    must(value != NULL);
    jw_key(jw, key);
    jw_text(jw, atom_text(value));
}

static void put_u64(struct jw *jw, const char *key, uint64_t value)
{
    jw_key(jw, key);
    jw_u64(jw, value);
}

static void put_bool(struct jw *jw, const char *key, bool value)
{
    jw_key(jw, key);
    jw_bool(jw, value);
}

static void put_time(struct jw *jw, const char *key, int64_t ms)
{
    char text[TIME_TEXT_BYTES];

    must(key != NULL);
    if (ms <= 0)
        return; /* not known; a timestamp before 1970 is nobody's */
    time_format(ms, text);
    put_str(jw, key, text);
}

/* --- amounts --- */

uint32_t admin_gpu_free(const struct node *node, const struct gpu *gpu)
{
    must(gpu >= node->gpu && gpu < node->gpu + node->gpus);
    if (node_closed(node) != REASON_NONE || gpu_closed(gpu) != REASON_NONE)
        return 0;
    return gpu_free(gpu);
}

void admin_amounts_add(struct admin_amounts *amounts, const struct node *node,
                       const struct gpu *gpu)
{
    const uint32_t milli = admin_gpu_free(node, gpu);

    must(milli <= gpu->milli);
    amounts->gpus++;
    if ((gpu->flags & GPU_ABSENT) == 0)
        amounts->capacity_milli += gpu->milli;
    amounts->used_milli += gpu->used_milli;
    amounts->reserved_milli += gpu->reserved_milli;
    amounts->free_milli += milli;
    if (milli > amounts->largest_free_milli)
        amounts->largest_free_milli = milli;
}

void admin_amounts(struct jw *jw, const struct admin_amounts *amounts)
{
    must(amounts->largest_free_milli <= amounts->free_milli);
    must(amounts->free_milli <= amounts->capacity_milli);
    put_u64(jw, "capacityMilli", amounts->capacity_milli);
    put_u64(jw, "usedMilli", amounts->used_milli);
    put_u64(jw, "reservedMilli", amounts->reserved_milli);
    put_u64(jw, "freeMilli", amounts->free_milli);
    put_u64(jw, "largestFreeMilli", amounts->largest_free_milli);
}

/* --- nodes --- */

const char *admin_gpu_state(const struct gpu *gpu)
{
    static const struct {
        unsigned flag;
        const char *word;
    } states[] = {
        /* What keeps shares away most surely comes first. */
        {GPU_ABSENT, "absent"}, {GPU_DUPLICATE, "duplicate"}, {GPU_UNSURE, "unsure"},
        {GPU_OVER, "over"},     {GPU_UNHEALTHY, "unhealthy"}, {GPU_CORDONED, "cordoned"},
    };

    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if ((gpu->flags & states[i].flag) != 0)
            return states[i].word;
    must(gpu->flags == 0);
    return "ok";
}

const char *admin_node_state(const struct node *node)
{
    must(node != NULL);
    if (node->gone)
        return "gone";
    if (node->problem != PROBLEM_NONE)
        return "excluded";
    switch (node_closed(node)) {
    case REASON_MIXED:
        return "mixed";
    case REASON_UNPLACED:
        return "unplaced";
    default:
        return "ok";
    }
}

static void put_node_text(struct jw *jw, const struct node *node)
{
    const enum reason closed = node_closed(node);

    must(closed == REASON_NONE || reason_class(closed) != REASON_CLASS_STATE);
    if (node->gone)
        put_str(jw, "stateText", "the Node object is gone, its pods are not");
    else if (node->problem != PROBLEM_NONE)
        put_atom(jw, "stateText", node->problem_text);
    else
        put_str(jw, "stateText", closed == REASON_NONE ? "" : reason_help(closed));
}

static bool is_first_of_model(const struct node *node, uint32_t gpu)
{
    must(gpu < node->gpus);
    for (uint32_t i = 0; i < gpu; i++)
        if (node->gpu[i].model == node->gpu[gpu].model)
            return false;
    return node->gpu[gpu].model->len > 0;
}

/* One model in nearly every node there is; several are listed. */
static void put_models(struct jw *jw, const struct node *node)
{
    CLEANUP(strbuf_done) struct strbuf models;

    strbuf_init(&models);
    for (uint32_t i = 0; i < node->gpus; i++) {
        if (!is_first_of_model(node, i))
            continue;
        if (models.len > 0)
            strbuf_str(&models, ", ");
        strbuf_text(&models, atom_text(node->gpu[i].model));
    }
    put_str(jw, "model", models.data);
}

static bool is_cordoned(const struct node *node)
{
    for (uint32_t i = 0; i < node->gpus; i++)
        if ((node->gpu[i].flags & (GPU_CORDONED | GPU_ABSENT)) == 0)
            return false;
    return node->gpus > 0;
}

static void put_holders(struct jw *jw, const struct node *node, const struct gpu *gpu)
{
    jw_key(jw, "holders");
    jw_array(jw);
    for (uint32_t i = 0; i < node->allocations; i++) {
        const struct allocation *allocation = node->allocation[i];
        for (uint32_t k = 0; k < allocation->charges; k++) {
            const struct charge *charge = &allocation->charge[k];
            if (node_gpu(node, atom_text(charge->gpu)) != gpu)
                continue;
            must(charge->milli > 0);
            jw_object(jw);
            put_str(jw, "uid", allocation->is.uid);
            put_str(jw, "namespace", allocation->is.namespace);
            put_str(jw, "name", allocation->is.name);
            put_str(jw, "state", allocation_state_name(allocation->is.state));
            put_u64(jw, "milli", charge->milli);
            put_u64(jw, "mib", charge->mib);
            jw_object_end(jw);
        }
    }
    jw_array_end(jw);
}

static void put_gpu(struct jw *jw, const struct node *node, const struct gpu *gpu, bool pods)
{
    must(gpu->id->len > 0);
    jw_object(jw);
    put_atom(jw, "id", gpu->id);
    put_u64(jw, "index", gpu->index);
    put_atom(jw, "model", gpu->model);
    put_u64(jw, "mib", gpu->mib);
    put_u64(jw, "milli", gpu->milli);
    put_u64(jw, "usedMilli", gpu->used_milli);
    put_u64(jw, "reservedMilli", gpu->reserved_milli);
    put_u64(jw, "usedMib", gpu->used_mib);
    put_u64(jw, "freeMilli", admin_gpu_free(node, gpu));
    put_u64(jw, "pods", gpu->charges);
    put_str(jw, "state", admin_gpu_state(gpu));
    if (pods)
        put_holders(jw, node, gpu);
    jw_object_end(jw);
}

void admin_node(struct jw *jw, const struct node *node, bool pods)
{
    struct admin_amounts amounts = {0};

    must(node->name != NULL);
    /* Whether it adds up is the audit's question; in safe mode the wrong sum is what one reads. */
    for (uint32_t i = 0; i < node->gpus; i++)
        admin_amounts_add(&amounts, node, &node->gpu[i]);
    jw_object(jw);
    put_atom(jw, "name", node->name);
    put_atom(jw, "uid", node->uid);
    put_models(jw, node);
    put_str(jw, "source", inventory_source_name(node->source));
    put_str(jw, "state", admin_node_state(node));
    put_node_text(jw, node);
    put_bool(jw, "cordoned", is_cordoned(node));
    admin_amounts(jw, &amounts);
    put_u64(jw, "heldGpus", node->held_gpus);
    jw_key(jw, "gpus");
    jw_array(jw);
    for (uint32_t i = 0; i < node->gpus; i++)
        put_gpu(jw, node, &node->gpu[i], pods);
    jw_array_end(jw);
    jw_object_end(jw);
}

/* --- allocations --- */

/* The id that the GPU has now: an allocation may know it by the one from before its UUID. */
static void put_place(struct jw *jw, const struct node *node, const struct atom *id)
{
    const struct gpu *gpu = node != NULL ? node_gpu(node, atom_text(id)) : NULL;

    must(id->len > 0);
    put_atom(jw, "gpu", gpu != NULL ? gpu->id : id);
    put_u64(jw, "index", gpu != NULL ? gpu->index : 0);
}

static void put_amount(struct jw *jw, uint32_t milli, uint32_t mib)
{
    put_u64(jw, "milli", milli);
    put_u64(jw, "mib", mib);
}

static void put_charges(struct jw *jw, const struct allocation *allocation, const struct node *node)
{
    jw_key(jw, "charges");
    jw_array(jw);
    for (uint32_t i = 0; i < allocation->charges; i++) {
        const struct charge *charge = &allocation->charge[i];
        jw_object(jw);
        put_place(jw, node, charge->gpu);
        put_amount(jw, charge->milli, charge->mib);
        jw_object_end(jw);
    }
    jw_array_end(jw);
}

static void put_shares(struct jw *jw, const struct allocation *allocation, const struct node *node)
{
    must(allocation->is.shares <= PARTS_MAX);
    jw_key(jw, "shares");
    jw_array(jw);
    for (uint32_t i = 0; i < allocation->is.shares; i++) {
        const struct share *share = &allocation->is.share[i];
        jw_object(jw);
        put_str(jw, "container", share->container);
        put_str(jw, "kind", container_kind_name(share->kind));
        put_place(jw, node, share->gpu);
        put_amount(jw, share->milli, share->mib);
        jw_object_end(jw);
    }
    jw_array_end(jw);
}

void admin_allocation(struct jw *jw, const struct allocation *allocation, const struct node *node)
{
    const struct allocation_facts *is = &allocation->is;

    must(node == NULL || node->name == is->node);
    jw_object(jw);
    put_str(jw, "uid", is->uid);
    put_str(jw, "namespace", is->namespace);
    put_str(jw, "name", is->name);
    put_atom(jw, "node", is->node);
    put_str(jw, "state", allocation_state_name(is->state));
    put_str(jw, "origin", allocation_origin_name(is->origin));
    put_bool(jw, "presumed", is->presumed);
    put_bool(jw, "inDoubt", is->in_doubt);
    put_time(jw, "reservedAt", is->reserved_ms);
    put_time(jw, "boundAt", is->bound_ms);
    put_time(jw, "releasedAt", is->released_ms);
    put_time(jw, "terminatingSince", is->terminating_ms);
    put_u64(jw, "heldGpus", is->held_gpus);
    put_u64(jw, "unplacedMilli", is->unplaced_milli);
    put_charges(jw, allocation, node);
    put_shares(jw, allocation, node);
    jw_object_end(jw);
}

void admin_released(struct jw *jw, const struct admin_history *row, size_t rows)
{
    must(rows > 0);
    jw_object(jw);
    put_str(jw, "uid", row->uid);
    put_str(jw, "namespace", row->namespace);
    put_str(jw, "name", row->name);
    put_str(jw, "node", row->node);
    put_str(jw, "state", row->state);
    put_time(jw, "reservedAt", row->reserved_ms);
    put_time(jw, "boundAt", row->bound_ms);
    put_time(jw, "releasedAt", row->released_ms);
    jw_key(jw, "charges");
    jw_array(jw);
    for (size_t i = 0; i < rows; i++) {
        must(strcmp(row[i].uid, row->uid) == 0);
        if (row[i].gpu[0] == '\0')
            continue; /* it held no GPU that had a name */
        jw_object(jw);
        put_str(jw, "gpu", row[i].gpu);
        put_amount(jw, row[i].milli, row[i].mib);
        jw_object_end(jw);
    }
    jw_array_end(jw);
    jw_key(jw, "shares");
    jw_array(jw);
    jw_array_end(jw);
    jw_object_end(jw);
}

/* --- the rest --- */

void admin_drift(struct jw *jw, const struct drift *drift)
{
    const struct allocation *allocation = drift->allocation;

    must(drift->kind != NULL);
    must(drift->node != NULL);
    jw_object(jw);
    put_str(jw, "kind", drift->kind);
    put_atom(jw, "node", drift->node->name);
    if (drift->gpu != NULL)
        put_atom(jw, "gpu", drift->gpu->id);
    if (allocation != NULL) {
        put_str(jw, "namespace", allocation->is.namespace);
        put_str(jw, "name", allocation->is.name);
        put_str(jw, "uid", allocation->is.uid);
    }
    put_str(jw, "text", drift->text);
    put_time(jw, "since", drift->since_ms);
    jw_object_end(jw);
}

static void put_waiting(struct jw *jw, const struct admin_waiting *waiting)
{
    must(waiting->asks > 0);
    put_time(jw, "since", waiting->since_ms);
    put_time(jw, "lastAsked", waiting->last_ms);
    put_u64(jw, "asks", waiting->asks);
    put_str(jw, "text", waiting->text);
    if (waiting->offered == 0)
        return;
    must(waiting->offered <= waiting->fitting);
    put_u64(jw, "offered", waiting->offered);
    put_u64(jw, "fitting", waiting->fitting);
}

void admin_waiting_brief(struct jw *jw, const struct admin_waiting *waiting)
{
    must(waiting->text != NULL);
    jw_object(jw);
    put_waiting(jw, waiting);
    jw_object_end(jw);
}

void admin_waiting(struct jw *jw, const struct admin_waiting *waiting)
{
    char request[REQUEST_TEXT_MAX] = "cannot be granted anywhere";

    must(waiting->uid != NULL);
    must(waiting->request == NULL || !waiting->wishless);
    if (waiting->request != NULL)
        request_format(waiting->request, request, sizeof request);
    else if (waiting->wishless)
        text_clip(text_of(ADMIN_WISHLESS), request, sizeof request);
    jw_object(jw);
    put_str(jw, "uid", waiting->uid);
    put_str(jw, "namespace", waiting->namespace);
    put_str(jw, "name", waiting->name);
    put_str(jw, "request", request);
    put_waiting(jw, waiting);
    jw_object_end(jw);
}

void admin_history(struct jw *jw, const struct admin_history *row)
{
    must(row->uid != NULL);
    jw_object(jw);
    put_str(jw, "uid", row->uid);
    put_str(jw, "namespace", row->namespace);
    put_str(jw, "name", row->name);
    put_str(jw, "node", row->node);
    put_str(jw, "nodeUid", row->node_uid);
    put_str(jw, "gpu", row->gpu);
    put_u64(jw, "milli", row->milli);
    put_u64(jw, "mib", row->mib);
    put_str(jw, "state", row->state);
    put_time(jw, "reservedAt", row->reserved_ms);
    put_time(jw, "boundAt", row->bound_ms);
    put_time(jw, "releasedAt", row->released_ms);
    jw_object_end(jw);
}

static const char *title_of(int status)
{
    static const struct {
        int status;
        const char *title;
    } titles[] = {
        {400, "bad request"},        {401, "unauthorized"},
        {403, "forbidden"},          {404, "not found"},
        {405, "method not allowed"}, {409, "conflict"},
        {413, "too large"},          {415, "unsupported media type"},
        {429, "too many requests"},  {500, "internal error"},
        {503, "unavailable"},        {504, "timeout"},
        {507, "disk full"},
    };

    must(status >= 400 && status < 600);
    for (size_t i = 0; i < ARRAY_LEN(titles); i++)
        if (titles[i].status == status)
            return titles[i].title;
    return status < 500 ? "bad request" : "internal error";
}

void admin_problem(struct strbuf *out, int status, const char *detail)
{
    struct jw jw;

    must(detail != NULL);
    jw_init(&jw, out);
    jw_object(&jw);
    put_str(&jw, "type", "about:blank");
    put_str(&jw, "title", title_of(status));
    put_u64(&jw, "status", (uint64_t)status);
    put_str(&jw, "detail", detail);
    jw_object_end(&jw);
}
