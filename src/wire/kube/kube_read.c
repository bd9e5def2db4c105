/*
 * Reads parts that all Kubernetes objects share: kinds, maps, bounded strings, times, quantities,
 * metadata. Called by wire_kube_*.c and wire_extender*.c, on the thread that holds the bytes. After
 * a failure each function does nothing and returns false. An unreadable optional value is skipped
 * and its reason kept, so that the object still counts
 * (docs/why/011-unreadable-objects-still-count.md).
 */
#include "kube_read.h"

#include <string.h>

/* Sets every member to "", so decoders can compare and copy them even if metadata is missing. */
void meta_clear(struct object_meta *out)
{
    *out = (struct object_meta){
        .kind = "", .name = "", .namespace = "", .uid = "", .resource_version = ""};
}

/* The API server omits the kind of list items, so an absent kind is no error. */
bool read_kind(struct json_reader *in, const char *kind)
{
    must(kind != NULL);

    struct text said;
    if (!json_read_string(in, &said))
        return false;
    if (said.len > 0 && !text_is(said, kind))
        json_reader_fail(in, "is another kind of object, not \"%s\"", kind);
    return !in->failed;
}

bool read_map(struct json_reader *in, void *user,
              bool (*member)(void *, struct json_reader *, struct text))
{
    must(in->depth <= JSON_DEPTH_MAX);

    struct text key;
    if (!json_read_object(in))
        return false;
    while (json_read_key(in, &key))
        if (!json_read_null(in))
            (void)(member != NULL ? member(user, in, key)
                                  : json_read_skip(in)); /* the error sticks */
    return !in->failed;
}

/*
 * Removes the byte position: it depends on the bytes before it, but refusals must depend on the pod
 * alone (docs/why/005-constant-texts.md).
 */
static struct text without_place(struct text text)
{
    static const char place[] = " at byte ";
    const char *at = strstr(text.at, place);

    must(text.at[text.len] == '\0');
    if (at == NULL)
        return text;
    const size_t len = (size_t)(at - text.at);
    return (struct text){text.at, len > 0 && text.at[len - 1] == ',' ? len - 1 : len};
}

/*
 * Returns the error's text from the object's own field on: the object's path differs in a list, a
 * watch event and a webhook body, but the reason must be the same.
 */
static struct text from_field(const char *text)
{
    static const char *const field[] = {".metadata", ".spec", ".status"};
    const char *first = NULL;

    must(text != NULL);
    for (size_t i = 0; i < ARRAY_LEN(field); i++) {
        const char *at = strstr(text, field[i]);
        if (at != NULL && (first == NULL || at < first))
            first = at;
    }
    return text_of(first != NULL ? first + 1 : text);
}

void pass_over(struct json_reader *in, struct json_reader_mark mark, const char **why)
{
    must(in->failed);
    must(in->err->code != ERR_NONE);

    /* Only the first reason is kept: it is enough to close the object. */
    if (*why == NULL)
        *why = arena_copy(in->arena, without_place(from_field(in->err->text)));
    (void)json_reader_retreat(in, mark); /* the error sticks */
}

bool read_once(struct json_reader *in, const char **slot)
{
    must(slot != NULL);

    if (*slot != NULL) {
        json_reader_fail(in, "comes twice; a key may come once");
        return false;
    }
    return json_read_cstring(in, slot);
}

/* The length is limited, because names and uids become keys of the ledger and parts of URLs. */
bool read_string(struct json_reader *in, size_t max, const char **out)
{
    const char *value;
    must(max > 0);

    if (!json_read_cstring(in, &value))
        return false;
    const size_t len = strlen(value);
    if (len > max)
        json_reader_fail_as(in, ERR_TOO_LARGE, "has %zu bytes, more than %zu", len, max);
    *out = value;
    return !in->failed;
}

bool read_time(struct json_reader *in, int64_t *out_ms)
{
    must(out_ms != NULL);

    struct text value;
    if (!json_read_string(in, &value))
        return false;
    if (!time_parse(value, out_ms))
        json_reader_fail(in, "is no RFC 3339 time, such as 2026-01-02T03:04:05Z");
    return !in->failed;
}

/*
 * Keeps the text as written: request.h and inventory.h parse it. Go reads a bare number as a
 * quantity, too.
 */
bool read_amount(struct json_reader *in, const char **out)
{
    struct text raw;
    switch (json_read_peek(in)) {
    case JSON_TYPE_STRING:
        return json_read_cstring(in, out);
    case JSON_TYPE_NUMBER:
        if (!json_read_raw(in, &raw))
            return false;
        *out = arena_copy(in->arena, raw);
        return true;
    default:
        json_reader_fail(in, "expected a quantity, a string or a number");
        return false;
    }
}

/* Sets *out even if it is out of bounds; the reader has failed then. */
bool read_number(struct json_reader *in, int64_t least, int64_t most, int64_t *out)
{
    int64_t value;
    must(least <= most);

    if (!json_read_i64(in, &value))
        return false;
    if (value < least || value > most)
        json_reader_fail(in, "is %lld, but must be %lld to %lld", (long long)value,
                         (long long)least, (long long)most);
    *out = value;
    return !in->failed;
}

/*
 * The capacity follows from count (8, 16, 32, ...), so lists need no capacity member. Only for
 * arrays that began empty and grow by one element per call.
 */
