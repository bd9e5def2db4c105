/*
 * Updates which nodes take new shares, by the agents (agents.h) that the watch shows. Called by
 * writer_nodes.c and writer_pods.c in the batch with the event, so that binds of later batches use
 * it. After a lost batch the events are handled again.
 *
 * Memories of agents are stored between two batches, some at a time. After a kill the Nodes show
 * any that were not stored yet.
 */
#include <string.h>

#include "milligpu/run/log.h"
#include "milligpu/sync/pod_cache.h"

#include "writer/writer_internal.h"

enum {
    STORED_AT_ONCE = 512,
    STORE_AGAIN_MS = 60 * 1000, /* after a failure */
};

void writer_load_agents(struct writer *writer)
{
    struct err err;

    must(agents_count(writer->vouching.agents) == 0);
    /* After an error all agents count as seen. */
    if (store_agents(writer->app->store, writer->vouching.agents, &err) < 0)
        log_write(
            LOG_WARN,
            "which agents were seen is not known: every node of agent_nodes waits for its agent",
            log_str("error", err.text));
    writer->vouching.agents_stored = agents_seen(writer->vouching.agents);
}

static bool check_agent(struct writer *writer, const struct node *node)
{
    const struct command command = {
        .kind = COMMAND_NODE,
        .at_ms = writer->wall_ms,
        .node = node->name->text,
        .has_vouch = true,
        .vouch = agents_check(writer->vouching.agents, atom_text(node->name))};

    must(!writer->batch.lost);
    /* A node that is gone waits until its Node is shown, which evaluates the agent's pods, too. */
    if (node->gone || node->vouch == command.vouch)
        return true;
    return writer_run(writer, &command);
}

static bool check_agent_of(struct writer *writer, const char *name)
{
    const struct node *node = ledger_node(writer->ledger, text_of(name));

    must(name[0] != '\0');
    return node == NULL || check_agent(writer, node);
}

bool writer_check_agents(struct writer *writer)
{
    const struct node *node;
    bool whole = true;

    /* Commands replace nodes in place, so the loop stays valid. */
    for (size_t at = 0; whole && (node = ledger_next_node(writer->ledger, &at)) != NULL;)
        whole = check_agent(writer, node);
    return whole;
}

bool writer_check_unsure_agents(struct writer *writer)
{
    must(!writer->batch.lost);
    writer->vouching.agents_unsure = writer->vouching.agents_unsure && !writer_check_agents(writer);
    return !writer->vouching.agents_unsure;
}

bool writer_see_agent(struct writer *writer, const struct pod *pod)
{
    must(!pod_ended(pod));
    if (pod->node[0] == '\0')
        return true;
    if (!pod->is_agent)
        return writer_agent_gone(writer, pod->node, pod->uid);
    if (agents_see_pod(writer->vouching.agents, pod) && !writer_check_agents(writer))
        return false;
    return check_agent_of(writer, pod->node);
}

bool writer_agent_gone(struct writer *writer, const char *node, const char *uid)
{
    return !agents_pod_gone(writer->vouching.agents, text_of(node), text_of(uid)) ||
           check_agent_of(writer, node);
}

void writer_store_agents(struct writer *writer)
{
    const struct store_ops *ops = &writer->app->store_ops;
    struct agent_memory memory;
    size_t count = 0;
    size_t at = 0;
    struct err err;

    must(!writer->batch.open);
    if (!agents_next_changed(writer->vouching.agents, &at, &memory) &&
        writer->vouching.agents_stored == agents_seen(writer->vouching.agents))
        return;
    if (!atomic_load(&writer->app->watch.pods_synced) ||
        atomic_load(&writer->app->health.safe_mode) || !atomic_load(&writer->app->identified) ||
        writer_now_ms(writer) < writer->vouching.store_agents_ms)
        return;
    if (ops->remember(ops->ctx, writer->vouching.agents, STORED_AT_ONCE, &count, &err) < 0) {
        log_write(LOG_WARN, "which agents were seen could not be stored",
                  log_str("error", err.text));
        writer->vouching.store_agents_ms = writer_now_ms(writer) + STORE_AGAIN_MS;
        return;
    }
    agents_stored(writer->vouching.agents, count);
    writer->vouching.agents_stored = agents_seen(writer->vouching.agents);
}
