/*
 * Converts a pod of HAMi, KAI or Aliyun: containers, annotations, and the name of the scheduler.
 * Called by convert_object.c for each pod and pod template.
 */
#include <string.h>
#include <strings.h>

#include "milligpu/base/limits.h"
#include "milligpu/core/facts/quantity.h"

#include "convert.h"

static const char hami_models[] = "nvidia.com/use-gputype";
static const char hami_numa[] = "nvidia.com/numa-bind";
static const char hami_mode[] = "nvidia.com/vgpu-mode";
static const char kai_fraction[] = "gpu-fraction";
static const char kai_memory[] = "gpu-memory";
static const char kai_cores[] = "gpu-sm-percentage";
static const char kai_gpus[] = "gpu-fraction-num-devices";
static const char kai_container[] = "gpu-fraction-container-name";

/* Annotations without an equivalent. */
static const struct {
    const char *key;
    enum convert_peer peer;
    enum convert_level level; /* CONVERT_LOST: it stays; CONVERT_NOTE: it is removed */
    const char *text;
} others[] = {
#define RECORD(key, peer)                                                                          \
    {                                                                                              \
        key, peer, CONVERT_NOTE, "removed: a record of a former placement"                         \
    }
    RECORD("hami.io/vgpu-node", PEER_HAMI),
    RECORD("hami.io/vgpu-time", PEER_HAMI),
    RECORD("hami.io/bind-time", PEER_HAMI),
    RECORD("hami.io/bind-phase", PEER_HAMI),
    RECORD("hami.io/vgpu-devices-to-allocate", PEER_HAMI),
    RECORD("hami.io/vgpu-devices-allocated", PEER_HAMI),
    RECORD("received-resource-type", PEER_KAI),
    RECORD("runai/shared-gpu-configmap", PEER_KAI),
    RECORD("ALIYUN_COM_GPU_MEM_IDX", PEER_ALIYUN),
    RECORD("ALIYUN_COM_GPU_MEM_POD", PEER_ALIYUN),
    RECORD("ALIYUN_COM_GPU_MEM_DEV", PEER_ALIYUN),
    RECORD("ALIYUN_COM_GPU_MEM_ASSIGNED", PEER_ALIYUN),
    RECORD("ALIYUN_COM_GPU_MEM_ASSUME_TIME", PEER_ALIYUN),
    RECORD("scheduler.framework.gpushare.allocation", PEER_ALIYUN),
#undef RECORD
    {"hami.io/node-scheduler-policy", PEER_HAMI, CONVERT_NOTE,
     "removed: the policy is a setting of milligpud, not of a pod"},
    {"hami.io/gpu-scheduler-policy", PEER_HAMI, CONVERT_NOTE,
     "removed: the policy is a setting of milligpud, not of a pod"},
    {"nvidia.com/nouse-gputype", PEER_HAMI, CONVERT_LOST,
     "a pod names the models that will do, in milligpu.io/gpu-model, not those that will not"},
    {"nvidia.com/use-gpuuuid", PEER_HAMI, CONVERT_LOST,
     "a pod cannot choose a single GPU: milligpu.io/gpu-model names models"},
    {"nvidia.com/nouse-gpuuuid", PEER_HAMI, CONVERT_LOST,
     "a pod cannot avoid a single GPU: milligpuctl cordon closes one for all pods"},
    {"gpu-sm-cores", PEER_KAI, CONVERT_LOST, "a share is a part of a GPU, not a number of cores"},
    {"gpu-fraction.limit", PEER_KAI, CONVERT_LOST, "a share is also the limit"},
    {"gpu-memory.limit", PEER_KAI, CONVERT_LOST, "a share is also the limit"},
};

static void convert_others(const struct convert_pod *pod)
{
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        const struct document *found = convert_annotation_at(pod, others[i].key);
        if (found == NULL || !convert_reads(pod->in, others[i].peer))
            continue;
        convert_say(pod->in, others[i].level, found, "%s", others[i].text);
        if (others[i].level == CONVERT_NOTE)
            convert_drop_annotation(pod, others[i].key);
    }
}

/* --- HAMi --- */

/* Removes the vendor prefix, which milligpu's model names do not have. */
static struct text model_word(struct text piece)
{
    static const char vendor[] = "nvidia";
    const size_t bytes = strlen(vendor);

    piece = text_trim(piece);
    while (piece.len >= bytes && strncasecmp(piece.at, vendor, bytes) == 0 &&
           (piece.len == bytes || piece.at[bytes] == '-' || piece.at[bytes] == ' ')) {
        const size_t cut = piece.len == bytes ? bytes : bytes + 1;
        piece = text_trim((struct text){piece.at + cut, piece.len - cut});
    }
    return piece;
}

