/*
 * Decodes annotations with JSON in a string: milligpu.io/allocation of pods and milligpu.io/gpus of
 * nodes. Called by the decoders of Pod and Node. Tenants and admins can write them, so an invalid
 * one is a fact about the object, never an error of the list. All or nothing: an invalid annotation
 * yields no share and no GPU.
 */
#include <string.h>

#include "kube_read.h"

enum { NOTE_VERSION = 1, INDEX_MAX = UINT16_MAX };

static const char *const share_keys[] = {"gpu", "index", "milli", "mib", "asked"};
enum { SHARE_GPU, SHARE_INDEX, SHARE_MILLI, SHARE_MIB, SHARE_ASKED };

/* index is for adoption: it identifies a GPU whose UUID the node does not show. */
static void share_member(struct json_reader *in, struct pod_share *share, int key)
{
    int64_t number = 0;
    switch (key) {
    case SHARE_GPU:
        (void)read_gpu_id(in, &share->gpu); /* errors stick, here and below */
        break;
    case SHARE_INDEX:
        (void)read_number(in, 0, INDEX_MAX, &number);
        share->index = (uint32_t)number;
        break;
    case SHARE_MILLI:
        (void)read_number(in, 1, GPU_MILLI, &number);
        share->milli = (uint32_t)number;
        break;
    case SHARE_MIB:
        (void)read_number(in, 0, UINT32_MAX, &number);
        share->mib = (uint32_t)number;
        break;
    case SHARE_ASKED:
        (void)read_number(in, 1, GPU_MILLI, &number);
        share->asked = (uint32_t)number;
        break;
    default:
        must_not_reach("json_read_field gives the keys of its table only");
    }
}

/* The first four members are required, because this program writes all of them. */
static bool annotation_read_share(struct json_reader *in, struct pod_share *out)
{
    must(out->container != NULL);

    struct json_read_fields fields = JSON_FIELDS(share_keys);
    int key;
    if (!json_read_object(in))
        return false;
    while (json_read_field(in, &fields, &key))
        share_member(in, out, key);
    if (in->failed)
        return false;
    for (int i = SHARE_GPU; i <= SHARE_MIB; i++)
        if (!need_field(in, &fields, i))
            return false;
    /* need_field() accepts a null. */
    if (out->gpu == NULL || out->milli == 0)
        json_reader_fail(in, "has a null where gpu or milli should be");
    else if (out->asked > out->milli)
        json_reader_fail(in, "is smaller than what was asked for");
    if (out->asked == out->milli)
        out->asked = 0;
    return !in->failed;
}

/* A container may have one share of each GPU. Quadratic in at most PARTS_MAX shares. */
static bool annotation_add_share(struct json_reader *in, struct pod *pod,
                                 const struct pod_share *share)
{
    must(pod->n_shares <= PARTS_MAX);
    must(share->gpu != NULL && share->milli > 0);

    for (uint32_t i = 0; i < pod->n_shares; i++) {
        const struct pod_share *other = &pod->share[i];
        if (strcmp(other->gpu, share->gpu) == 0 &&
            strcmp(other->container, share->container) == 0) {
            json_reader_fail(in, "gives the container the same GPU twice");
            return false;
        }
    }
    if (pod->n_shares == PARTS_MAX) {
        json_reader_fail_as(in, ERR_TOO_LARGE, "more than %d shares (PARTS_MAX)", PARTS_MAX);
        return false;
    }
    pod->share = arena_grow(in->arena, pod->share, pod->n_shares, PARTS_MAX, sizeof *pod->share);
    pod->share[pod->n_shares++] = *share;
    return true;
}

/*
 * Reads one member of "containers". The key is data, so duplicates are checked here; strlen()
 * detects a NUL in the name.
 */
