/*
 * Reads a cluster file for the command simulate: nodes with GPUs, CPU and memory, and bound pods.
 * Called by simulate.c and check_policy.c. The file goes through the fake API server of milligpud
 * --standalone and the decoders of milligpud, so that all of them read it in the same way. Parts
 * that simulate does not consider are reported once.
 */
#include <inttypes.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/reason.h"
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/document/document.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "lab/cluster/amounts.h"
#include "simulate.h"

/* Default rules for agents' pods, since a file does not contain milligpud's settings. */
static const struct wire_rules cluster_rules = {
    .resource = SIMULATE_RESOURCE,
    .whole_resource = SIMULATE_WHOLE_RESOURCE,
    .agents = {.namespace = "milligpu-node",
               .key = TEXT("app.kubernetes.io/component"),
               .value = TEXT("node")},
};

static const struct agents_rules cluster_agents = {.key = TEXT("nvidia.com/gpu.present"),
                                                   .value = TEXT("true")};

/* Amounts of a node and of its pods; -1 if not in the file, which means no limit. */
struct cluster_room {
    int64_t cpu_milli;
    int64_t memory_bytes;
    int64_t cpu_used;
    int64_t memory_used;
};

/* A warning that is printed once, with its first object. */
struct cluster_note {
    const char *first;
    uint32_t count;
};

struct cluster {
    struct world *world;
    const char *file;
    struct fake_apiserver *fake;
    struct arena arena; /* for the present object */
    size_t room_capacity;
    struct cluster_room *room; /* for each node of the world */
    struct map room_by_name;   /* index + 1 of a node, by name */
    struct agents *agents;
    uint32_t agent_pods;
    struct cluster_note tainted;
    struct cluster_note unusable;
    const char *unusable_why;
    struct cluster_note waiting; /* pods that are not bound */
    struct cluster_note astray;
};

static void cluster_note(struct cluster *cluster, struct cluster_note *note, const char *namespace,
                         const char *name)
{
    must(name[0] != '\0');
    if (note->count++ == 0)
        note->first = arena_printf(&cluster->world->arena, "%s%s%s", namespace,
                                   namespace[0] != '\0' ? "/" : "", name);
}

static void cluster_say(const struct cluster_note *note, const char *kind, FILE *out)
{
    must(note->count > 0);
    (void)fprintf(out, "%s %s", kind, note->first);
    if (note->count > 1)
        (void)fprintf(out, " and %" PRIu32 " more", note->count - 1);
}

/* --- nodes --- */

static int64_t cluster_amount(const struct amount *list, const char *resource)
{
    const struct amount *found = amounts_find(list, resource);
    must(found == NULL || found->value >= 0);
    return found != NULL ? found->value : -1;
}

static int cluster_read_room(struct cluster *cluster, struct text bytes, struct cluster_room *out,
                             struct err *err)
{
    struct amount *allocatable = NULL;
    struct document *node;

    must(bytes.len > 0);
    if (document_parse_json(bytes, "node", &cluster->arena, &node, err) < 0)
        return err_same(err);
    const char *name = document_shown(node, "metadata.name");
    if (amounts_read(&cluster->arena, document_at(node, "status.allocatable"), "status.allocatable",
                     &allocatable, err) < 0)
        return err_wrap(err, "%.200s: Node %.253s", cluster->file, name);
    *out = (struct cluster_room){.cpu_milli = cluster_amount(allocatable, "cpu"),
                                 .memory_bytes = cluster_amount(allocatable, "memory")};
    const struct document *taints = document_at(node, "spec.taints");
    if (document_true(node, "spec.unschedulable") || (taints != NULL && taints->count > 0))
        cluster_note(cluster, &cluster->tainted, "", name);
    return 0;
}

static int cluster_add_node(void *user, struct text bytes, struct err *err)
{
    struct cluster *cluster = user;
    struct world *world = cluster->world;
    struct cluster_room room;
    struct node_facts facts;

    arena_reset(&cluster->arena);
    if (world->n_nodes == NODES_MAX)
        return err_set(err, ERR_TOO_LARGE, "%.200s: more than %d nodes", cluster->file, NODES_MAX);
    /* The facts live as long as the world, because the inventory borrows from them. */
    if (node_decode(bytes, &cluster_rules, &world->arena, &facts, err) < 0)
        return err_wrap(err, "%.200s", cluster->file);
    if (cluster_read_room(cluster, bytes, &room, err) < 0)
        return err_same(err);
    cluster->room =
        xgrow(cluster->room, world->n_nodes, &cluster->room_capacity, sizeof *cluster->room);
    cluster->room[world->n_nodes] = room;
    (void)agents_see_node(cluster->agents, &facts);
    const struct world_node *node = world_take_node(world, &facts);
    (void)map_put(&cluster->room_by_name, text_of(node->name),
                  (void *)(uintptr_t)world->n_nodes); /* names are unique in the API server */
    if (node->inventory->problem != PROBLEM_NONE) {
        cluster_note(cluster, &cluster->unusable, "", node->name);
        if (cluster->unusable_why == NULL)
            cluster->unusable_why = node->inventory->problem_text;
    } else if (node->inventory->plugin.state == PLUGIN_DOWN) {
        cluster_note(cluster, &cluster->unusable, "", node->name);
        if (cluster->unusable_why == NULL)
            cluster->unusable_why = reason_help(REASON_PLUGIN);
    }
    return 0;
}

