/*
 * Converts the API server's protobuf to JSON (kube_protobuf.h). Called by the reflector, on the
 * informer thread. The tables name the fields that the decoders read; others are passed by their
 * length. A message is converted by a function that calls itself, at most as deep as the tables:
 * the sender has no say in it. In order: the tables, values, messages, envelopes.
 */
#include <string.h>

#include "milligpu/base/protobuf.h"
#include "milligpu/wire/json/json.h"
#include "milligpu/wire/kube/kube_protobuf.h"
#include "milligpu/wire/kube/wire_kube.h"

/* ---- the tables ---- */

enum kube_shape {
    SHAPE_TEXT,
    SHAPE_OPTIONAL, /* a text that JSON leaves out if it is empty */
    SHAPE_NUMBER,
    SHAPE_FLAG,
    SHAPE_TIME,
    SHAPE_MESSAGE,
    /* these may come any number of times */
    SHAPE_TEXTS,
    SHAPE_MESSAGES,
    SHAPE_MAP,        /* of strings */
    SHAPE_QUANTITIES, /* a map */
};

struct kube_member {
    uint32_t number;
    struct text name;
    enum kube_shape shape;
    const struct kube_type *type; /* of SHAPE_MESSAGE and SHAPE_MESSAGES */
};

/* Members by number, as Go writes them. */
struct kube_type {
    const char *name; /* for errors */
    uint32_t n_members;
    const struct kube_member *member;
};

