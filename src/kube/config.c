#include "kube/config.h"

#include <string.h>

#include "milligpu/alloc.h"

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

static void exec_free(struct exec_plugin *exec)
{
    must(exec->args <= EXEC_ARGS_MAX && exec->envs <= EXEC_ARGS_MAX);
    xfree(exec->command);
    xfree(exec->folder);
    xfree(exec->api_version);
    xfree(exec->info);
    xfree(exec->hint);
    for (uint32_t i = 0; i < exec->args; i++)
        xfree(exec->arg[i]);
    for (uint32_t i = 0; i < exec->envs; i++)
        xfree(exec->env[i]);
}

/*
 * Every kube_ops that uses config is freed before. A plugin that still runs is killed: its thread
 * looks at stop every tenth of a second, so the join is short.
 */
void kube_config_free(struct kube_config *config)
{
    if (config == NULL)
        return;
    atomic_store(&config->exec.stop, true);
    if (config->thread_made)
        (void)pthread_join(config->thread, NULL); /* ends soon, because stop is set */
    must(!config->running);
    source_done(&config->ca);
    source_done(&config->cert);
    source_done(&config->key);
    source_done(&config->token);
    kube_exec_answer_done(&config->answer);
    exec_free(&config->exec);
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

bool kube_config_executes(const struct kube_config *config)
{
    return config->exec.command != NULL;
}
