/*
 * The nodes that play schedules onto. Called by play.c. Both lists are read and freed page by page:
 * of 100,000 pods only the sums are kept.
 */
#include "play_nodes.h"

#include <string.h>

#include "milligpu/base/alloc.h"

void play_nodes_init(struct play_nodes *nodes, struct arena *arena)
{
    must(arena != NULL);
    *nodes = (struct play_nodes){.arena = arena};
    map_init(&nodes->by_name);
}

void play_nodes_done(struct play_nodes *nodes)
{
    must(nodes->arena != NULL);
    xfree(nodes->node);
    map_done(&nodes->by_name);
}

int play_nodes_add(struct play_nodes *nodes, const struct document *node, struct err *err)
{
    struct fit_node *read = arena_alloc(nodes->arena, sizeof *read);

    if (fit_node_read(nodes->arena, node, read, err) < 0)
        return err_wrap(err, "Node %.253s", document_shown(node, "metadata.name"));
    must(read->name[0] != '\0');
    nodes->node = xgrow(nodes->node, nodes->count, &nodes->capacity, sizeof *nodes->node);
    nodes->node[nodes->count++] = read;
    (void)map_put(&nodes->by_name, text_of(read->name), read); /* names are distinct */
    return 0;
}

/* Ignores pods that have ended, and pods of unknown nodes. */
int play_nodes_run(struct play_nodes *nodes, const struct document *pod, struct err *err)
{
    const char *phase = document_str(pod, "status.phase");
    struct fit_node *node = map_find(&nodes->by_name, text_of(document_str(pod, "spec.nodeName")));
    struct amount *requests;
    struct arena arena;

    must(phase != NULL);
    if (node == NULL || strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)
        return 0;
    arena_init(&arena);
    const int status = amounts_requested(&arena, pod, &requests, err);
    if (status == 0)
        fit_node_take(nodes->arena, node, requests);
    else
        (void)err_wrap(err, "Pod %.253s/%.253s", document_shown(pod, "metadata.namespace"),
                       document_shown(pod, "metadata.name"));
    arena_done(&arena);
    return status;
}

/* --- reading --- */

static int fetch_node(void *user, const struct document *node, struct err *err)
{
    return play_nodes_add(user, node, err);
}

static int fetch_pod(void *user, const struct document *pod, struct err *err)
{
    return play_nodes_run(user, pod, err);
}

int play_nodes_fetch(struct play_nodes *nodes, struct client *client, const char *base,
                     struct err *err)
{
    const struct client_each all = {"/api/v1/standalone/nodes", nodes, fetch_node};
    const struct client_each running = {"/api/v1/standalone/pods", nodes, fetch_pod};

    must(nodes->count == 0);
    if (client_each(client, base, &all, err) < 0 || client_each(client, base, &running, err) < 0)
        return err_same(err);
    return nodes->count > 0 ? 0
                            : err_set(err, ERR_NOT_FOUND,
                                      "the cluster has no node: there is nothing to play on");
}

/* --- asking --- */

struct document *play_nodes_feasible(const struct play_nodes *nodes, const struct fit_pod *pod,
                                     const char *managed, struct node_reasons *reasons)
{
    CLEANUP(strbuf_done) struct strbuf why;
    struct document *names = document_new(reasons->arena, DOCUMENT_ARRAY);

    strbuf_init(&why);
    for (size_t i = 0; i < nodes->count; i++) {
        if (fit_check(pod, nodes->node[i], managed, &why))
            document_append(names, document_new_str(reasons->arena, text_of(nodes->node[i]->name)));
        else
            reasons_add(reasons, why.data, true, 1);
    }
    must(names->count + reasons->nodes == nodes->count);
    return names;
}

/* As in the DaemonSet controller, which ignores room. */
size_t play_nodes_matching(const struct play_nodes *nodes, const struct fit_pod *pod,
                           struct arena *arena, const char *const **out)
{
    CLEANUP(strbuf_done) struct strbuf why;
    const char **name = arena_array(arena, nodes->count + 1, sizeof *name);
    struct fit_pod small = *pod;
    size_t count = 0;

    strbuf_init(&why);
    small.requests = NULL;
    for (size_t i = 0; i < nodes->count; i++) {
        const struct fit_node bare = {.name = nodes->node[i]->name,
                                      .labels = nodes->node[i]->labels,
                                      .taints = nodes->node[i]->taints};
        if (fit_check(&small, &bare, "none", &why))
            name[count++] = bare.name;
    }
    must(count <= nodes->count);
    *out = name;
    return count;
}

bool play_nodes_avoided(const struct play_nodes *nodes, const struct fit_pod *pod)
{
    must(pod != NULL);
    for (size_t i = 0; i < nodes->count; i++)
        if (fit_avoids(pod, nodes->node[i]))
            return true;
    return false;
}

void play_nodes_take(struct play_nodes *nodes, const char *name, const struct fit_pod *pod)
{
    struct fit_node *node = map_find(&nodes->by_name, text_of(name));

    must(node != NULL);
    fit_node_take(nodes->arena, node, pod->requests);
}
