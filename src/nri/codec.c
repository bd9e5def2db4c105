/*
 * Decodes messages field by field (protobuf.h), not by protobuf-c: that would store each unknown
 * field, and a tenant controls how many arguments a container has. Answers are few and small, and
 * are packed by protobuf-c. Duplicate keys of a map are kept; nri_annotation() uses the last one.
 * Called by nri.c in the agent's main thread.
 */
#include "codec.h"

#include <nri.pb-c.h>

/* --- fields --- */

/* Field numbers of api.proto and of ttrpc's request.proto. */
enum {
    REQUEST_SERVICE = 1,
    REQUEST_METHOD = 2,
    REQUEST_PAYLOAD = 3,

    RESPONSE_STATUS = 1,
    RESPONSE_PAYLOAD = 2,
    STATUS_CODE = 1,
    STATUS_MESSAGE = 2,

    CONFIGURE_NAME = 2,
    CONFIGURE_VERSION = 3,
    CONFIGURE_NRI = 6,

    SYNC_PODS = 1,
    SYNC_CONTAINERS = 2,
    SYNC_MORE = 3,

    /* CreateContainer, StartContainer, StopContainer, RemoveContainer, StopPodSandbox */
    CALL_POD = 1,
    CALL_CONTAINER = 2,
    /* of ValidateContainerAdjustment in addition */
    CALL_ADJUST = 3,
    CALL_PLUGINS = 6,
    PLUGIN_NAME = 1,

    EVENT_KIND = 1,
    EVENT_POD = 2,
    EVENT_CONTAINER = 3,

    POD_ID = 1,
    POD_NAME = 2,
    POD_UID = 3,
    POD_NAMESPACE = 4,
    POD_ANNOTATIONS = 6,
    PAIR_KEY = 1,
    PAIR_VALUE = 2,

    CONTAINER_ID = 1,
    CONTAINER_POD = 2,
    CONTAINER_NAME = 3,
    CONTAINER_STATE = 4,
    CONTAINER_ENV = 8,
    CONTAINER_LINUX = 11,
    CONTAINER_PID = 12,
    CONTAINER_CDI = 20,
    CONTAINER_USER = 21,
    LINUX_DEVICES = 2,
    LINUX_RESOURCES = 3,
    LINUX_CGROUP = 5,
    DEVICE_PATH = 1,
    DEVICE_TYPE = 2,
    DEVICE_MAJOR = 3,
    DEVICE_MINOR = 4,
    RESOURCES_RULES = 7,
    RULE_ALLOW = 1,
    RULE_TYPE = 2,
    RULE_MAJOR = 3,
    RULE_MINOR = 4,
    RULE_ACCESS = 5,
    OPTIONAL_VALUE = 1,
    CDI_NAME = 1,
    USER_UID = 1,

    ADJUST_MOUNTS = 3,
    ADJUST_ENV = 4,
    ADJUST_LINUX = 6,
    ADJUST_CDI = 8,
    ADJUST_LINUX_DEVICES = 1,
    ADJUST_LINUX_RESOURCES = 2,
    MOUNT_DESTINATION = 1,
    MOUNT_TYPE = 2,
    MOUNT_SOURCE = 3,
    MOUNT_OPTIONS = 4,
};

/* State of reading one pod, container or adjustment. */
struct nri_reader {
    struct arena *arena;
    size_t left; /* bytes left for lists, of NRI_LISTS_BYTES_MAX */
    bool too_long;
    bool broken;
};

static struct nri_reader reader_of(struct arena *arena)
{
    return (struct nri_reader){.arena = arena, .left = NRI_LISTS_BYTES_MAX};
}

static enum nri_flaw flaw_of(const struct nri_reader *reader)
{
    if (reader->broken)
        return NRI_BROKEN;
    return reader->too_long ? NRI_TOO_LONG : NRI_WHOLE;
}

/* Reads a field that must occur at most once; out->at must be NULL initially. */
static void take_message(struct protobuf *in, const struct protobuf_field *field, struct text *out)
{
    if (out->at != NULL)
        in->broken = true;
    *out = protobuf_text(in, field);
}

