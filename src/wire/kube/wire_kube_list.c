/*
 * Decodes lists, watch events, Status and metadata. Called by the reflector on the informer thread,
 * and by other readers of the API server's answers. A list is decoded item by item, because 50,000
 * pods as one tree would take 2 GB. Status bodies come from proxies, too, so decoding one never
 * fails. In order: metadata and lists, Status, watch events and versions.
 */
#include <string.h>

#include "kube_read.h"

static const char *const object_keys[] = {"kind", "metadata"};

/* Reads the members that route an object of any kind; others are skipped. */
static void list_read_object(struct json_reader *in, struct object_meta *out)
{
    struct json_read_fields fields = JSON_FIELDS(object_keys);
    struct meta_reading meta = {.user = NULL};
    const char *kind = "";
    int key;
    meta_clear(&meta.meta);
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            (void)read_string(in, NAME_BYTES_MAX, &kind); /* the error sticks */
        else
            read_meta(in, &meta);
    }
    *out = meta.meta;
    out->kind = kind;
}

int meta_decode(struct text bytes, struct arena *arena, struct object_meta *out, struct err *err)
{
    struct json_reader in;
    must(out != NULL);
    json_reader_init(&in, bytes, "object", arena, err);
    meta_clear(out);
    list_read_object(&in, out);
    return json_reader_finish(&in);
}

static const char *const list_keys[] = {"kind", "metadata", "items"};
static const char *const list_meta_keys[] = {"resourceVersion", "continue"};

static void read_list_meta(struct json_reader *in, struct list_page *out)
{
    must(out->resource_version != NULL && out->continue_token != NULL);

    struct json_read_fields fields = JSON_FIELDS(list_meta_keys);
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key))
        (void)json_read_cstring(in, key == 0 ? &out->resource_version : &out->continue_token);
}

/*
 * A Status or a single object must not be taken for an empty list: objects missing from a list
 * count as deleted.
 */
static void read_list_kind(struct json_reader *in)
{
    must(in->depth > 0);

    struct text kind;
    if (!json_read_string(in, &kind))
        return;
    const size_t end = strlen("List");
    if (kind.len < end || memcmp(kind.at + kind.len - end, "List", end) != 0)
        json_reader_fail(in, "is not a List, such as PodList or the List of kubectl");
}

/* One pass instead of two: the decoder of the item finds its end. False: the item is not read. */
static bool begin_item(struct json_reader *in, const struct list_items *items)
{
    if (items->begin == NULL || json_read_peek(in) != JSON_TYPE_OBJECT)
        return false;
    const struct text rest = {in->at, (size_t)(in->end - in->at)};
    const size_t bytes = items->begin(items->user, rest);
    if (bytes > 0)
        json_read_past(in, bytes);
    return bytes > 0;
}

/*
 * The bytes of an item are borrowed from the body and checked as JSON; item() decodes them. If
 * item() fails, the reader is left in the middle of the array.
 */
static int read_items(struct json_reader *in, const struct list_items *items, struct err *err)
{
    must(items->item != NULL);

    struct text bytes;
    if (!json_read_array(in))
        return 0;
    while (json_read_element(in)) {
        if (json_read_null(in) || begin_item(in, items) || !json_read_raw(in, &bytes))
            continue;
        const int stop = items->item(items->user, bytes, err);
        if (stop < 0)
            return stop;
    }
    return 0;
}

int list_decode(struct text bytes, struct arena *arena, void *user,
                int (*item)(void *user, struct text bytes, struct err *err), struct list_page *out,
                struct err *err)
{
    const struct list_items items = {.user = user, .item = item};
    return list_decode_items(bytes, arena, &items, out, err);
}

int list_decode_items(struct text bytes, struct arena *arena, const struct list_items *items,
                      struct list_page *out, struct err *err)
{
    struct json_read_fields fields = JSON_FIELDS(list_keys);
    struct json_reader in;
    int key;
    must(items->item != NULL);

