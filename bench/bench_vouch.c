/*
 * bench_vouch - what the writer's thread pays when the agents of all nodes come, go and return.
 *
 * The writer with the real store on a file; nodes whose GPUs their agents name, and a pod of an
 * agent on each. Messages come in batches, as from a watch that is behind. A figure is the CPU time
 * from the first message until nothing is left to do: deciding, publishing, and looking for drift.
 * As a reference from the same run, as many pods that ask for nothing change.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/spine/message.h"
#include "milligpu/store/store.h"
#include "milligpu/writer/writer.h"

#include "cluster.h"
#include "measure.h"
#include "standstill.h"
#include "webhook_fixture.h"

enum {
    BATCH_OF = 128,
    LOOK_MS = 2000,
    STEPS_MAX = 100000,
};

struct scene {
    struct webhook_fixture fixture;
    struct store *store;
    struct kube_ops nowhere;
    uint32_t nodes;
};

static uint64_t version;

static void scene_start(struct scene *scene, const char *folder, uint32_t nodes)
{
    char path[4096];
    struct err err;

    *scene = (struct scene){.nodes = nodes};
    standstill_ms = 1000;
    must((size_t)snprintf(path, sizeof path, "%s/vouch-%u.db", folder, nodes) < sizeof path);
    scene->store = cluster_store(path, false);
    scene->nowhere = standstill_server();
    const struct app_edges edges = {.clock = standstill_clock(),
                                    .store = scene->store,
                                    .watch = &scene->nowhere,
                                    .calls = &scene->nowhere};
    webhook_fixture_init(&scene->fixture, &edges);
    scene->fixture.settings.events = false;
    must(writer_load(scene->fixture.parts.writer, &err) == 0);
    must(queue_put(scene->fixture.app.queue, message_new(MESSAGE_NODES_BEGIN)));
    (void)writer_step(scene->fixture.parts.writer, 0);
}

static void scene_stop(struct scene *scene)
{
    webhook_fixture_done(&scene->fixture);
    store_close(scene->store);
}

/* "agent-7", for the pod's name and its uid. */
static const char *numbered(struct message *message, const char *word, uint32_t number)
{
    return arena_printf(&message->arena, "%s-%u", word, number);
}

/* A Node with its agent's claim, or the pod of that agent. */
static struct message *vouch_node(uint32_t number)
{
    struct message *message = message_new(MESSAGE_NODE);
    struct strbuf json;
    struct err err;

    strbuf_init(&json);
    cluster_node_json(&json, number);
    const struct text kept = {arena_copy(&message->arena, (struct text){json.data, json.len}),
                              json.len};
    must(node_decode(kept, &cluster_wire, &message->arena, &message->node, &err) == 0);
    message->node.agent = true;
    message->node.claim.pod = numbered(message, "agent", number);
    message->node.claim.node = message->node.uid;
    strbuf_done(&json);
    return message;
}

static struct message *small_pod(uint32_t number, bool agent, bool ready)
{
    char node[NODE_NAME_BYTES];
    struct message *message = message_new(MESSAGE_POD);

    cluster_node_name(number, node);
    message->pod = (struct pod){
        .uid = numbered(message, agent ? "agent" : "plain", number),
        .namespace = "milligpu-node",
        .name = numbered(message, agent ? "agent" : "plain", number),
        .resource_version = arena_printf(&message->arena, "%llu", (unsigned long long)++version),
        .node = arena_copy(&message->arena, text_of(node)),
        .phase = POD_RUNNING,
        .is_agent = agent,
        .is_ready = ready,
        .cpu_milli = 10,
        .signature = "",
        .note_text = "",
        .note_error = ""};
    return message;
}

enum round { NODES_COME, PODS_COME, PODS_READY, PODS_UNREADY, OTHERS_COME, OTHERS_CHANGE };

static struct message *message_of(enum round round, uint32_t number)
{
    switch (round) {
    case NODES_COME:
        return vouch_node(number);
    case PODS_COME:
    case PODS_UNREADY:
        return small_pod(number, true, false);
    case PODS_READY:
        return small_pod(number, true, true);
    case OTHERS_COME:
    case OTHERS_CHANGE:
        return small_pod(number, false, true);
    }
    must_not_reach("every round is listed");
}

static int64_t vouch_step(struct scene *scene)
{
    const int64_t before = cpu_ns();
    (void)writer_step(scene->fixture.parts.writer, 0);
    return cpu_ns() - before;
}

static void vouch_round(struct scene *scene, enum round round, const char *name)
{
    char line[96];
    int64_t spent = 0;
    uint32_t quiet = 0;

    for (uint32_t i = 0; i < scene->nodes; i++) {
        must(queue_put(scene->fixture.app.queue, message_of(round, i)));
        if (i % BATCH_OF == BATCH_OF - 1 || i + 1 == scene->nodes)
            spent += vouch_step(scene);
    }
    standstill_ms += LOOK_MS; /* drift is looked for now */
    for (uint32_t i = 0; quiet < 3 && i < STEPS_MAX; i++) {
        const int64_t cost = vouch_step(scene);
        quiet = cost < 200000 ? quiet + 1 : 0;
        spent += cost;
    }
    (void)snprintf(line, sizeof line, "vouch.%u_nodes.%s", scene->nodes, name);
    say(line, (double)spent / 1e6, "ms");
}

static uint32_t n_vouched(struct scene *scene)
{
    const struct snapshot *snapshot = view_take(scene->fixture.app.view);
    const struct node *node;
    uint32_t count = 0;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        count += node->vouch == VOUCH_GOOD;
    snapshot_unref(snapshot);
    return count;
}

static void vouch_size(const struct options *options, uint32_t nodes)
{
    char folder[4096];
    struct scene scene;

    folder_make(options->folder, folder, sizeof folder);
    scene_start(&scene, folder, nodes);
    vouch_round(&scene, NODES_COME, "nodes_come");
    vouch_round(&scene, PODS_COME, "agents_come");
    must(n_vouched(&scene) == 0);
    vouch_round(&scene, PODS_READY, "all_ready");
    must(n_vouched(&scene) == nodes);
    vouch_round(&scene, PODS_UNREADY, "all_unready");
    vouch_round(&scene, PODS_READY, "all_ready_again");
    must(n_vouched(&scene) == nodes);
    vouch_round(&scene, OTHERS_COME, "reference.other_pods_come");
    vouch_round(&scene, OTHERS_CHANGE, "reference.other_pods_change");
    scene_stop(&scene);
    folder_drop(folder);
}

int main(int argc, char **argv)
{
    struct options options;

    if (!options_read(argc, argv, &options))
        return 2;
    vouch_size(&options, 1000);
    if (!options.quick)
        vouch_size(&options, 15000);
    return 0;
}
