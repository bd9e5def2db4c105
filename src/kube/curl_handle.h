/*
 * curl_handle - libcurl's easy handles, prepared for one server and the current credentials.
 *
 * Certificates and headers are the same for thousands of requests: they are set once per handle,
 * and again only if they change. A few finished handles are kept for later requests. Connections
 * belong to libcurl's multi handle; their sockets are tracked here, so that those of a silent peer
 * can be cut. One struct handles belongs to one thread.
 */
#ifndef MILLIGPU_KUBE_CURL_HANDLE_H
#define MILLIGPU_KUBE_CURL_HANDLE_H

#include <curl/curl.h>

#include "config.h"

/* The options for a server and a generation of credentials. */
struct makeup;

struct curl_handle {
    CURL *easy;
    struct makeup *makeup;
    struct curl_slist first;  /* "Content-Type: ...", before the shared headers */
    struct curl_slist second; /* that of the request, if there is one, between them */
    struct text body;         /* of the current request, borrowed */
    size_t given;             /* bytes of it given to libcurl on the current connection */
    struct curl_handle *next;
};

struct handles;

/* config must outlive them. */
struct handles *handles_new(struct kube_config *config) MUST_USE;
/* Call it after every handle was given back and the connections are closed. */
void handles_free(struct handles *handles);

/* Sets *out to a handle with everything set except the request. */
int handles_take(struct handles *handles, int64_t now_ms, struct curl_handle **out,
                 struct err *err) MUST_USE;
void handles_give(struct handles *handles, struct curl_handle *handle);

struct handle_request {
    const char *method;
    const char *path;
    const char *content_type; /* NULL: no body */
    const char *header;       /* NULL: none; borrowed like the others */
    struct text body;         /* borrowed until the handle is given back, as those above */
    bool watch;
};
int handle_ask(struct handles *handles, struct curl_handle *handle,
               const struct handle_request *request, struct err *err) MUST_USE;

/*
 * Was the whole body of the current request sent? If libcurl would have sent it again had it been
 * allowed, that is unknown: false.
 */
bool handle_sent_body(const struct curl_handle *handle);

/* Cuts every connection: requests in flight on them fail, later ones get new connections. */
void handles_cut(struct handles *handles);

#endif
