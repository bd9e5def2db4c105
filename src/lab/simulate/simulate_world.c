/*
 * Reads the CSV files of the command simulate: nodes and arrivals. Called by simulate.c. An arrival
 * is a pointer to its name in the file and the index of a shape, because traces have a million pods
 * of a hundred shapes.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/facts/model.h"

#include "lab/cluster/csv.h"
#include "simulate.h"

void world_init(struct world *world)
{
    *world = (struct world){0};
    arena_init(&world->arena);
    map_init(&world->node_by_name);
    map_init(&world->shape_by_key);
    map_init(&world->seen_models);
}

void world_done(struct world *world)
{
    map_done(&world->node_by_name);
    map_done(&world->shape_by_key);
    map_done(&world->seen_models);
    xfree(world->node);
    xfree(world->shape);
    xfree(world->pod);
    xfree(world->held);
    xfree(world->names);
    arena_done(&world->arena);
}

/* Refuses names that would need quotes in a placements file. */
static int world_check_name(const struct csv *csv, size_t field, const char *what, struct err *err)
{
    const struct text name = csv->field[field].text;

    must(what[0] != '\0');
    if (name.len == 0)
        return csv_wrong(csv, field, err, "%s is empty: write a name", what);
    if (name.len > NAME_BYTES_MAX)
        return csv_wrong(csv, field, err, "%s is longer than 253 bytes", what);
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] <= ' ' || name.at[i] > '~' || strchr(",|\"\\", name.at[i]) != NULL)
            return csv_wrong(csv, field, err,
                             "%s has a character that no name has: write letters, digits, '-', "
                             "'.' or '/'",
                             what);
    return 0;
}

/* --- nodes --- */

enum node_column { NODE_NAME, NODE_CPU, NODE_MEMORY, NODE_GPUS, NODE_MODEL, NODE_COLUMNS };
static const char *const node_column[] = {"sn", "cpu_milli", "memory_mib", "gpu", "model"};
static_assert(ARRAY_LEN(node_column) == NODE_COLUMNS, "one name for each");

static int world_read_model(struct world *world, const struct csv *csv, size_t field,
                            const char **out, struct err *err)
{
    const struct text model = csv->field[field].text;

    static_assert(MODEL_BYTES_MAX == 128, "as the text says");
    if (model.len > MODEL_BYTES_MAX)
        return csv_wrong(csv, field, err, "model is longer than 128 bytes");
    for (size_t i = 0; i < model.len; i++)
        if (model.at[i] < ' ' || model.at[i] > '~' || model.at[i] == '|' || model.at[i] == ',')
            return csv_wrong(csv, field, err, "model has a character that no model has");
    *out = arena_copy(&world->arena, model);
    return 0;
}

struct world_node *world_take_node(struct world *world, const struct node_facts *facts)
{
    static const struct inventory_rules rules = {.from_labels = true};
    struct inventory *inventory = arena_alloc(&world->arena, sizeof *inventory);

    must(world->n_nodes < NODES_MAX);
    inventory_parse(facts, &rules, &world->arena, inventory);
    inventory->taints = (struct node_taints){0}; /* pods of a simulation have no tolerations */
    must(inventory->n_gpus <= GPUS_PER_NODE_MAX);
    world->node = xgrow(world->node, world->n_nodes, &world->node_capacity, sizeof *world->node);
    struct world_node *node = &world->node[world->n_nodes++];
    *node = (struct world_node){.name = inventory->node,
                                .hash = text_hash(text_of(inventory->node)),
                                .inventory = inventory};
    must(map_put(&world->node_by_name, text_of(node->name), world) == NULL);
    world->n_gpus += inventory->n_gpus;
    for (uint32_t i = 0; i < inventory->n_gpus; i++)
        world->gpu_milli += inventory->gpu[i].milli;
    return node;
}

/* Adds a node as if its Node had the labels of NVIDIA's feature discovery. */
static void world_take_labels(struct world *world, const char *name, uint32_t gpus,
                              const char *model, const struct host *host)
{
    const bool has_model = gpus > 0 && model[0] != '\0'; /* no labels without GPUs */
    struct label *product = arena_alloc(&world->arena, sizeof *product);

    *product = (struct label){"nvidia.com/gpu.product", model};
    const struct node_facts facts = {
        .name = name,
        .uid = name,
        .n_labels = has_model,
        .label = product,
        .label_count = gpus > 0 ? arena_printf(&world->arena, "%u", gpus) : NULL,
        .label_product = has_model ? model : NULL,
    };
    struct world_node *node = world_take_node(world, &facts);
    node->host = *host;
    must(node->inventory->problem == PROBLEM_NONE && node->inventory->n_gpus == gpus);
}

