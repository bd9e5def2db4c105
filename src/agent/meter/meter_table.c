/*
 * Computes a table from the previous one, a reading and the containers. Called by the meter's
 * thread. Containers are matched by the runtime's id, their GPUs by UUID.
 */
#include "meter_table.h"

#include <string.h>

#include "agent/common/device.h"
#include "proc_owner.h"

void meter_table_init(struct meter_table *table)
{
    *table = (struct meter_table){0};
    arena_init(&table->arena);
}

void meter_table_done(struct meter_table *table)
{
    arena_done(&table->arena);
}

/* --- GPUs --- */

static bool has_reading_of(const struct meter_facts *facts, const struct gpu_state *gpu)
{
    return facts->owner != NULL && facts->reading->status == NVML_READY && gpu != NULL &&
           (gpu->known & GPU_KNOWS_PROCESSES) != 0 && gpu->processes_left_out == 0;
}

/* --- use --- */

bool meter_is_repeated(const struct gpu_reading *reading, const struct gpu_state *gpu, uint32_t at)
{
    for (uint32_t i = gpu->process; i < at; i++)
        if (reading->process[i].pid == reading->process[at].pid)
            return true;
    return false;
}

/* Initially is_known, used_milli and is_scaled are those of a container without processes. */
static void add_process(struct meter_gpu *out, const struct gpu_process *process)
{
    out->used_mib += process->mib;
    out->is_known = out->is_known && process->is_known;
    if (process->sm_milli < 0 || out->used_milli < 0) {
        out->used_milli = -1;
        out->is_scaled = false;
        return;
    }
    out->used_milli += process->sm_milli;
    out->is_scaled = out->is_scaled || process->is_scaled;
}

static void measure(const struct meter_facts *facts, uint32_t container,
                    const struct gpu_state *gpu, struct meter_gpu *out)
{
    const struct gpu_reading *reading = facts->reading;

    out->used_mib = 0;
    out->is_known = has_reading_of(facts, gpu);
    out->used_milli = out->is_known ? 0 : -1;
    out->is_scaled = false;
    if (!out->is_known)
        return;
    must(gpu->process + gpu->processes <= reading->n_processes);
    for (uint32_t i = gpu->process; i < gpu->process + gpu->processes; i++)
        if (facts->owner[i] == (int32_t)container && !meter_is_repeated(reading, gpu, i))
            add_process(out, &reading->process[i]);
    if (out->used_milli > GPU_MILLI)
        out->used_milli = GPU_MILLI; /* the samples of its processes are of different times */
}

/* --- over its memory --- */

static void check_cell(const struct meter_facts *facts, struct meter_cell *cell)
{
    struct meter_gpu *gpu = &cell->gpu;
    const int64_t now_ms = facts->reading->taken_ms;

    if (gpu->granted_mib == 0 || gpu->used_mib <= gpu->granted_mib) {
        cell->readings = 0;
        gpu->is_over = false;
        gpu->over_since_ms = 0;
        return;
    }
    if (cell->readings++ == 0) {
        cell->from_ms = now_ms;
        gpu->over_since_ms = facts->wall_ms;
    }
    gpu->is_over = cell->readings >= METER_READINGS_OVER;
    cell->is_due =
        facts->policy == METER_KILL && gpu->is_over && now_ms - cell->from_ms >= facts->grace_ms;
}

/* --- rows --- */

static const struct meter_row *row_before(const struct meter_table *before, const char *id,
                                          uint32_t place)
{
    /* Most containers keep their index. */
    if (place < before->count && strcmp(before->row[place].container.id, id) == 0)
        return &before->row[place];
    for (uint32_t i = 0; i < before->count; i++)
        if (strcmp(before->row[i].container.id, id) == 0)
            return &before->row[i];
    return NULL;
}

static const struct meter_cell *find_cell(const struct meter_row *row, const char *uuid)
{
    for (uint32_t i = 0; row != NULL && i < row->n_cells; i++)
        if (strcmp(row->cell[i].gpu.uuid, uuid) == 0)
            return &row->cell[i];
    return NULL;
}