    *out = (struct list_page){.resource_version = "", .continue_token = ""};
    json_reader_init(&in, bytes, "List", arena, err);
    if (!json_read_object(&in))
        return json_reader_finish(&in);
    while (json_read_field(&in, &fields, &key)) {
        if (key == 0)
            read_list_kind(&in);
        if (key == 1)
            read_list_meta(&in, out);
        if (key == 2) {
            const int stop = read_items(&in, items, err);
            /* item() has set err; the caller must not call json_reader_finish(). */
            if (stop < 0)
                return stop;
        }
    }
    return json_reader_finish(&in);
}

const char *list_continue(struct text page, struct arena *arena)
{
    struct json_read_fields fields = JSON_FIELDS(list_keys);
    struct list_page out = {.resource_version = "", .continue_token = ""};
    struct json_reader in;
    struct err err;
    int key;

    must(page.at != NULL || page.len == 0);
    json_reader_init(&in, page, "List", arena, &err);
    if (!json_read_object(&in))
        return "";
    while (json_read_field(&in, &fields, &key) && key != 2) {
        if (key == 0)
            read_list_kind(&in);
        else
            read_list_meta(&in, &out);
    }
    must(out.continue_token != NULL);
    return in.failed ? "" : out.continue_token;
}

static void status_clear(struct status *out)
{
    *out = (struct status){.reason = "", .message = ""};
}

static const char *const details_keys[] = {"retryAfterSeconds"};

/* retryAfterSeconds comes with 429 and with some 5xx: the minimum delay before a retry. */
static void read_details(struct json_reader *in, struct status *out)
{
    must(out->retry_after_s == 0);

    struct json_read_fields fields = JSON_FIELDS(details_keys);
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key))
        (void)read_number(in, 0, INT32_MAX, &out->retry_after_s); /* the error sticks */
}

static const char *const status_keys[] = {"kind", "code", "reason", "message", "details"};

/* True only if kind is Status: other objects may have a code and a reason, too. */
static bool list_read_status(struct json_reader *in, struct status *out)
{
    struct json_read_fields fields = JSON_FIELDS(status_keys);
    struct text kind = TEXT("");
    int64_t code = 0;
    int key;
    status_clear(out);
    if (!json_read_object(in))
        return false;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            (void)json_read_string(in, &kind); /* errors stick */
        if (key == 1)
            (void)read_number(in, 0, 999, &code);
        if (key == 2 || key == 3)
            (void)json_read_cstring(in, key == 2 ? &out->reason : &out->message);
        if (key == 4)
            read_details(in, out);
    }
    out->code = (int)code;
    return !in->failed && text_is(kind, "Status");
}

/*
 * Returns the first bytes as one printable line, for the log and for errors: a proxy may answer
 * with HTML.
 */
static const char *first_bytes(struct text bytes, struct arena *arena)
{
    must(bytes.at != NULL || bytes.len == 0);

    enum { SHOWN_MAX = 200 };
    if (bytes.len > SHOWN_MAX)
        bytes.len = SHOWN_MAX;
    char *line = arena_copy(arena, bytes);
    for (size_t i = 0; i < bytes.len; i++) {
        const unsigned char byte = (unsigned char)line[i];
        if (byte == '\n' || byte == '\r' || byte == '\t')
            line[i] = ' ';
        else if (byte < 0x20 || byte >= 0x7F)
            line[i] = '?';
    }
    must(strlen(line) == bytes.len);
    return line;
}

void status_decode(struct text bytes, struct arena *arena, struct status *out)
{
    struct json_reader in;
    struct err err;
    json_reader_init(&in, bytes, "Status", arena, &err);
    const bool is_status = list_read_status(&in, out);
    if (json_reader_finish(&in) == 0 && is_status)
        return;
    status_clear(out);
    out->message = first_bytes(bytes, arena);
}