/*
 * Judges the agent of a node. If the file has no agents' pods (a file of one namespace), only Node
 * objects count.
 */
static void cluster_judge_agent(struct cluster *cluster, struct world_node *node)
{
    const enum vouch vouch = agents_check(cluster->agents, text_of(node->name));

    must(node->vouch == VOUCH_NONE);
    if (cluster->agent_pods == 0 && vouch != VOUCH_LEAVING)
        return;
    node->vouch = vouch;
    if (!vouch_closes(vouch) || node->inventory->n_gpus == 0)
        return;
    cluster_note(cluster, &cluster->unusable, "", node->name);
    if (cluster->unusable_why == NULL)
        cluster->unusable_why = vouch_help(vouch);
}

/* Sets CPU and memory in whole MiB, up to SIMULATE_AMOUNT_MAX. */
static void cluster_set_host(struct world_node *node, const struct cluster_room *room)
{
    const int64_t cpu = room->cpu_milli - room->cpu_used;
    const int64_t memory = (room->memory_bytes - room->memory_used) / 1048576;

    must(room->cpu_used >= 0 && room->memory_used >= 0);
    node->host.cpu_milli = cpu > 0 ? (uint32_t)cpu : 0;
    node->host.memory_mib = memory > 0 ? (uint32_t)memory : 0;
    if (room->cpu_milli < 0 || cpu > SIMULATE_AMOUNT_MAX)
        node->host.cpu_milli = SIMULATE_AMOUNT_MAX;
    if (room->memory_bytes < 0 || memory > SIMULATE_AMOUNT_MAX)
        node->host.memory_mib = SIMULATE_AMOUNT_MAX;
}

/* --- pods --- */

/* Adds with saturation, at more than any node has. */
static void cluster_use(int64_t *used, int64_t more)
{
    must(*used >= 0);
    if (more > 0)
        *used = more > INT64_MAX - *used ? INT64_MAX : *used + more;
}

static void cluster_hold(struct cluster *cluster, const struct pod *pod)
{
    struct world *world = cluster->world;
    const uintptr_t at = (uintptr_t)map_find(&cluster->room_by_name, text_of(pod->node));

    if (at == 0) {
        cluster_note(cluster, &cluster->astray, pod->namespace, pod->name);
        return;
    }
    must(at <= world->n_nodes);
    cluster_use(&cluster->room[at - 1].cpu_used, pod->cpu_milli);
    cluster_use(&cluster->room[at - 1].memory_used, pod->memory_bytes);
    if (!pod->ours && pod->whole_gpus == 0)
        return;
    world->held = xgrow(world->held, world->n_held, &world->held_capacity, sizeof(struct pod *));
    world->held[world->n_held++] = pod_keep(pod, &world->arena);
}

static int cluster_add_pod(void *user, struct text bytes, struct err *err)
{
    struct cluster *cluster = user;
    struct pod pod;

    arena_reset(&cluster->arena);
    if (pod_decode(bytes, &cluster_rules, &cluster->arena, &pod, err) < 0)
        return err_wrap(err, "%.200s", cluster->file);
    must(pod.name[0] != '\0');
    if (pod_ended(&pod))
        return 0;
    if (pod.node[0] != '\0' && pod.is_agent) {
        (void)agents_see_pod(cluster->agents, &pod);
        cluster->agent_pods++;
    }
    if (pod.node[0] != '\0')
        cluster_hold(cluster, &pod);
    else
        cluster_note(cluster, &cluster->waiting, pod.namespace, pod.name);
    return 0;
}

static int cluster_by_order(const void *a, const void *b, void *ledger)
{
    const struct pod *const *left = a;
    const struct pod *const *right = b;

    must(ledger != NULL);
    return reconcile_order(ledger, *left, *right);
}

/* Renames the pod in a Node's record of a held GPU, which contains its uid (hold_kind()). */
static void cluster_rename_holder(struct world *world, const struct pod *pod, struct gpu_facts *gpu,
                                  const char *uid)
{
    enum hold_kind kind;
    struct text holder;

    must(uid[0] != '\0');
    if (gpu->held == NULL || !hold_kind(gpu->held, &kind, &holder) || !text_is(holder, pod->uid))
        return;
    gpu->held = arena_printf(&world->arena, "%s:%s", kind == HOLD_VARIABLE ? "env" : "pod", uid);
}

/* Gives a bound pod a new uid, distinct from the generated uids of arriving pods. */
static void cluster_rename(struct cluster *cluster, struct pod *pod, uint32_t serial)
{
    struct world *world = cluster->world;
    const char *uid = arena_printf(&world->arena, "held-%" PRIu32, serial);
    const uintptr_t at = (uintptr_t)map_find(&cluster->room_by_name, text_of(pod->node));

    must(at > 0 && at <= world->n_nodes);
    const struct inventory *inventory = world->node[at - 1].inventory;
    for (uint32_t i = 0; i < inventory->n_gpus; i++)
        cluster_rename_holder(world, pod, &inventory->gpu[i], uid);
    pod->uid = uid;
}

