#include "gfd_labels.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base.h"

const struct gfd_label gfd_labels_fixed[] = {
    {"feature.node.kubernetes.io/pci-10de.present", "true"},
    {"nvidia.com/cuda.driver-version.full", "570.133.20"},
    {"nvidia.com/cuda.driver-version.major", "570"},
    {"nvidia.com/cuda.driver-version.minor", "133"},
    {"nvidia.com/cuda.driver-version.revision", "20"},
    {"nvidia.com/cuda.driver.major", "570"},
    {"nvidia.com/cuda.driver.minor", "133"},
    {"nvidia.com/cuda.driver.rev", "20"},
    {"nvidia.com/cuda.runtime-version.full", "12.8"},
    {"nvidia.com/cuda.runtime-version.major", "12"},
    {"nvidia.com/cuda.runtime-version.minor", "8"},
    {"nvidia.com/cuda.runtime.major", "12"},
    {"nvidia.com/cuda.runtime.minor", "8"},
    {"nvidia.com/gfd.timestamp", "1764150000"},
    {"nvidia.com/gpu-driver-upgrade-state", "upgrade-done"},
    {"nvidia.com/gpu.compute.major", "8"},
    {"nvidia.com/gpu.compute.minor", "0"},
    {"nvidia.com/gpu.deploy.container-toolkit", "true"},
    {"nvidia.com/gpu.deploy.dcgm", "true"},
    {"nvidia.com/gpu.deploy.dcgm-exporter", "true"},
    {"nvidia.com/gpu.deploy.device-plugin", "true"},
    {"nvidia.com/gpu.deploy.driver", "true"},
    {"nvidia.com/gpu.deploy.gpu-feature-discovery", "true"},
    {"nvidia.com/gpu.deploy.mig-manager", "true"},
    {"nvidia.com/gpu.deploy.node-status-exporter", "true"},
    {"nvidia.com/gpu.deploy.operator-validator", "true"},
    {"nvidia.com/gpu.family", "ampere"},
    {"nvidia.com/gpu.machine", "PowerEdge-XE8545"},
    {"nvidia.com/gpu.mode", "compute"},
    {"nvidia.com/gpu.present", "true"},
    {"nvidia.com/gpu.replicas", "1"},
    {"nvidia.com/gpu.sharing-strategy", "none"},
    {"nvidia.com/mig.capable", "true"},
    {"nvidia.com/mig.config", "all-disabled"},
    {"nvidia.com/mig.config.state", "success"},
    {"nvidia.com/mig.strategy", "single"},
    {"nvidia.com/mps.capable", "false"},
    {"nvidia.com/vgpu.present", "false"},
    {NULL, NULL},
};

static bool is_changed(const char *key, const struct gfd_label *changes)
{
    for (; changes != NULL && changes->key != NULL; changes++)
        if (strcmp(changes->key, key) == 0)
            return true;
    return false;
}

static void add_label(struct strbuf *out, size_t from, const char *key, const char *value)
{
    if (value != NULL)
        strbuf_printf(out, "%s\"%s\":\"%s\"", out->len > from ? "," : "", key, value);
}

void gfd_labels(struct strbuf *out, uint32_t gpus, const char *product, uint32_t mib,
                const struct gfd_label *changes)
{
    const size_t from = out->len;
    char count[16];
    char memory[16];
    const struct gfd_label own[] = {{"nvidia.com/gpu.count", count},
                                    {"nvidia.com/gpu.product", product},
                                    {"nvidia.com/gpu.memory", mib > 0 ? memory : NULL}};

    (void)snprintf(count, sizeof count, "%u", gpus);
    (void)snprintf(memory, sizeof memory, "%u", mib);
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (!is_changed(own[i].key, changes))
            add_label(out, from, own[i].key, own[i].value);
    for (const struct gfd_label *label = gfd_labels_fixed; label->key != NULL; label++)
        if (!is_changed(label->key, changes))
            add_label(out, from, label->key, label->value);
    for (; changes != NULL && changes->key != NULL; changes++)
        add_label(out, from, changes->key, changes->value);
}
