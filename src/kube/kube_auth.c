/*
 * kube_auth - current credentials, from files or inline. Called by the threads of all kube_ops that
 * share the config (informer and outbox); takes its lock. A request gets copies from
 * kube_auth_take() if the generation has changed; after a 401 kube_auth_refuse() makes the next
 * request read all sources again. In order: sources, credentials, loading a config.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/base64.h"
#include "milligpu/run/file.h"

#include "config.h"

static const char pod_folder[] = "/var/run/secrets/kubernetes.io/serviceaccount";

/* ---- sources ---- */

/*
 * Removes the line break at the end of a token file, which would break the header. file_read()
 * leaves room for the terminator.
 */
static size_t kube_auth_trimmed(char *data, size_t len)
{
    while (len > 0 && strchr(" \r\n\t", data[len - 1]) != NULL)
        len--;
    data[len] = '\0';
    return len;
}

/*
 * Sets *changed only if the bytes differ: with the same generation, connections stay open. On error
 * read_ms is unchanged, and the next request retries.
 */
static int source_read(struct source *source, int64_t now_ms, bool *changed, struct err *err)
{
    char *data = NULL;
    size_t len = 0;

    must(source->file != NULL);
    const int rc = file_read(source->file, SECRET_BYTES_MAX, &data, &len, err);
    if (rc < 0)
        return rc;
    must(data != NULL);
    len = kube_auth_trimmed(data, len);
    if (len == 0) {
        xfree(data);
        return err_set(err, ERR_INVALID, "%s: is empty", source->file);
    }
    source->read_ms = now_ms;
    if (source->data != NULL && source->len == len && memcmp(source->data, data, len) == 0) {
        xfree(data);
        return 0;
    }
    xfree(source->data);
    source->data = data;
    source->len = len;
    *changed = true;
    return 0;
}

/* If the file is missing, most likely during a replacement, the old content stays in use. */
static int source_fresh(struct source *source, int64_t now_ms, bool *changed, struct err *err)
{
    if (source->file == NULL)
        return 0;
    if (source->data != NULL && now_ms - source->read_ms < SOURCE_AGE_MS)
        return 0;
    const bool had = source->data != NULL;
    const int rc = source_read(source, now_ms, changed, err);
    return rc < 0 && had ? 0 : rc;
}

/*
 * Reads at most four small files a minute. A certificate and a key that are read during a rotation
 * may not match: the handshake fails, and transfer_failed() has both read again.
 */
static int sources_fresh(struct kube_config *config, int64_t now_ms, struct err *err)
{
    struct source *const all[] = {&config->ca, &config->cert, &config->key, &config->token};
    bool changed = false;

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        const int rc = source_fresh(all[i], now_ms, &changed, err);
        if (rc < 0)
            return rc;
    }
    config->generation += changed;
    return 0;
}

/* ---- credentials for requests ---- */

/* A token takes precedence over name and password. */
static char *make_header(const struct kube_config *config)
{
    const char *token = config->token.data;
    struct strbuf text;

    strbuf_init(&text);
    if (token != NULL) {
        strbuf_printf(&text, "Authorization: Bearer %s", token);
    } else if (config->username != NULL) {
        struct strbuf pair;
        strbuf_init(&pair);
        strbuf_printf(&pair, "%s:%s", config->username, config->password);
        CLEANUP(xfreep) char *encoded = base64_encode((struct text){pair.data, pair.len});
        strbuf_done(&pair);
        strbuf_printf(&text, "Authorization: Basic %s", encoded);
    }
    if (text.len > 0)
        return strbuf_steal(&text);
    strbuf_done(&text);
    return NULL;
}

static char *copy_of(const char *text)
{
    return text != NULL ? xstrdup(text) : NULL;
}

/* Copies the credentials, so that the request needs no lock later. */
static void kube_auth_fill(const struct kube_config *config, struct auth *out)
{
    if (out->taken && out->generation == config->generation)
        return;
    kube_auth_done(out);
    out->taken = true;
    out->header = make_header(config);
    out->ca = copy_of(config->ca.data);
    out->cert = copy_of(config->cert.data);
    out->key = copy_of(config->key.data);
    out->generation = config->generation;
    must((out->cert == NULL) == (out->key == NULL));
}

int kube_auth_take(struct kube_config *config, int64_t now_ms, struct auth *out, struct err *err)
{
    mutex_lock(&config->lock);
    const int rc = sources_fresh(config, now_ms, err);
    if (rc == 0)
        kube_auth_fill(config, out);
    mutex_unlock(&config->lock);
    return rc;
}

