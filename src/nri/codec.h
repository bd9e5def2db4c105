/*
 * codec - messages of protobuf to the views of nri.h, and answers to protobuf.
 *
 * Texts are borrowed from the bytes, lists are in the arena. A text has the length that was sent,
 * with any bytes in it. Fields that are not read take no memory. Lists of one pod or container, or
 * of one adjustment, take at most NRI_LISTS_BYTES_MAX; a pod or container that has more says so by
 * its flaw, and an adjustment is refused with ERR_TOO_LARGE. Bytes that are no such message are
 * ERR_INVALID, also where a field that holds one message is there twice.
 *
 * Pure.
 */
#ifndef MILLIGPU_NRI_CODEC_H
#define MILLIGPU_NRI_CODEC_H

#include "milligpu/base/arena.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/nri/nri.h"

#include "wire.h"

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

/* One message of a list of everything that runs, which is read one member at a time. */
struct codec_sync {
    struct wire pods;       /* where the next pod is looked for */
    struct wire containers; /* and the next container */
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

int codec_request(struct text bytes, struct codec_request *out, struct err *err) MUST_USE;
int codec_response(struct text bytes, struct codec_response *out, struct err *err) MUST_USE;
int codec_configure(struct text bytes, struct nri_runtime *out, struct err *err) MUST_USE;
int codec_synchronize(struct text bytes, struct codec_sync *out, struct err *err) MUST_USE;
/*
 * The next member, until false. One that is no message spoils only itself; nothing else is broken
 * after codec_synchronize() has looked at the whole.
 */
bool codec_next_pod(struct codec_sync *sync, struct arena *arena, struct nri_pod *out);
bool codec_next_container(struct codec_sync *sync, struct arena *arena, struct nri_container *out);
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
