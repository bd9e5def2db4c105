/*
 * fake_http - the HTTP server without sockets: a call is a record of the request and its answer.
 *
 * For programs that call handlers directly: it provides the functions of http.h that handlers call,
 * and is linked as an object, so that the library's are not used.
 */
#ifndef MILLIGPU_TESTS_FAKE_HTTP_H
#define MILLIGPU_TESTS_FAKE_HTTP_H

#include <stdatomic.h>

#include "milligpu/http/http.h"

/* The bytes put so far, for the feeder's thread until ended, and then for the test. */
struct http_stream {
    struct strbuf text;
    atomic_uint puts;
    atomic_bool lazy; /* the client takes nothing */
    atomic_bool ended;
};

struct http_call {
    const char *method;
    const char *path;
    const char *query;        /* "a=1&b=2", not decoded */
    const char *content_type; /* NULL: no such header */
    const char *signature;    /* header Milligpu-Signature; NULL: no such header */
    struct text body;
    bool unread; /* a body that its route does not accept */
    int64_t began_ns;
    int status; /* 0: not answered yet */
    const char *type;
    struct strbuf answer;
    bool streams; /* the answer is this stream; the call must outlive it */
    struct http_stream stream;
    void *user;
    void (*answered)(struct http_call *call); /* by the thread that answered; may be NULL */
};

/* A POST of JSON, without a body so far. What it points to must outlive the call. */
void http_call_init(struct http_call *call, const char *path);
void http_call_done(struct http_call *call);

#endif