static int world_add_node(struct world *world, const struct csv *csv, const size_t *at,
                          struct err *err)
{
    static const struct csv_range cpu = {"cpu_milli", 0, SIMULATE_AMOUNT_MAX};
    static const struct csv_range memory = {"memory_mib", 0, SIMULATE_AMOUNT_MAX};
    static const struct csv_range range = {"gpu", 0, GPUS_PER_NODE_MAX};
    const struct text given = csv->field[at[NODE_NAME]].text;
    const char *model = "";
    struct host host;
    uint32_t gpus;

    if (world_check_name(csv, at[NODE_NAME], "sn", err) < 0 ||
        csv_number(csv, at[NODE_CPU], &cpu, &host.cpu_milli, err) < 0 ||
        csv_number(csv, at[NODE_MEMORY], &memory, &host.memory_mib, err) < 0 ||
        csv_number(csv, at[NODE_GPUS], &range, &gpus, err) < 0 ||
        world_read_model(world, csv, at[NODE_MODEL], &model, err) < 0)
        return err_same(err);
    if (memchr(given.at, '/', given.len) != NULL)
        return csv_wrong(csv, at[NODE_NAME], err, "sn contains '/': no node's name does");
    if (world->n_nodes == NODES_MAX)
        return csv_wrong(csv, at[NODE_NAME], err, "more than %d nodes", NODES_MAX);
    const char *name = arena_copy(&world->arena, given);
    if (map_find(&world->node_by_name, text_of(name)) != NULL)
        return csv_wrong(csv, at[NODE_NAME], err, "a second node %s: names are distinct", name);
    world_take_labels(world, name, gpus, model, &host);
    return 0;
}

int world_read_nodes(struct world *world, const char *file, struct err *err)
{
    size_t at[NODE_COLUMNS];
    struct csv csv;
    int status;

    must(world->n_nodes == 0);
    if (csv_open(&csv, file, err) < 0)
        return err_same(err);
    status = csv_header(&csv, node_column, NODE_COLUMNS, at, err);
    while (status == 0) {
        const int next = csv_next(&csv, err);
        if (next == 0)
            break;
        status = next < 0 ? next : world_add_node(world, &csv, at, err);
    }
    if (status == 0 && world->gpu_milli == 0)
        status = err_set(err, ERR_INVALID,
                         "%.200s:%u:1: the file ends, and no node has a GPU: column gpu says how "
                         "many each has",
                         file, csv.line);
    csv_close(&csv);
    return status;
}

/* --- arrivals --- */

enum pod_column { POD_NAME, POD_CPU, POD_MEMORY, POD_GPUS, POD_MILLI, POD_MODELS, POD_COLUMNS };
static const char *const pod_column[] = {"name",    "cpu_milli", "memory_mib",
                                         "num_gpu", "gpu_milli", "gpu_spec"};
static_assert(ARRAY_LEN(pod_column) == POD_COLUMNS, "one name for each");

static int world_by_text(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;

    must(*a != NULL && *b != NULL);
    return strcmp(*a, *b);
}

/* Sorts models and removes duplicates, so that A|B and B|A are the same shape. */
static void world_sort_models(struct request *request)
{
    uint32_t kept = 1;

    must(request->n_models > 0);
    qsort(request->model, request->n_models, sizeof *request->model, world_by_text);
    for (uint32_t i = 1; i < request->n_models; i++)
        if (strcmp(request->model[i], request->model[kept - 1]) != 0)
            request->model[kept++] = request->model[i];
    request->n_models = kept;
}

static bool world_has_model(const struct world *world, const struct request *request)
{
    char bare[MODEL_BYTES_MAX];

    must(request->n_models > 0);
    for (uint32_t i = 0; i < world->n_nodes; i++) {
        const struct inventory *inventory = world->node[i].inventory;
        const char *last = NULL; /* adjacent GPUs nearly always have the same model */
        for (uint32_t g = 0; g < inventory->n_gpus; g++) {
            const char *model = inventory->gpu[g].model;
            if (last != NULL && strcmp(model, last) == 0)
                continue;
            if (request_takes_model(request, model_bare(text_of(model), bare)))
                return true;
            last = model;
        }
    }
    return false;
}

/* State while reading arrivals. */
struct world_reader {
    struct world *world;
    struct csv csv;
    size_t at[POD_COLUMNS];
    struct strbuf key;
    FILE *warnings;
};

/* Parses each list of models once, by its text in the file. */
static int world_read_models(struct world_reader *reader, const struct request **out,
                             struct err *err)
{
    struct world *world = reader->world;
    const size_t field = reader->at[POD_MODELS];
    const struct text spec = reader->csv.field[field].text;
    struct request *models = map_find(&world->seen_models, spec);