/* HAMi matches each word anywhere in the model name. Returns false if every model matches. */
static bool put_models(const struct convert_pod *pod, const struct document *at, struct strbuf *out)
{
    struct text rest = at->text;
    struct text piece;
    uint32_t models = 0;

    while (text_cut(&rest, ',', &piece)) {
        piece = model_word(piece);
        if (piece.len == 0)
            return false;
        strbuf_str(out, models++ > 0 ? ",*" : "*");
        for (size_t i = 0; i < piece.len; i++)
            if (piece.at[i] < ' ' || piece.at[i] > '~' || strchr("*?;|", piece.at[i]) != NULL ||
                piece.len > MODEL_BYTES_MAX - 2 || models > MODELS_MAX) {
                convert_say(pod->in, CONVERT_FAILED, at, "it is not a list of models");
                return true;
            }
        strbuf_text(out, piece);
        strbuf_char(out, '*');
    }
    return models > 0;
}

static void convert_models(const struct convert_pod *pod)
{
    CLEANUP(strbuf_done) struct strbuf models;
    const struct document *at = convert_annotation_at(pod, hami_models);

    strbuf_init(&models);
    if (at == NULL)
        return;
    if (at->kind != DOCUMENT_STRING) {
        convert_say(pod->in, CONVERT_FAILED, at, "it is not a string");
        return;
    }
    if (put_models(pod, at, &models) && !convert_failed(pod->in))
        convert_annotate(pod, at, "milligpu.io/gpu-model", models.data);
    convert_drop_annotation(pod, hami_models);
}

static bool is_true(const struct document *value)
{
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"}; /* as in Go */

    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        if (text_is(value->text, yes[i]))
            return true;
    return false;
}

static void convert_hami(const struct convert_pod *pod)
{
    const struct document *numa = convert_annotation_at(pod, hami_numa);
    const struct document *mode = convert_annotation_at(pod, hami_mode);

    convert_models(pod);
    if (numa != NULL) {
        if (is_true(numa))
            convert_annotate(pod, numa, "milligpu.io/topology", "numa");
        convert_drop_annotation(pod, hami_numa);
    }
    if (mode == NULL)
        return;
    const bool mig = text_is(mode->text, "mig");
    convert_say(pod->in, mig ? CONVERT_LOST : CONVERT_NOTE, mode,
                mig ? "MIG is not a share: ask for the resource of a MIG profile"
                    : "removed: how containers share a GPU is a matter of its node");
    if (!mig)
        convert_drop_annotation(pod, hami_mode);
}

/* --- KAI --- */

static struct document *find_container(const struct document *list, const char *name)
{
    for (struct document *at = list != NULL ? list->first : NULL; at != NULL; at = at->next)
        if (at->kind == DOCUMENT_OBJECT &&
            (name == NULL || strcmp(document_str(at, "name"), name) == 0))
            return at;
    return NULL;
}

/* The container that gets the share: the first one, unless an annotation names one. */
static struct document *kai_target(const struct convert_pod *pod)
{
    const char *name = convert_annotation(pod, kai_container);
    struct document *found = find_container(document_get(pod->spec, "containers"), name);

    if (found == NULL)
        found = find_container(document_get(pod->spec, "initContainers"), name);
    if (found == NULL)
        convert_say(pod->in, CONVERT_FAILED, convert_annotation_at(pod, kai_container),
                    "there is no container of this name");
    return found;
}

static int64_t kai_thousandths(const struct convert_pod *pod, const struct document *at)
{
    int64_t milli;

    if ((at->kind == DOCUMENT_STRING || at->kind == DOCUMENT_NUMBER) &&
        quantity_ceil(text_trim(at->text), 3, &milli) == QUANTITY_OK && milli > 0 && milli <= 1000)
        return milli;
    convert_say(pod->in, CONVERT_FAILED, at, "it must be a number above 0 and at most 1");
    return -1;
}

/* The amount in an annotation; `none` if absent. */
static int64_t kai_amount(const struct convert_pod *pod, const char *key, int64_t none,
                          int64_t most)
{
    const struct document *at = convert_annotation_at(pod, key);

    if (at == NULL)
        return none;
    const int64_t amount = convert_amount(pod->in, at);
    if (!convert_failed(pod->in) && (amount == 0 || amount > most))
        convert_say(pod->in, CONVERT_FAILED, at, "it must be from 1 to %lld", (long long)most);
    return amount;
}

static struct convert_share kai_share(const struct convert_pod *pod,
                                      const struct document *fraction,
                                      const struct document *memory)
{
    struct convert_share share = {.gpus = kai_amount(pod, kai_gpus, 1, GPUS_PER_NODE_MAX)};
    const int64_t cores = kai_amount(pod, kai_cores, 0, 100) * 10;

    if (fraction != NULL) {
        share.milli = kai_thousandths(pod, fraction);
    } else {
        const int64_t mib = convert_amount(pod->in, memory);
        share.milli = mib >= 0 ? convert_memory(pod->in, memory, mib) : -1;
    }
    if (cores > share.milli)
        share.milli = cores;
    return share;
}

