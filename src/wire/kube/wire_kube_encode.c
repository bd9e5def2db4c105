/*
 * Encodes objects and patches for the API server. Called by the writer (Bindings, before its
 * COMMIT), the outbox, key_publisher.c and cluster_identity.c; the bytes depend on the arguments
 * alone. The API server checks neither keys nor size of a Binding's annotations, so this file does
 * (docs/why/003-annotations-on-the-binding.md). In order: the allocation, the Binding, Events, the
 * wake-up object, patches.
 */
#include <string.h>

#include "milligpu/base/annotations.h"
#include "milligpu/wire/kube/wire_kube.h"

enum { EVENT_NOTE_MAX = 1000, KEY_NAME_MAX = 63 };

static const char visible_key[] = "milligpu.io/visible-devices";
static const char visible_prefix[] = "visible-devices.milligpu.io/";
static const char wake_key[] = "milligpu.io/bell";
const char WAKE_OBJECT_NAME[] = "milligpu-bell";

/* A share with the GPU id and index that containers see. */
struct seen {
    const struct share *share;
    struct text gpu;
    uint32_t index;
    bool real; /* the id is a device's, not made up by us */
};

/* An allocation with its shares in output order. */
struct annotation {
    const struct allocation *allocation;
    uint32_t count; /* length of seen[]; equals allocation->facts.shares */
    struct seen seen[PARTS_MAX];
};

/* A GPU without a UUID has the id "<node>/gpu-<index>" (inventory.h). */
static bool is_made_up(const struct node *node, struct text id)
{
    const struct text name = atom_text(node->name);
    const struct text rest = {id.at + name.len, id.len - name.len};
    must(id.len > 0);
    return id.len > name.len && memcmp(id.at, name.at, name.len) == 0 && text_starts(rest, "/gpu-");
}

/* A GPU may have a made-up id and a real one: containers need the real one. */
static struct seen encode_see(const struct share *share, const struct node *node)
{
    const struct gpu *gpu = node_gpu(node, atom_text(share->gpu));
    /*
     * The GPU's alias is not tried: the node never showed it, and text that a tenant may have
     * written must not reach other pods.
     */
    const struct atom *const names[] = {share->gpu, gpu != NULL ? gpu->id : NULL};
    struct seen seen = {.share = share, .gpu = atom_text(share->gpu)};
    must(share->gpu->len > 0);
    for (size_t i = 0; i < ARRAY_LEN(names) && !seen.real; i++)
        if (names[i] != NULL && !is_made_up(node, atom_text(names[i]))) {
            seen.gpu = atom_text(names[i]);
            seen.real = true;
        }
    /* If the node has no such GPU, only a made-up id has an index. */
    seen.index = gpu != NULL ? gpu->index : seen.real ? 0 : gpu_id_index(seen.gpu);
    return seen;
}

/* The output order: by index, then by id. */
static bool encode_before(const struct seen *a, const struct seen *b)
{
    must(a->gpu.len > 0 && b->gpu.len > 0);

    const size_t shorter = a->gpu.len < b->gpu.len ? a->gpu.len : b->gpu.len;
    if (a->index != b->index)
        return a->index < b->index;
    const int order = memcmp(a->gpu.at, b->gpu.at, shorter);
    return order != 0 ? order < 0 : a->gpu.len < b->gpu.len;
}

/* All annotations list GPUs in this order. Insertion sort of at most PARTS_MAX shares. */
static void note_init(struct annotation *annotation, const struct allocation *allocation,
                      const struct node *node)
{
    must(allocation->facts.n_shares <= PARTS_MAX);

    annotation->allocation = allocation;
    annotation->count = 0;
    for (uint32_t i = 0; i < allocation->facts.n_shares; i++) {
        const struct seen seen = encode_see(&allocation->facts.share[i], node);
        uint32_t at = annotation->count++;
        for (; at > 0 && encode_before(&seen, &annotation->seen[at - 1]); at--)
            annotation->seen[at] = annotation->seen[at - 1];
        annotation->seen[at] = seen;
    }
}

