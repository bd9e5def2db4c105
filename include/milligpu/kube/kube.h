/*
 * kube - the interface to an API server, as a struct of functions.
 *
 * It has three implementations: libcurl (kube_curl_new), a fake API server for a cluster file
 * (fake_apiserver.h), and the simulator. A request is method, path and body; an answer arrives in
 * pieces through poll(), in the thread that calls poll(). Only poll() blocks, for at most wait_ms.
 *
 *   start(request) ... poll() -> HEAD(status) DATA DATA ... DONE      or  FAILED at any point
 *
 * One kube_ops belongs to one thread; only wake() is thread-safe. SIGPIPE must be ignored. The
 * outcome of a POST that FAILED is unknown unless unsent is set.
 *
 * Requests of one kube_ops share connections: one if the server speaks HTTP/2 (a second one while
 * it is replaced), a bounded number with HTTP/1.1. A request without a free connection waits unsent
 * while its timeout runs. Two kube_ops share no connection. start() and cancel() take constant
 * time; the caller limits the requests in flight. If a request times out and no byte has arrived
 * for any request since it began, the connections are shut down, and all other requests on them
 * FAIL.
 */
#ifndef MILLIGPU_KUBE_H
#define MILLIGPU_KUBE_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

struct kube_request {
    uint64_t id;              /* caller's, unique among requests in flight, not 0 */
    const char *method;       /* "GET" "POST" "PATCH" "DELETE" */
    const char *path;         /* with query: "/api/v1/pods?limit=500" */
    const char *content_type; /* NULL without a body */
    const char *header;       /* additional header line "Name: value"; NULL if none */
    bool takes_protobuf;      /* the answer may be protobuf (kube_protobuf.h); else it is JSON */
    struct text body;         /* copied by start() */
    int64_t timeout_ms;       /* timeout of the whole request; 0 for none (a watch) */
    int64_t silence_ms;       /* timeout between received bytes; 0 for none */
};

enum kube_piece { KUBE_HEAD, KUBE_DATA, KUBE_DONE, KUBE_FAILED };

struct kube_answer {
    uint64_t id;
    enum kube_piece piece;
    int status;            /* set from HEAD on */
    int64_t retry_after_s; /* header Retry-After; 0 if absent */
    struct text data;      /* DATA: valid during the call, of any length */
    /* FAILED: true if certainly not processed (connection, name or TLS handshake failed) */
    bool unsent;
    const struct err *err; /* FAILED: the error, valid during the call */
};

struct kube_ops {
    void *ctx;
    int (*start)(void *ctx, const struct kube_request *request, struct err *err);
    /* Drops the request: deliver() is not called for it again. Does nothing if it is done. */
    void (*cancel)(void *ctx, uint64_t id);
    /*
     * Sends and receives for at most wait_ms; calls deliver() for each piece, which may start and
     * cancel requests.
     */
    void (*poll)(void *ctx, int64_t wait_ms, void *user,
                 void (*deliver)(void *user, const struct kube_answer *answer));
    void (*wake)(void *ctx);
    /* Name for logs and doctor: "https://10.0.0.1:443", "standalone". */
    const char *(*name)(void *ctx);
    void (*free)(void *ctx);
};

/*
 * Sends one request and collects its body; ops must have no other request in flight (at start, in
 * doctor). Returns the HTTP status, or negative. An answer over BODY_BYTES_MAX is an error.
 */
struct strbuf;
int kube_fetch(const struct kube_ops *ops, const struct kube_request *request, struct strbuf *out,
               struct err *err) MUST_USE;

/*
 * Address and credentials of a cluster, from a kubeconfig file or from a pod's service account
 * files. Tokens are read again when they are older than a minute, and once after a 401. A
 * kubeconfig with a credential plugin (exec) is refused: nothing is executed.
 */
struct kube_config;

/*
 * kubeconfig is NULL for the in-cluster configuration, context NULL for the current context. Errors
 * name file, key and line.
 */
int kube_config_load(const char *kubeconfig, const char *context, struct kube_config **out,
                     struct err *err) MUST_USE;
/*
 * Configures a server other than an API server, "https://name:port", without credentials. ca_file
 * has the trusted CAs, "" for the system's; it is read again when it is older than a minute.
 */
int kube_config_plain(const char *server, const char *ca_file, struct kube_config **out,
                      struct err *err) MUST_USE;
void kube_config_free(struct kube_config *config);
/* Namespace of the context, or of this process's pod; "" if none is set. */
const char *kube_config_namespace(const struct kube_config *config);
const char *kube_config_server(const struct kube_config *config);

/* config must outlive the ops; several ops may share it. */
int kube_curl_new(struct kube_config *config, struct kube_ops *out, struct err *err) MUST_USE;
/*
 * The same for many small calls at a time, such as Bindings: with HTTP/2, a call costs libcurl's
 * part only once for each connection. Answers are not compressed, and are JSON.
 */
int kube_calls_new(struct kube_config *config, struct kube_ops *out, struct err *err) MUST_USE;

#endif
