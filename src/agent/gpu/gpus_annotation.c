/* Writes milligpu.io/gpus from a reading. Called in each turn of the reporter's thread. */
#include "gpus_annotation.h"

#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

/* The GPUs to write, in ascending index. */
struct gpu_indexes {
    /* In the order of the reading. */
    const char *const *held;
    const char *const *why;

    uint32_t count;
    uint32_t gpu[GPUS_PER_NODE_MAX];
    uint32_t index[GPUS_PER_NODE_MAX];
};

static bool is_taken(const struct gpu_indexes *places, uint32_t index)
{
    for (uint32_t i = 0; i < places->count; i++)
        if (places->index[i] == index)
            return true;
    return false;
}

/* Inserts in ascending index. */
static void add_place(struct gpu_indexes *places, uint32_t gpu, uint32_t index)
{
    must(places->count < GPUS_PER_NODE_MAX);
    must(!is_taken(places, index));

    uint32_t at = places->count++;
    for (; at > 0 && places->index[at - 1] > index; at--) {
        places->index[at] = places->index[at - 1];
        places->gpu[at] = places->gpu[at - 1];
    }
    places->index[at] = index;
    places->gpu[at] = gpu;
}

static bool is_there(const struct gpu_state *gpu)
{
    return gpu->health != GPU_LOST;
}

/* Called with there = true first, because only present GPUs have current indexes. */
static void find_places(const struct gpu_reading *reading, bool there, struct gpu_indexes *places)
{
    for (uint32_t i = 0; i < reading->n_gpus; i++) {
        const struct gpu_state *gpu = &reading->gpu[i];
        if (is_there(gpu) != there)
            continue;
        uint32_t index = gpu->index;
        while (is_taken(places, index))
            index++;
        add_place(places, i, index);
    }
}

/* True if either GPU shows the link. The links of a lost GPU are as last read. */
static bool are_linked(const struct gpu_reading *reading, uint32_t a, uint32_t b)
{
    return (reading->gpu[a].peers >> b & 1) != 0 || (reading->gpu[b].peers >> a & 1) != 0;
}

/*
 * Writes later GPUs only: inventory.h needs each link once, and twice the names of a full node
 * would exceed ANNOTATION_BYTES_MAX.
 */
static void write_peers(struct strbuf *out, const struct gpu_reading *reading,
                        const struct gpu_indexes *places, uint32_t place)
{
    const char *separator = "";

    strbuf_char(out, '[');
    for (uint32_t i = place + 1; i < places->count; i++) {
        if (!are_linked(reading, places->gpu[place], places->gpu[i]))
            continue;
        strbuf_str(out, separator);
        strbuf_json(out, text_of(reading->gpu[places->gpu[i]].uuid));
        separator = ",";
    }
    strbuf_char(out, ']');
}

/* Writes "reason" and "since", if any. */
static void write_illness(struct strbuf *out, const struct gpu_state *gpu, const char *why)
{
    char since[TIME_TEXT_BYTES];
    const bool is_ill = gpu->health != GPU_HEALTHY;

    if (is_ill || why != NULL) {
        strbuf_str(out, ",\"reason\":");
        strbuf_json(out, text_of(is_ill ? gpu->reason : why));
    }
    if (!is_ill)
        return;
    time_format(gpu->since_ms, since);
    strbuf_printf(out, ",\"since\":\"%s\"", since);
}

static void write_gpu(struct strbuf *out, const struct gpu_reading *reading,
                      const struct gpu_indexes *places, uint32_t place)
{
    const struct gpu_state *gpu = &reading->gpu[places->gpu[place]];

    strbuf_str(out, "{\"uuid\":");
    strbuf_json(out, text_of(gpu->uuid));
    strbuf_printf(out, ",\"index\":%u,\"milli\":%d,\"mib\":%u,\"model\":", places->index[place],
                  GPU_MILLI, gpu->mib_total);
    strbuf_json(out, text_of(gpu->model));
    strbuf_printf(out, ",\"numa\":%d,\"health\":\"%s\",\"nvlink\":", gpu->numa,
                  gpu_health_word(gpu->health));
    write_peers(out, reading, places, place);
    write_illness(out, gpu, places->why[places->gpu[place]]);
    const char *held = gpu->is_mig ? "mig" : places->held[places->gpu[place]];
    if (held != NULL) {
        strbuf_str(out, ",\"held\":");
        strbuf_json(out, text_of(held));
    }
    strbuf_char(out, '}');
}

bool gpus_annotation_write(const struct gpu_reading *reading, const char *const *held,
                           const char *const *why, struct strbuf *out)
{
    struct gpu_indexes places = {.held = held, .why = why};

    must(reading->n_gpus <= GPUS_PER_NODE_MAX);
    if (reading->status != NVML_READY && reading->n_gpus == 0)
        return false;
    find_places(reading, true, &places);
    find_places(reading, false, &places);
    strbuf_char(out, '[');
    for (uint32_t i = 0; i < places.count; i++) {
        if (i > 0)
            strbuf_char(out, ',');
        write_gpu(out, reading, &places, i);
    }
    strbuf_char(out, ']');
    return true;
}