static bool annotation_read_shares(void *user, struct json_reader *in, struct text container)
{
    must(user != NULL);

    struct pod *pod = user;
    const uint32_t before = pod->n_shares;
    const char *name = arena_copy(in->arena, container);
    if (container.len == 0 || container.len > NAME_BYTES_MAX || strlen(name) != container.len)
        json_reader_fail(in, "is no name of a container");
    for (uint32_t i = 0; i < before && !in->failed; i++)
        if (strcmp(pod->share[i].container, name) == 0)
            json_reader_fail(in, "comes twice; a container may come once");
    if (!json_read_array(in))
        return false;
    while (json_read_element(in)) {
        struct pod_share share = {.container = name};
        if (!annotation_read_share(in, &share) || !annotation_add_share(in, pod, &share))
            return false;
    }
    if (pod->n_shares == before)
        json_reader_fail(in, "holds no share");
    return !in->failed;
}

static const char *const note_keys[] = {"v", "containers"};

/* Another version is not read: its keys may have another meaning. */
static void annotation_read(struct json_reader *in, struct pod *out)
{
    must(out->n_shares == 0);

    struct json_read_fields fields = JSON_FIELDS(note_keys);
    int64_t version = 0;
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0 && json_read_i64(in, &version) && version != NOTE_VERSION)
            json_reader_fail(in, "is %lld, but only %d is known", (long long)version, NOTE_VERSION);
        if (key == 1)
            (void)read_map(in, out, annotation_read_shares); /* the error sticks */
    }
    if (!in->failed && version == 0)
        json_reader_fail(in, "has no \"v\"");
    if (!in->failed && out->n_shares == 0)
        json_reader_fail(in, "has no \"containers\" with shares");
}

void annotation_decode(struct text annotation, struct arena *arena, struct pod *out)
{
    must(out->annotation == NOTE_NONE);

    UNSET struct json_reader in;
    struct err err;
    must(annotation.at != NULL);

    json_reader_init(&in, annotation, "milligpu.io/allocation", arena, &err);
    if (annotation.len > ANNOTATION_BYTES_MAX)
        json_reader_fail_as(&in, ERR_TOO_LARGE, "has %zu bytes, more than %d", annotation.len,
                            ANNOTATION_BYTES_MAX);
    annotation_read(&in, out);
    if (json_reader_finish(&in) == 0) {
        out->annotation = NOTE_OK;
        return;
    }
    /* Drop the shares read so far: an allocation counts only as a whole. */
    out->annotation = NOTE_BROKEN;
    out->note_error = arena_copy(arena, text_of(err.text));
    out->n_shares = 0;
    out->share = NULL;
}

/*
 * Skips an element that is no string, or a value that is no list: bad links must not cost the GPUs.
 * inventory.h checks the names.
 */
static void read_nvlink(struct json_reader *in, struct gpu_facts *gpu)
{
    const struct json_reader_mark whole = json_reader_mark(in);
    const char *name;

    must(gpu->n_nvlinks == 0);
    if (!json_read_array(in)) {
        gpu->nvlink_odd = json_reader_retreat(in, whole);
        return;
    }
    while (json_read_element(in)) {
        (void)json_read_peek(in); /* moves to the value's first byte */
        const struct json_reader_mark mark = json_reader_mark(in);
        if (!json_read_cstring(in, &name)) {
            gpu->nvlink_odd = json_reader_retreat(in, mark);
            continue;
        }
        gpu->nvlink_odd = gpu->nvlink_odd || gpu->n_nvlinks == GPUS_PER_NODE_MAX;
        if (gpu->n_nvlinks == GPUS_PER_NODE_MAX)
            continue;
        gpu->nvlink = arena_grow(in->arena, gpu->nvlink, gpu->n_nvlinks, GPUS_PER_NODE_MAX,
                                 sizeof *gpu->nvlink);
        gpu->nvlink[gpu->n_nvlinks++] = name;
    }
}

static const char *const gpu_keys[] = {"uuid",   "index",  "milli", "mib",    "model", "numa",
                                       "health", "nvlink", "held",  "reason", "since"};
enum {
    GPU_UUID,
    GPU_INDEX,
    GPU_AMOUNT,
    GPU_MIB,
    GPU_MODEL,
    GPU_NUMA,
    GPU_HEALTH,
    GPU_NVLINK,
    GPU_HOLD,
    GPU_WHY,
    GPU_SINCE,
};

