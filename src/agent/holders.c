/*
 * Reads from the table of containers who has a GPU whole. Called by the reporter's thread for the
 * annotation, and by the main thread for each container that would get GPUs.
 */
#include "milligpu/holders.h"

#include <string.h>

#include "milligpu/inventory.h"

#include "agent/device.h"

/* Its place in the reading; GPUS_PER_NODE_MAX: it is not there. */
static uint32_t place_of(const struct gpu_reading *reading, const char *name)
{
    const struct gpu_state *gpu = device_gpu(reading, name);

    return gpu != NULL ? (uint32_t)(gpu - reading->gpu) : GPUS_PER_NODE_MAX;
}

/* Names what is not named yet. */
static void name_holders(const struct gpu_reading *reading,
                         const struct containers_copy *containers, enum container_right right,
                         const char *prefix, struct arena *arena, struct holders *out)
{
    for (uint32_t i = 0; i < containers->count; i++) {
        const struct container_facts *facts = &containers->container[i];
        for (uint32_t k = 0; facts->right == right && k < facts->gpus; k++) {
            const uint32_t gpu = place_of(reading, facts->gpu[k].name);
            if (gpu < GPUS_PER_NODE_MAX && out->by[gpu] == NULL &&
                text_of(facts->uid).len <= UID_BYTES_MAX)
                out->by[gpu] = arena_printf(arena, "%s%s", prefix, facts->uid);
        }
    }
}

void holders_find(const struct gpu_reading *reading, const struct containers_copy *containers,
                  const char *const *outside, uint32_t outsides, struct arena *arena,
                  struct holders *out)
{
    *out = (struct holders){0};
    name_holders(reading, containers, RIGHT_KUBELET, "pod:", arena, out);
    name_holders(reading, containers, RIGHT_VARIABLE, "env:", arena, out);
    for (uint32_t i = 0; i < outsides; i++) {
        const uint32_t gpu = place_of(reading, outside[i]);
        if (gpu < GPUS_PER_NODE_MAX && out->by[gpu] == NULL)
            out->by[gpu] = "process";
    }
}

/* --- whoever comes second --- */

/* A GPU is the same by its UUID also where nothing is read of it. */
static bool is_same_gpu(const struct gpu_reading *reading, const char *a, const char *b)
{
    const struct gpu_state *gpu = device_gpu(reading, a);

    return strcmp(a, b) == 0 || (gpu != NULL && gpu == device_gpu(reading, b));
}

/* The GPU of facts that the other has, too; NULL: none. */
static const char *common_gpu(const struct gpu_reading *reading,
                              const struct container_facts *facts,
                              const struct container_facts *other)
{
    for (uint32_t i = 0; i < facts->gpus; i++)
        for (uint32_t k = 0; k < other->gpus; k++)
            if (is_same_gpu(reading, facts->gpu[i].name, other->gpu[k].name))
                return facts->gpu[i].name;
    return NULL;
}

static int refuse(const struct container_facts *facts, const struct container_facts *other,
                  const char *gpu, struct err *err)
{
    if (facts->right == RIGHT_SHARE)
        return err_set(err, ERR_CONFLICT,
                       "its GPU %.100s was given whole to pod %.100s/%.100s: delete the pod, so "
                       "that it is scheduled again",
                       gpu, other->namespace, other->pod);
    return err_set(err, ERR_CONFLICT,
                   "it would have GPU %.100s whole, of which pods have shares (one is "
                   "%.100s/%.100s): delete the pod, so that it gets another one; milligpu keeps "
                   "such pods off nodes with shares where it also manages their resource",
                   gpu, other->namespace, other->pod);
}

/* Some of those that it would be compared with have no row. */
static int check_known(const struct containers_copy *containers,
                       const struct container_facts *facts, struct err *err)
{
    const bool shares = facts->right == RIGHT_SHARE;
    const uint32_t unknown = containers->left_out[shares ? RIGHT_KUBELET : RIGHT_SHARE];

    if (unknown == 0)
        return 0;
    return err_set(err, ERR_CONFLICT,
                   "the node has %u more containers with %s than can be compared with it: keep the "
                   "pod off this node until its agent has started again with fewer",
                   (unsigned)unknown, shares ? "whole GPUs" : "shares of GPUs");
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
        const bool shares = facts->right == RIGHT_SHARE;
        /* A variable alone takes no GPU away from a share that milligpud granted. */
        if (strcmp(other->uid, facts->uid) == 0 ||
            other->right != (shares ? RIGHT_KUBELET : RIGHT_SHARE))
            continue;
        const char *gpu = common_gpu(reading, facts, other);
        if (gpu != NULL)
            return refuse(facts, other, gpu, err);
    }
    return 0;
}