/* Sorts bound pods as the writer does with a first list. */
static void cluster_order(struct cluster *cluster)
{
    struct world *world = cluster->world;
    struct ledger *ledger = ledger_new();

    if (world->n_held > 0)
        qsort_r(world->held, world->n_held, sizeof(struct pod *), cluster_by_order, ledger);
    ledger_free(ledger);
    for (uint32_t i = 0; i < world->n_held; i++)
        cluster_rename(cluster, world->held[i], i);
}

/* --- the file --- */

typedef int cluster_item(void *user, struct text bytes, struct err *err);

/* Lists page by page, because an answer is a copy. */
static int cluster_list(struct cluster *cluster, const char *path, cluster_item *item,
                        struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf body;
    CLEANUP(arena_done) struct arena arena;
    struct list_page page = {.continue_token = ""};

    strbuf_init(&body);
    arena_init(&arena);
    do {
        char query[256];
        (void)snprintf(query, sizeof query, "%s?limit=500&continue=%s", path, page.continue_token);
        strbuf_reset(&body);
        const int status =
            fake_apiserver_request(cluster->fake, "GET", query, (struct text){0}, &body);
        must(status == 200);
        arena_reset(&arena);
        const struct text bytes = {body.data, body.len};
        if (list_decode(bytes, &arena, cluster, item, &page, err) < 0)
            return err_same(err);
    } while (page.continue_token[0] != '\0');
    return 0;
}

static void cluster_report(const struct cluster *cluster, FILE *out)
{
    must(cluster->world->n_nodes > 0);
    if (cluster->tainted.count > 0) {
        (void)fputs("not considered: taints and spec.unschedulable of nodes (", out);
        cluster_say(&cluster->tainted, "Node", out);
        (void)fputs(")\n", out);
    }
    if (cluster->unusable.count > 0) {
        (void)fputs("GPUs that cannot be used: ", out);
        cluster_say(&cluster->unusable, "Node", out);
        (void)fprintf(out, " (%s)\n", cluster->unusable_why);
    }
    if (cluster->waiting.count > 0) {
        (void)fputs("left out: ", out);
        cluster_say(&cluster->waiting, "Pod", out);
        (void)fputs(" (bound to no node)\n", out);
    }
    if (cluster->astray.count > 0) {
        (void)fputs("left out: ", out);
        cluster_say(&cluster->astray, "Pod", out);
        (void)fputs(" (bound to a node that is not in the file)\n", out);
    }
}

static int cluster_check(const struct cluster *cluster, struct err *err)
{
    const struct world *world = cluster->world;

    if (world->n_nodes == 0)
        return err_set(err, ERR_INVALID,
                       "%.200s: contains no Node: write what `kubectl get nodes,pods -A -o json` "
                       "prints",
                       cluster->file);
    if (world->gpu_milli > 0)
        return 0;
    if (cluster->unusable.count > 0)
        return err_set(err, ERR_INVALID,
                       "%.200s: no node has a GPU that can be used; Node %.100s: %.160s",
                       cluster->file, cluster->unusable.first, cluster->unusable_why);
    return err_set(err, ERR_INVALID,
                   "%.200s: no node has a GPU: annotation milligpu.io/gpus, label "
                   "nvidia.com/gpu.count or status.allocatable of " SIMULATE_RESOURCE
                   " says how many a node has",
                   cluster->file);
}

static int cluster_read(struct cluster *cluster, FILE *warnings, struct err *err)
{
    struct world *world = cluster->world;

    if (fake_apiserver_load(cluster->fake, cluster->file, err) < 0 ||
        cluster_list(cluster, "/api/v1/nodes", cluster_add_node, err) < 0 ||
        cluster_list(cluster, "/api/v1/pods", cluster_add_pod, err) < 0)
        return err_same(err);
    for (uint32_t i = 0; i < world->n_nodes; i++) {
        cluster_set_host(&world->node[i], &cluster->room[i]);
        cluster_judge_agent(cluster, &world->node[i]);
    }
    if (cluster_check(cluster, err) < 0)
        return err_same(err);
    must(world->n_gpus > 0);
    cluster_order(cluster);
    if (warnings != NULL)
        cluster_report(cluster, warnings);
    return 0;
}

int world_read_cluster(struct world *world, const char *file, FILE *warnings, struct err *err)
{
    struct cluster cluster = {.world = world, .file = file};

    must(world->n_nodes == 0);
    world->is_cluster = true;
    cluster.fake = fake_apiserver_new("simulate");
    arena_init(&cluster.arena);
    map_init(&cluster.room_by_name);
    cluster.agents = agents_new(&cluster_agents);
    const int status = cluster_read(&cluster, warnings, err);
    fake_apiserver_free(cluster.fake);
    arena_done(&cluster.arena);
    map_done(&cluster.room_by_name);
    agents_free(cluster.agents);
    xfree(cluster.room);
    return status;
}
