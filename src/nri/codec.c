/*
 * protobuf-c unpacks a message into structs of its own, which are then looked at through the views
 * of nri.h. A map may name a key twice; the last one counts, which is nri_annotation()'s business.
 */
#include "nri/codec.h"

#include <nri.pb-c.h>

/* --- unpack --- */

enum {
    UNPACK_BASE = 64 * 1024,
    /* For the smallest fields of real messages; a list of empty pods would take more than 100. */
    UNPACK_FACTOR = 32,
    UNPACK_MAX = 64 * 1024 * 1024,
    ROUND = _Alignof(max_align_t),
};

struct budget {
    struct arena *arena;
    size_t left;
    bool exceeded;
};

static void *allocate(void *data, size_t bytes)
{
    struct budget *budget = data;
    if (bytes > budget->left || bytes + ROUND > budget->left) {
        budget->exceeded = true;
        return NULL;
    }
    budget->left -= bytes + ROUND;
    return arena_alloc(budget->arena, bytes);
}

/* The arena is reset when the call was answered. */
static void release(void *data, void *pointer)
{
    (void)data;
    (void)pointer;
}

static void *unpack(struct arena *arena, const ProtobufCMessageDescriptor *type, struct text bytes,
                    struct err *err)
{
    const size_t want = UNPACK_BASE + bytes.len * UNPACK_FACTOR;
    struct budget budget = {arena, want < UNPACK_MAX ? want : UNPACK_MAX, false};
    ProtobufCAllocator allocator = {allocate, release, &budget};

    must(bytes.len <= NRI_MESSAGE_MAX);
    void *message =
        protobuf_c_message_unpack(type, &allocator, bytes.len, (const uint8_t *)bytes.at);
    if (message == NULL && budget.exceeded)
        (void)err_set(err, ERR_TOO_LARGE, "%s: too many fields", type->short_name);
    else if (message == NULL)
        (void)err_set(err, ERR_INVALID, "%s: this is no such message", type->short_name);
    return message;
}

static struct text text_from(ProtobufCBinaryData bytes)
{
    return bytes.len > 0 ? (struct text){(const char *)bytes.data, bytes.len} : TEXT("");
}

/* Counts are below NRI_MESSAGE_MAX: each element is at least two bytes of the message. */
static uint32_t count_of(size_t count)
{
    must(count <= NRI_MESSAGE_MAX);
    return (uint32_t)count;
}