void *arena_grow(struct arena *arena, const void *items, uint32_t count, uint32_t max, size_t bytes)
{
    must(bytes > 0);

    enum { FIRST = 8 };
    must(count < max);

    const bool full = count == 0 || (count >= FIRST && (count & (count - 1)) == 0);
    if (!full) {
        /* The memory is from the arena and not full, so writing to it is safe. */
        void *same;
        memcpy(&same, &items, sizeof same);
        return same;
    }
    uint32_t room = count == 0 ? FIRST : count * 2;
    if (room > max)
        room = max;
    void *grown = arena_array(arena, room, bytes);
    if (count > 0)
        memcpy(grown, items, (size_t)count * bytes);
    return grown;
}

/* A null counts as present; callers that need a value check for it. */
bool need_field(struct json_reader *in, const struct json_read_fields *fields, int key)
{
    must(key >= 0 && (uint32_t)key < fields->n_keys);
    if ((fields->seen & UINT32_C(1) << key) == 0)
        json_reader_fail(in, "has no \"%s\"", fields->key[key]);
    return !in->failed;
}

/* A space or a comma would split the id in NVIDIA_VISIBLE_DEVICES and in the cordon annotation. */
static bool is_gpu_id(struct text id)
{
    must(id.at != NULL);

    for (size_t i = 0; i < id.len; i++)
        if (id.at[i] <= 0x20 || id.at[i] >= 0x7F || id.at[i] == ',')
            return false;
    return id.len > 0;
}

bool read_gpu_id(struct json_reader *in, const char **out)
{
    struct text id;
    if (!json_read_name(in, GPU_ID_BYTES_MAX, &id))
        return false;
    if (!is_gpu_id(id))
        json_reader_fail(in, "must be printable ASCII without blanks and commas");
    *out = arena_copy(in->arena, id);
    return !in->failed;
}

static const char *const meta_keys[] = {"name",
                                        "namespace",
                                        "uid",
                                        "resourceVersion",
                                        "labels",
                                        "annotations",
                                        "creationTimestamp",
                                        "deletionTimestamp",
                                        "ownerReferences"};
enum {
    META_NAME,
    META_NAMESPACE,
    META_UID,
    META_VERSION,
    META_LABELS,
    META_ANNOTATIONS,
    META_CREATED,
    META_DELETED,
    META_OWNERS
};

/* Reads a map whose values fail one by one, or only as a whole. */
static void read_values(struct json_reader *in, const struct meta_reading *out,
                        bool (*member)(void *user, struct json_reader *in, struct text key),
                        const char **unreadable)
{
    const struct json_reader_mark whole = json_reader_mark(in);
    struct text key;

    must(out->meta.name != NULL);
    if (member == NULL) {
        (void)json_read_skip(in); /* the error sticks */
        return;
    }
    if (json_read_object(in)) {
        while (json_read_key(in, &key)) {
            (void)json_read_peek(in); /* moves to the value's first byte */
            const struct json_reader_mark mark = json_reader_mark(in);
            if (!json_read_null(in) && !member(out->user, in, key))
                pass_over(in, mark, unreadable);
        }
    } else if (in->failed) {
        pass_over(in, whole, unreadable);
    }
}

/* An unreadable time becomes unknown_ms; the object stays readable, without a reason. */
static void read_moment(struct json_reader *in, int64_t unknown_ms, int64_t *out_ms)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *why = NULL;

    must(*out_ms == 0);
    if (read_time(in, out_ms))
        return;
    *out_ms = unknown_ms;
    pass_over(in, mark, &why);
}

/*
 * Name, namespace, uid and version are the identity: a failure there fails the object. Unreadable
 * values of other members are skipped.
 */
static void meta_member(struct json_reader *in, struct meta_reading *out, int key)
{
    const char *left_out = NULL;

    switch (key) {
    case META_NAME:
        (void)read_string(in, NAME_BYTES_MAX, &out->meta.name); /* errors stick */
        break;
    case META_NAMESPACE:
        (void)read_string(in, NAME_BYTES_MAX, &out->meta.namespace);
        break;
    case META_UID:
        (void)read_string(in, UID_BYTES_MAX, &out->meta.uid);
        break;
    case META_VERSION:
        (void)read_string(in, UID_BYTES_MAX, &out->meta.resource_version);
        break;
    case META_LABELS:
        read_values(in, out, out->label, out->labels_decide ? &out->unreadable : &left_out);
        break;
    case META_ANNOTATIONS:
        read_values(in, out, out->annotation, &out->unreadable);
        break;
    case META_CREATED:
        read_moment(in, 0, &out->created_ms);
        break;
    case META_DELETED:
        /* The object is being deleted even if the time is unreadable. */
        read_moment(in, TIME_UNKNOWN_MS, &out->deleted_ms);
        break;
    case META_OWNERS:
        if (out->owners != NULL)
            out->owners(out->user, in);
        else
            (void)json_read_skip(in);
        break;
    default:
        must_not_reach("json_read_field gives the keys of its table only");
    }
}

void read_meta(struct json_reader *in, struct meta_reading *out)
{
    must(out->meta.name != NULL);

    struct json_read_fields fields = JSON_FIELDS(meta_keys);
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key))
        meta_member(in, out, key);
}