/* True if share i of the allocation is the first of its container. */
static bool opens_container(const struct allocation *allocation, uint32_t i)
{
    must(i < allocation->facts.n_shares);
    for (uint32_t j = 0; j < i; j++)
        if (strcmp(allocation->facts.share[j].container, allocation->facts.share[i].container) == 0)
            return false;
    return true;
}

/*
 * "gpu" is the id that the ledger charges, for adoption by a new ledger. It may differ from the id
 * that containers see.
 */
static void write_share(struct json_writer *json, const struct seen *seen)
{
    must(seen->share->milli <= GPU_MILLI);
    must(seen->share->milli > 0);
    json_write_object(json);
    json_write_key(json, "gpu");
    json_write_text(json, atom_text(seen->share->gpu));
    json_write_key(json, "index");
    json_write_u64(json, seen->index);
    json_write_key(json, "milli");
    json_write_u64(json, seen->share->milli);
    json_write_key(json, "mib");
    json_write_u64(json, seen->share->mib);
    if (seen->share->asked != seen->share->milli) {
        json_write_key(json, "asked");
        json_write_u64(json, seen->share->asked);
    }
    json_write_object_end(json);
}

/* Shares are in the order of seen[], containers in the order of the allocation. */
static void write_container(struct json_writer *json, const struct annotation *annotation,
                            const char *container)
{
    must(container != NULL);

    json_write_key(json, container);
    json_write_array(json);
    for (uint32_t i = 0; i < annotation->count; i++)
        if (strcmp(annotation->seen[i].share->container, container) == 0)
            write_share(json, &annotation->seen[i]);
    json_write_array_end(json);
}

static void encode_write_value(struct strbuf *out, const struct annotation *annotation)
{
    must(annotation->count == annotation->allocation->facts.n_shares);

    struct json_writer json;
    json_writer_init(&json, out);
    json_write_object(&json);
    json_write_key(&json, "v");
    json_write_u64(&json, 1);
    json_write_key(&json, "containers");
    json_write_object(&json);
    for (uint32_t i = 0; i < annotation->allocation->facts.n_shares; i++)
        if (opens_container(annotation->allocation, i))
            write_container(&json, annotation, annotation->allocation->facts.share[i].container);
    json_write_object_end(&json);
    json_write_object_end(&json);
}

void note_value(struct strbuf *out, const struct allocation *allocation, const struct node *node)
{
    must(allocation->facts.n_shares > 0);

    struct annotation annotation;
    note_init(&annotation, allocation, node);
    encode_write_value(out, &annotation);
}

/* Writes each GPU once, of the whole pod if container is NULL. */
static void encode_visible(struct strbuf *out, const struct annotation *annotation,
                           const char *container)
{
    const struct seen *last = NULL;
    strbuf_reset(out);
    for (uint32_t i = 0; i < annotation->count; i++) {
        const struct seen *seen = &annotation->seen[i];
        if (container != NULL && strcmp(seen->share->container, container) != 0)
            continue;
        /* Shares are sorted, so those of one GPU are adjacent. */
        if (last != NULL && text_eq(last->gpu, seen->gpu))
            continue;
        if (last != NULL)
            strbuf_char(out, ',');
        if (seen->real)
            strbuf_text(out, seen->gpu);
        else
            strbuf_u64(out, seen->index);
        last = seen;
    }
    /* Container names come from the shares, so each container has a GPU. */
    must(last != NULL || annotation->count == 0);
}

struct annotations {
    struct json_writer *json;
    size_t bytes; /* size of all keys and values, as the API server counts it */
};

/* Adds the sizes without JSON escapes, as the API server does. */
static void encode_annotate(struct annotations *all, struct text key, struct text value)
{
    must(key.len > 0);
    json_write_key_text(all->json, key);
    json_write_text(all->json, value);
    all->bytes += key.len + value.len;
}

static struct text text_in(const struct strbuf *buf)
{
    must(buf->data != NULL);

    return (struct text){buf->data, buf->len};
}