static const char *keep(struct meter_table *table, const char *text)
{
    return arena_copy(&table->arena, text_of(text));
}

static void make_cell(const struct meter_facts *facts, uint32_t place,
                      const struct meter_row *before, const struct container_gpu *from,
                      struct meter_cell *out)
{
    const struct gpu_state *gpu = device_gpu(facts->reading, from->name);
    const struct meter_cell *earlier = find_cell(before, out->gpu.uuid);
    const char *uuid = out->gpu.uuid;

    if (earlier != NULL)
        *out = *earlier;
    out->gpu.uuid = uuid;
    out->gpu.granted_milli = from->milli;
    out->gpu.granted_mib = from->mib;
    out->is_due = false;
    measure(facts, place, gpu, &out->gpu);
    if (out->gpu.used_mib > out->gpu.peak_mib)
        out->gpu.peak_mib = out->gpu.used_mib;
}

static bool is_new_reading(const struct meter_table *before, const struct meter_facts *facts)
{
    return facts->reading->number != before->reading;
}

/* Adds the usage since the previous reading; times with unknown usage add nothing. */
static void add_sums(const struct meter_facts *facts, const struct meter_table *before,
                     struct meter_gpu *gpu)
{
    const int64_t ms = before->reading != 0 ? facts->reading->taken_ms - before->taken_ms : 0;

    if (gpu->is_known) {
        gpu->mib_ms += (int64_t)gpu->used_mib * ms;
        gpu->mib_known_ms += ms;
    }
    if (gpu->used_milli >= 0) {
        gpu->milli_ms += (int64_t)gpu->used_milli * ms;
        gpu->milli_known_ms += ms;
        gpu->scaled_ms += gpu->is_scaled ? ms : 0;
    }
}

static void make_row(const struct meter_facts *facts, const struct meter_table *before,
                     uint32_t place, struct meter_table *next)
{
    const struct container_facts *from = &facts->containers->container[place];
    const struct meter_row *earlier = row_before(before, from->id, place);
    struct meter_row *row = &next->row[place];

    row->container = (struct meter_container){.id = keep(next, from->id),
                                              .uid = keep(next, from->uid),
                                              .namespace = keep(next, from->namespace),
                                              .pod = keep(next, from->pod),
                                              .name = keep(next, from->name),
                                              .right = from->right};
    row->cell = arena_array(&next->arena, from->n_gpus, sizeof *row->cell);
    for (uint32_t i = 0; i < from->n_gpus; i++) {
        const struct gpu_state *gpu = device_gpu(facts->reading, from->gpu[i].name);
        if (gpu == NULL && from->right != RIGHT_SHARE)
            continue; /* a MIG instance or an absent GPU: its UUID is unknown */
        const char *uuid = gpu != NULL ? gpu->uuid : from->gpu[i].name;
        if (find_cell(row, uuid) != NULL)
            continue; /* the same GPU by another name */
        struct meter_cell *cell = &row->cell[row->n_cells++];
        cell->gpu.uuid = keep(next, uuid);
        make_cell(facts, place, earlier, &from->gpu[i], cell);
        if (is_new_reading(before, facts)) {
            if (earlier != NULL)
                add_sums(facts, before, &cell->gpu);
            check_cell(facts, cell);
        }
        if (cell->gpu.is_over)
            row->container.over = OVER_SEEN;
    }
    if (earlier != NULL && earlier->container.over == OVER_KILLED)
        row->container.over = OVER_KILLED;
}

/* --- processes of no container --- */

static bool has_stray(const struct meter_facts *facts, const struct gpu_state *gpu)
{
    for (uint32_t i = gpu->process; i < gpu->process + gpu->processes; i++)
        if (facts->owner[i] == OWNER_NONE)
            return true;
    return false;
}

static void make_stray(const struct meter_facts *facts, const struct meter_table *before,
                       const struct gpu_state *gpu, struct meter_table *next)
{
    const int64_t now_ms = facts->reading->taken_ms;
    struct meter_stray *stray = &next->stray[next->n_strays++];

    *stray = (struct meter_stray){.from_ms = now_ms};
    for (uint32_t i = 0; i < before->n_strays; i++)
        if (strcmp(before->stray[i].uuid, gpu->uuid) == 0)
            *stray = before->stray[i];
    stray->uuid = keep(next, gpu->uuid);
    stray->last_ms = now_ms;
    stray->readings += is_new_reading(before, facts) ? 1 : 0;
}

