#include "support/fake_runtime.h"

#include <string.h>

enum { FRAME_HEAD = 8, MESSAGE_HEAD = 10, FRAME_MAX = 4096 };

/* --- protobuf --- */

static void put_varint(struct strbuf *out, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        strbuf_char(out, (char)((number & 0x7f) | 0x80));
    strbuf_char(out, (char)number);
}

void pb_number(struct strbuf *out, unsigned field, uint64_t number)
{
    put_varint(out, field << 3);
    put_varint(out, number);
}

void pb_text(struct strbuf *out, unsigned field, struct text text)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, text.len);
    strbuf_text(out, text);
}

void pb_str(struct strbuf *out, unsigned field, const char *text)
{
    pb_text(out, field, text_of(text));
}

void pb_message(struct strbuf *out, unsigned field, struct strbuf *inner)
{
    pb_text(out, field, (struct text){inner->data, inner->len});
    strbuf_reset(inner);
}

void pb_pair(struct strbuf *out, unsigned field, struct text key, struct text value)
{
    CLEANUP(strbuf_done) struct strbuf pair;
    strbuf_init(&pair);
    pb_text(&pair, 1, key);
    pb_text(&pair, 2, value);
    pb_message(out, field, &pair);
}

static uint64_t take_varint(struct text *rest)
{
    uint64_t number = 0;
    for (unsigned shift = 0;; shift += 7) {
        must(rest->len > 0 && shift < 64);
        const uint8_t byte = (uint8_t)*rest->at;
        rest->at++;
        rest->len--;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return number;
    }
}

static struct text take_bytes(struct text *rest, size_t bytes)
{
    must(bytes <= rest->len);
    const struct text taken = {rest->at, bytes};
    rest->at += bytes;
    rest->len -= bytes;
    return taken;
}

bool pb_find(struct text message, unsigned field, unsigned nth, struct pb_value *out)
{
    while (message.len > 0) {
        struct pb_value value = {0};
        const uint64_t tag = take_varint(&message);
        must((tag & 7) == 0 || (tag & 7) == 2);
        if ((tag & 7) == 0)
            value.number = take_varint(&message);
        else
            value.text = take_bytes(&message, take_varint(&message));
        if (tag >> 3 != field || nth-- > 0)
            continue;
        *out = value;
        return true;
    }
    return false;
}

struct text pb_get(struct text message, unsigned field)
{
    struct pb_value value;
    return pb_find(message, field, 0, &value) ? value.text : TEXT("");
}

uint64_t pb_get_number(struct text message, unsigned field)
{
    struct pb_value value;
    return pb_find(message, field, 0, &value) ? value.number : 0;
}

/* --- what a runtime sends --- */

void runtime_put_pod(struct strbuf *out, unsigned field, const char *id, const char *annotation)
{
    CLEANUP(strbuf_done) struct strbuf pod;
    strbuf_init(&pod);
    pb_str(&pod, 1, id);
    pb_str(&pod, 2, "web-0");
    pb_str(&pod, 3, "3f0b9b6e-uid");
    pb_str(&pod, 4, "default");
    pb_pair(&pod, 5, TEXT("app"), TEXT("web"));
    pb_pair(&pod, 6, TEXT("io.kubernetes.cri.sandbox-name"), TEXT("web-0"));
    pb_pair(&pod, 6, TEXT("milligpu.io/allocation"), text_of(annotation));
    pb_str(&pod, 7, "runc");
    pb_message(out, field, &pod);
}

/* The device rule of a privileged container. */
static void put_rule_of_all(struct strbuf *out, unsigned field)
{
    CLEANUP(strbuf_done) struct strbuf resources;
    CLEANUP(strbuf_done) struct strbuf rule;
    strbuf_init(&resources);
    strbuf_init(&rule);
    pb_number(&rule, 1, 1);
    pb_str(&rule, 5, "rwm");
    pb_message(&resources, 7, &rule);
    pb_message(out, field, &resources);
}