#define MESSAGE(name, ...)                                                                         \
    static const struct kube_member name##_member[] = {__VA_ARGS__};                               \
    static const struct kube_type name = {#name, ARRAY_LEN(name##_member), name##_member}

#define MEMBER(number, name, shape)                                                                \
    {                                                                                              \
        number, TEXT(name), SHAPE_##shape, NULL                                                    \
    }
#define INNER(number, name, shape, type)                                                           \
    {                                                                                              \
        number, TEXT(name), SHAPE_##shape, &(type)                                                 \
    }

MESSAGE(OwnerReference, MEMBER(1, "kind", TEXT), MEMBER(3, "name", TEXT), MEMBER(4, "uid", TEXT),
        MEMBER(6, "controller", FLAG));
MESSAGE(ObjectMeta, MEMBER(1, "name", OPTIONAL), MEMBER(3, "namespace", OPTIONAL),
        MEMBER(5, "uid", OPTIONAL), MEMBER(6, "resourceVersion", OPTIONAL),
        MEMBER(8, "creationTimestamp", TIME), MEMBER(9, "deletionTimestamp", TIME),
        MEMBER(11, "labels", MAP), MEMBER(12, "annotations", MAP),
        INNER(13, "ownerReferences", MESSAGES, OwnerReference));

MESSAGE(ResourceRequirements, MEMBER(1, "limits", QUANTITIES), MEMBER(2, "requests", QUANTITIES));
MESSAGE(Container, MEMBER(1, "name", TEXT), INNER(8, "resources", MESSAGE, ResourceRequirements),
        MEMBER(24, "restartPolicy", OPTIONAL));
MESSAGE(NodeSelectorRequirement, MEMBER(1, "key", TEXT), MEMBER(2, "operator", TEXT),
        MEMBER(3, "values", TEXTS));
MESSAGE(NodeSelectorTerm, INNER(1, "matchExpressions", MESSAGES, NodeSelectorRequirement),
        INNER(2, "matchFields", MESSAGES, NodeSelectorRequirement));
MESSAGE(NodeSelector, INNER(1, "nodeSelectorTerms", MESSAGES, NodeSelectorTerm));
MESSAGE(NodeAffinity,
        INNER(1, "requiredDuringSchedulingIgnoredDuringExecution", MESSAGE, NodeSelector));
MESSAGE(Affinity, INNER(1, "nodeAffinity", MESSAGE, NodeAffinity));
MESSAGE(Toleration, MEMBER(1, "key", OPTIONAL), MEMBER(2, "operator", OPTIONAL),
        MEMBER(3, "value", OPTIONAL), MEMBER(4, "effect", OPTIONAL));
MESSAGE(PodSchedulingGate, MEMBER(1, "name", TEXT));
MESSAGE(PodSpec, INNER(2, "containers", MESSAGES, Container), MEMBER(7, "nodeSelector", MAP),
        MEMBER(10, "nodeName", OPTIONAL), INNER(18, "affinity", MESSAGE, Affinity),
        MEMBER(19, "schedulerName", OPTIONAL), INNER(20, "initContainers", MESSAGES, Container),
        INNER(22, "tolerations", MESSAGES, Toleration), MEMBER(25, "priority", NUMBER),
        MEMBER(32, "overhead", QUANTITIES),
        INNER(38, "schedulingGates", MESSAGES, PodSchedulingGate),
        INNER(40, "resources", MESSAGE, ResourceRequirements));
MESSAGE(PodCondition, MEMBER(1, "type", TEXT), MEMBER(2, "status", TEXT),
        MEMBER(4, "lastTransitionTime", TIME), MEMBER(5, "reason", OPTIONAL),
        MEMBER(6, "message", OPTIONAL));
MESSAGE(ContainerStatus, MEMBER(1, "name", TEXT), MEMBER(10, "allocatedResources", QUANTITIES),
        INNER(11, "resources", MESSAGE, ResourceRequirements));
MESSAGE(PodStatus, MEMBER(1, "phase", OPTIONAL), INNER(2, "conditions", MESSAGES, PodCondition),
        INNER(8, "containerStatuses", MESSAGES, ContainerStatus),
        INNER(10, "initContainerStatuses", MESSAGES, ContainerStatus));
MESSAGE(Pod, INNER(1, "metadata", MESSAGE, ObjectMeta), INNER(2, "spec", MESSAGE, PodSpec),
        INNER(3, "status", MESSAGE, PodStatus));

MESSAGE(Taint, MEMBER(1, "key", TEXT), MEMBER(2, "value", OPTIONAL), MEMBER(3, "effect", TEXT));
MESSAGE(NodeSpec, MEMBER(4, "unschedulable", FLAG), INNER(5, "taints", MESSAGES, Taint));
MESSAGE(NodeCondition, MEMBER(1, "type", TEXT), MEMBER(2, "status", TEXT));
MESSAGE(NodeSystemInfo, MEMBER(3, "bootID", TEXT));
MESSAGE(NodeStatus, MEMBER(1, "capacity", QUANTITIES), MEMBER(2, "allocatable", QUANTITIES),
        INNER(4, "conditions", MESSAGES, NodeCondition),
        INNER(7, "nodeInfo", MESSAGE, NodeSystemInfo));
MESSAGE(Node, INNER(1, "metadata", MESSAGE, ObjectMeta), INNER(2, "spec", MESSAGE, NodeSpec),
        INNER(3, "status", MESSAGE, NodeStatus));

MESSAGE(ListMeta, MEMBER(2, "resourceVersion", OPTIONAL), MEMBER(3, "continue", OPTIONAL));
MESSAGE(PodList, INNER(1, "metadata", MESSAGE, ListMeta), INNER(2, "items", MESSAGES, Pod));
MESSAGE(NodeList, INNER(1, "metadata", MESSAGE, ListMeta), INNER(2, "items", MESSAGES, Node));

MESSAGE(StatusDetails, MEMBER(5, "retryAfterSeconds", NUMBER));
MESSAGE(Status, MEMBER(3, "message", OPTIONAL), MEMBER(4, "reason", OPTIONAL),
        INNER(5, "details", MESSAGE, StatusDetails), MEMBER(6, "code", NUMBER));

/* The kinds of an envelope. */
static const struct kube_type *const kinds[] = {&Pod, &Node, &PodList, &NodeList, &Status};

/* ---- values ---- */

struct translation {
    struct json_writer json;
    size_t end_max;        /* of the buffer */
    const char *malformed; /* the innermost message that is malformed; NULL: none */
};

static bool is_too_large(const struct translation *to)
{
    return to->json.out->len > to->end_max;
}

static bool is_stopped(const struct translation *to)
{
    return to->malformed != NULL || is_too_large(to);
}

static void check(struct translation *to, const struct protobuf *in, const char *name)
{
    must(name != NULL);
    if (in->broken && to->malformed == NULL)
        to->malformed = name;
}

static bool is_map(enum kube_shape shape)
{
    return shape == SHAPE_MAP || shape == SHAPE_QUANTITIES;
}

/* True for a member that JSON has as one value, however often it comes. */
static bool is_collected(enum kube_shape shape)
{
    return shape == SHAPE_TEXTS || shape == SHAPE_MESSAGES || is_map(shape);
}

/* Go writes an empty field for these. An empty time is none. */
static bool is_absent(const struct kube_member *member, const struct protobuf_field *field)
{
    return (member->shape == SHAPE_OPTIONAL || member->shape == SHAPE_TIME) &&
           field->type == PROTOBUF_TEXT && field->text.len == 0;
}

/* A time beyond RFC 3339 becomes a text that is no time, as in JSON. */
static void write_time(struct translation *to, struct text message)
{
    static const int64_t seconds_min = INT64_C(-62167219200); /* year 0 */
    static const int64_t seconds_max = INT64_C(253402300799); /* the end of year 9999 */
    struct protobuf in = protobuf_of(message);
    char text[TIME_TEXT_BYTES] = "beyond the years of RFC 3339";
    struct protobuf_field field;
    int64_t seconds = 0;

    while (protobuf_next(&in, &field))
        if (field.number == 1)
            seconds = (int64_t)protobuf_number(&in, &field);
    check(to, &in, "Time");
    if (seconds >= seconds_min && seconds <= seconds_max)
        time_format(seconds * 1000, text);
    json_write_str(&to->json, text);
}

/* Returns the text of one field, such as the only one of a Quantity. */
static struct text text_of_field(struct translation *to, struct text message, uint32_t number,
                                 const char *name)
{
    struct protobuf in = protobuf_of(message);
    struct text text = TEXT("");
    struct protobuf_field field;

    while (protobuf_next(&in, &field))
        if (field.number == number)
            text = protobuf_text(&in, &field);
    check(to, &in, name);
    return text;
}

/* Reads the texts of fields 1 and 2. */
static void read_pair(struct translation *to, struct text message, const char *name,
                      struct text out[2])
{
    struct protobuf in = protobuf_of(message);
    struct protobuf_field field;

    out[0] = out[1] = TEXT("");
    while (protobuf_next(&in, &field))
        if (field.number == 1 || field.number == 2)
            out[field.number - 1] = protobuf_text(&in, &field);
    check(to, &in, name);
}

/* An entry of a map is a message: field 1 is the key, 2 the value. */
static void write_entry(struct translation *to, enum kube_shape shape, struct text message)
{
    struct text part[2];

    must(is_map(shape));
    read_pair(to, message, "an entry of a map", part);
    json_write_key_text(&to->json, part[0]);
    json_write_text(&to->json,
                    shape == SHAPE_MAP ? part[1] : text_of_field(to, part[1], 1, "Quantity"));
}

/* ---- messages ---- */

static void write_members(struct translation *to, const struct kube_type *type,
                          struct text message);

static void write_message(struct translation *to, const struct kube_type *type, struct text message)
{
    must(type != NULL);
    json_write_object(&to->json);
    write_members(to, type, message);
    json_write_object_end(&to->json);
}

static void write_value(struct translation *to, const struct kube_member *member,
                        struct protobuf *in, const struct protobuf_field *field)
{
    must(member->number == field->number);

    switch (member->shape) {
    case SHAPE_TEXT:
    case SHAPE_OPTIONAL:
    case SHAPE_TEXTS:
        json_write_text(&to->json, protobuf_text(in, field));
        break;
    case SHAPE_NUMBER:
        json_write_i64(&to->json, (int64_t)protobuf_number(in, field));
        break;
    case SHAPE_FLAG:
        json_write_bool(&to->json, protobuf_number(in, field) != 0);
        break;
    case SHAPE_TIME:
        write_time(to, protobuf_text(in, field));
        break;
    case SHAPE_MESSAGE:
    case SHAPE_MESSAGES:
        write_message(to, member->type, protobuf_text(in, field));
        break;
    case SHAPE_MAP:
    case SHAPE_QUANTITIES:
        write_entry(to, member->shape, protobuf_text(in, field));
        break;
    }
}

/*
 * Returns the member of this number, NULL if none is read. *at: where the search begins; fields
 * nearly always come by number.
 */
static const struct kube_member *member_of(const struct kube_type *type, uint32_t number,
                                           uint32_t *at)
{
    must(*at <= type->n_members);
    if (*at > 0 && type->member[*at - 1].number >= number)
        *at = 0;
    while (*at < type->n_members && type->member[*at].number < number)
        ++*at;
    const bool found = *at < type->n_members && type->member[*at].number == number;
    return found ? &type->member[*at] : NULL;
}

static void begin_member(struct translation *to, const struct kube_member *member)
{
    must(member->name.len > 0);
    json_write_key_text(&to->json, member->name);
    if (is_map(member->shape))
        json_write_object(&to->json);
    else if (is_collected(member->shape))
        json_write_array(&to->json);
}

/* NULL: no list or map is open. */
static void end_member(struct translation *to, const struct kube_member *open)
{
    if (open == NULL)
        return;
    must(is_collected(open->shape));
    if (is_map(open->shape))
        json_write_object_end(&to->json);
    else
        json_write_array_end(&to->json);
}

/*
 * The fields of a list come one after the other. If others come between them, the key comes twice,
 * which the decoders refuse.
 */
static void write_members(struct translation *to, const struct kube_type *type, struct text message)
{
    struct protobuf in = protobuf_of(message);
    const struct kube_member *open = NULL; /* the list or map that may go on */
    struct protobuf_field field;
    uint32_t at = 0;

    while (!is_stopped(to) && protobuf_next(&in, &field)) {
        const struct kube_member *member = member_of(type, field.number, &at);
        if (member == NULL || is_absent(member, &field))
            continue;
        if (member != open) {
            end_member(to, open);
            begin_member(to, member);
            open = is_collected(member->shape) ? member : NULL;
        }
        write_value(to, member, &in, &field);
    }
    end_member(to, open);
    check(to, &in, type->name);
}

/* ---- envelopes ---- */

static const char magic[] = {'k', '8', 's', '\0'};

bool kube_protobuf_is(struct text body)
{
    return body.len >= sizeof magic && memcmp(body.at, magic, sizeof magic) == 0;
}

struct envelope {
    struct text kind;
    struct text object;
    bool has_object;
    struct text encoding; /* "" always, so far */
};

static struct envelope envelope_of(struct translation *to, struct text body)
{
    struct envelope envelope = {.kind = TEXT(""), .object = TEXT(""), .encoding = TEXT("")};
    struct protobuf_field field;

    must(kube_protobuf_is(body));
    struct protobuf in =
        protobuf_of((struct text){body.at + sizeof magic, body.len - sizeof magic});
    while (protobuf_next(&in, &field)) {
        if (field.number == 1)
            envelope.kind = text_of_field(to, protobuf_text(&in, &field), 2, "TypeMeta");
        if (field.number == 2) {
            envelope.object = protobuf_text(&in, &field);
            envelope.has_object = true;
        }
        if (field.number == 3)
            envelope.encoding = protobuf_text(&in, &field);
    }
    check(to, &in, "Unknown");
    return envelope;
}

/* Returns the type of the object; NULL, with err set, if it is not read. */
static const struct kube_type *type_of(const struct envelope *envelope, struct err *err)
{
    const struct kube_type *type = NULL;

    if (!envelope->has_object) {
        (void)err_set(err, ERR_INVALID, "protobuf: the envelope has no object");
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (text_is(envelope->kind, kinds[i]->name))
            type = kinds[i];
    if (type != NULL && envelope->encoding.len == 0)
        return type;
    (void)err_set(err, ERR_INVALID,
                  "protobuf: kind \"%.*s\", encoding \"%.*s\"; expected a Pod, a Node, a list of "
                  "them or a Status, without an encoding",
                  TEXT_ARG(text_first(envelope->kind, NAME_BYTES_MAX)),
                  TEXT_ARG(text_first(envelope->encoding, NAME_BYTES_MAX)));
    return NULL;
}

/* The kind is the first member. A malformed body is reported by translation_end(). */
static int write_body(struct translation *to, struct text body, struct err *err)
{
    if (!kube_protobuf_is(body))
        return err_set(err, ERR_INVALID, "protobuf: does not begin with k8s and a NUL");
    const struct envelope envelope = envelope_of(to, body);
    if (to->malformed != NULL)
        return 0;
    const struct kube_type *type = type_of(&envelope, err);
    if (type == NULL)
        return err_same(err);
    json_write_object(&to->json);
    json_write_member(&to->json, "kind", type->name);
    write_members(to, type, envelope.object);
    json_write_object_end(&to->json);
    return 0;
}

static struct translation translation_to(struct strbuf *out, size_t bytes_max)
{
    struct translation to = {.end_max = out->len + bytes_max};

    json_writer_init(&to.json, out);
    return to;
}

static int translation_end(const struct translation *to, struct err *err)
{
    if (to->malformed != NULL)
        return err_set(err, ERR_INVALID, "protobuf: malformed, in %s", to->malformed);
    if (is_too_large(to))
        return err_set(err, ERR_TOO_LARGE, "protobuf: more JSON than its limit");
    return 0;
}

int kube_protobuf_object(struct text body, size_t bytes_max, struct strbuf *out, struct err *err)
{
    struct translation to = translation_to(out, bytes_max);
    const int rc = write_body(&to, body, err);

    return rc < 0 ? rc : translation_end(&to, err);
}

/* WatchEvent: field 1 is the type, 2 a RawExtension, whose field 1 is a body. */
int kube_protobuf_event(struct text frame, size_t bytes_max, struct strbuf *out, struct err *err)
{
    struct translation to = translation_to(out, bytes_max);
    struct text part[2];

    read_pair(&to, frame, "WatchEvent", part);
    const struct text body = text_of_field(&to, part[1], 1, "RawExtension");
    json_write_object(&to.json);
    json_write_key(&to.json, "type");
    json_write_text(&to.json, part[0]);
    json_write_key(&to.json, "object");
    const int rc = to.malformed != NULL ? 0 : write_body(&to, body, err);
    json_write_object_end(&to.json);
    return rc < 0 ? rc : translation_end(&to, err);
}

size_t kube_protobuf_frame(const char head[KUBE_FRAME_HEAD])
{
    size_t bytes = 0;

    for (size_t i = 0; i < KUBE_FRAME_HEAD; i++)
        bytes = bytes << 8 | (uint8_t)head[i];
    return bytes;
}
