/*
 * Parses states of the journal (src/store/rows/state.c) into facts. Called by backtest_past.c for
 * each entry, and by backtest_run.c to fill a ledger. A file is external input: a state that no
 * daemon writes is ERR_CORRUPT, never a failed must(). Absent keys have defaults.
 */
#include <inttypes.h>
#include <string.h>

#include "milligpu/core/ledger/ledger.h"
#include "milligpu/document/document.h"

#include "backtest.h"

/* Reads the members of one object, and keeps the first invalid one. */
struct past_fields {
    struct past *past;
    const struct document *object;
    const char *wrong; /* first invalid member; NULL if none */
};

static int64_t past_number(struct past_fields *fields, const char *key, int64_t least, int64_t most)
{
    const struct document *found = document_get(fields->object, key);

    must(least <= 0 && most >= 0);
    if (found == NULL)
        return 0;
    const int64_t number = document_int(fields->object, key);
    if (found->kind == DOCUMENT_NUMBER && number >= least && number <= most)
        return number;
    fields->wrong = key;
    return 0;
}

static const struct atom *past_atom(struct past_fields *fields, const char *key)
{
    must(key[0] != '\0');
    return names_intern(fields->past->names, text_of(document_str(fields->object, key)));
}

static const char *past_text(struct past_fields *fields, const char *key, size_t most)
{
    const struct text text = text_of(document_str(fields->object, key));

    must(most > 0);
    if (text.len == 0 || text.len > most)
        fields->wrong = key;
    return arena_copy(&fields->past->arena, text_first(text, most));
}

static int past_word(struct past_fields *fields, const char *key, const char *(*name)(int),
                     int words)
{
    const char *word = document_str(fields->object, key);

    must(words > 0);
    for (int i = 0; i < words; i++)
        if (strcmp(name(i), word) == 0)
            return i;
    fields->wrong = key;
    return 0;
}

static int past_wrong(const struct past_fields *fields, const char *what, struct err *err)
{
    must(fields->wrong != NULL);
    return err_set(err, ERR_CORRUPT, "%s %.100s: %s is not what a daemon writes", what,
                   document_shown(fields->object, "name"), fields->wrong);
}

/* --- nodes --- */

static const char *past_source_name(int source)
{
    return inventory_source_name((enum inventory_source)source);
}

static const char *past_problem_name(int problem)
{
    return inventory_problem_name((enum inventory_problem)problem);
}

static void past_read_gpu(struct past_fields *node, const struct atom *name,
                          const struct document *state, struct gpu *out)
{
    static const unsigned kept = GPU_ABSENT | GPU_UNHEALTHY | GPU_CORDONED | GPU_DUPLICATE;
    struct past_fields fields = {.past = node->past, .object = state};

    *out = (struct gpu){.id = past_atom(&fields, "id"), .model = past_atom(&fields, "model")};
    if (document_get(state, "alias") != NULL)
        gpu_set_alias(out, name, atom_text(past_atom(&fields, "alias")), node->past->names);
    out->milli = (uint32_t)past_number(&fields, "milli", 0, GPU_MILLI);
    out->mib = (uint32_t)past_number(&fields, "mib", 0, UINT32_MAX);
    out->index = (uint16_t)past_number(&fields, "index", 0, UINT16_MAX);
    out->numa = (int16_t)past_number(&fields, "numa", INT16_MIN, INT16_MAX);
    out->flags = (uint16_t)past_number(&fields, "flags", 0, kept);
    if (out->milli == 0 || out->id->len == 0 || out->id->len > GPU_ID_BYTES_MAX ||
        out->model->len > MODEL_BYTES_MAX || gpu_alias_is(out, name, atom_text(out->id)) ||
        (out->alias != NULL && out->alias->len == 0))
        fields.wrong = "gpus";
    if (fields.wrong != NULL)
        node->wrong = fields.wrong;
}

int past_read_node(struct past *past, const struct document *state, struct node_build *out,
                   struct err *err)
{
    struct past_fields fields = {.past = past, .object = state};
    const struct document *gpus = document_get(state, "gpus");
    const struct document *owned = document_get(state, "claims");
    const uint32_t count = gpus != NULL ? gpus->count : 0;

