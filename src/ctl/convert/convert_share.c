/*
 * Converts the resources of HAMi and Aliyun in a container to milli. Called by convert_pod.c.
 * Rounds up, so that a share has at least the requested memory.
 */
#include <string.h>

#include "milligpu/base/limits.h"
#include "milligpu/core/facts/quantity.h"

#include "convert.h"

enum share_word {
    HAMI_GPUS,
    HAMI_MEMORY,
    HAMI_MEMORY_PERCENT,
    HAMI_CORES,
    HAMI_PRIORITY,
    ALIYUN_MEMORY,
    ALIYUN_CORES,
    WORDS
};

static const struct {
    const char *key;
    enum convert_peer peer;
} words[WORDS] = {
    [HAMI_GPUS] = {"nvidia.com/gpu", PEER_ANY}, /* also the resource of whole GPUs */
    [HAMI_MEMORY] = {"nvidia.com/gpumem", PEER_HAMI},
    [HAMI_MEMORY_PERCENT] = {"nvidia.com/gpumem-percentage", PEER_HAMI},
    [HAMI_CORES] = {"nvidia.com/gpucores", PEER_HAMI},
    [HAMI_PRIORITY] = {"nvidia.com/priority", PEER_HAMI},
    [ALIYUN_MEMORY] = {"aliyun.com/gpu-mem", PEER_ALIYUN},
    [ALIYUN_CORES] = {"aliyun.com/gpu-core.percentage", PEER_ALIYUN},
};

/* The amounts of a container. */
struct share_ask {
    const struct document *at[WORDS]; /* NULL if absent */
    int64_t amount[WORDS];
};

bool convert_names(const struct document *container, enum convert_peer peer)
{
    must(peer != PEER_ANY);
    for (size_t i = 0; i < WORDS; i++)
        if (words[i].peer == peer &&
            (document_get(document_at(container, "resources.limits"), words[i].key) != NULL ||
             document_get(document_at(container, "resources.requests"), words[i].key) != NULL))
            return true;
    return false;
}

bool convert_is_word(const struct convert_object *in, struct text key)
{
    static const char *const quota[] = {"limits.", "requests."};

    for (size_t i = 0; i < ARRAY_LEN(quota); i++)
        if (text_starts(key, quota[i]))
            key = (struct text){key.at + strlen(quota[i]), key.len - strlen(quota[i])};
    for (size_t i = 0; i < WORDS; i++)
        if (words[i].peer != PEER_ANY && convert_reads(in, words[i].peer) &&
            text_is(key, words[i].key))
            return true;
    return false;
}

int64_t convert_amount(struct convert_object *in, const struct document *value)
{
    int64_t amount = -1;

    must(value != NULL);
    if ((value->kind != DOCUMENT_STRING && value->kind != DOCUMENT_NUMBER) ||
        quantity_parse(value->text, 0, &amount) != QUANTITY_OK || amount < 0) {
        convert_say(in, CONVERT_FAILED, value, "it is not a whole number");
        return -1;
    }
    return amount;
}

/* Reads limits; the API server refuses requests of such a resource that differ from limits. */
static void read_word(struct convert_object *in, const struct document *container,
                      enum share_word word, struct share_ask *out)
{
    const struct document *limit =
        document_get(document_at(container, "resources.limits"), words[word].key);
    const struct document *request =
        document_get(document_at(container, "resources.requests"), words[word].key);

    out->at[word] = limit != NULL ? limit : request;
    if (out->at[word] == NULL)
        return;
    out->amount[word] = convert_amount(in, out->at[word]);
    if (limit != NULL && request != NULL && convert_amount(in, request) != out->amount[word])
        convert_say(in, CONVERT_FAILED, request, "it differs from the limit");
}

static void remove_word(struct document *container, enum share_word word)
{
    struct document *resources = document_get(container, "resources");
    struct document *requests = document_get(resources, "requests");
    struct document *limits = document_get(resources, "limits");

    if (limits != NULL && limits->kind == DOCUMENT_OBJECT)
        document_remove(limits, words[word].key);
    if (requests == NULL || requests->kind != DOCUMENT_OBJECT)
        return;
    document_remove(requests, words[word].key);
    if (requests->count == 0)
        document_remove(resources, "requests");
}