/* The unread members of a list. */
struct members {
    struct nri_reader *reader;
    struct protobuf in;
    uint32_t number;
    uint32_t left;
};

/* Counts the members of a list and allocates an array; none, and too_long, beyond the limit. */
static void *list_of(struct nri_reader *reader, struct text message, uint32_t number, size_t bytes,
                     uint32_t *out_count, struct members *out)
{
    struct protobuf in = protobuf_of(message);
    struct protobuf_field field;
    uint32_t count = 0;

    must(message.len <= NRI_MESSAGE_MAX);
    while (protobuf_next(&in, &field))
        count += field.number == number;
    if (count > reader->left / bytes) {
        reader->too_long = true;
        count = 0;
    }
    reader->left -= count * bytes;
    *out_count = count;
    *out = (struct members){reader, protobuf_of(message), number, count};
    return arena_array(reader->arena, count, bytes);
}

/* Reads the next member. False at the end of the list, or if the message is malformed. */
static bool next_in(struct members *members, struct text *out)
{
    struct protobuf_field field;

    while (members->left > 0 && protobuf_next(&members->in, &field)) {
        if (field.number != members->number)
            continue;
        *out = protobuf_text(&members->in, &field);
        members->left--;
        return true;
    }
    members->reader->broken = members->reader->broken || members->in.broken;
    return false;
}

/* The last text field with this number; empty if there is none. */
static struct text text_in(struct nri_reader *reader, struct text message, uint32_t number)
{
    struct protobuf in = protobuf_of(message);
    struct protobuf_field field;
    struct text out = TEXT("");

    while (protobuf_next(&in, &field))
        if (field.number == number)
            out = protobuf_text(&in, &field);
    reader->broken = reader->broken || in.broken;
    return out;
}

/* A message field that occurs at most once; at is NULL if it is absent. */
static struct text part_in(struct nri_reader *reader, struct text message, uint32_t number)
{
    struct protobuf in = protobuf_of(message);
    struct protobuf_field field;
    struct text out = {NULL, 0};

    while (protobuf_next(&in, &field))
        if (field.number == number)
            take_message(&in, &field, &out);
    reader->broken = reader->broken || in.broken;
    return out;
}

/* The last number field with this number; 0 if there is none. */
static uint64_t number_in(struct nri_reader *reader, struct text message, uint32_t number)
{
    struct protobuf in = protobuf_of(message);
    struct protobuf_field field;
    uint64_t out = 0;

    while (protobuf_next(&in, &field))
        if (field.number == number)
            out = protobuf_number(&in, &field);
    reader->broken = reader->broken || in.broken;
    return out;
}

/* A list of texts, or, if inner is not 0, of messages with a text in field inner. */
static struct text *texts_in(struct nri_reader *reader, struct text message, uint32_t number,
                             uint32_t inner, uint32_t *out_count)
{
    struct members members;
    struct text *out = list_of(reader, message, number, sizeof *out, out_count, &members);
    struct text member;

    for (uint32_t at = 0; next_in(&members, &member); at++)
        out[at] = inner == 0 ? member : text_in(reader, member, inner);
    return out;
}

static struct nri_pair *pairs_in(struct nri_reader *reader, struct text message, uint32_t number,
                                 uint32_t *out_count)
{
    struct members members;
    struct nri_pair *out = list_of(reader, message, number, sizeof *out, out_count, &members);
    struct text member;

    for (uint32_t at = 0; next_in(&members, &member); at++)
        out[at] = (struct nri_pair){text_in(reader, member, PAIR_KEY),
                                    text_in(reader, member, PAIR_VALUE)};
    return out;
}

static struct nri_device device_in(struct nri_reader *reader, struct text bytes)
{
    struct protobuf in = protobuf_of(bytes);
    struct protobuf_field field;
    struct nri_device out = {.path = TEXT(""), .type = TEXT("")};