    struct gpu *gpu = arena_array(&past->arena, count, sizeof *gpu);
    const struct atom **id =
        arena_array(&past->arena, owned != NULL ? owned->count : 0, sizeof(struct atom *));
    *out = (struct node_build){.name = past_atom(&fields, "name"),
                               .uid = past_atom(&fields, "uid"),
                               .problem_text = past_atom(&fields, "problem_text"),
                               .gone = document_true(state, "gone"),
                               .gpu = gpu,
                               .owned_id = id};
    out->source = (enum inventory_source)past_word(&fields, "source", past_source_name,
                                                   SOURCE_ALLOCATABLE + 1);
    out->problem =
        (enum inventory_problem)past_word(&fields, "problem", past_problem_name, PROBLEM_LIMIT + 1);
    out->since_ms = past_number(&fields, "since_ms", INT64_MIN, INT64_MAX);
    document_each (item, gpus)
        past_read_gpu(&fields, out->name, item, &gpu[out->n_gpus++]);
    document_each (item, owned) {
        if (item->kind != DOCUMENT_STRING || document_has_nul(item))
            fields.wrong = "claims";
        else
            id[out->n_owned_ids++] = names_intern(past->names, item->text);
    }
    if (out->name->len == 0 || out->name->len > NAME_BYTES_MAX)
        fields.wrong = "name";
    return fields.wrong != NULL ? past_wrong(&fields, "node", err) : 0;
}

uint64_t past_capacity(const struct node_build *node)
{
    uint64_t milli = 0;

    must(node->n_gpus == 0 || node->gpu != NULL);
    for (uint32_t i = 0; i < node->n_gpus && !node->gone; i++)
        if ((node->gpu[i].flags & GPU_ABSENT) == 0)
            milli += node->gpu[i].milli;
    return milli;
}

/* As in inventory_parse(): the alias of a GPU with a UUID is its index, unless another has it. */
static void past_show_gpu(struct past *past, const struct node_build *node, const struct gpu *gpu,
                          const struct inventory *before, struct gpu_facts *out)
{
    bool taken = false;

    must(gpu->milli > 0);
    for (uint32_t i = 0; i < before->n_gpus; i++)
        taken |= before->gpu[i].index == gpu->index;
    *out = (struct gpu_facts){
        .id = gpu->id->text,
        .model = gpu->model->text,
        .index = gpu->index,
        .milli = gpu->milli,
        .mib = gpu->mib,
        .numa = gpu->numa,
        .healthy = (gpu->flags & GPU_UNHEALTHY) == 0,
        .cordoned = (gpu->flags & GPU_CORDONED) != 0,
    };
    if (!taken && gpu_id_is_real(gpu->id, atom_text(node->name)))
        out->alias = arena_printf(&past->arena, "%s/gpu-%u", node->name->text, gpu->index);
}

static bool past_shows(const struct inventory *inventory, const struct gpu *gpu)
{
    for (uint32_t i = 0; i < inventory->n_gpus; i++)
        if (text_is(atom_text(gpu->id), inventory->gpu[i].id) ||
            (inventory->gpu[i].alias != NULL &&
             text_is(atom_text(gpu->id), inventory->gpu[i].alias)))
            return true;
    must(inventory->n_gpus < GPUS_PER_NODE_MAX);
    return false;
}

/*
 * If a problem hides a node's GPUs, the ledger keeps the known ones as closed: they are in the
 * state, although no Node object showed them.
 */
const struct inventory *past_inventory(struct past *past, const struct node_build *node)
{
    struct inventory *out = arena_alloc(&past->arena, sizeof *out);

    *out = (struct inventory){.node = node->name->text,
                              .uid = node->uid->text,
                              .source = node->source,
                              .problem = node->problem,
                              .gpu = arena_array(&past->arena, node->n_gpus, sizeof *out->gpu)};
    for (uint32_t i = 0; i < node->n_gpus && out->n_gpus < GPUS_PER_NODE_MAX; i++) {
        const struct gpu *gpu = &node->gpu[i];
        if ((gpu->flags & GPU_ABSENT) != 0 || past_shows(out, gpu))
            continue;
        if (node->problem != PROBLEM_NONE) {
            out->silent = true;
        } else {
            past_show_gpu(past, node, gpu, out, &out->gpu[out->n_gpus]);
            out->n_gpus++;
        }
    }
    must(out->problem == PROBLEM_NONE || out->n_gpus == 0);
    return out;
}

/* --- allocations --- */

static const char *past_state_name(int state)
{
    return allocation_state_name((enum allocation_state)state);
}

static const char *past_origin_name(int origin)
{
    return allocation_origin_name((enum allocation_origin)origin);
}