static void gpu_member(struct json_reader *in, struct gpu_facts *gpu, int key)
{
    int64_t number = 0;
    switch (key) {
    case GPU_UUID:
        (void)read_gpu_id(in, &gpu->id); /* errors stick, here and below */
        break;
    case GPU_INDEX:
        (void)read_number(in, 0, INDEX_MAX, &number);
        gpu->index = (uint32_t)number;
        break;
    case GPU_AMOUNT:
        (void)read_number(in, 1, GPU_MILLI, &number);
        gpu->milli = (uint32_t)number;
        break;
    case GPU_MIB:
        (void)read_number(in, 0, UINT32_MAX, &number);
        gpu->mib = (uint32_t)number;
        break;
    case GPU_MODEL:
        (void)read_string(in, MODEL_BYTES_MAX, &gpu->model);
        break;
    case GPU_NUMA:
        (void)read_number(in, -1, INT16_MAX, &number);
        gpu->numa = (int32_t)number;
        break;
    case GPU_HEALTH:
        (void)json_read_cstring(in, &gpu->health); /* checked by inventory.h, as the next texts */
        break;
    case GPU_HOLD:
        (void)json_read_cstring(in, &gpu->held);
        break;
    case GPU_WHY:
        (void)json_read_cstring(in, &gpu->reason);
        break;
    case GPU_SINCE:
        (void)json_read_cstring(in, &gpu->since);
        break;
    case GPU_NVLINK:
        read_nvlink(in, gpu);
        break;
    default:
        must_not_reach("json_read_field gives the keys of its table only");
    }
}

/* Only uuid and index are required. The defaults describe a whole GPU without a known NUMA node. */
static bool annotation_read_gpu(struct json_reader *in, struct gpu_facts *out)
{
    struct json_read_fields fields = JSON_FIELDS(gpu_keys);
    int key;
    *out = (struct gpu_facts){.milli = GPU_MILLI, .numa = -1};
    if (!json_read_object(in))
        return false;
    while (json_read_field(in, &fields, &key))
        gpu_member(in, out, key);
    if (in->failed || !need_field(in, &fields, GPU_UUID) || !need_field(in, &fields, GPU_INDEX))
        return false;
    if (out->id == NULL)
        json_reader_fail(in, "has a null where uuid should be");
    return !in->failed;
}

/* A duplicate uuid or index would make two GPUs of one, so it invalidates the annotation. */
static void annotation_add_gpu(struct json_reader *in, struct node_facts *facts,
                               const struct gpu_facts *gpu)
{
    enum { KEPT_MAX = GPUS_PER_NODE_MAX + 1 }; /* one more, to detect too many */
    must(facts->n_gpus <= KEPT_MAX);
    must(gpu->id != NULL);

    for (uint32_t i = 0; i < facts->n_gpus; i++) {
        must(facts->gpu[i].id != NULL);
        if (strcmp(facts->gpu[i].id, gpu->id) == 0)
            json_reader_fail(in, "has the uuid of another GPU of the node");
        if (facts->gpu[i].index == gpu->index)
            json_reader_fail(in, "has the index of another GPU of the node");
    }
    if (in->failed || facts->n_gpus == KEPT_MAX)
        return;
    facts->gpu = arena_grow(in->arena, facts->gpu, facts->n_gpus, KEPT_MAX, sizeof *facts->gpu);
    facts->gpu[facts->n_gpus++] = *gpu;
}

void gpus_decode(struct text gpus, struct arena *arena, struct node_facts *out)
{
    must(out->n_gpus == 0 && !out->has_gpus);

    UNSET struct json_reader in;
    struct err err;
    struct gpu_facts gpu;
    must(gpus.at != NULL);

    json_reader_init(&in, gpus, "milligpu.io/gpus", arena, &err);
    if (gpus.len > ANNOTATION_BYTES_MAX)
        json_reader_fail_as(&in, ERR_TOO_LARGE, "has %zu bytes, more than %d", gpus.len,
                            ANNOTATION_BYTES_MAX);
    if (json_read_array(&in))
        while (json_read_element(&in))
            if (annotation_read_gpu(&in, &gpu))
                annotation_add_gpu(&in, out, &gpu);
    out->has_gpus = json_reader_finish(&in) == 0;
    if (out->has_gpus)
        return;
    out->gpus_error = arena_copy(arena, text_of(err.text));
    out->n_gpus = 0;
    out->gpu = NULL;
}
