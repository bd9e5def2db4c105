/*
 * curl_handle - libcurl's easy handles, prepared for one server and the current credentials.
 *
 * Certificates and headers are set once per handle, and again only if they change. Some finished
 * handles are kept for later requests. Connections belong to libcurl's multi handle; their sockets
 * are tracked here, so that those of a silent peer can be shut down. One struct handles belongs to
 * one thread.
 */
#ifndef MILLIGPU_KUBE_CURL_HANDLE_H
#define MILLIGPU_KUBE_CURL_HANDLE_H

#include <curl/curl.h>

#include "config.h"

/* Options for a server and a generation of credentials. */
struct makeup;

struct curl_handle {
    CURL *easy;
    struct makeup *makeup;
    /* Headers before the shared ones. */
    struct curl_slist first;  /* "Content-Type: ..." */
    struct curl_slist second; /* header of the request, if any */
    struct text body;         /* body of the current request, borrowed */
    size_t given;             /* bytes of the body given to libcurl on the current connection */
    struct curl_handle *next;
};

struct handles;

/* config must outlive the handles. */
struct handles *handles_new(struct kube_config *config) MUST_USE;
/* All handles must have been given back, and all connections closed. */
void handles_free(struct handles *handles);

/* Sets *out to a handle with everything set except the request. */
int handles_take(struct handles *handles, int64_t now_ms, struct curl_handle **out,
                 struct err *err) MUST_USE;
void handles_give(struct handles *handles, struct curl_handle *handle);

struct handle_request {
    const char *method;
    const char *path;
    const char *content_type; /* NULL without a body */
    const char *header;       /* NULL if none */
    struct text body;
    bool watch;
};
int handle_ask(struct handles *handles, struct curl_handle *handle,
               const struct handle_request *request, struct err *err) MUST_USE;

/*
 * True if the whole body of the current request was certainly sent; false also if libcurl tried to
 * send it again.
 */
bool handle_sent_body(const struct curl_handle *handle);

/* Shuts every connection down: requests in flight fail, later ones get new connections. */
void handles_cut(struct handles *handles);

#endif