static const char *past_kind_name(int kind)
{
    return container_kind_name((enum container_kind)kind);
}

static void past_read_share(struct past_fields *allocation, const struct document *state,
                            struct share *out)
{
    struct past_fields fields = {.past = allocation->past, .object = state};

    *out = (struct share){.container = past_text(&fields, "container", NAME_BYTES_MAX),
                          .gpu = past_atom(&fields, "gpu")};
    out->kind =
        (enum container_kind)past_word(&fields, "kind", past_kind_name, CONTAINER_SIDECAR + 1);
    out->order = (uint16_t)past_number(&fields, "order", 0, UINT16_MAX);
    out->milli = (uint32_t)past_number(&fields, "milli", 0, GPU_MILLI);
    out->mib = (uint32_t)past_number(&fields, "mib", 0, UINT32_MAX);
    out->asked = (uint32_t)past_number(&fields, "asked", 0, GPU_MILLI);
    if (out->gpu->len == 0)
        fields.wrong = "gpu";
    if (fields.wrong != NULL)
        allocation->wrong = fields.wrong;
}

int past_read_allocation(struct past *past, const struct document *state,
                         struct allocation_facts *out, struct err *err)
{
    struct past_fields fields = {.past = past, .object = state};
    const struct document *shares = document_get(state, "shares");
    const uint32_t count = shares != NULL ? shares->count : 0;

    struct share *share = arena_array(&past->arena, count, sizeof *share);
    *out = (struct allocation_facts){.uid = past_text(&fields, "uid", UID_BYTES_MAX),
                                     .namespace = past_text(&fields, "namespace", NAME_BYTES_MAX),
                                     .name = past_text(&fields, "name", NAME_BYTES_MAX),
                                     .node = past_atom(&fields, "node"),
                                     .node_uid = past_atom(&fields, "node_uid"),
                                     .presumed = document_true(state, "presumed"),
                                     .share = share};
    out->state =
        (enum allocation_state)past_word(&fields, "state", past_state_name, STATE_RELEASED + 1);
    out->origin =
        (enum allocation_origin)past_word(&fields, "origin", past_origin_name, ORIGIN_ADOPTED + 1);
    out->held_gpus = (uint32_t)past_number(&fields, "held_gpus", 0, UINT32_MAX);
    out->unplaced_milli = (uint32_t)past_number(&fields, "unplaced_milli", 0, UINT32_MAX);
    out->reserved_ms = past_number(&fields, "reserved_ms", INT64_MIN, INT64_MAX);
    out->bound_ms = past_number(&fields, "bound_ms", INT64_MIN, INT64_MAX);
    if (count > PARTS_MAX)
        fields.wrong = "shares";
    if (out->node->len == 0 || out->node->len > NAME_BYTES_MAX)
        fields.wrong = "node";
    for (const struct document *item = count > PARTS_MAX || shares == NULL ? NULL : shares->first;
         item != NULL; item = item->next)
        past_read_share(&fields, item, &share[out->n_shares++]);
    if (fields.wrong == NULL)
        fields.wrong = allocation_fault(out);
    return fields.wrong != NULL ? past_wrong(&fields, "allocation of pod", err) : 0;
}

/* --- requests --- */

static bool past_read_want(struct past_fields *command, const struct document *state,
                           struct want *out)
{
    struct past_fields fields = {.past = command->past, .object = state};

    *out = (struct want){.container = past_text(&fields, "container", NAME_BYTES_MAX)};
    out->kind =
        (enum container_kind)past_word(&fields, "kind", past_kind_name, CONTAINER_SIDECAR + 1);
    out->parts = (uint32_t)past_number(&fields, "parts", 0, GPUS_PER_NODE_MAX);
    out->milli = (uint32_t)past_number(&fields, "milli", 0, GPU_MILLI);
    return fields.wrong == NULL && out->parts > 0 && out->milli > 0;
}

/* True if the next want keeps the order of containers: those of the app come last, each once. */
static bool past_follows(const struct request *request)
{
    const struct want *next = &request->want[request->n_wants];

    must(next->parts > 0);
    for (uint32_t i = 0; i < request->n_wants; i++)
        if (strcmp(request->want[i].container, next->container) == 0 ||
            (request->want[i].kind == CONTAINER_APP && next->kind != CONTAINER_APP))
            return false;
    return true;
}