static const char *const watch_types[] = {
    [WATCH_ADDED] = "ADDED",       [WATCH_MODIFIED] = "MODIFIED", [WATCH_DELETED] = "DELETED",
    [WATCH_BOOKMARK] = "BOOKMARK", [WATCH_ERROR] = "ERROR",
};

/* An unknown type is an error, not skipped: it may be a change that we would miss. */
static bool read_watch_type(struct json_reader *in, enum watch_type *out)
{
    struct text word;
    if (!json_read_string(in, &word))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(watch_types); i++)
        if (text_is(word, watch_types[i])) {
            *out = (enum watch_type)i;
            return true;
        }
    json_reader_fail(in, "must be ADDED, MODIFIED, DELETED, BOOKMARK or ERROR");
    return false;
}

/*
 * Reads the object again, up to its version; it has been checked already. The first pass cannot
 * read it, because "type" may come after "object", and an ERROR has no such metadata.
 */
static const char *list_version_of(struct text object, struct arena *arena, struct json_reader *in)
{
    static const char *const object_key[] = {"metadata"};
    static const char *const meta_key[] = {"resourceVersion"};
    struct json_read_fields members = JSON_FIELDS(object_key);
    struct json_read_fields fields = JSON_FIELDS(meta_key);
    const char *version = "";
    int key;

    must(object.len > 0);
    json_reader_init(in, object, "event.object", arena, in->err);
    if (json_read_object(in) && json_read_field(in, &members, &key) && json_read_object(in) &&
        json_read_field(in, &fields, &key))
        (void)read_string(in, UID_BYTES_MAX, &version); /* the error sticks */
    return version;
}

static const char *const watch_keys[] = {"type", "object"};

/* Both members are required. */
static void read_watch(struct json_reader *in, struct watch_event *out)
{
    must(out->object.len == 0);

    struct json_read_fields fields = JSON_FIELDS(watch_keys);
    bool typed = false;
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            typed = read_watch_type(in, &out->type);
        else
            (void)json_read_raw(in, &out->object); /* the error sticks */
    }
    if (!typed)
        json_reader_fail(in, "has no \"type\"");
    if (out->object.len == 0)
        json_reader_fail(in, "has no \"object\"");
}

int watch_decode(struct text line, struct arena *arena, struct watch_event *out, struct err *err)
{
    struct json_reader in;
    *out = (struct watch_event){.resource_version = ""};
    status_clear(&out->status);
    json_reader_init(&in, line, "event", arena, err);
    read_watch(&in, out);
    const int result = json_reader_finish(&in);
    if (result < 0)
        return result;
    /* The object of an ERROR is a Status, for example 410 if the version is too old. */
    if (out->type == WATCH_ERROR) {
        status_decode(out->object, arena, &out->status);
        return 0;
    }
    out->resource_version = list_version_of(out->object, arena, &in);
    return in.failed ? -(int)err->code : 0;
}

uint64_t key_number(struct text id)
{
    uint64_t number = 0;

    if (id.len != KEY_ID_DIGITS)
        return 0;
    for (size_t i = 0; i < id.len; i++) {
        const char c = id.at[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return 0;
        number = number * 16 + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return number;
}

uint64_t signature_key_number(struct text signature)
{
    static const char version[] = "v1:";
    const size_t head = sizeof version - 1;

    if (signature.len <= head + KEY_ID_DIGITS || !text_starts(signature, version) ||
        signature.at[head + KEY_ID_DIGITS] != ':')
        return 0;
    return key_number((struct text){signature.at + head, KEY_ID_DIGITS});
}

/* Overflow gives 0, as a text that is no number does: callers then do not compare. */
uint64_t version_number(const char *resource_version)
{
    uint64_t number = 0;

    for (; *resource_version >= '0' && *resource_version <= '9'; resource_version++) {
        const uint64_t digit = (uint64_t)(*resource_version - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return 0;
        number = number * 10 + digit;
    }
    return *resource_version == '\0' ? number : 0;
}
