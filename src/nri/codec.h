/*
 * codec - decodes protobuf messages to the structs of nri.h, and encodes answers.
 *
 * Texts are borrowed from the input, with any bytes in them; lists are in the arena. Fields that
 * are not read take no memory. The lists of one pod, container or adjustment take at most
 * NRI_LISTS_BYTES_MAX; beyond, a pod or container gets a flaw, and an adjustment fails with
 * ERR_TOO_LARGE. Malformed input is ERR_INVALID, and so is a second occurrence of a field that
 * holds one message.
 *
 * Pure.
 */
#ifndef MILLIGPU_NRI_CODEC_H
#define MILLIGPU_NRI_CODEC_H

#include "milligpu/base/arena.h"
#include "milligpu/base/protobuf.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/nri/nri.h"

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

/* A SynchronizeRequest, read one member at a time. */
struct codec_sync {
    /* Read positions of the next pod and the next container. */
    struct protobuf pods;
    struct protobuf containers;

    bool more;
};

/* A call about one container or pod. */
struct codec_call {
    /* False: pod or container is empty. */
    bool has_pod;
    bool has_container;

    struct nri_pod pod;
    struct nri_container container;
    /* Fields of ValidateContainerAdjustment only. */
    struct nri_adjustment adjust;
    enum nri_validator validator;

    int32_t event; /* event number of a StateChange (api.proto); not validated */
};

int codec_request(struct text bytes, struct codec_request *out, struct err *err) MUST_USE;
int codec_response(struct text bytes, struct codec_response *out, struct err *err) MUST_USE;
int codec_configure(struct text bytes, struct nri_runtime *out, struct err *err) MUST_USE;
int codec_synchronize(struct text bytes, struct codec_sync *out, struct err *err) MUST_USE;
/*
 * Read the next member; false at the end. A malformed member gets NRI_BROKEN, and reading
 * continues; codec_synchronize() has validated the rest of the message.
 */
bool codec_next_pod(struct codec_sync *sync, struct arena *arena, struct nri_pod *out);
bool codec_next_container(struct codec_sync *sync, struct arena *arena, struct nri_container *out);
int codec_call(struct arena *arena, struct text bytes, struct codec_call *out,
               struct err *err) MUST_USE;
int codec_state_change(struct arena *arena, struct text bytes, struct codec_call *out,
                       struct err *err) MUST_USE;

/* Append to out. An empty adjustment gives an empty answer. */
void codec_put_request(struct strbuf *out, const struct codec_request *request);
void codec_put_response(struct strbuf *out, const struct codec_response *response);
void codec_put_register(struct strbuf *out);
void codec_put_events(struct strbuf *out, uint32_t events);
void codec_put_more(struct strbuf *out, bool more);
void codec_put_created(struct arena *arena, const struct nri_adjustment *adjust,
                       struct strbuf *out);
void codec_put_rejected(struct strbuf *out, struct text reason);

#endif
