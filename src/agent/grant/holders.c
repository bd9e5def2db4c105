/*
 * Finds the holders of whole GPUs in the table of containers. Called by the reporter's thread for
 * the annotation, and by the main thread for each new container with GPUs.
 */
#include "holders.h"

#include <string.h>

#include "milligpu/core/facts/inventory.h"

#include "agent/common/device.h"

/* The index of a GPU in the reading; GPUS_PER_NODE_MAX if it is not there. */
static uint32_t place_of(const struct gpu_reading *reading, const char *name)
{
    const struct gpu_state *gpu = device_gpu(reading, name);

    return gpu != NULL ? (uint32_t)(gpu - reading->gpu) : GPUS_PER_NODE_MAX;
}

/* Equal names match also if the GPU is not in the reading. */
static bool is_same_gpu(const struct gpu_reading *reading, const char *a, const char *b)
{
    const struct gpu_state *gpu = device_gpu(reading, a);

    return strcmp(a, b) == 0 || (gpu != NULL && gpu == device_gpu(reading, b));
}

static bool has_gpu(const struct gpu_reading *reading, const struct container_gpu *gpu,
                    uint32_t gpus, const char *name)
{
    for (uint32_t i = 0; i < gpus; i++)
        if (is_same_gpu(reading, gpu[i].name, name))
            return true;
    return false;
}

static bool has_share(const struct gpu_reading *reading, const struct container_facts *facts,
                      const char *name)
{
    return facts->right == RIGHT_SHARE && has_gpu(reading, facts->gpu, facts->n_gpus, name);
}

/* The GPUs of its own shares do not count as whole. */
static bool has_whole(const struct gpu_reading *reading, const struct container_facts *facts,
                      const char *name)
{
    return has_gpu(reading, facts->whole, facts->n_whole, name) && !has_share(reading, facts, name);
}

static void name_holder(const struct gpu_reading *reading, const struct container_facts *facts,
                        const char *name, const char *prefix, struct arena *arena,
                        struct holders *out)
{
    const uint32_t gpu = place_of(reading, name);

    if (gpu < GPUS_PER_NODE_MAX && out->by[gpu] == NULL && text_of(facts->uid).len <= UID_BYTES_MAX)
        out->by[gpu] = arena_printf(arena, "%s%s", prefix, facts->uid);
}

static void name_wholes(const struct gpu_reading *reading, const struct containers_copy *containers,
                        struct arena *arena, struct holders *out)
{
    for (uint32_t i = 0; i < containers->count; i++) {
        const struct container_facts *facts = &containers->container[i];
        for (uint32_t k = 0; k < facts->n_whole; k++)
            if (has_whole(reading, facts, facts->whole[k].name))
                name_holder(reading, facts, facts->whole[k].name, "pod:", arena, out);
    }
}

static void name_variables(const struct gpu_reading *reading,
                           const struct containers_copy *containers, struct arena *arena,
                           struct holders *out)
{
    for (uint32_t i = 0; i < containers->count; i++) {
        const struct container_facts *facts = &containers->container[i];
        for (uint32_t k = 0; facts->right == RIGHT_VARIABLE && k < facts->n_gpus; k++)
            name_holder(reading, facts, facts->gpu[k].name, "env:", arena, out);
    }
}

void holders_find(const struct gpu_reading *reading, const struct containers_copy *containers,
                  const char *const *outside, uint32_t outsides, struct arena *arena,
                  struct holders *out)
{
    *out = (struct holders){0};
    name_wholes(reading, containers, arena, out);
    name_variables(reading, containers, arena, out);
    for (uint32_t i = 0; i < outsides; i++) {
        const uint32_t gpu = place_of(reading, outside[i]);
        if (gpu < GPUS_PER_NODE_MAX && out->by[gpu] == NULL)
            out->by[gpu] = "process";
    }
}

/* --- conflicts with other pods --- */

/* A GPU of which facts has a share and other has it whole; NULL if none. */
static const char *share_in_whole(const struct gpu_reading *reading,
                                  const struct container_facts *facts,
                                  const struct container_facts *other)
{
    for (uint32_t i = 0; facts->right == RIGHT_SHARE && i < facts->n_gpus; i++)
        if (has_whole(reading, other, facts->gpu[i].name))
            return facts->gpu[i].name;
    return NULL;
}

/*
 * A GPU that facts would have whole and of which other has a share; NULL if none. GPUs of a
 * variable count, too.
 */
static const char *whole_with_share(const struct gpu_reading *reading,
                                    const struct container_facts *facts,
                                    const struct container_facts *other)
{
    const bool claims = facts->right == RIGHT_VARIABLE;
    const struct container_gpu *gpu = claims ? facts->gpu : facts->whole;
    const uint32_t gpus = claims ? facts->n_gpus : facts->n_whole;

    for (uint32_t i = 0; i < gpus; i++)
        if (!has_share(reading, facts, gpu[i].name) && has_share(reading, other, gpu[i].name))
            return gpu[i].name;
    return NULL;
}

/* A GPU that other has by a variable only does not conflict with a granted share. */
static int check_pair(const struct gpu_reading *reading, const struct container_facts *facts,
                      const struct container_facts *other, struct err *err)
{
    const char *gpu = share_in_whole(reading, facts, other);

    if (gpu != NULL)
        return err_set(err, ERR_CONFLICT,
                       "its GPU %.100s was given whole to pod %.100s/%.100s: delete the pod, so "
                       "that it is scheduled again",
                       gpu, other->namespace, other->pod);
    gpu = whole_with_share(reading, facts, other);
    if (gpu == NULL)
        return 0;
    return err_set(err, ERR_CONFLICT,
                   "it would have GPU %.100s whole, of which pods have shares (one is "
                   "%.100s/%.100s): delete the pod, so that it gets another one; milligpu keeps "
                   "such pods off nodes with shares where it also manages their resource",
                   gpu, other->namespace, other->pod);
}

static int check_none_left_out(const struct containers_copy *containers, enum container_right right,
                               struct err *err)
{
    const uint32_t unknown = containers->left_out[right];

    if (unknown == 0)
        return 0;
    return err_set(err, ERR_CONFLICT,
                   "the node has %u more containers with %s than can be compared with it: keep the "
                   "pod off this node until its agent has started again with fewer",
                   (unsigned)unknown, right == RIGHT_KUBELET ? "whole GPUs" : "shares of GPUs");
}

/* Refuses if containers that it must be compared with have no row. */
static int check_known(const struct containers_copy *containers,
                       const struct container_facts *facts, struct err *err)
{
    const bool shares = facts->right == RIGHT_SHARE;

    if (shares && check_none_left_out(containers, RIGHT_KUBELET, err) < 0)
        return err_same(err);
    if (!shares || facts->n_whole > 0)
        return check_none_left_out(containers, RIGHT_SHARE, err);
    return 0;
}

int holders_allow(const struct gpu_reading *reading, const struct containers_copy *containers,
                  struct text id, struct err *err)
{
    const struct container_facts *facts = NULL;

    for (uint32_t i = 0; i < containers->count; i++)
        if (text_is(id, containers->container[i].id))
            facts = &containers->container[i];
    if (facts != NULL && check_known(containers, facts, err) < 0)
        return err_same(err);
    for (uint32_t i = 0; facts != NULL && i < containers->count; i++) {
        const struct container_facts *other = &containers->container[i];
        if (strcmp(other->uid, facts->uid) != 0 && check_pair(reading, facts, other, err) < 0)
            return err_same(err);
    }
    return 0;
}
