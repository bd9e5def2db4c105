/*
 * fake_runtime - the other side of an NRI session: a container runtime that calls the plugin.
 *
 * It writes and reads bytes by itself and shares no code with src/nri, so that a field number that
 * is wrong there fails a test. It checks what the runtime's reader needs: frames of at most 4,096
 * bytes, each message at the start of a frame and complete at the end of one.
 */
#ifndef MILLIGPU_TESTS_FAKE_RUNTIME_H
#define MILLIGPU_TESTS_FAKE_RUNTIME_H

#include "milligpu/base/strbuf.h"
#include "milligpu/nri/nri.h"

/* --- protobuf --- */

void pb_number(struct strbuf *out, unsigned field, uint64_t number);
void pb_text(struct strbuf *out, unsigned field, struct text text);
void pb_str(struct strbuf *out, unsigned field, const char *text);
/* Takes inner's bytes as a message in this field; inner is empty afterwards. */
void pb_message(struct strbuf *out, unsigned field, struct strbuf *inner);
/* key = 1, value = 2: an entry of a map, or a KeyValue. */
void pb_pair(struct strbuf *out, unsigned field, struct text key, struct text value);

struct pb_value {
    uint64_t number;
    struct text text;
};
/* The nth field of this number, from 0; false if there are fewer. Aborts if it is no message. */
bool pb_find(struct text message, unsigned field, unsigned nth, struct pb_value *out);
struct text pb_get(struct text message, unsigned field); /* the first one; empty if there is none */
uint64_t pb_get_number(struct text message, unsigned field);

/* --- what a runtime sends --- */

/* As a container runtime describes them: a pod with an annotation, a container with an env. */
void runtime_put_pod(struct strbuf *out, unsigned field, const char *id, const char *annotation);
void runtime_put_container(struct strbuf *out, unsigned field, const char *id, const char *env);

/* A ttrpc message in frames of at most frame bytes. */
void runtime_put_message(struct strbuf *out, uint32_t connection, uint32_t head[3],
                         struct text data, size_t frame);
/* A call of the plugin, payload in its envelope. */
void runtime_put_call(struct strbuf *out, uint32_t stream, const char *method, struct text payload);
/* The answer to RegisterPlugin; code 0: welcome. */
void runtime_put_welcome(struct strbuf *out, int code, const char *text);

/* --- what it receives --- */

struct runtime_message {
    uint32_t connection;
    uint32_t stream;
    uint8_t type;
    struct text data; /* in the reader */
};

struct runtime_reader {
    struct strbuf data; /* of the message read last */
    unsigned frames;    /* that it took */
};

void runtime_reader_init(struct runtime_reader *reader);
void runtime_reader_done(struct runtime_reader *reader);
/* The first message of *output, which then begins behind it; false at its end. */
bool runtime_read(struct runtime_reader *reader, struct text *output, struct runtime_message *out);

#endif
