/*
 * curl_handle - libcurl's handles, made up for one server and the credentials of the moment.
 *
 * Certificates and headers are the same for thousands of requests: a handle is given them once,
 * and again only when they changed.  Handles that are done are kept for the next request, a few of
 * them.  Connections are libcurl's multi handle's; their sockets are known here, so that those of
 * a peer that has fallen silent can be cut.
 *
 * One struct handles belongs to one thread.
 */
#ifndef MILLIGPU_KUBE_CURL_HANDLE_H
#define MILLIGPU_KUBE_CURL_HANDLE_H

#include <curl/curl.h>

#include "kube/config.h"

/* What a server and a generation of credentials make of a handle. */
struct makeup;

struct handle {
    CURL *easy;
    struct makeup *makeup;
    struct curl_slist first; /* "Content-Type: ...", before the headers that all share */
    struct text body;        /* of the request at hand, borrowed */
    size_t given;            /* of it, to libcurl, on the connection at hand */
    struct handle *next;
};

struct handles;

/* config must outlive them. */
struct handles *handles_new(struct kube_config *config) MUST_USE;
/* After every handle is given back and the connections are closed. */
void handles_free(struct handles *handles);

/* A handle with everything set but the request's own.  AUTH_WAIT: ask again soon. */
enum auth_verdict handles_take(struct handles *handles, int64_t now_ms, struct handle **out,
                               struct err *err);
void handles_give(struct handles *handles, struct handle *handle);
/* Of the credentials it carries. */
uint64_t handle_generation(const struct handle *handle);

struct handle_request {
    const char *method;
    const char *path;
    const char *content_type; /* NULL: no body */
    struct text body;         /* borrowed until the handle is given back, as are the two above */
    bool watch;
};
int handle_ask(struct handles *handles, struct handle *handle, const struct handle_request *request,
               struct err *err) MUST_USE;

/* Was the body of the request at hand sent, all of it?  Of one that libcurl would have sent again,
   had it been let, that is not known: false. */
bool handle_sent_body(const struct handle *handle);

/* Cuts every connection: what is in flight on it fails, what comes gets a new one. */
void handles_cut(struct handles *handles);

#endif
