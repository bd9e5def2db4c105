/*
 * Keeps the table of containers with GPUs. The runtime's handlers in the main thread write it; the
 * meter, MPS and the reporter copy it under the lock.
 *
 * Rows are immutable, except for is_running, has_ended, has_successor and pod_milli. Rows of an
 * unfinished list go to a second table, which replaces the shown one when the list is complete.
 */
#include "containers.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/mutex.h"

#include "agent/common/device.h"
#include "overlap.h"

enum { ROW_BYTES = 2048 }; /* bytes of a row's first memory chunk; most rows fit */

struct container_row {
    struct arena arena; /* memory of the facts */
    struct container_facts facts;
    struct container_gpu *gpu; /* facts.gpu, writable */
};

struct container_table {
    uint32_t count;
    uint32_t left_out[CONTAINER_RIGHTS];
    struct container_row *row[NODE_CONTAINERS_MAX];
};

struct containers {
    struct mutex lock; /* guards the following */
    bool is_complete;
    uint64_t number;
    struct container_table *shown;
    struct container_table *listed; /* of the unfinished list; NULL if none; main thread only */
};

static void row_free(struct container_row *row)
{
    arena_done(&row->arena);
    xfree(row);
}

static void table_free(struct container_table *table)
{
    if (table == NULL)
        return;
    must(table->count <= NODE_CONTAINERS_MAX);
    for (uint32_t i = 0; i < table->count; i++)
        row_free(table->row[i]);
    xfree(table);
}

struct containers *containers_new(void)
{
    struct containers *containers = xcalloc(1, sizeof *containers);

    mutex_init(&containers->lock);
    containers->shown = xcalloc(1, sizeof *containers->shown);
    return containers;
}

void containers_free(struct containers *containers)
{
    if (containers == NULL)
        return;
    table_free(containers->shown);
    table_free(containers->listed);
    mutex_done(&containers->lock);
    xfree(containers);
}

/* --- a list --- */

void containers_begin(struct containers *containers)
{
    table_free(containers->listed);
    containers->listed = xcalloc(1, sizeof *containers->listed);
}

void containers_complete(struct containers *containers)
{
    must(containers->listed != NULL);

    struct container_table *before = containers->shown;
    mutex_lock(&containers->lock);
    containers->shown = containers->listed;
    containers->is_complete = true;
    containers->number++;
    mutex_unlock(&containers->lock);
    containers->listed = NULL;
    table_free(before);
}

void containers_lost(struct containers *containers)
{
    table_free(containers->listed);
    containers->listed = NULL;
    mutex_lock(&containers->lock);
    if (containers->is_complete)
        containers->number++;
    containers->is_complete = false;
    mutex_unlock(&containers->lock);
}

/* --- which GPUs --- */

/* Adds a GPU, unless it is there or there are CONTAINER_GPUS_MAX. share: NULL without a share. */
static void take_gpu(struct container_row *row, struct text name, const struct pod_share *share)
{
    struct container_facts *facts = &row->facts;

    must(facts->n_gpus <= CONTAINER_GPUS_MAX);
    for (uint32_t i = 0; i < facts->n_gpus; i++)
        if (text_is(name, row->gpu[i].name))
            return;
    if (facts->n_gpus == CONTAINER_GPUS_MAX)
        return;
    row->gpu[facts->n_gpus++] = (struct container_gpu){.name = arena_copy(&row->arena, name),
                                                       .milli = share != NULL ? share->milli : 0,
                                                       .mib = share != NULL ? share->mib : 0};
}

static void take_name(struct container_row *row, struct text name)
{
    if (device_is_uuid(name) || device_is_index(name))
        take_gpu(row, name, NULL);
}

/* True if a rule allows all devices; then it usually has the nodes of all GPUs, too. */
static bool is_privileged(const struct nri_container *container)
{
    for (uint32_t i = 0; i < container->n_rules; i++) {
        const struct nri_device_rule *rule = &container->rule[i];
        if (rule->allow && (rule->type.len == 0 || text_is(rule->type, "a")) &&
            rule->major == NRI_ANY_NUMBER)
            return true;
    }
    return false;
}

/* True for a pod that gets all GPUs from NVIDIA's NRI plugin; for containers that run already. */
static bool is_annotated(const struct nri_pod *pod)
{
    for (uint32_t i = 0; i < pod->n_annotations; i++)
        if (device_annotation_manages(&pod->annotation[i]))
            return true;
    return false;
}