void kube_auth_done(struct auth *auth)
{
    xfree(auth->header);
    xfree(auth->ca);
    xfree(auth->cert);
    xfree(auth->key);
    *auth = (struct auth){0};
}

bool kube_auth_refuse(struct kube_config *config, int64_t now_ms)
{
    struct source *const all[] = {&config->ca, &config->cert, &config->key, &config->token};
    bool may_change = false;

    mutex_lock(&config->lock);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        may_change |= all[i]->file != NULL;
        all[i]->read_ms = now_ms - SOURCE_AGE_MS;
    }
    mutex_unlock(&config->lock);
    return may_change;
}

static int64_t monotonic_now_ms(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- sources of a configuration ---- */

DEFINE_FREEP(struct kube_config, kube_config_free);

static char *in_folder(const char *folder, const char *name)
{
    must(folder != NULL);
    struct strbuf path;
    strbuf_init(&path);
    strbuf_printf(&path, "%s/%s", folder, name);
    return strbuf_steal(&path);
}

/* kubelet sets host and port in every container, and mounts token, CA and namespace as folder. */
int kube_config_in_cluster(const char *folder, const char *host, const char *port,
                           struct kube_config **out, struct err *err)
{
    must(folder != NULL);
    if (host == NULL || host[0] == '\0' || port == NULL || port[0] == '\0')
        return err_set(err, ERR_NOT_FOUND,
                       "not in a cluster (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are "
                       "not set): name a kubeconfig");

    CLEANUP(kube_config_freep) struct kube_config *config = kube_config_new();
    const bool v6 = strchr(host, ':') != NULL && host[0] != '[';
    struct strbuf server;
    strbuf_init(&server);
    strbuf_printf(&server, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
    config->server = strbuf_steal(&server);
    config->token.file = in_folder(folder, "token");
    config->ca.file = in_folder(folder, "ca.crt");

    const int rc = sources_fresh(config, monotonic_now_ms(), err);
    if (rc < 0)
        return err_wrap(err, "in-cluster credentials");
    CLEANUP(xfreep) char *file = in_folder(folder, "namespace");
    char *namespace = NULL;
    size_t len = 0;
    struct err none; /* ignored: the file is optional */
    if (file_read(file, SECRET_BYTES_MAX, &namespace, &len, &none) == 0) {
        (void)kube_auth_trimmed(namespace, len);
        xfree(config->namespace);
        config->namespace = namespace;
    }
    *out = STEAL(config);
    return 0;
}

int kube_config_load(const char *kubeconfig, const char *context, struct kube_config **out,
                     struct err *err)
{
    char *text = NULL;
    size_t len = 0;

    if (kubeconfig == NULL) {
        /* NOLINTBEGIN(concurrency-mt-unsafe): nothing here ever sets the environment */
        const char *host = getenv("KUBERNETES_SERVICE_HOST");
        const char *port = getenv("KUBERNETES_SERVICE_PORT");
        /* NOLINTEND(concurrency-mt-unsafe) */
        return kube_config_in_cluster(pod_folder, host, port, out, err);
    }
    must(kubeconfig[0] != '\0');
    const int rc = file_read(kubeconfig, CONFIG_BYTES_MAX, &text, &len, err);
    if (rc < 0)
        return rc;
    CLEANUP(kube_config_freep) struct kube_config *config = NULL;
    const int parsed =
        kube_config_parse((struct text){text, len}, kubeconfig, context, &config, err);
    xfree(text);
    if (parsed < 0)
        return parsed;
    /* Report a missing file now, not at the first request. */
    if (sources_fresh(config, monotonic_now_ms(), err) < 0)
        return err_wrap(err, "%s", kubeconfig);
    *out = STEAL(config);
    return 0;
}

int kube_config_plain(const char *server, const char *ca_file, struct kube_config **out,
                      struct err *err)
{
    const size_t len = strlen(server);
    const bool secure = strncmp(server, "https://", 8) == 0;

    if ((!secure && strncmp(server, "http://", 7) != 0) || strcspn(server, " \t\r\n?#") != len)
        return err_set(err, ERR_INVALID, "\"%.200s\" is no address: write https://NAME:PORT",
                       server);
    struct kube_config *config = kube_config_new();
    config->server = xstrdup(server);
    if (config->server[len - 1] == '/')
        config->server[len - 1] = '\0';
    if (ca_file[0] != '\0')
        config->ca.file = xstrdup(ca_file);
    *out = config;
    return 0;
}
