/*
 * codec - messages of protobuf to the views of nri.h, and answers to protobuf.
 *
 * What is read is in the arena or borrowed from it, never from the bytes. A text has the length
 * that was sent, with any bytes in it. Memory is limited by the size of the message: a reader that
 * needs more says ERR_TOO_LARGE, and for bytes that are no such message ERR_INVALID.
 *
 * Pure.
 */
#ifndef MILLIGPU_NRI_CODEC_H
#define MILLIGPU_NRI_CODEC_H

#include "milligpu/arena.h"
#include "milligpu/nri.h"
#include "milligpu/strbuf.h"

struct codec_request {
    struct text service;
    struct text method;
    struct text payload;
};

struct codec_response {
    int32_t code; /* 0: success */
    struct text message;
    struct text payload;
};

struct codec_sync {
    const struct nri_pod *pod;
    uint32_t pods;
    const struct nri_container *container;
    uint32_t containers;
    bool more;
};

/* What a call about one container says. */
struct codec_call {
    bool has_pod; /* else pod is empty */
    bool has_container;
    struct nri_pod pod;
    struct nri_container container;
    struct nri_adjustment adjust; /* ValidateContainerAdjustment, like the next */
    enum nri_validator validator;
    int32_t event; /* StateChange: of api.proto; from others, any number */
};

int codec_request(struct arena *arena, struct text bytes, struct codec_request *out,
                  struct err *err) MUST_USE;
int codec_response(struct arena *arena, struct text bytes, struct codec_response *out,
                   struct err *err) MUST_USE;
int codec_configure(struct arena *arena, struct text bytes, struct nri_runtime *out,
                    struct err *err) MUST_USE;
int codec_synchronize(struct arena *arena, struct text bytes, struct codec_sync *out,
                      struct err *err) MUST_USE;
int codec_call(struct arena *arena, struct text bytes, struct codec_call *out,
               struct err *err) MUST_USE;
int codec_state_change(struct arena *arena, struct text bytes, struct codec_call *out,
                       struct err *err) MUST_USE;

/* They append to out. An empty adjustment is an empty answer: nothing is to be changed. */
void codec_put_request(struct strbuf *out, const struct codec_request *request);
void codec_put_response(struct strbuf *out, const struct codec_response *response);
void codec_put_register(struct strbuf *out);
void codec_put_events(struct strbuf *out, uint32_t events);
void codec_put_more(struct strbuf *out, bool more);
void codec_put_created(struct arena *arena, const struct nri_adjustment *adjust,
                       struct strbuf *out);
void codec_put_rejected(struct strbuf *out, struct text reason);

#endif