/* True if it has all GPUs of the node to manage them, not to use them. */
static bool is_management(const struct nri_pod *pod, const struct nri_container *container)
{
    for (uint32_t i = 0; i < container->n_cdi_devices; i++)
        if (device_is_management(container->cdi_device[i]))
            return true;
    return is_privileged(container) || is_annotated(pod);
}

static uint32_t count_nodes(struct container_row *row, const struct nri_container *container)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < container->n_devices; i++)
        count += device_of_node(&container->device[i], &row->arena).len > 0;
    return count;
}

/* Adds the devices requested by kubelet. */
static void take_devices(struct container_row *row, const struct nri_pod *pod,
                         const struct nri_container *container)
{
    bool by_node = false; /* a name identifies no GPU, so device nodes count */

    for (uint32_t i = 0; i < container->n_cdi_devices; i++) {
        const struct text device = container->cdi_device[i];
        if (!device_gives_gpus(device) || device_is_management(device))
            continue;
        const struct text name = device_name(device);
        const bool says = device_is_gpu(device) && (device_is_uuid(name) || device_is_index(name));
        by_node = by_node || !says;
        if (says)
            take_gpu(row, name, NULL);
    }
    /* Another device plugin, or a CDI device of another vendor, can give more GPUs than named. */
    by_node = by_node ||
              (!is_management(pod, container) && count_nodes(row, container) > row->facts.n_gpus);
    for (uint32_t i = 0; by_node && i < container->n_devices; i++) {
        const struct text name = device_of_node(&container->device[i], &row->arena);
        if (name.len > 0)
            take_gpu(row, name, NULL);
    }
}

/* Adds the GPUs of the last NVIDIA_VISIBLE_DEVICES, which is the one that the runtime uses. */
static void take_variable(struct container_row *row, const struct nri_container *container)
{
    static const char name[] = "NVIDIA_VISIBLE_DEVICES=";
    struct text rest = {"", 0};
    struct text one;

    for (uint32_t i = 0; i < container->n_envs; i++)
        if (text_starts(container->env[i], name))
            rest = (struct text){container->env[i].at + strlen(name),
                                 container->env[i].len - strlen(name)};
    while (row->facts.n_gpus < CONTAINER_GPUS_MAX && text_cut(&rest, ',', &one))
        take_name(row, text_trim(one));
}

static void begin_gpus(struct container_row *row)
{
    row->gpu = arena_array(&row->arena, CONTAINER_GPUS_MAX, sizeof *row->gpu);
    row->facts.gpu = row->gpu;
    row->facts.n_gpus = 0;
}

static void take_gpus(struct container_row *row, const struct nri_pod *pod,
                      const struct nri_container *container, const struct grant *grant)
{
    begin_gpus(row);
    take_devices(row, pod, container);
    row->facts.n_whole = row->facts.n_gpus;
    row->facts.whole = row->gpu;
    if (grant->verdict == GRANT_GPUS) {
        row->facts.right = RIGHT_SHARE;
        begin_gpus(row);
        for (uint32_t i = 0; i < grant->n_shares; i++)
            take_gpu(row, text_of(grant->share[i]->gpu), grant->share[i]);
        return;
    }
    row->facts.right = RIGHT_KUBELET;
    if (row->facts.n_gpus > 0)
        return;
    row->facts.right = RIGHT_VARIABLE;
    take_variable(row, container);
}

/* --- one container --- */

/* NULL if it has no GPUs. */
static struct container_row *
row_new(const struct nri_pod *pod, const struct nri_container *container, const struct grant *grant)
{
    struct container_row *row = xcalloc(1, sizeof *row);
    struct container_facts *facts = &row->facts;

    arena_init_of(&row->arena, ROW_BYTES);
    take_gpus(row, pod, container, grant);
    if (facts->n_gpus == 0) {
        row_free(row);
        return NULL;
    }
    facts->id = arena_copy(&row->arena, container->id);
    facts->sandbox = arena_copy(&row->arena, container->pod_id);
    facts->uid = arena_copy(&row->arena, pod->uid);
    facts->namespace = arena_copy(&row->arena, pod->namespace);
    facts->pod = arena_copy(&row->arena, pod->name);
    facts->name = arena_copy(&row->arena, container->name);
    facts->cgroup = arena_copy(&row->arena, container->cgroups_path);
    facts->is_running = container->state == NRI_RUNNING || container->state == NRI_PAUSED;
    facts->is_mps = grant_is_client(grant, container);
    facts->user = container->user;
    return row;
}

