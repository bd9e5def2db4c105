/*
 * Parses names of CDI devices and numbers of device nodes, and looks them up in a reading. Called
 * by grant, meter, gpu and mps, from any thread.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#define NODE "/dev/nvidia"
#define GPU  "GPU-"

enum {
    INDEX_DIGITS_MAX = 3,
    UUID_BYTES_MAX = 96,
    SHARED_MINORS = 254, /* and 255: nvidia-modeset, nvidiactl; lower minors are one GPU each */
};

bool device_gives_gpus(struct text device)
{
    struct text rest = device;
    struct text vendor;

    if (!text_cut(&rest, '/', &vendor) || vendor.len == device.len)
        return false;
    if (text_is(vendor, "nvidia.com") || text_is(vendor, "milligpu.io"))
        return true;
    return text_ends(vendor, ".nvidia.com") && vendor.len > strlen(".nvidia.com");
}

bool device_is_management(struct text device)
{
    return text_starts(device, DEVICE_MANAGES);
}

bool device_annotation_manages(const struct nri_pair *annotation)
{
    const struct text value = annotation->value;

    return text_starts(annotation->key, DEVICE_ANNOTATION) && value.len > 0 &&
           memmem(value.at, value.len, DEVICE_MANAGES, strlen(DEVICE_MANAGES)) != NULL;
}

bool device_is_gpu(struct text device)
{
    struct text rest = device;
    struct text vendor;
    struct text kind;

    return device_gives_gpus(device) && text_cut(&rest, '/', &vendor) &&
           text_cut(&rest, '=', &kind) && text_is(kind, "gpu");
}

struct text device_name(struct text device)
{
    struct text rest = device;
    struct text kind;

    return text_cut(&rest, '=', &kind) && kind.len < device.len ? rest : (struct text){"", 0};
}

bool device_is_gpu_path(struct text path)
{
    return text_starts(path, NODE);
}

/* True for /dev/nvidia<N>, false for the devices shared by all GPUs. */
static bool device_is_one_gpu_path(struct text path)
{
    return device_is_gpu_path(path) &&
           device_is_index((struct text){path.at + strlen(NODE), path.len - strlen(NODE)});
}

/* Parses a line such as "195 nvidia" or "  1 mem". */
static bool is_gpu_line(struct text line, int64_t major)
{
    struct text rest = text_trim(line);
    struct text number;
    int64_t value = 0;

    if (!text_cut(&rest, ' ', &number) || !device_is_index(number) || !text_starts(rest, "nvidia"))
        return false;
    for (size_t i = 0; i < number.len; i++)
        value = 10 * value + (number.at[i] - '0');
    return value == major;
}

bool device_is_gpu_major(struct text proc_devices, int64_t major)
{
    struct text line;

    if (major == DEVICE_MAJOR)
        return true;
    while (text_cut(&proc_devices, '\n', &line) && !text_starts(line, "Block"))
        if (is_gpu_line(line, major))
            return true;
    return false;
}

bool device_is_character(struct text type)
{
    return !text_is(type, "b") && !text_is(type, "p");
}

struct text device_of_node(const struct nri_device *node, struct arena *arena)
{
    if (device_is_character(node->type) && node->major == DEVICE_MAJOR && node->minor >= 0 &&
        node->minor < SHARED_MINORS)
        return text_of(arena_printf(arena, NODE "%d", (int)node->minor));
    return device_is_one_gpu_path(node->path) ? node->path : TEXT("");
}

bool device_is_index(struct text name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] < '0' || name.at[i] > '9')
            return false;
    return name.len > 0 && name.len <= INDEX_DIGITS_MAX;
}

bool device_is_uuid(struct text name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/";

    if (!text_starts(name, GPU) && !text_starts(name, "MIG-"))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] == '\0' || strchr(letters, name.at[i]) == NULL)
            return false;
    return name.len <= UUID_BYTES_MAX;
}

bool device_is_gpu_uuid(struct text name)
{
    return device_is_uuid(name) && text_starts(name, GPU) && name.len > strlen(GPU) &&
           memchr(name.at, '/', name.len) == NULL;
}

const struct gpu_state *device_gpu(const struct gpu_reading *reading, const char *name)
{
    const struct text is = text_of(name);
    const bool by_path = device_is_one_gpu_path(is);
    const bool by_index = device_is_index(is);
    const long number =
        by_path || by_index ? strtol(by_path ? name + strlen(NODE) : name, NULL, 10) : -1;

    must(reading->n_gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < reading->n_gpus; i++) {
        const struct gpu_state *gpu = &reading->gpu[i];
        if (strcmp(gpu->uuid, name) == 0)
            return gpu;
        if (gpu->health != GPU_LOST &&
            ((by_path && gpu->minor == number) || (by_index && gpu->index == (uint32_t)number)))
            return gpu;
    }
    return NULL;
}