/* --- thousandths --- */

int64_t convert_memory(struct convert_object *in, const struct document *about, int64_t mib)
{
    const int64_t gpu = in->rules->gpu_mib;

    must(mib >= 0 && gpu <= CONVERT_GPU_MIB_MAX);
    if (gpu == 0) {
        convert_say(in, CONVERT_FAILED, about,
                    "an amount of memory: --gpu-memory says how many MiB a GPU has");
        return -1;
    }
    if (mib > gpu) {
        convert_say(in, CONVERT_FAILED, about,
                    "%lld MiB are more than a GPU has (--gpu-memory %lld)", (long long)mib,
                    (long long)gpu);
        return -1;
    }
    return (mib * 1000 + gpu - 1) / gpu;
}

static int64_t of_percent(struct convert_object *in, const struct share_ask *ask,
                          enum share_word word)
{
    must(ask->at[word] != NULL);
    if (ask->amount[word] <= 100)
        return ask->amount[word] * 10;
    convert_say(in, CONVERT_FAILED, ask->at[word], "it is more than 100 percent");
    return -1;
}

/* As in HAMi: MiB take precedence over percent; the default is the whole memory of the GPU. */
static int64_t hami_memory(struct convert_object *in, const struct share_ask *ask)
{
    if (ask->at[HAMI_MEMORY] != NULL && ask->amount[HAMI_MEMORY] > 0)
        return convert_memory(in, ask->at[HAMI_MEMORY], ask->amount[HAMI_MEMORY]);
    if (ask->at[HAMI_MEMORY_PERCENT] != NULL)
        return of_percent(in, ask, HAMI_MEMORY_PERCENT);
    if (ask->at[HAMI_CORES] != NULL)
        convert_say(in, CONVERT_NOTE, ask->at[HAMI_CORES],
                    "without an amount of memory HAMi gives the whole memory of the GPU: 1000");
    return 1000;
}

static int64_t larger_of(int64_t memory, int64_t cores)
{
    return memory > cores ? memory : cores;
}

static struct convert_share hami_share(struct convert_object *in, const struct share_ask *ask)
{
    struct convert_share share = {.gpus = 1};

    if (ask->at[HAMI_GPUS] != NULL)
        share.gpus = ask->amount[HAMI_GPUS];
    share.milli = hami_memory(in, ask);
    if (ask->at[HAMI_CORES] != NULL)
        share.milli = larger_of(share.milli, of_percent(in, ask, HAMI_CORES));
    return share;
}

/* The memory is the sum over all GPUs, whose number is in a label of the pod. */
static struct convert_share aliyun_share(const struct convert_pod *pod, const struct share_ask *ask)
{
    static const char label[] = "aliyun.com/gpu-count";
    const struct document *count = document_get(document_at(pod->owner, "metadata.labels"), label);
    const struct document *memory = ask->at[ALIYUN_MEMORY];
    struct convert_share share = {.gpus = 1};

    if (count != NULL)
        share.gpus = convert_amount(pod->in, count);
    if (convert_failed(pod->in))
        return share;
    if (share.gpus == 0 || ask->amount[ALIYUN_MEMORY] % share.gpus != 0) {
        convert_say(pod->in, CONVERT_FAILED, count, "%s cannot be split evenly over so many GPUs",
                    words[ALIYUN_MEMORY].key);
        return share;
    }
    if (memory != NULL) {
        const int64_t units = ask->amount[ALIYUN_MEMORY] / share.gpus;
        const int64_t mib =
            units <= CONVERT_GPU_MIB_MAX ? units * pod->in->rules->aliyun_mib : INT64_MAX;
        share.milli = convert_memory(pod->in, memory, mib);
    }
    if (ask->at[ALIYUN_CORES] != NULL)
        share.milli = larger_of(share.milli, of_percent(pod->in, ask, ALIYUN_CORES));
    return share;
}

/* --- the container --- */

static struct document *limits_of(const struct convert_pod *pod, struct document *container)
{
    const struct document *resources = document_get(container, "resources");
    const struct document *limits = document_get(resources, "limits");