bool past_read_request(struct past *past, const struct document *command,
                       const struct allocation_facts *granted, struct request *out)
{
    struct past_fields fields = {.past = past, .object = command};
    const struct document *wants = document_get(command, "wants");
    const struct document *models = document_get(command, "models");
    uint32_t parts = 0;

    *out = (struct request){.whole = granted->held_gpus};
    if (wants == NULL || wants->count > CONTAINERS_MAX ||
        (models != NULL && models->count > MODELS_MAX))
        return false;
    out->want = arena_array(&past->arena, wants->count, sizeof *out->want);
    out->model = arena_array(&past->arena, models != NULL ? models->count : 0, sizeof *out->model);
    document_each (item, wants) {
        if (!past_read_want(&fields, item, &out->want[out->n_wants]) || !past_follows(out))
            return false;
        parts += out->want[out->n_wants++].parts;
    }
    document_each (item, models) {
        if (item->kind != DOCUMENT_STRING || document_has_nul(item))
            return false;
        out->model[out->n_models++] = arena_copy(&past->arena, item->text);
    }
    out->memory_mib = (uint32_t)past_number(&fields, "memory_mib", 0, UINT32_MAX);
    return fields.wrong == NULL && parts <= PARTS_MAX && request_asks(out);
}

uint32_t past_milli(const struct allocation *allocation)
{
    const uint32_t whole = allocation->facts.held_gpus < GPUS_PER_NODE_MAX
                               ? allocation->facts.held_gpus
                               : GPUS_PER_NODE_MAX;

    must(allocation->n_charges <= PARTS_MAX);
    return whole * GPU_MILLI + allocation_milli(allocation);
}

/* --- into a ledger --- */

static const struct atom *past_again(struct names *names, const struct atom *atom)
{
    return atom != NULL ? names_intern(names, atom_text(atom)) : NULL;
}

static int past_restore_node(struct ledger *ledger, const struct node_build *node, struct err *err)
{
    struct names *names = ledger_names(ledger);
    struct node_build build = *node;
    struct arena arena;

    arena_init(&arena);
    struct gpu *gpu = arena_array(&arena, node->n_gpus, sizeof *gpu);
    const struct atom **id = arena_array(&arena, node->n_owned_ids, sizeof(struct atom *));
    build.name = past_again(names, node->name);
    build.uid = past_again(names, node->uid);
    build.problem_text = past_again(names, node->problem_text);
    build.gpu = gpu;
    build.owned_id = id;
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        gpu[i] = node->gpu[i];
        gpu[i].id = past_again(names, gpu[i].id);
        gpu[i].alias = past_again(names, gpu[i].alias);
        gpu[i].model = past_again(names, gpu[i].model);
    }
    for (uint32_t i = 0; i < node->n_owned_ids; i++)
        id[i] = past_again(names, node->owned_id[i]);
    const int status = ledger_restore_node(ledger, &build, err);
    arena_done(&arena);
    return status;
}

void past_uid(uint32_t pod, char out[PAST_UID_BYTES])
{
    (void)snprintf(out, PAST_UID_BYTES, "pod-%" PRIu32, pod);
}

static int past_restore_pod(const struct past *past, struct ledger *ledger, uint32_t pod,
                            struct err *err)
{
    struct names *names = ledger_names(ledger);
    struct allocation_facts facts = *past->pod[pod].facts;
    char uid[PAST_UID_BYTES];
    struct arena arena;

    must(past->pod[pod].role == PAST_HELD);
    arena_init(&arena);
    struct share *share = arena_array(&arena, facts.n_shares, sizeof *share);
    for (uint32_t i = 0; i < facts.n_shares; i++) {
        share[i] = facts.share[i];
        share[i].gpu = past_again(names, share[i].gpu);
    }
    past_uid(pod, uid);
    facts.uid = uid;
    facts.node = past_again(names, facts.node);
    facts.node_uid = past_again(names, facts.node_uid);
    facts.share = share;
    const int status = ledger_restore(ledger, &facts, err);
    arena_done(&arena);
    return status;
}

int past_restore(const struct past *past, struct ledger *ledger, struct err *err)
{
    int status = 0;

    for (uint32_t i = 0; status == 0 && i < past->n_nodes; i++)
        status = past_restore_node(ledger, &past->node[i], err);
    for (uint32_t i = 0; status == 0 && i < past->held; i++)
        status = past_restore_pod(past, ledger, i, err);
    return status;
}
