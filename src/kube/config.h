/*
 * config - the content of a kubeconfig or of a pod's files, and the current credentials.
 *
 *   source (inline or a file) --read, and again when old--> bytes -- kube_auth_take()
 *
 * Files are read into memory, so that curl gets blobs, and a rotated file has new content and gets
 * a new connection. If a file cannot be read again (because it is being replaced), the old content
 * stays in use. One lock guards what changes.
 */
#ifndef MILLIGPU_KUBE_CONFIG_H
#define MILLIGPU_KUBE_CONFIG_H

#include <pthread.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/kube/kube.h"
#include "milligpu/run/mutex.h"

enum {
    CONFIG_BYTES_MAX = 4 * 1024 * 1024, /* a kubeconfig */
    SECRET_BYTES_MAX = 1024 * 1024,     /* a token, a certificate bundle */
    SOURCE_AGE_MS = 60 * 1000,
};

/* Bytes given inline, or a file that is read again from time to time. */
struct source {
    char *file; /* NULL: inline or absent */
    char *data; /* NULL: absent, or not read yet */
    size_t len;
    /* monotonic; of the last successful reading */
    int64_t read_ms;
};

struct kube_config {
    char *server; /* without a slash at the end */
    char *namespace;
    char *proxy;
    char *tls_name;
    bool insecure;
    char *username; /* NULL: no basic authentication */
    char *password;

    struct mutex lock; /* guards everything below */
    struct source ca;
    struct source cert;
    struct source key;
    struct source token;
    uint64_t generation; /* grows when new content was read */
};

/* Copies, which stay valid after a change. Zeroed: nothing was taken yet. */
struct auth {
    bool taken;
    char *header; /* "Authorization: ..."; NULL: none */
    char *ca;     /* PEM; NULL: the system's */
    char *cert;
    char *key;
    uint64_t generation;
};

/* Sets *out to the current credentials, unless it holds their generation already. */
int kube_auth_take(struct kube_config *config, int64_t now_ms, struct auth *out,
                   struct err *err) MUST_USE;
void kube_auth_done(struct auth *auth);

/*
 * The server refused these credentials (or its certificate was refused): reads all sources again.
 * False if nothing can change, so that asking again is useless.
 */
bool kube_auth_refuse(struct kube_config *config, int64_t now_ms);

/* kube_config_load(NULL), with the paths as arguments. */
int kube_config_in_cluster(const char *folder, const char *host, const char *port,
                           struct kube_config **out, struct err *err) MUST_USE;
/* kube_config_load for a text; file is used in errors and for relative paths. */
int kube_config_parse(struct text text, const char *file, const char *context,
                      struct kube_config **out, struct err *err) MUST_USE;
struct kube_config *kube_config_new(void) MUST_USE;

#endif