static struct nri_pair *pairs_from(struct arena *arena, Nri__Pair *const *pair, size_t count)
{
    struct nri_pair *out = arena_array(arena, count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = (struct nri_pair){text_from(pair[i]->key), text_from(pair[i]->value)};
    return out;
}

static struct text *texts_from(struct arena *arena, const ProtobufCBinaryData *bytes, size_t count)
{
    struct text *out = arena_array(arena, count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = text_from(bytes[i]);
    return out;
}

static struct text *cdi_from(struct arena *arena, Nri__CDIDevice *const *device, size_t count)
{
    struct text *out = arena_array(arena, count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = text_from(device[i]->name);
    return out;
}

static struct text *paths_from(struct arena *arena, Nri__LinuxDevice *const *device, size_t count)
{
    struct text *out = arena_array(arena, count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = text_from(device[i]->path);
    return out;
}

static struct nri_pod pod_from(struct arena *arena, const Nri__PodSandbox *from)
{
    return (struct nri_pod){
        .id = text_from(from->id),
        .name = text_from(from->name),
        .uid = text_from(from->uid),
        .namespace = text_from(from->pod_namespace),
        .annotations = count_of(from->n_annotations),
        .annotation = pairs_from(arena, from->annotations, from->n_annotations),
    };
}

static struct nri_container container_from(struct arena *arena, const Nri__Container *from)
{
    const bool known = from->state > NRI_UNKNOWN && from->state <= NRI_STOPPED;
    struct nri_container out = {
        .id = text_from(from->id),
        .pod_id = text_from(from->pod_sandbox_id),
        .name = text_from(from->name),
        .state = known ? (enum nri_state)from->state : NRI_UNKNOWN,
        .pid = from->pid,
        .cgroups_path = TEXT(""),
        .envs = count_of(from->n_env),
        .env = texts_from(arena, from->env, from->n_env),
        .cdi_devices = count_of(from->n_cdi_devices),
        .cdi_device = cdi_from(arena, from->cdi_devices, from->n_cdi_devices),
        .has_user = from->user != NULL,
        .user = from->user != NULL ? from->user->uid : 0,
    };
    const Nri__LinuxContainer *host = from->linux_container;
    if (host != NULL) {
        out.cgroups_path = text_from(host->cgroups_path);
        out.devices = count_of(host->n_devices);
        out.device = paths_from(arena, host->devices, host->n_devices);
    }
    return out;
}

static struct nri_mount *mounts_from(struct arena *arena, Nri__Mount *const *mount, size_t count)
{
    struct nri_mount *out = arena_array(arena, count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = (struct nri_mount){
            .destination = text_from(mount[i]->destination),
            .source = text_from(mount[i]->source),
            .type = text_from(mount[i]->type),
            .options = count_of(mount[i]->n_options),
            .option = texts_from(arena, mount[i]->options, mount[i]->n_options),
        };
    return out;
}

static struct nri_adjustment adjustment_from(struct arena *arena,
                                             const Nri__ContainerAdjustment *from)
{
    struct nri_adjustment out = {
        .envs = count_of(from->n_env),
        .env = pairs_from(arena, from->env, from->n_env),
        .cdi_devices = count_of(from->n_cdi_devices),
        .cdi_device = cdi_from(arena, from->cdi_devices, from->n_cdi_devices),
        .mounts = count_of(from->n_mounts),
        .mount = mounts_from(arena, from->mounts, from->n_mounts),
    };
    const Nri__LinuxContainerAdjustment *host = from->linux_adjustment;
    if (host != NULL) {
        out.devices = count_of(host->n_devices);
        out.device = paths_from(arena, host->devices, host->n_devices);
    }
    return out;
}

static struct codec_call call_from(struct arena *arena, const Nri__PodSandbox *pod,
                                   const Nri__Container *container)
{
    static const Nri__PodSandbox no_pod = NRI__POD_SANDBOX__INIT;
    static const Nri__Container no_container = NRI__CONTAINER__INIT;

    return (struct codec_call){
        .has_pod = pod != NULL,
        .has_container = container != NULL,
        .pod = pod_from(arena, pod != NULL ? pod : &no_pod),
        .container = container_from(arena, container != NULL ? container : &no_container),
    };
}

/* --- read --- */

int codec_request(struct arena *arena, struct text bytes, struct codec_request *out,
                  struct err *err)
{
    const Nri__Request *from = unpack(arena, &nri__request__descriptor, bytes, err);
    if (from == NULL)
        return err_same(err);
    *out = (struct codec_request){text_from(from->service), text_from(from->method),
                                  text_from(from->payload)};
    return 0;
}

int codec_response(struct arena *arena, struct text bytes, struct codec_response *out,
                   struct err *err)
{
    const Nri__Response *from = unpack(arena, &nri__response__descriptor, bytes, err);
    if (from == NULL)
        return err_same(err);
    *out = (struct codec_response){.message = TEXT(""), .payload = text_from(from->payload)};
    if (from->status != NULL) {
        out->code = from->status->code;
        out->message = text_from(from->status->message);
    }
    return 0;
}

int codec_configure(struct arena *arena, struct text bytes, struct nri_runtime *out,
                    struct err *err)
{
    const Nri__ConfigureRequest *from =
        unpack(arena, &nri__configure_request__descriptor, bytes, err);
    if (from == NULL)
        return err_same(err);
    *out = (struct nri_runtime){text_from(from->runtime_name), text_from(from->runtime_version),
                                text_from(from->nri_version)};
    return 0;
}

int codec_synchronize(struct arena *arena, struct text bytes, struct codec_sync *out,
                      struct err *err)
{
    const Nri__SynchronizeRequest *from =
        unpack(arena, &nri__synchronize_request__descriptor, bytes, err);
    if (from == NULL)
        return err_same(err);
    struct nri_pod *pod = arena_array(arena, from->n_pods, sizeof *pod);
    for (size_t i = 0; i < from->n_pods; i++)
        pod[i] = pod_from(arena, from->pods[i]);
    struct nri_container *container = arena_array(arena, from->n_containers, sizeof *container);
    for (size_t i = 0; i < from->n_containers; i++)
        container[i] = container_from(arena, from->containers[i]);
    *out = (struct codec_sync){pod, count_of(from->n_pods), container, count_of(from->n_containers),
                               from->more};
    return 0;
}

/* The runtime's own validator is a plugin that is built in. A list without anybody says nothing. */
static enum nri_validator validator_from(Nri__PluginInstance *const *plugin, size_t plugins)
{
    must(plugins == 0 || plugin != NULL);
    for (size_t i = 0; i < plugins; i++)
        if (text_is(text_from(plugin[i]->name), "default-validator"))
            return NRI_VALIDATOR_ON;
    return plugins > 0 ? NRI_VALIDATOR_OFF : NRI_VALIDATOR_UNKNOWN;
}

int codec_call(struct arena *arena, struct text bytes, struct codec_call *out, struct err *err)
{
    const Nri__ContainerRequest *from =
        unpack(arena, &nri__container_request__descriptor, bytes, err);
    if (from == NULL)
        return err_same(err);
    *out = call_from(arena, from->pod, from->container);
    if (from->adjust != NULL)
        out->adjust = adjustment_from(arena, from->adjust);
    out->validator = validator_from(from->plugins, from->n_plugins);
    return 0;
}

int codec_state_change(struct arena *arena, struct text bytes, struct codec_call *out,
                       struct err *err)
{
    const Nri__StateChangeEvent *from =
        unpack(arena, &nri__state_change_event__descriptor, bytes, err);
    if (from == NULL)
        return err_same(err);
    *out = call_from(arena, from->pod, from->container);
    out->event = from->event;
    return 0;
}

/* --- write --- */

struct sink {
    ProtobufCBuffer base; /* protobuf-c passes its address */
    struct strbuf *out;
};

static void append(ProtobufCBuffer *base, size_t len, const uint8_t *data)
{
    const struct sink *sink = (const struct sink *)base;
    if (len > 0)
        strbuf_add(sink->out, data, len);
}

static void pack(struct strbuf *out, const ProtobufCMessage *message)
{
    struct sink sink = {{append}, out};
    (void)protobuf_c_message_pack_to_buffer(message, &sink.base);
}

/* The field is not const, but packing only reads. */
static ProtobufCBinaryData bytes_of(struct text text)
{
    union {
        const char *from;
        uint8_t *to;
    } at = {.from = text.at};
    return (ProtobufCBinaryData){text.len, at.to};
}

void codec_put_request(struct strbuf *out, const struct codec_request *request)
{
    Nri__Request message = NRI__REQUEST__INIT;
    message.service = bytes_of(request->service);
    message.method = bytes_of(request->method);
    message.payload = bytes_of(request->payload);
    pack(out, &message.base);
}

void codec_put_response(struct strbuf *out, const struct codec_response *response)
{
    Nri__Response message = NRI__RESPONSE__INIT;
    Nri__Status status = NRI__STATUS__INIT;
    status.code = response->code;
    status.message = bytes_of(response->message);
    message.payload = bytes_of(response->payload);
    if (response->code != 0)
        message.status = &status;
    pack(out, &message.base);
}

void codec_put_register(struct strbuf *out)
{
    Nri__RegisterPluginRequest message = NRI__REGISTER_PLUGIN_REQUEST__INIT;
    message.plugin_name = bytes_of(TEXT(NRI_PLUGIN_NAME));
    message.plugin_idx = bytes_of(TEXT(NRI_PLUGIN_INDEX));
    pack(out, &message.base);
}

void codec_put_events(struct strbuf *out, uint32_t events)
{
    Nri__ConfigureResponse message = NRI__CONFIGURE_RESPONSE__INIT;
    must(events <= NRI_EVENTS);
    message.events = (int32_t)events;
    pack(out, &message.base);
}

void codec_put_more(struct strbuf *out, bool more)
{
    Nri__SynchronizeResponse message = NRI__SYNCHRONIZE_RESPONSE__INIT;
    message.more = more;
    pack(out, &message.base);
}

static Nri__Pair **pairs_of(struct arena *arena, const struct nri_pair *pair, size_t count)
{
    Nri__Pair **out = arena_array(arena, count, sizeof *out);
    Nri__Pair *message = arena_array(arena, count, sizeof *message);
    for (size_t i = 0; i < count; i++) {
        nri__pair__init(&message[i]);
        message[i].key = bytes_of(pair[i].key);
        message[i].value = bytes_of(pair[i].value);
        out[i] = &message[i];
    }
    return out;
}

static Nri__CDIDevice **cdi_of(struct arena *arena, const struct text *device, size_t count)
{
    Nri__CDIDevice **out = arena_array(arena, count, sizeof *out);
    Nri__CDIDevice *message = arena_array(arena, count, sizeof *message);
    for (size_t i = 0; i < count; i++) {
        nri__cdidevice__init(&message[i]);
        message[i].name = bytes_of(device[i]);
        out[i] = &message[i];
    }
    return out;
}

static Nri__Mount **mounts_of(struct arena *arena, const struct nri_mount *mount, size_t count)
{
    Nri__Mount **out = arena_array(arena, count, sizeof *out);
    Nri__Mount *message = arena_array(arena, count, sizeof *message);
    for (size_t i = 0; i < count; i++) {
        nri__mount__init(&message[i]);
        message[i].destination = bytes_of(mount[i].destination);
        message[i].source = bytes_of(mount[i].source);
        message[i].type = bytes_of(mount[i].type);
        message[i].n_options = mount[i].options;
        message[i].options = arena_array(arena, mount[i].options, sizeof *message[i].options);
        for (uint32_t k = 0; k < mount[i].options; k++)
            message[i].options[k] = bytes_of(mount[i].option[k]);
        out[i] = &message[i];
    }
    return out;
}

void codec_put_created(struct arena *arena, const struct nri_adjustment *adjust, struct strbuf *out)
{
    Nri__CreateContainerResponse message = NRI__CREATE_CONTAINER_RESPONSE__INIT;
    Nri__ContainerAdjustment change = NRI__CONTAINER_ADJUSTMENT__INIT;

    must(adjust->cdi_devices <= NRI_CDI_DEVICES_MAX);
    must(adjust->devices == 0);
    change.n_env = adjust->envs;
    change.env = pairs_of(arena, adjust->env, adjust->envs);
    change.n_cdi_devices = adjust->cdi_devices;
    change.cdi_devices = cdi_of(arena, adjust->cdi_device, adjust->cdi_devices);
    change.n_mounts = adjust->mounts;
    change.mounts = mounts_of(arena, adjust->mount, adjust->mounts);
    if (change.n_env + change.n_cdi_devices + change.n_mounts > 0)
        message.adjust = &change;
    pack(out, &message.base);
}

void codec_put_rejected(struct strbuf *out, struct text reason)
{
    Nri__ValidateContainerAdjustmentResponse message =
        NRI__VALIDATE_CONTAINER_ADJUSTMENT_RESPONSE__INIT;
    message.reject = true;
    message.reason = bytes_of(reason);
    pack(out, &message.base);
}