/* The table that the main thread currently writes. */
static struct container_table *written(const struct containers *containers)
{
    return containers->listed != NULL ? containers->listed : containers->shown;
}

/* Marks all but the last row of a container, which can be created again before its end is seen. */
static void mark_successors(struct container_table *table, const struct container_facts *container)
{
    bool has = false;

    for (uint32_t i = table->count; i > 0; i--) {
        struct container_facts *facts = &table->row[i - 1]->facts;
        if (strcmp(facts->uid, container->uid) != 0 || strcmp(facts->name, container->name) != 0)
            continue;
        facts->has_successor = has;
        has = true;
    }
}

/* Removes a row. */
static void take_out(struct containers *containers, struct container_table *table, uint32_t at)
    REQUIRES(containers->lock)
{
    must(at < table->count);

    struct container_row *row = table->row[at];
    table->count--;
    memmove(&table->row[at], &table->row[at + 1], (table->count - at) * sizeof table->row[0]);
    mark_successors(table, &row->facts);
    row_free(row);
    containers->number++;
}

static bool is_same(const struct container_facts *facts, const struct nri_pod *pod,
                    const struct nri_container *container)
{
    return text_is(container->id, facts->id) ||
           (!facts->is_running && pod->uid.len > 0 && text_is(pod->uid, facts->uid) &&
            text_is(container->name, facts->name));
}

/* Containers with shares and whole GPUs count for both rights. */
static void count_left_out(struct container_table *table, const struct container_facts *facts)
{
    table->left_out[facts->right]++;
    if (facts->right == RIGHT_SHARE && facts->n_whole > 0)
        table->left_out[RIGHT_KUBELET]++;
}

static bool has_room(const struct container_table *table, enum container_right right)
{
    static const uint32_t most[CONTAINER_RIGHTS] = {[RIGHT_SHARE] = NODE_SHARES_MAX,
                                                    [RIGHT_KUBELET] = NODE_KUBELETS_MAX,
                                                    [RIGHT_VARIABLE] = NODE_VARIABLES_MAX};
    uint32_t count = 0;

    must(right < CONTAINER_RIGHTS);
    for (uint32_t i = 0; i < table->count; i++)
        count += table->row[i]->facts.right == right;
    return count < most[right];
}

static void raise_pod_milli(struct container_row *row, const char *gpu, uint32_t now)
{
    for (uint32_t i = 0; i < row->facts.n_gpus; i++)
        if (strcmp(row->gpu[i].name, gpu) == 0 && row->gpu[i].pod_milli < now)
            row->gpu[i].pod_milli = now;
}

/*
 * Under the lock. Updates pod_milli of the pod's running containers, for the GPUs of one of them.
 */
static void note_pod(struct container_table *table, const struct container_facts *one)
{
    const struct container_facts *container[NODE_SHARES_MAX];
    struct container_row *row[NODE_SHARES_MAX];
    uint32_t rows = 0;

    for (uint32_t i = 0; one->right == RIGHT_SHARE && i < table->count; i++) {
        const struct container_facts *facts = &table->row[i]->facts;
        if (facts->right == RIGHT_SHARE && facts->is_running && strcmp(facts->uid, one->uid) == 0) {
            row[rows] = table->row[i];
            container[rows++] = facts;
        }
    }
    for (uint32_t k = 0; rows > 0 && k < one->n_gpus; k++) {
        const uint32_t now = overlap_of_pod(container, rows, one->uid, one->gpu[k].name);
        for (uint32_t i = 0; i < rows; i++)
            raise_pod_milli(row[i], one->gpu[k].name, now);
    }
}