    must(container->kind == DOCUMENT_OBJECT);
    if ((resources != NULL && resources->kind != DOCUMENT_OBJECT) ||
        (limits != NULL && limits->kind != DOCUMENT_OBJECT)) {
        convert_say(pod->in, CONVERT_FAILED, limits != NULL ? limits : resources,
                    "it must be an object");
        return NULL;
    }
    struct arena *arena = pod->in->arena;
    return document_object(arena, document_object(arena, container, "resources"), "limits");
}

static bool can_put(const struct convert_pod *pod, const struct document *about,
                    const struct document *limits, struct convert_share share)
{
    const char *resource = pod->in->rules->resource;

    must(limits->kind == DOCUMENT_OBJECT);
    if (document_get(limits, resource) != NULL)
        convert_say(pod->in, CONVERT_FAILED, document_get(limits, resource),
                    "the container asks for %s already; if a HAMi of yours counts GPUs by this "
                    "name, call it nvidia.com/gpu first",
                    resource);
    else if (convert_annotation_at(pod, "milligpu.io/gpu-count") != NULL)
        convert_say(pod->in, CONVERT_FAILED, about,
                    "annotation milligpu.io/gpu-count is there already, and would split it");
    else if (share.gpus > GPUS_PER_NODE_MAX)
        convert_say(pod->in, CONVERT_FAILED, about, "more than %d GPUs", GPUS_PER_NODE_MAX);
    else if (share.gpus > 0 && share.milli == 0)
        convert_say(pod->in, CONVERT_FAILED, about, "it asks for no part of a GPU");
    return !convert_failed(pod->in);
}

void convert_put_share(const struct convert_pod *pod, struct document *container,
                       const struct document *about, struct convert_share share)
{
    struct arena *arena = pod->in->arena;

    if (convert_failed(pod->in))
        return;
    must(share.milli >= 0 && share.milli <= 1000 && share.gpus >= 0);
    struct document *limits = limits_of(pod, container);
    if (limits == NULL || !can_put(pod, about, limits, share))
        return;
    document_set(arena, limits, text_of(pod->in->rules->resource),
                 document_new_int(arena, share.milli * share.gpus));
    if (share.gpus <= 1 || share.milli == 1000)
        return;
    const char *name = document_str(container, "name");
    if (name[0] == '\0') {
        convert_say(pod->in, CONVERT_FAILED, about, "several GPUs of a container without a name");
        return;
    }
    convert_annotate(pod, about, arena_printf(arena, "gpu-count.milligpu.io/%s", name),
                     arena_printf(arena, "%lld", (long long)share.gpus));
}

void convert_container(const struct convert_pod *pod, struct document *container, bool hami)
{
    const bool aliyun =
        convert_reads(pod->in, PEER_ALIYUN) && convert_names(container, PEER_ALIYUN);
    struct share_ask ask = {0};

    must(container->kind == DOCUMENT_OBJECT);
    for (size_t i = 0; i < WORDS; i++)
        if (words[i].peer == PEER_ALIYUN ? aliyun : hami)
            read_word(pod->in, container, (enum share_word)i, &ask);
    hami = ask.at[HAMI_GPUS] != NULL || ask.at[HAMI_MEMORY] != NULL ||
           ask.at[HAMI_MEMORY_PERCENT] != NULL || ask.at[HAMI_CORES] != NULL;
    const struct document *about = NULL;
    for (size_t i = WORDS; i-- > 0;)
        about = ask.at[i] != NULL ? ask.at[i] : about;
    if (about == NULL || convert_failed(pod->in))
        return;
    if (hami && aliyun) {
        convert_say(pod->in, CONVERT_FAILED, about, "it asks by the words of HAMi and of Aliyun");
        return;
    }
    if (ask.at[HAMI_PRIORITY] != NULL)
        convert_say(pod->in, CONVERT_LOST, ask.at[HAMI_PRIORITY],
                    "removed: shares of a GPU have no priorities among each other");
    if (hami || aliyun)
        convert_put_share(pod, container, about,
                          hami ? hami_share(pod->in, &ask) : aliyun_share(pod, &ask));
    for (size_t i = 0; i < WORDS && !convert_failed(pod->in); i++)
        if (ask.at[i] != NULL)
            remove_word(container, (enum share_word)i);
}
