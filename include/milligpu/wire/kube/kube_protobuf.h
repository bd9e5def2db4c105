/*
 * kube_protobuf - Pods and Nodes that the API server sends as protobuf, as JSON.
 *
 * The API server makes protobuf of an object in half to two thirds of the time that JSON takes it,
 * and makes the protobuf of a watch event once for all its clients (docs/why/030). Only the fields
 * that the decoders of wire_kube.h read are converted; a test compares both forms of one object. So
 * everything behind the API server's answer knows one form, as with gzip.
 *
 * A body begins with "k8s\0" and an envelope that names its kind: Pod, Node, a list of them, or
 * Status. A watch is a stream of frames: the length in 4 bytes, the most significant first, then a
 * WatchEvent, whose object is such a body. The numbers of fields are those of generated.proto in
 * k8s.io/api (core/v1) and k8s.io/apimachinery (meta/v1, runtime). An empty text or time that
 * JSON leaves out is left out here; invalid UTF-8 becomes U+FFFD, as in the API server's JSON.
 *
 * Pure.
 */
#ifndef MILLIGPU_KUBE_PROTOBUF_H
#define MILLIGPU_KUBE_PROTOBUF_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

bool kube_protobuf_is(struct text body);

/*
 * Append the JSON to out. ERR_INVALID: malformed, or of another kind. ERR_TOO_LARGE: the JSON takes
 * more than bytes_max, which is checked after each value: one takes six times its bytes at most.
 * Then out has a part of it.
 */
int kube_protobuf_object(struct text body, size_t bytes_max, struct strbuf *out,
                         struct err *err) MUST_USE;
/* frame: without its length. The JSON is that of one line of a watch, without its end. */
int kube_protobuf_event(struct text frame, size_t bytes_max, struct strbuf *out,
                        struct err *err) MUST_USE;

/* The length of a frame, from the bytes before it. */
enum { KUBE_FRAME_HEAD = 4 };
size_t kube_protobuf_frame(const char head[KUBE_FRAME_HEAD]);

#endif