/* Writes allocation and, with a signer, the signature over exactly the bytes written. */
static int annotate_allocation(struct annotations *all, const struct annotation *annotation,
                               const struct binding_signer *signer, struct err *err)
{
    const struct allocation_facts *facts = &annotation->allocation->facts;
    CLEANUP(strbuf_done) struct strbuf value;
    CLEANUP(strbuf_done) struct strbuf signature;
    strbuf_init(&value);
    strbuf_init(&signature);

    must(signer == NULL || signer->sign != NULL);
    encode_write_value(&value, annotation);
    encode_annotate(all, TEXT(ANNOTATION_ALLOCATION), text_in(&value));
    if (signer == NULL)
        return 0;
    if (signer->sign(signer->ctx, text_of(facts->uid), atom_text(facts->node), text_in(&value),
                     &signature, err) < 0)
        return err_same(err);
    must(signature.len > 0);
    encode_annotate(all, TEXT(ANNOTATION_SIGNATURE), text_in(&signature));
    return 0;
}

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* True for a valid name behind the slash of an annotation's key. */
static bool is_key_name(const char *name)
{
    const size_t len = strlen(name);
    if (len == 0 || len > KEY_NAME_MAX || !is_alphanumeric(name[0]) ||
        !is_alphanumeric(name[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_alphanumeric(name[i]) && name[i] != '-' && name[i] != '_' && name[i] != '.')
            return false;
    return true;
}

/* Leaves out a key that the API server would refuse. */
static void annotate_required_by(struct annotations *all, const char *container)
{
    CLEANUP(strbuf_done) struct strbuf key;
    strbuf_init(&key);

    must(container != NULL);
    strbuf_str(&key, ANNOTATION_REQUIRED_CONTAINER);
    strbuf_str(&key, container);
    if (is_key_name(key.data + strlen(ANNOTATION_REQUIRED "/")))
        encode_annotate(all, text_in(&key), TEXT(REQUIRED_PLUGINS));
}

/*
 * On a node with an agent, no container of the pod may start without the agent. The runtime looks
 * for the container's own key first, and the pod's author may have written one, so each container
 * gets our key, with or without a share, if its name fits: the API server could not read back a pod
 * with a longer key. Other containers, such as later ephemeral ones, use the key of the whole pod.
 * If request is NULL, only containers with a share are known.
 */
static void annotate_required(struct annotations *all, const struct allocation *allocation,
                              const struct request *request)
{
    must(allocation->facts.n_shares > 0);

    encode_annotate(all, TEXT(ANNOTATION_REQUIRED_POD), TEXT(REQUIRED_PLUGINS));
    for (uint32_t i = 0; i < allocation->facts.n_shares; i++)
        if (opens_container(allocation, i))
            annotate_required_by(all, allocation->facts.share[i].container);
    for (uint32_t i = 0; request != NULL && i < request->n_others; i++)
        annotate_required_by(all, request->other[i]);
}

/* Writes the GPUs of the pod and of each container, for the downward API. */
static void annotate_visible(struct annotations *all, const struct annotation *annotation)
{
    must(annotation->count > 0);

    CLEANUP(strbuf_done) struct strbuf value;
    CLEANUP(strbuf_done) struct strbuf key;
    strbuf_init(&value);
    strbuf_init(&key);

    encode_visible(&value, annotation, NULL);
    encode_annotate(all, text_of(visible_key), text_in(&value));
    for (uint32_t i = 0; i < annotation->allocation->facts.n_shares; i++) {
        const char *container = annotation->allocation->facts.share[i].container;
        if (!opens_container(annotation->allocation, i))
            continue;
        strbuf_reset(&key);
        strbuf_str(&key, visible_prefix);
        strbuf_str(&key, container);
        encode_visible(&value, annotation, container);
        encode_annotate(all, text_in(&key), text_in(&value));
    }
}

/* Writes the annotations object; *bytes is its size as limited by the API server. */
static int write_annotations(struct json_writer *json, const struct annotation *annotation,
                             bool agent, const struct binding_terms *terms, size_t *bytes,
                             struct err *err)
{
    struct annotations all = {.json = json};

    must(annotation->count > 0);
    json_write_object(json);
    if (annotate_allocation(&all, annotation, terms->signer, err) < 0)
        return err_same(err);
    annotate_visible(&all, annotation);
    if (agent)
        annotate_required(&all, annotation->allocation, terms->request);
    json_write_object_end(json);
    *bytes = all.bytes;
    return 0;
}

void annotation_encode(struct strbuf *out, const struct allocation *allocation,
                       const struct node *node)
{
    const struct binding_terms plain = {.signer = NULL};
    struct annotation annotation;
    struct json_writer json;
    size_t bytes;
    struct err err;
    must(allocation->facts.n_shares > 0);
    note_init(&annotation, allocation, node);
    json_writer_init(&json, out);
    /* The size is checked by binding_encode(); without a signer nothing can fail. */
    must(write_annotations(&json, &annotation, false, &plain, &bytes, &err) == 0);
}

/* Container names become parts of keys, and the API server does not check a Binding's keys. */
static int encode_check_keys(const struct allocation *allocation, struct err *err)
{
    must(allocation->facts.n_shares <= PARTS_MAX);

    for (uint32_t i = 0; i < allocation->facts.n_shares; i++) {
        const char *container = allocation->facts.share[i].container;
        if (!is_key_name(container))
            return err_set(err, ERR_INVALID,
                           "annotation %s%.100s: the container's name must be 1 to %d letters, "
                           "digits, '-', '_' or '.'",
                           visible_prefix, container, KEY_NAME_MAX);
    }
    return 0;
}

static void write_target(struct json_writer *json, const struct allocation *allocation)
{
    must(allocation->facts.node->len > 0);
    json_write_key(json, "target");
    json_write_object(json);
    json_write_key(json, "apiVersion");
    json_write_str(json, "v1");
    json_write_key(json, "kind");
    json_write_str(json, "Node");
    json_write_key(json, "name");
    json_write_text(json, atom_text(allocation->facts.node));
    json_write_object_end(json);
}

/* Writes {"apiVersion":...,"kind":...,"metadata":{"name":...,"namespace":... and leaves it open. */
static void open_object(struct json_writer *json, const char *version, const char *kind,
                        const char *namespace, const char *name)
{
    must(kind[0] != '\0' && version[0] != '\0');
    must(name[0] != '\0');
    json_write_object(json);
    json_write_key(json, "apiVersion");
    json_write_str(json, version);
    json_write_key(json, "kind");
    json_write_str(json, kind);
    json_write_key(json, "metadata");
    json_write_object(json);
    json_write_key(json, "name");
    json_write_str(json, name);
    json_write_key(json, "namespace");
    json_write_str(json, namespace);
}

/* An unknown version (0) is no precondition. */
static void write_version(struct json_writer *json, uint64_t version)
{
    struct strbuf text;

    must(version <= VERSION_MAX);
    if (version == 0)
        return;
    strbuf_init(&text);
    strbuf_u64(&text, version);
    json_write_key(json, "resourceVersion");
    json_write_str(json, text.data);
    strbuf_done(&text);
}

/* The size is checked at the end: on failure, out has bytes that the caller must not send. */
int binding_encode(struct strbuf *out, const struct allocation *allocation, const struct node *node,
                   const struct binding_terms *terms, struct err *err)
{
    must(node != NULL);
    must(allocation->facts.uid[0] != '\0');

    struct annotation annotation;
    struct json_writer json;
    size_t bytes = 0;
    if (encode_check_keys(allocation, err) < 0)
        return -(int)err->code;

    note_init(&annotation, allocation, node);
    json_writer_init(&json, out);
    open_object(&json, "v1", "Binding", allocation->facts.namespace, allocation->facts.name);
    json_write_key(&json, "uid");
    json_write_str(&json, allocation->facts.uid);
    write_version(&json, terms->version);
    if (annotation.count > 0) {
        json_write_key(&json, "annotations");
        if (write_annotations(&json, &annotation, node->agent, terms, &bytes, err) < 0)
            return err_same(err);
    }
    json_write_object_end(&json);
    write_target(&json, allocation);
    json_write_object_end(&json);
    if (bytes > ANNOTATION_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "annotations of the Binding: %zu bytes, more than %d "
                       "(ANNOTATION_BYTES_MAX)",
                       bytes, ANNOTATION_BYTES_MAX);
    return 0;
}

/* Clips to limit bytes and removes control characters: kubectl prints Events to a terminal. */
static void write_clipped(struct json_writer *json, const char *string, size_t limit)
{
    char shown[EVENT_NOTE_MAX + 1];

    must(string != NULL && limit < sizeof shown);
    text_clip(text_of(string), shown, limit + 1);
    json_write_str(json, shown);
}

static void write_regarding(struct json_writer *json, const struct kube_event_facts *facts)
{
    must(facts->kind[0] != '\0');

    /* A Node has no namespace, although its Events have one. */
    const bool namespaced = strcmp(facts->kind, "Node") != 0;
    must(facts->regarding != NULL);
    json_write_key(json, "regarding");
    json_write_object(json);
    json_write_key(json, "apiVersion");
    json_write_str(json, "v1");
    json_write_key(json, "kind");
    json_write_str(json, facts->kind);
    if (namespaced) {
        json_write_key(json, "namespace");
        json_write_str(json, facts->namespace);
    }
    json_write_key(json, "name");
    json_write_str(json, facts->regarding);
    if (facts->uid != NULL && facts->uid[0] != '\0') {
        json_write_key(json, "uid");
        json_write_str(json, facts->uid);
    }
    json_write_object_end(json);
}

/* MicroTime has exactly six digits after the point. */
static void write_micro_time(struct json_writer *json, int64_t at_ms)
{
    char text[TIME_TEXT_BYTES + 4];
    time_format(at_ms, text);
    const size_t len = strlen(text);
    must(len > 0 && text[len - 1] == 'Z');
    memcpy(text + len - 1, "000Z", sizeof "000Z");
    json_write_str(json, text);
}

/*
 * events.k8s.io limits action, reason and reportingInstance to 128 bytes, and the note to 1 kB, and
 * rejects Events with longer ones.
 */
void event_encode(struct strbuf *out, const struct kube_event_facts *facts)
{
    must(facts->note != NULL && facts->instance != NULL);

    enum { WORD_MAX = 128 };
    struct json_writer json;
    must(facts->reason[0] != '\0' && facts->action[0] != '\0');

    json_writer_init(&json, out);
    open_object(&json, "events.k8s.io/v1", "Event", facts->namespace, facts->name);
    json_write_object_end(&json);
    json_write_key(&json, "eventTime");
    write_micro_time(&json, facts->at_ms);
    json_write_key(&json, "reportingController");
    json_write_str(&json, "milligpu.io/milligpud");
    json_write_key(&json, "reportingInstance");
    write_clipped(&json, facts->instance, WORD_MAX);
    json_write_key(&json, "action");
    write_clipped(&json, facts->action, WORD_MAX);
    json_write_key(&json, "reason");
    write_clipped(&json, facts->reason, WORD_MAX);
    json_write_key(&json, "type");
    json_write_str(&json, facts->warning ? "Warning" : "Normal");
    write_regarding(&json, facts);
    json_write_key(&json, "note");
    write_clipped(&json, facts->note, EVENT_NOTE_MAX);
    json_write_object_end(&json);
}

const char *wake_objects_path(struct arena *arena, const char *namespace)
{
    must(namespace[0] != '\0');
    return arena_printf(arena, "/apis/storage.k8s.io/v1/namespaces/%s/csistoragecapacities",
                        namespace);
}

void wake_object_encode(struct strbuf *out, const char *namespace)
{
    struct json_writer json;
    must(namespace[0] != '\0');
    json_writer_init(&json, out);
    open_object(&json, "storage.k8s.io/v1", "CSIStorageCapacity", namespace, WAKE_OBJECT_NAME);
    json_write_object_end(&json);
    /* No such class exists, so the object never affects the placement of volumes. */
    json_write_key(&json, "storageClassName");
    json_write_str(&json, "milligpu.io-bell");
    json_write_object_end(&json);
}

const char *configmaps_path(struct arena *arena, const char *namespace)
{
    must(namespace[0] != '\0');
    return arena_printf(arena, "/api/v1/namespaces/%s/configmaps", namespace);
}

static void write_keys(struct json_writer *json, const struct published_key *key, size_t count,
                       bool new)
{
    must(count > 0);
    json_write_key(json, "data");
    json_write_object(json);
    for (size_t i = 0; i < count; i++) {
        if (key[i].key == NULL && new)
            continue;
        json_write_key(json, key[i].id);
        if (key[i].key != NULL)
            json_write_str(json, key[i].key);
        else
            json_write_null(json);
    }
    json_write_object_end(json);
}

void keys_encode(struct strbuf *out, const char *namespace, const struct published_key *key,
                 size_t count)
{
    struct json_writer json;

    must(namespace[0] != '\0');
    json_writer_init(&json, out);
    open_object(&json, "v1", "ConfigMap", namespace, KEYS_CONFIGMAP);
    json_write_object_end(&json);
    write_keys(&json, key, count, true);
    json_write_object_end(&json);
}

void keys_patch(struct strbuf *out, const struct published_key *key, size_t count)
{
    struct json_writer json;

    must(out->len == 0);
    json_writer_init(&json, out);
    json_write_object(&json);
    write_keys(&json, key, count, false);
    json_write_object_end(&json);
}

void annotations_patch(struct strbuf *out, const struct annotation_change *change, size_t count)
{
    struct json_writer json;

    must(count > 0);
    json_writer_init(&json, out);
    json_write_object(&json);
    json_write_key(&json, "metadata");
    json_write_object(&json);
    json_write_key(&json, "annotations");
    json_write_object(&json);
    for (size_t i = 0; i < count; i++) {
        json_write_key(&json, change[i].key);
        if (change[i].value.at == NULL)
            json_write_null(&json);
        else
            json_write_text(&json, change[i].value);
    }
    json_write_object_end(&json);
    json_write_object_end(&json);
    json_write_object_end(&json);
}

/*
 * {"metadata":{"annotations":{wake-up object: "<ring> <time>"}}}: only a changed value wakes
 * kube-scheduler. The count restarts with the daemon, so the value includes the time.
 */
static void wake_patch(struct strbuf *out, uint64_t wake_up, int64_t at_ms)
{
    char at[TIME_TEXT_BYTES];
    CLEANUP(strbuf_done) struct strbuf value;
    strbuf_init(&value);
    time_format(at_ms, at);
    strbuf_u64(&value, wake_up);
    strbuf_char(&value, ' ');
    strbuf_str(&value, at);
    must(value.len > 0);

    const struct annotation_change change = {wake_key, text_in(&value)};
    annotations_patch(out, &change, 1);
}

void wake_object_patch(struct strbuf *out, uint64_t wake_up, int64_t at_ms)
{
    wake_patch(out, wake_up, at_ms);
}

void node_wake_patch(struct strbuf *out, uint64_t wake_up, int64_t at_ms)
{
    wake_patch(out, wake_up, at_ms);
}

/* A quantity is a JSON string. The merge patch does not change the node's other resources. */
void advertise_patch(struct strbuf *out, const char *resource, uint32_t milli)
{
    char digits[11];
    size_t at = sizeof digits - 1;
    struct json_writer json;
    must(resource[0] != '\0');

    digits[at] = '\0';
    do
        digits[--at] = (char)('0' + milli % 10);
    while ((milli /= 10) > 0);
    json_writer_init(&json, out);
    json_write_object(&json);
    json_write_key(&json, "status");
    json_write_object(&json);
    json_write_key(&json, "capacity");
    json_write_object(&json);
    json_write_key(&json, resource);
    json_write_str(&json, digits + at);
    json_write_object_end(&json);
    json_write_object_end(&json);
    json_write_object_end(&json);
}
