/*
 * kube - the API server behind a small struct of functions.
 *
 * Three things implement it: libcurl (kube_curl_new), fake_apiserver for a cluster file
 * (fake_apiserver.h), and the simulator. A request is method, path and body; an answer arrives in
 * pieces through poll(), in the thread that calls poll(). Only poll() blocks, for at most wait_ms.
 *
 *   start(request) ... poll() -> HEAD(status) DATA DATA ... DONE      or  FAILED at any point
 *
 * One kube_ops belongs to one thread; only wake() may be called by others. SIGPIPE must be ignored.
 * The outcome of a POST that FAILED is unknown unless unsent is set.
 *
 * Requests of one kube_ops share connections: one if the server speaks HTTP/2, a bounded number
 * with HTTP/1.1. A request that finds none free waits, unsent, and its timeout runs. Two kube_ops
 * share no connection. start() and cancel() cost the same however many requests are in flight; the
 * caller decides how many may be. If a request times out and not a byte has arrived for any request
 * since it began, the connections are cut, and all other requests on them FAIL.
 */
#ifndef MILLIGPU_KUBE_H
#define MILLIGPU_KUBE_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

struct kube_request {
    uint64_t id;              /* chosen by the caller, unique among those in flight, not 0 */
    const char *method;       /* "GET" "POST" "PATCH" "DELETE" */
    const char *path;         /* with query: "/api/v1/pods?limit=500" */
    const char *content_type; /* NULL without a body */
    const char *header;       /* one more line, "Name: value"; NULL: none */
    struct text body;         /* copied by start() */
    int64_t timeout_ms;       /* for the whole request; 0: none (a watch) */
    int64_t silence_ms;       /* no byte for this long: FAILED; 0: no limit */
};

enum kube_piece { KUBE_HEAD, KUBE_DATA, KUBE_DONE, KUBE_FAILED };

struct kube_answer {
    uint64_t id;
    enum kube_piece piece;
    int status;            /* set from HEAD on */
    int64_t retry_after_s; /* header Retry-After; 0: absent */
    struct text data;      /* DATA: borrowed for the call, of any length */
    /* FAILED: certainly not processed (connection refused, name not resolved, TLS refused) */
    bool unsent;
    const struct err *err; /* FAILED */
};

struct kube_ops {
    void *ctx;
    int (*start)(void *ctx, const struct kube_request *request, struct err *err);
    /* No more answers arrive for that id; allowed if it is done already. */
    void (*cancel)(void *ctx, uint64_t id);
    /*
     * Moves bytes for at most wait_ms; calls deliver() for each piece. deliver() may start and
     * cancel requests.
     */
    void (*poll)(void *ctx, int64_t wait_ms, void *user,
                 void (*deliver)(void *user, const struct kube_answer *answer));
    void (*wake)(void *ctx);
    /* "https://10.0.0.1:443", "standalone": for logs and doctor. */
    const char *(*name)(void *ctx);
    void (*free)(void *ctx);
};

/*
 * Sends one request and collects its body, with an ops that has nothing else in flight (at start,
 * in doctor). Returns the HTTP status, or negative. An answer of more than BODY_BYTES_MAX is
 * refused.
 */
struct strbuf;
int kube_fetch(const struct kube_ops *ops, const struct kube_request *request, struct strbuf *out,
               struct err *err) MUST_USE;

/*
 * How to reach a cluster, and with which credentials: from a kubeconfig file, or from the files
 * that a pod is given. Tokens are read again when they are older than a minute, and once after a
 * 401. A kubeconfig that names a credential plugin (exec) is refused: nothing is executed.
 */
struct kube_config;

/* kubeconfig NULL: in-cluster. context NULL: the current one. Errors name file, key and line. */
int kube_config_load(const char *kubeconfig, const char *context, struct kube_config **out,
                     struct err *err) MUST_USE;
/*
 * A server that is no API server, without credentials: "https://name:port". ca_file, with the CAs
 * to trust, is read again when it is older than a minute; "": the system's.
 */
int kube_config_plain(const char *server, const char *ca_file, struct kube_config **out,
                      struct err *err) MUST_USE;
void kube_config_free(struct kube_config *config);
/* The namespace of the context, or of the pod in which this process runs; "" if none is set. */
const char *kube_config_namespace(const struct kube_config *config);
const char *kube_config_server(const struct kube_config *config);

/* config must outlive the ops, and may serve several. */
int kube_curl_new(struct kube_config *config, struct kube_ops *out, struct err *err) MUST_USE;

#endif