enum containers_added containers_add(struct containers *containers, const struct nri_pod *pod,
                                     const struct nri_container *container,
                                     const struct grant *grant, enum container_right *out_right)
{
    struct container_table *table = written(containers);
    struct container_row *row = row_new(pod, container, grant);
    enum containers_added added = CONTAINERS_NO_GPUS;

    mutex_lock(&containers->lock);
    for (uint32_t i = table->count; i > 0; i--)
        if (is_same(&table->row[i - 1]->facts, pod, container))
            take_out(containers, table, i - 1);
    if (row != NULL) {
        const enum container_right right = row->facts.right;
        *out_right = right;
        if (has_room(table, right)) {
            must(table->count < NODE_CONTAINERS_MAX);
            containers->number++;
            table->row[table->count++] = row;
            mark_successors(table, &row->facts);
            if (containers->listed != NULL)
                note_pod(table, &row->facts);
            row = NULL;
            added = CONTAINERS_KEPT;
        } else {
            added = CONTAINERS_FULL;
            mark_successors(table, &row->facts);
            if (containers->listed != NULL)
                count_left_out(table, &row->facts);
        }
    }
    mutex_unlock(&containers->lock);
    if (row != NULL)
        row_free(row);
    return added;
}

/* The index of a container; table->count if there is none. */
static uint32_t find(const struct container_table *table, struct text id)
{
    uint32_t at = 0;

    while (at < table->count && !text_is(id, table->row[at]->facts.id))
        at++;
    return at;
}

static void set_running(struct containers *containers, struct text id, bool is_running)
{
    struct container_table *table = written(containers);
    const uint32_t at = find(table, id);

    if (at == table->count)
        return;
    struct container_facts *facts = &table->row[at]->facts;
    if (facts->is_running == is_running && facts->has_ended == !is_running)
        return;
    mutex_lock(&containers->lock);
    facts->is_running = is_running;
    facts->has_ended = !is_running;
    if (is_running)
        note_pod(table, facts);
    containers->number++;
    mutex_unlock(&containers->lock);
}

void containers_started(struct containers *containers, struct text id)
{
    set_running(containers, id, true);
}

void containers_stopped(struct containers *containers, struct text id)
{
    set_running(containers, id, false);
}

void containers_gone(struct containers *containers, struct text id)
{
    struct container_table *table = written(containers);
    const uint32_t at = find(table, id);

    if (at == table->count)
        return;
    mutex_lock(&containers->lock);
    take_out(containers, table, at);
    mutex_unlock(&containers->lock);
}

void containers_pod_gone(struct containers *containers, struct text sandbox)
{
    struct container_table *table = written(containers);

    mutex_lock(&containers->lock);
    for (uint32_t i = table->count; i > 0; i--)
        if (sandbox.len > 0 && text_is(sandbox, table->row[i - 1]->facts.sandbox))
            take_out(containers, table, i - 1);
    mutex_unlock(&containers->lock);
}

/* --- a copy --- */

static const char *keep(struct arena *arena, const char *text)
{
    return arena_copy(arena, text_of(text));
}

static struct container_gpu *keep_gpus(struct arena *arena, const struct container_gpu *gpu,
                                       uint32_t gpus)
{
    struct container_gpu *kept = arena_array(arena, gpus, sizeof *kept);

    for (uint32_t i = 0; i < gpus; i++) {
        kept[i] = gpu[i];
        kept[i].name = keep(arena, gpu[i].name);
    }
    return kept;
}

static struct container_facts keep_facts(struct arena *arena, const struct container_facts *facts)
{
    struct container_facts kept = *facts;

    kept.gpu = keep_gpus(arena, facts->gpu, facts->n_gpus);
    kept.whole = keep_gpus(arena, facts->whole, facts->n_whole);
    kept.id = keep(arena, facts->id);
    kept.sandbox = keep(arena, facts->sandbox);
    kept.uid = keep(arena, facts->uid);
    kept.namespace = keep(arena, facts->namespace);
    kept.pod = keep(arena, facts->pod);
    kept.name = keep(arena, facts->name);
    kept.cgroup = keep(arena, facts->cgroup);
    return kept;
}

void containers_copy(struct containers *containers, struct arena *arena,
                     struct containers_copy *out)
{
    mutex_lock(&containers->lock);
    const struct container_table *table = containers->shown;
    struct container_facts *container = arena_array(arena, table->count, sizeof *container);
    *out = (struct containers_copy){.is_complete = containers->is_complete,
                                    .number = containers->number,
                                    .count = table->count,
                                    .container = container};
    memcpy(out->left_out, table->left_out, sizeof out->left_out);
    for (uint32_t i = 0; i < table->count; i++)
        container[i] = keep_facts(arena, &table->row[i]->facts);
    mutex_unlock(&containers->lock);
}