    while (protobuf_next(&in, &field)) {
        if (field.number == DEVICE_PATH)
            out.path = protobuf_text(&in, &field);
        else if (field.number == DEVICE_TYPE)
            out.type = protobuf_text(&in, &field);
        else if (field.number == DEVICE_MAJOR)
            out.major = (int64_t)protobuf_number(&in, &field);
        else if (field.number == DEVICE_MINOR)
            out.minor = (int64_t)protobuf_number(&in, &field);
    }
    reader->broken = reader->broken || in.broken;
    return out;
}

static struct nri_device *devices_in(struct nri_reader *reader, struct text message,
                                     uint32_t number, uint32_t *out_count)
{
    struct members members;
    struct nri_device *out = list_of(reader, message, number, sizeof *out, out_count, &members);
    struct text member;

    for (uint32_t at = 0; next_in(&members, &member); at++)
        out[at] = device_in(reader, member);
    return out;
}

/* A device number of a rule: a message of its own, so that 0 differs from an absent number. */
static int64_t rule_number_in(struct nri_reader *reader, struct text optional)
{
    if (optional.at == NULL)
        return NRI_ANY_NUMBER;
    const int64_t number = (int64_t)number_in(reader, optional, OPTIONAL_VALUE);
    return number >= 0 ? number : NRI_ANY_NUMBER;
}

static struct nri_device_rule rule_in(struct nri_reader *reader, struct text bytes)
{
    struct protobuf in = protobuf_of(bytes);
    struct protobuf_field field;
    struct nri_device_rule out = {.type = TEXT(""), .access = TEXT("")};
    struct text major = {NULL, 0};
    struct text minor = {NULL, 0};

    while (protobuf_next(&in, &field)) {
        if (field.number == RULE_ALLOW)
            out.allow = protobuf_number(&in, &field) != 0;
        else if (field.number == RULE_TYPE)
            out.type = protobuf_text(&in, &field);
        else if (field.number == RULE_MAJOR)
            take_message(&in, &field, &major);
        else if (field.number == RULE_MINOR)
            take_message(&in, &field, &minor);
        else if (field.number == RULE_ACCESS)
            out.access = protobuf_text(&in, &field);
    }
    reader->broken = reader->broken || in.broken;
    out.major = rule_number_in(reader, major);
    out.minor = rule_number_in(reader, minor);
    return out;
}

/* The device rules of the message LinuxResources in field number. */
static struct nri_device_rule *rules_in(struct nri_reader *reader, struct text message,
                                        uint32_t number, uint32_t *out_count)
{
    const struct text resources = part_in(reader, message, number);
    struct members members;
    struct nri_device_rule *out =
        list_of(reader, resources, RESOURCES_RULES, sizeof *out, out_count, &members);
    struct text member;

    for (uint32_t at = 0; next_in(&members, &member); at++)
        out[at] = rule_in(reader, member);
    return out;
}

static int no_message(const char *name, struct err *err)
{
    return err_set(err, ERR_INVALID, "%s: this is no such message", name);
}

/* --- pods and containers --- */

static void read_pod(struct arena *arena, struct text bytes, struct nri_pod *out)
{
    struct nri_reader reader = reader_of(arena);
    struct protobuf in = protobuf_of(bytes);
    struct protobuf_field field;

    *out =
        (struct nri_pod){.id = TEXT(""), .name = TEXT(""), .uid = TEXT(""), .namespace = TEXT("")};
    while (protobuf_next(&in, &field)) {
        if (field.number == POD_ID)
            out->id = protobuf_text(&in, &field);
        else if (field.number == POD_NAME)
            out->name = protobuf_text(&in, &field);
        else if (field.number == POD_UID)
            out->uid = protobuf_text(&in, &field);
        else if (field.number == POD_NAMESPACE)
            out->namespace = protobuf_text(&in, &field);
    }
    reader.broken = in.broken;
    if (!in.broken)
        out->annotation = pairs_in(&reader, bytes, POD_ANNOTATIONS, &out->n_annotations);
    out->flaw = flaw_of(&reader);
    if (out->flaw == NRI_BROKEN)
        out->n_annotations = 0;
}

