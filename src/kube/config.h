/*
 * config - the content of a kubeconfig or of a pod's files, and the current credentials.
 *
 *   source (inline or a file) --read, and again when old--> bytes --\
 *   exec plugin --in a thread of its own--> token ------------------- kube_auth_take()
 *
 * Files are read into memory, so that curl gets blobs, and a rotated file has new content and gets
 * a new connection. If a file cannot be read again (because it is being replaced), the old content
 * stays in use. One lock guards what changes. Exec plugins run in a thread of their own; meanwhile
 * kube_auth_take() gives the former credential while it is valid, and otherwise AUTH_WAIT.
 */
#ifndef MILLIGPU_KUBE_CONFIG_H
#define MILLIGPU_KUBE_CONFIG_H

#include <pthread.h>
#include <stdatomic.h>

#include "milligpu/kube.h"
#include "milligpu/mutex.h"
#include "milligpu/strbuf.h"

enum {
    CONFIG_BYTES_MAX = 4 * 1024 * 1024, /* a kubeconfig */
    SECRET_BYTES_MAX = 1024 * 1024,     /* a token, a certificate bundle */
    EXEC_BYTES_MAX = 1024 * 1024,       /* output of a plugin */
    EXEC_ARGS_MAX = 64,
    EXEC_TIMEOUT_MS = 30 * 1000,
    EXEC_AGAIN_MS = 5 * 1000, /* after a failure */
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

struct exec_plugin {
    char *command; /* NULL: none */
    char *folder;  /* of the kubeconfig: relative commands are resolved there */
    char *api_version;
    char *info; /* KUBERNETES_EXEC_INFO, JSON */
    char *hint; /* installHint */
    uint32_t args;
    uint32_t envs;
    char *arg[EXEC_ARGS_MAX];
    char *env[EXEC_ARGS_MAX]; /* NAME=value */
    atomic_bool stop;         /* kill it: the result is not needed any more */
};

struct exec_answer {
    char *token;
    char *cert;
    char *key;
    int64_t expires_ms; /* UTC; 0: unknown */
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

    struct mutex lock; /* guards everything below */
    struct source ca;
    struct source cert;
    struct source key;
    struct source token;
    uint64_t generation; /* grows when new content was read */

    pthread_t thread;
    bool thread_made; /* must be joined */
    bool running;
    /* the server refused the plugin's answer: it is run again at the next request */
    bool exec_stale;
    int64_t exec_failed_ms; /* monotonic; 0: it did not */
    struct exec_answer answer;
    /* why the last run failed; for requests that come within EXEC_AGAIN_MS of it */
    struct err exec_err;
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

enum auth_verdict { AUTH_READY, AUTH_WAIT, AUTH_FAILED };

/*
 * AUTH_READY: *out holds the valid credentials; if it holds the same generation already it is not
 * changed.
 */
enum auth_verdict kube_auth_take(struct kube_config *config, int64_t now_ms, struct auth *out,
                                 struct err *err);
void kube_auth_done(struct auth *auth);

/*
 * The server refused these credentials (or its certificate was refused): reads all sources again.
 * False if nothing can change, so that asking again is useless.
 */
bool kube_auth_refuse(struct kube_config *config, uint64_t generation, int64_t now_ms);

/* kube_config_load(NULL), with the paths as arguments. */
int kube_config_in_cluster(const char *folder, const char *host, const char *port,
                           struct kube_config **out, struct err *err) MUST_USE;
/* kube_config_load for a text; file is used in errors and for relative paths. */
int kube_config_parse(struct text text, const char *file, const char *context,
                      struct kube_config **out, struct err *err) MUST_USE;
struct kube_config *kube_config_new(void) MUST_USE;

/* Runs the plugin and reads its ExecCredential; blocks for at most EXEC_TIMEOUT_MS. */
int kube_exec_run(const struct exec_plugin *plugin, struct exec_answer *out,
                  struct err *err) MUST_USE;
void kube_exec_answer_done(struct exec_answer *answer);

#endif