static void convert_kai(const struct convert_pod *pod)
{
    static const char *const consumed[] = {kai_fraction, kai_memory,    kai_cores,
                                           kai_gpus,     kai_container, "mps"};
    const struct document *fraction = convert_annotation_at(pod, kai_fraction);
    const struct document *memory = convert_annotation_at(pod, kai_memory);
    const struct document *about = fraction != NULL ? fraction : memory;

    if (about == NULL)
        return;
    if (fraction != NULL && memory != NULL)
        convert_say(pod->in, CONVERT_FAILED, memory, "KAI takes gpu-fraction or gpu-memory");
    struct document *container = kai_target(pod);
    if (container == NULL || convert_failed(pod->in))
        return;
    if (document_get(document_at(container, "resources.limits"), "nvidia.com/gpu") != NULL)
        convert_say(pod->in, CONVERT_FAILED, about, "the container asks for nvidia.com/gpu, too");
    if (convert_annotation_at(pod, "mps") != NULL)
        convert_say(pod->in, CONVERT_NOTE, convert_annotation_at(pod, "mps"),
                    "removed: how containers share a GPU is a matter of its node");
    convert_put_share(pod, container, about, kai_share(pod, fraction, memory));
    for (size_t i = 0; i < ARRAY_LEN(consumed) && !convert_failed(pod->in); i++)
        convert_drop_annotation(pod, consumed[i]);
}

static void note_queue(const struct convert_pod *pod)
{
    static const char *const keys[] = {"kai.scheduler/queue", "runai/queue"};
    const struct document *labels = document_at(pod->owner, "metadata.labels");

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (document_get(labels, keys[i]) != NULL)
            convert_say(pod->in, CONVERT_NOTE, document_get(labels, keys[i]),
                        "stays, and nobody reads it: milligpu has no queues, a ResourceQuota on "
                        "requests.%s bounds a namespace",
                        pod->in->rules->resource);
}

/* --- the pod --- */

static void convert_scheduler(const struct convert_pod *pod)
{
    static const struct {
        const char *name;
        enum convert_peer peer;
    } schedulers[] = {{"hami-scheduler", PEER_HAMI}, {"kai-scheduler", PEER_KAI}};
    const char *name = document_str(pod->spec, "schedulerName");

    for (size_t i = 0; i < ARRAY_LEN(schedulers); i++) {
        if (strcmp(name, schedulers[i].name) != 0 || !convert_reads(pod->in, schedulers[i].peer))
            continue;
        convert_say(pod->in, CONVERT_NOTE, document_get(pod->spec, "schedulerName"),
                    "%s removed: milligpu extends the cluster's own scheduler", name);
        document_remove(pod->spec, "schedulerName");
        return;
    }
}

static bool any_names(const struct document *containers, enum convert_peer peer)
{
    document_each (container, containers)
        if (convert_names(container, peer))
            return true;
    return false;
}

/* True if nvidia.com/gpu of its containers is a number of shares (HAMi), not of whole GPUs. */
static bool is_of_hami(const struct convert_pod *pod)
{
    static const char *const keys[] = {hami_models,
                                       hami_numa,
                                       hami_mode,
                                       "nvidia.com/nouse-gputype",
                                       "nvidia.com/use-gpuuuid",
                                       "nvidia.com/nouse-gpuuuid"};

    if (!convert_reads(pod->in, PEER_HAMI))
        return false;
    if (pod->in->rules->from == PEER_HAMI ||
        strcmp(document_str(pod->spec, "schedulerName"), "hami-scheduler") == 0 ||
        any_names(document_get(pod->spec, "containers"), PEER_HAMI) ||
        any_names(document_get(pod->spec, "initContainers"), PEER_HAMI))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (convert_annotation_at(pod, keys[i]) != NULL)
            return true;
    return false;
}

static void convert_list(const struct convert_pod *pod, const char *key, bool hami)
{
    struct document *list = document_get(pod->spec, key);

    if (list == NULL || list->kind != DOCUMENT_ARRAY)
        return;
    for (struct document *at = list->first; at != NULL; at = at->next)
        if (at->kind == DOCUMENT_OBJECT)
            convert_container(pod, at, hami);
}

void convert_pod(const struct convert_pod *pod)
{
    const bool hami = is_of_hami(pod);

    must(pod->spec->kind == DOCUMENT_OBJECT);
    convert_list(pod, "initContainers", hami);
    convert_list(pod, "containers", hami);
    if (hami)
        convert_hami(pod);
    if (convert_reads(pod->in, PEER_KAI)) {
        convert_kai(pod);
        note_queue(pod);
    }
    convert_others(pod);
    convert_scheduler(pod);
}