/* Without new information, strays that count are kept, since their end was not seen. */
static void keep_strays(const struct meter_table *before, struct meter_table *next)
{
    for (uint32_t i = 0; i < before->n_strays; i++) {
        if (!meter_stray_counts(&before->stray[i]))
            continue;
        next->stray[next->n_strays] = before->stray[i];
        next->stray[next->n_strays++].uuid = keep(next, before->stray[i].uuid);
    }
}

static void find_strays(const struct meter_facts *facts, const struct meter_table *before,
                        struct meter_table *next)
{
    const struct gpu_reading *reading = facts->reading;

    next->stray = arena_array(&next->arena, GPUS_PER_NODE_MAX, sizeof *next->stray);
    const uint32_t *left_out = facts->containers->left_out;
    /* Processes of a RIGHT_VARIABLE container without a row count as strays, and close the GPU. */
    if (!facts->containers->is_complete || left_out[RIGHT_SHARE] + left_out[RIGHT_KUBELET] > 0 ||
        facts->owner == NULL || reading->status != NVML_READY) {
        keep_strays(before, next);
        return;
    }
    for (uint32_t i = 0; i < reading->n_gpus; i++)
        if (has_stray(facts, &reading->gpu[i]))
            make_stray(facts, before, &reading->gpu[i], next);
}

bool meter_stray_counts(const struct meter_stray *stray)
{
    must(stray->last_ms >= stray->from_ms);
    return stray->readings >= 2 && stray->last_ms - stray->from_ms >= METER_OUTSIDE_MS;
}

/* --- all of it --- */

/* One such reading is not enough: its processes can all have ended right after it. */
static uint32_t count_unread(const struct meter_table *before, const struct meter_facts *facts)
{
    if (!is_new_reading(before, facts))
        return before->unread;
    return facts->owner == NULL ? before->unread + 1 : 0;
}

void meter_table_check(const struct meter_table *before, const struct meter_facts *facts,
                       struct meter_table *next)
{
    must(next->count == 0 && next->row == NULL);

    next->is_complete = facts->containers->is_complete;
    next->unread = count_unread(before, facts);
    next->is_metering = facts->sees_host && next->unread < METER_READINGS_BLIND &&
                        facts->reading->status == NVML_READY;
    next->reading = facts->reading->number;
    next->taken_ms = facts->reading->taken_ms;
    next->count = facts->containers->count;
    next->row = arena_array(&next->arena, next->count, sizeof *next->row);
    for (uint32_t i = 0; i < next->count; i++)
        make_row(facts, before, i, next);
    find_strays(facts, before, next);
}

void meter_table_copy(const struct meter_table *table, struct arena *arena, struct meter_copy *out)
{
    struct meter_container *container = arena_array(arena, table->count, sizeof *container);

    for (uint32_t i = 0; i < table->count; i++) {
        const struct meter_row *row = &table->row[i];
        struct meter_gpu *gpu = arena_array(arena, row->n_cells, sizeof *gpu);
        for (uint32_t j = 0; j < row->n_cells; j++) {
            gpu[j] = row->cell[j].gpu;
            gpu[j].uuid = arena_copy(arena, text_of(gpu[j].uuid));
        }
        container[i] = row->container;
        container[i].id = arena_copy(arena, text_of(row->container.id));
        container[i].uid = arena_copy(arena, text_of(row->container.uid));
        container[i].namespace = arena_copy(arena, text_of(row->container.namespace));
        container[i].pod = arena_copy(arena, text_of(row->container.pod));
        container[i].name = arena_copy(arena, text_of(row->container.name));
        container[i].n_gpus = row->n_cells;
        container[i].gpu = gpu;
    }
    out->is_complete = table->is_complete;
    out->is_metering = table->is_metering;
    out->count = table->count;
    out->container = container;
}
