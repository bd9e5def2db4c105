/*
 * Whatever the API server sends as protobuf is refused, or is JSON within its limit that has the
 * names which a plain reader finds. Then it is decoded, as any JSON of the API server.
 *
 * Input: a byte whose last bit chooses a body or a frame of a watch; then its bytes.
 */
#include <string.h>

#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/wire/kube/kube_protobuf.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"

static const struct wire_rules rules = {.resource = "nvidia.com/vgpu",
                                        .whole_resource = "nvidia.com/gpu"};

/* --- the second reader --- */

static size_t varint(const char *at, size_t left, uint64_t *out)
{
    size_t bytes = 0;
    uint64_t byte = 0x80;

    *out = 0;
    while (bytes < left && bytes < 10 && byte >= 0x80) {
        byte = (uint8_t)at[bytes];
        *out += bytes < 9 || (byte & 1) != 0 ? (byte & 0x7f) << (7 * bytes) : 0;
        bytes++;
    }
    must(byte < 0x80); /* ours has taken it */
    return bytes;
}

/* The last field of this number. JSON leaves out empty names: then the last that is not empty. */
static struct text last_field(struct text message, uint64_t number, bool is_name)
{
    struct text found = TEXT("");

    for (size_t i = 0; i < message.len;) {
        uint64_t tag;
        uint64_t value;
        i += varint(message.at + i, message.len - i, &tag);
        if (tag % 8 == 0) {
            i += varint(message.at + i, message.len - i, &value);
        } else if (tag % 8 == 2) {
            i += varint(message.at + i, message.len - i, &value);
            if (tag / 8 == number && (value > 0 || !is_name))
                found = (struct text){message.at + i, value};
            i += value;
        } else {
            i += tag % 8 == 1 ? 8 : 4;
        }
        must(i <= message.len);
    }
    return found;
}

/* Only ASCII, since others may become U+FFFD. */
static void same_name(json_t *name, struct text bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        if (bytes.at[i] < 0x20 || bytes.at[i] >= 0x7f)
            return;
    must(json_string_length(name) == bytes.len);
    must(bytes.len == 0 || memcmp(json_string_value(name), bytes.at, bytes.len) == 0);
}

static void same_object(json_t *object, struct text body)
{
    if (!second_says(second_field(object, "kind"), "Pod") &&
        !second_says(second_field(object, "kind"), "Node"))
        return;
    const struct text message = last_field((struct text){body.at + 4, body.len - 4}, 2, false);
    const struct text metadata = last_field(message, 1, false);
    same_name(second_at(object, "metadata.name"), last_field(metadata, 1, true));
    same_name(second_at(object, "metadata.uid"), last_field(metadata, 5, true));
    same_name(second_at(object, "metadata.resourceVersion"), last_field(metadata, 6, true));
}

/* --- */

static int one_item(void *user, struct text bytes, struct err *err)
{
    struct node_facts node;
    struct pod pod;

    (void)!pod_decode(bytes, &rules, user, &pod, err);
    (void)!node_decode(bytes, &rules, user, &node, err);
    return 0;
}

static void decode(struct text json, bool is_frame)
{
    SCOPED_ARENA(arena);
    struct watch_event event;
    struct list_page page;
    struct status status;
    struct err err;

    if (is_frame && watch_decode(json, &arena, &event, &err) == 0)
        json = event.object;
    (void)one_item(&arena, json, &err);
    (void)!list_decode(json, &arena, &arena, one_item, &page, &err);
    status_decode(json, &arena, &status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pieces input = pieces_of(data, size);
    const bool is_frame = (pieces_byte(&input) & 1) != 0;
    const struct text bytes = pieces_rest(&input);
    const size_t bytes_max = 64 * size;
    const size_t before = heap_bytes();
    SCOPED_STRBUF(out);
    struct err err;
    json_error_t error;

    const int rc = is_frame ? kube_protobuf_event(bytes, bytes_max, &out, &err)
                            : kube_protobuf_object(bytes, bytes_max, &out, &err);
    heap_is_bounded(before, size);
    if (rc < 0) {
        must(strncmp(err.text, "protobuf: ", strlen("protobuf: ")) == 0);
        return 0;
    }
    must(out.len <= bytes_max);
    /* A field that comes twice is a key that comes twice: our decoders refuse it. */
    json_t *json = json_loadb(out.data, out.len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    must(json != NULL || json_error_code(&error) == json_error_duplicate_key ||
         json_error_code(&error) == json_error_null_byte_in_key);
    if (json != NULL)
        same_object(is_frame ? second_field(json, "object") : json,
                    is_frame ? last_field(last_field(bytes, 2, false), 1, false) : bytes);
    json_decref(json);
    decode((struct text){out.data, out.len}, is_frame);
    return 0;
}
