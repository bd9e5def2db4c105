/*
 * config - address and current credentials, from a kubeconfig or a pod's files.
 *
 *   source (inline or a file) --read, and again when old--> bytes -- kube_auth_take()
 *
 * Files are read into memory and passed to libcurl as blobs, so that a rotated file gets a new
 * connection. If a file cannot be read again (it is being replaced), the old content stays in use.
 * One lock guards the mutable part.
 */
#ifndef MILLIGPU_KUBE_CONFIG_H
#define MILLIGPU_KUBE_CONFIG_H

#include <pthread.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/kube/kube.h"
#include "milligpu/run/mutex.h"

enum {
    CONFIG_BYTES_MAX = 4 * 1024 * 1024, /* limit of a kubeconfig */
    SECRET_BYTES_MAX = 1024 * 1024,     /* limit of a token or certificate bundle */
    SOURCE_AGE_MS = 60 * 1000,
};

/* Inline bytes, or a file that is read again when older than SOURCE_AGE_MS. */
struct source {
    char *file; /* NULL if inline or absent */
    char *data; /* NULL if absent, or not read yet */
    size_t len;
    int64_t read_ms; /* monotonic time of the last successful read */
};

struct kube_config {
    char *server; /* without a trailing slash */
    char *namespace;
    char *proxy;
    char *tls_name;
    bool insecure;
    char *username; /* NULL without basic authentication */
    char *password;

    struct mutex lock; /* guards everything below */
    struct source ca;
    struct source cert;
    struct source key;
    struct source token;
    uint64_t generation; /* incremented when new content was read */
};

/* Copies of the credentials, valid after a change; zero before the first kube_auth_take(). */
struct auth {
    bool taken;
    char *header; /* "Authorization: ..."; NULL if none */
    char *ca;     /* PEM; NULL for the system's CAs */
    char *cert;
    char *key;
    uint64_t generation;
};

/* Updates *out to the current credentials if their generation is newer. */
int kube_auth_take(struct kube_config *config, int64_t now_ms, struct auth *out,
                   struct err *err) MUST_USE;
void kube_auth_done(struct auth *auth);

/*
 * Called after the server refused the credentials, or its certificate was refused: makes the next
 * kube_auth_take() read all sources again. False if nothing can change, so a retry is useless.
 */
bool kube_auth_refuse(struct kube_config *config, int64_t now_ms);

/* Like kube_config_load(NULL), with folder and address as arguments. */
int kube_config_in_cluster(const char *folder, const char *host, const char *port,
                           struct kube_config **out, struct err *err) MUST_USE;
/* Like kube_config_load(), for a text; file is for errors and relative paths. */
int kube_config_parse(struct text text, const char *file, const char *context,
                      struct kube_config **out, struct err *err) MUST_USE;
struct kube_config *kube_config_new(void) MUST_USE;

#endif
