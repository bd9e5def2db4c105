/*
 * Creates and frees a kube_config, and clears its secrets. Called by the loaders (kube_auth.c,
 * kube_config.c) and by the owner of a config.
 */
#include "config.h"

#include <string.h>

#include "milligpu/base/alloc.h"

struct kube_config *kube_config_new(void)
{
    struct kube_config *config = xcalloc(1, sizeof *config);
    mutex_init(&config->lock);
    config->namespace = xstrdup("");
    return config;
}

/* Clears tokens and private keys, so that they do not stay in freed memory. */
static void source_done(struct source *source)
{
    xfree(source->file);
    if (source->data != NULL)
        explicit_bzero(source->data, source->len);
    xfree(source->data);
}

/* Call it after every kube_ops that uses config is freed. */
void kube_config_free(struct kube_config *config)
{
    if (config == NULL)
        return;
    source_done(&config->ca);
    source_done(&config->cert);
    source_done(&config->key);
    source_done(&config->token);
    xfree(config->server);
    xfree(config->namespace);
    xfree(config->proxy);
    xfree(config->tls_name);
    xfree(config->username);
    xfree(config->password);
    mutex_done(&config->lock);
    xfree(config);
}

const char *kube_config_namespace(const struct kube_config *config)
{
    must(config->namespace != NULL);
    return config->namespace;
}

const char *kube_config_server(const struct kube_config *config)
{
    must(config->server != NULL);
    return config->server;
}
