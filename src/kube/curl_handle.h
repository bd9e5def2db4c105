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

/* The error that a failed transfer or connection means. */
enum err_code curl_handle_code_of(CURLcode code);

/* Options for a server and a generation of credentials. */
struct makeup;

struct curl_handle {
    CURL *easy;
    struct makeup *makeup;
    /* Headers before the shared ones. */
    struct curl_slist first;  /* "Content-Type: ..." */
    struct curl_slist accept; /* "Accept: ..." */
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

/* Address of the server, for messages. */
const char *handles_server(const struct handles *handles);
/* Updates the credentials of later requests. handles_take() does it, too. */
int handles_look(struct handles *handles, int64_t now_ms, struct err *err) MUST_USE;

/* Sets *out to a handle with everything set except the request. */
int handles_take(struct handles *handles, int64_t now_ms, struct curl_handle **out,
                 struct err *err) MUST_USE;
void handles_give(struct handles *handles, struct curl_handle *handle);
/* Frees the handle, instead of keeping it for another request. */
void handles_drop(struct handles *handles, struct curl_handle *handle);

struct handle_request {
    const char *method;
    const char *path;
    const char *content_type; /* NULL without a body */
    const char *header;       /* NULL if none */
    struct text body;
    bool watch;
    bool takes_protobuf;
    /* Not even for a connection that is being opened, and may turn out to be shared. */
    bool waits_for_none;
};
int handle_ask(struct handles *handles, struct curl_handle *handle,
               const struct handle_request *request, struct err *err) MUST_USE;

/* False without TLS, behind a proxy, and where libcurl's TLS library is not OpenSSL. */
bool handles_can_connect(const struct handles *handles);
/* Only connects: bytes go by curl_easy_send() and curl_easy_recv(). The handle must be dropped. */
int handle_connect(struct handles *handles, struct curl_handle *handle, struct err *err) MUST_USE;
/* Has the handle the same certificates as new ones? */
bool handle_has_current_tls(const struct handles *handles, const struct curl_handle *handle);

/* Parts of a request for the server with the current credentials, which handles_look() changes. */
struct handle_target {
    struct text authority;
    struct text path;          /* before the path of every request */
    const char *authorization; /* value of the header; NULL: none */
};
struct handle_target handles_target(const struct handles *handles);

/*
 * True if the whole body of the current request was certainly sent; false also if libcurl tried to
 * send it again.
 */
bool handle_sent_body(const struct curl_handle *handle);

/* Shuts every connection down: requests in flight fail, later ones get new connections. */
void handles_cut(struct handles *handles);

#endif
