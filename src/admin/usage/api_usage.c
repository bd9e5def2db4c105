/*
 * The handler of usage: the shares that each namespace holds now, by model. Called by the router in
 * an admin thread. One pass over all charges of one snapshot, so the total equals the summary of
 * the same generation. There is one row for each pair of namespace and model.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"

#include "admin/api_internal.h"

struct usage_row {
    const char *key; /* namespace, line feed, model; sorts the list */
    const char *namespace;
    const struct atom *model;
    struct admin_usage usage;
    const struct allocation *last; /* allocation of the pod that was counted last */
};

/* A GPU of the present node, of which a pod of the row holds a share. */
struct touch {
    uint32_t gpu;
    struct usage_row *row;
};

struct usage_sum {
    struct api_call *call;
    struct model_filter models;
    const char *namespace;
    struct map rows; /* struct usage_row, by key */
    struct admin_usage total;
    const struct allocation *last;
    struct touch *touch; /* owned; for the present node */
    size_t n_touches;
    size_t capacity;
};

static const struct atom no_model = {.text = ""};

static struct usage_row *row_of(struct usage_sum *sum, const char *namespace,
                                const struct atom *model)
{
    struct arena *arena = &sum->call->arena;
    CLEANUP(strbuf_done) struct strbuf key;

    strbuf_init(&key);
    strbuf_printf(&key, "%s\n", namespace);
    strbuf_text(&key, atom_text(model));
    struct usage_row *row = map_find(&sum->rows, (struct text){key.data, key.len});
    if (row != NULL)
        return row;
    row = arena_alloc(arena, sizeof *row);
    *row = (struct usage_row){
        .key = arena_copy(arena, (struct text){key.data, key.len}),
        .namespace = namespace,
        .model = model,
    };
    must(map_put(&sum->rows, text_of(row->key), row) == NULL);
    return row;
}

/* The charges of one pod are adjacent, so a comparison with the last pod is enough. */
static void count_pod(struct usage_sum *sum, struct usage_row *row,
                      const struct allocation *allocation)
{
    must(row != NULL);
    row->usage.pods += row->last != allocation;
    row->last = allocation;
    sum->total.pods += sum->last != allocation;
    sum->last = allocation;
}

static void usage_add_charge(struct admin_usage *usage, const struct charge *charge,
                             enum allocation_state state)
{
    must(charge->milli > 0);
    if (state == STATE_RESERVED)
        usage->reserved_milli += charge->milli;
    else
        usage->bound_milli += charge->milli;
    usage->mib += charge->mib;
}

static void add_touch(struct usage_sum *sum, uint32_t gpu, struct usage_row *row)
{
    sum->touch = xgrow(sum->touch, sum->n_touches, &sum->capacity, sizeof *sum->touch);
    sum->touch[sum->n_touches++] = (struct touch){gpu, row};
}

static void add_charges(struct usage_sum *sum, const struct node *node,
                        const struct allocation *allocation)
{
    const struct allocation_facts *facts = &allocation->facts;

    for (uint32_t i = 0; i < allocation->n_charges; i++) {
        const struct charge charge = allocation_charge(allocation, i);
        const struct gpu *gpu = node_gpu(node, atom_text(charge.gpu));
        must(gpu != NULL); /* a node lists every GPU that is charged */
        if (!api_model_taken(&sum->models, gpu->model))
            continue;
        struct usage_row *row = row_of(sum, facts->namespace, gpu->model);
        count_pod(sum, row, allocation);
        usage_add_charge(&row->usage, &charge, facts->state);
        usage_add_charge(&sum->total, &charge, facts->state);
        add_touch(sum, (uint32_t)(gpu - node->gpu), row);
    }
}

/* The model of the node; empty if it has several, or none is known. */
static const struct atom *only_model(const struct node *node)
{
    for (uint32_t i = 1; i < node->n_gpus; i++)
        if (node->gpu[i].model != node->gpu[0].model)
            return &no_model;
    return node->n_gpus > 0 ? node->gpu[0].model : &no_model;
}

/* Adds amounts that are held without a known GPU. */
static void add_placeless(struct usage_sum *sum, const struct node *node,
                          const struct allocation *allocation)
{
    const struct allocation_facts *facts = &allocation->facts;
    const struct atom *model = only_model(node);

    if ((facts->held_gpus == 0 && facts->unplaced_milli == 0) ||
        !api_model_taken(&sum->models, model))
        return;
    struct usage_row *row = row_of(sum, facts->namespace, model);
    count_pod(sum, row, allocation);
    row->usage.held_gpus += facts->held_gpus;
    row->usage.unplaced_milli += facts->unplaced_milli;
    sum->total.held_gpus += facts->held_gpus;
    sum->total.unplaced_milli += facts->unplaced_milli;
}

static int touch_cmp(const void *a, const void *b)
{
    const struct touch *left = a;
    const struct touch *right = b;
    if (left->gpu != right->gpu)
        return left->gpu < right->gpu ? -1 : 1;
    return strcmp(left->row->key, right->row->key);
}

/* Counts a GPU once in each row, even if several of its pods share it, and once in the total. */
static void count_gpus(struct usage_sum *sum)
{
    const struct touch *touch = sum->touch;

    if (sum->n_touches > 0)
        qsort(sum->touch, sum->n_touches, sizeof *sum->touch, touch_cmp);
    for (size_t i = 0; i < sum->n_touches; i++) {
        const bool new_gpu = i == 0 || touch[i - 1].gpu != touch[i].gpu;
        must(touch[i].row != NULL);
        touch[i].row->usage.gpus += new_gpu || touch[i - 1].row != touch[i].row;
        sum->total.gpus += new_gpu;
    }
    sum->n_touches = 0;
}

static void usage_add_node(struct usage_sum *sum, const struct node *node)
{
    must(sum->n_touches == 0);
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation *allocation = node->allocation[i];
        if (!api_is_wanted(sum->namespace, allocation->facts.namespace))
            continue;
        add_charges(sum, node, allocation);
        add_placeless(sum, node, allocation);
    }
    count_gpus(sum);
}

static void encode_usage(struct json_writer *json, const struct api_item *item)
{
    const struct usage_row *row = item->what;

    must(row->usage.pods > 0);
    json_write_object(json);
    json_write_key(json, "namespace");
    json_write_str(json, row->namespace);
    json_write_key(json, "model");
    json_write_text(json, atom_text(row->model));
    admin_usage(json, &row->usage);
    json_write_object_end(json);
}

/* Writes the total of all pages, on each page. */
static void encode_total(struct json_writer *json, const void *user)
{
    const struct usage_sum *sum = user;

    must(sum->n_touches == 0);
    json_write_key(json, "total");
    json_write_object(json);
    admin_usage(json, &sum->total);
    json_write_object_end(json);
}

void api_usage(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    struct usage_sum sum = {.call = call, .namespace = call->value[PARAMETER_namespace]};
    struct api_list list = {.about = encode_total, .user = &sum};
    const struct usage_row *row;
    const struct node *node;
    size_t place = 0;

    if (snapshot == NULL || !api_model_filter(call, &sum.models))
        return;
    map_init(&sum.rows);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        usage_add_node(&sum, node);
    while ((row = map_next(&sum.rows, &place)) != NULL)
        api_list_add(call, &list, row->key, row, NULL);
    must(sum.total.pods <= snapshot->allocations);
    api_list_write(call, &list, encode_usage);
    map_done(&sum.rows);
    xfree(sum.touch);
}
