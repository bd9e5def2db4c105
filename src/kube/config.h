/*
 * config - what a kubeconfig or a pod's files say, and the credentials of the moment.
 *
 *   source (inline or a file) --read, again when old--> bytes     exec plugin --thread--> token
 *                                       \________________ kube_auth_take() ________________/
 *
 * Files are read into memory, so that curl gets blobs and a rotated file means new content, which
 * is a new connection.  A file that cannot be read again (it is being replaced) leaves the old
 * content in use.
 *
 * One lock guards what changes.  Exec plugins run in a thread of their own; meanwhile
 * kube_auth_take() says AUTH_WAIT.
 */
#ifndef MILLIGPU_KUBE_CONFIG_H
#define MILLIGPU_KUBE_CONFIG_H

#include <pthread.h>
#include <stdatomic.h>

#include "milligpu/kube.h"
#include "milligpu/strbuf.h"

enum {
    CONFIG_BYTES_MAX = 4 * 1024 * 1024, /* a kubeconfig */
    SECRET_BYTES_MAX = 1024 * 1024,     /* a token, a certificate bundle */
    EXEC_BYTES_MAX = 1024 * 1024,       /* what a plugin prints */
    EXEC_ARGS_MAX = 64,
    EXEC_TIMEOUT_MS = 30 * 1000,
    EXEC_AGAIN_MS = 5 * 1000, /* after a failure */
    SOURCE_AGE_MS = 60 * 1000,
};

/* Bytes given inline, or a file that is read again. */
struct source {
    char *file; /* NULL: inline or not given */
    char *data; /* NULL: not given, or not read yet */
    size_t len;
    int64_t read_ms;
};

struct exec_plugin {
    char *command; /* NULL: none */
    char *folder;  /* of the kubeconfig: relative commands start there */
    char *api_version;
    char *info; /* KUBERNETES_EXEC_INFO, JSON */
    char *hint; /* installHint */
    uint32_t args;
    uint32_t envs;
    char *arg[EXEC_ARGS_MAX];
    char *env[EXEC_ARGS_MAX]; /* NAME=value */
    atomic_bool stop;         /* end it: nobody waits any more */
};

struct exec_answer {
    char *token;
    char *cert;
    char *key;
    int64_t expires_ms; /* UTC; 0: not said */
};

struct kube_config {
    char *server; /* without a slash at the end */
    char *namespace;
    char *proxy;
    char *tls_name;
    bool insecure;
    char *username; /* NULL: no basic authentication */
    char *password;
    struct exec_plugin exec;

    pthread_mutex_t lock; /* guards all below */
    struct source ca;
    struct source cert;
    struct source key;
    struct source token;
    uint64_t generation; /* grows when something was read again */

    pthread_t thread;
    bool thread_made; /* to be joined */
    bool running;
    bool exec_done; /* the thread has nothing left to do */
    bool exec_stale;
    int64_t exec_failed_ms; /* monotonic; 0: it did not */
    struct exec_answer answer;
    struct err exec_err;
};

/* Copies: they outlive a change.  Zeroed: nothing was taken yet. */
struct auth {
    bool taken;
    char *header; /* "Authorization: ..."; NULL: none */
    char *ca;     /* PEM; NULL: the system's */
    char *cert;
    char *key;
    uint64_t generation;
};

enum auth_verdict { AUTH_READY, AUTH_WAIT, AUTH_FAILED };

/* AUTH_READY: *out holds what is valid now; what it held of the same generation it keeps. */
enum auth_verdict kube_auth_take(struct kube_config *config, int64_t now_ms, struct auth *out,
                                 struct err *err);
void kube_auth_done(struct auth *auth);

/*
 * These credentials were turned away (or the server's certificate was): read all again.  False if
 * there is nothing that could change, so asking again is idle.
 */
bool kube_auth_refuse(struct kube_config *config, uint64_t generation, int64_t now_ms);

/* kube_config_load(NULL), with the places as arguments. */
int kube_config_in_cluster(const char *folder, const char *host, const char *port,
                           struct kube_config **out, struct err *err) MUST_USE;
/* kube_config_load of a text; file is for errors and relative paths. */
int kube_config_parse(struct text text, const char *file, const char *context,
                      struct kube_config **out, struct err *err) MUST_USE;
struct kube_config *kube_config_new(void) MUST_USE;

/* Runs the plugin and reads its ExecCredential; blocks for at most EXEC_TIMEOUT_MS. */
int kube_exec_run(const struct exec_plugin *plugin, struct exec_answer *out,
                  struct err *err) MUST_USE;
void kube_exec_answer_done(struct exec_answer *answer);

/* PEM in base64 with any white space; NULL if it is not base64. */
char *base64_decode(const char *text, size_t *out_len) MUST_USE;
char *base64_encode(struct text bytes) MUST_USE;

#endif
