/*
 * Finds the GPUs that a container can open by its device rules. Called by the main thread for each
 * container of a pod with an allocation, before it is created.
 */
#include "privileged.h"

#include <stdio.h>
#include <string.h>

#include "agent/common/device.h"

/* A rule with mknod only ("m") does not allow to open a device. */
static bool lets_open(struct text access)
{
    return access.len == 0 || memchr(access.at, 'r', access.len) != NULL ||
           memchr(access.at, 'w', access.len) != NULL;
}

/* minor: of a GPU, or NRI_ANY_NUMBER if unknown */
static bool is_about(const struct nri_device_rule *rule, int64_t minor)
{
    return lets_open(rule->access) && device_is_character(rule->type) &&
           (rule->major == NRI_ANY_NUMBER || rule->major == DEVICE_MAJOR) &&
           (rule->minor == NRI_ANY_NUMBER || rule->minor == minor);
}

/* True if the last matching rule allows the GPU without naming its minor number. */
static bool is_open(const struct nri_container *container, int64_t minor)
{
    bool open = false;

    for (uint32_t i = 0; i < container->n_rules; i++) {
        const struct nri_device_rule *rule = &container->rule[i];
        if (is_about(rule, minor))
            open = rule->allow && rule->minor == NRI_ANY_NUMBER;
    }
    return open;
}

static bool is_granted(const struct grant *grant, const char *uuid)
{
    for (uint32_t i = 0; i < grant->n_shares; i++)
        if (strcmp(grant->share[i]->gpu, uuid) == 0)
            return true;
    return false;
}

/* Lost GPUs are skipped: another GPU can have their minor numbers now. */
static uint32_t count_read(const struct grant *grant, const struct nri_container *container,
                           const struct gpu_reading *reading)
{
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < reading->n_gpus; i++) {
        const struct gpu_state *gpu = &reading->gpu[i];
        if (gpu->health != GPU_LOST && !is_granted(grant, gpu->uuid) &&
            is_open(container, gpu->minor))
            gpus++;
    }
    return gpus;
}

static uint32_t count_nodes(const struct nri_container *container, struct arena *arena)
{
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < container->n_devices; i++) {
        const struct nri_device *node = &container->device[i];
        if (device_of_node(node, arena).len > 0 && is_open(container, node->minor))
            gpus++;
    }
    return gpus;
}

bool privileged_sees(const struct grant *grant, const struct nri_container *container,
                     const struct gpu_reading *reading, struct arena *arena, uint32_t *out_gpus)
{
    must(grant->verdict == GRANT_GPUS || grant->verdict == GRANT_NOTHING);
    if (reading->n_gpus > 0) {
        *out_gpus = count_read(grant, container, reading);
        return *out_gpus > 0;
    }
    const uint32_t nodes = count_nodes(container, arena);
    *out_gpus = nodes > grant->n_shares ? nodes - grant->n_shares : 0;
    return nodes > 0 ? *out_gpus > 0 : is_open(container, NRI_ANY_NUMBER);
}

int privileged_error(uint32_t gpus, struct err *err)
{
    char number[32] = "GPUs of its node";

    if (gpus > 0)
        (void)snprintf(number, sizeof number, "%u GPU%s", (unsigned)gpus, gpus > 1 ? "s" : "");
    return err_set(err, ERR_FORBIDDEN,
                   "it is privileged (securityContext.privileged: true), so it can open %s that it "
                   "was not granted: remove that field (in kubectl debug, take another profile "
                   "than sysadmin), or run it in a pod that asks for no share",
                   number);
}
