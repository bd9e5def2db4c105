/*
 * The free capacity of a node, as the policies fgd and rollout use it: compact arrays, and for each
 * GPU a bit set of the classes that may lie on it. Called for each judged node, and for each
 * placement on it. The caller's kinds cache the results by model, because matching a name against
 * many globs is slow.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "policy_internal.h"

static_assert(GPU_MILLI <= UINT16_MAX, "remaining.free holds any GPU");
static_assert((int)GPUS_PER_NODE_MAX <= UINT8_MAX && (int)KINDS_MAX <= UINT8_MAX + 1,
              "indexes fit");
static_assert((int)KINDS_MAX >= (int)GPUS_PER_NODE_MAX, "one room fits into empty kinds");

static bool kind_takes(const struct gpu_kind *kind, const struct workload_class *class)
{
    const struct request of_class = {.n_models = class->n_models, .model = class->model};

    must(kind->model != NULL);
    must(class->parts <= GPUS_PER_NODE_MAX);
    if (class->parts == 0 || class->milli > kind->milli)
        return false;
    return inventory_share_mib(kind->mib, kind->milli, class->milli) >= class->share_mib &&
           request_takes_model(&of_class, atom_text(kind->model));
}

void gpu_kind_make(const struct workload *workload, struct gpu_kind *kind)
{
    must(workload->n_classes <= WORKLOAD_CLASSES_MAX);
    must(kind->milli <= GPU_MILLI);

    memset(kind->allowed_classes, 0, sizeof kind->allowed_classes);
    for (uint32_t c = 0; c < workload->n_classes; c++)
        if (kind_takes(kind, &workload->class[c]))
            kind->allowed_classes[c / 64] |= (uint64_t)1 << c % 64;
}

void kinds_init(struct kinds *kinds, const struct workload *workload)
{
    must(kinds != NULL);
    must(workload != NULL);
    kinds->workload = workload;
    kinds->count = 0;
}

/* The references keep the models alive, because they are compared by address between questions. */
void kinds_done(struct kinds *kinds)
{
    must(kinds->count <= KINDS_MAX);
    must(kinds->count == 0 || kinds->workload != NULL);
    for (uint32_t k = 0; k < kinds->count; k++)
        atom_unref(kinds->kind[k].model);
    kinds->count = 0;
}

void kinds_freep(struct kinds **kinds)
{
    must(kinds != NULL);
    if (*kinds != NULL)
        kinds_done(*kinds);
    xfree(*kinds);
}

static bool is_of_kind(const struct gpu_room *gpu, const struct gpu_kind *kind)
{
    must(gpu->model != NULL);
    must(kind->model != NULL);
    return kind->model == gpu->model && kind->milli == gpu->milli && kind->mib == gpu->mib;
}

/* The index of the GPU's kind, added if new; KINDS_MAX: no space. */
static uint32_t kinds_find(struct kinds *kinds, const struct gpu_room *gpu, uint32_t first)
{
    must(kinds->count <= KINDS_MAX);
    must(first <= kinds->count);

    /* The GPUs of a node are mostly alike. */
    if (first < kinds->count && is_of_kind(gpu, &kinds->kind[first]))
        return first;
    for (uint32_t k = 0; k < kinds->count; k++)
        if (is_of_kind(gpu, &kinds->kind[k]))
            return k;
    if (kinds->count == KINDS_MAX)
        return KINDS_MAX;
    struct gpu_kind *kind = &kinds->kind[kinds->count];
    *kind = (struct gpu_kind){.model = atom_ref(gpu->model), .milli = gpu->milli, .mib = gpu->mib};
    gpu_kind_make(kinds->workload, kind);
    return kinds->count++;
}

/* False: the kinds are full. */
static bool remaining_fill(const struct room *room, struct kinds *kinds, struct remaining *out)
{
    uint32_t kind = 0;

    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    must(room->closed == REASON_NONE);
    out->n_gpus = out->free_milli = out->total_milli = 0;
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        const struct gpu_room *gpu = &room->gpu[i];
        if (gpu->closed != REASON_NONE)
            continue;
        kind = kinds_find(kinds, gpu, kind);
        if (kind == KINDS_MAX)
            return false;
        must(gpu->milli <= GPU_MILLI);
        must(gpu->free_milli <= gpu->milli);
        out->free[out->n_gpus] = (uint16_t)gpu->free_milli;
        out->kind[out->n_gpus] = (uint8_t)kind;
        out->gpu[out->n_gpus] = (uint8_t)i;
        out->n_gpus++;
        out->free_milli += gpu->free_milli;
        out->total_milli += gpu->milli;
    }
    return true;
}

void remaining_of(const struct room *room, struct kinds *kinds, struct remaining *out)
{
    must(room != NULL && out != NULL);
    must(kinds->workload != NULL);

    /* Field by field: most of the large arrays is unused. */
    out->host = room->host_known ? room->host : (struct host){HOST_UNKNOWN, HOST_UNKNOWN};
    out->kinds = kinds->kind;
    out->n_gpus = out->free_milli = out->total_milli = 0;
    if (room->closed != REASON_NONE || remaining_fill(room, kinds, out))
        return;
    kinds_done(kinds);
    const bool filled = remaining_fill(room, kinds, out);
    must(filled);
}

/* The pod's charge on this GPU of the room: the peak over its life. */
static uint32_t charge_on(uint32_t gpu, const struct request *request,
                          const struct placement *placement, uint32_t *out_parts)
{
    UNSET uint32_t amount[CONTAINERS_MAX];
    uint32_t parts = 0;

    must(request->n_wants <= CONTAINERS_MAX);
    for (uint32_t p = 0; p < placement->n_parts; p++) {
        const struct part *part = &placement->part[p];
        must(part->want < request->n_wants);
        if (part->gpu != gpu)
            continue;
        if (parts++ == 0)
            memset(amount, 0, request->n_wants * sizeof *amount);
        amount[part->want] = placement_milli(placement, &request->want[part->want]);
    }
    *out_parts += parts;
    return parts > 0 ? request_peak(request, amount) : 0;
}

void remaining_take(struct remaining *remaining, const struct request *request,
                    const struct placement *placement)
{
    uint32_t parts = 0;

    must(remaining->n_gpus <= GPUS_PER_NODE_MAX);
    must(placement->n_parts <= PARTS_MAX);
    for (uint32_t i = 0; i < remaining->n_gpus; i++) {
        const uint32_t charge = charge_on(remaining->gpu[i], request, placement, &parts);
        must(charge <= remaining->free[i]);
        remaining->free[i] -= (uint16_t)charge;
        remaining->free_milli -= charge;
    }
    must(parts == placement->n_parts);
    remaining->host.cpu_milli = host_less(remaining->host.cpu_milli, request->host.cpu_milli);
    remaining->host.memory_mib = host_less(remaining->host.memory_mib, request->host.memory_mib);
}