struct parts {
    /* at is NULL if absent. */
    struct text linux_part;
    struct text user;
};

static void read_identity(struct protobuf *in, struct nri_container *out, struct parts *parts)
{
    struct protobuf_field field;

    while (protobuf_next(in, &field))
        switch (field.number) {
        case CONTAINER_ID:
            out->id = protobuf_text(in, &field);
            break;
        case CONTAINER_POD:
            out->pod_id = protobuf_text(in, &field);
            break;
        case CONTAINER_NAME:
            out->name = protobuf_text(in, &field);
            break;
        case CONTAINER_STATE: {
            const int32_t state = (int32_t)protobuf_number(in, &field);
            const bool known = state > NRI_UNKNOWN && state <= NRI_STOPPED;
            out->state = known ? (enum nri_state)state : NRI_UNKNOWN;
            break;
        }
        case CONTAINER_PID:
            out->pid = (uint32_t)protobuf_number(in, &field);
            break;
        case CONTAINER_LINUX:
            take_message(in, &field, &parts->linux_part);
            break;
        case CONTAINER_USER:
            take_message(in, &field, &parts->user);
            break;
        default:
            break;
        }
}

/* Reads devices before variables, so that a long env does not use up their memory limit. */
static void read_container(struct arena *arena, struct text bytes, struct nri_container *out)
{
    struct nri_reader reader = reader_of(arena);
    struct protobuf in = protobuf_of(bytes);
    struct parts parts = {0};

    *out = (struct nri_container){
        .id = TEXT(""), .pod_id = TEXT(""), .name = TEXT(""), .cgroups_path = TEXT("")};
    read_identity(&in, out, &parts);
    reader.broken = in.broken;
    if (!reader.broken) {
        out->has_user = parts.user.at != NULL;
        out->user = (uint32_t)number_in(&reader, parts.user, USER_UID);
        out->cgroups_path = text_in(&reader, parts.linux_part, LINUX_CGROUP);
        out->cdi_device = texts_in(&reader, bytes, CONTAINER_CDI, CDI_NAME, &out->n_cdi_devices);
        out->device = devices_in(&reader, parts.linux_part, LINUX_DEVICES, &out->n_devices);
        out->rule = rules_in(&reader, parts.linux_part, LINUX_RESOURCES, &out->n_rules);
        out->env = texts_in(&reader, bytes, CONTAINER_ENV, 0, &out->n_envs);
    }
    out->flaw = flaw_of(&reader);
    if (out->flaw == NRI_BROKEN)
        out->n_cdi_devices = out->n_devices = out->n_rules = out->n_envs = 0;
}

/* --- adjustments --- */

static struct nri_mount mount_in(struct nri_reader *reader, struct text bytes)
{
    struct nri_mount out = {.destination = text_in(reader, bytes, MOUNT_DESTINATION),
                            .source = text_in(reader, bytes, MOUNT_SOURCE),
                            .type = text_in(reader, bytes, MOUNT_TYPE)};

    out.option = texts_in(reader, bytes, MOUNT_OPTIONS, 0, &out.n_options);
    return out;
}

static struct nri_mount *mounts_in(struct nri_reader *reader, struct text message,
                                   uint32_t *out_count)
{
    struct members members;
    struct nri_mount *out =
        list_of(reader, message, ADJUST_MOUNTS, sizeof *out, out_count, &members);
    struct text member;

    for (uint32_t at = 0; next_in(&members, &member); at++)
        out[at] = mount_in(reader, member);
    return out;
}

static int read_adjustment(struct arena *arena, struct text bytes, struct nri_adjustment *out,
                           struct err *err)
{
    struct nri_reader reader = reader_of(arena);
    const struct text host = part_in(&reader, bytes, ADJUST_LINUX);