    *out = models;
    if (models != NULL)
        return 0;
    if (memchr(spec.at, ',', spec.len) != NULL)
        return csv_wrong(&reader->csv, field, err, "gpu_spec contains a comma: write | instead");
    char *key = arena_copy(&world->arena, spec);
    char *list = arena_copy(&world->arena, spec);
    for (char *c = list; *c != '\0'; c++)
        if (*c == '|')
            *c = ',';
    models = arena_alloc(&world->arena, sizeof *models);
    const char *fault = request_read_models(text_of(list), &world->arena, models);
    if (fault != NULL)
        return csv_wrong(&reader->csv, field, err,
                         "gpu_spec %s: write models with | between them, or nothing", fault);
    world_sort_models(models);
    if (!world_has_model(world, models)) {
        world->impossible++;
        (void)fprintf(reader->warnings,
                      "%s:%u:%u: no node has a GPU %s: the pods that ask for it are refused\n",
                      reader->csv.file, reader->csv.field[field].line,
                      reader->csv.field[field].column, key);
    }
    (void)map_put(&world->seen_models, (struct text){key, spec.len}, models); /* a new key */
    *out = models;
    return 0;
}

static int world_read_shape(struct world_reader *reader, struct world_shape *out, struct err *err)
{
    static const struct csv_range cpu = {"cpu_milli", 0, SIMULATE_AMOUNT_MAX};
    static const struct csv_range memory = {"memory_mib", 0, SIMULATE_AMOUNT_MAX};
    static const struct csv_range gpus = {"num_gpu", 0, GPUS_PER_NODE_MAX};
    static const struct csv_range some = {"gpu_milli", 1, GPU_MILLI};
    static const struct csv_range none = {"gpu_milli of a pod without GPUs", 0, 0};
    const struct csv *csv = &reader->csv;
    const size_t *at = reader->at;
    const struct request *models;

    *out = (struct world_shape){.want = {.container = "main", .kind = CONTAINER_APP},
                                .namespace = SIMULATE_NAMESPACE};
    if (csv_number(csv, at[POD_CPU], &cpu, &out->request.host.cpu_milli, err) < 0 ||
        csv_number(csv, at[POD_MEMORY], &memory, &out->request.host.memory_mib, err) < 0 ||
        csv_number(csv, at[POD_GPUS], &gpus, &out->want.parts, err) < 0 ||
        csv_number(csv, at[POD_MILLI], out->want.parts > 0 ? &some : &none, &out->want.milli, err) <
            0)
        return err_same(err);
    out->request.n_wants = out->want.parts > 0 ? 1 : 0;
    if (csv->field[at[POD_MODELS]].text.len == 0)
        return 0;
    if (out->want.parts == 0)
        return csv_wrong(csv, at[POD_MODELS], err,
                         "gpu_spec of a pod without GPUs: write nothing, or a num_gpu");
    if (world_read_models(reader, &models, err) < 0)
        return err_same(err);
    must(models != NULL);
    out->request.n_models = models->n_models;
    out->request.model = models->model;
    return 0;
}

/* "2 x 1000 milli of T4, 8000m CPU, 16384 MiB" */
static void world_write_shape(struct strbuf *out, const struct world_shape *shape)
{
    must(shape->want.parts <= GPUS_PER_NODE_MAX);
    if (shape->want.parts == 0)
        strbuf_str(out, "no GPU");
    else if (shape->want.parts == 1)
        strbuf_printf(out, "%u milli", shape->want.milli);
    else
        strbuf_printf(out, "%u x %u milli", shape->want.parts, shape->want.milli);
    for (uint32_t i = 0; i < shape->request.n_models; i++)
        strbuf_printf(out, "%s%s", i == 0 ? " of " : "|", shape->request.model[i]);
    strbuf_printf(out, ", %um CPU, %u MiB", shape->request.host.cpu_milli,
                  shape->request.host.memory_mib);
}

struct world_known {
    uint32_t shape;
};

/* The index of the shape, made if new; the key is its text, which contains all its properties. */
static uint32_t world_take_shape(struct world_reader *reader, const struct world_shape *shape)
{
    struct world *world = reader->world;

    strbuf_reset(&reader->key);
    world_write_shape(&reader->key, shape);
    const struct text key = {reader->key.data, reader->key.len};
    struct world_known *known = map_find(&world->shape_by_key, key);
    if (known == NULL) {
        known = arena_alloc(&world->arena, sizeof *known);
        known->shape = world->n_shapes;
        world->shape =
            xgrow(world->shape, world->n_shapes, &world->shape_capacity, sizeof *world->shape);
        world->shape[world->n_shapes] = *shape;
        world->shape[world->n_shapes].text = arena_copy(&world->arena, key);
        (void)map_put(&world->shape_by_key, text_of(world->shape[world->n_shapes].text), known);
        world->n_shapes++;
    }
    must(known->shape < world->n_shapes);
    return known->shape;
}