void runtime_put_container(struct strbuf *out, unsigned field, const char *id, const char *env)
{
    CLEANUP(strbuf_done) struct strbuf container;
    CLEANUP(strbuf_done) struct strbuf host;
    CLEANUP(strbuf_done) struct strbuf part;
    strbuf_init(&container);
    strbuf_init(&host);
    strbuf_init(&part);
    pb_str(&container, 1, id);
    pb_str(&container, 2, "sandbox-1");
    pb_str(&container, 3, "app");
    pb_number(&container, 4, NRI_CREATED);
    pb_str(&container, 7, "/bin/app");
    pb_str(&container, 8, "PATH=/bin");
    pb_str(&container, 8, env);
    pb_str(&part, 1, "/dev/nvidia0");
    pb_str(&part, 2, "c");
    pb_number(&part, 3, 195);
    pb_message(&host, 2, &part);
    put_rule_of_all(&host, 3);
    pb_str(&host, 5, "/kubepods/pod1/app");
    pb_message(&container, 11, &host);
    pb_number(&container, 12, 4711);
    pb_str(&part, 1, "nvidia.com/gpu=GPU-0");
    pb_message(&container, 20, &part);
    pb_number(&part, 1, 1000);
    pb_message(&container, 21, &part);
    pb_message(out, field, &container);
}

static void put_u32(struct strbuf *out, uint32_t number)
{
    const uint8_t bytes[] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16),
                             (uint8_t)(number >> 8), (uint8_t)number};
    strbuf_add(out, bytes, sizeof bytes);
}

void runtime_put_message(struct strbuf *out, uint32_t connection, uint32_t head[3],
                         struct text data, size_t frame)
{
    CLEANUP(strbuf_done) struct strbuf message;
    strbuf_init(&message);
    put_u32(&message, (uint32_t)data.len);
    put_u32(&message, head[0]);
    strbuf_char(&message, (char)head[1]);
    strbuf_char(&message, (char)head[2]);
    strbuf_text(&message, data);
    for (size_t at = 0; at < message.len; at += frame) {
        const size_t bytes = frame < message.len - at ? frame : message.len - at;
        put_u32(out, connection);
        put_u32(out, (uint32_t)bytes);
        strbuf_add(out, message.data + at, bytes);
    }
}

void runtime_put_call(struct strbuf *out, uint32_t stream, const char *method, struct text payload)
{
    CLEANUP(strbuf_done) struct strbuf request;
    strbuf_init(&request);
    pb_str(&request, 1, "nri.pkg.api.v1alpha1.Plugin");
    pb_str(&request, 2, method);
    pb_text(&request, 3, payload);
    pb_number(&request, 4, 2000000000);
    pb_pair(&request, 5, TEXT("trace"), TEXT("1"));
    /* As Go's buffered writer cuts it: what fits behind the head, then the rest. */
    runtime_put_message(out, 1, (uint32_t[]){stream, 1, 0},
                        (struct text){request.data, request.len}, FRAME_MAX);
}

void runtime_put_welcome(struct strbuf *out, int code, const char *text)
{
    CLEANUP(strbuf_done) struct strbuf response;
    CLEANUP(strbuf_done) struct strbuf status;
    strbuf_init(&response);
    strbuf_init(&status);
    if (code != 0) {
        pb_number(&status, 1, (uint64_t)code);
        pb_str(&status, 2, text);
        pb_message(&response, 1, &status);
    }
    runtime_put_message(out, 2, (uint32_t[]){1, 2, 0}, (struct text){response.data, response.len},
                        FRAME_MAX);
}

/* --- what it receives --- */

static uint32_t u32(const char *at)
{
    const uint8_t *byte = (const uint8_t *)at;
    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

void runtime_reader_init(struct runtime_reader *reader)
{
    *reader = (struct runtime_reader){.frames = 0};
    strbuf_init(&reader->data);
}

void runtime_reader_done(struct runtime_reader *reader)
{
    strbuf_done(&reader->data);
}

static struct text take_frame(struct text *output, uint32_t *connection)
{
    const struct text head = take_bytes(output, FRAME_HEAD);
    *connection = u32(head.at);
    const uint32_t bytes = u32(head.at + 4);
    must(bytes > 0 && bytes <= FRAME_MAX);
    return take_bytes(output, bytes);
}

bool runtime_read(struct runtime_reader *reader, struct text *output, struct runtime_message *out)
{
    if (output->len == 0)
        return false;
    struct text frame = take_frame(output, &out->connection);
    const struct text head = take_bytes(&frame, MESSAGE_HEAD);
    const uint32_t bytes = u32(head.at);
    out->stream = u32(head.at + 4);
    out->type = (uint8_t)head.at[8];
    must(head.at[9] == 0);
    strbuf_reset(&reader->data);
    strbuf_text(&reader->data, frame);
    for (reader->frames = 1; reader->data.len < bytes; reader->frames++) {
        uint32_t connection;
        strbuf_text(&reader->data, take_frame(output, &connection));
        must(connection == out->connection);
    }
    must(reader->data.len == bytes);
    out->data = (struct text){reader->data.data, bytes};
    return true;
}