    out->env = pairs_in(&reader, bytes, ADJUST_ENV, &out->n_envs);
    out->cdi_device = texts_in(&reader, bytes, ADJUST_CDI, CDI_NAME, &out->n_cdi_devices);
    out->mount = mounts_in(&reader, bytes, &out->n_mounts);
    out->device = devices_in(&reader, host, ADJUST_LINUX_DEVICES, &out->n_devices);
    out->rule = rules_in(&reader, host, ADJUST_LINUX_RESOURCES, &out->n_rules);
    if (reader.broken)
        return no_message("ContainerAdjustment", err);
    if (reader.too_long)
        return err_set(err, ERR_TOO_LARGE, "ContainerAdjustment: too many fields");
    return 0;
}

/* --- messages --- */

int codec_request(struct text bytes, struct codec_request *out, struct err *err)
{
    struct nri_reader reader = {0};

    *out = (struct codec_request){.service = text_in(&reader, bytes, REQUEST_SERVICE),
                                  .method = text_in(&reader, bytes, REQUEST_METHOD),
                                  .payload = text_in(&reader, bytes, REQUEST_PAYLOAD)};
    return reader.broken ? no_message("Request", err) : 0;
}

int codec_response(struct text bytes, struct codec_response *out, struct err *err)
{
    struct nri_reader reader = {0};
    const struct text status = part_in(&reader, bytes, RESPONSE_STATUS);

    *out = (struct codec_response){.code = (int32_t)number_in(&reader, status, STATUS_CODE),
                                   .message = text_in(&reader, status, STATUS_MESSAGE),
                                   .payload = text_in(&reader, bytes, RESPONSE_PAYLOAD)};
    return reader.broken ? no_message("Response", err) : 0;
}

int codec_configure(struct text bytes, struct nri_runtime *out, struct err *err)
{
    struct nri_reader reader = {0};

    *out = (struct nri_runtime){.name = text_in(&reader, bytes, CONFIGURE_NAME),
                                .version = text_in(&reader, bytes, CONFIGURE_VERSION),
                                .nri = text_in(&reader, bytes, CONFIGURE_NRI)};
    return reader.broken ? no_message("ConfigureRequest", err) : 0;
}

int codec_synchronize(struct text bytes, struct codec_sync *out, struct err *err)
{
    struct protobuf in = protobuf_of(bytes);
    struct protobuf_field field;

    *out = (struct codec_sync){.pods = in, .containers = in};
    while (protobuf_next(&in, &field)) {
        if (field.number == SYNC_MORE)
            out->more = protobuf_number(&in, &field) != 0;
        else if (field.number == SYNC_PODS || field.number == SYNC_CONTAINERS)
            (void)protobuf_text(&in, &field);
    }
    return in.broken ? no_message("SynchronizeRequest", err) : 0;
}

static bool next_member(struct protobuf *in, uint32_t number, struct text *out)
{
    struct protobuf_field field;

    while (protobuf_next(in, &field)) {
        *out = field.text;
        if (field.number == number)
            return true;
    }
    must(!in->broken);
    return false;
}

bool codec_next_pod(struct codec_sync *sync, struct arena *arena, struct nri_pod *out)
{
    struct text bytes;

    if (!next_member(&sync->pods, SYNC_PODS, &bytes))
        return false;
    read_pod(arena, bytes, out);
    return true;
}

bool codec_next_container(struct codec_sync *sync, struct arena *arena, struct nri_container *out)
{
    struct text bytes;

    if (!next_member(&sync->containers, SYNC_CONTAINERS, &bytes))
        return false;
    read_container(arena, bytes, out);
    return true;
}

/* The runtime's own validator is a built-in plugin. An empty list leaves its state unknown. */
static void see_plugin(struct nri_reader *reader, struct text plugin, enum nri_validator *validator)
{
    if (text_is(text_in(reader, plugin, PLUGIN_NAME), "default-validator"))
        *validator = NRI_VALIDATOR_ON;
    else if (*validator == NRI_VALIDATOR_UNKNOWN)
        *validator = NRI_VALIDATOR_OFF;
}