static int world_add_pod(struct world_reader *reader, struct err *err)
{
    struct world *world = reader->world;
    struct world_shape shape;

    if (world_check_name(&reader->csv, reader->at[POD_NAME], "name", err) < 0 ||
        world_read_shape(reader, &shape, err) < 0)
        return err_same(err);
    if (world->n_pods == SIMULATE_ARRIVALS_MAX)
        return csv_wrong(&reader->csv, 0, err, "more than %d arrivals", SIMULATE_ARRIVALS_MAX);
    const uint32_t taken = world_take_shape(reader, &shape);
    world->shape[taken].count++;
    world->pod = xgrow(world->pod, world->n_pods, &world->pod_capacity, sizeof *world->pod);
    world->pod[world->n_pods++] = (struct world_pod){
        .name = reader->csv.field[reader->at[POD_NAME]].text,
        .shape = taken,
    };
    return 0;
}

int world_read_arrivals(struct world *world, const char *file, FILE *warnings, struct err *err)
{
    struct world_reader reader = {.world = world, .warnings = warnings};
    int status;

    must(world->n_pods == 0 && warnings != NULL);
    if (csv_open(&reader.csv, file, err) < 0)
        return err_same(err);
    strbuf_init(&reader.key);
    status = csv_header(&reader.csv, pod_column, POD_COLUMNS, reader.at, err);
    while (status == 0) {
        const int next = csv_next(&reader.csv, err);
        if (next == 0)
            break;
        status = next < 0 ? next : world_add_pod(&reader, err);
    }
    if (status == 0 && world->n_pods == 0)
        status = err_set(err, ERR_INVALID,
                         "%.200s:%u:1: the file ends, and no pod arrives: write one line for each",
                         file, reader.csv.line);
    strbuf_done(&reader.key);
    world->names = STEAL(reader.csv.bytes);
    csv_close(&reader.csv);
    /* Set at the end, because the array moves while it grows. */
    for (uint32_t i = 0; i < world->n_shapes; i++)
        world->shape[i].request.want = &world->shape[i].want;
    return status;
}

/* --- the workload --- */

static int world_by_count(const void *left, const void *right)
{
    const struct world_shape *const *a = left;
    const struct world_shape *const *b = right;

    must((*a)->count > 0 && (*b)->count > 0);
    if ((*a)->count != (*b)->count)
        return (*a)->count > (*b)->count ? -1 : 1;
    return (*a > *b) - (*a < *b);
}

static int world_by_place(const void *left, const void *right)
{
    const struct world_shape *const *a = left;
    const struct world_shape *const *b = right;

    must(*a != NULL && *b != NULL);
    return (*a > *b) - (*a < *b);
}

/* The most frequent shapes, in the order of the file. */
static const struct world_shape **world_commonest(const struct world *world, uint32_t *count)
{
    const struct world_shape **shape = xcalloc(world->n_shapes, sizeof *shape);

    must(world->n_shapes > 0);
    for (uint32_t i = 0; i < world->n_shapes; i++)
        shape[i] = &world->shape[i];
    *count = world->n_shapes;
    if (world->n_shapes > WORKLOAD_CLASSES_MAX) {
        *count = WORKLOAD_CLASSES_MAX;
        qsort(shape, world->n_shapes, sizeof *shape, world_by_count);
        qsort(shape, *count, sizeof *shape, world_by_place);
    }
    return shape;
}

/* Scales a count, to at least 1, so that all add up to at most WORKLOAD_COUNT_MAX. */
static uint32_t world_scaled(uint64_t count, uint64_t total)
{
    must(count > 0 && count <= total);
    if (total <= WORKLOAD_COUNT_MAX)
        return (uint32_t)count;
    return 1 + (uint32_t)(count * (WORKLOAD_COUNT_MAX - WORKLOAD_CLASSES_MAX) / total);
}

struct workload *world_workload(const struct world *world, uint32_t *dropped)
{
    uint32_t classes;
    const struct world_shape **shape = world_commonest(world, &classes);
    struct workload_class *class = xcalloc(classes, sizeof *class);
    uint64_t total = 0;

    *dropped = world->n_shapes - classes;
    for (uint32_t i = 0; i < classes; i++)
        total += shape[i]->count;
    for (uint32_t i = 0; i < classes; i++)
        class[i] = (struct workload_class){
            .host = shape[i]->request.host,
            .parts = shape[i]->want.parts,
            .milli = shape[i]->want.milli,
            .n_models = shape[i]->request.n_models,
            .model = shape[i]->request.model,
            .count = world_scaled(shape[i]->count, total),
        };
    struct workload *workload = workload_new(class, classes);
    xfree(class);
    xfree(shape);
    must(workload->n_classes == classes);
    return workload;
}