/* Reads the pod and the container of a call; at is NULL for an absent one. */
static int read_call(struct arena *arena, struct text pod, struct text container, const char *name,
                     struct codec_call *out, struct err *err)
{
    out->has_pod = pod.at != NULL;
    out->has_container = container.at != NULL;
    read_pod(arena, pod, &out->pod);
    read_container(arena, container, &out->container);
    if (out->pod.flaw == NRI_BROKEN || out->container.flaw == NRI_BROKEN)
        return no_message(name, err);
    return 0;
}

int codec_call(struct arena *arena, struct text bytes, struct codec_call *out, struct err *err)
{
    static const char name[] = "ContainerRequest";
    struct nri_reader reader = reader_of(arena);
    struct protobuf in = protobuf_of(bytes);
    struct protobuf_field field;
    struct text pod = {NULL, 0};
    struct text container = {NULL, 0};
    struct text adjust = {NULL, 0};

    *out = (struct codec_call){.validator = NRI_VALIDATOR_UNKNOWN};
    while (protobuf_next(&in, &field)) {
        if (field.number == CALL_POD)
            take_message(&in, &field, &pod);
        else if (field.number == CALL_CONTAINER)
            take_message(&in, &field, &container);
        else if (field.number == CALL_ADJUST)
            take_message(&in, &field, &adjust);
        else if (field.number == CALL_PLUGINS)
            see_plugin(&reader, protobuf_text(&in, &field), &out->validator);
    }
    if (in.broken || reader.broken)
        return no_message(name, err);
    if (read_call(arena, pod, container, name, out, err) < 0)
        return err_same(err);
    return read_adjustment(arena, adjust, &out->adjust, err);
}

int codec_state_change(struct arena *arena, struct text bytes, struct codec_call *out,
                       struct err *err)
{
    static const char name[] = "StateChangeEvent";
    struct protobuf in = protobuf_of(bytes);
    struct protobuf_field field;
    struct text pod = {NULL, 0};
    struct text container = {NULL, 0};

    *out = (struct codec_call){.validator = NRI_VALIDATOR_UNKNOWN};
    while (protobuf_next(&in, &field)) {
        if (field.number == EVENT_KIND)
            out->event = (int32_t)protobuf_number(&in, &field);
        else if (field.number == EVENT_POD)
            take_message(&in, &field, &pod);
        else if (field.number == EVENT_CONTAINER)
            take_message(&in, &field, &container);
    }
    if (in.broken)
        return no_message(name, err);
    return read_call(arena, pod, container, name, out, err);
}

/* --- write --- */

struct sink {
    ProtobufCBuffer base; /* first member: append() casts its address */
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

/* Casts const away: the field is not const, but packing only reads it. */
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
        message[i].n_options = mount[i].n_options;
        message[i].options = arena_array(arena, mount[i].n_options, sizeof *message[i].options);
        for (uint32_t k = 0; k < mount[i].n_options; k++)
            message[i].options[k] = bytes_of(mount[i].option[k]);
        out[i] = &message[i];
    }
    return out;
}

void codec_put_created(struct arena *arena, const struct nri_adjustment *adjust, struct strbuf *out)
{
    Nri__CreateContainerResponse message = NRI__CREATE_CONTAINER_RESPONSE__INIT;
    Nri__ContainerAdjustment change = NRI__CONTAINER_ADJUSTMENT__INIT;

    must(adjust->n_cdi_devices <= NRI_CDI_DEVICES_MAX);
    must(adjust->n_devices == 0 && adjust->n_rules == 0);
    change.n_env = adjust->n_envs;
    change.env = pairs_of(arena, adjust->env, adjust->n_envs);
    change.n_cdi_devices = adjust->n_cdi_devices;
    change.cdi_devices = cdi_of(arena, adjust->cdi_device, adjust->n_cdi_devices);
    change.n_mounts = adjust->n_mounts;
    change.mounts = mounts_of(arena, adjust->mount, adjust->n_mounts);
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
